# SPDX-License-Identifier: Apache-2.0
"""Definitions of messages: read from ROS 2's ``.msg`` text, known by name, and hashed as ROS 2 does (REP 2011).

The standard interfaces lie beside this file, comments left out, as rosbags has them (``python -m
brain_tests.standard_types`` writes them, and a test compares). Nothing else is read and no class is made before it is
asked for: a region is back half a second sooner after a crash than with a store that makes all types at once. Other
packages are registered with the folder that holds their definitions.
"""
from __future__ import annotations

import functools
import json
import re
from enum import IntEnum
from pathlib import Path
from typing import Any, Callable, NamedTuple


class Nodetype(IntEnum):
    """Kind of a field's type; the numbers are rosbags'.

    A definition is ``(BASE, (kind, bound of a text or 0))``, ``(NAME, type)``, ``(ARRAY, (element, length))`` or
    ``(SEQUENCE, (element, bound or 0))``.
    """

    BASE = 1
    NAME = 2
    ARRAY = 3
    SEQUENCE = 4


Fields = list[tuple[str, tuple]]


class Definition(NamedTuple):
    """Definition of a message type: its constants and fields.

    Attributes:
        constants: name, kind and value.
        fields: name and what it is; see :class:`Nodetype`.
    """

    constants: list[tuple[str, str, Any]]
    fields: Fields


STANDARD = Path(__file__).with_name("standard_types.json")
"""Definitions by type name, one text each."""

FILLER = "structure_needs_at_least_one_member"
NUMBERS = {"int8": 2, "uint8": 3, "int16": 4, "uint16": 5, "int32": 6, "uint32": 7, "int64": 8, "uint64": 9,
           "float32": 10, "float64": 11, "char": 13, "bool": 15, "byte": 16}
"""Base types and the numbers that type descriptions give them (type_description_interfaces/msg/FieldType)."""
TEXTS = {"string": (17, 21), "wstring": (18, 22)}
"""Texts of bytes in UTF-8 and of units of UTF-16, and the numbers of those without and with a bound."""
IN_ARRAY, IN_BOUNDED, IN_UNBOUNDED = 48, 96, 144    # added to those
_LINE = re.compile(r"(?P<kind>[A-Za-z][\w/]*)(?:<=(?P<text>\d+))?(?P<array>\[(?:<=)?\d*\])?\s+(?P<name>[A-Za-z]\w*)"
                   r"\s*(?P<equals>=)?\s*(?P<value>.*)")


class MessageError(ValueError):
    """A message, or the bytes of one, does not fit its type; says which type and field."""


class DefinitionError(ValueError):
    """A text that defines no message; says which line of which type."""


def parse(text: str, name: str) -> Definition:
    """The definition in the text of a ``.msg`` file. Defaults of fields are passed over: messages begin as zeros.

    Args:
        name: of the type, ``package/msg/Type``; its package is that of types without one.

    Raises:
        DefinitionError: it does not read so.
    """
    found = Definition([], [])
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        read = _LINE.fullmatch(line.strip())
        if read is None or (read["array"] or "").startswith("[<=]") or (read["text"] and read["kind"] not in TEXTS):
            raise DefinitionError(f"{name}, line {number}: {line.strip()!r} is no field; write 'kind name', as in "
                                  f"'float32[<=8] ranges'")
        if read["equals"]:
            found.constants.append((read["name"], read["kind"], _constant(read["kind"], read["value"], name, number)))
        else:
            found.fields.append((read["name"], _field(read, name.partition("/")[0])))
    return found


def _constant(kind: str, value: str, name: str, number: int) -> Any:
    try:
        if kind in TEXTS:
            return _unquoted(value)
        value = value.partition("#")[0].strip()
        if kind == "bool":
            return {"true": True, "false": False, "1": True, "0": False}[value.lower()]
        return float(value) if kind.startswith("float") else int(value, 0)
    except (KeyError, ValueError) as error:
        raise DefinitionError(f"{name}, line {number}: {value!r} is no {kind}") from error


def _unquoted(text: str) -> str:
    quote = text[:1]
    if quote in ("'", '"') and quote in text[1:]:
        return text[1:text.index(quote, 1)]
    return text.partition("#")[0].strip()


