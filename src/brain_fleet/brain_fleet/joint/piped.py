# SPDX-License-Identifier: Apache-2.0
"""Frames on a pipe: four bytes of length, the most significant first, and as many bytes."""
from __future__ import annotations

from typing import IO

LONGEST = 1 << 20   # bytes of a frame


def read(stream: IO[bytes]) -> bytes | None:
    """The next frame; None at the end, or where what comes is no frame."""
    head = stream.read(4)
    size = int.from_bytes(head, "big")
    if len(head) < 4 or size > LONGEST:
        return None
    data = stream.read(size)
    return data if len(data) == size else None


def write(stream: IO[bytes], data: bytes) -> None:
    """Writes a frame."""
    stream.write(len(data).to_bytes(4, "big") + data)
    stream.flush()
