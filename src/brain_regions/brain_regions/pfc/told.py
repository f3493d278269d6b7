# SPDX-License-Identifier: Apache-2.0
"""The populations of the prefrontal cortex whose spikes are told, with their geometry."""
from __future__ import annotations

from brain_regions import azimuth
from brain_regions.pfc import decision, memory, polar
from brain_runtime.contract.declared import Population

_SHEET = (azimuth.BINS, polar.RINGS), ("bearing", "distance")
_RING = (azimuth.BINS,), ("bearing",)
POPULATIONS = {name: Population(name, shape, axes, rate=f"pfc/{name}") for name, shape, axes in (
    ("memory", (memory.CLASSES, *_SHEET[0]), ("class", *_SHEET[1])), ("target", *_SHEET), ("avoid", *_SHEET),
    ("candidates", *_RING), ("commitment", *_RING),
    ("actions", (len(decision.ACTIONS), decision.NEURONS), ("action", "neuron")),
    ("facts", (len(decision.NAMES) - len(decision.ACTIONS), decision.NEURONS), ("fact", "neuron")),
    ("heading", *_RING))}
"""By name, those whose spikes are told in turn; facts are relays, latches and turns."""
