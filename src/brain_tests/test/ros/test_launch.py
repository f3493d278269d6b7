# SPDX-License-Identifier: Apache-2.0
"""The launch files on rclpy: nothing starts where something is missing, and nothing stays when launch is gone.

What needs launch itself is run where that is installed; a process of ours plays its part elsewhere.
"""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from brain.preflight import prefix_of
from brain.zenoh_probe import NOBODY, ROUTER, who
from brain_runtime import FEATURE
from brain_runtime.interfaces import Heartbeat
from brain_runtime.graph.launching import WITH_SPARE
from brain_runtime.run.keeper import VARIABLE, mark
from brain_runtime.share import share_directory
from brain_tests.processes import children, command, gone
from brain_tests.regions import FEATURES
from brain_tests.ros_stage import RosStage
from brain_tests.stages import PATIENCE, free_domain
from brain_wire import messages
from brain_wire.qos import STREAM

MIRROR, MOVES = "brain_tests.regions:Mirror", "brain_tests.regions:Moves"
needs_launch = pytest.mark.skipif(importlib.util.find_spec("launch_ros") is None, reason="launch_ros is not installed")
# As `ros2 launch` without a terminal.
LAUNCH = """
import sys
from launch import LaunchDescription, LaunchService
from launch.actions import IncludeLaunchDescription
from launch.launch_description_sources import PythonLaunchDescriptionSource
service = LaunchService(noninteractive=True)
service.include_launch_description(LaunchDescription([IncludeLaunchDescription(
    PythonLaunchDescriptionSource(sys.argv[1]), launch_arguments=[a.split(":=", 1) for a in sys.argv[2:]])]))
sys.exit(service.run())
"""


def until(condition: Callable[[], object], log: Path) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, log.read_text(errors="replace")[-3000:]
        time.sleep(0.05)


def nodes_of(launch: int) -> list[int]:
    """Processes that were told of a launch."""
    told, found = re.compile(rb"(^|\0)%s=%d:" % (VARIABLE.encode(), launch)), []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if told.search((folder / "environ").read_bytes()) and not gone(int(folder.name)):
                found.append(int(folder.name))
        except OSError:
            continue
    return found


class Brain:
    """A launch of ours in a domain of its own, with a graph of two small regions."""

    def __init__(self, folder: Path) -> None:
        self.log, self.state = folder / "log", folder / "state"
        self.graph = folder / "toys.graph.yaml"
        self.graph.write_text(f"regions:\n  one: '{MIRROR}'\n  two: '{MIRROR}'\n")
        self.environment = {**os.environ, "ROS_DOMAIN_ID": str(free_domain()), "ROS_LOG_DIR": str(folder)}
        self.process: subprocess.Popen | None = None

    def start(self, file: str = "bringup.launch.py", *arguments: str) -> None:
        path = share_directory("brain") / "launch" / file
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen([sys.executable, "-c", LAUNCH, path, *arguments], stdout=log, stderr=log,
                                            stdin=subprocess.DEVNULL, env=self.environment)

    def toys(self, *arguments: str) -> None:
        self.start("bringup.launch.py", f"graph:={self.graph}", "robot:=turtlebot3_burger", "router:=false", *arguments)

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def refused(self) -> str:
        """The line that says why nothing was started."""
        assert self.process.wait(PATIENCE) == 1, self.text()
        assert "process started" not in self.text()
        (line,) = [line for line in self.text().splitlines() if "[ERROR]" in line]
        return line

    def close(self) -> None:
        if self.process is not None:
            for process in (self.process.pid, *nodes_of(self.process.pid)):
                if not gone(process):
                    os.kill(process, signal.SIGKILL)
            self.process.wait()


@pytest.fixture
def brain(tmp_path: Path) -> Iterator[Brain]:
    made = Brain(tmp_path)
    yield made
    made.close()


