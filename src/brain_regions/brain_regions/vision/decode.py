# SPDX-License-Identifier: Apache-2.0
"""From what each column answers to a list of objects: columns that vote for the same center are one object."""
from __future__ import annotations

import math
from typing import Iterable, NamedTuple

import numpy as np

from brain_regions.vision.network import (ASIDE, ASIDE_UNIT, COLOR, COLUMNS, DISTANCE, EXTENT, OBJECT, ROWS, SHAPE,
                                          SLOTS, column_angles)

FLOOR = 0.15                        # columns less sure of an object than this have no vote
TOGETHER = math.radians(3.0)        # votes this near each other are for one object, however narrow
SAME_PLACE = 0.6                    # of an object's width: votes of its color within this of its center are for it
WIDEST = math.radians(80.0)         # centers further aside than this are beyond what a picture can tell
NAMED = 4, 3                        # colors and kinds that have names
ANY = -1                            # shape of what has a color with a name, and none that is known
AS_FAR = 0.3                        # of the logarithms of distances: votes within this can be for one object
_FLOOR = math.log(FLOOR / (1.0 - FLOOR))    # of the logarithm of odds
_ANGLES = np.tile(column_angles().astype(np.float64), SLOTS)


class Found(NamedTuple):
    """An object in the picture.

    Attributes:
        color, shape: numbers from 0 in the order of DetectedObject's constants (which begin at 1), or :data:`ANY`.
        confidence: 0..1, that an object of this color and shape is there; of any shape, that one of this color is.
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


class Vote(NamedTuple):
    """An object in the picture, whatever it is.

    Attributes:
        color: number from 0, of all that are told apart.
        sure: 0..1, that an object of this color is there.
        shapes: of each kind, that it is that.
        bearing: rad, of its center from the camera's axis, positive to the left.
        away, wide: logarithms of the distance from the camera (in heights of the camera) and of the width (rad).
    """

    color: int
    sure: float
    shapes: list[float]
    bearing: float
    away: float
    wide: float


def softmax(x: np.ndarray) -> np.ndarray:
    """Shares along the first axis that logits stand for."""
    e = np.exp(x - np.maximum.reduce(x, 0))
    return e / np.add.reduce(e, 0)


def outlines(answer: np.ndarray) -> list[tuple[int, int]]:
    """First and last column of each run of columns that show an object, of whatever color and kind."""
    there = np.asarray(answer).reshape(SLOTS, ROWS, COLUMNS)[0, OBJECT][0] > _FLOOR
    edges = np.flatnonzero(np.diff(np.concatenate(([False], there, [False])).astype(np.int8)))
    return [(int(first), int(last) - 1) for first, last in edges.reshape(-1, 2)]


def decode(answer: np.ndarray, height: float, something: float = math.inf) -> list[Found]:
    """Objects in one picture that have a color and a kind with a name, the surest first.

    Args:
        answer: readout [OUTPUTS, COLUMNS].
        height: of the camera above the floor (m), in which the network tells distances.
        something: see :func:`named`.
    """
    return named(votes(answer), height, something)


def named(candidates: Iterable[Vote], height: float, something: float = math.inf) -> list[Found]:
    """Objects that have a color and a kind with a name, the surest first.

    Args:
        candidates: from :func:`votes`.
        height: of the camera above the floor (m).
        something: confidence from which on an object has a color, and :data:`ANY` shape, where it is less sure with
            its kind, or that has no name.
    """
    found = []
    for one in candidates:
        kind = one.shapes.index(max(one.shapes))
        known = one.sure * one.shapes[kind] if kind < NAMED[1] else 0.0
        if known < something <= one.sure:
            kind, known = ANY, one.sure
        if one.color < NAMED[0] and known:
            found.append(Found(one.color, kind, known, one.bearing, height * math.exp(one.away), math.exp(one.wide)))
    return sorted(found, key=lambda f: -f.confidence)


def votes(answer: np.ndarray) -> list[Vote]:
    """Objects in one picture, of all colors and kinds, in the order of their surest columns.

    Args:
        answer: readout [OUTPUTS, COLUMNS].
    """
    answer = np.asarray(answer, np.float64).reshape(SLOTS, ROWS, COLUMNS).swapaxes(0, 1).reshape(ROWS, -1)
    active = np.flatnonzero(answer[OBJECT][0] > _FLOOR)
    if not len(active):
        return []
    answer = answer[:, active]
    sure = 1.0 / (1.0 + np.exp(-np.minimum(answer[OBJECT][0], 50.0)))
    colors, shapes = softmax(answer[COLOR]), softmax(answer[SHAPE])
    bearing = np.minimum(np.maximum(_ANGLES[active] + ASIDE_UNIT * answer[ASIDE][0], -WIDEST), WIDEST)
    away = np.minimum(np.maximum(answer[DISTANCE][0], -3.0), 5.0)
    wide = np.minimum(np.maximum(answer[EXTENT][0], -5.0), 1.0)
    told = np.concatenate((shapes, bearing[None], away[None], wide[None]))
    best = colors.argmax(0)
    left = sure.copy()      # of columns that have not voted; -1 for those that have
    found = []
    while left[seed := int(left.argmax())] > 0:
        near = max(TOGETHER, SAME_PLACE * math.exp(wide[seed]))
        group = np.flatnonzero((left > 0) & (best == best[seed]) & (np.abs(bearing - bearing[seed]) < near)
                               & (np.abs(away - away[seed]) < AS_FAR))
        left[group] = -1.0
        weight = sure[group]
        weight = weight / np.add.reduce(weight)
        color = np.dot(colors[best[seed], group], weight)
        *shape, angle, distance, width = np.dot(told[:, group], weight).tolist()
        found.append(Vote(int(best[seed]), float(sure[seed] * color), shape, angle, distance, width))
    return found
