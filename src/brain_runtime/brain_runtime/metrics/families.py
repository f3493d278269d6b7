# SPDX-License-Identifier: Apache-2.0
"""Families of figures as Prometheus has them, as plain data; and bounds, since names in labels may be anybody's.

Units are SI base units, counters end in ``_total``. Each different label value is a series that Prometheus keeps for
weeks: so a label has values from a fixed list, or names that :class:`Listed` lets in.
"""
from __future__ import annotations

import re
from bisect import bisect_left
from typing import Any, Iterable, NamedTuple, Sequence

COUNTER, GAUGE, HISTOGRAM, SUMMARY = "counter", "gauge", "histogram", "summary"
OTHER = "other"     # stands for all values that a label is not to have


class Family(NamedTuple):
    """Figures of one name.

    Attributes:
        name: as Prometheus shows it.
        kind: :data:`COUNTER`, :data:`GAUGE`, :data:`HISTOGRAM` or :data:`SUMMARY`.
        help: one sentence.
        labels: names of the labels.
        rows: values of the labels, and the figure: a number, or what :meth:`Histogram.rows` gives.
    """

    name: str
    kind: str
    help: str
    labels: tuple[str, ...]
    rows: Sequence[tuple[tuple[str, ...], Any]]


def counter(name: str, text: str, value: float) -> Family:
    """A counter without labels."""
    return Family(name, COUNTER, text, (), [((), value)])


def gauge(name: str, text: str, value: float | None) -> Family:
    """A gauge without labels; None: it is not known now, and there is no series."""
    return Family(name, GAUGE, text, (), [] if value is None else [((), value)])


def counters(name: str, text: str, labels: tuple[str, ...], rows: Iterable[tuple[tuple[str, ...], float]]) -> Family:
    """A counter for each combination of labels."""
    return Family(name, COUNTER, text, labels, list(rows))


def gauges(name: str, text: str, labels: tuple[str, ...], rows: Iterable[tuple[tuple[str, ...], float]]) -> Family:
    """A gauge for each combination of labels."""
    return Family(name, GAUGE, text, labels, list(rows))


def quantiles(name: str, text: str, labels: tuple[str, ...], rows: Iterable[tuple[tuple[str, ...], float]]) -> Family:
    """Quantiles that others have made; the last of the labels, ``quantile``, says which, as ``0.5``."""
    return Family(name, SUMMARY, text, (*labels, "quantile"), list(rows))


class Histogram:
    """Histogram: counts how many values were at most each bound. One thread observes; any may read.

    Args:
        bounds: upper bounds, ascending.
    """

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(self._bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        """Counts a value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    @property
    def count(self) -> int:
        """Values so far."""
        return sum(self._counts)

    def rows(self) -> tuple[list[tuple[str, float]], float]:
        """Counts up to each bound, the last without one, and the sum of all values."""
        found, total = [], 0
        for bound, count in zip((*map(repr, self._bounds), "+Inf"), list(self._counts)):
            total += count
            found.append((bound, float(total)))
        return found, self._sum

    def family(self, name: str, text: str) -> Family:
        """It as a family."""
        return Family(name, HISTOGRAM, text, (), [((), self.rows())])


class Listed:
    """Names that have series of their own: the first that come, so that nobody who comes later displaces one.

    Args:
        most: how many.
        form: of a name; another has none.
        first: names that have a place from the beginning.
    """

    def __init__(self, most: int, form: str, first: Iterable[str] = ()) -> None:
        self._most, self._form = most, re.compile(form, re.ASCII)
        self._names: dict[str, None] = {}
        for name in first:
            self(name)

    def __call__(self, name: str) -> bool:
        """Tells whether a name has series of its own; it may take the next place."""
        if name in self._names:
            return True
        if len(self._names) >= self._most or not self._form.fullmatch(name):
            return False
        self._names[name] = None
        return True

    def __len__(self) -> int:
        return len(self._names)


def one_of(value: str, allowed: Iterable[str]) -> str:
    """A label's value, if it may have it; else :data:`OTHER`."""
    return value if value in allowed else OTHER
