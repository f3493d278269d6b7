# SPDX-License-Identifier: Apache-2.0
"""95 % intervals: of a share, of a difference of shares of the same episodes, of a mean of paired differences."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import NormalDist

import numpy as np

Z = 1.959964
RESAMPLES, SEED = 10_000, 0
_NORMAL = NormalDist()


def wilson(successes: int, n: int, z: float = Z) -> tuple[float, float]:
    """Wilson's 95 % interval of a share; (0, 1) when n is 0."""
    if n == 0:
        return 0.0, 1.0
    p = successes / n
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return max(0.0, middle - half), min(1.0, middle + half)


def tango(gained: int, lost: int, n: int, z: float = Z) -> tuple[float, float]:
    """Tango's score 95 % interval of the difference of two shares of the same ``n`` episodes.

    T. Tango, Statistics in Medicine 17, 891 (1998). Chosen over Newcombe's method 10 since it is the inverse of one
    test, McNemar's where the difference is 0 (the interval holds 0 exactly where that test rejects nothing), and needs
    the pairs that differ and ``n`` only. Unlike Wald's it has a width where no pair differs: z² / (n + z²) each way.

    Args:
        gained, lost: pairs with success in the first run only, in the second only.
        n: all pairs; at least one.
        z: standard deviations of a normal distribution.

    Returns:
        Both limits of first minus second, from -1 to 1.
    """
    def score(delta: float) -> float:
        """Falls with the difference that is supposed."""
        b = (2 * n - gained + lost) * delta - gained - lost
        # the likeliest share of `lost` under it
        q = (math.sqrt(max(0.0, b * b + 8 * n * lost * delta * (1 - delta))) - b) / (4 * n)
        variance = n * (2 * q + delta * (1 - delta))
        off = gained - lost - n * delta
        return off / math.sqrt(variance) if variance > 0 else math.copysign(math.inf, off) if off else 0.0

    return _crossing(score, z), _crossing(score, -z)


def _crossing(falling: Callable[[float], float], value: float) -> float:
    """Finds the place where a falling function of -1 to 1 crosses a value, by halving."""
    low, high = -1.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if falling(middle) > value else (low, middle)
    return (low + high) / 2


def bootstrap(differences: Sequence[float]) -> tuple[float, float] | None:
    """Bootstrap 95 % interval of the mean of paired differences, of any unit; the same for the same differences.

    Bias-corrected and accelerated (B. Efron, JASA 82, 171 (1987)), over 10000 resamples of the pairs: differences of
    times have long tails, on one side.

    Returns:
        Both limits; None where there are fewer than two pairs or all differences are the same: nothing is known of
        their spread.
    """
    d = np.asarray(differences, float)
    n = len(d)
    if n < 2 or np.ptp(d) == 0:
        return None
    rng = np.random.default_rng(SEED)
    means = np.sort(np.concatenate([d[rng.integers(n, size=(RESAMPLES // 100, n))].mean(axis=1) for _ in range(100)]))
    mean = d.mean()
    below = (np.count_nonzero(means < mean) + np.count_nonzero(means <= mean)) / 2 / RESAMPLES
    bias = _NORMAL.inv_cdf(min(max(below, 0.5 / RESAMPLES), 1 - 0.5 / RESAMPLES))
    off = d - mean                          # of the jackknife's means, up to a factor
    acceleration = (off**3).sum() / (6 * (off**2).sum() ** 1.5)

    def limit(z: float) -> float:
        at = bias + (bias + z) / (1 - acceleration * (bias + z))
        return float(np.quantile(means, _NORMAL.cdf(at)))

    return limit(-Z), limit(Z)
