# SPDX-License-Identifier: Apache-2.0
"""The process of a robot that drives: ``python -m brain_training.fleet_demo.driver --folder FOLDER``.

It plays goals one after the other, each in a room of its own, with the ordinary brain in lockstep and the weights of
vision that the robot has when the goal begins. What its camera sees it writes into its album, with what the simulator,
its teacher, says that each ray of the picture has met.
"""
from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import sys
import time
from collections import deque
from dataclasses import asdict
from pathlib import Path
from typing import Any, Sequence

import numpy as np

from brain_training.fleet_demo.album import Album
from brain_training.fleet_demo.robot_folder import WEIGHTS, Given, begin_goal, end_goal, goals
from brain_eval.episodes import Referee, play, resolved_for
from brain_regions.vision.network import directions
from brain_runtime.contract import images
from brain_runtime.contract.ablation import Ablation
from brain_runtime.run.ending import Ending, leave
from brain_runtime.hosts.local import LocalHost
from brain_runtime.contract.stepper import RegionError
from brain_sim.camera import RayCamera
from brain_sim.camera_region import camera_of, planar_pose
from brain_sim.suite import Episode
from brain_training.vision_data import usual, what_is_seen
from brain_wire import safe_text
from brain_wire.wakeup import Flag

WORLD = "brain_training.fleet_demo.dressed_world:DressedWorld"
EVERY = 0.4                         # s between two pictures that are kept
POSES = 64                          # that are remembered, until the picture of one has come
POLITE = 10                         # as what learns has: both get their share of a machine that is busy

log = logging.getLogger("brain.demo")


class _Ended(Exception):
    """The process is to end."""


class Driver:
    """A robot that drives until it is told to end.

    Args:
        given: what the robot is.
        folder: of the robot.
        stop: ends it.
    """

    def __init__(self, given: Given, folder: Path, stop: Flag) -> None:
        self._given, self._folder, self._stop = given, folder, stop
        self._album = Album(folder)

    def run(self) -> None:
        """Plays goals; who was killed goes on with the one after those that have ended."""
        number = len(goals(self._folder))
        while not self._stop.is_set():
            try:
                self._play(number)
            except _Ended:
                break
            number += 1
        self._album.flush()

    def _play(self, number: int) -> None:
        episode = self.episode(number)
        weights = self._folder / WEIGHTS
        vision = {"vision": {"weights": str(weights)}} if weights.exists() else {}
        world = {"look": json.dumps(asdict(self._given.look)), "split": episode.split, "seed": episode.seed}
        resolved = resolved_for(episode, ablation=Ablation({"world": WORLD}, {"world": world, **vision}))
        host = LocalHost(resolved.make(), seed=episode.seed, critical=resolved.critical,
                         parameters=resolved.parameters())
        referee, eye = Referee(episode.id), _Eye(self._album)
        host.listen("sim/verdict", lambda message: referee.hear(message.data))
        host.listen("sim/world", eye.enter)
        host.listen("sim/ground_truth", eye.stand)
        host.listen("camera/image_raw", eye.see)
        begin_goal(self._folder, number, episode.sentence)
        began, error = time.monotonic(), ""

        def look(since: float) -> None:
            ahead = host.now / self._given.pace - (time.monotonic() - began)
            if self._stop.is_set() or self._stop.wait(max(0.0, min(ahead, 1.0))):
                raise _Ended

        try:
            play(host, episode, episode.script, referee, look)
        except RegionError as raised:
            error = str(raised)
            log.warning("goal %d: %s", number, error)
        self._album.flush()
        found = referee.result(episode, error)
        end_goal(self._folder, {"at": time.monotonic(), "goal": number, "sentence": episode.sentence, "outcome":
                                found["outcome"], "reached": bool(found["success"]), "seconds": round(host.now, 3)})

    def episode(self, number: int) -> Episode:
        """The goal of a number: one of the kinds of things that this robot's world has."""
        given = self._given
        rng = np.random.default_rng(np.random.SeedSequence([given.seed, given.number, number]))
        color, shape = given.look.kinds[int(rng.integers(len(given.look.kinds)))]
        visibility = ("front", "behind", "hidden")[int(rng.integers(3))]
        return Episode(f"demo/{given.name}/{number}", "train", given.room(number), "go", f"go to the {color} {shape}",
                       "en", (color, shape), None, visibility, time_limit=given.goal_s)


class _Eye:
    """Takes some of the camera's pictures, and has the simulator say what is in them."""

    def __init__(self, album: Album) -> None:
        self._album = album
        self._camera: RayCamera | None = None
        self._radii: dict[str, float] = {}
        self._poses: deque[Any] = deque(maxlen=POSES)
        self._next = 0.0

    def enter(self, message: Any) -> None:
        """Of a new room."""
        self._camera = camera_of(message.data, directions=directions())
        self._radii = {one["name"]: one["radius"] for one in json.loads(message.data)["room"]["objects"]}

    def stand(self, message: Any) -> None:
        """Of where the robot is."""
        self._poses.append(message)

    def see(self, message: Any) -> None:
        """Of a picture, whose stamp is that of the pose that it was taken at."""
        stamp = message.header.stamp
        now = stamp.sec + 1e-9 * stamp.nanosec
        pose = next((one for one in reversed(self._poses) if one.header.stamp == stamp), None)
        if self._camera is None or pose is None or now < self._next:
            return
        self._next = now + EVERY - 1e-6
        self._album.add(usual()[1](images.rgb(message)), *what_is_seen(self._camera, self._radii, planar_pose(pose)))


def main(argv: Sequence[str] | None = None) -> int:
    """Drives until SIGINT or SIGTERM; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--folder", type=Path, required=True)
    options = parser.parse_args(argv)
    ending = Ending()
    safe_text.log_to(sys.stderr, logging.INFO, "%(asctime)s %(levelname)s drive: %(message)s")
    with contextlib.suppress(OSError):
        os.nice(POLITE)
    try:
        Driver(Given.read(options.folder), options.folder, ending.asked).run()
    except (ValueError, OSError) as problem:
        print(f"brain fleet demo: {safe_text.line(problem)}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    leave(main())
