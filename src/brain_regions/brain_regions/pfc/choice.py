# SPDX-License-Identifier: Apache-2.0
"""Where what is sought may be: from the memory's sheets to one place, through four populations of spiking neurons.

``target`` and ``avoid`` are sheets like the memory's. Each neuron hears those of all classes at its own place: what is
asked for excites it, every other class inhibits it, so it fires where the evidence for the one outweighs the rest.
``candidates`` is a ring of bearings that hears the target sheet, near places more than far ones; how its spikes are
distributed is the choice distribution of :mod:`.feedback`. ``commitment`` is a ring whose neurons excite their
neighbors and inhibit all others: of several candidates it keeps to one until another is clearly better. Where it
points, target neurons take in more (a gain, as attention has on neurons of the visual cortex: C. J. McAdams, J. H. R.
Maunsell, Journal of Neuroscience 19(1), 1999), so what was committed to is not let go of because the threshold rose
with certainty.
"""
from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np

from brain_regions.azimuth import BINS, CENTERS, wrap
from brain_regions.membranes import decay
from brain_regions.pfc import polar
from brain_regions.pfc.memory import CLASSES, UNIT, class_mask
from brain_regions.pfc.polar import DISTANCES, RINGS
from brain_regions.pfc.populations import NEURON, Layer, shut
from brain_regions.pfc.watch import Watch

AVOID_SHARE, AVOID_EVIDENCE = 0.3, 0.4      # share and evidence (looks) from which on it is kept away from
NEAR_FIRST = 0.10                           # 1/m: how much less a farther candidate counts
ONTO_CANDIDATES, ONTO_COMMITMENT = 1.2, 1.2
SELF, RIVALS = 0.5, 1.6                     # of the commitment ring: onto neighbors, and onto all
TAU = 0.1                                   # s, of the synapses
COUNT_TAU = 0.2                             # s, over which candidates' spikes are counted
PRIOR = 0.02                                # spikes that every heading has in advance in the choice distribution
RHEOBASE = 1.0 - decay(NEURON.tau)          # charge per micro-step from which on a neuron of threshold 1 fires
ATTENTION = 5.0                             # how much more target neurons take in from where the commitment points
SURE = 0.05                                 # of a synapse: below it a population counts as silent
POOL = np.exp(-0.5 * ((wrap(CENTERS[:, None] - CENTERS) / np.radians(10.0)) ** 2)).astype(np.float32)
PREFERENCE = np.exp(-NEAR_FIRST * DISTANCES).astype(np.float32)
_ONTO = np.float32(ONTO_COMMITMENT) * POOL                                  # from candidates to commitment
_AMONG = np.float32(SELF) * POOL - np.float32(RIVALS)                       # within the commitment
_SHEETS, _RINGS = ("target", "avoid"), ("candidates", "commitment")


class Believed(NamedTuple):
    """What the populations say.

    Attributes:
        bearing, distance: of what is committed to, rad and m from the sheets' own heading; NaN: nothing.
        strength: 0..1, how much fires for it.
        share: 0..1, how much of the evidence at its place is for it.
        p: choice distribution float64[BINS].
        avoid: places (bearing, distance) of what is to be kept away from.
    """

    bearing: float
    distance: float
    strength: float
    share: float
    p: np.ndarray
    avoid: list[tuple[float, float]]


def empty() -> dict[str, np.ndarray]:
    """State of populations at rest: potentials ``*_v`` and synapses ``*_s`` of each, and the candidates' counts."""
    shapes = {**{n: (BINS, RINGS) for n in _SHEETS}, **{n: (BINS,) for n in _RINGS}}
    state = {f"{n}_{part}": np.zeros(shape, np.float32) for n, shape in shapes.items() for part in "vs"}
    return {**state, "counts": np.zeros(BINS, np.float32)}


