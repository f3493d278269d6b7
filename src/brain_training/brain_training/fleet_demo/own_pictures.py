# SPDX-License-Identifier: Apache-2.0
"""Learner of a robot of the demo: the entry point ``driving`` of brain.learners, run by ``brain fleet learn``.

It trains vision as :mod:`brain_training.federated` does, on what the robot has seen up to now. Before that it examines
the weights that the fleet has made: in held-out rooms that look as this robot's do, for the figure that is shown, and
on the robot's own pictures that were kept back. Where they are better there, the robot drives with them from its next
goal on.
"""
from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any, Callable, Mapping, Sequence

import numpy as np

from brain_training.fleet_demo.album import Reader
from brain_training.fleet_demo.robot_folder import TEACHER, WEIGHTS, Given
from brain_regions.vision import weights as weight_file
from brain_training.definitions import vision as definition
from brain_training.federated import Kept, VisionLearner, network_of
from brain_training.vision import test_on
from brain_training.vision_data import Way, make_ways

THRESHOLD_ROOMS, REPORT_ROOMS = 500_000, 600_000    # first seeds of val; each robot, and seed, has others


class DrivingLearner:
    """Trains on what a robot has seen.

    Args:
        folder: of the robot.
        seed: of the order of pictures.

    Raises:
        ValueError: the folder is none, or its weights cannot be used.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        given = Given.read(folder)
        self._folder, self._seed, self._fits = folder, seed, 0
        self._album = Reader(folder)
        every = replace(given.look, kinds=())       # a robot is to know what its fleet has seen, too
        first = 1000 * (given.seed % 50) + 100 * (given.number % 10)
        self._threshold, self._report = (list(make_ways(given.held, given.way, split="val", first_seed=start + first,
                                                        look=every)) for start in (THRESHOLD_ROOMS, REPORT_ROOMS))
        path = folder / WEIGHTS
        path = path if path.exists() else weight_file.SHIPPED
        network, loaded = definition.load(path)
        self._has = network, weight_file.threshold(path, loaded)

    def fit(self, weights: Mapping[str, np.ndarray], config: Mapping[str, float], left: Callable[[], float]
            ) -> tuple[dict[str, np.ndarray], int, Mapping[str, float]]:
        """See :class:`brain_cloud.federated.learner.Learner`.

        Beside what training tells: ``f1`` in held-out rooms of the weights that it was given; ``own`` and ``had``, F1
        on what the robot has kept back with these and with those that it had; ``taken``, 1 where it took them.

        Raises:
            ValueError: the weights are not vision's, or there are no pictures yet, or no time.
        """
        told = self._examine(network_of(weights).eval())
        clips = self._album.clips()
        if clips is None:
            raise ValueError("this robot has taken no pictures yet")
        self._fits += 1
        learner = VisionLearner(Kept(clips, self._seed), 1000 * self._seed + self._fits)
        found, examples, more = learner.fit(weights, config, left)
        return found, examples, {**more, **told}

    def _examine(self, network: Any) -> dict[str, float]:
        threshold = test_on(network, self._threshold).best_threshold()
        told = {"f1": _f1(network, self._report, threshold), "taken": 0.0}
        kept = self._album.ways()
        if not kept or _same(network, self._has[0]):
            return told
        told |= {"own": _f1(network, kept, threshold), "had": _f1(self._has[0], kept, self._has[1])}
        if told["own"] > told["had"]:
            self._take(network, threshold, told)
            told["taken"] = 1.0
        return told

    def _take(self, network: Any, threshold: float, told: Mapping[str, float]) -> None:
        """Gives the robot other weights: it finds the old file or the new one, whole."""
        beside = self._folder / f"new-{WEIGHTS}"
        definition.save(beside, network, {"split": "train", "by": "a fleet's rounds, brain fleet demo"},
                        {"threshold": threshold, "f1": told["f1"]})
        os.replace(beside, self._folder / WEIGHTS)
        self._has = network, threshold


def _f1(network: Any, ways: Sequence[Way], threshold: float) -> float:
    return test_on(network, ways).at(threshold).f1


def _same(one: Any, other: Any) -> bool:
    return all(bool((value == other.state_dict()[name]).all()) for name, value in one.state_dict().items())


def driving(data: Sequence[str], labels: str, seed: int) -> DrivingLearner:
    """The learner of a robot's folder.

    Args:
        data: that folder.
        labels: :data:`.robot_folder.TEACHER`, since the album has no others.
        seed: of the order of pictures.

    Raises:
        ValueError: there is not one folder, or it is none, or other labels are asked for.
    """
    import torch

    if len(data) != 1:
        raise ValueError(f"driving learns from one robot's folder of `brain fleet demo`, not from {len(data)}")
    if labels != TEACHER:
        raise ValueError(f"the pictures of `brain fleet demo` have the labels {TEACHER}; give --labels {TEACHER}")
    torch.set_num_threads(1)    # the robots share one machine
    return DrivingLearner(Path(data[0]), seed)
