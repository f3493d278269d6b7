# SPDX-License-Identifier: Apache-2.0
"""The codec ``protobuf`` of ports, for where the package protobuf is installed."""
from __future__ import annotations

from typing import Any

from google.protobuf.message import Message

from brain_runtime.contract import declared


class Protobuf:
    """Reads and writes messages of one generated class; an :class:`.port_codecs.Encoding`.

    Args:
        argument: ``package.module:Name`` of the class.

    Raises:
        ValueError: it is none. ImportError: there is no such module.
    """

    def __init__(self, argument: str) -> None:
        if not argument:
            raise ValueError("name the message's class, as protobuf:google.protobuf.struct_pb2:Struct")
        found = declared.named(argument, "it")
        fits = isinstance(found, type) and issubclass(found, Message)
        if not fits:
            raise ValueError(f"{argument} is no class of a protobuf message; name one that protoc has generated")
        self._class, self._called = found, found.DESCRIPTOR.full_name
        self.name = f"protobuf:{self._called}"      # as every language calls it

    def encode(self, value: Any) -> bytes:
        """The bytes of a message. Raises ValueError for anything else."""
        if not isinstance(value, self._class):
            raise ValueError(f"give a {self._called}")
        return value.SerializeToString()

    def decode(self, data: bytes) -> Any:
        """The message in bytes. Raises ``google.protobuf.message.DecodeError``."""
        return self._class.FromString(data)
