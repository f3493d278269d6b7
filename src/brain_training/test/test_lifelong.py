# SPDX-License-Identifier: Apache-2.0
"""A library of tasks: what it takes pictures for, what it keeps, and what it refuses."""
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from bags_by_hand import BALL, image, noise, told
from lifelong_tasks import clips_of, numbers_of, task, windows_at
from safetensors import safe_open
from safetensors.numpy import save_file
from typer.testing import CliRunner

from brain_training.definitions import vision as definition
from brain_observe.bags import BagWriter
from brain_regions.vision.network import HEIGHT, WIDTH
from brain_training.lifelong import stages, task_file
from brain_training.lifelong.allocation import of_window, of_windows
from brain_training.lifelong.descriptor import Descriptor
from brain_training.lifelong.examining import examined, objects_of
from brain_training.lifelong.learners import Steps
from brain_training.lifelong.learning import shipped
from brain_training.lifelong.library import LIST, Library
from brain_training.lifelong.memory import Reservoir
from brain_training.lifelong.pictures import HUES, NAMES, looked, windows
from brain_training.lifelong.sources import source
from brain_training.lifelong.task_file import ENDING, LibraryProblem
from brain_training.lifelong.verbs import app
from brain_training.looks import Look
from brain_training.vision import test_on as run_over
from brain_training.vision_data import Labels, Studio, make_ways

PROGRAMS = Path(__file__).parent / "programs"
COLD = Look(hue=0.5, tint=(0.7, 0.85, 1.0), light=0.9)


def brain(*words):
    return CliRunner().invoke(app, list(map(str, words)))


