# SPDX-License-Identifier: Apache-2.0
"""Heard: all that one listening told of a robot and its brain, and the topics that a robot is asked for."""
from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from brain_observe.doctor.finding import DEGRADES, STOPS, Finding
from brain_runtime.contract.azimuth import sound, wrap
from brain_runtime.contract.odometry import Pose, pose_of
from brain_runtime.graph.resolved import Resolved
from brain_runtime.graph.robots import Robot
from brain_wire import names
from brain_wire.qos import FEATURE, SENSOR, QoS

SCAN, ODOM, IMAGE, INFO, COMMAND = "scan", "odom", "camera/image_raw", "camera/camera_info", "cmd_vel"
TWIST, STAMPED = "geometry_msgs/msg/Twist", "geometry_msgs/msg/TwistStamped"


class Device(NamedTuple):
    """Topic that a robot is to publish.

    Attributes:
        type: ``package/msg/Type``.
        severity: of its absence.
        rate: Hz that it needs at least.
        usual: Hz that it should have, for a person.
        late: s by which its stamps may be older than it is.
        qos: as which the brain hears it.
    """

    type: str
    severity: str
    rate: float
    usual: str
    late: float = 0.5
    qos: QoS = SENSOR


# The rates are those of docs/new-robot.md, with some room: who publishes 10 Hz on a busy machine is not at fault.
DEVICES = {
    SCAN: Device("sensor_msgs/msg/LaserScan", STOPS, 2.4, "2.5 Hz or faster, better 10"),
    ODOM: Device("nav_msgs/msg/Odometry", STOPS, 8.0, "10 Hz or faster"),
    IMAGE: Device("sensor_msgs/msg/Image", STOPS, 5.0, "10 to 20 Hz"),
    INFO: Device("sensor_msgs/msg/CameraInfo", DEGRADES, 0.0, "with each picture"),
}
COMMAND_QOS = FEATURE


class Came(NamedTuple):
    """A message as it came.

    Attributes:
        at: of its receipt, on the steady clock (s).
        wall: the same, on this machine's clock (s since the epoch).
        sent: when it was published, on its publisher's clock (s since the epoch); None: it does not say.
        stamp: of its header (s).
        size: bytes.
        mark: checksum of a picture's bytes; 0 of all else.
        message: None of pictures beyond those that are kept.
    """

    at: float
    wall: float
    sent: float | None
    stamp: float
    size: int
    mark: int
    message: Any


class Beats(NamedTuple):
    """First and newest heartbeat of a region, and when they came (steady, s)."""

    first: Any
    first_at: float
    newest: Any
    newest_at: float


@dataclass
class Heard:
    """One listening.

    Attributes:
        robot: its profile.
        named: somebody named the profile.
        domain, namespace: of the brain; the namespace is absolute.
        seconds: it lasted.
        came: messages, by the brain's name of their topic.
        broken: why messages could not be read, likewise.
        compressed: newest picture of the camera's own compressed topic; None: there is none.
        endpoints: publishers and subscriptions of all nodes but ours.
        static, moving: transforms of ``tf_static`` and ``tf``.
        description: ``robot_description``; empty: nobody publishes it.
        beats: of regions, by full name.
        elsewhere: names of nodes in other domains, by domain.
        until: when it ended (steady, s).
        expected: full names of the regions that ought to be there.
        resolved: the graph that ought to run; None: it cannot be told.
        refused: that graph and profile do not fit together; None: they do.
    """

    robot: Robot
    named: bool = True
    domain: int = 0
    namespace: str = "/"
    seconds: float = 0.0
    came: dict[str, list[Came]] = field(default_factory=lambda: {name: [] for name in DEVICES})
    broken: dict[str, list[str]] = field(default_factory=dict)
    compressed: Any = None
    endpoints: list[names.Endpoint] = field(default_factory=list)
    static: list[Any] = field(default_factory=list)
    moving: list[Any] = field(default_factory=list)
    description: str = ""
    beats: dict[str, Beats] = field(default_factory=dict)
    elsewhere: dict[int, set[str]] = field(default_factory=dict)
    until: float = 0.0
    expected: tuple[str, ...] = ()
    resolved: Resolved | None = None
    refused: Finding | None = None

    def topic(self, name: str) -> str:
        """Full name of the robot's topic for one of the brain's."""
        return names.expand(self.robot.topics.get(name, name), self.namespace, "brain_doctor")

    def value(self, name: str, default: Any = None, region: str = "") -> Any:
        """Value in the profile of a parameter, for a region or for all; ``default`` where it says nothing."""
        return self.robot.regions.get(region, {}).get(name, self.robot.shared.get(name, default))

    def publishers(self, topic: str) -> list[names.Endpoint]:
        """Publishers of a topic by its full name."""
        return [e for e in self.endpoints if e.topic == topic and e.kind == names.PUBLISHER]

    def subscriptions(self, topic: str) -> list[names.Endpoint]:
        """Subscriptions to a topic by its full name."""
        return [e for e in self.endpoints if e.topic == topic and e.kind == names.SUBSCRIPTION]

    def newest(self, name: str) -> Any | None:
        """Newest message of a topic that is kept; None: there is none."""
        return next((one.message for one in reversed(self.came[name]) if one.message is not None), None)

    def moved(self) -> tuple[float, float]:
        """Turn (rad) and way (m) of the robot by odometry, to the pose that was farthest from the first."""
        poses = self.poses()
        if len(poses) < 2:
            return 0.0, 0.0
        x, y, yaw = poses[0]
        return (max(abs(float(wrap(one[2] - yaw))) for one in poses),
                max(math.hypot(one[0] - x, one[1] - y) for one in poses))

    def poses(self) -> list[Pose]:
        """Poses by odometry whose numbers are sound."""
        found = [pose_of(one.message) for one in self.came[ODOM] if one.message is not None]
        return [pose for pose in found if sound(*pose)]
