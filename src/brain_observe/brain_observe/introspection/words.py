# SPDX-License-Identifier: Apache-2.0
"""Display colors for the colors in messages, where a person looks at them."""
from __future__ import annotations

from brain_runtime.interfaces import DetectedObject

PAINT = {DetectedObject.COLOR_RED: (0.9, 0.15, 0.15), DetectedObject.COLOR_GREEN: (0.15, 0.75, 0.2),
         DetectedObject.COLOR_BLUE: (0.2, 0.35, 0.95), DetectedObject.COLOR_YELLOW: (0.95, 0.85, 0.1)}
GRAY = (0.6, 0.6, 0.6)


def paint(color: int) -> tuple[float, float, float]:
    """Red, green and blue (0..1) of a DetectedObject's color; gray where it is not known."""
    return PAINT.get(color, GRAY)
