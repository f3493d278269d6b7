# SPDX-License-Identifier: Apache-2.0
"""The look at what the robot stands in front of, before it says that this is what it was sent to.

It is outside the populations, and changes nothing of what the robot does, which stands: only what is said of it.
"""
from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from brain_regions.pfc.control import S_APPROACHING, S_REACHED, S_WRONG
from brain_runtime.contract.sights import fits, in_words, is_taught

AHEAD, NEAR = 0.6, 1.2          # rad to either side, m: where that which it stands in front of is to be seen
SPENT, RIGHT, WRONG, SAID = range(4)        # of state "in_front": s, pictures, pictures, and what it came to
LOOKING = "looking at what it stands in front of"


def empty() -> dict[str, np.ndarray]:
    """State of a goal that has not been reached yet."""
    return {"in_front": np.zeros(4, np.float32)}


def look(state: dict[str, np.ndarray], pictures: Sequence[Any], seen: Sequence[Any], color: int, shape: int,
         lasts: float, dt: float) -> tuple[int, str]:
    """State of GoalStatus and reason of a robot that takes itself to be in front of its target.

    Args:
        state: ``in_front`` is replaced.
        pictures: DetectedObjects since the last call.
        seen: the newest ones of each camera.
        color, shape: of the target; 0: any.
        lasts: s that the look takes.
        dt: s since the last call.
    """
    front = state["in_front"].copy()
    if not front[SAID]:
        for picture in pictures:
            ahead = [o for o in picture.objects if abs(o.bearing) < AHEAD and not o.distance > NEAR]
            fitting = [o for o in ahead if fits(o, color, shape)]
            # what fits, but of a shape that is not known, says nothing; and what was taught may be too near to be known
            if ahead and (any(o.shape or not shape for o in fitting) or not fitting and not is_taught(shape)):
                front[RIGHT if fitting else WRONG] += 1
        front[SPENT] += dt
        if front[SPENT] < lasts:
            state["in_front"] = front
            return S_APPROACHING, LOOKING
        front[SAID] = S_WRONG if front[WRONG] and not front[RIGHT] else S_REACHED
        state["in_front"] = front
    if front[SAID] == S_WRONG:
        return S_WRONG, "it stands in front of something else: " + in_words(o for p in seen for o in p.objects)
    return S_REACHED, "standing in front of it"
