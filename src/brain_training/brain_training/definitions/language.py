# SPDX-License-Identifier: Apache-2.0
"""The definition of the network of language, in torch, with gradients, and of its ANN baseline: what is trained.

What a region runs is made of it: :meth:`SpikingReader.live` gives :mod:`brain_regions.language.network`, in NumPy,
which says what the layers are for; tests hold both to each other. Here sentences are read in batches, layer by layer;
only the context, which hears itself, goes byte by byte. All tensors are made where the weights or the inputs are.
"""
from __future__ import annotations

import math
from typing import Mapping, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from brain_regions.language import network as live
from brain_regions.language import sizes as z
from brain_regions.language import weights
from brain_regions.membranes import decay
from brain_training.neurons import LIFState, lif_run

FIRST_GAIN = 0.6
EPSILON = 1e-5
KEPT = 0.02             # share of a batch in the running statistics, once there were many
LAYERS = ("letters", "words", "context", "recall")
"""Those whose charges are normalized."""
NEURONS = {"letters": z.LETTER, "words": z.WORD, "recall": z.RECALLER, "choice": z.CHOOSER}
"""Parameters of those that do not hear themselves."""


class Answer(NamedTuple):
    """Outputs of the network for a batch.

    Attributes:
        evidence: logits [batch, bytes, OUTPUTS].
        verb: logits [batch, MEANINGS].
        rates: share of micro-steps in which each neuron of the choice fired, [batch, CHOICE].
        activity: mean activity per neuron and micro-step of letters, words and context.
    """

    evidence: Tensor
    verb: Tensor
    rates: Tensor
    activity: tuple[Tensor, ...]


class _Context(torch.autograd.Function):
    """Recurrent adaptive neurons over the first axis, with the backward pass written out.

    The equations are those of :func:`brain_training.neurons.alif_step` with x + s[t-1] w for x. As there, no gradient
    passes through the reset, and one does through the adaptation.
    """

    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor) -> Tensor:
        p = z.CONTEXT_NEURON
        beta, rho = decay(p.tau), decay(p.tau_adaptation)
        v, a, s = (torch.zeros_like(x[0]) for _ in range(3))
        spikes, above = torch.empty_like(x), torch.empty_like(x)
        none = torch.zeros((), dtype=x.dtype, device=x.device)      # a number would be made one in each step
        for charge, fired, beyond in zip(x.unbind(0), spikes.unbind(0), above.unbind(0)):
            v = torch.baddbmm(charge, s, weight).add_(v, alpha=beta).sub_(s, alpha=p.threshold)
            a = a.mul_(rho).add_(s)
            torch.sub(v, a, alpha=p.adaptation, out=beyond).sub_(p.threshold)
            s = torch.gt(beyond, none, out=fired)
        ctx.save_for_backward(above, spikes, weight)
        return spikes

    @staticmethod
    def backward(ctx, grad: Tensor):
        above, spikes, weight = ctx.saved_tensors
        p = z.CONTEXT_NEURON
        beta, rho = decay(p.tau), decay(p.tau_adaptation)
        surrogate = above.abs().mul_(p.slope).add_(1).pow_(-2)      # above stays: a split backward pass comes twice
        grad_x, transposed = torch.empty_like(grad), weight.transpose(1, 2)
        grad_v, grad_a = torch.zeros_like(grad[0]), torch.zeros_like(grad[0])
        for told, slope, back in zip(*(reversed(rows.unbind(0)) for rows in (grad, surrogate, grad_x))):
            grad_s = torch.baddbmm(told, grad_v, transposed).add_(grad_a).mul_(slope)
            grad_v = torch.add(grad_s, grad_v, alpha=beta, out=back)
            grad_a.mul_(rho).sub_(grad_s, alpha=p.adaptation)
        return grad_x, _outer(spikes, grad_x)


