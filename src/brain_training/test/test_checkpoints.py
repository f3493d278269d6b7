# SPDX-License-Identifier: Apache-2.0
"""Checkpoints that several processes write: from mesh to mesh to the bit, never half of one, and refused with why."""
from __future__ import annotations

import json
import os
import shutil
import signal

import checkpoint_meshes as meshes
import pytest
import torch
from safetensors import safe_open
from forked import Forked
from several import several

from brain_training.checkpoint import TEMPORARY, CheckpointError, all_of, folder_of, save_tensors
from brain_training.trainer import Trainer


def taken_alone(name, path):
    """The digest of what one process takes up."""
    trainer = meshes.alone(name, path)
    step = trainer.resume()
    found = meshes.digest(trainer.states(), trainer.losses)
    trainer.advance()
    return step, found


@pytest.mark.slow
@pytest.mark.extended("dp=2", "dp=2,zero=1")
@pytest.mark.parametrize("form", ["dp=2", "dp=2,zero=1", "dp=2,zero=3"])
def test_forms_of_data_parallel_go_to_one_process_and_to_more_ranks(tmp_path, form):
    path = tmp_path / "s.checkpoint"
    (before, sizes), _ = several(tmp_path / "first", 2, meshes.written, "spikes", form, path)
    assert len(sizes) == 2 and min(sizes) > 0.3 * max(sizes)        # each rank wrote its share
    assert taken_alone("spikes", path) == (3, before)
    for number, (ranks, other) in enumerate(((2, "dp=2,zero=3"), (4, "dp=4,zero=2"))):
        for found in several(tmp_path / str(number), ranks, meshes.taken, "spikes", other, path):
            assert found == (3, before)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "form", "others"), [
    ("motor", "tp=2", ["pp=2", "dp=2,zero=3"]),
    *(pytest.param(*case, marks=pytest.mark.extended) for case in (
        ("motor", "pp=2", ["tp=2"]), ("motor", "dp=2,zero=3", ["tp=2", "pp=2"]),
        ("language", "tp=2/classic", ["dp=2,zero=3"])))])
def test_split_networks_go_to_any_other_mesh(tmp_path, name, form, others):
    path = tmp_path / "m.checkpoint"
    (before, sizes), _ = several(tmp_path / "first", 2, meshes.written, name, form, path)
    assert len(sizes) == 2 and min(sizes) > 0.2 * max(sizes)
    assert taken_alone(name, path) == (3, before)
    for number, other in enumerate(others):
        for found in several(tmp_path / str(number), 2, meshes.taken, name, other, path):
            assert found == (3, before), other


def test_a_file_of_one_process_goes_to_several_and_the_newer_of_both_is_taken(tmp_path):
    path = tmp_path / "s.checkpoint"
    one = meshes.alone("spikes", path)
    one.advance()
    one.save()
    before = meshes.digest(one.states(), one.losses)
    assert several(tmp_path / "first", 2, meshes.taken, "spikes", "dp=2,zero=3", path)[1] == (1, before)
    data = path.read_bytes()
    several(tmp_path / "second", 2, meshes.written, "spikes", "dp=2,zero=3", path)
    assert not path.exists()            # who went on from it has written
    path.write_bytes(data)
    os.utime(path, (1, 1))
    again = meshes.alone("spikes", path)
    assert again.resume() == 3
    os.utime(path)
    assert meshes.alone("spikes", path).resume() == 1
    again.save()
    assert path.is_file() and not folder_of(path).exists()
    assert meshes.alone("spikes", path).resume() == 3


def test_the_last_few_stay_and_half_of_one_is_never_taken(tmp_path):
    path = tmp_path / "s.checkpoint"
    names, _ = several(tmp_path / "ranks", 2, meshes.rotated, path)
    assert names == [f"{number:06}-step-{number}" for number in range(6 - meshes.KEPT, 6)]
    last = meshes.newest(path)
    half = last.with_name(f"000006-step-6{meshes.PART}")        # as it stands just before it is whole
    shutil.copytree(last, half)
    assert meshes.alone("spikes", path).resume() == 5
    _, sizes = several(tmp_path / "more", 2, meshes.written, "spikes", "dp=2", path)[0]
    assert not half.exists() and meshes.newest(path).name == "000007-step-3" and len(sizes) == 2


def test_what_a_task_tells_is_as_it_was_when_the_checkpoint_was_begun(tmp_path):
    assert several(tmp_path / "ranks", 2, meshes.grown, tmp_path / "s.checkpoint") == [[1, 2], [1, 2]]


def torn(path, how):
    """Does something to the newest checkpoint."""
    last = meshes.newest(path)
    file = sorted(last.glob("*.safetensors"))[1]
    manifest = last / "checkpoint.json"
    if how == "short":
        file.write_bytes(file.read_bytes()[:-5])
    elif how == "flipped":
        data = bytearray(file.read_bytes())
        data[-1] ^= 1
        file.write_bytes(bytes(data))
    elif how == "gone":
        file.unlink()
    elif how == "json":
        manifest.write_text(manifest.read_text()[:-9])
    elif how == "version":
        manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "checkpoint": "9"}))
    else:
        manifest.write_text("[]")


