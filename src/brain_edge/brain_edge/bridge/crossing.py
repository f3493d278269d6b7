# SPDX-License-Identifier: Apache-2.0
"""Crossings: what goes from a robot's brain to a region in the cloud's tier, what comes back, and the budget of it."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable

from brain_edge.schema import FormProblem
from brain_runtime.contract import images
from brain_security import fleet_keys
from brain_wire import messages
from brain_wire.messages import MessageError
from brain_wire.qos import FEATURE, SENSOR, QoS


@dataclass(frozen=True)
class Crossing:
    """A topic that goes up to the cloud, and one that comes down: each message has at most one answer, of its stamp.

    Messages of both are as they are on the wire (CDR) and have a header.

    Attributes:
        name: last part of the fleet's key, on which each robot asks with its own name.
        key: that key, by the robot's name.
        up, up_type, up_qos: topic that goes up.
        down, down_type, down_qos: topic that comes down.
        longest, longest_answer: bytes of one message, up and down; more does not cross.
        rate, burst: budget of one robot, up: bytes a second, and at once.
        consent: kind of what leaves the robot, for its owner's consent.
        what: leaves it, for its owner and for messages.
        check: raises ValueError on a message that no region would answer.
    """

    name: str
    key: Callable[[str], str]
    up: str
    up_type: str
    up_qos: QoS
    down: str
    down_type: str
    down_qos: QoS
    longest: int
    longest_answer: int
    rate: float
    burst: float
    consent: str
    what: str
    check: Callable[[Any], object]

    def read(self, data: bytes) -> Any | None:
        """The message that came up as these bytes; None: it is none, or none that a region would answer.

        Raises:
            FormProblem: there are too many bytes, or none.
        """
        if not 0 < len(data) <= self.longest:
            raise FormProblem(f"of {self.what} one has at most {self.longest} bytes, and not none")
        try:
            message = messages.decode(data, self.up_type)
            self.check(message)
        except (MessageError, ValueError):
            return None
        return message


SECOND = Crossing(
    "second", fleet_keys.second, "vision/hard", "sensor_msgs/msg/Image", SENSOR, "vision/second",
    "brain_interfaces/msg/DetectedObjects", FEATURE,
    longest=48 * 1024,      # a picture of 96 x 64, and room
    longest_answer=16 * 1024, rate=1e6, burst=2e5, consent="pictures", what="hard pictures of vision", check=images.rgb)
"""A larger vision in the cloud that answers :class:`brain_regions.vision.joint.JointVision`."""
