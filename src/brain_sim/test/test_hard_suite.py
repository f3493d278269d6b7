# SPDX-License-Identifier: Apache-2.0
"""The suite language-v1-hard: its movers, that they harm nobody, and that language-v1 is left as it is."""

import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest

from brain_runtime.hosts.local import LocalHost
from brain_sim import hard_suite, robot, suite
from brain_sim.camera_region import Camera
from brain_sim.controls import run_control
from brain_sim.judge import RequestError, read_request
from brain_sim.movers import STOP_GAP, Mover, MovingSimulation, add_movers
from brain_sim.physics import Simulation
from brain_sim.room import Room, generate_room
from brain_sim.plugin_sensors import Bumper, Sonar
from brain_sim.world import World
from brain_wire import messages


def moving(index=1, **more):
    episode = hard_suite.episode("val", index)
    room = episode.room()
    return MovingSimulation(room, episode.moving(room), **more)


def test_rooms_and_sentences_are_those_of_language_v1():
    for plain, hard in zip(suite.episodes("val", 40, 2), hard_suite.episodes("val", 40, 2), strict=True):
        assert hard.id == plain.id.replace("language-v1/", "language-v1-hard/")
        for name in ("split", "seed", "kind", "sentence", "target", "avoid", "visibility", "stop_text"):
            assert getattr(hard, name) == getattr(plain, name)
        assert hard.room() == plain.room() and 1 <= hard.movers <= 3


