# SPDX-License-Identifier: Apache-2.0
"""Points of a PointCloud2 by its own description, which comes from others and is checked before it is used."""
from __future__ import annotations

from typing import Any

import numpy as np

FLOATS = {7: "f4", 8: "f8"}     # numbers of sensor_msgs/PointField
MOST = 20_000                   # points that are looked at; of more, each n-th
FARTHEST = 100.0                # m from the sensor


def points(message: Any) -> np.ndarray:
    """Points of a ``sensor_msgs/PointCloud2`` in its own frame, float32[n, 3] (m), but for those that are no numbers.

    Raises:
        ValueError: fields, sizes and data do not fit together, or there are no x, y and z of 32 or 64 bits; says which.
    """
    rows, columns, step, row = (int(v) for v in (message.height, message.width, message.point_step, message.row_step))
    data = np.ascontiguousarray(message.data, dtype=np.uint8).reshape(-1)
    if not rows * columns:
        return np.zeros((0, 3), np.float32)
    row = row if rows > 1 else columns * step
    if not step or columns * step > row or (rows - 1) * row + columns * step > len(data):
        raise ValueError(f"{rows} x {columns} points of {step} bytes in rows of {row} are not in {len(data)} bytes")
    axes = []
    for name in "xyz":
        field = next((one for one in message.fields if one.name == name), None)
        if field is None or field.datatype not in FLOATS or field.count > 1:
            raise ValueError(f"it has no {name} of 32 or 64 bits; x, y and z are needed")
        kind = np.dtype((">" if message.is_bigendian else "<") + FLOATS[field.datatype])
        if field.offset + kind.itemsize > step:
            raise ValueError(f"{name} at byte {field.offset} lies beyond a point of {step} bytes")
        axes.append(np.ndarray((rows, columns), kind, data, int(field.offset), (row, step)))
    every = -(-rows * columns // MOST)
    with np.errstate(invalid="ignore", over="ignore"):
        found = np.stack([axis.reshape(-1)[::every].astype(np.float32) for axis in axes], -1)
        return found[(np.abs(found) < FARTHEST).all(1)]
