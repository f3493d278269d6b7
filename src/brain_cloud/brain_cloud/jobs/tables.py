# SPDX-License-Identifier: Apache-2.0
"""Jobs as a person sees them in a terminal."""
from __future__ import annotations

from typing import Any, Callable, Mapping

from rich.console import Group
from rich.text import Text

from brain_edge.processes.tables import new_table

_STYLES = {"Running": "green", "Complete": "green", "Queued": "yellow", "Suspended": "yellow", "Failed": "red",
           "Deleting": "dim"}


def jobs_table(found: Mapping[str, Any]) -> Any:
    """Each job in a line; a single one with its workers and what of it has no effect here."""
    jobs = found["jobs"]
    if not jobs:
        return Text("there is no job; order one with `brain fleet apply FILE`")
    table = new_table("kind", "name", "state", "priority", "workers", "restarts", "created", "why")
    for one in jobs:
        states = [worker["state"] for worker in one["workers"]]
        counts = ", ".join(f"{states.count(state)} {state.lower()}" for state in dict.fromkeys(states)) or "none"
        restarts = sum(max(0, worker["attempt"] - 1) for worker in one["workers"])
        stage = f" ({one['stage']})" if one["stage"] else ""
        table.add_row(one["kind"], one["name"], Text(one["phase"] + stage, _STYLES.get(one["phase"], "")),
                      str(one["priority"]), counts, str(restarts), one["created"], one["why"])
    if len(jobs) > 1:
        return table
    more = [f"{worker['name']}: {worker['state'].lower()}, started {worker['attempt']} times" + (
        f", process {worker['pid']}" if worker["pid"] else "") for worker in jobs[0]["workers"]]
    return Group(table, *map(Text, more), *(Text(note, "yellow") for note in jobs[0]["notes"]),
                 Text(f"what it makes is in {jobs[0]['folder']}"))


def tell_applied(found: Mapping[str, Any], tell: Callable[..., None]) -> None:
    """A line for each manifest, and what of it has no effect here."""
    for one in found["jobs"]:
        tell(f"{one['kind']} {one['name']}: {one['change']}")
        for note in one["notes"]:
            tell(f"{one['kind']} {one['name']}: {note}", "yellow", err=True)


def tell_deleted(found: Mapping[str, Any], tell: Callable[..., None]) -> None:
    """A line for each manifest."""
    for one in found["jobs"]:
        kept = f"; what it made stays in {one['folder']}" if "folder" in one else ""
        tell(f"{one['kind']} {one['name']}: " + (f"deleted{kept}" if one["known"] else "there was none"))


def tell_logs(found: Mapping[str, Any], tell: Callable[..., None]) -> None:
    """Prints the events, and below them the end of each log."""
    for one in found["events"]:
        tell(f"{one['at']}  {one['text']}")
    for worker, text in found["logs"].items():
        tell(f"--- {worker}")
        for line in text.splitlines():
            tell(line)
