# SPDX-License-Identifier: Apache-2.0
"""Broken lidars stop the robot before a wall and say so; sound ones, however odd, never do."""
import itertools
import json
import math

import numpy as np
import pytest

from brain_regions import beams
from brain_regions.body import Body
from brain_regions.brainstem import Brainstem
from brain_regions.scan_watch import ScanWatch
from brain_runtime.hosts.local import LocalHost
from brain_wire import messages
from brain_wire.parameters import ParameterError

PERIOD, RADIUS = 0.1, 0.18
SHORT = (1.2, 0.0, 1.0), (5.0, 0.5, 0.0)     # s, m/s, rad/s


class Lidar:
    """Scans a room of boxes (x, y, half width, half depth; m); the first is the room itself, seen from inside."""

    def __init__(self, boxes, count=180, begin=-math.pi, step=None, range_min=0.1, range_max=10.0, noise=0.01,
                 none=math.inf, yaw=0.0):
        self.boxes = np.array(boxes, float)
        self.begin, self.step = begin, 2 * math.pi / count if step is None else step
        self.angles = self.begin + self.step * np.arange(count)
        self.range_min, self.range_max, self.noise, self.none, self.yaw = range_min, range_max, noise, none, yaw

    def ranges(self, x, y, yaw, rng):
        """float32[count] from a pose."""
        direction = self.angles + yaw + self.yaw
        enter, leave = -np.inf, np.inf
        for across, at, middle, half in ((np.cos(direction), x, 0, 2), (np.sin(direction), y, 1, 3)):
            across = np.where(across == 0.0, 1e-12, across)
            middle, half = self.boxes[:, [middle]] - at, self.boxes[:, [half]]
            one, other = (middle - half) / across, (middle + half) / across
            enter, leave = np.maximum(enter, np.minimum(one, other)), np.minimum(leave, np.maximum(one, other))
        reach = np.where((enter < leave) & (enter > 0), enter, np.inf)
        reach[0] = leave[0]
        found = reach.min(0)
        found = found + rng.normal(0.0, self.noise, len(found)) if self.noise else found
        return np.where(found >= self.range_max, self.none, np.maximum(found, self.range_min)).astype(np.float32)

    def message(self, ranges, **changed):
        """The LaserScan."""
        fields = dict(angle_min=self.begin, angle_max=self.begin + self.step * (len(self.angles) - 1),
                      angle_increment=self.step, range_min=self.range_min, range_max=self.range_max, ranges=ranges)
        return messages.make("sensor_msgs/msg/LaserScan", **fields | changed)


ROOM = (0.0, 0.0, 3.0, 2.0), (2.0, 1.6, 0.3, 0.3), (-1.0, -1.5, 0.4, 0.2)
HALL = ((0.0, 0.0, 4.5, 4.5),)
CORRIDOR = ((0.0, 0.0, 40.0, 1.0),)


def drive(lidar, spoil=None, at=(0.0, 0.0, 0.0), seed=0, plan=((1.2, 0.0, 1.0), (8.0, 0.5, 0.0)), **parameters):
    """Lets a brainstem drive by a plan (s, m/s, rad/s); the brainstem, the poses, and what it said, by step."""
    stem, rng = Brainstem("brainstem"), np.random.default_rng(seed)
    host = LocalHost({"brainstem": stem}, parameters={"brainstem": {
        "radius": RADIUS, "critical": (), "lidar_yaw": lidar.yaw, **parameters}})
    twist, said, poses = [0.0, 0.0], [], [at]
    host.listen("cmd_vel", lambda m: twist.__setitem__(slice(None), (m.twist.linear.x, m.twist.angular.z)))
    x, y, yaw = at
    total = sum(part[0] for part in plan)
    for k in range(round(total / PERIOD)):
        now = k * PERIOD
        left, wanted = now, plan[-1]
        for part in plan:
            if left < part[0]:
                wanted = part
                break
            left -= part[0]
        odom = messages.make("nav_msgs/msg/Odometry")
        odom.pose.pose.position.x, odom.pose.pose.position.y = x, y
        odom.pose.pose.orientation.z, odom.pose.pose.orientation.w = math.sin(yaw / 2), math.cos(yaw / 2)
        odom.header.stamp = messages.time_message(1000.0 + now)
        host.publish("odom", odom)
        scan = lidar.message(lidar.ranges(x, y, yaw, rng))
        scan.header.stamp = odom.header.stamp
        host.publish("scan", spoil(scan, now, rng) if spoil else scan)
        command = messages.make("brain_interfaces/msg/MotorCommand")
        command.twist.linear.x, command.twist.angular.z = wanted[1:]
        host.publish("motor/command", command)
        for _ in range(5):
            host.advance(PERIOD / 5)
            yaw += twist[1] * PERIOD / 5
            x, y = x + twist[0] * math.cos(yaw) * PERIOD / 5, y + twist[0] * math.sin(yaw) * PERIOD / 5
        said.append(stem.trouble)
        poses.append((x, y, yaw))
    return stem, np.array(poses), said


