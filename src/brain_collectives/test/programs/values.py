# SPDX-License-Identifier: Apache-2.0
"""All collectives with all dtypes, against values that each rank computes by itself from everybody's seeds.

Argument: ``peers``, or nothing for what the environment says.
"""
from __future__ import annotations

import os
import shutil
import tempfile
from datetime import timedelta
from functools import reduce

import torch
import torch.distributed as dist

import brain_collectives

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
DTYPES = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16,
          torch.float32, torch.float64, torch.complex64, torch.complex128]
# Below and above the size from which all_reduce goes by chunks, empty, and no multiple of any number of ranks.
SHAPES = [(), (0,), (5,), (3, 7), (70001,)]
checks = 0


def data(rank: int, dtype: torch.dtype, shape: tuple[int, ...], seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1000 * seed + rank)
    if dtype == torch.bool:
        return torch.rand(shape, generator=generator) < 0.5
    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(shape, generator=generator, dtype=torch.complex64 if dtype.is_complex else None).to(dtype)
    return torch.randint(0, 5, shape, generator=generator).to(dtype)


def same(found: torch.Tensor, wanted: torch.Tensor, what: str) -> None:
    global checks
    checks += 1
    assert found.dtype == wanted.dtype and found.shape == wanted.shape, what
    assert found.numel() == 0 or torch.equal(bits(found), bits(wanted)), f"{what}: {found} is not {wanted}"


def bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.clone(memory_format=torch.contiguous_format).reshape(-1).view(torch.uint8)


def reduced(operation: str, parts: list[torch.Tensor]) -> torch.Tensor:
    """In rank order, one after the other."""
    functions = {"SUM": lambda a, b: a + b, "AVG": lambda a, b: a + b, "PRODUCT": lambda a, b: a * b,
                 "MIN": torch.minimum, "MAX": torch.maximum, "BAND": lambda a, b: a & b, "BOR": lambda a, b: a | b,
                 "BXOR": lambda a, b: a ^ b}
    total = reduce(functions[operation], parts)
    if operation == "AVG":
        if total.is_complex():      # torch takes complex numbers for pairs of real ones
            total = torch.view_as_complex(torch.view_as_real(total) / len(parts))
        else:
            total = total / len(parts) if total.is_floating_point() else total // len(parts)
    return total


def operations(dtype: torch.dtype) -> list[str]:
    if dtype == torch.bool:
        return ["SUM", "MIN", "MAX", "BAND", "BOR", "BXOR"]
    if dtype.is_complex:
        return ["SUM", "AVG"]
    if dtype.is_floating_point:
        return ["SUM", "AVG", "PRODUCT", "MIN", "MAX"]
    return ["SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR"]


def reductions() -> None:
    for dtype in DTYPES:
        for shape in SHAPES:
            parts = [data(rank, dtype, shape) for rank in range(WORLD)]
            for operation in operations(dtype):
                wanted, name = reduced(operation, parts), f"{operation} of {dtype}{shape}"
                op = getattr(dist.ReduceOp, operation)
                mine = parts[RANK].clone()
                dist.all_reduce(mine, op)
                same(mine, wanted, f"all_reduce {name}")
            mine = parts[RANK].clone()
            work = dist.all_reduce(mine, dist.ReduceOp.SUM, async_op=True)
            work.wait()
            assert work.is_completed()
            same(mine, reduced("SUM", parts), f"async all_reduce of {dtype}{shape}")
            root = WORLD - 1
            mine = parts[RANK].clone()
            dist.reduce(mine, root)
            if RANK == root:
                same(mine, reduced("SUM", parts), f"reduce of {dtype}{shape}")
    no_numbers()
    for dtype in DTYPES:
        parts = [[data(rank, dtype, (4, 3), seed) for seed in range(WORLD)] for rank in range(WORLD)]
        wanted = reduced("SUM", [of_rank[RANK] for of_rank in parts])
        output = torch.empty_like(parts[RANK][0])
        dist.reduce_scatter(output, [part.clone() for part in parts[RANK]])
        same(output, wanted, f"reduce_scatter of {dtype}")
        output = torch.empty_like(output)
        dist.reduce_scatter_tensor(output, torch.cat(parts[RANK]))
        same(output, wanted, f"reduce_scatter_tensor of {dtype}")
    spread = torch.arange(12.0).reshape(3, 4).t()
    dist.all_reduce(spread)
    same(spread, torch.arange(12.0).reshape(3, 4).t() * WORLD, "all_reduce of what is not contiguous")
    # One element counts as contiguous, whatever its stride is.
    one = torch.arange(6.0).reshape(3, 2)[:1, 1]
    dist.all_reduce(one)
    same(one, torch.tensor([float(WORLD)]), "all_reduce of one element of a column")
    dist.broadcast(one, WORLD - 1)
    found = [torch.zeros(3, 2)[:1, 1] for _ in range(WORLD)]
    dist.all_gather(found, one)
    same(torch.cat(found), torch.full((WORLD,), float(WORLD)), "all_gather of one element of a column")


