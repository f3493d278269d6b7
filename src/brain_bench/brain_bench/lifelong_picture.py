# SPDX-License-Identifier: Apache-2.0
"""The picture of ``brain bench lifelong``: F1 of each site while one after another is learned, for each learner.

matplotlib is asked for by name: a robot that can measure has this package, and no plotting.
"""
from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, Mapping

COLORS = ("tab:blue", "tab:orange", "tab:purple", "tab:green")      # of sites


def draw(path: Path, found: Mapping[str, Any]) -> None:
    """Draws a panel for each learner: a line for each site from when it was learned, in the mean over seeds.

    Args:
        path: of the PNG.
        found: figures of the experiment.
    """
    learners, sites = found["learners"], found["sites"]
    figure = import_module("matplotlib.figure").Figure(figsize=(2.5 * len(learners), 3.4), layout="constrained")
    panels = figure.subplots(1, len(learners), sharey=True, squeeze=False)[0]
    steps = range(1, len(sites) + 1)
    joint = next(one for one in found["others"] if one["learner"] == "joint")
    for panel, one in zip(panels, learners):
        for number, site in enumerate(sites):
            values = [row[number] for row in one["matrix"][number:]]
            panel.plot(steps[number:], values, marker="o", color=COLORS[number % len(COLORS)], label=site)
        panel.axhline(joint["last"], color="grey", linestyle=":", linewidth=1.2, label="one network on all, mean")
        panel.set_title(f"{one['name']}\nforgets {100 * one['forgetting']:.0f} points", fontsize=9)
        panel.set(xlabel="sites learned", ylim=(0.0, 1.0))
        panel.set_xticks(steps)
    panels[0].set_ylabel("F1 in held-back rooms")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(sites) + 1, fontsize=8)
    figure.savefig(path, dpi=110)
