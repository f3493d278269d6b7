# SPDX-License-Identifier: Apache-2.0
"""The one loop: a tiny task of this test's own learns, is stopped anywhere and goes on to the same bits."""
from __future__ import annotations

import json
import resource
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import nn

from brain_training import checkpoint
from brain_training.checkpoint import CheckpointError
from brain_training.parallel.together import cut_alike
from brain_training.task import Lost, Task, TrainingError, one_cycle, stream
from brain_training.trainer import LOGGED, Trainer


@dataclass(frozen=True)
class Recipe:
    steps: int = 60
    batch: int = 16
    rate: float = 0.05
    sizes: tuple[int, ...] = (3, 4)


class Line(Task):
    """Learns the sum of three numbers; what was hardest in a step comes again in the next."""

    name, clip = "line", 1.0
    full, tiny = Recipe(), Recipe(steps=5)

    def __init__(self, which="spiking", *, quick=False, recipe=None):
        super().__init__(which, quick=quick, recipe=recipe)
        self.again = torch.zeros(1, dtype=torch.int64)
        self.seen = []

    @classmethod
    def files(cls):
        return {}

    def build(self, seed):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return nn.Sequential(nn.Conv2d(1, 4, (1, 3)), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(4, 1)).to(
                memory_format=torch.channels_last)

    def optimizer(self, network):
        return torch.optim.AdamW(network.parameters(), lr=self.recipe.rate)

    def schedule(self, optimizer):
        return one_cycle(optimizer, self.recipe.rate, self.steps)

    @property
    def steps(self):
        return self.recipe.steps

    def indices(self, seed, step):
        fresh = range(step * self.recipe.batch, (step + 1) * self.recipe.batch)
        return [*fresh, *self.again.tolist()]

    def sample(self, seed, index):
        self.seen.append(index)
        return stream("line", seed, index).normal(size=(1, 1, 3)).astype(np.float32)

    def collate(self, samples):
        return (torch.from_numpy(np.stack(samples)),)

    def loss(self, network, batch, rng):
        (x,) = batch
        off = (network(x)[:, 0] - x.sum((1, 2, 3)) + 0.001 * float(rng.normal())).square()
        return Lost(off.mean(), off.detach())

    def end(self, network, indices, lost):
        self.again = torch.tensor([indices[int(lost.hard.argmax())]])

    def state(self):
        return {"again": self.again}, {"of": "the hardest"}

    def restore(self, tensors, values):
        assert values == {"of": "the hardest"}
        self.again = tensors["again"]

    def score(self, network, tell):
        return {}

    def export(self, path, network, training, figures):
        raise AssertionError


def bits(trainer: Trainer) -> list[bytes]:
    """Of weights, running statistics, the optimizer's state and the losses."""
    state = trainer.optimizer.state_dict()["state"]
    tensors = [*trainer.network.state_dict().values(), *(s[name] for s in state.values() for name in sorted(s))]
    return [*(value.numpy().tobytes() for value in tensors), np.array(trainer.losses).tobytes()]


def test_a_task_is_learned_and_the_same_from_the_same_seed():
    told = []
    first, second, other = (Trainer(Line(), seed, progress=lambda *what: told.append(what)) for seed in (3, 3, 4))
    network = first.run()
    assert np.mean(first.losses[-10:]) < 0.5 * np.mean(first.losses[:10]) and not network[0].weight.is_meta
    second.run(), other.run()
    assert bits(first) == bits(second) and bits(first) != bits(other)
    assert told[59][:3] == ("spiking", 60, 60) and told[59][3].startswith("loss ")


@pytest.mark.parametrize("clip", [1e-3, 1e6])
def test_gradients_are_cut_at_the_norm_of_the_task(clip):
    task = Line()
    task.clip = clip
    trainer = Trainer(task, 3)
    for _ in range(3):
        before = trainer.advance()
        left = float(torch.linalg.vector_norm(torch.cat([p.grad.flatten() for p in trainer.network.parameters()])))
        assert before > 1e-2 and left == pytest.approx(min(before, clip), rel=1e-3)
        assert cut_alike(trainer.network.parameters(), left / 2) == pytest.approx(left, rel=1e-6)
        assert cut_alike(trainer.network.parameters(), 1e9) == pytest.approx(left / 2, rel=1e-2)


@pytest.mark.parametrize("stopped", [1, 23, 59, 60])
def test_resumed_is_as_uninterrupted_to_the_bit(tmp_path, stopped):
    whole = Trainer(Line(), 3)
    whole.run()
    part = Trainer(Line(), 3, checkpoint=tmp_path / "c", period=0)
    for _ in range(stopped):
        part.advance()
    part.save()
    part.advance() if stopped < 60 else None        # what was not saved is done again
    rest = Trainer(Line(), 3, checkpoint=tmp_path / "c", period=1e9)
    assert rest.resume() == stopped == rest.step
    torch.rand(5), np.random.random(5)      # what others draw does not matter
    rest.run()
    assert bits(rest) == bits(whole) and len(rest.losses) == 60
    again = Trainer(Line(), 3, checkpoint=tmp_path / "c")
    assert again.resume() == 60 and bits(again) == bits(whole)      # the end is kept, too


def test_without_a_checkpoint_it_begins_at_the_beginning(tmp_path):
    assert Trainer(Line(), 3).resume() == 0
    assert Trainer(Line(), 3, checkpoint=tmp_path / "none").resume() == 0


