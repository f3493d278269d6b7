# SPDX-License-Identifier: Apache-2.0
"""A loaded machine: vision tells of few pictures and late, and what it tells counts from where they were taken."""
import logging
import math
from collections import deque

import numpy as np
import pytest

from brain_eval.baselines.table_pfc import TablePrefrontalCortex
from brain_regions import past, room_map
from brain_regions.azimuth import wrap
from brain_regions.past import Past
from brain_regions.pfc import PrefrontalCortex
from brain_regions.pfc import control as c
from brain_regions.place import Place
from brain_regions.sensed import make, stamped
from brain_runtime.hosts.local import LocalHost
from brain_wire import messages

HALF = 3.0          # m, half a side of the room
EYE = math.pi / 4   # rad to either side
AGE = 0.4           # s from a picture to what is told of it
STEP = 0.05         # s
CORTICES = pytest.mark.parametrize("region", [PrefrontalCortex, TablePrefrontalCortex])


class Room:
    """A robot in an empty square room with a red ball, and regions in lockstep that hear its sensors.

    Args:
        regions: by name.
        ball: where it is (m, m); None: there is none.
        age: s by which vision tells late.
        every: steps between two pictures.
        skew: s by which the camera's clock is ahead; None: it gives no stamps.
    """

    def __init__(self, regions, ball=None, *, age=AGE, every=4, skew=0.0, parameters=None):
        self.host = LocalHost(regions, parameters=parameters)
        self.ball, self.age, self.every, self.skew = ball, age, every, skew
        self.pose = (0.0, 0.0, 0.0)
        self.looked = []        # yaws of the pictures that have been told of
        self.statuses = []
        self._waiting, self._count = deque(), 0
        self.host.listen("goal/status", self.statuses.append)
        self.host.advance(1.0)

    def ask(self):
        self.host.publish("lang/features", make("LanguageFeatures", goal_id=1, text="x", understood=True, verb=1,
                                                target_color=1, target_shape=1))

    def run(self, seconds, v=0.0, w=0.0, follow=False):
        """Drives, with these speeds (m/s, rad/s) or as ``pfc/control`` wants it."""
        for _ in range(round(seconds / STEP)):
            arrived = False
            if follow:
                v, w, arrived = self._wanted()
            x, y, yaw = self.pose
            self.pose = (x + v * STEP * math.cos(yaw), y + v * STEP * math.sin(yaw), yaw + w * STEP)
            self._sense(w, arrived)
            self.host.advance(STEP)

    def _wanted(self):
        control = self.host.latest("pfc/control")
        if control is None or control.mode not in (c.SEARCH, c.APPROACH, c.AVOID) or math.isnan(control.heading):
            return 0.0, 0.0, False
        if control.mode == c.APPROACH and control.distance < 0.6:
            return 0.0, 0.0, abs(control.bearing) < 0.5
        ahead = control.speed * 0.4 * max(math.cos(control.heading), 0.0) ** 4
        return float(ahead), float(np.clip(2.0 * control.heading, -1.2, 1.2)), False

    def _sense(self, w, arrived):
        now, (x, y, yaw) = self.host.now, self.pose
        odom = stamped(messages.make("nav_msgs/msg/Odometry"), now)
        odom.pose.pose.position.x, odom.pose.pose.position.y, odom.twist.twist.angular.z = x, y, w
        odom.pose.pose.orientation.z, odom.pose.pose.orientation.w = math.sin(yaw / 2), math.cos(yaw / 2)
        self.host.publish("odom", odom)
        self._count += 1
        if self._count % self.every == 0:
            self._waiting.append((now + self.age, yaw, self._picture(now)))
        if self._waiting and self._waiting[0][0] <= now + 1e-6:
            _, taken, picture = self._waiting.popleft()
            self.looked.append(taken)
            self.host.publish("vision/objects", picture)
        self.host.publish("motor/status", make("MotorStatus", goal_id=1, state=c.M_ARRIVED if arrived else 1))
        if self._count % 2 == 0:
            self.host.publish("scan", self._scan(now))

    def _scan(self, now):
        x, y, yaw = self.pose
        angles = -math.pi + np.arange(180) * 2 * math.pi / 180
        to = np.stack([np.cos(angles + yaw), np.sin(angles + yaw)])
        with np.errstate(divide="ignore"):
            reach = np.abs(np.where(to > 0, HALF - np.array([[x], [y]]), -HALF - np.array([[x], [y]])) / to).min(0)
        return stamped(messages.make(
            "sensor_msgs/msg/LaserScan", angle_min=-math.pi, angle_max=math.pi, angle_increment=2 * math.pi / 180,
            range_min=0.1, range_max=10.0, ranges=reach), now)

    def of_ball(self):
        """Bearing (rad) and distance (m) of the ball from where the robot is."""
        dx, dy = self.ball[0] - self.pose[0], self.ball[1] - self.pose[1]
        return float(wrap(math.atan2(dy, dx) - self.pose[2])), math.hypot(dx, dy)

    def _picture(self, now):
        seen = []
        if self.ball is not None:
            bearing, distance = self.of_ball()
            if abs(bearing) < EYE and distance < 4.0:
                seen = [make("DetectedObject", color=1, shape=1, confidence=0.9, bearing=bearing, distance=distance)]
        return stamped(make("DetectedObjects", source="vision", azimuth_min=-EYE, azimuth_max=EYE, objects=seen),
                       0.0 if self.skew is None else now + self.skew)

    def seen(self):
        """Directions (rad, of odometry) in which floor 1.5 m away counts as seen: bool[360], and all directions."""
        directions = np.arange(-math.pi, math.pi, 2 * math.pi / 360)
        rows, columns = room_map.cells(1.5 * np.cos(directions), 1.5 * np.sin(directions))
        return self.host.stepper("place").state["seen"][rows, columns] >= 0.5, directions

    def looked_at(self, margin):
        """Which directions two of the pictures that have been told of, or more, covered but for a margin (rad)."""
        _, directions = self.seen()
        return sum((np.abs(wrap(directions - yaw)) < EYE - margin).astype(int) for yaw in self.looked) >= 2


