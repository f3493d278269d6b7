# SPDX-License-Identifier: Apache-2.0
"""Choice of a heading: a ring of 36 spiking neurons that hears the headings on offer, each as far as its action fires.

It goes on together with the populations of :mod:`.decision`, which integrates both; its synapses close as fast as
theirs.

While searching, one heading is drawn from those that ``place`` values, with the temperature T of :mod:`.feedback`: a
heading of value x is as likely as exp(ODDS x / T), which Gumbel's noise g decides (the largest of ODDS x_i / T + g_i is
a draw from that softmax; E. J. Gumbel, Statistical Theory of Extreme Values, 1954). The noise is kept for a while, by
direction in the room: so a draw holds while the robot turns, and another is taken at once where values change enough.
"""
from __future__ import annotations

import math
from typing import Any, Iterable

import numpy as np

from brain_regions import azimuth
from brain_regions.azimuth import BINS

ONTO = 1.6          # charge at the peak of an offer whose action fires fully
HOLD = 0.8          # s that the noise of a draw is kept
ODDS = 200.0        # logarithm of odds for each meter of value, at temperature 1
MUTUAL = 0.5        # charge by which the mean synapse of the ring inhibits all of it
SURE = 0.03         # of a synapse: below it the ring is silent
OFFERED = ("search", "approach", "avoid")   # actions that have headings to offer


def empty() -> dict[str, np.ndarray]:
    """State of the ring at rest; ``draw`` holds noise by direction in odometry's frame, and its age at the end (s)."""
    return {"heading_v": np.zeros(BINS, np.float32), "heading_s": np.zeros(BINS, np.float32),
            "draw": np.append(np.zeros(BINS), HOLD).astype(np.float32)}


def read(state: dict[str, np.ndarray]) -> float:
    """Heading (rad) of the ring's highest peak; NaN while it is silent."""
    s = state["heading_s"]
    return azimuth.direction(s) if s.max() > SURE else math.nan


def told(entries: Iterable[Any]) -> tuple[np.ndarray, np.ndarray] | None:
    """Values and headings of the ways that somebody told, of each direction the best.

    Args:
        entries: what was received, each with ``message``, HeadingValues.

    Returns:
        As :func:`brain_regions.azimuth.sound_values`; None where nobody told anything.
    """
    each = [azimuth.sound_values(entry.message.value, entry.message.heading) for entry in entries]
    if len(each) < 2:
        return each[0] if each else None
    values, headings = (np.stack(arrays) for arrays in zip(*each))
    best = values.argmax(0)[None]
    return np.take_along_axis(values, best, 0)[0], np.take_along_axis(headings, best, 0)[0]


def odds(values: np.ndarray, temperature: float) -> np.ndarray:
    """Computes the probability of each heading in a draw, float64[BINS].

    Args:
        values: m, float32[BINS], minus infinity where there is none; one at least is finite.
        temperature: of the draw.
    """
    shares = np.exp(ODDS * (values.astype(np.float64) - values.max()) / temperature)
    return shares / shares.sum()


def drawn(state: dict[str, np.ndarray], values: np.ndarray, headings: np.ndarray, yaw: float, temperature: float,
          dt: float, rng: np.random.Generator) -> np.ndarray:
    """The heading that was drawn from an offer, as a bump, float32[BINS]; all zero where nothing is on offer.

    Args:
        state: ``draw`` is replaced.
        values, headings: of :func:`brain_regions.azimuth.sound_values`.
        yaw: of the robot in odometry's frame (rad).
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
    if not np.isfinite(values).any():
        return np.zeros(BINS, np.float32)
    in_room = np.rint((headings + yaw) / azimuth.WIDTH).astype(int) % BINS
    return azimuth.bump(float(headings[(ODDS * values / temperature + draw[in_room]).argmax()]))
