# SPDX-License-Identifier: Apache-2.0
"""A brain under `brain up` that pursues a goal while a hostile peer says, asks and declares nonsense for a minute."""
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from brain_wire.router import free_port
from brain_runtime import FEATURE, LATCHED, STREAM
from brain_runtime.interfaces import Heartbeat
from brain_sim.room import generate_room
from brain_wire import messages
from brain_wire import open_node

pytestmark = [pytest.mark.slow, pytest.mark.alone]

REGIONS = {f"/{name}" for name in ("vision", "language", "place", "pfc", "goals", "motor", "brainstem", "introspection",
                                   "world", "camera")}
SEED = 3
SECONDS = 60.0 if "BRAIN_TEST_EXTENDED" in os.environ else 10.0
PATIENCE = 240.0        # s; only against waiting for ever
SEARCHING, APPROACHING, REACHED = 1, 2, 3


class Listener:
    """What a sound node hears of the brain."""

    def __init__(self, node, log):
        self._log = log
        self._beats = node.subscription("brain/heartbeat", "brain_interfaces/msg/Heartbeat", STREAM, by_publisher=True)
        self._status = node.subscription("goal/status", "brain_interfaces/msg/GoalStatus", LATCHED.with_depth(10))
        self._commands = node.subscription("cmd_vel", "geometry_msgs/msg/TwistStamped", FEATURE.with_depth(100))
        self._goal = node.publisher("goal/text", "std_msgs/msg/String", LATCHED)
        self.pids, self.active, self.states, self.moved = {}, {}, [], 0

    def say(self, text):
        self._goal.publish(messages.make("std_msgs/msg/String", data=text))

    def listen(self):
        for subscription in (self._beats, self._status, self._commands):
            for arrival in subscription.take():
                try:
                    message = messages.decode(arrival.data, subscription.type)
                except messages.MessageError:
                    continue    # the attacker's
                if subscription is self._beats:
                    self.pids.setdefault(message.name, []).append(message.pid)
                    self.active[message.name] = arrival.received if message.state == Heartbeat.STATE_ACTIVE else 0.0
                elif subscription is self._status:
                    self.states.append(message.state)
                else:
                    self.moved += bool(message.twist.linear.x or message.twist.angular.z)
        time.sleep(0.05)

    def missing(self):
        return {name for name in REGIONS if time.monotonic() - self.active.get(name, 0.0) >= 1.0}

    def whole(self):
        return not self.missing()

    def until(self, condition, what, brain):
        end = time.monotonic() + PATIENCE
        while not condition():
            assert brain.poll() is None, f"`brain up` ended with {brain.returncode}"
            assert time.monotonic() < end, (f"waited in vain for {what}: {self.states[-3:]}, without {self.missing()}; "
                                            f"{self._log.read_text(errors='replace')[-3000:]}")
            self.listen()


def overloaded() -> bool:
    """Whether others use this machine so much that a region may be silent for seconds for want of the processor."""
    return os.getloadavg()[0] > 2 * os.cpu_count()


def test_nonsense_on_everything_ends_nobody(tmp_path):
    port = free_port()
    router, domain = f"tcp/127.0.0.1:{port}", port % 200
    where = ["--router", router, "--domain", str(domain)]
    color, shape = generate_room("train", SEED).objects[0].kind
    log = tmp_path / "up.log"
    brain = subprocess.Popen([sys.executable, "-m", "brain", "up", *where, "--run-dir", str(tmp_path), "--split",
                              "train", "--seed", str(SEED)], stdout=log.open("wb"), stderr=subprocess.STDOUT)
    try:
        with open_node("hostile_test", domain=domain, router=router, patience=PATIENCE) as node:
            ear = Listener(node, log)
            ear.until(ear.whole, "all regions", brain)
            pids = {name: set(ear.pids[name]) for name in REGIONS}
            attack = subprocess.Popen([sys.executable, "-m", "brain_tests.attack", *where, "--seconds", str(SECONDS)],
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            try:
                ear.say(f"go to the {color} {shape}")
                while attack.poll() is None:
                    ear.listen()
            finally:
                attack.kill()
            said = attack.communicate()[0]
            print(said)
            assert attack.returncode == 0 and "'sample'" in said and "'query'" in said, said
            ear.until(ear.whole, "all regions after the attack", brain)
            ear.until(lambda: REACHED in ear.states, "the goal", brain)
            assert ear.moved > 20 and {SEARCHING, APPROACHING} & set(ear.states)
            told = (tmp_path / "logs" / "supervisor.log").read_text()
            ended = [line for line in told.splitlines() if " ended: " in line or " given up: " in line]
            cpu_wait = [line for line in ended if "hung:" in line or "stuck:" in line]
            assert ended == (cpu_wait if overloaded() else []), told
            if not ended:
                assert {name: set(ear.pids[name]) for name in REGIONS} == pids
            while not (found := status(where))["well"]:
                ear.listen()
            assert found["unreadable"] == 0
            assert brain.poll() is None
        logs = {path.name: path.stat().st_size for path in (tmp_path / "logs").glob("*.log")}
        assert max(logs.values()) < 2_000_000, logs     # warnings are not multiplied by who provokes them
    finally:
        brain.send_signal(signal.SIGINT)
        assert brain.wait(120) == 0


def status(where):
    done = subprocess.run([sys.executable, "-m", "brain", "status", "--json", *where], capture_output=True, text=True)
    return {**json.loads(done.stdout), "well": done.returncode == 0}
