# SPDX-License-Identifier: Apache-2.0
"""A brain beside Nav2, all processes on a real wire: it drives there, and stops by the lock, whatever Nav2 does."""
import math
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from brain_regions import nav2
from brain_regions.motor.body import APPROACH, ARRIVED, BLOCKED, STOP
from brain_runtime import yaml_text
from brain_runtime.graph.graphs import config_directory
from brain_runtime.graph.resolve import resolve
from brain_runtime.graph.robots import SIM, Robot, load_robot
from brain_tests.fake_robot import FakeRobot
from brain_wire import open_node, open_session, register
from brain_wire.messages import decode, make, type_hash
from brain_wire.qos import FEATURE, LATCHED, QoS
from brain_wire.router import Router, free_port
from brain_wire.services import action_type

PATIENCE = 120.0        # s; only ends a hang
DOMAIN = 79
LOGGED = QoS(reliable=True, latched=False, depth=1000)
MOVES = 0.1             # m/s
# as ROS 2's own generator (rosidl_generator_type_description 4.9.5) computes them from the files of Jazzy and Kilted
HASHES = {"SendGoal": "a4fcb3bee1bf32e21a0e541a943b221aa0826996e2c98f079b47022b256f48b5",
          "GetResult": "c407920357d566771e8882b4ef4d1f1a84ee922d609920ccd57faa6d6e391dc5",
          "FeedbackMessage": "9d1f6fa2eb975ce733b419ac2e97b134d8ff92b6478b6559feed9a50bdfd82b3"}


def test_the_definitions_have_the_hashes_that_ros_computes():
    register("nav2_msgs", Path(nav2.__file__).parent / "jazzy")
    action_type("nav2_msgs/action/NavigateToPose")
    for part, wanted in HASHES.items():
        assert type_hash(f"nav2_msgs/action/NavigateToPose_{part}") == f"RIHS01_{wanted}", part


def test_the_graph_beside_nav2_has_its_motor_and_lets_nav2_drive():
    resolved = resolve("nav2", "none", "turtlebot3_waffle_pi")
    assert resolved.region("motor").cls == "brain_regions.nav2:Nav2Motor"
    assert resolved.region("motor").asks == ("navigate_to_pose",)
    assert resolved.region("brainstem").parameters["drive"] == "nav2"
    assert resolved.region("brainstem").parameters["critical"] == ["pfc", "motor"]


def test_the_files_for_twist_mux_and_collision_monitor_fit_together_and_the_page():
    settings = {name: yaml_text.read(config_directory() / f"{name}.yaml")[name]["ros__parameters"]
                for name in ("twist_mux", "collision_monitor")}
    inputs, (lock,) = settings["twist_mux"]["topics"], settings["twist_mux"]["locks"].values()
    assert settings["collision_monitor"]["cmd_vel_out_topic"] == inputs["nav2"]["topic"]
    # the lock shuts all but the brain's own zeros, and shuts by itself where nobody publishes it
    highest = inputs["brain_stop"]["priority"]
    assert lock["priority"] == highest == 255 and 0.0 < lock["timeout"] <= 0.5
    assert highest > inputs["joystick"]["priority"] > inputs["nav2"]["priority"]
    assert all(0.0 < one["timeout"] <= 0.5 for one in inputs.values())
    page = Path(__file__).parents[3] / "docs" / "nav2.md"
    for one in (*inputs.values(), lock):
        assert re.search(rf"`{one['topic']}`.*\| {one['priority']}\b", page.read_text(encoding="utf-8")), one


def walls(scan, pose):
    """Makes a scan one of a room of 12 x 7 m, from a pose: one that does not move with odometry is not believed."""
    x, y, yaw = pose
    angles = scan.angle_min + scan.angle_increment * np.arange(len(scan.ranges)) + yaw
    cos, sin = np.cos(angles), np.sin(angles)
    with np.errstate(divide="ignore"):
        far = np.minimum(np.where(cos > 0, 9.0 - x, -3.0 - x) / cos, np.where(sin > 0, 3.0 - y, -4.0 - y) / sin)
    far += np.random.default_rng().normal(0.0, 0.01, len(far))
    scan.ranges = np.where(far < scan.range_max, far, np.inf).astype(np.float32)


