# SPDX-License-Identifier: Apache-2.0
"""Messages between the ranks of a torch group: arrays as tensors of their own, everything else as CDR bytes.

What of a type is an array, and of which numbers, both ends know from its definition; only lengths are sent.
"""
from __future__ import annotations

import functools
from dataclasses import fields, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from brain_wire import cdr, messages
from brain_wire.definitions import Nodetype
from brain_wire.messages import MessageError

WORTH = 512     # bytes of an array from which on it is sent by itself
MOST = 1 << 28  # bytes of one message that a rank makes room for


class ArrayField(NamedTuple):
    """A field of a type that holds an array of any length."""

    name: str
    dtype: np.dtype[Any]


@functools.cache
def array_fields(type_name: str) -> tuple[ArrayField, ...]:
    """The arrays of any length that a message has itself, in the order of its fields."""
    found = []
    for name, (kind, detail) in messages.fields_of(type_name):
        if kind == Nodetype.SEQUENCE and detail[0][0] == Nodetype.BASE and detail[0][1][0] != "string":
            found.append(ArrayField(name, np.dtype(cdr.FORMATS[detail[0][1][0]])))
    return tuple(found)


class Parcel(NamedTuple):
    """A message on its way.

    Attributes:
        rest: CDR bytes of the message without the arrays that travel by themselves.
        lengths: elements of each of :func:`array_fields`; 0: it is in ``rest``, or empty.
        arrays: those that travel by themselves.
    """

    rest: bytes
    lengths: tuple[int, ...]
    arrays: tuple[NDArray[Any], ...]


def pack(message: Any) -> Parcel:
    """Takes a message apart. Raises MessageError if it cannot be encoded."""
    apart = {}
    lengths = []
    for field in array_fields(messages.type_name(message)):
        value = np.asarray(getattr(message, field.name))
        alone = value.nbytes >= WORTH and value.ndim == 1
        lengths.append(len(value) if alone else 0)
        if alone:
            # torch takes none that must not be written to, as what was read off a wire is
            apart[field.name] = np.require(value, field.dtype, ["C", "W"])
    if apart:
        message = replace(message, **{name: value[:0] for name, value in apart.items()})
    return Parcel(messages.encode(message), tuple(lengths), tuple(apart.values()))


def unpack(type_name: str, rest: bytes, arrays: dict[str, NDArray[Any]]) -> Any:
    """Puts a message together. Raises MessageError if it is none of that type."""
    message = messages.decode(rest, type_name)
    known = {field.name for field in fields(message)}
    for name, value in arrays.items():
        if name not in known:
            raise MessageError(f"{type_name} has no array {name}")
        setattr(message, name, value)
    return message


def room(type_name: str, lengths: list[int]) -> dict[str, NDArray[Any]]:
    """Arrays to receive into, by field.

    Raises:
        MessageError: there are others than the type has, or more bytes than :data:`MOST`.
    """
    known = array_fields(type_name)
    if len(lengths) != len(known):
        raise MessageError(f"{type_name} has {len(known)} arrays, but {len(lengths)} were announced")
    sizes = [length * field.dtype.itemsize for field, length in zip(known, lengths)]
    if min(lengths, default=0) < 0 or sum(sizes) > MOST:
        raise MessageError(f"{type_name} of {sum(sizes)} bytes was announced, and {MOST} at most are taken")
    return {field.name: np.empty(length, field.dtype) for field, length in zip(known, lengths) if length}
