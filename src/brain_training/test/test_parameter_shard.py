# SPDX-License-Identifier: Apache-2.0
"""What a parameter server keeps and refuses, without the wire: shard, log and checkpoint."""
from __future__ import annotations

import asyncio
import json
import resource
import shutil
import zlib
from contextlib import contextmanager

import pytest
import torch

from brain_training import checkpoint
from brain_training.checkpoint import CheckpointError
from brain_training.motor import MotorTask
from brain_training.parameter_server import curriculum, tensors as wire
from brain_training.parameter_server.durable import Durable
from brain_training.parameter_server.log import HEAD, MAGIC
from brain_training.parameter_server.messages import (CurriculumHeader, Member, Parts, PROTOCOL, PullRequest,
                                                      PushHeader, RegisterRequest, Report, Step, TensorSpec)
from brain_training.parameter_server.mode import Mode
from brain_training.parameter_server.placement import placed, server_of
from brain_training.parameter_server.refused import Refused
from brain_training.parameter_server.server import LARGEST_MESSAGE, Server
from brain_training.parameter_server.shard import Shard, about, differ, largest_norm
from brain_training.parameter_server.shares import Passed, Served, Shares
from brain_training.task import TrainingError

STEPS = 30


def push(shard, rank, step, seed=0, base=None, epoch=None, **more):
    """A push of random gradients for all parameters of a shard, with its bytes."""
    rng = torch.Generator().manual_seed(1000 * seed + 10 * step + rank)
    values = {name: torch.randn(value.shape, generator=rng) for name, value in shard.parameters.items()}
    parts = [wire.raw(value) for value in values.values()]
    header = PushHeader(member=Member(rank=rank, epoch=epoch or rank + 1), sequence=step,
                        base_version=shard.version if base is None else base,
                        tensors=[wire.spec_of(name, value) for name, value in values.items()],
                        report=Report(step=step, rank=rank, loss=1.5), crc32=wire.crc(parts), norm=1e3, **more)
    return header, bytearray(b"".join(parts))


def opened(served, folder=None, *, every=4, mode="sync", seed=3, **more):
    shard = Shard(served.Sums(), seed, workers=2, mode=Mode.of(mode), **more)
    held = Durable(shard, folder, every)
    if not shard.places.ranks():
        shard.begin(STEPS)
        for rank in range(2):
            held.join(rank, rank + 1, f"worker {rank}", STEPS)
    return held


def go(held, steps):
    """Some steps of mode sync."""
    for _ in range(steps):
        step = held.shard.version
        for rank in range(2):
            assert held.push(*push(held.shard, rank, step)) is False
        held.apply(Step(sequence=step, norm=2 * sum(value**2 for value in held.shard.norms().values()) ** 0.5))


def bits(held):
    tensors, values = held.shard.state()
    return {name: value.detach().numpy().tobytes() for name, value in tensors.items()}, values


def dropped(held):
    """As a process that was killed leaves it: nothing is written any more."""
    held._closing.close()


def test_what_a_report_holds_beside_what_is_asked_is_not_kept(served):
    shard = opened(served).shard
    header, _ = push(shard, 0, 0)
    plain = header.ByteSize()
    header.report.MergeFromString(b"\xfa\xff\x03\x04abcd")    # field 8191, of another version
    assert header.ByteSize() > plain
    assert not shard.check(header) and header.ByteSize() == plain
    for hard in (float("nan"), float("inf")):
        wrong, _ = push(shard, 0, 0)
        wrong.report.hard.append(hard)
        with pytest.raises(Refused, match="hardness is no finite number"):
            shard.check(wrong)


def test_parameters_are_shared_and_stay_where_they_are():
    names = [f"layer{number}.weight" for number in range(200)]
    shares = [placed(names, server, 3) for server in range(3)]
    assert sorted(name for share in shares for name in share) == sorted(names) and min(map(len, shares)) > 40
    moved = [name for name in names if server_of(name, 4) != server_of(name, 3)]
    assert 0 < len(moved) < 90 and all(server_of(name, 4) == 3 for name in moved)
    assert server_of("layer0.weight", 3) == 0       # on every machine


