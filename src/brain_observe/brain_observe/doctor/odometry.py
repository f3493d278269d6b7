# SPDX-License-Identifier: Apache-2.0
"""Findings of odometry: what the regions would refuse, and what a few seconds of it contradict."""
from __future__ import annotations

import cmath
import math
from typing import Any, Iterator

from brain_observe.doctor.finding import DEGRADES, NOTE, STOPS, Finding
from brain_observe.doctor.heard import ODOM, Heard
from brain_runtime.contract.azimuth import sound, wrap
from brain_runtime.contract.frames import FLOORS, FrameError, Frames
from brain_runtime.contract.odometry import ABOVE, LAG, SHARE, STILL, UNKNOWN, Odometry, pose_of, unsound

LEAST = 0.05, 0.1           # m, rad that pose or twist must tell before they are compared: less than regions wait for
TURNS, SLIPS, OFTEN = 0.2, 0.1, 5   # rad/s, m/s, messages: what a base does, and no noise
PLANAR = {"x": 0, "y": 7, "yaw": 35}        # places of variances


def findings(heard: Heard) -> list[Finding]:
    """All that is wrong with the odometry that came."""
    topic, all_of = heard.topic(ODOM), [one.message for one in heard.came[ODOM]]
    if not all_of:
        return []
    refused = [(message, why) for message in all_of if (why := unsound(message))]
    found = [_refused(topic, *one) for one in refused[-1:]]
    watch = Odometry()
    for one in heard.came[ODOM]:
        watch.hear(one.message, one.at)
    if not found and (watch.refused or (why := _contradiction(heard))):
        found.append(Finding("odom-contradiction", STOPS, topic, watch.refused or why, "look at the driver's wheel "
                             "radius, track, signs and units; pose and twist must tell the same movement"))
    return [*found, *_covariance(topic, all_of[-1]), *_child(heard, topic, all_of[-1]), *_base(heard, topic, all_of)]


def moves(heard: Heard) -> bool:
    """Tells whether the robot moved by odometry so far that pose and twist could be compared."""
    turned, way = heard.moved()
    return way >= LEAST[0] or turned >= LEAST[1]


def unjudged(heard: Heard) -> Iterator[str]:
    """Tells of what could not be judged."""
    if heard.came[ODOM] and not moves(heard):
        yield ("odometry's pose against its twist, and whether scan and picture go with them: the robot stood; turn it "
               "by hand meanwhile, with --seconds 10")


def _refused(topic: str, message: Any, why: str) -> Finding:
    """Finding of a message that tells no pose."""
    p, q, twist = message.pose.pose.position, message.pose.pose.orientation, message.twist.twist
    if not sound(p.x, p.y, q.x, q.y, q.z, q.w, twist.linear.x, twist.linear.y, twist.angular.z):
        code, remedy = "odom-nan", "look at what computes it: a division by a time of zero, a wheel that was not read"
    elif message.child_frame_id.rpartition("/")[2] in ABOVE:
        code, remedy = "odom-frames", "header.frame_id is odom, child_frame_id the base (REP 105)"
    else:
        code, remedy = "odom-quaternion", "fill in all of x, y, z, w: for a yaw a, z = sin(a/2), w = cos(a/2)"
    return Finding(code, STOPS, topic, why, remedy)


def _base(heard: Heard, topic: str, all_of: list[Any]) -> Iterator[Finding]:
    """Findings of what the base cannot do by its profile, and of one that did it nevertheless."""
    radius, sideways = heard.value("turning_radius", 0.0, "brainstem"), heard.value("max_lateral", 0.0, "brainstem")
    twists = [one.twist.twist for one in all_of]
    tight = [t for t in twists if abs(t.angular.z) > TURNS and abs(t.linear.x) < 0.5 * radius * abs(t.angular.z)]
    if radius and len(tight) >= OFTEN:
        yield Finding("base-turns", DEGRADES, topic, f"the robot turns tighter than turning_radius ({radius:g} m)",
                      "measure its tightest curve; if it turns on the spot, take turning_radius out of the profile")
    elif radius:
        yield Finding("base-limits", NOTE, f"profile {heard.robot.name}", "the base cannot turn on the spot: it drives "
                      f"curves of {radius:g} m or wider to look round", "give it room: where it is narrower it drives "
                      "ahead and back by turns")
    if not sideways and len([t for t in twists if abs(t.linear.y) > SLIPS]) >= OFTEN:
        yield Finding("base-sideways", NOTE, topic, "the robot moves sideways, and the profile says no max_lateral",
                      "for a base that can, shared: {max_lateral: 0.2}; else it slips, or its twist is not the base's")


