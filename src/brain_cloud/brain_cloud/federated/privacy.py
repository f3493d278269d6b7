# SPDX-License-Identifier: Apache-2.0
"""Privacy loss of any one robot under differentially private averaging: epsilon, at a delta.

In each round every robot takes part with probability q, independently of the others and of its data, and the sum of
changes, each of norm C at most, gets Gaussian noise of standard deviation z C. Of that mechanism the Renyi divergence
of whole order a is at most

    log( sum_k binom(a, k) (1 - q)^(a - k) q^k exp((k^2 - k) / (2 z^2)) ) / (a - 1)

(Mironov, Talwar, Zhang: Renyi Differential Privacy of the Sampled Gaussian Mechanism, 2019, section 3.3, arXiv
1908.10530). Divergences of rounds add up. With their sum r, epsilon is at most

    r + log(1 - 1/a) - log(delta a) / (a - 1)

(Canonne, Kamath, Steinke: The Discrete Gaussian for Differential Privacy, 2020, proposition 12, arXiv 2004.00010), for
every a; the least is taken. What is protected is whether a robot takes part at all (one robot more or less).
"""
from __future__ import annotations

import math

ORDERS = tuple(range(2, 257))


def divergence(order: int, noise: float, share: float) -> float:
    """Renyi divergence of one round.

    Args:
        order: whole, 2 or more.
        noise: z, standard deviation of the noise in units of the clipping norm.
        share: q, the probability that a robot takes part.
    """
    if share == 0.0:
        return 0.0
    if share == 1.0:
        return order / (2.0 * noise * noise)
    parts = [math.lgamma(order + 1) - math.lgamma(k + 1) - math.lgamma(order - k + 1)
             + k * math.log(share) + (order - k) * math.log1p(-share) + (k * k - k) / (2.0 * noise * noise)
             for k in range(order + 1)]
    most = max(parts)
    return (most + math.log(math.fsum(math.exp(part - most) for part in parts))) / (order - 1)


def epsilon(noise: float, share: float, rounds: int, delta: float) -> float:
    """Epsilon after so many rounds; infinite without noise.

    Args:
        noise, share: see :func:`divergence`.
        rounds: in which robots were asked, those that came to nothing too.
        delta: 0..1, both excluded.

    Raises:
        ValueError: delta is out of range.
    """
    if not 0.0 < delta < 1.0:
        raise ValueError(f"delta is {delta}; it is between 0 and 1, and well below one in the number of robots")
    if rounds == 0:
        return 0.0
    if noise <= 0.0:
        return math.inf
    return max(0.0, min(rounds * divergence(order, noise, share) + math.log1p(-1.0 / order)
                        - (math.log(delta) + math.log(order)) / (order - 1) for order in ORDERS))
