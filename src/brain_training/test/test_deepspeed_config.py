# SPDX-License-Identifier: Apache-2.0
"""DeepSpeed's JSON configuration is taken as options of ours; what has no counterpart is named, each key in a line."""
from __future__ import annotations

import json
import math
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from brain_training.parallel.deepspeed import taken
from brain_training.parallel.disk import OnDisk
from brain_training.parallel.how import How
from brain_training.parallel.plan import Plan, PlanError, parse
from brain_training.parallel.shards import ShardsTrainer
from brain_training.task import TrainingError

PROGRAMS = Path(__file__).parent / "programs"


def read(tmp_path, config, parallel="dp=2", world=None, **more):
    path = tmp_path / "ds.json"
    path.write_text(config if isinstance(config, str) else json.dumps(config), encoding="utf-8")
    how = How(None if parallel is None else parse(parallel), **more)
    return taken(how, path, zero_given="zero" in (parallel or ""), world=world)


def test_what_it_says_is_taken_as_options_and_the_rest_is_named(tmp_path):
    how, lines = read(tmp_path, {
        "train_batch_size": 64, "gradient_accumulation_steps": 4, "gradient_clipping": 0.5, "bf16": {"enabled": False},
        "fp16": {"enabled": False, "loss_scale": 0}, "optimizer": {"type": "AdamW", "params": {"lr": 3e-5}},
        "steps_per_print": 10, "wall_clock_breakdown": False,
        "zero_optimization": {"stage": 2, "overlap_comm": True, "reduce_bucket_size": "auto",
                              "offload_optimizer": {"device": "nvme", "nvme_path": str(tmp_path), "pin_memory": True},
                              "offload_param": {"device": "cpu"}}})
    assert (how.plan, how.batch, how.accumulate, how.clip, how.compress) == (Plan(dp=2, zero=2), 64, 4, 0.5, None)
    assert (how.offload, how.offload_folder) == ("optimizer", tmp_path)
    how.check("cpu")
    left = "has no counterpart here, and is left out"
    assert [line.removeprefix(f"{tmp_path / 'ds.json'}: ") for line in lines] == [
        f"optimizer {left}: the task says it", f"steps_per_print {left}", f"wall_clock_breakdown {left}",
        f"zero_optimization.overlap_comm {left}", f"zero_optimization.reduce_bucket_size {left}",
        f"zero_optimization.offload_optimizer.pin_memory {left}",
        f"zero_optimization.offload_param {left}: parameters on the CPU are --offload all, on CUDA"]


