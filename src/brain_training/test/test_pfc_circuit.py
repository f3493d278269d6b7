# SPDX-License-Identifier: Apache-2.0
"""The circuit of the prefrontal cortex beside the region: what is the same to the spike, and what decides the same."""
import math
from types import SimpleNamespace

import numpy as np
import pytest

from brain_regions.azimuth import BINS, direction, wrap
from brain_training.circuit_checks import checked
from brain_training.circuit_steps import Steps
from brain_regions.circuits import INPUT, Circuit
from brain_regions.membranes import ticks
from brain_regions.pfc import PrefrontalCortex, circuit, decision, heading, memory, polar
from brain_regions.pfc.circuit import NAMES, inputs
from brain_regions.pfc.populations import NEURON, Layer
from brain_regions.sensed import ways_told
from brain_runtime.hosts.local import LocalHost
from brain_wire import messages

GOAL = {"target_color": 3, "target_shape": 2, "avoid_color": 1, "avoid_shape": 1}
ASKED = (3, 2, 1, 1)
BOX, BALL = (3, 2), (1, 1)
SECTOR = (-math.pi / 4, math.pi / 4)
NOTHING = np.zeros((memory.CLASSES, BINS, polar.RINGS), np.float32)


def test_memory_is_the_same_to_the_spike():
    rng, net, state = np.random.default_rng(0), memory.ObjectMemory(), memory.empty()
    steps, spikes = Steps(circuit.circuit(ASKED)), 0
    for _ in range(40):
        before = state["trace"]
        seen = SimpleNamespace(bearing=rng.uniform(-0.5, 0.5), distance=rng.uniform(0.5, 3.0), confidence=0.9,
                               color=int(rng.integers(1, 5)), shape=int(rng.integers(1, 4)))
        net.see(state, [seen], 0.0, SECTOR, None, 0.6, 0.05)
        look = inputs(state["trace"] - before, np.zeros(BINS, np.float32), {})
        blank = inputs(NOTHING, np.zeros(BINS, np.float32), {})
        _, fired = net.run(state, 10)
        found = [steps.step(look if k == 0 else blank) for k in range(10)]
        spikes += fired
        ours = np.sum([f["memory"] for f in found])
        assert ours == fired
    assert spikes > 300
    # the next micro-step hears what the region's synapses carry now
    held = steps.step(blank)["held"].reshape(memory.CLASSES, polar.RINGS, BINS).transpose(0, 2, 1)
    np.testing.assert_allclose(held, state["trace"], atol=1e-5)


@pytest.mark.parametrize("threshold", [0.5, 1.0, 1.5])
def test_saturating_synapses_and_gates_that_count_are_the_same(threshold):
    b = circuit.Builder()
    b.neurons("cells", (5, 1, 1), circuit.PromptLIF(NEURON.tau, threshold))
    b.cells(INPUT, "cells", np.eye(5))
    b.synapses(("cells",), (5, 1, 1), 0.1)
    steps, layer = Steps(Circuit("layer", (5, 1, 1), tuple(b.populations), tuple(b.projections))), Layer(0.1)
    rng, v, s = np.random.default_rng(1), np.zeros(5, np.float32), np.zeros(5, np.float32)
    fired, z, theta = [], np.zeros(5, np.float32), np.full(5, threshold, np.float32)
    for k in range(400):
        x = np.linspace(0.1, 1.5, 5) * (k % 200 < 100) - 0.4 * (k % 200 > 150) + rng.normal(0, 0.1, 5)
        x = x.astype(np.float32)
        assert layer.advance(x, v, s, z, theta) == z.sum()
        made = steps.step(x[:, None, None])
        assert np.array_equal(made["cells"].ravel(), z)
        np.testing.assert_allclose(made["cells_carried"].ravel(), s, atol=1e-5)
        fired.append(z.copy())
    assert 0.05 < np.mean(fired) < 0.6


class Recorded(PrefrontalCortex):
    """Keeps what its populations heard, what they decided, and for how many micro-steps."""

    def configure(self, parameters):
        super().configure(parameters)
        self.heard, self.decided, self.lasted = [], [], []

    def step(self, inbox, state, dt, rng):
        self.lasted.append(ticks(dt, float(state["left"][0])).steps)
        self._way = np.zeros(BINS, np.float32)
        outbox, state = super().step(inbox, state, dt, rng)
        self.heard.append((self._evidence, self._way, self._told))
        self.decided.append((*decision.read(state)[:2], heading.read(state)))
        return outbox, state

    def _look(self, inbox, state, pose, dt):
        before = state["trace"]
        said = super()._look(inbox, state, pose, dt)
        self._evidence = state["trace"] - before
        return said

    def _causes(self, *arguments):
        causes = super()._causes(*arguments)
        told = {**causes, "certain": float(causes["sure"] == 1.0)}
        self._told = {name: min(told[name], 2.0) for name in circuit.CAUSES}
        return causes

    def _offers(self, state, causes, believed, ways, *more):
        offers = super()._offers(state, causes, believed, ways, *more)
        if ways is not None:
            self._way = offers["search"]
        return offers


class Part(SimpleNamespace):
    """Part of a situation: seconds, and what is the case meanwhile."""

    seconds, ask, see, motor, way, explored = 1.0, None, (), 1, 0.0, False


