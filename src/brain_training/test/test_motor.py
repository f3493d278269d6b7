# SPDX-License-Identifier: Apache-2.0
"""The motor's teacher, its training ground, and the training; small runs."""
import math
from dataclasses import replace

import numpy as np
import pytest
from brain_training.motor import MotorTask, Recipe
from brain_training.motor_courses import Maps, cast, distance, shape_of
from brain_training.motor_data import Dealer, held_out
from brain_training.motor_teacher import Asked, teach
from brain_training.motor_world import ANGLES, HONEST, Fleet
from brain_training.runs import Settings, train
from brain_training.task import stream

from brain_regions.motor import Motor, network, senses, weights
from brain_regions.motor.body import MOVING, STANDING
from brain_regions.pfc.control import keep_away
from brain_regions.sensed import make
from brain_runtime.hosts.local import LocalHost
from brain_sim.physics import Simulation
from brain_sim.room import generate_room
from brain_sim.things import RoomObject
from brain_wire import messages


def test_training_refuses_the_split_test():
    with pytest.raises(ValueError, match="refuses the split 'test'"):
        Dealer(1, split="test")


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
    fleet = Fleet(lambda rng, row, radius: (Maps(sim.room).course(radius, sim.room.target_object), sim.room.start),
                  [np.random.default_rng(0)], HONEST)
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
    return Fleet(Dealer(6, first_seed=900_000), [stream("test", 0, robot) for robot in range(24)])


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


def beside(aside, yaw):
    """A robot half a meter from a target, and what it is to avoid 0.85 m from the target's surface, ``aside`` (rad)."""
    def thing(name, shape, x, y, radius):
        return RoomObject(name, "red", shape, x, y, 0.0, radius, 0.7, (0.5, 0.5, 0.5))

    target = thing("target", "cylinder", 0.0, 0.0, 0.13)
    avoid = thing("avoid", "ball", 1.2 * math.cos(aside), 1.2 * math.sin(aside), 0.22)
    room = replace(generate_room("train", 3), obstacles=(), objects=(target, avoid))
    return lambda rng, row, radius: (Maps(room).course(radius, target, avoid), (-0.5, 0.0, yaw))


def test_what_is_to_be_avoided_beside_the_target_is_told_in_training_as_in_a_brain():
    exact = replace(HONEST, bearing=0.0, distance=0.0, heading=0.0)
    for aside in (1.6, 2.1, -2.1):
        fleet = Fleet(beside(aside, 0.3), [np.random.default_rng(0)], exact)
        told = fleet.tell()[0]
        to = fleet.ground.avoid[0, :2] - (fleet.x[0], fleet.y[0])
        angle, away = math.atan2(to[1], to[0]) - fleet.yaw[0], math.hypot(*to)
        host = LocalHost({"motor": Motor()}, seed=0)
        heard = []
        region = host.regions["motor"]
        sense = region._sense
        region._sense = lambda *given: heard.append(sense(*given)) or heard[-1]
        host.publish("scan", messages.make(
            "sensor_msgs/msg/LaserScan", angle_min=float(ANGLES[0]), angle_max=float(ANGLES[-1]),
            angle_increment=2 * math.pi / len(ANGLES), range_min=0.05, range_max=10.0, ranges=fleet.ranges[0]))
        host.publish("pfc/control", make(
            "Control", mode=2, goal_id=1, speed=1.0, heading=float(told[senses.HEADING]),
            bearing=float(told[senses.BEARING]), distance=float(told[senses.DISTANCE]),
            hazard=keep_away([angle], [away], 0.18)))
        host.advance(0.05)
        row = heard[0][0]
        near = told[senses.GAP] < 0.9
        assert 4 <= near.sum() < 36
        assert np.allclose(row[senses.GAP], told[senses.GAP], atol=0.02), aside
        assert row[senses.TARGET_GAP] == pytest.approx(told[senses.TARGET_GAP], abs=0.01)


@pytest.mark.extended
def test_teacher_alone_reaches_the_targets():
    found = held_out(None, 16, first_seed=910_000)
    assert found["success"] == 1.0 and found["contact"] == 0.0


@pytest.mark.extended
@pytest.mark.slow
def test_shipped_networks_do_on_fresh_rooms_what_their_files_say():
    spiking, ann = weights.load(), weights.load(ann=True)
    found = {name: held_out(driver, 16, first_seed=920_000) for name, driver in (
        ("spiking", network.SpikingPolicy(spiking.tensors)), ("ann", network.RatePolicy(ann.tensors)))}
    assert spiking.report["success"] >= 0.97 and spiking.report["contact"] <= 0.02
    for name in ("spiking", "ann"):
        assert found[name]["success"] >= 14 / 16 and found[name]["contact"] <= 1 / 16
    assert spiking.training["split"] == "train"


@pytest.mark.extended
@pytest.mark.slow
def test_training_runs_is_the_same_from_a_seed_and_writes_files_that_fit(tmp_path):
    told = []
    for name in ("a", "b"):
        found = train("motor", tmp_path / f"{name}.safetensors", Settings(seed=3, quick=True),
                      lambda *what: told.append(what))
    for ann in (False, True):
        one, other = (tmp_path / f"{name}{'_ann' if ann else ''}.safetensors" for name in "ab")
        assert one.read_bytes() == other.read_bytes() and weights.load(one, ann=ann).training["seed"] == 3
    assert set(found) == {"network", "files", "teacher", "spiking", "ann"} and "success_moving" in found["teacher"]
    assert {what for what, *_ in told} >= {"drives (spiking)", "spiking", "drives (ann)", "ann"}


def test_what_is_learned_is_of_rounds_that_are_over():
    task = MotorTask(recipe=Recipe(rooms=2, robots=3, rounds=4, steps=20, iterations=40, batch=2))
    assert [task.round(step) for step in (0, 5, 6, 12, 18, 39)] == [0, 0, 1, 2, 3, 3]
    task.prepare(0, lambda *news: None)
    network = task.build(0)
    task.begin(0, 13, network, lambda *news: None)
    tensors, _ = task.state()
    assert tensors["senses"].shape[:3] == (3, 20, 3)
    for index in range(24, 28):         # of steps 12 and 13
        rows, label, weight = task.sample(0, index)
        found = [(r, s, k) for r in range(3) for s in (0, 4, 8, 12) for k in range(3)
                 if np.array_equal(tensors["senses"][r, s:s + 8, k].numpy(), rows, equal_nan=True)]
        assert len(found) == 1 and label.shape == (8, 3) and not weight[:2].any() and weight.max() <= 2.0
    early = task.sample(0, 3)[0]        # of step 1, when but one round was over
    assert any(np.array_equal(tensors["senses"][0, s:s + 8, k].numpy(), early, equal_nan=True)
               for s in (0, 4, 8, 12) for k in range(3))


def test_distances():
    assert distance(np.array([[2.0, 0.0]]), np.array([[0.0, 0.0, 0.0, 0.5, 0.0]]))[0] == pytest.approx(1.5)