@pytest.mark.parametrize(("change", "said"), [
    (lambda h: h.tensors[0].shape.__setitem__(0, 7),
     "worker 1 pushes for parameter 0.weight is F32 [7, 6], and F32 [24, 6] is expected"),
    (lambda h: setattr(h.tensors[1], "dtype", "F64"), "parameter 0.bias is F64 [24], and F32 [24] is expected"),
    (lambda h: setattr(h.tensors[1], "dtype", "pickle"), "parameter 0.bias is pickle [24]"),
    (lambda h: setattr(h.tensors[0], "name", "9.weight"), "worker 1 pushes '9.weight', which is no parameter of"),
    (lambda h: h.tensors.append(h.tensors[0]), "which is there twice"),
    (lambda h: setattr(h.tensors[0], "kept", 2**40), "0.weight keeps 1099511627776 elements of 144"),
    (lambda h: setattr(h, "base_version", 9), "gradients of version 9, which is to come; server 0 has version 2"),
    (lambda h: setattr(h, "base_version", 1), "gradients of version 1, and step 2 needs those of version 2; pull"),
    (lambda h: (setattr(h, "sequence", 3), setattr(h.report, "step", 3)), "pushes step 3, and server 0 is at step 2"),
    (lambda h: setattr(h, "sequence", 30), "step 30 of a training of 30 steps"),
    (lambda h: setattr(h.member, "epoch", 1), "worker 1 of epoch 1 is none any more: its lease had ended, and epoch 2"),
    (lambda h: setattr(h.member, "rank", 5), "worker 5 of epoch 2 is not registered here"),
    (lambda h: h.ClearField("report"), "has no report with a finite loss"),
    (lambda h: setattr(h.report, "loss", float("nan")), "no report with a finite loss, but nan"),
    (lambda h: h.report.hard.extend([0.5] * (2**18 + 1)), "reports of 262145 samples, more than 262144"),
    (lambda h: setattr(h.report, "rank", 0), "with a report of step 2 of worker 0"),
    (lambda h: setattr(h, "crc32", 1), "do not have the checksum of its header"),
    (lambda h: h.tensors.pop(), "bytes, and its header says")])
def test_a_push_that_does_not_fit_is_refused_by_name_and_changes_nothing(served, change, said):
    held = opened(served)
    go(held, 2)
    before = bits(held)
    header, data = push(held.shard, 1, 2)
    change(header)
    with pytest.raises(Refused) as refused:
        held.push(header, data)
    assert said in str(refused.value) and bits(held) == before and not held.shard.pending
    assert held.push(*push(held.shard, 1, 2)) is False      # the right one is taken


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_no_number_is_refused_by_name(served, value):
    held = opened(served)
    header, data = push(held.shard, 0, 0)
    data[8:12] = torch.tensor([value]).numpy().tobytes()
    header.crc32 = zlib.crc32(data)
    with pytest.raises(Refused, match="worker 0 pushes for parameter 0.weight 1 of 144 elements that are no finite"):
        held.push(header, data)
    assert not held.shard.pending


@pytest.mark.parametrize("places", [[5, 3], [4, 4], [-1, 2], [3, 144]])
def test_places_of_kept_elements_must_rise_within_the_tensor(served, places):
    held = opened(served)
    header, _ = push(held.shard, 0, 0)
    del header.tensors[1:]
    header.tensors[0].kept = 2
    data = wire.raw(torch.tensor(places, dtype=torch.int32)).tobytes() + wire.raw(torch.ones(2)).tobytes()
    header.crc32 = zlib.crc32(data)
    with pytest.raises(Refused, match="places of the elements of 0.weight"):
        held.push(header, bytearray(data))


def test_a_push_is_applied_once_whenever_it_comes_again(served, tmp_path):
    held, once = opened(served, tmp_path / "a"), opened(served, tmp_path / "b")
    for step in range(3):
        pushes = [push(held.shard, rank, step) for rank in range(2)]
        for number in (0, 0, 1, 0, 1):
            known = held.push(*pushes[number])
        assert known is True
        norm = 2 * sum(value**2 for value in held.shard.norms().values()) ** 0.5
        for _ in range(3):
            held.apply(Step(sequence=step, norm=norm))
        assert held.push(*pushes[0]) is True
    go(once, 3)
    assert bits(held) == bits(once)
    dropped(held), dropped(once)


