# SPDX-License-Identifier: Apache-2.0
"""The motors, spiking, without spikes and conventional: what they do with control, scan and hazard maps."""
import math

import numpy as np
import pytest

from brain_eval.baselines.ann_motor import AnnMotor
from brain_eval.baselines.dynamic_window_motor import DynamicWindowMotor
from brain_regions.motor import Motor, coding, network
from brain_regions.pfc.control import keep_away
from brain_regions.sensed import make
from brain_runtime.hosts.local import LocalHost
from brain_wire import messages

ALL = pytest.mark.parametrize("motor", [Motor, AnnMotor, DynamicWindowMotor])
NETWORKS = pytest.mark.parametrize("motor", [Motor, AnnMotor])
STANDING, MOVING, ARRIVED = 0, 1, 2


def control(mode=1, heading=0.0, speed=1.0, bearing=math.nan, distance=math.nan, **more):
    return make("Control", mode=mode, heading=heading, speed=speed, bearing=bearing, distance=distance, **more)


def room(x=0.0, y=0.0, yaw=0.0, half=3.0, disks=()):
    """LaserScan from (x, y, yaw) in an empty square room of side 2 * half with ``disks`` (x, y, radius)."""
    angles = -math.pi + np.arange(180) * 2 * math.pi / 180
    direction = np.stack([np.cos(angles + yaw), np.sin(angles + yaw)])
    at = np.array([[x], [y]])
    with np.errstate(divide="ignore"):
        reach = np.abs(np.where(direction > 0, half - at, -half - at) / direction).min(0)
    for px, py, r in disks:
        to = np.array([[px], [py]]) - at
        along, across = (to * direction).sum(0), to[0] * direction[1] - to[1] * direction[0]
        hit = (along > 0) & (np.abs(across) < r)
        reach = np.where(hit, np.minimum(reach, along - np.sqrt(np.maximum(r * r - across ** 2, 0))), reach)
    return messages.make("sensor_msgs/msg/LaserScan", angle_min=-math.pi, angle_max=math.pi,
                         angle_increment=2 * math.pi / 180, range_min=0.1, range_max=10.0, ranges=reach)


class Bench:
    """One motor in lockstep; everything it hears is published by hand, twenty times a second."""

    def __init__(self, motor, **parameters):
        self.host = LocalHost({"motor": motor()}, parameters={"motor": parameters})

    def run(self, wanted, scan, features=(), seconds=0.5):
        for _ in range(round(seconds * 20)):
            self.host.publish("scan", scan)
            for message in features:
                self.host.publish("sensor/features", message)
            self.host.publish("pfc/control", wanted)
            self.host.advance(0.05)
        return self.twist, self.status

    @property
    def twist(self):
        twist = self.host.latest("motor/command").twist
        return twist.linear.x, twist.angular.z

    @property
    def status(self):
        return self.host.latest("motor/status")


def drive(motor, wanted, start=(0.0, 0.0, 0.0), seconds=20.0, half=3.0, disks=(), until=None, **parameters):
    """Lets a motor drive a robot without inertia, as ``wanted(x, y, yaw)`` tells it. Returns way and last state."""
    bench, (x, y, yaw) = Bench(motor, **parameters), start
    way = [(x, y, yaw)]
    for _ in range(round(seconds * 20)):
        (v, w), status = bench.run(wanted(x, y, yaw), room(x, y, yaw, half, disks), seconds=0.05)
        x, y, yaw = x + 0.05 * v * math.cos(yaw), y + 0.05 * v * math.sin(yaw), yaw + 0.05 * w
        way.append((x, y, yaw))
        if until is not None and status.state == until:
            break
    return np.array(way), status.state


def toward(px, py, radius=None):
    """What the prefrontal cortex wants of a robot that is to go to a disk at (px, py)."""
    def wanted(x, y, yaw):
        bearing = (math.atan2(py - y, px - x) - yaw + math.pi) % (2 * math.pi) - math.pi
        return control(2, bearing, bearing=bearing, distance=math.hypot(px - x, py - y), goal_id=5)
    return wanted


def toward_point(px, py):
    """The same, where it only has a heading, straight through whatever is between."""
    def wanted(x, y, yaw):
        return control(heading=(math.atan2(py - y, px - x) - yaw + math.pi) % (2 * math.pi) - math.pi)
    return wanted


# -- what each motor does ------------------------------------------------------------------------------------------