class Beside:
    """Router, Nav2, mux, base, brainstem and motor; this process is pfc and looks on."""

    def __init__(self, folder, mode, stack):
        self.endpoint = f"tcp/127.0.0.1:{free_port()}"
        stack.enter_context(Router([self.endpoint]))
        self.session = stack.enter_context(open_session(self.endpoint, patience=30))
        self.environment = {**os.environ, "ROS_DOMAIN_ID": str(DOMAIN), "BRAIN_ROUTER": self.endpoint,
                            "BRAIN_SECURITY": ""}
        self.folder, self.stack, self.processes = folder, stack, {}
        self.base = None
        self.base = stack.enter_context(FakeRobot(
            self.session, Robot("base", folder, shared={"stamped": True}), DOMAIN, turning=0.0, changes={
                "scan": [lambda scan: walls(scan, self.base.pose if self.base is not None else (0.0, 0.0, 0.0))]}))
        self.node = stack.enter_context(open_node("pfc", domain=DOMAIN, router=self.endpoint, patience=30))
        self.says = self.node.publisher("pfc/control", "brain_interfaces/msg/Control", FEATURE)
        self.estop = self.node.publisher("estop", "std_msgs/msg/Bool", LATCHED)
        self.release = self.node.publisher("estop/release", "std_msgs/msg/Empty", FEATURE)
        self.events = self.node.subscription("test/events", "std_msgs/msg/String", LOGGED)
        self.locks = self.node.subscription("drive/lock", "std_msgs/msg/Bool", LOGGED)
        self.status = self.node.subscription("motor/status", "brain_interfaces/msg/MotorStatus", FEATURE)
        self.told, self.shut, self.state, self.goal = [], [], None, 1
        radius = load_robot(SIM).shared["radius"]
        self.start("mux", "brain_tests.beside_nav2", "mux", str(config_directory() / "twist_mux.yaml"))
        self.start("nav2", "brain_tests.beside_nav2", "nav2", mode)
        self.start("brainstem", "brain_runtime.process", "--class", "brain_regions.brainstem:Brainstem", "--ros-args",
                   "-p", "drive:=nav2", "-p", "critical:=[motor]", "-p", f"radius:={radius}", "-r",
                   "cmd_vel:=twist_mux/brain_stop")
        self.start("motor", "brain_runtime.process", "--class", "brain_regions.nav2:Nav2Motor", "--name", "motor",
                   "--ros-args", "-p", f"radius:={radius}")
        self.until(lambda: [text for _, text in self.told].count("ready") == 2 and self.shut and self.state is not None,
                   0, what="nobody is ready")

    def start(self, name, module, *words):
        log = self.stack.enter_context(open(self.folder / f"{name}.log", "w"))
        one = self.processes[name] = subprocess.Popen([sys.executable, "-m", module, *words], env=self.environment,
                                                      stdout=log, stderr=log)
        self.stack.callback(one.wait, 60)
        self.stack.callback(one.kill)

    def until(self, fits, mode, distance=6.0, what="", least=0.0):
        """Says what pfc wants, again and again, until something fits."""
        end, begin = time.monotonic() + PATIENCE, time.monotonic()
        while not fits() or time.monotonic() - begin < least:
            assert time.monotonic() < end, f"{what or fits}: {self.told[-5:]}, {self.state}, " + "; ".join(
                f"{path.name}: {path.read_text()[-500:]}" for path in self.folder.glob("*.log"))
            away = distance() if callable(distance) else distance
            self.says.publish(make("brain_interfaces/msg/Control", goal_id=self.goal, mode=mode, bearing=0.0,
                                   distance=away, heading=0.0, speed=1.0))
            time.sleep(0.05)
            self.look()

    def look(self):
        for subscription, found in ((self.events, self.told), (self.locks, self.shut)):
            for arrival in subscription.take():
                found.append((arrival.attachment.source_timestamp, decode(arrival.data, subscription.type).data))
        for arrival in self.status.take():
            self.state = decode(arrival.data, self.status.type)

    def speed(self):
        """Newest command that the base heard (m/s); 0 where none came for the base's own timeout."""
        when, speed, _ = self.base.commands[-1] if self.base.commands else (-math.inf, 0.0, 0.0)
        return speed if time.monotonic() - when < self.base.timeout else 0.0

    def drives(self, **more):
        self.until(lambda: self.speed() > MOVES, APPROACH, what="it does not drive", **more)

    def stands(self, mode, least=1.5, **more):
        """Waits until it stands, and for a while longer; then no command that moves it may come."""
        self.until(lambda: self.speed() == 0.0, mode, what="it does not stop", **more)
        count = len(self.base.commands)
        self.until(lambda: True, mode, least=least, **more)
        assert not any(speed or turn for _, speed, turn in self.base.commands[count:])

    def last_shut(self):
        """When the lock was shut that is shut now (s since the epoch, ns)."""
        opened = max((at for at, shut in self.shut if not shut), default=0)
        return min(at for at, shut in self.shut if shut and at > opened)


