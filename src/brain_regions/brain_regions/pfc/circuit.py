# SPDX-License-Identifier: Apache-2.0
r"""The populations of the prefrontal cortex as one circuit, for other simulators: a robot that stands, with one goal.

Memory, sheets, rings and decision are the region's own neurons and synapses, with nothing left out. How much of a
synapse a spike still opens is counted: gates, neurons without memory, fire with a neuron's spike, as many of
:data:`.populations.LEVELS` as its synapse is open, and take off what the spike would open too much.

What the region multiplies otherwise is said by gates, too, and only roughly the same (see docs/nir.md):

- Attention's gain: target neurons come twice, with gain 1 and with gain 1 + ATTENTION, and where the commitment points
  the others are held down.
- Timers run while a population fires or not, where the region's run as much as it fires.
- Offered headings, which the region weighs with how much their action fires, come through a ring for each action that
  the action opens. It flees from what is near, not to open floor.

Left out are odometry, which would need a product for each of its synapses, and what happens to evidence on its way into
memory (sharing, fading, older evidence that is put out): the input is what a look changes. The goal is in the weights,
and the threshold, which feedback moves, is fixed. A region computes memory, choice and decision one after the other,
each for a whole step; here all go on together, micro-step by micro-step. Within a micro-step it hears what synapses
carried in the one before; here candidates, commitment and heading hear what has just been fired.
"""
from __future__ import annotations

import math
from typing import Union

import numpy as np

from brain_regions.azimuth import BINS, BUMP, CENTERS, wrap
from brain_regions.circuits import (HANDS_ON, IF, INPUT, Circuit, Convolution, Count, Dense, Gate, Population,
                                    Projection, PromptLIF)
from brain_regions.membranes import LI, MICRO_STEP, decay
from brain_regions.pfc import choice, decision, heading
from brain_regions.pfc.decision import ACTIONS, NAMES, NEURONS
from brain_regions.pfc.memory import CLASSES, FORGET, TAU
from brain_regions.pfc.polar import DISTANCES, RINGS
from brain_regions.pfc.populations import KAPPA, LEVELS, NEURON, spread

CAUSES = (*decision.RELAYS, "certain", "empty", *decision.TURNS)
"""Causes in the order in which the last channel of the input tells them, each 0..1, turns up to 2.

``certain``: 1 where more than 0.6 of the evidence at its place is for what is committed to."""
CELLS = CLASSES * RINGS
INPUTS = (CELLS + 2, BINS, 1)
"""Of the input: what looks change in the memory's synapses now, by class, distance and bearing; then the way to
unseen floor that was drawn, by bearing; then the causes. See :func:`inputs`."""
RING = (BINS, 1, 1)     # all but sheets have their neurons in channels, where convolutions of one place are dense
SHEET = (RINGS, BINS, 1)
LINE = (1, BINS, 1)     # what is said of each bearing of a sheet
ANSWERS = (*NAMES, *(f"commitment {k}" for k in range(BINS)), *(f"heading {k}" for k in range(BINS)))
"""What the output tells: mean synapses of the populations, then the synapses of two rings."""
OPEN = 10.0             # charge by which rings and sheets are held down that are not in use
SHUT = 2.0              # what an input of a gate has to be that forbids it to fire
NEAR, BEYOND = 0.80, 1.5        # m: what is nearer than the one, and not seen up to the other, is too near
STEPS = (np.arange(LEVELS) + 0.5) / LEVELS      # where what is 0..1 rounds to the next level
UPS = ("arrived", "search", "approach", "avoid", "tired")
RUNS = ("standing", "certain", "empty", "patience", "retreat")      # the first two run the same timer
WAYS = heading.OFFERED
ONTO_WAYS, ONTO_HEADING = 1.2, 0.9      # charges: onto the ring of an action, at the peak of what is offered; from it


