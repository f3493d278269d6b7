# SPDX-License-Identifier: Apache-2.0
"""Fake robot: publishes the sound topics of a profile on a real wire, follows ``cmd_vel``, and takes planted faults."""
from __future__ import annotations

import math
import threading
import time
from typing import Any, Callable, Iterable, Mapping

import numpy as np

from brain_runtime.graph.robots import Robot
from brain_wire import Node, Session
from brain_wire.messages import make, time_message
from brain_wire.qos import FEATURE, LATCHED, SENSOR, STREAM, QoS

PERIOD = 0.05               # s of a turn of the loop; scans and pictures come each second turn
BEAMS = 180
WIDTH, HEIGHT = 96, 64      # pixels
TURNING = 0.3               # rad/s of a robot that turns on the spot
TYPES = {"scan": "sensor_msgs/msg/LaserScan", "odom": "nav_msgs/msg/Odometry",
         "camera/image_raw": "sensor_msgs/msg/Image",
         "camera/camera_info": "sensor_msgs/msg/CameraInfo", "tf_static": "tf2_msgs/msg/TFMessage",
         "tf": "tf2_msgs/msg/TFMessage", "robot_description": "std_msgs/msg/String",
         "camera/image_raw/compressed": "sensor_msgs/msg/CompressedImage"}
QUALITIES = {"tf_static": LATCHED.with_depth(10), "tf": STREAM, "robot_description": LATCHED}

Change = Callable[[Any], Any]
"""Alters a message before it is published. What it gives, a list of messages or bytes, is published in its place."""


