# SPDX-License-Identifier: Apache-2.0
"""Pictures that a robot takes while it drives, with what its teacher says stands in them: files of a few each.

Whoever drives writes them, whoever learns reads them, and both may be killed at any moment. One file in five is kept
back: what is in it is never learned from, and says whether other weights are better for this robot.
"""
from __future__ import annotations

import json
import zipfile
from dataclasses import asdict
from io import BytesIO
from pathlib import Path
from typing import NamedTuple, Sequence

import numpy as np

from brain_training.fleet_demo.robot_folder import SHEET, put, sheets
from brain_regions.vision.network import COLUMNS, HEIGHT, SLOTS, WIDTH
from brain_sim.camera import SeenObject
from brain_training.vision_data import Clips, Labels, Way

MOST = 80           # files
HELD = 5            # one in so many is kept back


class Sheet(NamedTuple):
    """Pictures uint8 [n, HEIGHT, WIDTH, 3] of one drive in their order, labels [n, SLOTS, COLUMNS], what is seen."""

    images: np.ndarray
    labels: Labels
    objects: Sequence[list[SeenObject]]


def held(path: Path) -> bool:
    """Tells whether a file is one of those that are kept back."""
    return int(path.stem) % HELD == HELD // 2


class Album:
    """Writes the pictures of a robot's folder, and goes on where it was.

    Args:
        folder: of the robot.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "pictures").mkdir(parents=True, exist_ok=True)
        there = sheets(folder)
        self._next = int(there[-1].stem) + 1 if there else 0
        self._taken: list[tuple[np.ndarray, Labels, list[SeenObject]]] = []

    def add(self, image: np.ndarray, labels: Labels, objects: list[SeenObject]) -> None:
        """Takes one picture: uint8 [HEIGHT, WIDTH, 3], its labels [SLOTS, COLUMNS], and the objects in it."""
        self._taken.append((image, labels, objects))
        if len(self._taken) >= SHEET:
            self.flush()

    def flush(self) -> None:
        """Writes what there is; pictures of another room then stand in another file."""
        if not self._taken:
            return
        images, labels, objects = zip(*self._taken)
        made = BytesIO()
        told = json.dumps([list(map(asdict, one)) for one in objects])
        np.savez(made, images=np.stack(images), objects=np.array(told), **{
            name: np.stack(parts) for name, parts in zip(Labels._fields, zip(*labels))})
        put(self._folder / "pictures" / f"{self._next:06d}.npz", made.getvalue())
        self._next += 1
        self._taken = []
        for path in sheets(self._folder)[:-MOST]:
            path.unlink(missing_ok=True)


class Reader:
    """Reads the pictures of a robot's folder, each file once.

    Args:
        folder: of the robot.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[Path, Sheet | None] = {}

    def some(self, kept_back: bool) -> list[Sheet]:
        """Those to learn from, or those that are kept back; a file that cannot be read is as if it were not there."""
        there = sheets(self._folder)
        self._read = {path: self._read[path] if path in self._read else _sheet(path) for path in there}
        return [sheet for path in there if held(path) == kept_back and (sheet := self._read[path]) is not None]

    def clips(self) -> Clips | None:
        """Clips of one picture each to learn from; None: there are none yet."""
        found = self.some(False)
        if not found:
            return None
        return Clips(np.concatenate([sheet.images for sheet in found])[:, None], Labels(*(
            np.concatenate(parts)[:, None] for parts in zip(*(sheet.labels for sheet in found)))))

    def ways(self) -> list[Way]:
        """Returns the pictures that are kept back, to examine by."""
        return [Way(sheet.images, sheet.objects) for sheet in self.some(True)]


def _sheet(path: Path) -> Sheet | None:
    try:
        with np.load(path, allow_pickle=False) as found:
            images, labels = found["images"], Labels(*(found[name] for name in Labels._fields))
            objects = [[SeenObject(**seen) for seen in one] for one in json.loads(str(found["objects"]))]
    except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile):
        return None
    count = len(objects)
    sound = (count > 0 and images.dtype == np.uint8 and images.shape == (count, HEIGHT, WIDTH, 3)
             and all(part.shape == (count, SLOTS, COLUMNS) for part in labels))
    return Sheet(images, labels, objects) if sound else None
