# SPDX-License-Identifier: Apache-2.0
"""Topics and keys that devices leave alone: what moves the robot, stops it, tells it what to do, or what it sees.

A device is described by whoever may order things of a robot, and its driver is a stranger's program. So it says single
measured values only, none of them on a topic of the brain's own, and hears neither goals nor pictures. What counts is
the name under which a topic is opened, after all expansion: so :class:`Topics` opens those of devices.
"""
from __future__ import annotations

import functools
import re
import time
from typing import TYPE_CHECKING, Any

from brain_edge.schema import FormProblem
from brain_wire import messages
from brain_wire.definitions import Nodetype
from brain_wire.names import PUBLISHER, SUBSCRIPTION, NameProblem, expand
from brain_wire.safe_text import quoted

if TYPE_CHECKING:   # what only checks names opens no session
    from brain_wire import Node, Publisher, Subscription

# Types by the kind of a property, where nothing else is asked for.
PLAIN = {"boolean": "std_msgs/msg/Bool", "integer": "std_msgs/msg/Int64", "float": "std_msgs/msg/Float64",
         "string": "std_msgs/msg/String"}
TYPES = (*PLAIN.values(), "std_msgs/msg/Float32", "std_msgs/msg/Int32", "std_msgs/msg/UInt8", "std_msgs/msg/UInt32",
         "sensor_msgs/msg/BatteryState", "sensor_msgs/msg/FluidPressure", "sensor_msgs/msg/Illuminance",
         "sensor_msgs/msg/Range", "sensor_msgs/msg/RelativeHumidity", "sensor_msgs/msg/Temperature")
# What a device may hear of the brain's own topics: what the robot measures and does.
HEARD = ("clock", "cmd_vel", "diagnostics", "estop", "estop/status", "imu", "joint_states", "odom",
         "robot_description", "scan", "scan/second", "tf", "tf_static")
# The brain's own (a test compares them with its graph), and those of every ROS 2 node.
TOPICS = (*HEARD, "brain/heartbeat", "brain/spikes", "brain/trace", "camera/camera_info", "camera/image_raw",
          "drive/lock", "estop/release", "goal/status", "goal/text", "lang/features", "motor/command", "motor/status",
          "parameter_events", "pfc/choice", "pfc/control", "pfc/memory", "pfc/objects", "pfc/sheet", "pfc/target",
          "place/headings", "rosout", "sensor/features", "teleop/cmd_vel", "teleop/release", "vision/objects",
          "vision/second")
BELOW = ("inside", "sim", "_action", "_service")    # all topics below these
OWN = "brain_interfaces/"       # types of the brain's own messages, which only the brain says
COMMANDS = (PLAIN["string"], PLAIN["boolean"])      # types of what a person tells the brain, whatever its name is
HEARTBEAT = "/brain/heartbeat"  # who says that is a region
PLACE = "/devices/"             # where devices' own topics are: a region may hear them
SPACES = ("brain_fleet", "brain_collectives")       # keys of this project's own, which are no topics
EIGHT_BITS = ("uint8", "byte", "char", "octet")


def check_said(full: str, kind: str) -> None:
    """Raises FormProblem where a device may not publish on a topic, by its full name; says what it may."""
    if kind not in TYPES:
        raise FormProblem(f"a device cannot say a {quoted(kind)}; there are {', '.join(TYPES)}")
    if _has(full, TOPICS):
        raise FormProblem(f"{quoted(full)} is a topic of the brain's own, which no device may publish; take another, "
                          f"as devices/{full.rpartition('/')[2]}")


def check_heard(full: str, kind: str) -> None:
    """Raises FormProblem where a device may not hear a topic, by its full name: goals, pictures, the brain's own."""
    if _has(full, [topic for topic in TOPICS if topic not in HEARD]) or kind.startswith(OWN):
        raise FormProblem(f"{quoted(full)} is a topic of the brain's own, which no device may hear; a device hears "
                          f"others, and {', '.join(HEARD)}")
    if _holds_pictures(kind):
        raise FormProblem(f"a {kind} holds a picture, or other bytes, which no device may hear")


