# SPDX-License-Identifier: Apache-2.0
"""The base's limits, its own timeout, contacts and sensors, in the simulation itself."""

import dataclasses
import math

import numpy as np
import pytest

from brain_sim import robot
from brain_sim.physics import Simulation
from brain_sim.room import Room, generate_room


def empty_room(start=(0.0, 0.0, 0.0), seed: int = 5) -> Room:
    room = generate_room("train", seed)
    return dataclasses.replace(room, size=(8.0, 8.0), obstacles=(), objects=(), start=start)


def drive(sim: Simulation, v: float, w: float, seconds: float) -> None:
    for _ in range(int(round(seconds * 50))):
        sim.command(v, w)
        sim.advance(0.02)


def test_speed_and_acceleration_stay_within_limits_whatever_is_asked():
    sim = Simulation(empty_room())
    rng = np.random.default_rng(1)
    for _ in range(60):
        drive(sim, *rng.uniform(-5, 5, 2), 0.1)
    report = sim.invariants.report()
    assert report["violations"] == 0 and report["substeps"] == 3000
    assert report["max_set_speed"] <= robot.MAX_SPEED and report["max_set_turn"] <= robot.MAX_TURN
    assert report["max_speed"] <= robot.MAX_SPEED * 1.02
    # The springy drive may exceed its ramp a little while it turns.
    assert report["max_acceleration"] <= robot.MAX_ACCELERATION * 1.5


def test_the_invariants_catch_a_broken_limit():
    sim = Simulation(empty_room())
    sim._set_v = 0.7
    sim.advance(0.01)
    assert sim.invariants.violations > 0


def test_straight_drive_covers_the_ramped_distance():
    sim = Simulation(empty_room(start=(-2.0, 1.0, 0.6)))
    drive(sim, 0.4, 0.0, 2.0)
    expected = 0.4 * 2.0 - 0.4**2 / (2 * robot.MAX_ACCELERATION)
    assert math.hypot(sim.x + 2.0, sim.y - 1.0) == pytest.approx(expected, abs=0.005)
    assert math.atan2(sim.y - 1.0, sim.x + 2.0) == pytest.approx(0.6, abs=1e-6)


def test_circle_closes():
    sim = Simulation(empty_room(start=(0.0, -1.0, 0.0)))
    drive(sim, 0.3, 0.6, 3.0)
    x, y, _ = sim.pose
    drive(sim, 0.3, 0.6, 2 * math.pi / 0.6)
    assert math.hypot(sim.x - x, sim.y - y) < 0.02
    assert abs(sim.w - 0.6) < 1e-3


def test_base_stops_half_a_second_after_the_last_command():
    sim = Simulation(empty_room())
    drive(sim, 0.5, 0.0, 1.0)
    last = sim.time - 0.02
    sim.advance(1.5)
    (stop,) = sim.invariants.stops
    assert stop.trigger == "command timeout" and stop.time == pytest.approx(last, abs=1e-9)
    braking = 0.5 / robot.MAX_ACCELERATION
    assert robot.COMMAND_TIMEOUT < stop.standstill_after <= robot.COMMAND_TIMEOUT + braking + 0.02
    assert abs(sim.v) < 1e-3


def test_nonsense_commands_are_ignored():
    sim = Simulation(empty_room())
    for bad in ((math.nan, 0.0), (0.0, math.inf), (-math.inf, math.nan)):
        sim.command(*bad)
        sim.advance(0.1)
    assert sim.pose == (0.0, 0.0, 0.0)


def test_contact_with_a_wall_is_named_and_physical():
    sim = Simulation(empty_room(start=(3.0, 0.0, 0.0)))
    drive(sim, 0.5, 0.0, 3.0)
    assert sim.contacts and sim.contacts[0][1] == "wall_east"
    assert sim.x < 4.0 - robot.BASE_RADIUS + 0.02 and abs(sim.v) < 0.02


