# SPDX-License-Identifier: Apache-2.0
r"""Neurons as functions: state in, state out.

Leaky integrate-and-fire. Between spikes the membrane potential v of a neuron leaks with the time constant tau, and
every input spike adds its synaptic weight to it at once:

    tau dv/dt = -v + tau i(t),        i(t) = sum_k w_k delta(t - t_k)

When v passes the threshold theta the neuron fires, and theta is taken off (soft reset, so that what lay above the
threshold is not lost). Integrated exactly over a micro-step h, with x[t] the charge that came in meanwhile:

    v[t] = beta v[t-1] + x[t] - theta s[t-1],        beta = exp(-h / tau)
    s[t] = 1 if v[t] > theta else 0

Adaptive neurons (G. Bellec, D. Salaj, A. Subramoney, R. Legenstein, W. Maass: Long short-term memory and learning-to-
learn in networks of spiking neurons, NeurIPS 2018, equations 1 and 2) raise their threshold with each spike, and so
remember in it for longer than their membranes do:

    a[t] = rho a[t-1] + s[t-1],        s[t] = 1 if v[t] > theta + gamma a[t] else 0,        rho = exp(-h / tau_a)

Leaky integrator, the readout: it does not fire, and its potential is the running mean of what comes in:

    tau du/dt = -u + x(t)        u[t] = beta u[t-1] + (1 - beta) x[t]

A spike has no useful derivative. Training puts in its place the derivative of a fast sigmoid:

    ds/dv ~ 1 / (1 + k |v - theta|)^2

which is SuperSpike's (F. Zenke, S. Ganguli: SuperSpike: Supervised Learning in Multilayer Spiking Neural Networks,
Neural Computation 30, 2018, section 3.2, where h(U) = U / (1 + k |U|) stands for the spike). No gradient passes
through the reset (the same authors' advice in Zenke, Vogels: The Remarkable Robustness of Surrogate Gradient
Learning, Neural Computation 33, 2021).

Where all that counts is how often neurons fire, as over the micro-steps of one picture, the gradient can pass through
their rates instead, once for all steps (C. Yu, L. Liu, G. Wang, E. Li, A. Wang: Advancing Training Efficiency of Deep
Spiking Neural Networks through Rate-based Backpropagation, NeurIPS 2024). Of a steady charge x a neuron loses a step
(1 - beta) of its mean potential by its leak, and theta r by its spikes. The mean is near theta / 2, and theta r more,
for a spike is taken off one step later. So

    r = (x / theta - (1 - beta) / 2) / (2 - beta),        kept in 0..1
"""
from __future__ import annotations

from itertools import repeat
from typing import Any, NamedTuple

import torch
from torch import Tensor

from brain_regions.membranes import ALIF, LI, LIF, MICRO_STEP, decay


class LIFState(NamedTuple):
    """State of leaky integrate-and-fire neurons.

    Attributes:
        v: membrane potential at the end of the last micro-step, float32, any shape. A value above the threshold
            says that the neuron fired in it, and is reset in the next.
    """

    v: Tensor


class ALIFState(NamedTuple):
    """State of adaptive neurons.

    Attributes:
        v: membrane potential at the end of the last micro-step, float32, any shape.
        a: adaptation, the fading count of spikes before that micro-step, same shape.
    """

    v: Tensor
    a: Tensor


class LIState(NamedTuple):
    """State of leaky integrators.

    Attributes:
        u: potential, the running mean of the input, float32, any shape.
    """

    u: Tensor