@pytest.mark.parametrize("value", [1e16, -3e38])
def test_a_huge_gradient_is_refused_and_wedges_nothing(served, tmp_path, value):
    """Finite, each: it is sums and squares of them that are not, or what the weights become."""
    held = opened(served, tmp_path / "a", every=100)
    go(held, 1)
    before, size = bits(held), held._log.size
    header, data = push(held.shard, 0, 1)
    data[8:12] = torch.tensor([value]).numpy().tobytes()
    header.crc32 = zlib.crc32(data)
    with pytest.raises(Refused, match="worker 0 pushes for parameter 0.weight a gradient of norm .* at most"):
        held.push(header, data)
    assert bits(held) == before and not held.shard.pending and held._log.size == size
    go(held, 2)
    # What passes, from all workers, in all elements, has a norm and makes weights that are numbers.
    values = {name: torch.full_like(one, 0.99 * largest_norm(one.dtype, 2) / one.numel()**0.5, requires_grad=False)
              for name, one in held.shard.parameters.items()}
    for rank in range(2):
        header, _ = push(held.shard, rank, 3)
        data = bytearray(b"".join(map(wire.raw, values.values())))
        header.crc32 = zlib.crc32(data)
        held.push(header, data)
    norms = torch.tensor(list(held.shard.norms().values()))
    held.apply(Step(sequence=3, norm=float(torch.linalg.vector_norm(norms))))
    assert torch.isfinite(norms).all() and held.shard.version == 4
    assert all(torch.isfinite(one).all() for one in held.shard.parameters.values())
    dropped(held)
    assert bits(opened(served, tmp_path / "a", every=100)) == bits(held)


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_step_that_would_make_weights_that_are_no_numbers_leaves_no_trace(served, tmp_path, mode):
    held = opened(served, tmp_path / "a", mode=mode, every=100)
    shard = held.shard

    def one(step):
        if mode == "sync":
            return go(held, 1)
        held.give(step, Member(rank=0, epoch=1))
        return held.push(*push(shard, 0, step))

    one(0)
    if mode == "async":
        held.give(1, Member(rank=0, epoch=1))
    else:
        for rank in range(2):
            held.push(*push(shard, rank, 1))
    before, size = bits(held), held._log.size
    shard.task.settle = lambda network: [one.data.mul_(1e30).mul_(1e30) for one in network.parameters()]
    with pytest.raises(Refused, match="step 1 would make weights of server 0 that are no finite numbers"):
        held.push(*push(shard, 0, 1)) if mode == "async" else held.apply(Step(sequence=1, norm=1e4))
    assert bits(held) == before and held._log.size == size
    shard.task.settle = lambda network: 1 / 0       # nor where the task's own code fails
    with pytest.raises(ZeroDivisionError):
        held.push(*push(shard, 0, 1)) if mode == "async" else held.apply(Step(sequence=1, norm=1e4))
    assert bits(held) == before and held._log.size == size
    del shard.task.settle
    # nor does one that cannot be written down
    with full(tmp_path), pytest.raises(Refused, match="cannot write its log"):
        held.push(*push(shard, 0, 1)) if mode == "async" else held.apply(Step(sequence=1, norm=1e4))
    assert bits(held) == before
    held.push(*push(shard, 0, 1)) if mode == "async" else held.apply(Step(sequence=1, norm=1e4))
    assert shard.version == 2
    dropped(held)
    assert bits(opened(served, tmp_path / "a", mode=mode, every=100)) == bits(held)


def test_a_worker_does_not_choose_how_little_is_clipped(served):
    held = opened(served, mode="async")
    held.give(0, Member(rank=0, epoch=1))
    header, data = push(held.shard, 0, 0)
    header.norm = 1e-3
    with pytest.raises(Refused, match="with 0.001 for the norm of its gradients: that of server 0's part alone is"):
        held.push(header, data)
    assert held.shard.version == 0


