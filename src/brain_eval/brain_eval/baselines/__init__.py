# SPDX-License-Identifier: Apache-2.0
"""Baselines behind a region's ports to compare it with: the same networks without spikes, and no networks."""
