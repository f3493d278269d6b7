# SPDX-License-Identifier: Apache-2.0
"""Prefrontal cortex: holds the goal, remembers what was seen, decides what to do now.

:class:`PrefrontalCortex` is made of spiking populations; :class:`AnnPrefrontalCortex` is its twin of rates, and
:class:`TablePrefrontalCortex` the conventional one: a table of objects and a state machine.
"""
from brain_regions.pfc.region import AnnPrefrontalCortex, PrefrontalCortex
from brain_regions.pfc.table import TablePrefrontalCortex

__all__ = ["AnnPrefrontalCortex", "PrefrontalCortex", "TablePrefrontalCortex"]
