# SPDX-License-Identifier: Apache-2.0
"""Several processes train what one process trains: every form, on real ranks, to the bit where that is promised."""
from __future__ import annotations

import os
import re
import runpy
import signal
import subprocess
import sys
import time
from pathlib import Path

import parallel_forms
import pytest
import torch

from brain_training import vision
from brain_training.motor import MotorTask
from brain_training.parallel.plan import PlanError
from brain_training.parallel.shards import ShardsTrainer, Turns
from brain_training.task import TrainingError
from brain_training.trainer import Trainer
from brain_training.vision import VisionTask
from parallel_ranks import forked_forms, forms, ranks

PATIENCE = 240.0     # s; only ends a hang
PROGRAMS = Path(__file__).parent / "programs"
TASKS = runpy.run_path(str(PROGRAMS / "parallel_tasks.py"), run_name="parallel_tasks")
Normed, Recipe, Spikes, sha = (TASKS[name] for name in ("Normed", "Recipe", "Spikes", "sha"))


def reference(shards, recipe=None):
    """Hash of the weights that one process comes to, working through shards."""
    return sha(ShardsTrainer(Spikes(recipe=recipe), 5, shards=shards).run())


@pytest.mark.slow
def test_two_ranks_have_the_bits_of_two_shards_in_every_form(tmp_path):
    same = ("dp=2", "dp=2,zero=1", "dp=2,zero=2/exact", "dp=2,zero=3/exact")
    other = ("dp=2/accumulate=3", "dp=2,zero=3/accumulate=3", "dp=2/bf16")
    found, held = forked_forms(tmp_path / "ranks", 2, "gloo", *same, *other)
    assert {found[form] for form in same} == {reference(2, parallel_forms.SHORT)}
    assert all(found[form] != found["dp=2"] for form in other)
    assert held["dp=2"] == ["1512/1512", "1512/1512", "3044/3044"]
    # the readout is 3 x 9 and 3, which two do not divide: one rank has more of it
    assert held["dp=2,zero=3/exact"] == ["776/1512", "776/1512", "1572/3044"]
    assert held["dp=2,zero=1"][0] == "1512/1512" and held["dp=2,zero=1"][2] != "3044/3044"


@pytest.mark.extended
def test_four_ranks_have_the_bits_of_four_shards_where_sums_are_exact():
    same = [f"dp=4{zero}/exact" for zero in ("", ",zero=1", ",zero=2", ",zero=3")]
    found, _ = forms(4, "gloo", *same)
    assert set(found.values()) == {reference(4)} and reference(4) != reference(2)


@pytest.mark.slow
def test_the_zenoh_backend_gives_the_same_bits_and_writes_checkpoints_without_another_one(tmp_path):
    found, _ = forked_forms(tmp_path / "ranks", 2, "zenoh", "dp=2", f"dp=2,zero=3/exact@{tmp_path / 'c'}")
    assert set(found.values()) == {reference(2, parallel_forms.SHORT)}


@pytest.mark.extended
@pytest.mark.slow
def test_gradients_of_ranks_are_those_of_one_process_with_batch_statistics():
    lines = [line for line in ranks(2, "parallel_gradients.py") if line[0] == "gradients"]
    assert {tuple(line[1:3]) for line in lines} == {
        *((name, which) for name in ("vision", "language", "motor") for which in ("spiking", "ann")),
        ("normed", "spiking")}
    for _, name, which, gradients, statistics in lines:
        assert float(gradients) < 1e-9 and float(statistics) < 1e-9, (name, which)


@pytest.mark.extended
@pytest.mark.slow
def test_checkpoints_go_from_form_to_form_and_a_loss_that_is_no_number_names_its_rank(tmp_path):
    lines = ranks(2, "parallel_faults.py", tmp_path)
    resumed = [line for line in lines if line[0] == "resumed"]
    assert len(resumed) == 9 and {line[3] for line in resumed} == {reference(2)}
    told = {line[0]: " ".join(line[1:]) for line in lines}
    assert re.match(r"12 the loss of spikes \(spiking\) is nan after 12 steps, by what rank 1 of 2 made", told["nan"])
    assert told["kept"] == "12" and "too few for dp=2" in told["small"]
    alone = Trainer(Spikes(), 5, checkpoint=tmp_path / "dp=2,zero=3.checkpoint")   # the end, by one process
    assert alone.resume() == 50 and sha(alone.network) == reference(2)


