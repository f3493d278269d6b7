# SPDX-License-Identifier: Apache-2.0
"""Brainstem: deny by default, limits, staleness, reflex, emergency stop."""
import itertools
import math
import os

import numpy as np
import pytest

from brain_regions.brainstem import ESTOP, LIMITED, PASSED, REFLEX, REFUSED, STALE, Brainstem
from brain_regions.obedience import BLOCKED, DIED
from brain_runtime.hosts.local import LocalHost
from brain_wire import messages


class Rig:
    """A brainstem in lockstep, with everything round it published by hand at 20 Hz."""

    def __init__(self, storage=None, **parameters):
        self.stem = Brainstem("brainstem")
        self.stem.storage = storage
        self.host = LocalHost({"brainstem": self.stem}, parameters={"brainstem": parameters})
        self.sent, self.traces = [], []
        self.unhear = self.host.listen("cmd_vel", lambda m: self.sent.append((m.twist.linear.x, m.twist.angular.z)))
        self.host.listen("brain/trace", self.traces.append)
        self.feed = {"scan", "pfc", "motor", "command"}
        self.ranges = np.full(180, 5.0, np.float32)
        self.command = (0.4, 0.2)
        self.beat, self.x = {}, 0.0

    def scan(self):
        return messages.make("sensor_msgs/msg/LaserScan", angle_min=-math.pi, angle_max=math.pi,
                             angle_increment=2 * math.pi / 180, range_min=0.1, range_max=10.0,
                             ranges=self.ranges)

    def near(self, x, y=0.0, beams=1):
        """Puts something at x, y (m, base_link), as wide as some beams."""
        at = round((math.atan2(y, x) + math.pi) / (2 * math.pi / 180)) + np.arange(beams) - beams // 2
        self.ranges[at % 180] = math.hypot(x, y)

    def run(self, seconds):
        for _ in range(round(seconds * 20)):
            for name in ("pfc", "motor"):
                if name in self.feed:
                    fields = {"name": f"/{name}", "state": 2, "step_age": 0.05} | self.beat.get(name, {})
                    self.host.publish("brain/heartbeat", messages.make("brain_interfaces/msg/Heartbeat", **fields))
            if "scan" in self.feed:
                self.host.publish("scan", self.scan())
            if "odom" in self.feed:
                odom = odometry(0.0, 0.0)
                odom.pose.pose.position.x = self.x
                self.host.publish("odom", odom)
            if "command" in self.feed:
                command = messages.make("brain_interfaces/msg/MotorCommand")
                command.twist.linear.x, command.twist.angular.z = self.command
                self.host.publish("motor/command", command)
            self.host.advance(0.05)
        return self

    @property
    def last(self):
        return self.sent[-1]

    @property
    def why(self):
        return self.traces[-1]


def told(trace):
    return (trace.action, trace.reason, *(round(v, 5) for v in (
        trace.wanted_linear, trace.wanted_angular, trace.linear, trace.angular)))


def test_everything_there_passes_the_command():
    rig = Rig().run(0.1)
    assert rig.why.action == LIMITED and rig.why.reason == "acceleration limit"
    rig.run(2)
    assert rig.last == pytest.approx((0.4, 0.2))
    assert told(rig.why) == (PASSED, "", 0.4, 0.2, 0.4, 0.2)
    state = rig.host.stepper("brainstem").state
    assert {k: v.shape for k, v in state.items()} == {k: v.shape for k, v in rig.stem.initial_state().items()}
    rig.command = (9.0, 0.2)
    assert rig.run(0.05).why.reason == "speed limit"    # although it has not got there yet
    rig.run(1)
    assert told(rig.why) == (LIMITED, "speed limit", 9.0, 0.2, 0.5, 0.2)
    rig.command = (0.2, math.nan)
    rig.run(0.1)
    assert told(rig.why) == (REFUSED, "the command holds no sound numbers", 0.0, 0.0, 0.0, 0.0)


def test_nobody_else_may_command_and_what_is_not_calm_is_told_at_once():
    assert Brainstem.cmd_vel.alone
    urgent = {action for action in range(6) if Brainstem.trace.gated.urgent(Brainstem.trace(action=action))}
    assert urgent == {REFLEX, STALE, ESTOP, REFUSED}