def no_numbers() -> None:
    """NaN of one rank is NaN at all, in each operation and for both ways of adding; so are infinities of two signs."""
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        for shape in ((6,), (70001,)):
            parts = [data(rank, dtype, shape) for rank in range(WORLD)]
            parts[WORLD - 1].view(-1)[0] = float("nan")
            parts[0].view(-1)[1], parts[WORLD - 1].view(-1)[1] = float("inf"), float("-inf")
            for operation in operations(dtype):
                mine, wanted = parts[RANK].clone(), reduced(operation, parts)
                dist.all_reduce(mine, getattr(dist.ReduceOp, operation))
                name = f"all_reduce {operation} of no numbers, {dtype}{shape}"
                assert mine.view(-1)[0].isnan(), name
                assert torch.equal(mine.isnan(), wanted.isnan()), name
                same(mine.nan_to_num(0.0), wanted.nan_to_num(0.0), name)


def copies() -> None:
    for dtype in DTYPES:
        for shape in SHAPES:
            parts, name = [data(rank, dtype, shape) for rank in range(WORLD)], f"{dtype}{shape}"
            for root in {0, WORLD - 1}:
                mine = parts[RANK].clone()
                dist.broadcast(mine, root)
                same(mine, parts[root], f"broadcast of {name}")
                outputs = [torch.empty_like(mine) for _ in range(WORLD)] if RANK == root else None
                dist.gather(parts[RANK], outputs, dst=root)
                for found, wanted in zip(outputs or [], parts):
                    same(found, wanted, f"gather of {name}")
                mine = torch.empty_like(mine)
                dist.scatter(mine, [part.clone() for part in parts] if RANK == root else None, src=root)
                same(mine, parts[RANK], f"scatter of {name}")
            outputs = [torch.empty_like(mine) for _ in range(WORLD)]
            dist.all_gather(outputs, parts[RANK])
            for found, wanted in zip(outputs, parts):
                same(found, wanted, f"all_gather of {name}")
            if shape:
                whole = torch.empty((WORLD * shape[0], *shape[1:]), dtype=dtype)
                dist.all_gather_into_tensor(whole, parts[RANK])
                same(whole, torch.cat(parts), f"all_gather_into_tensor of {name}")
        exchanges(dtype)


def exchanges(dtype: torch.dtype) -> None:
    # Rank a sends a + b + 1 rows to rank b.
    sent = {(a, b): data(a, dtype, (a + b + 1, 2), b) for a in range(WORLD) for b in range(WORLD)}
    outputs = [torch.empty_like(sent[other, RANK]) for other in range(WORLD)]
    dist.all_to_all(outputs, [sent[RANK, other] for other in range(WORLD)])
    for other, found in enumerate(outputs):
        same(found, sent[other, RANK], f"all_to_all of {dtype}")
    whole = torch.empty((sum(WORLD * [RANK + 1]) + sum(range(WORLD)), 2), dtype=dtype)
    sizes = [other + RANK + 1 for other in range(WORLD)]
    dist.all_to_all_single(whole, torch.cat([sent[RANK, other] for other in range(WORLD)]), sizes, sizes)
    same(whole, torch.cat([sent[other, RANK] for other in range(WORLD)]), f"uneven all_to_all_single of {dtype}")
    equal = [data(rank, dtype, (2 * WORLD, 3)) for rank in range(WORLD)]
    output = torch.empty_like(equal[RANK])
    dist.all_to_all_single(output, equal[RANK])
    same(output, torch.cat([part[2 * RANK:2 * RANK + 2] for part in equal]), f"all_to_all_single of {dtype}")


def points() -> None:
    after, before = (RANK + 1) % WORLD, (RANK - 1) % WORLD
    for dtype in DTYPES:
        for shape in SHAPES:
            found = torch.empty_like(data(before, dtype, shape))
            work = dist.irecv(found, before, tag=3)
            dist.send(data(RANK, dtype, shape), after, tag=3)
            work.wait()
            same(found, data(before, dtype, shape), f"send and recv of {dtype}{shape}")
    # By tags, in another order than they were sent.
    for tag in (1, 2):
        dist.isend(torch.full((4,), float(tag)), after, tag=tag).wait()
    for tag in (2, 1):
        found = torch.empty(4)
        assert dist.recv(found, before, tag=tag) == before
        same(found, torch.full((4,), float(tag)), "recv by tag")
    for other in range(WORLD):
        if other != RANK:
            dist.send(torch.tensor([RANK]), other, tag=9)
    came = []
    for _ in range(WORLD - 1):
        found = torch.empty(1, dtype=torch.int64)
        source = dist.recv(found, tag=9)
        same(found, torch.tensor([source]), "recv from any source")
        came.append(source)
    assert sorted(came) == [rank for rank in range(WORLD) if rank != RANK]
    found = torch.empty(6)
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, torch.full((6,), float(RANK)), after),
                                        dist.P2POp(dist.irecv, found, before)]):
        work.wait()
    same(found, torch.full((6,), float(before)), "batch_isend_irecv")


