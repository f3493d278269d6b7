# SPDX-License-Identifier: Apache-2.0
"""The format on the wire: JSON, held to the schemas beside this file before anything of it is used.

JSON, since bodies are what people write in YAML and read in a log, since the standard library reads it in C without a
further package on a robot, and since with batches its size is not what limits: a disk that confirms each batch is.
"""
from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Iterable, Mapping

from brain_edge.schema import FormProblem, check, check_plain, load_schema, read_json

# Formats that are read and written here. 2: an end says which it reads. 3: a robot says which installation it is, and
# the cloud which one it means. Each end writes the newest that both know.
OLDEST, NEWEST = 1, 3
BODY = 256 * 1024           # bytes of one message's body
BODY_DEEPEST = 24           # lists and objects within each other in a body
BODY_VALUES = 20_000
BATCH = 512 * 1024          # bytes of bodies in one delivery, or one message
MOST = 500                  # messages in one delivery
TAKEN = 2 * MOST            # messages, and places of those that are gone, that are read of one delivery
REQUEST = 2**20             # bytes of a delivery that are read at all
ANSWER = 2**20
VALUES = BATCH // 2 + 10 * TAKEN    # no delivery of ours holds more: a value has two characters at least
WHY = 500                   # characters of a reason


@dataclass(frozen=True)
class Position:
    """A place in a stream: the message with this number, and what it was named. 0: before the first."""

    seq: int = 0
    id: str = ""


@dataclass(frozen=True)
class Entry:
    """A message; or, where ``gone`` says why, messages that need not be delivered any more.

    Attributes:
        seq: number in its stream, without gaps, from 1; of the first where several are gone.
        to: number of the last.
        id: drawn when the (last) message was put in: another message with this number has another.
        kind, body: what it is, and its text in JSON when sent, plain values when received.
        gone: why; None for a message.
    """

    seq: int
    to: int
    id: str
    kind: str = ""
    body: Any = None
    gone: str | None = None


@dataclass(frozen=True)
class Portion:
    """Messages of one stream, in order, and the place that they follow."""

    stream: str
    after: Position
    entries: list[Entry]


@dataclass(frozen=True)
class Request:
    """A delivery.

    Attributes:
        format: that it is written in.
        formats: that its sender reads, from and to; None: that one only.
        installation: of the robot that sends it, or that it is meant for; None: any, or the format has none.
    """

    sender: str
    to: str
    incarnation: str
    epoch: str | None
    portions: list[Portion] = field(default_factory=list)
    apart: str | None = None
    software: str = ""
    format: int = NEWEST
    formats: tuple[int, int] | None = (OLDEST, NEWEST)
    installation: str | None = None


@dataclass(frozen=True)
class Answer:
    """An acknowledgement; ``applied`` has every stream of which anything was applied. In the format of the delivery."""

    sender: str
    to: str
    incarnation: str
    epoch: str | None
    applied: Mapping[str, Position] = field(default_factory=dict)
    refused: list[tuple[str, int, str]] = field(default_factory=list)
    found: bool = False
    apart: str | None = None
    wait: float = 0.0
    why: str = ""
    software: str = ""
    format: int = OLDEST
    formats: tuple[int, int] | None = None


