# SPDX-License-Identifier: Apache-2.0
"""What a parameter server and its workers answer one another, without the wire between them."""
from __future__ import annotations

import asyncio
import json
import time
from types import SimpleNamespace

import pytest

from brain_training.checkpoint import CheckpointError
from brain_training.parameter_server import server as serving
from brain_training.parameter_server.client import Servers
from brain_training.parameter_server.durable import Durable
from brain_training.parameter_server.messages import (Member, Parts, PROTOCOL, RegisterRequest, Report, Round,
                                                      Taken)
from brain_training.parameter_server.mode import Mode
from brain_training.parameter_server.places import Deal
from brain_training.parameter_server.refused import Refused
from brain_training.parameter_server.server import MOST_EPOCHS, Server
from brain_training.parameter_server.shard import Shard
from brain_training.parameter_server.shares import Shares
from brain_training.parameter_server.together import RESTARTS, Together, train_with_servers
from brain_training.parameter_server.worker import ServedTrainer
from brain_training.task import TrainingError

STEPS = 30
PATIENCE = 60.0     # s until what should end is given up


def opened(served, *, mode="sync", **more):
    """A server's shard with two workers, of a training of STEPS steps."""
    held = Durable(Shard(served.Sums(), 3, workers=2, mode=Mode.of(mode), **more), None, 4)
    held.shard.begin(STEPS)
    for rank in range(2):
        held.join(rank, rank + 1, f"worker {rank}", STEPS)
    return held


def member(rank):
    return Member(rank=rank, epoch=rank + 1)


def test_a_false_epoch_does_not_close_a_place_for_good(served, tmp_path):
    def shown(server, epoch, identity):
        request = RegisterRequest(protocol=PROTOCOL, identity=identity, about=json.dumps(server._shard.about),
                                  steps=STEPS, member=Member(rank=0, epoch=epoch))
        return asyncio.run(server._on_register(request)).member.epoch

    def started():
        return Server(Durable(Shard(served.Sums(), 3, workers=2, server=1, servers=2), tmp_path, 4))

    server = started()
    assert shown(server, MOST_EPOCHS - 1, "who lies") == MOST_EPOCHS - 1
    with pytest.raises(Refused, match="has its place"):
        shown(server, 1, "who came first")
    server._heard.clear()       # its lease has ended
    assert shown(server, 2, "who comes then") == 2
    server._held.close()
    again = started()
    assert again._shard.places.of("who comes then") == (0, 2), "as the log has it"
    again._held.close()


def test_a_report_of_another_number_of_samples_ends_nobodys_training():
    trainer = object.__new__(ServedTrainer)
    for told, hard in (([4, 4], 8), ([4, 1], None), ([0, 0], None)):
        reports = [Report(loss=1.0, hard=[0.5] * number) for number in told]
        trainer._of_step = lambda step: reports     # type: ignore[method-assign]
        lost = trainer._together(0, range(8))
        assert (lost.hard is None) if hard is None else (len(lost.hard) == hard)


@pytest.mark.parametrize("identity", ["", "x" * 65])
def test_an_identity_is_short_and_not_empty(served, identity):
    server = Server(opened(served))
    request = RegisterRequest(protocol=PROTOCOL, identity=identity, about="{}", steps=STEPS)
    with pytest.raises(Refused, match="the worker's identity must have 1 to 64 characters"):
        asyncio.run(server._on_register(request))
    request.identity = "x" * 64
    with pytest.raises(Refused, match="of another training"):
        asyncio.run(server._on_register(request))


def test_a_step_whose_answer_was_lost_is_dealt_out_again_and_who_is_waited_for_is_named(served, monkeypatch):
    async def take(rank):
        return await server._on_take_step(member(rank))

    monkeypatch.setattr(serving, "PATIENCE", 0.01)
    server = Server(opened(served, mode="stale:0"))
    assert [asyncio.run(take(1)).step, asyncio.run(take(1)).step] == [0, 0]
    found = asyncio.run(take(0))
    assert found.wait and found.reason == "step 0 of worker 1 is still to come, and the mode is stale:0"
    server._shard.deal.finish(0)
    assert asyncio.run(take(0)).step == 1


def test_a_worker_that_is_waited_for_and_is_gone_is_named_so(served, monkeypatch):
    monkeypatch.setattr(serving, "PATIENCE", 0.01)
    server = Server(opened(served), lease=60.0)
    server._heard = {0: time.monotonic(), 1: time.monotonic() - 61.0}
    found = asyncio.run(server._on_await_norms(Round(member=member(0), sequence=0)))
    assert not found.ready
    assert found.reason == "step 0 waits for worker 0, worker 1 (its lease has ended)"


