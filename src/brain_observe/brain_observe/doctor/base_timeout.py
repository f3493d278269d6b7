# SPDX-License-Identifier: Apache-2.0
"""Command timeout of a base, measured: it crawls for half a second, then nobody commands it, and odometry is watched.

The only part of the doctor that moves anything. Whatever ends it, zeros are sent.
"""
from __future__ import annotations

import math
import time
from typing import Any, NamedTuple

import numpy as np

from brain_observe.doctor.finding import DEGRADES, STOPS, Finding
from brain_observe.doctor.frames import lidar_of
from brain_observe.doctor.heard import COMMAND, COMMAND_QOS, DEVICES, ODOM, SCAN, STAMPED, TWIST, Heard
from brain_runtime.graph.robots import LONGEST_TIMEOUT
from brain_wire import Node, messages
from brain_wire.wakeup import Flag

SPEED, DRIVES = 0.05, 0.5   # m/s and s that the robot is told to drive; never more
PERIOD = 0.05               # s between two commands
WATCHED = LONGEST_TIMEOUT + 0.5     # s after the last command: who drives on then has no timeout
ZEROS = 0.5                 # s for which zeros are sent at the end
MOVES, STANDS = 0.015, 0.01     # m/s from which on it has begun to move, and below which it stands
STILL = 3                   # messages of odometry in a row in which it must stand
ROOM = 0.5                  # m that must be free ahead of the outline
SLACK = 0.15                # s by which a profile's timeout may be exceeded: odometry is late, and braking takes time
SAFE = 0.5                  # s that a base may have, as docs/new-robot.md says
QUESTION = (f"The robot will drive ahead at {SPEED:g} m/s for {DRIVES:g} s, then it is left without commands until it "
            f"stops by itself, at most {WATCHED:g} s: up to {100 * SPEED * (DRIVES + WATCHED):.0f} cm. Keep a hand on "
            f"its own stop button; Ctrl-C sends zeros. Write yes to drive:")


class Measured(NamedTuple):
    """Result of a measurement.

    Attributes:
        fastest: speed ahead that odometry told while it was commanded (m/s); negative: it went back.
        timeout: s from the last command until it stood; NaN: it did not stand, or was not watched to the end.
        ended: somebody ended it before.
    """

    fastest: float
    timeout: float
    ended: bool = False


def refusal(heard: Heard) -> str:
    """Reason why nothing may be measured now, for a person; empty where it may."""
    topic = heard.topic(COMMAND)
    if heard.refused is not None:
        return f"of its profile only names were read: {heard.refused.text}"
    if heard.publishers(topic):
        return f"{heard.publishers(topic)[0].name} publishes {topic}; end it first, the brain too"
    wanted = STAMPED if heard.value("stamped", True, "brainstem") else TWIST
    if not any(e.type == wanted for e in heard.subscriptions(topic)):
        return f"nobody hears {topic} as {wanted}"
    twists = [one.message.twist.twist for one in heard.came[ODOM]]
    if not twists:
        return "there is no odometry to see it stop by"
    if any(not abs(t.linear.x) < STANDS or not abs(t.angular.z) < 3 * STANDS for t in twists):
        return "the robot moves"
    scan = heard.newest(SCAN)
    if scan is None:
        return "there is no scan that shows that the way is free"
    ranges = np.asarray(scan.ranges, float)
    angles = lidar_of(heard).beams(scan.angle_min + scan.angle_increment * np.arange(len(ranges)))[0]
    ahead = ranges[(np.cos(angles) > 0.7) & np.isfinite(ranges) & (ranges >= scan.range_min)]
    radius = heard.value("radius", 0.2, "brainstem")
    if (nearest := float(ahead.min(initial=math.inf))) < radius + ROOM:
        return f"something is {nearest:.2f} m ahead of the lidar; {radius + ROOM:.2f} m must be free"
    return ""


