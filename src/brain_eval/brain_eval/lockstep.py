# SPDX-License-Identifier: Apache-2.0
"""The shipped brain in one room of the simulator, for benches that run it in lockstep without an episode."""
from __future__ import annotations

from typing import Any

from brain_runtime.contract.ablation import NONE, Ablation
from brain_runtime.graph import SIM_WORLD
from brain_runtime.graph.graphs import DEFAULT
from brain_runtime.graph.resolve import resolve


def lockstep_parts(split: str, seed: int, ablation: Ablation = NONE, keep: set[str] | None = None,
                   graph: str = DEFAULT) -> tuple[dict[str, Any], dict[str, dict[str, Any]], set[str]]:
    """Collects what a LocalHost takes to run the brain in a room; nobody hears spikes, so none are published.

    Args:
        split, seed: of the room.
        ablation: what is taken away or replaced.
        keep: names of the regions that are wanted; None: all.
        graph: name or path.

    Returns:
        Regions by name, parameters by region, and the names of the critical ones among them.
    """
    resolved = resolve(graph, SIM_WORLD, ablation=ablation, host="local", room={"split": split, "seed": seed},
                       edges=False)
    regions = {name: region for name, region in resolved.make().items() if keep is None or name in keep}
    return regions, resolved.parameters(), set(resolved.critical) & set(regions)
