# SPDX-License-Identifier: Apache-2.0
"""Odometry that tells a pose, and odometry that does not: judged message by message while a robot turns and drives."""
import math

import numpy as np
import pytest

from brain_runtime.contract.odometry import PROBATION, Odometry, from_origin, origin_of, pose_of, unsound
from brain_wire import messages


def tell(x, y, yaw, speed=0.0, turning=0.0, stamp=0.0, frames=("odom", "base_link"), aside=0.0):
    """Odometry of a robot whose driver does everything right."""
    message = messages.make("nav_msgs/msg/Odometry", child_frame_id=frames[1])
    message.header.frame_id, message.header.stamp = frames[0], messages.time_message(stamp)
    message.pose.pose.position.x, message.pose.pose.position.y = x, y
    message.pose.pose.orientation.z, message.pose.pose.orientation.w = math.sin(yaw / 2), math.cos(yaw / 2)
    message.twist.twist.linear.x, message.twist.twist.linear.y = speed, aside
    message.twist.twist.angular.z = turning
    return message


def way(hz=20.0, seconds=30.0, most=1.3):
    """A search: turns on the spot, drives, curves to the right, backs, stands. Rows of t, x, y, yaw, speed, turning."""
    x = y = yaw = 0.0
    for k in range(round(seconds * hz)):
        t = k / hz
        speed, turning = [(0.0, most), (0.5, 0.0), (0.3, -0.6), (-0.2, 0.1), (0.0, 0.0), (0.5, 0.3)][int(t / 5) % 6]
        ease = min(1.0, (t % 5) / 0.4)
        speed, turning = speed * ease, turning * ease
        yaw += turning / hz
        x, y = x + speed * math.cos(yaw) / hz, y + speed * math.sin(yaw) / hz
        yield t, x, y, yaw, speed, turning


def changed(**fields):
    """A driver that writes other fields: each is made of (t, x, y, yaw, speed, turning)."""
    def driver(*row):
        message = tell(*row[1:], stamp=100.0 + row[0])
        for path, make in fields.items():
            *parents, last = path.split("__")
            place = message
            for parent in parents:
                place = getattr(place, parent)
            setattr(place, last, make(*row))
        return message
    return driver


def turned(x=lambda yaw: 0.0, y=lambda yaw: 0.0, z=lambda yaw: 0.0, w=lambda yaw: 0.0):
    """A driver that writes another orientation, made of yaw (rad)."""
    return changed(**{f"pose__pose__orientation__{name}": lambda t, px, py, yaw, v, r, make=make: make(yaw)
                      for name, make in dict(x=x, y=y, z=z, w=w).items()})


def half(function, scale=1.0):
    return lambda yaw: scale * function(yaw / 2)


def placed(x, y):
    return changed(pose__pose__position__x=x, pose__pose__position__y=y)


