# SPDX-License-Identifier: Apache-2.0
"""A model's file: safetensors, known by the SHA-256 of its bytes. Its header is checked, its numbers are not read."""
from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from brain_edge.blobs.store import BlobProblem, digest_of
from brain_runtime.contract import git_lfs
from brain_wire.safe_text import line, quoted

LARGEST = 8 * 2**30         # bytes of a file
HEADER = 4 * 2**20          # of its header
DIMENSIONS = 64             # of a tensor; nobody's libraries take more
SUFFIX = ".safetensors"
OWN = "own"                 # in place of a digest: the weights that come with the region


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
    from safetensors import SafetensorError, safe_open      # 8 MB, which an edge need not hold before a model comes

    size = path.stat().st_size
    if git_lfs.is_pointer(path):
        raise ModelProblem(f"{path} is no model: {git_lfs.ADVICE}")
    if size > LARGEST:
        raise ModelProblem(f"{path} has {size} bytes, and a model has at most {LARGEST}")
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
        if length > HEADER:
            raise SafetensorError(f"it does not begin with the length of a header, of at most {HEADER} bytes")
        with safe_open(path, framework="numpy") as opened:
            for name in opened.keys():
                shape = opened.get_slice(name).get_shape()
                if len(shape) > DIMENSIONS:
                    raise SafetensorError(f"{quoted(name)} has {len(shape)} dimensions, and at most {DIMENSIONS} are "
                                          f"taken")
            return size, opened.metadata() or {}
    except SafetensorError as problem:
        raise ModelProblem(f"{path} is torn, or no safetensors file: {line(problem, 300)}") from None
