# SPDX-License-Identifier: Apache-2.0
"""Messages as dataclasses, made from the ``.msg`` files on every host.

One class per type everywhere, numpy arrays in the fields, and the CDR bytes that every ROS 2 middleware uses
(see :mod:`brain_wire.cdr`). Standard types are :mod:`brain_wire.definitions`'; those of other packages are read from
the folders that are registered for them (``register`` is :func:`brain_wire.definitions.register`)::

    register("my_interfaces", Path("/opt/my/share/my_interfaces"))
    make("my_interfaces/msg/Reading", value=1.0)
"""
from __future__ import annotations

import functools
import struct
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import Any, Callable

import numpy as np

from brain_wire import cdr
from brain_wire.arrays import flat
from brain_wire.definitions import (FILLER, TEXTS, Definition, DefinitionError, Fields, MessageError, Nodetype,
                                    add_type, added, definition_file, definition_files, packages, parse, register,
                                    standard)
from brain_wire.definitions import type_hash as hash_of
from brain_wire.services import find
from brain_wire.safe_text import quoted

# U+0018 CANCEL: on a latched topic of sentences it takes the place of one that is past, and says nothing itself.
SILENCE = "\x18"
# bytes; what may follow a message: some writers pad, and rclpy's serialize_message() leaves what it set aside
TRAILING = 32


__all__ = ["Message", "MessageError", "SILENCE", "add_type", "clip_utf8", "dds_type", "decode", "decoder", "encode",
           "encoder", "fields_of", "has_field", "make", "message_class", "register", "time_message", "time_seconds",
           "type_hash", "type_name", "type_names"]


class Message:
    """Base of all classes of messages."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and tuple(vars(self).values()) == tuple(vars(other).values())

    __hash__ = None     # type: ignore[assignment] # as Python itself has it where objects are equal by value

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{field}={value!r}' for field, value in vars(self).items())})"


def type_names() -> list[str]:
    """The types that are known so far: standard, registered, and parts of services and actions that were used."""
    found = (f"{package}/msg/{path.stem}" for package in packages() for path in definition_files(package, "msg"))
    return sorted({*standard(), *found, *added})


@functools.cache
def _definition(name: str) -> Definition:
    """Looks up the definition of a type; one without fields has a filler, as everywhere in ROS 2.

    Raises:
        MessageError: no such type is known, or the file that defines it is broken.
    """
    if name not in added and name.count("/") == 2:
        _learn(name)
    found = added.get(name)
    try:
        if found is None and name in standard():
            found = parse(standard()[name], name)
        elif found is None and name.count("/") == 2 and (path := definition_file(name)) is not None:
            found = parse(path.read_text(encoding="utf-8"), name)
    except (DefinitionError, UnicodeDecodeError) as error:
        raise MessageError(str(error)) from error
    if found is None:
        raise MessageError(
            f"unknown message type {name!r}; types are written package/msg/Type and come from the standard "
            f"ROS 2 interfaces" + "".join(f" or {package}" for package in packages())
        )
    return found._replace(fields=found.fields or [(FILLER, (Nodetype.BASE, ("uint8", 0)))])


def fields_of(name: str) -> Fields:
    """Names and definitions of a type's fields. Raises MessageError if no such type is known."""
    return _definition(name).fields


@functools.cache
def message_class(name: str) -> type:
    """Dataclass of a type such as ``sensor_msgs/msg/Image``: its constants, and zeros in fields that are not given.

    What is given is taken as it is; :func:`make` makes arrays of it and looks at bounds. Raises MessageError if no such
    type is known.
    """
    constants, fields = _definition(name)
    leaf = name.replace("/", "__")
    members: dict[str, Any] = {constant: value for constant, _, value in constants}
    members |= {"__doc__": f"A {name}.", "__module__": __name__, "__msgtype__": name,
                "__annotations__": {member: Any for member, _ in fields}}
    members |= {member: _default(definition) for member, definition in fields}
    found: type = dataclass(repr=False, eq=False)(type(leaf, (Message,), members))
    for member in vars(found).keys() & {member for member, _ in fields}:
        delattr(found, member)      # a message that lost a field has none, not a zero
    return found


