# SPDX-License-Identifier: Apache-2.0
"""``brain fleet demo`` at its smallest: real processes, a link that is cut, a robot that is killed; and its parts."""
from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from brain.cli import app
from brain_edge.processes import others_verbs
from brain_regions.vision.network import COLUMNS, HEIGHT, SLOTS, WIDTH
from brain_sim.camera import SeenObject
from brain_sim.world import World
from brain_training.fleet_demo.album import Album, Reader
from brain_training.fleet_demo.dressed_world import DressedWorld
from brain_training.fleet_demo.picture import draw
from brain_training.fleet_demo.play import complete, lines
from brain_training.fleet_demo.robot_folder import SHEET, Given, end_goal, goals, sheets
from brain_training.fleet_demo.script import Script
from brain_training.fleet_demo.story import Trouble, examined, weights_of
from brain_training.vision_data import Labels
from brain_wire.parameters import ParameterError

PROGRAM = """
import sys
from pathlib import Path
import typer
from brain_training.fleet_demo.script import Script
from brain_training.fleet_demo.verb import run
script = Script(rounds=2, cut_at=0, kill_at=0, deadline_s=7.0, gather_s=0.1, steps=1, batch=2, held=2, way=2,
                goal_s=10.0, pace=8.0, limit_s=200.0)
try:
    run(script, Path(sys.argv[1]), True)
except typer.Exit as ended:
    sys.exit(ended.exit_code)
"""
PATIENCE = 240.0    # s; only ends a hang