def test_a_worker_that_is_refused_a_place_leaves_no_trace(served, tmp_path):
    async def ask(steps, identity, rank=None, epoch=0):
        request = RegisterRequest(protocol=PROTOCOL, about=json.dumps(held.shard.about), steps=steps, identity=identity)
        if rank is not None:
            request.member.rank, request.member.epoch = rank, epoch
        return await server._on_register(request)

    held = Durable(Shard(served.Sums(), 3, workers=1, server=1, servers=2, mode=Mode.of("async")), tmp_path / "a", 100)
    server = Server(held)
    before = bits(held)
    for rank, epoch, steps, why in [(None, 0, 7, "gives no places"), (5, 1, 7, "there is no place 5"),
                                    (0, 2**40, 7, "is no epoch"), (0, 1, 0, "0 is no number of steps"),
                                    (0, 1, 2**40, "is no number of steps")]:
        with pytest.raises(Refused, match=why):
            asyncio.run(ask(steps, "liar", rank, epoch))
        assert held.shard.steps == 0 and bits(held) == before
    with full(tmp_path), pytest.raises(Refused, match="cannot write its log"):
        asyncio.run(ask(9, "early", 0, 1))
    assert held.shard.steps == 0 and bits(held) == before
    asyncio.run(ask(STEPS, "worker", 0, 4))
    held.shard.deal.give(3, 0, 4)
    with pytest.raises(Refused, match="worker 0 of epoch 2 is none any more"):
        asyncio.run(ask(STEPS, "late", 0, 2))
    assert held.shard.deal.held_by(0) == [3]    # what it computes is not lost by another's wrong word
    dropped(held)


@pytest.mark.parametrize("spec, why", [(("__metadata__", (2,)), "is called __metadata__"),
                                       (("a", (0, 2**62, 2**62)), "is too large")])
def test_a_curriculum_that_no_file_can_hold_is_refused(served, tmp_path, spec, why):
    name, shape = spec
    header = CurriculumHeader(values="{}", tensors=[TensorSpec(name=name, dtype="F32", shape=shape)])
    with pytest.raises(Refused, match=why):
        curriculum.size_of(header, 0)
    # whoever writes such a file: what cannot be read does not take the place of what can
    path = tmp_path / "a.checkpoint"
    checkpoint.save(path, {"a": torch.ones(2)}, {"step": 1})
    if name == "__metadata__":
        with pytest.raises(CheckpointError, match="cannot write checkpoint"):
            checkpoint.save(path, {name: torch.ones(2)}, {"step": 2})
    assert checkpoint.load(path)[1] == {"step": 1} and [one.name for one in tmp_path.iterdir()] == [path.name]


def test_a_norm_that_cannot_be_is_refused(served):
    held = opened(served)
    with pytest.raises(Refused, match="waits for workers 0, 1"):
        held.apply(Step(sequence=0, norm=1.0))
    for rank in range(2):
        held.push(*push(held.shard, rank, 0))
    for norm in (0.0, float("nan"), float("inf"), -1.0):
        with pytest.raises(Refused, match="is not the norm of the gradient of step 0"):
            held.apply(Step(sequence=0, norm=norm))
    assert held.shard.version == 0


def test_what_is_too_old_or_was_not_dealt_out_is_refused(served):
    held = opened(served, mode="stale:1")
    pushes = {}
    for step, rank in ((0, 0), (1, 1), (2, 0)):
        held.give(step, Member(rank=rank, epoch=rank + 1))
        pushes[step] = push(held.shard, rank, step)
    with pytest.raises(Refused, match="worker 1 pushes step 2, which it was not given"):
        held.push(*push(held.shard, 1, 2))
    assert held.push(*pushes[0]) is False and held.push(*pushes[2]) is False
    with pytest.raises(Refused, match="version 0, which is 2 behind version 2 .* the mode is stale:1") as it:
        held.push(*pushes[1])
    assert it.value.status == "ABORTED" and held.shard.version == 2
    assert held.push(*push(held.shard, 1, 1)) is False and held.push(*pushes[0]) is True
    assert held.shard.deal.ahead() == 0


