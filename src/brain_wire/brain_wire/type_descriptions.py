# SPDX-License-Identifier: Apache-2.0
"""The service by which ROS 2 asks a node what its messages consist of (REP 2016), for hosts without rclpy.

Asked by hash, as rcl answers it: a type that the node has on no topic and in no service is not told. Of default values
of fields, which hashes do not cover, nothing is known here. The texts of definitions come with our own types alone.
What such a service of others answers is learned by :func:`learn`.
"""
from __future__ import annotations

import functools
import re
from typing import Any, Callable, Iterable

from brain_wire import messages
from brain_wire.definitions import (IN_ARRAY, IN_BOUNDED, IN_UNBOUNDED, NUMBERS, TEXTS, Definition, Fields, Nodetype,
                                    add_type, definition_file, type_hash)
from brain_wire.messages import MessageError, make
from brain_wire.safe_text import quoted

SERVICE = "type_description_interfaces/srv/GetTypeDescription"
_PACKAGE = "type_description_interfaces/msg"
_NESTED = 1
_NAME, _FIELD = re.compile(r"[a-z]\w*/(?:msg|srv|action)/[A-Z]\w*", re.ASCII), re.compile(r"[A-Za-z]\w*", re.ASCII)
MOST_TYPES, MOST_FIELDS, MOST_ELEMENTS = 200, 500, 2 ** 20      # of a description, as others send it


def description(name: str) -> Any:
    """``TypeDescription`` of a message, service or action's part, with all types that it refers to, by their names.

    Raises:
        MessageError: no such type is known.
    """
    messages.message_class(name)
    found: dict[str, Any] = {}
    waiting = [name]
    while waiting:
        one = waiting.pop()
        if one not in found:
            fields = messages.fields_of(one)
            found[one] = make(f"{_PACKAGE}/IndividualTypeDescription", type_name=one,
                              fields=[_field(field, definition) for field, definition in fields])
            waiting += [nested for _, definition in fields if (nested := _nested(definition))]
    own = found.pop(name)
    return make(f"{_PACKAGE}/TypeDescription", type_description=own,
                referenced_type_descriptions=[found[one] for one in sorted(found)])


def _nested(definition: tuple) -> str:
    """Name of the message type in a field; empty where there is none."""
    kind, detail = definition
    if kind in (Nodetype.ARRAY, Nodetype.SEQUENCE):
        kind, detail = detail[0]
    return detail if kind == Nodetype.NAME else ""


def _field(name: str, definition: tuple) -> Any:
    kind, detail = definition
    more = capacity = 0
    if kind in (Nodetype.ARRAY, Nodetype.SEQUENCE):
        (element, capacity) = detail
        more = IN_ARRAY if kind == Nodetype.ARRAY else IN_BOUNDED if capacity else IN_UNBOUNDED
        kind, detail = element
    bound = 0
    if kind == Nodetype.NAME:
        number = _NESTED
    else:
        base, bound = detail
        number = TEXTS[base][bound > 0] if base in TEXTS else NUMBERS[base]
    return make(f"{_PACKAGE}/Field", name=name, type=make(
        f"{_PACKAGE}/FieldType", type_id=number + more, capacity=capacity or 0, string_capacity=bound or 0,
        nested_type_name=_nested(definition)))


@functools.cache
def _told(name: str) -> tuple[Any, tuple[Any, ...]]:
    """Description of a type, and the texts of those registered definitions that it consists of."""
    about = description(name)
    sources = []
    for one in (about.type_description, *about.referenced_type_descriptions):
        path = definition_file(one.type_name)
        if path is not None:
            sources.append(make(f"{_PACKAGE}/TypeSource", type_name=one.type_name, encoding=path.suffix[1:],
                                raw_file_contents=path.read_text(encoding="utf-8")))
    return about, tuple(sources)


def handlers(used: Callable[[], Iterable[str]]) -> dict[str, tuple[str, Callable[[Any], Any]]]:
    """The service: type, and what answers a request, by name below the node's.

    Args:
        used: names of the types that the node has on its topics and in its services now.
    """
    response = f"{SERVICE}_Response"

    def get_type_description(request: Any) -> Any:
        wanted = request.type_hash
        if not wanted.startswith("RIHS01_") or len(wanted) != 71:
            return make(response, failure_reason=f"{quoted(wanted)} is no hash of a type: RIHS01_ and 64 digits")
        name = next((one for one in used() if messages.type_hash(one) == wanted), None)
        if name is None:
            return make(response, failure_reason=f"no type in use by this node has the hash {quoted(wanted)}")
        about, sources = _told(name)
        return make(response, successful=True, type_description=about,
                    type_sources=list(sources) if request.include_type_sources else [])

    return {"get_type_description": (SERVICE, get_type_description)}


def learn(told: Any, wanted: str) -> str:
    """Makes a type known by its ``TypeDescription``, with those that it consists of; returns its name.

    What is known already stays as it is.

    Args:
        told: by whom, does not matter: it has to be what the hash is of.
        wanted: hash of the type.

    Raises:
        MessageError: it is no description, or one of another hash; then nothing was learned.
    """
    each = [told.type_description, *told.referenced_type_descriptions]
    if len(each) > MOST_TYPES:
        raise MessageError(f"a type of {len(each)} types is not learned; {MOST_TYPES} are the most")
    found: dict[str, Fields] = {}
    for one in each:
        if not _NAME.fullmatch(one.type_name) or len(one.fields) > MOST_FIELDS:
            raise MessageError(f"{quoted(one.type_name)} is not described as a type")
        found[one.type_name] = [_defined(one.type_name, field) for field in one.fields]

    def fields_of(name: str) -> Fields:
        return found[name] if name in found else messages.fields_of(name)

    name = told.type_description.type_name
    if (has := type_hash(name, fields_of)) != wanted:
        raise MessageError(f"{name} is described with the hash {has}, and not {quoted(wanted)}")
    for one, fields in found.items():
        try:
            known = messages.fields_of(one)
        except MessageError:
            continue
        if known != fields:
            raise MessageError(f"{one} is known here as another version")
    for one, fields in found.items():
        add_type(one, Definition([], fields))
    return name


def _defined(name: str, field: Any) -> tuple[str, tuple]:
    """Name and definition of a described field; the inverse of :func:`_field`."""
    kind = field.type
    base, more = kind.type_id % IN_ARRAY, kind.type_id // IN_ARRAY * IN_ARRAY
    texts = {number: text for text, numbers in TEXTS.items() for number in numbers}
    numbers = {number: number_of for number_of, number in NUMBERS.items()}
    if base == _NESTED and _NAME.fullmatch(kind.nested_type_name):
        element: tuple = (Nodetype.NAME, kind.nested_type_name)
    elif base in texts or base in numbers:
        element = (Nodetype.BASE, (texts.get(base) or numbers[base], int(kind.string_capacity)))
    else:
        raise MessageError(f"{name} has a field of a kind that is not known here ({kind.type_id})")
    if not _FIELD.fullmatch(field.name) or more not in (0, IN_ARRAY, IN_BOUNDED, IN_UNBOUNDED) or (
            kind.capacity > MOST_ELEMENTS):
        raise MessageError(f"{name} has a field {quoted(field.name)} that is none")
    if more:
        element = (Nodetype.ARRAY if more == IN_ARRAY else Nodetype.SEQUENCE, (element, int(kind.capacity)))
    return field.name, element
