# SPDX-License-Identifier: Apache-2.0
"""The whole brain with its world over Zenoh, as a person uses it: up, say, status, estop, run, kill."""
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from brain_runtime.interfaces import GoalStatus
from brain_wire.router import free_port
from brain_tests import in_process
from brain_tests.asking import ask_on_wire
from brain_wire import open_node
from brain_wire.goals import Status

pytestmark = pytest.mark.slow

PATIENCE = 240.0     # s; only against waiting for ever
BRAIN = ("vision", "language", "place", "pfc", "goals", "motor", "brainstem", "introspection")


class Running:
    """A `brain up` of the shipped graph with the arena, and the other verbs beside it."""

    def __init__(self, folder, *more):
        port = free_port()
        self.folder = folder
        self.environment = {**os.environ, "ROS_DOMAIN_ID": str(port % 200),
                            "BRAIN_ROUTER": f"tcp/127.0.0.1:{port}",
                            "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self.output = open(folder / "up.out", "wb")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "brain", "up", "--with-parent", "--split", "val", "--seed", "2", "--run-dir",
             str(folder / "run"), *more],
            env=self.environment, stdin=subprocess.DEVNULL, stdout=self.output, stderr=self.output)

    def text(self):
        return (self.folder / "up.out").read_text()

    def brain(self, *arguments, timeout=PATIENCE):
        return subprocess.run([sys.executable, "-m", "brain", *arguments], env=self.environment, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout)

    def status(self):
        done = in_process.brain("status", "--json", "--seconds", "1", environment=self.environment)
        return json.loads(done.stdout) if done.stdout else {"regions": [], "missing": []}, done.returncode

    def well(self):
        """Waits until everything is active; regions by name."""
        end = time.monotonic() + PATIENCE
        while True:
            found, status = self.status()
            if status == 0 and len(found["regions"]) == len(BRAIN) + 2:
                return {r["name"].strip("/"): r for r in found["regions"]}
            assert self.process.poll() is None and time.monotonic() < end, f"{found}\n{self.text()}"

    def end(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(PATIENCE)
        self.output.close()


def until(condition, up):
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, up.text()
        time.sleep(0.1)


@pytest.fixture(scope="module")
def up(tmp_path_factory):
    running = Running(tmp_path_factory.mktemp("brain"))
    yield running
    running.end()


def test_it_comes_up_and_says_so(up):
    regions = up.well()
    assert set(regions) == {*BRAIN, "world", "camera"}
    assert {n for n, r in regions.items() if r["critical"]} == {"pfc", "motor", "brainstem"}
    assert {n: r for n, r in regions.items() if not (
        r["host"] == "zenoh" and r["pid"] > 0 and r["restarts"] == 0)} == {}
    until(lambda: all(r["step_p50"] is not None for r in up.well().values()), up)   # who is active may not have stepped
    end = time.monotonic() + PATIENCE
    while "the robot is under control" not in up.text():
        assert time.monotonic() < end, up.text()
        time.sleep(0.1)


def test_vision_spikes_and_the_latency_is_known(up):
    up.well()
    end = time.monotonic() + PATIENCE
    while True:
        found, _ = up.status()
        vision = next(r for r in found["regions"] if r["name"] == "/vision")
        if found["latency"]["n"] and vision["spikes_per_second"]:
            break
        assert time.monotonic() < end, found
    assert vision["synops_per_second"] > vision["spikes_per_second"] > 0
    assert vision["inputs"]["camera/image_raw"] is not None
    assert found["latency"]["p50"] <= found["latency"]["p95"]


def test_what_is_believed_is_shown_to_who_looks(up, tmp_path):
    up.well()
    done = up.brain("look", "--out", str(tmp_path / "seen.png"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "seen.png").read_bytes().startswith(b"\x89PNG") and "384 x 256" in done.stdout
    assert "remembers" in done.stdout and "nothing that pfc tells of" not in done.stdout
    end = time.monotonic() + PATIENCE
    while any(age is not None for age in up.well()["introspection"]["inputs"].values()):
        assert time.monotonic() < end, "introspection goes on listening after nobody looks"
        time.sleep(0.2)


@pytest.mark.extended("x" * 3000)
@pytest.mark.parametrize("text", ["what time is it?", "\u4eca\u4f55\u6642\u3067\u3059\u304b", "x" * 3000])
def test_what_asks_for_nothing_is_not_understood(up, text):
    up.well()
    done = up.brain("say", text, "--wait", "10")
    assert done.returncode == 2, done.stdout + done.stderr
    assert "not understood" in done.stdout and len(done.stdout) > 40    # and why


def test_the_action_reaches_what_it_is_asked_for_and_gives_up_what_is_canceled(up):
    up.well()
    environment = up.environment
    with open_node("asker", domain=int(environment["ROS_DOMAIN_ID"]), router=environment["BRAIN_ROUTER"]) as node:
        asked = ask_on_wire(node, "go to the red ball")
        until(lambda: asked.result is not None, up)
        assert (asked.status, asked.result.outcome) == (Status.SUCCEEDED, 3), asked.result
        assert any("red ball" in f.seen for f in asked.feedback) and any(f.distance < 1.0 for f in asked.feedback)
        other = ask_on_wire(node, "find the blue box")
        # what is given up before it is read was not understood
        until(lambda: any(f.state == GoalStatus.STATE_SEARCHING for f in other.feedback), up)
        other.cancel()
        until(lambda: other.result is not None, up)
        assert (other.status, other.result.outcome) == (Status.CANCELED, 6)
        lost = ask_on_wire(node, "what time is it?")
        until(lambda: lost.result is not None, up)
        assert (lost.status, lost.result.outcome) == (Status.ABORTED, 5) and lost.result.reason


def test_a_sentence_is_taken_up_and_a_stop_is_done(up):
    up.well()
    done = up.brain("say", "find the red ball", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    answer = json.loads(done.stdout)
    assert answer["state"] in ("searching", "approaching", "waiting") and answer["goal_id"] > 0
    done = up.brain("say", "stop", "--wait", "20")
    assert done.returncode == 0 and "stopped" in done.stdout, done.stdout + done.stderr


def test_the_same_sentence_twice_is_two_goals(up):
    up.well()
    ids = [json.loads(up.brain("say", "stop", "--json", "--wait", "20").stdout)["goal_id"] for _ in range(2)]
    assert ids[1] > ids[0]


def test_not_reached_in_time(up):
    up.well()
    done = up.brain("say", "go to the blue box", "--wait", "0.6")
    assert done.returncode == 1 and "not reached within 0.6 s" in done.stdout
    up.brain("say", "stop", "--wait", "20")


def test_estop_holds_through_a_restart_of_the_brainstem_until_it_is_released(up):
    up.well()
    done = up.brain("estop")
    assert done.returncode == 0 and "stopped" in done.stdout, done.stdout + done.stderr
    found, _ = up.status()
    assert found["brainstem"]["action"] == "estop"
    before = next(r["pid"] for r in found["regions"] if r["name"] == "/brainstem")
    os.kill(before, signal.SIGKILL)
    assert up.well()["brainstem"]["pid"] != before
    found, _ = up.status()
    assert found["brainstem"]["action"] == "estop" and found["brainstem"]["linear"] == 0.0
    assert up.brain("release").returncode == 0
    found, _ = up.status()
    assert found["brainstem"], found    # where nothing is heard of it, all else that is
    assert found["brainstem"]["action"] != "estop"


def test_a_plugin_sensor_joins_and_leaves(up):
    up.well()
    sonar = subprocess.Popen([sys.executable, "-m", "brain", "run", "brain_sim.plugin_sensors:Sonar"],
                             env=up.environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                             stderr=subprocess.PIPE)
    try:
        end = time.monotonic() + PATIENCE
        while not any(r["name"] == "/sonar" and r["state"] == "active" for r in up.status()[0]["regions"]):
            assert sonar.poll() is None and time.monotonic() < end, sonar.stderr.read().decode()
        sonar.send_signal(signal.SIGINT)
        assert sonar.wait(PATIENCE) == 0
    finally:
        sonar.kill()
        sonar.stderr.close()
    up.well()


@pytest.mark.extended       # test_faults has each loss, and that the goal is pursued after it
@pytest.mark.parametrize(("name", "number"), [("vision", signal.SIGKILL), ("pfc", signal.SIGSTOP),
                                              ("language", signal.SIGKILL), ("camera", signal.SIGKILL)])
def test_said_once_it_is_pursued_although_a_region_dies(up, name, number):
    regions = up.well()
    saying = subprocess.Popen([sys.executable, "-m", "brain", "say", "go to the blue box", "--wait", "15", "--json"],
                              env=up.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    os.kill(regions[name]["pid"], number)
    answer = json.loads(saying.communicate(timeout=PATIENCE)[0])
    assert saying.returncode in (0, 1) and answer["state"] in ("searching", "approaching", "waiting", "reached"), answer
    after = up.well()
    assert after[name]["pid"] != regions[name]["pid"] and after[name]["restarts"] == regions[name]["restarts"] + 1
    assert all(after[n]["pid"] == regions[n]["pid"] for n in regions if n != name), up.text()
    up.brain("say", "stop", "--wait", "20")


def test_nobody_there_in_another_domain(up):
    up.well()
    done = up.brain("say", "stop", "--domain", "231")
    assert done.returncode == 1 and "no brain is heard in domain 231" in done.stderr
    done = in_process.brain("status", "--domain", "231", environment=up.environment)
    assert done.returncode == 1 and "no brain is heard" in done.stderr