@pytest.mark.parametrize("text", ["", "Sync", "stale", "stale:-1", "stale:x"])
def test_a_mode_that_there_is_not(text):
    with pytest.raises(ValueError, match="there is no mode"):
        Mode.of(text)
    assert [str(Mode.of(known)) for known in ("sync", "async", "stale:4")] == ["sync", "async", "stale:4"]


# -- log and checkpoint -----------------------------------------------------------------------------------------------

def test_killed_after_any_record_it_is_as_it_was(served, tmp_path):
    held, whole = opened(served, tmp_path / "a"), opened(served)
    for step in range(7):       # a checkpoint after the fourth
        for rank in range(2):
            for one in (held, whole):
                one.push(*push(one.shard, rank, step))
            dropped(held)
            held = opened(served, tmp_path / "a")
            assert bits(held) == bits(whole) and set(held.shard.pending) == set(whole.shard.pending)
        norm = 2 * sum(value**2 for value in whole.shard.norms().values()) ** 0.5
        for one in (held, whole):
            one.apply(Step(sequence=step, norm=norm))
        dropped(held)
        held = opened(served, tmp_path / "a")
        assert bits(held) == bits(whole) and held.shard.version == step + 1
    assert sorted(path.suffix for path in (tmp_path / "a").iterdir() if path.suffix != ".lock") == [
        ".checkpoint", ".log"]
    held.close(), whole.close()


def test_a_torn_end_was_not_acknowledged_and_damage_elsewhere_is_told(served, tmp_path):
    held = opened(served, tmp_path / "a", every=100)
    go(held, 2)
    (log,) = (tmp_path / "a").glob("*.log")
    two, size = bits(held), log.stat().st_size
    held.push(*push(held.shard, 0, 2))
    dropped(held)
    whole = log.read_bytes()
    for end in (size + 1, size + 11, size + 12, size + 500, len(whole) - 1):
        log.write_bytes(whole[:end])
        torn = opened(served, tmp_path / "a", every=100)
        assert bits(torn) == two and not torn.shard.pending and log.stat().st_size == size
        dropped(torn)
    log.write_bytes(whole)
    kept = opened(served, tmp_path / "a", every=100)
    assert set(kept.shard.pending) == {0}
    dropped(kept)
    for at in (*range(len(MAGIC), len(MAGIC) + HEAD.size), 700):    # lengths and sums of a record, and its bytes
        log.write_bytes(whole[:at] + bytes([whole[at] ^ 0x40]) + whole[at + 1:])
        with pytest.raises(CheckpointError, match=r"0.log is damaged: record \d at byte \d+ .* bytes of acknowledged"):
            opened(served, tmp_path / "a", every=100)
        assert log.stat().st_size == len(whole)
    log.write_bytes(b"something else that is longer than its name")
    with pytest.raises(CheckpointError, match="is no log of this version"):
        opened(served, tmp_path / "a", every=100)


def test_stopped_between_checkpoint_and_log_it_takes_what_belongs_together(served, tmp_path):
    held = opened(served, tmp_path / "a", every=100)
    go(held, 3)
    before = bits(held)
    old = {path.name: path.read_bytes() for path in (tmp_path / "a").iterdir()}
    held.checkpoint()
    dropped(held)
    new = tmp_path / "a" / "shard-0-of-1.checkpoint"
    # The new log is there, the checkpoint that names it is not.
    (tmp_path / "b").mkdir()
    for name, data in old.items():
        (tmp_path / "b" / name).write_bytes(data)
    shutil.copy(tmp_path / "a" / "shard-0-of-1.1.log", tmp_path / "b")
    # The checkpoint is there, the old log is still, too.
    (tmp_path / "c").mkdir()
    for path in (*(tmp_path / "a").glob("*.log"), new):
        shutil.copy(path, tmp_path / "c")
    (tmp_path / "c" / "shard-0-of-1.0.log").write_bytes(old["shard-0-of-1.0.log"])
    for folder in ("b", "c"):
        again = opened(served, tmp_path / folder, every=100)
        assert bits(again) == before and len(list((tmp_path / folder).glob("*.log"))) == 1
        go(again, 1)
        dropped(again)


