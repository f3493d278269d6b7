# SPDX-License-Identifier: Apache-2.0
"""The experiment of ``brain bench joint``: networks, pictures, and what each network answers to them.

The ground is that of ``brain bench federated``: eight robots whose rooms look unlike, and the vision that ships, which
has seen no such room. The large network has twice its hidden neurons and begins with what it computes; then it is
trained on pictures of all robots. The small one with the same training is beside it, to tell size from training.
"""
from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Callable, NamedTuple, Sequence

import numpy as np

from brain_regions.past import Pose
from brain_regions.vision import weights
from brain_regions.vision.decode import Found, decode
from brain_regions.vision.looking import Looking
from brain_regions.vision.network import SpikingVision
from brain_sim.camera import RayCamera, SeenObject
from brain_sim.mjcf import room_xml
from brain_sim.room import generate_room, split_rng
from brain_training import looks
from brain_training.driving import Drive
from brain_training.federated import Kept, VisionLearner, network_of, weights_of
from brain_training.lifelong.memory import joined
from brain_training.looks import Look
from brain_training.vision import STEPS
from brain_training.vision_data import Clips, Studio
from brain_training.vision_score import Tally
from brain_training.widening import widen

# first seeds of val, where no others of this project begin: rooms to choose by, rooms to report on, and rooms in looks
# of robots that nobody was trained with
CHOICE, REPORT, STRANGE = 500_000, 800_000, 900_000
SIZES = {"small": 1, "large": 2}        # times the hidden neurons


@dataclass(frozen=True)
class Course:
    """Size of the experiment.

    Attributes:
        robots: whose rooms look unlike.
        rooms, clips: of each robot, and in each room, to train on; a clip is one picture.
        steps, batch, rate: of both trainings; Adam, a rate that rises to ``rate`` and falls.
        held: rooms of each robot to choose by, as many to report on, and as many that look otherwise.
        way: pictures in each of them, 50 ms apart.
        seed: of looks, rooms and order.
    """

    robots: int = 8
    rooms: int = 60
    clips: int = 4
    steps: int = 1200
    batch: int = 8
    rate: float = 1e-3
    held: int = 6
    way: int = 40
    seed: int = 0


class Driven(NamedTuple):
    """A held-out way: uint8 pictures [frames, HEIGHT, WIDTH, 3], the visible objects and the base's pose of each."""

    images: np.ndarray
    objects: list[list[SeenObject]]
    poses: list[Pose]


def ways(course: Course, first: int, fleet: Sequence[Look]) -> list[Driven]:
    """Ways in rooms of ``val`` in each of some looks, with all kinds of objects."""
    found = []
    for number, look in enumerate(fleet):
        for held in range(course.held):
            seed = first + 100 * number + held
            room = replace(look, kinds=()).over(generate_room("val", seed))
            rng = split_rng("val", seed, "joint ways")
            camera, drive = RayCamera(room_xml(room)), Drive(room, rng)
            poses = drive.poses(drive.place(near=False), course.way)
            images, objects = [], []
            for pose in poses:
                images.append(camera.render(*pose, rng).copy())
                objects.append(camera.ground_truth_objects())
            found.append(Driven(np.stack(images), objects, poses))
    return found


def clips(course: Course) -> Clips:
    """Pictures of all robots' own rooms, to train on."""
    return joined([Studio(course.rooms, course.clips, 1, first_seed=10_000 * (100 * (course.seed + 1) + robot),
                          look=look).take_all()
                   for robot, look in enumerate(looks.fleet(course.robots, course.seed))])


def trained(course: Course, size: str, pictures: Callable[[], Clips], folder: Path | None) -> SpikingVision:
    """The network of a size after its training.

    Args:
        course: of the experiment.
        size: of :data:`SIZES`.
        pictures: to train on.
        folder: where a network of this course is kept, and found again; None: nowhere.

    Raises:
        WeightsError: what is kept there cannot be used.
    """
    times, made = SIZES[size], repr(course)
    path = None if folder is None else folder / f"vision-{size}.safetensors"
    if path is not None and path.is_file():
        network, report, _ = weights.load(path, times=times)
        if report.get("course") == made:
            return network
    learner = VisionLearner(Kept(pictures(), course.seed), course.seed)
    start = weights_of(widen(weights.load()[0], times, course.seed))
    found, _, _ = learner.fit(start, {"steps": course.steps, "batch": course.batch, "rate": course.rate,
                                      "adaptive": 1.0, "cycle": 1.0}, lambda: float("inf"))
    network = network_of(found).eval()
    if path is not None:
        keep(path, course, network, 0.5)
    return network


def keep(path: Path, course: Course, network: SpikingVision, threshold: float) -> None:
    """Writes a network that :class:`brain_regions.vision.second.SecondVision` takes."""
    weights.save(path, network, {"split": "train", "looks": course.robots, "seed": course.seed},
                 {"threshold": threshold, "course": repr(course)})


def answers(network: SpikingVision, held: Sequence[Driven], rest: bool) -> list[list[list[Found]]]:
    """Runs a folded network on each picture of each way; returns the objects that it sees.

    Args:
        network: folded.
        held: the ways.
        rest: each picture is looked at alone, by a network at rest; otherwise membranes carry along the way.
    """
    looking, found = Looking(network), []
    for way in held:
        state, seen = looking.rest(), []
        for picture in way.images:
            state = looking.look(picture, looking.rest() if rest else state, STEPS).state
            seen.append(decode(state["u"].T))
        found.append(seen)
    return found


def tallied(found: Sequence[Sequence[list[Found]]], held: Sequence[Driven]) -> Tally:
    """Tallies what was found against what there is."""
    tally = Tally()
    for seen, way in zip(found, held):
        for one, objects in zip(seen, way.objects):
            tally.add(one, objects)
    return tally


def cut(found: Sequence[Sequence[list[Found]]], threshold: float) -> list[list[list[Found]]]:
    """Only what is as sure."""
    return [[[one for one in seen if one.confidence >= threshold] for seen in way] for way in found]


def of_robots(course: Course, found: Sequence[Sequence[list[Found]]], held: Sequence[Driven]) -> dict[str, Any]:
    """F1 over all ways, and over those of each robot's look, of what is told."""
    per = [tallied(found[k * course.held:(k + 1) * course.held], held[k * course.held:(k + 1) * course.held])
           for k in range(course.robots)]
    return {"f1": tallied(found, held).at(0.0).f1, "robots": [one.at(0.0).f1 for one in per]}
