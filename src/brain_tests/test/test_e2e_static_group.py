# SPDX-License-Identifier: Apache-2.0
"""`brain up --host torch`: the whole brain drives as one static group, and ends as one."""
import json
import os
import signal
import subprocess
import sys

import pytest

from brain_runtime.interfaces import GoalStatus
from brain_runtime.graph.robots import load_robot
from brain_sim.robot import COMMAND_TIMEOUT
from brain_tests import in_process
from brain_tests.asking import ask_on_wire
from brain_tests.driven import REGIONS, running
from brain_tests.processes import children, gone
from brain_wire import Watch, messages
from brain_wire.goals import Status
from brain_wire.services import service_type

pytestmark = pytest.mark.slow

GROUPED = [name for name in REGIONS if name != "camera"]


@pytest.fixture(scope="module")
def brain(tmp_path_factory):
    yield from running(tmp_path_factory.mktemp("grouped"), "--host", "torch")


def told(brain):
    """What the supervisor has written."""
    return (brain.folder / "logs" / "supervisor.log").read_text()


def call(brain, service, kind, **fields):
    client = brain.node.client(service, kind)
    try:
        return client.call(messages.make(service_type(kind).request, **fields), 30.0)
    finally:
        brain.node.let_go(client)


def test_each_region_is_a_node_outside_and_a_rank_inside(brain):
    with Watch(brain.node.session, brain.domain) as watch:
        assert watch.wait_for(lambda w: {f"/{name}" for name in REGIONS} <= set(w.nodes()), 20.0)
    assert {brain.beats[name][1].host for name in GROUPED} == {"torch"}
    assert len({brain.pid(name) for name in GROUPED}) == len(GROUPED)
    assert brain.beats["camera"][1].host == "zenoh"
    assert "are a static group" in (brain.folder / "up.log").read_text()


def test_it_drives_to_what_it_is_told(brain):
    """What was said reaches language, and what motor wants reaches the base: in, through the group, and out."""
    brain.keep_moving()
    brain.until(lambda: brain.status is not None and brain.status.text.endswith(brain.absent), "the goal's status")


def test_an_action_is_given_and_canceled_from_outside(brain):
    asked = ask_on_wire(brain.node, "find the blue box")
    # what is given up before it is read was not understood
    brain.until(lambda: any(f.state == GoalStatus.STATE_SEARCHING for f in asked.feedback), "a search")
    asked.cancel()
    brain.until(lambda: asked.result is not None, "the result")
    assert (asked.status, asked.result.outcome) == (Status.CANCELED, 6), asked.result
    brain.keep_moving()


def test_parameters_are_asked_and_changed_from_outside(brain):
    kind = "rcl_interfaces/srv/GetParameters"
    asked = call(brain, "brainstem/get_parameters", kind, names=["max_linear"])
    before = asked.values[0].double_value
    value = messages.make("rcl_interfaces/msg/ParameterValue", type=3, double_value=before / 2)
    parameter = messages.make("rcl_interfaces/msg/Parameter", name="max_linear", value=value)
    changed = call(brain, "brainstem/set_parameters", "rcl_interfaces/srv/SetParameters", parameters=[parameter])
    assert changed.results[0].successful, changed.results[0].reason
    again = call(brain, "brainstem/get_parameters", kind, names=["max_linear"])
    assert again.values[0].double_value == pytest.approx(before / 2)


def test_what_is_no_message_costs_nothing(brain):
    before = brain.pid("pfc")
    publisher = brain.node.publisher("vision/objects", "brain_interfaces/msg/DetectedObjects")
    publisher.publish_bytes(b"\x00\x01\x00\x00" + b"\xff" * 40)
    brain.node.let_go(publisher)
    log = brain.folder / "logs" / "static_group.log"
    brain.until(lambda: "vision/objects: dropped a message" in log.read_text(), "the warning")
    brain.keep_moving()
    assert brain.alive("pfc") and brain.pid("pfc") == before