def test_the_hash_is_of_both_and_of_what_moves(monkeypatch, tmp_path):
    copy = tmp_path / "brain_sim"
    shutil.copytree(Path(suite.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for module in (suite, hard_suite):
        monkeypatch.setattr(module, "__file__", str(copy / Path(module.__file__).name))
    seen = {suite.suite_hash(), hard_suite.suite_hash()}
    for name in ("movers.py", "hard_suite.py", "camera.py"):
        (copy / name).write_text((copy / name).read_text() + "\nCHANGED = True\n")
        seen.add(hard_suite.suite_hash())
    assert len(seen) == 5


def test_episodes_repeat_and_survive_json():
    for e in hard_suite.episodes("train", 20, 1):
        assert hard_suite.HardEpisode.from_dict(json.loads(e.to_json())) == e
        room = e.room()
        assert e.moving(room) == e.moving(room)
    assert hard_suite.episodes("val", 8, 5) == hard_suite.episodes("val", 16, 5)[:8]


@pytest.mark.parametrize("movers", [0, 4, "2", None, True])
def test_a_wrong_number_of_movers_is_refused(movers):
    fields = json.loads(hard_suite.episode("val", 0).to_json()) | {"movers": movers}
    with pytest.raises(RequestError, match="movers"):
        read_request(fields)


def test_most_episodes_have_all_their_movers_and_all_have_one():
    counts = []
    for e in hard_suite.episodes("val", 30):
        movers = e.moving(e.room())
        counts.append((len(movers), e.movers))
        for m in movers:
            assert 0.1 <= m.speed <= 0.3 and math.dist(m.a, m.b) >= 1.2
    assert all(found >= 1 for found, _ in counts)
    assert np.mean([found == wanted for found, wanted in counts]) > 0.8


def test_movers_walk_clear_of_things_the_robot_and_each_other():
    for index in range(4):
        sim = moving(index)
        ends, seen = {k: set() for k in range(len(sim.movers))}, []
        for _ in range(200):
            sim.advance(0.1)
            seen.append(sim.places.copy())
            for k, (m, at) in enumerate(zip(sim.movers, sim.places, strict=True)):
                assert min(f.distance_at(*at) for f in sim.room.footprints) > m.radius
                assert math.dist(at, (sim.x, sim.y)) > m.radius + robot.BASE_RADIUS + STOP_GAP - 0.01
                assert all(math.dist(at, other) > m.radius + o.radius for o, other in list(
                    zip(sim.movers, sim.places, strict=True))[k + 1:])
                ends[k] |= {e for e in (0, 1) if math.dist(at, (m.a, m.b)[e]) < 0.05}
        assert not sim.contacts and (np.ptp(seen, axis=0).max(axis=1) > 0.3).all()
        assert any(ends.values())


def test_the_same_steps_give_the_same_places_however_they_are_cut():
    whole, parts = moving(), moving()
    whole.advance(2.0)
    for step in (0.003, 0.997, 0.5, 0.011, 0.489):
        parts.advance(step)
    assert np.array_equal(whole.places, parts.places) and whole.steps == parts.steps


def walker(room, begin, end):
    """A mover on the robot's axis, from ``begin`` to ``end`` m ahead of it."""
    x, y, yaw = room.start
    a, b = ((x + d * math.cos(yaw), y + d * math.sin(yaw)) for d in (begin, end))
    return Mover("mover_0", "cylinder", 0.1, 0.6, 0.0, (0.4, 0.4, 0.4), a, b, 0.3, 0.0)


def test_a_mover_waits_for_the_robot_and_turns_back():
    room = generate_room("train", 1)
    sim = MovingSimulation(room, [walker(room, 0.6, -1.0)])
    sim.advance(1.2)
    assert not sim.velocities.any()
    nearest = math.dist(sim.places[0], (sim.x, sim.y))
    assert nearest == pytest.approx(0.1 + robot.BASE_RADIUS + STOP_GAP, abs=0.01)
    sim.advance(1.5)
    assert math.dist(sim.places[0], (sim.x, sim.y)) > nearest + 0.1 and not sim.contacts


def test_a_robot_that_drives_into_a_mover_touches_it():
    room = generate_room("train", 1)
    sim = MovingSimulation(room, [walker(room, 0.4, 0.4)])
    sim.command(0.5, 0.0)
    sim.advance(0.5)
    assert sim.contacts and sim.contacts[0][1] == "mover_0"


def test_lidar_sees_a_mover_where_it_is():
    sim, bare = moving(), Simulation(moving().room)
    sim.advance(3.0)
    sim.x, sim.y = bare.x, bare.y
    before, after = bare.scan(noisy=False), sim.scan(noisy=False)
    hit = np.flatnonzero(after < before - 0.05)
    if len(hit):
        angles = sim.lidar.angles[hit] + sim.yaw
        px, py = sim.x + after[hit] * np.cos(angles), sim.y + after[hit] * np.sin(angles)
        off = np.min([np.abs(m.footprint(*at).distance(px, py)) for m, at in zip(sim.movers, sim.places, strict=True)],
                     axis=0)
        assert off.max() < 0.03
    assert any(len(np.flatnonzero(moving(i).scan(noisy=False) < Simulation(moving(i).room).scan(noisy=False) - 0.05))
               for i in range(6))


def test_controls_drive_among_movers():
    for e in hard_suite.episodes("val", 6):
        assert run_control("oracle", e).success


def test_world_tells_where_they_are_and_the_camera_shows_it():
    host = LocalHost({"world": World(), "camera": Camera(), "sonar": Sonar(), "bumper": Bumper()},
                     parameters={"camera": {"noise": False}})
    places, pictures = [], []
    host.listen("sim/movers", lambda m: places.append([(p.position.x, p.position.y) for p in m.poses]))
    host.listen("camera/image_raw", lambda m: pictures.append(m.data.copy()))
    host.advance(0.5)
    assert not places       # nothing moves in rooms of language-v1
    index = next(i for i in range(40) if _in_view(moving(i)))
    host.publish("sim/episode", messages.make("std_msgs/msg/String", data=hard_suite.episode("val", index).to_json()))
    host.advance(0.2)
    pictures.clear()
    host.advance(2.0)
    assert math.dist(places[-1][0], places[0][0]) > 0.05
    assert (pictures[0] != pictures[-1]).any()     # the robot stands, and the camera has no noise
    world = json.loads(host.latest("sim/world").data)
    assert len(world["movers"]) == len(places[-1]) and Room.from_json(json.dumps(world["room"]))


def _in_view(sim) -> bool:
    """Whether a mover is in the camera's free sight."""
    for m, at in zip(sim.movers, sim.places, strict=True):
        bearing = math.remainder(math.atan2(at[1] - sim.y, at[0] - sim.x) - sim.yaw, 2 * math.pi)
        away = math.dist(at, (sim.x, sim.y))
        if abs(bearing) < 0.5 and away < 3.0 and not any(
                f.cuts(sim.x, sim.y, *at) for f in sim.room.footprints):
            return True
    return False


def test_movers_change_nothing_else_of_the_model():
    sim = moving()
    bare = Simulation(sim.room)
    assert add_movers(bare.xml, sim.movers) == sim.xml and bare.xml.split("</worldbody>")[0].rstrip() in sim.xml
    assert sim.model.ngeom == bare.model.ngeom + len(sim.movers) and sim.model.nq == bare.model.nq
