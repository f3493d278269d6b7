# SPDX-License-Identifier: Apache-2.0
"""Lidars of the robot: how each is mounted, and the scan of a second one, the same for every region that reads scans.

Where a lidar sits and how it is turned is told by the robot's frames (``tf_static``, else ``robot_description``), by
the name of the frame that its scans carry; where they do not tell it, by the profile. Whoever publishes frames may err:
what cannot be is not taken, and what contradicts the profile, or moves, is told.
"""
from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

from brain_regions.azimuth import wrap
from brain_regions.beams import Beams, heard, misshapen
from brain_regions.body import Body
from brain_runtime.contract.robot_frames import Framed, RobotFrames
from brain_runtime import SENSOR, In
from brain_runtime.contract.frames import Frames
from brain_runtime.contract.optics import Mount

FRESH = 0.4             # s, age up to which a scan of the second lidar goes with one of the first
APART = 0.05, 0.1       # m, rad by which frames and profile may differ
MOVED = 0.01, 0.02      # m, rad by which a frame may differ from what was told before
STEADY = 2.0            # s after which a frame that moved is taken to stay where it is
FARTHEST = 2.0          # m from the base
LONGEST = 150           # characters of a frame's name, which is told to people; frames have shorter ones
SAID = "lidar_x", "lidar_y", "lidar_yaw", "lidar_pitch", "lidar_roll"
FIRST, SECOND = "scan", "scan/second"


class Scanning(Framed):
    """Region that reads scans: the ports that :class:`Lidars` looks at. ``scan`` may be declared anew, as a trigger."""

    scan = In(FIRST, "sensor_msgs/msg/LaserScan", SENSOR, device=True)
    second_scan = In(SECOND, "sensor_msgs/msg/LaserScan", SENSOR, device=True)


class Scans(NamedTuple):
    """Scans of a moment.

    Attributes:
        scan: the newest LaserScan; None: there is none.
        body: of the robot, with the lidar mounted as it is.
        second: the scan of the second lidar, and the body with that one's mounting; None: there is none.
        fault: why none of it is to be used now, for a person; empty: it is.
    """

    scan: Any
    body: Body
    second: tuple[Any, Body] | None = None
    fault: str = ""

    def beams(self) -> tuple[Beams | None, str]:
        """Beams of all lidars, or None and why there are none, for a person."""
        return (None, self.fault) if self.fault else heard(self.scan, self.body, self.second)


