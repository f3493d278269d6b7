# SPDX-License-Identifier: Apache-2.0
"""Pictures of any camera as the network of vision was made for: level, without distortion, in its size."""
from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np

from brain_regions.vision.network import HEIGHT, WIDTH
from brain_runtime.contract import optics
from brain_runtime.contract.images import Lens, lens as lens_of
from brain_runtime.contract.optics import Levelled, Mount, OpticsError

WIDEST = math.atan(2.0)         # to a side, of the view: 63 degrees; of a lens of 150 more of it makes things too small
ASIDE = math.radians(85.0)      # to a side, as far as it is looked what a camera sees
CLOSE, FINE = 1e-12, 9          # of a tangent: how near an edge is found, and decimals that rounding alone changes


class Sight(NamedTuple):
    """A camera's pictures as the network looks at them.

    Attributes:
        level: makes them.
        focal: of them (px).
        right, left: directions of the edges of what they show (rad, positive to the left, from the camera's yaw).
    """

    level: Levelled
    focal: float
    right: float
    left: float

    def shows(self, bearing: float) -> bool:
        """Tells whether the camera sees anything in a direction (rad), or in that of the view's edge before it."""
        column = WIDTH / 2 - self.focal * math.tan(min(max(bearing, -ASIDE), ASIDE))
        return bool(self.level.seen[:, min(max(int(column), 0), WIDTH - 1)].any())


@functools.lru_cache(maxsize=16)
def sight(lens: Lens, pitch: float = 0.0, roll: float = 0.0) -> Sight:
    """Finds how the network looks through a camera: level, as wide as the camera sees, up to :data:`WIDEST`.

    Args:
        lens: of the camera.
        pitch, roll: rad, of its mounting.

    Raises:
        OpticsError: it sees nothing ahead.
    """
    mount = Mount(pitch=pitch, roll=roll)
    right, left = _edges(lens, mount)
    reach = round(min(max(math.tan(left), -math.tan(right)), math.tan(WIDEST)), FINE)
    focal = WIDTH / 2 / reach
    columns, rows = (WIDTH / 2 - np.arange(WIDTH) - 0.5) / focal, (HEIGHT / 2 - np.arange(HEIGHT) - 0.5) / focal
    view = np.stack(np.broadcast_arrays(1.0, columns[None], rows[:, None]), -1)
    most = math.atan(reach)
    return Sight(Levelled(lens, mount, view), focal, max(right, -most), min(left, most))


def _edges(lens: Lens, mount: Mount) -> tuple[float, float]:
    """Directions (rad, right and left) up to which a camera sees, at the height to which the picture's middle shows."""
    ahead, aside, up = mount.turned() @ (1.0, (lens.column - lens.columns / 2) / lens.focal,
                                         (lens.row - lens.rows / 2) / (lens.focal * lens.tall))

    def sees(tangent: float) -> bool:
        return bool(optics.seen(lens, mount, np.array([ahead, ahead * tangent, up]))[1])

    if ahead <= 0.0 or not sees(aside / ahead):
        raise OpticsError(f"the camera looks nowhere near ahead: its pitch of {math.degrees(mount.pitch):.0f} degrees "
                          f"is wrong, or its lens")
    found = []
    for outside in (-math.tan(ASIDE), math.tan(ASIDE)):
        inside = aside / ahead
        while abs(outside - inside) > CLOSE:
            middle = (inside + outside) / 2
            inside, outside = (middle, outside) if sees(middle) else (inside, middle)
        found.append(math.atan(inside))
    return found[0], found[1]


def fitted(picture: np.ndarray, lens: Lens | None = None, mount: Mount = Mount()) -> np.ndarray:
    """uint8 [HEIGHT, WIDTH, 3] of a picture, uint8 [rows, columns, 3] of any size.

    Args:
        picture: what the camera sent.
        lens: of the camera; None: one that shows the network's own width, with straight ahead in its middle.
        mount: of the camera.

    Raises:
        OpticsError: the camera sees nothing ahead.
    """
    lens = lens or lens_of(None, (picture.shape[1], picture.shape[0]), math.pi / 2)
    return sight(lens, mount.pitch, mount.roll).level(picture)
