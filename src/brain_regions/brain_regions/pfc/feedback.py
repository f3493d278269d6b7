# SPDX-License-Identifier: Apache-2.0
r"""Q-PFC feedback: how undecided the prefrontal cortex is sets how it searches and how easily its neurons fire.

After EvoSpikeNet's Q-PFC loop. With p the choice distribution, over N headings, that the spikes of the candidates'
population show, before any temperature is put on it:

    H = -sum_i p_i ln p_i, low-passed at 0.3 s;    theta = pi H / ln N;    alpha = cos^2(theta / 2)
    temperature = 1 / (alpha + epsilon), epsilon = 0.05;    threshold = base (0.5 + alpha)

So alpha is 0 when nothing speaks for any heading (H = ln N) and 1 when one is certain. The temperature acts on the
sampling among search headings only, the threshold on the neurons. (Were H taken after tempering, uniform would be
absorbing: a high temperature makes a flat distribution, which asks for a high temperature.)

The modes other than ``on`` are controls: ``off`` leaves temperature and threshold alone, ``constant`` holds alpha,
``linear`` puts 1 - H / ln N for the cosine, and ``shuffled`` uses alpha values of the same distribution in an order
that has nothing to do with what is going on.
"""
from __future__ import annotations

import math

import numpy as np

MODES = ("on", "off", "constant", "linear", "shuffled")
EPSILON = 0.05
TAU = 0.3           # s
BASE = 1.0          # threshold
KEPT = 256          # values of alpha that ``shuffled`` draws from


def entropy(p: np.ndarray) -> float:
    """H (nat) of a distribution."""
    p = p[p > 0]
    return -float(np.dot(p, np.log(p)))


def alpha_of(h: float, n: int, mode: str = "on") -> float:
    """alpha, 0..1, of an entropy ``h`` (nat) over ``n`` choices."""
    share = min(max(h / math.log(n), 0.0), 1.0)
    return 1.0 - share if mode == "linear" else math.cos(math.pi * share / 2) ** 2


def temperature(alpha: float) -> float:
    """Temperature of the sampling among search headings."""
    return 1.0 / (alpha + EPSILON)


def threshold(alpha: float, base: float = BASE) -> float:
    """Threshold of the neurons, in the unit of their weights."""
    return base * (0.5 + alpha)


def low_passed(before: float, now: float, dt: float) -> float:
    """The entropy after ``dt`` s of ``now``."""
    return now + (before - now) * math.exp(-dt / TAU)


def empty(n: int) -> dict[str, np.ndarray]:
    """State: low-passed entropy of the ``n`` choices, then what ``shuffled`` has seen of alpha."""
    return {"entropy": np.array([math.log(n)], np.float32), "alphas": np.full(KEPT, -1.0, np.float32)}


def feed_back(state: dict[str, np.ndarray], p: np.ndarray, dt: float, rng: np.random.Generator, mode: str = "on",
              constant: float = 0.5, base: float = BASE) -> tuple[float, float, float, float]:
    """One step of the loop.

    Args:
        state: see :func:`empty`; its entries are replaced.
        p: choice distribution, float[N].
        dt: s since the last step.
        rng: what ``shuffled`` draws by.
        mode: one of :data:`MODES`.
        constant: alpha under ``constant``.
        base: threshold at alpha 0.5.

    Returns:
        Low-passed H (nat), alpha, temperature and threshold. Under ``off`` they are H, alpha, 1 and ``base``.
    """
    h = low_passed(float(state["entropy"][0]), entropy(p), dt)
    state["entropy"] = np.array([h], np.float32)
    alpha = alpha_of(h, len(p), mode)
    if mode == "constant":
        alpha = constant
    elif mode == "shuffled":
        seen = state["alphas"].copy()
        slot = int(rng.integers(KEPT))
        seen[slot] = alpha
        state["alphas"] = seen
        known = seen[seen >= 0]
        alpha = float(known[int(rng.integers(len(known)))])
    if mode == "off":
        return h, alpha, 1.0, base
    return h, alpha, temperature(alpha), threshold(alpha, base)
