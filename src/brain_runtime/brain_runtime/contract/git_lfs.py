# SPDX-License-Identifier: Apache-2.0
"""Pointers of Git LFS: the few lines that lie where a large file should be, until somebody fetches it."""
from __future__ import annotations

from pathlib import Path

POINTER = b"version https://git-lfs.github.com/spec/"
ADVICE = "it is a Git LFS pointer and not the file itself; get that with `git lfs pull`"
"""For a person, behind a file's name."""


def is_pointer(what: Path | bytes) -> bool:
    """Tells whether a file, or bytes that were read from one, are a pointer; False where it cannot be read."""
    if isinstance(what, Path):
        try:
            if not what.is_file():
                return False
            with what.open("rb") as file:
                what = file.read(len(POINTER))
        except OSError:
            return False
    return bytes(what[:len(POINTER)]) == POINTER
