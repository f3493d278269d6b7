# SPDX-License-Identifier: Apache-2.0
"""Conditions of a status, as Kubernetes writes them: one of each type, whose time changes only with its status."""
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


def news(old: Iterable[Mapping[str, Any]], new: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Those whose status or reason has changed, for events."""
    before = {one.get("type"): (one.get("status"), one.get("reason")) for one in old}
    return [one for one in new if before.get(one["type"]) != (one["status"], one.get("reason"))]
