# SPDX-License-Identifier: Apache-2.0
"""One process of a training that is measured: ``python -m experiments.training_rank ORDER``, by itself or by torchrun.

It trains some steps of a network that ships, or of a wider one, and tells what it held, sent and computed.
"""
from __future__ import annotations

import hashlib
import json
import os
import statistics
import struct
import sys
import time
import weakref
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Iterator

import torch
import torch.distributed as dist
from torch import Tensor, nn

from brain_training.parallel.how import How
from brain_training.parallel.plan import maker, parse
from brain_training.task import Task
from brain_training.trainer import Trainer
from brain_regions.vision.network import widened

TIMED = 2       # steps before those that are timed: what is made at first is not of a step


@dataclass(frozen=True)
class Order:
    """Order of a measurement.

    Attributes:
        network: ``motor``, ``language``, ``vision``, or ``layers`` (:mod:`.equal_layers`).
        width: so many times the neurons of each layer; of vision only.
        plan: as ``--parallel`` has it; empty: one process.
        shards: of one process, see ``brain train --shards``.
        steps: in all.
        batch: samples of a step; 0: as many as the task's recipe has.
        options: of :class:`How`.
        seed: of the training.
    """

    network: str
    width: int = 1
    plan: str = ""
    shards: int = 0
    steps: int = 50
    batch: int = 0
    options: dict[str, Any] = field(default_factory=dict)
    seed: int = 0

    @property
    def how(self) -> How:
        """The order as ``brain train`` has it."""
        return How(parse(self.plan) if self.plan else None, shards=self.shards, **self.options)


def task_of(order: Order) -> Task:
    """The task that ships, with few samples. No figure here depends on what they show."""
    if order.network == "motor":
        from brain_training.motor import MotorTask
        from brain_training.motor import Recipe as MotorRecipe

        batch = order.batch or MotorTask.full.batch
        return MotorTask(recipe=MotorRecipe(rooms=2, robots=batch, rounds=1, steps=16, iterations=order.steps,
                                            batch=batch))
    if order.network == "language":
        from brain_training.language import LanguageTask
        from brain_training.language_loss import Recipe as LanguageRecipe

        batch = order.batch or LanguageTask.full.batch
        return LanguageTask(recipe=LanguageRecipe(sentences=batch * order.steps, batch=batch, chapters=1))
    if order.network == "layers":
        from experiments.equal_layers import EqualLayers
        from brain_training.task import Recipe

        return EqualLayers(recipe=Recipe(steps=order.steps, batch=order.batch or EqualLayers.full.batch))
    return _vision(order)


