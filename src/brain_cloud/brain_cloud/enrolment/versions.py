# SPDX-License-Identifier: Apache-2.0
"""Capabilities of each robot's version, so that a fleet of several versions is told what it cannot do.

A robot says which kinds of resources it knows, with their fields, and which formats of messages. The cloud compares an
order with that before anybody waits for it.
"""
from __future__ import annotations

import json
import sqlite3
from typing import Any, Iterator, Mapping

from brain_edge.enrolment.versions import KNOWS, MOST_FIELDS, own
from brain_edge.messages import envelope
from brain_edge.state import kinds
from brain_edge.store import Store

# What robots know that say nothing of it: the first version that was in use.
FIRST: dict[str, Any] = {"software": "0.2.0 or before", "formats": [1, 1], "can": [], "kinds": {
    "Parameters": {"effect": True, "fields": ["region", "values"]},
    "Region": {"effect": True, "fields": ["active", "region"]},
    **{kind: {"effect": False, "fields": ["*"]} for kind in ("DeviceSettings", "Job", "Model")}}}


def _used(schema: Mapping[str, Any], value: Any, place: str = "") -> Iterator[str]:
    """Those of them that a value has."""
    if isinstance(value, dict):
        for name, inner in schema.get("properties", {}).items():
            if name in value:
                yield f"{place}{name}"
                yield from _used(inner, value[name], f"{place}{name}.")
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        for one in value[:MOST_FIELDS]:
            yield from _used(schema["items"], one, place)


def cannot(robot: str, knows: Mapping[str, Any], kind: str, spec: Any) -> str | None:
    """Returns why a robot cannot do an order, and the remedy; None where it knows all of it.

    Args:
        knows: what it says of itself, or :data:`FIRST`.
        kind, spec: of the order, which this software has found good.
    """
    who = f"{robot} (version {knows['software']})"
    known = knows["kinds"].get(kind)
    if known is None:
        return f"{who} knows no {kind}: update the software on it; it keeps the order until then"
    missing = sorted(set(_used(kinds.schema_of(kind), spec)) - set(known["fields"]))
    if missing and known["fields"] != ["*"]:
        return f"{who} does not know {', '.join(missing[:5])} of a {kind}: update the software on it, or order it " \
               f"without; it does nothing of the order until then"
    if not known["effect"] and kind in kinds.EFFECTIVE:
        return f"{who} keeps a {kind} and does nothing about it: update the software on it"
    return None


def lacks(robot: str, knows: Mapping[str, Any], software: str) -> list[str]:
    """Lists what a robot cannot do that this cloud can order or speak, and the other way round; in a line each."""
    here, found = own(software), []
    there = f"{robot} runs version {knows['software']}, this cloud {software}"
    for kind, about in here["kinds"].items():
        known = knows["kinds"].get(kind)
        if known is None or (about["effect"] and not known["effect"]):
            found.append(kind)
        elif known["fields"] != ["*"] and (missing := sorted(set(about["fields"]) - set(known["fields"]))):
            found.append(f"{' and '.join(missing[:5])} of a {kind}")
    found += [word for word in here["can"] if word not in knows["can"]]
    lines = [f"{there}. It does not know {', '.join(found)}: update the software on it"] if found else []
    more = [kind for kind in knows["kinds"] if kind not in here["kinds"]] + [
        word for word in knows["can"] if word not in here["can"]]
    if more or knows["formats"][1] > envelope.NEWEST:
        lines.append(f"{there}, which cannot order all that it can do ({', '.join(more[:5]) or 'newer messages'}): "
                     f"update the software in the cloud")
    if knows["formats"][1] < envelope.NEWEST:
        lines.append(f"{there}: messages are exchanged in format {knows['formats'][1]}, which both know")
    return lines


def keep(db: sqlite3.Connection, robot: str, knows: Mapping[str, Any]) -> None:
    """Keeps what a robot says of itself; in the cloud, within a transaction."""
    db.execute("INSERT OR REPLACE INTO about VALUES (?, ?)", (f"{KNOWS} {robot}", json.dumps(knows)))


def of(db: sqlite3.Connection, robot: str) -> dict[str, Any]:
    """Returns the capabilities of a robot: as it has reported them, or those of the first version."""
    row = db.execute("SELECT value FROM about WHERE key = ?", (f"{KNOWS} {robot}",)).fetchone()
    return FIRST if row is None else json.loads(row[0])


def of_all(store: Store) -> dict[str, dict[str, Any]]:
    """Reads the capabilities that each robot has reported, by robot. Raises StoreProblem."""
    return {key.partition(" ")[2]: json.loads(value)
            for key, value in store.read("SELECT key, value FROM about WHERE key LIKE ?", (f"{KNOWS} %",))}
