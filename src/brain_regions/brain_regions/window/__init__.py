# SPDX-License-Identifier: Apache-2.0
"""Window: shows what the brain believes, to RViz and rqt. It spikes nowhere, and it rests while nobody looks."""
from brain_regions.window.region import Window

__all__ = ["Window"]