class Choice:
    """The four populations. State is handed in and out; see :func:`empty`.

    Args:
        evidence: looks of full confidence at a near object after which its target neurons fire, while undecided.
        rate, silent: see :class:`.populations.Layer`.
    """

    def __init__(self, evidence: float, rate: bool = False, silent: bool = False) -> None:
        self._sheet = Layer(TAU, rate, silent)
        self._ring = Layer(TAU, rate, silent)
        self._onto_target, self._onto_avoid = map(np.float32, gains(evidence))
        self._keep = np.full(BINS, decay(COUNT_TAU), np.float32)

    def run(self, state: dict[str, np.ndarray], memory: np.ndarray, steps: int, wanted: np.ndarray, avoided: np.ndarray,
            threshold: float, watch: Watch | None = None) -> tuple[int, int]:
        """Integrates ``steps`` micro-steps.

        Args:
            state: its entries are replaced.
            memory: what the memory's synapses carry, float32[CLASSES, BINS, RINGS].
            steps: micro-steps.
            wanted, avoided: classes that excite the two sheets; none: the sheet gets no input. bool[CLASSES].
            threshold: of the neurons.
            watch: keeps the spikes of its population; None: nobody looks.

        Returns:
            Spikes and synaptic operations.
        """
        if not steps:
            return 0, 0
        spikes = synops = 0
        heard = self._heard(state, memory, wanted, avoided)
        active = [name for name in _SHEETS if np.count_nonzero(heard.get(name, 0)) or
                  np.count_nonzero(state[f"{name}_s"])]
        if active:      # both at once, for a micro-step's time goes into calls
            v, s, x, z, theta = np.empty((5, len(active), BINS, RINGS), np.float32)
            for row, name in enumerate(active):
                v[row], s[row], x[row] = state[f"{name}_v"], state[f"{name}_s"], heard.get(name, 0.0)
                # what avoids keeps its threshold: to be undecided is no reason to drive into things
                theta[row] = threshold if name == "target" else 1.0
            for _ in range(steps):
                fired = self._sheet.advance(x, v, s, z, theta)
                spikes, synops = spikes + fired, synops + fired
                if watch is not None:
                    for row, name in zip(z, active):
                        watch.add(name, row)
            shut(s)
            for row, name in enumerate(active):
                state[f"{name}_v"], state[f"{name}_s"] = v[row].copy(), s[row].copy()
        onto_candidates = ONTO_CANDIDATES * (state["target_s"] @ PREFERENCE)
        kv, ks, cv, cs, counts = (state[n] for n in (
            "candidates_v", "candidates_s", "commitment_v", "commitment_s", "counts"))
        if not any(map(np.count_nonzero, (onto_candidates, ks, cs, counts))):
            return spikes, synops
        kv, ks, cv, cs, counts = kv.copy(), ks.copy(), cv.copy(), cs.copy(), counts.copy()
        z, c, x, onto = (np.empty_like(kv) for _ in range(4))
        theta = np.full_like(kv, threshold)
        for _ in range(steps):
            fired = self._ring.advance(onto_candidates, kv, ks, z, theta)
            np.multiply(counts, self._keep, counts)
            np.add(counts, z, counts)
            np.dot(_ONTO, ks, onto)
            np.dot(_AMONG, cs, x)
            np.add(x, onto, x)
            kept = self._ring.advance(x, cv, cs, c, theta)
            spikes, synops = spikes + fired + kept, synops + (fired + 2 * kept) * BINS
            if watch is not None:
                watch.add("candidates", z)
                watch.add("commitment", c)
        state.update(candidates_v=kv, candidates_s=shut(ks), commitment_v=cv, commitment_s=shut(cs),
                     counts=shut(counts))
        return spikes, synops

    def _heard(self, state: dict[str, np.ndarray], memory: np.ndarray, wanted: np.ndarray, avoided: np.ndarray
               ) -> dict[str, np.ndarray]:
        """What comes in to the sheets, float32[BINS, RINGS] of each that gets any input."""
        found, flat = {}, memory.reshape(CLASSES, -1)
        if np.count_nonzero(wanted):
            found["target"] = (self._onto_target * (_signs(wanted) @ flat)).reshape(BINS, RINGS)
            attended = np.minimum(POOL @ state["commitment_s"], np.float32(1.0))
            found["target"] *= (1.0 + np.float32(ATTENTION) * attended)[:, None]
        if np.count_nonzero(avoided):
            found["avoid"] = (self._onto_avoid * ((avoided - np.float32(AVOID_SHARE)) @ flat)).reshape(BINS, RINGS)
        return found

    @staticmethod
    def distribution(state: dict[str, np.ndarray]) -> np.ndarray:
        """The choice distribution over the headings, float64[BINS]: uniform while no candidate fires."""
        counts = state["counts"].astype(np.float64) + PRIOR
        return counts / counts.sum()

    @staticmethod
    def read(state: dict[str, np.ndarray], memory: np.ndarray, wanted: np.ndarray) -> Believed:
        """What the populations say now; see :meth:`run` for the arguments."""
        commitment = state["commitment_s"]
        column = int((POOL @ commitment).argmax())
        strength = float(commitment.max())
        bearing = distance = math.nan
        share = 0.0
        if strength > SURE and state["target_s"].max() > SURE:
            # which neurons of the sheet fire tells the bin; how much the memory's fire for it, the place between them
            for_it = (_signs(wanted) @ memory.reshape(CLASSES, -1)).reshape(BINS, RINGS)
            bearing, distance = polar.place(np.maximum(for_it, 0.0), column)
        if math.isfinite(bearing):
            at = polar.bump(bearing, distance)
            held = memory.reshape(CLASSES, -1) @ at.ravel()
            share = float(held[wanted].sum() / max(held.sum(), 1e-9))
        else:
            strength = 0.0
        away = state["avoid_s"]
        avoid = [polar.place(away, b) for b, _ in polar.peaks(away, SURE, 8)] if np.count_nonzero(away) else []
        return Believed(bearing, distance, min(strength, 1.0), share, Choice.distribution(state), avoid)


def _signs(wanted: np.ndarray) -> np.ndarray:
    """1 for classes that are wanted, -1 for all others: float32[CLASSES]."""
    return np.float32(2.0) * wanted - np.float32(1.0)


def gains(evidence: float) -> tuple[float, float]:
    """Synapses from the memory onto target and avoid, for a class that excites; ``evidence`` as in :class:`Choice`."""
    return RHEOBASE * 0.5 / (evidence * UNIT), RHEOBASE / (AVOID_EVIDENCE * UNIT)


@functools.cache
def gates(goal: tuple[int, int, int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Classes that a goal wants, and those that it avoids: bool[CLASSES] each, to read only.

    Args:
        goal: color and shape of the target, then of what is to be avoided; 0 stands for any, two zeros to be avoided
            for nothing.
    """
    wanted = class_mask(goal[0], goal[1])
    avoided = class_mask(goal[2], goal[3]) if goal[2] or goal[3] else np.zeros(CLASSES, bool)
    found = wanted & ~avoided, avoided
    for mask in found:
        mask.setflags(write=False)
    return found