def body_text(body: Mapping[str, Any]) -> str:
    """A body as it is kept and sent.

    Raises:
        FormProblem: it is too large, nested too deep, or holds what JSON has not.
    """
    try:
        text = json.dumps(body, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise FormProblem(f"a message cannot be written as JSON: {error}") from None
    if not isinstance(body, dict):
        raise FormProblem("the body of a message must be an object")
    if len(text) > BODY:
        raise FormProblem(f"a message of {len(text)} bytes is too large: at most {BODY} are taken")
    check_plain(body, BODY_DEEPEST, BODY_VALUES)
    return text


def _place(position: Position) -> dict[str, Any]:
    return {"seq": position.seq, "id": position.id}


def write_request(request: Request) -> bytes:
    """The bytes of a delivery; bodies are put in as the texts that they are."""
    streams = []
    for portion in request.portions:
        entries = [
            f'{{"seq":{e.seq},"id":"{e.id}","kind":"{e.kind}","body":{e.body}}}' if e.gone is None else
            f'{{"seq":{e.seq},"to":{e.to},"id":"{e.id}","gone":"{e.gone}"}}' for e in portion.entries]
        streams.append(f'{{"stream":"{portion.stream}","after":{json.dumps(_place(portion.after))},"entries":'
                       f'[{",".join(entries)}]}}')
    head: dict[str, Any] = {"format": request.format, "from": request.sender, "to": request.to,
                            "software": request.software, "incarnation": request.incarnation, "epoch": request.epoch,
                            **_formats(request.format)}
    if request.apart is not None:
        head["apart"] = request.apart[:WHY]
    if request.installation is not None and request.format >= 3:
        head["installation"] = request.installation
    return f'{json.dumps(head)[:-1]}, "streams": [{",".join(streams)}]}}'.encode()


def read_request(data: bytes) -> Request:
    """A delivery, checked.

    Raises:
        FormProblem: see there.
    """
    found = _read(data, REQUEST, "request")
    count = sum(len(stream["entries"]) for stream in found["streams"])
    if count > TAKEN:
        raise FormProblem(f"it has {count} messages, and at most {TAKEN} are taken")
    portions = []
    for stream in found["streams"]:
        entries = [_entry(entry, stream["stream"]) for entry in stream["entries"]]
        for before, entry in zip(entries, entries[1:]):
            if entry.seq != before.to + 1:
                raise FormProblem(f"stream {stream['stream']}: {entry.seq} follows {before.to}")
        after = Position(stream["after"]["seq"], stream["after"]["id"])
        if entries and entries[0].seq != after.seq + 1:
            raise FormProblem(f"stream {stream['stream']}: {entries[0].seq} follows {after.seq}")
        portions.append(Portion(stream["stream"], after, entries))
    if len({portion.stream for portion in portions}) < len(portions):
        raise FormProblem("a stream stands twice in it")
    return Request(found["from"], found["to"], found["incarnation"], found["epoch"], portions, found.get("apart"),
                   found.get("software", ""), found["format"], _read_formats(found), found.get("installation"))


def _entry(found: Mapping[str, Any], stream: str) -> Entry:
    seq, gone = found["seq"], found.get("gone")
    if gone is None:
        if "kind" not in found or "body" not in found or "to" in found:
            raise FormProblem(f"message {seq} of stream {stream} must have kind and body, or say why it is gone")
        return Entry(seq, seq, found["id"], found["kind"], found["body"])
    to = found.get("to", seq)
    if "kind" in found or "body" in found or to < seq:
        raise FormProblem(f"message {seq} of stream {stream} is gone, so it has no kind and no body, and ends behind "
                          f"its begin")
    return Entry(seq, to, found["id"], gone=gone)


def write_answer(answer: Answer) -> bytes:
    """The bytes of an acknowledgement."""
    found: dict[str, Any] = {
        "format": answer.format, "from": answer.sender, "to": answer.to, "software": answer.software,
        "incarnation": answer.incarnation, "epoch": answer.epoch,
        "applied": {stream: _place(position) for stream, position in answer.applied.items()},
        **_formats(answer.format)}
    if answer.refused:
        found["refused"] = [{"stream": stream, "seq": seq, "why": why[:WHY]} for stream, seq, why in answer.refused]
    if answer.found:
        found["found"] = True
    if answer.apart is not None:
        found["apart"] = answer.apart[:WHY]
    if answer.wait:
        found.update(wait=answer.wait, why=answer.why[:WHY])
    return json.dumps(found).encode()


def read_answer(data: bytes) -> Answer:
    """An acknowledgement, checked.

    Raises:
        FormProblem: see there.
    """
    found = _read(data, ANSWER, "answer")
    return Answer(
        found["from"], found["to"], found["incarnation"], found["epoch"],
        {stream: Position(place["seq"], place["id"]) for stream, place in found["applied"].items()},
        [(one["stream"], one["seq"], one["why"]) for one in found.get("refused", ())], found.get("found", False),
        found.get("apart"), float(found.get("wait", 0.0)), found.get("why", ""), found.get("software", ""),
        found["format"], _read_formats(found))


def _read(data: bytes, longest: int, schema: str) -> Any:
    found = read_json(data, longest, VALUES)
    if isinstance(found, dict) and isinstance(found.get("format"), int) and not OLDEST <= found["format"] <= NEWEST:
        reads = f"format {NEWEST}" if OLDEST == NEWEST else f"formats {OLDEST} to {NEWEST}"
        raise FormProblem(f"it is of format {found['format']}, and this software reads {reads}: update the software "
                          f"{'here' if found['format'] > NEWEST else 'where it comes from'}")
    check(found, load_schema("brain_edge.messages", schema))
    if found["format"] < 2 and "formats" in found:
        raise FormProblem("it has no field 'formats' in format 1")
    if found["format"] < 3 and "installation" in found:
        raise FormProblem(f"it has no field 'installation' in format {found['format']}")
    return found


def _formats(written: int) -> dict[str, Any]:
    return {"formats": [OLDEST, NEWEST]} if written >= 2 else {}


def _read_formats(found: Mapping[str, Any]) -> tuple[int, int] | None:
    oldest, newest = found.get("formats", (found["format"],) * 2)
    if not oldest <= found["format"] <= newest:
        raise FormProblem("it is of a format that its sender does not read")
    return (oldest, newest) if "formats" in found else None


def gone_in_one(rows: Iterable[Entry]) -> list[Entry]:
    """Entries in order, those that are gone for one reason and follow each other in one."""
    found: list[Entry] = []
    for entry in rows:
        if found and entry.gone is not None and found[-1].gone == entry.gone:
            entry = Entry(found.pop().seq, entry.to, entry.id, gone=entry.gone)
        found.append(entry)
    return found