def test_where_the_disk_is_full_a_push_is_refused_and_comes_again(served, tmp_path):
    held, whole = opened(served, tmp_path / "a"), opened(served)
    go(held, 1), go(whole, 1)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    (log,) = (tmp_path / "a").glob("*.log")
    resource.setrlimit(resource.RLIMIT_FSIZE, (log.stat().st_size + 100, limits[1]))
    try:
        with pytest.raises(Refused, match="cannot write its log .*make room, and the workers go on") as refused:
            held.push(*push(held.shard, 0, 1))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert refused.value.status == "RESOURCE_EXHAUSTED" and not held.shard.pending
    go(held, 4), go(whole, 4)
    dropped(held)
    assert bits(opened(served, tmp_path / "a")) == bits(whole)


@contextmanager
def full(tmp_path):
    """The disk is full: not a byte more goes into the log."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    (log,) = (tmp_path / "a").glob("*.log")
    resource.setrlimit(resource.RLIMIT_FSIZE, (log.stat().st_size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_who_could_not_be_written_down_has_no_place(served, tmp_path):
    shard = Shard(served.Sums(), 3, workers=2, mode=Mode.of("sync"))
    held = Durable(shard, tmp_path / "a", 100)
    shard.begin(STEPS)
    with full(tmp_path), pytest.raises(Refused, match="cannot write its log"):
        held.join(0, 1, "worker 0", STEPS)
    assert not shard.places.ranks()
    for rank in range(2):
        held.join(rank, rank + 1, f"worker {rank}", STEPS)
    go(held, 2)
    dropped(held)
    assert opened(served, tmp_path / "a", every=100).shard.version == 2


def test_a_server_outlives_a_lease_that_ends_while_the_disk_is_full(served, tmp_path):
    async def played():
        held = opened(served, tmp_path / "a", mode="async", every=100)
        server = Server(held, lease=0.2, tell=lambda what: (told.append(what), lost.set()))
        held.give(0, Member(rank=0, epoch=1))
        running = asyncio.ensure_future(server.run())
        with full(tmp_path):
            await asyncio.sleep(1.0)    # the lease ends, and ends
            assert not running.done() and held.shard.deal.held_by(0) == [0]
        await asyncio.wait_for(lost.wait(), 60.0)
        assert not running.done() and not held.shard.deal.held_by(0)
        running.cancel()

    told, lost = [], asyncio.Event()
    asyncio.run(played())
    assert "step 0 is lost" in told[0]


def test_a_server_that_does_not_know_the_lost_steps_is_done_when_its_workers_are(served):
    shard = Shard(served.Sums(), 3, workers=2, mode=Mode.of("async"), server=1, servers=2)
    shard.begin(STEPS)
    shard.places.join(0, 1, "worker 0")
    assert not shard.finished
    shard.places.leave(0)
    assert shard.finished
    again = Shard(served.Sums(), 3, workers=2, mode=Mode.of("async"), server=1, servers=2)
    again.begin(STEPS)
    again.places.restore(shard.places.state())
    assert again.finished


def test_reports_come_in_answers_that_fit(served):
    async def read(known):
        request = PullRequest(member=Member(rank=0, epoch=1), known_reports=known)
        return [part async for part in server._on_pull_parameters(request)][0].header

    held = opened(served)
    held.shard.reports = [Report(step=step, hard=[0.5] * 1100) for step in range(1500)]
    server, found = Server(held), []
    while True:
        header = asyncio.run(read(len(found)))
        assert 0 < len(header.reports) and header.ByteSize() < LARGEST_MESSAGE
        found += header.reports
        if not header.more:
            break
    assert [report.step for report in found] == list(range(1500))


def test_a_folder_of_another_number_of_servers_is_refused(served, tmp_path):
    opened(served, tmp_path / "a").close()
    with pytest.raises(CheckpointError, match="shard-0-of-1.* by another number of servers, and this one has 2"):
        opened(served, tmp_path / "a", server=0, servers=2)


def test_a_folder_is_one_servers_alone(served, tmp_path):
    held = opened(served, tmp_path / "a")
    with pytest.raises(CheckpointError, match="another training is writing"):
        opened(served, tmp_path / "a")
    held.close()
    with pytest.raises(CheckpointError, match="of another training: its mode is 'sync', and 'async' here"):
        opened(served, tmp_path / "a", mode="async")
    with pytest.raises(CheckpointError, match="of another training: its seed is 3, and 4 here"):
        opened(served, tmp_path / "a", seed=4)


# -- what workers share of a step --------------------------------------------------------------------------------------

class Wire:
    """Two workers' ends of one server, which may lose its memory; nobody waits for ever."""

    def __init__(self, served):
        self.shard, self.shares = opened(served).shard, Shares(2)

    def ask(self, request):
        async def at_once(ready):
            return None

        async def nobody():
            return None

        answer = self.shares.answer(request, request.member.rank, self.shard, at_once, nobody)
        try:
            answer.send(None)
        except StopIteration as done:
            return done.value
        raise AssertionError("it waits")

    def worker(self, rank, given):
        """A worker that has given parts of some rounds."""
        its = Served(self.ask, 2)
        its.member = Member(rank=rank, epoch=rank + 1)
        its._given = [bytes([rank, number]) for number in range(given)]
        return its