class FakeRobot:
    """A robot without a body, in this process, until it is closed.

    Args:
        session: open session; a node of the robot's is made in it.
        robot: profile whose names, mounting and lens it has.
        domain: ROS domain.
        changes: planted faults: what is done to each message of a topic (the brain's name), one after the other.
        without: topics (the brain's names) that it does not have.
        types, qualities: of topics that it publishes otherwise, by the brain's name.
        hears: type as which its base hears ``cmd_vel``; empty: nobody hears it.
        hears_as: QoS of that.
        turning: rad/s at which it turns on the spot while nobody commands it.
        timeout: s after the last command after which its base stops; inf: it has none.
        backwards: it drives the wrong way.

    Attributes:
        commands: that its base heard: when (steady, s), m/s, rad/s.
        longest: time between two turns of its loop (s), since somebody set it to 0: on a busy machine it may falter.
    """

    def __init__(self, session: Session, robot: Robot, domain: int, *, changes: Mapping[str, Iterable[Change]] = {},
                 without: Iterable[str] = (), types: Mapping[str, str] = {}, qualities: Mapping[str, QoS] = {},
                 hears: str | None = None, hears_as: QoS = FEATURE, turning: float = TURNING, timeout: float = 0.3,
                 backwards: bool = False) -> None:
        self.node = Node(session, "fake_robot", domain=domain)
        self.robot, self.turning, self.timeout, self.backwards = robot, turning, timeout, backwards
        self.commands: list[tuple[float, float, float]] = []
        self._changes = {topic: list(all_of) for topic, all_of in changes.items()}
        self._out = {name: self.node.publisher(robot.topics.get(name, name), types.get(name, kind), qualities.get(
            name, QUALITIES.get(name, SENSOR))) for name, kind in TYPES.items()
            if name not in without and (name in types or name in changes or name not in (
                "robot_description", "camera/image_raw/compressed"))}
        self._types = types
        if hears is None:
            hears = f"geometry_msgs/msg/Twist{'Stamped' if self.value('stamped', True) else ''}"
        self._commands = self.node.subscription(robot.topics.get("cmd_vel", "cmd_vel"), hears,
                                                hears_as) if hears else None
        self._rng = np.random.default_rng(1)
        self._pose = np.zeros(3)    # x, y, yaw
        self.longest = 0.0
        self._scene = self._rng.normal(0.0, 25.0, (HEIGHT, WIDTH, 3)).cumsum(1) * 0.05
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fake robot", daemon=True)
        self._thread.start()

    @property
    def pose(self) -> tuple[float, float, float]:
        """Place (m) and direction (rad) by its odometry."""
        x, y, yaw = map(float, self._pose)
        return x, y, yaw

    def value(self, name: str, default: Any) -> Any:
        """Value in the profile of a parameter."""
        return self.robot.regions.get("vision", {}).get(name, self.robot.shared.get(name, default))

    def close(self) -> None:
        """Ends it, as who is switched off."""
        self._end.set()
        self._thread.join()
        self.node.close()

    def __enter__(self) -> FakeRobot:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- the loop ----------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        heard, speed, turn = -math.inf, 0.0, 0.0
        self._say("tf_static", self._fixed())
        self._say("robot_description", make("std_msgs/msg/String", data="<robot name='fake'/>"))
        beat, before = 0, time.time()
        while not self._end.wait(PERIOD):
            for arrival in self._commands.take() if self._commands is not None else ():
                command = _decoded(arrival, self._commands.type)
                heard, speed, turn = time.monotonic(), float(command.linear.x), float(command.angular.z)
                self.commands.append((heard, speed, turn))
            commanded = time.monotonic() - heard <= self.timeout
            v, w = (speed, turn) if commanded else (0.0, 0.0 if heard > 0.0 else self.turning)
            v *= -1.0 if self.backwards else 1.0
            now = time.time()
            dt, before = now - before, now
            self.longest = max(self.longest, dt)
            x, y, yaw = self._pose
            self._pose = np.array([x + v * math.cos(yaw) * dt, y + v * math.sin(yaw) * dt, yaw + w * dt])
            self._say("odom", self._odometry(v, w, now))
            self._say("tf", make(TYPES["tf"], transforms=[_transform("odom", "base_footprint", (*self._pose[:2], 0.0),
                                                                     (0.0, 0.0, self._pose[2]), now)]))
            beat += 1
            if beat % 2:
                self._say("scan", self._scan(now))
                self._say("camera/image_raw", self._picture(now))
                self._say("camera/camera_info", self._info(now))
                self._say("camera/image_raw/compressed", self._jpeg(now))

    def _say(self, name: str, message: Any) -> None:
        out = self._out.get(name)
        if out is None:
            return
        if self._types.get(name, TYPES[name]) != TYPES[name]:
            message = make(self._types[name])
        told: list[Any] = [message]
        for change in self._changes.get(name, ()):
            told = [made for one in told for made in _changed(change, one)]
        for one in told:
            if isinstance(one, bytes):
                out.publish_bytes(one)
            else:
                out.publish(one)

    # -- what it tells -----------------------------------------------------------------------------------------------

    def _fixed(self) -> Any:
        lidar = [self.value(f"lidar_{key}", 0.0) for key in ("x", "y", "yaw")]
        camera = {key: self.value(f"camera_{key}", {"x": 0.1, "height": 0.3}.get(key, 0.0))
                  for key in ("x", "y", "height", "roll", "pitch", "yaw")}
        return make(TYPES["tf_static"], transforms=[
            _transform("base_footprint", "base_link", (0.0, 0.0, 0.0)),
            _transform("base_link", "base_scan", (lidar[0], lidar[1], 0.2), (0.0, 0.0, lidar[2])),
            _transform("base_link", "camera_link", tuple(camera.values())[:3], tuple(camera.values())[3:]),
            _transform("camera_link", "camera_optical_frame", (0.0, 0.0, 0.0), (-math.pi / 2, 0.0, -math.pi / 2))])

    def _odometry(self, v: float, w: float, now: float) -> Any:
        message = make(TYPES["odom"], header=_header("odom", now), child_frame_id="base_link")
        message.pose.pose.position.x, message.pose.pose.position.y = map(float, self._pose[:2])
        q = message.pose.pose.orientation
        q.z, q.w = math.sin(self._pose[2] / 2), math.cos(self._pose[2] / 2)
        message.twist.twist.linear.x, message.twist.twist.angular.z = v, w
        return message

    def _scan(self, now: float) -> Any:
        angles = -math.pi + np.arange(BEAMS) * math.tau / (BEAMS - 1)
        ranges = 3.0 + np.sin(3 * (angles + self._pose[2])) + self._rng.normal(0.0, 0.01, BEAMS)
        ranges[self._rng.random(BEAMS) < 0.01] = np.inf
        return make(TYPES["scan"], header=_header("base_scan", now), angle_min=-math.pi, angle_max=math.pi,
                    angle_increment=math.tau / (BEAMS - 1), range_min=0.1, range_max=8.0, ranges=ranges)

    def _picture(self, now: float) -> Any:
        return make(TYPES["camera/image_raw"], header=_header("camera_optical_frame", now), height=HEIGHT, width=WIDTH,
                    encoding="rgb8", step=3 * WIDTH, data=self._light().reshape(-1))

    def _light(self) -> np.ndarray:
        """A warm room, light above and dark below, that moves as the robot turns, with noise."""
        shift = round(-self._pose[2] * WIDTH / 1.5)
        light = np.linspace(190, 90, HEIGHT)[:, None, None] * np.array([1.0, 0.85, 0.65])
        light = light + np.roll(self._scene, shift, 1) + self._rng.normal(0.0, 3.0, (HEIGHT, WIDTH, 3))
        return np.clip(light, 0, 255).astype(np.uint8)

    def _info(self, now: float) -> Any:
        f = WIDTH / 2 / math.tan(self.value("field_of_view", math.pi / 2) / 2)
        return make(TYPES["camera/camera_info"], header=_header("camera_optical_frame", now), height=HEIGHT,
                    width=WIDTH, distortion_model="plumb_bob", d=np.zeros(5),
                    k=[f, 0, WIDTH / 2, 0, f, HEIGHT / 2, 0, 0, 1])

    def _jpeg(self, now: float) -> Any:
        if "camera/image_raw/compressed" not in self._out:
            return None
        import io

        from PIL import Image

        written = io.BytesIO()
        Image.fromarray(self._light()).save(written, "JPEG")
        return make(TYPES["camera/image_raw/compressed"], header=_header("camera_optical_frame", now), format="jpeg",
                    data=np.frombuffer(written.getvalue(), np.uint8))


def _changed(change: Change, message: Any) -> list[Any]:
    instead = change(message)
    return instead if isinstance(instead, list) else [message]


def _decoded(arrival: Any, kind: str) -> Any:
    """The Twist of a command."""
    from brain_wire.messages import decode

    message = decode(arrival.data, kind)
    return getattr(message, "twist", message)


def _header(frame: str, now: float) -> Any:
    return make("std_msgs/msg/Header", stamp=time_message(now), frame_id=frame)


def _transform(parent: str, child: str, at: tuple[float, float, float], rpy: tuple[float, float, float] = (0, 0, 0),
               now: float = 0.0) -> Any:
    from brain_sim.description import transform

    return transform(parent, child, at, rpy, time_message(now))
