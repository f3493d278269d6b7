# SPDX-License-Identifier: Apache-2.0
"""Pictures of any camera in the size that the network of vision was made for."""
from __future__ import annotations

import numpy as np
import torch

from brain_regions.vision.network import HEIGHT, WIDTH


def fitted(picture: np.ndarray) -> np.ndarray:
    """uint8 [HEIGHT, WIDTH, 3] of a picture [rows, columns, 3] of any size.

    Other sizes are averaged to the network's width. Pixels stay square and the horizon in the middle: of a picture
    with more rows than the network's shape has, those at the top and at the bottom are cut off; where rows are
    missing, the outermost ones are repeated.
    """
    rows, columns = picture.shape[:2]
    if picture.shape[:2] != (HEIGHT, WIDTH):
        wanted = round(columns * HEIGHT / WIDTH)
        picture = picture[np.clip(np.arange(wanted) + (rows - wanted) // 2, 0, rows - 1)]
        planes = torch.from_numpy(np.ascontiguousarray(picture.transpose(2, 0, 1))).float()
        planes = torch.nn.functional.adaptive_avg_pool2d(planes, (HEIGHT, WIDTH))
        picture = planes.round().byte().numpy().transpose(1, 2, 0)
    return np.ascontiguousarray(picture)
