# SPDX-License-Identifier: Apache-2.0
"""A batch of which this process, or this shard, has one part of several: sums in the order of ranks.

There are two sums with gradients. That of :meth:`Together.sums` is for the end of a loss, where every rank goes on with
the same numbers: the gradient of each part is that of the sum. :func:`sum_within` is for the middle of a network, where
each rank goes on with samples of its own: gradients of all ranks are summed on the way back. (Megatron-LM's g and f;
M. Shoeybi and others: Megatron-LM, 2019, section 3.)
"""
from __future__ import annotations

from abc import abstractmethod
from contextlib import contextmanager
from typing import Any, Iterable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from brain_training.whole import Whole


def bounds(count: int, size: int) -> list[int]:
    """Computes where each of ``size`` parts of ``count`` things begins and the last ends: the first ones have one more.

    It is the split of :func:`numpy.array_split`.
    """
    each, more = divmod(count, size)
    return [rank * each + min(rank, more) for rank in range(size + 1)]


def cut_alike(parameters: Iterable[nn.Parameter], clip: float) -> float:
    """Cuts gradients at a norm, as torch's ``clip_grad_norm_`` does, whose bits depend on the gradients alone.

    A GPU adds the numbers of a tensor in an order that depends on where it lies, and those of several tensors at once
    in yet another one. So each gradient's norm is taken by itself, of a copy; of one that is shared out, of the whole.

    Args:
        parameters: with gradients, of which :class:`DTensor` are shared out; then all ranks call it.
        clip: the norm that is left at most.

    Returns:
        What the norm was.
    """
    grads = [each.grad for each in parameters if each.grad is not None]
    norms = [torch.linalg.vector_norm(grad.full_tensor().contiguous() if isinstance(grad, DTensor) else grad.clone())
             for grad in grads]
    norm = torch.linalg.vector_norm(torch.stack(norms))
    share = torch.clamp(clip / (norm + 1e-6), max=1.0)
    for grad in grads:
        (grad.to_local() if isinstance(grad, DTensor) else grad).mul_(share)
    return float(norm)


def in_order(parts: Sequence[Tensor]) -> Tensor:
    """The sum of tensors, from the first to the last; they are not changed."""
    total = parts[0].clone()
    for part in parts[1:]:
        total += part
    return total


class Together(Whole):
    """One part of several."""

    def __init__(self) -> None:
        self._apart = False
        self._wrong: list[int] = []

    @abstractmethod
    def gather(self, tensor: Tensor) -> list[Tensor]:
        """The tensors that all parts give, of one shape, in the order of ranks."""

    def total(self, tensor: Tensor) -> Tensor:
        """The sum of the tensors that all parts give, in the order of ranks; without gradients."""
        parts = self.gather(tensor)
        found = in_order(parts)
        if not self._wrong and not found.isfinite().all():
            self._wrong = [rank for rank, part in enumerate(parts) if not part.isfinite().all()]
        return found

    @property
    def single(self) -> bool:
        """True while what this rank makes is no part, see :meth:`apart`."""
        return self._apart

    def __deepcopy__(self, memo: dict[int, Any]) -> Together:
        return self     # a copy of a network is of the same ranks

    @contextmanager
    def apart(self) -> Iterator[None]:
        """For a batch of fewer samples than parts, which each makes as a whole: what is in here is not summed."""
        self._apart = True
        try:
            yield
        finally:
            self._apart = False

    def wrong(self) -> list[int]:
        """Ranks that gave the first numbers that are not finite, since it was asked last."""
        found, self._wrong = self._wrong, []
        return found

    # -- what a task asks ------------------------------------------------------------------------------------------

    def sums(self, *parts: Tensor) -> tuple[Tensor, ...]:
        """See :class:`Whole`."""
        return parts if self._apart or not parts else _Sums.apply(self, *parts)

    def means(self, count: Tensor | int, *parts: Tensor) -> tuple[Tensor, ...]:
        """See :class:`Whole`."""
        return self.sums_and_means((), (count, parts))[1]

    def sums_and_means(self, sums: Sequence[Tensor], *means: tuple[Tensor | int, Sequence[Tensor]]
                       ) -> tuple[tuple[Tensor, ...], ...]:
        """See :class:`Whole`."""
        if self._apart:
            return super().sums_and_means(sums, *means)
        told, ends = list(sums), [len(sums)]
        for count, parts in means:
            if parts:
                here = torch.as_tensor(count, dtype=parts[0].dtype, device=parts[0].device)
                told += [*(part * here for part in parts), here]
            ends.append(len(told))
        total = self.sums(*told)
        found = [total[a:b] for a, b in zip(ends, ends[1:])]
        return (total[:ends[0]], *(tuple(part / each[-1] for part in each[:-1]) for each in found))

    def most(self, number: int) -> int:
        """See :class:`Whole`."""
        return number if self._apart else max(int(part) for part in self.gather(torch.tensor([number])))

    def part(self, items: Sequence[Any]) -> Sequence[Any]:
        """See :class:`Whole`."""
        ends = bounds(len(items), self.size)
        return items[ends[self.rank]:ends[self.rank + 1]]

    def joined(self, array: np.ndarray, axis: int, of: int) -> np.ndarray:
        """See :class:`Whole`."""
        ends = bounds(of, self.size)
        own = np.moveaxis(array, axis, 0)
        padded = np.zeros((ends[1], *own.shape[1:]), array.dtype)   # the first part is the greatest
        padded[:len(own)] = own
        parts = self.gather(torch.from_numpy(padded))
        whole = np.concatenate([part.numpy()[:b - a] for part, a, b in zip(parts, ends, ends[1:])])
        return np.ascontiguousarray(np.moveaxis(whole, 0, axis))


class _Sums(torch.autograd.Function):
    """Sums of several tensors in one message; the gradient of each part is that of its sum."""

    @staticmethod
    def forward(ctx: Any, whole: Together, *parts: Tensor) -> tuple[Tensor, ...]:
        dtype = torch.float32
        for part in parts:
            dtype = torch.promote_types(dtype, part.dtype)
        total = whole.total(torch.cat([part.detach().reshape(-1).to(dtype) for part in parts]))
        ctx.dtypes = [part.dtype for part in parts]
        split = total.split([part.numel() for part in parts])
        return tuple(its.reshape(part.shape).to(part.dtype if part.is_floating_point() else dtype, copy=True)
                     for its, part in zip(split, parts))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        return (None, *grads)