@pytest.mark.parametrize(("config", "more", "found"), [
    ({}, {}, {}),
    ({"zero_optimization": {"stage": 3}}, {}, {"plan": Plan(dp=2, zero=3)}),
    ({"zero_optimization": {"stage": 3}}, {"parallel": "dp=2,zero=3"}, {"plan": Plan(dp=2, zero=3)}),
    ({"zero_optimization": {"stage": 1}}, {"parallel": None, "world": 4}, {"plan": Plan(dp=4, zero=1)}),
    ({"train_batch_size": "auto", "gradient_accumulation_steps": "auto", "zero_optimization": {"stage": "auto"}}, {},
     {"batch": None, "accumulate": 1}),
    ({"train_batch_size": 32, "train_micro_batch_size_per_gpu": 4}, {}, {"batch": 32, "accumulate": 4}),
    ({"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2}, {}, {"batch": 16, "accumulate": 2}),
    ({"gradient_accumulation_steps": 2}, {"accumulate": 2}, {"accumulate": 2}),
    ({"gradient_clipping": 0}, {}, {"clip": math.inf}), ({"bf16": {"enabled": True}}, {}, {"compress": "bf16"}),
    ({"communication_data_type": "bfp16"}, {}, {"compress": "bf16"})])
def test_each_key_has_its_option(tmp_path, config, more, found):
    how, lines = read(tmp_path, config, **more)
    assert {name: getattr(how, name) for name in found} == found and lines == []


def test_bf16_has_no_counterpart_where_gradients_are_shared_out_and_offload_to_the_cpu_has_none(tmp_path):
    how, lines = read(tmp_path, {"bf16": {"enabled": True}, "fp16": {"enabled": True}, "zero_optimization": {
        "stage": 2, "offload_optimizer": {"device": "cpu"}}})
    assert how.compress is how.offload is None and [line.split(" has no")[0].split()[-1] for line in lines] == [
        "bf16.enabled", "fp16", "cpu"]
    assert "all is computed in float32" in lines[1] and "--offload all" in lines[2]


@pytest.mark.parametrize(("config", "more", "words"), [
    ({"zero_optimization": {"stage": 3}}, {"parallel": "dp=2,zero=1"},
     "zero of --parallel is 1, and zero_optimization.stage of .*ds.json is 3; leave one out"),
    ({"zero_optimization": {"stage": 1}}, {"parallel": "dp=1"}, "stage 1 shares out among the ranks of dp, which is 1"),
    ({"zero_optimization": {"stage": 4}}, {}, "stage is 4, and must be 0, 1, 2 or 3"),
    ({"zero_optimization": {"stage": "two"}}, {}, 'stage is "two", and must be 0, 1, 2 or 3'),
    ({"zero_optimization": {"stage": 1.5}}, {}, "stage is 1.5, and must be"),
    ({"gradient_accumulation_steps": 4}, {"accumulate": 2}, "--accumulate is 2, and gradient_accumulation_steps of"),
    ({"gradient_accumulation_steps": 0}, {}, "gradient_accumulation_steps is 0, and must be a whole number, 1 or more"),
    ({"gradient_clipping": -1}, {}, "gradient_clipping is -1, and must be a number, 0 or more"),
    ({"train_batch_size": 30, "train_micro_batch_size_per_gpu": 4}, {}, "train_batch_size 30 is not train_micro_batch"),
    ({"train_batch_size": 32, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2}, {},
     "train_batch_size 32 is not train_micro_batch_size_per_gpu 4 x gradient_accumulation_steps 2 x 2 ranks"),
    ({"zero_optimization": {"offload_optimizer": {"device": "nvme"}}}, {}, "is nvme, and .*nvme_path names no folder"),
    ({"zero_optimization": {"offload_optimizer": {"device": "disk"}}}, {}, 'device is "disk"; there is none, cpu, nv'),
    ({"bf16": {"enabled": 1}}, {}, "bf16.enabled is 1, and must be true or false"),
    ({}, {"parallel": None}, "not how many there are; give --parallel dp=2, or start them by torchrun"),
    ({}, {"parallel": "ps=1"}, "is of dp and zero, and this is ps=1"),
    ("{", {}, "ds.json is no JSON: "), ("[]", {}, "ds.json is no JSON object")])
def test_what_contradicts_or_cannot_be_is_refused_by_name(tmp_path, config, more, words):
    with pytest.raises(PlanError, match=words.replace("not how", "and not how")):
        read(tmp_path, config, **more)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(PlanError, match="cannot read --deepspeed-config .*gone.json: No such file"):
        taken(How(Plan(dp=2)), tmp_path / "gone.json", zero_given=False, world=None)


# -- the optimizer's state on a disk ----------------------------------------------------------------------------------

def steps(network, optimizer, count):
    for _ in range(count):
        optimizer.zero_grad()
        network(torch.ones(2, 6)).square().mean().backward()
        optimizer.step()


def mapped(folder):
    """Files of a folder that are mapped into this process."""
    return [line for line in Path("/proc/self/maps").read_text().splitlines() if str(folder) in line]


def test_the_optimizers_state_is_in_files_and_makes_the_same_bits(tmp_path):
    found = []
    for folder in (None, tmp_path / "disk"):
        torch.manual_seed(1)
        network = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Linear(5, 3))
        optimizer = torch.optim.AdamW(network.parameters(), lr=0.1)
        disk = OnDisk(optimizer, folder) if folder else None
        steps(network, optimizer, 3)
        optimizer.load_state_dict(optimizer.state_dict())       # as where a checkpoint was read
        steps(network, optimizer, 3)
        found.append({name: value.clone() for name, value in network.state_dict().items()})
    assert all(torch.equal(found[0][name], found[1][name]) for name in found[0])
    assert len(mapped(tmp_path / "disk")) >= 8 and not list((tmp_path / "disk").iterdir())  # their names are gone
    assert disk is not None and disk.bytes >= 2 * 4 * sum(value.numel() for value in network.parameters())
    assert all(value.on_disk for state in optimizer.state.values() for value in state.values() if value.dim())


def test_a_folder_where_nothing_can_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(TrainingError, match="cannot keep the optimizer's state in .*file.* name another folder with"):
        OnDisk(torch.optim.Adam([torch.nn.Parameter(torch.ones(1))]), tmp_path / "file" / "folder")


@pytest.mark.extended
def test_ranks_with_their_optimizers_on_a_disk_have_the_same_bits_and_hold_less(tmp_path):
    tasks = runpy.run_path(str(PROGRAMS / "parallel_tasks.py"), run_name="parallel_tasks")
    forms = ["dp=2/disk", "dp=2,zero=1/disk", "dp=2,zero=3/exact/disk"]
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
         str(PROGRAMS / "parallel_forms.py"), "gloo", *forms], capture_output=True, text=True, timeout=280,
        env={**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": str(tmp_path)})
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line.split() for line in done.stdout.splitlines() if line.startswith("form")]
    network = ShardsTrainer(tasks["Spikes"](), 5, shards=2).run()
    assert [line[1] for line in lines] == forms and {line[2] for line in lines} == {tasks["sha"](network)}
    assert all(int(line[7].partition("/")[0]) <= 20 for line in lines)      # counts of steps alone, of 3044 bytes


@pytest.mark.extended
@pytest.mark.slow
def test_the_command_takes_it_names_what_is_left_out_and_refuses_another_batch(tmp_path):
    (tmp_path / "own.py").write_text(
        "import torch\nfrom brain_training.task import Recipe, Task\n\n\nclass Own(Task):\n"
        "    name, full = 'own', Recipe(steps=4, batch=8)\n"
        "    def sample(self, seed, index): return torch.ones(3)\n"
        "    def build(self, seed): return torch.nn.Linear(3, 1)\n"
        "    def loss(self, network, batch, rng): return network(batch[0]).square().mean()\n"
        "    def score(self, network, tell): return {'ok': 1.0}\n")

    def run(config):
        (tmp_path / "ds.json").write_text(json.dumps(config))
        return subprocess.run(
            [sys.executable, "-m", "brain", "train", "own:Own", "--parallel", "dp=2", "--deepspeed-config", "ds.json"],
            cwd=tmp_path, capture_output=True, text=True, timeout=280,
            env={**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "400"})

    done = run({"train_batch_size": 8, "zero_optimization": {"stage": 1, "overlap_comm": True}})
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("ds.json: zero_optimization.overlap_comm has no counterpart here, and is left out") == 1
    assert "spiking by dp=2,zero=1 (2 ranks, gloo)" in " ".join(done.stdout.split())
    other = run({"train_batch_size": 16})
    assert other.returncode == 1 and "Traceback" not in other.stderr, other.stderr
    assert "the batch of ds.json has 16 samples, and a step of own has 8" in " ".join(other.stderr.split())
