# SPDX-License-Identifier: Apache-2.0
"""Rules that find a robot's hard pictures: named, pure functions of what the brain says anyway.

A rule is shown something that was heard and the one of its kind before it, and says how hard what the camera saw around
then is: 0 (nothing to learn from here) to 1. Whatever a message holds, a rule raises nothing.
"""
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Callable, Mapping, NamedTuple, Union

from brain_runtime.interfaces import GoalStatus

MARGIN = 0.15       # of confidence above the threshold, within which a thing is told unsurely
TIMEOUT = 120.0     # s after which a goal that has not ended counts as failed, as for a roll-out
RANDOM = "random"
RANDOM_HARDNESS = 0.5
ENDED = {GoalStatus.STATE_WRONG: "wrong", GoalStatus.STATE_NOT_FOUND: "failed"}


class Looked(NamedTuple):
    """Detections in a picture: time (s), confidence of each thing, and the threshold from which on vision tells it."""

    at: float
    confidences: tuple[float, ...]
    threshold: float


class Acted(NamedTuple):
    """Outcome of a command: time (s), and whether the brainstem's reflex changed it."""

    at: float
    reflex: bool


class Stood(NamedTuple):
    """Status of the goal: time (s), goal, state (``GoalStatus.STATE_*``), and for how long it was pursued (s)."""

    at: float
    goal: int
    state: int
    pursued: float


Heard = Union[Looked, Acted, Stood]


def unsure(now: Heard, before: Heard | None) -> float:
    """A thing was told with a confidence close above the threshold; the closer the harder."""
    if not isinstance(now, Looked) or not math.isfinite(now.threshold):
        return 0.0
    above = [sure - now.threshold for sure in now.confidences
             if math.isfinite(sure) and 0.0 <= sure - now.threshold < MARGIN]
    return max((1.0 - one / MARGIN for one in above), default=0.0)


def reflex(now: Heard, before: Heard | None) -> float:
    """The reflex has begun: something was nearer than the brain thought. One that lasts counts once."""
    if not isinstance(now, Acted) or not now.reflex:
        return 0.0
    return 0.0 if isinstance(before, Acted) and before.reflex else 0.8


def wrong(now: Heard, before: Heard | None) -> float:
    """The robot has driven to something that is not what was sought."""
    return 1.0 if _has_ended(now, before, GoalStatus.STATE_WRONG) else 0.0


def failed(now: Heard, before: Heard | None) -> float:
    """A goal was not found, or took longer than :data:`TIMEOUT`."""
    if _has_ended(now, before, GoalStatus.STATE_NOT_FOUND):
        return 0.7
    late = isinstance(now, Stood) and now.pursued > TIMEOUT
    already = isinstance(before, Stood) and isinstance(now, Stood) and before.goal == now.goal \
        and before.pursued > TIMEOUT
    return 0.7 if late and not already else 0.0


def _has_ended(now: Heard, before: Heard | None, state: int) -> bool:
    """Tells whether a goal has just come to that state, which is said again and again."""
    if not isinstance(now, Stood) or now.state != state:
        return False
    return not (isinstance(before, Stood) and (before.goal, before.state) == (now.goal, now.state))


@dataclass(frozen=True)
class Rule:
    """A rule and its part of what is kept.

    Attributes:
        name: of it, in the names of clips.
        finds: how hard it is, 0 to 1; see the module.
        share: of the clips of an hour that may be this rule's.
        before, after: s of pictures before and after what it finds, which are the clip.
    """

    name: str
    finds: Callable[[Heard, Heard | None], float]
    share: float
    before: float
    after: float


ALL: tuple[Rule, ...] = (
    # What is rarer is first: it takes the place of what another rule found at the same time.
    Rule("wrong", wrong, 0.15, 1.5, 0.5),
    Rule("reflex", reflex, 0.20, 1.0, 0.5),
    Rule("failed", failed, 0.05, 2.0, 0.0),
    Rule("unsure", unsure, 0.40, 0.5, 0.5),
)
RANDOM_SHARE = 0.20     # that no rule has chosen: else all that is learned from is of the rules' making
RANDOM_LENGTH = 1.0     # s


class UnknownRule(ValueError):
    """A rule was named that there is not; says which there are."""


def named(text: str | None) -> tuple[Rule, ...]:
    """The rules of a list as a person writes it, as ``unsure,reflex``; None: all. ``random`` is always there.

    Raises:
        UnknownRule: there is none of a name.
    """
    if text is None:
        return ALL
    known: Mapping[str, Rule] = {rule.name: rule for rule in ALL}
    names = [one.strip() for one in text.split(",") if one.strip() and one.strip() != RANDOM]
    for name in names:
        if name not in known:
            raise UnknownRule(f"there is no rule {name[:40]!a}; there are {', '.join(known)} and {RANDOM}")
    return tuple(rule for rule in ALL if rule.name in names)
