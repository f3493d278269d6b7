# SPDX-License-Identifier: Apache-2.0
"""Protocol between a driver's process and its mapper: JSON objects, one a line, on the pipes between them."""
from __future__ import annotations

import json
from typing import Any

from brain_fleet.schema import FormProblem, check

LONGEST = 16 * 1024     # bytes of a line from a driver
_NAME = {"type": "string", "maxLength": 40}
_WHY = {"type": "string", "maxLength": 2000}
_SAYS: dict[str, dict[str, Any]] = {
    "begun": {}, "alive": {}, "online": {}, "offline": {"why": _WHY}, "refused": {"why": _WHY},
    "value": {"name": _NAME, "at": {"type": "number"},
              "unit": {"type": ["string", "null"], "maxLength": 100}, "kept": {"type": "boolean"}},
    "failed": {"name": _NAME, "why": _WHY},
    "written": {"name": _NAME}, "unwritten": {"name": _NAME, "why": _WHY}}
FORMS = {says: {"type": "object", "required": ["say", *fields], "properties": {"say": {"const": says}, **fields}}
         for says, fields in _SAYS.items()}


def written(**fields: Any) -> bytes:
    """A line."""
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"


def read(line: bytes) -> dict[str, Any]:
    """Parses and checks a line from a driver.

    Raises:
        FormProblem: nothing that a driver says.
    """
    try:
        found = json.loads(line)    # NaN and Infinity too: a device may say them, and that is told of the property
    except (ValueError, RecursionError) as error:
        raise FormProblem(f"it is no JSON ({str(error)[:60]})") from None
    if not isinstance(found, dict):
        raise FormProblem("it is no object")
    says = found.get("say")
    if not isinstance(says, str) or says not in FORMS:
        raise FormProblem(f"it says {str(says)[:40]!r}, and a driver says {', '.join(FORMS)}")
    # A value may be anything: one that is none of the property's is told of that, and is no lie of the driver's.
    check({name: value for name, value in found.items() if (says, name) != ("value", "value")}, FORMS[says])
    return found if says != "value" else {"value": None, **found}
