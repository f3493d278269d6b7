# SPDX-License-Identifier: Apache-2.0
"""JSON that others wrote, checked against a schema: a small part of JSON Schema, and bounds where that has none.

What is checked is hostile. Its text has at most so many bytes and values before it is read, is nested at most so deep,
holds finite numbers of at most 64 bits, and has no field that the schema does not name.
"""
from __future__ import annotations

import functools
import json
import math
import re
from importlib import resources
from typing import Any, Collection, Mapping

from brain_wire.safe_text import is_text, quoted

DEEPEST = 32            # lists and objects within each other
WHOLE = 2**63 - 1       # of a whole number, either way
MOST_VALUES = 20_000    # in one text, those within others too

# What a schema may say; one that says more was written for another program, and would be checked in part only.
KEYWORDS = {"$schema", "title", "description", "type", "properties", "required", "additionalProperties", "items",
            "minItems", "maxItems", "minLength", "maxLength", "pattern", "minimum", "maximum", "enum", "const",
            "maxProperties", "propertyNames"}
_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,), "array": (list,), "string": (str,), "boolean": (bool,), "null": (type(None),),
    "integer": (int,), "number": (int, float)}


class FormProblem(ValueError):
    """The text is not what its schema asks for; names the place and what is allowed there, in one line."""


def read_json(text: bytes | str, longest: int, most: int = MOST_VALUES) -> Any:
    """Plain values of a JSON text.

    Args:
        text: bytes are UTF-8.
        longest: bytes that it may have.
        most: values that it may hold; they are counted before they are made, which takes far longer.

    Raises:
        FormProblem: it is longer, is not JSON, or is more than anybody here writes.
    """
    if len(text) > longest:
        raise FormProblem(f"it has {len(text)} bytes, and at most {longest} are taken")
    try:
        plain = text if isinstance(text, str) else text.decode("utf-8")
        few = values_in(plain) <= most
        found = json.loads(plain, parse_constant=_refuse) if few else None
    except (ValueError, RecursionError) as error:
        raise FormProblem(f"it is no JSON ({str(error)[:80]})") from None
    if not few:
        raise FormProblem(f"it holds more than {most} values")
    check_plain(found, most=most)
    return found


def values_in(text: str) -> int:
    """Counts the values in a JSON text, those within others too; in other text, at least as many as a reader makes.

    Each value but the first follows a comma or opens what is around it. Counting takes the time of some copies of the
    text, whatever it is: a regular expression would take its square for quotes that are not closed.
    """
    outside = text.replace("\\\\", "").replace('\\"', "").split('"')[::2]     # marks within texts do not count
    plain = '"'.join(outside)       # where a text stands in a list, that is not empty
    return 1 + plain.count(",") + plain.count("[") + plain.count("{") - plain.count("[]") - plain.count("{}")


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no number")


def check_plain(value: Any, deepest: int = DEEPEST, most: int = MOST_VALUES) -> None:
    """Raises FormProblem where values are nested too deep, too many, or hold what JSON has not, as YAML has dates."""
    waiting: list[tuple[Collection[Any], int]] = [([value], 0)]     # what stands in one place, and how deep
    seen = 0
    while waiting:
        items, depth = waiting.pop()
        seen += len(items)
        if depth > deepest:
            raise FormProblem(f"it is nested more than {deepest} deep")
        if seen > most:
            raise FormProblem(f"it holds more than {most} values")
        for one in items:
            if isinstance(one, str):
                if not is_text(one):
                    raise FormProblem("it holds text that is none (half of a surrogate pair)")
            elif isinstance(one, int):
                if not -WHOLE <= one <= WHOLE:
                    raise FormProblem("it holds a whole number of more than 64 bits")
            elif isinstance(one, float):
                if not math.isfinite(one):
                    raise FormProblem("it holds a number that is not finite")
            elif isinstance(one, dict):
                if not all(isinstance(key, str) for key in one):
                    raise FormProblem("it holds a field whose name is no text; put it in quotes")
                if one:
                    waiting.append((one.values(), depth + 1))
            elif isinstance(one, list):
                if one:
                    waiting.append((one, depth + 1))
            elif one is not None:
                raise FormProblem(f"it holds a {type(one).__name__}, which JSON has not; put it in quotes to have a "
                                  f"text")