@pytest.mark.slow
def test_contact_with_every_kind_of_thing():
    for seed in range(6):
        room = generate_room("train", seed, low_obstacles=1)
        for thing in room.objects + room.obstacles:
            gap = thing.footprint.outer_radius + robot.BASE_RADIUS + 0.05
            start = (thing.x - gap, thing.y, 0.0)
            alone = {"objects": (), "obstacles": ()}
            alone["objects" if thing.name.startswith("object") else "obstacles"] = (thing,)
            sim = Simulation(dataclasses.replace(room, size=(12.0, 12.0), start=start, **alone))
            drive(sim, 0.3, 0.0, 6.0)
            assert sim.contacts and sim.contacts[0][1] == thing.name


def test_scan_against_plain_geometry():
    sim = Simulation(empty_room(start=(1.0, -0.5, 0.7)))
    ranges = sim.scan(noisy=False)
    a = sim.lidar.angles + 0.7
    with np.errstate(divide="ignore"):
        to_x = (np.where(np.cos(a) > 0, 4.0, -4.0) - 1.0) / np.cos(a)
        to_y = (np.where(np.sin(a) > 0, 4.0, -4.0) + 0.5) / np.sin(a)
    assert ranges.dtype == np.float32 and ranges.shape == (180,)
    assert np.allclose(ranges, np.minimum(to_x, to_y), atol=1e-4)


def test_scan_misses_low_obstacles_and_sees_objects():
    room = generate_room("train", 9)
    thing = room.objects[0]
    start = (thing.x - 1.0, thing.y, 0.0)
    alone = dataclasses.replace(room, size=(12.0, 12.0), obstacles=(), objects=(thing,), start=start)
    assert Simulation(alone).scan(noisy=False)[90] == pytest.approx(1.0 - thing.radius, abs=0.06)
    low = next(o for o in generate_room("train", 9, low_obstacles=1).obstacles if o.name.startswith("low"))
    low = dataclasses.replace(low, x=thing.x, y=thing.y)
    alone = dataclasses.replace(alone, objects=(), obstacles=(low,))
    assert Simulation(alone).scan(noisy=False)[90] > 3.0


def test_scan_noise_is_small_and_repeatable():
    a, b = Simulation(empty_room()), Simulation(empty_room())
    first, clean = a.scan(), a.scan(noisy=False)
    assert np.array_equal(first, b.scan())
    ok = np.isfinite(first)
    assert ok.sum() >= 170 and 0.003 < (first - clean)[ok].std() < 0.02


def test_odometry_drifts_but_not_much():
    errors = []
    for seed in range(8):
        sim = Simulation(empty_room(start=(-3.0, 0.0, 0.0), seed=seed))
        for _ in range(50):
            drive(sim, 0.5, 0.0, 0.2)
            odom = sim.read_odometry()
        errors.append(math.hypot(odom.x - (sim.x + 3.0), odom.y - sim.y))
    assert 0.005 < np.mean(errors) < 0.3


def test_imu_tells_turn_and_gravity():
    sim = Simulation(empty_room())
    sim.read_imu()
    drive(sim, 0.0, 1.0, 2.0)
    gyro, force = sim.read_imu()
    assert gyro[2] == pytest.approx(1.0, abs=0.05) and force[2] == pytest.approx(9.81, abs=0.3)


def test_two_runs_are_the_same_to_the_bit():
    def run():
        sim = Simulation(generate_room("val", 11))
        rng = np.random.default_rng(0)
        out = []
        for _ in range(100):
            sim.command(*rng.uniform(-1, 1, 2))
            sim.advance(0.05)
            odom = sim.read_odometry()
            out.append((*sim.pose, odom.x, odom.y, odom.yaw, *sim.read_imu()[0], *sim.scan()))
        return np.array(out)

    assert run().tobytes() == run().tobytes()


def test_the_size_of_advance_does_not_change_the_path():
    a, b = Simulation(empty_room()), Simulation(empty_room())
    a.command(0.5, 0.8)
    b.command(0.5, 0.8)
    a.advance(0.4)
    for _ in range(40):
        b.advance(0.01)
    assert a.pose == pytest.approx(b.pose, abs=1e-12)


def test_observer_sees_every_substep():
    times = []
    sim = Simulation(empty_room(), observer=lambda t, *rest: times.append(t))
    sim.advance(0.1)
    assert np.allclose(times, (np.arange(50) + 1) * robot.PHYSICS_STEP)