def test_shards_train_what_one_process_trains():
    """Another order of sums moves last bits, and these the rest; the first steps are alike."""
    for task, close in ((Spikes, 1e-5), (Normed, 1e-12)):
        one, three = Trainer(task(), 5), ShardsTrainer(task(), 5, shards=3)
        for _ in range(4):
            assert one.advance() == pytest.approx(three.advance(), rel=close)
        assert one.losses == pytest.approx(three.losses, rel=close) and len(one.losses) == 4


def test_shards_of_vision_learn_by_rates_as_long_as_one_process_does():
    def task():
        return VisionTask(recipe=vision.Recipe(rooms=1, clips_per_room=4, frames=2, epochs=2, batch=4, by_rates=0.5))

    one, two = Trainer(task(), 5), ShardsTrainer(task(), 5, shards=2)
    for steady in (True, False):
        assert one.advance() > 0.0 and two.advance() > 0.0
        assert {network.steady for network in (one.network, *two._networks)} == {steady}


def test_shards_are_resumed_to_the_bit(tmp_path):
    part = ShardsTrainer(Normed(), 5, shards=2, checkpoint=tmp_path / "c")
    for _ in range(7):
        part.advance()
    part.save()
    rest = ShardsTrainer(Normed(), 5, shards=2, checkpoint=tmp_path / "c")
    assert rest.resume() == 7
    assert sha(rest.run()) == sha(ShardsTrainer(Normed(), 5, shards=2).run())


def test_a_loss_that_is_no_number_names_its_shard(monkeypatch):
    monkeypatch.setattr(Spikes, "wrong_at", 25)     # of step 2: the second of two parts
    with pytest.raises(TrainingError, match="nan after 2 steps, by what shard 1 of 2 made of its samples; lower"):
        ShardsTrainer(Spikes(recipe=Recipe(batch=9)), 5, shards=2).run()


def test_more_shards_than_samples_are_refused_before_there_is_a_network_for_each():
    with pytest.raises(PlanError, match=r"a step has \d+ samples, too few for --shards 9{20}; 1 to \d+ fits"):
        ShardsTrainer(Spikes(), 5, shards=int("9" * 20))


def test_the_baseline_is_not_cut_into_micro_batches():
    """Stages do not divide it: it is trained by the same ranks data parallel."""
    losses = []
    for micros in (0, 2):
        trainer = ShardsTrainer(MotorTask("ann", quick=True), 5, shards=2, micros=micros)
        trainer.advance()
        losses += trainer.losses
    assert losses[0] == losses[1]


def test_a_batch_normalization_that_cannot_be_over_all_ranks_is_named():
    class Other(Normed):
        def build(self, seed):
            return torch.nn.Sequential(torch.nn.BatchNorm1d(4))

    with pytest.raises(TypeError, match="0 is a BatchNorm1d; .*override Task.together"):
        ShardsTrainer(Other(), 5, shards=2)


def test_parts_that_ask_for_different_sums_are_refused_and_none_is_left_waiting():
    def swaps():
        return turns.swap(0, 1)

    turns = Turns([swaps, lambda: 2])
    with pytest.raises(RuntimeError, match="do not ask for the same sums"):
        turns.run()
    assert not any(thread.is_alive() for thread in turns._threads)


# -- the command ---------------------------------------------------------------------------------------------------


def children(pid):
    """Ranks by number, below a process."""
    found, parents = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                values = dict(item.partition("=")[::2] for item in (entry / "environ").read_text().split("\0"))
            except OSError:
                continue
            if "RANK" in values:
                found[int(entry.name)] = int(values["RANK"])

    def below(process):
        while process > 1 and process != pid:
            process = parents.get(process, 0)
        return process == pid

    return {rank: process for process, rank in found.items() if below(process)}