def begun(folder):
    return subprocess.Popen([sys.executable, "-c", PROGRAM, str(folder)], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


def running(folder):
    """Processes in whose command a folder is named, but those of the demo's command itself."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode("utf-8", "replace").split("\0")
        except OSError:
            continue    # it has ended
        if any(str(folder) in word for word in words) and "-c" not in words:
            found.append((int(path.parent.name), words[:4]))
    return found


def until(what):
    end = time.monotonic() + PATIENCE
    while not (found := what()):
        assert time.monotonic() < end
        time.sleep(0.1)
    return found


@pytest.mark.extended
def test_a_demo_is_played_by_real_processes_through_a_cut_and_a_death(tmp_path):
    folder = tmp_path / "demo"
    process = begun(folder)
    out, err = process.communicate(timeout=400)
    assert process.returncode == 0, (out, err)
    assert running(folder) == []
    found = json.loads(out)
    cut, death = found["troubles"]
    assert (cut["kind"], cut["robot"], death["kind"], death["robot"]) == ("cut", "robot2", "death", "robot3")
    for one in (cut, death):
        assert one["began_s"] < one["ended_s"] <= one["back_s"] and one["began"] < one["back"]
    assert found["done"] >= 2 and found["versions"][0]["version"] == 0
    assert all(0.0 <= told["f1"] <= 1.0 for one in found["versions"] for told in one["robots"].values())
    # The cloud said so itself, and the one that was killed was there twice.
    ends = [line for line in (folder / "cloud.log").read_text().splitlines() if " of demo ended " in line]
    assert all(any(robot not in line for line in ends) for robot in ("robot2", "robot3")), ends
    started = [(folder / name / "learn.log").read_text().count("learns driving") for name in ("robot2", "robot3")]
    assert started == [1, 2]
    for robot in found["robots"]:
        assert len(sheets(folder / robot["robot"])) >= 3
        assert [goal["goal"] for goal in robot["goals"]] == list(range(len(robot["goals"])))
    assert (folder / "fleet.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads((folder / "fleet.json").read_text())["versions"] == found["versions"]
    assert "the link of robot2 is there again" in err and "robot3 takes part again" in err


@pytest.mark.extended
@pytest.mark.parametrize(("how", "status"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)])
def test_whatever_ends_the_command_nothing_is_left_running(tmp_path, how, status):
    folder = tmp_path / "demo"
    process = begun(folder)
    until(lambda: len(running(folder)) >= 9)    # a cloud, and four that drive with their edges
    process.send_signal(how)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == status and out == "", (out, err)
    until(lambda: not running(folder))


def test_what_came_out_is_drawn_and_told(tmp_path):
    def told(f1):
        return {"f1": f1, "taken": 0.0}

    trouble = {"robot": "robot2", "kind": "cut", "began_s": 5.0, "ended_s": 20.0, "back_s": 30.0, "began": 1,
               "ended": 2, "back": 3}
    never = {**dict.fromkeys(trouble), "robot": "robot1", "kind": "death"}
    found = {"rounds": 3, "done": 4, "wall_s": 40.0, "ends": [9.0, 19.0, 30.0, 39.0], "f1_first": 0.5, "f1_last": 0.7,
             "last_version": 3, "troubles": [trouble, never], "robots": [
                 {"robot": f"robot{k}", "rooms": "warm light, 50 %; 6 kinds", "goals": [
                     {"at_s": 8.0, "reached": True}, {"at_s": 33.0, "reached": False}]} for k in (1, 2)],
             "versions": [{"version": v, "robots": {"robot1": told(0.5), **({} if v == 1 else {"robot2": told(0.6)})}}
                          for v in range(4)]}
    draw(tmp_path / "fleet.png", found)
    header = (tmp_path / "fleet.png").read_bytes()[:24]
    assert header.startswith(b"\x89PNG") and int.from_bytes(header[16:20], "big") > 700
    words = "\n".join(lines(found))
    assert "0.50 with the weights that ship, 0.70 after 3 rounds" in words
    assert "robot1 (warm light, 50 %; 6 kinds): F1 0.50, then 0.50; 1 of 2 goals reached" in words
    assert "the link of robot2 is cut after 5 s, and it took part again after 30 s" in words
    assert not complete(found) and complete({**found, "troubles": [trouble]})
    assert not complete({**found, "troubles": [trouble], "done": 2})


def test_a_trouble_begins_in_a_round_of_its_robot_and_is_over_when_that_takes_part_again():
    did = []
    one = Trouble("cut", "robot2", 1, lambda: did.append("begin"), lambda: did.append("end"))

    def look(version, number, history, missing=("robot2",), left=5.0):
        entries = [{"round": k, "robots": dict.fromkeys(robots)} for k, robots in enumerate(history)]
        return one.look({"version": version, "round": number, "left_s": left, "missing": list(missing),
                         "history": entries}, 10.0 * version + number)

    both, first = ("robot1", "robot2"), ("robot1",)
    assert not look(0, 0, []) and not look(1, 1, [both], left=None) and not look(1, 1, [both], missing=[])
    assert one.told() == "" and did == []
    assert not look(1, 1, [both], missing=["robot1"])
    assert look(1, 1, [both]) and did == ["begin"] and one.told() == "link cut"
    assert not look(2, 2, [both, both]), "its answer was there before the cut: the next round is the one without it"
    assert look(3, 3, [both, both, first]) and did == ["begin", "end"] and one.told() == "link back"
    assert not look(4, 4, [both, both, first, first])
    assert look(5, 5, [both, both, first, first, both]) and one.told() == ""
    assert not look(6, 6, [both, both, first, first, both, first]) and did == ["begin", "end"]
    assert (one.began, one.ended, one.back) == (1, 3, 5)
    late = Trouble("death", "robot2", 1, lambda: did.append("late"), lambda: None)
    assert late.look({"version": 2, "round": 2, "left_s": None, "missing": [], "history": []}, 1.0)
    assert did[-1] == "late" and late.told() == "killed"


def test_what_robots_tell_belongs_to_the_weights_that_the_round_began_with():
    def entry(version, ended, **robots):
        return {"version": version, "ended": ended, "lasted_s": 2.0, "robots": robots}

    found = examined([entry(1, "all", a={"f1": 0.5, "taken": 0.0}, b={"f1": 0.6, "taken": 0.0}),
                      entry(1, "too few", a={"f1": 0.7, "taken": 1.0}), entry(2, "deadline", b={"f1": 0.8})])
    assert [(one["version"], {name: told["f1"] for name, told in one["robots"].items()}) for one in found] == [
        (0, {"a": 0.5, "b": 0.6}), (1, {"a": 0.7, "b": 0.8})]
    assert found[1]["lasted_s"] == 4.0 and weights_of("a", found) == 1 and weights_of("b", found) is None


def test_a_dressed_world_has_the_looks_things_and_its_judge_knows_them():
    given = Script().given()[0]
    request = {"split": "train", "seed": 7}

    def world(cls, **parameters):
        made = cls()
        made.configure({"split": "train", "seed": 7, **parameters})
        return made

    plain, undressed = world(World), world(DressedWorld)
    assert undressed.simulation.xml == plain.simulation.xml
    look = json.dumps({**given.look.__dict__})
    dressed = world(DressedWorld, look=look)
    kinds = {thing.kind for thing in dressed.simulation.room.objects}
    assert kinds <= set(given.look.kinds) and not {thing.kind for thing in plain.simulation.room.objects} <= kinds
    assert dressed._judge.room is dressed.simulation.room and dressed.simulation.xml != plain.simulation.xml
    dressed._reset({**request, "seed": 8})
    assert {thing.kind for thing in dressed.simulation.room.objects} <= set(given.look.kinds)
    for wrong in ("{", "[]", '{"light": 1}', json.dumps({**given.look.__dict__, "light": 99.0})):
        with pytest.raises(ParameterError, match="is no look"):
            world(DressedWorld, look=wrong)


def test_an_album_keeps_one_file_in_five_back_and_survives_what_is_torn(tmp_path):
    given = Script().given()[1]
    given.write(tmp_path)
    assert Given.read(tmp_path) == given
    seen = SeenObject("object_0_red_ball", "red", "ball", 0.1, 1.0, 0.1, 0.9, 50, 40.0, 0.2)

    def fill(album, count, first):
        for number in range(first, first + count):
            label = Labels(*(np.full((SLOTS, COLUMNS), number % 3, kind)
                             for kind in (np.int8, np.int8, *(np.float32,) * 3)))
            album.add(np.full((HEIGHT, WIDTH, 3), number, np.uint8), label, [seen])

    fill(Album(tmp_path), 2 * SHEET, 0)
    album = Album(tmp_path)         # as after a kill
    fill(album, 3 * SHEET + 3, 2 * SHEET)
    album.flush()
    reader = Reader(tmp_path)
    clips, (way,) = reader.clips(), reader.ways()
    assert clips.images.shape == (4 * SHEET + 3, 1, HEIGHT, WIDTH, 3)
    assert clips.labels.color.shape == (4 * SHEET + 3, 1, SLOTS, COLUMNS)
    assert way.images[:, 0, 0, 0].tolist() == list(range(2 * SHEET, 3 * SHEET)) and way.objects[0] == [seen]
    assert not set(way.images[:, 0, 0, 0]) & set(clips.images[:, 0, 0, 0, 0])
    first, *_, last = sheets(tmp_path)
    last.write_bytes(first.read_bytes()[:100])
    assert len(Reader(tmp_path).clips().images) == 4 * SHEET
    end_goal(tmp_path, {"goal": 0})
    with (tmp_path / "goals.jsonl").open("a") as file:
        file.write('{"goal": 1')
    assert goals(tmp_path) == [{"goal": 0}]
    with pytest.raises(ValueError, match="no robot's folder"):
        Given.read(tmp_path / "pictures")


def test_the_verb_is_found_by_its_entry_point_or_named_with_its_remedy(tmp_path, monkeypatch):
    declared = {point.name: point.value for point in metadata.entry_points(group=others_verbs.GROUP)}
    assert {name: value.partition(".")[0] for name, value in declared.items()} == others_verbs.KNOWN
    (tmp_path / "there").write_text("mine")
    run = lambda *words: CliRunner().invoke(app, ["fleet", *words])  # noqa: E731
    found = run("demo", "--out", str(tmp_path))
    assert found.exit_code == 2 and "is not empty; name a new folder with --out" in found.output
    assert [path.name for path in tmp_path.iterdir() if path.name != ".lock"] == ["there"]
    found = run("demo", "--out", os.devnull)
    assert found.exit_code == 2 and "--out" in found.output, found.output
    monkeypatch.setattr(others_verbs, "_installed", dict)
    assert "(not installed: brain_training)" in run("--help").output
    found = run("demo", "--seed", "3")
    assert found.exit_code == 1 and "is in the package brain_training, which is not installed" in found.output
