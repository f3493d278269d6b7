# SPDX-License-Identifier: Apache-2.0
"""`brain up --one-process`: all regions but the brainstem in one process; if that is lost, the robot stands."""
import os
import signal
import subprocess
import sys

import pytest
import yaml

from brain_runtime import FEATURE
from brain_runtime.graph.graphs import config_directory
from brain_runtime.interfaces import Heartbeat
from brain_sim.room import generate_room
from brain_tests.asking import ask_on_wire
from brain_tests.driven import REGIONS, ROOM, running
from brain_tests.processes import children, gone
from brain_wire import messages
from brain_wire.goals import Status
from brain_wire.services import service_type

pytestmark = [pytest.mark.slow, pytest.mark.alone]    # as in test_faults

TOGETHER = [name for name in REGIONS if name not in ("camera", "brainstem")]
STRING = "std_msgs/msg/String"
STAND_WITHIN, BRAKING = 0.5, 0.5    # s until the brainstem commands rest, and from top speed at the base's deceleration
MOODY = '''
import ctypes
import time
from brain_regions.motor import Motor
from brain_runtime import FEATURE, In

class Moody(Motor):
    """Motor that sticks in a step, holds the interpreter's lock or raises when it is told to."""
    mood = In("mood", "std_msgs/msg/String", FEATURE, trigger=True, device=True)

    def step(self, inbox, state, dt, rng):
        mood = inbox.get("mood").data if inbox.new("mood") else ""
        if mood == "stick":
            time.sleep(600)
        if mood == "hold":
            ctypes.PyDLL(None).sleep(600)   # unlike CDLL it does not let go of the lock
        if mood == "raise":
            raise ValueError("as I was told")
        return super().step(inbox, state, dt, rng)
'''


@pytest.fixture(scope="module")
def moody(tmp_path_factory):
    """Folder with the shipped graph and parameters, whose motor has moods."""
    folder = tmp_path_factory.mktemp("moody")
    (folder / "moody.py").write_text(MOODY)
    graph = yaml.safe_load((config_directory() / "brain.graph.yaml").read_text())
    graph["regions"]["motor"]["class"] = "moody:Moody"
    (folder / "brain.graph.yaml").write_text(yaml.safe_dump(graph, sort_keys=False))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(folder), *filter(None, sys.path)]))
        yield folder


@pytest.fixture(scope="module")
def brain(moody, tmp_path_factory):
    for found in running(tmp_path_factory.mktemp("brain"), "--one-process", str(moody / "brain.graph.yaml")):
        found.mood = found.node.publisher("mood", STRING, FEATURE)
        yield found


def told(brain, log="supervisor"):
    return (brain.folder / "logs" / f"{log}.log").read_text()


def say(brain, mood):
    brain.mood.publish(messages.make(STRING, data=mood))


def call(brain, service, kind, **fields):
    client = brain.node.client(service, kind)
    try:
        return client.call(messages.make(service_type(kind).request, **fields), 60.0)
    finally:
        brain.node.let_go(client)


def order(brain, *words):
    """Says it with `brain`; its exit status and what it prints."""
    done = subprocess.run([sys.executable, "-m", "brain", *words, "--router", brain.router, "--domain",
                           str(brain.domain)], capture_output=True, text=True, timeout=400)
    return done.returncode, done.stdout + done.stderr


def stands_and_comes_back(brain, name, harm):
    """Does harm to the process while the robot drives; the world, which judges in its own time, sees it stand."""
    brain.keep_moving()
    before, stem = brain.pid("vision"), brain.pid("brainstem")
    harm(before)
    brain.mark(name)
    brain.until(lambda: brain.stop_of(name) is not None, "a standstill")
    assert brain.stop_of(name) <= STAND_WITHIN + BRAKING
    brain.until(lambda: all(brain.alive(region, not_pid=before) for region in TOGETHER), "another process")
    brain.until(brain.whole, "all regions")
    assert brain.pid("brainstem") == stem
    assert brain.report["invariants"]["violations"] == 0
    brain.keep_moving()


