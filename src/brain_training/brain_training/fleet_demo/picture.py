# SPDX-License-Identifier: Apache-2.0
"""The picture of the demo: held-out F1 by round and robot, and below it what each robot did meanwhile.

matplotlib is asked for by name: a robot that can measure has this package, and no plotting.
"""
from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, Mapping

COLORS = ("tab:blue", "tab:orange", "tab:red", "tab:green", "tab:purple", "tab:brown", "tab:pink", "tab:olive")
MARKS = {"cut": ("link cut", "//"), "death": ("killed", "xx")}      # words, and the pattern of the time that it lasted


def draw(path: Path, found: Mapping[str, Any]) -> None:
    """Draws it.

    Args:
        path: of the PNG.
        found: what the demo tells: see :func:`.play.summary`.
    """
    figure = import_module("matplotlib.figure").Figure(figsize=(10.0, 7.2), layout="constrained")
    above, below = figure.subplots(2, 1, height_ratios=(3, 2))
    names = [one["robot"] for one in found["robots"]]
    colors = {name: COLORS[number % len(COLORS)] for number, name in enumerate(names)}
    _by_round(above, found, colors)
    _by_time(below, found, names, colors)
    figure.savefig(path, dpi=110)


def _by_round(axes: Any, found: Mapping[str, Any], colors: Mapping[str, str]) -> None:
    versions = found["versions"]
    for name, color in colors.items():
        there = [(one["version"], one["robots"][name]["f1"]) for one in versions if name in one["robots"]]
        rooms = next(one["rooms"] for one in found["robots"] if one["robot"] == name)
        axes.plot(*(zip(*there) if there else ((), ())), color=color, marker="o", markersize=4,
                  label=f"{name}: {rooms}")
        taken = [(one["version"], one["robots"][name]["f1"]) for one in versions
                 if one["robots"].get(name, {}).get("taken")]
        axes.scatter(*(zip(*taken) if taken else ((), ())), s=110, facecolor="none", edgecolor=color)
    whole = [(one["version"], sum(told["f1"] for told in one["robots"].values()) / len(one["robots"]))
             for one in versions if len(one["robots"]) == len(colors)]
    if whole:
        axes.plot(*zip(*whole), color="black", linewidth=2.5, marker="s", label="mean, where all were there")
    for place, one in enumerate(found["troubles"]):
        if one["began"] is None:
            continue
        last = found["done"] if one["back"] is None else one["back"]
        word, pattern = MARKS[one["kind"]]
        axes.axvspan(one["began"], max(last - 1, one["began"] + 0.2), facecolor="none", hatch=pattern, linewidth=0.0,
                     edgecolor=colors[one["robot"]], alpha=0.25)
        axes.annotate(f"{one['robot']}: {word}", (one["began"], 1.09 - 0.06 * (place % 2)), xytext=(3, 0),
                      textcoords="offset points", color=colors[one["robot"]], fontsize=9)
    axes.set(xlabel="rounds that the weights come of; ringed: the robot drives with them from then on",
             ylabel="held-out F1 of vision", ylim=(0.0, 1.16), xlim=(-0.3, max(1, found["done"]) - 0.3),
             title=f"A fleet of {len(colors)} whose rooms are not alike learns while it drives")
    axes.set_xticks(range(found["done"]))
    axes.set_yticks([0.2 * step for step in range(6)])
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=3)


def _by_time(axes: Any, found: Mapping[str, Any], names: list[str], colors: Mapping[str, str]) -> None:
    for one in found["ends"]:
        axes.axvline(one, color="grey", linewidth=0.6, linestyle=":")
    for place, name in enumerate(names):
        goals = next(one["goals"] for one in found["robots"] if one["robot"] == name)
        axes.axhline(place, color=colors[name], linewidth=1, alpha=0.5)
        for reached, marker, color in ((True, "o", "tab:green"), (False, "x", "black")):
            times = [one["at_s"] for one in goals if one["reached"] == reached]
            axes.scatter(times, [place] * len(times), marker=marker, color=color, zorder=3)
    for one in found["troubles"]:
        if one["began_s"] is None:
            continue
        end = found["wall_s"] if one["ended_s"] is None else one["ended_s"]
        axes.barh(names.index(one["robot"]), end - one["began_s"], left=one["began_s"], height=0.6, facecolor="none",
                  edgecolor=colors[one["robot"]], hatch=MARKS[one["kind"]][1], alpha=0.6)
        axes.annotate(MARKS[one["kind"]][0], (one["began_s"], names.index(one["robot"])), xytext=(0, 15),
                      textcoords="offset points", color=colors[one["robot"]], fontsize=9)
    axes.set(xlabel="s since the demo began; dotted: a round ended; circle: goal reached, cross: not",
             xlim=(0.0, max(1.0, found["wall_s"])), ylim=(-0.7, len(names) - 0.3))
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