class Lidars:
    """Knowledge of how the lidars of a robot are mounted. Have it :meth:`take` in each step.

    Attributes:
        note: what is wrong with that, for a person, and the remedy; empty: nothing. The robot may drive nevertheless.
    """

    def __init__(self) -> None:
        self.note = ""
        self._frames = RobotFrames()
        self._known: dict[str, tuple[Any, str, Body | None, str]] = {}      # by topic; see _mounted()
        self._before: dict[str, tuple[str, Mount]] = {}     # by topic: frame, and where it was told to be
        self._moved = "", -math.inf         # frame that moved last, and when

    def take(self, inbox: Any, parameters: Body, within: float = math.inf) -> Scans:
        """Takes in what frames tell, and gives the scans that there are, by the ports of :class:`Scanning`.

        Args:
            inbox: of the region.
            parameters: of the region: what the profile says.
            within: s, age of the oldest scan that is given.
        """
        if self._frames.hear(inbox):
            self._known.clear()
        scan, other = inbox.get("scan", within), inbox.get("second_scan", FRESH)
        if scan is None:
            return Scans(None, parameters)
        body, note = self._mounted(FIRST, scan, parameters, parameters.lidar, inbox.now)
        second = None
        if other is not None:
            placed, why = self._mounted(SECOND, other, parameters, parameters.second, inbox.now)
            if placed is not None and not misshapen(other):
                second = other, placed
            note = note or why or misshapen(other).replace("the scan", SECOND, 1)
        self.note = note or self._frames.broken
        frame, at = self._moved
        return Scans(scan, body or parameters, second, "" if inbox.now - at >= STEADY else
                     f"the lidar's frame {frame!r} is told to be elsewhere than before; end one of its two publishers")

    def _mounted(self, topic: str, scan: Any, parameters: Body, profile: Mount | None, now: float
                 ) -> tuple[Body | None, str]:
        """Body with the lidar of a topic mounted as it is, and what is wrong with that; None: nobody tells."""
        frame, known = scan.header.frame_id[:LONGEST], self._known.get(topic)
        if known is not None and known[0] is parameters and known[1] == frame:
            return known[2:]
        mount, note = self._by_frames(frame, parameters)
        if mount is not None:
            name, before = self._before.get(topic, ("", mount))
            if name == frame and any(abs(by) > MOVED[k > 1] for k, by in enumerate(_apart(before, mount))):
                self._moved = frame, now
            self._before[topic] = frame, mount
            if profile is not None:
                note = _contradiction(topic, frame, mount, profile)
        elif profile is None:
            note = (f"{SECOND} is not used, since nobody tells where its lidar is: publish its frame {frame!r}, or in "
                    f"the profile, shared: {{second_lidar: [x, y, yaw]}}")
        found = mount or profile
        body = None if found is None else parameters.with_lidar(found)
        self._known[topic] = parameters, frame, body, note
        return body, note

    def _by_frames(self, frame: str, parameters: Body) -> tuple[Mount | None, str]:
        """Mounting of the lidar of a frame, or None and why frames do not tell it; empty where there are none."""
        if not parameters.lidar_frames:
            return None, ""
        mount, why = self._frames.find(frame, parameters.base_frame, Frames.lidar)
        if mount is not None and math.hypot(mount.x, mount.y) > FARTHEST:
            mount, why = None, f"frame {frame!r} is not on the robot; correct the URDF"
        return mount, why and f"where the lidar is, the profile says, since {why}"


def _apart(one: Mount, other: Mount) -> tuple[float, ...]:
    """Differences in x, y (m), yaw, pitch and roll (rad) of two mountings."""
    angles = ((getattr(other, name), getattr(one, name)) for name in ("yaw", "pitch", "roll"))
    return other.x - one.x, other.y - one.y, *(float(wrap(a - b)) for a, b in angles)


def _contradiction(topic: str, frame: str, mount: Mount, profile: Mount) -> str:
    """Tells where frames contradict what the profile says; what is zero there, the first lidar's need not say."""
    told, says = ((one.x, one.y, one.yaw, one.pitch, one.roll) for one in (mount, profile))
    wrong = [k for k, by in enumerate(_apart(profile, mount)) if abs(by) > APART[k > 1]
             and (says[k] or topic == SECOND)]
    if not wrong:
        return ""
    right = (f"second_lidar: [{', '.join(f'{value:.3f}' for value in told)}]" if topic == SECOND else
             ", ".join(f"{SAID[k]}: {told[k]:.4f}" for k in wrong))
    return (f"frame {frame!r} of {topic} and the profile contradict each other, and the frame is believed: "
            + ", ".join(f"{SAID[k]} is {told[k]:.2f} and not {says[k]:.2f}" for k in wrong)
            + f"; in the profile, shared: {{{right}}}, or {{lidar_frames: false}} and correct the URDF")


def carried(body: Body, ahead: float, left: float, turned: float) -> Body:
    """The body of a scan that was taken from another place, as if it was taken from here.

    Args:
        ahead, left, turned: that place, from here (m, m, rad).
    """
    cos, sin = math.cos(turned), math.sin(turned)
    return replace(body, lidar_x=ahead + cos * body.lidar_x - sin * body.lidar_y,
                   lidar_y=left + sin * body.lidar_x + cos * body.lidar_y,
                   lidar_yaw=float(wrap(body.lidar_yaw + turned)))
