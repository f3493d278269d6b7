# SPDX-License-Identifier: Apache-2.0
"""Trainings with parameter servers: real processes, which are killed, come to what one process comes to."""
from __future__ import annotations

import multiprocessing
import random
import threading
from pathlib import Path

import pytest

from brain_training.language import LanguageTask
from brain_training.language_loss import Recipe
from brain_training.motor import MotorTask
from brain_training.parallel.shards import ShardsTrainer
from brain_training.parameter_server.client import Servers
from brain_training.parameter_server.together import Plan, Together, train_with_servers
from brain_training.parameter_server.worker import ServedTrainer
from brain_training.task import TrainingError

pytestmark = pytest.mark.slow


def mean(values):
    return sum(values) / len(values)


def reference(task, seed, shards):
    """What one process comes to that works through the shards of each step: its network, and its losses."""
    trainer = ShardsTrainer(task, seed, shards=shards)
    return trainer.run(), trainer.losses


@pytest.mark.parametrize(("servers", "workers"), [(2, 2), (1, 3)])
def test_mode_sync_is_one_process_with_the_same_shards_to_the_bit(served, servers, workers):
    task = served.Sums()
    found = train_with_servers(task, 3, servers=servers, workers=workers)
    network, losses = reference(served.Sums(), 3, workers)
    assert found.losses == losses and served.bits(found.network) == served.bits(network)
    assert (found.restarts, found.refused) == (0, 0)
    assert mean(losses[-5:]) < 0.8 * mean(losses[:5])
    assert abs(float(network[0].bias.detach().abs().max()) - 0.2) < 1e-6        # the bound was met, and is kept there


@pytest.mark.parametrize(("servers", "workers"), [(2, 2), (1, 4)])
def test_a_loss_that_counts_over_the_whole_batch_and_a_step_of_few_samples_are_those_of_data_parallel(
        served, servers, workers):
    """Sums of the loss go by server 0; a step with fewer samples than workers is made by each."""
    from parallel_tasks import Recipe, Spikes

    recipe = Recipe(steps=22)       # two of few samples among them
    found = train_with_servers(Spikes(recipe=recipe), 5, servers=servers, workers=workers)
    network, losses = reference(Spikes(recipe=recipe), 5, workers)
    assert found.losses == losses and served.bits(found.network) == served.bits(network)


def test_batch_normalization_is_over_the_whole_batch(served):
    from parallel_tasks import Normed, Recipe

    found = train_with_servers(Normed(recipe=Recipe(steps=12)), 5, servers=2)
    network, losses = reference(Normed(recipe=Recipe(steps=12)), 5, 2)
    assert found.losses == losses and served.bits(found.network) == served.bits(network)


@pytest.mark.extended.with_args(LanguageTask)
@pytest.mark.parametrize(("cls", "how"), [(LanguageTask, {"quick": True}), (MotorTask, {"quick": True}), (
    LanguageTask, {"recipe": Recipe(sentences=32, batch=8, chapters=1), "size": "wide"})])
def test_networks_of_regions_are_one_process_with_the_same_shards_to_the_bit(served, cls, how):
    found = train_with_servers(cls(**how), 5)
    network, losses = reference(cls(**how), 5, 2)
    assert found.losses == losses and served.bits(found.network) == served.bits(network)


def test_servers_and_workers_that_are_killed_lose_nothing_that_was_acknowledged(served, tmp_path):
    """At random points of the way; a checkpoint comes after every third step, so that some kills meet one."""
    rng, steps = random.Random(1), 120
    recipe, seen, over, killed = served.Recipe(steps=steps), [0], threading.Event(), []

    def told(what, done, of, note):
        seen[0] = max(seen[0], done)

    together = Together(Plan((served.Sums, "spiking", False, recipe), 3, 2, 2, "sync", tmp_path, 3, 15.0, 1.0, 1, None,
                             None), told)

    def kill():
        for group in ("parameter server", "parameter server", "worker", "parameter server"):
            before = seen[0]
            while seen[0] < before + 2 and not over.wait(0.005):
                pass        # it goes on after the last one
            over.wait(rng.uniform(0, 0.2))
            victim = f"{group} {rng.randrange(2)}"
            if not over.is_set() and together.processes.kill(victim):
                killed.append(victim)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        together.watch()
        found = together.result()
    finally:
        over.set()
        killer.join()
        together.end()
    network, losses = reference(served.Sums(recipe=recipe), 3, 2)
    assert found.losses == losses and served.bits(found.network) == served.bits(network)
    assert found.restarts == len(killed) >= 3
    assert [Path(f"/proc/{pid}").exists() for pid in together.processes.pids.values()] == [False] * 4


