# SPDX-License-Identifier: Apache-2.0
"""Questions of a robot to the aggregator, and answers: JSON objects, each held to a schema.

A robot of the release before sends frames: four bytes of the object's length (most significant first), the object, and
bytes of weights behind it; it is answered in the same form. Those of this release carry weights as blobs.
"""
from __future__ import annotations

import json
from typing import Any, Mapping, NamedTuple

from brain_edge.schema import FormProblem, check, load_schema, read_json

FORMAT = 1
CHUNK = 512 * 1024      # bytes of weights in a frame
HEAD = 32 * 1024        # bytes of the object
LONGEST = 4 + HEAD + CHUNK


class RoundMessage(NamedTuple):
    """An object; in a frame, also the bytes behind it."""

    head: dict[str, Any]
    data: bytes = b""
    framed: bool = False


def write(head: Mapping[str, Any], data: bytes = b"", framed: bool = False) -> bytes:
    """The bytes of a question or an answer."""
    text = json.dumps({"format": FORMAT, **head}, separators=(",", ":"), allow_nan=False).encode()
    return len(text).to_bytes(4, "big") + text + data if framed else text


def read(payload: bytes, schema: str) -> RoundMessage:
    """A question or an answer from bytes.

    Args:
        schema: ``question`` or ``reply``.

    Raises:
        FormProblem: it is none, or not of this format.
    """
    if len(payload) > LONGEST:
        raise FormProblem(f"it has {len(payload)} bytes, and at most {LONGEST} are taken")
    framed = payload[:1] != b"{"
    text, data = payload, b""
    if framed:
        size = int.from_bytes(payload[:4], "big")
        if len(payload) < 4 or size > min(HEAD, len(payload) - 4):
            raise FormProblem("it is neither an object nor a frame")
        text, data = payload[4:4 + size], payload[4 + size:]
    head = read_json(text, HEAD, 1000)
    if isinstance(head, dict) and isinstance(head.get("format"), int) and head["format"] != FORMAT:
        raise FormProblem(f"it is of format {head['format']}, and this software knows {FORMAT}; install the same "
                          f"version of the software on robots and cloud")
    check(head, load_schema("brain_cloud.federated", schema))
    return RoundMessage(head, data, framed)
