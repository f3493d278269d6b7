# SPDX-License-Identifier: Apache-2.0
"""Bases that move sideways, and such as steer like a car: what they are told is what they can do."""
import math

import numpy as np
import pytest

from brain_regions import sensed
from brain_regions.base import Base, Steering
from brain_regions.body import Body
from brain_regions.brainstem import LIMITED, PASSED, REFLEX, Brainstem
from brain_regions.motor import Motor
from brain_runtime.hosts.local import LocalHost
from brain_runtime.interfaces import Control, MotorStatus
from brain_wire import messages

PERIOD = 0.05


def run(command, seconds=2.0, ranges=None, **parameters):
    """A brainstem that is told (m/s, m/s to the left, rad/s) for some seconds: all that it published, and why."""
    host = LocalHost({"brainstem": Brainstem("brainstem")}, parameters={"brainstem": {"critical": (), **parameters}})
    sent, said = [], []
    host.listen("cmd_vel", lambda m: sent.append((m.twist.linear.x, m.twist.linear.y, m.twist.angular.z)))
    host.listen("brain/trace", said.append)
    for _ in range(round(seconds / PERIOD)):
        host.publish("scan", messages.make(
            "sensor_msgs/msg/LaserScan", angle_min=-math.pi, angle_max=math.pi, angle_increment=math.tau / 180,
            range_min=0.1, range_max=10.0, ranges=np.full(180, 5.0, np.float32) if ranges is None else ranges))
        told = messages.make("brain_interfaces/msg/MotorCommand")
        told.twist.linear.x, told.twist.linear.y, told.twist.angular.z = command
        host.publish("motor/command", told)
        host.advance(PERIOD)
    return np.array(sent), said


# -- sideways ---------------------------------------------------------------------------------------------------------

def test_a_base_that_cannot_move_sideways_is_not_told_to():
    sent, said = run((0.2, 0.3, 0.1))
    assert not sent[:, 1].any() and sent[-1] == pytest.approx((0.2, 0.0, 0.1))
    assert (said[-1].action, said[-1].reason) == (LIMITED, "the base cannot move sideways")


@pytest.mark.parametrize("side", [1.0, -1.0])
def test_a_holonomic_base_moves_sideways_within_its_limits(side):
    sent, said = run((0.1, 0.25 * side, 0.0), max_lateral=0.3)
    assert sent[-1] == pytest.approx((0.1, 0.25 * side, 0.0)) and said[-1].action == PASSED
    assert np.abs(np.diff(sent[:, 1])).max() <= 0.9 * PERIOD + 1e-6
    sent, said = run((0.0, 2.0 * side, 0.0), max_lateral=0.3)
    assert sent[-1] == pytest.approx((0.0, 0.3 * side, 0.0)) and said[-1].reason == "speed limit"
    sent, said = run((math.nan, 0.1, 0.0), max_lateral=0.3)
    assert not sent.any()
    assert not run((0.1, math.inf, 0.0), max_lateral=0.3)[0].any()


@pytest.mark.parametrize("side", [1.0, -1.0])
def test_the_reflex_looks_where_the_robot_goes(side):
    ranges = np.full(180, 5.0, np.float32)
    left = round((side * math.pi / 2 + math.pi) / (math.tau / 180)) + np.arange(-4, 5)
    ranges[left % 180] = 0.215      # beside the robot
    for command, goes in (((0.0, 0.3 * side, 0.0), False), ((0.0, -0.3 * side, 0.0), True), ((0.2, 0.0, 0.0), True)):
        sent, said = run(command, ranges=ranges, max_lateral=0.3)
        assert bool(sent[-1].any()) == goes
        assert (said[-1].action == REFLEX) == (not goes)


@pytest.mark.parametrize(("side", "where"), [(1.0, "left"), (-1.0, "right")])
def test_nothing_is_driven_sideways_where_nothing_is_seen(side, where):
    ranges = np.full(180, 5.0, np.float32)
    middle = round((side * math.pi / 2 + math.pi) / (math.tau / 180))
    ranges[np.arange(middle - 20, middle + 20) % 180] = np.nan
    sent, said = run((0.0, 0.2 * side, 0.0), ranges=ranges, max_lateral=0.3)
    assert not sent.any() and f"of the way to the {where}" in said[-1].reason
    assert run((0.2, 0.0, 0.0), ranges=ranges, max_lateral=0.3)[0].any()


