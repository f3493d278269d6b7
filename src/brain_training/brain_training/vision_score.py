# SPDX-License-Identifier: Apache-2.0
"""Scores of vision: F1 over objects of 10 visible pixels or more, and the errors of where they are.

A detection is right when an object of its color and shape, not matched by a surer one, is within 5 degrees of its
bearing. Objects that show fewer than 10 pixels are not asked for, and finding one of them is neither right nor wrong.
"""
from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from brain_eval.score.figures import expected_calibration_error
from brain_eval.score.looker import FLOOR
from brain_regions.vision.decode import Found
from brain_sim.camera import SeenObject
from brain_sim.things import COLORS, SHAPES
from brain_training.vision_data import CLEAR_PIXELS

WITHIN = math.radians(5.0)
KINDS = tuple((color, shape) for color in range(len(COLORS)) for shape in range(len(SHAPES)))


class Scores(NamedTuple):
    """Precision, recall and F1."""

    precision: float
    recall: float
    f1: float


def _scores(right: int, wrong: int, missed: int) -> Scores:
    return Scores(right / max(right + wrong, 1), right / max(right + missed, 1),
                  2 * right / max(2 * right + wrong + missed, 1))


@dataclass
class Tally:
    """Collects detections and what they were worth, picture by picture."""

    asked: list[int] = field(default_factory=list)
    detections: list[tuple[float, int, bool]] = field(default_factory=list)
    errors: list[tuple[float, float, float]] = field(default_factory=list)
    pictures: int = 0

    def __add__(self, other: Tally) -> Tally:
        """Returns both together."""
        return Tally(self.asked + other.asked, self.detections + other.detections, self.errors + other.errors,
                     self.pictures + other.pictures)

    def add(self, found: list[Found], objects: list[SeenObject]) -> None:
        """Takes what was found in one picture (surest first) and what is in it."""
        self.pictures += 1
        objects = [o for o in objects if o.color in COLORS and o.shape in SHAPES]
        kinds = [COLORS.index(o.color) * len(SHAPES) + SHAPES.index(o.shape) for o in objects]
        self.asked += [k for k, o in zip(kinds, objects) if o.pixels >= CLEAR_PIXELS]
        free = list(range(len(objects)))
        for detection in found:
            kind = detection.color * len(SHAPES) + detection.shape
            near = [k for k in free if kinds[k] == kind and abs(objects[k].camera_bearing - detection.bearing) < WITHIN]
            if not near:
                self.detections.append((detection.confidence, kind, False))
                continue
            match = min(near, key=lambda k: abs(objects[k].camera_bearing - detection.bearing))
            free.remove(match)
            seen = objects[match]
            if seen.pixels < CLEAR_PIXELS:
                continue
            self.detections.append((detection.confidence, kind, True))
            self.errors.append((detection.confidence, abs(detection.bearing - seen.camera_bearing),
                                abs(detection.distance / seen.camera_distance - 1.0)))

    def at(self, threshold: float, kind: int | None = None) -> Scores:
        """Scores of all detections at least so sure; of one color and shape (number in KINDS) where given."""
        chosen = [right for confidence, k, right in self.detections
                  if confidence >= threshold and kind in (None, k)]
        asked = len(self.asked) if kind is None else self.asked.count(kind)
        right = sum(chosen)
        return _scores(right, len(chosen) - right, asked - right)

    def best_threshold(self) -> float:
        """The confidence from which on F1 is highest."""
        if not self.detections:
            return 0.5
        confidence = np.array([d[0] for d in self.detections])
        right = np.array([d[2] for d in self.detections], float)
        order = np.argsort(-confidence, kind="stable")
        hits = np.cumsum(right[order])
        f1 = 2 * hits / (np.arange(1, len(hits) + 1) + len(self.asked))
        return float(confidence[order][int(f1.argmax())])

    def quiet_threshold(self, false: float) -> float:
        """The confidence from which on there are at most so many false detections a picture."""
        wrong = sorted((confidence for confidence, _, right in self.detections if not right), reverse=True)
        allowed = int(false * self.pictures)
        return float(np.nextafter(wrong[allowed], 1.0)) if len(wrong) > allowed else 0.0

    def report(self, threshold: float) -> dict:
        """Figures at a threshold: scores, scores by kind, and errors of bearing (rad) and distance (share)."""
        overall = self.at(threshold)
        errors = np.array([e[1:] for e in self.errors if e[0] >= threshold]).reshape(-1, 2)
        sure = np.array([(confidence, right) for confidence, _, right in self.detections if confidence >= FLOOR])
        return {
            "objects": len(self.asked), "threshold": threshold, **overall._asdict(),
            "false_a_picture": sum(confidence >= threshold and not right for confidence, _, right in self.detections)
            / max(self.pictures, 1),
            "calibration_error": expected_calibration_error(*sure.T) if len(sure) else math.nan,
            "by_kind": {f"{COLORS[c]} {SHAPES[s]}": self.at(threshold, k).f1 for k, (c, s) in enumerate(KINDS)},
            "bearing_mean": float(errors[:, 0].mean()) if len(errors) else math.nan,
            "bearing_p95": float(np.percentile(errors[:, 0], 95)) if len(errors) else math.nan,
            "distance_median": float(np.median(errors[:, 1])) if len(errors) else math.nan,
            "distance_p95": float(np.percentile(errors[:, 1], 95)) if len(errors) else math.nan,
        }