def gap(lidar, poses):
    """Least distance (m) of the robot's edge to what is solid, on the way."""
    x, y = poses[:, :1], poses[:, 1:2]
    bx, by, w, d = lidar.boxes.T
    room = np.minimum(w[0] - np.abs(x - bx[0]), d[0] - np.abs(y - by[0]))
    boxes = np.hypot(np.maximum(np.abs(x - bx[1:]) - w[1:], 0), np.maximum(np.abs(y - by[1:]) - d[1:], 0))
    return float(min(room.min(), boxes.min(initial=np.inf))) - RADIUS


def ranged(change, since=0.0):
    """Spoils ranges from a time (s) on; ``change`` gets them and the random numbers, and makes them others."""
    def spoil(scan, now, rng):
        if now >= since:
            scan.ranges = np.asarray(change(scan.ranges.copy(), rng), np.float32)
        return scan
    return spoil


def where(mask, value):
    """Sets the beams of a mask float[180] or of a function of their number to a value."""
    return lambda r, rng: np.where(mask(np.arange(len(r))), np.float32(value), r)


def field(**values):
    """Spoils fields."""
    def spoil(scan, now, rng):
        for name, value in values.items():
            setattr(scan, name, value)
        return scan
    return spoil


def freeze(since, mask=lambda k: k >= 0):
    """Repeats the beams of a mask as they were at a time (s)."""
    kept = {}

    def spoil(scan, now, rng):
        if now >= since:
            old = kept.setdefault("ranges", scan.ranges)
            scan.ranges = np.where(mask(np.arange(len(old))), old, scan.ranges)
        return scan
    return spoil


def frozen_with_noise(since):
    """Repeats the scan of a time (s) as a lidar does that adds noise of its own."""
    again = freeze(since)

    def spoil(scan, now, rng):
        scan = again(scan, now, rng)
        return field(ranges=rng.normal(scan.ranges, 0.01).astype(np.float32))(scan, now, rng)
    return spoil


def flicker(value, every):
    """Spoils every so manieth scan."""
    number = itertools.count()
    return lambda scan, now, rng: field(ranges=np.full_like(scan.ranges, value))(scan, now, rng) \
        if next(number) % every == 0 else scan


def late(seconds, since=0.0, stamped=True):
    """Gives each scan so many seconds after it was made, from a time (s) on, with its own stamp or a new one."""
    line = []

    def spoil(scan, now, rng):
        line.append((scan, scan.ranges))
        old, ranges = line[max(0, len(line) - 1 - round(seconds / PERIOD))] if now >= since else line[-1]
        return old if stamped else field(ranges=ranges)(scan, now, rng)
    return spoil


def turning(step):
    """Turns each scan by so many beams more than the one before."""
    number = itertools.count()
    return ranged(lambda r, rng: np.roll(r, step * next(number)))


ALL, AHEAD, LEFT, RIGHT = (
    lambda k: k >= 0, lambda k: (k > 45) & (k < 135), lambda k: k > 90, lambda k: k < 90)
DEAD = {"nan": math.nan, "inf": math.inf, "zero": 0.0, "negative": -1.0, "range_max": 10.0, "beyond": 65.5,
        "range_min": 0.1}
