# SPDX-License-Identifier: Apache-2.0
"""Weight files: safetensors with metadata that says what they fit, how they were made and how good they are.

A file fits when the network that it was made for means the same (a hash of layers, neurons and units is in it), and
when the code of today computes with its weights what the code of then did: the file holds the answer to one probe. So
an edit that changes no meaning costs no training, and one that does is found out. No torch is needed to read one.
"""
from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from pathlib import Path
from typing import Any, Callable, Mapping, NamedTuple

import numpy as np

from brain_runtime.contract import git_lfs

PROBE = "probe"
KINDS = {"F16": "float16", "F32": "float32"}    # of weights and of the probe's answer, as the file calls them
ALIKE = 0.05
"""Share of its mean size that an answer may be off: another processor rounds otherwise, and a few neurons so fire a
micro-step sooner or later."""


class WeightsError(RuntimeError):
    """A weight file cannot be used; names it and the remedy."""


class Loaded(NamedTuple):
    """Content of a weight file.

    Attributes:
        tensors: weights by name, without the probe's answer.
        training: how it was made (split, seeds, recipe).
        report: held-out figures.
        digest: hash of the file's bytes (hex).
    """

    tensors: dict[str, np.ndarray]
    training: dict[str, Any]
    report: dict[str, Any]
    digest: str


def meaning_hash(meaning: Any) -> str:
    """Hash of what gives weights their meaning: layers, neurons, and the units of input and answer, as plain values."""
    return hashlib.sha256(json.dumps(meaning).encode()).hexdigest()[:16]


def save(path: Path, fits: Mapping[str, str], tensors: Mapping[str, np.ndarray], answer: np.ndarray,
         training: Mapping[str, Any], report: Mapping[str, Any]) -> None:
    """Writes a weight file; it is in place whole or not at all.

    Args:
        path: of the file.
        fits: metadata that a reader must find: format, region, micro-step, input scaling, hash of the meaning.
        tensors: weights by name.
        answer: what the network answers to its probe.
        training, report: see :class:`Loaded`.

    Raises:
        OSError: it cannot be written; names it.
    """
    from safetensors.numpy import save as serialized

    path.parent.mkdir(parents=True, exist_ok=True)
    arrays = {name: np.ascontiguousarray(value) for name, value in tensors.items()}
    temporary = path.with_suffix(".tmp")
    data = _in_order(serialized({**arrays, PROBE: np.ascontiguousarray(answer)}, metadata={
        **fits, "training": json.dumps(training), "held_out": json.dumps(report)}))
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    except OSError as error:        # one of a disk that is full names no file
        with suppress(OSError):
            temporary.unlink()
        raise OSError(error.errno, error.strerror, str(path)) from error


def _in_order(data: bytes) -> bytes:
    """A safetensors file with its metadata in order: the library shuffles them, and the same weights are one file."""
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + size])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)     # what the tensors are aligned by
    return len(text).to_bytes(8, "little") + text + data[8 + size:]


def load(path: Path, fits: Mapping[str, str], probe: Callable[[dict[str, np.ndarray]], np.ndarray],
         remedy: str) -> Loaded:
    """Reads a weight file and checks that it fits.

    Args:
        path: of the file.
        fits: as given to :func:`save`.
        probe: answers to the probe with some weights; a LookupError, TypeError, ValueError or RuntimeError says that
            they do not fit.
        remedy: for a person: how to make a new file.

    Raises:
        WeightsError: the file is missing, torn, holds what are no weights, or was made for a network that computes
            something else.
    """
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise WeightsError(f"the weights of {fits['region']} are missing: {path}; {remedy}")
    if git_lfs.is_pointer(path):
        raise WeightsError(f"weight file {path} cannot be read: {git_lfs.ADVICE}")
    try:
        with safe_open(path, framework="np") as file:
            metadata = file.metadata() or {}
            for name in file.keys():    # first, since numpy has not all kinds
                if (kind := file.get_slice(name).get_dtype()) not in KINDS:
                    raise WeightsError(f"weight file {path} does not fit: {name[:80]!r} is {kind}, but "
                                       f"{' or '.join(KINDS)} ({' or '.join(KINDS.values())}) is needed; {remedy}")
            tensors = {name: file.get_tensor(name) for name in file.keys()}
    except (SafetensorError, OSError) as error:
        raise WeightsError(f"weight file {path} is torn or none ({error}); {remedy}") from error
    for key, value in fits.items():
        if metadata.get(key) != value:
            raise WeightsError(f"weight file {path} does not fit: {key} is {metadata.get(key)!r}, but {value!r} is "
                               f"needed; {remedy}")
    for name, tensor in tensors.items():
        if not np.isfinite(tensor).all():
            raise WeightsError(f"weight file {path} cannot be used: {name[:80]!r} holds numbers that are not finite; "
                               f"{remedy}")
    then = tensors.pop(PROBE, None)
    try:
        now = np.asarray(probe(tensors))
    except (LookupError, TypeError, ValueError, RuntimeError) as error:
        why = " ".join(str(error).split())[:300]    # torch tells of each key in a line of its own
        raise WeightsError(f"weight file {path} does not fit the network ({why}); {remedy}") from error
    if then is None or now.shape != then.shape or not np.abs(now - then).mean() <= ALIKE * np.abs(then).mean():
        raise WeightsError(f"weight file {path} does not fit: this code answers to the file's probe otherwise than "
                           f"the code that it was made with; {remedy}")
    return Loaded(tensors, _told(path, metadata, "training", remedy), _told(path, metadata, "held_out", remedy),
                  hashlib.sha256(path.read_bytes()).hexdigest()[:16])


def report_of(path: Path) -> dict[str, Any]:
    """Reads the held-out figures of a weight file, of whatever network; empty where it does not tell them."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="np") as file:
            found = json.loads((file.metadata() or {}).get("held_out", "{}"))
    except (SafetensorError, OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _told(path: Path, metadata: Mapping[str, str], key: str, remedy: str) -> dict[str, Any]:
    try:
        found = json.loads(metadata[key])
    except (KeyError, ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise WeightsError(f"weight file {path} does not say under {key} how it was made, or how good it is; {remedy}")
    return found
