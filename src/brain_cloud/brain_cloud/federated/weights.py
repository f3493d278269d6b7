# SPDX-License-Identifier: Apache-2.0
"""Weights as they travel and lie on a disk: safetensors, read without torch, and checked before anything is computed.

Who sends weights is hostile until it is shown otherwise: a number that is not finite would be in every robot after one
mean, and a tensor of another shape would be broadcast over the others.
"""
from __future__ import annotations

import hashlib
import json
from typing import Any, Mapping

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from brain_runtime.contract import git_lfs
from brain_wire.safe_text import quoted

Weights = dict[str, np.ndarray]
LARGEST = 256 * 2**20   # bytes of all weights of a network
HEADER = 2**20          # bytes of a header that says what tensors there are
OWN_HEADER = 96 * 10**6      # bytes of the header of a file of our own; safetensors itself reads 100 MB
ABOUT = "about"


class WeightsProblem(ValueError):
    """Weights cannot be taken; says which tensor, and what is wrong with it, in one line."""


def pack(weights: Mapping[str, np.ndarray], about: Mapping[str, Any] | None = None) -> bytes:
    """Weights as bytes, the same for the same weights.

    Args:
        weights: arrays by name.
        about: plain values that are kept beside them; not for what travels.
    """
    arrays = {name: np.ascontiguousarray(weights[name]) for name in sorted(weights)}
    return save(arrays, None if about is None else {ABOUT: json.dumps(about, sort_keys=True)})


def unpack(data: bytes, own: bool = False) -> Weights:
    """Weights from bytes.

    Args:
        own: they were written here, so they may be as large as what is kept beside them makes them.

    Raises:
        WeightsProblem: they are no safetensors of plain numbers.
    """
    if len(data) > LARGEST + HEADER and not own:
        raise WeightsProblem(f"they have {len(data)} bytes, and at most {LARGEST} are taken")
    if git_lfs.is_pointer(data):
        raise WeightsProblem(git_lfs.ADVICE)
    if len(data) < 8 or int.from_bytes(data[:8], "little") > (OWN_HEADER if own else HEADER):
        raise WeightsProblem("they are no safetensors")
    try:
        return load(data)
    except KeyError as error:       # bfloat16 and numbers of 8 bits
        raise WeightsProblem(f"they hold {quoted(str(error.args[0])[:80])}, which numpy has not; write them as float32"
                             ) from None
    except (SafetensorError, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise WeightsProblem(f"they are no safetensors that can be read ({quoted(str(error)[:80])})") from None


def about(data: bytes) -> dict[str, Any]:
    """Reads what :func:`pack` was told to keep beside weights, from bytes that :func:`unpack` takes.

    Raises:
        WeightsProblem: there is nothing of that kind.
    """
    try:
        found = json.loads(json.loads(data[8:8 + int.from_bytes(data[:8], "little")])["__metadata__"][ABOUT])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise WeightsProblem("they do not say what they are") from None
    if not isinstance(found, dict):
        raise WeightsProblem("they do not say what they are")
    return found


def digest(data: bytes) -> str:
    """Names bytes: SHA-256, hex."""
    return hashlib.sha256(data).hexdigest()


def check(weights: Mapping[str, np.ndarray], like: Mapping[str, np.ndarray]) -> None:
    """Raises WeightsProblem where weights are not those of a network: names, shapes, float32, finite numbers."""
    for name in like.keys() - weights.keys():
        raise WeightsProblem(f"the tensor {quoted(name)} is missing; this robot has another version of the network")
    for name in weights.keys() - like.keys():
        raise WeightsProblem(f"the network has no tensor {quoted(name)}; this robot has another version of it")
    for name, wanted in like.items():
        found = weights[name]
        if found.shape != wanted.shape or found.dtype != np.float32:
            raise WeightsProblem(f"{quoted(name)} must be float32 {list(wanted.shape)}, but is {found.dtype} "
                                 f"{list(found.shape)}; this robot has another version of the network")
        if not np.isfinite(found).all():
            raise WeightsProblem(f"{quoted(name)} holds numbers that are not finite")
