# SPDX-License-Identifier: Apache-2.0
"""`brain up` with toy regions over a real router: what ends, hangs, sticks or raises is started again, and says why."""
import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest

from brain_wire.router import free_port
from brain_runtime import FEATURE
from brain_tests import in_process
from brain_tests.processes import children, gone
from brain_wire import messages
from brain_wire import open_node
from brain_wire.parameter_services import value_message

pytestmark = pytest.mark.slow

REGIONS = '''
import time
from dataclasses import dataclass
from brain_runtime import FEATURE, In, Out, Region, parameter

class Steady(Region):
    rate = 20.0
    tick = Out("tick", "std_msgs/msg/String", FEATURE)

    def step(self, inbox, state, dt, rng):
        return {"tick": self.tick(data=self.name)}, state

class Moody(Region):
    tick = In("tick", "std_msgs/msg/String", FEATURE, trigger=True)
    mood = In("mood", "std_msgs/msg/String", FEATURE, trigger=True, device=True)

    def step(self, inbox, state, dt, rng):
        if inbox.new("mood"):
            mood = inbox.get("mood").data
            if mood == "stuck":
                time.sleep(600)
            if mood == "raise":
                raise ValueError("as I was told")
        return {}, state

class Unwilling(Region):
    rate = 1.0

    def __init__(self, name):
        raise RuntimeError("I never start")

class Shy(Steady):
    @dataclass(frozen=True)
    class Parameters:
        gain: float = parameter(1.0, "loudness")

    def configure(self, parameters):
        super().configure(parameters)
        if self.parameters.gain < 5:
            raise RuntimeError("it is not loud enough")
'''
GRAPH = '''
name: toys
regions:
  steady: toys:Steady
  moody: toys:Moody
  mortal: {class: "toys:Steady", restart: never}
  unwilling: {class: "toys:Unwilling", restart: RESTART}
'''
PATIENCE = 240.0     # s; only against waiting for ever


class Up:
    """A running `brain up` of the toys."""

    def __init__(self, folder, restart="never", graph=GRAPH):
        self.folder, self.port = folder, free_port()
        (folder / "toys.py").write_text(REGIONS)
        (folder / "toys.graph.yaml").write_text(graph.replace("RESTART", restart))
        self.environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *filter(None, sys.path)]),
                            "ROS_DOMAIN_ID": str(self.port % 200), "BRAIN_ROUTER": f"tcp/127.0.0.1:{self.port}"}
        self.output = open(folder / "up.out", "wb")
        self.process = self.brain("up", str(folder / "toys.graph.yaml"), "--world", "none", "--run-dir",
                                  str(folder / "run"), "--state-dir", str(folder / "state"))

    def brain(self, *arguments):
        return subprocess.Popen([sys.executable, "-m", "brain", *arguments], env=self.environment,
                                stdin=subprocess.DEVNULL, stdout=self.output, stderr=self.output)

    def status(self):
        """What `brain status --json` says: regions by name."""
        done = in_process.brain("status", "--json", "--seconds", "0.6", "--graph",
                                str(self.folder / "toys.graph.yaml"), environment=self.environment)
        found = json.loads(done.stdout) if done.stdout else {"regions": [], "missing": []}
        return {r["name"]: r for r in found["regions"]}, found, done.returncode

    def well(self, *names, restarts=0):
        """Waits until the regions are active, and one of them was restarted so often; their reports."""
        return self.until(lambda: (lambda s: s if all(
            n in s and s[n]["state"] == "active" for n in names) and s[names[-1]]["restarts"] >= restarts else None)(
                self.status()[0]), f"{names} active with {restarts} restarts")

    def told(self):
        path = self.folder / "run" / "logs" / "supervisor.log"
        return path.read_text() if path.exists() else ""

    def until(self, condition, what):
        end = time.monotonic() + PATIENCE
        while not (found := condition()):
            assert self.process.poll() is None, self.text()
            assert time.monotonic() < end, f"never: {what}\n{self.text()}"
            time.sleep(0.05)
        return found

    def text(self):
        return (self.folder / "up.out").read_text()

    def pids(self):
        """Processes below `brain up`."""
        return children(self.process.pid)

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(PATIENCE)
        self.output.close()


@pytest.fixture
def up(tmp_path):
    running = Up(tmp_path)
    yield running
    running.end()


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """One for all tests that end nobody who is started again."""
    running = Up(tmp_path_factory.mktemp("shared"))
    yield running
    running.end()


def test_killed_frozen_stuck_and_raising(up):
    first = up.well("/steady", "/moody")
    os.kill(first["/steady"]["pid"], signal.SIGKILL)
    second = up.well("/moody", "/steady", restarts=1)
    assert second["/steady"]["pid"] != first["/steady"]["pid"]
    assert second["/moody"]["pid"] == first["/moody"]["pid"] and second["/moody"]["restarts"] == 0
    assert "steady ended: killed by SIGKILL" in up.told()

    os.kill(second["/steady"]["pid"], signal.SIGSTOP)
    up.well("/moody", "/steady", restarts=2)
    assert "steady unhealthy" in up.told() and "hung: no heartbeat" in up.told()

    with open_node("mood", domain=up.port % 200, router=f"tcp/127.0.0.1:{up.port}") as node:
        mood = node.publisher("mood", "std_msgs/msg/String", FEATURE)

        def say(text):
            mood.publish(messages.make("std_msgs/msg/String", data=text))
            return text

        up.until(lambda: say("stuck") and "stuck: step" in up.told(), "a stuck step is noticed")
        up.well("/steady", "/moody", restarts=1)
        up.until(lambda: say("raise") and "as I was told" in up.told(), "what raised is named")
        up.well("/steady", "/moody", restarts=2)