@pytest.mark.parametrize("missing", ["scan", "pfc", "motor", "command"])
def test_nothing_moves_before_each_input_was_there_and_after_it_went(missing):
    rig = Rig()
    rig.feed -= {missing}
    rig.run(1)
    assert rig.sent and all(sent == (0.0, 0.0) for sent in rig.sent)
    assert told(rig.why)[2:] == ((0.0, 0.0, 0.0, 0.0) if missing == "command" else (0.4, 0.2, 0.0, 0.0))
    rig.feed |= {missing}
    rig.run(2)
    assert rig.last[0] > 0.3
    rig.feed -= {missing}
    rig.run(0.5)
    assert rig.last == (0.0, 0.0)
    assert rig.why.action == STALE and (missing in rig.why.reason or missing == "command")
    rig.feed |= {missing}
    rig.run(2)
    assert rig.last[0] > 0.3


@pytest.mark.parametrize(("beat", "why"), [
    ({"state": 1}, "motor is not active"), ({"state": 4}, "motor is not active"),
    ({"stepping": True, "step_age": 2.0}, "motor is stuck in a step"), ({"stepping": True, "step_age": 0.2}, ""),
    ({"stepping": False, "step_age": 2.0}, ""), ({"name": "/r1/lab/motor"}, ""), ({"name": "motor"}, "")])
def test_a_critical_region_that_is_not_active_or_stuck_stops(beat, why):
    rig = Rig().run(1)
    rig.beat["motor"] = beat
    rig.run(0.2)
    if not why:
        rig.run(0.5)        # what it had said before is too old
    assert rig.why.reason == why and (rig.last == (0.0, 0.0)) is bool(why)


def test_a_process_that_another_took_over_from_neither_stops_the_robot_nor_keeps_it_going():
    rig = Rig()

    def old(**fields):
        rig.host.publish("brain/heartbeat", messages.make("brain_interfaces/msg/Heartbeat", name="/motor", epoch=1,
                                                          step_age=0.05, **fields))

    rig.beat["motor"] = {"epoch": 2}
    rig.run(1)
    for _ in range(10):
        rig.run(0.05)
        old(state=4)
        rig.host.advance(0.02)
        assert rig.why.action == PASSED
    rig.beat["motor"] = {"epoch": 2, "state": 4}
    for _ in range(10):
        rig.run(0.05)
        old(state=2)
        rig.host.advance(0.02)
        assert rig.sent[-1] == (0.0, 0.0) and rig.why.reason == "motor is not active"


@pytest.mark.parametrize("command", [(math.nan, 0.0), (0.2, math.inf), (-math.inf, math.nan)])
def test_nonsense_never_gets_through(command):
    rig = Rig().run(1)
    rig.command = command
    rig.run(0.5)
    assert rig.last == (0.0, 0.0) and rig.why.action == REFUSED
    assert all(math.isfinite(v) for sent in rig.sent for v in sent)


def test_a_command_of_either_type():
    sent = []
    for stamped in (True, False):
        rig = Rig(stamped=stamped, base_frame="r1/base_link")
        rig.host.listen("cmd_vel", sent.append)
        rig.unhear()    # which expects the type with a header
        rig.run(1)
    with_header, without = sent[19], sent[-1]
    assert with_header.__msgtype__ == "geometry_msgs/msg/TwistStamped" and with_header.twist.angular.z > 0.1
    assert without.__msgtype__ == "geometry_msgs/msg/Twist" and without.linear.x > 0.3
    assert (with_header.header.frame_id, with_header.twist.linear.x > 0.0) == ("r1/base_link", True)


def test_the_reflex_looks_where_the_robot_goes():
    rig = Rig().run(1)
    behind, ahead = np.r_[0:6, 175:180], slice(85, 96)
    for wall, command, stops in ((behind, -0.15, True), (ahead, -0.15, False), (behind, 0.4, False),
                                 (ahead, 0.4, True)):
        rig.ranges[:], rig.command = 5.0, (command, 0.0)
        rig.run(1)
        rig.ranges[wall] = 0.22
        rig.run(1)
        assert rig.last[0] == pytest.approx(0.0 if stops else command, abs=1e-6), (command, rig.why.reason)
        assert rig.why.action == (REFLEX if stops else PASSED)


@pytest.mark.parametrize(("place", "speed", "limits"), [
    ((0.42, 0.0), 0.5, {}), ((0.4, 0.1), 0.5, {}), ((0.4, -0.15), 0.5, {"braking": 0.5}), ((0.335, 0.0), 0.5, {}),
    ((0.4, 0.0), 0.5, {"margin": 0.15}), ((-0.4, 0.0), -1.0, {"max_reverse": 1.0}), ((-0.25, 0.04), -0.15, {}),
    ((0.9, 0.05), 1.0, {"max_linear": 2.0, "linear_acceleration": 5.0}), ((0.238, 0.0), 0.5, {}),
    ((0.2335, 0.0), 0.5, {}), ((0.22, 0.0), 0.5, {})])
