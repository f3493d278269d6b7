# SPDX-License-Identifier: Apache-2.0
"""Pictures as they come in sensor_msgs/Image."""
from __future__ import annotations

from typing import Any

import numpy as np

CHANNELS = {"rgb8": (0, 1, 2), "bgr8": (2, 1, 0), "rgba8": (0, 1, 2), "bgra8": (2, 1, 0)}
SMALLEST = 16   # rows and columns


def rgb(message: Any) -> np.ndarray:
    """uint8 [rows, columns, 3] of an Image.

    Raises:
        ValueError: an encoding that is not known, or a size that does not fit the data; says which.
    """
    order = CHANNELS.get(message.encoding)
    if order is None:
        raise ValueError(f"encoding {message.encoding!r} is not one of {', '.join(CHANNELS)}")
    depth = 4 if "a8" in message.encoding else 3
    rows, columns, step = message.height, message.width, message.step
    if min(rows, columns) < SMALLEST or step < columns * depth or len(message.data) < rows * step:
        raise ValueError(f"a picture of {columns} x {rows} with rows of {step} bytes cannot have "
                         f"{len(message.data)} bytes")
    data = np.asarray(message.data[:rows * step], np.uint8).reshape(rows, step)
    return data[:, :columns * depth].reshape(rows, columns, depth)[..., order]
