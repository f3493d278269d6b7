# SPDX-License-Identifier: Apache-2.0
"""Normalization by the mean and variance of a batch of which each rank has a part.

torch's SyncBatchNorm refuses the CPU. Forward each rank tells its count, mean and sum of squares around it; they are
put together as by T. Chan, G. Golub and R. LeVeque: Updating Formulae and a Pairwise Algorithm for Computing Sample
Variances, 1979. Backward the two sums that the gradient by the charge needs are taken over all ranks; the gradients of
gain and bias stay those of the own samples, for they are summed with all others.
"""
from __future__ import annotations

from typing import Any, Sequence

import torch
from torch import Tensor, nn

from brain_training.parallel.together import Together


Place = tuple[int, int, int]
"""Of some columns of a layer: their axis, the first of them, and how many the layer has."""


class _Normal(torch.autograd.Function):
    """x normalized over ``dims`` of all parts, times a gain, plus a bias; with mean, variance and count."""

    @staticmethod
    def forward(ctx: Any, whole: Together, x: Tensor, gain: Tensor, bias: Tensor, dims: tuple[int, ...], epsilon: float,
                place: Place | None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        here = x.numel() // gain.numel()
        there, columns = _in_place(x, place)
        middle = there.mean(dims, keepdim=True)
        around = (there - middle).square_().sum(dims, keepdim=True)[columns]
        middle = middle[columns]
        told = torch.stack([torch.full_like(middle, here), middle, around])
        parts = whole.gather(told)
        count = sum(part[0] for part in parts)
        mean = sum(part[0] * part[1] for part in parts) / count
        variance = sum(part[2] + part[0] * (part[1] - mean).square() for part in parts) / count
        rate = torch.rsqrt(variance + epsilon)
        scale = gain * rate
        ctx.save_for_backward(x, mean, rate, gain, count)
        ctx.whole, ctx.dims = whole, dims
        ctx.mark_non_differentiable(mean, variance, count)
        return torch.addcmul(bias - mean * scale, x, scale), mean, variance, count

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *_: Any) -> tuple[Any, ...]:
        x, mean, rate, gain, count = ctx.saved_tensors
        around = x - mean
        grad_bias = grad.sum(ctx.dims, keepdim=True)
        grad_gain = (grad * around).sum(ctx.dims, keepdim=True) * rate
        all_bias, all_gain = ctx.whole.total(torch.stack([grad_bias, grad_gain]))
        # (grad - all_bias / count - (x - mean) * rate * all_gain / count) * gain * rate, in two passes over the rows
        scale, each = gain * rate, 1.0 / count
        grad_x = torch.addcmul(-scale * all_bias * each, grad, scale)
        grad_x.addcmul_(around, -scale * rate * all_gain * each)
        return None, grad_x, grad_gain, grad_bias, None, None, None


def _in_place(x: Tensor, place: Place | None) -> tuple[Tensor, Any]:
    """Columns of a layer where they stand in it, and how they are taken out again.

    In which order torch adds up a column depends on where it stands. So those that one rank has of a layer get the bits
    that they have in the whole layer.
    """
    if place is None:
        return x, ...
    dim, first, columns = place
    axis, own = dim % x.dim(), x.shape[dim]
    shape = list(x.shape)
    shape[axis] = columns
    there = x.new_zeros(shape)
    if x.dim() == 4 and x.is_contiguous(memory_format=torch.channels_last):
        there = there.contiguous(memory_format=torch.channels_last)
    there.narrow(axis, first, own).copy_(x)
    return there, (slice(None),) * axis + (slice(first, first + own),)


def normal(whole: Together, x: Tensor, gain: Tensor, bias: Tensor, dims: Sequence[int], epsilon: float,
           place: Place | None = None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Normalizes.

    Args:
        whole: of which ``x`` is a part.
        x: charges.
        gain, bias: 1 along ``dims``, so that they fit ``x``.
        dims: those that mean and variance are taken over.
        epsilon: added to the variance.
        place: where ``x`` is some columns of a layer: their axis, the first of them, and how many the layer has.

    Returns:
        What comes of ``x``, and mean, variance (of the whole, not of a larger population) and count, as ``gain`` is.
    """
    return _Normal.apply(whole, x, gain, bias, tuple(dims), epsilon, place)


class WholeBatchNorm2d(nn.BatchNorm2d):
    """torch's batch normalization, of the whole batch. Made of one by :func:`synchronize`, with its tensors."""

    whole: Together
    place: Place | None = None      # of some channels in their layer, where ranks share it

    def forward(self, x: Tensor) -> Tensor:
        """[batch, channels, rows, columns], as torch's."""
        if not self.training or self.whole.single:
            return super().forward(x)
        shape = (1, -1, 1, 1)
        made, mean, variance, count = normal(self.whole, x, self.weight.view(shape), self.bias.view(shape), (0, 2, 3),
                                             self.eps, self.place)
        with torch.no_grad():
            self.num_batches_tracked.add_(1)
            share = 1 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
            self.running_mean.lerp_(mean.flatten(), share)
            self.running_var.lerp_((variance * (count / (count - 1))).flatten(), share)
        return made


def synchronize(network: nn.Module, whole: Together) -> None:
    """Lets torch's batch normalizations in a network be over the whole batch, in place; parameters stay the same.

    Raises:
        TypeError: there is one that this cannot be done with.
    """
    for name, module in network.named_modules():
        if not isinstance(module, nn.modules.batchnorm._BatchNorm):
            continue
        if type(module) not in (nn.BatchNorm2d, WholeBatchNorm2d) or not module.affine:
            raise TypeError(f"{name} is a {type(module).__name__}; of several ranks only nn.BatchNorm2d with weights "
                            f"can be over the whole batch: override Task.together for it")
        module.__class__ = WholeBatchNorm2d
        module.whole = whole
