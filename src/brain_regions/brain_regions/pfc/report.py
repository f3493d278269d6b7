# SPDX-License-Identifier: Apache-2.0
"""Status of the goal, in the words of GoalStatus: read off the populations that fire."""
from __future__ import annotations

import math
import zlib

from brain_regions.pfc.choice import Believed
from brain_regions.pfc.control import (S_APPROACHING, S_IDLE, S_NOT_FOUND, S_NOT_UNDERSTOOD, S_REACHED, S_SEARCHING,
                                       S_STOPPED, S_WAITING, Told)
from brain_runtime import clip_utf8

_WHY = {"reached": (S_REACHED, "standing in front of it"),
        "unasked": (S_IDLE, "nothing was asked yet")}


def report(action: str, why: str, believed: Believed, told: Told, blind: str, reason: str, in_vain: str
           ) -> tuple[int | None, str]:
    """State and reason for a person; None while nothing has been decided.

    Args:
        action, why: from :func:`brain_regions.pfc.decision.read`.
        believed: where the target is.
        told: the goal.
        blind: what is missing to see by.
        reason: why the sentence was not understood.
        in_vain: why the target was not found, where that is so.
    """
    if action == "stop":
        return S_STOPPED, "told to stop"
    if action == "search":
        return S_SEARCHING, "looking for it"
    if action == "approach" or (action == "avoid" and math.isfinite(believed.distance)):
        near = f"{believed.distance:.1f} m away" if math.isfinite(believed.distance) else "close to it"
        return S_APPROACHING, near
    if action == "avoid":
        return S_SEARCHING, "making room"
    if action != "idle" or not why:
        return None, ""
    if why == "puzzled":
        return S_NOT_UNDERSTOOD, clip_utf8(reason, 256)
    if why == "blind":
        return S_WAITING, blind or "could not see until now"
    if why == "given_up":
        return S_NOT_FOUND, in_vain
    return _WHY[why]


def kind_of(reason: str) -> float:
    """A number less than 0.25 by which reasons are told apart, whatever figures are in them; exact in a float32."""
    words = "".join(c for c in reason if not c.isdigit())
    return (1 + zlib.crc32(words.encode()) % 127) / 512
