# SPDX-License-Identifier: Apache-2.0
"""Pictures as they come in sensor_msgs/Image, and how cameras see them by sensor_msgs/CameraInfo."""
from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np

CHANNELS = {"rgb8": (0, 1, 2), "bgr8": (2, 1, 0), "rgba8": (0, 1, 2), "bgra8": (2, 1, 0)}
SMALLEST = 16   # rows and columns
FLATTEST = 8    # times as wide as high, or as high as wide
LENSES = (0.05, 50.0)   # focal lengths that there are, in widths of the picture
OFF = 0.2               # of a size: how far from its middle a camera may look
NEAR = 0.1              # of a size: how far from its middle counts as the middle
SLACK = 2               # px by which sizes that are the same may differ
SHAPE = 0.03            # by which the shapes of a picture that was scaled as a whole may differ
SQUARE = 0.05           # by which pixels may differ from squares and count as such
FISHEYES = ("equidistant", "fisheye")
BENDING = {"plumb_bob": (4, 5), "rational_polynomial": (8,), **dict.fromkeys(FISHEYES, (4,))}
"""Coefficients that the distortion models of CameraInfo may have."""


def rgb(message: Any) -> np.ndarray:
    """uint8 [rows, columns, 3] of an Image: where its colors are in that order, the message's own memory.

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
    pixels = data[:, :columns * depth].reshape(rows, columns, depth)
    return pixels[..., :3] if order == (0, 1, 2) else pixels[..., order]


class LensError(ValueError):
    """A CameraInfo contradicts itself or the picture; says how."""


class Lens(NamedTuple):
    """Pinhole model of a camera, for pictures of one size.

    Attributes:
        focal: px of the picture's columns.
        columns, rows: of the picture.
        column, row: where straight ahead is, in px from the left and the upper edge; exactly the middle where it is
            near.
        tall: how much taller than wide a pixel shows things; 1 for square ones.
        fisheye: distances from the middle grow with the angle (Kannala and Brandt 2006), not with its tangent.
        distortion: coefficients; of a fisheye k1 to k4, else of plumb_bob k1, k2, p1, p2, k3 (Brown 1966) and, of the
            rational model, k4 to k6.
    """

    focal: float
    columns: int
    rows: int
    column: float
    row: float
    tall: float = 1.0
    fisheye: bool = False
    distortion: tuple[float, ...] = ()

    def project(self, rays: np.ndarray) -> np.ndarray:
        """Pixels [..., 2] (column and row, 0 at the left and upper edge) at which directions [..., 3] are seen.

        Args:
            rays: x along the camera's axis, y to the left, z up; any length.

        Returns:
            NaN for directions that it cannot see: behind it, or where the distortion folds the picture.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            x, y = -rays[..., 1] / rays[..., 0], -rays[..., 2] / rays[..., 0]
            r = np.hypot(x, y)
            ahead = rays[..., 0] > 1e-9
            if self.fisheye:
                angle = np.arctan2(np.hypot(rays[..., 1], rays[..., 2]), rays[..., 0])
                scale = np.where(r > 1e-9, _bent(angle, self.distortion) / r, 1.0)
                ahead &= angle < _folds(self.distortion, True)
                x, y = x * scale, y * scale
            elif any(self.distortion):
                k1, k2, p1, p2, k3, k4, k5, k6 = (*self.distortion, *(0.0,) * 8)[:8]
                s = r * r
                scale = (1 + s * (k1 + s * (k2 + s * k3))) / (1 + s * (k4 + s * (k5 + s * k6)))
                ahead &= r < _folds(self.distortion, False)
                x, y = (x * scale + 2 * p1 * x * y + p2 * (s + 2 * x * x),
                        y * scale + p1 * (s + 2 * y * y) + 2 * p2 * x * y)
            at = np.stack([self.column + self.focal * x, self.row + self.focal * self.tall * y], -1)
        return np.where(ahead[..., None], at, np.nan)

    @property
    def reach(self) -> float:
        """From straight ahead to the edge of the picture that is farther away (px of its columns)."""
        return max(self.column, self.columns - self.column)

    @property
    def edges(self) -> tuple[float, float]:
        """Directions of the right and of the left edge (rad, positive to the left)."""
        return -math.atan((self.columns - self.column) / self.focal), math.atan(self.column / self.focal)

    def across(self, columns: int) -> float:
        """Focal length of the picture once it is fitted, straight ahead in its middle, to another number of columns."""
        return self.focal * columns / (2 * self.reach)


def _bent(angle: np.ndarray, k: tuple[float, ...]) -> np.ndarray:
    """Distance from the middle (in focal lengths) at which a fisheye shows an angle (rad)."""
    k1, k2, k3, k4 = (*k, *(0.0,) * 4)[:4]
    s = angle * angle
    return angle * (1 + s * (k1 + s * (k2 + s * (k3 + s * k4))))


@functools.lru_cache(maxsize=16)
def _folds(k: tuple[float, ...], fisheye: bool) -> float:
    """Angle (rad, of a fisheye) or tangent from which on what is farther out is shown nearer to the middle."""
    at = np.linspace(0.0, math.pi if fisheye else 8.0, 2000)
    if fisheye:
        shown = _bent(at, k)
    else:
        s, (k1, k2, _, _, k3, k4, k5, k6) = at * at, (*k, *(0.0,) * 8)[:8]
        with np.errstate(divide="ignore", invalid="ignore"):
            shown = at * (1 + s * (k1 + s * (k2 + s * k3))) / (1 + s * (k4 + s * (k5 + s * k6)))
    back = np.flatnonzero(~(np.diff(shown) > 0))
    return float(at[back[0]]) if len(back) else float(at[-1])


