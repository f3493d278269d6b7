# SPDX-License-Identifier: Apache-2.0
"""A hand on the wheel: a person's commands, which go before the brain's as long as the hand is there.

A hand is there with its first command, and gone when it is taken off (``teleop/release``). One that falls silent is a
dead man's: the robot stands, and the brain drives on only after a while.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from brain_runtime import FEATURE, In, Region, parameter


@dataclass(frozen=True)
class HandParameters:
    """Patience with a hand on the wheel."""

    teleop_timeout: float = parameter(0.5, "age at which a command by hand is stale, and the robot stands", unit="s",
                                      low=0.1, high=1.0)
    teleop_return: float = parameter(5.0, "silence of a hand that was not taken off, after which the brain drives on",
                                     unit="s", low=1.0, high=3600.0)


class Steered(Region):
    """Region that a hand may steer: the ports of :func:`hand_of`."""

    teleop = In("teleop/cmd_vel", "geometry_msgs/msg/TwistStamped", FEATURE, trigger=True, device=True)
    teleop_release = In("teleop/release", "std_msgs/msg/Empty", FEATURE, device=True)


class Hand(NamedTuple):
    """A hand that is on the wheel.

    Attributes:
        wanted: m/s ahead, m/s to the left, rad/s.
        silent: it says nothing any more.
    """

    wanted: tuple[float, float, float]
    silent: bool


def hand_of(inbox: Any, there: bool, parameters: HandParameters) -> Hand | None:
    """Tells of the hand on the wheel; None: there is none.

    Args:
        inbox: of a :class:`Steered` region.
        there: one was there a step ago.
        parameters: of the region.
    """
    if inbox.new("teleop_release") or not (there or inbox.new("teleop")):
        return None     # taken off, and what was said before in the same instant counts no more
    age = inbox.age("teleop")
    if age > parameters.teleop_return:
        return None
    twist = inbox.get("teleop").twist
    return Hand((float(twist.linear.x), float(twist.linear.y), float(twist.angular.z)), age > parameters.teleop_timeout)
