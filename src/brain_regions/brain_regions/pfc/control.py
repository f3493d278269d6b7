# SPDX-License-Identifier: Apache-2.0
"""Meaning of the prefrontal cortex's messages: constants, the goal as it is kept, the hazard round objects."""
from __future__ import annotations

import math
from typing import Any, NamedTuple, Sequence

import numpy as np

from brain_regions import azimuth
from brain_runtime import Gated
from brain_runtime.contract import sights
from brain_runtime.interfaces import Control, GoalStatus, LanguageFeatures, MotorStatus

IDLE, SEARCH, APPROACH, STOP, AVOID = (
    Control.MODE_IDLE, Control.MODE_SEARCH, Control.MODE_APPROACH, Control.MODE_STOP, Control.MODE_AVOID)
S_IDLE, S_SEARCHING, S_APPROACHING = GoalStatus.STATE_IDLE, GoalStatus.STATE_SEARCHING, GoalStatus.STATE_APPROACHING
S_REACHED, S_NOT_FOUND, S_WRONG = GoalStatus.STATE_REACHED, GoalStatus.STATE_NOT_FOUND, GoalStatus.STATE_WRONG
S_NOT_UNDERSTOOD, S_STOPPED, S_WAITING = (
    GoalStatus.STATE_NOT_UNDERSTOOD, GoalStatus.STATE_STOPPED, GoalStatus.STATE_WAITING)
VERB_STOP = LanguageFeatures.VERB_STOP
M_ARRIVED = MotorStatus.STATE_ARRIVED
TEXT = 256


def _stops(message: Any) -> bool:
    return message.mode not in (SEARCH, APPROACH) or azimuth.hazardous(message)


def _gist(message: Any) -> tuple:
    return (message.goal_id, message.mode, message.target_color, message.target_shape,
            *sights.in_bins(message.bearing, message.distance), sights.in_bins(message.heading, math.nan)[0])


GATED = Gated(urgent=_stops, gist=_gist)
"""For the port of Control: all but search and approach stands, stops or gets away from something, and never waits."""


class Told(NamedTuple):
    """The goal, as language told it.

    Attributes:
        number: goal id; 0: none yet.
        verb: LanguageFeatures VERB_*.
        kinds: color and shape of the target, and of what is to be avoided.
        understood: whether there is something to do.
        text: the sentence.
    """

    number: int
    verb: int
    kinds: tuple[int, int, int, int]
    understood: bool
    text: str

    @classmethod
    def of(cls, state: dict[str, np.ndarray]) -> Told:
        """The goal that a state holds."""
        number, verb, color, shape, avoid_color, avoid_shape, understood = (int(v) for v in state["goal"])
        codes = state["text"][state["text"] > 0].astype(np.uint8).tobytes()
        return cls(number, verb, (color, shape, avoid_color, avoid_shape), bool(understood),
                   codes.decode("utf-8", "ignore"))

    @staticmethod
    def put(state: dict[str, np.ndarray], number: float, language: Any) -> None:
        """Writes the goal of a LanguageFeatures into a state."""
        state["goal"] = np.array([number, language.verb, language.target_color, language.target_shape,
                                  language.avoid_color, language.avoid_shape, language.understood], np.float32)
        codes = language.text.encode()[:TEXT]
        state["text"] = np.zeros(TEXT, np.float32)
        state["text"][:len(codes)] = list(codes)


def keep_away(bearings: Sequence[float], distances: Sequence[float], radius: float) -> np.ndarray:
    """Hazard map (see SensorFeatures) round objects to be avoided: as if they reached 0.4 m farther. float32[36].

    Args:
        bearings, distances: of the objects, rad and m.
        radius: of the robot (m).
    """
    hazard = np.zeros(azimuth.BINS, np.float32)
    for angle, distance in zip(bearings, distances):
        reach = 0.30 + 0.42                         # m, radius of the largest object and what is kept from it
        far = max(distance, reach)
        ahead = azimuth.COS * np.float32(math.cos(angle)) + azimuth.SIN * np.float32(math.sin(angle))
        inside = ahead >= math.sqrt(1.0 - (reach / far) ** 2)       # the cosine of half its width
        gap = max(distance - reach - radius, 0.0)
        np.maximum(hazard, np.where(inside, np.float32(min(max(1.0 - gap, 0.0), 0.9)), np.float32(0.0)), out=hazard)
    return hazard