def _vision(order: Order) -> Task:
    from brain_training.definitions.vision import SpikingVision
    from brain_training.vision import Recipe, VisionTask

    class Wide(VisionTask):
        """With more channels in each layer."""

        def build(self, seed: int) -> nn.Module:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                return SpikingVision(widened(order.width)).to(memory_format=torch.channels_last)

    batch = order.batch or VisionTask.full.batch
    return Wide(recipe=Recipe(rooms=2, clips_per_room=-(-batch // 2), epochs=order.steps + 1, batch=batch))


class Kept:
    """Bytes that autograd keeps from the forward pass to the backward pass, without parameters: the most at a time."""

    def __init__(self) -> None:
        self.now = self.most = 0
        self._uses: dict[int, int] = {}

    def pack(self, tensor: Tensor) -> _Holder | Tensor:
        """Takes a tensor in; of several that share memory, the memory counts once."""
        base = tensor if tensor._base is None else tensor._base
        if base.is_leaf and base.requires_grad:
            return tensor       # a parameter
        storage = tensor.untyped_storage()
        key, size = storage.data_ptr(), storage.nbytes()
        if not size:
            return tensor
        holder = _Holder(tensor)
        if not self._uses.get(key):
            self.now += size
            self.most = max(self.most, self.now)
        self._uses[key] = self._uses.get(key, 0) + 1
        weakref.finalize(holder, self._drop, key, size)
        return holder

    def _drop(self, key: int, size: int) -> None:
        self._uses[key] -= 1
        if not self._uses[key]:
            del self._uses[key]
            self.now -= size

    @staticmethod
    def unpack(kept: _Holder | Tensor) -> Tensor:
        """Gives it back."""
        return kept.tensor if isinstance(kept, _Holder) else kept


class _Holder:
    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor


def sha(network: nn.Module) -> str:
    """SHA-256 over names, shapes and bits of all weights."""
    found = hashlib.sha256()
    for name, value in sorted(network.state_dict().items()):
        found.update(f"{name} {tuple(value.shape)} ".encode())
        found.update(value.detach().cpu().contiguous().numpy().tobytes())
    return found.hexdigest()


def sha_of(losses: list[float]) -> str:
    """SHA-256 over the bits of the losses."""
    return hashlib.sha256(struct.pack(f"<{len(losses)}d", *losses)).hexdigest()


def _noted(network: nn.Module, steps: list[int]) -> None:
    """Takes down how many micro-steps vision's network looks for."""
    network.register_forward_pre_hook(lambda _, given: steps.append(int(given[2])) if len(given) > 2 else None)


def run(order: Order, trainer: Trainer) -> dict[str, Any]:
    """Trains, and tells what came of it in this process."""
    micro_steps: list[int] = []
    _noted(trainer.network, micro_steps)
    kept = Kept()
    pipeline = getattr(trainer, "pipeline", None)
    with torch.autograd.graph.saved_tensors_hooks(kept.pack, Kept.unpack):
        trainer.advance()
    looked = list(micro_steps)
    ranks = getattr(trainer, "ranks", None)
    sent = 0 if ranks is None else ranks.sent()[0]
    times = []
    for number in range(1, order.steps):
        if pipeline is not None and number == TIMED:
            pipeline.spans = []
        begin = time.monotonic()
        trainer.advance()
        times.append(time.monotonic() - begin)
    batch = len(trainer.task.indices(order.seed, 0))
    rest = getattr(trainer.network, "rest", None)
    plan = order.how.plan
    state = rest(-(-batch // (1 if plan is None else plan.dp))) if rest is not None else {}
    spans = [] if pipeline is None or pipeline.spans is None else [list(span) for span in pipeline.spans]
    # of shards each has a thread of its own, where nothing is counted
    return {"activations": None if order.shards else kept.most, "state": sum(map(_size, _tensors(state))),
            "micro_steps": looked, "batch": batch, "sent": None if ranks is None else (ranks.sent()[0] - sent) // (
                order.steps - 1), "step_s": statistics.median(times[TIMED:] or times), "spans": spans,
            "most": {} if pipeline is None else pipeline.sent().most,
            "crossed": None if pipeline is None else pipeline.sent()[:3]}


def _size(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _tensors(state: Any) -> Iterator[Tensor]:
    if isinstance(state, Tensor):
        yield state
    elif isinstance(state, (dict, list, tuple)):
        for value in state.values() if isinstance(state, dict) else state:
            yield from _tensors(value)


def measured(order: Order) -> dict[str, Any] | None:
    """Carries out an order and returns the figures; of ranks all parts, at rank 0, and None elsewhere."""
    torch.set_num_threads(1)
    task, how = task_of(order), order.how
    how.check("cpu")
    if how.plan is None:
        if order.shards:
            from brain_training.parallel.shards import ShardsTrainer

            trainer: Trainer = ShardsTrainer(task, order.seed, shards=order.shards)
        else:
            trainer = Trainer(task, order.seed)
        parts, cost, first = [run(order, trainer)], None, True
    else:
        from brain_training.parallel.group import Ranks

        if how.backend == "zenoh":
            import brain_collectives    # noqa: F401    (registers it)
        dist.init_process_group(how.backend or "gloo")
        ranks = Ranks(exact=how.exact)
        trainer = maker(how.plan)(task, order.seed, ranks=ranks, how=how)
        own = run(order, trainer)
        cost = trainer.cost().report()      # type: ignore[attr-defined]
        every: list[Any] = [None] * ranks.size
        dist.all_gather_object(every, own)
        parts, first = every, ranks.rank == 0
    weights = sum(_size(p) for p in trainer.network.parameters())
    network = trainer.trained()
    if dist.is_initialized():
        dist.barrier()
    return {"order": asdict(order), "parts": parts, "cost": cost, "weights_sha": sha(network), "weights": weights,
            "losses_sha": sha_of(trainer.losses)} if first else None


def main() -> None:
    """Reads an order from the command line, and writes what came of it to the file that it names."""
    found = measured(Order(**json.loads(sys.argv[1])))
    if found is not None:
        path = Path(sys.argv[2])
        path.write_text(json.dumps(found), encoding="utf-8")
    if dist.is_initialized():
        from brain_training.parallel.group import leave

        leave()
    sys.stdout.flush()
    os._exit(0)     # threads of a group may outlive it


if __name__ == "__main__":
    main()
