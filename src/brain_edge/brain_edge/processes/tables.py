# SPDX-License-Identifier: Apache-2.0
"""Tables that ``brain fleet`` shows."""
from __future__ import annotations

from typing import Any, Mapping

from rich.console import Group
from rich.table import Table
from rich.text import Text

from brain_edge.messages.history import REMEDY
from brain_edge.processes.alone import duration

_STYLES = {**dict.fromkeys(("connected", "applied", "ok", "online"), "green"),
           **dict.fromkeys(("away", "waiting", "ordered", "starting", "stale"), "yellow"),
           **dict.fromkeys(("apart", "revoked", "refused", "offline", "invalid", "out of limits"), "red"),
           **dict.fromkeys(("kept", "unknown"), "dim")}


def new_table(*columns: str) -> Table:
    """A table without lines."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def state_text(state: str) -> Text:
    """A state of a robot, a resource or a property, in its colour."""
    return Text(state, _STYLES.get(state, ""))


def _seconds(found: Mapping[str, Mapping[str, str]]) -> list[Text]:
    """Installations that are refused, since another has their name: why, by robot and installation."""
    return [Text(f"a second {robot} is refused: {why}; `brain fleet accept {robot} --installation {second}` makes it "
                 f"the one", "red") for robot, refused in found.items() for second, why in refused.items()]


def robots_table(found: Mapping[str, Any]) -> Any:
    """Each robot in a line, and below why one is set apart."""
    table = new_table("robot", "state", "heard", "waiting", "version", "resources", "software")
    for one in found["robots"]:
        heard = "never" if one["heard_s"] is None else f"{duration(one['heard_s'])} ago"
        counts = ", ".join(f"{count} {state}" for state, count in sorted(one["resources"].items())) or "none"
        table.add_row(one["robot"], state_text(one["state"]), heard, str(one["waiting"]), str(one["version"]), counts,
                      one["software"] or "")
    reasons = [Text(f"{one['robot']} is set apart: {one['apart']}; {REMEDY.format(one['robot'])}", "red")
               for one in found["robots"] if one["apart"]]
    reasons += _seconds({one["robot"]: one["second"] for one in found["robots"] if not one["apart"]})
    reasons += [Text(line, "yellow") for one in found["robots"] for line in one.get("lacks", ())]
    reasons += [Text(f"{one['robot']} has a token, and has not come yet", "dim") for one in found.get("tokens", ())]
    return Group(table if found["robots"] else Text("no robot has come yet; start `brain edge` on one"), *reasons)


def resources_table(resources: Any) -> Table:
    """Each resource of each robot in a line."""
    table = new_table("kind", "name", "robot", "version", "state", "why")
    for one in resources:
        table.add_row(one["kind"], one["name"], one["robot"], str(one["version"]), state_text(one["state"]),
                      one.get("why", ""))
    return table


def status_table(found: Mapping[str, Any]) -> Any:
    """The cloud in a line, and all resources."""
    robots = ", ".join(f"{count} {state}" for state, count in found["robots"].items()) or "none"
    head = (f"brain_cloud {found['software']} for {duration(found['runs_s'])}; robots: {robots}; "
            f"{found['waiting']} messages wait")
    return Group(Text(head), *_seconds(found["second"]), resources_table(found["resources"]) if found["resources"] else
                 Text("nothing is wanted of any robot; order it with `brain fleet apply FILE`"))


def here_table(found: Mapping[str, Any]) -> Any:
    """Builds the table of what a robot knows by itself."""
    alone = found["alone_s"]
    if not found["joined"]:
        link = "no cloud has taken it in yet"
    elif found["apart"]:
        link = f"apart from its cloud: {found['apart']}"
    else:
        link = "with its cloud" if alone is None else f"without its cloud for {duration(alone)}"
    head = f"{found['robot']}: {link}; version {found['version']}; {found['waiting']} messages wait"
    return Group(Text(head), resources_table([{"robot": found["robot"], **one} for one in found["resources"]]))
