# SPDX-License-Identifier: Apache-2.0
"""The picture of ``brain bench federated``: held-out F1 by round and robot.

matplotlib is asked for by name: a robot that can measure has this package, and no plotting.
"""
from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, Mapping

COLORS = {"nobody": "tab:green", "away": "tab:blue", "flipped": "tab:orange", "scaled": "tab:red"}    # by liar


def draw(path: Path, found: Mapping[str, Any]) -> None:
    """Draws the fleet's F1 by round, in all rooms and in those of each robot, beside central training and robots alone.

    Args:
        path: of the PNG.
        found: figures of the experiment. The curves are those of its first seed, the bars means of all.
    """
    first = found["runs"][0]
    figure = import_module("matplotlib.figure").Figure(figsize=(9.0, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    examined = first["fleet"]["rounds"]
    rounds = [0, *(one["round"] for one in examined)]
    for robot in range(first["course"]["robots"]):
        values = [first["start"]["robots"][robot], *(one["robots"][robot] for one in examined)]
        left.plot(rounds, values, linewidth=1, marker=".", label=f"as robot {robot + 1}")
    left.plot(rounds, [first["start"]["f1"], *(one["f1"] for one in examined)], color="black", linewidth=2.5,
              marker="o", label="all rooms")
    left.axhline(first["central"]["f1"], color="black", linestyle="--", linewidth=1, label="central training")
    left.axhline(first["best_alone"]["f1"], color="grey", linestyle=":", linewidth=1.5, label="best robot alone")
    left.set(xlabel="round, 30 % of the robots missing in each", ylabel="held-out F1 of vision", ylim=(0.0, 1.0),
             title=f"A fleet whose rooms are not alike (seed {first['course']['seed']})")
    left.set_xticks(rounds)
    left.legend(fontsize=7, ncols=2, loc="lower right")
    names, values, colors = [], [], []
    for one in found["strategies"]:
        names.append(f"{one['strategy']}, {one['guard']}: {one['liar']}")
        values.append(one["f1"])
        colors.append(COLORS[one["liar"]])
    right.bar_label(right.barh(range(len(names)), values, color=colors), fmt="%.2f", fontsize=7, padding=2)
    right.set_yticks(range(len(names)), names, fontsize=7)
    right.invert_yaxis()
    right.set(xlabel="held-out F1 of vision", xlim=(0.0, 1.0), title=f"Strategy, guard: what one of "
              f"{found['course']['robots']} does\n(means of {len(found['runs'])} seeds, two robots in each)")
    right.title.set_fontsize(10)
    figure.savefig(path, dpi=110)
