# SPDX-License-Identifier: Apache-2.0
"""Frames of what vision told of pictures, and of what is labelled in them: for a film, or side by side on one sheet."""
from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any, Sequence

import numpy as np

from brain_eval import film
from brain_eval.draw import PAPER, caption
from brain_eval.score.looker import Seen
from brain_eval.score.views import Target
from brain_observe.introspection.picture import Eye, drawn
from brain_runtime.contract.images import Lens
from brain_runtime.contract.optics import Mount

SIZE = (360, 270)       # px of a frame
HEIGHT = 0.35           # m; a camera whose height is not known is drawn as from there
MOST = 400              # frames that are kept: beyond, every other one goes
ACROSS = 5              # frames of a row of a sheet
MOST_SHEET = 60         # frames of a sheet
PERIOD = 1.0            # s that a still is shown
MOST_BYTES = 8e6        # of a film
ENDINGS = (".gif", ".png", ".jpg")
ASKED, PASSED = (255, 255, 255), (120, 120, 130)


class Roll:
    """Frames that are collected, evenly over all of them where there are too many."""

    def __init__(self) -> None:
        self.frames: list[Any] = []
        self._every, self._count = 1, 0

    def add(self, picture: np.ndarray, lens: Lens, mount: Mount, told: Sequence[Seen], targets: Sequence[Target],
            note: str) -> None:
        """Adds a frame of a picture, what is told of it, and a line below."""
        self._count += 1
        if (self._count - 1) % self._every:
            return
        self.frames.append(_frame(picture, lens, mount, told, targets, note))
        if len(self.frames) > MOST:
            self.frames, self._every = self.frames[::2], 2 * self._every

    def save(self, path: Path, period: float = PERIOD) -> int:
        """Writes a film (.gif) or a sheet (.png, .jpg); returns how many frames it has.

        Raises:
            ValueError: there is nothing to show.
            OSError: it cannot be written.
        """
        from PIL import Image

        if not self.frames:
            raise ValueError("there is no picture to show")
        if path.suffix.lower() == ".gif":
            return film.save(path, self.frames, period * self._every, MOST_BYTES)
        every = -(-len(self.frames) // MOST_SHEET)
        some = self.frames[::every]
        across = min(ACROSS, len(some))
        sheet = Image.new("RGB", (across * SIZE[0], -(-len(some) // across) * SIZE[1]), PAPER)
        for number, frame in enumerate(some):
            sheet.paste(frame, (number % across * SIZE[0], number // across * SIZE[1]))
        sheet.save(path)
        return len(some)


def _frame(picture: np.ndarray, lens: Lens, mount: Mount, told: Sequence[Seen], targets: Sequence[Target],
           note: str) -> Any:
    from PIL import Image, ImageDraw

    rows, columns = picture.shape[:2]
    by = min(SIZE[0] / columns, SIZE[1] / rows)
    small = Image.fromarray(picture).resize((max(round(columns * by), 1), max(round(rows * by), 1)))
    eye = Eye(mount if math.isfinite(mount.height) else replace(mount, height=HEIGHT), lens._replace(
        focal=lens.focal * by, columns=small.width, rows=small.height, column=lens.column * by, row=lens.row * by))
    shown = Image.fromarray(drawn(np.asarray(small), [seen.message for seen in told], eye, None, 1,
                                  caption(note)))
    draw = ImageDraw.Draw(shown)
    for target in targets:
        draw.rectangle([value * by for value in target.box], outline=ASKED if target.asked else PASSED)
    frame = Image.new("RGB", SIZE, PAPER)
    frame.paste(shown, ((SIZE[0] - shown.width) // 2, (SIZE[1] - shown.height) // 2))
    return frame