def test_it_goes_as_fast_as_it_can_brake_before_what_is_in_its_way(place, speed, limits):
    rig = Rig(radius=0.18, **{"margin": 0.05, **limits})
    rig.command = (speed, 0.0)
    rig.near(1.5 * place[0], -0.05)         # behind it
    rig.near(place[0], 0.4)                 # aside
    rig.near(*place)
    rig.run(1.5)
    p = rig.stem.parameters
    x, y = abs(place[0]), place[1]
    angle = math.radians(2 * round(math.degrees(math.atan2(y, x)) / 2))     # of the beam
    x, y = math.hypot(x, y) * math.cos(angle), math.hypot(x, y) * math.sin(angle)
    free = x - math.sqrt(0.18 ** 2 - y ** 2)
    room = max(free - p.margin, 0.0)
    # It goes on for 0.15 s, and then brakes; what is slower than 2 cm/s is nothing.
    fit = max(v for v in np.arange(0.0, 2.0, 1e-4) if v * 0.15 + v * v / (2 * p.braking) <= room + 1e-9)
    fit = 0.0 if fit < 0.02 else fit
    assert fit < abs(speed) and abs(rig.last[0]) == pytest.approx(fit, abs=2e-4)
    assert (rig.why.action, rig.why.reason) == (REFLEX, f"{free:.2f} m of free path")
    grew = np.diff([sent[0] for sent in rig.sent], prepend=0.0)
    assert grew.max() <= 0.02 * p.linear_acceleration + 1e-6, "the reflex is no reason to hurry"


def test_braking_for_an_obstacle_is_not_softened():
    rig = Rig(max_linear=2.0, linear_acceleration=5.0)
    rig.ranges[:], rig.command = 9.0, (1.5, 0.0)
    rig.run(1.5)
    before = len(rig.sent)
    rig.near(0.22, beams=9)
    rig.run(0.1)
    assert rig.sent[before - 1][0] == pytest.approx(1.5) and min(s[0] for s in rig.sent[before:]) == 0.0
    assert min(np.diff([s[0] for s in rig.sent[before - 1:]])) < -1.0


@pytest.mark.parametrize(("blind", "stuck", "free"), [(slice(60, 120), 0.3, -0.1), (np.r_[0:30, 150:180], -0.1, 0.3)])
def test_where_no_beam_tells_anything_it_does_not_go(blind, stuck, free):
    rig = Rig()
    rig.ranges[blind] = math.nan
    for wanted, goes in ((stuck, False), (free, True)):
        rig.command = (wanted, 0.0)
        rig.run(1)
        assert rig.last[0] == pytest.approx(wanted if goes else 0.0, abs=1e-6)
        assert "no beam measures there" in rig.why.reason or goes


def test_what_stands_inside_the_outline_is_named():
    rig = Rig()
    for y in (-0.1, 0.0, 0.1):
        rig.near(0.1, y, beams=3)
    rig.run(2)
    assert rig.last[0] == 0.0 and "inside the robot's outline" in rig.why.reason
    assert rig.why.reason == rig.stem.trouble[:128] != rig.stem.trouble


def test_a_scan_that_does_not_change_leaves_less_room_the_farther_it_drove():
    def after(way):
        rig = Rig()
        rig.ranges[:] = np.random.default_rng(0).uniform(1.5, 4.0, 180)
        rig.near(0.42, beams=9)
        for k in range(8):
            message = odometry(0.3, 0.0)
            message.pose.pose.position.x = way * k / 7
            rig.host.publish("odom", message)
            rig.run(0.05)
        return rig.last[0]
    assert after(0.15) < after(0.0) - 0.1


def test_a_hazard_map_counts_for_half_a_second_and_hides_nothing():
    def feel(height):
        rig.host.publish("sensor/features", messages.make(
            "brain_interfaces/msg/SensorFeatures", source="sonar", confidence=1.0, hazard=np.full(36, height)))

    rig = Rig().run(1)
    feel(0.97)
    rig.run(0.45)
    assert rig.why.action == REFLEX
    rig.run(0.15)
    assert rig.why.action != REFLEX
    feel(0.97)
    rig.run(0.3)
    rig.feed -= {"scan"}        # none comes when it has become too old
    rig.run(0.3)
    assert rig.why.action == LIMITED
    rig.feed |= {"scan"}
    rig.run(1)
    feel(0.0)
    rig.run(0.05)
    rig.near(0.22, beams=9)
    rig.run(0.1)
    assert rig.why.action == REFLEX and rig.last[0] == pytest.approx(0.0, abs=1e-6)


