# SPDX-License-Identifier: Apache-2.0
"""Figures as lines and tables for a person, whatever they are: by the names that they have in JSON.

What lists of many values, and what is nested deeper than a table can show, is counted; ``--json`` has all of it.
"""
from __future__ import annotations

from typing import Any, Iterable, Iterator, NamedTuple, Sequence

FEW = 5         # values of a list that are shown
WIDE, GAP = 118, 3     # characters of a table, beyond which each row becomes a column, and between two columns
LONGEST = 4     # rows that can
MANY = 30       # rows beyond which they are counted: what was taken one by one


class Table(NamedTuple):
    """A table for a terminal.

    Attributes:
        title: above it.
        headings: of its columns.
        rows: texts, one for each heading.
        left: how many columns, from the first on, are words and not figures.
        caption: below it.
    """

    title: str
    headings: Sequence[str]
    rows: Iterable[Sequence[str]]
    left: int = 1
    caption: str = ""


def rows(figures: dict[str, Any], name: str = "") -> Iterator[str | Table]:
    """Makes a table of each list of rows, the same of what is nested, and a line of all single values.

    Args:
        figures: plain values.
        name: of all of them, in front of their own.
    """
    for key, value in figures.items():
        path = f"{name}.{key}" if name else key
        if _table(value):
            yield from _tables(path, [_flat(row) for row in value])
        elif isinstance(value, dict) and value:
            each = {one: found for one, found in value.items() if isinstance(found, dict)}
            if len(each) == len(value) and not any(map(_nested, each.values())):
                yield from _tables(path, [{"": one, **_flat(found)} for one, found in each.items()])
            else:
                yield from rows(value, path)
    single = {key: value for key, value in figures.items() if not isinstance(value, dict) and not _table(value)}
    if single:      # the last: what all comes to is often among them
        told = ", ".join(f"{key} {_text(value)}" for key, value in single.items())
        yield f"{name}: {told}" if name else told


def _table(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) for row in value)


def _nested(found: dict[str, Any]) -> bool:
    return any(_table(value) or isinstance(value, dict) and _nested(value) for value in found.values())


def _flat(row: dict[str, Any], name: str = "") -> dict[str, str]:
    """A row's values as texts, those of a dict in it by names with points."""
    found: dict[str, str] = {}
    for key, value in row.items():
        found |= _flat(value, f"{name}{key}.") if isinstance(value, dict) else {f"{name}{key}": _text(value)}
    return found


def _tables(title: str, flat: list[dict[str, str]]) -> Iterator[str | Table]:
    if len(flat) > MANY:
        yield f"{title}: {len(flat)} rows"
        return
    headings = list(dict.fromkeys(key for row in flat for key in row))
    width = {key: GAP + max(len(key), *(len(row.get(key, "")) for row in flat)) for key in headings}
    if sum(width.values()) > WIDE and len(flat) <= LONGEST:
        yield Table(title, ["", *(str(number) for number in range(1, len(flat) + 1))],
                    [(key, *(row.get(key, "") for row in flat)) for key in headings])
        return
    first, *more = headings     # says what a row is about
    some = [first]
    for key in more:
        if sum(width[one] for one in (*some, key)) > WIDE and len(some) > 1:
            yield Table(title, some, [[row.get(one, "") for one in some] for row in flat])
            some = [first]
        some.append(key)
    yield Table(title, some, [[row.get(one, "") for one in some] for row in flat])


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, (list, tuple)):
        plain = len(value) <= FEW and not any(isinstance(one, (dict, list, tuple)) for one in value)
        return ", ".join(map(_text, value)) if plain else f"({len(value)})"
    return str(value)
