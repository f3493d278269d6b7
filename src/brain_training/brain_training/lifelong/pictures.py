# SPDX-License-Identifier: Apache-2.0
"""Features of pictures, a few numbers without any label: colors of what is above and below, contrast, and hues.

They are cheap (a robot computes them beside all else) and say little about what stands where. NumPy alone is needed.
"""
from __future__ import annotations

import numpy as np

WINDOW = 8              # pictures that are judged together
HUES = 12               # parts of the circle of hues
NAMES = ("light above", "red above", "blue above", "light below", "red below", "blue below", "contrast",
         *(f"hue {number}" for number in range(HUES)))
_ABOVE, _BELOW = slice(0, 12), slice(31, 80)    # rows of level pictures: walls and ceiling, and the floor
_LEAST = 4.0            # of 255; darker than this has no color that could be told
_COLORED = 0.45         # saturation from which on a pixel is a thing's rather than a wall's
_BRIGHT = 40.0          # of 255, that such a pixel has at least


def looked(images: np.ndarray) -> np.ndarray:
    """Numbers of pictures.

    Args:
        images: uint8 [pictures, HEIGHT, WIDTH, 3]; what is black in them (0, 0, 0) is not looked at.

    Returns:
        float64 [pictures, len(NAMES)]: for the rows above and below the logarithm of the median brightness and of the
        medians of red and blue over green; the standard deviation of brightness; and the share of all pixels that are
        colored and have a hue in each part of the circle.
    """
    values, seen = images.astype(np.float64), _seen(images)
    contrast = np.nanstd(np.where(seen, values.mean(-1), np.nan), (1, 2)) / 255.0
    return np.concatenate([_surface(values[:, rows], _seen(images[:, rows])) for rows in (_ABOVE, _BELOW)]
                          + [contrast[:, None], _hues(values) / seen.mean((1, 2))[:, None]], 1)


def windows(numbers: np.ndarray, size: int = WINDOW) -> np.ndarray:
    """Numbers of windows of pictures in a row.

    Args:
        numbers: of pictures, [pictures, len(NAMES)], in their order; what is left over is left out.
        size: pictures of a window.

    Returns:
        [windows, len(NAMES)]: means; of the hues the roots of their shares among the colored pixels, so that a hue that
        was never there before weighs more than one of which there is a little more.
    """
    count = len(numbers) // size
    found = numbers[:count * size].reshape(count, size, numbers.shape[1]).mean(1)
    hues = found[:, -HUES:]
    whole = hues.sum(1, keepdims=True)
    found[:, -HUES:] = np.sqrt(hues / np.where(whole > 0.0, whole, 1.0))
    return found


def _seen(images: np.ndarray) -> np.ndarray:
    """Finds what the camera sees, bool [pictures, rows, columns]; where it sees nothing of these rows: everything."""
    seen = images.any(-1)
    return seen | ~seen.any((1, 2), keepdims=True)


def _surface(values: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """[pictures, 3] of values [pictures, rows, columns, 3]: medians, since things are small and surfaces large."""
    colors = np.where(seen[..., None], values, np.nan).reshape(len(values), -1, 3)
    red, green, blue = np.maximum(np.nanmedian(colors, 1), _LEAST).T
    return np.stack([np.log((red + green + blue) / 3.0), np.log(red / green), np.log(blue / green)], 1)


def _hues(values: np.ndarray) -> np.ndarray:
    """[pictures, HUES]: shares of all pixels."""
    high, low = values.max(-1), values.min(-1)
    colored = (high > _BRIGHT) & (high - low > _COLORED * high)
    red, green, blue = np.moveaxis(values, -1, 0)
    # the angle in the plane of colors of one brightness, which is the hue
    turns = np.arctan2(np.sqrt(3.0) * (green - blue), 2.0 * red - green - blue) / (2.0 * np.pi)
    part = np.floor(turns % 1.0 * HUES).astype(int) % HUES
    return np.stack([((part == number) & colored).mean((1, 2)) for number in range(HUES)], 1)
