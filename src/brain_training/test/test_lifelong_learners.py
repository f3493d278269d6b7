# SPDX-License-Identifier: Apache-2.0
"""Ways to learn one task after another: what EWC adds, what replay mixes in, and that nothing else is drawn."""
import numpy as np
import pytest
import torch
from torch import nn

from brain_training.federated import network_of
from brain_training.lifelong import ewc, learners
from brain_training.lifelong.ewc import Penalty
from brain_training.lifelong.learners import Sequential, Steps, fit, information, lost, matrix_figures
from brain_training.lifelong.learning import FURTHER, KEPT, NEW, learn, shipped
from brain_training.lifelong.library import Library
from brain_training.lifelong.memory import some
from brain_training.lifelong.sources import source
from brain_training.looks import Look
from brain_training.vision import STEPS, VisionTask, loss
from brain_training.vision_data import Studio

TINY = Steps(steps=2, batch=2, samples=2)


@pytest.fixture(autouse=True)
def one_thread():
    """As the verbs have it: two that wait for each other on a busy machine take long."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def sites():
    return [Studio(2, 4, 1, first_seed=71_000 + 10 * number, look=look).take_all()
            for number, look in enumerate((Look(), Look(hue=0.5)))]


class Two(nn.Module):
    """Two weights."""

    def __init__(self):
        super().__init__()
        self.a = nn.Parameter(torch.tensor([1.0, -2.0]))


def test_the_penalty_and_its_gradient_are_those_of_equation_3():
    network = Two()
    penalty = Penalty({"a": torch.tensor([4.0, 0.5])}, {"a": torch.tensor([0.0, 1.0])}, 10.0)
    value = penalty.of(network)
    # 10 / 2 * (4 * 1**2 + 0.5 * 3**2)
    assert value.item() == pytest.approx(42.5)
    value.backward()
    # 10 * (4 * 1, 0.5 * -3)
    assert network.a.grad.tolist() == pytest.approx([40.0, -15.0])
    after = penalty.after(network, {"a": torch.tensor([1.0, 1.0])}, decay=0.5)
    assert after.fisher["a"].tolist() == [3.0, 1.25] and after.anchor["a"].tolist() == [1.0, -2.0]
    assert after.of(network).item() == 0.0


def test_fishers_information_is_the_mean_of_squares_of_each_samples_gradient():
    network = Two()
    found = ewc.fisher(network, [lambda: (network.a * torch.tensor([1.0, 2.0])).sum(),
                                 lambda: (network.a * torch.tensor([3.0, 0.0])).sum()])
    assert found["a"].tolist() == [5.0, 2.0]        # not (2, 1) squared, the square of the mean
    with pytest.raises(ValueError, match="needs a sample"):
        ewc.fisher(network, [])


def test_clips_one_by_one_have_the_gradient_of_the_batch(sites):
    network = network_of(shipped())
    task = VisionTask()
    drawn = learners._Drawn(sites[0], 3)
    samples = drawn.next(4)
    pictures, target = task.collate(samples)
    state, _ = network(pictures[:, 0], network.rest(4), STEPS)
    loss(state["u"], target[:, 0]).backward()
    whole = {name: value.grad.clone() for name, value in network.named_parameters()}
    network.zero_grad()
    count = float((target[:, :, :, 0] >= 0).sum())
    for sample in samples:
        lost(network, task.collate([sample]), count).backward()
    for name, value in network.named_parameters():
        assert torch.allclose(value.grad, whole[name], rtol=1e-3, atol=1e-4 * float(whole[name].abs().max())), name


def test_the_same_seed_gives_the_same_weights_and_another_does_not(sites):
    first = fit(shipped(), sites[0], TINY, 5)
    again, other = fit(shipped(), sites[0], TINY, 5), fit(shipped(), sites[0], TINY, 6)
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert any(not np.array_equal(first[name], other[name]) for name in first)
    with pytest.raises(ValueError, match="not the weights of vision"):
        fit({"w": np.zeros(3, np.float32)}, sites[0], TINY, 5)


def test_replay_has_its_share_of_each_batch_from_memory(sites, monkeypatch):
    taken = []
    real = learners._Drawn.next

    def noted(self, count):
        taken.append((self._studio._clips is memory, count))
        return real(self, count)

    monkeypatch.setattr(learners._Drawn, "next", noted)
    memory = some(sites[0], range(3))
    fit(shipped(), sites[1], Steps(steps=2, batch=4, share=0.25), 5, memory=memory)
    assert taken == [(False, 3), (True, 1)] * 2


def test_a_strong_penalty_holds_weights_and_learners_differ_from_the_second_task_on(sites):
    ends = {}
    for kind, strength in (("naive", 1.0), ("replay", 1.0), ("ewc", 0.0), ("ewc", 1e9)):
        learner = Sequential(kind, shipped(), Steps(steps=4, batch=2, samples=2, strength=strength, rate=1e-3), 1)
        learner.learn(sites[0])
        first = learner.weights
        learner.learn(sites[1])
        ends[kind, strength] = first, learner.weights
    begun = [first for first, _ in ends.values()]
    assert all(np.array_equal(begun[0][name], one[name]) for one in begun for name in one)
    naive, free = ends["naive", 1.0][1], ends["ewc", 0.0][1]
    assert all(np.array_equal(naive[name], free[name]) for name in naive)

    information_ = information(network_of(begun[0]), sites[0], 2, 0)

    def moved(end):
        """In what the first task depends on."""
        return sum(float((information_[name] * torch.from_numpy(end[name] - begun[0][name]).square()).sum())
                   for name in end)

    assert moved(ends["ewc", 1e9][1]) < moved(naive)
    assert any(not np.array_equal(ends["replay", 1.0][1][name], naive[name]) for name in naive)
    with pytest.raises(ValueError, match="no learner 'x'"):
        Sequential("x", shipped(), TINY, 0)


def test_transfer_and_forgetting_of_a_matrix():
    found = matrix_figures([[0.8], [0.9, 0.7], [0.5, 0.6, 0.9]])
    assert found["last"] == pytest.approx(2 / 3)
    assert found["backward"] == pytest.approx((0.5 - 0.8 + 0.6 - 0.7) / 2)
    assert found["forgetting"] == pytest.approx((0.9 - 0.5 + 0.7 - 0.6) / 2)
    assert matrix_figures([[0.8]]) == {"last": 0.8, "backward": 0.0, "forgetting": 0.0}


def test_a_task_that_comes_back_is_learned_further_and_never_made_worse(tmp_path, monkeypatch):
    library = Library(tmp_path)
    first = learn(library, source("look:rooms=6,first=72000", "self", 0), TINY, 0)
    other = learn(library, source("look:rooms=6,first=72100,hue=0.5,tint=0.6/0.8/1", "self", 0), TINY, 0)
    assert (first.task, first.what, other.what) == ("site-1", NEW, NEW) and other.allocated.nearest == "site-1"
    before = library.task("site-1")
    back = learn(library, source("look:rooms=6,first=72200", "self", 0), TINY, 0, name="site-1")
    assert back.task == "site-1" and back.what in (FURTHER, KEPT) and back.f1 >= back.before
    # A step of a rate that ruins weights: they stay.
    ruined = learn(library, source("look:rooms=6,first=72300", "self", 0), Steps(steps=2, batch=1, rate=1.0), 0,
                   name="site-1")
    after = library.task("site-1")
    assert (ruined.what, after.learned, after.memory.seen) == (KEPT, 3, 3 * before.memory.seen)
    assert after.f1 == ruined.f1 == ruined.before and len(after.descriptor.windows) == 18
    assert library.task("site-2").f1 == other.f1 and [line["what"] for line in library.history][-1] == KEPT
    # A rate of nothing: what it ends with is what it began with.
    third = learn(library, source("look:rooms=6,first=72400", "self", 0), Steps(steps=1, batch=1, rate=0.0), 0,
                  name="third", start=shipped())
    assert third.what == NEW and np.array_equal(library.task("third").weights["readout.bias"],
                                                shipped()["readout.bias"])
    fourth = learn(library, source("look:rooms=6,first=72500", "self", 0), Steps(steps=1, batch=1, rate=0.0), 0,
                   name="fourth")
    nearest = library.task(fourth.allocated.nearest).weights
    assert np.array_equal(library.task("fourth").weights["readout.bias"], nearest["readout.bias"])
    with monkeypatch.context() as other, pytest.raises(ValueError, match="not finite; take a lower rate"):
        other.setattr("brain_training.lifelong.learning.fit", lambda begin, *_, **more: {
            key: value * np.float32(np.inf) for key, value in begin.items()})
        learn(library, source("look:rooms=4", "self", 0), TINY, 0, name="fifth")
    assert library.names() == ["fourth", "site-1", "site-2", "third"] and len(library.tasks()) == 4
    with pytest.raises(ValueError, match="too few"):
        learn(library, source("look:rooms=1", "self", 0), TINY, 0)