@functools.cache
def load_schema(package: str, name: str) -> Mapping[str, Any]:
    """A schema that comes with a package.

    Args:
        package: as ``brain_edge.messages``.
        name: of the file, without ``.schema.json``.

    Raises:
        ValueError: it uses what is not understood here.
    """
    found = json.loads(resources.files(package).joinpath(f"{name}.schema.json").read_text(encoding="utf-8"))
    _check_schema(found, name)
    return found


def _check_schema(schema: Mapping[str, Any], place: str) -> None:
    for keyword in schema.keys() - KEYWORDS:
        raise ValueError(f"{place}: the keyword {keyword} is not understood here")
    for name, inner in schema.get("properties", {}).items():
        _check_schema(inner, f"{place}.{name}")
    for keyword in ("items", "additionalProperties", "propertyNames"):
        if isinstance(schema.get(keyword), dict):
            _check_schema(schema[keyword], f"{place}.{keyword}")


def check(value: Any, schema: Mapping[str, Any], place: str = "") -> None:
    """Raises FormProblem where plain values are not what a schema asks for.

    Args:
        value: as :func:`read_json` returns it, so of bounded depth.
        place: of the value within the whole, for the message.
    """
    where = place or "it"
    kinds = schema.get("type")
    if kinds is not None:
        kinds = kinds if isinstance(kinds, list) else [kinds]
        # True is an int in Python, and no number in JSON
        if not any(isinstance(value, _TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))
                   for kind in kinds):
            raise FormProblem(f"{where} must be {_or(kinds)}, but is {_shown(value)}")
    if "const" in schema and value != schema["const"]:
        raise FormProblem(f"{where} must be {_shown(schema['const'])}, but is {_shown(value)}")
    if "enum" in schema and value not in schema["enum"]:
        raise FormProblem(f"{where} must be one of {', '.join(map(str, schema['enum']))}, but is {_shown(value)}")
    if isinstance(value, str):
        _check_text(value, schema, where)
    elif isinstance(value, dict):
        _check_object(value, schema, place)
    elif isinstance(value, list):
        _check_bounds(len(value), schema, "minItems", "maxItems", where, "elements")
        if "items" in schema:
            for number, item in enumerate(value):
                check(item, schema["items"], f"{place}[{number}]")
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        _check_bounds(value, schema, "minimum", "maximum", where, "")


def _check_text(value: str, schema: Mapping[str, Any], where: str) -> None:
    _check_bounds(len(value), schema, "minLength", "maxLength", where, "characters")
    if "pattern" in schema and not re.fullmatch(schema["pattern"], value):
        raise FormProblem(f"{where} must read {schema['pattern']}, but is {quoted(value)}")


def _check_object(value: dict[str, Any], schema: Mapping[str, Any], place: str) -> None:
    known, more = schema.get("properties", {}), schema.get("additionalProperties", False)
    most = schema.get("maxProperties", MOST_VALUES)
    if len(value) > most:
        raise FormProblem(f"{place or 'it'} has {len(value)} fields, and at most {most} are taken")
    for name in schema.get("required", ()):
        if name not in value:
            raise FormProblem(f"{f'{place}.' if place else ''}{name} is missing")
    for name, item in value.items():
        inner = f"{place}.{name}" if place else name
        if name in known:
            check(item, known[name], inner)
        elif more is False:
            import difflib  # only to tell a person

            near = difflib.get_close_matches(name[:80], known, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known) or 'none'}"
            raise FormProblem(f"{place or 'it'} has no field {quoted(name)}; {hint}")
        else:
            check(name, schema.get("propertyNames", {}), f"a field of {place or 'it'}")
            if more is not True:
                check(item, more, inner if len(inner) < 200 else quoted(inner))


def _check_bounds(size: float, schema: Mapping[str, Any], least: str, most: str, where: str, unit: str) -> None:
    low, high = schema.get(least, -math.inf), schema.get(most, math.inf)
    if not low <= size <= high:
        bound = f"at least {low:g}" if size < low else f"at most {high:g}"
        raise FormProblem(f"{where} must {'have ' if unit else 'be '}{bound} {unit}".rstrip() + f", not {size:g}")


def _or(kinds: list[str]) -> str:
    return " or ".join(f"{'an' if kind[0] in 'aio' else 'a'} {kind}" if kind != "null" else kind for kind in kinds)


def _shown(value: Any) -> str:
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "an array"
    return quoted(value) if isinstance(value, str) else json.dumps(value)
