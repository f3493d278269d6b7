# SPDX-License-Identifier: Apache-2.0
"""Choice of an action: populations that compete, are held down, or go on firing until a new goal clears them.

Relays fire while something is the case ("there is a goal", "vision is missing"). Five populations of actions hear them
and inhibit each other; the one that fires most is what is done. Three latches excite themselves so strongly that they
stay on once they fired: ``reached``, ``given_up``, ``tired`` (looked long enough). Two populations turn the robot on
the spot while that shows enough, and go on, once begun, down to a quarter of what made them begin. Timers are neurons
that do not leak and fire when something has been so for as long as they wait. The ring of headings goes on with all of
them and hears the actions (see :mod:`.heading`).
"""
from __future__ import annotations

import math
from typing import Mapping

import numpy as np

from brain_regions.azimuth import BINS
from brain_regions.lesions import Lesion
from brain_regions.membranes import MICRO_STEP
from brain_regions.pfc import heading
from brain_regions.pfc.populations import Layer, rested, shut, spread
from brain_regions.pfc.watch import Watch

NEURONS = 8
ACTIONS = ("stop", "idle", "search", "approach", "avoid")
RELAYS = ("goal", "told_stop", "unasked", "puzzled", "blind", "arrived", "near")
LATCHES = ("reached", "given_up", "tired")
TURNS = ("turn_left", "turn_right")
NAMES = ACTIONS + RELAYS + LATCHES + TURNS
_AT = {name: k for k, name in enumerate(NAMES)}
_TIMED = tuple(_AT[name] for name in ("search", "approach", "arrived", "avoid", "tired"))   # what timers hear
TIMERS = ("standing", "empty", "patience", "retreat")
FULL = 1.0 + 1e-3                                           # of a timer; it fires from 1 on
WAITS = {"standing": 0.4, "empty": 1.5, "retreat": 7.0}     # s; patience is a parameter
LEAK = {"standing": 0.15, "empty": 0.3}                    # s: what is not the case any more is soon forgotten
TAU = 0.05          # s, of the synapses
DRIVE = 0.5         # charge per micro-step onto a relay whose cause is there
SET = 1.5           # what a timer's spike puts onto a latch, for as long as its synapse is open
GIVE_UP = 4.0       # what is put onto given_up besides when there was no room to be made
SURE = 0.08         # of a synapse: below it a population counts as silent
UP = 0.3           # of a relay's synapse, at which its timers run at full speed
_WIRES = {          # from population to population
    "told_stop": {"stop": 2.0},
    "unasked": {"idle": 2.0}, "puzzled": {"idle": 2.0}, "blind": {"idle": 2.0},
    "reached": {"reached": 1.4, "idle": 2.0}, "given_up": {"given_up": 1.4, "idle": 2.0},
    "tired": {"tired": 1.4, "avoid": 1.5, "given_up": 1.0},
    "near": {"avoid": 1.5, "given_up": -3.0},
    "goal": {"search": 1.2},
    "stop": {"stop": 0.2, "idle": -4.0, "search": -4.0, "approach": -4.0, "avoid": -4.0},
    "idle": {"idle": 0.2, "search": -4.0, "approach": -4.0, "avoid": -4.0},
    "avoid": {"avoid": 0.2, "search": -3.0, "approach": -3.0},
    "approach": {"approach": 0.2, "search": -3.0, "tired": -8.0, "given_up": -8.0},    # what is in sight is gone to
    "search": {"search": 0.2},
    "turn_left": {"turn_left": 0.84, "turn_right": -2.0}, "turn_right": {"turn_right": 0.84, "turn_left": -2.0},
}
AVOID_BIAS = -0.9   # of avoid: neither what is near nor being tired brings it about alone
TURN_DRIVE = 0.215  # charge onto a turn that is just worth it
_CELLS = len(NAMES) * NEURONS
_POPULATIONS = {"actions": slice(len(ACTIONS) * NEURONS), "facts": slice(len(ACTIONS) * NEURONS, _CELLS),
                "heading": slice(_CELLS, _CELLS + BINS)}
_EACH = np.zeros((len(NAMES), _CELLS + BINS), np.float32)       # from a number for each population to its neurons
_EACH[:, :_CELLS] = np.kron(np.eye(len(NAMES)), spread(NEURONS)[None])


