# SPDX-License-Identifier: Apache-2.0
"""Draws what ``brain bench training`` measured: schedules of a pipeline in time, and bytes that ranks hold."""
from __future__ import annotations

from pathlib import Path
from typing import Any, Sequence

from matplotlib import patches
from matplotlib.figure import Figure

# Told apart by those who see fewer colors, too (Okabe and Ito).
COLORS = {"forward": "#56b4e9", "backward": "#e69f00", "inputs": "#cc79a7", "weights": "#009e73"}
KINDS = {"parameters": "#0072b2", "gradients": "#d55e00", "optimizer": "#009e73", "activations": "#cc79a7"}
WORDS = {"forward": "forward", "backward": "backward, whole", "inputs": "backward, inputs",
         "weights": "backward, weights"}
INK, GRID = "#333333", "#dddddd"


def timelines(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """One step of each schedule: when each rank computed for which micro-batch; dark: second stage of the same rank.

    Args:
        path: of the picture.
        rows: of :func:`experiments.training_runs.pipelines`.
    """
    figure = Figure(figsize=(11, 0.6 + 1.5 * len(rows)), facecolor="white")
    longest = max(span[4] for row in rows for of_rank in row["spans"] for span in of_rank)
    seen = []
    for axes, row in zip(figure.subplots(len(rows), 1, sharex=True, squeeze=False)[:, 0], rows):
        for rank, spans in enumerate(row["spans"]):
            for stage, what, micro, begin, end in spans:
                later = stage >= row["ranks"]
                axes.add_patch(patches.Rectangle((1e3 * begin, rank - 0.4), 1e3 * (end - begin), 0.8, linewidth=0.8,
                                                 facecolor=COLORS[what], edgecolor="white",
                                                 hatch="////" if later else None))
                if end - begin > 0.012 * longest:
                    axes.text(5e2 * (begin + end), rank, str(micro), ha="center", va="center", fontsize=8, color=INK)
                seen.append(what)
        axes.set_xlim(0, 1e3 * longest)
        axes.set_ylim(row["ranks"] - 0.4, -0.6)
        axes.set_yticks(range(row["ranks"]), [f"rank {rank}" for rank in range(row["ranks"])], color=INK, fontsize=8)
        axes.set_title(f"{row['schedule']}: {row['bubble_clock']:.0%} of the time nothing to do "
                       f"({row['bubble_replay']:.0%} replayed without waiting for a core)", loc="left", fontsize=9,
                       color=INK)
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="x", color=GRID, linewidth=0.6)
        axes.set_axisbelow(True)
    figure.axes[-1].set_xlabel("ms; numbers are those of micro-batches, hatched: the second stage of a rank", color=INK,
                               fontsize=8)
    names = [what for what in COLORS if what in seen]
    figure.legend(handles=[patches.Patch(color=COLORS[what], label=WORDS[what]) for what in names], loc="upper right",
                  ncol=4, fontsize=8, frameon=False)
    first = rows[0]
    figure.suptitle(f"A step of {first['network']}{' x' + str(first['width']) if first['width'] > 1 else ''}, "
                    f"{first['micros']} micro-batches, as measured", x=0.01, ha="left", fontsize=11, color=INK)
    figure.tight_layout()
    figure.savefig(path, dpi=100)


def memory(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Draws the memory of the rank that holds most, by form; the line is the formula's, without activations.

    Args:
        path: of the picture.
        rows: of :func:`experiments.training_runs.forms`, of one network.
    """
    figure = Figure(figsize=(9, 0.9 + 0.45 * len(rows)), facecolor="white")
    state, activations = figure.subplots(1, 2, sharey=True)
    names = [row["plan"] or "one process" for row in rows]
    for place, row in enumerate(rows):
        left = 0.0
        held = row["held_most"] if row["held"] else row["held_formula"]
        for kind, size in held.items():
            state.barh(place, size / 1e6, left=left, color=KINDS[kind], height=0.6, label=None if place else kind)
            left += size / 1e6
        expected = sum(row["held_formula"].values()) / 1e6
        state.plot([expected, expected], [place - 0.4, place + 0.4], color=INK, linewidth=2)
        activations.barh(place, row["activations_most"] / 1e6, color=KINDS["activations"], height=0.6)
    for axes, title in ((state, "weights, gradients, optimizer (MB); mark: by formula"),
                        (activations, "activations, the most at a time (MB)")):
        axes.set_title(title, loc="left", fontsize=9, color=INK)
        axes.set_yticks(range(len(rows)), names, fontsize=8, color=INK)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="x", color=GRID, linewidth=0.6)
        axes.set_axisbelow(True)
    state.invert_yaxis()
    figure.legend(*state.get_legend_handles_labels(), fontsize=8, frameon=False, loc="upper right", ncol=3)
    first = rows[0]
    figure.suptitle(f"What a rank holds: {first['network']}{' x' + str(first['width']) if first['width'] > 1 else ''}, "
                    f"{first['batch']} samples a step", x=0.01, ha="left", fontsize=11, color=INK)
    figure.tight_layout()
    figure.savefig(path, dpi=100)
