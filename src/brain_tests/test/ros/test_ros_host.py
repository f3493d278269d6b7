# SPDX-License-Identifier: Apache-2.0
"""RosHost as a process on a real rclpy: ports, lifecycle, parameters, diagnostics, faults, snapshots, a clean end."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import rclpy
from brain_interfaces.msg import Heartbeat, SensorFeatures
from diagnostic_msgs.msg import DiagnosticArray
from lifecycle_msgs.srv import ChangeState, GetState
from rcl_interfaces.msg import Log, Parameter, ParameterValue
from rcl_interfaces.srv import DescribeParameters, GetParameters, SetParametersAtomically
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, qos_profile_sensor_data
from std_msgs.msg import String
from tf2_msgs.msg import TFMessage
from visualization_msgs.msg import MarkerArray

from brain_runtime.run.end_with_parent import __file__ as END_WITH_PARENT
from brain_runtime.run import keeper
from brain_tests.stages import free_domain

PATIENCE = 120.0     # seconds until something that should come is given up
LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
REGIONS = '''
import time
from dataclasses import dataclass
import numpy as np
from brain_runtime import FEATURE, LATCHED, In, Out, Region, parameter

class Echo(Region):
    rate = 10.0
    heard = In("in", "brain_interfaces/msg/SensorFeatures", FEATURE, trigger=True, device=True)
    goal = In("goal/text", "std_msgs/msg/String", LATCHED, device=True)
    said = Out("out", "brain_interfaces/msg/SensorFeatures", FEATURE)
    kept = Out("kept", "std_msgs/msg/String", LATCHED)

    @dataclass(frozen=True)
    class Parameters:
        gain: float = parameter(1.0, "scales what was heard", unit="1", low=0.0, high=10.0)
        layers: int = parameter(2, "layers", low=1, high=4, live=False)
        names: tuple = parameter(("a", "b"), "names")

    def initial_state(self):
        return {"count": np.zeros(1, np.float32)}

    def step(self, inbox, state, dt, rng):
        out = {}
        if inbox.new("goal"):
            out["kept"] = self.kept(data=inbox.get("goal").data.upper())
        if inbox.new("heard"):
            message = inbox.get("heard")
            if message.source == "raise":
                raise ValueError("told to")
            if message.source == "hang":
                time.sleep(60)
            state = {"count": state["count"] + 1}
            out["said"] = self.said(source=self.name, confidence=float(state["count"][0]),
                                    hazard=message.hazard * self.parameters.gain)
        return out, state

class Wheel(Echo):
    turns = Out("wheel", "brain_interfaces/msg/SensorFeatures", FEATURE, alone=True)

    def step(self, inbox, state, dt, rng):
        return {"turns": self.turns(source=",".join(self.parameters.names), confidence=1.0)}, state

    def come_to_rest(self, inbox, state, since):
        return {"turns": self.turns(source=",".join(self.parameters.names), confidence=0.0)}, since > 0.5

class Broken(Echo):
    def configure(self, parameters):
        super().configure(parameters)
        raise OSError("no weights here")
'''


class Bench:
    """A node of the test's own, and the processes that it started."""

    def __init__(self, folder: Path) -> None:
        (folder / "regions.py").write_text(REGIONS)
        self.folder = folder
        self.domain = free_domain()    # nobody else's
        self.context = Context()
        rclpy.init(context=self.context, domain_id=self.domain)
        self.node = Node("bench", context=self.context, use_global_arguments=False)
        self.executor = SingleThreadedExecutor(context=self.context)
        self.executor.add_node(self.node)
        self.children: list[subprocess.Popen] = []

    def start(self, *arguments: str, cls: str = "Echo") -> subprocess.Popen:
        """Start a region's process; its log is ``child.log``."""
        path = os.pathsep.join([str(self.folder), os.environ.get("PYTHONPATH", "")])
        environment = {**os.environ, "ROS_DOMAIN_ID": str(self.domain), "PYTHONPATH": path}
        command = [sys.executable, END_WITH_PARENT, str(os.getpid()), sys.executable, "-m", "brain_runtime.ros_process",
                   "--class", f"regions:{cls}", "--name", "echo"]
        log = open(self.folder / f"{len(self.children)}.log", "wb")
        child = subprocess.Popen([*command, *arguments], env=environment, stdout=log, stderr=log)
        log.close()
        child.log = Path(log.name)  # type: ignore[attr-defined]
        self.children.append(child)
        return child

    def until(self, condition: Any) -> Any:
        """Spin until the condition holds; return what it gives."""
        end = time.monotonic() + PATIENCE
        while not (found := condition()):
            assert time.monotonic() < end, "\n".join(c.log.read_text()[-2000:] for c in self.children)
            self.executor.spin_once(timeout_sec=0.05)
        return found

    def call(self, kind: Any, name: str, **fields: Any) -> Any:
        """Call a service and return its response."""
        client = self.node.create_client(kind, name)
        self.until(client.service_is_ready)
        future = client.call_async(kind.Request(**fields))
        self.until(future.done)
        self.node.destroy_client(client)
        return future.result()

    def hear(self, kind: Any, topic: str, qos: Any = 10) -> list:
        """Return a list that fills with what comes on a topic."""
        heard: list = []
        self.node.create_subscription(kind, topic, heard.append, qos)
        return heard

    def ask(self, source: str = "test") -> SensorFeatures:
        """Say something on ``in`` until something comes back on ``out``."""
        heard = self.hear(SensorFeatures, "out", 1)
        publisher = self.node.create_publisher(SensorFeatures, "in", 1)
        message = SensorFeatures(source=source)
        message.hazard[3] = 0.5

        def say() -> bool:
            publisher.publish(message)
            self.executor.spin_once(timeout_sec=0.1)
            return bool(heard)

        self.until(say)
        return heard[-1]

    def state(self) -> str:
        """Return the lifecycle state of the region's node."""
        return self.call(GetState, "echo/get_state").current_state.label

    def close(self) -> None:
        """End everything."""
        for child in self.children:
            if child.poll() is None:
                child.kill()
            child.wait()
        self.executor.shutdown()
        self.node.destroy_node()
        self.context.try_shutdown()


