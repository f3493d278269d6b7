# SPDX-License-Identifier: Apache-2.0
"""Frames of the robot as a region hears them: where a sensor is, by ``tf_static``, else by ``robot_description``.

Whoever publishes frames may err: what cannot be is not taken, and is told.
"""
from __future__ import annotations

from typing import Any, Callable, TypeVar

from brain_runtime.contract.ports import In
from brain_runtime.contract.region import Region
from brain_wire.qos import LATCHED
from brain_runtime.contract.frames import FrameError, Frames

T = TypeVar("T")


class Framed(Region):
    """Region that wants to know where sensors are: the ports that :class:`RobotFrames` hears."""

    frames = In("tf_static", "tf2_msgs/msg/TFMessage", LATCHED.with_depth(10), every=True, device=True)
    description = In("robot_description", "std_msgs/msg/String", LATCHED, device=True)


class RobotFrames:
    """Frames of the robot. Have it :meth:`hear` in each step.

    Attributes:
        broken: what in them cannot be, and is not taken, for a person; empty: nothing.
    """

    def __init__(self) -> None:
        self.broken = ""
        self._told, self._described = Frames(), Frames()

    def hear(self, inbox: Any) -> bool:
        """Takes in what came on the ports of :class:`Framed`; says whether anything did."""
        came = False
        for received in inbox.each("frames"):
            if received.new:
                came = True
                try:
                    self._told.take(received.message)
                except FrameError as error:
                    self.broken = f"tf_static is refused: {error}"
        if inbox.new("description"):
            came, self._described = True, Frames()
            try:
                self._described.describe(inbox.get("description").data)
            except FrameError as error:
                self.broken = f"robot_description is refused: {error}"
        return came

    def find(self, frame: str, base: str, how: Callable[[Frames, str, str], T]) -> tuple[T | None, str]:
        """Finds where the sensor of a frame is.

        Args:
            frame: as its messages name it.
            base: name of the base's frame, with or without the robot's prefix.
            how: asks the frames, with both names: ``Frames.lidar``, ``Frames.pose``.

        Returns:
            The answer, or None and why there is none; empty where nobody tells of frames.
        """
        why = ""
        for frames in (self._told, self._described):
            if len(frames):
                try:
                    return how(frames, frame, frames.base(frame, base)), ""
                except FrameError as error:
                    why = why or str(error)
        return None, why
