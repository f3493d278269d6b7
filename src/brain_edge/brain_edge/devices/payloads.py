# SPDX-License-Identifier: Apache-2.0
"""Payloads of MQTT and Zenoh: a JSON value, a field of a JSON object, or plain text; and places within a message."""
from __future__ import annotations

import json
import re
from typing import Any, Mapping

from brain_edge.devices.driver import LARGEST, TEXT, Sample
from brain_wire.safe_text import quoted

# Places within a message: status.cells[3].voltage, temperature:0.tC, StatusSNS.DS18B20-1.Temperature
_KEY, _INDEX = "[A-Za-z0-9_:-]+", r"\[[0-9]{1,6}\]"     # plugs and meters have keys as switch:0 and DS18B20-1
PATH: Mapping[str, Any] = {"type": "string", "maxLength": 200,
                           "pattern": rf"{_KEY}({_INDEX})*(\.{_KEY}({_INDEX})*)*"}
# Of a visitor, as far as the payload is concerned.
FIELDS: dict[str, Mapping[str, Any]] = {
    "format": {"enum": ["json", "text"]}, "command_format": {"enum": ["json", "text"]}, "field": PATH,
    "unit_field": PATH, "command_field": {**TEXT, "maxLength": 60}, "true_as": {**TEXT, "maxLength": 60},
    "false_as": {**TEXT, "maxLength": 60}}


def decode(payload: bytes, visitor: Mapping[str, Any], kept: bool = False) -> Sample:
    """Reads the value of a property from a payload.

    Raises:
        ValueError: it does not say it.
    """
    if len(payload) > LARGEST:
        raise ValueError(f"a payload of {len(payload)} bytes came, and at most {LARGEST} are looked into")
    try:
        text = payload.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"a payload of {len(payload)} bytes came that is no text in UTF-8") from None
    if visitor.get("format", "json") == "text":
        return Sample(text, kept=kept)
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError(f"a payload came that is no JSON: {quoted(text[:80])}") from None
    unit = None
    if "unit_field" in visitor:
        unit = inner(found, visitor["unit_field"])
        if not isinstance(unit, str):
            raise ValueError(f"{visitor['unit_field']} is no unit: {type(unit).__name__}")
    if "field" in visitor:
        found = inner(found, visitor["field"])
    if isinstance(found, (dict, list)):
        raise ValueError("a payload came that is a whole object or list; the visitor's field says which of its values "
                         "is meant")
    return Sample(found, unit, kept)


def encode(value: Any, visitor: Mapping[str, Any]) -> bytes:
    """The payload that has a property set to a raw value."""
    if visitor.get("command_format", visitor.get("format", "json")) == "text":
        return (str(value).lower() if isinstance(value, bool) else str(value)).encode()
    name = visitor.get("command_field")
    return json.dumps(value if name is None else {name: value}).encode()


def check_payload(visitor: Mapping[str, Any]) -> None:
    """Raises ValueError where a visitor asks for fields of what has none, or for one word of two."""
    if visitor.get("format") == "text" and visitor.keys() & {"field", "unit_field"} or (
            "command_field" in visitor and "text" in (visitor.get("command_format", visitor.get("format")),)):
        raise ValueError("a text has no fields; take format: json, or take the fields away")
    if ("true_as" in visitor) != ("false_as" in visitor) or (
            "true_as" in visitor and visitor["true_as"] == visitor["false_as"]):
        raise ValueError("true_as and false_as are two words, and stand together")


def inner(found: Any, path: str) -> Any:
    """Returns the value at a path, in plain values or in a message of ROS 2.

    Raises:
        ValueError: nothing stands there.
    """
    for step in re.findall(rf"{_KEY}|{_INDEX}", path):
        try:
            if step[0] == "[":
                found = found[int(step[1:-1])]
            elif isinstance(found, dict):
                found = found[step]
            else:
                found = vars(found)[step]
        except (KeyError, IndexError, TypeError):
            raise ValueError(f"what came has no {path}") from None
    return found
