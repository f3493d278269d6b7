# SPDX-License-Identifier: Apache-2.0
"""One rank: trains the tiny task in each form that is named; as a program it prints what came of it, at rank 0.

``BACKEND PLAN[/exact][/accumulate=N][/bf16][/disk][/cuda][/offload]...``: ``disk`` keeps the optimizer's state in a
folder, ``cuda`` trains on a GPU, with ``offload`` from the CPU's memory. ``@FOLDER`` at the end: it writes checkpoints.
"""
from __future__ import annotations

import os
import runpy
import sys
import tempfile
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist

from brain_training.parallel.group import Ranks, leave
from brain_training.parallel.how import How
from brain_training.parallel.plan import maker, parse
from brain_training.parallel.ranks import gpu

tasks = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("parallel_tasks.py")), run_name="parallel_tasks"))
SHORT = tasks.Recipe(steps=22)      # two of few samples among them


def train(form: str, backend: str, recipe: Any = None) -> list[str]:
    """Trains in one form; the hash of the weights, the last loss, what was held and what was sent, in words."""
    words, _, checkpoint = form.partition("@")
    plan, *more = words.split("/")
    options = dict(item.partition("=")[::2] for item in more)
    how = How(parse(plan), backend.rpartition(":")[2], exact="exact" in options,
              accumulate=int(options.get("accumulate", 1)), compress="bf16" if "bf16" in options else None,
              offload="optimizer" if "disk" in options else "all" if "offload" in options else None,
              offload_folder=Path(tempfile.gettempdir()) if "disk" in options else None)
    device = gpu(how.backend, int(os.environ["LOCAL_RANK"])) if "cuda" in options else "cpu"
    how.check(device)
    make = partial(maker(how.plan), tasks.Spikes(recipe=recipe), 5, ranks=Ranks(exact=how.exact), how=how,
                   device=device, checkpoint=Path(checkpoint) if checkpoint else None)
    trainer = make()
    network = trainer.run()
    if checkpoint:
        assert (again := make()).resume() == trainer.step and tasks.sha(again.run()) == tasks.sha(network)
        assert {made for made, _ in dist.distributed_c10d._world.pg_map.values()} == {backend}     # nothing beside it
    cost = trainer.cost()
    return [form, tasks.sha(network), repr(trainer.losses[-1]), "held", *(
        f"{max(getattr(each, kind) for each in cost.held)}/{getattr(cost.whole, kind)}"
        for kind in ("parameters", "gradients", "optimizer")), "sent", str(max(cost.sent))]


def trained(rank: int, backend: str, forms: list[str]) -> list[list[str]]:
    """All of them by fewer steps, as one of the ranks."""
    return [train(form, backend, SHORT) for form in forms]


if __name__ == "__main__":
    torch.set_num_threads(1)
    backend, *forms = sys.argv[1:]
    if backend == "zenoh":
        import brain_collectives    # noqa: F401
    dist.init_process_group(backend)
    for form in forms:
        told = train(form, backend)
        if dist.get_rank() == 0:
            print("form", *told, flush=True)
    leave()
