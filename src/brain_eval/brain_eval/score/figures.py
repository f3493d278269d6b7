# SPDX-License-Identifier: Apache-2.0
"""Figures of what vision told: right, false and missed objects, F1 with an interval, and how far confidences are true.

A detection is right with a label's color and kind, and its bearing within 3 degrees or half the object's width. Surest
first, each label is taken once; what fits no label that is free is false, unless it fits one that is not asked for.
What has no color or no kind ("something") is counted apart.
"""
from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Iterable, Mapping, NamedTuple, Sequence

import numpy as np

from brain_eval.score.labels import OTHERS
from brain_eval.score.looker import FLOOR, Seen
from brain_eval.score.views import Target

DRAWS = 1000            # of the bootstrap
BINS = 10               # of confidence, over which it is averaged how true they are


class Worth(Enum):
    """Worth of a detection."""

    right = "right"
    false = "false"
    something_right = "something that is there"
    something_false = "something that is not there"
    ignored = "ignored"


class Judged(NamedTuple):
    """A detection that was judged.

    Attributes:
        seen: what was told.
        worth: of it.
        target: number of the label that it took; -1: none.
    """

    seen: Seen
    worth: Worth
    target: int = -1


def judge(found: Sequence[Seen], targets: Sequence[Target]) -> list[Judged]:
    """Judges what was told of one view, the surest first, by what it shows."""
    free = {number for number, target in enumerate(targets) if target.asked}
    judged = []
    for seen in sorted(found, key=lambda seen: -seen.confidence):
        color = OTHERS.get(seen.color, seen.color)
        near = [number for number, target in enumerate(targets)
                if abs(math.remainder(target.bearing - seen.bearing, 2 * math.pi)) <= target.within]
        if not seen.color or not seen.kind:
            fits = any(_may_be(color, seen.kind, targets[number]) for number in near)
            judged.append(Judged(seen, Worth.something_right if fits else Worth.something_false))
            continue
        same = [number for number in near if number in free
                and (targets[number].color, targets[number].kind) == (color, seen.kind)]
        if same:
            taken = min(same, key=lambda number: abs(targets[number].bearing - seen.bearing))
            free.discard(taken)
            judged.append(Judged(seen, Worth.right, taken))
        else:
            passes = any(targets[number].ignored for number in near)
            judged.append(Judged(seen, Worth.ignored if passes else Worth.false))
    return judged


def _may_be(color: str, kind: str, target: Target) -> bool:
    """Tells whether what has no color or no kind may be a label's."""
    return target.ignored or color in ("", target.color) and kind in ("", target.kind)


@dataclass
class Counts:
    """Counts of one picture or recording.

    Attributes:
        source: that it is of.
        half: of it.
        views: that were looked at.
        asked: objects that should be told, over all views.
        detections: confidence and worth.
    """

    source: str
    half: str
    views: int = 0
    asked: int = 0
    detections: list[tuple[float, Worth]] = field(default_factory=list)

    def add(self, judged: Iterable[Judged], targets: Iterable[Target]) -> None:
        """Takes in one view."""
        self.views += 1
        self.asked += sum(target.asked for target in targets)
        self.detections += [(one.seen.confidence, one.worth) for one in judged]

    def at(self, threshold: float) -> np.ndarray:
        """Numbers from a threshold on: right, false, asked, something that is not there, and views."""
        told = [worth for confidence, worth in self.detections if confidence >= threshold]
        return np.array([told.count(Worth.right), told.count(Worth.false), self.asked,
                         told.count(Worth.something_false), self.views], float)


def figures(counts: Sequence[Counts], threshold: float, seed: int = 0) -> dict[str, Any]:
    """Figures of some pictures, with 95 % intervals by drawing pictures anew within each source.

    Args:
        counts: of each picture.
        threshold: confidence from which on something is told.
        seed: of the draws.
    """
    each = np.array([one.at(threshold) for one in counts]).reshape(-1, 5)
    by_source: dict[str, list[int]] = defaultdict(list)
    for number, one in enumerate(counts):
        by_source[one.source].append(number)
    rng = np.random.default_rng(seed)
    drawn = np.zeros((DRAWS, 5))
    for numbers in by_source.values():
        drawn += rng.multinomial(len(numbers), [1 / len(numbers)] * len(numbers), DRAWS) @ each[numbers]
    right, false, asked, something, views = each.sum(0)
    found: dict[str, Any] = {
        "pictures": len(counts), "views": int(views), "asked": int(asked), "right": int(right), "false": int(false),
        "something_false": int(something), "threshold": threshold, "precision": _share(right, right + false),
        "recall": _share(right, asked), "f1": _f1(right, false, asked),
        "false_objects_a_view": _share(false, views), "something_a_view": _share(something, views),
        "calibration_error": calibration_error(counts)}
    if len(counts) > 1:
        f1 = [_f1(*row[:3]) for row in drawn]
        found["f1_interval95"] = None if None in f1 else _interval(f1)
        found["false_objects_a_view_interval95"] = _interval(drawn[:, 1] / np.maximum(drawn[:, 4], 1.0))
    return found


def calibration_error(counts: Iterable[Counts]) -> float | None:
    """Expected calibration error of named detections from a confidence of 0.05 on; None without labels or any."""
    told = [(confidence, worth is Worth.right) for one in counts for confidence, worth in one.detections
            if confidence >= FLOOR and worth in (Worth.right, Worth.false)]
    if not told or not any(one.asked for one in counts):
        return None
    return expected_calibration_error(*np.array(told, float).T)


def expected_calibration_error(sure: np.ndarray, right: np.ndarray) -> float:
    """Mean distance between confidence (0 to 1) and share of what is right, over :data:`BINS` bins of confidence.

    C. Guo, G. Pleiss, Y. Sun, K. Weinberger: On Calibration of Modern Neural Networks, ICML 2017, equation 3.

    Args:
        sure: confidence of each detection, at least one.
        right: 1 where it is right, else 0.
    """
    bins = np.minimum((sure * BINS).astype(int), BINS - 1)
    return float(sum(abs(float((sure[bins == k] - right[bins == k]).sum())) for k in range(BINS)) / len(sure))


def by(counts: Sequence[Counts], key: str, threshold: float) -> dict[str, dict[str, Any]]:
    """Figures of each source (``source``) or half (``half``), by its name."""
    groups: dict[str, list[Counts]] = defaultdict(list)
    for one in counts:
        groups[getattr(one, key)].append(one)
    return {name: figures(some, threshold) for name, some in sorted(groups.items())}


def tally(seen: Mapping[str, int]) -> str:
    """``red ball 12, blue box 3``: what was seen how often, most first."""
    return ", ".join(f"{name} {count}" for name, count in sorted(seen.items(), key=lambda item: (-item[1], item[0])))


def _f1(right: float, false: float, asked: float) -> float | None:
    """F1; None where nothing was asked."""
    return 2 * right / (right + false + asked) if asked else None


def _share(part: float, whole: float) -> float | None:
    return float(part / whole) if whole else None


def _interval(values: Sequence[float] | np.ndarray) -> list[float]:
    low, high = np.percentile(np.asarray(values, float), [2.5, 97.5])
    return [float(low), float(high)]
