# SPDX-License-Identifier: Apache-2.0
"""Which way to go: a ring of 36 spiking neurons that hears the headings on offer, each as far as its action fires.

It goes on together with the populations of :mod:`.decision`, which integrates both; its synapses close as fast as
theirs.

While searching, the heading is drawn from what is on offer with the temperature of :mod:`.feedback`: the offer's map
over the ring is taken for logarithms of odds, and noise on each heading decides (Gumbel's: the largest of x_i / T +
g_i is a draw from the softmax of x / T; E. J. Gumbel, Statistical Theory of Extreme Values, 1954). A draw is kept for
a while.
"""
from __future__ import annotations

import math

import numpy as np

from brain_regions import azimuth
from brain_regions.azimuth import BINS, CENTERS, wrap

ONTO = 1.6          # charge at the peak of an offer whose action fires fully
HOLD = 0.8          # s that a draw is kept
ODDS = 200.0        # logarithm of odds between the peak of an offer and no offer, at temperature 1
MUTUAL = 0.5        # charge by which the mean synapse of the ring inhibits all of it
SURE = 0.03         # of a synapse: below it the ring is silent
OFFERED = ("search", "approach", "avoid")   # actions that have headings to offer
_WINDOW = np.exp(-0.5 * (wrap(CENTERS[:, None] - CENTERS) / math.radians(15.0)) ** 2).astype(np.float32)


def empty() -> dict[str, np.ndarray]:
    """State of the ring at rest; ``draw`` holds the noise of the last draw, and its age in its last place (s)."""
    return {"heading_v": np.zeros(BINS, np.float32), "heading_s": np.zeros(BINS, np.float32),
            "draw": np.append(np.zeros(BINS), HOLD).astype(np.float32)}


def read(state: dict[str, np.ndarray]) -> float:
    """Heading (rad) of the ring's highest peak; NaN while it is silent."""
    s = state["heading_s"]
    return azimuth.direction(s) if s.max() > SURE else math.nan


def drawn(state: dict[str, np.ndarray], offer: np.ndarray, temperature: float, dt: float, rng: np.random.Generator
          ) -> np.ndarray:
    """The part of an offer round the heading that was drawn from it, float32[BINS].

    Args:
        state: ``draw`` is replaced.
        offer: 0..1, float32[BINS].
        temperature: of the draw.
        dt: s since the last call.
        rng: new noise comes from it every :data:`HOLD` s.
    """
    draw = state["draw"].copy()
    draw[BINS] += dt
    if draw[BINS] >= HOLD:
        draw[:BINS] = rng.gumbel(size=BINS)
        draw[BINS] = 0.0
    state["draw"] = draw
    if not offer.any():
        return offer
    chosen = int((ODDS * offer / temperature + draw[:BINS]).argmax())
    near = offer * _WINDOW[chosen]
    # a heading that nothing was offered for is taken as it is
    return near if near.max() > 0.2 else azimuth.bump(float(CENTERS[chosen]))
