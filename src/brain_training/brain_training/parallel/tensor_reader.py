# SPDX-License-Identifier: Apache-2.0
"""The network of language whose layers are split over the ranks of a group.

Letters, words, recall and choice are split as the layers of the other networks. The context hears itself: its ranks
gather its spikes after every micro-step, packed, and backward sum up what each rank's columns say of all neurons, step
by step. The bytes' synapses, the readouts and what leaky integrators make of spikes are the same on all ranks.

In classic mode letters are split by columns and words by rows; the rest is as in exact mode, since the context's spikes
are with all ranks anyway.
"""
from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from brain_regions.language import sizes as z
from brain_training.definitions.language import LAYERS, SpikingReader, _Normal
from brain_regions.membranes import decay
from brain_training.parallel.gathering import Gathering
from brain_training.parallel.normalization import Place
from brain_training.parallel.tensor_networks import CLASSIC, Handing, Share, Splits


class _SplitContext(torch.autograd.Function):
    """The recurrent adaptive neurons of :mod:`brain_training.definitions.language`, own columns of them.

    ``x`` is the charge of the own neurons [steps, streams, batch, own] and ``weight`` leads to them [streams, all,
    own]. Gives the spikes of all neurons, [steps, streams, batch, all], once: what each rank does with them all do.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, gathering: Gathering) -> Tensor:
        p, columns = z.CONTEXT_NEURON, weight.shape[1]
        beta, rho = decay(p.tau), decay(p.tau_adaptation)
        v, a, s = (torch.zeros_like(x[0]) for _ in range(3))
        above = torch.empty_like(x)
        spikes = x.new_empty(*x.shape[:-1], columns)
        heard = torch.zeros_like(spikes[0])
        for t in range(len(x)):
            v = torch.baddbmm(x[t], heard, weight).add_(v, alpha=beta).sub_(s, alpha=p.threshold)
            a = a.mul_(rho).add_(s)
            torch.sub(v, a, alpha=p.adaptation, out=above[t]).sub_(p.threshold)
            s = torch.gt(above[t], 0).to(x.dtype)
            heard = spikes[t]
            heard.copy_(gathering.all_bits(s, columns, s.dim() - 1))
        ctx.save_for_backward(above, spikes, weight)
        ctx.gathering = gathering
        return spikes

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        above, spikes, weight = ctx.saved_tensors
        p, gathering = z.CONTEXT_NEURON, ctx.gathering
        part = gathering.own(weight.shape[1])
        grad = grad[..., part]
        beta, rho = decay(p.tau), decay(p.tau_adaptation)
        surrogate = above.abs().mul_(p.slope).add_(1).pow_(-2)
        grad_x, transposed = torch.empty_like(above), weight.transpose(1, 2)
        grad_v, grad_a = torch.zeros_like(above[0]), torch.zeros_like(above[0])
        for t in range(len(grad) - 1, -1, -1):
            # before the last step nothing was heard of it
            back = grad[t] if t == len(grad) - 1 else grad[t] + gathering.own_sum(
                torch.bmm(grad_v, transposed), grad_v.dim() - 1)
            grad_s = (back + grad_a).mul_(surrogate[t])
            grad_v = torch.add(grad_s, grad_v, alpha=beta, out=grad_x[t])
            grad_a.mul_(rho).sub_(grad_s, alpha=p.adaptation)
        heard, led = spikes.transpose(0, 1), grad_x.transpose(0, 1)
        return grad_x, torch.stack([b[:-1].flatten(0, 1).T @ g[1:].flatten(0, 1) for b, g in zip(heard, led)]), None


class SplitReader(Handing, SpikingReader):
    """Language."""

    whole_class = SpikingReader

    def _plan(self) -> Splits:
        found: Splits = {"recurrent": Share(2, self.sizes.context)}
        for name in LAYERS:
            columns = getattr(self.sizes, name)
            if name == "words" and self.mode == CLASSIC:
                found[name] = Share(1, self.sizes.letters, len(z.WORD_DELAYS))
            else:
                found |= {which: Share(2, columns) for which in (
                    name, *(f"{name}_{what}" for what in ("bias", "gain", "mean", "variance")))}
        return {**found, "choice": Share(1, self.sizes.choice), "choice_bias": Share(0, self.sizes.choice)}

    def _fire(self, x: Tensor, name: str) -> Tensor:
        spikes = super()._fire(x, name)
        if name == "words" and self.mode == CLASSIC:
            return spikes
        return self._handed(spikes, getattr(self.sizes, name), spikes.dim() - 1)

    def _charge(self, x: Tensor, name: str, delays: tuple[int, ...]) -> Tensor:
        self._layer = name
        return super()._charge(x, name, delays)

    def normalize(self, rows: Tensor, gain: Tensor, bias: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Over the batch, with the bits that the own columns have in their layer."""
        place = self.place(rows)
        return _Normal.apply(rows, gain, bias, place and place[1:])

    def place(self, rows: Tensor) -> Place | None:
        """Returns the place of the columns of ``rows`` in their layer; None: they are all of it."""
        columns = getattr(self.sizes, self._layer)
        return None if rows.shape[-1] == columns else (-1, self.gathering.own(columns).start, columns)

    def _remember(self, x: Tensor) -> Tensor:
        return _SplitContext.apply(x.transpose(0, 1), self.recurrent, self.gathering).transpose(0, 1)

    def _incoming(self, x: Tensor, name: str, delays: tuple[int, ...]) -> Tensor:
        if name == "words" and self.mode == CLASSIC:
            return self.gathering.summed(super()._incoming(x.own, name, delays))    # type: ignore[attr-defined]
        return super()._incoming(self._shared(x), name, delays)

    def _summed_up(self, summary: Tensor) -> Tensor:
        return super()._summed_up(self.gathering.copied(summary))

    def _empty(self) -> SpikingReader:
        return SpikingReader(self.sizes)

    def folded(self) -> Any:
        """That of the whole network; all ranks call it."""
        return SpikingReader.folded(self.whole())

    def live(self) -> Any:
        """That of the whole network; all ranks call it."""
        return SpikingReader.live(self.whole())
