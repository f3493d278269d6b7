# SPDX-License-Identifier: Apache-2.0
"""Codecs: what makes a message of a value that a step publishes, and the value of a message that came.

A port names its codec, ``In("retina/spikes", codec="tensor:bool[*,64]")``, and what stands behind the colon is the
codec's own. The inbox has values then, and the outbox takes them:

=============  ===========================================================  =========================================
codec          a value                                                      a message
=============  ===========================================================  =========================================
``tensor``     numpy array; published, a tensor of torch too. May declare   ``brain_interfaces/msg/Tensor``
               dtype and shape: ``tensor:float32[*,3]``
``json``       what JSON can say: dict, list, str, float, int, bool         ``brain_interfaces/msg/Encoded``
``protobuf``   message of a generated class, which is named:                Encoded
               ``protobuf:google.protobuf.struct_pb2:Struct``
``bytes``      bytes                                                        Encoded
any other      what the entry point of that name in the group               Encoded
               ``brain.codecs`` makes of it; see :class:`Encoding`
=============  ===========================================================  =========================================

Nothing is pickled, and nothing that a message says is looked up: it must name the codec that the port has.
"""
from __future__ import annotations

import functools
import json
from typing import Any, Callable, Protocol

import numpy as np

from brain_runtime.command.lacking import lacks
from brain_wire import messages
from brain_wire.messages import MessageError

GROUP = "brain.codecs"      # of entry points
ENCODED = "brain_interfaces/msg/Encoded"
TENSOR = "brain_interfaces/msg/Tensor"
NAME = 128                  # bytes of a codec's name, as Encoded.msg bounds it
MOST_JSON = 1 << 20         # bytes of JSON: what is read takes up to some fifty times as much memory


class CodecError(MessageError):
    """A codec that is not there, a value that it cannot write, or bytes that it cannot read."""


class Encoding(Protocol):
    """Codec that an entry point of the group ``brain.codecs`` makes, called with what a port says behind the colon.

    Whatever the two functions raise costs that one message, at a receiver, or that step, at a publisher.

    Attributes:
        name: what messages call the codec; both ends must have the same. At most 128 bytes.
    """

    name: str

    def encode(self, value: Any) -> bytes:
        """A value as bytes."""

    def decode(self, data: bytes) -> Any:
        """The value in bytes that came from anywhere."""


class Codec(Protocol):
    """A codec as ports use it.

    Attributes:
        type: of the messages.
    """

    type: str

    def write(self, value: Any, **fields: Any) -> Any:
        """A message of a value; ``fields``: its other fields. Raises MessageError."""

    def read(self, message: Any) -> Any:
        """The value of a message from anywhere. Raises MessageError."""


class Carried:
    """A message with the value that a codec read of it, in an inbox. Has the message's fields too.

    Attributes:
        message: as it came.
        value: what it carries.
    """

    __slots__ = ("message", "value")

    def __init__(self, message: Any, value: Any) -> None:
        self.message, self.value = message, value

    def __getattr__(self, name: str) -> Any:
        return getattr(self.message, name)


def message_type(codec: str) -> str:
    """Type of a codec's messages, known before it is looked for."""
    return TENSOR if codec.partition(":")[0] == "tensor" else ENCODED


@functools.cache
def find(codec: str) -> Codec:
    """The codec that a port names.

    Raises:
        CodecError: there is none of that name, something that it needs is not installed, or what stands behind the
            colon does not suit it; says the remedy.
    """
    name, _, argument = codec.partition(":")
    if name == "tensor":
        from brain_runtime.contract.tensors import Declared     # whose definition most regions need not read
        return _Tensors(Declared(argument))
    try:
        encoding: Encoding = (_MAKERS[name] if name in _MAKERS else _installed(name))(argument)
        if not 0 < len(encoding.name.encode()) <= NAME:
            raise CodecError(f"it is called {encoding.name!r} in messages, where 1 to {NAME} bytes belong")
    except Exception as error:      # an entry point may raise anything
        raise CodecError(f"codec {codec!r} cannot be used: {error}") from error
    return _Encoded(encoding)


def _installed(name: str) -> Any:
    from importlib import metadata      # which hardly any region needs

    found = {point.name: point for point in metadata.entry_points(group=GROUP)}
    if name not in found:
        raise CodecError(f"there is no codec {name!r}; there are {', '.join(sorted({'tensor', *_MAKERS, *found}))}, "
                         f"and others are added by entry points of the group {GROUP}")
    return found[name].load()


class _Tensors:
    type = TENSOR

    def __init__(self, declared: Any) -> None:
        self.write, self.read = declared.tensor, declared.array


class _Encoded:
    type = ENCODED

    def __init__(self, encoding: Encoding) -> None:
        self._encoding = encoding

    def write(self, value: Any, **fields: Any) -> Any:
        encoding = self._encoding
        try:
            data = encoding.encode(value)
        except Exception as error:  # whatever a codec raises
            raise CodecError(f"codec {encoding.name} cannot write a {type(value).__name__}: {_said(error)}") from error
        return messages.make(ENCODED, codec=encoding.name, data=data, **fields)

    def read(self, message: Any) -> Any:
        encoding = self._encoding
        if message.codec != encoding.name:
            raise CodecError(f"it is in codec {message.codec!r}, and the port reads {encoding.name!r}")
        try:
            return encoding.decode(np.asarray(message.data, np.uint8).tobytes())
        except Exception as error:  # nothing that a peer sends costs more than that message
            raise CodecError(f"codec {encoding.name} cannot read {len(message.data)} bytes: {_said(error)}") from error


def _said(error: Exception) -> str:
    return str(error) if isinstance(error, CodecError) else f"{type(error).__name__}: {error}"


# -- those that come with it --------------------------------------------------------------------------------------


def _no_argument(name: str, argument: str) -> None:
    if argument:
        raise CodecError(f"nothing can be told to {name}; leave out {argument!r}")


class _Json:
    name = "json"

    def __init__(self, argument: str) -> None:
        _no_argument(self.name, argument)

    def encode(self, value: Any) -> bytes:
        data = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"),
                          default=_plain).encode()
        self._check(data)
        return data

    def decode(self, data: bytes) -> Any:
        self._check(data)
        return json.loads(data.decode(), parse_constant=_no_number)

    def _check(self, data: bytes) -> None:
        if len(data) > MOST_JSON:
            raise CodecError(f"{len(data)} bytes of JSON are more than the {MOST_JSON} that are taken; use tensor, "
                             f"protobuf or bytes for so much")


def _plain(value: Any) -> Any:
    """numpy's numbers and arrays as Python's."""
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    raise TypeError(f"JSON cannot say a {type(value).__name__}")


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no JSON")


class _Bytes:
    name = "bytes"

    def __init__(self, argument: str) -> None:
        _no_argument(self.name, argument)

    def encode(self, value: Any) -> bytes:
        if not isinstance(value, (bytes, bytearray, memoryview)):
            raise CodecError("give bytes, or another codec to the port")
        return bytes(value)

    def decode(self, data: bytes) -> bytes:
        return data


def _protobuf(argument: str) -> Encoding:
    try:
        from brain_runtime.contract.protobuf_codec import Protobuf
    except ModuleNotFoundError as missing:
        raise CodecError(lacks("protobuf")) from missing
    return Protobuf(argument)


_MAKERS: dict[str, Callable[[str], Encoding]] = {"json": _Json, "bytes": _Bytes, "protobuf": _protobuf}
