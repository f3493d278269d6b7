# SPDX-License-Identifier: Apache-2.0
"""Vision: from pictures to objects, by a spiking network. Torch is imported when the region is configured."""
from brain_regions.vision.region import Vision

__all__ = ["Vision"]
