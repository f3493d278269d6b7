# SPDX-License-Identifier: Apache-2.0
"""Positions of the keys on a keyboard."""
from __future__ import annotations

import functools

_ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")


@functools.cache
def neighbors() -> dict[str, str]:
    """The letters beside each letter of an English keyboard."""
    at = {key: (row, column + row / 2) for row, keys in enumerate(_ROWS) for column, key in enumerate(keys)}
    return {key: "".join(k for k, (r, c) in at.items() if k != key and abs(r - row) <= 1 and abs(c - column) <= 1)
            for key, (row, column) in at.items()}
