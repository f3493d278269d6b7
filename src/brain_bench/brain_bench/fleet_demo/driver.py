# SPDX-License-Identifier: Apache-2.0
"""The process of a robot that drives: ``python -m brain_bench.fleet_demo.driver --folder FOLDER``.

It plays goals one after the other, each in a room of its own, with the ordinary brain in lockstep and the weights of
vision that the robot has when the goal begins. What it sees it writes into its album.
"""
from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any, Sequence

import numpy as np

from brain_bench.fleet_demo.album import Album
from brain_bench.fleet_demo.script import TEACHER, Given, put
from brain_eval.episodes import TRUTH, Referee, play, resolved_for
from brain_regions.vision.fitting import fitted
from brain_regions.vision.network import FOCAL
from brain_runtime import images
from brain_runtime.ablation import Ablation
from brain_runtime.ending import Ending, leave
from brain_runtime.hosts.local import LocalHost
from brain_runtime.stepper import RegionError
from brain_sim.suite import Episode
from brain_training.recordings.views import Mount, views
from brain_wire import shown
from brain_wire.waking import Flag

WORLD = "brain_bench.fleet_demo.dressed_world:DressedWorld"
WEIGHTS = "vision.safetensors"      # of the robot; while there is none, it has those that ship
GOALS, DOING = "goals.jsonl", "doing.json"
EVERY = 0.25                        # s between two pictures that are kept
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
        resolved = resolved_for(episode, join=(TRUTH,), ablation=Ablation(
            {"world": WORLD}, {"world": world, **vision}))
        host = LocalHost(resolved.make(), seed=episode.seed, critical=resolved.critical,
                         parameters=resolved.parameters())
        referee, eye = Referee(episode.id), _Eye(self._album)
        host.listen("sim/verdict", lambda message: referee.hear(message.data))
        host.listen("camera/image_raw", eye.see)
        host.listen(TEACHER, eye.hear)
        put(self._folder / DOING, json.dumps({"goal": number, "sentence": episode.sentence}).encode())
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
        with (self._folder / GOALS).open("a", encoding="utf-8") as file:
            file.write(json.dumps({"at": time.monotonic(), "goal": number, "sentence": episode.sentence, "outcome":
                                   found["outcome"], "reached": bool(found["success"]), "seconds": host.now}) + "\n")

    def episode(self, number: int) -> Episode:
        """The goal of a number: one of the kinds of things that this robot's world has."""
        given = self._given
        rng = np.random.default_rng(np.random.SeedSequence([given.seed, given.number, number]))
        color, shape = given.look.kinds[int(rng.integers(len(given.look.kinds)))]
        visibility = ("front", "behind", "hidden")[int(rng.integers(3))]
        return Episode(f"demo/{given.name}/{number}", "train", given.room(number), "go", f"go to the {color} {shape}",
                       "en", (color, shape), None, visibility, time_limit=given.goal_s)


class _Eye:
    """Puts pictures and what the teacher says of them together."""

    def __init__(self, album: Album) -> None:
        self._album = album
        self._picture: Any = None
        self._next = 0.0

    def see(self, message: Any) -> None:
        self._picture = message

    def hear(self, message: Any) -> None:
        stamp, picture = message.header.stamp, self._picture
        now = stamp.sec + 1e-9 * stamp.nanosec
        if picture is None or picture.header.stamp != stamp or now < self._next:
            return
        self._next = now + EVERY - 1e-6
        self._album.add(np.array(fitted(images.rgb(picture))), views(message, Mount(), FOCAL))


def goals(folder: Path) -> list[dict[str, Any]]:
    """Goals of a robot that have ended; a last line that a kill has torn is left out."""
    try:
        lines = (folder / GOALS).read_text(encoding="utf-8", errors="replace").split("\n")[:-1]
    except OSError:
        return []
    found = []
    for line in lines:
        with contextlib.suppress(ValueError):
            found.append(json.loads(line))
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Drives until SIGINT or SIGTERM; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--folder", type=Path, required=True)
    options = parser.parse_args(argv)
    ending = Ending()
    shown.log_to(sys.stderr, logging.INFO, "%(asctime)s %(levelname)s drive: %(message)s")
    with contextlib.suppress(OSError):
        os.nice(POLITE)
    try:
        Driver(Given.read(options.folder), options.folder, ending.asked).run()
    except (ValueError, OSError) as problem:
        print(f"brain fleet demo: {shown.line(problem)}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    leave(main())
