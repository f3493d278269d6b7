# SPDX-License-Identifier: Apache-2.0
"""One process, ranks that share a GPU, and what is kept in the CPU's memory. Nothing runs where there is no GPU."""
from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from brain_regions.language import Language
from brain_regions.motor import Motor
from brain_regions.vision import Vision
from brain_training import tasks
from brain_training.parallel.shards import ShardsTrainer
from brain_training.trainer import Trainer
from parallel_ranks import PROGRAMS, forms

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")]
TASKS = runpy.run_path(str(PROGRAMS / "parallel_tasks.py"), run_name="parallel_tasks")
Spikes, sha = TASKS["Spikes"], TASKS["sha"]
NAMES = ("vision", "language", "motor")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("which", ["spiking", "ann"])
def test_a_network_learns_what_it_learns_on_the_cpu(name, which):
    """Last bits differ, and so do some spikes."""
    losses = []
    for device in ("cpu", "cuda"):
        trainer = Trainer(tasks.load(name)(which, quick=True), 3, device=device)
        for _ in range(3):
            trainer.advance()
        assert {p.device.type for p in trainer.network.parameters()} == {device}
        losses.append(trainer.losses)
    assert losses[1] == pytest.approx(losses[0], rel=0.02)
    assert losses[1][0] == pytest.approx(losses[0][0], rel=2e-3)


@pytest.mark.parametrize("name", NAMES)
def test_weights_that_a_gpu_trained_are_a_region_s(name, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "brain", "train", name, "--quick", "--device", "cuda", "--out", "made.safetensors"],
        capture_output=True, text=True, timeout=300, cwd=tmp_path, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stdout + done.stderr
    loaded = {"vision": Vision, "language": Language, "motor": Motor}[name](name)
    loaded.configure({"weights": str(tmp_path / "made.safetensors")})
    assert Path(tmp_path / "made_ann.safetensors").is_file()


def test_a_training_on_a_gpu_is_resumed_to_the_bit(tmp_path):
    part = Trainer(Spikes(), 5, device="cuda", checkpoint=tmp_path / "c")
    for _ in range(7):
        part.advance()
    part.save()
    rest = Trainer(Spikes(), 5, device="cuda", checkpoint=tmp_path / "c")
    assert rest.resume() == 7
    assert sha(rest.run()) == sha(Trainer(Spikes(), 5, device="cuda").run())


def test_one_rank_by_nccl_has_the_bits_of_one_process():
    found, _ = forms(1, "nccl", "dp=1/exact/cuda", "dp=1/bf16/cuda")
    assert found["dp=1/exact/cuda"] == sha(ShardsTrainer(Spikes(), 5, shards=1, device="cuda").run())
    assert found["dp=1/bf16/cuda"] != found["dp=1/exact/cuda"]


def test_what_is_kept_in_the_cpus_memory_trains_what_it_trains_on_the_gpu():
    kept = [f"zero={stage}{exact}/offload/cuda" for exact in ("", "/exact") for stage in (2, 3)]
    found, held = forms(1, "cpu:gloo,cuda:nccl", *kept)
    assert found[kept[0]] == found[kept[1]] and found[kept[2]] == found[kept[3]]
    assert held["zero=3/offload/cuda"] == ["1512/1512", "1512/1512", "3044/3044"]


def test_ranks_on_gloo_share_a_gpu_and_have_the_bits_of_shards():
    wanted = ("dp=2/exact/cuda", "dp=2,zero=1/exact/cuda")
    found, _ = forms(2, "gloo", *wanted)
    assert set(found.values()) == {sha(ShardsTrainer(Spikes(), 5, shards=2, device="cuda").run())}


@pytest.mark.skipif(torch.cuda.device_count() > 1, reason="there are GPUs for two ranks")
def test_a_rank_without_a_gpu_is_told_of_it(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "brain", "train", "motor", "--quick", "--device", "cuda", "--parallel", "dp=2", "--out",
         "made.safetensors"], capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert done.returncode == 1 and "rank 1 of this machine has no GPU: nccl wants one for each, and" in done.stderr
    assert not list(tmp_path.iterdir())