class _RateContext(torch.autograd.Function):
    """The same recurrence of rate units: r = v between 0 and 1, no spikes, no reset, no adaptation."""

    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor) -> Tensor:
        beta = decay(z.CONTEXT_NEURON.tau)
        v, r = torch.zeros_like(x[0]), torch.zeros_like(x[0])
        rates, potentials = torch.empty_like(x), torch.empty_like(x)
        for t in range(len(x)):
            v = torch.add(torch.baddbmm(x[t], r, weight), v, alpha=beta, out=potentials[t])
            r = torch.clamp(v, 0, 1, out=rates[t])
        ctx.save_for_backward(potentials, rates, weight)
        return rates

    @staticmethod
    def backward(ctx, grad: Tensor):
        potentials, rates, weight = ctx.saved_tensors
        beta = decay(z.CONTEXT_NEURON.tau)
        slope = ((potentials > 0) & (potentials < 1)).to(grad.dtype)
        grad_x, transposed = torch.empty_like(grad), weight.transpose(1, 2)
        grad_v = torch.zeros_like(grad[0])
        for t in range(len(grad) - 1, -1, -1):
            grad_r = torch.baddbmm(grad[t], grad_v, transposed).mul_(slope[t])
            grad_v = torch.add(grad_r, grad_v, alpha=beta, out=grad_x[t])
        return grad_x, _outer(rates, grad_x)


class _Delayed(torch.autograd.Function):
    """Charge [streams, steps, batch, to] that spikes [streams, steps, batch, from] bring through synapses with delays.

    Spikes that come later are a shifted view, so nothing is copied.
    """

    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, delays: tuple[int, ...]) -> Tensor:
        streams, steps, batch, size = x.shape
        flat = x.reshape(streams, steps * batch, size)
        parts = weight.split(size, 1)
        charge = flat.new_zeros(streams, steps * batch, weight.shape[-1])
        for delay, part in zip(delays, parts):
            rows = (steps - delay) * batch
            if rows > 0:
                for k in range(streams):
                    charge[k, delay * batch:].addmm_(flat[k, :rows], part[k])
        ctx.save_for_backward(flat, weight)
        ctx.delays, ctx.shape = delays, x.shape
        return charge.unflatten(1, (steps, batch))

    @staticmethod
    def backward(ctx, grad: Tensor):
        flat, weight = ctx.saved_tensors
        streams, steps, batch, size = ctx.shape
        grad = grad.reshape(streams, steps * batch, -1)
        grad_x, grad_weight = torch.zeros_like(flat), torch.zeros_like(weight)
        for number, delay in enumerate(ctx.delays):
            rows, to = (steps - delay) * batch, slice(number * size, (number + 1) * size)
            if rows > 0:
                for k in range(streams):
                    later = grad[k, delay * batch:]
                    grad_x[k, :rows].addmm_(later, weight[k, to].T)
                    torch.mm(flat[k, :rows].T, later, out=grad_weight[k, to])
        return grad_x.view(ctx.shape), grad_weight, None


class _Leaky(torch.autograd.Function):
    """Leaky integrators over the first axis."""

    @staticmethod
    def forward(ctx, x: Tensor, beta: float) -> Tensor:
        ctx.beta = beta
        u = x * (1 - beta)
        for before, now in zip(u.unbind(0), u.unbind(0)[1:]):
            now.add_(before, alpha=beta)
        return u

    @staticmethod
    def backward(ctx, grad: Tensor):
        grad = grad * (1 - ctx.beta)
        rows = grad.unbind(0)
        for after, now in zip(rows[:0:-1], rows[-2::-1]):
            now.add_(after, alpha=ctx.beta)
        return grad, None