def test_what_a_server_forgot_is_given_again_by_those_who_wait(served):
    wire_ = Wire(served)
    one = wire_.worker(1, 3)
    for number in range(3):
        wire_.ask(Parts(member=one.member, round=number, first=number, parts=[one._given[number]]))
    assert [wire_.shares.known(0, rank) for rank in (0, 1)] == [0, 3]
    wire_.shares = Shares(2)            # it was killed, and started again
    one.remind()
    assert wire_.shares.known(0, 1) == 3
    found = [wire_.ask(Parts(member=Member(rank=0, epoch=1), round=number, first=number, parts=[bytes([0, number])]))
             for number in range(3)]
    assert [list(one.parts) for one in found] == [[bytes([0, number]), bytes([1, number])] for number in range(3)]
    wire_.shares = Shares(2)
    last = one._send(2, 2, wait=True)   # who asks for the last round alone is told what is missing before it
    assert not last.ready and last.known == 0 and last.reason == "a sum of step 0 waits for worker 0"
    one._give(int(last.known))
    assert wire_.shares.known(0, 1) == 3


def test_parts_of_a_step_that_is_done_are_not_waited_for(served):
    wire_ = Wire(served)
    wire_.shard.version = 1
    with pytest.raises(Passed):
        wire_.worker(0, 1)._send(0, 0, wait=True)
    wire_.worker(0, 1).remind()


def test_workers_that_share_different_sums_are_told(served):
    wire_ = Wire(served)
    wire_.ask(Parts(member=Member(rank=1, epoch=2), parts=[b"another"]))
    one = wire_.worker(0, 0)
    with one.within(0, print), pytest.raises(TrainingError, match="do not share the same sums in step 0: this one has"):
        one.gather(torch.ones(1))
    assert len(one.gather(torch.ones(3))) == 1      # outside of a step it is the whole


def test_a_network_of_another_size_is_another_training():
    base, wide = (about(MotorTask(quick=True, size=size), 3) for size in ("base", "wide"))
    before = {what: value for what, value in base.items() if what != "size"}    # when there was one size alone
    assert differ(base, base) is differ(base, before) is differ(wide, wide) is None
    assert differ(wide, base) == differ(wide, before) == "its size is 'base', and 'wide' here"
    assert differ(base, wide) == "its size is 'wide', and 'base' here"


def test_one_element_of_a_column_is_written_like_any_other():
    column = torch.arange(6.0).reshape(3, 2)[:1, 1]     # contiguous for torch, with a stride of 2
    assert bytes(wire.raw(column)) == torch.tensor([1.0]).numpy().tobytes()
