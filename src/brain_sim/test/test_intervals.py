# SPDX-License-Identifier: Apache-2.0
"""Intervals, against published examples and against what they promise, counted out."""

import math

import numpy as np
import pytest

from brain_sim.intervals import Z, bootstrap, tango, wilson


@pytest.mark.parametrize("k, n, low, high", [
    (0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (50, 100, 0.4038, 0.5962)])
def test_wilson_against_published_values(k, n, low, high):
    assert wilson(k, n) == pytest.approx((low, high), abs=2e-4)


def test_wilson_of_nothing():
    assert wilson(0, 0) == (0.0, 1.0)


@pytest.mark.parametrize("gained, lost, n, low, high", [
    (1, 7, 21, -0.517, -0.026),     # Fagerland, Lydersen and Laake, Stat. Med. 33, 2850 (2014)
    (16, 8, 86, -0.020, 0.207),     # Agresti and Min, Stat. Med. 24, 729 (2005)
    (6, 16, 161, -0.1240, -0.0054)])    # of Statistical Analysis of Contingency Tables (2017), by its package
def test_tango_against_published_values(gained, lost, n, low, high):
    assert tango(gained, lost, n) == pytest.approx((low, high), abs=5e-4 if n < 161 else 5e-5)
    assert tango(lost, gained, n) == pytest.approx((-high, -low), abs=5e-4)


def test_tango_has_a_width_where_no_pair_differs():
    for n in (1, 20, 400):
        assert tango(0, 0, n) == pytest.approx((-Z * Z / (n + Z * Z), Z * Z / (n + Z * Z)))


def test_tango_stays_within_bounds_and_around_what_was_found():
    for n in range(1, 26):
        for gained in range(n + 1):
            for lost in range(n + 1 - gained):
                low, high = tango(gained, lost, n)
                assert -1 <= low <= (gained - lost) / n + 1e-12 and (gained - lost) / n - 1e-12 <= high <= 1
                mcnemar = (gained - lost) ** 2 / (gained + lost) if gained + lost else 0.0
                assert (low <= 0 <= high) == (mcnemar <= Z * Z)


def likeliest(gained: int, lost: int, n: int, delta: float) -> float:
    """Share of ``lost`` that is likeliest under a difference, from the likelihood itself, on a grid made ever finer."""
    low, high = max(0.0, -delta), (1 - delta) / 2
    for _ in range(8):
        q = np.linspace(low, high, 201)
        with np.errstate(divide="ignore", invalid="ignore"):
            parts = [np.where(k > 0, k * np.log(p), 0.0) for k, p in (
                (gained, q + delta), (lost, q), (n - gained - lost, 1 - 2 * q - delta))]
        best = int(np.nanargmax(sum(parts)))
        low, high = q[max(best - 1, 0)], q[min(best + 1, 200)]
    return float(q[best])


@pytest.mark.parametrize("gained, lost, n", [(6, 2, 400), (3, 9, 32), (40, 20, 160), (5, 1, 12)])
def test_the_score_at_both_limits_is_z(gained, lost, n):
    for limit, z in zip(tango(gained, lost, n), (Z, -Z), strict=True):
        q = likeliest(gained, lost, n, limit)
        variance = n * (2 * q + limit * (1 - limit))
        assert (gained - lost - n * limit) / math.sqrt(variance) == pytest.approx(z, abs=2e-3)


def coverage(interval, n: int, p_gained: float, p_lost: float) -> float:
    """Probability that an interval of ``n`` pairs holds the true difference, over all that can come out."""
    total = 0.0
    for gained in range(n + 1):
        for lost in range(n + 1 - gained):
            log = (math.lgamma(n + 1) - math.lgamma(gained + 1) - math.lgamma(lost + 1)
                   - math.lgamma(n - gained - lost + 1) + gained * math.log(p_gained) + lost * math.log(p_lost)
                   + (n - gained - lost) * math.log(1 - p_gained - p_lost))
            low, high = interval(gained, lost, n)
            total += math.exp(log) * (low <= p_gained - p_lost <= high)
    return total


def wald(gained: int, lost: int, n: int) -> tuple[float, float]:
    mean = (gained - lost) / n
    half = Z * math.sqrt((gained + lost - n * mean * mean) / n) / math.sqrt(n)
    return mean - half, mean + half


def test_tango_holds_the_truth_as_often_as_it_says_and_wald_does_not():
    """Few pairs that differ, as two good brains have them."""
    n, truths = 40, [(0.02, 0.01), (0.05, 0.02), (0.1, 0.05), (0.2, 0.1)]
    found = {of: [coverage(of, n, *truth) for truth in truths] for of in (tango, wald)}
    assert min(found[tango]) > 0.94
    assert min(found[wald]) < 0.7       # where often no pair differs, or pairs of one kind


def test_bootstrap_is_the_same_again_and_knows_no_spread_of_none():
    steps = [0.3, -1.2, 4.0, 0.0, 2.2, 9.5]
    assert bootstrap(steps) == bootstrap(steps)
    assert bootstrap([]) is None and bootstrap([1.0]) is None and bootstrap([2.0] * 50) is None
    low, high = bootstrap(steps)
    assert low < np.mean(steps) < high and high - np.mean(steps) > np.mean(steps) - low     # the tail is above


def test_bootstrap_holds_the_truth_as_often_as_it_says():
    """Differences of a normal and of a lopsided distribution, 60 pairs, 300 times."""
    rng = np.random.default_rng(3)
    for draw, truth in ((lambda: rng.normal(0.5, 2.0, 60), 0.5), (lambda: rng.exponential(3.0, 60) - 1.0, 2.0)):
        held = 0
        for _ in range(300):
            low, high = bootstrap(draw())
            held += low <= truth <= high
        assert 0.90 < held / 300 < 0.985, held


def test_bootstrap_of_many_pairs_is_the_normal_interval():
    steps = np.random.default_rng(5).normal(1.0, 3.0, 2000)
    half = Z * steps.std(ddof=1) / math.sqrt(len(steps))
    assert bootstrap(steps) == pytest.approx((steps.mean() - half, steps.mean() + half), abs=0.02)
