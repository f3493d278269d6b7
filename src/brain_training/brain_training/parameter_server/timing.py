# SPDX-License-Identifier: Apache-2.0
"""Timing of a step on the wire: push, norm, step and pull of a parameter server beside gloo's all_reduce of as much.

``python -m brain_training.parameter_server.timing`` prints medians in ms as JSON. Nothing is trained: the gradients are
random, and the server does with them what it does with others.
"""
from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any, Callable

import torch

from brain_runtime.run.called import Call
from brain_runtime.run.processes import Processes
from brain_runtime.run.workload import NEVER, Workload
from brain_training import tasks
from brain_training.parameter_server.client import Servers
from brain_training.parameter_server.messages import Report
from brain_training.parameter_server.shard import about
from brain_training.parameter_server.together import Plan, Together

STEPS = 1000        # that the servers are told there were


def served(task: Any, servers: int, rounds: int, folder: Path) -> dict[str, float]:
    """Medians (ms) of what one worker waits for; the folder is the servers'."""
    plan = Plan((type(task), task.which, task.quick, task.recipe), 0, servers, 1, "sync", folder, 50, 60.0, 1.0, 1,
                None, None)
    together = Together(plan, lambda *what: None, workers=0)
    try:
        links = Servers(together.addresses)
        links.join(about(task, 0), STEPS)
        network = task.built(0)
        like = {**dict(network.named_parameters()), **dict(network.named_buffers())}
        gradients = {name: torch.randn(value.shape) * 1e-3 for name, value in network.named_parameters()}
        took: dict[str, list[float]] = {"push": [], "norm_and_step": [], "pull": []}
        for step in range(rounds):
            _time(took["push"], lambda: links.push(step, [step] * servers, gradients, {}, Report(step=step, loss=1.0)))
            _time(took["norm_and_step"], lambda: links.finish(step, list(gradients), torch.float32))
            _time(took["pull"], lambda: links.pull(step + 1, step, like))
        links.leave()
        links.close()
    finally:
        together.end()
    return {what: statistics.median(times[1:]) for what, times in took.items()}


def _time(into: list[float], work: Callable[[], Any]) -> None:
    begin = time.perf_counter()
    work()
    into.append(1e3 * (time.perf_counter() - begin))


def _reduce(rank: int, ranks: int, size: int, rounds: int, file: str, tell: Callable[[float], None]) -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=ranks)
    value = torch.randn(size)
    took: list[float] = []
    for _ in range(rounds):
        _time(took, lambda: torch.distributed.all_reduce(value))
    if rank == 0:
        tell(statistics.median(took[1:]))
    torch.distributed.destroy_process_group()


def reduced(size: int, ranks: int, rounds: int, folder: Path) -> float:
    """Median (ms) of gloo's all_reduce of ``size`` floats."""
    with Processes([Workload(f"rank {rank}", restart=NEVER, call=Call(
            _reduce, lambda rank=rank: (rank, ranks, size, rounds, str(folder / "meet"))))
            for rank in range(ranks)]) as all_ranks:
        heard = all_ranks.hear()
        assert heard is not None and isinstance(heard[1], float), f"{heard} is no time; what it said stands above"
        all_ranks.wait(30.0)
        return heard[1]


def main() -> None:
    """Prints what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--task", default="language")
    parser.add_argument("--servers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=20)
    given = parser.parse_args()
    torch.set_num_threads(1)
    task = tasks.load(given.task)()
    size = sum(value.numel() for value in task.built(0).parameters())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found = {"task": task.name, "parameters": size, "servers": given.servers,
                 **served(task, given.servers, given.rounds, folder),
                 "all_reduce_2_ranks": reduced(size, 2, given.rounds, folder)}
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
