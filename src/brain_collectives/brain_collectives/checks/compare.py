# SPDX-License-Identifier: Apache-2.0
"""Comparison of a rank's result with the right one: to the bit, or within what rounding allows."""
from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from brain_collectives.checks.row import OBJECTS, Collective

SHORT = 200     # characters of an object that is told


def first_wrong(row: Collective, has: list[list[Any]], rank: int, found: Sequence[Any],
                least_tolerance: float = 0.0) -> dict[str, Any] | None:
    """Finds the first wrong value in a rank's result; None where all is right.

    Args:
        has: what each rank had before, as :attr:`Collective.given` made it.
        found: float32 arrays, or objects.
        least_tolerance: relative, where inputs were not made for exact sums.

    Returns:
        ``output`` (which tensor or object), ``index`` in it (None: all of it), ``expected``, ``found``, and ``count``
        of wrong elements.
    """
    expected = row.expected(has, rank)
    if len(found) != len(expected):
        return _told(None, None, f"{len(expected)} outputs", f"{len(found)} outputs", 1)
    tolerance = max(row.tolerance, least_tolerance)
    magnitudes = row.expected([[abs(one) for one in mine] for mine in has], rank) if tolerance else expected
    for output, (want, got) in enumerate(zip(expected, found)):
        if row.unit == OBJECTS:
            if want != got:
                return _told(output, None, _short(want), _short(got), 1)
        elif np.shape(want) != np.shape(got):
            return _told(output, None, f"shape {list(np.shape(want))}", f"shape {list(np.shape(got))}", 1)
        else:
            bound = tolerance * np.abs(magnitudes[output]) if tolerance else 0.0
            wrong = ~(np.abs(np.asarray(got, np.float64) - want) <= bound)     # NaN is wrong too
            if wrong.any():
                at = int(np.argmax(wrong))
                return _told(output, at, _number(want[at]), _number(got[at]), int(wrong.sum()))
    return None


def _told(output: int | None, index: int | None, expected: Any, found: Any, count: int) -> dict[str, Any]:
    return {"output": output, "index": index, "expected": expected, "found": found, "count": count}


def _number(value: Any) -> float | str:
    """JSON has no NaN and no infinity: these stand as words."""
    return float(value) if np.isfinite(value) else str(float(value))


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= SHORT else f"{text[:SHORT]}..."


def sentence(wrong: dict[str, Any]) -> str:
    """A wrong value, with its ``name``, ``rank`` and ``elements``, for a person."""
    where = "" if wrong["output"] is None else f", output {wrong['output']}"
    where += "" if wrong["index"] is None else f", index {wrong['index']}"
    more = f"; {wrong['count']} of its elements are wrong" if wrong["count"] > 1 else ""
    return (f"{wrong['name']} of {wrong['elements']}: rank {wrong['rank']}{where}: expected {wrong['expected']}, found "
            f"{wrong['found']}{more}")