def test_all_but_the_brainstem_are_nodes_of_one_process(brain):
    assert len({brain.pid(name) for name in TOGETHER}) == 1
    assert len({brain.pid(name) for name in ("vision", "brainstem", "camera", "world")}) == 4
    value = messages.make("rcl_interfaces/msg/ParameterValue", type=3, double_value=0.4)
    changed = call(brain, "motor/set_parameters", "rcl_interfaces/srv/SetParameters", parameters=[
        messages.make("rcl_interfaces/msg/Parameter", name="max_linear", value=value)])
    assert changed.results[0].successful, changed.results[0].reason
    for name in TOGETHER:
        assert f"INFO [{name}] " in told(brain, "one-process")


def test_it_drives_to_what_it_is_asked_for(brain):
    thing = generate_room(*ROOM).objects[0]
    asked = ask_on_wire(brain.node, f"go to the {thing.color} {thing.shape}")
    brain.until(lambda: asked.result is not None, "the result")
    assert (asked.status, asked.result.outcome) == (Status.SUCCEEDED, 3), asked.result


def test_one_that_raises_begins_anew_alone(brain):
    brain.keep_moving()
    before, restarts = brain.pid("motor"), {name: brain.beats[name][1].restarts for name in TOGETHER}
    brain.commands.clear()
    say(brain, "raise")
    brain.until(lambda: brain.beats["motor"][1].restarts > restarts["motor"], "motor, anew")
    brain.until(brain.whole, "all regions")
    assert (0.0, 0.0) in brain.commands
    assert {brain.pid(name) for name in TOGETHER} == {before}
    assert {n: brain.beats[n][1].restarts for n in TOGETHER if n != "motor"} == {
        n: count for n, count in restarts.items() if n != "motor"}
    assert "ValueError: as I was told" in told(brain, "one-process")
    brain.keep_moving()


@pytest.mark.extended(signal.SIGSEGV)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_crash_of_all_of_them(brain, number):
    stands_and_comes_back(brain, number.name, lambda process: os.kill(process, number))
    assert f"one-process ended: killed by {number.name}" in told(brain)
    assert "[pfc] restored the state of" in told(brain, "one-process")


@pytest.mark.parametrize(("mood", "fault"), [("stick", "stuck: step"), ("hold", "hung: no heartbeat")])
def test_a_step_that_sticks_or_holds_the_lock_of_all_of_them(brain, mood, fault):
    before = told(brain).count(fault)
    stands_and_comes_back(brain, mood, lambda process: say(brain, mood))
    assert told(brain).count(fault) > before


def test_what_was_ended_by_order_stays_ended_when_the_process_begins_anew(brain):
    brain.until(brain.whole, "all regions")
    assert order(brain, "stop", "language")[0] == 0
    before = brain.pid("vision")
    brain.until(lambda: brain.beats["language"][1].state == Heartbeat.STATE_FINALIZED, "its end")
    assert brain.alive("vision") and brain.pid("vision") == before
    os.kill(before, signal.SIGTERM)
    others = [name for name in TOGETHER if name != "language"]
    brain.until(lambda: all(brain.alive(name, not_pid=before) for name in others), "another process")
    brain.until(lambda: brain.beats["language"][1].pid == brain.pid("vision"), "language there")
    assert brain.beats["language"][1].state == Heartbeat.STATE_FINALIZED
    assert "one-process ended: ended with status 0" in told(brain)
    assert order(brain, "start", "language") == (0, "language is active\n")
    brain.keep_moving()


def test_the_whole_brain_is_told_to_end(brain):
    """The last test of this brain: the robot stands, and none is ended by force."""
    brain.keep_moving()
    before, below = len(told(brain)), children(brain.process.pid)
    brain.process.send_signal(signal.SIGTERM)
    assert brain.process.wait(120) == 0
    brain.listen(0.1)
    assert brain.commands[-1] == (0.0, 0.0)
    ended = [line.split()[2] for line in told(brain)[before:].splitlines() if line.endswith("stopped: status 0")]
    assert sorted(ended[:1] + ended[-1:]) == ["one-process", "router"] and ended.index("brainstem") == 1
    assert all(gone(process) for process in below)


def test_brain_up_is_killed(tmp_path):
    for brain in running(tmp_path, "--one-process"):
        brain.keep_moving()
        below = children(brain.process.pid)
        brain.commands.clear()
        brain.process.kill()
        brain.process.wait()
        brain.until(lambda: (0.0, 0.0) in brain.commands, "rest")
        brain.until(lambda: all(gone(process) for process in below), "the end of all")
