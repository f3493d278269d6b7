# SPDX-License-Identifier: Apache-2.0
"""The 33 bytes that go with every sample: who published it, as which of its messages, and when."""
from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:   # who only counts messages needs no Zenoh
    import zenoh

SIZE = 33
GID_SIZE = 16
LAYOUT = struct.Struct("<qqB16s")     # sequence, source timestamp (ns), GID_SIZE, gid


class AttachmentProblem(ValueError):
    """The bytes are not an attachment of rmw_zenoh."""


class Attachment(NamedTuple):
    """Attachment of a message: its sequence number, time and publisher.

    Attributes:
        sequence: number of the message, counted from 1 by its publisher.
        source_timestamp: ns since the epoch, on the publisher's clock.
        gid: global id of the publisher, 16 bytes.
    """

    sequence: int
    source_timestamp: int
    gid: bytes

    def __bytes__(self) -> bytes:
        return pack(self.sequence, self.source_timestamp, self.gid)


def pack(sequence: int, source_timestamp: int, gid: bytes) -> bytes:
    """The attachment's 33 bytes."""
    return LAYOUT.pack(sequence, source_timestamp, GID_SIZE, gid)


def unpack(data: bytes) -> Attachment:
    """Unpacks the 33 bytes of an attachment.

    Raises:
        AttachmentProblem: they are not 33 bytes in that layout (versions before rmw_zenoh 0.6 wrote another).
    """
    if len(data) != SIZE or data[16] != GID_SIZE:
        raise AttachmentProblem(
            f"an attachment of {len(data)} bytes that is none of rmw_zenoh's of {SIZE}; the publisher must use "
            "rmw_zenoh 0.2.4 (jazzy), 0.6 (kilted) or newer, or this package")
    sequence, timestamp, _, gid = LAYOUT.unpack(data)
    return Attachment(sequence, timestamp, gid)


def read(attachment: zenoh.ZBytes) -> Attachment:
    """:func:`unpack` for what Zenoh hands over; of what has another length, nothing is copied.

    Raises:
        AttachmentProblem: as :func:`unpack`.
    """
    return unpack(attachment.to_bytes() if len(attachment) == SIZE else bytes(min(len(attachment), SIZE + 1)))
