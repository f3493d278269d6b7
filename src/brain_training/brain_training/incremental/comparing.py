# SPDX-License-Identifier: Apache-2.0
"""Comparison of new weights with those in use, on the same held-out pictures: a paired interval over drives.

Pictures of one drive, or room, resemble each other, so what is drawn again and again is drives, each with what both
networks came to in it. A gain that a few drives make by chance has an interval that reaches below 0.
"""
from __future__ import annotations

from typing import Any, Mapping, NamedTuple, Sequence

import numpy as np

from brain_training.vision import test_on
from brain_training.vision_data import Way
from brain_training.vision_score import Tally

DRAWS = 2000
LEVEL = 0.95
Metrics = Mapping[str, list[float]]
FEWEST = 5          # drives, below which an interval says nothing
LOST = 0.03         # of F1 that may be lost in the old rooms


class Gain(NamedTuple):
    """Two networks on the same drives.

    Attributes:
        new, old: F1 of each.
        gain: the difference; ``low`` to ``high`` is its interval.
        drives: how many.
    """

    new: float
    old: float
    gain: float
    low: float
    high: float
    drives: int


def counts(network: Any, threshold: float, drives: Sequence[Sequence[Way]]) -> np.ndarray:
    """Counts the right, wrong and missed detections of a folded network: int [drives, 3]."""
    found = []
    for ways in drives:
        tally = test_on(network, ways)
        told = [right for confidence, _, right in tally.detections if confidence >= threshold]
        right = sum(told)
        found.append((right, len(told) - right, len(tally.asked) - right))
    return np.array(found, int).reshape(-1, 3)


def f1(found: np.ndarray) -> np.ndarray:
    """F1 of counts [..., 3]; of nothing it is 0."""
    right, wrong, missed = np.moveaxis(np.asarray(found, float), -1, 0)
    return 2 * right / np.maximum(2 * right + wrong + missed, 1.0)


def compare(new: np.ndarray, old: np.ndarray, *, draws: int = DRAWS, seed: int = 0) -> Gain:
    """Compares counts [drives, 3] of two networks on the same drives.

    Raises:
        ValueError: they are not of the same drives, or of none.
    """
    if new.shape != old.shape or not len(new):
        raise ValueError(f"what is compared was counted in {len(new)} and {len(old)} drives; it must be the same ones, "
                         f"one or more")
    picked = np.random.default_rng(np.random.SeedSequence([seed, 0xB007])).integers(len(new), size=(draws, len(new)))
    gains = f1(new[picked].sum(1)) - f1(old[picked].sum(1))
    low, high = np.quantile(gains, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    whole = float(f1(new.sum(0))), float(f1(old.sum(0)))
    return Gain(*whole, whole[0] - whole[1], float(low), float(high), len(new))


class Verdict(NamedTuple):
    """Verdict on new weights: ``better`` than those in use or not, and the reason."""

    better: bool
    why: str


def judge(held: Gain | None, plain: Gain, most_lost: float = LOST) -> Verdict:
    """Better is what gains in the held-out drives for sure, and loses little in the old rooms.

    Args:
        held: in the held-out drives; None: there is none.
        plain: in the old rooms.
        most_lost: F1 that may be lost there.
    """
    if held is None or held.drives < FEWEST:
        return Verdict(False, f"there are {0 if held is None else held.drives} held-out drives, and fewer than "
                              f"{FEWEST} say nothing; collect more")
    told = f"F1 {held.old:.3f} to {held.new:.3f} in {held.drives} held-out drives (gain {held.low:+.3f} to " \
           f"{held.high:+.3f}), {plain.old:.3f} to {plain.new:.3f} in the old rooms"
    if not held.low > 0.0:
        return Verdict(False, f"not better for sure: {told}")
    if not plain.gain >= -most_lost:
        return Verdict(False, f"too much is forgotten, more than {most_lost:g}: {told}")
    return Verdict(True, f"better: {told}")


def together(tallies: Sequence[Tally]) -> Tally:
    """Several as one."""
    found = Tally()
    for one in tallies:
        found.asked += one.asked
        found.detections += one.detections
    return found


def metrics(held: Gain | None, plain: Gain, verdict: Verdict) -> tuple[Metrics, Metrics]:
    """Of the new weights and of those in use, as workers of Sedna report them: lists of numbers by name."""
    new = {"better": [float(verdict.better)], "plain_f1": [plain.new]}
    old = {"better": [0.0], "plain_f1": [plain.old]}
    if held is not None:
        new |= {"f1": [held.new], "gain": [held.gain], "gain_low": [held.low], "gain_high": [held.high],
                "drives": [float(held.drives)]}
        old |= {"f1": [held.old], "gain": [0.0], "gain_low": [0.0], "gain_high": [0.0], "drives": [float(held.drives)]}
    return new, old
