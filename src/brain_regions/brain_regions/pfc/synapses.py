# SPDX-License-Identifier: Apache-2.0
"""Number of synapses of each neuron of the prefrontal cortex, read off the one definition of its network.

That is :mod:`.circuit`, which is what other simulators get. What leaves the synapses of a population there (``held`` of
the memory, ``<name>_carried`` of all others) leaves its neurons: every weight that is not 0, onto neurons, gates and
the answer. A gate that is shut, or a heading for which nothing is offered, hears a spike all the same, so it counts.

Two things are said in the circuit by more parts than the region has. The gates ``<name>_open`` are how a synapse there
saturates, so they are part of it; and ``attended`` is ``target`` with its attention turned up, the same neurons.
"""
from __future__ import annotations

import functools
from typing import Any, Mapping

import numpy as np

from brain_regions.circuits import INPUT, fan_outs, leaving
from brain_regions.pfc import circuit
from brain_regions.pfc.told import POPULATIONS

NEURONS = sum(population.size for population in POPULATIONS.values())
_SAME = "attended"
_READERS = ("target", "avoid")      # of the memory, each only where a goal gives it something to look for


@functools.cache
def inputs() -> int:
    """Synapses of the input: multiply-accumulates of a step."""
    return int(fan_outs(circuit.circuit((3, 2, 1, 1)))[INPUT].sum())


@functools.cache
def of_each(seeks: bool = True, avoids: bool = True) -> dict[str, np.ndarray]:
    """Synapses of each neuron by population: float32 of the shape that :data:`.told.POPULATIONS` says; to read only.

    Args:
        seeks, avoids: whether a goal has something to be sought, to be kept away from; else nobody hears the memory of
            it.
    """
    whole = circuit.circuit((3, 2, 1, 1))
    deaf = {name for name, hears in zip(_READERS, (seeks, avoids)) if not hears}
    found = {}
    for name, population in POPULATIONS.items():
        synapse = "held" if name == "memory" else f"{name}_carried"
        left_out = {_SAME, f"{name}_open", *(deaf if name == "memory" else ())}
        each = sum((leaving(whole, p) for p in whole.projections if p.source == synapse and p.target not in left_out),
                   np.zeros(whole.shape(synapse), np.float32))
        if len(population.shape) == 3:      # distances before bearings there
            each = each.reshape(population.shape[0], population.shape[2], population.shape[1]).transpose(0, 2, 1)
        elif name in _READERS:
            each = each[..., 0].T
        found[name] = np.ascontiguousarray(each).reshape(population.shape)
        found[name].setflags(write=False)
    return found


def cost(fired: Mapping[str, Any], steps: int, wanted: np.ndarray, avoided: np.ndarray, spiking: bool
         ) -> dict[str, float]:
    """Computes the cost of micro-steps, as :meth:`brain_runtime.contract.region.Region.count` takes it.

    Args:
        fired: how often each neuron fired, by population; of the memory, whose neurons all have as many synapses, how
            many spikes there were in all.
        steps: micro-steps.
        wanted, avoided: classes that a goal is about, bool[CLASSES]; none: nobody hears the memory of them.
        spiking: whether they are neurons. Rates multiply all synapses in each micro-step, and are no spikes.
    """
    seeks, avoids = bool(np.count_nonzero(wanted)), bool(np.count_nonzero(avoided))
    if not spiking:
        dense = sum(float(each.sum()) for each in of_each(seeks, avoids).values())
        return {"multiplies": inputs() + dense * steps if steps else 0.0}
    worth, total = _worth(seeks, avoids), np.zeros(2)
    for name, each in fired.items():
        total += worth[name][:, 0] * each if name == "memory" else np.dot(worth[name], each.reshape(-1))
    spikes, synops = total.tolist()
    return {"spikes": spikes, "synops": synops, "multiplies": inputs() if steps else 0, "updates": NEURONS * steps}


@functools.cache
def _worth(seeks: bool, avoids: bool) -> dict[str, np.ndarray]:
    """Returns the cost of a spike of each neuron, as a spike and in synaptic operations: float32[2, neurons]."""
    return {name: np.stack([np.ones(each.size, np.float32), each.reshape(-1)])
            for name, each in of_each(seeks, avoids).items()}
