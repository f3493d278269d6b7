# SPDX-License-Identifier: Apache-2.0
"""Clips on the disk: whole whatever is killed, no more than they may take, and readable as recordings are."""
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from bags_by_hand import BALL, OBJECTS, image, noise, told
from typer.testing import CliRunner

from brain.cli import app
from brain_observe.bags import BagWriter
from brain_regions.vision.network import HEIGHT, WIDTH
from brain_runtime.interfaces import GoalStatus, Trace
from brain_training.incremental.clip_files import ClipFolder, ClipProblem, Kept, Name, name_of
from brain_training.incremental.collecting import IMAGE
from brain_training.recordings.library import find
from brain_training.recordings.reading import frames
from brain_wire.messages import make

PATIENCE = 240.0     # s; only ends a hang


def pictures(count=3, seed=0):
    return [Kept("camera/image_raw", IMAGE, k * 50_000_000, image(one, 0.05 * k))
            for k, one in enumerate(noise(count, seed=seed))]


def run(*words, **more):
    done = CliRunner().invoke(app, ["fleet", *map(str, words)], env={"COLUMNS": "300"})
    return done.exit_code, done.output


def test_a_name_says_whose_and_why():
    name = Name("robot-1.a", "monday_2", 12, "unsure", 0.07)
    assert name.file == "hard-robot-1.a-monday_2-000012-unsure-7.mcap" and name_of(name.file) == name
    for other in ("hard-a-b-1-unsure-101.mcap", "a.mcap", "hard-a-b-1-unsure-7.mcap.part",
                  "hard-../x-b-1-unsure-7.mcap"):
        assert name_of(other) is None, other


def test_those_that_are_easy_and_old_go_first(tmp_path):
    with ClipFolder(tmp_path / "clips", 1e9) as folder:
        size = folder.add("robot1", "d", "unsure", 0.5, pictures()).stat().st_size
        (tmp_path / "clips" / ".hard-robot1-d-000009-unsure-5.part").mkdir()    # of a process that was killed
        with pytest.raises(ClipProblem, match="another process collects into"):
            ClipFolder(tmp_path / "clips", 1e9)
    with ClipFolder(tmp_path / "clips", 3.5 * size) as folder:
        assert [path.name for path in (tmp_path / "clips").glob(".hard*")] == []
        for hardness in (0.9, 0.2, 0.5, 0.5):
            folder.add("robot1", "d", "unsure", hardness, pictures())
        assert [(name.number, name.hardness) for name, _ in folder.clips()] == [(1, 0.9), (3, 0.5), (4, 0.5)]


def test_a_folder_is_free_again_though_what_went_wrong_is_kept(tmp_path):
    with pytest.raises(ClipProblem) as kept:    # its traceback holds all that it came through
        with ClipFolder(tmp_path / "clips", 1e9) as folder:
            raise ClipProblem("cannot go on")
    ClipFolder(tmp_path / "clips", 1e9).close()
    assert folder.clips() == [] and kept.value


WRITES = """
import resource, signal, sys
from pathlib import Path
from brain_training.incremental.clip_files import ClipFolder, ClipProblem, Kept
from brain_wire.messages import make
folder = ClipFolder(Path(sys.argv[1]), 1e9)
image = make("sensor_msgs/msg/Image", height=64, width=96, encoding="rgb8", step=288, data=bytes(18432))
kept = [Kept("camera/image_raw", "sensor_msgs/msg/Image", 50_000_000 * k, image) for k in range(20)]
if sys.argv[2] == "full":
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
print("begins", flush=True)
while True:
    try:
        folder.add("robot1", "d", "unsure", 0.5, kept)
    except ClipProblem as problem:
        sys.exit(str(problem))
"""


def test_who_is_killed_leaves_no_half_clip(tmp_path):
    for number in range(2):
        process = subprocess.Popen([sys.executable, "-c", WRITES, str(tmp_path / "clips"), "room"],
                                   stdout=subprocess.PIPE, text=True)
        assert process.stdout.readline() == "begins\n"
        end = time.monotonic() + PATIENCE
        while len(list((tmp_path / "clips").glob("*.mcap"))) < 2 * number + 2 and time.monotonic() < end:
            time.sleep(0.003)
        time.sleep(0.007 * number)
        process.send_signal(signal.SIGKILL)
        process.wait()
    with ClipFolder(tmp_path / "clips", 1e9) as folder:
        there = folder.clips()
    assert [name.number for name, _ in there] == list(range(len(there))) and len(there) >= 4
    assert len({recording.name for _, path in there for recording in find([path])}) == len(there)
    assert sorted(path.suffix for path in (tmp_path / "clips").iterdir() if path.suffix != ".mcap") in ([], [""])


