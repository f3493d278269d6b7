# SPDX-License-Identifier: Apache-2.0
"""Tables of figures in README and docs, made from ``results/``.

``results/tables.yaml`` describes each table. In a page, what stands between ``<!-- results: TABLE -->`` and
``<!-- end -->`` is written by ``brain docs``.

A figure is a text with places: ``{path}`` is a figure of the row's result, ``{path format}`` the same in Python's
format (``.1f``, ``.1%``, with a factor in front as in ``1e6*.0f``), ``{other:path}`` one of another result. Steps of a
path have dots between them: keys, numbers in a list, or ``key=value`` for the item of a list that has it.

A table is one of

- a list of rows with ``what``, ``figure`` and ``of``, the name of the result; its third column is the result's command.
  A row may have its first column in another language too (``what_ja``), and the words round its figures
  (``figure_ja``); ``<!-- results: TABLE ja -->`` takes those.
- ``head`` (a list of headings), ``cells`` (a figure for each column) and ``rows``, each with ``of``, ``what`` (its
  first column, for which ``cells`` has none) and ``at``, the path that its cells' paths begin at; or instead of
  ``rows`` ``each``, with ``of`` and ``at``, the path of a list: a row for each of its items. A cell with a figure that
  is null stays empty. A line below it names command, date and commit, and what was imported.
"""
from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Mapping, Sequence

import yaml

from brain_eval import saved

TABLES = "tables.yaml"
REGION = re.compile(r"(<!-- results: (?P<table>[\w-]+)(?: (?P<language>\w+))? -->\n).*?(<!-- end -->)", re.S)
PLACE = re.compile(r"\{(?:(?P<result>[\w-]+):)?(?P<path>[\w./=-]+)"
                   r"(?: (?:(?P<factor>[\d.e+-]+)\*)?(?P<format>[^{}]+))?\}")
FILES = re.compile(r"(?:(?<= )\S+\.(?:txt|json)(?= |$) ?){2,}")
HEADINGS = {None: ("what", "figure", "command"), "ja": ("測定項目", "値", "コマンド")}


class TableError(ValueError):
    """A table cannot be made; names it and what is missing."""


def pages(top: Path) -> list[Path]:
    """The pages that may have tables."""
    return sorted([*top.glob("*.md"), *(top / "docs").glob("*.md")])


def made(top: Path) -> dict[Path, str]:
    """Builds the text that each page with tables should have.

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


def read(folder: Path) -> dict[str, Any]:
    """The tables that a folder of results describes, by name."""
    return yaml.safe_load((folder / TABLES).read_text(encoding="utf-8"))


def used(described: Any) -> set[str]:
    """Names of the results that a table takes its figures from."""
    rows = described if isinstance(described, list) else described.get("rows") or [described["each"]]
    texts = [text for row in rows for text in row.values()]
    texts += [] if isinstance(described, list) else described["cells"]
    return {row["of"] for row in rows} | {place["result"] for text in texts for place in PLACE.finditer(str(text))
                                          if place["result"]}


def check(described: Any, name: str, figures: Any) -> None:
    """Looks for all that a table takes from a result in other figures of its kind.

    Raises:
        TableError: a figure is not there; names it.
    """
    wide = not isinstance(described, list)
    rows = described
    if wide:
        rows = described.get("rows") or [{**described["each"], "at": f"{described['each']['at']}.0"}]
    for row in rows:
        texts = described["cells"] if wide else [text for key, text in row.items() if key.startswith("figure")]
        for place in (place for text in texts for place in PLACE.finditer(text)):
            if (place["result"] or row["of"]) == name:
                at = f"{row['at']}." if row.get("at") and not place["result"] else ""
                _value(figures, at + place["path"], name)


def table(tables: Mapping[str, Any], results: Mapping[str, dict], name: str, language: str | None = None) -> str:
    """One table as Markdown."""
    if name not in tables or language not in HEADINGS:
        raise TableError(f"there is no table {name!r} in {saved.FOLDER / TABLES}, or none in the language {language}")
    described = tables[name]
    if not isinstance(described, list):
        return _wide(described, results, name)
    lines = _head(HEADINGS[language])
    for row in described:
        command = _command(_result(results, row["of"], name))
        what = row["what"] if language is None else row[f"what_{language}"]
        lines.append(_line([what, _text(row.get(f"figure_{language}", row["figure"]), results, row["of"]), command]))
    return "\n".join(lines) + "\n"


def _wide(described: Mapping[str, Any], results: Mapping[str, dict], name: str) -> str:
    lines, sources = _head(described["head"]), {}
    rows = described.get("rows")
    if rows is None:
        of, at = described["each"]["of"], described["each"]["at"]
        sources[of] = _result(results, of, name)
        many = _value(sources[of]["figures"], at, of)
        if not many:
            lines = ["None."]
        rows = [{"of": of, "at": f"{at}.{number}"} for number in range(len(many))]
    for row in rows:
        sources[row["of"]] = _result(results, row["of"], name)
        cells = [_text(cell, results, row["of"], row.get("at", "")) for cell in described["cells"]]
        lines.append(_line(([row["what"]] if "what" in row else []) + cells))
    told = [f"{_command(result)} ({result['date']}, {(result['commit'] or 'no commit')[:7]}"
            f"{', imported' if result.get('imported') else ''})" for result in sources.values()]
    return "\n".join([*lines, "", "From " + "; ".join(told) + "."]) + "\n"


def _head(headings: Sequence[str]) -> list[str]:
    return [_line(headings), "|" + "---|" * len(headings)]


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _command(result: Mapping[str, Any]) -> str:
    """Command of a result as code: without --save, and with many files as FILES."""
    told = re.sub(rf" --save(?: {re.escape(result['name'])})?(?= |$)", "", result["command"])
    return "`" + FILES.sub(lambda m: "FILES" + " " * m[0].endswith(" "), told).replace("|", r"\|") + "`"


def _result(results: Mapping[str, dict], name: str, table: str) -> dict[str, Any]:
    if name not in results:
        raise TableError(f"table {table}: there is no {saved.FOLDER}/{name}.json; measure it with --save")
    return results[name]


def _text(figure: str, results: Mapping[str, dict], of: str, at: str = "") -> str:
    """A figure's text with its places filled; empty where one of them is null."""
    empty = False

    def fill(place: re.Match) -> str:
        nonlocal empty
        name = place["result"] or of
        path = place["path"] if place["result"] or not at else f"{at}.{place['path']}"
        value = _value(_result(results, name, of)["figures"], path, name)
        if value is None:
            empty = True
            return ""
        if place["factor"]:
            value = float(place["factor"]) * value
        told = format(value, place["format"] or "")
        return told if isinstance(value, str) else told.replace("%", " %").replace("_", " ")

    text = PLACE.sub(fill, figure)
    return "" if empty else text


def _value(figures: Any, path: str, name: str) -> Any:
    value = figures
    try:
        for key in path.split("."):
            if value is None:
                return None
            if isinstance(value, list):
                wanted, _, content = key.partition("=")
                value = next(v for v in value if str(v[wanted]) == content) if content else value[int(key)]
            else:
                value = value[key]
    except (KeyError, IndexError, ValueError, TypeError, StopIteration):
        raise TableError(f"{saved.FOLDER}/{name}.json has no figure {path}") from None
    return value
