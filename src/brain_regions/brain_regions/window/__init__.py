# SPDX-License-Identifier: Apache-2.0
"""Window: shows what the brain believes, to RViz and rqt. It spikes nowhere, nobody needs it, and it rests unlooked at."""
from brain_regions.window.region import Window

__all__ = ["Window"]