class _Normal(torch.autograd.Function):
    """Rows [streams, rows, neurons] normalized for each neuron, times its gain, plus its bias; with mean and variance.

    Where the neurons are some columns of a layer, ``place`` is the first of them and how many the layer has. The
    backward pass is written out: recorded step by step it takes twice as long.
    """

    @staticmethod
    def forward(ctx, x: Tensor, gain: Tensor, bias: Tensor, place: tuple[int, int] | None = None
                ) -> tuple[Tensor, Tensor, Tensor]:
        mean = _mean(x, place)
        variance = torch.linalg.vector_norm(x, dim=1, keepdim=True).square_().div_(x.shape[1]).sub_(mean.square())
        variance.clamp_(min=0.0)
        rate = torch.rsqrt(variance + EPSILON)
        scale = gain * rate
        ctx.save_for_backward(x, mean, rate, gain)
        ctx.mark_non_differentiable(mean, variance)
        return torch.addcmul(bias - mean * scale, x, scale), mean, variance

    @staticmethod
    def backward(ctx, grad: Tensor, *_):
        x, mean, rate, gain = ctx.saved_tensors
        grad_bias = grad.sum(1, keepdim=True)
        grad_gain = ((grad * x).sum(1, keepdim=True) - mean * grad_bias) * rate
        scale, share = gain * rate, 1.0 / x.shape[1]
        slope = -scale * rate * grad_gain * share
        shift = -scale * grad_bias * share - slope * mean
        return torch.addcmul(shift, grad, scale).addcmul_(x, slope), grad_gain, grad_bias, None


def _mean(x: Tensor, place: tuple[int, int] | None) -> Tensor:
    """Mean over the rows [streams, rows, neurons].

    In which order torch adds up a column depends on where it stands in its row. So that columns by themselves have the
    bits that they have in their layer, they are put in their place of it.
    """
    if place is None:
        return x.mean(1, keepdim=True)
    first, columns = place
    there = x.new_zeros(*x.shape[:-1], columns)
    there[..., first:first + x.shape[-1]] = x
    return there.mean(1, keepdim=True)[..., first:first + x.shape[-1]]


def _outer(before: Tensor, grad: Tensor) -> Tensor:
    """Gradient [streams, from, to] of weights between what fired one step before and [steps, streams, batch, to]."""
    before, grad = before.transpose(0, 1), grad.transpose(0, 1)
    return torch.stack([b[:-1].flatten(0, 1).T @ g[1:].flatten(0, 1) for b, g in zip(before, grad)])