class Builder:
    """Collects populations and projections."""

    def __init__(self) -> None:
        self.populations: list[Population] = []
        self.projections: list[Projection] = []

    def neurons(self, name: str, shape: tuple[int, int, int], neuron: Union[PromptLIF, IF, Gate, LI, Count]) -> None:
        self.populations.append(Population(name, shape, neuron))

    def cells(self, source: str, target: str, weight: np.ndarray, bias: np.ndarray | None = None,
              delay: int = 0) -> None:
        """Synapses between neurons of the same place: weight [target's channels, source's channels]."""
        weight = np.asarray(weight, np.float32)[:, :, None, None]
        self.projections.append(Convolution(source, target, weight, None if bias is None else np.float32(bias),
                                            delay=delay))

    def dense(self, source: str, target: str, weight: np.ndarray, bias: np.ndarray | None = None,
              delay: int = 0) -> None:
        self.projections.append(Dense(source, target, np.asarray(weight, np.float32),
                                      None if bias is None else np.float32(bias), delay))

    def synapses(self, names: tuple[str, ...], shape: tuple[int, int, int], tau: float) -> None:
        """Synapses that saturate, of neurons that take turns: a population ``<first name>_carried``."""
        carried, gates = f"{names[0]}_carried", f"{names[0]}_open"
        each, rho = np.eye(shape[0]), decay(tau)
        self.neurons(gates, (LEVELS * shape[0], *shape[1:]), Gate(1.0))
        self.neurons(carried, shape, LI(tau))
        onto = np.tile(each, (LEVELS, 1))
        for k, name in enumerate(names):
            self.cells(name, gates, onto, -np.repeat(STEPS, shape[0]) if k == 0 else None)
            self.cells(name, carried, KAPPA / (1 - rho) * each)
        self.cells(carried, gates, onto, delay=1)
        self.cells(gates, carried, -KAPPA / LEVELS / (1 - rho) * onto.T)


def inputs(evidence: np.ndarray, way: np.ndarray, causes: dict[str, float]) -> np.ndarray:
    """The input of a micro-step.

    Args:
        evidence: what a look changes in the memory's synapses, float32[CLASSES, BINS, RINGS].
        way: to unseen floor that was drawn, as a bump, float32[BINS].
        causes: of :data:`CAUSES`; those left out are 0.

    Returns:
        float32 of shape :data:`INPUTS`.
    """
    x = np.zeros(INPUTS, np.float32)
    x[:CELLS, :, 0] = evidence.transpose(0, 2, 1).reshape(CELLS, BINS)
    x[CELLS, :, 0] = way
    x[CELLS + 1, [CAUSES.index(name) for name in causes], 0] = list(causes.values())
    return x


def _causes(**weights: float) -> np.ndarray:
    """A row of weights from the causes."""
    row = np.zeros(BINS)
    row[[CAUSES.index(name) for name in weights]] = list(weights.values())
    return row


def circuit(goal: tuple[int, int, int, int], threshold: float = 1.0, evidence: float = 1.2, patience: float = 50.0
            ) -> Circuit:
    """The circuit.

    Args:
        goal: color and shape of the target, then of what is to be avoided; see :func:`.choice.gates`.
        threshold: of the neurons that the feedback acts on.
        evidence, patience: parameters of the region.
    """
    b = Builder()
    _sheets(b, goal, threshold, evidence)
    _rings(b, threshold)
    _timers(b, patience)
    _decision(b, threshold)
    _heading(b, threshold)
    _answer(b)
    return Circuit("pfc", INPUTS, tuple(b.populations), tuple(b.projections), MICRO_STEP)


def _sheets(b: Builder, goal: tuple[int, int, int, int], threshold: float, evidence: float) -> None:
    each = np.eye(CELLS + 2)
    b.neurons("way", LINE, HANDS_ON)
    b.cells(INPUT, "way", each[CELLS:CELLS + 1])
    b.neurons("causes", LINE, HANDS_ON)
    b.cells(INPUT, "causes", each[CELLS + 1:])
    b.neurons("held", (CELLS, BINS, 1), LI(TAU))
    b.cells(INPUT, "held", each[:CELLS] / (1 - decay(TAU)))
    b.cells("memory", "held", each[:CELLS, :CELLS], delay=1)
    b.neurons("memory", (CELLS, BINS, 1), IF(1.0))
    b.cells("held", "memory", (1 - TAU / FORGET) * each[:CELLS, :CELLS])

    wanted, avoided = choice.gates(goal)
    onto_target, onto_avoid = choice.gains(evidence)
    wanted = np.kron(onto_target * (2.0 * wanted - 1.0), np.eye(RINGS))
    avoided = np.kron(onto_avoid * (avoided - choice.AVOID_SHARE) * avoided.any(), np.eye(RINGS))
    b.neurons("attention", LINE, Gate(0.5))
    b.dense("commitment_carried", "attention", choice.POOL, delay=1)
    for name, gain, sign in (("target", 1.0, -1.0), ("attended", 1.0 + choice.ATTENTION, 1.0)):
        b.neurons(name, SHEET, PromptLIF(NEURON.tau, threshold))
        b.cells("held", name, gain * wanted, np.full(RINGS, -OPEN) if sign > 0 else None)
        b.cells("attention", name, np.full((RINGS, 1), sign * OPEN))
    b.synapses(("target", "attended"), SHEET, choice.TAU)
    b.neurons("sought", LINE, HANDS_ON)
    b.cells("target_carried", "sought", choice.ONTO_CANDIDATES * choice.PREFERENCE[None])
    b.neurons("avoid", SHEET, PromptLIF(NEURON.tau, 1.0))
    b.cells("held", "avoid", avoided)
    b.synapses(("avoid",), SHEET, choice.TAU)
    # of each bearing, whether something is near there
    b.neurons("close", LINE, Gate(choice.SURE))
    b.cells("avoid_carried", "close", np.where(DISTANCES < NEAR, 1.0, -1.0 * (DISTANCES < BEYOND))[None])


