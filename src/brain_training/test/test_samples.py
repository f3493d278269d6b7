# SPDX-License-Identifier: Apache-2.0
"""A sample is a function of (seed, index): in any order, in any process, whatever was made before."""
from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from brain_regions.motor.network import SpikingPolicy
from brain_regions.motor.weights import load
from brain_training import tasks
from brain_training.motor import MotorTask
from brain_training.motor_data import Dealer, drive

INDICES = (0, 5, 11, 3, 40, 23)     # of two steps or more in all tasks, and two epochs of vision


def made(name: str, seed: int = 5):
    """A task with all that its first samples are made from, and its network."""
    torch.set_num_threads(1)    # as in another process
    task = tasks.load(name)(quick=True)
    task.prepare(seed, lambda *news: None)
    network = task.build(seed)
    if name == "motor":         # its samples come from rounds that networks drove
        task.begin(seed, task.steps - 1, network, lambda *news: None)
    return task


def digest(sample) -> str:
    found = hashlib.sha256()
    for part in sample:
        found.update(np.asarray(part).tobytes())
    return found.hexdigest()


@pytest.mark.slow
@pytest.mark.extended("language", "vision")
@pytest.mark.parametrize("name", tasks.names())
def test_samples_are_the_same_in_another_order_and_in_another_process(name):
    task = made(name)
    here = {index: digest(task.sample(5, index)) for index in INDICES}
    assert len(set(here.values())) == len(INDICES)
    assert {index: digest(task.sample(5, index)) for index in reversed(INDICES)} == here
    code = (f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import test_samples as t\n"
            f"task = t.made({name!r})\nprint(*(t.digest(task.sample(5, index)) for index in {INDICES[::-1]}))")
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=400)
    assert other.stdout.split() == [here[index] for index in INDICES[::-1]], other.stderr


@pytest.mark.parametrize("name", tasks.names())
def test_another_seed_has_other_samples(name):
    one, other = made(name), made(name, 6)
    assert all(digest(one.sample(5, index)) != digest(other.sample(6, index)) for index in INDICES)


@pytest.mark.parametrize("name", ["vision", "language"])
def test_one_sample_alone_is_that_of_a_whole_training(name):
    """Nothing has to be prepared, so that a process makes no more than its part."""
    alone = tasks.load(name)(quick=True)
    assert digest(alone.sample(5, 23)) == digest(made(name).sample(5, 23))


def test_what_a_robot_senses_depends_on_no_other_robot():
    dealer, policy = Dealer(3, first_seed=70_000), SpikingPolicy(load().tensors)
    every = drive(4, 2, policy, 0.6, range(10), dealer, 40)
    some = drive(4, 2, policy, 0.6, [7, 2, 3], dealer, 40)
    for field, whole, part in zip(every._fields, every, some):
        assert np.array_equal(whole[:, [7, 2, 3]], part, equal_nan=True), field
    later, other = (drive(*which, policy, 0.6, [7], dealer, 40) for which in ((4, 3), (5, 2)))
    assert not np.array_equal(every.senses[:, [7]], later.senses, equal_nan=True)
    assert not np.array_equal(every.senses[:, [7]], other.senses, equal_nan=True)


def test_what_is_sensed_depends_on_who_drives():
    dealer = Dealer(2, first_seed=70_000)
    trained, fresh = SpikingPolicy(load().tensors), MotorTask(quick=True).build(0).live()
    one, other = (drive(4, 2, driver, 1.0, [1, 2], dealer, 40) for driver in (trained, fresh))
    assert np.array_equal(one.senses[0], other.senses[0], equal_nan=True)
    assert not np.array_equal(one.senses[-1], other.senses[-1], equal_nan=True)


def test_rounds_are_driven_with_the_weights_of_their_time():
    task = MotorTask(quick=True)
    task.prepare(0, lambda *news: None)
    network = task.build(0)
    task.begin(0, 0, network, lambda *news: None)
    assert len(task.state()[1]["drivers"]) == 1
    with torch.no_grad():
        network.w0 += 0.1
    first = task.round(task.steps - 1)
    task.begin(0, task.steps - 1, network, lambda *news: None)
    tensors, values = task.state()
    assert len(values["drivers"]) == 2 == len(set(values["drivers"])) == first + 1
    again = MotorTask(quick=True)
    again.restore(tensors, values)
    assert digest(again.sample(0, 90)) == digest(task.sample(0, 90))


@pytest.mark.parametrize("which", ["spiking", "ann"])
@pytest.mark.parametrize("name", ["vision", "motor"])
def test_the_loss_is_bound_to_no_device(name, which):
    """On a device without numbers; that of language asks how many words there are, which is a number."""
    task = tasks.load(name)(which, quick=True)
    if name == "motor":
        task.prepare(5, lambda *news: None)
        task.begin(5, 0, task.build(5), lambda *news: None)
    batch = task.collate([task.sample(5, index) for index in range(3)])
    network = task.build(5).to("meta")
    lost = task.loss(network, tuple(part.to("meta") for part in batch), np.random.default_rng(0))
    lost.value.backward()
    assert lost.value.is_meta and all(p.grad is not None and p.grad.is_meta for p in network.parameters())
