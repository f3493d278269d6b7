# SPDX-License-Identifier: Apache-2.0
"""Conditions of a status: Kubernetes has one of each type, whose time changes with its status; Sedna one after another.

Pure functions: who runs jobs on this machine and who does in a cluster write the same ones.
"""
from __future__ import annotations

from datetime import datetime, timezone
from typing import Any, Iterable, Mapping

LONGEST = 1024      # characters of a message


def stamp(seconds: float) -> str:
    """A time of the wall clock (s since 1970) as the API writes it."""
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def seconds(text: Any) -> float | None:
    """Parses a time that :func:`stamp` has written (s since 1970); None where the text is no time."""
    try:
        return datetime.fromisoformat(str(text).replace("Z", "+00:00")).timestamp()
    except ValueError:
        return None


def find(conditions: Iterable[Mapping[str, Any]], kind: str) -> Mapping[str, Any] | None:
    """The condition of a type."""
    return next((one for one in conditions if one.get("type") == kind), None)


def holds(conditions: Iterable[Mapping[str, Any]], *kinds: str) -> bool:
    """Tells whether a condition of one of these types is true."""
    return any(one.get("type") in kinds and one.get("status") == "True" for one in conditions)


def condition(kind: str, holds: bool, reason: str, message: str, now: float, generation: int) -> dict[str, Any]:
    """One condition.

    Args:
        reason: in CamelCase.
        now: s since 1970.
        generation: of the spec that it is about.
    """
    return {"type": kind, "status": "True" if holds else "False", "reason": reason, "message": message[:LONGEST],
            "lastTransitionTime": stamp(now), "observedGeneration": generation}


def with_condition(conditions: Iterable[Mapping[str, Any]], new: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The conditions with a new one in the place of that of its type, whose time stays while its status does."""
    found, done = [], False
    for one in conditions:
        if one.get("type") == new["type"]:
            kept = one.get("status") == new["status"] and one.get("lastTransitionTime")
            one, done = {**new, **({"lastTransitionTime": kept} if kept else {})}, True
        found.append(dict(one))
    return found if done else [*found, dict(new)]


def heard(kind: str, reason: str, message: str, now: float, **more: Any) -> dict[str, Any]:
    """A condition with the fields that all of Sedna's kinds have."""
    return {"type": kind, "status": "True", "reason": reason, "message": message[:LONGEST],
            "lastHeartbeatTime": stamp(now), **more}


def turned(old: Iterable[Mapping[str, Any]], new: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Conditions of which one holds at a time, the newest last; nothing new where it says the same again."""
    found = [dict(one) for one in old]
    if found and all(found[-1].get(name) == new[name] for name in ("type", "reason", "message")):
        return found
    before = [{**one, "status": "False"} for one in found if one.get("type") != new["type"]]
    return [*before, dict(new)]


def unblocked(old: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Conditions without the one that says why a resource cannot be run."""
    return [dict(one) for one in old if one.get("type") != "Blocked"]