def measure(node: Node, heard: Heard, stop: Flag) -> Measured:
    """Drives and measures; ``stop`` ends it at any moment. Zeros are sent at the end, whatever ends it."""
    stamped = bool(heard.value("stamped", True, "brainstem"))
    out = node.publisher(heard.topic(COMMAND), STAMPED if stamped else TWIST, COMMAND_QOS)
    odometry = node.subscription(heard.topic(ODOM), DEVICES[ODOM].type, DEVICES[ODOM].qos.with_depth(50))

    def command(speed: float) -> None:
        if not stamped:
            message = twist = messages.make(TWIST)
        else:
            message = messages.make(STAMPED)
            message.header.stamp = messages.time_message(time.time())
            message.header.frame_id, twist = str(heard.value("base_frame", "base_link")), message.twist
        twist.linear.x = speed
        out.publish(message)

    def speeds() -> list[tuple[float, float]]:
        """Returns when odometry came (steady, s), and the speed ahead that it told (m/s)."""
        found = []
        for arrival in odometry.take():
            try:
                twist = messages.decode(arrival.data, odometry.type).twist.twist
            except messages.MessageError:
                continue
            found.append((arrival.received, float(twist.linear.x)))
        return found

    fastest, timeout, ended = 0.0, math.nan, True
    try:
        begin = last = time.monotonic()
        while (now := time.monotonic()) - begin < DRIVES and not stop.is_set():
            command(SPEED)
            last = now
            stop.wait(PERIOD)
            fastest = max([fastest, *(speed for _, speed in speeds())], key=abs)
        still = 0
        while time.monotonic() - last < WATCHED and not stop.wait(PERIOD / 2) and still < STILL:
            for at, speed in speeds():
                if abs(speed) >= STANDS:
                    fastest, still = max(fastest, speed, key=abs), 0
                elif still < STILL:
                    timeout, still = at - last if still == 0 else timeout, still + 1
        ended = stop.is_set()
    finally:
        until = time.monotonic() + ZEROS
        while time.monotonic() < until:     # in spite of a second Ctrl-C: the signal only sets a flag
            command(0.0)
            time.sleep(PERIOD)
        node.let_go(out)
        node.let_go(odometry)
    return Measured(fastest, timeout if still >= STILL else math.nan, ended)


def findings(heard: Heard, measured: Measured) -> list[Finding]:
    """All that a measurement found to be wrong."""
    topic, says = heard.topic(COMMAND), heard.robot.command_timeout
    if measured.ended:
        return []
    if abs(measured.fastest) < MOVES:
        return [Finding("base-still", DEGRADES, topic, f"told to drive at {SPEED:g} m/s, the base did not move by its "
                        f"odometry", "is it switched on, and released? Some bases do not move so slowly")]
    found = []
    if measured.fastest < 0.0:
        found.append(Finding("base-backwards", STOPS, topic, f"told to drive ahead, it went back "
                             f"({measured.fastest:.2f} m/s by odometry)", "correct the sign of wheels or odometry"))
    if math.isnan(measured.timeout):
        found.append(Finding("base-timeout-none", STOPS, topic, f"it drove on for {WATCHED:g} s without a command",
                             "it needs a timeout of its own: see TurtleBot 3 in docs/new-robot.md for a node between"))
    elif measured.timeout > (says if says is not None else SAFE) + SLACK:
        found.append(Finding("base-timeout-long", STOPS if measured.timeout > SAFE + SLACK else DEGRADES, topic,
                             f"it stops {measured.timeout:.2f} s after the last command" + (
                                 f", by the profile after {says:g} s" if says is not None else ""),
                             f"set the base's timeout to {SAFE:g} s or less, and in the profile command_timeout: "
                             f"{min(measured.timeout, LONGEST_TIMEOUT):.2f}"))
    return found


def told(measured: Measured) -> dict[str, Any]:
    """Result as plain JSON values (SI units)."""
    return {"command_timeout": None if math.isnan(measured.timeout) else round(measured.timeout, 3),
            "fastest": round(measured.fastest, 3)}
