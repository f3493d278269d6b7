# SPDX-License-Identifier: Apache-2.0
"""A task as the docs say, in an empty folder: one file, trained in every form by one flag; and what users get wrong."""
from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from brain_training import runs, tasks
from brain_training.parallel.shards import ShardsTrainer
from brain_training.task import Lost, Recipe, Task, TrainingError
from brain_training.trainer import Trainer

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "train-a-region.md"


def quiet(what, done, of, note):
    pass


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder with the files of the page's first task, which is the current one."""
    for name, code in re.findall(r"```python\n# (\w*pitch\w*\.py)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S):
        (tmp_path / name).write_text(code, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if (tmp_path / f"{name}.py").exists():
            del sys.modules[name]


def edited(folder, old, new, name="mine"):
    """Another file of a user, the docs' with something else in place of a line."""
    code = (folder / "pitch.py").read_text(encoding="utf-8")
    assert code.count(old) == 1
    (folder / f"{name}.py").write_text(code.replace(old, new), encoding="utf-8")
    importlib.invalidate_caches()
    return f"{name}:Pitch"


def train(name, out=None, **more):
    return runs.train(name, out, runs.Settings(**more), quiet)


def command(folder, *arguments, status=0):
    """What `brain train` says in the folder, in one line."""
    done = subprocess.run([sys.executable, "-m", "brain", "train", *arguments], cwd=folder, capture_output=True,
                          text=True, timeout=280, env={**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "400"})
    assert done.returncode == status, done.stdout + done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return " ".join((done.stdout + done.stderr).split())


def test_it_has_at_most_sixty_lines_and_learns_and_its_weights_are_used_as_the_docs_say(folder):
    assert len((folder / "pitch.py").read_text(encoding="utf-8").splitlines()) <= 60
    told = train("pitch:Pitch")
    assert told["spiking"]["right"] > 0.9 and told["files"] == [str(folder / "pitch.safetensors")]
    assert sorted(path.name for path in folder.iterdir() if path.suffix != "") == [
        "pitch.py", "pitch.safetensors", "pitch_divided.py", "use_pitch.py"]
    done = subprocess.run([sys.executable, "use_pitch.py"], cwd=folder, capture_output=True, text=True, timeout=400)
    assert done.stdout.strip() == "right: 1.0", done.stderr


@pytest.mark.extended       # test_parallel has all forms of a network of its own
@pytest.mark.slow
@pytest.mark.parametrize(("options", "words"), [
    (["dp=2"], "spiking by dp=2 (2 ranks, gloo)"), (["dp=2,zero=1"], "spiking by dp=2,zero=1 (2 ranks, gloo)"),
    (["dp=2,zero=3", "--exact"], "spiking by dp=2,zero=3 (2 ranks, gloo)"),
    (["ps=1,dp=2", "--exact"], "spiking by 1 parameter servers and 2 workers (sync)")])
def test_all_forms_of_data_parallel_write_the_weights_of_one_process_with_two_shards(folder, options, words):
    said = command(folder, "pitch:Pitch", "--quick", "--out", "p.safetensors", "--parallel", *options)
    assert words in said
    network = ShardsTrainer(tasks.load("pitch:Pitch")(quick=True), 0, shards=2).run()
    found = load_file(folder / "p.safetensors")
    assert found.keys() == network.state_dict().keys()
    assert all(torch.equal(found[name], value) for name, value in network.state_dict().items())


@pytest.mark.extended
@pytest.mark.slow
@pytest.mark.parametrize("options", [["tp=2"], ["pp=2", "--microbatches", "2"]])
def test_a_network_that_says_how_it_divides_is_divided(folder, options):
    said = command(folder, "pitch:Pitch", "--quick", "--out", "p.safetensors", "--parallel", *options)
    assert f"spiking by {options[0]} (2 ranks, gloo)" in said
    network = Trainer(tasks.load("pitch:Pitch")(quick=True), 0).run()
    found = load_file(folder / "p.safetensors")
    for name, value in network.state_dict().items():    # sums in another order
        assert torch.allclose(found[name], value, atol=1e-4), name


@pytest.mark.extended
@pytest.mark.slow
@pytest.mark.parametrize(("options", "words"), [
    (["pp=2"], "the network of pitch (spiking) has no chain of sections to cut: its class Net names none as `chain`; "
               "train it with dp, zero or ps"),
    (["tp=2"], "the network of pitch (spiking) cannot be split by columns: its class Net names no split network")])
def test_a_network_that_does_not_say_how_it_divides_is_refused_in_one_line(folder, options, words):
    edited(folder, re.search("    chain, split = .*\n", (folder / "pitch.py").read_text())[0], "")
    said = command(folder, "mine:Pitch", "--quick", "--out", "p.safetensors", "--parallel", *options, status=1)
    assert words in said and not (folder / "p.safetensors").exists()


LOSS = "return F.cross_entropy(network(sound), band)"


@pytest.mark.parametrize(("old", "new", "words"), [
    (LOSS, "return F.cross_entropy(network(sound), wrong)",
     r"loss of pitch \(spiking\) failed after 0 steps: NameError: name 'wrong' is not defined \(mine.py, line 5\d\)"),
    (LOSS, f"{LOSS} * float('nan')", r"the loss of pitch \(spiking\) is nan after 0 steps; lower the learning rate"),
    (LOSS, "return F.cross_entropy(network(sound), band, reduction='none')",
     r"the loss of pitch \(spiking\) is a tensor of shape \(8,\), and must be one number in a tensor; take the mean"),
    (LOSS, "return 1.0", r"the loss of pitch \(spiking\) is float, and must be one number"),
    (LOSS, "return sound.mean()", "does not come from its network's weights: it has no gradient"),
    ('name = "pitch"', 'name, samples = "pitch", 0', "the data of pitch are empty: its `samples` is 0"),
    ('name = "pitch"', 'name, indices = "pitch", lambda *_: []',
     r"step 0 of pitch \(spiking\) has no samples: its data are empty"),
    ("return sound, band", "return sound[index % 2:], band",
     r"samples of pitch do not make a batch: the first is \(float32\[20, 8\], int\), and number 1 of 8 is "
     r"\(float32\[19, 8\], int\); sample must give arrays of one shape"),
    ("nn.Linear(BANDS, NEURONS)", "nn.Linear(BANDS + 1, NEURONS)",
     r"loss of pitch \(spiking\) failed after 0 steps: RuntimeError: mat1 and mat2 .*\(160x8 and 9x48\) \(mine.py, l"),
    ("        rng = stream(purpose, seed, index)\n", "        rng = open('gone.wav')\n",
     r"sample of pitch \(spiking\) failed after 0 steps: FileNotFoundError: .*gone.wav.* \(mine.py, line"),
    ("return Net()", "return nn.ReLU()", r"build of pitch \(spiking\) gives a ReLU without parameters; it must give"),
    ("return Net()", "return Net(1)", r"build of pitch \(spiking\) failed before the first step: TypeError: .*mine.py"),
    ('return {"right"', 'return {"right" + 1', r"score of pitch \(spiking\) failed after the last step: TypeError")])
def test_what_users_get_wrong_is_named(folder, old, new, words):
    with pytest.raises(TrainingError) as told:
        train(edited(folder, old, new), folder / "p.safetensors", quick=True)
    assert re.search(words, str(told.value)), told.value
    assert "\n" not in str(told.value) and not (folder / "p.safetensors").exists()


@pytest.mark.parametrize(("name", "words"), [
    ("gone:Pitch", "there is no module gone in .*, nor installed"), ("pitch:Gone", "pitch has no class Gone"),
    ("pitch:Net", "pitch:Net is no brain_training.task.Task"),
    ("lacks:Pitch", "lacks:Pitch lacks loss, score; a task says"), ("torn:Pitch", "torn cannot be imported: SyntaxErr"),
    ("needs:Pitch", "there is no module nothing_of_this_name, which needs imports")])
def test_what_is_no_task_is_named(folder, name, words):
    (folder / "lacks.py").write_text(
        "from brain_training.task import Task\nclass Pitch(Task):\n    name = 'pitch'\n"
        "    def sample(self, seed, index): pass\n    def build(self, seed): pass\n")
    (folder / "torn.py").write_text("class Pitch(")
    (folder / "needs.py").write_text("import nothing_of_this_name")
    importlib.invalidate_caches()
    with pytest.raises(ValueError, match=words):
        tasks.load(name)


@pytest.mark.extended
@pytest.mark.slow
@pytest.mark.parametrize(("old", "new", "words"), [
    ("        rng = stream(purpose, seed, index)\n",
     "        rng = stream(purpose, seed, index)\n        assert index != 23, 'torn file'\n",
     r"rank 1: sample of pitch \(spiking\) failed after 2 steps at rank 1 of 2: AssertionError: torn file \(mine.py,"),
    (LOSS, f"{LOSS} if self.whole.rank == 0 else 1 / 0",
     r"loss of pitch \(spiking\) failed after 0 steps at rank 1 of 2: ZeroDivisionError")])
def test_of_several_ranks_the_one_is_named_whose_samples_or_loss_failed(folder, old, new, words):
    name = edited(folder, old, new)
    said = command(folder, name, "--quick", "--out", "p.safetensors", "--parallel", "dp=2", status=1)
    assert re.search(words, said), said


@pytest.mark.extended
@pytest.mark.slow
def test_with_a_parameter_server_the_worker_is_named_whose_loss_failed(folder):
    name = edited(folder, LOSS, LOSS.replace("band)", "wrong)"))
    said = command(folder, name, "--quick", "--out", "p.safetensors", "--parallel", "ps=1,dp=2", status=1)
    assert re.search(r"loss of pitch \(spiking\) failed after 0 steps at worker [01]: NameError", said), said


class Counted(Task):
    """Of seven samples, each once in an epoch."""

    name, samples, full = "counted", 7, Recipe(steps=9, batch=5)

    def sample(self, seed, index):
        return float(index)

    def build(self, seed):
        return torch.nn.Linear(1, 1)

    def loss(self, network, batch, rng):
        return Lost(network(batch[0].float()[:, None]).square().mean())

    def score(self, network, tell):
        return {}


def test_samples_that_end_are_taken_once_in_an_epoch_in_an_order_of_the_seed():
    task = Counted()
    told = [index for step in range(task.steps) for index in task.indices(3, step)]
    epochs = [told[at:at + 7] for at in range(0, 42, 7)]
    assert all(sorted(epoch) == list(range(7)) for epoch in epochs) and len({*map(tuple, epochs)}) > 3
    assert told != [index for step in range(task.steps) for index in task.indices(4, step)]


def test_a_network_is_built_from_the_seed_and_leaves_torchs_generator_alone():
    before = torch.get_rng_state()
    one, two, other = (Counted().built(seed).weight for seed in (1, 1, 2))
    assert torch.equal(one, two) and not torch.equal(one, other) and torch.equal(torch.get_rng_state(), before)


def test_a_recipe_of_one_step_is_trained():
    assert len(Trainer(Counted(recipe=Recipe(steps=1)), 0).run().state_dict()) == 2
