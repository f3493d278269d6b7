# SPDX-License-Identifier: Apache-2.0
"""Tables of figures in README and docs, made from ``results/``.

``results/tables.yaml`` says what each table has: rows of ``what``, ``figure`` and ``of``, the name of the result. A
figure is a text with places: ``{path}`` is a figure of the row's result, ``{path format}`` the same in Python's format
(``.1f``, ``.1%``, with a factor in front as in ``1e6*.0f``), ``{other:path}`` one of another result. In a page, what
stands between ``<!-- results: TABLE -->`` and ``<!-- end -->`` is written by ``brain docs``. A row may have its first
column in another language too (``what_ja``), and the words round its figures (``figure_ja``);
``<!-- results: TABLE ja -->`` takes those.
"""
from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any, Mapping

import yaml

from brain_runtime.command import saved

TABLES = "tables.yaml"
REGION = re.compile(r"(<!-- results: (?P<table>[\w-]+)(?: (?P<language>\w+))? -->\n).*?(<!-- end -->)", re.S)
PLACE = re.compile(r"\{(?:(?P<result>[\w-]+):)?(?P<path>[\w./-]+)"
                   r"(?: (?:(?P<factor>[\d.e+-]+)\*)?(?P<format>[^{}]+))?\}")
HEADINGS = {None: ("what", "figure", "command"), "ja": ("測定項目", "値", "コマンド")}


class TableError(ValueError):
    """A table cannot be made; names it and what is missing."""


def pages(top: Path) -> list[Path]:
    """The pages that may have tables."""
    return sorted([*top.glob("*.md"), *(top / "docs").glob("*.md")])


def made(top: Path) -> dict[Path, str]:
    """What each page that has tables should be.

    Raises:
        TableError: a table, a result or a figure is not there.
    """
    if not (top / saved.FOLDER).is_dir():
        return {}   # not the top of the tree
    try:
        results, tables = saved.read(top / saved.FOLDER), read(top / saved.FOLDER)
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise TableError(str(error)) from error
    found = {}
    for page in pages(top):
        text = page.read_text(encoding="utf-8")
        if REGION.search(text):
            found[page] = REGION.sub(lambda m: m[1] + table(tables, results, m["table"], m["language"]) + m[4], text)
    return found


def read(folder: Path) -> dict[str, list[dict[str, str]]]:
    """The tables that a folder of results describes: rows, by name of the table."""
    return yaml.safe_load((folder / TABLES).read_text(encoding="utf-8"))


def table(tables: Mapping[str, list[dict[str, str]]], results: Mapping[str, dict], name: str,
          language: str | None = None) -> str:
    """One table as Markdown."""
    if name not in tables or language not in HEADINGS:
        raise TableError(f"there is no table {name!r} in {saved.FOLDER / TABLES}, or none in the language {language}")
    lines = ["| " + " | ".join(HEADINGS[language]) + " |", "|---|---|---|"]
    for row in tables[name]:
        result = results.get(row["of"])
        if result is None:
            raise TableError(f"table {name}: there is no {saved.FOLDER}/{row['of']}.json; measure it with --save")
        what = row["what"] if language is None else row[f"what_{language}"]
        figure = PLACE.sub(functools.partial(_placed, results, row["of"]), row.get(f"figure_{language}", row["figure"]))
        command = re.sub(r" --save\b", "", result["command"]).replace("|", r"\|")
        lines.append(f"| {what} | {figure} | `{command}` |")
    return "\n".join(lines) + "\n"


def _placed(results: Mapping[str, dict], name: str, place: re.Match) -> str:
    """A figure of the result that its place names, or of the row's."""
    return _figure(results, place["result"] or name, place)


def _figure(results: Mapping[str, dict], name: str, place: re.Match) -> str:
    try:
        value: Any = results[name]["figures"]
        for key in place["path"].split("."):
            value = value[int(key)] if isinstance(value, list) else value[key]
    except (KeyError, IndexError, ValueError, TypeError):
        raise TableError(f"{saved.FOLDER}/{name}.json has no figure {place['path']}") from None
    if place["factor"]:
        value = float(place["factor"]) * value
    return format(value, place["format"] or "").replace("%", " %")
