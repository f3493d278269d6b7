# SPDX-License-Identifier: Apache-2.0
r"""Memory of objects, held by spikes: one polar sheet of neurons for each class of object.

A neuron stands for a class (4 colors x 3 shapes, and the taught thing that is looked for) at a place (see
:mod:`.polar`); how much it fires says how much evidence for that there is. A detection excites the neurons round its
place, so evidence adds up over looks; the neurons of all classes at one place share what they can hold, so that new
looks outweigh old ones. What is seen without a shape excites those of its color alike, each by a third. What should be
in view and is not fades. Evidence is held by each neuron exciting itself over a slow synapse s (after H. S. Seung: How
the brain keeps the eyes still, PNAS 93, 1996: a loop of gain one is a graded memory):

    v[t] = v[t-1] + g s[t-1] - z[t-1],    z[t] = 1 if v[t] > 1 else 0,    s[t] = rho s[t-1] + (1 - rho) z[t]

With g = 1 the sum s + (1 - rho) v cannot change: a neuron that fires regularly keeps its rate to within one spike's
worth. g is a little less, so memory fades over minutes. Without spikes, s is gone in half a second.

Odometry shifts the sheets: two neurons count how far the robot turned, two how far it went. Each of their spikes opens
synapses that carry every s to where the same thing now is: by one bin for a turn, by one stride of 10 cm for a way.
What the counting neurons hold below their thresholds is known to whoever reads the sheets, so a turn costs no
precision.
"""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from brain_regions.azimuth import BINS, CENTERS, WIDTH, wrap
from brain_regions.lesions import Lesion
from brain_regions.membranes import decay
from brain_regions.pfc import polar
from brain_regions.pfc.polar import DISTANCES, RINGS, STRIDE
from brain_regions.pfc.watch import Watch
from brain_runtime.contract.sights import is_taught

CLASSES = 13                # index (color - 1) * 3 + (shape - 1), and TAUGHT
TAUGHT = 12                 # index of the taught thing that the goal names
UNIT = 0.06                 # of s: one look of full confidence at a near object
CAP = 12.0 * UNIT           # of s, over all classes at a place
TAU = 0.5                   # s, of the synapses
FORGET = 120.0              # s, in which memory fades
PULL = 0.35                 # share of older evidence round a detection, but not at its place, that each look puts out
TURN, AHEAD = range(2)      # of state "owed"
FLOOR = 1e-6                # of s: less is nothing


def empty() -> dict[str, np.ndarray]:
    """State of a memory of nothing."""
    return {"trace": np.zeros((CLASSES, BINS, RINGS), np.float32),
            "memory": np.zeros((CLASSES, BINS, RINGS), np.float32), "owed": np.zeros(2, np.float32),
            "taught": np.zeros(1, np.float32)}


def class_mask(color: int, shape: int) -> np.ndarray:
    """Returns a mask, bool[CLASSES], of those that fit a color and a shape; 0: any; none fits an unknown number."""
    found = np.zeros(CLASSES, bool)
    if is_taught(shape):
        found[TAUGHT] = True
    elif color <= 4 and shape <= 3:
        mask = found[:TAUGHT].reshape(4, 3)
        mask[slice(None) if color == 0 else color - 1, slice(None) if shape == 0 else shape - 1] = True
    return found


def about(state: dict[str, np.ndarray], shape: int) -> None:
    """Takes in which taught thing the goal names: of another one nothing is remembered yet."""
    shape = shape if is_taught(shape) else 0
    if shape and shape != state["taught"][0]:
        for name in ("trace", "memory"):
            state[name] = state[name].copy()
            state[name][TAUGHT] = 0.0
        state["taught"] = np.array([shape], np.float32)