@pytest.fixture
def beside(tmp_path):
    from contextlib import ExitStack

    with ExitStack() as stack:
        yield lambda mode: Beside(tmp_path, mode, stack)


def test_it_goes_there_stops_on_estop_and_on_pfcs_word_and_goes_on(beside):
    brain = beside("sound")
    brain.stands(0, least=0.5)          # nobody wants anything, and the lock is shut
    brain.drives()
    brain.estop.publish(make("std_msgs/msg/Bool", data=True))
    brain.stands(APPROACH)
    canceled = [at for at, text in brain.told if text == "cancel"]
    assert canceled and brain.last_shut() < canceled[-1]        # first the lock, then the cancellation
    assert [text for at, text in brain.told if at > canceled[-1]].count("goal") == 0    # nothing is asked for meanwhile
    brain.release.publish(make("std_msgs/msg/Empty"))
    brain.drives()
    brain.stands(STOP)
    brain.until(lambda: [text for _, text in brain.told if text != "ready"][-1] == "cancel", STOP)
    assert brain.last_shut() < [at for at, text in brain.told if text == "cancel"][-1]
    # now it is near: Nav2 gets there, and motor says so
    brain.goal, target = 2, brain.base.pose[0] + 1.5
    brain.until(lambda: brain.state.state == ARRIVED and brain.state.goal_id == 2, APPROACH,
                distance=lambda: max(target - brain.base.pose[0], 0.1))
    brain.stands(APPROACH, distance=lambda: max(target - brain.base.pose[0], 0.1))


def test_a_nav2_that_hangs_and_drives_on_is_held(beside):
    brain = beside("hangs")
    brain.drives()
    brain.estop.publish(make("std_msgs/msg/Bool", data=True))
    brain.stands(APPROACH, least=3.0)       # it publishes all the while, and never answers the cancellation
    assert brain.processes["nav2"].poll() is None and brain.last_shut()


def test_a_nav2_that_never_answers_is_named_and_nothing_moves(beside):
    brain = beside("mute")
    brain.until(lambda: brain.state.state == BLOCKED and "Nav2 does not answer" in brain.state.reason, APPROACH)
    assert not any(speed for _, speed, _ in brain.base.commands)


def test_a_nav2_that_dies_is_noticed_and_the_base_is_held(beside):
    brain = beside("sound")
    brain.drives()
    brain.processes["nav2"].send_signal(signal.SIGKILL)
    brain.until(lambda: brain.state.state == BLOCKED and "Nav2" in brain.state.reason, APPROACH)
    brain.stands(APPROACH)


def test_a_brainstem_that_dies_leaves_the_base_locked(beside):
    """By the timeout of twist_mux's lock, though Nav2 hangs and drives on."""
    brain = beside("hangs")
    brain.drives()
    brain.processes["brainstem"].send_signal(signal.SIGKILL)
    brain.stands(APPROACH)