def test_after_a_pause_it_does_not_make_up_for_lost_time():
    rig = Rig().run(0.2)
    stepper, now, before = rig.host.stepper("brainstem"), rig.host.now, rig.last[0]
    ((_, twist),) = [one for one in stepper.step(now + 0.25, now + 0.25) if one[0].topic == "cmd_vel"]
    assert twist.twist.linear.x == pytest.approx(before + 0.1 * 0.9) and before > 0.1


def test_trouble_is_logged_once_a_minute(caplog):
    rig = Rig()
    rig.ranges[:] = math.nan
    rig.run(0.1)
    rig.feed.clear()

    def lines():
        return sum(record.name == "brain_regions.brainstem" for record in caplog.records)

    assert rig.stem.trouble and lines() == 1
    rig.host.advance(58.0)
    assert lines() == 1
    rig.host.advance(4.0)
    assert lines() == 2
    rig.ranges[:] = 5.0
    rig.feed |= {"scan"}
    rig.run(2.5)
    assert not rig.stem.trouble and lines() == 2
    rig.feed |= {"motor", "pfc", "command", "odom"}
    lasts(rig, False)
    assert rig.stem.trouble == BLOCKED and lines() == 3     # at once, since it is another


def test_odometry_that_is_refused_stops_for_half_a_second():
    rig = Rig().run(1)
    wrong = odometry(0.0, 0.0)
    wrong.pose.pose.orientation.w = 0.0
    rig.host.publish("odom", wrong)
    rig.run(0.4)
    assert (rig.why.action, rig.last) == (REFUSED, (0.0, 0.0))
    assert "orientation is all zeros" in rig.stem.trouble and rig.why.reason == rig.stem.trouble[:128]
    rig.run(0.2)
    assert rig.why.action == LIMITED


def lasts(rig, refused):
    """How long (s) a command is refused, or is not, from now on."""
    for k in range(4000):
        if (rig.run(0.05).why.action == REFUSED) is not refused:
            return k / 20
    raise AssertionError(rig.why)


@pytest.mark.parametrize("command", [(0.4, 0.0), (-0.12, 0.0), (0.0, 0.3), (0.0, -0.3)])
def test_a_base_that_stands_while_it_is_told_to_move_is_told_again_later(command):
    rig = Rig()
    rig.feed.add("odom")
    rig.command = command
    for waits in (8.0, 16.0):
        assert 2.0 <= lasts(rig, False) < 2.4 and any(rig.sent[-6])
        assert rig.stem.trouble == rig.why.reason == BLOCKED and rig.last == (0.0, 0.0)
        assert waits - 0.1 <= lasts(rig, True) <= waits + 0.1
    assert lasts(rig, False) < 2.4
    rig.x = 0.006       # it moves after all
    rig.run(0.1)
    assert rig.why.action != REFUSED and not rig.stem.trouble
    assert lasts(rig, False) < 2.4
    rig.feed.remove("odom")     # of what says nothing nothing is said,
    assert rig.run(5.0).why.action != REFUSED and not rig.stem.trouble
    rig.feed.add("odom")        # nor is it forgotten
    assert rig.run(0.1).stem.trouble == BLOCKED
    assert lasts(rig, True) < 3.2