def test_a_worker_that_comes_after_the_death_of_all_brings_the_servers_together(served, tmp_path):
    """The last one died when one of two servers had done the step; its place is free when its lease has ended."""
    together = Together(Plan((served.Sums, "spiking", True, None), 3, 2, 1, "sync", tmp_path, 50, 1.0, 1.0, 1, None,
                             None), lambda *what: None, workers=0)
    try:
        first = ServedTrainer(served.Sums(quick=True), 3, Servers(together.addresses))
        first._catch_up()
        first.advance()
        apply = first.servers.apply

        def half(step, norm, numbers):
            apply(step, norm, [1])
            raise InterruptedError

        first.servers.apply = half
        with pytest.raises(InterruptedError):
            first.advance()
        first.servers.close()
        versions = [one.version for one in Servers(together.addresses).descriptions]
        assert versions == [1, 2]
        second = ServedTrainer(served.Sums(quick=True), 3, Servers(together.addresses))
        assert second.servers.member.epoch == 2
        network = second.run()
        late = Servers(together.addresses)
        late.member = first.servers.member
        with pytest.raises(TrainingError, match="worker 0 of epoch 1 is not registered here"):
            late.take()
        second.servers.close(), late.close()
    finally:
        together.end()
    wanted, losses = reference(served.Sums(quick=True), 3, 1)
    assert second.losses == losses and served.bits(network) == served.bits(wanted)


@pytest.mark.parametrize("mode", ["async", "stale:1"])
def test_without_waiting_for_each_other_it_learns_each_step_once(served, mode):
    found = train_with_servers(served.Sums(), 3, mode=mode)
    assert len(found.losses) == 30 and mean(found.losses[-5:]) < 0.8 * mean(found.losses[:5])


def test_with_the_largest_tenth_of_each_gradient_it_learns(served):
    recipe = served.Recipe(steps=60)
    whole = train_with_servers(served.Sums(recipe=recipe), 3, servers=1)
    found = train_with_servers(served.Sums(recipe=recipe), 3, servers=1, keep=0.1)
    assert mean(found.losses[-10:]) < 0.8 * mean(found.losses[:10]) and found.losses[1:] != whole.losses[1:]
    assert found.sent < 0.5 * whole.sent        # with what is said of each


def test_it_goes_on_from_its_folder_and_refuses_anothers(served, tmp_path):
    first = train_with_servers(served.Sums(quick=True), 3, servers=1, folder=tmp_path)
    again = train_with_servers(served.Sums(quick=True), 3, servers=1, folder=tmp_path, resume=True)
    assert again.losses == first.losses and again.sent == 0
    assert served.bits(again.network) == served.bits(first.network)
    with pytest.raises(TrainingError, match="0-of-1.checkpoint is of another training: its seed is 3, and 4 here"):
        train_with_servers(served.Sums(quick=True), 4, servers=1, folder=tmp_path, resume=True)


def test_a_loss_that_is_no_number_ends_it_and_nothing_is_left_running(served):
    recipe = served.Recipe(steps=30, rate=1e30)
    with pytest.raises(TrainingError, match=r"the (loss|norm) of .* lower the learning rate"):
        train_with_servers(served.Sums(recipe=recipe), 3, servers=1)
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize(("wrong", "said"), [
    ({"mode": "later"}, "there is no mode 'later'"), ({"servers": 0}, "0 parameter servers"),
    ({"workers": 0}, "0 workers cannot train"), ({"keep": 0.0}, "0.0 is no share")])
def test_what_cannot_be_is_named(served, wrong, said):
    with pytest.raises(ValueError, match=said):
        train_with_servers(served.Sums(), 3, **wrong)
