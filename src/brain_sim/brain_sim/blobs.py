# SPDX-License-Identifier: Apache-2.0
"""A conventional detector of colored things in a picture, as a camera with its own firmware may have."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from brain_sim import robot
from brain_sim.things import HUES

MIN_PIXELS = 8
MIN_SATURATION = 0.45
MIN_VALUE = 0.12
MEAN_RADIUS = 0.215
MEAN_HEIGHT = 0.44
FLATNESS = 0.05


@dataclass(frozen=True)
class Blob:
    """One patch of color. bearing (rad, positive left) and distance (m, to the center) are from the camera.

    shape: ball, box, cylinder, or "" when the patch is too small to tell; width: radians.
    """

    color: str
    shape: str
    bearing: float
    distance: float
    width: float
    pixels: int
    cut: bool


def hue_saturation_value(picture: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Hue in 0..1, saturation and value in 0..1 (each float32[H, W]) of uint8[H, W, 3]."""
    rgb = picture.astype(np.float32) / 255.0
    value, low = rgb.max(axis=2), rgb.min(axis=2)
    chroma = value - low
    safe = np.where(chroma > 0, chroma, 1.0)
    r, g, b = rgb[..., 0], rgb[..., 1], rgb[..., 2]
    other = np.where(value == g, (b - r) / safe + 2, (r - g) / safe + 4)
    hue = np.where(value == r, ((g - b) / safe) % 6.0, other)
    return hue / 6.0, np.where(value > 0, chroma / np.maximum(value, 1e-6), 0.0), value


def find_blobs(picture: np.ndarray, focal: float, height: float = robot.CAMERA_HEIGHT) -> list[Blob]:
    """The patches in uint8[H, W, 3] of a level camera (`focal` pixels, `height` meters up), nearest first."""
    hue, saturation, value = hue_saturation_value(picture)
    vivid = (saturation > MIN_SATURATION) & (value > MIN_VALUE)
    names = list(HUES)
    away = np.stack([np.abs((hue - HUES[n] + 0.5) % 1.0 - 0.5) for n in names])
    nearest = np.where(vivid & (away.min(axis=0) < 0.07), away.argmin(axis=0), -1)
    found = []
    for index, color in enumerate(names):
        mask = nearest == index
        for left, right in _runs(mask.sum(axis=0) >= 2):
            blob = _describe(color, mask[:, left:right], left, picture, focal, height)
            if blob is not None:
                found.append(blob)
    return sorted(found, key=lambda b: b.distance)


def _runs(flags: np.ndarray) -> list[tuple[int, int]]:
    """(first, one past last) of the stretches of True, gaps of one closed."""
    closed = flags.copy()
    closed[1:-1] |= flags[:-2] & flags[2:]
    edges = np.flatnonzero(np.diff(np.concatenate([[False], closed, [False]]).astype(np.int8)))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def _describe(color: str, mask: np.ndarray, left: int, picture: np.ndarray, focal: float,
              height: float) -> Blob | None:
    rows_total, columns_total, _ = picture.shape
    pixels = int(mask.sum())
    if pixels < MIN_PIXELS:
        return None
    rows = np.flatnonzero(mask.any(axis=1))
    top, bottom = rows[0], rows[-1] + 1
    right = left + mask.shape[1]
    cut = left == 0 or right == columns_total or bottom == rows_total
    middle, wide, high = (left + right) / 2, right - left, bottom - top
    bearing = float(np.arctan((columns_total / 2 - middle) / focal))
    below = (bottom - rows_total / 2) / focal
    if bottom < rows_total and below > 0.02:
        # Where it stands on the floor, seen under the horizon; the front edge is nearer than the center.
        ahead = height / below + 0.5 * MEAN_RADIUS
    else:
        ahead = MEAN_HEIGHT * focal / max(high, 1)
    distance = float(ahead / np.cos(bearing))
    small = cut or high < 6 or wide < 6
    shape = "" if small else _shape(mask[top:bottom], picture[top:bottom, left:right])
    return Blob(color, shape, bearing, distance, float(wide / focal * np.cos(bearing) ** 2), pixels, cut)


def _shape(mask: np.ndarray, patch: np.ndarray) -> str:
    """Balls have narrow first rows; boxes have one or two flat faces; cylinders shade smoothly across."""
    widths = mask.sum(axis=1)
    edge = max(1, len(widths) // 8)
    if widths[:edge].mean() < 0.72 * widths.max() and widths[-edge:].mean() < 0.72 * widths.max():
        return "ball"
    skip = len(mask) // 4
    brightness, there = patch[skip:].max(axis=2).astype(np.float32), mask[skip:]
    count = there.sum(axis=0)[1:-1]
    if len(count) < 4 or not count.all():
        return "cylinder" if mask.shape[0] > mask.shape[1] else "box"
    profile = (brightness * there).sum(axis=0)[1:-1] / count
    # Left over after the best split into two flat parts, against all the variation there is.
    n = len(profile)
    left_over = min(profile[:k].var() * k + profile[k:].var() * (n - k) for k in range(1, n))
    noise = 9.0 * n / len(brightness)
    return "cylinder" if left_over > FLATNESS * profile.var() * n + noise else "box"