def test_a_checkpoint_of_another_training_is_refused(tmp_path):
    path = tmp_path / "line.checkpoint"
    Trainer(Line(quick=True), 3, checkpoint=path).run()
    for task, seed, what in (
            (Line(quick=True), 4, "seed"), (Line(), 3, "recipe"), (Line("ann", quick=True), 3, "network")):
        with pytest.raises(CheckpointError, match=f"{path} is of another training: its {what} is .*--checkpoint"):
            Trainer(task, seed, checkpoint=path).resume()
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(threads + 1)
        with pytest.raises(CheckpointError, match="threads"):
            Trainer(Line(quick=True), 3, checkpoint=path).resume()
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("spoil", [lambda data: data[:100], lambda data: b"", lambda data: b"\x80\x04pickle" + data])
def test_a_torn_checkpoint_is_named_with_the_remedy(tmp_path, spoil):
    path = tmp_path / "c"
    Trainer(Line(quick=True), 3, checkpoint=path).run()
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(CheckpointError, match=f"checkpoint {path} is torn .*--resume"):
        Trainer(Line(quick=True), 3, checkpoint=path).resume()


@pytest.mark.parametrize("spoil", [
    lambda tensors, values: tensors.pop("losses"), lambda tensors, values: values.pop("about"),
    lambda tensors, values: tensors.update({"network.weight": torch.zeros(7, 7)}),
    lambda tensors, values: tensors.update({"optimizer.99.exp_avg": torch.zeros(3)}),
    lambda tensors, values: values.update(step=6), lambda tensors, values: values.update(step="two"),
    lambda tensors, values: values.update(groups=3), lambda tensors, values: values.update(schedule={}),
    lambda tensors, values: values.update(about=[])])
def test_a_checkpoint_in_which_something_does_not_fit_is_named_with_the_remedy(tmp_path, spoil):
    path = tmp_path / "c"
    trainer = Trainer(Line(quick=True), 3, checkpoint=path)
    trainer.advance()
    trainer.save()
    tensors, values = checkpoint.load(path)
    spoil(tensors, values)
    checkpoint.save(path, tensors, values)
    with pytest.raises(CheckpointError, match=f"checkpoint {path} does not fit this training .*--resume"):
        Trainer(Line(quick=True), 3, checkpoint=path).resume()


def test_a_full_disk_leaves_the_last_checkpoint_and_is_named_with_the_remedy(tmp_path):
    path = tmp_path / "c"
    trainer = Trainer(Line(quick=True), 3, checkpoint=path)
    trainer.advance()
    trainer.save()
    before, trainer.losses = path.read_bytes(), trainer.losses * 10_000
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
    try:
        with pytest.raises(CheckpointError, match=f"cannot write checkpoint {path} .*--resume"):
            trainer.save()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == before and [found.name for found in tmp_path.iterdir()] == ["c"]


def test_a_checkpoint_is_one_trainings_alone(tmp_path):
    path = tmp_path / "folder" / "c"
    with checkpoint.held(path):
        with pytest.raises(CheckpointError, match=f"another training is writing {path}.*--out"), checkpoint.held(path):
            raise AssertionError("two hold it")
    with checkpoint.held(path):     # the first has ended
        pass
    assert not list(path.parent.iterdir())


def test_a_weight_file_is_no_checkpoint(tmp_path):
    from safetensors.torch import save_file

    save_file({"w": torch.zeros(1)}, tmp_path / "w")
    with pytest.raises(CheckpointError, match="no checkpoint"):
        checkpoint.load(tmp_path / "w")


def test_a_checkpoint_is_replaced_whole_or_not_at_all(tmp_path):
    path = tmp_path / "c"
    checkpoint.save(path, {"a": torch.ones(3)}, {"number": 1})
    (tmp_path / "c.tmp").mkdir()        # what is written beside it cannot be
    with pytest.raises(Exception, match="c.tmp|directory"):
        checkpoint.save(path, {"a": torch.zeros(3)}, {"number": 2})
    tensors, values = checkpoint.load(path)
    assert tensors["a"].tolist() == [1, 1, 1] and values == {"number": 1}


def test_a_loss_that_is_no_number_ends_it():
    class Wrong(Line):
        def loss(self, network, batch, rng):
            lost = super().loss(network, batch, rng)
            return lost._replace(value=lost.value * (np.inf if len(self.seen) > 40 else 1))

    with pytest.raises(TrainingError, match=r"loss of line \(spiking\) is (inf|nan) after \d steps; lower"):
        Trainer(Wrong(), 0).run()


def test_the_log_has_a_line_of_json_for_some_steps(tmp_path):
    log = tmp_path / "folder" / "log"
    trainer = Trainer(Line(recipe=Recipe(steps=2 * LOGGED + 5)), 3, log=log)
    trainer.run()
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["step"] for line in lines] == [LOGGED, 2 * LOGGED, 2 * LOGGED + 5]
    assert lines[0]["loss"] == pytest.approx(np.mean(trainer.losses[:LOGGED])) and lines[0]["of"] == 2 * LOGGED + 5
    assert all(line["task"] == "line" and line["network"] == "spiking" and line["norm"] > 0 for line in lines)
    assert 0 < lines[-1]["rate"] < lines[0]["rate"] <= 0.05


def test_a_part_of_a_batch_can_be_made_anywhere():
    """What data-parallel training rests on: each process makes its part, and the whole is the same."""
    task, seen = Line(), []

    class Half(Trainer):
        def part(self, indices):
            seen.append(list(indices))
            return list(indices)[::2]

    half = Half(task, 3)
    half.advance()
    assert task.seen == seen[0][::2]
    whole = Line()
    parts = [whole.sample(3, index) for index in reversed(range(16))][::-1]
    assert all(np.array_equal(part, task.sample(3, index)) for index, part in enumerate(parts))


def test_a_network_that_is_not_one_of_two_is_refused():
    with pytest.raises(ValueError, match="spiking and ann"):
        Line("anns")
