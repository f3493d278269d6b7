# SPDX-License-Identifier: Apache-2.0
"""Trains a small network by DDP and by FSDP2 on the zenoh backend and on gloo; the weights must have the same bits.

With two ranks any order of a sum is the same, so gloo is the judge. Prints ``same`` for what was.
"""
from __future__ import annotations

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import brain_collectives

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
STEPS = 50          # of DDP
SHARDED_STEPS = 8    # of FSDP2, which is slower


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(24, 96), nn.Tanh(), nn.Linear(96, 96), nn.Tanh(), nn.Linear(96, 8))


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int) -> None:
    generator = torch.Generator().manual_seed(RANK + 1)
    for _ in range(steps):
        data, wanted = torch.randn(16, 24, generator=generator), torch.randn(16, 8, generator=generator)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(data), wanted).backward()
        optimizer.step()


def by_ddp() -> list[torch.Tensor]:
    model = DistributedDataParallel(network(), bucket_cap_mb=0.02)
    train(model, torch.optim.Adam(model.parameters(), 1e-3), STEPS)
    return [parameter.detach().clone() for parameter in model.parameters()]


def by_fsdp() -> list[torch.Tensor]:
    model, mesh = network(), init_device_mesh("cpu", (WORLD,))
    for layer in model:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    train(model, torch.optim.Adam(model.parameters(), 1e-3), SHARDED_STEPS)
    return [parameter.full_tensor().detach().clone() for parameter in model.parameters()]


def by_mesh() -> list[torch.Tensor]:
    """Sums along each dimension of a mesh."""
    mesh = init_device_mesh("cpu", (2, WORLD // 2), mesh_dim_names=("data", "model"))
    found = []
    for name in ("data", "model"):
        mine = torch.full((3,), float(RANK))
        dist.all_reduce(mine, group=mesh.get_group(name))
        found.append(mine)
    return found


ways = {"DDP": by_ddp, "FSDP2": by_fsdp} if WORLD == 2 else {"mesh": by_mesh, "FSDP2": by_fsdp}
weights = {}
for backend in ("zenoh", "gloo"):
    dist.init_process_group(backend)
    weights[backend] = {name: way() for name, way in ways.items()}
    if backend == "zenoh":
        calls = brain_collectives.counters().calls
        assert calls["all_reduce"] >= (STEPS if WORLD == 2 else 2) and calls["all_gather"] >= SHARDED_STEPS, calls
        assert calls["reduce_scatter"] >= SHARDED_STEPS, calls
    dist.destroy_process_group()
for name in ways:
    pairs = list(zip(weights["zenoh"][name], weights["gloo"][name]))
    if WORLD == 2 or name == "mesh":
        assert all(torch.equal(ours, theirs) for ours, theirs in pairs), name
    else:   # gloo sums in another order
        assert all(torch.allclose(ours, theirs, atol=1e-4) for ours, theirs in pairs), name
    print("same", name)
