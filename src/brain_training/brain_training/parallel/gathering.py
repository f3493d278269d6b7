# SPDX-License-Identifier: Apache-2.0
r"""Spikes forward and gradients backward between the processes that share a layer's columns.

Each process (rank) computes the spikes of its own columns, see :mod:`brain_collectives.columns`, whose parts and whose
packing are used here. What goes over the wire:

===========================  ==============================================  ==========================================
                             forward                                         backward
===========================  ==============================================  ==========================================
:meth:`Gathering.spikes`     own columns -> all columns, 1 bit a spike,      floats of all columns -> sum of own columns
                             or a float a rate                               (once a train of which the mean counts)
:meth:`Gathering.copied`     nothing                                         floats, the sum of all ranks'
:meth:`Gathering.summed`     floats, the sum of all ranks'                   nothing
===========================  ==============================================  ==========================================

A tensor that all ranks have the same is used in two ways, and its gradient is made in two ways. Where each rank feeds
it to its own columns (*shared*), each rank's gradient is a part, and the parts are summed up. Where all ranks do the
same with it (*whole*: a readout, the loss), each has all of the gradient, and nothing is sent. :meth:`Gathering.spikes`
gives the gathered spikes for both at once, so that the sum is made for own columns alone (reduce-scatter, half of what
an all-reduce sends).

M. Shoeybi and others: Megatron-LM: Training Multi-Billion Parameter Language Models Using Model Parallelism, 2019,
section 3, whose operators f and g are ``copied`` and ``summed``.
"""
from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from brain_collectives.columns import packed, packed_size, parts, unpacked