BROKEN = {
    **{f"all {name} from {since:g} s": lambda v=value, t=since: ranged(where(ALL, v), t)
       for name, value in DEAD.items() for since in (0.0, 1.5)},
    **{f"ahead {name} from {since:g} s": lambda v=value, t=since: ranged(where(AHEAD, v), t)
       for name, value in DEAD.items() if name != "range_min" for since in (0.0, 1.5)},
    **{f"{name} {how} from {since:g} s": lambda v=DEAD[how], m=mask, t=since: ranged(where(m, v), t)
       for name, mask in (("left", LEFT), ("right", RIGHT)) for how in ("inf", "nan") for since in (0.0, 1.5)},
    **{f"all but one {name}": lambda v=value: ranged(where(lambda k: k != 40, v)) for name, value in DEAD.items()},
    **{f"all of {value:g}": lambda v=value: ranged(where(ALL, v)) for value in (0.15, 1.0, 3.0, 9.0)},
    **{f"frozen from {since:g} s": lambda t=since: freeze(t) for since in (0.0, 0.7, 1.5, 2.5)},
    **{f"every {n}th scan {name}": lambda v=DEAD[name], n=n: flicker(v, n)
       for name in ("inf", "nan", "zero") for n in (2, 5)},
    **{f"noise from {since:g} s": lambda t=since: ranged(lambda r, rng: rng.uniform(1.5, 9.0, len(r)), t)
       for since in (0.0, 1.5)},
    **{f"{s:g} s late from {since:g} s": lambda s=s, t=since: late(s, t)
       for s in (1.2, 3.0) for since in (0.0, 1.5)},
    **{f"frozen with noise from {since:g} s": lambda t=since: frozen_with_noise(t) for since in (0.0, 0.3)},
    "round with noise": lambda: ranged(lambda r, rng: rng.normal(3.0, 0.01, len(r))),
    "turning by itself": lambda: turning(2),
    "frozen ahead": lambda: freeze(1.3, AHEAD),
    "no beams": lambda: field(ranges=np.zeros(0, np.float32)),
    "three beams": lambda: field(ranges=np.ones(3, np.float32)),
    "increment 0": lambda: field(angle_increment=0.0),
    "increment nan": lambda: field(angle_increment=math.nan),
    "angles in degrees": lambda: field(angle_min=-180.0, angle_max=178.0, angle_increment=2.0),
    "increment of the wrong sign": lambda: field(angle_increment=-2 * math.pi / 180, angle_min=-1.0, angle_max=2.0),
    "ranges in mm": lambda: ranged(lambda r, rng: r * 1000),
    "all in mm": lambda: lambda scan, now, rng: field(ranges=scan.ranges * 1000, range_min=100.0, range_max=10000.0)(
        scan, now, rng),
    "no range": lambda: field(range_min=0.0, range_max=0.0),
    "range_max nan": lambda: field(range_max=math.nan),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_lidar_stops_the_robot_before_the_wall_and_is_named(kind):
    seed = len(kind) % 5
    lidar = Lidar(ROOM)
    _, poses, said = drive(lidar, BROKEN[kind](), (0.6, -0.4, 0.3 * seed - 1.0), seed, SHORT)
    assert gap(lidar, poses) > 0.02, (gap(lidar, poses), said[-1])
    assert any("lidar" in s or "scan" in s for s in said[-25:]), (poses[-1], said[-1])


@pytest.mark.slow
def test_scans_that_come_a_second_late_are_found_by_a_turn_though_they_are_stamped_anew():
    _, poses, said = drive(Lidar(ROOM), late(1.0, 0.1, stamped=False), (0.6, -0.4, 0.3),
                           plan=((1.2, 0.0, 0.0), (3.0, 0.0, 1.0), SHORT[1]))
    assert "do both come in time" in said[-1] and not np.hypot(*(poses[-1] - poses[0])[:2])


def test_a_turn_does_not_excuse_a_scan_that_has_become_the_same_on_all_sides():
    same = ranged(lambda r, rng: rng.normal(3.0, 0.01, len(r)), 0.5)
    _, poses, said = drive(Lidar(ROOM), same, (0.6, -0.4, 0.3), plan=((3.0, 0.0, 1.0),))
    assert "does the lidar measure" in said[-1] and np.ptp(poses[:, 2]) < math.pi / 2
    _, poses, said = drive(Lidar(ROOM), ranged(lambda r, rng: rng.normal(3.0, 0.01, len(r))), plan=((3.0, 0.0, 1.0),))
    assert not any(said), "so is the middle of a round room"


@pytest.mark.parametrize("case", [("every second beam", lambda k: k % 2 == 0, v) for v in (math.nan, math.inf, 0.0)])
def test_where_half_of_the_beams_are_left_the_wall_is_seen(case):
    lidar = Lidar(ROOM)
    _, poses, said = drive(lidar, ranged(where(case[1], case[2])), (0.0, -0.4, -1.0))
    assert gap(lidar, poses) > 0.02 and not any(said) and np.ptp(poses[:, 0]) > 1.5


ONE_TURN = 2 * math.pi
SOUND = {
    "as it is": dict(),
    "clockwise": dict(lidar=dict(begin=math.pi, step=-ONE_TURN / 180)),
    "backwards": dict(lidar=dict(yaw=math.pi)),
    "backwards, clockwise, from 0": dict(lidar=dict(begin=0.0, step=-ONE_TURN / 360, count=360, yaw=math.pi)),
    "both ends": dict(lidar=dict(count=361, step=ONE_TURN / 360)),
    **{f"{count} beams": dict(lidar=dict(count=count)) for count in (5, 6, 8, 16, 36, 72, 720, 1441)},
    **{f"{count} beams": dict(lidar=dict(count=count), plan=((0.3, 0.0, 1.0), (1.2, 0.5, 0.0)), least=0.3)
       for count in (4000, 100000)},
    "no noise": dict(lidar=dict(noise=0.0)),
    "much noise": dict(lidar=dict(noise=0.05)),
    "half a turn": dict(lidar=dict(count=181, begin=-math.pi / 2, step=math.pi / 180)),
    "corridor": dict(boxes=CORRIDOR), "corridor without noise": dict(boxes=CORRIDOR, lidar=dict(noise=0.0)),
    "corridor, 5 beams": dict(boxes=CORRIDOR, lidar=dict(count=5)),
    "corridor, 3.5 m": dict(boxes=CORRIDOR, lidar=dict(range_max=3.5)),
    "hall": dict(boxes=HALL, at=(-4.0, 0.5, -1.5), lidar=dict(range_max=3.5)),
    "hall, from the wall": dict(boxes=HALL, at=(-4.0, 0.5, 0.0), plan=((14.0, 0.5, 0.0),), lidar=dict(range_max=3.5)),
    "hall, zeros": dict(boxes=HALL, at=(-4.0, 0.5, 0.0), plan=((14.0, 0.5, 0.0),), scan_zero_is_far=True,
                        lidar=dict(range_max=3.5, range_min=0.12, count=360, begin=0.0, none=0.0)),
    "hall, there and back": dict(boxes=HALL, at=(-3.9, 0.5, 0.0), lidar=dict(range_max=3.5), plan=(
        (12.0, 0.5, 0.0), (3.2, 0.0, 1.0), (12.0, 0.5, 0.0)), least=0.1),
    "range_max": dict(boxes=HALL, at=(-4.0, 0.5, 0.0), lidar=dict(range_max=3.5, none=3.5)),
    "beyond range_max": dict(boxes=HALL, at=(-4.0, 0.5, 0.0), lidar=dict(range_max=3.5, none=65.0)),
    "field": dict(boxes=((0.0, 0.0, 200.0, 200.0),), scan_empty_is_free=True, least=0.3),
    "field, zeros": dict(boxes=((0.0, 0.0, 200.0, 200.0),), scan_empty_is_free=True, scan_zero_is_far=True, least=0.3,
                         lidar=dict(none=0.0)),
    "field with a hut": dict(boxes=((0.0, 0.0, 200.0, 200.0), (-2.0, 0.0, 0.5, 1.5)), at=(0.0, 0.0, -1.0),
                             scan_empty_is_free=True),
    "far from any hut": dict(boxes=((0.0, 0.0, 200.0, 200.0), (-2.0, 0.0, 0.5, 4.0)), at=(0.0, 0.0, 1.6),
                             plan=((6.3, 0.0, -1.0), (18.0, 0.5, 0.0)), least=6.0, proven=66),
    "lost beams": dict(spoil=lambda: ranged(lambda r, rng: np.where(rng.random(len(r)) < 0.1, math.inf, r))),
    "lost beams, nan": dict(spoil=lambda: ranged(lambda r, rng: np.where(rng.random(len(r)) < 0.1, math.nan, r))),
    "black things": dict(spoil=lambda: ranged(where(lambda k: (k > 100) & (k < 106), math.nan))),
    "mm": dict(spoil=lambda: ranged(lambda r, rng: np.round(r, 3))),
    "0.6 s late by its stamps": dict(spoil=lambda: late(0.6, 0.7)),
    "0.3 s late": dict(spoil=lambda: late(0.3, 0.4, stamped=False)),
    "own posts": dict(spoil=lambda: ranged(where(lambda k: np.isin(k, (67, 68, 112, 113)), 0.15)),
                      scan_own=(-0.85, -0.7, 0.18, 0.7, 0.9, 0.18)),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", SOUND)
def test_a_sound_lidar_never_stops_the_robot(kind):
    case = {"boxes": ROOM, "at": (-1.8, 0.3, -1.2), "lidar": {}, "least": 1.0, **SOUND[kind]}
    lidar = Lidar(case.pop("boxes"), **case.pop("lidar"))
    spoil, least, proven = case.pop("spoil", lambda: None), case.pop("least"), case.pop("proven", 0)
    _, poses, said = drive(lidar, spoil(), case.pop("at"), len(kind) % 5, **{"plan": SHORT, **case})
    assert not any(said[proven:]), [s for s in said[proven:] if s][0]
    assert np.hypot(*(poses[-1] - poses[0])[:2]) > least and gap(lidar, poses) > 0.02, poses[-1]


@pytest.mark.parametrize(("apart", "said"), [(0.9, ""), (-0.9, ""), (1.1, "scan comes late: it is stamped 1.1 s"),
                                             (-3.0, "odom comes late: it is stamped 3.0 s"), (12.0, "")])
def test_what_comes_late_is_named_by_its_stamp(apart, said):
    scan = Lidar(ROOM).message(np.full(180, 2.0, np.float32))
    scan.header.stamp = messages.time_message(1000.0)
    told = ScanWatch().take(scan, (0.0, 0.0, 0.0), 5.0, Body(), 1000.0 + apart)
    assert told.startswith(said) and bool(told) == bool(said)
    assert ScanWatch().take(scan, None, 5.0, Body(), 1000.0 + apart) == ""      # of odometry that is not fresh


@pytest.mark.parametrize("seed", range(2))
def test_a_scan_of_before_a_busy_machine_heard_odometry_again_does_not_blame_the_mounting(seed):
    """A wrong alarm would hold the robot for good, since only one that moves can show how its lidar is mounted."""
    lidar, watch, rng = Lidar(ROOM), ScanWatch(), np.random.default_rng(seed)
    moments, heard = [], -1
    for k in range(600):       # to and fro on an arc
        yaw = 1.2 * math.asin(math.sin(0.125 * k))
        moments.append(((-1.5 + 0.3 * math.sin(yaw), 0.6 - 0.3 * math.cos(yaw), yaw), 1000.0 + PERIOD * k))
        if k < heard:           # the machine is busy
            continue
        taken = k - int(rng.integers(1, 4)) if k == heard else k
        heard = k + 8 if rng.random() < 0.1 else -1
        scan = lidar.message(lidar.ranges(*moments[taken][0], rng), header=messages.make(
            "std_msgs/msg/Header", stamp=messages.time_message(moments[taken][1])))
        assert watch.take(scan, moments[k][0], PERIOD * k, Body(), moments[k][1]) == ""


WALLS = (0.0, 0.0, 3.0, 2.0), (2.0, 1.2, 0.3, 0.3), (-1.0, -1.5, 0.4, 0.2)
TURNED = {"back": math.pi, "left": math.pi / 2, "right": -math.pi / 2}


@pytest.mark.slow
@pytest.mark.parametrize("mounted", [*TURNED, "upside down"])
@pytest.mark.parametrize("seed", range(3))
def test_a_lidar_that_is_mounted_otherwise_is_found_on_the_way(mounted, seed):
    yaw = TURNED.get(mounted, 0.0)
    upside_down = ranged(lambda r, rng: np.roll(r[::-1], 1)) if mounted == "upside down" else None
    lidar = Lidar(WALLS, yaw=yaw)
    _, poses, said = drive(lidar, upside_down, (-1.9, 0.3 * seed - 0.5, -1.2), seed, lidar_yaw=0.0)
    assert (f"{math.degrees(yaw):.0f} degrees more to the left" if yaw else "is the lidar upside down") in said[-1]
    assert np.hypot(*(poses[-1] - poses[0])[:2]) < 1.2 and gap(lidar, poses) > 0.02


@pytest.mark.parametrize("turned", [math.pi, math.pi / 2, -math.pi / 2])
def test_a_turned_lidar_is_found_before_the_robot_has_driven_to_a_near_wall(turned):
    lidar = Lidar(ROOM, yaw=turned)
    reach = lidar.boxes[0, 2] - RADIUS
    _, poses, said = drive(lidar, None, (reach - 0.4, 0.0, 0.0), plan=((5.0, 0.5, 0.0),), lidar_yaw=0.0)
    assert f"{math.degrees(turned):.0f} degrees more to the left" in said[-1]
    assert gap(lidar, poses) > 0.02


@pytest.mark.slow
@pytest.mark.parametrize("scale", [1.5, 2.0, 2.8, 0.5, 0.3])
@pytest.mark.parametrize("seed", range(3))
def test_ranges_in_another_unit_are_found_on_the_way(scale, seed):
    lidar = Lidar(WALLS)
    _, poses, said = drive(lidar, ranged(lambda r, rng: scale * r), (-1.9, 0.3 * seed - 0.5, 0.3), seed)
    assert f"moves much {'farther' if scale > 1.0 else 'less'} than odometry says" in said[-1]
    assert gap(lidar, poses) > 0.02


@pytest.mark.parametrize("own", [(1.0, 2.0), ("a", "b", "c")])
def test_own_parts_come_in_threes(own):
    with pytest.raises(ParameterError, match="scan_own must be numbers in threes"):
        Body(scan_own=own)


def test_posts_inside_the_outline_are_told_with_what_the_profile_is_to_say():
    posts = ranged(lambda r, rng: np.where(np.isin(np.arange(180), (67, 68, 112, 113)), rng.normal(0.15, 0.004, 180),
                                           r))
    turns = ((9.0, 0.0, 0.8),)
    _, _, said = drive(Lidar(ROOM), posts, plan=turns)
    assert said[5] == "" and "inside the robot's outline" in said[-1]
    own = json.loads(said[-1][said[-1].index("{own:") + 5:said[-1].index("}")])
    told = beams.read(Lidar(ROOM).message(posts(Lidar(ROOM).message(np.full(180, 2.0)), 0.0,
                                                np.random.default_rng(1)).ranges), Body(scan_own=tuple(own)))
    assert np.flatnonzero(told.kinds == beams.OWN).tolist() == [67, 68, 112, 113]
    assert not any(drive(Lidar(ROOM), posts, plan=turns, scan_own=own)[2])


def test_what_stood_inside_the_outline_is_remembered_for_a_while():
    """What is so near hides the rest, so a search does not end then."""
    near, far = (np.full(180, distance, np.float32) for distance in (0.13, 2.0))
    lidar, watch, crowded = Lidar(ROOM), ScanWatch(), []
    for now in np.arange(0.0, 14.0, 0.1):
        ranges = np.where(np.arange(180) < 20, near if now < 1.5 else far, far)
        watch.take(lidar.message(ranges), None, now, Body())
        crowded.append(watch.crowded)
    assert not any(crowded[:9]) and all(crowded[11:110]) and not any(crowded[121:])


def test_what_is_sound_again_for_two_seconds_is_believed_again():
    def spoil(scan, now, rng):
        return ranged(where(ALL, math.inf))(scan, now, rng) if 1.0 <= now < 2.0 else scan
    _, poses, said = drive(Lidar(ROOM), spoil, (-1.8, 0.2, -0.3), plan=((6.0, 0.4, 0.0),))
    moved = np.hypot(*np.diff(poses[:, :2], axis=0).T)
    assert all(said[10:39]) and not any(said[41:]) and not moved[14:38].any() and moved[45:].sum() > 0.3
