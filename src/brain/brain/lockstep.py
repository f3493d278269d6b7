# SPDX-License-Identifier: Apache-2.0
"""The shipped brain in one room of the simulator, for benches that run it in lockstep without an episode."""
from __future__ import annotations

from typing import Any

from brain import policies
from brain_runtime import graphs
from brain.ablations import NONE, Ablation
from brain.episodes import file_parameters


def lockstep_parts(split: str, seed: int, ablation: Ablation = NONE, keep: set[str] | None = None
                   ) -> tuple[dict[str, Any], dict[str, dict[str, Any]], set[str]]:
    """What a LocalHost takes to run the brain in a room; nobody hears spikes, so none are published.

    Args:
        split, seed: of the room.
        ablation: what is taken away or replaced.
        keep: names of the regions that are wanted; None: all.

    Returns:
        Regions by name, parameters by region, and the names of the critical ones among them.
    """
    loaded = graphs.load(graphs.DEFAULT, "arena")
    regions = {name: region for name, region in policies.make_regions(loaded, "brain", (), ablation).items()
               if keep is None or name in keep}
    quiet = {name: {"spikes": False} for name, region in regions.items() if hasattr(region.parameters, "spikes")}
    parameters = graphs.merged(quiet, graphs.own_parameters(loaded), file_parameters(graphs.DEFAULT),
                               {"world": {"split": split, "seed": seed}}, ablation.parameters)
    return regions, parameters, set(loaded.critical) & set(regions)
