# SPDX-License-Identifier: Apache-2.0
"""Common parts of all motors: ports, parameters, the numbers of modes and states, and the messages."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping

from brain_regions.base import Base, Steering
from brain_regions.beams import Beams
from brain_regions.lidars import Lidars, Scanning
from brain_runtime import FEATURE, Gated, In, Out, clip_utf8, parameter
from brain_runtime.interfaces import Control, MotorStatus

IDLE, SEARCH, APPROACH, STOP, AVOID = (
    Control.MODE_IDLE, Control.MODE_SEARCH, Control.MODE_APPROACH, Control.MODE_STOP, Control.MODE_AVOID)
STANDING, MOVING, ARRIVED, BLOCKED = (
    MotorStatus.STATE_STANDING, MotorStatus.STATE_MOVING, MotorStatus.STATE_ARRIVED, MotorStatus.STATE_BLOCKED)
CONTROL_TIMEOUT = 0.3                               # s, age at which pfc's word is stale
SCAN_TIMEOUT = 0.5                                  # s
FEATURES_TIMEOUT = 0.6                              # s
TRUSTED = 0.3                                       # confidence from which on a sensor's hazard map counts


@dataclass(frozen=True)
class MotorParameters(Base):
    """Limits and distances."""

    max_linear: float = parameter(0.5, "top speed", unit="m/s", low=0.0, high=2.0)
    max_angular: float = parameter(1.5, "top turning speed", unit="rad/s", low=0.1, high=4.0)
    turn_speed: float = parameter(1.3, "top turning speed on the spot, while looking about", unit="rad/s", low=0.1,
                                  high=4.0)
    braking: float = parameter(0.7, "deceleration counted on when stopping at a target", unit="m/s^2", low=0.05,
                               high=5.0)
    margin: float = parameter(0.07, "clearance below which no way is taken", unit="m", low=0.0, high=1.0)
    stop_gap: float = parameter(0.28, "gap to the target's surface at which to stop", unit="m", low=0.05, high=2.0)


class AnyMotor(Scanning):
    """Ports of a motor."""

    rate = 10.0
    Parameters = MotorParameters

    control = In("pfc/control", "brain_interfaces/msg/Control", FEATURE, trigger=True)
    features = In("sensor/features", "brain_interfaces/msg/SensorFeatures", FEATURE.with_depth(10), key="source",
                  device=True)

    command = Out("motor/command", "brain_interfaces/msg/MotorCommand", FEATURE)
    status = Out("motor/status", "brain_interfaces/msg/MotorStatus", FEATURE,
                 gated=Gated(gist=lambda message: (message.goal_id, message.state)))

    def configure(self, parameters: Mapping[str, Any]) -> None:
        """Takes parameters; of the robot's frames nothing is known yet."""
        super().configure(parameters)
        self._lidars, self._steering, self._seen = Lidars(), Steering(), None

    def scanned(self, inbox: Any) -> tuple[Beams | None, str]:
        """Beams of the newest scans, or None and why there are none, for a person."""
        self._seen, why = self._lidars.take(inbox, self.parameters, SCAN_TIMEOUT).beams()
        return self._seen, why

    def messages(self, control: Any, velocity: tuple[float, float], kind: int, clearance: float,
                 reason: str) -> dict[str, Any]:
        """Command and status.

        Args:
            control: the Control that was acted on, or None.
            velocity: m/s and rad/s; a base that steers like a car gets curves where it is to turn on the spot.
            kind: state of MotorStatus.
            clearance: m ahead of the robot's edge, NaN when not known.
            reason: for a person.
        """
        velocity, narrow = self._steering.steer(velocity, self.parameters, self.parameters.max_linear, self._seen)
        kind, reason = (MotorStatus.STATE_BLOCKED, narrow) if narrow else (kind, reason)
        command = self.command()
        command.header.frame_id = self.parameters.base_frame
        command.twist.linear.x, command.twist.angular.z = velocity
        return {"command": command, "status": self.status(
            goal_id=0 if control is None else control.goal_id, state=kind, linear=velocity[0], angular=velocity[1],
            clearance=clearance, reason=clip_utf8(reason, 128))}