def _default(definition: tuple) -> Any:
    """Makes a field's default for dataclasses; nested types are looked up when the first is made."""
    if definition[0] == Nodetype.BASE:
        return _factory(definition)()
    return dataclass_field(default_factory=lambda: _factory(definition)())


def _learn(name: str) -> None:
    """Looks for the service or action that a type may be a part of."""
    _, kind, leaf = name.split("/")
    if kind in ("srv", "action"):
        find(name.removesuffix(leaf) + leaf.partition("_")[0], kind)


def type_name(message: Any) -> str:
    """``package/msg/Type`` of a message or message class."""
    return message.__msgtype__


@functools.cache
def type_hash(name: str) -> str:
    """RIHS01 hash of a type, as ROS 2 computes it from the type description: ``RIHS01_`` and 64 hex digits."""
    return hash_of(name, fields_of)


@functools.cache
def dds_type(name: str) -> str:
    """Name of a type on the wire: ``std_msgs/msg/String`` is ``std_msgs::msg::dds_::String_``."""
    package, kind, leaf = name.split("/")
    return f"{package}::{kind}::dds_::{leaf}_"


@functools.cache
def has_field(name: str, field: str) -> bool:
    """Tells whether messages of the type have a field of that name."""
    return any(f == field for f, _ in fields_of(name))


def _factory(definition: tuple) -> Callable[[], Any]:
    """Returns the function that makes a field's default: zero, empty text, empty or zero array, a message of such."""
    kind, detail = definition
    if kind == Nodetype.BASE:
        base = detail[0]
        value = "" if base in TEXTS else False if base == "bool" else 0.0 if base.startswith("float") else 0
        return lambda: value
    if kind == Nodetype.NAME:
        return _blank(detail)
    element, count = detail
    length = count if kind == Nodetype.ARRAY else 0
    if element[0] == Nodetype.BASE and element[1][0] not in TEXTS:
        dtype = np.dtype(cdr.FORMATS[element[1][0]])
        return lambda: np.zeros(length, dtype)
    item = _factory(element)
    return lambda: [item() for _ in range(length)]


@functools.cache
def _blank(name: str) -> Callable[[], Any]:
    """Returns the function that makes a message of zeros."""
    maker = _maker(name)
    return lambda: maker({})


@functools.cache
def _fields(name: str) -> tuple[tuple[str, tuple, Callable[[], Any]], ...]:
    """Field, definition and default of each field of a type."""
    return tuple((field, definition, _factory(definition)) for field, definition in fields_of(name) if field != FILLER)


def _coerce(name: str, field: str, definition: tuple, value: Any) -> Any:
    kind, detail = definition
    if kind == Nodetype.BASE:
        base, bound = detail
        if base not in TEXTS:
            return value
        if bound:
            wide = base == "wstring"
            size = len(value.encode("utf-16-le")) // 2 if wide else len(value.encode())
            if size > bound:
                unit = "units" if wide else "bytes"
                raise MessageError(f"{name}.{field}: {size} {unit} of text, but at most {bound} fit")
        return value
    if kind == Nodetype.NAME:
        return value
    element, count = detail
    if element[0] == Nodetype.BASE and element[1][0] not in TEXTS:
        try:
            value = flat(value, np.dtype(cdr.FORMATS[element[1][0]]))
        except (TypeError, ValueError, OverflowError) as error:
            raise MessageError(f"{name}.{field}: {error}") from error
    elif element[0] == Nodetype.BASE:
        value = [_coerce(name, field, element, item) for item in value]
    if kind == Nodetype.ARRAY and len(value) != count:
        raise MessageError(f"{name}.{field}: {len(value)} elements, but there must be {count}")
    if kind == Nodetype.SEQUENCE and count and len(value) > count:
        raise MessageError(f"{name}.{field}: {len(value)} elements, but at most {count} fit")
    return value


