# SPDX-License-Identifier: Apache-2.0
"""Arrays of numbers as messages hold them: what fits into one is taken, what would be changed by it is refused."""
from __future__ import annotations

import math
from typing import Any

import numpy as np

LARGEST = float(np.finfo(np.float32).max)

FITTING = {"b": "biu", "i": "biu", "u": "biu", "f": "biuf"}
"""By kind of array (numpy's letters), the kinds of what may be put into it."""


def single(value: float) -> float:
    """``value`` as a float32 field holds it: what is too large becomes the largest; NaN and infinities stay."""
    return min(max(float(value), -LARGEST), LARGEST) if math.isfinite(value) else float(value)


def flat(value: Any, dtype: np.dtype) -> np.ndarray:
    """``value`` as a one-dimensional array that lies in memory as CDR wants it.

    Raises:
        TypeError, ValueError: it is no array, or its numbers would not be the same afterwards.
    """
    if type(value) is np.ndarray and value.dtype == dtype and value.ndim == 1 and value.flags.c_contiguous:
        return value
    if isinstance(value, (bytes, memoryview)) and dtype.itemsize == 1:
        value = np.frombuffer(value, np.uint8)
    given = np.asarray(value)
    if given.ndim == 0 or (given.size and given.dtype.kind not in FITTING[dtype.kind]):
        raise TypeError(f"{type(value).__name__} of {given.dtype} does not fit an array of {dtype}")
    with np.errstate(over="ignore"):    # what overflows is told below
        array = np.ascontiguousarray(given, dtype).reshape(-1)
    if dtype.kind in "iu" and not np.array_equal(array, given.reshape(-1)):
        raise ValueError(f"there are numbers that do not fit {dtype}")
    if dtype.kind == "f" and given.dtype.itemsize > dtype.itemsize and not np.array_equal(
            np.isfinite(array), np.isfinite(given).reshape(-1)):
        raise ValueError(f"there are numbers that are too large for {dtype}")
    return array
