# SPDX-License-Identifier: Apache-2.0
"""All that takes a call's work, from Python and from C++, when the call fails. Arguments: which fault, which consumers.

Each rank prints one line for each consumer: its name, and what it was told.
"""
from __future__ import annotations

import os
import sys
import time
from datetime import timedelta
from typing import Any, Callable

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.parallel import DistributedDataParallel

import brain_collectives

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
LAST = WORLD - 1
Step = Callable[[], Any]


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 8))


def trains(model: nn.Module) -> Step:
    def step() -> None:
        model(torch.randn(4, 8)).sum().backward()
        model.zero_grad()
    return step


def ddp(**more: Any) -> Step:
    return trains(DistributedDataParallel(network(), bucket_cap_mb=0.0001, **more))


def hooked(hook: Any) -> Step:
    model = DistributedDataParallel(network(), broadcast_buffers=False)
    if hook is None:
        model._register_builtin_comm_hook(dist.BuiltinCommHookType.ALLREDUCE)
    else:
        model.register_comm_hook(None, hook)
    return trains(model)


def joined() -> Step:
    model = DistributedDataParallel(network(), broadcast_buffers=False)

    def step() -> None:
        with model.join():
            model(torch.randn(4, 8)).sum().backward()
    return step


def sharded() -> Step:
    from torch.distributed.fsdp import fully_shard  # as below: seconds, of which others have no need

    model, mesh = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8)), init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in model:
        fully_shard(layer, mesh=mesh)
    return trains(fully_shard(model, mesh=mesh))


def pipeline() -> Step:
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

    size = dist.get_world_size()    # the first of all ranks are left
    schedule = ScheduleGPipe(PipelineStage(nn.Linear(8, 8), RANK, size, torch.device("cpu")), 2,
                             loss_fn=nn.functional.mse_loss)
    return lambda: schedule.step(*[torch.randn(4, 8)] if RANK == 0 else [],
                                 **{"target": torch.randn(4, 8)} if RANK == size - 1 else {})


def tensor() -> Step:
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    spread = distribute_tensor(torch.ones(6, 2), mesh, [Shard(0)])
    return lambda: spread.redistribute(mesh, [Replicate()]).to_local().sum()


def called() -> dist.Work:
    work = dist.all_reduce(torch.ones(4), async_op=True)
    assert work is not None
    return work


def coalesced() -> Any:
    with dist._coalescing_manager(async_ops=True) as manager:
        dist.all_reduce(torch.ones(3))
        dist.all_reduce(torch.ones(3))
    return manager.wait()


def functional(waited: bool) -> Step:
    """As the compiler calls them; what nobody waits for is no reason to end badly."""
    import torch.distributed._functional_collectives as functions

    def step() -> None:
        found = functions.all_reduce(torch.ones(4), "sum", dist.group.WORLD)
        if waited:
            functions.wait_tensor(found)
        else:
            called().get_future()
            dist.barrier()
    return step


CONSUMERS: dict[str, Callable[[], Step]] = {
    "DDP": lambda: ddp(broadcast_buffers=False), "buffers": ddp, "unused": lambda: ddp(find_unused_parameters=True),
    "static": lambda: ddp(static_graph=True), "hook": lambda: hooked(fp16_compress_hook),
    "built-in hook": lambda: hooked(None), "join": joined, "FSDP2": sharded, "pipeline": pipeline, "DTensor": tensor,
    "wait": lambda: lambda: called().wait(), "future": lambda: lambda: called().get_future().wait(),
    "then": lambda: lambda: called().get_future().then(lambda done: done.value()[0]).wait(),
    "collected": lambda: lambda: torch.futures.wait_all([called().get_future(), called().get_future()]),
    "functional": lambda: functional(True), "unwaited": lambda: functional(False), "coalesced": lambda: coalesced,
}


def failed(step: Step, fault: str) -> str:
    """What this rank is told where the last one does something else."""
    try:
        while True:
            if RANK == LAST and fault == "another call":
                dist.all_gather([torch.ones(1) for _ in range(WORLD)], torch.ones(1))
            elif RANK == LAST and fault == "late":
                sys.stdin.readline()
                return "was late"
            else:
                step()
    except Exception as error:
        return f"{time.time()} {type(error).__name__} {error}".replace("\n", " ")


def main() -> None:
    fault, path, *names = sys.argv[1:]
    store = dist.FileStore(path, WORLD)
    for name in names or CONSUMERS:
        own = dist.PrefixStore(name, store)
        dist.init_process_group("zenoh", store=own, rank=RANK, world_size=WORLD, timeout=timedelta(seconds=60.0))
        step = CONSUMERS[name]()
        for _ in range(2):
            step()
        dist.barrier()
        own.set(f"ready {RANK}", "")    # who is late out of the barrier would be told there of what is wrong after it
        own.wait([f"ready {rank}" for rank in range(WORLD)])
        if fault == "late":
            dist.group.WORLD.set_timeout(timedelta(seconds=2.0))
        print("calling", flush=True)
        print(f"{name}: {failed(step, fault)}", flush=True)
        del step
        if fault == "stopped":      # else the group is closed when the last rank wakes
            sys.stdin.readline()
        if fault == "killed":
            brain_collectives.shrink()
            CONSUMERS[name]()()
            dist.barrier()
            print("goes on", dist.get_world_size(), flush=True)
        dist.destroy_process_group()


main()
