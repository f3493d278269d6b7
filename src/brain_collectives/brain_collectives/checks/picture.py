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
# Told apart by those who see fewer colors, too (Okabe and Ito), and by dashes and marks.
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
DASHES = ("-", "--")
MARKS = "osv^D"
INK, GRID = "#333333", "#dddddd"
# A panel each; what is of none of them stands in the last.
PANELS = {"add up": ("all_reduce", "reduce"), "copy and collect": ("broadcast", "all_gather", "gather", "scatter"),
          "exchange": ()}
Points = list[tuple[int, float]]


def draw(path: Path, found: dict[str, Any]) -> None:
    """Writes the picture; where MPI was measured, a thin line of the same color stands beside.

    Raises:
        ModuleNotFoundError: there is no matplotlib.
        ValueError: nothing that was measured has a bus bandwidth.
    """
    agg, figures = import_module("matplotlib.backends.backend_agg"), import_module("matplotlib.figure")
    lines = [(one["name"], _points(one["measured"])) for one in found["collectives"]]
    panels: dict[str, list[tuple[str, Points]]] = {}
    for title in PANELS:
        mine = [(name, points) for name, points in lines if points and _panel(name) == title]
        panels |= {title: mine} if mine else {}
    if not panels:
        raise ValueError("nothing that was measured has a bus bandwidth, so there is nothing to draw")
    figure = figures.Figure(figsize=(1.0 + 5.2 * len(panels), 5.6), facecolor="white")
    agg.FigureCanvasAgg(figure)
    others = (found.get("mpi") or {}).get("collectives", {})
    for axes, (title, mine) in zip(figure.subplots(1, len(panels), sharey=True, squeeze=False)[0], panels.items()):
        _panel_of(axes, title, mine, others)
    figure.axes[0].set_ylabel("bus bandwidth (MB/s), log scale", color=INK)
    figure.suptitle(f"{found['backend']}, {found['ranks']} ranks, torch {found['torch']}: medians"
                    + ("; thin: MPI" if others else ""), x=0.01, ha="left", color=INK, fontsize=11)
    figure.tight_layout()
    figure.savefig(path, dpi=100)


def _panel_of(axes: Any, title: str, lines: list[tuple[str, Points]], others: dict[str, Any]) -> None:
    """One panel: a line for each collective, MPI's beside it."""
    ticker = import_module("matplotlib.ticker")
    for number, (name, points) in enumerate(lines):
        look = {"color": COLORS[number % len(COLORS)], "linestyle": DASHES[number // len(COLORS) % len(DASHES)]}
        axes.plot(*zip(*points), marker=MARKS[number % len(MARKS)], markersize=4, linewidth=1.5, label=name, **look)
        beside = _points(others[name]["measured"]) if name in others else []
        if beside:
            axes.plot(*zip(*beside), linewidth=0.7, **look)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.xaxis.set_major_locator(ticker.FixedLocator(_ticks([x for _, points in lines for x, _ in points])))
    axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda size, _: written(int(size))))
    axes.xaxis.set_minor_locator(ticker.NullLocator())
    axes.yaxis.set_major_formatter(ticker.FuncFormatter(lambda y, _: f"{y:g}"))
    axes.set_xlabel("size, over all ranks", color=INK)
    axes.set_title(title, loc="left", color=INK, fontsize=10)
    axes.grid(color=GRID, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(axis="x", labelrotation=45, colors=INK)
    axes.legend(fontsize=8, loc="lower right", frameon=False)      # bandwidth grows with size: nothing lies there


def _panel(name: str) -> str:
    return next((title for title, starts in PANELS.items() if starts and name.startswith(starts)), list(PANELS)[-1])


def _points(measured: list[dict[str, Any]]) -> Points:
    """Size (bytes) and bus bandwidth (MB/s); a single rank has none."""
    return [(m["bytes"], m["bus_bandwidth"] / 1e6) for m in measured if m["bus_bandwidth"]]


def _ticks(sizes: list[int]) -> list[int]:
    """Sizes to name below: powers of 4 over all that was measured."""
    low, high = min(sizes), max(sizes)
    found = [size for size in (2 * 4**power for power in range(16)) if low <= size <= high]
    return found or [low, high]