def _rings(b: Builder, threshold: float) -> None:
    b.neurons("candidates", RING, PromptLIF(NEURON.tau, threshold))
    b.dense("sought", "candidates", np.eye(BINS))
    b.synapses(("candidates",), RING, choice.TAU)
    b.neurons("commitment", RING, PromptLIF(NEURON.tau, threshold))
    b.dense("candidates_carried", "commitment", choice.ONTO_COMMITMENT * choice.POOL)
    b.dense("commitment_carried", "commitment", choice.SELF * choice.POOL - choice.RIVALS, delay=1)
    b.synapses(("commitment",), RING, choice.TAU)
    # how much fires for it: twice the highest synapse, at most 1, in levels
    b.neurons("sighted", (LEVELS * BINS, 1, 1), Gate(0.0))
    b.cells("commitment_carried", "sighted", 2.0 * np.tile(np.eye(BINS), (LEVELS, 1)), -np.repeat(STEPS, BINS))
    b.neurons("strength", (LEVELS, 1, 1), Gate(0.5))
    b.dense("sighted", "strength", np.kron(np.eye(LEVELS), np.ones((1, BINS))))


def _means(weights: dict[str, float], names: tuple[str, ...]) -> np.ndarray:
    """A row of weights from the neurons of some populations, by the mean of each."""
    return np.repeat([weights.get(name, 0.0) / NEURONS for name in names], NEURONS)


FACTS = NAMES[len(ACTIONS):]
GROUPS = {"actions": ACTIONS, "facts": FACTS}


def _timers(b: Builder, patience: float) -> None:
    timers, h = decision.TIMERS, MICRO_STEP
    waits = {**decision.WAITS, "patience": patience}
    b.neurons("up", (len(UPS), 1, 1), Gate(0.5))
    for group, names in GROUPS.items():
        b.dense(f"{group}_carried", "up", [_means({name: 1.0 / decision.UP}, names) for name in UPS], delay=1)
    ups = {"standing": ("arrived",), "certain": ("arrived",), "empty": ("search",), "patience": ("search", "approach"),
           "retreat": ("avoid", "tired")}
    needed = {"standing": 0.5, "certain": 1.5, "empty": 1.5, "patience": 0.5, "retreat": 1.5}
    b.neurons("runs", (len(RUNS), 1, 1), Gate(0.0))
    b.dense("up", "runs", [[float(up in ups[run]) for up in UPS] for run in RUNS], [-needed[run] for run in RUNS])
    b.dense("causes", "runs", [_causes(**({run: 1.0} if run in CAUSES else {})) for run in RUNS])
    of = np.array([[run == timer or (run, timer) == ("certain", "standing") for run in RUNS] for timer in timers],
                  float)
    pace = of * np.array([0.15, 0.85, 1.0, 1.0, 1.0]) * [[h / waits[timer]] for timer in timers]
    b.neurons("full", (len(RUNS), 1, 1), Gate(SHUT - 0.5))      # runs, but its timer has fired already
    b.dense("runs", "full", np.eye(len(RUNS)))
    b.dense("fired", "full", (SHUT - 1.0) * of.T, delay=1)
    fading = [timer for timer in timers if timer in decision.LEAK]
    at = np.array([[float(timer == name) for timer in timers] for name in fading])
    b.neurons("forgets", (LEVELS * len(fading), 1, 1), Gate(0.0))
    b.dense("timers", "forgets", np.kron(at, np.ones((LEVELS, 1))), delay=1)
    b.dense("runs", "forgets", np.kron(at @ of, np.full((LEVELS, 1), -SHUT)),
            -np.tile(STEPS, len(fading)))
    b.neurons("timers", (len(timers), 1, 1), Count())
    b.dense("runs", "timers", pace)
    b.dense("full", "timers", -pace)
    lost = np.array([1 - decay(decision.LEAK[name]) for name in fading]) / LEVELS
    b.dense("forgets", "timers", -np.kron(at.T * lost, np.ones((1, LEVELS))))
    b.neurons("fired", (len(timers), 1, 1), Gate(1.0))
    b.dense("timers", "fired", np.eye(len(timers)))


