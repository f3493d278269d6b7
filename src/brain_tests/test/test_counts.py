# SPDX-License-Identifier: Apache-2.0
"""What regions count, beside a script that knows only the exported circuits and which neurons fired in an episode."""
import itertools

import numpy as np
import pytest

from brain_eval.episodes import text_message
from brain_eval.lockstep import lockstep_parts
from brain_regions.circuits import Convolution
from brain_regions.language.circuit import STREAMS
from brain_regions.pfc import memory, polar
from brain_regions.pfc.circuit import circuit as circuit_for
from brain_regions.pfc.watch import Watch
from brain_runtime.hosts.local import LocalHost


def leaving(circuit, source, without=()):
    """Weights other than 0 that leave each neuron, one by one, in the circuit's own shape."""
    found = np.zeros(circuit.shape(source), int)
    for p in circuit.projections:
        if p.source != source or p.target in without:
            continue
        if not isinstance(p, Convolution):
            found += (p.weight != 0).sum(0).reshape(found.shape)
            continue
        _, rows, columns = circuit.shape(p.target)
        for place in itertools.product(range(rows), range(columns)):
            for tap in np.ndindex(*p.weight.shape[2:]):
                y, x = (at * s - pad + k * d for at, s, pad, k, d in zip(place, p.stride, p.padding, tap, p.dilation))
                if 0 <= y < found.shape[1] and 0 <= x < found.shape[2]:
                    found[:, y, x] += (p.weight[:, :, tap[0], tap[1]] != 0).sum(0)
    return found


class Everything(Watch):
    """Adds up the spikes of each neuron of all populations."""

    def __init__(self):
        super().__init__("memory")
        self.fired = {}

    def add(self, population, fired):
        super().add(population, fired)
        self.fired[population] = self.fired.get(population, 0) + np.asarray(fired, np.int64)


def told(of, name, called):
    """Has what a call returns told, too."""
    work = getattr(of, name)

    def wrapped(*arguments, **named):
        made = work(*arguments, **named)
        called(made)
        return made

    setattr(of, name, wrapped)


@pytest.fixture(scope="module")
def brain():
    """A brain in a room, and the spikes of each neuron, by region and population of its circuit."""
    regions, parameters, critical = lockstep_parts("val", 1)
    host = LocalHost(regions, seed=1, critical=critical, parameters=parameters)
    fired = {name: {} for name in ("vision", "motor", "language", "pfc")}

    def add(region, population, spikes):
        fired[region][population] = fired[region].get(population, 0) + spikes.astype(np.int64)

    host.advance(0.2)
    vision, motor, language, pfc = (host.regions[name] for name in fired)
    names = {region: [p.name for p in region.circuit().populations] for region in (vision, motor)}
    told(vision._looking, "look", lambda made: [
        add("vision", name, train.sum(0).transpose(2, 0, 1)) for name, train in zip(names[vision], made.trains)])
    told(motor.policy, "step", lambda made: [
        add("motor", name, train.sum(0)) for name, train in zip(names[motor], made[1])])
    layers = {(2, 256): "letters", (2, 160): "words", (2, 128): "context", (1, 160): "recall", (1, 96): "choice"}

    def read(spikes):
        name = layers[spikes.shape[0], spikes.shape[2]]
        for stream, each in zip(STREAMS if len(spikes) == 2 else (None,), spikes.sum(1)):
            add("language", f"{stream}_{name}" if stream else name, each)

    told(language._reader, "_fire", read)
    told(language._reader, "_remember", read)
    everything = Everything()
    pfc._watch = lambda: everything
    fired["pfc"] = everything.fired
    fired["moved"] = []
    told(pfc._memory, "move", fired["moved"].append)
    return host, fired


def counted(host, fired, sentence):
    """Spikes and synaptic operations that each region counts while a sentence is followed, and what fired meanwhile."""
    language = host.regions["language"]
    before = language.spikes, language.synops
    fired["language"].clear()
    host.publish("goal/text", text_message(sentence))
    host.advance(1.0)
    heard = {"language": (language.spikes - before[0], language.synops - before[1])}
    for name in ("vision", "motor", "pfc"):
        fired[name].clear()
    fired["moved"].clear()
    others = {name: host.regions[name] for name in ("vision", "motor", "pfc")}
    start = {name: (region.spikes, region.synops) for name, region in others.items()}
    host.advance(3.0)
    return heard | {name: (region.spikes - start[name][0], region.synops - start[name][1])
                    for name, region in others.items()}


GOALS = {"go to the red ball but stay away from the blue box": (1, 1, 3, 2), "find the green cylinder": (2, 3, 0, 0)}


@pytest.mark.parametrize("sentence", GOALS)
def test_counts_are_those_of_a_script_over_the_exported_circuits(brain, sentence):
    host, fired = brain
    found = counted(host, fired, sentence)
    for name in ("vision", "motor", "language"):
        circuit = host.regions[name].circuit()
        spikes = sum(int(n.sum()) for n in fired[name].values())
        synops = sum(int((n * leaving(circuit, population)).sum()) for population, n in fired[name].items())
        assert found[name] == (spikes, synops) and spikes > 100, name
    # in pfc a spike opens a synapse, which is a population of the circuit; what leaves it leaves the neuron
    circuit, spikes, synops = circuit_for(GOALS[sentence]), 0, 0
    for population, n in fired["pfc"].items():
        synapse = "held" if population == "memory" else f"{population}_carried"
        each = leaving(circuit, synapse, without=(f"{population}_open", "attended"))
        if population == "memory":
            each = each.reshape(memory.CLASSES, polar.RINGS, -1).transpose(0, 2, 1)
        elif each.shape[2] == 1 and each.shape[1] > 1:
            each = each[..., 0].T
        spikes, synops = spikes + int(n.sum()), synops + int((n.reshape(-1) * each.reshape(-1)).sum())
    assert fired["pfc"]["heading"].sum() > 10 and fired["pfc"]["memory"].sum() > 10
    moved = np.sum(fired["moved"], 0, int)
    assert found["pfc"] == (spikes + moved[0], synops + moved[1])


def test_what_moves_the_memory_is_counted_synapse_by_synapse():
    net, state, rng = memory.ObjectMemory(), memory.empty(), np.random.default_rng(0)
    for number in rng.integers(0, state["trace"].size, 40):
        state["trace"].flat[number] = rng.uniform(0.01, 0.06)
    for turned, ahead in ((0.03, 0.1), (0.0, -0.1), (0.4, 0.0), (-0.6, 0.12)):
        trace, (turn, way) = state["trace"], state["owed"]
        expected = [0, 0]
        turn, way = turn + turned, way + ahead
        while abs(way) > polar.STRIDE / 2:
            lean = int(np.argmin(np.abs(np.linspace(-0.4, 0.4, 5) * polar.WIDTH - turn)))
            matrix = polar._shift(np.linspace(-0.4, 0.4, 5)[lean] * polar.WIDTH, np.copysign(polar.STRIDE, way))
            sheets = trace.reshape(memory.CLASSES, -1)
            expected[0] += 1
            expected[1] += sum(int((matrix[cell] != 0).sum()) for sheet in sheets for cell in np.flatnonzero(sheet))
            trace = np.maximum(sheets @ matrix, 0).reshape(trace.shape)
            way -= np.copysign(polar.STRIDE, way)
        bins = abs(round(float(turn) / polar.WIDTH))
        expected[0] += bins
        expected[1] += bins * int((trace != 0).sum())
        assert list(net.move(state, turned, ahead)) == expected and expected[1] > 0
