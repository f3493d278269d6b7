# SPDX-License-Identifier: Apache-2.0
"""Pictures as they come in sensor_msgs/Image."""
from __future__ import annotations

from typing import Any

import numpy as np

CHANNELS = {"rgb8": (0, 1, 2), "bgr8": (2, 1, 0), "rgba8": (0, 1, 2), "bgra8": (2, 1, 0)}
SMALLEST = 16   # rows and columns
FLATTEST = 8    # times as wide as high, or as high as wide
LENSES = (0.05, 50.0)   # focal lengths that there are, in widths of the picture


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
    if max(rows, columns) > FLATTEST * min(rows, columns):
        raise ValueError(f"a picture of {columns} x {rows} is no camera's")
    data = np.asarray(message.data[:rows * step], np.uint8).reshape(rows, step)
    return data[:, :columns * depth].reshape(rows, columns, depth)[..., order]


def sound_lens(info: Any) -> bool:
    """Whether a CameraInfo, or None, says how a camera sees: a focal length and a middle that cameras have."""
    if info is None or info.width <= 0 or info.height <= 0:
        return False
    low, high = (info.width * share for share in LENSES)
    return low <= info.k[0] <= high and abs(info.k[2]) <= high and abs(info.k[5]) <= high