def begin(tmp_path, *options, torchrun=False):
    """`brain train motor --quick` as a process of its own."""
    program = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"] if torchrun else []
    return subprocess.Popen(
        [sys.executable, *program, "-m", "brain", "train", "motor", "--quick", "--out", str(tmp_path / "m.safetensors"),
         *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"})


def both(process, tmp_path):
    """Waits until both ranks train."""
    until = time.monotonic() + PATIENCE
    while len(children(process.pid)) < 2 or not (tmp_path / "m.checkpoint.lock").exists():
        assert process.poll() is None and time.monotonic() < until, process.communicate()
        time.sleep(0.1)
    return children(process.pid)


@pytest.mark.extended
@pytest.mark.slow
def test_the_command_makes_the_file_of_one_process_with_as_many_shards(tmp_path):
    folders = {"dp": tmp_path / "dp", "run": tmp_path / "run", "shards": tmp_path / "shards"}
    for folder in folders.values():
        folder.mkdir()
    done = {"dp": begin(folders["dp"], "--parallel", "dp=2", "--log", str(tmp_path / "log"), "--json")}
    out, err = done["dp"].communicate(timeout=300)
    assert done["dp"].returncode == 0 and '"parallel"' in out, err
    assert len((tmp_path / "log").read_text().splitlines()) == 2    # one of each network, by rank 0 alone
    shards = begin(folders["shards"], "--shards", "2", "--threads", "1")
    assert shards.wait(300) == 0, shards.communicate()
    for name in ("m.safetensors", "m_ann.safetensors"):
        assert (folders["dp"] / name).read_bytes() == (folders["shards"] / name).read_bytes()
    assert not list(tmp_path.rglob("*.checkpoint*"))


@pytest.mark.extended
@pytest.mark.slow
@pytest.mark.parametrize(("options", "words"), [
    (["tp=2"], r"spiking by tp=2 \(2 ranks, gloo\): .* steps/s; a rank holds 0.22 MB of parameters in place of 0.43"),
    (["pp=2", "--microbatches", "4", "--schedule", "gpipe"], r"spiking by pp=2 \(2 ranks.* MB of gradients in place"),
    (["ps=2", "--mode", "sync"], r"spiking by 2 parameter servers and 2 workers \(sync\): .* have pushed [0-9.]+ MB")])
def test_the_command_trains_in_every_other_form(tmp_path, options, words):
    out = tmp_path / "motor.safetensors"
    done = subprocess.run([sys.executable, "-m", "brain", "train", "motor", "--quick", "--out", str(out), "--parallel",
                           *options], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(words, " ".join(done.stdout.split())), done.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["motor.safetensors", "motor_ann.safetensors"]


@pytest.mark.extended
@pytest.mark.slow
def test_torchrun_starts_the_same_command(tmp_path):
    process = begin(tmp_path, "--parallel", "dp=2,zero=1", torchrun=True)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, out + err
    assert out.count("weights written to") == 1 and out.count("by dp=2,zero=1 (2 ranks, gloo)") == 2
    other = begin(tmp_path, "--parallel", "dp=3", torchrun=True)
    out, err = other.communicate(timeout=300)
    assert other.returncode != 0 and err.count("2 ranks were started, but --parallel dp=3 is of 3") == 1, err


@pytest.mark.extended       # test_survive kills ranks of this command
@pytest.mark.slow
def test_a_rank_that_is_killed_is_named_and_none_is_left(tmp_path):
    process = begin(tmp_path, "--parallel", "dp=2")
    found = both(process, tmp_path)
    os.kill(found[1], signal.SIGKILL)
    _, err = process.communicate(timeout=400)
    assert process.returncode == 1 and "rank 1 of 2 was killed by SIGKILL" in err and "Traceback" not in err, err
    assert not any(Path(f"/proc/{pid}").exists() for pid in found.values())


@pytest.mark.extended
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_ranks_end_with_who_started_them(tmp_path, number):
    process = begin(tmp_path, "--parallel", "dp=2")
    found = both(process, tmp_path)
    os.kill(process.pid, number)
    process.communicate(timeout=400)
    assert process.returncode == (130 if number == signal.SIGINT else -signal.SIGKILL)
    until = time.monotonic() + PATIENCE
    while any(Path(f"/proc/{pid}").exists() for pid in found.values()):
        assert time.monotonic() < until, found
        time.sleep(0.1)
