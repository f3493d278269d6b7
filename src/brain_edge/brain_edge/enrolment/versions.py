# SPDX-License-Identifier: Apache-2.0
"""Capabilities of this version, as a robot reports them: kinds of resources with their fields, formats of messages.

The cloud compares an order with that before anybody waits for it, see ``brain_cloud.enrolment.versions``.
"""
from __future__ import annotations

from typing import Any, Iterator, Mapping

from brain_edge.messages import envelope
from brain_edge.state import kinds

KNOWS = "knows"     # kind of the message
MOST_FIELDS = 500
# They are shown to people, so nothing but plain letters is in them.
_TEXT = {"type": "string", "maxLength": 80, "pattern": "[A-Za-z][-A-Za-z0-9_]*"}
FORM: dict[str, Any] = {"type": "object", "required": ["software", "formats", "kinds", "can"], "properties": {
    "software": {"type": "string", "maxLength": 40, "pattern": "[ -~]*"},
    "formats": {"type": "array", "minItems": 2, "maxItems": 2, "items": {"type": "integer", "minimum": 1,
                                                                         "maximum": 1000}},
    "can": {"type": "array", "maxItems": 100, "items": _TEXT},
    "kinds": {"type": "object", "maxProperties": 100, "propertyNames": _TEXT, "additionalProperties": {
        "type": "object", "required": ["effect", "fields"], "properties": {
            "effect": {"type": "boolean"}, "fields": {"type": "array", "maxItems": MOST_FIELDS, "items": {
                "type": "string", "maxLength": 200, "pattern": "[A-Za-z_][-A-Za-z0-9_.]*"}}}}}}}

CAN = ("enrol", "consent")  # what this version can do beside orders; parts that come add their words


def own(software: str) -> dict[str, Any]:
    """Returns the capabilities of this version, as a robot reports them."""
    return {"software": software, "formats": [envelope.OLDEST, envelope.NEWEST], "can": sorted(CAN), "kinds": {
        kind: {"effect": kind in kinds.EFFECTIVE, "fields": sorted(set(_fields(kinds.schema_of(kind))))[:MOST_FIELDS]}
        for kind in sorted(kinds.KINDS)}}


def _fields(schema: Mapping[str, Any], place: str = "") -> Iterator[str]:
    """Names of all fields that a schema has, as ``spec.a.b`` reads without ``spec.``."""
    for name, inner in schema.get("properties", {}).items():
        yield f"{place}{name}"
        yield from _fields(inner, f"{place}{name}.")
    if isinstance(schema.get("items"), dict):
        yield from _fields(schema["items"], place)