class Gathering:
    """Exchange among the ranks of a group for layers that are split by columns.

    Args:
        group: of torch.distributed, of any backend that has all_gather, reduce_scatter and all_reduce for the device;
            None: the default one.

    Attributes:
        rank, size: of this process in the group, and how many there are.
        bytes: that this rank handed over to be sent, by direction: ``forward``, ``backward``; those of ``rates``
            apart. As a ring sends them: (size - 1) times its part for a gathering or a reduce-scatter,
            2 (size - 1) / size of the whole for a sum.
        floats: bytes that the spikes of ``forward`` would have been as floats.
    """

    def __init__(self, group: dist.ProcessGroup | None = None) -> None:
        self.group = group
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        self.bytes: Counter[str] = Counter()
        self.floats = 0

    def __deepcopy__(self, memo: dict) -> Gathering:
        return self     # a group is no thing to copy

    def own(self, columns: int) -> slice:
        """Returns the slice of ``columns`` that is this rank's. Raises ValueError where there are fewer than ranks."""
        return parts(columns, self.size)[self.rank]

    # -- what autograd knows of ------------------------------------------------------------------------------------

    def spikes(self, own: Tensor, columns: int, dim: int, rates: bool = False) -> tuple[Tensor, Tensor]:
        """Spikes of all columns, twice: for what each rank feeds to its own columns, and for what all do the same with.

        Args:
            own: spikes (0 or 1) of the own columns, which are in dimension ``dim``, of any layout.
            columns: how many all ranks have.
            dim: not negative.
            rates: they are no spikes, but rates between 0 and 1.

        Returns:
            (shared, whole): the same spikes, in the layout of ``own``; see above for their gradients.
        """
        return _Spikes.apply(own, self, columns, dim, rates)

    def copied(self, x: Tensor) -> Tensor:
        """``x``, for the own columns of each rank; backward the sum of all ranks' gradients."""
        return _Copied.apply(x, self)

    def summed(self, x: Tensor) -> Tensor:
        """The sum of all ranks' ``x``, for what all do the same with; backward the gradient as it is."""
        return _Summed.apply(x, self)

    # -- what goes over the wire -----------------------------------------------------------------------------------

    def all_bits(self, own: Tensor, columns: int, dim: int) -> Tensor:
        """Spikes of all columns from those of each rank, packed to one bit each, in the layout of ``own``."""
        # as it lies in memory, and the same on all ranks where one has a single column
        order = sorted(range(own.dim()), key=lambda k: (own.stride(k), own.shape[k]), reverse=True)
        flat = own.detach().permute(order)
        at, each = order.index(dim), parts(columns, self.size)
        shape, shapes = [*flat.shape], []
        for part in each:
            shape[at] = part.stop - part.start
            shapes.append(tuple(shape))
        longest = max(map(packed_size, shapes))     # gloo's all_gather wants equal sizes
        bits = np.zeros(longest, np.uint8)
        mine = packed(flat.cpu().numpy() > 0)
        bits[:mine.size] = mine
        sent = torch.from_numpy(bits).to(own.device)
        found = [torch.empty_like(sent) for _ in range(self.size)]
        dist.all_gather(found, sent, group=self.group)
        self.bytes["forward"] += longest * (self.size - 1)
        self.floats += 4 * own.numel() * (self.size - 1)
        shape[at] = columns
        fired = np.empty(shape, bool)
        for part, size, data in zip(each, shapes, found):
            unpacked(data.cpu().numpy()[:packed_size(size)], fired[(slice(None),) * at + (part,)])
        back = [order.index(k) for k in range(own.dim())]
        return torch.from_numpy(fired).to(device=own.device, dtype=own.dtype).permute(back)

    def all_rates(self, own: Tensor, columns: int, dim: int) -> Tensor:
        """Rates of all columns from those of each rank."""
        self.bytes["rates"] += own.element_size() * own.numel() * (self.size - 1)
        return self.all_floats(own, columns, dim)

    def all_floats(self, own: Tensor, columns: int, dim: int) -> Tensor:
        """Tensors of all ranks side by side in ``dim``: parameters, for a checkpoint. It is not counted."""
        each = parts(columns, self.size)
        longest = each[0].stop
        sent = torch.zeros(longest, *own.movedim(dim, 0).shape[1:], dtype=own.dtype, device=own.device)
        sent[:own.shape[dim]] = own.detach().movedim(dim, 0)
        found = [torch.empty_like(sent) for _ in each]
        dist.all_gather(found, sent, group=self.group)
        return torch.cat([one[:part.stop - part.start] for one, part in zip(found, each)]).movedim(0, dim)

    def own_sum(self, whole: Tensor, dim: int) -> Tensor:
        """The own columns (in ``dim``) of the sum of all ranks' ``whole``: reduce-scatter."""
        each = parts(whole.shape[dim], self.size)
        longest = each[0].stop
        rows = whole.detach().movedim(dim, 0)
        if all(part.stop - part.start == longest for part in each):
            sent = rows.contiguous()
        else:
            sent = rows.new_zeros(self.size * longest, *rows.shape[1:])
            for number, part in enumerate(each):
                sent[number * longest:number * longest + part.stop - part.start] = rows[part]
        found = sent.new_empty(longest, *rows.shape[1:])
        dist.reduce_scatter_single(found, sent, group=self.group)
        self.bytes["backward"] += found.numel() * found.element_size() * (self.size - 1)
        part = each[self.rank]
        return found[:part.stop - part.start].movedim(0, dim)

    def total(self, x: Tensor, direction: str) -> Tensor:
        """The sum of all ranks' ``x``, counted as sent in ``direction``; ``x`` is not changed."""
        found = x.detach().clone(memory_format=torch.contiguous_format)
        dist.all_reduce(found, group=self.group)
        self.bytes[direction] += 2 * found.numel() * found.element_size() * (self.size - 1) // self.size
        return found


class _Spikes(torch.autograd.Function):
    """See :meth:`Gathering.spikes`."""

    @staticmethod
    def forward(ctx: Any, own: Tensor, gathering: Gathering, columns: int, dim: int, rates: bool
                ) -> tuple[Tensor, Tensor]:
        whole = (gathering.all_rates if rates else gathering.all_bits)(own, columns, dim)
        ctx.gathering, ctx.dim, ctx.part = gathering, dim, gathering.own(columns)
        ctx.set_materialize_grads(False)
        return whole, whole.detach()    # two tensors, one memory

    @staticmethod
    def backward(ctx: Any, shared: Tensor | None, whole: Tensor | None) -> tuple[Tensor | None, None, None, None, None]:
        found = None
        if shared is not None:
            once = ctx.dim > 0 and shared.stride(0) == 0     # of a mean: the same along the first axis
            found = ctx.gathering.own_sum(shared[:1] if once else shared, ctx.dim)
            found = found.expand(len(shared), *found.shape[1:]) if once else found
        if whole is not None:
            mine = whole.narrow(ctx.dim, ctx.part.start, ctx.part.stop - ctx.part.start)
            found = mine if found is None else found + mine
        return found, None, None, None, None


class _Copied(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, gathering: Gathering) -> Tensor:
        ctx.gathering = gathering
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return ctx.gathering.total(grad, "backward"), None


class _Summed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, gathering: Gathering) -> Tensor:
        return gathering.total(x, "forward")

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return grad, None