def test_numbers_of_pictures_say_colors_light_and_hues():
    pictures = np.full((2, HEIGHT, WIDTH, 3), 100, np.uint8)
    pictures[1] = (200, 100, 50)
    pictures[1, 15:25, :WIDTH // 2] = (200, 0, 0)       # a red thing between the rows that surfaces are seen in
    pictures[1, 15:25, WIDTH // 2:] = (0, 0, 200)
    pictures[:, 40:] = 0        # which the camera does not see
    gray, warm = looked(pictures)
    assert gray[:7] == pytest.approx([np.log(100), 0, 0, np.log(100), 0, 0, 0]) and not gray[7:].any()
    assert warm[:3] == pytest.approx([np.log(350 / 3), np.log(2), np.log(0.5)])
    hues = dict(zip(NAMES[7:], warm[7:]))
    # what is warm is colored too: its hue is 19 degrees, that of red 0; both are in the first twelfth
    assert hues["hue 0"] == pytest.approx((40 - 10 + 5) / 40) and hues["hue 8"] == pytest.approx(5 / 40)
    (window,) = windows(np.stack([gray, warm, warm]), 2)
    assert window[0] == pytest.approx((gray[0] + warm[0]) / 2)
    assert np.square(window[-HUES:]).sum() == pytest.approx(1.0) and len(windows(np.stack([gray]), 2)) == 0


def test_own_windows_are_refused_as_often_as_stated_and_others_are_unknown():
    tasks = {"a": Descriptor(windows_at(0.0, 60)), "b": Descriptor(windows_at(1.0, 60, seed=1))}
    fresh = windows_at(0.0, 2000, seed=2)
    taken = Counter(of_window(window, tasks)[0] for window in fresh)
    assert tasks["a"].reached == 0.05 and taken["b"] == 0
    assert 0.0 < taken[None] / 2000 < 0.15      # 5 % in the mean over what 60 windows may have been
    assert all(of_window(window, tasks)[0] is None for window in windows_at(0.5, 100, seed=3))
    found = of_windows(windows_at(1.0, 20, seed=4), tasks)
    assert (found.task, found.nearest) == ("b", "b") and found.ratios["b"] < 1.0 < found.ratios["a"]
    unknown = of_windows(windows_at(-2.0, 20, seed=4), tasks)
    assert (unknown.task, unknown.nearest, unknown.share) == (None, "a", 1.0)
    assert of_windows(fresh[:3], {}) == (None, None, 1.0, {})
    with pytest.raises(ValueError, match="no window"):
        of_windows([], tasks)


def test_the_stated_rate_holds_in_the_mean_over_many_sites():
    refused = [Descriptor(windows_at(0.0, 40, seed=seed), 0.1) for seed in range(40)]
    shares = [np.mean([one.distance(window) > one.bound for window in windows_at(0.0, 100, seed=1000 + seed)])
              for seed, one in enumerate(refused)]
    assert 0.05 < np.mean(shares) < 0.15


def test_a_few_windows_have_the_rate_that_they_can_and_fewer_are_refused():
    few = Descriptor(windows_at(0.0, 6))
    assert few.reached == pytest.approx(1 / 7) and few.bound > 0.0
    alike = Descriptor(np.zeros((8, len(NAMES))))       # pictures of a camera that is covered
    assert alike.distance(np.zeros(len(NAMES))) == 0.0 and alike.distance(np.ones(len(NAMES))) > alike.bound
    # two pictures that take turns: all numbers go together, and the covariance has no inverse by itself
    turns = Descriptor(np.tile([[0.0], [1.0]], (5, len(NAMES))))
    assert turns.distance(np.ones(len(NAMES))) <= turns.bound < turns.distance(np.full(len(NAMES), 9.0))
    with pytest.raises(ValueError, match="3 windows are too few to know a site by; 4 are needed, and 19 for a"):
        Descriptor(windows_at(0.0, 3))
    with pytest.raises(ValueError, match="windows are finite numbers"):
        Descriptor(np.full((9, len(NAMES)), np.nan))


def test_rooms_that_were_not_seen_before_are_known_by_their_lamp_and_the_colors_of_things():
    tasks = {}
    for number, (name, look) in enumerate((("plain", Look()), ("cold", COLD))):
        clips = Studio(28, 8, 1, first_seed=70_000 + 100 * number, look=look).take_all()
        tasks[name] = Descriptor(windows(looked(clips.images[:, 0])))
    for name, look in (("plain", Look()), ("cold", COLD), (None, Look(light=0.4, tint=(1.0, 0.7, 0.5)))):
        seen = windows(looked(Studio(4, 8, 1, split="val", first_seed=70_000, look=look).take_all().images[:, 0]))
        assert of_windows(seen, tasks).task == name


def test_a_memory_keeps_each_clip_with_the_same_chance_whenever_it_is_stopped():
    counts = Counter()
    for seed in range(300):
        whole, parts = Reservoir(5, seed), Reservoir(5, seed)
        whole.add(clips_of(20))
        parts.add(clips_of(9))
        parts = Reservoir(5, seed, parts.clips, parts.seen)     # as it is read from a file
        parts.add(clips_of(11, 9))
        assert numbers_of(whole) == numbers_of(parts) and len(set(numbers_of(whole))) == 5
        counts.update(numbers_of(whole))
    expected = 300 * 5 / 20
    # chi square with 19 degrees of freedom is above 43.8 once in a thousand
    assert sum((counts[number] - expected) ** 2 / expected for number in range(20)) < 43.8
    with pytest.raises(ValueError, match="do not fit a memory"):
        Reservoir(5, 0, clips_of(3), 9)


def test_objects_of_labels_are_those_of_the_picture_and_score_as_ways_do():
    clips = Studio(3, 6, 1, split="val", first_seed=70_500).take_all()
    network = definition.load()[0]
    asked = sum(len(objects_of(Labels(*(part[n, -1] for part in clips.labels)))) for n in range(18))
    tally = examined(network, clips)
    assert len(tally.asked) == asked > 5
    ways = list(make_ways(3, 6, split="val", first_seed=70_500))
    assert tally.at(0.3).f1 > 0.6 and run_over(network, ways).at(0.3).f1 > 0.6


def test_what_is_written_is_read_again_and_what_is_torn_or_newer_is_refused(tmp_path, monkeypatch):
    library = Library(tmp_path)
    with library.writing():
        library.put(task("hall", 3), {"task": "hall", "what": "new", "f1": {"hall": 0.5}})
        with pytest.raises(LibraryProblem, match="another process is learning into"):
            with Library(tmp_path).writing():
                pass
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [f"hall{ENDING}", LIST]
    found, made = Library(tmp_path).task("hall"), task("hall", 3)
    assert numbers_of(found.memory) == numbers_of(made.memory) and found.held.seen == 9
    assert np.array_equal(found.descriptor.windows, made.descriptor.windows) and found.learned == 1
    assert all(np.array_equal(found.weights[name], value) for name, value in made.weights.items())
    path = tmp_path / f"hall{ENDING}"
    whole = path.read_bytes()

    def refused(says):
        with pytest.raises(LibraryProblem, match=says) as problem:
            Library(tmp_path).tasks()
        assert "\n" not in str(problem.value) and "hall" in str(problem.value)

    path.write_bytes(whole[:len(whole) // 2])
    refused("is torn or no task's file .*put back a copy, or remove it")
    path.write_bytes(whole[:-100] + b"\x01" * 100)
    refused("is damaged")
    path.write_bytes(whole.replace(b'"lifelong":"1"', b'"lifelong":"7"'))
    refused("is of version 7, and this software knows versions up to 1: take the newer brain_training")
    path.write_bytes(whole.replace(b'"lifelong":"1"', b'"lifelong":"x"'))
    refused("does not say of which version")
    path.write_bytes(whole)
    path.rename(tmp_path / f"cellar{ENDING}")
    with pytest.raises(LibraryProblem, match="it is of the task 'hall'; a file is not renamed"):
        Library(tmp_path).tasks()
    (tmp_path / f"cellar{ENDING}").rename(path)
    monkeypatch.setattr(task_file, "MOST_BYTES", 1000)
    refused("more than 1000 bytes")
    path.unlink()
    os.mkfifo(path)
    refused("is no file, as a task's is")


def _with(path, change, **values):
    """Writes a task's file anew with other tensors and figures, and a digest that is right."""
    with safe_open(path, framework="np") as file:
        metadata, tensors = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}
    change(tensors)
    told_of_it = {**json.loads(metadata["values"]), **values}
    save_file(tensors, path, {**metadata, "digest": task_file._digest(tensors), "values": json.dumps(told_of_it)})


def test_a_file_whose_numbers_cannot_be_is_refused(tmp_path):
    path = tmp_path / f"hall{ENDING}"

    def nothing(tensors):
        """Leaves it as it is."""

    def colors(tensors):
        tensors["memory/color"][:] = 9

    def weights_of_nan(tensors):
        tensors["weights/readout.bias"][:] = np.nan

    def fewer(tensors):
        tensors["held/shape"] = tensors["held/shape"][:1]

    def without(tensors):
        del tensors["weights/readout.bias"]

    def windows_of_nan(tensors):
        tensors["windows"][:] = np.inf

    def windows_that_overflow(tensors):
        tensors["windows"][:] = 1e300

    def too_many_windows(tensors):
        tensors["windows"] = np.zeros((100_000, len(NAMES)))

    wrong = []
    for change, values, says in (
            (colors, {}, "name what there is not"), (weights_of_nan, {}, "not finite"),
            (fewer, {}, "not those of its pictures"), (without, {}, "not the weights of vision"),
            (windows_of_nan, {}, "windows are finite"), (windows_that_overflow, {}, "numbers up to 1e+06"),
            (too_many_windows, {}, "at most 256 windows"), (nothing, {"f1": 10**400}, "too large"),
            (nothing, {"memory": {"capacity": float("inf"), "seed": 0, "seen": 6}}, "infinity"),
            (nothing, {"memory": {"capacity": 6, "seed": 0, "seen": 10**30}}, "by the seed 0"),
            (nothing, {"f1": 7}, "figures are none"), (nothing, {"memory": {"capacity": 1, "seed": 0, "seen": 0}},
                                                       "do not fit a memory"),
            (nothing, {"memory": {"capacity": 10**18, "seed": 0, "seen": 6}}, "keeps 1000000000000000000 clips"),
            (nothing, {"memory": {"capacity": 6, "seed": -1, "seen": 20}}, "by the seed -1"),
            (nothing, {"learned": None}, "")):
        task_file.write(path, task("hall"))
        _with(path, change, **values)
        try:
            task_file.read(path)
            wrong.append(f"{says} was read")
        except LibraryProblem as problem:
            if says not in str(problem) or "holds what no task has" not in str(problem):
                wrong.append(str(problem))
    assert not wrong


def test_a_list_that_is_wrong_and_names_that_lead_elsewhere_are_refused(tmp_path):
    with pytest.raises(LibraryProblem, match="has no task hall; its tasks: none yet"):
        Library(tmp_path).task("hall")
    wrong = []
    for name in ("../hall", "a/b", "", "A", "-a", "a" * 64, "a\n", "ä", "hall.task"):
        try:
            Library(tmp_path).task(name)
            wrong.append(name)
        except LibraryProblem as problem:
            if "is no name of a task" not in str(problem) or "\n" in str(problem):
                wrong.append(str(problem))
    assert not wrong
    for text, says in (("{", "is torn or no list"), ("[]", "is torn or no list"),
                       ('{"version": "1"}', "history is none"),
                       ('{"version": "2", "history": {}}', "is of version 2, and this software knows"),
                       ('{"version": "1", "history": [{"task": "a", "what": "new", "f1": {"a": NaN}}]}', "history is"),
                       (f'{{"version": "1", "history": [{{"task": "a", "what": "new", "f1": {{"a": 1{"0" * 400}}}}}]}}',
                        "history is")):
        (tmp_path / LIST).write_text(text)
        with pytest.raises(LibraryProblem, match=says):
            Library(tmp_path)
    (tmp_path / LIST).unlink()
    (tmp_path / f"Hall 1{ENDING}").write_bytes(b"")
    with pytest.raises(LibraryProblem, match="whose name is none of a task"):
        Library(tmp_path).tasks()


def test_a_process_that_is_killed_while_it_writes_leaves_a_library_that_is_whole(tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (str(PROGRAMS), os.environ.get(
        "PYTHONPATH"))))}
    for round_ in range(2):
        with subprocess.Popen([sys.executable, str(PROGRAMS / "lifelong_putting.py"), str(tmp_path)], env=environment,
                              stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for _ in range(3 + 2 * round_):
                assert process.stdout.readline()
            process.send_signal(signal.SIGKILL)
        library = Library(tmp_path)
        assert set(library.tasks()) == {"first", "second"} and len(library.history) >= 3 + round_
        with library.writing():
            library.put(task("third"), {"task": "third", "what": "new", "f1": {}})
        (tmp_path / f"third{ENDING}").unlink()


def test_a_job_goes_on_from_the_library_that_an_evaluation_had_moved_away_when_it_was_killed(tmp_path, monkeypatch):
    library = Library(tmp_path / "deploy" / "library.old")
    with library.writing():
        library.put(task("hall"), {"task": "hall", "what": "new", "f1": {}})
    (tmp_path / "none.txt").write_text("")
    monkeypatch.setenv("OUTPUT_URL", str(tmp_path / "train" / "2"))
    monkeypatch.setenv("TRAIN_DATASET_URL", str(tmp_path / "none.txt"))
    stages.train(Steps(), "self", 0, print)
    assert Library(tmp_path / "train" / "2" / "library").names() == ["hall"]
    assert [entry.name for entry in (tmp_path / "deploy").iterdir()] == ["library"]


def test_a_look_is_read_and_a_wrong_one_named():
    made = source("look:hue=-0.25,tint=1/0.9/0.8,rooms=2,first=7", "self", 0)
    assert made.look == Look(hue=-0.25, tint=(1.0, 0.9, 0.8)) and len(made.windows()) == 2
    assert len(made.clips().images) == 16
    for text in ("look:hue=9", "look:tint=1/2", "look:rooms=0", "look:rooms=x", "look:first=-1", "look:wings=2",
                 "look:light=nan"):
        with pytest.raises(ValueError, match="is no look of the simulator"):
            source(text, "self", 0)


def test_the_verbs_learn_recordings_as_one_task_and_a_new_site_as_another(tmp_path):
    for site, paint in (("day", 0), ("night", 160)):
        with BagWriter(tmp_path / site / "one", "mcap") as bag:
            bag.declare("camera/image_raw", "sensor_msgs/msg/Image")
            bag.declare("labels", "brain_interfaces/msg/DetectedObjects")
            for number, picture in enumerate(noise(44)):
                at = 0.05 * number
                bag.write("camera/image_raw", at, image(picture // 2 + np.uint8(0) if not paint else picture // 8, at))
                bag.write("labels", at, told(at, BALL))
        (tmp_path / site / "recordings.json").write_text('{"splits": {"train": ["one"]}}')
    library, more = tmp_path / "library", ("--labels", "labels", "--every", "0.05", "--steps", 1, "--batch", 1)
    first = brain("learn", library, "--recordings", tmp_path / "day", *more, "--name", "day", "--json")
    assert json.loads(first.stdout)["what"] == "new", first.stderr
    again = brain("which", library, "--recordings", tmp_path / "day", "--every", "0.05", "--json")
    assert again.exit_code == 0 and json.loads(again.stdout)["task"] == "day"
    strange = brain("which", library, "--recordings", tmp_path / "night", "--every", "0.05")
    assert strange.exit_code == 1 and strange.stdout.startswith("unknown, by 100% of the windows")
    second = brain("learn", library, "--recordings", tmp_path / "night", *more)
    assert "a new task, site-2, begun with weights of F1" in second.stdout, second.stderr
    shown = json.loads(brain("status", library, "--json").stdout)
    assert [one["task"] for one in shown["tasks"]] == ["day", "site-2"] and len(shown["history"]) == 2
    assert {one["recognized"] for one in shown["tasks"]} == {1.0}
    exported = brain("export", library, "day", "--out", tmp_path / "day.safetensors")
    assert exported.exit_code == 0, exported.stderr
    network, loaded = definition.load(tmp_path / "day.safetensors")
    kept = Library(library).task("day")
    assert loaded.report["f1"] == kept.f1
    assert np.array_equal(network.readout.bias.detach().numpy(), kept.weights["readout.bias"])
    assert not np.array_equal(kept.weights["readout.bias"], shipped()["readout.bias"])
    (tmp_path / "no.tmp").mkdir()       # in the place of what is written first
    refused = brain("export", library, "day", "--out", tmp_path / "no.safetensors")
    assert refused.exit_code == 1 and f": {tmp_path / 'no.safetensors'};" in refused.stderr


def test_the_verbs_name_what_is_wrong_in_one_line(tmp_path):
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn" / f"hall{ENDING}").write_bytes(b"torn")
    wrong = []
    for words, says in (
            (("which", tmp_path, "--recordings", "look:rooms=1"), "has no task yet; begin one with"),
            (("status", tmp_path / "torn"), "is torn or no task's file"),
            (("export", tmp_path, "hall", "--out", tmp_path / "f"), "has no task hall"),
            (("learn", tmp_path, "--recordings", tmp_path / "gone"), "gone is not there"),
            (("learn", tmp_path, "--recordings", "look:rooms=1"), "8 labelled clips are too few"),
            (("learn", tmp_path, "--recordings", "look:rooms=4", "--name", "../x"), "is no name of a task"),
            (("learn", tmp_path / "torn" / f"hall{ENDING}", "--recordings", "look:rooms=4"), "cannot write into"),
            (("stage", "dance"), "there is no stage 'dance'"),
            (("stage", "eval"), "the variable MODEL_URLS is not set")):
        done = brain(*words)
        if done.exit_code == 0 or says not in done.stderr or done.stderr.count("\n") != 1 or done.stdout:
            wrong.append((words, done.exit_code, done.stderr, done.stdout))
    assert not wrong
