# SPDX-License-Identifier: Apache-2.0
"""A model's file: safetensors, known by the SHA-256 of its bytes. Its header is checked, its numbers are not read."""
from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, NamedTuple

from brain_edge.blobs.store import BlobProblem, digest_of
from brain_edge.schema import FormProblem, read_json
from brain_wire.safe_text import quoted

LARGEST = 8 * 2**30         # bytes of a file
HEADER = 4 * 2**20          # of its header
VALUES = 200_000            # in its header: of some 20,000 tensors
DIMENSIONS = 64             # of a tensor; nobody's libraries take more
SUFFIX = ".safetensors"
OWN = "own"                 # in place of a digest: the weights that come with the region
_SIZES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U64": 8, "U32": 4, "U16": 2,
          "U8": 1, "BOOL": 1, "F8_E4M3": 1, "F8_E5M2": 1}


class ModelProblem(BlobProblem):
    """A model cannot be used; says which, why, and the remedy."""


class ModelFile(NamedTuple):
    """Digest, size and metadata of a model's file.

    Attributes:
        digest: ``sha256:`` and the hash of its bytes.
        size: bytes.
        metadata: of its header: texts by name.
    """

    digest: str
    size: int
    metadata: dict[str, str]


def read_model(path: Path) -> ModelFile:
    """Checks a file's form, and reads all of it for its digest. Raises as :func:`check_model`."""
    size, metadata = check_model(path)
    return ModelFile(digest_of(path), size, metadata)


def check_model(path: Path) -> tuple[int, dict[str, str]]:
    """Checks a file's form; returns its bytes and its metadata. Nothing but the header is read.

    Raises:
        OSError: it cannot be read.
        ModelProblem: it is no safetensors file, or is torn.
    """
    size = path.stat().st_size
    if size > LARGEST:
        raise ModelProblem(f"{path} has {size} bytes, and a model has at most {LARGEST}")
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 2 <= length <= min(HEADER, size - 8):
            raise ModelProblem(f"{path} is torn, or no safetensors file: it does not begin with the length of a header")
        text = file.read(length)
    try:
        found = read_json(text, HEADER, VALUES)
        if not isinstance(found, dict):
            raise FormProblem("its header is no object")
        metadata = found.pop("__metadata__", {})
        if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
            raise FormProblem("its metadata are no texts")
        end = _end(found)
    except FormProblem as problem:
        raise ModelProblem(f"{path} is torn, or no safetensors file: {problem}") from None
    if end != size - 8 - length:
        raise ModelProblem(f"{path} is torn: its tensors take {end} bytes, and {size - 8 - length} are there")
    return size, metadata


def _end(tensors: dict[str, Any]) -> int:
    """Checks that tensors follow each other without gaps; returns where the last one ends (bytes)."""
    places = []
    for name, one in tensors.items():
        try:
            kind, shape, (begin, end) = one["dtype"], one["shape"], one["data_offsets"]
            whole = [begin, end, *shape]
        except (KeyError, TypeError, ValueError):
            raise FormProblem(f"its header says of {quoted(name)} what is no tensor") from None
        if not (isinstance(shape, list) and isinstance(kind, str) and kind in _SIZES
                and all(type(number) is int and number >= 0 for number in whole)):
            raise FormProblem(f"its header says of {quoted(name)} what is no tensor")
        if len(shape) > DIMENSIONS:     # their product would be a number of as many words
            raise FormProblem(f"{quoted(name)} has {len(shape)} dimensions, and at most {DIMENSIONS} are taken")
        if end - begin != math.prod(shape) * _SIZES[kind]:
            raise FormProblem(f"{quoted(name)} has another size than its shape says")
        places.append((begin, end))
    at = 0
    for begin, end in sorted(places):
        if begin != at:
            raise FormProblem("its tensors do not follow each other")
        at = end
    return at


def json_text(value: Any) -> str:
    """Plain values as text that is the same whenever they are."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
