# SPDX-License-Identifier: Apache-2.0
"""The form in which a device's twin is told: what it is believed to be, and since when, property by property."""
from __future__ import annotations

from typing import Any

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
