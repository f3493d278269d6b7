# SPDX-License-Identifier: Apache-2.0
"""The prefrontal cortex's memory as a picture: the robot in the middle, ahead is up, what is remembered round about.

Distances are drawn as the sheet has them, equally apart in their logarithm. A cell has the color of what it holds
evidence for, and is the more opaque the more evidence that is. Pillow is imported when somebody looks.
"""
from __future__ import annotations

import functools
import math
from typing import Any, Sequence

import numpy as np

from brain_observe.introspection import words
from brain_runtime.contract.azimuth import BINS, WIDTH
from brain_runtime.contract.polar import RINGS, ring
from brain_runtime.contract.sights import thing

INNER = 1.5             # cells between the middle and the nearest ones
EDGE = RINGS + INNER    # cells from the middle to the rim
SHAPES = 3              # classes of a color
PAPER = (24, 24, 28)
GRID = (70, 70, 78)
INK = (225, 225, 225)
RIMS = (0.5, 1.0, 2.0, 4.0)     # m, distances at which a circle is drawn
TEXT_SIZE = 12                  # px


def spot(bearing: float, distance: float) -> tuple[float, float]:
    """Projects a place (rad, m) into the picture: to the right and up from the middle, the rim being at 1."""
    away = (ring(distance) + INNER + 0.5) / EDGE
    return -away * math.sin(bearing), away * math.cos(bearing)


def colored(evidence: np.ndarray, full: float) -> np.ndarray:
    """Color and opacity of each cell.

    Args:
        evidence: [classes, BINS, RINGS], class (color - 1) * 3 + shape - 1; the last one is the taught thing.
        full: evidence of all classes at a place that is drawn opaque.

    Returns:
        float32[BINS, RINGS, 4], 0..1.
    """
    by_color = np.concatenate((evidence[:-1].reshape(-1, SHAPES, BINS, RINGS).sum(1), evidence[-1:]))
    paints = np.array([words.paint(color) for color in (*range(1, len(by_color)), 0)], np.float32)
    total = by_color.sum(0)
    mixed = np.tensordot(by_color, paints, (0, 0)) / np.maximum(total, 1e-9)[..., None]
    return np.concatenate([mixed, np.minimum(total / full, 1.0)[..., None]], -1).astype(np.float32)


@functools.lru_cache(maxsize=4)
def _cells(size: int, turned: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Bin and ring of each pixel, and whether there is one."""
    across = (np.arange(size) + 0.5) / size * 2 - 1
    x, y = np.meshgrid(across, -across)
    rows = np.floor(np.hypot(x, y) * EDGE - INNER).astype(int)
    columns = np.rint((np.arctan2(-x, y) + turned) / WIDTH).astype(int) % BINS
    return columns, rows.clip(0, RINGS - 1), (rows >= 0) & (rows < RINGS)


def disk(cells: np.ndarray, size: int, turned: float = 0.0) -> np.ndarray:
    """Cells [BINS, RINGS, channels] laid out round the middle: [size, size, channels], zeros beside the sheet.

    Args:
        cells: such as those of :func:`colored`.
        size: px.
        turned: rad that the robot has turned since the sheet was shifted last.
    """
    columns, rows, inside = _cells(size, round(turned, 3))
    found = cells[columns, rows]
    found[~inside] = 0
    return found


def drawn(evidence: np.ndarray, full: float, objects: Sequence[Any], size: int) -> np.ndarray:
    """The picture, with circles of distance and the names of what is remembered.

    Args:
        evidence, full: see :func:`colored`.
        objects: DetectedObjects of pfc/memory.
        size: px.

    Returns:
        uint8 [size, size, 3].
    """
    from PIL import Image, ImageDraw, ImageFont

    cells = colored(evidence, full)
    light = cells[..., 3:]
    # less the paper, so that nothing beside the sheet is paper
    above = (light * (255 * cells[..., :3] - PAPER)).astype(np.int16)
    image = Image.fromarray((disk(above, size) + np.array(PAPER, np.int16)).astype(np.uint8))
    draw, font, middle = ImageDraw.Draw(image), ImageFont.load_default(TEXT_SIZE), size / 2
    for distance in RIMS:
        reach = spot(0.0, distance)[1] * middle
        draw.ellipse((middle - reach, middle - reach, middle + reach, middle + reach), outline=GRID)
        draw.text((middle + 2, middle + reach - TEXT_SIZE - 3), f"{distance:g} m", fill=GRID, font=font)
    for angle in np.arange(4) * math.pi / 2:
        draw.line([(middle * (1 + r * math.sin(angle)), middle * (1 - r * math.cos(angle))) for r in (0.15, 1.0)],
                  fill=GRID)
    draw.polygon([(middle, middle - 9), (middle - 6, middle + 6), (middle + 6, middle + 6)], fill=INK)
    for one in objects:
        right, up = spot(float(one.bearing), float(one.distance))
        text = f"{thing(one.color, one.shape)} {100 * one.confidence:.0f} %"
        wide = draw.textlength(text, font)
        at = min(max(middle * (1 + right) - wide / 2, 0), size - wide), min(middle * (1 - up) + 8, size - TEXT_SIZE - 3)
        draw.text(at, text, fill=INK, font=font, stroke_width=2, stroke_fill=PAPER)
    return np.asarray(image)
