# SPDX-License-Identifier: Apache-2.0
"""Objects told, over the share of pictures asked about: by the rule of the region, and by others to compare with.

Both networks have looked at all pictures before; the region's own bookkeeping (:mod:`brain_regions.vision.asking` and
:mod:`brain_regions.vision.opinions`) runs over what they saw, with answers that take no time. :mod:`.joint_links` runs
the regions themselves.
"""
from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Callable, NamedTuple, Sequence

import numpy as np

from brain_regions.vision import opinions
from brain_regions.vision.asking import Asking, Picture, Rules, doubt
from brain_regions.vision.decode import Found
from brain_regions.vision.joint import JointParameters
from brain_regions.vision.second import SecondParameters
from brain_sim.robot import CAMERA_FORWARD, CAMERA_HFOV, CAMERA_RATE
from experiments.joint_course import Course, Driven, of_robots

Seen = Sequence[Sequence[list[Found]]]      # of ways and their pictures
DOUBTS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.8, 1.2)
SHARES = (0.05, 0.1, 0.15, 0.2, 0.3, 0.5)
ALWAYS = 1e-9       # rad of a turn that is always reached
MOST = 0.19         # of the pictures that may be asked about where the rule is chosen; elsewhere it is another share


class Eyes(NamedTuple):
    """Objects that both networks saw on the same ways.

    Attributes:
        held: the ways.
        all: all that the small one decodes.
        own: what it tells.
        large: what the large one answers.
    """

    held: Sequence[Driven]
    all: Seen
    own: Seen
    large: Seen


def answered(seen: Seen, threshold: float) -> list[list[list[Found]]]:
    """Returns the answers of the large network's region where the network decodes this."""
    least = SecondParameters().nearly
    return [[[one for one in opinions.scaled(picture, threshold) if one.confidence >= least] for picture in way]
            for way in seen]


def told(eyes: Eyes, rules: Rules, hard: Callable[[list[Found]], bool]) -> tuple[list[list[list[Found]]], float]:
    """Returns the objects told of each picture, and the share of pictures that was asked about."""
    found, asked, pictures = [], 0, 0
    for number, way in enumerate(eyes.held):
        asking, said = Asking(rules, half=CAMERA_HFOV / 2), []
        for frame, pose in enumerate(way.poses):
            asking.now = frame / CAMERA_RATE
            camera = opinions.camera(pose, CAMERA_FORWARD, 0.0)
            picture = Picture((frame, 0), list(eyes.own[number][frame]), camera, frame)
            if asking.take(picture, hard(eyes.all[number][frame])):
                asking.hear(picture.stamp, eyes.large[number][frame])
            said += [_objects(one, way) for one in asking.leave()]
        found.append(said)
        asked, pictures = asked + asking.counts["asked"], pictures + asking.counts["pictures"]
    return found, asked / pictures


def _objects(picture: Picture, way: Driven) -> list[Found]:
    if picture.answer is not None:
        return _sure(picture.answer.found)
    if picture.before is None or picture.pose is None:
        return picture.own
    then = opinions.camera(way.poses[picture.before.stamp[0]], CAMERA_FORWARD, 0.0)
    return opinions.carried(_sure(picture.before.found), picture.own, then, picture.pose, CAMERA_HFOV / 2)


def _sure(found: Sequence[Found]) -> list[Found]:
    return [one for one in found if one.confidence >= JointParameters().sure]


def curve(course: Course, eyes: Eyes, kind: str, rules: Rules) -> list[dict[str, Any]]:
    """F1 by share of pictures asked about.

    Args:
        course, eyes: of the experiment.
        kind: ``rule``: as the region does, for several bounds of doubt; ``single``: so, but an answer is good for its
            own picture alone; ``chance``: pictures are drawn at random, and an answer is good for its own picture;
            ``carried chance``: drawn at random, and an answer holds as long as it does for the rule.
        rules: of the region.
    """
    rng = np.random.default_rng(np.random.SeedSequence([course.seed, 0xC0DE]))
    found = []
    if kind in ("rule", "single"):
        used = rules if kind == "rule" else replace(rules, rate=1e3, carry=0.0)
        for bound in DOUBTS:
            seen, share = told(eyes, used, lambda all_: doubt(all_) >= bound)
            found.append({"doubt": bound, "share": share, **of_robots(course, seen, eyes.held)})
    else:
        used = replace(rules, rate=1e3, turn=ALWAYS, carry=rules.carry if kind == "carried chance" else 0.0)
        for wanted in SHARES:
            seen, share = told(eyes, used, lambda all_: bool(rng.random() < wanted))
            found.append({"share": share, **of_robots(course, seen, eyes.held)})
    return found


def chosen(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Of a curve of the rule the bound of doubt with the highest F1 that asks about few enough pictures, or fewest."""
    few = [one for one in found if one["share"] <= MOST] or [min(found, key=lambda one: one["share"])]
    return max(few, key=lambda one: one["f1"])


def gain(f1: float, small: float, large: float) -> float:
    """The part of the large network's gain over the small one that is had; NaN where there is none."""
    return (f1 - small) / (large - small) if large > small else math.nan