BROKEN = {
    "w forgotten": (turned(z=half(math.sin)), "orientation"),
    "w left at 1": (turned(z=half(math.sin), w=lambda yaw: 1.0), "unit quaternion"),
    "all zeros": (turned(), "all zeros"),
    "twice as long": (turned(z=half(math.sin, 2.0), w=half(math.cos, 2.0)), "unit quaternion"),
    "2 % too long": (turned(z=half(math.sin, 1.02), w=half(math.cos, 1.02)), "unit quaternion"),
    "yaw in z": (turned(z=lambda yaw: yaw, w=lambda yaw: 1.0), "unit quaternion"),
    "degrees in z": (turned(z=math.degrees), "orientation"),
    "w, x, y, z": (turned(x=half(math.cos), w=half(math.sin)), "on its side"),
    "x for z": (turned(x=half(math.sin), w=half(math.cos)), "odom is refused"),
    "NaN": (turned(z=lambda yaw: math.nan, w=lambda yaw: 1.0), "nan"),
    "infinite": (turned(w=lambda yaw: math.inf), "inf"),
    "frozen": (turned(w=lambda yaw: 1.0), "turned by 0 degrees"),
    "sign flipped": (turned(z=half(math.sin, -1.0), w=half(math.cos)), "turned by"),
    "twice too fast": (turned(z=math.sin, w=math.cos), "turned by"),
    "any": (lambda *row, rng=np.random.default_rng(0): tell(row[1], row[2], rng.uniform(-3, 3), *row[4:], 100 + row[0]),
            "odom is refused"),
    "position NaN": (placed(lambda *row: math.nan, lambda *row: 0.0), "position"),
    "position infinite": (placed(lambda *row: 0.0, lambda *row: -math.inf), "position"),
    "position frozen": (placed(lambda *row: 5.0, lambda *row: 5.0), "position moved by 0"),
    "position in mm": (placed(lambda *row: 1e3 * row[1], lambda *row: 1e3 * row[2]), "odom is refused"),
    "position in cm": (placed(lambda *row: 1e2 * row[1], lambda *row: 1e2 * row[2]), "odom is refused"),
    "position runs back": (placed(lambda *row: -row[1], lambda *row: -row[2]), "another direction"),
    "two sources": (placed(lambda *row: row[1] + 3.0 * (round(row[0] * 20) % 2), lambda *row: row[2]), "jumps"),
    "twist NaN": (changed(twist__twist__angular__z=lambda *row: math.nan), "twist"),
    "twist in degrees": (changed(twist__twist__angular__z=lambda *row: math.degrees(row[5])), "turned by"),
    "frames swapped": (lambda *row: tell(*row[1:], frames=("base_link", "odom")), "swapped"),
    "frames swapped, with a prefix": (lambda *row: tell(*row[1:], frames=("r1/base_link", "r1/odom")), "swapped"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_odometry_is_refused_by_name_and_stays_so(name):
    driver, words = BROKEN[name]
    judge, refused = Odometry(), []
    for row in way(seconds=12.0):
        refused.append(judge.hear(driver(*row), row[0]))
    said = [why for why in refused if why]
    assert said and all(why.startswith("odom is refused: ") and len(why) < 256 for why in said)
    assert words in said[0], said[0]
    # a robot turns 20 degrees in 0.5 s, and drives 1 m in the third second of it
    assert refused.index(said[0]) < 20 * (1.5 if "position" not in name else 9.0), refused.index(said[0])


def covariance(message, pose, twist):
    message.pose.covariance[:], message.twist.covariance[:] = pose, twist
    return message


def in_odom(t, x, y, yaw, speed, turning):
    return tell(x, y, yaw, speed * math.cos(yaw), turning, 100.0 + t, aside=speed * math.sin(yaw))


def lagging(t, x, y, yaw, speed, turning, kept=[], by=0.2):     # noqa: B006
    """A twist that a filter delays (s)."""
    if not t:
        kept.clear()
    kept.append((t, speed, turning))
    late = next((row for row in reversed(kept) if row[0] <= t - by + 1e-9), (0.0, 0.0, 0.0))
    return tell(x, y, yaw, *late[1:], 100.0 + t)


def carried(t, x, y, yaw, speed, turning):
    """From the eighth second on everything is turned by 2 rad, and elsewhere."""
    if t > 8.0:
        x, y, yaw = 4.0 + x * math.cos(2) - y * math.sin(2), x * math.sin(2) + y * math.cos(2), yaw + 2.0
    return tell(x, y, yaw, speed, turning, 100.0 + t)


def lifted(t, x, y, yaw, speed, turning):
    """Turned by 6 rad while the wheels are in the air; then it turns on the spot."""
    if t <= 20.0:
        return tell(x, y, yaw, speed, turning, 100.0 + t)
    return tell(1.0, -2.0, yaw + 2.0 * min(max(t - 20.5, 0.0), 3.0), 0.0, turning, 100.0 + t)


def leaning(t, x, y, yaw, speed, turning, roll=0.35):
    message = tell(x, y, yaw, speed, turning, 100.0 + t)
    q = message.pose.pose.orientation
    q.x, q.y, q.z, q.w = (math.sin(roll / 2) * q.w, math.sin(roll / 2) * q.z, math.cos(roll / 2) * q.z,
                          math.cos(roll / 2) * q.w)
    return message


SOUND = {
    "as it should be": changed(),
    "no twist": lambda *row: tell(*row[1:4], stamp=100.0 + row[0]),
    "no turning in the twist": lambda *row: tell(*row[1:5], stamp=100.0 + row[0]),
    "no stamps": lambda *row: tell(*row[1:]),
    "one stamp for ever": lambda *row: tell(*row[1:], stamp=7.0),
    "no names of frames": lambda *row: tell(*row[1:], stamp=100.0 + row[0], frames=("", "")),
    "another base": lambda *row: tell(*row[1:], stamp=100.0 + row[0], frames=("odom", "r1/base_footprint")),
    "covariances of zero": changed(),
    "covariances of -1": lambda *row: covariance(changed()(*row), -1.0, -1.0),
    "covariances of NaN": lambda *row: covariance(changed()(*row), math.nan, math.nan),
    "a twist that was not measured": lambda *row: covariance(tell(*row[1:4], 0.7, 3.0, 100.0 + row[0]), 1e-3, 1e6),
    "wheels that slip by a quarter": lambda *row: tell(*row[1:4], 1.33 * row[4], 1.33 * row[5], 100.0 + row[0]),
    "a gyroscope that drifts by 1 degree a second": lambda *row: tell(
        row[1], row[2], row[3] + math.radians(row[0]), 0.0, row[5], 100.0 + row[0]),
    "a slow filter": lagging,
    "a twist in the odometry's frame": in_odom,
    "a ramp": leaning,
    "far away": lambda *row: tell(row[1] + 500_000.25, row[2] + 5_000_000.5, *row[3:], 100.0 + row[0]),
    "32 bits": lambda *row: tell(*(float(np.float32(v)) for v in row[1:]), 100.0 + row[0]),
    "half a percent too long": turned(z=half(math.sin, 1.004), w=half(math.cos, 1.004)),
    "carried once": carried,
    "lifted and turned by hand": lifted,
    "a simulation at half speed": lambda *row: tell(*row[1:], 100.0 + row[0]),
    "messages in bursts": changed(),
}


@pytest.mark.parametrize("name", SOUND)
def test_sound_odometry_is_never_refused(name):
    driver = SOUND[name]
    for hz in (10.0, 25.0):
        judge = Odometry()
        for row in way(hz):
            now = 2 * row[0] if "half speed" in name else row[0]
            if "bursts" in name:
                now = math.ceil(now * 4) / 4 + 1e-3 * (now % 0.25)
            assert not judge.hear(driver(*row), now), (hz, row[0], judge.refused)


@pytest.mark.parametrize("drives", [False, True])
def test_a_twist_that_is_the_mean_since_the_message_before_is_believed_across_gaps(drives):
    """As wheel odometry tells it on a busy machine, of a robot that stops where nothing is heard of it."""
    judge, rng, t, way = Odometry(), np.random.default_rng(0), 0.0, 0.0
    for _ in range(300):
        speed = rng.uniform(0.5, 1.5)
        for dt, moves in [(0.02, 0.02 * min(k / 5, 1.0)) for k in range(int(rng.integers(2, 12)))] + [(0.45, 0.15)]:
            t, way, mean = t + dt, way + speed * moves, speed * moves / dt
            message = tell(way, 0.0, 0.0, mean, 0.0, 100.0 + t) if drives else tell(0.0, 0.0, way, 0.0, mean, 100.0 + t)
            assert not judge.hear(message, t)


def test_what_was_refused_is_taken_again_after_two_sound_seconds_and_a_contradiction_later_each_time():
    judge = Odometry()
    assert not judge.hear(tell(0, 0, 0), 0.0)
    assert judge.hear(turned()(0.1, 0, 0, 0, 0, 0), 0.1)
    taken = [t for t in np.arange(0.2, 5.0, 0.1) if not judge.hear(tell(0, 0, 0), float(t))]
    assert abs(taken[0] - 0.2 - PROBATION) < 0.11 and taken[-1] > 4.8
    # an orientation that stands still while the twist turns whenever the robot is let
    turns, t = 0.0, 0.0
    for k in range(20 * 120):
        t, turning = k / 20, 0.0 if judge.refused else 1.0
        turns += turning / 20
        judge.hear(tell(0, 0, 0, 0, turning), 10.0 + t)
    assert judge.refused and math.degrees(turns) < 150.0, math.degrees(turns)


@pytest.mark.parametrize("at", [(0.0, 0.0), (500.0, -500.0), (500_000.25, 5_000_000.5), (-123_456.7, 9e6), (9e8, -9e8)])
def test_an_origin_is_exact_in_32_bits_and_zero_near_zero(at):
    pose = pose_of(tell(*at, 1.0))
    origin = origin_of(pose)
    assert origin.dtype == np.float32 and not (origin % 1024).any()
    near = from_origin(pose, origin)
    assert math.hypot(*near[:2]) < 800 and (near[0] + float(origin[0]), near[1] + float(origin[1])) == pose[:2]
    assert max(map(abs, at)) > 512 or not origin.any()


def test_a_pose_of_any_numbers_is_judged_without_error():
    rng = np.random.default_rng(0)
    odd = [0.0, 1.0, -1.0, math.nan, math.inf, -math.inf, 1e308, 1e-308, 0.5, 1e9]
    for _ in range(500):
        x, y, speed, turning, *orientation = map(float, rng.choice(odd, 8))
        message = tell(x, y, 0.0, speed, turning)
        q = message.pose.pose.orientation
        q.x, q.y, q.z, q.w = orientation
        why = unsound(message)
        assert why or all(map(math.isfinite, pose_of(message)))
        Odometry().hear(message, 0.0)