def test_one_that_cannot_start_does_not_hold_up_the_others(shared):
    shared.well("/steady", "/moody")
    shared.until(lambda: "unwilling given up" in shared.told(), "giving up")
    assert "I never start" in shared.told()


def test_one_that_cannot_be_configured_is_named_at_once_and_control_is_told_when_it_has_been_corrected(tmp_path):
    running = Up(tmp_path, graph="name: toys\nregions: {steady: 'toys:Steady', shy: 'toys:Shy'}\n")
    try:
        running.until(lambda: "still waiting: shy is unconfigured (shy failed to configure: RuntimeError: it is not "
                      "loud enough); see" in " ".join(running.text().split()), "the reason")
        reports, _, status = running.status()
        assert status == 1 and reports["/shy"]["state"] == "unconfigured" and reports["/shy"]["restarts"] == 0
        with open_node("corrects", domain=running.port % 200, router=f"tcp/127.0.0.1:{running.port}") as node:
            sets = node.client("shy/set_parameters", "rcl_interfaces/srv/SetParameters")
            sets.call(messages.make(sets.type.request, parameters=[messages.make(
                "rcl_interfaces/msg/Parameter", name="gain", value=value_message(9))]), PATIENCE)
        assert running.brain("start", "shy").wait(PATIENCE) == 0
        running.until(lambda: "2 regions are up" in running.text(), "control is told")
        assert running.status()[2] == 0
        # a plug-in that is heard is no brain, where another was to be there
        other = running.folder / "toys.graph.yaml"
        other.write_text(other.read_text().replace("shy:", "bold:").replace("steady:", "quiet:"))
        _, found, status = running.status()
        assert status == 1 and found["missing"] == ["/quiet", "/bold"]
    finally:
        running.end()


def test_restart_with_growing_waits(tmp_path):
    running = Up(tmp_path, restart="always")
    try:
        running.until(lambda: running.told().count("unwilling ended") >= 3, "three failures")
        waits = [float(line.rsplit(" in ", 1)[1].removesuffix(" s")) for line in running.told().splitlines()
                 if "unwilling ended" in line]
        assert waits[:3] == [0.2, 0.4, 0.8]
    finally:
        running.end()


def test_a_router_that_hangs_or_dies_is_started_again(shared):
    shared.well("/steady", "/moody")

    def router():
        return int(re.findall(r"router started: process (\d+)", shared.told())[-1])

    for number, reason in ((signal.SIGSTOP, "router unhealthy"), (signal.SIGKILL, "router ended: killed by SIGKILL")):
        before = router()
        os.kill(before, number)
        shared.until(lambda reason=reason: reason in shared.told(), reason)
        shared.until(lambda before=before: router() != before, "another router")
        reports = shared.well("/steady", "/moody")
        assert all(r["restarts"] == 0 for r in reports.values()), shared.told()  # nobody else was blamed for it


def test_the_end_leaves_nobody_and_takes_no_force(up):
    up.well("/steady", "/moody")
    up.until(lambda: "unwilling given up" in up.told(), "the one that cannot start is given up")
    below = up.pids()
    assert len(below) >= 3
    up.process.send_signal(signal.SIGTERM)
    assert up.process.wait(PATIENCE) == 0
    assert all(gone(pid) for pid in below)
    stopped = [line for line in up.told().splitlines() if " stopped: " in line]
    assert len(stopped) == 4 and all(line.endswith("status 0") for line in stopped)
    assert "router" in stopped[-1]


def test_kill_9_of_the_supervisor_leaves_no_orphans(up):
    up.well("/steady", "/moody")
    below = up.pids()
    os.kill(below[0], signal.SIGSTOP)
    up.process.kill()
    up.process.wait()
    end = time.monotonic() + PATIENCE
    while not all(gone(pid) for pid in below):
        assert time.monotonic() < end, "orphans"
        time.sleep(0.02)


def test_status_of_regions_that_are_missing_or_gone(shared):
    shared.well("/steady", "/moody", "/mortal")
    reports, found, status = shared.status()
    assert found["missing"] == ["/unwilling"] and status == 1
    assert found["router"] is True and found["unreadable"] == 0
    assert reports["/steady"]["host"] == "zenoh" and reports["/steady"]["step"] > 0
    assert set(reports["/moody"]["inputs"]) == {"tick", "mood"} and reports["/moody"]["inputs"]["mood"] is None
    watch = subprocess.Popen(
        [sys.executable, "-m", "brain", "status", "--watch", "--json", "--seconds", "0.6", "--graph",
         str(shared.folder / "toys.graph.yaml")], env=shared.environment, stdout=subprocess.PIPE, text=True)
    try:
        seen = json.loads(watch.stdout.readline())
        os.kill(next(r["pid"] for r in seen["regions"] if r["name"] == "/mortal"), signal.SIGKILL)
        while True:
            mortal = next(r for r in json.loads(watch.stdout.readline())["regions"] if r["name"] == "/mortal")
            if mortal["state"] == "gone":
                break
        assert mortal["heartbeat_age"] > 1.0 and mortal["token"] is False and mortal["step"] > 0
        assert mortal["last_heartbeat"] > 0
    finally:
        watch.terminate()
        watch.wait()
        watch.stdout.close()


def test_a_second_brain_of_the_same_names_is_refused(shared):
    shared.well("/steady", "/moody")
    second = subprocess.run(
        [sys.executable, "-m", "brain", "up", str(shared.folder / "toys.graph.yaml"), "--world", "none", "--run-dir",
         str(shared.folder / "second")], env=shared.environment, capture_output=True, text=True, timeout=PATIENCE)
    assert second.returncode == 1 and "running already" in second.stderr and "--domain" in second.stderr
    assert shared.well("/steady", "/moody")
