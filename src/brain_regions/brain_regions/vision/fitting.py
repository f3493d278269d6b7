# SPDX-License-Identifier: Apache-2.0
"""Pictures of any camera in the size that the network of vision was made for."""
from __future__ import annotations

import numpy as np
import torch

from brain_regions.vision.network import HEIGHT, WIDTH
from brain_runtime.contract.images import Lens


def fitted(picture: np.ndarray, lens: Lens | None = None) -> np.ndarray:
    """uint8 [HEIGHT, WIDTH, 3] of a picture [rows, columns, 3] of any size.

    Other sizes are averaged to the network's width. Pixels stay square and the horizon in the middle: of a picture
    with more rows than the network's shape has, those at the top and at the bottom are cut off; where rows are
    missing, the outermost ones are repeated.

    Args:
        picture: what the camera sent.
        lens: where straight ahead is in it, which comes into the middle, and how tall pixels are; None: in its middle,
            and square.
    """
    rows, columns = picture.shape[:2]
    aside = lens is not None and lens.column != columns / 2
    if picture.shape[:2] != (HEIGHT, WIDTH) or aside or lens is not None and (lens.row != rows / 2 or lens.tall != 1.0):
        if lens is not None and aside:
            begin = round(lens.column - lens.reach)
            picture = picture[:, np.clip(np.arange(round(2 * lens.reach)) + begin, 0, columns - 1)]
            columns = picture.shape[1]
        wanted = round(columns * HEIGHT / WIDTH * (1.0 if lens is None else lens.tall))
        begin = (rows - wanted) // 2 if lens is None or lens.row == rows / 2 else round(lens.row - wanted / 2)
        picture = picture[np.clip(np.arange(wanted) + begin, 0, rows - 1)]
        planes = torch.from_numpy(np.ascontiguousarray(picture.transpose(2, 0, 1))).float()
        planes = torch.nn.functional.adaptive_avg_pool2d(planes, (HEIGHT, WIDTH))
        picture = planes.round().byte().numpy().transpose(1, 2, 0)
    return np.ascontiguousarray(picture)
