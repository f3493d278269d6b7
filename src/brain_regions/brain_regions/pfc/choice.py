# SPDX-License-Identifier: Apache-2.0
"""Choice of where to go: from the memory's sheets to one place, through four populations of spiking neurons.

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
from typing import Mapping, NamedTuple

import numpy as np

from brain_regions.azimuth import BINS, CENTERS, wrap
from brain_regions.lesions import Lesion
from brain_regions.membranes import decay
from brain_regions.pfc import polar
from brain_regions.pfc.memory import CLASSES, UNIT, class_mask
from brain_regions.pfc.polar import DISTANCES, RINGS
from brain_regions.pfc.populations import NEURON, Layer, rested, shut
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
_ONTO_CANDIDATES = np.float32(ONTO_CANDIDATES) * PREFERENCE                 # from a bearing of the target sheet
_ONTO_COMMITMENT = np.hstack([                                              # from candidates, and within it
    np.float32(ONTO_COMMITMENT) * POOL, np.float32(SELF) * POOL - np.float32(RIVALS)])
CELLS = BINS * RINGS                                                        # of a sheet
_SHEETS, _RINGS = ("target", "avoid"), ("candidates", "commitment")


class Believed(NamedTuple):
    """Readout of the populations.

    Attributes:
        bearing, distance: of what is committed to, rad and m from the sheets' own heading; NaN: nothing.
        strength: 0..1, how much fires for it.
        share: 0..1, how much of the evidence at its place is for it.
        avoid: places (bearing, distance) of what is to be kept away from.
    """

    bearing: float
    distance: float
    strength: float
    share: float
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
        lesions: by name of the population.
    """

    def __init__(self, evidence: float, rate: bool = False, silent: bool = False,
                 lesions: Mapping[str, Lesion] = {}) -> None:
        self._layer = Layer(TAU, rate, silent)
        self._lesions = {name: lesions[name] for name in (*_SHEETS, *_RINGS) if name in lesions}
        self._noisy = [name for name, lesion in self._lesions.items() if lesion.begets]
        self._onto_target, self._onto_avoid = map(np.float32, gains(evidence))
        self._keep = np.full(BINS, decay(COUNT_TAU), np.float32)

    def run(self, state: dict[str, np.ndarray], memory: np.ndarray, steps: int, wanted: np.ndarray, avoided: np.ndarray,
            threshold: float, watch: Watch | None = None) -> dict[str, np.ndarray]:
        """Integrates ``steps`` micro-steps, all populations together: each hears what synapses carried the one before.

        Memory, and how much the commitment turns attention up, are taken as they are at the beginning.

        Args:
            state: its entries are replaced.
            memory: what the memory's synapses carry, float32[CLASSES, BINS, RINGS].
            steps: micro-steps.
            wanted, avoided: classes that excite the two sheets; none: the sheet gets no input. bool[CLASSES].
            threshold: of the neurons.
            watch: keeps the spikes of its population; None: nobody looks.

        Returns:
            By population how often each neuron fired, float32 of its shape; none of those that rested.
        """
        if not steps:
            return {}
        sheets = [name for name, asked in zip(_SHEETS, (wanted, avoided))
                  if np.count_nonzero(asked) or np.count_nonzero(state[f"{name}_s"]) or name in self._noisy]
        if not (sheets or self._noisy or any(
                np.count_nonzero(state[n]) for n in ("candidates_s", "commitment_s", "counts"))):
            return {}
        # one after the other in the same arrays, for a micro-step's time goes into calls
        names, cells = (*sheets, *_RINGS), CELLS * len(sheets)
        v, s = (np.concatenate([state[f"{name}_{part}"].ravel() for name in names]) for part in "vs")
        x, z, total, theta = np.zeros((4, len(v)), np.float32)
        theta.fill(threshold)
        if sheets[-1:] == ["avoid"]:    # it keeps its threshold: to be undecided is no reason to drive into things
            theta[cells - CELLS:cells] = 1.0
        self._hear(x[:cells].reshape(-1, CELLS), sheets, state["commitment_s"], memory, wanted, avoided)
        candidates, commitment = slice(cells, cells + BINS), slice(cells + BINS, cells + 2 * BINS)
        seeks = s[:CELLS].reshape(BINS, RINGS) if "target" in sheets else None
        rings, onto_candidates, onto_commitment = s[cells:], x[candidates], x[commitment]
        counts, counted = state["counts"].copy(), z[candidates]
        if self._lesions:
            parts = [slice(start, start + CELLS) for start in range(0, cells, CELLS)] + [candidates, commitment]
            self._layer.lesions = [(part, self._lesions[name]) for name, part in zip(names, parts)
                                   if name in self._lesions]
        for _ in range(steps):
            if seeks is not None:
                np.dot(seeks, _ONTO_CANDIDATES, onto_candidates)
            np.dot(_ONTO_COMMITMENT, rings, onto_commitment)
            fired = self._layer.advance(x, v, s, z, theta)
            np.multiply(counts, self._keep, counts)
            if fired:
                np.add(total, self._layer.handed_on(z), total)
                np.add(counts, counted, counts)
            if watch is not None:
                for name, row in zip(names, np.split(z, [*range(CELLS, cells + 1, CELLS), cells + BINS])):
                    watch.add(name, row)
        rested(v)
        shut(s)
        for number, name in enumerate(sheets):
            part = slice(number * CELLS, (number + 1) * CELLS)
            state[f"{name}_v"], state[f"{name}_s"] = v[part].reshape(BINS, RINGS), s[part].reshape(BINS, RINGS)
        state.update(candidates_v=v[candidates], candidates_s=s[candidates], commitment_v=v[commitment],
                     commitment_s=s[commitment], counts=shut(counts))
        fired_by = {"candidates": total[candidates], "commitment": total[commitment]}
        for number, name in enumerate(sheets):
            fired_by[name] = total[number * CELLS:(number + 1) * CELLS].reshape(BINS, RINGS)
        return fired_by

    def _hear(self, x: np.ndarray, sheets: list[str], commitment: np.ndarray, memory: np.ndarray, wanted: np.ndarray,
              avoided: np.ndarray) -> None:
        """Puts what comes in from memory into float32[sheets, CELLS]; nothing onto one that nothing excites."""
        weights = np.zeros((len(sheets), CLASSES), np.float32)
        for row, name in zip(weights, sheets):
            if name == "avoid":
                if np.count_nonzero(avoided):
                    row[:] = self._onto_avoid * (avoided - np.float32(AVOID_SHARE))
            elif np.count_nonzero(wanted):
                row[:] = self._onto_target * _signs(wanted)
        np.dot(weights, memory.reshape(CLASSES, CELLS), x)
        if sheets[:1] == ["target"] and np.count_nonzero(commitment):
            attended = np.float32(1.0) + np.float32(ATTENTION) * np.minimum(np.dot(POOL, commitment), np.float32(1.0))
            target = x[0].reshape(BINS, RINGS)
            np.multiply(target, attended[:, None], target)

    @staticmethod
    def distribution(state: dict[str, np.ndarray]) -> np.ndarray:
        """The choice distribution over the headings, float64[BINS]: uniform while no candidate fires."""
        counts = state["counts"].astype(np.float64)
        counts += PRIOR
        return counts / np.add.reduce(counts)

    @staticmethod
    def read(state: dict[str, np.ndarray], memory: np.ndarray, wanted: np.ndarray) -> Believed:
        """Reads out the populations as they are now; see :meth:`run` for the arguments."""
        commitment = state["commitment_s"]
        strength, share = float(np.maximum.reduce(commitment)), 0.0
        bearing = distance = math.nan
        away = state["avoid_s"]
        found = [polar.place(away, b) for b, _ in polar.peaks(away, SURE, 8)] if np.count_nonzero(away) else []
        if strength > SURE and np.maximum.reduce(state["target_s"], None) > SURE:
            # which neurons of the sheet fire tells the bin; how much the memory's fire for it, the place between them
            both = np.dot(_for_it_and_all(wanted.tobytes()), memory.reshape(CLASSES, CELLS)).reshape(2, BINS, RINGS)
            bearing, distance = polar.place(np.maximum(both[0], 0.0), int(np.dot(POOL, commitment).argmax()))
            if math.isfinite(bearing):
                more, held = polar.nearby(both, bearing, distance)
                share = 0.5 + 0.5 * more / held if held > 0 else 0.0
        if not math.isfinite(bearing):
            strength = 0.0
        return Believed(bearing, distance, min(strength, 1.0), share, found)


def _signs(wanted: np.ndarray) -> np.ndarray:
    """1 for classes that are wanted, -1 for all others: float32[CLASSES]."""
    return np.float32(2.0) * wanted - np.float32(1.0)


@functools.cache
def _for_it_and_all(wanted: bytes) -> np.ndarray:
    """Two weights of each class: 1 for what is wanted and -1 for all others; and 1. float32[2, CLASSES]."""
    return np.stack((_signs(np.frombuffer(wanted, bool)), np.ones(CLASSES, np.float32)))


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
