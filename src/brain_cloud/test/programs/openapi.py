# SPDX-License-Identifier: Apache-2.0
"""Objects checked against the schemas of custom resource definitions, and filled with their defaults."""
from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("definitions.json")
TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "number": (int, float)}


class Invalid(ValueError):
    """An object is not as its schema asks; names the field."""


class Untyped(Invalid):
    """An object cannot be taken for one of its kind: an unknown field, another type, a name twice in a list."""


class Schemas:
    """Schemas that refer to each other by number."""

    def __init__(self) -> None:
        found = json.loads(FILE.read_text())
        self.kinds, self._shared = found["kinds"], found["shared"]

    def whole(self, schema: Any) -> Any:
        return self._shared[schema["$ref"]] if "$ref" in schema else schema

    def within(self, schema: Any, *path: str) -> Any:
        """The schema of a field within; ``[]``: of a list's elements."""
        for part in path:
            schema = self.whole(schema)
            schema = schema["items"] if part == "[]" else schema["properties"][part]
        return schema

    def check(self, value: Any, schema: Any, place: str = "") -> Any:
        """The value with defaults; a field that no schema names is refused, where a server would drop it."""
        schema = self.whole(schema)
        if schema.get("x-kubernetes-int-or-string"):
            if isinstance(value, bool) or not isinstance(value, (int, str)):
                raise Untyped(f"{place}: {value!r} is neither a number nor text")
        elif "type" in schema:
            if value is None and schema.get("nullable"):
                return value
            if not isinstance(value, TYPES[schema["type"]]) or schema["type"] != "boolean" and isinstance(value, bool):
                raise Untyped(f"{place}: {value!r} is no {schema['type']}")
        if "enum" in schema and value not in schema["enum"]:
            raise Invalid(f"{place}: {value!r} is none of {schema['enum']}")
        if isinstance(value, str):
            if "pattern" in schema and not re.search(schema["pattern"], value):
                raise Invalid(f"{place}: {value!r} does not match {schema['pattern']}")
            if len(value) > schema.get("maxLength", len(value)) or len(value) < schema.get("minLength", 0):
                raise Invalid(f"{place}: it has {len(value)} characters")
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            if not schema.get("minimum", value) <= value <= schema.get("maximum", value):
                raise Invalid(f"{place}: {value} is out of bounds")
        elif isinstance(value, list):
            if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
                raise Invalid(f"{place}: it has {len(value)} elements")
            found = [self.check(one, schema["items"], f"{place}[{number}]") for number, one in enumerate(value)]
            if keys := schema.get("x-kubernetes-list-map-keys"):
                names = [tuple(one.get(key) for key in keys) for one in found]
                if len({*names}) < len(names):
                    raise Untyped(f"{place}: duplicate entries for a key of {names}")
            return found
        elif isinstance(value, dict):
            return self._object(value, schema, place)
        return value

    def _object(self, value: dict[str, Any], schema: Any, place: str) -> dict[str, Any]:
        known, more = schema.get("properties", {}), schema.get("additionalProperties")
        # of an object's own metadata all is known; those of templates within have what their schema names
        free = schema.get("x-kubernetes-preserve-unknown-fields") or not known and more is None and (
            place.count(".") == 1 and place.endswith(".metadata"))
        found = {name: copy.deepcopy(self.whole(inner)["default"]) for name, inner in known.items()
                 if "default" in self.whole(inner) and name not in value}
        for name, one in value.items():
            if name in known:
                found[name] = self.check(one, known[name], f"{place}.{name}")
            elif isinstance(more, dict):
                found[name] = self.check(one, more, f"{place}.{name}")
            elif free or more is True:
                found[name] = one
            else:
                raise Untyped(f"{place}.{name}: no such field")
        lacking = [name for name in schema.get("required", ()) if name not in found]
        if lacking:
            raise Invalid(f"{place}.{lacking[0]}: it is required")
        return found