# -- place ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("age, every", [(0.4, 4), (0.4, 1), (0.9, 5), (0.15, 2)])
def test_floor_counts_as_seen_from_where_the_picture_was_taken(age, every):
    room = Room({"place": Place()}, age=age, every=every)
    for _ in range(12):
        room.run(0.25, w=1.2)
        seen, _ = room.seen()
        assert not (seen & ~room.looked_at(-0.08)).any()    # nothing that no picture has shown
    assert not seen.all()
    room.run(2.0)       # what was on its way comes in
    seen, _ = room.seen()
    assert (seen | ~room.looked_at(0.2)).all() and seen.sum() > 250


def test_driving_floor_that_came_into_view_later_does_not_count():
    eye, now = (-1.0, 0.0, 0.0), (0.0, 0.0, 0.5)
    seen = np.zeros((room_map.SIZE, room_map.SIZE), np.float32)
    angles = np.linspace(-math.pi, math.pi, 360, endpoint=False).astype(np.float32)
    for _ in range(2):
        room_map.add_look(seen, eye, (-0.7, 0.7), 4.0, now, angles, np.full(360, 3.0, np.float32))
    rows, columns = np.nonzero(seen >= 0.5)
    x, y = (columns - room_map.SIZE // 2 + 0.5) * room_map.CELL, (rows - room_map.SIZE // 2 + 0.5) * room_map.CELL
    assert len(x) > 500 and (np.abs(np.arctan2(y, x + 1.0)) < 0.75).all() and np.hypot(x + 1.0, y).max() < 4.1
    assert np.hypot(x, y).max() < 3.1       # and nothing behind what the beams hit


@pytest.mark.parametrize("skew", [None, 0.5, -30.0])
def test_where_clocks_disagree_nothing_counts_as_seen_and_that_is_said_once(skew, caplog):
    room = Room({"place": Place()}, skew=skew, age=0.0, every=1)
    with caplog.at_level(logging.WARNING):
        room.run(6.0, w=1.2)
    assert not room.seen()[0].any()
    assert len(caplog.records) == 1 and "vision/objects of vision is stamped" in caplog.text and "chrony" in caplog.text


# -- the prefrontal cortex -----------------------------------------------------------------------------------------


@CORTICES
@pytest.mark.parametrize("v, w, ball", [(0.0, 0.9, (1.0, 1.2)), (0.0, -0.9, (1.2, -0.8)), (0.5, 0.0, (2.6, 0.6)),
                                        (0.4, 0.5, (1.8, 1.2))])
def test_what_is_told_late_is_remembered_where_it_is(region, v, w, ball):
    room = Room({"pfc": region("pfc")}, ball=ball, every=2)
    room.ask()
    room.run(1.0)
    room.run(1.4, v=v, w=w)
    control = room.host.latest("pfc/control")
    bearing, distance = room.of_ball()
    assert control.mode == c.APPROACH
    assert wrap(float(control.bearing) - bearing) == pytest.approx(0.0, abs=0.12)
    assert float(control.distance) == pytest.approx(distance, abs=0.16)


@CORTICES
def test_what_is_older_than_all_that_is_remembered_is_left_out_and_said(region):
    room = Room({"pfc": region("pfc")}, ball=(1.5, 0.0), age=3.0)
    room.run(5.0)
    room.ask()
    room.run(0.5)
    status = room.statuses[-1]
    assert status.state == c.S_WAITING and "s old, or its clock disagrees with odometry's" in status.reason
    assert math.isnan(room.host.latest("pfc/control").bearing)


@CORTICES
@pytest.mark.parametrize("skew", [None, 0.5, -30.0])
def test_where_clocks_disagree_what_is_seen_counts_as_seen_now(region, skew):
    room = Room({"pfc": region("pfc")}, ball=(1.5, 0.6), skew=skew, age=0.0, every=1)
    room.ask()
    room.run(2.0)
    control = room.host.latest("pfc/control")
    assert control.mode == c.APPROACH and float(control.bearing) == pytest.approx(room.of_ball()[0], abs=0.06)


# -- both ----------------------------------------------------------------------------------------------------------


@pytest.mark.extended((-2.4, 0.0), (0.0, -2.4))
@CORTICES
@pytest.mark.parametrize("ball, age, every", [
    ((0.5, 2.4), 0.4, 4), ((-2.4, 0.0), 0.45, 8), ((0.0, -2.4), 0.45, 8), ((1.45, -2.51), 0.45, 8)])
def test_on_a_loaded_machine_it_finds_what_is_there(region, ball, age, every):
    room = Room({"place": Place(), "pfc": region("pfc")}, ball=ball, age=age, every=every)
    room.run(1.0)
    room.ask()
    for _ in range(60):
        room.run(0.5, follow=True)
        if room.statuses[-1].state == c.S_REACHED:
            break
    assert room.statuses[-1].state == c.S_REACHED, [(s.state, s.reason) for s in room.statuses]
    assert room.of_ball()[1] < 0.8 and c.S_NOT_FOUND not in [s.state for s in room.statuses]


@CORTICES
def test_what_is_not_there_is_not_found_only_when_vision_is_in_time_again(region):
    room = Room({"place": Place(), "pfc": region("pfc")})
    room.run(1.0)
    room.ask()
    room.run(30.0, follow=True)
    assert {s.state for s in room.statuses if s.goal_id} == {c.S_SEARCHING}
    room.age, room.every = 0.05, 1
    room._waiting.clear()
    room.run(15.0, follow=True)
    assert room.statuses[-1].state == c.S_NOT_FOUND and room.statuses[-1].reason.startswith("I looked everywhere")


# -- poses of the past ---------------------------------------------------------------------------------------------


def test_poses_of_the_past():
    before = Past()
    assert before.at(1.0) is None and before.nearest(1.0) is None
    before.put(0.0, (9.0, 9.0, 9.0))        # without a stamp
    for k in range(60):
        before.put(1000.0 + 0.05 * k, (0.1 * k, 0.0, wrap(0.1 * k)), k)
    assert before.newest == pytest.approx(1002.95)
    assert before.at(1002.525) == pytest.approx((5.05, 0.0, wrap(5.05)))
    assert before.at(1002.95 + past.AHEAD - 1e-3) == pytest.approx((5.9, 0.0, wrap(5.9)))
    assert before.nearest(1002.46).kept == 49
    for unknown in (0.0, 1000.5, 1002.95 + past.AHEAD + 1e-3, -1.0, math.nan):
        assert before.at(unknown) is None, unknown
    before.put(1004.0, (7.0, 0.0, 0.0))
    assert before.at(1003.5) is None        # between two that are too far apart
    before.put(50.0, (1.0, 2.0, 3.0))       # a clock that was set
    assert before.at(1004.0) is None and before.at(50.0) == (1.0, 2.0, 3.0)
    assert past.since((1.0, 1.0, math.pi / 2), (1.0, 3.0, math.pi)) == pytest.approx((2.0, 0.0, math.pi / 2))
