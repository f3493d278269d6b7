# SPDX-License-Identifier: Apache-2.0
"""`brain bench cameras`: what vision finds through other cameras than the one that the simulator's robot has.

A robot turns in rooms of ``val`` and sees them by cameras of other heights, tilts, fields of view and sizes, those of
the shipped profiles among them, and by some that are drawn as training draws them. Objects count that cover 10 pixels
of a level picture.
"""
from __future__ import annotations

import dataclasses
import math
from typing import Annotated, Any, Iterator, NamedTuple

import numpy as np
import typer

from brain_eval.bench.experiment import Experiment
from brain_regions.vision import weights
from brain_regions.vision.decode import named
from brain_regions.vision.fovea import Fovea
from brain_regions.vision.levelling import sight
from brain_regions.vision.network import RESOLUTION, Looking, Rates
from brain_regions.vision.region import FIRST_STEPS
from brain_runtime.contract.camera_mount import USUAL, CameraParameters
from brain_runtime.contract.images import Lens
from brain_runtime.contract.optics import Mount
from brain_runtime.graph.robots import SIM, load_robot, shipped
from brain_sim.camera import RayCamera
from brain_sim.mjcf import room_xml
from brain_sim.room import generate_room
from brain_training.vision import STEPS
from brain_training.vision_score import Tally

FIRST = 900_000         # seed of the first room
TURN = 0.12             # rad from a picture to the next
DRAWN = math.radians(20.0), math.radians(10.0), (math.radians(50.0), math.radians(120.0)), (0.08, 1.2)
FIELDS = tuple(field.name for field in dataclasses.fields(CameraParameters))


class Camera(NamedTuple):
    """A camera: for a person, its mounting, its horizontal view (rad), columns and rows."""

    name: str
    mount: Mount = USUAL
    view: float = math.pi / 2
    size: tuple[int, int] = (320, 240)


def cameras() -> list[Camera]:
    """The usual one, with one thing changed each, and those of the shipped profiles."""
    def other(**values: float) -> Mount:
        return dataclasses.replace(USUAL, **values)

    degrees = math.radians
    found = [Camera("level, 0.35 m high, a view of 90°, 320 x 240"),
             Camera("640 x 480", size=(640, 480)), Camera("96 x 64", size=(96, 64)),
             *(Camera(f"pitched by {by}°", other(pitch=degrees(by))) for by in (-20, -10, -5, -3, 3, 5, 10, 20)),
             Camera("rolled by 10°", other(roll=degrees(10))),
             *(Camera(f"a view of {view}°", view=degrees(view)) for view in (50, 62, 120)),
             *(Camera(f"{height} m high", other(height=height)) for height in (0.08, 0.10, 0.20, 0.60, 1.0, 1.2))]
    for name in shipped():
        robot = load_robot(name)
        values = {key: value for key, value in {**robot.shared, **robot.regions.get("vision", {})}.items()
                  if key in FIELDS}
        if name != SIM and values:
            told, kit = CameraParameters(**values), robot.kit["camera"]
            found.append(Camera(name, told.mount, told.field_of_view, (kit["width"], kit["height_px"])))
    return found


