# SPDX-License-Identifier: Apache-2.0
"""A cloud's roll-out, killed by SIGKILL before and after its every commit, and gone on with by another process.

With ``all`` it is killed at every statement. Prints for each way (a good model, a bad one, those that a person takes
back) how many statements there were, and what was wrong at the end.
"""
from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any, Callable

from brain_cloud.models.registry import Registry
from brain_cloud.models.rollouts import Rollouts
from brain_cloud.state.desired import FROM_CLOUD, Desired, hear
from brain_edge.messages.inbox import Message
from brain_edge.messages.outbox import Outbox
from brain_edge.models.model_file import OWN
from brain_cloud.models.signing import state
from brain_edge.state.manifests import Resource
from brain_edge.store import Store

from model_stage import big_model

ROBOTS = ("robot1", "robot2", "robot3")
# Who had an order before: all, some, nobody.
WAYS: dict[str, tuple[str, ...] | None] = {"good": None, "bad": None, "back": None, "back to some": ("robot1",),
                                           "back to none": ()}


class World:
    """A cloud, and robots that do as they are told: all of it is in the database, so any process can go on with it."""

    def __init__(self, folder: Path) -> None:
        self.store = Store(folder, "cloud")
        self.store._db.execute("PRAGMA synchronous=OFF")    # the machine is not killed
        self.desired = Desired(Outbox(self.store, FROM_CLOUD))
        self.registry = Registry(self.store)
        self.rollouts = Rollouts(self.store, self.desired, self.registry)

    def prepare(self, folder: Path, before: tuple[str, ...] | None) -> list[str]:
        """Two models, three robots, and an order of the first model for those of ``before``; returns the digests."""
        digests = []
        for number in range(2):
            path = folder / f"{number}.safetensors"
            digests.append(big_model(path, 100, number))
            self.registry.put(digests[-1], 0, path.read_bytes())
            self.registry.add(state(digests[-1], "motor", path.stat().st_size, "", "", None), "ann")
        with self.store.change() as db:
            db.executemany("INSERT INTO peers (name, incarnation, epoch) VALUES (?, 'a', 'b')", [(r,) for r in ROBOTS])
            if before != ():
                self.desired.apply(db, Resource("Model", "motor", before, {"region": "motor", "digest": digests[0]}),
                                   "ann")
        return digests

    def effective(self, robot: str) -> str:
        """What a robot has: of the orders of its motor's weights the one that was given last."""
        rows = self.store.read("SELECT json_extract(spec, '$.digest') FROM desired WHERE robot = ? AND kind = 'Model' "
                               "ORDER BY version DESC LIMIT 1", (robot,))
        return rows[0][0] if rows else OWN

    def turn(self, new: str, good: bool) -> None:
        """Robots report what is news of their orders, then each reaches a goal, or does not."""
        for robot in ROBOTS:
            rows = self.store.read(
                "SELECT kind, name, desired.version, json_extract(spec, '$.digest') FROM desired LEFT JOIN reported "
                "USING (robot, kind, name) WHERE robot = ? AND reported.version IS NOT desired.version", (robot,))
            for kind, name, version, digest in rows:
                told = {"state": "applied" if digest == self.effective(robot) else "refused"}
                with self.store.change() as db:
                    hear(db, Message(robot, "reports", 1, "report", {"kind": kind, "name": name, "version": version,
                                                                     "status": told}))
        for robot in ROBOTS:
            digest = self.effective(robot)
            outcome = "reached" if good or digest != new else "not_found"
            with self.store.change() as db:
                hear(db, Message(robot, "goals", 1, "goal", {"outcome": outcome, "reflexes": 0, "seconds": 9.0,
                                                             "weights": {"motor": digest[7:23]}}))
        self.rollouts.look()

    def run(self, digests: list[str], way: str) -> None:
        """The whole way, from wherever it is."""
        if not self.rollouts.told():
            self.rollouts.begin(digests[1], None, ["robot2"], goals=2, when="idle", expect=0.9, person="ann")
        for _ in range(40):
            (one,) = self.rollouts.told()
            if one["state"] == "rolled_back" or (one["state"] == "done" and way == "good"):
                return
            if one["state"] == "done" and way != "bad":
                self.rollouts.back("motor", "ann")
            self.turn(digests[1], way != "bad")
        raise AssertionError(f"it never ended: {self.rollouts.told()}")

    def wrong(self, digests: list[str], way: str) -> str:
        """What is not as it has to be at the end; empty: nothing."""
        (one,) = self.rollouts.told()
        if one["state"] != ("done" if way == "good" else "rolled_back"):
            return f"it is {one['state']}"
        before, new = WAYS[way], digests[way == "good"]
        orders = self.store.read("SELECT name, robots, json_extract(spec, '$.digest'), json_extract(spec, '$.when') "
                                 "FROM resources")
        robots = '"all"' if before is None else json.dumps(list(before))
        if orders != ([("motor", robots, new, "idle" if way == "good" else None)] if before != () else []):
            return f"it orders {orders}"
        for robot in ROBOTS:
            held: dict[str, Any] = {}   # by what it was told, in that order
            has = [OWN]                 # what its region was given: an order that is taken back changes nothing
            for kind, body in self.store.read("SELECT kind, body FROM outbox WHERE peer = ? AND body IS NOT NULL ORDER "
                                              "BY seq", (robot,)):
                message = json.loads(body)
                if kind == "set":
                    held[message["name"]] = message["spec"]
                    has.append(message["spec"]["digest"])
                elif kind == "delete":
                    held.pop(message["name"], None)
            named = before is None or robot in before
            if {name: spec["digest"] for name, spec in held.items()} != ({"motor": new} if named else {}):
                return f"{robot} was told {held}"
            if has[-1] != (new if named else OWN):
                return f"{robot} was given {has} at last"
        return ""


