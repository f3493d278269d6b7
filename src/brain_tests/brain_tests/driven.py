# SPDX-License-Identifier: Apache-2.0
"""A whole brain under `brain up` over a router of its own, driven about and listened to from outside."""
from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Iterator

from brain_runtime import FEATURE, LATCHED, STREAM
from brain_runtime.interfaces import Heartbeat
from brain_wire import messages
from brain_wire import open_node
from brain_wire.router import free_port

REGIONS = ("vision", "language", "place", "pfc", "motor", "brainstem", "camera")
ROOM = ("train", 3)     # split and seed


def absent_from(split: str, seed: int) -> str:
    """Something that does not stand in a room, so that it is looked for without end."""
    from brain_sim.room import generate_room

    there = {o.kind for o in generate_room(split, seed).objects}
    return " ".join(next((c, s) for c in ("yellow", "green", "blue", "red") for s in ("ball", "box", "cylinder")
                         if (c, s) not in there))


class Brain:
    """A running brain, and a node of ours beside it.

    Args:
        folder: of the run.
        more: options of `brain up`.
        port: of its router; None: a free one.
    """

    def __init__(self, folder, *more, port=None):
        port = port or free_port()
        self.router = f"tcp/127.0.0.1:{port}"
        self.domain = port % 200
        self.folder = folder
        self.log = open(folder / "up.log", "wb")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "brain", "up", "--with-parent", "--router", self.router, "--domain",
             str(self.domain), "--run-dir", str(folder), "--split", ROOM[0], "--seed", str(ROOM[1]), *more],
            stdout=self.log, stderr=self.log)
        self.absent = absent_from(*ROOM)
        self.beats = {}
        self.exits = contextlib.ExitStack()
        self.node = self.exits.enter_context(open_node("fault_test", domain=self.domain, router=self.router,
                                                       patience=60))
        hear = self.node.subscription
        self._beats = hear("brain/heartbeat", "brain_interfaces/msg/Heartbeat", STREAM, by_publisher=True)
        self._verdict = hear("sim/verdict", "std_msgs/msg/String", LATCHED)
        self._command = hear("cmd_vel", "geometry_msgs/msg/TwistStamped", FEATURE.with_depth(10))
        self._trace = hear("brain/trace", "brain_interfaces/msg/Trace", STREAM)
        self._status = hear("goal/status", "brain_interfaces/msg/GoalStatus", LATCHED.with_depth(10))
        self._goal = self.node.publisher("goal/text", "std_msgs/msg/String", LATCHED)
        self._mark = self.node.publisher("sim/mark", "std_msgs/msg/String", FEATURE)
        self.report, self.commands, self.status = {}, [], None
        self.reason = "nothing was heard of the brainstem"      # for what it made of the last command
        self.flooded, self.broken = False, 0    # heartbeats that cannot be read are counted, and elsewhere an error

    def listen(self, seconds=0.05):
        """Takes in what has come, after a moment; this brain."""
        time.sleep(seconds)
        for arrival in self._beats.take():
            try:
                beat = messages.decode(arrival.data, self._beats.type)
            except messages.MessageError:
                if not self.flooded:
                    raise
                self.broken += 1    # as whoever hears heartbeats does
                continue
            self.beats[beat.name.strip("/")] = (arrival.received, beat)
        for arrival in self._verdict.take():
            self.report = json.loads(messages.decode(arrival.data, self._verdict.type).data)
        for arrival in self._command.take():
            twist = messages.decode(arrival.data, self._command.type).twist
            self.commands.append((twist.linear.x, twist.angular.z))
        for arrival in self._trace.take():
            trace = messages.decode(arrival.data, self._trace.type)
            self.reason = (f"wanted {trace.wanted_linear:.2f} m/s {trace.wanted_angular:.2f} rad/s, "
                           f"given {trace.linear:.2f} {trace.angular:.2f}: {trace.reason or 'passed'}")
        for arrival in self._status.take():
            self.status = messages.decode(arrival.data, self._status.type)
        return self

    def until(self, condition, what, timeout=240.0):
        """Listens until the condition holds."""
        end = time.monotonic() + timeout
        while not condition():
            assert time.monotonic() < end, (
                f"waited in vain for {what}; {self.status and self.status.reason or 'no status'}; "
                f"brainstem: {self.reason}\n" + (self.folder / "up.log").read_text()[-3000:])
            self.listen()

    def alive(self, name, not_pid=None):
        """Tells whether a region is heard and active, in another process than ``not_pid``."""
        if name not in self.beats:
            return False
        received, beat = self.beats[name]
        return time.monotonic() - received < 0.5 and beat.state == Heartbeat.STATE_ACTIVE and beat.pid != not_pid

    def whole(self):
        """Tells whether all regions are alive."""
        return all(self.alive(name) for name in (*REGIONS, "world"))

    def pid(self, name):
        """Process id of a region, as its heartbeat tells."""
        return self.beats[name][1].pid

    def keep_moving(self):
        """Gives it something to look for that is not there, and waits until it drives about."""
        self._goal.publish(messages.make("std_msgs/msg/String", data=f"go to the {self.absent}"))
        self.commands.clear()
        self.until(lambda: any(v > 0.1 or abs(w) > 0.3 for v, w in self.commands[-10:]), "motion")

    def mark(self, name):
        """Tells the world that from now on the robot is to come to a standstill."""
        self._mark.publish(messages.make("std_msgs/msg/String", data=name))

    def stop_of(self, name):
        """Time (s) from a mark to the standstill that followed; None before."""
        found = [s for s in self.report.get("invariants", {}).get("stops", []) if s["trigger"] == name]
        return found[-1]["standstill_after"] if found else None

    def close(self):
        """Ends it; the exit status of `brain up`."""
        self.exits.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            return self.process.wait(30)
        finally:
            self.process.kill()
            self.log.close()


def running(folder: Path, *more: str) -> Iterator[Brain]:
    """A brain that is up, with options of `brain up`, for a fixture, which ends it."""
    brain = Brain(folder, *more)
    try:
        brain.until(brain.whole, "all regions")
        brain.until(lambda: "under control" in (folder / "up.log").read_text(), "what a person waits for")
        yield brain
    finally:
        brain.close()