def groups() -> None:
    halves = [list(range(0, WORLD, 2)), list(range(1, WORLD, 2))]
    made = [dist.new_group(ranks) for ranks in halves]
    own = RANK % 2
    ranks, group = halves[own], made[own]
    mine = torch.full((3,), float(RANK))
    dist.all_reduce(mine, group=group)
    same(mine, torch.full((3,), float(sum(ranks))), "all_reduce in a group")
    mine = torch.full((3,), float(RANK))
    dist.broadcast(mine, ranks[-1], group=group)
    same(mine, torch.full((3,), float(ranks[-1])), "broadcast in a group")
    dist.barrier(group=group)
    everybody = dist.new_group(list(range(WORLD)))
    # Many at once, in two groups that have the same members.
    tensors = [torch.full((9,), float(number)) for number in range(20)]
    works = [dist.all_reduce(tensor, async_op=True, group=everybody if number % 2 else None)
             for number, tensor in enumerate(tensors)]
    for number, work in enumerate(works):
        work.wait()
        same(tensors[number], torch.full((9,), float(number * WORLD)), "many at once")
    with dist._coalescing_manager(async_ops=True) as manager:
        several = [torch.full((size,), float(RANK)) for size in (1, 4, 30000)]
        for tensor in several:
            dist.all_reduce(tensor)
    manager.wait()
    for tensor in several:
        same(tensor, torch.full_like(tensor, float(sum(range(WORLD)))), "coalesced all_reduce")
    futures = dist.all_reduce(torch.ones(2), async_op=True).get_future().then(lambda done: done.value()[0].sum())
    assert futures.wait() == 2 * WORLD


def one_sided() -> None:
    """More broadcasts than a root may run ahead."""
    for number in range(200):
        mine = torch.full((4,), float(number) if RANK == 0 else -1.0)
        dist.broadcast(mine, 0)
        same(mine, torch.full((4,), float(number)), "one broadcast of many")


def objects() -> None:
    everybody: list[object] = [None] * WORLD
    if "BRAIN_ROUTER" in os.environ:    # which anybody on this machine reaches
        from torch.distributed.checkpoint._pg_transport import PGTransport
        from torch.distributed.optim import ZeroRedundancyOptimizer

        zero = ZeroRedundancyOptimizer(torch.nn.Linear(2, 2).parameters(), torch.optim.SGD, lr=0.1)
        transport = PGTransport(dist.group.WORLD, timedelta(seconds=5), torch.device("cpu"))
        for call in (lambda: dist.all_gather_object(everybody, {"a": 1}), lambda: dist.broadcast_object_list(["a"], 0),
                     zero.consolidate_state_dict, lambda: transport.recv_checkpoint(0)):
            try:
                raise AssertionError(f"objects went by a router without certificates: {call()}")
            except brain_collectives.ObjectsRefused as error:
                assert "BRAIN_SECURITY" in str(error)
        return
    dist.all_gather_object(everybody, {"rank": RANK})
    assert everybody == [{"rank": rank} for rank in range(WORLD)]
    told = [("a", 1), "b"] if RANK == 0 else [None, None]
    dist.broadcast_object_list(told, 0)
    assert told == [("a", 1), "b"]


def checkpoints() -> None:
    """torch's own are written in the background by a group of this backend, with no other beside it."""
    if "BRAIN_ROUTER" in os.environ:    # they want objects
        return
    import torch.distributed.checkpoint as dcp

    assert dist.distributed_c10d._get_pg_default_device() == torch.device("cpu")
    folder = [tempfile.mkdtemp()] if RANK == 0 else [None]
    dist.broadcast_object_list(folder, 0)
    state = {f"of {rank}": torch.full((3,), float(rank)) for rank in range(WORLD) if rank == RANK}
    dcp.async_save(state, checkpoint_id=folder[0], process_group=dist.new_group()).result()
    found = {f"of {(RANK + 1) % WORLD}": torch.zeros(3)}
    dcp.load(found, checkpoint_id=folder[0])
    same(*found.values(), torch.full((3,), float((RANK + 1) % WORLD)), "a checkpoint")
    dist.barrier()
    if RANK == 0:
        shutil.rmtree(folder[0])


def order() -> None:
    """Bits of a sum whose order shows, at every rank and in each run."""
    for shape in ((11,), (70001,)):
        parts = [data(rank, torch.float32, shape, 5) for rank in range(WORLD)]
        wanted = reduced("SUM", parts)
        for _ in range(3):
            mine = parts[RANK].clone()
            dist.all_reduce(mine)
            same(mine, wanted, "sum in rank order")
        if WORLD > 2 and wanted.numel() > 1000:
            assert not torch.equal(reduced("SUM", parts[::-1]), wanted), "the order does not show"


dist.init_process_group("zenoh", timeout=timedelta(seconds=60))
for check in (reductions, copies, points, groups, one_sided, objects, checkpoints, order):
    check()
    dist.barrier()
brain_collectives.monitored_barrier(timeout=30)
done = brain_collectives.counters()
assert done.calls["all_reduce"] > 100 and done.messages_sent > 500 and done.messages_received > 500, done
assert not done.malformed and not done.resent, done
assert dist.get_backend() == "zenoh"
dist.destroy_process_group()
print(f"checked {checks}")
