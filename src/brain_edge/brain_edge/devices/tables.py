# SPDX-License-Identifier: Apache-2.0
"""Table of devices, for a terminal: a line for each property."""
from __future__ import annotations

import time
from datetime import datetime
from typing import Any, Mapping

from rich.console import Group
from rich.text import Text

from brain_edge.devices.twin_form import shown
from brain_edge.processes.tables import new_table, state_text

NOW = 60.0      # s; a value that an edge has written down so lately is one of now


def devices_table(found: Mapping[str, Any]) -> Any:
    """Each property of each device in a line; a value that is not of now stands in brackets."""
    if not found["devices"]:
        return Text("no device is ordered; order one with `brain fleet apply FILE` (docs/fleet-devices.md)")
    table = new_table("robot", "device", "property", "state", "value", "desired", "read at", "why")
    for one in found["devices"]:
        robot = one.get("robot", "")
        table.add_row(robot, one["device"], "", state_text(one["state"]), "", "", "", one.get("why", ""))
        for name, about in one["properties"].items():
            state = about["state"] if one["state"] != "away" else "away"
            table.add_row("", "", name, state_text(state), _value(about, "value"), _value(about, "desired", True),
                          about.get("at", ""), about.get("why", ""))
    return Group(table)


def devices_here(status: Mapping[str, Any]) -> dict[str, Any]:
    """The devices that a robot's database tells of, whether its edge runs or not.

    Args:
        status: of :meth:`brain_edge.reading.Reading.status`.
    """
    found = []
    for one in status["resources"]:
        if one["kind"] != "Device":
            continue
        dates = [about["at"] for about in (one.get("twin") or {"properties": {}})["properties"].values()
                 if "at" in about]
        told = shown(status["robot"], one["name"], {}, one, True)
        if dates and not _now(max(dates)):
            told = shown(status["robot"], one["name"], {}, one, False)
            told["why"] = "its edge has written nothing of it lately; what it said last"
        found.append(told)
    return {"devices": found}


def _now(date: str) -> bool:
    return abs(time.time() - datetime.fromisoformat(date).timestamp()) < NOW


def _value(about: Mapping[str, Any], which: str, always: bool = False) -> str:
    if which not in about:
        return ""
    value = about[which]
    text = f"{value:g}" if isinstance(value, float) else str(value)
    text += f" {about['unit']}" if about.get("unit") else ""
    return text if always or about.get("fresh") else f"({text})"