class _Spike(torch.autograd.Function):
    """Heaviside step forward, derivative of the fast sigmoid backward."""

    @staticmethod
    def forward(ctx: Any, above: Tensor, slope: float) -> Tensor:
        ctx.save_for_backward(above)
        ctx.slope = slope
        return (above > 0).to(above.dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (above,) = ctx.saved_tensors
        return grad / (1 + ctx.slope * above.abs()) ** 2, None


def spike(above: Tensor, slope: float) -> Tensor:
    """1 where the potential is above the threshold, with the surrogate gradient.

    Args:
        above: v - theta, any shape.
        slope: k of the surrogate.
    """
    return _Spike.apply(above, slope)


def lif_step(x: Tensor, state: LIFState, p: LIF, h: float = MICRO_STEP) -> tuple[Tensor, LIFState]:
    """One micro-step of leaky integrate-and-fire neurons.

    Args:
        x: charge that comes in during the step, in units of potential; same shape as ``state.v``.
        state: at the end of the step before.
        p: parameters.
        h: length of the step (s).

    Returns:
        Spikes (0 or 1, same shape) and the new state.
    """
    if not (torch.is_grad_enabled() and (x.requires_grad or state.v.requires_grad)):
        # the same sums in place: where nothing is learned, most of the time goes into making tensors
        spikes = torch.empty_like(state.v)
        bound = torch.scalar_tensor(p.threshold, dtype=spikes.dtype, device=spikes.device)
        torch.gt(state.v, bound, out=spikes)            # first those of the step before, which are reset now
        v = (state.v * decay(p.tau, h)).add_(x).sub_(spikes, alpha=p.threshold)
        return torch.gt(v, bound, out=spikes), LIFState(v)
    reset = (state.v.detach() > p.threshold).to(x.dtype)
    v = decay(p.tau, h) * state.v + x - p.threshold * reset
    return spike(v - p.threshold, p.slope), LIFState(v)


def alif_step(x: Tensor, state: ALIFState, p: ALIF, h: float = MICRO_STEP) -> tuple[Tensor, ALIFState]:
    """One micro-step of adaptive leaky integrate-and-fire neurons.

    Args:
        x: charge that comes in during the step, in units of potential; same shape as ``state.v``.
        state: at the end of the step before.
        p: parameters.
        h: length of the step (s).

    Returns:
        Spikes (0 or 1, same shape) and the new state. A gradient passes through the adaptation, which is what it
        remembers by, and none through the reset.
    """
    above = state.v - p.threshold - p.adaptation * state.a
    fired = spike(above, p.slope)
    v = decay(p.tau, h) * state.v + x - p.threshold * fired.detach()
    a = decay(p.tau_adaptation, h) * state.a + fired
    return spike(v - p.threshold - p.adaptation * a, p.slope), ALIFState(v, a)


class _LIFRun(torch.autograd.Function):
    """The recursion of :func:`lif_step` over the first axis, with the backward pass written out.

    That is one addition and one multiplication a step, where recording every step would cost several times as much.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, v: Tensor, p: LIF, beta: float) -> tuple[Tensor, Tensor]:
        potentials = torch.empty_like(x)
        spikes = torch.empty_like(x)
        _integrate(x, v, p.threshold, beta, spikes, potentials)
        ctx.save_for_backward(potentials)
        ctx.p, ctx.beta = p, beta
        return spikes, potentials[-1].clone()

    @staticmethod
    def backward(ctx: Any, grad_spikes: Tensor, grad_v: Tensor) -> tuple[Tensor, Tensor, None, None]:
        (potentials,) = ctx.saved_tensors
        grad = grad_spikes / (1 + ctx.p.slope * (potentials - ctx.p.threshold).abs()) ** 2
        grad[-1] += grad_v
        rows = grad.unbind(0)
        for after, now in zip(rows[:0:-1], rows[-2::-1]):
            now.add_(after, alpha=ctx.beta)
        return grad, ctx.beta * grad[0], None, None


def _integrate(x: Tensor, v: Tensor, threshold: float, beta: float, spikes: Tensor, potentials: Tensor | None) -> None:
    """Runs the recursion: ``spikes`` are filled in, and ``potentials``; without those ``v`` becomes the last one."""
    reset = (v > threshold).to(v.dtype)
    bound = torch.scalar_tensor(threshold, dtype=v.dtype, device=v.device)      # a number would be made one each time
    after = repeat(v) if potentials is None else potentials.unbind(0)
    for charge, fired, now in zip(x.unbind(0), spikes.unbind(0), after):
        v = torch.add(charge, v, alpha=beta, out=now).sub_(reset, alpha=threshold)
        torch.gt(v, bound, out=fired)
        reset = fired


def lif_run(x: Tensor, state: LIFState, p: LIF, h: float = MICRO_STEP) -> tuple[Tensor, LIFState]:
    """As many calls of :func:`lif_step` as ``x`` is long, in one.

    Args:
        x: charges, [T, ...]; an ``expand``-ed tensor for a constant current costs no memory.
        state: potentials [...] before the first step.
        p: parameters.
        h: length of a step (s).

    Returns:
        Spikes [T, ...] and the state after the last step. With T = 0 nothing happens and the state is returned.
    """
    beta = decay(p.tau, h)
    if len(x) == 0:
        return x.clone(), state
    if torch.is_grad_enabled() and (x.requires_grad or state.v.requires_grad):
        spikes, v = _LIFRun.apply(x, state.v, p, beta)
        return spikes, LIFState(v)
    v = state.v.clone()
    # in the potentials' layout
    spikes = torch.empty_strided(x.shape, (v.numel(), *v.stride()), dtype=v.dtype, device=v.device)
    _integrate(x, v, p.threshold, beta, spikes, None)
    return spikes, LIFState(v)


def _line(p: LIF, h: float) -> tuple[float, float]:
    """Steady charge from which on neurons fire by the line of their rate, and how much more makes them always fire."""
    leak = 1 - decay(p.tau, h)
    return leak / 2 * p.threshold, (1 + leak) * p.threshold


def lif_rate(x: Tensor, p: LIF, h: float = MICRO_STEP) -> Tensor:
    """Rate (spikes a micro-step, 0..1) of neurons under a steady charge ``x``, any shape."""
    least, width = _line(p, h)
    return ((x - least) / width).clamp(0.0, 1.0)


class _ByRate(torch.autograd.Function):
    """Hands on spikes, and to the mean charge the gradient of the rate: its line's, and a fast sigmoid's beside it."""

    @staticmethod
    def forward(ctx: Any, mean: Tensor, spikes: Tensor, p: LIF, h: float) -> Tensor:
        ctx.save_for_backward(mean)
        ctx.p, ctx.h = p, h
        return spikes

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        (mean,) = ctx.saved_tensors
        least, width = _line(ctx.p, ctx.h)
        # what comes back from a mean is the same in all steps, and lies there once
        summed = grad[0] * len(grad) if grad.stride(0) == 0 else grad.sum(0)
        beyond = (mean - (least + width / 2)).abs_().sub_(width / 2).clamp_(min=0.0).mul_(ctx.p.slope).add_(1.0)
        return summed.div_(beyond.mul_(beyond)).div_(width), None, None, None


def lif_by_rate(x: Tensor, mean: Tensor, state: LIFState, p: LIF, h: float = MICRO_STEP) -> tuple[Tensor, LIFState]:
    """The spikes of :func:`lif_run`, through which the gradient passes by rates.

    Args:
        x: charges [T, ...], whose gradient is not asked for; T at least 1.
        mean: of ``x`` over T, [...], which gets it.
        state: potentials [...] before the first step; they get none.
        p: parameters.
        h: length of a step (s).

    Returns:
        Spikes [T, ...] and the state after the last step.
    """
    with torch.no_grad():
        spikes, state = lif_run(x, state, p, h)
    return _ByRate.apply(mean, spikes, p, h), state


def li_step(x: Tensor, state: LIState, p: LI, h: float = MICRO_STEP) -> LIState:
    """One micro-step of leaky integrators.

    Args:
        x: input during the step, same shape as ``state.u``.
        state: at the end of the step before.
        p: parameters.
        h: length of the step (s).
    """
    beta = decay(p.tau, h)
    return LIState(beta * state.u + (1 - beta) * x)


def li_weights(steps: int, p: LI, h: float = MICRO_STEP, device: torch.device | None = None) -> tuple[float, Tensor]:
    """Sums up ``steps`` calls of :func:`li_step`, since they are linear: u' = kept u + sum_t weights[t] x[t].

    A readout of spikes through a linear layer can so be computed once and not once a step.

    Args:
        steps: number of micro-steps.
        p: parameters.
        h: length of a step (s).
        device: of the weights; None: the CPU.

    Returns:
        kept, and weights [steps] (oldest first); together they sum to 1.
    """
    beta = decay(p.tau, h)
    powers = torch.arange(steps - 1, -1, -1, dtype=torch.float32, device=device)
    return beta**steps, (1 - beta) * beta**powers
