# SPDX-License-Identifier: Apache-2.0
"""Incremental learning in the cloud: trained on clips, compared with what is in use, deployed only when better."""
from __future__ import annotations

import hashlib
import json
import math
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any, Callable, Iterator

import numpy as np
import pytest

from brain_cloud.federated.plan import plan
from brain_cloud.federated.rounds import Rounds, Task
from brain_edge.enrolment.upload import unsent
from brain_cloud.federated.weights import pack
from brain_regions.vision import weights
from brain_regions.vision.levelling import level_info
from brain_runtime.contract.camera_mount import USUAL
from brain_sim.things import COLORS, SHAPES
from brain_training.federated import weights_of
from brain_training.incremental.clip_files import Kept, Name, write
from brain_training.incremental.collecting import IMAGE, TEACHER
from brain_training.incremental.comparing import compare, judge
from brain_training.incremental.learning import Course, Mixed
from brain_training.incremental.rules import ALL
from brain_training.incremental.stages import Settings, evaluate, train
from brain_training.incremental.taking import take
from brain_training.vision_data import Studio, Way, make_ways
from brain_wire.messages import make
from brain_wire.router import free_port

PATIENCE = 300.0    # s: processes start slowly where others use the cores
FIRST_ROOM = 4_000_000
Told = Callable[[str], None]


def stamped(message: Any, at: int) -> Any:
    message.header.stamp.sec, message.header.stamp.nanosec = divmod(at, 10**9)
    return message


def objects(seen: Any, lie: bool) -> Any:
    """What is in a picture, in base_link; with every color another where that is a lie."""
    found = []
    for one in seen:
        if one.pixels >= 10:
            x = 0.15 + one.camera_distance * math.cos(one.camera_bearing)
            y = one.camera_distance * math.sin(one.camera_bearing)
            color = (COLORS.index(one.color) + lie) % len(COLORS) + 1
            found.append(make("brain_interfaces/msg/DetectedObject", color=color, shape=SHAPES.index(one.shape) + 1,
                              confidence=1.0, bearing=math.atan2(y, x), distance=math.hypot(x, y), width=0.2))
    return make(TEACHER, source="teacher", objects=found)


def clip(folder: Path, drive: int, lie: bool = False) -> str:
    """A clip of a drive of its own, with the labels ``told``."""
    folder.mkdir(parents=True, exist_ok=True)
    way: Way
    (way,) = make_ways(1, 5, split="train", first_seed=FIRST_ROOM + drive)
    kept = []
    for k, picture in enumerate(way.images):
        at = 10**9 + 50_000_000 * k
        rows, columns, _ = picture.shape
        kept += [Kept("camera/image_raw", IMAGE, at, stamped(make(IMAGE, height=rows, width=columns, encoding="rgb8",
                                                                  step=3 * columns, data=picture.reshape(-1)), at)),
                 Kept("camera/camera_info", "sensor_msgs/msg/CameraInfo", at, stamped(level_info(USUAL), at)),
                 Kept("told", TEACHER, at, stamped(objects(way.objects[k], lie), at))]
    name = Name("robot1", f"d{drive}", drive, "unsure", 0.5).file
    write(folder / name, kept)
    return name


def listed(folder: Path, drives: range, lie: bool = False) -> Path:
    path = folder / f"{drives.start}-{lie}.txt"
    path.write_text("".join(f"{clip(folder, drive, lie)}\n" for drive in drives))
    return path


def blind(path: Path) -> Path:
    """Weights that see nothing."""
    found = {name: 0.0 * value for name, value in weights.load().tensors.items()}
    weights.save(path, found, {}, {"threshold": 0.6})
    return path


def quiet(text: str) -> None:
    """Nobody is told."""


TINY = Settings(labels="told", rooms=2, course=Course(steps=1, batch=2))


