# SPDX-License-Identifier: Apache-2.0
"""What the ranks of test_meshes do."""
from __future__ import annotations

import dataclasses
import hashlib
import warnings
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from brain_training.definitions import motor as motor_definition
from brain_training.definitions import vision as vision_network
from brain_training import language, motor, vision
from brain_training.parallel import chains
from brain_training.parallel.group import Ranks
from brain_training.parallel.how import How
from brain_training.parallel.plan import maker, parse
from brain_training.parallel.shards import ShardsTrainer

MICROS = 2
SHARED = ("dp=2,tp=2", "dp=2,tp=2,zero=1", "dp=2,tp=2,zero=2", "dp=2,tp=2,zero=3")
RECIPES = {
    "motor": dataclasses.replace(motor.MotorTask.tiny, rooms=3, robots=5, steps=20, rounds=1, iterations=4, batch=9),
    "language": dataclasses.replace(language.LanguageTask.tiny, sentences=40, batch=9, chapters=2),
    "vision": vision.Recipe(rooms=2, clips_per_room=2, frames=2, batch=5)}
CLASSES = {"motor": motor.MotorTask, "language": language.LanguageTask, "vision": vision.VisionTask}


def of(name: str, double: bool = False) -> Any:
    """A small task; in float64 where last bits are to be told from others."""
    cls = CLASSES[name]
    if not double:
        return cls(recipe=RECIPES[name])
    torch.set_default_dtype(torch.float64)

    class Double(cls):      # type: ignore[misc, valid-type]
        def build(self, seed: int) -> nn.Module:
            return super().build(seed).double()

        def collate(self, samples: Any) -> tuple[Tensor, ...]:
            return tuple(part.double() if part.is_floating_point() else part for part in super().collate(samples))

    return Double(recipe=RECIPES[name])


def in_double() -> None:
    """Lets what casts to single precision, in losses and encodings, stay double; in a process of its own."""
    torch.Tensor.float = torch.Tensor.double    # type: ignore[method-assign]
    for module in (vision_network, motor_definition, chains):
        def weights(*args: Any, single: Any = module.li_weights, **more: Any) -> Any:
            kept, found = single(*args, **more)
            return kept, found.double()

        module.li_weights = weights     # type: ignore[assignment]


def trainer(task: Any, plan: str, seed: int = 3, checkpoint: Any = None, **more: Any) -> Any:
    """Of all ranks."""
    how = How(parse(plan), "gloo", microbatches=MICROS if "pp" in plan else None, **more)
    how.check("cpu")
    return maker(how.plan)(task, seed, ranks=Ranks(exact=how.exact), how=how, checkpoint=checkpoint, period=1e9)


def whole_grads(found: Any) -> dict[str, Tensor]:
    """Gradients of the whole network, of all columns and all stages; all ranks call it."""
    network = found.network
    grads = {name: torch.zeros_like(p) if p.grad is None else p.grad for name, p in network.named_parameters()}
    grads = {name: g.full_tensor() if hasattr(g, "full_tensor") else g for name, g in grads.items()}
    splits = getattr(network, "splits", {})
    grads = {name: splits[name].joined(g, network.gathering) if name in splits else g.detach().clone()
             for name, g in grads.items()}
    pipeline = getattr(found, "pipeline", None)
    return grads if pipeline is None else pipeline.shared(grads)


def gradients(rank: int, name: str, plan: str, double: bool = False, exact: bool = True, schedule: str = "1f1b"
              ) -> dict:
    """Loss, gradients before they are cut, and statistics of the first step."""
    warnings.simplefilter("ignore", FutureWarning)
    if double:
        in_double()
    task = of(name, double)
    one = trainer(task, plan, exact=exact, schedule=schedule)
    with one.looking() as network:
        task.begin(3, 0, network, lambda *what: None)
    one.optimizer.zero_grad()
    lost = one.gathered(one.passed(task.indices(3, 0)))
    grads = whole_grads(one)
    buffers = {n: v for n, v in one.weights().items() if n not in grads}
    return {"value": lost.value.detach(), "hard": lost.hard, "grads": grads, "buffers": buffers, "norm": one.cut()}


def sha(network: nn.Module) -> str:
    """Of all weights and statistics."""
    found = hashlib.sha256()
    for name, value in sorted(network.state_dict().items()):
        found.update(name.encode() + value.contiguous().numpy().tobytes())
    return found.hexdigest()


def trained(rank: int, name: str, plan: str, checkpoint: Any = None, until: int | None = None, exact: bool = False
            ) -> dict:
    """Trains to the end, or from a checkpoint, or to it."""
    warnings.simplefilter("ignore", FutureWarning)
    task = of(name)
    one = trainer(task, plan, checkpoint=checkpoint, exact=exact)
    resumed = one.resume()
    while one.step < (until or one.steps):
        one.advance()
    if checkpoint and until:
        one.save()
    network = one.trained()
    cost = one.cost()
    return {"sha": sha(network), "losses": one.losses, "resumed": resumed, "state": network.state_dict(),
            "held": [dataclasses.asdict(held) for held in cost.held], "whole": dataclasses.asdict(cost.whole),
            "sent": cost.sent, "rank": dist.get_rank()}


def reference(rank: int, name: str, shards: int, micros: int, double: bool = False) -> dict:
    """The same by one process that works through shards, and their micro-batches."""
    if double:
        in_double()
    task = of(name, double)
    one = ShardsTrainer(task, 3, shards=shards, micros=micros)
    task.begin(3, 0, one.network, lambda *what: None)
    lost = one.passed(task.indices(3, 0))
    grads = {n: p.grad.clone() for n, p in one.network.named_parameters()}
    return {"value": lost.value, "hard": lost.hard, "grads": grads, "buffers": dict(one.network.named_buffers()),
            "norm": one.cut()}


def all_forms(rank: int, name: str, checkpoint: Any) -> dict:
    """One start of many processes for all that is asked of them."""
    plan = "dp=2,pp=2,tp=2"
    found = {"first": gradients(rank, name, plan), "trained": trained(rank, name, f"{plan},zero=1", checkpoint, 3)}
    return {**found, "double": gradients(rank, name, plan, True)}


def shared_out(rank: int, name: str, checkpoint: Any) -> dict:
    """Split layers with every level of ZeRO; and one that is saved, and goes on as pipelines."""
    found = {plan: trained(rank, name, plan, exact=True) for plan in SHARED}
    found["saved"] = trained(rank, name, SHARED[-1], checkpoint, 2, True)
    dist.barrier()
    return {**found, "dp=2,pp=2,zero=1": trained(rank, name, "dp=2,pp=2,zero=1", checkpoint)}


WIDE = {"language": language.LanguageTask, "motor": motor.MotorTask}


def wide(name: str) -> Any:
    """The task of a wide network."""
    return WIDE[name](recipe=RECIPES[name], size="wide")


def all_wide(rank: int, plan: str) -> dict:
    """A step of wide networks."""
    warnings.simplefilter("ignore", FutureWarning)
    found = {}
    for name in WIDE:
        one = trainer(wide(name), plan)
        one.advance()
        found[name] = {"losses": one.losses, "state": one.trained().state_dict()}
    return found