@ALL
def test_drives_where_it_is_wanted(motor):
    (v, w), status = Bench(motor).run(control(), room())
    assert v > 0.4 and abs(w) < 0.3 and status.state == MOVING
    assert Bench(motor).run(control(heading=0.7), room())[0][1] > 0.3
    v, w = Bench(motor).run(control(heading=-2.0), room())[0]
    assert v < 0.05 and w < -1


@ALL
def test_turns_on_the_spot_to_look_about(motor):
    for side in (1.2, -1.2):
        (v, w), _ = Bench(motor).run(control(heading=side, speed=0.0), room())
        assert abs(v) < 0.05 and math.copysign(w, side) == w and 0.6 < abs(w) <= 1.3


@ALL
@pytest.mark.parametrize("mode", [0, 3])
def test_stands_when_idle_or_stopped(motor, mode):
    twist, status = Bench(motor).run(control(mode), room())
    assert twist == (0, 0) and status.state == STANDING


@ALL
def test_stops_within_a_fifth_of_a_second_when_told(motor):
    bench = Bench(motor)
    assert bench.run(control(), room())[0][0] > 0.4
    assert bench.run(control(3), room(), seconds=0.2)[0] == (0, 0)


@ALL
def test_keeps_off_what_only_a_plugin_sensor_sees(motor):
    hazard = np.zeros(36, np.float32)
    hazard[[34, 35, 0, 1, 2]] = 0.85
    sonar = make("SensorFeatures", source="sonar", modality="sonar", confidence=1.0, hazard=hazard)
    assert Bench(motor).run(control(), room(), [sonar])[0][0] < 0.2


@ALL
def test_keeps_off_what_the_prefrontal_cortex_wants_kept_away_from(motor):
    hazard = np.zeros(36, np.float32)
    hazard[[34, 35, 0, 1, 2]] = 0.9
    assert Bench(motor).run(control(hazard=hazard), room())[0][0] < 0.2


@ALL
@pytest.mark.parametrize("start", [(-1.0, 0.3, 0.0), (1.0, -1.2, 3.0)])
def test_goes_to_a_target_and_arrives_in_front_of_it(motor, start):
    way, state = drive(motor, toward(1.5, 0.5), start, disks=[(1.5, 0.5, 0.2)], until=ARRIVED)
    gap = np.hypot(way[:, 0] - 1.5, way[:, 1] - 0.5) - 0.2 - 0.18
    assert state == ARRIVED and gap.min() > 0.08 and gap[-1] < 0.40
    facing = math.atan2(0.5 - way[-1, 1], 1.5 - way[-1, 0]) - way[-1, 2]
    assert abs((facing + math.pi) % (2 * math.pi) - math.pi) < 0.35


@ALL
def test_has_not_arrived_far_from_the_target_or_looking_away(motor):
    far = control(2, 0.0, bearing=0.0, distance=1.5)
    assert Bench(motor).run(far, room(1.7))[1].state == MOVING
    aside = control(2, 2.0, bearing=2.0, distance=0.66)
    x, y = 0.66 * math.cos(2.0), 0.66 * math.sin(2.0)
    assert Bench(motor).run(aside, room(disks=[(x, y, 0.2)]))[1].state == MOVING


@ALL
def test_has_not_arrived_where_something_stands_before_the_target(motor):
    behind = control(2, 0.0, bearing=0.0, distance=1.1)
    assert Bench(motor).run(behind, room(disks=[(0.55, 0.0, 0.12), (1.1, 0.0, 0.2)]))[1].state != ARRIVED


@ALL
def test_what_is_to_be_kept_away_from_beside_the_target_is_not_the_target(motor):
    hazard = np.zeros(36, np.float32)
    hazard[[0, 1, 2, 3, 4]] = 0.8       # reaches into the target's direction, 0.2 m from the edge
    wanted = control(2, 0.0, bearing=0.0, distance=0.85, hazard=hazard)
    assert Bench(motor).run(wanted, room(disks=[(0.85, 0.0, 0.13)]))[1].state != ARRIVED


def beside(rng):
    """Where a target, what is to be avoided beside it, and a robot in front of both are."""
    while True:
        aside, apart, side, away = rng.uniform((0, 1.05, 0, 0.6), (2 * math.pi, 1.4, 2 * math.pi, 1.0))
        avoid = 1.0 + apart * math.cos(aside), apart * math.sin(aside)
        x, y = 1.0 + away * math.cos(side), away * math.sin(side)
        if 0.9 < math.hypot(avoid[0] - x, avoid[1] - y) < 1.3:
            return avoid, (x, y, math.atan2(-y, 1.0 - x) + rng.uniform(-0.8, 0.8))


