# SPDX-License-Identifier: Apache-2.0
"""Sizes of messages as people write them: ``8B``, ``1.5KiB``, ``8B..16MiB``."""
from __future__ import annotations

import re

UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
LARGEST = 2**30         # bytes; each rank holds the inputs of all
STEP = 4                # between the sizes of a range
ACCEPTED = ("--sizes takes a range as 8B..16MiB, which goes up in steps of 4, or a list as 8B,1KiB,1MiB; units are B, "
            f"KiB, MiB and GiB, and a size is from 1B to {LARGEST // 2**30}GiB")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(B|KiB|MiB|GiB)", re.ASCII)


def parse(text: str) -> list[int]:
    """Sizes (bytes) in the order they were written, each once.

    Raises:
        ValueError: it is neither a range nor a list of sizes; says what is accepted.
    """
    low, dots, high = text.partition("..")
    if not dots:
        return list(dict.fromkeys(_one(part) for part in text.split(",")))
    first, last = _one(low), _one(high)
    if first > last:
        raise ValueError(f"{text!r} is a range from more to less. {ACCEPTED}")
    found = [first]
    while found[-1] * STEP < last:
        found.append(found[-1] * STEP)
    return found if found[-1] == last else [*found, last]


def _one(text: str) -> int:
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text.strip()!r} is no size. {ACCEPTED}")
    size = float(found[1]) * UNITS[found[2]]
    if not 1 <= size <= LARGEST or size % 1:
        raise ValueError(f"{text.strip()!r} is no size that can be measured. {ACCEPTED}")
    return int(size)


def written(size: int) -> str:
    """A size (bytes) in the largest unit of which it has one or more, with at most three digits behind the point."""
    unit = next(unit for unit in reversed(UNITS) if size >= UNITS[unit] or unit == "B")
    return f"{round(size / UNITS[unit], 3):g} {unit}" if size < 1000 * UNITS[unit] else f"{size // UNITS[unit]} {unit}"