class SpikingReader(nn.Module):
    """The spiking network. Batches are [batch, bytes] of int64 with lengths; what is beyond a length is ignored.

    Args:
        sizes: of the populations; a region runs :data:`brain_regions.language.sizes.BASE`.

    Attributes:
        normalize: gives rows normalized over the batch, mean and variance (see :class:`_Normal`); another one where a
            batch is in parts at several processes.
    """

    spiking = True
    runs = live.SpikingReader
    normalize = staticmethod(_Normal.apply)

    def __init__(self, sizes: z.Sizes = z.BASE) -> None:
        super().__init__()
        self.sizes = sizes
        s, shapes = z.STREAMS, live.shapes(sizes)

        def drawn(*shape: int, fan: int, gain: float = 1.0) -> nn.Parameter:
            return nn.Parameter(torch.randn(*shape) * gain / math.sqrt(fan))

        self.bytes = drawn(s, 256, z.RANK, fan=1)
        for name in LAYERS:
            streams, fan, size = shapes[name]
            self.register_parameter(name, drawn(streams, fan, size, fan=fan))
            self.register_parameter(f"{name}_bias", nn.Parameter(torch.zeros(streams, 1, size)))
            self.register_parameter(f"{name}_gain", nn.Parameter(torch.full((streams, 1, size), FIRST_GAIN)))
            self.register_buffer(f"{name}_mean", torch.zeros(streams, 1, size))
            self.register_buffer(f"{name}_variance", torch.ones(streams, 1, size))
        self.recurrent = drawn(*shapes["recurrent"], fan=sizes.context, gain=0.7)
        self.evidence = drawn(*shapes["evidence"], fan=sizes.recall, gain=0.5)
        self.direct = drawn(*shapes["direct"], fan=sizes.context)
        self.evidence_bias = nn.Parameter(torch.full((z.OUTPUTS,), -2.0))
        self.choice = drawn(*shapes["choice"], fan=sizes.summary, gain=2.0)
        self.choice_bias = nn.Parameter(torch.full((sizes.choice,), 0.1))
        self.verb = drawn(*shapes["verb"], fan=sizes.summary)
        self.register_buffer("batches", torch.zeros(()))    # in the running statistics

    # -- what differs between spikes and rates ---------------------------------------------------------------------

    def _fire(self, x: Tensor, name: str) -> Tensor:
        x = x.transpose(0, 1)
        return lif_run(x, LIFState(torch.zeros_like(x[0])), NEURONS[name])[0].transpose(0, 1)

    def _remember(self, x: Tensor) -> Tensor:
        return _Context.apply(x.transpose(0, 1), self.recurrent).transpose(0, 1)

    # -- both ------------------------------------------------------------------------------------------------------

    def forward(self, text: Tensor, lengths: Tensor) -> Answer:
        """Reads sentences, framed by BEGIN and END (which lengths count)."""
        if self.training:
            self.batches += 1
        size = text.shape[1]
        place = torch.arange(size, device=text.device)
        inside = place < lengths[:, None]                                       # [batch, bytes]
        mirror = (lengths[:, None] - 1 - place).clamp(min=0)
        both = torch.stack([text, text.gather(1, mirror)])                      # [streams, batch, bytes]
        rows = both.transpose(1, 2) + 256 * torch.arange(z.STREAMS, device=text.device)[:, None, None]
        seen = F.embedding(rows, self.bytes.flatten(0, 1))
        letters = self._fire(self._charge(seen, "letters", z.LETTER_DELAYS), "letters")
        words = self._fire(self._charge(letters, "words", z.WORD_DELAYS), "words")
        context = self._remember(self._charge(words, "context", z.CONTEXT_DELAYS))
        said = self._said(torch.cat([words, context], -1), mirror, lengths)
        recall = self._fire(self._charge(said[None], "recall", (0,)), "recall")[0]
        evidence = recall @ self.evidence + said @ self.direct + self.evidence_bias
        evidence = evidence.repeat_interleave(z.STRIDE, 0)[:size].transpose(0, 1)
        verb, rates = self._decide(words, context, recall, inside, lengths)
        weight = inside.T[:, :, None].float()
        activity = [(layer * weight).sum((0, 1, 2)) / (z.STREAMS * weight.sum()) for layer in (letters, words, context)]
        return Answer(evidence, verb, rates, (*activity, rates.mean(0)))

    def _incoming(self, x: Tensor, name: str, delays: tuple[int, ...]) -> Tensor:
        """Computes the input that comes through synapses with delays, [streams, steps, batch, neurons]."""
        return _Delayed.apply(x, getattr(self, name), delays)

    def _charge(self, x: Tensor, name: str, delays: tuple[int, ...]) -> Tensor:
        """Computes the input that comes through synapses with delays, normalized for each neuron.

        In training mode it is normalized over the batch, else by the running statistics. Normalized neurons neither
        fall silent nor fire all the time; :meth:`folded` makes weights and biases of it.
        """
        charge = self._incoming(x, name, delays)
        mean, variance = getattr(self, f"{name}_mean"), getattr(self, f"{name}_variance")
        gain, bias = getattr(self, f"{name}_gain"), getattr(self, f"{name}_bias")
        if self.training:
            normal, middle, spread = self.normalize(charge.flatten(1, 2), gain, bias)
            with torch.no_grad():
                share = (1 / self.batches).clamp(min=KEPT)      # at first a plain mean, without 0 and 1
                mean.lerp_(middle, share)
                variance.lerp_(spread, share)
            return normal.view_as(charge)
        scale = gain * torch.rsqrt(variance + EPSILON)
        return torch.addcmul((bias - mean * scale)[:, None], charge, scale[:, None])

    def folded(self) -> dict[str, np.ndarray]:
        """Weights by name as :data:`brain_regions.language.network.SHAPES` wants them."""
        plain = ("bytes", "recurrent", "evidence", "direct", "evidence_bias", "choice", "choice_bias", "verb")
        found = {name: getattr(self, name) for name in plain}
        for name in LAYERS:
            scale = getattr(self, f"{name}_gain") * torch.rsqrt(getattr(self, f"{name}_variance") + EPSILON)
            found[name] = getattr(self, name) * scale
            found[f"{name}_bias"] = getattr(self, f"{name}_bias") - getattr(self, f"{name}_mean") * scale
        return {name: value.detach().cpu().numpy() for name, value in found.items()}

    def live(self) -> live.SpikingReader:
        """The network as a region runs it, with the weights as a file holds them."""
        return self.runs(weights.rounded(self.folded()), sizes=self.sizes)

    @staticmethod
    def _said(spikes: Tensor, mirror: Tensor, lengths: Tensor) -> Tensor:
        """Integrates what both streams said of every STRIDE bytes, [steps, batch, streams * n], by leaky integrators.

        Of the stream from the back, byte p is what it heard at length - 1 - p.
        """
        size = spikes.shape[1]
        said = _Leaky.apply(spikes.transpose(0, 1), decay(z.SYNAPSE.tau)).transpose(0, 1)
        back = said[1].gather(0, mirror.T[..., None].expand_as(said[1]))
        inside = torch.arange(size, device=lengths.device)[:, None] < lengths
        both = torch.cat([said[0], back], -1) * inside[..., None]
        both = F.pad(both, (0, 0, 0, 0, 0, -size % z.STRIDE))
        return both.unflatten(0, (-1, z.STRIDE)).mean(1)

    def _summed_up(self, summary: Tensor) -> Tensor:
        """Computes the input of the choice from all that was read, [batch, CHOICE]."""
        return summary @ self.choice + self.choice_bias

    def _decide(self, words: Tensor, context: Tensor, recall: Tensor, inside: Tensor,
                lengths: Tensor) -> tuple[Tensor, Tensor]:
        mean = inside.T.float() / lengths                                       # [bytes, batch]
        beta = decay(z.TRACE.tau)
        age = (lengths - 1) - torch.arange(context.shape[1], device=lengths.device)[:, None]
        fading = torch.where(age >= 0, (1 - beta) * beta ** age.clamp(min=0), 0.0)
        steps = (lengths + z.STRIDE - 1).div(z.STRIDE, rounding_mode="floor")
        recalled = torch.arange(len(recall), device=lengths.device)[:, None] < steps
        counts = (recall * recalled[..., None]).sum(0)
        summary = torch.cat([torch.einsum("stbi,tb->bsi", words, mean), torch.einsum("stbi,tb->bsi", context, mean),
                             torch.einsum("stbi,tb->bsi", context, fading)], -1).flatten(1)
        summary = torch.cat([z.GAIN * summary, z.COUNT_GAIN * counts], 1)
        charge = self._summed_up(summary)
        rates = self._fire(charge.expand(1, z.CHOICE_STEPS, *charge.shape), "choice")[0].mean(0)
        summary = torch.cat([summary, rates], 1)
        at_rest = torch.tensor(z.AT_REST, device=summary.device)
        return summary @ self.verb + at_rest, rates


class AnnReader(SpikingReader):
    """The ANN baseline: the same synapses and sizes, units that are ReLU cut at 1, no membranes but the context's."""

    spiking = False
    runs = live.AnnReader

    def _fire(self, x: Tensor, name: str) -> Tensor:
        return x.clamp(0, 1)

    def _remember(self, x: Tensor) -> Tensor:
        return _RateContext.apply(x.transpose(0, 1), self.recurrent).transpose(0, 1)


def of_weights(cls: type[SpikingReader], tensors: Mapping[str, np.ndarray]) -> SpikingReader:
    """A network with the folded weights of a file, for inference."""
    network = cls(sizes=z.sizes_of(tensors))
    state = {name: torch.from_numpy(np.array(value)) for name, value in tensors.items()}
    for name in LAYERS:
        size = state[f"{name}_bias"]
        state |= {f"{name}_gain": torch.ones_like(size), f"{name}_mean": torch.zeros_like(size),
                  f"{name}_variance": torch.full_like(size, 1.0 - EPSILON)}
    network.load_state_dict({"batches": network.batches, **state})
    return network.eval()