@pytest.mark.extended       # as below
def test_while_the_brainstem_is_frozen_the_base_stops_by_itself_and_then_all_go_on(brain):
    brain.keep_moving()
    stops = lambda: brain.report.get("invariants", {}).get("stops", [])  # noqa: E731
    before, frozen = len(stops()), brain.pid("brainstem")
    others = [brain.pid(name) for name in GROUPED]
    os.kill(frozen, signal.SIGSTOP)
    brain.until(lambda: any(stop["trigger"] == "command timeout" for stop in stops()[before:]), "the base's own stop")
    # whoever waits for the brainstem gives up, and all processes of the group end, the frozen one too
    brain.until(lambda: "static_group ended: ended with status 1" in told(brain), "the end of the group")
    assert "brainstem (rank 7) did not answer" in told(brain)
    brain.until(lambda: all(gone(pid) for pid in others), "the end of its processes")
    brain.until(brain.whole, "all regions")
    assert frozen not in [brain.pid(name) for name in GROUPED]
    assert f"{len(GROUPED) + 2} go on from" in (brain.folder / "logs" / "static_group.log").read_text()
    brain.keep_moving()


@pytest.mark.extended       # test_torch_host has both losses without a brain round them
def test_one_that_is_killed_takes_all_down_and_is_named(brain):
    before = {}

    def killed():
        """Whether it was there: on a loaded machine a rank may have been too late a moment ago, and all start anew."""
        before.update({name: brain.pid(name) for name in GROUPED})
        try:
            os.kill(before["language"], signal.SIGKILL)
        except ProcessLookupError:
            return False
        return True

    brain.keep_moving()
    brain.until(killed, "a process to kill")
    brain.until(lambda: "language (rank 2) was killed by SIGKILL" in told(brain), "who was killed")
    log = brain.folder / "logs" / "static_group.log"
    brain.until(lambda: "what brainstem moves is brought to rest" in log.read_text(), "the last word")
    brain.until(lambda: brain.whole() and all(brain.pid(name) != before[name] for name in GROUPED), "all of them")


@pytest.mark.extended       # that record is the same under any host; see test_e2e_brain
def test_an_emergency_stop_outlives_the_group(brain):
    brain.node.publisher("estop", "std_msgs/msg/Bool").publish(messages.make("std_msgs/msg/Bool", data=True))
    brain.until(lambda: (brain.folder / "state" / "brainstem.estop").exists(), "its record")
    before = brain.pid("motor")
    os.kill(before, signal.SIGKILL)
    brain.until(lambda: brain.whole() and brain.pid("motor") != before, "all of them")
    brain.commands.clear()
    brain.until(lambda: len(brain.commands) > 10, "commands")
    assert set(brain.commands) == {(0.0, 0.0)}


def test_it_ends_with_all_its_processes(brain):
    below = [*children(brain.process.pid), *(brain.pid(name) for name in GROUPED)]
    assert brain.close() == 0
    assert all(gone(pid) for pid in below)


def test_a_base_without_a_command_timeout_is_refused(tmp_path):
    up = ("up", "--host", "torch", "--world", "none", "--robot")
    done = in_process.brain(*up, "turtlebot3_burger", "--dry-run", environment={})
    assert done.returncode == 1
    assert "turtlebot3_burger" in done.stderr and "command_timeout: SECONDS" in done.stderr
    known = in_process.brain(*up, "diff_drive_controller", "--dry-run", "--json", environment={})
    assert known.returncode == 0, known.stderr
    assert json.loads(known.stdout)["host"] == "torch"
    assert load_robot("sim").command_timeout == COMMAND_TIMEOUT


@pytest.mark.extended
def test_an_episode_in_real_time():
    done = subprocess.run([sys.executable, "-m", "brain", "eval", "--host", "torch", "--realtime", "--episodes", "1",
                           "--seed", "1", "--json"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    (result,) = report["results"]
    assert report["realtime"] and result["restarts"] == [] and result["latency"]["n"] > 0
    assert result["outcome"] in ("success", "timeout")      # how fast a shared machine is, is not for a test


def test_no_real_time_in_lockstep():
    done = in_process.brain("eval", "--realtime", "--episodes", "1", environment={})
    assert done.returncode == 2 and "choose --host torch or zenoh" in done.stderr


@pytest.mark.extended("-1", "true", "5")
@pytest.mark.parametrize("text", ["0", "-1", ".nan", "true", "5", "soon"])
def test_a_command_timeout_that_is_none(tmp_path, text):
    (tmp_path / "mine.yaml").write_text(f"description: mine\ncommand_timeout: {text}\n")
    done = in_process.brain("up", "--host", "torch", "--world", "none", "--robot", str(tmp_path / "mine.yaml"),
                            "--dry-run", environment={})
    assert done.returncode == 1 and "`command_timeout` must be a number of seconds" in done.stderr
