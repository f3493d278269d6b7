# SPDX-License-Identifier: Apache-2.0
"""What to do now: populations that compete, are held down, or go on firing until a new goal clears them.

Relays fire while something is the case ("there is a goal", "vision is missing"). Five populations of actions hear them
and inhibit each other; the one that fires most is what is done. Three latches excite themselves so strongly that they
stay on once they fired: ``reached``, ``given_up``, ``tired`` (looked long enough). Two populations turn the robot on
the spot while that shows enough, and go on, once begun, down to a quarter of what made them begin. Timers are neurons
that do not leak and fire when something has been so for as long as they wait.
"""
from __future__ import annotations

import math
import operator

import numpy as np

from brain_regions.membranes import MICRO_STEP
from brain_regions.pfc.populations import Layer, spread
from brain_regions.pfc.watch import Watch

NEURONS = 8
ACTIONS = ("stop", "idle", "search", "approach", "avoid")
RELAYS = ("goal", "told_stop", "unasked", "puzzled", "blind", "arrived", "near")
LATCHES = ("reached", "given_up", "tired")
TURNS = ("turn_left", "turn_right")
NAMES = ACTIONS + RELAYS + LATCHES + TURNS
_AT = {name: k for k, name in enumerate(NAMES)}
_TIMED = tuple(_AT[name] for name in ("search", "approach", "arrived", "avoid", "tired"))   # what timers hear
_EACH = np.full(NEURONS, 1 / NEURONS, np.float32)
TIMERS = ("standing", "empty", "patience", "retreat")
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
FIXED = slice(len(ACTIONS), len(NAMES))     # populations whose threshold is not moved


def weights() -> np.ndarray:
    """Synapses from population (row) to population (column), float32[17, 17] in the order of :data:`NAMES`."""
    found = np.zeros((len(NAMES), len(NAMES)), np.float32)
    for source, targets in _WIRES.items():
        for target, weight in targets.items():
            found[_AT[source], _AT[target]] = weight
    return found


def empty() -> dict[str, np.ndarray]:
    """State of populations at rest: potentials, synapses, and the timers' potentials."""
    return {"decision_v": np.zeros((len(NAMES), NEURONS), np.float32),
            "decision_s": np.zeros((len(NAMES), NEURONS), np.float32), "timers": np.zeros(len(TIMERS), np.float32)}


class Decision:
    """The populations. State is handed in and out; see :func:`empty`.

    Args:
        patience: s of search after which the robot is tired of it.
        rate, silent: see :class:`.populations.Layer`.
    """

    def __init__(self, patience: float, rate: bool = False, silent: bool = False) -> None:
        self._layer = Layer(TAU, rate, silent)
        self._weights = weights()
        self._fan_out = ((self._weights != 0).sum(1) * NEURONS).tolist()
        self._spread = spread(NEURONS)[None]
        self._waits = [{**WAITS, "patience": patience}[n] for n in TIMERS]
        self._leaks = [math.exp(-MICRO_STEP / LEAK[n]) if n in LEAK else 1.0 for n in TIMERS]

    def run(self, state: dict[str, np.ndarray], steps: int, causes: dict[str, float], threshold: float,
            watch: Watch | None = None) -> tuple[int, int]:
        """Integrates ``steps`` micro-steps.

        Args:
            state: its entries are replaced.
            steps: micro-steps.
            causes: relays' names with 1 where their cause is there; ``approach`` and ``avoid`` with what drives them
                beside (0..1); the turns with what they would show, 1 being just worth it; ``sure`` with how fast the
                robot becomes certain that it stands where it should (0..1); ``empty`` with 1 where nothing is left to
                look at.
            threshold: of the actions' neurons.
            watch: keeps the spikes of its population; None: nobody looks.

        Returns:
            Spikes and synaptic operations.
        """
        if not steps:
            return 0, 0
        drive = np.zeros(len(NAMES), np.float32)
        for name in RELAYS:
            drive[_AT[name]] = DRIVE * causes.get(name, 0.0)
        drive[_AT["approach"]] = 1.2 * causes.get("approach", 0.0)
        drive[_AT["avoid"]] = AVOID_BIAS + 2.4 * causes.get("avoid", 0.0)
        for name in TURNS:
            drive[_AT[name]] = TURN_DRIVE * min(causes.get(name, 0.0), 2.0)
        v, s, timers = state["decision_v"], state["decision_s"], state["timers"]
        theta = np.ones_like(v)
        theta[:len(ACTIONS)] = threshold
        v, s, z, total = v.copy(), s.copy(), np.empty_like(v), np.zeros_like(v)
        timers = timers.tolist()
        sure, empty = causes.get("sure", 0.0), causes.get("empty", 0.0)
        for _ in range(steps):
            means = np.dot(s, _EACH)
            onto = np.dot(means, self._weights)
            np.add(onto, drive, onto)
            fired = self._tick(timers, means.tolist(), sure, empty)
            if fired[0]:
                onto[_AT["reached"]] += SET
            if fired[1] or fired[2]:
                onto[_AT["tired"]] += SET
            if fired[3]:
                onto[_AT["given_up"]] += GIVE_UP + SET
            self._layer.advance(onto[:, None] * self._spread, v, s, z, theta)
            np.add(total, z, total)
            if watch is not None:
                watch.add("actions", z[:len(ACTIONS)])
                watch.add("facts", z[FIXED])
        state["decision_v"], state["decision_s"], state["timers"] = v, s, np.array(timers, np.float32)
        each = np.add.reduce(total, 1).tolist()
        return int(sum(each)), int(sum(map(operator.mul, each, self._fan_out)))

    def _tick(self, timers: list[float], means: list[float], sure: float, empty: float) -> list[bool]:
        """Moves the timers on by a micro-step, in place; which of them fire.

        One that fired goes on firing while its cause lasts.
        """
        search, approach, arrived, avoid, tired = [means[k] / UP if means[k] < UP else 1.0 for k in _TIMED]
        fired = []
        for k, run in enumerate((arrived * sure, search * empty, search if search > approach else approach,
                                 avoid * tired)):
            timer = timers[k] * (1.0 if run > 0.05 else self._leaks[k]) + run * MICRO_STEP / self._waits[k]
            fired.append(timer > 1.0)
            timers[k] = timer if timer < 1.0 + 1e-3 else 1.0 + 1e-3
        return fired


def read(state: dict[str, np.ndarray]) -> tuple[str, str, dict[str, float]]:
    """What the populations say: the action, why it stands still (a relay or latch), and all mean synapses.

    Either is empty where nothing fires for it.
    """
    means = dict(zip(NAMES, (np.add.reduce(state["decision_s"], 1) / np.float32(NEURONS)).tolist()))
    action = max(ACTIONS, key=means.get)
    why = max(("reached", "given_up", "puzzled", "blind", "unasked"), key=means.get)
    return (action if means[action] > SURE else ""), (why if means[why] > SURE else ""), means
