# SPDX-License-Identifier: Apache-2.0
"""The motor's teacher, its training ground, and the training; small runs."""
import math

import numpy as np
import pytest
from brain_training.motor_courses import Maps, cast, distance, shape_of
from brain_training.motor_data import Dealer, held_out, rng_of
from brain_training.motor_teacher import Asked, teach
from brain_training.motor_world import ANGLES, HONEST, Fleet, Trouble

from brain_regions.motor import network, senses, weights
from brain_sim.physics import Simulation
from brain_sim.room import generate_room

STANDING, MOVING, ARRIVED, BLOCKED = range(4)


def test_training_refuses_the_split_test():
    with pytest.raises(ValueError, match="refuses the split 'test'"):
        Dealer(1, np.random.default_rng(0), split="test")


def test_rays_end_where_the_simulator_s_do():
    room = generate_room("train", 3)
    sim = Simulation(room)
    shapes = np.array([shape_of(o.footprint) for o in (*room.obstacles, *room.objects)], np.float32)
    found = cast(np.array([[sim.x, sim.y]]), ANGLES[None] + sim.yaw, shapes[None], np.array([room.size]))[0]
    true = sim.scan(noisy=False)
    near = true < 2.5       # balls are a little narrower in the lidar's plane than their outlines
    assert np.median(np.abs(found - true)[near]) < 1e-3 and (np.abs(found - true)[near] < 0.06).mean() > 0.95


def test_robots_move_as_the_simulator_s():
    sim = Simulation(generate_room("train", 5))
    fleet = Fleet(1, lambda row, radius: (Maps(sim.room).course(radius, sim.room.target_object), sim.room.start),
                  np.random.default_rng(0), HONEST)
    for step in range(24):
        v, w = 0.3, 1.0 if step < 10 else -0.8
        fleet.tell()
        fleet.advance(np.array([v / 0.5]), np.array([w / 1.5]), np.array([MOVING]))
        sim.command(v, w)
        sim.advance(0.05)
    assert math.hypot(fleet.x[0] - sim.x, fleet.y[0] - sim.y) < 0.03
    assert abs(math.remainder(float(fleet.yaw[0]) - sim.yaw, 2 * math.pi)) < 0.06


@pytest.fixture(scope="module")
def fleet():
    return Fleet(24, Dealer(6, rng_of(0, "test"), first_seed=900_000), rng_of(0, "test"), Trouble())


def ask(fleet, row=0, **changed):
    """The teacher's answer to one of the fleet's robots, with something changed."""
    fields = dict(x=fleet.x, y=fleet.y, yaw=fleet.yaw, mode=fleet.mode, heading=fleet.heading, speed=fleet.speed,
                  was_arrived=np.zeros(fleet.n, bool), max_linear=fleet.max_v, max_angular=fleet.max_w,
                  braking=fleet.braking, radius=fleet.radius, stop_gap=fleet.stop_gap, movers=fleet.movers)
    fields = {name: value.copy() for name, value in fields.items()}
    for name, value in changed.items():
        fields[name][row] = value
    told = teach(Asked(**fields), fleet.ground)
    return float(told.linear[row]), float(told.angular[row]), int(told.state[row])


def test_teacher_stands_when_told_and_turns_to_look_about(fleet):
    fleet.tell()
    for mode in (0, 3):
        assert ask(fleet, mode=mode) == (0.0, 0.0, STANDING)
    v, w, state = ask(fleet, mode=1, heading=1.1, speed=0.0)
    assert v == 0 and w > 0.5 and state == MOVING


def test_teacher_does_not_drive_into_what_walks_there(fleet):
    fleet.tell()
    rows = [r for r in range(fleet.n) if fleet.ground.clear(np.array([[fleet.x[r], fleet.y[r]]])[:, None],
                                                            np.array([r]))[0, 0] > fleet.radius[r] + 0.7]
    row = rows[0]
    free = dict(mode=1, heading=0.0, speed=1.0, movers=np.nan)
    assert ask(fleet, row, **free)[0] > 0.5
    ahead = fleet.radius[row] + 0.25
    yaw = fleet.yaw[row]
    mover = np.array([[fleet.x[row] + ahead * math.cos(yaw), fleet.y[row] + ahead * math.sin(yaw),
                       -0.2 * math.cos(yaw), -0.2 * math.sin(yaw), 0.15], [np.nan] * 5], np.float32)
    v, w, _ = ask(fleet, row, **(free | {"movers": mover}))
    assert v < 0.3 or abs(w) > 0.5


def test_headings_that_are_told_lead_along_the_way(fleet):
    rows, _ = fleet.tell(), fleet.ask()
    plain = fleet.special == 0
    assert np.isfinite(rows[plain, senses.HEADING]).all() and rows.shape == (24, senses.SIZE)
    assert (rows[:, senses.GAP] >= 0).all() and (rows[:, senses.GAP] <= senses.REACH).all()


def test_teacher_alone_reaches_the_targets():
    found = held_out({"teacher": ("teacher", None)}, 16, first_seed=910_000)["teacher"]
    assert found["success"] == 1.0 and found["contact"] == 0.0


def test_shipped_networks_do_on_fresh_rooms_what_their_files_say():
    spiking, twin = weights.load(), weights.load(twin=True)
    found = held_out({"spiking": ("spiking", network.SpikingPolicy(spiking.tensors)),
                      "twin": ("rate", network.RatePolicy(twin.tensors))}, 16, first_seed=920_000)
    assert spiking.report["success"] >= 0.97 and spiking.report["contact"] <= 0.02
    for name in ("spiking", "twin"):
        assert found[name]["success"] >= 14 / 16 and found[name]["contact"] <= 1 / 16
    assert spiking.training["split"] == "train"


@pytest.mark.slow
def test_training_runs_is_the_same_from_a_seed_and_writes_files_that_fit(tmp_path):
    from brain_training.train_motor import train_motor

    told = []
    made = []
    for name in ("a", "b"):
        paths = tmp_path / f"{name}.safetensors", tmp_path / f"{name}_twin.safetensors"
        found = train_motor(*paths, seed=3, quick=True, progress=lambda *what: told.append(what))
        made.append((weights.load(paths[0]).tensors, weights.load(paths[1], twin=True).tensors))
    for one, other in zip(*made):
        assert all(np.array_equal(one[name], other[name]) for name in one)
    assert {"teacher", "spiking", "twin"} <= set(found) and {what for what, *_ in told} >= {"drives", "spiking", "twin"}
    assert distance(np.array([[2.0, 0.0]]), np.array([[0.0, 0.0, 0.0, 0.5, 0.0]]))[0] == pytest.approx(1.5)
