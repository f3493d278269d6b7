# SPDX-License-Identifier: Apache-2.0
"""The picture of ``brain bench joint``: F1 by the share of pictures asked about, and with answers that are lost.

matplotlib is asked for by name: a robot that can measure has this package, and no plotting.
"""
from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, Mapping

KINDS = {"rule": ("pictures in doubt; an answer holds for a while", "tab:green", "o"),
         "carried chance": ("pictures at random; an answer holds for a while", "tab:blue", "s"),
         "single": ("pictures in doubt, each answer for its own picture", "tab:olive", "."),
         "chance": ("pictures at random, each answer for its own picture", "tab:gray", ".")}


def draw(path: Path, found: Mapping[str, Any]) -> None:
    """Draws the curves, and what is told when answers are lost.

    Args:
        path: of the PNG.
        found: figures of the experiment.
    """
    figure = import_module("matplotlib.figure").Figure(figsize=(9.0, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=(2.4, 1))
    alone = {one["name"]: one["f1"] for one in found["alone"]}
    for kind, (label, color, marker) in KINDS.items():
        points = sorted((one["share"], one["f1"]) for one in found["curves"][kind])
        left.plot(*zip((0.0, alone["small"]), *points), color=color, marker=marker, label=label, linewidth=1.5)
    left.axhline(alone["large"], color="black", linestyle="--", linewidth=1, label="the large network alone")
    left.axhline(alone["small"], color="black", linestyle=":", linewidth=1, label="the small network alone")
    left.axvline(0.2, color="tab:red", linewidth=0.8)
    left.scatter([found["joint"]["share"]], [found["joint"]["f1"]], s=120, facecolors="none", edgecolors="tab:red",
                 zorder=5, label="the bound that was chosen")
    left.set(xlabel="share of the pictures that are sent", ylabel="held-out F1 of vision", xlim=(0.0, 0.75),
             title="A small network that asks a large one")
    left.legend(fontsize=7, loc="lower right")
    links = found["links"]
    right.bar(range(len(links)), [one["f1"] for one in links], color="tab:green")
    for place, one in enumerate(links):
        right.text(place, one["f1"] + 0.005, f"{one['share']:.0%} sent", ha="center", fontsize=7)
    right.set_xticks(range(len(links)), [f"{one['lost']:.0%}" for one in links])
    right.axhline(alone["small"], color="black", linestyle=":", linewidth=1)
    right.set(xlabel="answers that are lost", ylim=(min(0.5, alone["small"] - 0.05), 1.0))
    figure.savefig(path, dpi=110)
