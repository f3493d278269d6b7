# SPDX-License-Identifier: Apache-2.0
"""Form of a device's twin: what each property is believed to be, and since when; and how it is shown."""
from __future__ import annotations

from typing import Any, Mapping

STATES = ("ok", "unknown", "stale", "offline", "out of limits", "invalid")
_DATE = {"type": "string", "maxLength": 40}
_WHY = {"type": "string", "maxLength": 300}
_VALUE = {"type": ["boolean", "number", "string"], "maxLength": 500}
_PROPERTY = {
    "type": "object", "required": ["state", "since"],
    "properties": {
        "state": {"enum": list(STATES)}, "why": _WHY, "since": _DATE,
        # the last good value, and when it was read: whatever the state is now
        "value": _VALUE, "at": _DATE,
        "desired": _VALUE, "unit": {"type": "string", "maxLength": 20}}}
TWIN: dict[str, Any] = {
    "type": "object", "required": ["state", "since", "properties"],
    "properties": {
        "state": {"enum": ["online", "starting", "offline"]}, "why": _WHY, "since": _DATE,
        "properties": {"type": "object", "maxProperties": 100,
                       "propertyNames": {"pattern": "[a-z][a-z0-9_]*", "maxLength": 40},
                       "additionalProperties": _PROPERTY}}}


def shown(robot: str, name: str, spec: Mapping[str, Any], status: Mapping[str, Any], here: bool) -> dict[str, Any]:
    """One device, as it is shown; ``fresh`` says of each property whether its value is one of now."""
    twin = status.get("twin") or {}
    properties = {one: {**about, "fresh": here and about["state"] == "ok"}
                  for one, about in twin.get("properties", {}).items()}
    state = status["state"] if not twin else twin["state"] if here else "away"
    found = {"robot": robot, "device": name, "model": spec.get("model"), "protocol": spec.get("protocol"),
             "state": state, "properties": properties}
    why = twin.get("why") or status.get("why")
    if twin and not here:
        why = "its robot is not connected; what it said last"
    return {**found, **({"why": why} if why else {}), **({"since": twin["since"]} if twin else {})}