@pytest.mark.slow
def test_what_is_not_better_for_sure_is_said_not_to_be(tmp_path: Path) -> None:
    told: list[str] = []
    held, dark = listed(tmp_path / "held", range(6)), blind(tmp_path / "blind.safetensors")
    good = evaluate(weights.SHIPPED, dark, held, TINY, quiet)
    assert good.verdict.better and good.held is not None and good.held.drives == 6 and good.held.low > 0.3
    assert not evaluate(dark, weights.SHIPPED, held, TINY, quiet).verdict.better
    same = evaluate(weights.SHIPPED, weights.SHIPPED, held, TINY, quiet)
    assert (same.held.low, same.held.high, same.verdict.better) == (0.0, 0.0, False) if same.held else False
    # Flipped labels make a worse one, which is refused.
    new = tmp_path / "new.safetensors"
    made = train(weights.SHIPPED, listed(tmp_path / "lies", range(10, 14), lie=True), new,
                 TINY._replace(course=Course(steps=6, batch=4, rate=3e-3, replay=0.0)), quiet)
    worse = evaluate(new, weights.SHIPPED, held, TINY, told.append)
    assert made["drives"] == [f"robot1-d{k}" for k in range(10, 14)]
    assert worse.held is not None and worse.held.gain < 0.0 and "not better for sure" in worse.verdict.why
    # What was learned from says nothing, and what is bad is left out.
    mixed = tmp_path / "held" / "mixed.txt"
    (tmp_path / "torn.mcap").write_bytes(os.urandom(300))
    mixed.write_text("../lies/" + "\n../lies/".join(name.name for name in (tmp_path / "lies").glob("*.mcap"))
                     + "\n../torn.mcap\nnowhere.mcap\n")
    nothing = evaluate(new, weights.SHIPPED, mixed, TINY, told.append)
    assert nothing.held is None and "there are 0 held-out drives" in nothing.verdict.why
    assert [text for text in told if "torn.mcap cannot be read" in text] and [
        text for text in told if "nowhere.mcap is not there" in text] and "4 clips are of drives that were" in told[-1]


@pytest.mark.extended
@pytest.mark.slow
def test_what_a_fleet_has_learned_becomes_weights_that_are_compared_as_others_are(tmp_path: Path) -> None:
    made = plan({"name": "together", "learner": "vision", "start": str(weights.SHIPPED), "strategy": "FedAvg",
                 "rounds": 1, "gather_s": 0})
    rounds = Rounds(tmp_path / "together", made)
    for robot in ("robot1", "robot2"):
        task = rounds.task(robot, ("vision",))
        assert isinstance(task, Task)
        rounds.take(robot, task.run, task.attempt, task.version, pack(rounds.model), 1, {})
    assert rounds.over
    learned, out = tmp_path / "together" / "model.safetensors", tmp_path / "vision.safetensors"
    drives = listed(tmp_path, range(1))
    told = take(learned, drives, out, Settings(labels="told", rooms=1), quiet)
    # A mean of what ships is what ships: the same network, to the bit, now with a threshold that was chosen here.
    found, _, report, _ = weights.load(out)
    assert all((value == rounds.model[name]).all() for name, value in weights_of(found).items())
    assert report["threshold"] == told["threshold"] and 0.0 < told["threshold"] < 1.0
    seen: list[str] = []
    held = evaluate(out, weights.SHIPPED, drives, Settings(labels="told", rooms=1), seen.append)
    assert held.held is None and seen == ["1 clips are of drives that were learned from, and are left out"]
    state = learned.read_bytes()
    (tmp_path / "torn.safetensors").write_bytes(state[:-9])
    (tmp_path / "mad.safetensors").write_bytes(pack({name: value * np.float32(np.nan)
                                                     for name, value in rounds.model.items()}))
    (tmp_path / "other.safetensors").write_bytes(pack({"w": np.zeros(2, np.float32)}))
    before = out.read_bytes()
    for name, why in (("none", "cannot read"), ("torn", "is torn or no safetensors"), ("mad", "are not finite"),
                      ("other", "are not the weights of vision")):
        ended = subprocess.run([sys.executable, "-m", "brain", "fleet", "incremental", "take", "--learned",
                                str(tmp_path / f"{name}.safetensors"), "--model", str(out), "--rooms", "1"],
                               capture_output=True, text=True, timeout=PATIENCE)
        assert ended.returncode == 1 and why in ended.stderr and "Traceback" not in ended.stderr, ended
    assert out.read_bytes() == before


def test_a_clip_of_a_robot_is_one_to_the_fleet(tmp_path: Path) -> None:
    names = [Name("robot-1", "20261125T121540_ab12_0", number, rule, 0.07).file
             for number, rule in enumerate(("random", *(rule.name for rule in ALL)))]
    for name in names:
        (tmp_path / name).touch()
    assert [path.name for path in unsent(tmp_path)] == names


def test_a_gain_that_few_drives_make_is_none() -> None:
    lucky = compare(*(_counts(rights) for rights in ([9, 3, 3, 3, 3, 3], [3, 3, 3, 3, 3, 3])))
    sure = compare(*(_counts(rights) for rights in ([6, 5, 6, 7, 5, 6], [3, 3, 3, 3, 3, 3])))
    assert lucky.gain > 0 and lucky.low <= 0.0 and sure.low > 0.0
    level = sure._replace(new=0.9, old=0.9, gain=0.0)
    assert judge(sure, level).better and not judge(lucky, level).better
    assert "too much is forgotten" in judge(sure, level._replace(gain=-0.031)).why
    assert judge(sure, level._replace(gain=-0.029)).better
    assert "fewer than 5" in judge(sure._replace(drives=4), level).why and not judge(None, level).better
    with pytest.raises(ValueError, match="must be the same ones"):
        compare(_counts([1]), _counts([1, 2]))


