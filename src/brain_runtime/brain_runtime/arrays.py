# SPDX-License-Identifier: Apache-2.0
"""Arrays of numbers as messages hold them: what fits into one is taken, what would be changed by it is refused."""
from __future__ import annotations

from typing import Any

import numpy as np

FITTING = {"b": "biu", "i": "biu", "u": "biu", "f": "biuf"}
"""By kind of array (numpy's letters), the kinds of what may be put into it."""


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
    array = np.ascontiguousarray(given, dtype).reshape(-1)
    if dtype.kind in "iu" and not np.array_equal(array, given.reshape(-1)):
        raise ValueError(f"there are numbers that do not fit {dtype}")
    return array