def _field(read: re.Match[str], package: str) -> tuple:
    kind = read["kind"]
    if kind in TEXTS:
        element: tuple = (Nodetype.BASE, (kind, int(read["text"] or 0)))
    elif kind in NUMBERS:
        element = (Nodetype.BASE, (kind, 0))
    else:
        first, _, last = kind.rpartition("/")
        first = first or package
        element = (Nodetype.NAME, f"{first}/{last}" if first.endswith("/msg") else f"{first}/msg/{last}")
    if read["array"] is None:
        return element
    length = read["array"].strip("[]")
    if length and not length.startswith("<="):
        return Nodetype.ARRAY, (element, int(length))
    return Nodetype.SEQUENCE, (element, int(length.removeprefix("<=") or 0))


@functools.cache
def standard() -> dict[str, str]:
    """Texts of the standard definitions by type name."""
    return json.loads(STANDARD.read_text(encoding="utf-8"))


_folders: dict[str, Path | Callable[[], Path]] = {}


def register(package: str, folder: Path | Callable[[], Path]) -> None:
    """Makes the types of a package known, which are read when they are first asked for.

    Args:
        package: of the interfaces.
        folder: that holds its ``msg/``, ``srv/`` and ``action/``; or what finds it, once it is needed.
    """
    _folders[package] = folder


def packages() -> list[str]:
    """The packages that are registered."""
    return sorted(_folders)


def _folder(package: str) -> Path:
    folder = _folders[package]
    return folder() if callable(folder) else Path(folder)


def definition_files(package: str, kind: str) -> list[Path]:
    """Files that define types of a registered package.

    Args:
        kind: ``msg``, ``srv`` or ``action``.

    Raises:
        FileNotFoundError: what was registered cannot find the folder.
    """
    return sorted((_folder(package) / kind).glob(f"*.{kind}"))


def definition_file(name: str) -> Path | None:
    """File that defines the type ``package/kind/Type``; None where its package is not registered, or has no such type.

    Raises:
        FileNotFoundError: what was registered cannot find the folder.
    """
    package, kind, leaf = name.split("/")
    if package not in _folders or not leaf.isidentifier():
        return None
    path = _folder(package) / kind / f"{leaf}.{kind}"
    return path if path.is_file() else None


added: dict[str, Definition] = {}
"""Types that no ``.msg`` file holds, by name."""


def add_type(name: str, definition: Definition) -> None:
    """Makes a type known that no ``.msg`` file holds: a part of a service or action, ``package/srv/Type_Request``."""
    added[name] = definition


def type_hash(name: str, fields_of: Callable[[str], Fields]) -> str:
    """RIHS01 hash of a type: ``RIHS01_`` and 64 hex digits.

    Args:
        fields_of: fields of a type by its name; asked for this one and for all that it is made of.
    """
    import hashlib  # loads OpenSSL, which a region on ROS 2 does not need

    described: dict[str, dict[str, Any]] = {}
    _describe(name, fields_of, described)
    text = json.dumps({"type_description": described.pop(name),
                       "referenced_type_descriptions": [described[key] for key in sorted(described)]})
    return f"RIHS01_{hashlib.sha256(text.encode()).hexdigest()}"


def _describe(name: str, fields_of: Callable[[str], Fields], described: dict[str, dict[str, Any]]) -> None:
    """Adds the description of a type and of those that it is made of."""
    described[name] = {"type_name": name, "fields": []}
    for field, definition in fields_of(name):
        kind, detail = definition
        added = capacity = 0
        if kind == Nodetype.ARRAY:
            added, (element, capacity) = IN_ARRAY, detail
        elif kind == Nodetype.SEQUENCE:
            element, capacity = detail
            added = IN_BOUNDED if capacity else IN_UNBOUNDED
        else:
            element = definition
        nested, longest = "", 0
        if element[0] == Nodetype.NAME:
            nested, number = element[1], 1
            if nested not in described:
                _describe(nested, fields_of, described)
        elif element[1][0] in TEXTS:
            longest = element[1][1]
            number = TEXTS[element[1][0]][longest > 0]
        else:
            number = NUMBERS[element[1][0]]
        described[name]["fields"].append({"name": field, "type": {
            "type_id": added + number, "capacity": capacity, "string_capacity": longest, "nested_type_name": nested}})
