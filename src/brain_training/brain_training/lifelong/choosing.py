# SPDX-License-Identifier: Apache-2.0
"""Choice of a task, and so of weights, by what a robot's camera shows while it drives; it is not changed at once."""
from __future__ import annotations

from typing import Mapping

import numpy as np

from brain_training.lifelong.allocation import of_window
from brain_training.lifelong.descriptor import Descriptor
from brain_training.lifelong.pictures import WINDOW, looked, windows

AGREED = 3              # windows in a row that say the same before anything follows from it
MOVED = 3.0             # of 255: mean change, where the camera sees, from which on a picture shows something else
_BLOCK = 8              # pixels


class Choosing:
    """Takes pictures, and says which task they belong to once several windows in a row agree.

    A window that is taken for another task, or for none, begins the row anew: so what lies between two sites, or is
    passed for a moment, changes nothing.

    Args:
        tasks: by name.
        agreed: windows in a row.

    Attributes:
        task: what was agreed on last; None: nothing yet.
        unknown: the last row of windows was of no task. ``task`` stays what it was.
    """

    def __init__(self, tasks: Mapping[str, Descriptor], agreed: int = AGREED) -> None:
        self._tasks, self._agreed = dict(tasks), agreed
        self._numbers: list[np.ndarray] = []
        self._blocks: np.ndarray | None = None
        self._row: tuple[str | None, int] = None, 0
        self.task: str | None = None
        self.unknown = False

    def take(self, picture: np.ndarray) -> bool:
        """Takes a picture, uint8 [HEIGHT, WIDTH, 3]; whether something was agreed on anew.

        One that shows what the last one showed is left out: a robot that stands looks at one wall, however long.
        """
        rows, columns = (size // _BLOCK for size in picture.shape[:2])
        blocks = picture.astype(np.float64).reshape(rows, _BLOCK, columns, _BLOCK, 3).mean((1, 3))
        if self._blocks is not None and np.abs(blocks - self._blocks).mean() < MOVED * picture.any(-1).mean():
            return False
        self._blocks = blocks
        self._numbers.append(looked(picture[None])[0])
        if len(self._numbers) < WINDOW:
            return False
        (window,) = windows(np.stack(self._numbers))
        self._numbers.clear()
        found, _ = of_window(window, self._tasks)
        before, count = self._row
        self._row = found, count + 1 if count and found == before else 1
        if self._row[1] < self._agreed:
            return False
        was = self.task, self.unknown
        self.unknown = found is None
        if found is not None:
            self.task = found
        return was != (self.task, self.unknown)