def _contradiction(heard: Heard) -> str:
    """Reason why poses and twists of these seconds do not fit each other; empty where they do, or tell too little."""
    came = heard.came[ODOM]
    turned = told_turn = fastest = 0.0
    moved = told = 0j
    rates = []
    for before, after in zip(came, came[1:]):
        (x, y, yaw), (x2, y2, yaw2) = pose_of(before.message), pose_of(after.message)
        dt = after.stamp - before.stamp if after.stamp > before.stamp > 0.0 else after.at - before.at
        one, other = before.message.twist.twist, after.message.twist.twist
        turned += float(wrap(yaw2 - yaw))
        moved += complex(x2 - x, y2 - y)
        told_turn += (one.angular.z + other.angular.z) / 2 * dt
        mean = complex(one.linear.x + other.linear.x, one.linear.y + other.linear.y) / 2
        told += mean * dt * cmath.rect(1.0, yaw + float(wrap(yaw2 - yaw)) / 2)
        fastest = max(fastest, abs(other.angular.z), abs(complex(other.linear.x, other.linear.y)))
        rates.append((other.angular.z, complex(other.linear.x, other.linear.y)))
    if not rates or any(not 0.0 <= came[-1].message.twist.covariance[at] < UNKNOWN for at in (0, 35)):
        return ""
    slack = [LAG * abs(rates[-1][n] - rates[0][n]) for n in (0, 1)]
    if fastest <= STILL:
        return (f"its pose turned by {math.degrees(turned):.0f} degrees and went {abs(moved):.2f} m, and its twist "
                f"says that it stands" if abs(turned) > 2 * LEAST[1] or abs(moved) > 2 * LEAST[0] else "")
    if (most := max(abs(turned), abs(told_turn))) > LEAST[1] and abs(turned - told_turn) > SHARE * most + slack[0]:
        return (f"its orientation turned by {math.degrees(turned):.0f} degrees while its twist says "
                f"{math.degrees(told_turn):.0f}")
    if (most := max(abs(moved), abs(told))) > LEAST[0] and abs(moved - told) > SHARE * most + slack[1]:
        return f"its position moved by {abs(moved):.2f} m while its twist says {abs(told):.2f} m, or another way"
    return ""


def _covariance(topic: str, message: Any) -> Iterator[Finding]:
    for what, values, axes in (("pose", message.pose.covariance, ("x", "y", "yaw")),
                               ("twist", message.twist.covariance, ("x", "yaw"))):
        odd = {axis: float(values[PLANAR[axis]]) for axis in axes if not 0.0 <= float(values[PLANAR[axis]]) < UNKNOWN}
        if odd:
            yield Finding("odom-covariance", DEGRADES, topic, f"variances of its {what} are no measure: " + ", ".join(
                f"{axis} {value:.3g}" for axis, value in odd.items()), "set them to what was measured (m², rad²), or "
                "to zeros, which say nothing; a twist with such ones is not compared with the pose")


def _child(heard: Heard, topic: str, message: Any) -> Iterator[Finding]:
    """Finding where the frame that odometry moves is not the base's, and none that is fixed to it."""
    child, base = message.child_frame_id.strip("/"), heard.value("base_frame", FLOORS[1]).strip("/")
    if child.rpartition("/")[2] in (base, *FLOORS) or child.rpartition("/")[2] in ABOVE:
        return
    frames = Frames()
    try:
        for one in heard.static:
            frames.put(one.header.frame_id, one.child_frame_id, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0))
        frames.pose(child, base)
    except FrameError:
        yield Finding("odom-child", DEGRADES, topic, f"child_frame_id is {child!r}, and the profile's base_frame "
                      f"{base!r}", f"in the profile, shared: {{base_frame: {child}}}" if child else
                      "set child_frame_id to the base's frame")
