# SPDX-License-Identifier: Apache-2.0
"""The prefrontal cortex without spikes: the same wiring, units that hand on rates in place of spiking neurons."""
from __future__ import annotations

from dataclasses import replace

from brain_regions.pfc import PrefrontalCortex


class AnnPrefrontalCortex(PrefrontalCortex):
    """The ANN of the prefrontal cortex, which is wired, not trained."""

    spiking = False
    network = replace(PrefrontalCortex.network, spiking=False)
    populations = ()
    baselines, ablations = {}, {}