def _cells(name: str) -> slice:
    return slice(_AT[name] * NEURONS, (_AT[name] + 1) * NEURONS)


# what the spikes of timers set, "empty" and "patience" the same: neurons of a latch, and the charge
_SETS = tuple((_cells(name), np.float32(charge) * spread(NEURONS)) for name, charge in (
    ("reached", SET), ("tired", SET), ("given_up", GIVE_UP + SET)))


def weights() -> np.ndarray:
    """Synapses from population (row) to population (column), float32[17, 17] in the order of :data:`NAMES`."""
    found = np.zeros((len(NAMES), len(NAMES)), np.float32)
    for source, targets in _WIRES.items():
        for target, weight in targets.items():
            found[_AT[source], _AT[target]] = weight
    return found


def empty() -> dict[str, np.ndarray]:
    """State of populations at rest: potentials, synapses, and the timers' potentials; with that of the ring."""
    return {"decision_v": np.zeros((len(NAMES), NEURONS), np.float32),
            "decision_s": np.zeros((len(NAMES), NEURONS), np.float32), "timers": np.zeros(len(TIMERS), np.float32),
            **heading.empty()}


class Decision:
    """The populations, and the ring of headings. State is handed in and out; see :func:`empty`.

    Args:
        patience: s of search after which the robot is tired of it.
        rate, silent: see :class:`.populations.Layer`.
        lesions: by name of the population: actions, facts, heading.
    """

    def __init__(self, patience: float, rate: bool = False, silent: bool = False,
                 lesions: Mapping[str, Lesion] = {}) -> None:
        self._layer = Layer(TAU, rate, silent)
        self._layer.lesions = [(part, lesions[name]) for name, part in _POPULATIONS.items() if name in lesions]
        wires = weights()
        # a synapse carries the mean of its population, the ring's last, onto each neuron: one array for all of them,
        # for a micro-step's time goes into calls
        self._mean = np.zeros((_CELLS + BINS, len(NAMES) + 1), np.float32)
        self._mean[:_CELLS, :-1] = np.kron(np.eye(len(NAMES)), np.ones((NEURONS, 1))) / NEURONS
        self._mean[_CELLS:, -1] = 1 / BINS
        self._onto = np.zeros((len(NAMES) + 1, _CELLS + BINS), np.float32)
        self._onto[:-1, :_CELLS] = np.kron(wires, spread(NEURONS)[None])
        self._onto[-1, _CELLS:] = -heading.MUTUAL
        self._waits = [{**WAITS, "patience": patience}[n] for n in TIMERS]
        self._leaks = [math.exp(-MICRO_STEP / LEAK[n]) if n in LEAK else 1.0 for n in TIMERS]

    def run(self, state: dict[str, np.ndarray], steps: int, causes: dict[str, float], offers: dict[str, np.ndarray],
            threshold: float, watch: Watch | None = None, impatient: bool = True) -> dict[str, np.ndarray]:
        """Integrates ``steps`` micro-steps.

        Args:
            state: its entries are replaced.
            steps: micro-steps.
            causes: relays' names with 1 where their cause is there; ``approach`` and ``avoid`` with what drives them
                beside (0..1); the turns with what they would show, 1 being just worth it; ``sure`` with how fast the
                robot becomes certain that it stands where it should (0..1); ``empty`` with 1 where nothing is left to
                look at, and all round was looked at once more; ``patience`` with how fast it runs (0..1, 1 where left
                out).
            offers: headings that actions offer to the ring as far as they fire, by action (0..1, float32[BINS]).
            threshold: of the neurons of actions and ring.
            watch: keeps the spikes of its population; None: nobody looks.
            impatient: whether patience may end; without that its timer waits, full.

        Returns:
            How often each neuron of ``actions``, ``facts`` and ``heading`` fired, float32 of the population's shape.
        """
        if not steps:
            return {}
        drive = self._drive(causes)
        for name in heading.OFFERED:
            self._onto[_AT[name], _CELLS:] = np.float32(heading.ONTO) * offers[name] if name in offers else 0.0
        timers = state["timers"].tolist()
        v, s = (np.concatenate((state[f"decision_{part}"].ravel(), state[f"heading_{part}"])) for part in "vs")
        z, total, x = np.zeros((3, len(v)), np.float32)
        theta = np.full_like(v, threshold)
        theta[len(ACTIONS) * NEURONS:_CELLS] = 1.0      # of the facts it is not moved
        sure, empty, pace = causes.get("sure", 0.0), causes.get("empty", 0.0), causes.get("patience", 1.0)
        most = [FULL, FULL, FULL if impatient else 1.0, FULL]
        for _ in range(steps):
            means = np.dot(s, self._mean)
            np.add(np.dot(means, self._onto), drive, x)
            if any(fired := self._tick(timers, means.tolist(), sure, empty, pace, most)):
                standing, empty_, patience, retreat = fired
                for is_set, (latch, charge) in zip((standing, empty_ or patience, retreat), _SETS):
                    if is_set:
                        x[latch] += charge
            if self._layer.advance(x, v, s, z, theta):
                np.add(total, self._layer.handed_on(z), total)
            if watch is not None:
                for name, part in _POPULATIONS.items():
                    watch.add(name, z[part])
        rested(v)
        shut(s)
        shape = state["decision_v"].shape
        state.update(decision_v=v[:_CELLS].reshape(shape), decision_s=s[:_CELLS].reshape(shape), heading_v=v[_CELLS:],
                     heading_s=s[_CELLS:], timers=np.array(timers, np.float32))
        each = total[:_CELLS].reshape(shape)
        return {"actions": each[:len(ACTIONS)], "facts": each[len(ACTIONS):], "heading": total[_CELLS:]}

    @staticmethod
    def _drive(causes: dict[str, float]) -> np.ndarray:
        """Charge that comes onto each neuron from outside in every micro-step."""
        drive = [0.0] * len(NAMES)
        for name in RELAYS:
            drive[_AT[name]] = DRIVE * causes.get(name, 0.0)
        drive[_AT["approach"]] = 1.2 * causes.get("approach", 0.0)
        drive[_AT["avoid"]] = AVOID_BIAS + 2.4 * causes.get("avoid", 0.0)
        for name in TURNS:
            drive[_AT[name]] = TURN_DRIVE * min(causes.get(name, 0.0), 2.0)
        return np.dot(np.array(drive, np.float32), _EACH)

    def _tick(self, timers: list[float], means: list[float], sure: float, empty: float, pace: float, most: list[float]
              ) -> list[bool]:
        """Moves the timers on by a micro-step, in place, up to the ``most`` of each; which of them fire.

        One that fired goes on firing while its cause lasts.
        """
        search, approach, arrived, avoid, tired = [means[k] / UP if means[k] < UP else 1.0 for k in _TIMED]
        fired = []
        for k, run in enumerate((arrived * sure, search * empty, pace * (search if search > approach else approach),
                                 avoid * tired)):
            timer = timers[k] * (1.0 if run > 0.05 else self._leaks[k]) + run * MICRO_STEP / self._waits[k]
            fired.append(timer > 1.0 and most[k] > 1.0)
            timers[k] = timer if timer < most[k] else most[k]
        return fired


def full(state: dict[str, np.ndarray], timer: str) -> bool:
    """Tells whether a timer has run as long as it waits; it fires then, if it may."""
    return bool(state["timers"][TIMERS.index(timer)] >= 1.0)


def fired(state: dict[str, np.ndarray], timer: str) -> bool:
    """Tells whether a timer fires."""
    return bool(state["timers"][TIMERS.index(timer)] > 1.0)


def mean(state: dict[str, np.ndarray], name: str) -> float:
    """Averages what the synapses of a population carry, 0..1."""
    return float(np.add.reduce(state["decision_s"][_AT[name]])) / NEURONS


def read(state: dict[str, np.ndarray]) -> tuple[str, str, dict[str, float]]:
    """Reads out the populations: the action, why it stands still (a relay or latch), and all mean synapses.

    Either is empty where nothing fires for it.
    """
    means = dict(zip(NAMES, (np.add.reduce(state["decision_s"], 1) / np.float32(NEURONS)).tolist()))
    action = max(ACTIONS, key=means.get)
    why = max(("reached", "given_up", "puzzled", "blind", "unasked"), key=means.get)
    return (action if means[action] > SURE else ""), (why if means[why] > SURE else ""), means