class ObjectMemory:
    """The neurons and synapses of the memory. State is handed in and out; see :func:`empty`.

    Args:
        tau: time constant of the self-exciting synapses (s).
        forget: time constant with which memory fades (s); not above ``tau``: nothing is held beyond the synapses.
        lesion: what happens to its spikes.
    """

    def __init__(self, tau: float = TAU, forget: float = FORGET, lesion: Lesion | None = None) -> None:
        rho, gain = np.float32(decay(tau)), max(1.0 - tau / forget, 0.0)
        # numbers as arrays: with so few neurons time goes into calls
        self._numbers = np.empty((4, CLASSES * BINS * RINGS), np.float32)
        self._numbers[...] = np.array([gain, rho, 1 - rho, 1.0], np.float32)[:, None]
        self._shifts, self._lesion = polar.Shifts(), lesion

    def rest(self) -> dict[str, np.ndarray]:
        """State of a memory of nothing: :func:`empty`, and with a lesion ``heard``, the synapses on the readers."""
        state = empty()
        return state if self._lesion is None else {**state, "heard": np.zeros_like(state["trace"])}

    # -- odometry --------------------------------------------------------------------------------------------------

    def move(self, state: dict[str, np.ndarray], turned: float, ahead: float) -> tuple[int, int]:
        """Takes in odometry: the sheets are shifted in place of ``state["trace"]``.

        Args:
            state: of the memory; its entries are replaced.
            turned: rad to the left since the last call.
            ahead: m since the last call, negative backward.

        Returns:
            Spikes of the four counting neurons, and synaptic operations: for each spike those synapses that it opens
            and that carry something, of each neuron that holds any evidence as many as its content goes to.
        """
        turn, way = float(state["owed"][TURN]) + turned, float(state["owed"][AHEAD]) + ahead
        trace, spikes, synops = state["trace"], 0, 0
        if self._lesion is not None:
            trace = np.concatenate((trace, state["heard"]))
        while abs(way) > STRIDE / 2 and spikes < 64:
            synops += self._shifts.opened(trace[:CLASSES], turn, way < 0)
            trace = self._shifts.ahead(trace, turn, way < 0)
            way -= math.copysign(STRIDE, way)
            spikes += 1
        bins = round(turn / WIDTH)
        if bins:
            trace = np.roll(trace, -bins, axis=1)
            turn -= bins * WIDTH
            spikes, synops = spikes + abs(bins), synops + abs(bins) * int(np.count_nonzero(trace[:CLASSES]))
        if self._lesion is not None:
            trace, state["heard"] = trace[:CLASSES], trace[CLASSES:]
        state["trace"], state["owed"] = trace, np.array([turn, way], np.float32)
        return spikes, synops

    # -- sight -----------------------------------------------------------------------------------------------------

    def see(self, state: dict[str, np.ndarray], detections: list[Any], turned: float, sector: tuple[float, float],
            free: np.ndarray | None, fade: float, dt: float, integrate: bool = True,
            went: tuple[float, float] = (0.0, 0.0)) -> None:
        """Takes in one frame.

        Args:
            state: of the memory; ``state["trace"]`` is replaced.
            detections: DetectedObjects of sound numbers, in base_link when the frame was taken.
            turned: rad that the robot has turned since then.
            sector: right and left edge of what the camera covers (rad).
            free: m, how far each bin of the sheet's can be seen through; None when that is not known.
            fade: time constant of forgetting what should be in view and is not (s).
            dt: s since the last frame.
            integrate: add up evidence over looks; without, a look puts out all that was known of its place.
            went: how far the robot has gone ahead and to the left since the frame was taken (m), as it looked then.
        """
        turn = float(state["owed"][TURN])
        trace = state["trace"].copy()
        fading = self._in_view(sector, turn, turned, free)
        if detections:
            here, near, rays, added = self._looks(detections, (*went, turned), turn, float(state["owed"][AHEAD]))
            if integrate:
                trace *= 1.0 - np.float32(PULL) * np.maximum(near, rays) * (1.0 - here)
                trace += added
            else:
                trace *= (near == 0) & (rays == 0) & (here <= 0.05)
                trace += np.float32(CAP / UNIT) * added
            fading &= ~((near > 0) | (here > 0.3))
        trace *= np.where(fading, np.float32(math.exp(-dt / fade)), np.float32(1.0))
        held = trace.sum(0)
        trace *= np.minimum(np.float32(CAP) / np.maximum(held, np.float32(1e-6)), np.float32(1.0))
        state["trace"] = trace

    @staticmethod
    def _looks(detections: list[Any], since: tuple[float, float, float], turn: float, way: float
               ) -> tuple[np.ndarray, ...]:
        """Maps detections onto the sheets' cells.

        Returns:
            How much each cell stands for what is detected, whatever it is; how much a look from there tells; the same
            of each class on the rays to what is of it; the evidence that it gets. Two [BINS, RINGS], two with classes.
        """
        places = [polar.brought_back(*polar.seen_from(since, d.bearing, d.distance), turn, way) for d in detections]
        bearings, distances = (np.array(values, np.float32) for values in zip(*places))
        bumps = polar.bumps(bearings, distances)
        bearings, distances = bearings[:, None], distances[:, None]
        aside = np.abs(wrap(CENTERS - bearings))[..., None]
        sideways = aside * np.minimum(DISTANCES, distances)[:, None]
        worth = np.array([float(d.confidence) / (1 + max(d.distance - 1.5, 0.0) ** 2 / 4) for d in detections],
                         np.float32)[:, None, None]
        close = (sideways < 0.12 + 0.08 * distances[..., None]) & (
            np.abs(DISTANCES - distances) < 0.30 + 0.25 * distances)[:, None]
        # the same thing was first seen from afar, and so on the same ray, but nearer or farther than it is
        along = worth * ((aside < 2.2 * WIDTH) & (
            (DISTANCES > 0.5 * distances) & (DISTANCES < 2.5 * distances))[:, None])
        evidence = np.float32(UNIT) * worth * bumps
        rays, added = np.zeros((2, CLASSES, BINS, RINGS), np.float32)
        for number, d in enumerate(detections):
            kinds = np.flatnonzero(class_mask(d.color, d.shape))
            rays[kinds] = np.maximum(rays[kinds], along[number])
            added[kinds] = np.maximum(added[kinds], evidence[number] / np.float32(len(kinds)))
        return bumps.max(0), (worth * close).max(0), rays, added

    @staticmethod
    def _in_view(sector: tuple[float, float], turn: float, turned: float, free: np.ndarray | None) -> np.ndarray:
        """Cells whose objects the camera would have shown, before the robot ``turned`` (rad). bool[BINS, RINGS]."""
        bearing = wrap(CENTERS - turn + np.float32(turned))
        seen = ((bearing > sector[0] + 0.12) & (bearing < sector[1] - 0.12))[:, None] & (DISTANCES > 0.5)
        seen = seen & (DISTANCES < 3)
        return seen if free is None else seen & (DISTANCES < free[:, None] + 0.5)

    # -- spikes ----------------------------------------------------------------------------------------------------

    def run(self, state: dict[str, np.ndarray], steps: int, rate: bool = False, silent: bool = False,
            watch: Watch | None = None) -> tuple[np.ndarray, int]:
        """Integrates ``steps`` micro-steps.

        Args:
            state: of the memory; trace and memory (potentials) are replaced.
            steps: micro-steps.
            rate: units that hand on their rates take the place of spiking neurons: the ANN baseline.
            silent: spikes are held back: the control that shows what they contribute.
            watch: keeps the spikes of its population; None: nobody looks.

        Returns:
            What the synapses onto the readers carry on average, float32[CLASSES, BINS, RINGS], and the spikes.
        """
        if self._lesion is not None:
            return self._run_with(self._lesion, state, steps, silent, watch)
        trace, total = state["trace"], 0
        live = np.flatnonzero(trace > FLOOR)
        if steps and not len(live):
            trace = state["trace"] = np.zeros_like(trace)
        if not (steps and len(live)):
            return trace, 0
        v = state["memory"].copy()
        s, u = trace.reshape(-1)[live], v.reshape(-1)[live]
        gain, kept, opened, one = self._numbers[:, :len(live)]
        fired, z, change = np.empty(s.shape, bool), np.empty_like(s), np.empty_like(s)
        for _ in range(steps):
            if rate:
                np.multiply(s, gain, z)
            else:
                np.add(u, np.multiply(s, gain, change), u)
                count = int(np.count_nonzero(np.greater(u, one, fired)))
                total += 0 if silent else count
                np.copyto(z, fired)
                np.subtract(u, z, u)
            if silent:
                z.fill(0.0)
            if watch is not None:
                everywhere = np.zeros(trace.size, np.float32)
                everywhere[live] = z
                watch.add("memory", everywhere)
            np.multiply(s, kept, s)
            np.add(s, np.multiply(z, opened, change), s)
        trace = np.zeros_like(trace)
        trace.reshape(-1)[live], v.reshape(-1)[live] = s, u
        state["trace"], state["memory"] = trace, v
        return trace, total

    def _run_with(self, lesion: Lesion, state: dict[str, np.ndarray], steps: int, silent: bool, watch: Watch | None
                  ) -> tuple[np.ndarray, int]:
        """:meth:`run` where something happens to spikes: the readers hear what is handed on, and that alone.

        Without a lesion they hear the neurons' own synapses, which a look opens past all spikes (:meth:`see`). Here
        they have synapses of the same kind that only spikes open, so that nothing goes round the lesion.
        """
        names = "trace", "memory", "heard"
        s, u, heard = (state[name].reshape(-1).copy() for name in names)
        gain, kept, opened, one = self._numbers
        s[s <= FLOOR] = 0.0
        heard[heard <= FLOOR] = 0.0
        total = 0
        for _ in range(steps):
            u += s * gain
            z = (u > one).astype(np.float32)
            u -= z
            lesion(z[None])
            if silent:
                z.fill(0.0)
            total += int(np.count_nonzero(z))
            if watch is not None:
                watch.add("memory", z)
            change = z * opened
            s, heard = s * kept + change, heard * kept + change
        state.update({name: part.reshape(state[name].shape) for name, part in zip(names, (s, u, heard))})
        return state["heard"], total