def recording(path, *, hard=True, vision=True):
    """Four seconds, in whose middle the reflex comes, and at whose end the robot stands before something else."""
    stamped = make("nav_msgs/msg/Odometry")
    with BagWriter(path) as bag:
        for topic, kind in (("camera/image_raw", IMAGE), ("odom", "nav_msgs/msg/Odometry"), ("labels", OBJECTS),
                            ("brain/trace", "brain_interfaces/msg/Trace"), ("vision/objects", OBJECTS),
                            ("goal/status", "brain_interfaces/msg/GoalStatus")):
            if vision or topic not in ("vision/objects", "brain/trace", "goal/status"):
                bag.declare(topic, kind)
        for k, picture in enumerate(noise(80, rows=120, columns=160, seed=int(hard))):
            at = 10.0 + 0.05 * k
            bag.write("camera/image_raw", at, image(picture, at))
            stamped.header.stamp.sec, stamped.header.stamp.nanosec = divmod(round(at * 1e9), 10**9)
            bag.write("odom", at, stamped)
            bag.write("labels", at, told(at, BALL))
            if not vision:
                continue
            bag.write("vision/objects", at, told(at, (1, 1, np.nan if k % 2 else 0.99, 0.1, 2.0, 0.2)))
            action = Trace.ACTION_REFLEX if hard and 30 <= k < 40 else Trace.ACTION_PASSED
            bag.write("brain/trace", at, make("brain_interfaces/msg/Trace", action=action))
            state = GoalStatus.STATE_WRONG if hard and k == 79 else GoalStatus.STATE_SEARCHING
            bag.write("goal/status", at, make("brain_interfaces/msg/GoalStatus", goal_id=1, state=state))
    return path


def test_hard_clips_of_recordings_are_recordings_to_learn_from(tmp_path):
    recording(tmp_path / "bags" / "monday")
    recording(tmp_path / "bags" / "calm", hard=False)
    words = ("collect", "--name", "robot1", "--from", tmp_path / "bags", "--folder", tmp_path / "clips", "--teacher",
             "labels", "--most", 120, "--json")
    status, said = run(*words)
    assert status == 0, said
    clips = {one["recording"]: one["clips"] for one in json.loads(said)["recordings"]}
    assert clips["calm"].keys() <= {"random"} and clips["monday"].items() >= {"reflex": 1, "wrong": 1}.items()
    (reflex,) = (tmp_path / "clips").glob("*-reflex-80.mcap")
    (one,) = find([reflex])
    found = list(frames(one, "labels"))
    assert 26 <= len(found) <= 31 and sum(frame.seen is not None for frame in found) >= len(found) - 1
    assert found[0].stamp >= 10.5e9 - 1 and found[0].image.shape == (HEIGHT, WIDTH, 3)
    assert "reflex" in run(*words[:-1], "--rules", "reflex")[1]     # again: clips are no recordings to choose from


def test_what_cannot_be_used_is_one_line(tmp_path):
    recording(tmp_path / "bags" / "blind", vision=False)
    words = ("collect", "--name", "robot1", "--folder", tmp_path / "clips", "--from")
    for more, needed in ((("--rules", "easy"), "there is no rule 'easy'"), (("--name", "../x"), "robot"),
                         ((), "has none of vision/objects, brain/trace, goal/status, so no rule can find anything")):
        status, said = run(*words, tmp_path / "bags", *more)
        assert status in (1, 2) and needed in said and said.count("\n") == 1, said
    (tmp_path / "torn.mcap").write_bytes(b"\x89MCAP0\r\n" + os.urandom(500))
    for where, needed in (("torn.mcap", "torn.mcap cannot be read"), ("nowhere", "nowhere is not there")):
        status, said = run(*words, tmp_path / where)
        assert status == 1 and needed in said and said.count("\n") == 1, said
    (tmp_path / "file").write_text("")
    status, said = run("collect", "--name", "robot1", "--folder", tmp_path / "file", "--from", tmp_path / "bags")
    assert status == 1 and said.count("\n") == 1 and "name another with --folder" in said


def test_a_full_disk_is_one_line_and_leaves_no_half_clip(tmp_path):
    done = subprocess.run([sys.executable, "-c", WRITES, str(tmp_path / "clips"), "full"], capture_output=True,
                          text=True, timeout=400)
    assert done.returncode == 1 and "make room on that disk" in done.stderr, done.stderr
    assert done.stderr.count("\n") == 1 and [path.name for path in (tmp_path / "clips").iterdir()] == [".lock"]