def test_odometry_that_stands_while_the_scan_shows_that_the_robot_moves_is_not_believed():
    rig = Rig()
    rig.feed.add("odom")
    rig.command = (0.0, 0.5)
    rng = np.random.default_rng(1)
    room = 4.0 + np.repeat(rng.uniform(-2.0, 2.0, 30), 6)
    for k in range(60):
        rig.ranges = (np.roll(room, -k // 2) + rng.normal(0.0, 0.01, 180)).astype(np.float32)
        if rig.run(0.05).why.action == REFUSED:
            break
    assert 40 <= k < 48 and rig.stem.trouble == rig.why.reason == DIED
    begin = rig.host.now        # nor is it, where it says that the robot stands
    rest = {since: rig.host.stepper("brainstem").come_to_rest(begin, begin, since)[1] for since in (0.4, 0.8)}
    assert rest == {0.4: False, 0.8: True}


def test_odometry_that_moves_as_the_robot_is_told_to_is_believed():
    rig = Rig()
    rig.feed.add("odom")
    for k in range(200):
        rig.x += 0.006 * (k % 20 == 0)
        rig.ranges -= 0.002
        rig.run(0.05)
        rig.command = (0.4, 0.0) if k % 30 else (0.0, 0.0)
    assert not rig.stem.trouble and not any("odom" in trace.reason for trace in rig.traces)


@pytest.mark.parametrize("command", [(0.0, 0.0), (0.05, 0.1), (math.nan, 0.0)])
def test_a_robot_that_is_told_to_stand_or_to_creep_may_stand(command):
    rig = Rig()
    rig.feed.add("odom")
    rig.command = command
    assert not any("odom" in trace.reason for trace in rig.run(5.0).traces)


def test_what_is_too_near_to_be_measured_is_an_obstacle():
    rig = Rig().run(1)
    rig.ranges[85:96] = -math.inf   # as REP 117 has it
    rig.run(1)
    assert rig.last[0] == pytest.approx(0.0, abs=1e-6) and rig.why.action == REFLEX


def test_the_free_path_is_counted_from_the_base_wherever_the_lidar_is():
    def fastest(**body):
        rig = Rig(**body)
        rig.ranges[:] = 9.0
        rig.ranges[90] = 0.35   # straight ahead of the lidar
        return rig.run(1).last[0]
    assert fastest(lidar_x=0.2) > fastest() > fastest(lidar_x=-0.2) == 0.0
    assert fastest(lidar_yaw=math.pi / 2) == pytest.approx(0.4)     # it is not ahead, but to the left


@pytest.mark.parametrize("ranges", [np.full(180, np.nan), np.ones(3), np.zeros(0)])
def test_a_scan_of_nonsense_stops(ranges):
    rig = Rig().run(1)
    rig.ranges = ranges.astype(np.float32)
    rig.run(0.3)
    assert rig.last == (0.0, 0.0)


def test_speed_and_acceleration_are_limited():
    rig = Rig()
    rig.command = (100.0, -100.0)
    rig.run(3)
    linear, angular = np.array(rig.sent).T
    assert linear.max() == pytest.approx(0.5) and angular.min() == pytest.approx(-1.5)
    assert rig.why.action == LIMITED
    # A step comes every 20 ms, and with each command between.
    assert np.diff(linear).max() == pytest.approx(0.9 * 0.02, rel=0.01)
    assert np.diff(angular).min() == pytest.approx(-3.5 * 0.02, rel=0.01)
    rig.command = (-100.0, 100.0)
    rig.run(0.2)
    begin = len(rig.sent)
    rig.run(3)
    slower, turning = np.diff(rig.sent[begin - 2:], axis=0).T
    assert slower.min() == pytest.approx(-2 * 0.9 * 0.02, rel=0.01) and turning.max() == pytest.approx(0.07, rel=0.01)
    assert rig.last == pytest.approx((-0.15, 1.5))
    # Backwards, speed grows as slowly as forwards, and falls as fast.
    speeds = np.array([sent[0] for sent in rig.sent[begin - 2:]])
    grew = np.diff(np.abs(speeds[speeds <= 0.0]))
    assert grew.max() == pytest.approx(0.9 * 0.02, rel=0.01)
    rig.command = (100.0, 0.0)
    begin = len(rig.sent)
    rig.run(1)
    speeds = np.array([sent[0] for sent in rig.sent[begin - 1:]])
    assert np.diff(speeds[speeds <= 0.0]).max() == pytest.approx(2 * 0.9 * 0.02, rel=0.01)
    assert np.diff(speeds[speeds >= 0.0]).max() == pytest.approx(0.9 * 0.02, rel=0.01)


def test_it_crawls_while_a_region_asks_for_care():
    rig = Rig()
    rig.beat = {"pfc": {"careful": True}}
    for wanted in (0.4, -0.4):
        rig.command = (wanted, 0.0)
        rig.run(1)
        assert abs(rig.last[0]) == pytest.approx(0.15)
        assert (rig.why.action, rig.why.reason) == (LIMITED, "pfc asks for care")
    rig.command, rig.beat = (0.4, 0.0), {}
    assert rig.run(1).last[0] == pytest.approx(0.4)


def test_reflex_stops_in_front_of_a_wall_but_lets_it_turn():
    rig = Rig().run(1)
    rig.command = (0.5, 1.0)
    rig.ranges[85:96] = 0.22
    rig.run(1)
    assert rig.last[0] == pytest.approx(0.0, abs=1e-6) and rig.last[1] > 0.9
    assert rig.why.action == REFLEX


def test_reflex_heeds_a_plugin_sensor_that_sees_more_than_the_scan():
    rig = Rig().run(1)
    hazard = np.zeros(36, np.float32)
    hazard[[35, 0, 1]] = 0.97
    for _ in range(10):
        rig.host.publish("sensor/features", messages.make("brain_interfaces/msg/SensorFeatures", source="sonar",
                                                          modality="sonar", confidence=1.0, hazard=hazard))
        rig.run(0.1)
    assert rig.last[0] < 0.05 and rig.why.action == REFLEX
    rig.run(1.0)    # it leaves: nothing of it holds the robot for ever
    assert rig.last[0] > 0.3


@pytest.mark.parametrize(("confidence", "hazard", "heeded"), [
    (0.31, 0.97, True), (0.29, 0.97, False), (0.0, 0.97, False), (math.nan, 0.97, False), (1.0, math.nan, False)])
def test_hazards_of_low_confidence_and_of_nan_do_no_harm(confidence, hazard, heeded):
    rig = Rig().run(1)
    for _ in range(6):
        rig.host.publish("sensor/features", messages.make(
            "brain_interfaces/msg/SensorFeatures", source="odd", confidence=confidence, hazard=np.full(36, hazard)))
        rig.run(0.1)
    assert (rig.last[0] < 0.05) if heeded else (rig.last[0] > 0.3)


def press(rig, stop):
    if stop:
        rig.host.publish("estop", messages.make("std_msgs/msg/Bool", data=True))
    else:
        rig.host.publish("estop/release", messages.make("std_msgs/msg/Empty"))


def test_estop_holds_until_released_and_outlives_a_restart(tmp_path):
    tmp_path = tmp_path / "new" / "folder"
    rig = Rig(tmp_path)
    said = []
    rig.host.listen("estop/status", lambda message: said.append(message.data))
    rig.run(1)
    assert rig.last[0] > 0.3 and said == [False]
    press(rig, True)
    rig.run(0.5)
    assert rig.last == (0.0, 0.0) and rig.why.action == ESTOP and said == [False, True]
    again = Rig(tmp_path).run(1)
    assert again.last == (0.0, 0.0) and again.why.action == ESTOP
    assert again.host.latest("estop/status").data is True
    press(again, False)
    again.run(2)
    assert again.last[0] > 0.3 and again.host.latest("estop/status").data is False
    assert Rig(tmp_path).run(2).last[0] > 0.3


@pytest.mark.parametrize("order", [*itertools.permutations(("stop", "no stop", "release"))])
def test_a_stop_wins_over_a_release_that_comes_with_it(order):
    rig = Rig()
    stepper = rig.host.stepper("brainstem")
    for before in (False, True):
        rig.run(0.2)
        assert (rig.why.action == ESTOP) is before
        for word in order:      # into one step
            if word == "release":
                stepper.offer("release", messages.make("std_msgs/msg/Empty"), rig.host.now)
            else:
                stepper.offer("estop", messages.make("std_msgs/msg/Bool", data=word == "stop"), rig.host.now)
    rig.run(0.2)
    assert rig.last == (0.0, 0.0) and rig.why.action == ESTOP
    press(rig, False)
    rig.run(0.2)
    assert rig.last[0] > 0.1


def test_a_latched_false_does_not_release(tmp_path):
    rig = Rig(tmp_path).run(1)
    rig.host.publish("estop", messages.make("std_msgs/msg/Bool", data=False))   # nor is it a stop
    rig.run(1)
    assert rig.last[0] > 0.3
    press(rig, True)
    rig.host.publish("estop", messages.make("std_msgs/msg/Bool", data=False))
    rig.run(1)
    assert rig.last == (0.0, 0.0)


def test_the_record_is_on_the_disk_before_it_takes_the_place_of_the_old_one(tmp_path, monkeypatch):
    done, begun = [], {"fsync": os.fsync, "replace": os.replace}
    monkeypatch.setattr(os, "fsync", lambda fd: done.append(os.fstat(fd).st_size) or begun["fsync"](fd))
    monkeypatch.setattr(os, "replace", lambda *args: done.append("replace") or begun["replace"](*args))
    press(Rig(tmp_path).run(0.1), True)
    assert done == [len("stopped\n"), "replace"] and (tmp_path / "brainstem.estop").read_text() == "stopped\n"


@pytest.mark.parametrize("record", [b"", b"\xff\xfe", b"releasedd", b"STOP", b"stopped"])
def test_an_unreadable_record_means_stopped(tmp_path, record, caplog):
    (tmp_path / "brainstem.estop").write_bytes(record)
    rig = Rig(tmp_path).run(1)
    assert rig.last == (0.0, 0.0) and rig.why.action == ESTOP
    assert ("emergency stop's record" in caplog.text) is (record != b"stopped")


def test_a_record_that_cannot_be_read_at_all_means_stopped(tmp_path):
    (tmp_path / "brainstem.estop").mkdir()
    assert Rig(tmp_path).run(1).why.action == ESTOP


@pytest.mark.parametrize(("ages", "latency"), [
    ((0.04,), 0.04), ((0.04, 0.5), 0.04), ((2.0,), 2.0), ((9.9,), 9.9), ((10.1,), math.nan), ((15.0,), math.nan),
    ((-0.1,), math.nan), ((), math.nan)])
def test_latency_is_that_of_the_camera_frame_or_unknown(ages, latency):
    rig = Rig().run(1)
    assert math.isnan(rig.why.latency)
    rig.host.publish("motor/command", messages.make("brain_interfaces/msg/MotorCommand", origins=[messages.make(
        "brain_interfaces/msg/Origin", source=source, stamp=messages.time_message(rig.host.now + 20.0 - age))
        for source, age in (("scan", 0.01), *(("camera/image_raw", age) for age in ages))]))
    stepper = rig.host.stepper("brainstem")
    ((_, trace),) = [one for one in stepper.step(rig.host.now, rig.host.now + 20.0) if one[0].topic == "brain/trace"]
    assert trace.latency == pytest.approx(latency, abs=1e-6, nan_ok=True)
    assert len(trace.origins) == 1 + len(ages)


@pytest.mark.parametrize("missing", ["", "scan", "command"])
def test_before_it_ends_it_commands_zero_whatever_is_missing(missing):
    rig = Rig().run(2)
    assert rig.last[0] > 0.3
    rig.feed -= {missing}
    rig.host.leave("brainstem")
    assert rig.last == (0.0, 0.0) and "brought to rest" in rig.why.reason


def odometry(linear, angular):
    message = messages.make("nav_msgs/msg/Odometry")
    message.twist.twist.linear.x, message.twist.twist.angular.z = linear, angular
    message.pose.pose.orientation.w = 1.0
    return message


@pytest.mark.parametrize(("command", "moves", "rests"), [
    ((0.4, 0.2), (0.3, 0.0), None), ((0.4, 0.2), (0.0, -1.0), None), ((0.4, 0.2), (0.001, 0.01), 0.15),
    ((0.4, 0.2), (-0.015, 0.0), None), ((0.4, 0.2), (0.0, 0.045), None), ((0.4, 0.2), (-0.009, 0.028), 0.15),
    ((0.4, 0.0), (0.0, 0.0), 0.15), ((0.0, 0.2), (0.0, 0.0), 0.15), ((0.0, 0.0), (0.0, 0.0), 0.0),
    ((0.4, 0.2), "refused", None)])
def test_it_goes_on_with_zeros_until_odometry_says_that_the_robot_stands(command, moves, rests):
    rig = Rig()
    rig.command = command
    rig.run(1)
    stepper = rig.host.stepper("brainstem")
    for since in np.arange(0.0, 2.0, 0.05):
        message = odometry(*((0.3, 0.0) if moves == "refused" else moves))
        if moves == "refused":
            message.pose.pose.orientation.w = 0.0
        stepper.offer("odom", message, rig.host.now + since)
        published, done = stepper.come_to_rest(rig.host.now + since, rig.host.now + since, since)
        twist, trace = published[0][1].twist, published[1][1]
        assert (twist.linear.x, twist.angular.z) == (0.0, 0.0)
        assert told(trace) == (STALE, "ending: the robot is brought to rest", 0.0, 0.0, 0.0, 0.0)
        if done:
            break
    assert (round(float(since), 3) if done else None) == rests


@pytest.mark.parametrize("old", [None, (0.0, -0.05), (math.nan, "now"), (0.0, 0.3), (0.0, "refused")],
                         ids=["none", "before", "not a number", "too old", "refused"])
@pytest.mark.parametrize(("limits", "takes"), [
    ({}, 0.5 / 0.9), ({"max_linear": 1.0, "braking": 0.5}, 2.0), ({"max_angular": 3.0, "angular_acceleration": 2.0},
                                                                  1.5)])
def test_without_fresh_odometry_it_waits_as_long_as_braking_takes(old, limits, takes):
    rig = Rig(**limits).run(0.5)
    stepper = rig.host.stepper("brainstem")
    begin = rig.host.now
    for since, done in ((takes - 0.1, False), (takes + 0.14, False), (takes + 0.16, True)):
        if old is not None:     # from before the first zero, or longer ago than that: it tells nothing
            message, at = odometry(old[0], 0.0), begin + since - 0.4
            if old[1] in ("refused", "now"):
                at = begin + since
            if old[1] == "refused":
                message.pose.pose.orientation.w = 0.0
            stepper.offer("odom", message, begin - 0.05 if old[1] == -0.05 else at)
        assert bool(stepper.come_to_rest(begin + since, begin + since, since)[1]) is done


def hand(rig, linear=0.0, angular=0.0):
    """A hand's command, after which the rest goes on for one step."""
    message = messages.make("geometry_msgs/msg/TwistStamped")
    message.twist.linear.x, message.twist.angular.z = linear, angular
    rig.host.publish("teleop/cmd_vel", message)
    return rig.run(0.05)


def steer(rig, seconds, *command):
    for _ in range(round(seconds * 20)):
        hand(rig, *command)
    return rig


def test_a_hand_on_the_wheel_goes_before_the_brain_and_the_brain_drives_on_when_it_is_taken_off():
    rig = Rig().run(1.0)
    assert rig.last == pytest.approx((0.4, 0.2))
    steer(rig, 1.5, -0.1, 0.5)
    assert rig.last == pytest.approx((-0.1, 0.5)) and rig.why.reason == "by hand"
    rig.host.publish("teleop/release", messages.make("std_msgs/msg/Empty"))
    rig.run(1.5)
    assert rig.last == pytest.approx((0.4, 0.2)) and rig.why.reason == ""


def test_a_hand_needs_no_brain():
    rig = Rig()
    rig.feed = {"scan"}
    steer(rig, 1.0, 0.2, 0.0)
    assert rig.last == pytest.approx((0.2, 0.0))
    rig.feed = set()
    assert steer(rig, 0.6, 0.2, 0.0).why.reason == "no fresh scan" and rig.last == (0.0, 0.0)


def test_a_hand_that_falls_silent_stands_the_robot_and_only_later_the_brain_drives_on():
    rig = steer(Rig(teleop_return=2.0).run(1.0), 1.0, 0.3, 0.0)
    rig.run(0.4)
    assert rig.last[0] == pytest.approx(0.3)
    rig.run(0.3)
    assert (rig.why.action, rig.why.reason) == (STALE, "the hand on the wheel is silent") and rig.last == (0.0, 0.0)
    rig.run(1.2)
    assert rig.last == (0.0, 0.0)
    rig.run(1.5)
    assert rig.last == pytest.approx((0.4, 0.2))
    assert steer(rig, 1.0, 0.1, 0.0).last == pytest.approx((0.1, 0.0))      # it comes back


def test_a_hand_is_limited_and_stopped_as_the_brain_is():
    rig = steer(Rig(), 1.5, 9.0, -9.0)
    assert rig.last == pytest.approx((0.5, -1.5)) and rig.why.reason == "speed limit"
    assert told(hand(rig, math.nan, 0.0).why)[:2] == (REFUSED, "the command holds no sound numbers")
    rig.near(0.3, beams=9)
    steer(rig, 0.5, 0.5, 0.0)
    assert rig.why.action == REFLEX and rig.last[0] < 0.3
    rig.host.publish("estop", messages.make("std_msgs/msg/Bool", data=True))
    assert steer(rig, 0.5, -0.1, 0.0).why.action == ESTOP and rig.last == (0.0, 0.0)


def test_a_hand_takes_the_base_from_nav2():
    rig = Rig(drive="nav2")
    locks = []
    rig.host.listen("drive/lock", lambda message: locks.append(message.data))
    rig.run(1.0)
    before = len(rig.sent)
    assert locks[-1] is False and not any(map(any, rig.sent[-5:]))
    steer(rig, 1.0, 0.2, 0.1)
    assert locks[-1] is True and rig.last == pytest.approx((0.2, 0.1)) and len(rig.sent) > before + 15


def test_a_hand_is_not_slowed_by_what_vision_does_not_know():
    rig = Rig()
    rig.beat["pfc"] = {"careful": True}
    assert rig.run(1.0).last[0] == pytest.approx(0.15)
    assert steer(rig, 1.0, 0.4, 0.0).last[0] == pytest.approx(0.4)