def in_child(work: Callable[[], None]) -> int:
    """Does something in a process of its own; returns its status, negative where it was killed."""
    child = os.fork()
    if not child:
        try:
            work()
            os._exit(0)
        except BaseException as error:
            print(repr(error), flush=True)
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def attempt(folder: Path, digests: list[str], way: str, kill_at: int | None) -> list[str]:
    """Runs, and is killed at a statement; returns the statements that there were."""
    world, seen = World(folder), []

    def statement(text: str) -> None:
        seen.append(text)
        if len(seen) == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    world.store._db.set_trace_callback(statement)
    world.run(digests, way)
    world.store.close()
    return seen


def main(base: Path, every: bool) -> None:
    for way, before in WAYS.items():
        shutil.rmtree(base / "first", ignore_errors=True)
        world = World(base / "first")
        digests = world.prepare(base, before)
        world.store.close()
        shutil.copytree(base / "first", base / way)
        seen = attempt(base / way, digests, way, None)
        commits = [number for number, text in enumerate(seen, 1) if text == "COMMIT"]
        places = range(1, len(seen) + 1) if every else [at for number in commits for at in (number, number + 1)
                                                        if at <= len(seen)]
        problems: list[str] = []
        for number in places:
            shutil.rmtree(base / "one", ignore_errors=True)
            shutil.copytree(base / "first", base / "one")
            status = in_child(lambda: attempt(base / "one", digests, way, number) and None)
            if status != -signal.SIGKILL:
                problems.append(f"{number}: status {status}")
                continue
            world = World(base / "one")
            try:
                world.run(digests, way)
                why = world.wrong(digests, way)
            except AssertionError as error:
                why = str(error)
            world.store.close()
            if why:
                problems.append(f"{number}: {why}")
        print(json.dumps({"way": way, "statements": len(seen), "kills": len(places), "wrong": problems[:3]}),
              flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:] == ["all"])