@pytest.mark.slow
@ALL
def test_arrives_at_a_target_beside_what_is_to_be_kept_away_from(motor):
    rng, arrived, nearest = np.random.default_rng(0), 0, math.inf
    for _ in range(40):
        (ax, ay), start = beside(rng)
        plain = toward(1.0, 0.0)

        def wanted(x, y, yaw):
            message = plain(x, y, yaw)
            angle = (math.atan2(ay - y, ax - x) - yaw + math.pi) % (2 * math.pi) - math.pi
            message.hazard = keep_away([angle], [math.hypot(ax - x, ay - y)], 0.18)
            return message

        way, state = drive(motor, wanted, start, 15.0, disks=[(1.0, 0.0, 0.13), (ax, ay, 0.13)], until=ARRIVED)
        arrived += state == ARRIVED
        nearest = min(nearest, np.hypot(way[:, 0] - ax, way[:, 1] - ay).min() - 0.13 - 0.18)
    assert arrived >= 38 and nearest > 0.4, (arrived, nearest)


@ALL
def test_stays_arrived_while_it_stands_there(motor):
    bench, at = Bench(motor), control(2, 0.0, bearing=0.0, distance=0.62, goal_id=9)
    scan = room(disks=[(0.62, 0.0, 0.2)])     # gap 0.24 m
    bench.run(at, scan)
    for _ in range(40):
        (v, w), status = bench.run(at, scan, seconds=0.05)
        assert status.state == ARRIVED and status.goal_id == 9 and abs(v) < 0.02 and abs(w) < 0.05


@NETWORKS     # the window sees an arc and not a way
def test_drives_round_what_stands_in_the_way(motor):
    way, _ = drive(motor, toward_point(3.0, 0.0), (-1.2, 0.05, 0.0), 14.0, half=4.0, disks=[(0.2, 0.0, 0.25)])
    assert (np.hypot(way[:, 0] - 0.2, way[:, 1]) - 0.25).min() > 0.18
    assert way[-1, 0] > 1.0


@pytest.mark.extended
@pytest.mark.slow
@pytest.mark.parametrize("motor, least, most", [(Motor, 18, 21), (AnnMotor, 15, 21), (DynamicWindowMotor, 0, 10)])
def test_gets_past_a_block_that_it_is_sent_straight_through(motor, least, most):
    past = 0
    for width in (0.3, 0.55, 0.8):      # of a row of posts 0.2 m thick
        posts = [(0.2, y, 0.1) for y in np.linspace(0.1 - width / 2, width / 2 - 0.1, 6)]
        for y in np.linspace(-0.3, 0.3, 7):
            way, _ = drive(motor, toward_point(4.0, 0.0), (-1.3, float(y), 0.0), 15.0, half=5.0, disks=posts)
            assert min(np.hypot(way[:, 0] - px, way[:, 1] - py).min() - r for px, py, r in posts) > 0.18
            past += way[:, 0].max() > 0.2 + 0.1 + 0.18
    assert least <= past <= most, past


@ALL
@pytest.mark.parametrize("heading", [-2.2, 0.3, 1.2])
def test_touches_nothing_wherever_it_is_sent(motor, heading):
    def wanted(x, y, yaw):      # a point in the room, and on its way, walls
        return control(heading=(heading - yaw + math.pi) % (2 * math.pi) - math.pi)

    disks = [(0.9, 0.3, 0.2), (-0.8, 0.5, 0.25), (0.1, -1.0, 0.15)]
    way, _ = drive(motor, wanted, (0, 0, 0), 6.0, half=1.8, disks=disks)
    gap = np.min([np.hypot(way[:, 0] - x, way[:, 1] - y) - r for x, y, r in disks], axis=0)
    gap = np.minimum(gap, 1.8 - np.abs(way[:, :2]).max(1))
    assert gap.min() > 0.18


@ALL
@pytest.mark.parametrize("field", ["heading", "speed", "bearing", "distance"])
def test_never_commands_nonsense(motor, field):
    for value in (math.nan, math.inf, -math.inf):
        fields = {"heading": 0.1, "speed": 1.0, "bearing": 0.1, "distance": 1.0} | {field: value}
        twist, _ = Bench(motor).run(control(2, **fields), room())
        assert all(map(math.isfinite, twist))