def drawn(count: int, seed: int) -> Iterator[Camera]:
    """Cameras at random, even over the ranges that vision is made for; heights by their logarithm."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        pitch, roll, view, height = DRAWN
        mount = dataclasses.replace(USUAL, height=float(np.exp(rng.uniform(*np.log(height)))),
                                    pitch=float(rng.uniform(-pitch, pitch)), roll=float(rng.uniform(-roll, roll)))
        yield Camera(f"drawn {number + 1}", mount, float(rng.uniform(*view)),
                     ((160, 120), (320, 240))[int(rng.integers(2))])


def tallied(camera: Camera, live: dict[str, Looking | Rates], foveas: dict[str, Fovea], rooms: int, pictures: int
            ) -> dict[str, Tally]:
    """Tallies what networks find through a camera, membranes carried; the first picture of a room is only looked at."""
    columns, rows = camera.size
    focal = columns / 2 / math.tan(camera.view / 2)
    lens, tallies = Lens(focal, columns, rows, columns / 2, rows / 2), {side: Tally() for side in live}
    level = sight(lens, camera.mount.pitch, camera.mount.roll).level
    share = (focal * RESOLUTION) ** 2       # pixels of the camera for one of a level picture
    for seed in range(FIRST, FIRST + rooms):
        room, rng = generate_room("val", seed), np.random.default_rng(seed)
        seen = RayCamera(room_xml(room), columns, rows, camera.view, mount=camera.mount)
        x, y, yaw = room.start
        states = {side: network.rest() for side, network in live.items() if isinstance(network, Looking)}
        for number in range(pictures + 1):
            taken = seen.render(x, y, yaw + TURN * number, rng)
            picture = level(taken)
            there = [dataclasses.replace(one, pixels=int(one.pixels / share)) for one in seen.ground_truth_objects()]
            for side, network in live.items():
                if isinstance(network, Looking):
                    looked = network.look(picture, states[side], STEPS if number else FIRST_STEPS)
                    states[side], answer = looked.state, looked.state["u"].T
                else:
                    answer = network.answer(picture).T
                if number:
                    votes = foveas[side].votes(answer, taken, lens, camera.mount).found
                    tallies[side].add(named(votes, camera.mount.height), there)
    return tallies


class Cameras(Experiment):
    """F1 of vision, and of its ANN baseline, through cameras of other mountings and lenses."""

    cpu = True
    quick = {"rooms": 1, "pictures": 2, "random": 1}

    def measure(self, rooms: Annotated[int, typer.Option(min=1, help="Rooms of val for each camera.")] = 6,
                pictures: Annotated[int, typer.Option(min=1, help="Pictures in each room.")] = 8,
                random: Annotated[int, typer.Option(min=1, help="Cameras that are drawn.")] = 20,
                seed: Annotated[int, typer.Option(min=0, help="Of these.")] = 1) -> dict[str, Any]:
        """Looks through all of them.

        Returns:
            ``cameras``: of each its ``name``, mounting and view (degrees), ``objects`` asked for, and figures of
            ``spiking`` and ``baseline``; ``drawn``: ``least``, ``median`` and ``most`` F1 of the spiking one through
            those that were drawn.
        """
        loaded = {"spiking": weights.load(), "baseline": weights.load(weights.ANN, ann=True)}
        live: dict[str, Looking | Rates] = {
            "spiking": Looking(loaded["spiking"].tensors), "baseline": Rates(loaded["baseline"].tensors)}
        least = {"spiking": weights.threshold(weights.SHIPPED, loaded["spiking"]),
                 "baseline": weights.threshold(weights.ANN, loaded["baseline"])}
        foveas = {"spiking": Fovea(), "baseline": Fovea(weights.FOVEA_ANN, ann=True)}
        found, scores = [], []
        for camera in (*cameras(), *drawn(random, seed)):
            self.status(camera.name)
            row: dict[str, Any] = {"name": camera.name, "height": camera.mount.height, "columns": camera.size[0],
                                   **{key: math.degrees(value) for key, value in (
                                       ("pitch", camera.mount.pitch), ("roll", camera.mount.roll),
                                       ("view", camera.view))}}
            for side, tally in tallied(camera, live, foveas, rooms, pictures).items():
                report = tally.report(least[side])
                row["objects"] = report["objects"]
                row[side] = {"f1": report["f1"], "precision": report["precision"], "recall": report["recall"],
                             "bearing_degrees": math.degrees(report["bearing_mean"]),
                             "distance_median": report["distance_median"]}
            found.append(row)
            if camera.name.startswith("drawn "):
                scores.append(row["spiking"]["f1"])
        return {"cameras": found, "drawn": {"least": min(scores), "median": float(np.median(scores)),
                                            "most": max(scores)}}
