# SPDX-License-Identifier: Apache-2.0
"""Two ends that send each other numbered messages, while their link is cut and they are killed at random.

Counted is outside: what each end said that it had accepted, before it was killed, and what its peer's table holds at
the end. The tables must hold each number once and in order.
"""
from __future__ import annotations

import json
import random
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable

from brain_cloud.checks.end import ROBOT
from brain_cloud.checks.relay import Relay
from brain_edge.store import FILE
from brain_security.fleet_keys import CLOUD
from brain_wire.router import free_port

# How many of all messages each end makes in each stream.
SHARES = {ROBOT: {"a": 0.5, "b": 0.2}, CLOUD: {"a": 0.2, "b": 0.1}}
BEFORE_CUT = 0.4        # s at most that a link lasts
GIVE_UP = 300.0         # s without any progress after which it is said that messages do not arrive


class NotArrived(RuntimeError):
    """Messages were lost, doubled, out of order, or do not arrive at all; says which."""


class Member:
    """One end's process, which can be killed and started again.

    Args:
        role: :data:`ROBOT` or :data:`CLOUD`.
        folder: of its database.
        port: where it listens, or connects.
        log: file that takes what it says on standard error.
    """

    def __init__(self, role: str, folder: Path, port: int, log: Path) -> None:
        self.role, self._folder, self._port, self._log = role, folder, port, log
        self.said: dict[str, Any] = {"made": {}, "arrived": {}, "waiting": 0, "apart": None}
        self.kills = 0
        self._targets = "{}"
        self._process: subprocess.Popen[str] | None = None
        self.start()

    def start(self) -> None:
        """Starts it."""
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "brain_cloud.checks.end", self.role, str(self._folder), str(self._port)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)
        threading.Thread(target=self._listen, args=(self._process,), daemon=True).start()
        self._send()

    def _listen(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            if line.endswith("}\n"):    # it may be killed within a line
                self.said = json.loads(line)

    def _send(self) -> None:
        assert self._process is not None and self._process.stdin is not None
        try:
            print(self._targets, file=self._process.stdin, flush=True)
        except BrokenPipeError as error:
            raise NotArrived(f"{self.role} has ended; see {self._log}") from error

    def target(self, targets: dict[str, int]) -> None:
        """Sets how many messages of each stream are to be made, and tells the process."""
        self._targets = json.dumps(targets)
        self._send()

    def kill(self) -> None:
        """Ends it by SIGKILL, and starts it again."""
        self.stop(hard=True)
        self.kills += 1
        self.start()

    def stop(self, hard: bool = False) -> None:
        """Ends it."""
        assert self._process is not None and self._process.stdin is not None
        self._process.kill() if hard else self._process.terminate()
        self._process.wait(30.0)
        self._process.stdin.close()
        self._process.stdout.close() if self._process.stdout is not None and not hard else None


@dataclass
class Ordeal:
    """Settings of a run and its results: messages, cuts of the link, and kills.

    Attributes:
        messages, cuts, kills: how many; kills are of either end in turn.
        seed: of the moments.
        took: s.
        cut, killed: how many there were.
        arrived: messages by end and stream.
    """

    messages: int
    cuts: int
    kills: int
    seed: int = 0
    took: float = 0.0
    cut: int = 0
    killed: dict[str, int] = field(default_factory=dict)
    arrived: dict[str, dict[str, int]] = field(default_factory=dict)


class Link:
    """Two ends, and a link between them.

    Args:
        folder: for their databases and logs.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, port = folder, free_port()
        folder.mkdir(parents=True, exist_ok=True)
        self.cloud = Member(CLOUD, folder / CLOUD, port, folder / "cloud.log")
        self.relay = Relay(port)
        self.robot = Member(ROBOT, folder / ROBOT, self.relay.port, folder / "robot.log")
        self.members = (self.robot, self.cloud)

    def close(self) -> None:
        """Ends all."""
        for member in self.members:
            member.stop()
        self.relay.close()

    def __enter__(self) -> Link:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def wait(self, done: Callable[[], bool], what: str) -> None:
        """Waits until something is so, as long as anything goes on.

        Raises:
            NotArrived: nothing does any more.
        """
        before, since = None, time.monotonic()
        while not done():
            now = json.dumps([member.said for member in self.members])
            if now != before:
                before, since = now, time.monotonic()
            if time.monotonic() - since > GIVE_UP:
                raise NotArrived(f"{what}: nothing went on for {GIVE_UP:.0f} s; {now}")
            time.sleep(0.01)

    def all_arrived(self, targets: dict[str, dict[str, int]]) -> bool:
        """Checks whether all that is to be made is made and applied, as the ends say."""
        return all(mine.said["made"] == targets[mine.role] and other.said["arrived"] == targets[mine.role]
                   for mine, other in (self.members, self.members[::-1]))


def run(folder: Path, ordeal: Ordeal, progress: Callable[[str], None] = lambda text: None) -> Ordeal:
    """Goes through it.

    Raises:
        NotArrived: see there.
    """
    draw, began = random.Random(ordeal.seed), time.monotonic()
    promised: dict[str, dict[str, int]] = {ROBOT: {}, CLOUD: {}}
    whole = _targets(ordeal.messages, 1.0)
    with Link(folder) as link:
        every = max(1, ordeal.cuts // max(1, ordeal.kills))
        while link.relay.cuts < ordeal.cuts or sum(member.kills for member in link.members) < ordeal.kills:
            number = link.relay.cuts
            part = _targets(ordeal.messages, min(1.0, (number + 1) / max(1, ordeal.cuts)))
            for member in link.members:
                member.target(part[member.role])
            link.wait(link.relay.linked, "a link")
            time.sleep(draw.uniform(0.0, BEFORE_CUT))
            kills = sum(member.kills for member in link.members)
            if kills < ordeal.kills and number >= kills * every:
                victim = link.members[kills % 2]
                _promise(promised, link)
                victim.kill()
            link.relay.cut()
            if number % 50 == 0:
                progress(f"{link.relay.cuts} cuts, {sum(m.kills for m in link.members)} kills, "
                         f"{sum(sum(m.said['arrived'].values()) for m in link.members)} messages arrived")
        for member in link.members:
            member.target(whole[member.role])
        link.wait(lambda: link.all_arrived(whole), "the rest")
        ordeal.cut, ordeal.killed = link.relay.cuts, {member.role: member.kills for member in link.members}
    ordeal.took = time.monotonic() - began
    ordeal.arrived = {role: check(folder / other, whole[role], promised[role])
                      for role, other in ((ROBOT, CLOUD), (CLOUD, ROBOT))}
    return ordeal


def drain(folder: Path, messages: int) -> float:
    """Messages a second that arrive once a link is mended, behind which that many wait."""
    targets = {ROBOT: {"a": messages, "b": 0}, CLOUD: {}}
    with Link(folder) as link:
        link.robot.target({"a": 1, "b": 0})
        link.wait(lambda: link.cloud.said["arrived"] == {"a": 1}, "the first message")
        link.relay.cut(stay=True)
        link.robot.target(targets[ROBOT])
        link.wait(lambda: link.robot.said["waiting"] == messages - 1, "messages that wait")
        link.relay.mend()
        began = time.monotonic()
        link.wait(lambda: link.cloud.said["arrived"] == {"a": messages}, "messages after a cut")
        took = time.monotonic() - began
    check(folder / CLOUD, {"a": messages}, {})
    return (messages - 1) / took


def _targets(messages: int, part: float) -> dict[str, dict[str, int]]:
    return {role: {stream: int(messages * share * part) for stream, share in shares.items()}
            for role, shares in SHARES.items()}


def _promise(promised: dict[str, dict[str, int]], link: Link) -> None:
    """Writes down, outside, what the ends have said that they accepted."""
    for member in link.members:
        for stream, count in member.said["made"].items():
            promised[member.role][stream] = max(count, promised[member.role].get(stream, 0))


def check(folder: Path, wanted: dict[str, int], promised: dict[str, int]) -> dict[str, int]:
    """Counts the messages of each stream in an end's table, and checks that each is there once and in order.

    Raises:
        NotArrived: they are not.
    """
    with closing(sqlite3.connect(folder / FILE)) as db:
        rows = db.execute("SELECT stream, number FROM arrived ORDER BY place").fetchall()
    found: dict[str, list[int]] = {stream: [] for stream in wanted}
    for stream, number in rows:
        found[stream].append(number)
    for stream, numbers in found.items():
        if numbers != list(range(1, wanted[stream] + 1)):
            wrong = next((i for i, number in enumerate(numbers, 1) if number != i), len(numbers) + 1)
            raise NotArrived(f"stream {stream} in {folder}: {len(numbers)} of {wanted[stream]} messages; the first "
                             f"that is wrong is in place {wrong}")
        if promised.get(stream, 0) > len(numbers):
            raise NotArrived(f"stream {stream} in {folder}: {promised[stream]} were accepted, {len(numbers)} arrived")
    return {stream: len(numbers) for stream, numbers in found.items()}
