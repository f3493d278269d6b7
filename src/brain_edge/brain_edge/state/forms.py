# SPDX-License-Identifier: Apache-2.0
"""The bodies of the messages in which the state travels, as schemas."""
from __future__ import annotations

from typing import Any

from brain_edge.devices.twin_form import TWIN

_KIND = {"type": "string", "pattern": "[A-Z][A-Za-z0-9]*", "maxLength": 40}
_NAME = {"type": "string", "pattern": "[a-z0-9]([-a-z0-9]*[a-z0-9])?", "maxLength": 63}
_VERSION = {"type": "integer", "minimum": 0}
_LIST = {"type": "string", "pattern": "[0-9a-f]{16}"}
_SPEC = {"type": "object", "additionalProperties": True}


def _form(**fields: Any) -> dict[str, Any]:
    return {"type": "object", "required": list(fields), "properties": fields}


# From the cloud: a resource is wanted so; it is wanted no more; all that is wanted follows; that was all.
SET = _form(kind=_KIND, name=_NAME, version=_VERSION, spec=_SPEC)
DELETE = _form(kind=_KIND, name=_NAME, version=_VERSION)
LIST = _form(list=_LIST, count=_VERSION)
LISTED = _form(list=_LIST, version=_VERSION)
# From a robot: how it does a resource; what has happened, and when by its clock.
REPORT = _form(kind=_KIND, name=_NAME, version=_VERSION, status={
    "type": "object", "required": ["state"], "properties": {
        "state": {"enum": ["applied", "waiting", "refused", "kept"]}, "why": {"type": "string", "maxLength": 500},
        "twin": TWIN}})     # of a Device
EVENT = _form(at={"type": "string", "maxLength": 40}, text={"type": "string", "maxLength": 1000})
# How a goal of a robot's brain ended; weights: what each region computed with meanwhile, as its heartbeat tells it.
GOAL = _form(outcome={"enum": ["reached", "not_found", "wrong", "not_understood", "timeout"]},
             reflexes={"type": "integer", "minimum": 0, "maximum": 100_000},
             seconds={"type": "number", "minimum": 0, "maximum": 1e6},
             weights={"type": "object", "maxProperties": 256, "propertyNames": {"maxLength": 128},
                      "additionalProperties": {"type": "string", "maxLength": 64}})
