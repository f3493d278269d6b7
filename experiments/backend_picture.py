# SPDX-License-Identifier: Apache-2.0
"""Draws what ``brain bench backends`` measured, an experiment a panel.

``python -m experiments.backend_picture results/backends.json docs/backends.png`` draws what was saved.
"""
from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

# Told apart by those who see fewer colors, too (Okabe and Ito).
HOSTS = {"zenoh": "#0072b2", "torch": "#d55e00", "gloo": "#d55e00"}
SIDES = {"zenoh-host": ("#0072b2", "-"), "zenoh-peer": ("#56b4e9", "-"), "bare-zenoh": ("#0072b2", ":"),
         "torch-host": ("#d55e00", "-"), "bare-gloo": ("#d55e00", ":"), "ros-host": ("#009e73", "-"),
         "dora": ("#cc79a7", "--")}
CALLED = {"zenoh": "Zenoh", "torch": "static group", "gloo": "gloo"}
INK, GRID = "#333333", "#dddddd"


def draw(path: Path, found: dict[str, Any]) -> None:
    """Six panels: one late, one hurt, there and back, the slowest, how many links, episodes.

    Args:
        path: of the picture.
        found: by name of the experiment, as ``results/backends.json`` has it under ``figures``. What is not there
            has a panel that says so.

    Raises:
        OSError: the picture cannot be written.
    """
    figure = Figure(figsize=(13, 7.4), facecolor="white")
    performance = found.get("performance") or {}
    panels = (("One region is late: rate of another\nthat does not hear it", _late, found.get("model")),
              ("One region gets SIGKILL, or SIGSTOP:\nuntil all are active again", _hurt, found.get("faults")),
              ("There and back, median", _trips, performance.get("trips")),
              ("There and back with both cores busy:\n99th percentile, 95 % interval", _slowest,
               performance.get("slowest")),
              ("Connections of each process", _links, found.get("scale")),
              ("Episodes: camera to wheels", _episodes, (found.get("pairs") or {}).get("hosts")))
    for axes, (title, panel, rows) in zip(figure.subplots(2, 3).flat, panels):
        axes.set_title(title, loc="left", fontsize=10, color=INK)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=8, colors=INK)
        if rows:
            panel(axes, rows)
        else:
            axes.text(0.5, 0.5, "not measured", ha="center", color=INK, transform=axes.transAxes)
    figure.tight_layout(h_pad=2.0, w_pad=2.0)
    figure.savefig(path, dpi=100)


def _of_host(rows: Any) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(row["host"], []).append(row)
    return found


def _axes(axes: Any, which: str, x: str, y: str = "") -> None:
    """Names of the axes, and a grid."""
    axes.set_xlabel(x, fontsize=8, color=INK)
    axes.set_ylabel(y, fontsize=8, color=INK)
    axes.grid(axis=which, color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)


def _late(axes: Any, rows: Any) -> None:
    for host, of in _of_host(rows).items():
        axes.plot([f"{1e3 * row['delay']:g}" for row in of], [row["rates"]["aside"] for row in of], "o-",
                  color=HOSTS[host], label=CALLED[host])
    axes.set_ylim(0, None)
    axes.legend(fontsize=8, frameon=False)
    _axes(axes, "y", "the relay is late by (ms)", "Hz")


def _hurt(axes: Any, rows: Any) -> None:
    by_signal: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        by_signal.setdefault((row["signal"], row["host"]), []).append(row["back"])
    for place, ((number, host), times) in enumerate(by_signal.items()):
        axes.barh(place, sorted(times)[len(times) // 2], color=HOSTS[host], height=0.6)
        axes.plot(times, [place] * len(times), "|", color=INK, markersize=12)
    axes.set_yticks(range(len(by_signal)), [f"{CALLED[host]}, {number}" for number, host in by_signal])
    axes.invert_yaxis()
    _axes(axes, "x", "s; bar: median of the regions, marks: each")


def _trips(axes: Any, rows: Any) -> None:
    for name, (color, style) in SIDES.items():
        told = [(row["size"], 1e3 * row[name]["p50"]) for row in rows
                if not row["busy"] and row.get(name, {}).get("p50")]
        if told:
            axes.plot(*zip(*told), style, marker=".", color=color, label=name)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.legend(fontsize=7, frameon=False)
    _axes(axes, "both", "bytes", "ms")


def _slowest(axes: Any, rows: Any) -> None:
    bars = [(row["size"], name, row[name]) for row in rows for name in ("zenoh-host", "bare-gloo") if row[name]["p99"]]
    for place, (_, name, taken) in enumerate(bars):
        axes.barh(place, 1e3 * taken["p99"], color=SIDES[name][0], height=0.6)
        if taken["p99_95"]:
            low, high = (1e3 * edge for edge in taken["p99_95"])
            axes.plot([low, high], [place, place], color=INK, linewidth=1.5)
    axes.set_yticks(range(len(bars)), [f"{name}, {size} B" for size, name, _ in bars])
    axes.invert_yaxis()
    _axes(axes, "x", "ms")


def _links(axes: Any, rows: Any) -> None:
    for host, of in _of_host(rows).items():
        told = [(row["processes"], row["connections"]) for row in of if row["connections"]]
        if told:
            axes.plot(*zip(*told), "o-", color=HOSTS[host], label=CALLED[host])
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.legend(fontsize=8, frameon=False)
    _axes(axes, "both", "processes")


def _episodes(axes: Any, rows: Any) -> None:
    for place, row in enumerate(rows):
        for shift, quantile, alpha in ((-0.2, "p50", 1.0), (0.2, "p95", 0.5)):
            if row[quantile] is not None:
                axes.barh(place + shift, 1e3 * row[quantile], height=0.36, color=HOSTS[row["host"]], alpha=alpha)
                axes.text(1e3 * row[quantile], place + shift, f" {quantile}", va="center", fontsize=8, color=INK)
    axes.set_yticks(range(len(rows)), [f"{CALLED[row['host']]}\n{row['reached']} of {row['n']} reached\n"
                                       f"{row['cores']:.2f} cores, {row['memory'] / 1e6:.0f} MB" for row in rows])
    axes.invert_yaxis()
    axes.margins(x=0.12)
    _axes(axes, "x", "ms")


def main(saved: str, picture: str) -> None:
    """Draws the figures of a file of results."""
    draw(Path(picture), json.loads(Path(saved).read_text(encoding="utf-8"))["figures"])


if __name__ == "__main__":
    main(*sys.argv[1:])