def _counts(rights: list[int]) -> Any:
    import numpy as np

    return np.array([(right, 1, 10 - right) for right in rights])


def test_old_clips_are_mixed_in_by_their_share() -> None:
    some = Studio(1, 3, 1, first_seed=FIRST_ROOM).take_all()
    source = Mixed(some, some, 0.5, 0)
    assert len(source) == 6 and (source.take(0).images == source.take(3).images).all() and len(Mixed(
        some, None, 0.0, 0)) == 3
    for share, old, needed in ((1.0, some, "it is 0 to below 1"), (0.5, None, "no old clip")):
        with pytest.raises(ValueError, match=needed):
            Mixed(some, old, share, 0)


@contextmanager
def process(log: Path, *words: object) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as file:
        found = subprocess.Popen([sys.executable, "-m", *map(str, words)], stdout=file, stderr=file)
    try:
        yield found
    finally:
        found.send_signal(signal.SIGINT)
        try:
            found.wait(60.0)
        finally:
            found.kill()
            found.wait()


def until(what: Callable[[], Any], told: Callable[[], str]) -> Any:
    end = time.monotonic() + PATIENCE
    while not (found := what()):
        assert time.monotonic() < end, told()
        time.sleep(0.2)
    return found


@pytest.mark.extended(2)    # that what is worse is not better test_what_is_not_better_for_sure_is_said_not_to_be shows
@pytest.mark.slow
@pytest.mark.parametrize("trainings", [1, 2])
def test_the_manifest_trains_compares_and_rolls_out_what_is_better(tmp_path: Path, trainings: int) -> None:
    text = (resources.files("brain_cloud.jobs") / "examples" / "incremental.yaml").read_text(encoding="utf-8")
    port = free_port()
    for old, new in (("/var/lib/brain", str(tmp_path)), ('--steps, "200"', '--steps, "1"'), ('--rooms, "20"',
                     '--rooms, "2"'), ("--labels, self", "--labels, told"), ("checkPeriodSeconds: 60",
                     "checkPeriodSeconds: 1"), ("threshold: 200", "threshold: 17"), ('--canary, "1"', '--canary, "0"'),
                     ("tcp/localhost:7460", f"tcp/127.0.0.1:{port}")):
        assert old in text, old
        text = text.replace(old, new)
    (tmp_path / "job.yaml").write_text(text)
    (tmp_path / "initial.safetensors").write_bytes(weights.SHIPPED.read_bytes())
    deployed = tmp_path / "deployed" / "vision.safetensors"
    dark = blind(deployed).read_bytes()
    clips = listed(tmp_path / "clips", range(17))
    clips.rename(tmp_path / "clips" / "clips.txt")
    with process(tmp_path / "cloud.log", "brain_cloud.processes.run_cloud", "--listen", f"tcp/127.0.0.1:{port}",
                 "--folder", tmp_path / "cloud"), \
            process(tmp_path / "jobs.log", "brain", "jobs", "run", tmp_path / "job.yaml", "--folder",
                    tmp_path / "kept"):

        def told() -> str:
            logs = [*tmp_path.glob("*.log"), *(tmp_path / "kept").rglob("log")]
            return "\n".join(f"{path}: {path.read_text(errors='replace')[-20_000:]}" for path in logs)

        until(lambda: deployed.read_bytes() != dark, told)
        good = deployed.read_bytes()
        until(lambda: any(one["digest"] == f"sha256:{hashlib.sha256(good).hexdigest()}" for one in rollouts(port)),
              told)
        assert deployed.with_name("vision.safetensors.before").read_bytes() == dark
        if trainings == 2:
            # Of 17 more the first 12 are trained on: their colors are lies, so what comes of them is not better.
            more = [clip(tmp_path / "clips", 20 + k, lie=k < 12) for k in range(17)]
            with (tmp_path / "clips" / "clips.txt").open("a") as file:
                file.writelines(f"{name}\n" for name in more)
            until(lambda: "is not deployed: better is 0" in told(), told)
            assert deployed.read_bytes() == good and len(rollouts(port)) == 1
        # What robots take back is taken back here.
        subprocess.run([sys.executable, "-m", "brain", "fleet", "rollback", "vision", "--cloud",
                        f"tcp/127.0.0.1:{port}"], check=True, timeout=PATIENCE)
        until(lambda: deployed.read_bytes() == dark, told)
    assert "held-out drives" in told()


def rollouts(port: int) -> list[dict[str, Any]]:
    done = subprocess.run([sys.executable, "-m", "brain", "fleet", "models", "--json", "--cloud",
                           f"tcp/127.0.0.1:{port}"], capture_output=True, text=True, timeout=PATIENCE)
    return json.loads(done.stdout)["rollouts"] if done.returncode == 0 else []