def make(name: str, /, **fields: Any) -> Any:
    """A message of the type: given fields, zeros elsewhere (empty text, empty sequences).

    Sequences of numbers may be given as anything numpy takes, and become arrays of the right type.

    Raises:
        MessageError: an unknown type or field, or more elements or text than the field holds.
    """
    return _maker(name)(fields)


@functools.cache
def _maker(name: str) -> Callable[[dict[str, Any]], Any]:
    """:func:`make` for messages of one type, with everything looked up that can be."""
    cls, fields = message_class(name), _fields(name)
    order = {field: number for number, (field, _, _) in enumerate(fields)}
    plain = [definition[0] == Nodetype.NAME or _is_number(definition) for _, definition, _ in fields]
    blank = [default() if _is_scalar(definition) else None for _, definition, default in fields]
    made = [(number, default) for number, (_, definition, default) in enumerate(fields) if not _is_scalar(definition)]

    def make_one(given: dict[str, Any]) -> Any:
        values = blank.copy()
        for field, value in given.items():
            number = order.get(field)
            if number is None:
                unknown = ", ".join(f for f in given if f not in order)
                raise MessageError(f"{name} has no field {unknown}; it has {', '.join(order)}")
            values[number] = value if plain[number] else _coerce(name, field, fields[number][1], value)
        for number, default in made:
            if fields[number][0] not in given:
                values[number] = default()
        return cls(*values)

    return make_one


def _is_scalar(definition: tuple) -> bool:
    """A number, a truth value or text, which can stand in many messages at once."""
    return definition[0] == Nodetype.BASE


def _is_number(definition: tuple) -> bool:
    """A scalar that is taken as it is given."""
    return definition[0] == Nodetype.BASE and definition[1][0] not in TEXTS


def encode(message: Any) -> bytes:
    """CDR bytes (XCDR1, little endian) of a message, with the 4 bytes of encapsulation in front.

    Raises:
        MessageError: a field holds what its type cannot.
    """
    return encoder(message.__msgtype__)(message)


def _misfit(message: Any, name: str, path: str = "") -> str | None:
    """Finds the field that cannot be encoded: its place, value, and what its type can hold; None if all fit."""
    for field, definition, _ in _fields(name):
        try:
            value = getattr(message, field)
        except AttributeError:
            return f"{path or type(message).__name__} has no field {field}"
        kind, detail = definition
        listed = kind in (Nodetype.ARRAY, Nodetype.SEQUENCE) and not _is_number(detail[0])
        element = detail[0] if listed else definition
        for number, item in enumerate(value if listed and isinstance(value, (list, tuple)) else [value]):
            where = f"{path}{field}[{number}]" if listed else path + field
            if element[0] == Nodetype.NAME:
                found = _misfit(item, element[1], where + ".")
            else:
                found = _why_not(element, item)
                found = found and f"{where} {found}"
            if found:
                return found
    return None


def _why_not(definition: tuple, value: Any) -> str | None:
    """Returns the reason why a field that is no message cannot hold a value; None: it can."""
    kind, detail = definition
    try:
        if kind in (Nodetype.ARRAY, Nodetype.SEQUENCE):
            flat(value, np.dtype(cdr.FORMATS[detail[0][1][0]]))
        elif detail[0] in TEXTS:
            value.encode()
        else:
            struct.pack("<" + cdr.FORMATS[detail[0]], value)
    except Exception as error:  # whatever does not fit raises something else
        what = detail[0] if kind == Nodetype.BASE else detail[0][1][0]
        return f"is {quoted(repr(value))}, which does not fit {what} ({error})"
    return None


