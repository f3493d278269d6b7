# SPDX-License-Identifier: Apache-2.0
"""From what each column answers to a list of objects: columns that vote for the same center are one object."""
from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from brain_regions.vision.network import (ASIDE, ASIDE_UNIT, COLOR, COLUMNS, DISTANCE, EXTENT, FOCAL, OBJECT, ROWS,
                                          SHAPE, SLOTS, column_angles)

FLOOR = 0.15                        # columns less sure of an object than this have no vote
TOGETHER = math.radians(3.0)        # votes this near each other are for one object, however narrow
SAME_PLACE = 0.6                    # of an object's width: votes of its color within this of its center are for it
WIDEST = math.radians(80.0)         # centers further aside than this are beyond what a flat picture can tell
AS_FAR = 0.3                        # of the logarithms of distances: votes within this can be for one object
_ANGLES = np.tile(column_angles().numpy().astype(np.float64), SLOTS)


class Found(NamedTuple):
    """An object in the picture.

    Attributes:
        color, shape: numbers from 0 in the order of DetectedObject's constants (which begin at 1).
        confidence: 0..1, that an object of this color and shape is there.
        bearing: rad, of its center from the camera's axis, positive to the left.
        distance: m, from the camera.
        width: rad.
    """

    color: int
    shape: int
    confidence: float
    bearing: float
    distance: float
    width: float


def _softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=0))
    return e / e.sum(axis=0)


def decode(answer: np.ndarray, focal: float = FOCAL) -> list[Found]:
    """Objects in one picture, the surest first.

    Args:
        answer: readout [OUTPUTS, COLUMNS].
        focal: focal length of the camera in pixels of a picture of the network's width; another than the network's own
            scales the angles' tangents and the distances.
    """
    answer = np.asarray(answer, np.float64).reshape(SLOTS, ROWS, COLUMNS).swapaxes(0, 1).reshape(ROWS, -1)
    sure = 1.0 / (1.0 + np.exp(-np.clip(answer[OBJECT][0], -50, 50)))
    (active,) = np.nonzero(sure > FLOOR)
    if not len(active):
        return []
    sure = sure[active]
    colors, shapes = _softmax(answer[COLOR][:, active]), _softmax(answer[SHAPE][:, active])
    bearing = np.clip(_ANGLES[active] + ASIDE_UNIT * answer[ASIDE][0, active], -WIDEST, WIDEST)
    away = np.clip(answer[DISTANCE][0, active], -3, 3)
    width = np.exp(np.clip(answer[EXTENT][0, active], -5, 1))
    best = colors.argmax(axis=0)
    left = sure.copy()      # of columns that have not voted; -1 for those that have
    found = []
    while left[seed := int(left.argmax())] > 0:
        near = np.abs(bearing - bearing[seed]) < max(TOGETHER, SAME_PLACE * width[seed])
        alike = np.abs(away - away[seed]) < AS_FAR
        group = np.flatnonzero((left > 0) & near & alike & (best == best[seed]))
        left[group] = -1.0
        votes = sure[group]
        weight = votes / votes.sum()
        color = colors[best[seed], group] @ weight
        shape = shapes[:, group] @ weight
        kind = int(shape.argmax())
        found.append(Found(int(best[seed]), kind, float(sure[seed] * color * shape[kind]),
                           *_seen_by(focal, bearing[group] @ weight, math.exp(away[group] @ weight),
                                     math.exp(np.log(width[group]) @ weight))))
    return sorted(found, key=lambda f: -f.confidence)


def _seen_by(focal: float, bearing: float, distance: float, width: float) -> tuple[float, float, float]:
    """Bearing, distance and width that a camera of another focal length means by the same picture."""
    if focal == FOCAL:
        return float(bearing), float(distance), float(width)
    scale = focal / FOCAL
    return math.atan(math.tan(bearing) / scale), float(distance * scale), float(width / scale)