@ALL
def test_takes_broken_messages_as_missing(motor):
    bench = Bench(motor)
    broken = room()
    broken.ranges = np.full(180, np.nan, np.float32)
    (v, w), status = bench.run(control(), broken)
    assert (v, w) == (0, 0) and status.reason.startswith("the lidar measures nothing")
    strange = make("SensorFeatures", source="odd", confidence=math.nan, hazard=np.full(36, np.nan, np.float32))
    seen = make("DetectedObjects", source="eye", objects=[make("DetectedObject", bearing=math.nan, distance=-1.0,
                                                               confidence=2.0)])
    bench.host.publish("vision/objects", seen)
    (v, _), status = bench.run(control(7, hazard=np.full(36, np.inf, np.float32)), room(), [strange])
    assert math.isfinite(v) and status.state in range(4)


@ALL
def test_stands_without_control_or_scan_and_goes_on_with_them(motor):
    bench = Bench(motor)
    bench.host.advance(0.5)
    assert bench.status.reason == "no fresh control" and bench.twist == (0, 0)
    bench.host.publish("pfc/control", control())
    assert bench.twist == (0, 0) and bench.status.reason == "no fresh scan"
    assert bench.run(control(), room())[0][0] > 0.4
    bench.host.advance(0.45)
    assert bench.twist == (0, 0) and bench.status.reason == "no fresh control"
    assert bench.run(control(), room())[0][0] > 0.4


@ALL
@pytest.mark.parametrize("limits", [dict(max_linear=0.22), dict(max_linear=0.2, max_angular=0.8, turn_speed=0.8,
                                                                radius=0.28, braking=0.25),
                                    dict(max_linear=0.8, max_angular=2.5, braking=1.2)])
def test_keeps_to_other_robots_limits_and_uses_them(motor, limits):
    fast, turning = Bench(motor, **limits), Bench(motor, **limits)
    (v, _), _ = fast.run(control(), room())
    assert 0.75 * limits["max_linear"] < v <= limits["max_linear"] + 1e-6
    (_, w), _ = turning.run(control(heading=2.5), room())
    most = limits.get("max_angular", 1.5)
    assert 0.75 * most < w <= most + 1e-6
    way, state = drive(motor, toward(1.0, 0.0), (-1.0, 0.2, 0.5), 30.0, disks=[(1.0, 0.0, 0.2)], until=ARRIVED,
                       **limits)
    gap = np.hypot(way[:, 0] - 1.0, way[:, 1]) - 0.2 - limits.get("radius", 0.18)
    assert state == ARRIVED and gap.min() > 0.08


# -- those that are networks -----------------------------------------------------------------------------------------


def test_silence_of_the_output_neurons_is_standstill():
    bench = Bench(Motor)
    assert bench.run(control(), room())[0][0] > 0.4
    bench.host.regions["motor"].on_parameter("silent", True)
    twist, status = bench.run(control(), room())
    assert twist == (0, 0) and status.state == STANDING


def test_counts_spikes_and_their_fan_out():
    bench = Bench(Motor)
    bench.run(control(), room())
    region = bench.host.regions["motor"]
    assert region.synops > 50 * region.spikes > 0
    trains = [np.zeros((10, n), np.float32) for n in network.LAYERS[1:]]
    trains[0][0, :3] = trains[1][2, :2] = trains[2][5, :4] = 1
    assert region.policy.cost(trains) == (9, 3 * 128 + 2 * 104 + 4)
    assert region.policy.multiplies == coding.INPUTS * 192 == 69_504    # docs/regions.md


@NETWORKS
def test_comes_back_as_it_was(motor):
    one, two = Bench(motor), Bench(motor)
    for bench in (one, two):
        bench.run(control(heading=0.4), room())
    left = one.host.kill("motor")
    assert all(np.asarray(v).dtype == np.float32 for v in left.state.values())
    again = motor()
    again.configure({})
    one.host.join("motor", motor(), state=again.restore(left.state))
    for bench in (one, two):
        bench.run(control(heading=0.4), room(), seconds=0.1)
    assert one.twist == pytest.approx(two.twist, abs=0.1)
    assert set(left.state) == set(again.initial_state()) and "weights" in again.snapshot_metadata()


def test_a_skipped_tick_changes_little():
    often, limited_log = Bench(Motor), Bench(Motor)
    often.run(control(heading=0.3), room())
    for _ in range(5):
        limited_log.host.publish("scan", room())
        limited_log.host.publish("pfc/control", control(heading=0.3))
        limited_log.host.advance(0.1)
    assert often.twist == pytest.approx(limited_log.twist, abs=0.25)