@pytest.fixture
def bench(tmp_path: Path):
    made = Bench(tmp_path)
    yield made
    made.close()


def test_it_starts_by_itself_hears_answers_and_ends_in_good_order(bench: Bench, monkeypatch) -> None:
    monkeypatch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")    # for its processes: with shared memory
    assert not _shared_memory(os.getpid())
    child = bench.start()
    answer = bench.ask()
    assert (answer.source, float(answer.hazard[3])) == ("echo", 0.5)
    assert bench.state() == "active"
    for number in (signal.SIGTERM, signal.SIGINT):
        shared = _shared_memory(child.pid)
        assert shared or os.environ.get("RMW_IMPLEMENTATION", "rmw_fastrtps_cpp") != "rmw_fastrtps_cpp"
        child.send_signal(number)
        assert child.wait(PATIENCE) == 0, child.log.read_text()
        # What the middleware leaves of who is gone, the next process of the domain may be given, and then hears nobody.
        assert not [path for path in shared if os.path.exists(path)]
        child = bench.start()
        bench.ask()


def _shared_memory(pid: int) -> set[str]:
    """Files of Fast DDS in /dev/shm that a process has mapped; none where another middleware is in use."""
    return set(re.findall(r"/dev/shm/fastdds_[0-9a-f]{16}\b", Path(f"/proc/{pid}/maps").read_text()))


def test_latched_topics_both_ways(bench: Bench) -> None:
    bench.node.create_publisher(String, "goal/text", LATCHED).publish(String(data="go"))
    bench.start()
    bench.ask()
    kept = bench.hear(String, "kept", LATCHED)
    assert bench.until(lambda: kept)[0].data == "GO"


def test_lifecycle_by_hand(bench: Bench) -> None:
    bench.start("--manual")
    assert bench.state() == "unconfigured"

    def change(label: str) -> bool:
        request = ChangeState.Request()
        request.transition.label = label
        return bench.call(ChangeState, "echo/change_state", transition=request.transition).success

    assert change("configure") and bench.state() == "inactive"
    assert change("activate") and bench.ask().confidence >= 1
    assert change("deactivate") and change("cleanup") and bench.state() == "unconfigured"
    assert change("configure") and change("activate")
    assert bench.ask().confidence >= 1
    assert change("shutdown")
    assert bench.children[0].wait(PATIENCE) == 0


def test_what_cannot_be_configured_says_why_and_can_be_tried_again(bench: Bench) -> None:
    bench.start("--manual", cls="Broken")
    logs = bench.hear(Log, "/rosout", QoSProfile(depth=100, durability=DurabilityPolicy.TRANSIENT_LOCAL))
    request = ChangeState.Request()
    request.transition.label = "configure"
    for _ in range(2):
        assert not bench.call(ChangeState, "echo/change_state", transition=request.transition).success
        assert bench.state() == "unconfigured"
    bench.until(lambda: any("no weights here" in line.msg for line in logs))


