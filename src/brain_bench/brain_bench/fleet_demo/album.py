# SPDX-License-Identifier: Apache-2.0
"""Pictures that a robot takes while it drives, with what its teacher says stands in them: files of a few each.

Whoever drives writes them, whoever learns reads them, and both may be killed at any moment. One file in five is kept
back: what is in it is never learned from, and says whether other weights are better for this robot.
"""
from __future__ import annotations

import json
import zipfile
from io import BytesIO
from pathlib import Path
from typing import NamedTuple, Sequence

import numpy as np

from brain_bench.fleet_demo.script import put
from brain_regions.vision.network import HEIGHT, WIDTH
from brain_training.recordings.views import View, asked, labels
from brain_training.vision_data import Clips, Labels, Way

SHEET = 8           # pictures in a file
MOST = 80           # files
HELD = 5            # one in so many is kept back


class Sheet(NamedTuple):
    """Pictures uint8 [n, HEIGHT, WIDTH, 3] of one drive in their order, and what stands in each."""

    images: np.ndarray
    views: Sequence[Sequence[View]]


def held(path: Path) -> bool:
    """Whether a file is one of those that are kept back."""
    return int(path.stem) % HELD == HELD // 2


def files(folder: Path) -> list[Path]:
    """All files, oldest first."""
    return sorted(path for path in (folder / "pictures").glob("*.npz") if path.stem.isdigit())


class Album:
    """Writes the pictures of a robot's folder, and goes on where it was.

    Args:
        folder: of the robot.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "pictures").mkdir(parents=True, exist_ok=True)
        there = files(folder)
        self._next = int(there[-1].stem) + 1 if there else 0
        self._images: list[np.ndarray] = []
        self._views: list[list[View]] = []

    def add(self, image: np.ndarray, views: list[View]) -> None:
        """Takes one picture."""
        self._images.append(image)
        self._views.append(views)
        if len(self._images) >= SHEET:
            self.flush()

    def flush(self) -> None:
        """Writes what there is; pictures of another room then stand in another file."""
        if not self._images:
            return
        made = BytesIO()
        np.savez(made, images=np.stack(self._images), views=np.array(json.dumps(self._views)))
        put(self._folder / "pictures" / f"{self._next:06d}.npz", made.getvalue())
        self._next += 1
        self._images, self._views = [], []
        for path in files(self._folder)[:-MOST]:
            path.unlink(missing_ok=True)


class Reader:
    """Reads the pictures of a robot's folder, each file once.

    Args:
        folder: of the robot.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[Path, Sheet | None] = {}

    def sheets(self, kept_back: bool) -> list[Sheet]:
        """Those to learn from, or those that are kept back; a file that cannot be read is as if it were not there."""
        there = files(self._folder)
        self._read = {path: self._read[path] if path in self._read else _sheet(path) for path in there}
        return [sheet for path in there if held(path) == kept_back and (sheet := self._read[path]) is not None]

    def clips(self) -> Clips | None:
        """Clips of one picture each to learn from; None: there are none yet."""
        sheets = self.sheets(False)
        if not sheets:
            return None
        told = [labels(views) for sheet in sheets for views in sheet.views]
        return Clips(np.concatenate([sheet.images for sheet in sheets])[:, None],
                     Labels(*(np.stack(parts)[:, None] for parts in zip(*told))))

    def ways(self) -> list[Way]:
        """What is kept back, to examine by."""
        return [Way(sheet.images, [asked(views) for views in sheet.views]) for sheet in self.sheets(True)]


def _sheet(path: Path) -> Sheet | None:
    try:
        with np.load(path, allow_pickle=False) as found:
            images, views = found["images"], json.loads(str(found["views"]))
        sheet = Sheet(images, [[View(*view) for view in one] for one in views])
    except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile):
        return None
    sound = images.dtype == np.uint8 and images.shape == (len(sheet.views), HEIGHT, WIDTH, 3)
    return sheet if sound and len(sheet.views) else None
