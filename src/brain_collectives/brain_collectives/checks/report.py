# SPDX-License-Identifier: Apache-2.0
"""Report of what was found, as a person reads it."""
from __future__ import annotations

import textwrap
from typing import Any

from rich.table import Table

from brain_collectives.checks.compare import sentence
from brain_collectives.checks.sizes import written

NONE = "-"
WIDE = 100      # characters of a line of prose


def table(found: dict[str, Any]) -> Table:
    """Rows of each collective by size; where MPI was measured too, its median beside."""
    mpi = (found.get("mpi") or {}).get("collectives", {})
    result = Table(title=f"{found['backend']}, {found['ranks']} ranks, torch {found['torch']}", title_justify="left")
    result.add_column("collective", overflow="fold")
    for head in ("size", "n", "median", "p99", "alg", "bus", *(["MPI"] if mpi else [])):
        result.add_column(head, justify="right", no_wrap=True)
    result.add_column("values", overflow="fold")
    for one in found["collectives"]:
        beside = {m["bytes"]: m for m in mpi.get(one["name"], {}).get("measured", [])}
        if one["lacks"] is not None:
            where = f"not on {found['backend']}: " if one["needs_ranks"] is None else ""
            result.add_row(one["name"], *[NONE] * (7 if mpi else 6), f"{where}{one['lacks']}")
        bad = {wrong["bytes"] for wrong in one["wrong"]}
        for number, m in enumerate(one["measured"]):
            cells = [one["name"] if number == 0 else "", written(m["bytes"]) if m["bytes"] else NONE,
                     str(m["repetitions"]), duration(m["median"]), duration(m["p99"]),
                     bandwidth(m["algorithm_bandwidth"]), bandwidth(m["bus_bandwidth"])]
            cells += [duration(beside[m["bytes"]]["median"]) if m["bytes"] in beside else NONE] if mpi else []
            result.add_row(*cells, "WRONG" if m["bytes"] in bad else "right" if m["bytes"] else "")
        result.add_section()
    return result


def notes(found: dict[str, Any]) -> list[str]:
    """Lines below the table: each wrong value, and what the columns are."""
    lines = [sentence({"name": one["name"], **wrong}) for one in found["collectives"] for wrong in one["wrong"]]
    mpi = found.get("mpi") or {}
    for name, one in mpi.get("collectives", {}).items():
        lines += [f"MPI: {sentence({'name': name, **wrong})}" for wrong in one["wrong"]]
    lines += [f"MPI: {mpi['problem']}"] if mpi.get("problem") else []
    lines += [f"MPI: {mpi['library']}"] if mpi.get("library") else []
    lines.append("median and p99 of n repetitions, each as long as its slowest rank; alg and bus: algorithm and bus "
                 "bandwidth in MB/s as nccl-tests defines them, - where it does not")
    return lines


def explanation(told: dict[str, Any]) -> list[str]:
    """Formats what --explain says, line by line."""
    bus = (f"Bus bandwidth: algorithm bandwidth x {told['bus_factor']}." if told["bus_factor"] else
           f"Bus bandwidth: not defined; {told['no_bus_factor']}.")
    prose = [told["does"], *([told["more"]] if told["more"] else []), bus]
    lines = [told["name"], *(f"  {line}" for text in prose for line in textwrap.wrap(text, WIDE)), ""]
    if told["lacks"] is not None:
        return [*lines, f"  not on {told['backend']}: {told['lacks']}"]
    lines += _before_and_after([(one["rank"], values(one["before"]), values(one["after"])) for one in told["ranks"]])
    shown = [f"  {line}" for text in told["shown"] for line in textwrap.wrap(text, WIDE)]
    return [*lines, *([""] if shown else []), *shown, *(sentence(wrong) for wrong in told["wrong"])]


def _before_and_after(ranks: list[tuple[int, str, str]]) -> list[str]:
    """Side by side, or one below the other where that is too wide."""
    wide = max(len("before"), *(len(before) for _, before, _ in ranks)) + 4
    if wide + max(len(after) for _, _, after in ranks) + 8 <= WIDE:
        return [f"  {rank:<6}{before:<{wide}}{after}" for rank, before, after in [("rank", "before", "after"), *ranks]]
    lines = ["  rank"]
    for rank, *both in ranks:
        for number, (what, text) in enumerate(zip(("before", "after"), both)):
            first = f"  {'' if number else rank:<6}{what:<8}"
            lines += textwrap.wrap(text, WIDE, initial_indent=first, subsequent_indent=" " * len(first))
    return lines


def values(several: list[Any]) -> str:
    """Tensors as [0.01 0.02], objects as Python writes them."""
    def one(value: Any) -> str:
        if isinstance(value, list):
            return f"[{' '.join(f'{x:.3f}'.removesuffix('0') for x in value)}]"
        if isinstance(value, dict) and all(name.endswith("(s)") for name in value):     # of a barrier: when it was
            return ", ".join(f"{name} {x:g}" for name, x in value.items())
        return repr(value)
    return "  ".join(map(one, several)) or NONE


def duration(seconds: float) -> str:
    """A time in the unit that has three digits before the point at most."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} us"


def bandwidth(per_second: float | None) -> str:
    """MB/s (1e6 bytes)."""
    if per_second is None:
        return NONE
    return f"{per_second / 1e6:,.0f}" if per_second >= 1e8 else f"{per_second / 1e6:.3g}"