# -- like a car -------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize(("command", "wanted"), [
    ((0.0, 0.0, 1.0), (0.0, 0.0)), ((0.4, 0.0, 1.2), (0.4, 0.8)), ((0.4, 0.0, -1.2), (0.4, -0.8)),
    ((-0.1, 0.0, 0.5), (-0.1, 0.2)), ((0.4, 0.0, 0.5), (0.4, 0.5))])
def test_a_brainstem_turns_a_car_no_tighter_than_it_can(command, wanted):
    sent, said = run(command, turning_radius=0.5)
    assert sent[-1, ::2] == pytest.approx(wanted, abs=1e-6)
    assert (np.abs(sent[:, 2]) <= np.abs(sent[:, 0]) / 0.5 + 1e-6).all()
    assert ("curves of 0.50 m" in said[-1].reason) == (wanted != (command[0], command[2]))


def test_what_the_base_cannot_do_is_said(caplog):
    with caplog.at_level("INFO"):
        run((0.0, 0.0, 0.0), 0.1, turning_radius=0.5)
    assert "cannot turn on the spot" in caplog.text and "0.50 m" in caplog.text
    assert not Base().cannot and "not back" in Base(turning_radius=1.0, max_reverse=0.0).cannot


def test_steering_leaves_alone_what_a_base_can_do():
    steering = Steering()
    for velocity in ((0.0, 1.0), (0.3, 1.0), (0.0, 0.0)):
        assert steering.steer(velocity, Base(), 0.5, None) == (velocity, "")
    assert steering.steer((0.4, 0.5), Base(turning_radius=0.5), 0.5, None) == ((0.4, 0.5), "")
    assert "no room" in steering.steer((0.0, 1.0), Base(turning_radius=0.5), 0.5, None)[1]


@pytest.mark.parametrize("half", [0.9, 3.0])
@pytest.mark.parametrize(("max_reverse", "turn"), [(0.15, 2.5), (0.15, -2.5), (0.0, 2.5)])
def test_a_car_looks_round_in_curves_and_touches_nothing(half, max_reverse, turn):
    """The spiking motor and the brainstem in a square room, with a base that does nothing but what a car can."""
    base = {"turning_radius": 0.3, "max_reverse": max_reverse, "radius": 0.15}
    host = LocalHost({"motor": Motor("motor"), "brainstem": Brainstem("brainstem")}, parameters={
        "motor": base, "brainstem": {**base, "critical": ()}})
    twist, told, poses = [0.0, 0.0], [], []
    host.listen("cmd_vel", lambda m: twist.__setitem__(slice(None), (m.twist.linear.x, m.twist.angular.z)))
    host.listen("motor/status", told.append)
    x = y = yaw = 0.0
    for k in range(round(60.0 / PERIOD)):
        if not k % 2:
            host.publish("scan", sensed.scan_of_box(x, y, yaw, half))
            host.publish("odom", sensed.odometry(x, y, yaw, 100.0 + k * PERIOD))
            host.publish("pfc/control", messages.make(
                "brain_interfaces/msg/Control", goal_id=1, mode=Control.MODE_SEARCH, bearing=math.nan,
                distance=math.nan, heading=math.copysign(1.2, turn), speed=0.0))
        host.advance(PERIOD)
        v, w = twist
        assert abs(w) <= abs(v) / 0.3 + 1e-6
        yaw += w * PERIOD
        x, y = x + v * math.cos(yaw) * PERIOD, y + v * math.sin(yaw) * PERIOD
        poses.append((x, y, yaw, v))
        if abs(yaw) > abs(turn):
            break
    x, y, yaw, v = np.array(poses).T
    assert max(np.abs(x).max(), np.abs(y).max()) < half - 0.15
    if max_reverse or half > 1.0:
        assert abs(yaw[-1]) > abs(turn) and np.sign(yaw[-1]) == np.sign(turn)
    if max_reverse == 0.0:
        assert v.min() >= 0.0
    assert issubclass(Base, Body) and told[0].state != MotorStatus.STATE_ARRIVED
