# SPDX-License-Identifier: Apache-2.0
"""Draws bus bandwidth by size, a line for each collective.

matplotlib is asked for by name: a robot whose regions are spread over ranks has this package, and no plotting.
"""
from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from brain_collectives.checks.sizes import written

SUFFIXES = (".png", ".svg", ".pdf")
# Told apart by those who see fewer colors, too (Okabe and Ito), and by dashes and marks where they come again.
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
DASHES = ("-", "--", ":")
MARKS = "osv^D"
INK, GRID = "#333333", "#dddddd"


def draw(path: Path, found: dict[str, Any]) -> None:
    """Writes the picture; MPI's lines stand beside as thin gray ones, where it was measured.

    Raises:
        ModuleNotFoundError: there is no matplotlib.
        ValueError: nothing that was measured has a bus bandwidth.
    """
    agg, figures = import_module("matplotlib.backends.backend_agg"), import_module("matplotlib.figure")
    ticker = import_module("matplotlib.ticker")
    lines = [(one["name"], _points(one["measured"])) for one in found["collectives"]]
    lines = [(name, points) for name, points in lines if points]
    if not lines:
        raise ValueError("nothing that was measured has a bus bandwidth, so there is nothing to draw")
    figure = figures.Figure(figsize=(10, 6), facecolor="white")
    agg.FigureCanvasAgg(figure)
    axes = figure.subplots()
    for number, (name, points) in enumerate(lines):
        axes.plot(*zip(*points), color=COLORS[number % len(COLORS)], marker=MARKS[number % len(MARKS)], markersize=4,
                  linestyle=DASHES[number // len(COLORS) % len(DASHES)], linewidth=1.4, label=name)
    others = (found.get("mpi") or {}).get("collectives", {})
    for name, one in others.items():
        points = _points(one["measured"])
        if points:
            axes.plot(*zip(*points), color="#999999", linewidth=0.9, linestyle="-.", label=f"MPI {name}")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.xaxis.set_major_locator(ticker.FixedLocator(_ticks([x for _, points in lines for x, _ in points])))
    axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda size, _: written(int(size))))
    axes.xaxis.set_minor_locator(ticker.NullLocator())
    axes.yaxis.set_major_formatter(ticker.FuncFormatter(lambda y, _: f"{y:g}"))
    axes.set_xlabel("size of the message, over all ranks", color=INK)
    axes.set_ylabel("bus bandwidth (MB/s)", color=INK)
    axes.set_title(f"{found['backend']}, {found['ranks']} ranks, torch {found['torch']}: medians", loc="left",
                   color=INK, fontsize=11)
    axes.grid(color=GRID, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(axis="x", labelrotation=45, colors=INK)
    axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def _points(measured: list[dict[str, Any]]) -> list[tuple[int, float]]:
    """Size (bytes) and bus bandwidth (MB/s); a single rank has none."""
    return [(m["bytes"], m["bus_bandwidth"] / 1e6) for m in measured if m["bus_bandwidth"]]


def _ticks(sizes: list[int]) -> list[int]:
    """Sizes to name below: powers of 4 over all that was measured."""
    low, high = min(sizes), max(sizes)
    found = [4**power for power in range(20) if low <= 4**power <= high]
    return found or [low, high]