def lived(parts, threshold):
    """A region that went through a situation, with the threshold held."""
    region = Recorded("pfc")
    host = LocalHost({"pfc": region}, parameters={"pfc": {"qpfc": "constant", "qpfc_alpha": threshold - 0.5}})
    odom, goal = messages.make("nav_msgs/msg/Odometry"), 0
    odom.pose.pose.orientation.w = 1.0
    for part in parts:
        if part.ask is not None:
            goal += 1
            host.publish("lang/features", messages.make("brain_interfaces/msg/LanguageFeatures", goal_id=goal, text="x",
                                                        understood=True, verb=part.ask, **GOAL))
        view = np.where(np.abs(np.arange(BINS) - 18) < 8, 0.0 if part.explored else 0.1, 0.0).astype(np.float32)
        for _ in range(round(part.seconds * 20)):
            host.publish("odom", odom)
            host.publish("motor/status", messages.make(
                "brain_interfaces/msg/MotorStatus", goal_id=goal, state=part.motor))
            host.publish("sensor/features", messages.make(
                "brain_interfaces/msg/SensorFeatures", source="place/view", novelty=view))
            host.publish("place/headings", ways_told(*([] if part.explored else [(part.way, 0.0)])))
            # a camera that sees all round: it need not turn to look once more before it gives up
            right, left = (-math.pi, math.pi) if part.explored else SECTOR
            host.publish("vision/objects", messages.make(
                "brain_interfaces/msg/DetectedObjects", source="vision", azimuth_min=right, azimuth_max=left,
                objects=[messages.make("brain_interfaces/msg/DetectedObject", color=kind[0], shape=kind[1],
                                       confidence=0.9, bearing=bearing, distance=distance)
                         for kind, bearing, distance in part.see]))
            host.advance(0.05)
    return region


def replayed(region, threshold):
    """What a circuit decides that hears the same: an action, why it stands, and a heading, after each step."""
    steps, found = Steps(circuit.circuit(ASKED, threshold)), []
    answer, evidence = np.zeros(len(circuit.ANSWERS)), NOTHING
    for (seen, way, causes), count in zip(region.heard, region.lasted):
        evidence = evidence + seen
        for _ in range(count):
            answer = steps.step(inputs(evidence, way, causes))["answer"].ravel()
            evidence = NOTHING
        means, ring = dict(zip(NAMES, answer)), answer[len(NAMES) + BINS:]
        action = max(decision.ACTIONS, key=means.get)
        why = max(("reached", "given_up", "puzzled", "blind", "unasked"), key=means.get)
        found.append((action if means[action] > decision.SURE else "", why if means[why] > decision.SURE else "",
                      direction(ring) if ring.max() > heading.SURE else math.nan))
    return found


SITUATIONS = {
    "search": [Part(ask=1, way=-1.0)],
    "approach": [Part(ask=1, way=-1.0), Part(see=[(BOX, 0.3, 1.5)], way=-1.0)],
    "choose": [Part(ask=1, seconds=0.5), Part(see=[(BOX, 0.4, 1.5), (BOX, -0.4, 2.5)])],
    "others": [Part(ask=1, way=1.0, seconds=0.5),
               Part(see=[((3, 1), 0.4, 1.5), ((2, 2), -0.4, 2.5)], way=1.0)],
    "reached": [Part(ask=1, see=[(BOX, 0.1, 0.8)]), Part(see=[(BOX, 0.1, 0.8)], motor=2)],
    "avoid": [Part(ask=1, seconds=1.5, see=[(BALL, 0.3, 0.6), (BOX, -0.5, 2.0)])],
    "stop": [Part(ask=1, seconds=0.5), Part(ask=3, seconds=0.5)],
    "unasked": [Part(seconds=0.5)],
    "given up": [Part(ask=1, seconds=0.5), Part(explored=True, seconds=2.5)],
}


@pytest.mark.parametrize("name, threshold", [*((name, 1.0) for name in SITUATIONS),
                                             *((name, t) for t in (0.5, 1.5)
                                                 for name in ("approach", "choose", "avoid"))])
def test_the_circuit_decides_as_the_region_does(name, threshold):
    region = lived(SITUATIONS[name], threshold)
    found = replayed(region, threshold)
    same = [ours[:2] == theirs[:2] for ours, theirs in zip(region.decided, found)]
    assert same.count(False) <= 2 and same[-1]      # it may decide a step sooner or later
    assert name not in ("given up", "reached") or region.decided[-1][1] == name.replace(" ", "_")
    apart = [abs(wrap(ours[2] - theirs[2])) for ours, theirs in zip(region.decided, found)
             if math.isfinite(ours[2]) and math.isfinite(theirs[2])]
    assert math.degrees(np.median(apart or [0.0])) < 10
    assert math.isfinite(region.decided[-1][2]) == math.isfinite(found[-1][2])


def test_the_export_is_for_a_goal():
    exported = checked(PrefrontalCortex.circuit())
    assert exported.populations[-1].shape == (len(circuit.ANSWERS), 1, 1)
    other = circuit.circuit((1, 1, 0, 0))
    weights = [next(p.weight for p in c.projections if (p.source, p.target) == ("held", "target"))
               for c in (exported, other)]
    assert not np.array_equal(*weights)
