# SPDX-License-Identifier: Apache-2.0
"""Prefrontal cortex: holds the goal, remembers what was seen, decides what to do now, by spiking populations."""
from brain_regions.pfc.region import PrefrontalCortex

__all__ = ["PrefrontalCortex"]