def lens(info: Any, size: tuple[int, int] | None, view: float, rectified: bool = False) -> Lens:
    """Computes the pinhole model of a camera from its CameraInfo.

    ``width``, ``height`` and ``k`` of a CameraInfo are those of the whole sensor as it was calibrated; ``roi`` says
    which part of that is sent and ``binning`` how many of its pixels are one. A picture of another size was scaled as
    a whole, which is believed where the shape is the same and the middle by ``k`` is near that of the stated size.
    What ROS allows is taken as it says: an uncalibrated camera (``k[0]`` is 0), no ``roi``, ``binning`` 0, no middle.

    Args:
        info: CameraInfo, or None.
        size: columns and rows of the picture; None: not known, and the size that the CameraInfo says is taken.
        view: how wide an uncalibrated camera sees (rad).
        rectified: pictures are rectified, and ``p`` says how they were projected, where it is filled in.

    Raises:
        LensError: it contradicts itself or the picture.
    """
    if info is None or info.k[0] == 0.0:
        columns, rows = size or (int(info.width), int(info.height)) if info is not None else size or (0, 0)
        return Lens(columns / 2 / math.tan(view / 2), columns, rows, columns / 2, rows / 2)
    columns, rows = size or (0, 0)
    width, height = int(info.width) or columns, int(info.height) or rows
    fx, cx, fy, cy = (float(info.k[n]) for n in (0, 2, 4, 5))
    says = f"it says {width} x {height} pixels"
    if not min(width, height) > 0:
        raise LensError("it has a focal length, but no size")
    low, high = (width * share for share in LENSES)
    if not (low <= fx <= high and (fy == 0.0 or low <= fy <= high)):
        raise LensError(f"no lens has a focal length of {fx:.4g} x {fy:.4g} pixels, and {says}")
    middle = bool(cx or cy)
    if middle and not (abs(cx / width - 0.5) <= OFF and abs(cy / height - 0.5) <= OFF):
        raise LensError(f"{says}, but by k its middle is at {cx:.4g}, {cy:.4g}" + (
            f"; the picture has {columns} x {rows}" if size else ""))
    part, x, y = (width, height), 0, 0
    if info.roi.width and info.roi.height:
        part, x, y = (int(info.roi.width), int(info.roi.height)), int(info.roi.x_offset), int(info.roi.y_offset)
        if x + part[0] > width + SLACK or y + part[1] > height + SLACK:
            raise LensError(f"{says}, but its roi ({part[0]} x {part[1]} at {x}, {y}) reaches beyond them")
    sent = part[0] / max(int(info.binning_x), 1), part[1] / max(int(info.binning_y), 1)
    if size is None:
        columns, rows = round(sent[0]), round(sent[1])
    same = abs(columns - sent[0]) <= SLACK and abs(rows - sent[1]) <= SLACK
    scaled = middle and abs(columns * sent[1] / (rows * sent[0]) - 1.0) <= SHAPE
    if min(sent) < 1 or not (same or scaled and not (part != (width, height) and columns > part[0] + SLACK)):
        raise LensError(f"{says}" + (", of which its roi and binning leave {:.0f} x {:.0f}".format(*sent)
                                     if sent != (width, height) else "") + f", but the picture has {columns} x {rows}")
    if rectified and info.p[0]:
        fx, cx, fy, cy = (float(info.p[n]) for n in (0, 2, 5, 6))
        if not (low <= fx <= high and low <= fy <= high and 0.0 <= cx <= width and 0.0 <= cy <= height):
            raise LensError(f"{says}, but its p tells of a focal length of {fx:.4g} x {fy:.4g} and a middle at "
                            f"{cx:.4g}, {cy:.4g}")
    across, down = columns / part[0], rows / part[1]
    focal, tall = fx * across, fy * down / (fx * across)
    column, row = ((cx + 0.5 - x) * across, (cy + 0.5 - y) * down) if middle else (columns / 2, rows / 2)
    if not (-columns <= column <= 2 * columns and -rows <= row <= 2 * rows):
        raise LensError(f"its roi ({part[0]} x {part[1]} at {x}, {y}) is too far from what is straight ahead")
    return Lens(focal, columns, rows, _middle(column, columns), _middle(row, rows),
                1.0 if abs(tall - 1.0) <= SQUARE or not fy else tall,
                *((False, ()) if rectified else _distortion(info)))


def _distortion(info: Any) -> tuple[bool, tuple[float, ...]]:
    """Returns whether it is a fisheye, and the coefficients; none where all are 0. Raises LensError."""
    model, found = str(info.distortion_model), tuple(float(v) for v in info.d)
    if not any(found):
        return model in FISHEYES, ()
    if model not in BENDING:
        raise LensError(f"its distortion model {model!r:.40} is not one of {', '.join(BENDING)}")
    if len(found) not in BENDING[model] or not all(map(math.isfinite, found)):
        raise LensError(f"{model} has {' or '.join(map(str, BENDING[model]))} finite numbers, and it says {len(found)}")
    return model in FISHEYES, found


def _middle(at: float, size: int) -> float:
    """Returns the place of straight ahead, or exactly the middle where it is near."""
    return size / 2 if abs(at - size / 2) <= NEAR * size else at