def test_what_a_file_says_of_many_nodes_need_not_be_for_this_one(bench: Bench) -> None:
    file = bench.folder / "wild.yaml"
    file.write_text("/**:\n  ros__parameters:\n    max_linear: 0.3\n    gain: 4\n")
    child = bench.start("--ros-args", "--params-file", str(file))
    assert float(bench.ask().hazard[3]) == 2.0
    child.kill()
    file.write_text(file.read_text() + "echo:\n  ros__parameters:\n    gian: 2.0\n")
    for more in (["--params-file", str(file)], ["-p", "gian:=2.0"]):
        child = bench.start("--ros-args", *more)
        assert child.wait(PATIENCE) == 2 and "did you mean gain?" in child.log.read_text(), child.log.read_text()


def test_a_second_publisher_of_what_it_moves_is_there_from_the_start_and_is_no_rival(bench: Bench) -> None:
    file = bench.folder / "launch_params"   # as launch writes one, where Python has a tuple
    file.write_text("/**:\n  ros__parameters:\n    names: !!python/tuple\n    - left\n    - right\n    unknown: 1\n")
    child = bench.start("--ros-args", "-r", "__ns:=/r1", "-r", "wheel:=/base", "--params-file", str(file), cls="Wheel")
    heard = bench.hear(SensorFeatures, "/base")
    beats = bench.hear(Heartbeat, "/r1/brain/heartbeat", qos_profile_sensor_data)
    second = bench.until(lambda: [p.node_name for p in bench.node.get_publishers_info_by_topic("/base")
                                  if p.node_name.startswith("_second_")])
    assert len(second) == 1
    bench.until(lambda: any(beat.state == Heartbeat.STATE_ACTIVE for beat in beats) and heard)
    beats.clear()
    bench.until(lambda: len(beats) > 20)    # it has looked for rivals meanwhile
    assert {beat.reason for beat in beats} == {""} and {one.confidence for one in heard} == {1.0}
    child.kill()
    bench.until(lambda: heard[-1].confidence == 0.0)
    assert heard[-1].source == "left,right"


def test_parameters_are_described_and_changed_while_running_or_refused_with_the_reason(bench: Bench) -> None:
    bench.start("--ros-args", "-p", "gain:=3.0")
    assert float(bench.ask().hazard[3]) == 1.5
    gain, layers = bench.call(DescribeParameters, "echo/describe_parameters", names=["gain", "layers"]).descriptors
    assert gain.description == "scales what was heard (1)"
    assert (gain.floating_point_range[0].from_value, gain.floating_point_range[0].to_value) == (0.0, 10.0)
    assert "cannot be changed" in layers.additional_constraints

    def change(name: str, **value: Any) -> Any:
        parameter = Parameter(name=name, value=ParameterValue(**value))
        return bench.call(SetParametersAtomically, "echo/set_parameters_atomically", parameters=[parameter]).result

    assert change("gain", type=3, double_value=4.0).successful
    bench.until(lambda: float(bench.ask().hazard[3]) == 2.0)
    refused = change("gain", type=3, double_value=40.0)
    assert not refused.successful and "gain" in refused.reason
    refused = change("layers", type=2, integer_value=3)
    assert not refused.successful and "cannot be changed while it runs" in refused.reason
    values = bench.call(GetParameters, "echo/get_parameters", names=["gain", "layers", "names"]).values
    assert (values[0].double_value, values[1].integer_value, list(values[2].string_array_value)) == (4.0, 2, ["a", "b"])


def test_a_step_that_raises_goes_through_error_processing_and_ends_the_process(bench: Bench) -> None:
    child = bench.start()
    bench.ask()
    beats = bench.hear(Heartbeat, "brain/heartbeat", qos_profile_sensor_data)
    bench.node.create_publisher(SensorFeatures, "in", 1).publish(SensorFeatures(source="raise"))
    found = bench.until(lambda: [b for b in beats if b.state == Heartbeat.STATE_ERROR])
    assert "ValueError: told to" in found[0].reason
    assert child.wait(PATIENCE) == 1 and "error processing" in child.log.read_text()


def test_a_step_that_does_not_end_ends_the_process(bench: Bench) -> None:
    child = bench.start()
    bench.ask()
    publisher = bench.node.create_publisher(SensorFeatures, "in", 1)
    bench.until(lambda: publisher.publish(SensorFeatures(source="hang")) or child.poll() is not None)
    assert child.returncode == 70 and "takes longer" in child.log.read_text()


def test_state_comes_back_after_kill_9(bench: Bench) -> None:
    first = bench.start("--state-dir", str(bench.folder / "state"))
    file = bench.folder / "state" / "echo.safetensors"
    for _ in range(5):
        bench.ask()
    before = file.stat().st_mtime_ns
    bench.until(lambda: file.stat().st_mtime_ns > before)
    first.kill()
    first.wait()
    bench.start("--state-dir", str(bench.folder / "state"))
    assert bench.ask().confidence >= 6