def _decision(b: Builder, threshold: float) -> None:
    wires, each = decision.weights(), spread(NEURONS)
    b.neurons("danger", (1, 1, 1), Gate(0.5))
    b.dense("close", "danger", np.ones((1, BINS)))
    driven: dict[str, dict[str, float]] = {name: {name: decision.DRIVE} for name in decision.RELAYS}
    driven |= {name: {name: decision.TURN_DRIVE} for name in decision.TURNS}
    sets = {"reached": {"standing": decision.SET}, "tired": {"empty": decision.SET, "patience": decision.SET},
            "given_up": {"retreat": decision.GIVE_UP + decision.SET}}
    for group, names in GROUPS.items():
        b.neurons(group, (len(names) * NEURONS, 1, 1), PromptLIF(NEURON.tau, threshold if group == "actions" else 1.0))
        b.dense("causes", group, np.kron([_causes(**driven.get(name, {})) for name in names], each[:, None]),
                np.kron([decision.AVOID_BIAS * (name == "avoid") for name in names], each))
        if group == "actions":
            b.dense("strength", group, np.kron([[1.2 / LEVELS * (name == "approach")] * LEVELS for name in names],
                                               each[:, None]))
            b.dense("danger", group, np.kron([[2.4 * (name == "avoid")] for name in names], each[:, None]))
        else:
            b.dense("fired", group, np.kron([[sets.get(name, {}).get(timer, 0.0) for timer in decision.TIMERS]
                                             for name in names], each[:, None]))
        for source, sources in GROUPS.items():
            rows = [_means({s: wires[NAMES.index(s), NAMES.index(name)] for s in sources}, sources) for name in names]
            b.dense(f"{source}_carried", group, np.kron(rows, each[:, None]), delay=1)
    for group, names in GROUPS.items():
        b.synapses((group,), (len(names) * NEURONS, 1, 1), decision.TAU)


def _heading(b: Builder, threshold: float) -> None:
    ways = len(WAYS)
    b.neurons("acts", (ways * BINS, 1, 1), Gate(0.5))   # of each action one at each heading that it may offer
    heard_from = [_means({name: 1.0 / decision.UP}, ACTIONS) for name in WAYS]
    b.dense("actions_carried", "acts", np.repeat(heard_from, BINS, 0))
    away = np.exp(-0.5 * (wrap(CENTERS[:, None] - CENTERS - math.pi) / BUMP) ** 2)
    at = np.exp(-0.5 * (wrap(CENTERS[:, None] - CENTERS) / BUMP) ** 2)
    heard = {"search": ("way", ONTO_WAYS * np.eye(BINS)), "approach": ("commitment_carried", ONTO_WAYS * at),
             "avoid": ("close", ONTO_WAYS * away)}
    for k, way in enumerate(WAYS):
        source, weight = heard[way]
        b.neurons(f"{way}_way", RING, PromptLIF(NEURON.tau, 1.0))
        b.dense(source, f"{way}_way", weight, np.full(BINS, -OPEN))
        b.dense("acts", f"{way}_way", OPEN * np.kron(np.eye(ways)[k], np.eye(BINS)))
        b.neurons(f"{way}_offer", RING, LI(decision.TAU))
        b.cells(f"{way}_way", f"{way}_offer", np.eye(BINS))
    b.neurons("heading", RING, PromptLIF(NEURON.tau, threshold))
    for way in WAYS:
        b.cells(f"{way}_offer", "heading", ONTO_HEADING * np.eye(BINS))
    b.dense("heading_carried", "heading", np.full((BINS, BINS), -heading.MUTUAL / BINS), delay=1)
    b.synapses(("heading",), RING, decision.TAU)


def _answer(b: Builder) -> None:
    b.neurons("answer", (len(ANSWERS), 1, 1), HANDS_ON)
    rows = np.zeros((len(ANSWERS), len(NAMES) * NEURONS))
    rows[:len(NAMES)] = np.kron(np.eye(len(NAMES)), np.full(NEURONS, 1.0 / NEURONS))
    b.dense("actions_carried", "answer", rows[:, :len(ACTIONS) * NEURONS])
    b.dense("facts_carried", "answer", rows[:, len(ACTIONS) * NEURONS:])
    for k, ring in enumerate(("commitment", "heading")):
        onto = np.zeros((len(ANSWERS), BINS))
        onto[len(NAMES) + k * BINS:len(NAMES) + (k + 1) * BINS] = np.eye(BINS)
        b.dense(f"{ring}_carried", "answer", onto)
