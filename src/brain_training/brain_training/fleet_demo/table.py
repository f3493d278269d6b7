# SPDX-License-Identifier: Apache-2.0
"""The live table of the demo."""
from __future__ import annotations

from typing import Any, Mapping, Sequence

from rich.console import Group
from rich.table import Table
from rich.text import Text

from brain_edge.processes.tables import new_table
from brain_training.fleet_demo.story import weights_of
from brain_training.looks import Look

LATELY = 6      # lines below the table
_STYLES = {"connected": "green", "away": "yellow"}


def live(head: str, robots: Sequence[Mapping[str, Any]], lines: Sequence[str]) -> Group:
    """The table, and what happened lately.

    Args:
        head: stands above.
        robots: of each what :func:`row` gives.
        lines: all that happened.
    """
    table: Table = new_table("robot", "its rooms", "cloud says", "goals", "is told to", "pictures", "drives with",
                             "F1 at first", "F1 now", "")
    for one in robots:
        goals = f"{one['reached']} of {one['played']}"
        table.add_row(one["robot"], one["rooms"], Text(one["link"], _STYLES.get(one["link"], "dim")), goals,
                      one["doing"], str(one["pictures"]), one["weights"], _f1(one["first"]), _f1(one["now"]),
                      Text(one["trouble"], "red"))
    return Group(Text(head, "bold"), table, Text(), *(Text(line) for line in lines[-LATELY:]))


def row(robot: str, look: Look, link: str, own: Mapping[str, Any], versions: list[dict[str, Any]], trouble: str
        ) -> dict[str, Any]:
    """Builds a robot's row of the table.

    Args:
        robot: its name.
        look: of its rooms.
        link: its state, as the cloud says.
        own: what the robot itself says: ``goals``, ``doing``, ``pictures``.
        versions: see :func:`.story.examined`.
        trouble: that it is in.
    """
    told = [one["robots"][robot]["f1"] for one in versions if robot in one["robots"]]
    has = weights_of(robot, versions)
    return {"robot": robot, "rooms": rooms(look), "link": link, "played": len(own["goals"]),
            "reached": sum(one["reached"] for one in own["goals"]), "doing": own["doing"], "pictures": own["pictures"],
            "weights": "what ships" if has is None else f"round {has}", "first": told[0] if told else None,
            "now": told[-1] if told else None, "trouble": trouble}


def rooms(look: Look) -> str:
    """A look in a few words."""
    warm = "warm" if look.tint[0] > 1.05 else "cold" if look.tint[0] < 0.95 else "white"
    return f"{warm} light, {100 * look.light:.0f} %; {len(look.kinds)} kinds"


def _f1(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
