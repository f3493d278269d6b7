# SPDX-License-Identifier: Apache-2.0
r"""The trial of a new model: a sequential test of how goals end, whose errors are told beforehand.

Of each goal it is asked whether it was *good*. A model that is no worse than what was there has a share of good goals
of at least p; one that halves it is what is to be found. After each goal the likelihood ratio of the two is

    L = \prod_i q(x_i) / p(x_i),        q = p / 2,

and the model is taken back as soon as L reaches 1 / a. Where the true share is p or more, L is a supermartingale that
begins at 1, so by Ville's inequality it ever gets there with a probability of at most a, however long is watched.

Two questions are asked: was the goal reached in time, and were there no more reflexes than before. Each gets half of
:data:`ALARM`. What is expected is measured on the goals before: at least p with a confidence of 1 - DOUBT / 2 each
(Clopper and Pearson's bound; for reflexes that of Dvoretzky, Kiefer and Wolfowitz). So a model that changes nothing is
taken back with a probability of at most ALARM + DOUBT.
"""
from __future__ import annotations

import math
from typing import NamedTuple, Sequence

ALARM, DOUBT = 0.03, 0.02
LEVEL = ALARM / 2           # of each question
WORSE = 0.5                 # of the share that is expected: what is to be found
ASSUMED = 0.8               # share of goals that are reached, where too few were seen to measure it
LEAST, MOST = 20, 400       # goals before, that something is measured on
CALM = 0.95                 # share of goals before that had no more reflexes than are allowed
LOWEST = 0.6                # share below which a question says nothing, and is not asked


class Expected(NamedTuple):
    """Expectation that a new model is measured against.

    Attributes:
        reached: share of goals that are reached, at least.
        reflexes: of a goal, that are allowed; None: that is not asked.
        calm: share of goals with no more than those, at least.
        goals: how many that was measured on; 0: it was told, or assumed.
    """

    reached: float
    reflexes: int | None
    calm: float
    goals: int


class Goal(NamedTuple):
    """Outcome of a goal."""

    reached: bool
    reflexes: int


class Tally(NamedTuple):
    """Goals of a trial so far.

    Attributes:
        goals: all.
        good: that were reached in time.
        calm: with no more reflexes than are allowed; 0 where that is not asked.
    """

    goals: int
    good: int
    calm: int


NOTHING = Tally(0, 0, 0)


def evidence(good: int, bad: int, share: float) -> float:
    """Logarithm of the likelihood ratio that the share is :data:`WORSE` of ``share``, against ``share``."""
    share = min(max(share, 1e-3), 1 - 1e-3)
    return good * math.log(WORSE) + bad * math.log((1 - WORSE * share) / (1 - share))


def alarming(good: int, bad: int, share: float) -> bool:
    """Tells whether so many good and bad goals are enough to take a model back."""
    return evidence(good, bad, share) >= -math.log(LEVEL)


def verdict(goals: Sequence[Goal], expected: Expected) -> str:
    """Returns why a model is to be taken back, or an empty text. It looks after each goal, as the test does."""
    return judged(goals, expected, NOTHING)[0]


def judged(goals: Sequence[Goal], expected: Expected, before: Tally) -> tuple[str, Tally]:
    """As :func:`verdict`, of the next goals of a trial.

    Args:
        before: all goals of the trial before these. The bound on false alarms holds for the trial as a whole, so that
            none of its goals may be forgotten.

    Returns:
        The verdict, and all goals of the trial.
    """
    number, good, calm = before
    for goal in goals:
        number, good = number + 1, good + goal.reached
        if expected.reflexes is not None:
            calm += goal.reflexes <= expected.reflexes
        now = Tally(number, good, calm)
        if alarming(good, number - good, expected.reached):
            return (f"{number - good} of {number} goals were not reached in time, and at least {expected.reached:.0%} "
                    f"were expected to be"), now
        if expected.reflexes is not None and alarming(calm, number - calm, expected.calm):
            return (f"{number - calm} of {number} goals had more than {expected.reflexes} reflexes, and at least "
                    f"{expected.calm:.0%} were expected to have no more"), now
    return "", Tally(number, good, calm)


def found_within(goals: int, share: float, expected: float) -> float:
    """Probability that one question takes a model back within so many goals, exactly.

    Args:
        share: of goals that are good in truth, independent of each other.
        expected: what the model is measured against.
    """
    alive, found = {0: 1.0}, 0.0        # by the number of bad goals
    for number in range(1, goals + 1):
        after: dict[int, float] = {}
        for bad, chance in alive.items():
            for more, weight in ((0, share), (1, 1.0 - share)):
                if alarming(number - bad - more, bad + more, expected):
                    found += chance * weight
                else:
                    after[bad + more] = after.get(bad + more, 0.0) + chance * weight
        alive = after
    return found


def at_least(good: int, goals: int, doubt: float) -> float:
    """The share that is exceeded by the truth but for a probability of ``doubt``: Clopper and Pearson's lower bound."""
    if not good:
        return 0.0
    low, high = 0.0, good / goals
    for _ in range(50):
        middle = (low + high) / 2
        if _tail(good, goals, middle) < doubt:
            low = middle
        else:
            high = middle
    return low


def _tail(good: int, goals: int, share: float) -> float:
    """Probability of at least so many good ones."""
    if share <= 0.0:
        return 0.0
    total = math.lgamma(goals + 1)
    return math.fsum(math.exp(total - math.lgamma(k + 1) - math.lgamma(goals - k + 1) + k * math.log(share)
                              + (goals - k) * math.log1p(-share)) for k in range(good, goals + 1)) if share < 1 else 1.0


def expect(before: Sequence[Goal], told: float | None = None) -> Expected:
    """Estimates what is to be expected, by the goals before.

    Args:
        before: with the model that is there now.
        told: the share of goals that are reached, where somebody knows better.
    """
    before = before[-MOST:]
    if len(before) < LEAST:
        return Expected(ASSUMED if told is None else told, None, 0.0, 0)
    share = at_least(sum(goal.reached for goal in before), len(before), DOUBT / 2) if told is None else told
    counts = sorted(goal.reflexes for goal in before)
    reflexes = counts[math.ceil(CALM * len(counts)) - 1]
    calm = (sum(count <= reflexes for count in counts) / len(counts)
            - math.sqrt(-math.log(DOUBT / 2) / (2 * len(counts))))
    if calm < LOWEST:
        return Expected(share, None, 0.0, len(before))
    return Expected(share, reflexes, calm, len(before))