def decode(data: bytes | memoryview, name: str, trailing: float = TRAILING) -> Any:
    """The message in the CDR bytes ``data`` (either byte order). Arrays may share memory with ``data``.

    Args:
        trailing: less than so many bytes may follow the message.

    Raises:
        MessageError: the bytes are not a whole message of that type, or hold more elements than it allows.
    """
    return decoder(name, trailing)(data)


@functools.cache
def encoder(name: str) -> Callable[..., Any]:
    """:func:`encode` for messages of one type, with everything looked up that can be.

    The function may be given ``share`` and ``least`` as well, for large messages: see :func:`brain_wire.cdr.encoder`.
    It is compiled when the first message is encoded: most of a node's services are never called.
    """
    fields = fields_of(name)

    run: Callable[..., Any]

    def compile_first(message: Any, share: Callable[[Any], Any] | None = None, least: int = 0) -> Any:
        nonlocal run
        run = cdr.encoder(fields, fields_of)
        return run(message, share, least)

    run = compile_first

    def encode_one(message: Any, share: Callable[[Any], Any] | None = None, least: int = 0) -> Any:
        try:
            return run(message, share, least)
        except Exception as error:  # the generated code raises whatever it meets: struct.error, TypeError, ...
            raise MessageError(f"cannot encode {name}: {_misfit(message, name) or error}") from error

    return encode_one


def decoder(name: str, trailing: float = TRAILING) -> Callable[[bytes | memoryview], Any]:
    """:func:`decode` for messages of one type, with everything looked up that can be; see :func:`encoder`."""
    return _decoder(name, trailing)


@functools.cache
def _decoder(name: str, trailing: float) -> Callable[[bytes | memoryview], Any]:
    fields_of(name)     # raises what is to be said at once

    # By the second byte, big endian and little endian: of bytes, and then of views.
    runs: list[Callable[[bytes | memoryview], tuple[Any, int]]] = []

    def compile_first(data: bytes | memoryview) -> tuple[Any, int]:
        view = type(data) is memoryview
        run = runs[data[1] + 2 * view] = cdr.decoder(*_layout(name), _layout, "<" if data[1] else ">", view)
        return run(data)

    runs += [compile_first] * 4

    def decode_one(data: bytes | memoryview) -> Any:
        kind = 0
        if type(data) is not bytes:
            if type(data) is memoryview and data.format == "B" and data.ndim == 1 and data.contiguous:
                kind = 2
            else:
                data = bytes(data)
        size = len(data)
        if size < cdr.ENCAPSULATION or data[0] or data[1] > 1:
            raise MessageError(f"{size} bytes are not a {name}: they do not begin as plain CDR does")
        try:
            message, end = runs[kind + data[1]](data)
        except Exception as error:  # broken bytes make the generated code raise nearly anything
            raise MessageError(f"{size} bytes are not a {name}: {type(error).__name__} {error}") from error
        if not 0 <= size - end < trailing:
            raise MessageError(f"{size} bytes are not a {name}, which ends after {end}")
        return message

    return decode_one


def _layout(name: str) -> tuple[type, list[tuple[str, tuple]]]:
    """Class and fields of a type, as :mod:`brain_wire.cdr` asks for them."""
    return message_class(name), fields_of(name)


def time_message(seconds: float) -> Any:
    """``builtin_interfaces/msg/Time`` from seconds."""
    nanoseconds = round(seconds * 1e9)
    return make("builtin_interfaces/msg/Time", sec=nanoseconds // 10**9, nanosec=nanoseconds % 10**9)


def time_seconds(stamp: Any) -> float:
    """Seconds of a ``builtin_interfaces/msg/Time``."""
    return stamp.sec + stamp.nanosec * 1e-9


def clip_utf8(text: str, size: int) -> str:
    """The longest beginning of ``text`` that takes at most ``size`` bytes in UTF-8."""
    return text.encode("utf-8", "replace")[:size].decode("utf-8", "ignore")