def test_names_namespaces_and_remaps(bench: Bench) -> None:
    bench.start("--ros-args", "-r", "__ns:=/r1", "-r", "__node:=voice", "-r", "out:=/elsewhere")
    heard = bench.hear(SensorFeatures, "/elsewhere", 1)
    publisher = bench.node.create_publisher(SensorFeatures, "/r1/in", 1)
    bench.until(lambda: publisher.publish(SensorFeatures(source="x")) or heard)
    assert heard[0].source == "voice"
    bench.until(lambda: ("voice", "/r1") in bench.node.get_node_names_and_namespaces())


def test_diagnostics_tell_of_it(bench: Bench) -> None:
    bench.start()
    bench.ask()
    heard = bench.hear(DiagnosticArray, "/diagnostics")
    status = bench.until(lambda: [s for message in heard for s in message.status if s.message == "active"])[0]
    assert status.name == "brain: /echo" and status.level == b"\x00"
    assert {v.key: v.value for v in status.values}["state"] == "active"


def test_what_is_there_to_be_looked_at_is_published_as_ros_has_it(bench: Bench) -> None:
    with open(bench.folder / "regions.py", "a") as file:
        file.write("from brain_sim.world import World\nfrom brain_observe.introspection import Introspection\n")
    for cls in ("World", "Introspection"):
        bench.start("--name", cls.lower(), cls=cls)
    tf, fixed = bench.hear(TFMessage, "/tf"), bench.hear(TFMessage, "/tf_static", LATCHED)
    markers = bench.hear(MarkerArray, "/inside/markers")
    felt = bench.node.create_publisher(SensorFeatures, "sensor/features", 1)
    said = SensorFeatures(source="bench", confidence=1.0)
    said.header.frame_id, said.hazard[3] = "base_link", 0.5
    bench.until(lambda: felt.publish(said) or tf and fixed and markers and markers[-1].markers)
    assert {t.child_frame_id for t in tf[-1].transforms} >= {"base_link"}
    assert abs(sum(getattr(tf[-1].transforms[0].transform.rotation, k) ** 2 for k in "xyzw") - 1.0) < 1e-6
    assert {t.header.frame_id for t in fixed[-1].transforms} >= {"base_link"}
    assert {m.header.frame_id for m in markers[-1].markers} == {"base_link"}
    assert not any("is not published" in child.log.read_text() for child in bench.children)


def test_it_imports_neither_zenoh_nor_mujoco() -> None:
    code = ("import sys, brain_runtime.ros_process; "
            "sys.exit(sorted({'zenoh', 'mujoco', 'torch'} & set(sys.modules)) or 0)")
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("argument", ["names:=[x, 1]", "gain=1", ":=:="])
def test_ros_arguments_that_are_none_are_named(tmp_path: Path, argument: str) -> None:
    done = subprocess.run([sys.executable, "-m", "brain_runtime.ros_process", "--class", "brain_tests.regions:Mirror",
                           "--ros-args", "-p", argument], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 2 and "cannot start" in done.stderr and argument in done.stderr
    assert "Traceback" not in done.stderr


def test_what_launch_started_again_tells_how_often(bench: Bench, tmp_path: Path, monkeypatch) -> None:
    """Launch does not say so: the process counts its own starts under the launch that its environment names."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv(keeper.VARIABLE, keeper.mark())
    beats = bench.hear(Heartbeat, "brain/heartbeat", qos_profile_sensor_data)
    told = bench.hear(DiagnosticArray, "/diagnostics")
    for number in range(3):
        child = bench.start()
        bench.until(lambda: beats and beats[-1].pid == child.pid and beats[-1].state == Heartbeat.STATE_ACTIVE)
        assert beats[-1].restarts == number
        told.clear()
        bench.until(lambda: told)
        values = {value.key: value.value for value in told[-1].status[0].values}
        assert (values["restarts"], values["pid"]) == (str(number), str(child.pid))
        child.kill()
        child.wait()
    for number in range(3):     # launch would go on so for ever; a line of its own
        child = bench.start("--ros-args", "-p", "gian:=2.0")
        if number < 2:
            assert child.wait(PATIENCE) == 2
    bench.until(lambda: "3 times in a row, and it is not tried again" in child.log.read_text())
    child.terminate()
    assert child.wait(PATIENCE) == 2 and child.log.read_text().count("did you mean gain?") == 1
    monkeypatch.delenv(keeper.VARIABLE)
    child = bench.start()   # by hand
    bench.until(lambda: beats[-1].pid == child.pid)
    assert beats[-1].restarts == 0