def check_key(key: str, *, said: bool) -> None:
    """Raises FormProblem where a key is no single key of Zenoh's, or reaches what a topic of that name may not.

    Args:
        key: of plain Zenoh.
        said: a device puts values there; else it hears them.
    """
    chunks = key.split("/")
    if not all(chunks) or re.search(r"[*$?#\s\x00-\x1f]", key):
        raise FormProblem(f"{quoted(key)} is no key: chunks with / between them, and none of * $ ? #")
    check_foreign(key)
    if chunks[0].isdecimal() or chunks[0] in SPACES or any(chunk.startswith("@") for chunk in chunks):
        raise FormProblem(f"{quoted(key)} is a key of ROS 2's, of Zenoh's own, or of the brain's; for a topic there "
                          f"is the protocol ros-topic")
    # a bridge between ROS 2 and Zenoh has topics under their bare names
    (check_said if said else check_heard)(f"/{key}", PLAIN["string"])


def check_foreign(name: str) -> None:
    """Raises FormProblem where a name of another protocol holds a key of ROS 2's, which a bridge would carry on."""
    if any(chunk.startswith("RIHS") or "::" in chunk for chunk in name.split("/")):
        raise FormProblem(f"{quoted(name)} is a key of ROS 2's; for a topic there is the protocol ros-topic")


def _has(full: str, topics: Any) -> bool:
    """Tells whether a full name is one of these topics, or below a reserved name, in whatever namespace."""
    return any(full.endswith(f"/{topic}") for topic in topics) or any(f"/{above}/" in full for above in BELOW)


@functools.cache
def _holds_pictures(kind: str) -> bool:
    """Tells whether a type holds a list of bytes, as all pictures and point clouds do. Raises MessageError."""
    for _, (how, detail) in messages.fields_of(kind):
        if how in (Nodetype.SEQUENCE, Nodetype.ARRAY):
            inner = detail[0]
            if how == Nodetype.SEQUENCE and inner[0] == Nodetype.BASE and inner[1][0] in EIGHT_BITS:
                return True
            how, detail = inner
        if how == Nodetype.NAME and _holds_pictures(detail):
            return True
    return False


class Topics:
    """Opens topics for devices on a node, and sees which of them the brain takes commands on.

    A robot's profile may give the brain's topics other names, which nobody here knows. So outside of ``devices/`` a
    topic of texts or flags that a region hears counts as the brain's own, too.

    Args:
        node: of ours.
    """

    def __init__(self, node: Node) -> None:
        from brain_wire.watch import CONFIRM, Watch

        self._node, self._watch = node, Watch(node.session, node.domain)
        self._told = time.monotonic() + CONFIRM     # when the router has told of all who are there
        self._open: dict[str, str] = {}     # types, by full name

    def watch(self, full: str, kind: str) -> None:
        """Looks after a topic that is published by others than this."""
        self._open[full] = kind

    def publisher(self, topic: str, kind: str, *more: Any) -> Publisher:
        """As the node's; raises FormProblem where a device may not publish there."""
        check_said(self._full(topic), kind)
        self._open[self._full(topic)] = kind
        return self._node.publisher(topic, kind, *more)

    def subscription(self, topic: str, kind: str, *more: Any, **named: Any) -> Subscription:
        """As the node's; raises FormProblem where a device may not hear that."""
        check_heard(self._full(topic), kind)
        self._open[self._full(topic)] = kind
        return self._node.subscription(topic, kind, *more, **named)

    def _full(self, topic: str) -> str:
        try:
            return expand(topic, self._node.namespace, self._node.name)
        except NameProblem as problem:
            raise FormProblem(str(problem)) from None

    def look(self) -> dict[str, str]:
        """Topics that are open here and must not be any more, and why.

        The first time it waits a second at most, where a topic might be the brain's: nothing may be said before that is
        known.
        """
        watched = [full for full, kind in self._open.items() if kind in COMMANDS and PLACE not in full]
        if watched:
            time.sleep(max(0.0, self._told - time.monotonic()))
        self._watch.poll()
        if not watched:
            return {}
        every = self._watch.endpoints()
        regions = {one.name for one in every if one.kind == PUBLISHER and one.topic.endswith(HEARTBEAT)}
        heard = {one.topic: one.name for one in every if one.kind == SUBSCRIPTION and one.name in regions
                 and one.type in COMMANDS}
        return {full: f"{quoted(full)} is a topic on which {heard[full]} is told what to do; no device may use it; "
                      f"take one below devices/" for full in watched if full in heard}
