# SPDX-License-Identifier: Apache-2.0
"""Frames between a robot and the aggregator: a JSON object held to a schema, and bytes behind it.

Four bytes say how long the object is (most significant first). A robot asks, and the aggregator answers; each question
can be asked again without harm, so a link that is cut at any moment costs another try.
"""
from __future__ import annotations

import json
from typing import Any, Mapping, NamedTuple

from brain_fleet.schema import FormProblem, check, load_schema, read_json

FORMAT = 1
CHUNK = 512 * 1024      # bytes of weights in one frame
HEAD = 32 * 1024        # bytes of the object
LONGEST = 4 + HEAD + CHUNK


class Frame(NamedTuple):
    """An object, and the bytes behind it."""

    head: dict[str, Any]
    data: bytes = b""


def write(head: Mapping[str, Any], data: bytes = b"") -> bytes:
    """The bytes of a frame."""
    text = json.dumps({"format": FORMAT, **head}, separators=(",", ":"), allow_nan=False).encode()
    return len(text).to_bytes(4, "big") + text + data


def read(payload: bytes, schema: str) -> Frame:
    """A frame from bytes.

    Args:
        schema: ``question`` or ``reply``.

    Raises:
        FormProblem: it is none, or not of this format.
    """
    if len(payload) > LONGEST:
        raise FormProblem(f"it has {len(payload)} bytes, and at most {LONGEST} are taken")
    size = int.from_bytes(payload[:4], "big")
    if len(payload) < 4 or size > min(HEAD, len(payload) - 4):
        raise FormProblem("it is no frame")
    head = read_json(payload[4:4 + size], HEAD, 1000)
    if isinstance(head, dict) and isinstance(head.get("format"), int) and head["format"] != FORMAT:
        raise FormProblem(f"it is of format {head['format']}, and this software knows {FORMAT}; install the same "
                          f"version of brain_fleet on robots and cloud")
    check(head, load_schema("brain_fleet.federated", schema))
    return Frame(head, payload[4 + size:])