def test_a_node_ends_in_good_order_when_its_launch_is_killed(tmp_path: Path) -> None:
    launch = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    log = tmp_path / "log"
    command = [sys.executable, "-m", "brain_runtime.ros_process", "--class", MIRROR, "--name", "one", "--state-dir"]
    environment = {**os.environ, "ROS_DOMAIN_ID": str(free_domain())}
    with open(log, "wb") as out:
        told = subprocess.Popen([*command, tmp_path / "told"], stdout=out, stderr=out,
                                env={**environment, VARIABLE: mark(launch.pid)})
        other = subprocess.Popen([*command, tmp_path / "other"], stdout=out, stderr=out, env=environment)
    try:
        until(lambda: log.read_text().count(" runs as /one") == 2, log)
        launch.kill()
        launch.wait()
        assert told.wait(PATIENCE) == 0, log.read_text()
        assert f"the process that keeps this one (pid {launch.pid}) is gone" in log.read_text()
        assert list((tmp_path / "told").glob("*.safetensors")), "it was not saved"
        assert other.poll() is None, "what launch did not start goes on"
    finally:
        for process in (launch, told, other):
            process.kill()
            process.wait()


def test_a_spare_takes_over_at_once_and_what_was_ordered_holds_also_where_launch_starts_its_keeper_again(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `settings()` puts in front of a node that moves; this test plays launch, and its node hears the region."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    stage = RosStage(tmp_path)
    environment = {**os.environ, VARIABLE: mark(), "ROS_DOMAIN_ID": str(stage.domain)}
    line = [*WITH_SPARE, sys.executable, "-m", "brain_runtime.ros_process", "--class", MOVES, "--name", "mirror"]
    log = tmp_path / "log"
    beats = stage.hear("brain/heartbeat", "brain_interfaces/msg/Heartbeat", STREAM)
    wheel = stage.hear("wheel", FEATURES, FEATURE)

    def start() -> subprocess.Popen:
        with open(log, "ab") as out:
            return subprocess.Popen(line, stdout=out, stderr=out, env=environment)

    def spare() -> int:
        """The process that stands by, once it waits."""
        found: list[int] = []
        stage.until(lambda: found.extend(
            child for child in children(keeper.pid) if child != beats[-1].pid and "--standby" in command(child)
            and "pipe" in os.readlink(f"/proc/{child}/fd/0")) or found)
        return found[0]

    def is_now(state: int, process: int | None = None) -> None:
        beats.clear()
        stage.until(lambda: beats and beats[-1].state == state and process in (None, beats[-1].pid))

    keeper = start()
    try:
        is_now(Heartbeat.STATE_ACTIVE)
        stage.until(lambda: wheel and wheel[-1].confidence == 1.0)
        waiting = spare()
        os.kill(beats[-1].pid, signal.SIGKILL)
        is_now(Heartbeat.STATE_ACTIVE, waiting)
        assert beats[-1].restarts == 1 and "killed by SIGKILL; starting it again in 0 s" in log.read_text()
        request = messages.make("lifecycle_msgs/srv/ChangeState_Request",
                                transition=messages.make("lifecycle_msgs/msg/Transition", label="shutdown"))
        assert stage.call("mirror/change_state", "lifecycle_msgs/srv/ChangeState", request).success
        is_now(Heartbeat.STATE_FINALIZED)
        assert wheel[-1].confidence == 0.0
        wheel.clear()
        waiting = spare()
        os.kill(beats[-1].pid, signal.SIGKILL)
        is_now(Heartbeat.STATE_FINALIZED, waiting)
        keeper.kill()       # and the region with it
        keeper.wait()
        stage.until(lambda: gone(waiting))
        keeper = start()
        is_now(Heartbeat.STATE_FINALIZED)
        # a second process may have said its last word late
        assert all(said.confidence == 0.0 for said in wheel), "it moved though it had been ended by order"
        region = beats[-1].pid
        keeper.send_signal(signal.SIGINT)
        assert keeper.wait(PATIENCE) == 0 and gone(region), log.read_text()
    finally:
        keeper.kill()
        keeper.wait()
        stage.close()


def test_a_folder_that_can_hold_no_snapshots_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = subprocess.run([sys.executable, "-m", "brain_runtime.ros_process", "--class", MIRROR, "--state-dir",
                           tmp_path / "file"], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 2 and "no snapshot can be kept in" in done.stderr and done.stderr.count("\n") == 1


@needs_launch
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_nothing_stays_however_launch_ends(brain: Brain, number: int) -> None:
    brain.toys(f"state_dir:={brain.state}")
    until(lambda: brain.text().count(" runs as ") == 2, brain.log)
    assert len(nodes_of(brain.process.pid)) == 2
    brain.process.send_signal(number)
    until(lambda: not nodes_of(brain.process.pid), brain.log)
    assert len(list(brain.state.rglob("*.safetensors"))) == 2
    assert "SIGKILL" not in brain.text()


@needs_launch
@pytest.mark.parametrize("arguments, says", [
    (("rviz:=true",), "there is no ROS package rviz2, .*leave rviz:=true away"),
    (("params_file:=/nowhere.yaml",), "no parameter file /nowhere.yaml"),
    (("robot:=",), "must be named"), (("world:=sim",), "has no simulated world"),
    (("external:=three",), "has no region 'three'"), (("graph:=none.yaml",), "no graph file none.yaml"),
    (("state_dir:=/dev/null/x",), "no snapshot can be kept in /dev/null/x")])
def test_what_is_missing_is_said_before_anything_starts(brain: Brain, arguments: tuple[str, ...], says: str) -> None:
    if "rviz" in says and prefix_of("rviz2"):
        pytest.skip("there is RViz")
    brain.toys(*arguments)
    assert re.search(says, brain.refused())


@needs_launch
def test_what_would_run_is_told_and_nothing_started(brain: Brain) -> None:
    brain.toys("dry_run:=true", "namespace:=r1", "external:=two")
    assert brain.process.wait(PATIENCE) == 0, brain.text()
    assert "host ros, namespace /r1: 1 process would be started" in brain.text()
    assert re.search(rf"^one +{re.escape(MIRROR)} +no +always$", brain.text(), re.MULTILINE)
    assert re.search(r"^two .* run by others$", brain.text(), re.MULTILINE) and "process started" not in brain.text()


@needs_launch
def test_a_parameter_file_does_not_say_who_is_watched(brain: Brain, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("/**/brainstem: {ros__parameters: {critical: [nobody]}}")
    brain.start("bringup.launch.py", "robot:=turtlebot3_burger", "router:=false", "dry_run:=true",
                f"params_file:={tmp_path / 'mine.yaml'}")
    assert re.search(r"mine.yaml gives critical of brainstem as .*take it out of the file", brain.refused())


@needs_launch
@pytest.mark.parametrize("file", ["bringup.launch.py", "vision.launch.py", "motor.launch.py", "sensors.launch.py"])
def test_no_part_takes_the_simulated_robot_for_a_real_one(brain: Brain, file: str) -> None:
    brain.start(file)
    assert "a real one and must be named" in brain.refused()


@needs_launch
def test_a_program_that_is_not_installed_is_named(brain: Brain) -> None:
    brain.environment["AMENT_PREFIX_PATH"] = os.pathsep.join(
        prefix for prefix in os.environ["AMENT_PREFIX_PATH"].split(os.pathsep)
        if not (Path(prefix) / "lib" / "brain_runtime").is_dir())
    if not brain.environment["AMENT_PREFIX_PATH"]:
        pytest.skip("all packages are in one place")
    brain.toys()
    assert "there is no ROS package brain_runtime, which has ros_region" in brain.refused()


@needs_launch
def test_a_port_that_something_else_has_is_refused_and_a_router_ends_with_its_launch(brain: Brain) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        brain.environment["ZENOH_CONFIG_OVERRIDE"] = f'connect/endpoints=["tcp/localhost:{port}"]'
        brain.start("router.launch.py")
        assert f"port {port} is taken by a program that is no Zenoh router" in brain.refused()
    brain.start("router.launch.py")
    until(lambda: who("tcp", "127.0.0.1", port) == ROUTER, brain.log)
    (router,) = [p for p in nodes_of(brain.process.pid) if not any("with_launch" in w for w in command(p))]
    os.kill(router, signal.SIGKILL)     # it comes back
    until(lambda: router not in nodes_of(brain.process.pid) and who("tcp", "127.0.0.1", port) == ROUTER, brain.log)
    brain.process.kill()
    until(lambda: not nodes_of(brain.process.pid) and who("tcp", "127.0.0.1", port) == NOBODY, brain.log)
