# SPDX-License-Identifier: Apache-2.0
"""What the numbers of messages are called, and painted in, where a person looks at them."""
from __future__ import annotations

PAINT = ((0.6, 0.6, 0.6), (0.9, 0.15, 0.15), (0.15, 0.75, 0.2), (0.2, 0.35, 0.95), (0.95, 0.85, 0.1))   # by color


def paint(color: int) -> tuple[float, float, float]:
    """Red, green and blue (0..1) of a DetectedObject's color; gray where it is not known."""
    return PAINT[color] if color < len(PAINT) else PAINT[0]
