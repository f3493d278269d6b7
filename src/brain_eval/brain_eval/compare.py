# SPDX-License-Identifier: Apache-2.0
"""``brain compare``: results of several evaluations in one table."""
from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from brain_eval import saved
from brain_runtime.command.options import Json, fail, tell, tell_json


def compare(files: Annotated[list[Path], typer.Argument(help="Files that `brain eval` wrote with --out or --save; the "
                                                             "others are compared with the first, pair by pair.")],
            region: Annotated[str, typer.Option(help="Region whose synaptic operations are compared, too.")] = "",
            markdown: Annotated[bool, typer.Option("--markdown", help="As a table for a page.")] = False,
            save: Annotated[str | None, typer.Option(
                metavar="NAME", help="Write what --json tells to results/NAME.json, for the tables of `brain docs`.")]
            = None,
            as_json: Json = False) -> None:
    """Puts evaluations into one table: shares with 95 % intervals, and differences to the first.

    Success, wrong object and contact have Wilson intervals. Differences are those of the episodes that both have: of
    success with Tango's 95 % interval, of times, SPL and operations with one by bootstrap.
    """
    from brain_eval.results import read

    try:
        reports = [read(file) for file in files]
    except ValueError as error:
        fail(str(error), 2)
    values = {"results": [as_values(report, reports[0] if k else None, region) for k, report in enumerate(reports)]}
    if save is not None:
        saved.check_folder()
        saved.write(save, values, {"seed": reports[0]["seed"]})
    if as_json:
        tell_json(values)
        return
    rows = []
    for k, report in enumerate(reports):
        first = reports[0] if k else None
        rows.append(row(report, first) + ([told(cost(report, first, region))] if region else []))
    headings = HEADINGS + ((f"{region}: k op./s",) if region else ())
    if markdown:
        tell("| " + " | ".join(headings) + " |\n" + "|---" * len(headings) + "|")
        for cells in rows:
            tell("| " + " | ".join(cells) + " |")
        return
    from rich.box import SIMPLE_HEAD
    from brain_runtime.command.terminal import Terminal
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, collapse_padding=True, pad_edge=False)
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="right" if number else "left")
    for cells in rows:
        table.add_row(*cells)
    Terminal().print(table)


HEADINGS = ("", "n", "success", "wrong object", "contact", "success, difference", "SPL", "time, s", "time, difference",
            "synaptic op., M")


def label(report: dict[str, Any]) -> str:
    """Describes in few words what was evaluated."""
    from brain_sim.suite import SUITE, TIME_LIMIT, VERSION

    suite = "" if report.get("suite", SUITE) in (SUITE, VERSION) else f"{report['suite']}, "
    parts = [report["policy"], *(report.get("ablated") or [])]
    if report.get("time_limit", TIME_LIMIT) != TIME_LIMIT:
        parts.append(f"{report['time_limit']:g} s")
    if report.get("patience") == 0:
        parts.append("patience=off")
    if report.get("low_obstacles"):
        parts.append(f"{report['low_obstacles']} low obstacles")
    if report.get("energy"):
        parts.append(f"{report['energy']['budget']:.0f} B/s")
    if report["host"] != "local":
        parts.append(f"on {report['host']}")
    return f"{suite}{report['split']} {report['seed']}: {', '.join(parts)}"


def row(report: dict[str, Any], first: dict[str, Any] | None) -> list[str]:
    """Cells of an evaluation; ``first`` is the one to compare it with."""
    from brain_eval.results import paired

    found = report["summary"]["all"]

    def share(name: str) -> str:
        low, high = found[name]["wilson95"]
        return f"{100 * found[name]['share']:.1f} % ({100 * low:.1f}-{100 * high:.1f})"

    difference = later = ""
    if first is not None:
        try:
            d = paired(report["results"], first["results"])
            low, high = d["success"]["interval95"]
            difference = f"{100 * d['success']['difference']:+.1f} ({100 * low:+.1f} to {100 * high:+.1f})"
            later = _later(d["time"])
        except ValueError:
            difference = "no pairs"
    return [label(report), str(found["n"]), share("success"), share("wrong_object"), share("contact"), difference,
            "" if found["spl"] is None else f"{found['spl']:.2f}",
            "" if found["time"] is None else f"{found['time']:.1f}", later,
            "" if found["synops"] is None else f"{found['synops'] / 1e6:.0f}"]


def _later(found: dict[str, Any]) -> str:
    if found["interval95"] is None:
        return "" if found["difference"] is None else f"{found['difference']:+.1f} (no interval)"
    low, high = found["interval95"]
    return f"{found['difference']:+.1f} ({low:+.1f} to {high:+.1f})"


def as_values(report: dict[str, Any], first: dict[str, Any] | None, region: str) -> dict[str, Any]:
    """Returns what :func:`row` shows of an evaluation, as plain JSON values."""
    from brain_eval.results import paired

    difference = None
    if first is not None:
        try:
            difference = paired(report["results"], first["results"])
        except ValueError:
            difference = None   # they have no episode in common
    more = {"synops_of_region": cost(report, first, region)} if region else {}
    asked = {k: report.get(k) for k in ("suite", "split", "seed", "host", "policy", "ablated", "time_limit", "patience",
                                        "low_obstacles")}
    return {"label": label(report), **asked, "summary": report["summary"]["all"], "paired_with_first": difference,
            **more}


def cost(report: dict[str, Any], first: dict[str, Any] | None, region: str) -> dict[str, Any] | None:
    """Synaptic operations of a region in a second of simulated time, and the paired difference to ``first``.

    Returns:
        ``rate``, mean ``difference`` and its ``interval95`` by bootstrap, the last two None without pairs, the last
        where all pairs differ by the same; None where the region counts none.
    """
    from brain_sim.intervals import bootstrap

    def rates(of: dict[str, Any]) -> dict[str, float]:
        if not any(region in r.get("by_region", {}) for r in of["results"]):
            return {}
        # an episode in which it counted nothing has no entry where results were not saved in few characters
        return {r["id"]: r.get("by_region", {}).get(region, (0, 0))[1] / r["simulated"] for r in of["results"]
                if r["simulated"] > 0}

    now = rates(report)
    if not now:
        return None
    before = {} if first is None else rates(first)
    steps = [now[i] - before[i] for i in now if i in before]
    found: dict[str, Any] = {"rate": sum(now.values()) / len(now), "difference": None, "interval95": None}
    if steps:
        interval = bootstrap(steps)
        found |= {"difference": sum(steps) / len(steps), "interval95": None if interval is None else list(interval)}
    return found


def told(found: dict[str, Any] | None) -> str:
    """Formats what :func:`cost` found as a cell, in thousands a second."""
    if found is None:
        return "none"
    text = f"{found['rate'] / 1e3:.0f}"
    if found["difference"] is None:
        return text
    if found["interval95"] is None:
        return f"{text} ({found['difference'] / 1e3:+.0f}, no interval)"
    low, high = found["interval95"]
    return f"{text} ({found['difference'] / 1e3:+.0f}, {low / 1e3:+.0f} to {high / 1e3:+.0f})"
