# SPDX-License-Identifier: Apache-2.0
"""Brainstem: deny by default, limits, staleness, reflex, emergency stop."""
import math

import numpy as np
import pytest

from brain_regions.brainstem import ESTOP, LIMITED, PASSED, REFLEX, REFUSED, STALE, Brainstem
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
        self.beat = {}

    def scan(self):
        return messages.make("sensor_msgs/msg/LaserScan", angle_min=-math.pi, angle_max=math.pi,
                             angle_increment=2 * math.pi / 180, range_min=0.1, range_max=10.0,
                             ranges=self.ranges)

    def run(self, seconds):
        for _ in range(round(seconds * 20)):
            for name in ("pfc", "motor"):
                if name in self.feed:
                    fields = {"name": f"/{name}", "state": 2, "step_age": 0.05} | self.beat.get(name, {})
                    self.host.publish("brain/heartbeat", messages.make("brain_interfaces/msg/Heartbeat", **fields))
            if "scan" in self.feed:
                self.host.publish("scan", self.scan())
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


def test_everything_there_passes_the_command():
    rig = Rig().run(2)
    assert rig.last == pytest.approx((0.4, 0.2))
    assert rig.why.action == PASSED


@pytest.mark.parametrize("missing", ["scan", "pfc", "motor", "command"])
def test_nothing_moves_before_each_input_was_there_and_after_it_went(missing):
    rig = Rig()
    rig.feed -= {missing}
    rig.run(1)
    assert rig.sent and all(sent == (0.0, 0.0) for sent in rig.sent)
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


@pytest.mark.parametrize("beat", [{"state": 1}, {"state": 4}, {"stepping": True, "step_age": 2.0}])
def test_a_critical_region_that_is_not_active_or_stuck_stops(beat):
    rig = Rig().run(1)
    rig.beat["motor"] = beat
    rig.run(0.2)
    assert rig.last == (0.0, 0.0) and "motor" in rig.why.reason


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
    assert with_header.__msgtype__ == "geometry_msgs/msg/TwistStamped"
    assert without.__msgtype__ == "geometry_msgs/msg/Twist" and without.linear.x > 0.3
    assert (with_header.header.frame_id, with_header.twist.linear.x > 0.0) == ("r1/base_link", True)


def test_what_is_too_near_to_be_measured_is_an_obstacle():
    rig = Rig().run(1)
    rig.ranges[85:96] = -math.inf   # as REP 117 has it
    rig.run(1)
    assert rig.last[0] == pytest.approx(0.0, abs=1e-6) and rig.why.action == REFLEX


def test_the_free_path_is_counted_from_the_base_wherever_the_lidar_is():
    def fastest(**body):
        rig = Rig(**body)
        rig.ranges[:] = np.inf
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
    assert np.diff(linear).max() <= 0.9 * 0.1 + 1e-6
    assert rig.why.action == LIMITED


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


def test_hazards_of_nan_do_no_harm():
    rig = Rig().run(1)
    for _ in range(4):
        rig.host.publish("sensor/features", messages.make(
            "brain_interfaces/msg/SensorFeatures", source="odd", confidence=1.0, hazard=np.full(36, np.nan)))
        rig.run(0.1)
    assert rig.last[0] > 0.3


def press(rig, stop):
    if stop:
        rig.host.publish("estop", messages.make("std_msgs/msg/Bool", data=True))
    else:
        rig.host.publish("estop/release", messages.make("std_msgs/msg/Empty"))


def test_estop_holds_until_released_and_outlives_a_restart(tmp_path):
    rig = Rig(tmp_path).run(1)
    press(rig, True)
    rig.run(0.5)
    assert rig.last == (0.0, 0.0) and rig.why.action == ESTOP
    assert rig.host.latest("estop/status").data is True
    again = Rig(tmp_path).run(1)
    assert again.last == (0.0, 0.0) and again.why.action == ESTOP
    assert again.host.latest("estop/status").data is True
    press(again, False)
    again.run(2)
    assert again.last[0] > 0.3 and again.host.latest("estop/status").data is False
    assert Rig(tmp_path).run(2).last[0] > 0.3


def test_a_latched_false_does_not_release(tmp_path):
    rig = Rig(tmp_path).run(1)
    press(rig, True)
    rig.host.publish("estop", messages.make("std_msgs/msg/Bool", data=False))
    rig.run(1)
    assert rig.last == (0.0, 0.0)


@pytest.mark.parametrize("record", [b"", b"\xff\xfe", b"releasedd", b"STOP"])
def test_an_unreadable_record_means_stopped(tmp_path, record):
    (tmp_path / "brainstem.estop").write_bytes(record)
    rig = Rig(tmp_path).run(1)
    assert rig.last == (0.0, 0.0) and rig.why.action == ESTOP


def test_a_record_that_cannot_be_read_at_all_means_stopped(tmp_path):
    (tmp_path / "brainstem.estop").mkdir()
    assert Rig(tmp_path).run(1).why.action == ESTOP


def test_latency_is_that_of_the_camera_frame_or_unknown():
    rig = Rig().run(1)
    assert math.isnan(rig.why.latency)
    command = messages.make("brain_interfaces/msg/MotorCommand", origins=[messages.make(
        "brain_interfaces/msg/Origin", source="camera/image_raw", stamp=messages.time_message(rig.host.now - 0.04))])
    rig.host.publish("motor/command", command)
    assert rig.why.latency == pytest.approx(0.04, abs=1e-6)


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
    return message


@pytest.mark.parametrize(("moves", "rests"), [((0.3, 0.0), False), ((0.0, -1.0), False), ((0.001, 0.01), True)])
def test_it_goes_on_with_zeros_until_odometry_says_that_the_robot_stands(moves, rests):
    rig = Rig().run(2)
    stepper = rig.host.stepper("brainstem")
    for since in np.arange(0.0, 2.0, 0.1):
        stepper.offer("odom", odometry(*moves), rig.host.now + since)
        published, done = stepper.come_to_rest(rig.host.now + since, rig.host.now + since, since)
        twist = published[0][1].twist
        assert (twist.linear.x, twist.angular.z) == (0.0, 0.0)
        if done:
            break
    assert bool(done) is rests


@pytest.mark.parametrize("old", [None, (0.0, 0.0), (math.nan, 0.0)], ids=["none", "before", "not a number"])
def test_without_fresh_odometry_it_waits_as_long_as_braking_takes(old):
    rig = Rig().run(2)
    stepper = rig.host.stepper("brainstem")
    begin = rig.host.now
    if old is not None:     # from before the first zero: it tells nothing of what follows
        stepper.offer("odom", odometry(*old), begin - 0.05)
    p = rig.stem.parameters
    takes = max(p.max_linear / p.braking, p.max_angular / p.angular_acceleration)
    assert not stepper.come_to_rest(begin + takes, begin + takes, takes)[1]
    assert stepper.come_to_rest(begin + takes + 0.2, begin + takes + 0.2, takes + 0.2)[1]
