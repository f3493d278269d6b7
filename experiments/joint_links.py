# SPDX-License-Identifier: Apache-2.0
"""The regions of joint inference, in lockstep, with a link between them that takes time and loses answers."""
from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Mapping, Sequence

import numpy as np

from brain_regions.vision.decode import Found
from brain_regions.vision.joint import JointVision
from brain_regions.vision.second import SecondVision
from brain_runtime import FEATURE, In, Out, Region, parameter
from brain_runtime.hosts.local import LocalHost
from brain_sim.robot import CAMERA_FORWARD, CAMERA_RATE
from brain_training.vision_data import Way
from brain_wire.messages import make, time_message, time_seconds

DETECTED = "brain_interfaces/msg/DetectedObjects"
TAKES = 0.06        # s from a hard picture to its answer: the way there and back, and the large network's look


class Link(Region):
    """Hands answers on, some time later, and loses some."""

    rate = 200.0
    came = In("vision/far", DETECTED, FEATURE.with_depth(10), trigger=True, every=True)
    goes = Out("vision/second", DETECTED, FEATURE.with_depth(10))

    @dataclass(frozen=True)
    class Parameters:
        """Loss of answers."""

        lost: float = parameter(0.0, "share of the answers", low=0.0, high=1.0)

    def initial_state(self):
        """On their way."""
        self._way: list[tuple[float, Any]] = []
        return {"now": np.zeros(1, np.float32)}

    def step(self, inbox, state, dt, rng):
        """Hands on what is due."""
        self._way += [(inbox.now + TAKES, one.message) for one in inbox.each("came") if one.new
                      and rng.random() >= self.parameters.lost]
        due = [message for time, message in self._way if time <= inbox.now + 1e-9]
        self._way = [one for one in self._way if one[0] > inbox.now + 1e-9]
        return {"goes": due}, state


def driven(held: Sequence[Way], large: Path, lost: float, parameters: Mapping[str, Any], seed: int
           ) -> tuple[list[list[list[Found]]], dict[str, Any]]:
    """Runs the regions along each way, each way with regions that have seen nothing.

    Args:
        held: the ways.
        large: weight file of the large network.
        lost: share of the answers that the link loses.
        parameters: of the joint vision.
        seed: of the first way; that of each other is one more.

    Returns:
        The objects told of each picture; and the share of pictures that was asked about, s from a picture to its
        objects, and counts.
    """
    found, waits, counts = [], [], {}
    for number, way in enumerate(held):
        said, late, counted = _one(way, large, lost, parameters, seed + number)
        found.append(said)
        waits += late
        counts = {name: counts.get(name, 0) + count for name, count in counted.items()}
    low, high = (float(np.percentile(waits, part)) for part in (50, 95))
    return found, {"share": counts["asked"] / counts["pictures"], "wait_p50": low, "wait_p95": high,
                   "wait_most": max(waits), "counts": counts}


def _one(way: Way, large: Path, lost: float, parameters: Mapping[str, Any], seed: int
         ) -> tuple[list[list[Found]], list[float], dict[str, int]]:
    vision, second = JointVision("vision"), SecondVision("second")
    second.remap = {"vision/second": "vision/far"}
    host = LocalHost({"vision": vision, "second": second, "link": Link("link")}, seed=seed, parameters={
        "vision": {"camera_x": CAMERA_FORWARD, "spikes": False, **parameters}, "second": {"weights": str(large)},
        "link": {"lost": lost}})
    said: dict[int, tuple[list[Found], float]] = {}
    host.listen("vision/objects", lambda message: said.__setitem__(
        _frame(message), (_seen(message), host.now - _frame(message) / CAMERA_RATE)))
    for frame, (image, pose) in enumerate(zip(way.images, way.poses)):
        header = make("std_msgs/msg/Header", stamp=time_message((frame + 1) / CAMERA_RATE))
        host.publish("odom", _odometry(header, pose))
        host.publish("camera/image_raw", make("sensor_msgs/msg/Image", header=header, height=image.shape[0],
                                              width=image.shape[1], encoding="rgb8", step=3 * image.shape[1],
                                              data=image.reshape(-1)))
        host.advance(1.0 / CAMERA_RATE)
    host.advance(1.0)
    return [said[frame][0] for frame in range(len(way.images))], [late for _, late in said.values()], vision.counts


def _frame(message: Any) -> int:
    return round(time_seconds(message.header.stamp) * CAMERA_RATE) - 1


def _odometry(header: Any, pose: tuple[float, float, float]) -> Any:
    message = make("nav_msgs/msg/Odometry", header=header)
    message.pose.pose.position.x, message.pose.pose.position.y = pose[:2]
    message.pose.pose.orientation.z = math.sin(pose[2] / 2)
    message.pose.pose.orientation.w = math.cos(pose[2] / 2)
    return message


def _seen(message: Any) -> list[Found]:
    """Objects as the camera sees them, the surest first, from what is told in the robot's frame."""
    found = []
    for one in message.objects:
        x, y = one.distance * math.cos(one.bearing) - CAMERA_FORWARD, one.distance * math.sin(one.bearing)
        found.append(Found(one.color - 1, one.shape - 1, one.confidence, math.atan2(y, x), math.hypot(x, y),
                           one.width))
    return sorted(found, key=lambda one: -one.confidence)