@pytest.fixture(scope="module")
def twice(tmp_path_factory):
    """A folder with a checkpoint of two ranks at step 2, and a newer one at step 5."""
    folder = tmp_path_factory.mktemp("twice")
    for steps in (2, 5):
        several(folder / str(steps), 2, meshes.written, "spikes", "dp=2", folder / "s.checkpoint", steps)
    return folder


@pytest.mark.parametrize(("how", "why"), [
    ("short", r"shard-00002-.* has \d+ bytes, not \d+"), ("flipped", "shard-00002-.* is not what was written"),
    ("gone", "shard-00002-.* is not there"), ("json", "Expecting|Unterminated"), ("none", "list indices"),
    ("version", "is no checkpoint of this version; remove it")])
def test_a_torn_one_is_refused_with_the_reason_at_all_ranks(tmp_path, twice, how, why):
    path = tmp_path / "s.checkpoint"
    shutil.copytree(twice, tmp_path, dirs_exist_ok=True)
    torn(path, how)
    with pytest.raises(CheckpointError, match=why) as error:
        meshes.alone("spikes", path).resume()
    assert "000002-step-5" in str(error.value) and "\n" not in str(error.value)
    if how in ("flipped", "json"):
        for said in several(tmp_path / "third", 2, meshes.refused, path):
            assert "000002-step-5" in said[0] and ("one before" in said[0]), said
    shutil.rmtree(meshes.newest(path))
    assert meshes.alone("spikes", path).resume() == 2


def test_a_foreign_one_is_refused_with_what_differs(tmp_path):
    path = tmp_path / "s.checkpoint"
    several(tmp_path / "first", 2, meshes.written, "spikes", "dp=2,zero=3", path)
    for same, foreign in several(tmp_path / "second", 2, meshes.refused, path):
        assert same == "3" and "is of another training: its seed is 3, not 4; train without --resume" in foreign
    with pytest.raises(CheckpointError, match="000001-step-3 is of another training: its network is 'spiking'"):
        Trainer(meshes.tiny.Spikes("ann"), 3, checkpoint=path).resume()


def test_a_full_disk_is_named_and_the_last_good_one_stays(tmp_path):
    for said, left, step in several(tmp_path / "ranks", 2, meshes.full, tmp_path / "s.checkpoint"):
        assert "cannot write checkpoint" in said and "rank 1" in said and "File too large" in said, said
        assert "make room" in said and "\n" not in said
        assert left == ["000001-step-4"] and step == 4


KILLED = """
import resource, signal, sys
from pathlib import Path
import torch
from brain_training.checkpoint import save_tensors
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)       # the kernel kills it in the middle of the file
save_tensors(Path(sys.argv[1]), {"w": torch.zeros(10_000)}, {})
"""


def test_who_is_killed_while_writing_leaves_one_name_that_is_written_over(tmp_path):
    path = tmp_path / "weights.safetensors"
    for _ in range(2):
        killed = Forked("-c", KILLED, str(path), log=tmp_path.with_suffix(".log"), environment=dict(os.environ))
        assert killed.wait() == -signal.SIGXFSZ, tmp_path.with_suffix(".log").read_text()
    assert [one.name for one in tmp_path.iterdir()] == [f"{path.name}{TEMPORARY}"]
    save_tensors(path, {"w": torch.arange(3.0)}, {"why": "because"})
    assert list(tmp_path.iterdir()) == [path]
    with safe_open(path, framework="pt") as file:
        assert file.metadata() == {"why": "because"} and file.get_tensor("w").tolist() == [0.0, 1.0, 2.0]


def test_a_loss_that_is_no_number_leaves_the_last_checkpoint(tmp_path):
    for said, step in several(tmp_path / "ranks", 2, meshes.not_a_number, tmp_path / "s.checkpoint"):
        assert "is nan after 12 steps, by what rank 1 of 2" in said and step == 12


def test_ranks_without_a_common_disk_write_one_file(tmp_path):
    first, second = several(tmp_path / "ranks", 2, meshes.apart, tmp_path / "s.checkpoint")
    assert (first[0], second[0]) == (1, 0) and first[1] == second[1]
    trainer = meshes.alone("spikes", tmp_path / "of rank 0" / "s.checkpoint")
    assert trainer.resume() == 3 and not all_of(tmp_path / "of rank 0" / "s.checkpoints")


def test_generators_that_a_task_may_draw_from_go_on(tmp_path):
    first, second = (several(tmp_path / str(again), 2, meshes.drawn, tmp_path / "s.checkpoint", again)
                     for again in (False, True))
    assert first == second and first[0] != first[1]
