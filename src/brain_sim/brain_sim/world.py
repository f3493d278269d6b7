# SPDX-License-Identifier: Apache-2.0
"""World: the simulated robot and its room, as one more region. A real robot takes its place."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from brain_runtime.contract.ports import In, Out
from brain_runtime.contract.region import Inbox, Outbox, Region, State
from brain_sim import description, robot
from brain_sim.description import BASE, LEFT, LIDAR, MAP, ODOM, RIGHT
from brain_sim.geometry import wrap_angle
from brain_sim.judge import Judge, read_request
from brain_sim.movers import MovingSimulation
from brain_sim.physics import Simulation
from brain_sim.sensors import OdometryState
from brain_wire.messages import make, time_message
from brain_wire.parameters import ParameterError, parameter
from brain_wire.qos import FEATURE, LATCHED, SENSOR

MAX_CATCH_UP = 1.0
"""Seconds of physics made up for in one step at most; a world that was frozen longer has lost that time."""
REPORT_PERIOD = 0.5
TRACK_PERIOD = 0.2
_NO_ORIENTATION = np.array([-1.0] + [0.0] * 8)     # as sensor_msgs says it
_GYRO_COVARIANCE = np.diag([4e-6] * 3).reshape(-1)
_FORCE_COVARIANCE = np.diag([9e-4] * 3).reshape(-1)
for _constant in (_NO_ORIENTATION, _GYRO_COVARIANCE, _FORCE_COVARIANCE):
    _constant.setflags(write=False)  # every Imu message holds them


class World(Region):
    """Steps physics at 500 Hz to its host's clock, publishes the robot's sensors, and judges episodes."""

    rate = 100.0

    cmd_vel = In("cmd_vel", "geometry_msgs/msg/TwistStamped", FEATURE)
    episode = In("sim/episode", "std_msgs/msg/String", LATCHED, device=True)
    mark = In("sim/mark", "std_msgs/msg/String", FEATURE, device=True)
    goal_text = In("goal/text", "std_msgs/msg/String", LATCHED, device=True)
    goal_status = In("goal/status", "brain_interfaces/msg/GoalStatus", LATCHED, device=True)

    scan = Out("scan", "sensor_msgs/msg/LaserScan", SENSOR)
    imu = Out("imu", "sensor_msgs/msg/Imu", SENSOR)
    odom = Out("odom", "nav_msgs/msg/Odometry", SENSOR)
    ground_truth = Out("sim/ground_truth", "nav_msgs/msg/Odometry", SENSOR)
    movers = Out("sim/movers", "geometry_msgs/msg/PoseArray", SENSOR)
    room = Out("sim/world", "std_msgs/msg/String", LATCHED)
    verdict = Out("sim/verdict", "std_msgs/msg/String", LATCHED)
    robot_description = Out("robot_description", "std_msgs/msg/String", LATCHED)
    tf_static = Out("tf_static", "tf2_msgs/msg/TFMessage", LATCHED)
    tf = Out("tf", "tf2_msgs/msg/TFMessage", FEATURE.with_depth(100), on_demand=True)
    joint_states = Out("joint_states", "sensor_msgs/msg/JointState", FEATURE.with_depth(10), on_demand=True)
    clock = Out("clock", "rosgraph_msgs/msg/Clock", FEATURE, on_demand=True)

    @dataclass(frozen=True)
    class Parameters:
        """Room that is shown until sim/episode asks for another."""

        split: str = parameter("train", "Split of the room.", choices=("train", "val", "test"), live=False)
        seed: int = parameter(0, "Seed of the room.", low=0, high=2**31 - 1, live=False)
        low_obstacles: int = parameter(0, "Obstacles below the lidar's plane.", low=0, high=4, live=False)
        stamped: bool = parameter(True, "cmd_vel is a geometry_msgs/TwistStamped; false: a Twist.", live=False)
        request: str = parameter("", "JSON as on sim/episode, instead of the others.", live=False)
        frame_prefix: str = parameter("", "Stands in front of every frame id, as r1/.", live=False)

    def configure(self, parameters) -> None:
        """Takes the parameters and builds the room."""
        super().configure(parameters)
        p = self.parameters
        stamped = type(self).cmd_vel
        self.cmd_vel = stamped if p.stamped else replace(stamped, type="geometry_msgs/msg/Twist")
        self._error = ""
        self._resets = 0
        self._described = False
        self._elapsed = 0.0     # s in the rooms before this one, so that the clock never goes back
        self._wheels = (0.0, 0.0)
        if p.request:
            try:
                self._reset(json.loads(p.request))
            except (ValueError, RecursionError) as error:
                raise ParameterError(f"parameter request of {self.name} cannot be served: {error}") from error
        else:
            self._reset({"split": p.split, "seed": p.seed, "low_obstacles": p.low_obstacles})

    def _reset(self, request: dict[str, Any]) -> None:
        judge = Judge(read_request(request))
        if self._resets:
            self._elapsed += self.simulation.time
        self._judge = judge
        room, movers = self._judge.room, self._judge.request.movers
        self.simulation = (MovingSimulation(room, movers, self._judge.observe) if movers else
                           Simulation(room, self._judge.observe))
        self._resets += 1
        self._announce = True
        self._next = {"imu": 0.0, "odom": 0.0, "scan": 0.0, "report": 0.0, "track": 0.0}
        self._track: list[tuple[float, ...]] = []
        self._lost = 0.0
        self._rolled_at = self.simulation.pose

    def step(self, inbox: Inbox, state: State, dt: float, rng: np.random.Generator) -> tuple[Outbox, State]:
        """Brings the physics up to now, each command from the moment of its receipt on."""
        if inbox.new("episode"):
            self._take_episode(inbox.get("episode").data)
        self._hear(inbox)
        sim = self.simulation
        self._lost += max(dt - MAX_CATCH_UP, 0.0)
        dt = min(dt, MAX_CATCH_UP)
        if inbox.new("cmd_vel"):
            age = min(inbox.age("cmd_vel"), dt)
            sim.advance(dt - age)
            command = inbox.get("cmd_vel")
            twist = command.twist if self.parameters.stamped else command
            sim.command(twist.linear.x, twist.angular.z)
            dt = age
        sim.advance(dt)
        return self._publish(inbox.stamp), state

    def _take_episode(self, text: str) -> None:
        try:
            self._reset(json.loads(text))
            self._error = ""
        except (ValueError, RecursionError) as error:
            self._error = f"sim/episode was refused: {error}"
            self._next["report"] = 0.0

    def _hear(self, inbox: Inbox) -> None:
        if inbox.new("goal_text"):
            self._judge.said(inbox.get("goal_text").data, self.simulation)
        if inbox.new("goal_status"):
            status = inbox.get("goal_status")
            self._judge.status(status.state, status.text, int(status.cause))
        if inbox.new("mark"):
            self.simulation.trigger(inbox.get("mark").data[:128])

    # -- what is published

    def _due(self, name: str, period: float) -> bool:
        now = self.simulation.time
        if now < self._next[name] - 1e-6:
            return False
        # Keep the beat, unless a gap made it hopeless.
        self._next[name] = self._next[name] + period if now - self._next[name] < period else now + period
        return True

    def _publish(self, stamp: float) -> Outbox:
        sim, out = self.simulation, {}
        x, y, yaw = sim.pose
        if isinstance(sim, MovingSimulation):  # before the pose, which a picture is taken at
            out["movers"] = self.movers(header=self._header(MAP), poses=[
                make("geometry_msgs/msg/Pose", position=make("geometry_msgs/msg/Point", x=float(px), y=float(py)))
                for px, py in sim.places])
        out["ground_truth"] = self._odometry(self.ground_truth, MAP, x, y, yaw, sim.v, sim.w, 0.0)
        if not self._described:
            self._described = True
            out["robot_description"] = self.robot_description(data=description.urdf())
            fixed = description.fixed_transforms(time_message(stamp), self._prefix)
            out["tf_static"] = self.tf_static(transforms=fixed)
        if "clock" in self.wanted:
            out["clock"] = self.clock(clock=time_message(self._elapsed + sim.time))
        if self._due("imu", 1 / robot.IMU_RATE):
            out["imu"] = self._imu_message()
        if self._due("odom", 1 / robot.ODOM_RATE):
            o = sim.read_odometry()
            out["odom"] = self._odometry(self.odom, ODOM, o.x, o.y, o.yaw, o.v, o.w, 1e-3)
            self._roll()
            if "tf" in self.wanted:
                out["tf"] = self._tf_message(o, time_message(stamp))
            if "joint_states" in self.wanted:
                out["joint_states"] = self.joint_states(
                    name=[LEFT.name, RIGHT.name], position=self._wheels,
                    velocity=description.wheel_turns(sim.v, sim.w))
        if self._due("scan", 1 / robot.LIDAR_RATE):
            beam = 2 * math.pi / robot.LIDAR_BEAMS
            out["scan"] = self.scan(
                header=self._header(LIDAR), angle_min=-math.pi, angle_max=math.pi - beam, angle_increment=beam,
                time_increment=0.0, scan_time=1 / robot.LIDAR_RATE, range_min=robot.LIDAR_MIN,
                range_max=robot.LIDAR_MAX, ranges=sim.scan())
        if self._due("track", TRACK_PERIOD):
            self._track.append((round(sim.time, 3), round(x, 4), round(y, 4), round(yaw, 4)))
        if self._announce:
            self._announce = False
            moving = {"movers": [asdict(m) for m in sim.movers]} if isinstance(sim, MovingSimulation) else {}
            out["room"] = self.room(data=json.dumps({
                "reset": self._resets, "xml": sim.xml, "room": json.loads(sim.room.to_json()),
                "request": self._judge.request.fields, **moving}))
        if self._judge.take_news() or self._due("report", REPORT_PERIOD):
            out["verdict"] = self.verdict(data=json.dumps(self.report(), ensure_ascii=False))
        return out

    def report(self) -> dict[str, Any]:
        """Makes the report for sim/verdict: verdicts (and then the path driven), invariants, contacts."""
        sim, judge = self.simulation, self._judge
        report = {
            "reset": self._resets, "time": round(sim.time, 3), "pose": [round(float(v), 4) for v in sim.pose],
            "verdict": judge.verdicts[-1].to_dict() if judge.verdicts else None,
            "verdicts": [v.to_dict() for v in judge.verdicts], "judging": judge.judging,
            "contacts": sim.contacts[-16:], "invariants": sim.invariants.report(),
            "lost": round(self._lost, 3), "error": self._error}
        if judge.verdicts:
            report["track"] = self._track[-600:]
        return report

    def _imu_message(self) -> Any:
        gyro, force = self.simulation.read_imu()
        return self.imu(
            header=self._header(BASE), orientation=make("geometry_msgs/msg/Quaternion", w=1.0),
            orientation_covariance=_NO_ORIENTATION,
            angular_velocity=make("geometry_msgs/msg/Vector3", x=gyro[0], y=gyro[1], z=gyro[2]),
            angular_velocity_covariance=_GYRO_COVARIANCE,
            linear_acceleration=make("geometry_msgs/msg/Vector3", x=force[0], y=force[1], z=force[2]),
            linear_acceleration_covariance=_FORCE_COVARIANCE)

    def _roll(self) -> None:
        """Turns the wheels by what the base has truly moved since the last time."""
        x, y, yaw = self._rolled_at
        self._rolled_at = x_now, y_now, yaw_now = self.simulation.pose
        turn = float(wrap_angle(yaw_now - yaw))
        middle = yaw + turn / 2
        left, right = description.wheel_turns((x_now - x) * math.cos(middle) + (y_now - y) * math.sin(middle), turn)
        self._wheels = self._wheels[0] + left, self._wheels[1] + right

    def _tf_message(self, o: OdometryState, stamp: Any) -> Any:
        """The base in the odometry's frame, and the wheels on the base."""
        wheels = dict(zip((LEFT.name, RIGHT.name), self._wheels, strict=True))
        return self.tf(transforms=[
            description.transform(ODOM, BASE, (o.x, o.y, 0.0), (0.0, 0.0, o.yaw), stamp, self._prefix),
            *description.moving_transforms(wheels, stamp, self._prefix)])

    @property
    def _prefix(self) -> str:
        return self.parameters.frame_prefix

    def _header(self, frame: str) -> Any:
        return make("std_msgs/msg/Header", frame_id=self._prefix + frame)

    def _odometry(self, port: Out, frame: str, x: float, y: float, yaw: float, v: float, w: float,
                  variance: float) -> Any:
        """A planar nav_msgs/Odometry: pose in `frame`, velocity in base_link."""
        message = port(header=self._header(frame), child_frame_id=self._prefix + BASE)
        message.pose.pose.position.x, message.pose.pose.position.y = float(x), float(y)
        message.pose.pose.orientation.z, message.pose.pose.orientation.w = math.sin(yaw / 2), math.cos(yaw / 2)
        message.twist.twist.linear.x, message.twist.twist.angular.z = float(v), float(w)
        for covariance in (message.pose.covariance, message.twist.covariance):
            covariance[::7] = variance
        return message
