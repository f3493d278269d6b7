# SPDX-License-Identifier: Apache-2.0
"""Marks of a picture, by which a part of it is known again without the picture: what is scored must not be trained on.

A mark is the hash of a small square of gray levels. Of all squares of a picture that show an edge the same few are
chosen wherever its borders are, so a part has those of its own share; a mirrored one is looked for, too. A part that
was scaled or packed anew has other gray levels, and is not found.

``python -m brain_eval.score.held_out FILE...`` tells what a file of labels says of pictures.
"""
from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import Iterable, NamedTuple, Sequence

import numpy as np

from brain_eval.score.labels import Picture

SIDE = 12               # px of a square
EDGE = 24               # gray levels, by which a corner of a square differs from its middle at least
MARKS = 32              # of a picture
ENOUGH = 2              # marks, from which on a picture has a part of another
_BITS = 40              # of a mark
_ACROSS, _DOWN = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)


class Trained(NamedTuple):
    """A picture of somebody's that a training shows.

    Attributes:
        source: what it is from, as ``some-package 1.2``.
        path: of it there.
        sha256: of its bytes.
        picture: uint8 [rows, columns, 3]; None: it is not at hand.
    """

    source: str
    path: str
    sha256: str
    picture: np.ndarray | None = None


def conflicts(trained: Iterable[Trained], scored: Sequence[Picture]) -> list[str]:
    """Tells in words which pictures that are trained on are scored, are of a source that is, or hold a part of one."""
    found = []
    digests = {one.sha256: one for one in scored if one.sha256}
    sources = {_package(one.source): one for one in scored}
    for one in trained:
        what = f"{one.path} of {one.source}"
        if same := digests.get(one.sha256):
            found.append(f"{what} is {same.path} of {same.source}, which is scored")
        elif same := sources.get(_package(one.source)):
            found.append(f"{what} is of the source of {same.path}, which is scored")
        elif one.picture is not None:
            there = known(one.picture)
            found += [f"{what} has a part of {other.path} of {other.source}, which is scored" for other in scored
                      if sum(mark in there for mark in other.marks) >= min(ENOUGH, max(len(other.marks), 1))]
    return found


def marks(picture: np.ndarray) -> tuple[str, ...]:
    """Marks of a picture, uint8 [rows, columns, 3]; fewer where it shows few edges."""
    found = np.unique(_hashes(picture))     # by the upper bits, which are no part of the mark
    return tuple(_text(one) for one in found[:MARKS])


def known(picture: np.ndarray) -> set[str]:
    """All that could be a mark of a picture that this one is a part of, or has a part of, mirrored or not."""
    both = np.concatenate([_hashes(picture), _hashes(picture[:, ::-1])])
    return {_text(one) for one in np.unique(both & np.uint64(2**_BITS - 1))}


def _hashes(picture: np.ndarray) -> np.ndarray:
    """Hashes (uint64) of all squares that show an edge."""
    rows, columns = picture.shape[0] - SIDE + 1, picture.shape[1] - SIDE + 1
    if min(rows, columns) < 1:
        return np.zeros(0, np.uint64)
    gray = (picture.astype(np.uint16) @ np.array([2, 5, 1], np.uint16)) >> 3
    wide = np.zeros((picture.shape[0], columns), np.uint64)
    for x in range(SIDE):       # multiplied and added modulo 2**64
        wide = wide * _ACROSS + gray[:, x:x + columns]
    found = np.zeros((rows, columns), np.uint64)
    for y in range(SIDE):
        found = found * _DOWN + wide[y:y + rows]
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):     # splitmix64's last steps
        found = (found ^ (found >> np.uint64(shift))) * np.uint64(factor)
    middle = gray[SIDE // 2:SIDE // 2 + rows, SIDE // 2:SIDE // 2 + columns].astype(np.int32)
    last = SIDE - 1
    edge = np.zeros((rows, columns), bool)
    for y, x in ((0, 0), (0, last), (last, 0), (last, last)):
        edge |= np.abs(gray[y:y + rows, x:x + columns] - middle) >= EDGE
    return found[edge]


def _text(value: np.uint64) -> str:
    return f"{int(value) & (2**_BITS - 1):0{_BITS // 4}x}"


def _package(source: str) -> str:
    """A source without its version."""
    return source.split()[0].lower() if source.split() else ""


def main(files: Sequence[str]) -> None:
    """Prints what a file of labels says of pictures."""
    from brain_runtime.contract.pictures import unpacked

    for file in map(Path, files):
        data = file.read_bytes()
        print(f"  - path: {file}\n    sha256: {hashlib.sha256(data).hexdigest()}\n"
              f"    marks: [{', '.join(repr(one) for one in marks(unpacked(data)))}]\n    objects: []")


if __name__ == "__main__":
    main(sys.argv[1:])