@pytest.mark.parametrize("patience", [3600.0, 0.0])
def test_a_server_that_is_started_again_after_the_end_waits_for_a_worker_that_writes_the_weights(
        served, monkeypatch, patience):
    async def over(came):
        server = Server(held, lease=0.01)
        server._came = came
        running = asyncio.create_task(server.run())
        done, _ = await asyncio.wait([running], timeout=PATIENCE if patience == 0.0 or came else 0.5)
        running.cancel()
        return bool(done)

    monkeypatch.setattr(serving, "LATE", patience)
    held = opened(served)
    held.shard.version = STEPS
    for rank in range(2):
        held.shard.places.leave(rank)
    assert asyncio.run(over(True))
    assert asyncio.run(over(False)) is (patience == 0.0)


def test_steps_may_be_done_in_any_order():
    deal = Deal()
    for step in range(4):
        deal.give(step, 0, 1)
    deal.finish(2)
    assert [deal.done(step) for step in range(4)] == [False, False, True, False]
    deal.finish(0)
    deal.finish(1)
    assert [deal.done(step) for step in range(4)] == [True, True, True, False]
    assert deal.state()["all"] == 3 and not deal.state()["done"]


def test_a_training_is_over_where_all_its_steps_are_done(served):
    fresh = Shard(served.Sums(), 3, workers=2, mode=Mode.of("sync"))
    assert not fresh.finished       # nobody has said how many steps there are
    other = opened(served, mode="async", server=1, servers=2).shard
    for version, over in ((STEPS - 1, False), (STEPS, True)):
        other.version = version
        assert other.finished is over


def test_parts_are_waited_for_until_the_step_is_done_without_them(served):
    shard = opened(served).shard
    seen = []

    async def waits(ready):
        seen.append(ready())
        shard.version = 1       # with the push of who had the place before
        seen.append(ready())

    async def nobody():
        return None

    found = asyncio.run(Shares(2).answer(Parts(member=member(0), parts=[b"1"], wait=True), 0, shard, waits, nobody))
    assert seen == [False, True] and found.passed


# -- the workers' side -------------------------------------------------------------------------------------------------

def test_who_waits_for_a_step_is_told_why():
    answers = [Taken(wait=True, reason="step 0 is still to come"), Taken(step=4), Taken(wait=True), Taken(step=5),
               Taken(finished=True)]
    servers, told = object.__new__(Servers), []
    servers.member, servers.links = member(0), [SimpleNamespace(ask=lambda name, request: answers.pop(0))]
    assert servers.take(told.append) == 4 and told == ["step 0 is still to come"]
    assert servers.take() == 5 and servers.take(told.append) is None and len(told) == 1


def test_a_curriculum_is_left_once_for_each_of_its_parts():
    values, pushed = {"chapter": 1}, []
    trainer = object.__new__(ServedTrainer)
    trainer.rank, trainer._shared = 0, None     # type: ignore[misc]
    trainer.task = SimpleNamespace(state=lambda: ({}, dict(values)))
    trainer.servers = SimpleNamespace(push_curriculum=lambda step, tensors, values: pushed.append((step, values)))
    for step in range(3):
        trainer._share_curriculum(step)
    values["chapter"] = 2
    trainer._share_curriculum(3)
    assert pushed == [(0, {"chapter": 1}), (3, {"chapter": 2})]


def test_a_process_that_ends_by_itself_ends_the_training_and_one_that_is_killed_is_started_again():
    together = object.__new__(Together)
    together.restarts = 0
    with pytest.raises(TrainingError, match="worker 1 ended with 0; what it said stands above"):
        together._count("worker 1", 0)
    for _ in range(RESTARTS):
        together._count("worker 1", -9)
    with pytest.raises(TrainingError, match="something kills them"):
        together._count("worker 1", -9)


def test_a_training_does_not_go_on_in_a_folder_of_another_number_of_servers(served, tmp_path):
    (tmp_path / "shard-0-of-3.checkpoint").touch()
    with pytest.raises(CheckpointError, match="kept by another number of servers, and this training has 2; give ps=3"):
        train_with_servers(served.Sums(), 3, servers=2, folder=tmp_path, resume=True)
