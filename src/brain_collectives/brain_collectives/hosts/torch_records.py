# SPDX-License-Identifier: Apache-2.0
"""Records: what a rank tells the others each time its region has done something, and how they wait for it.

A record is one row of numbers to every other rank: which topics were published, and when the region steps next. A rank
that hears one of these topics gets the messages behind it: arrays as tensors of their own, everything else as CDR
bytes. What of a type is an array, and of which numbers, both ends know from its definition; only lengths are sent.

All ranks count the records; one that is at another number runs other code, or steps in another order, and is named.
"""
from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any, Callable, Iterator, NamedTuple, Sequence

import numpy as np
from numpy.typing import NDArray

from brain_runtime.hosts.backends import GroupError
from brain_collectives.hosts.torch_group import Group
from brain_wire import cdr, messages
from brain_wire.definitions import Nodetype
from brain_wire.messages import MessageError

NUMBERS = 64                        # int64 in a row
_NUMBER, _STATUS, _COUNT, _IDLE, _NEXT, _HELD, _ENTRIES = range(7)
_WHOLE, _MORE, _FAILED = range(3)   # what the status says: that is all, another row follows, the region failed
_TEXT = -1                          # in place of a topic: JSON for the rank outside
WORTH = 512     # bytes of an array from which on it is sent by itself
MOST = 1 << 28  # bytes of one message that a rank makes room for


class Standing(NamedTuple):
    """State of a region in the schedule after what it did: see :class:`brain_runtime.hosts.schedule.Scheduled`."""

    idle: bool
    next_tick: float
    held_until: float


class Record(NamedTuple):
    """Record that another rank sent.

    Attributes:
        said: topics and messages; None in place of messages that this rank does not hear.
        standing: of its region.
        text: JSON, or why the region failed.
        failed: it did.
    """

    said: list[tuple[str, Any]]
    standing: Standing
    text: str
    failed: bool


class Topics:
    """The topics of all regions, by the same numbers on each rank.

    Attributes:
        names: in the order of their numbers.
        numbers, types: by name.
        latched: topics that whoever comes late hears too; their messages go to all ranks.
    """

    def __init__(self) -> None:
        self.number({}, frozenset())

    def number(self, types: dict[str, str], latched: frozenset[str]) -> None:
        """Takes over which topics there are."""
        self.names = sorted(types)
        self.types, self.latched = types, latched
        self.numbers = {name: number for number, name in enumerate(self.names)}


class _Entry(NamedTuple):
    """A message in a row, or text.

    Attributes:
        topic: its number.
        rest: CDR bytes of the message without the arrays that travel by themselves.
        lengths: elements of each of :func:`array_fields`; 0: it is in ``rest``, or empty.
        arrays: those that travel by themselves.
        to: the ranks that hear it.
    """

    topic: int
    rest: bytes
    lengths: tuple[int, ...]
    arrays: tuple[NDArray[Any], ...]
    to: frozenset[int]

    @property
    def size(self) -> int:
        """Numbers that it takes in a row."""
        return 2 + len(self.lengths)


class Records:
    """Sends and receives the records of one brain.

    Args:
        group: of the ranks.
        topics: of all regions.
        hears: whether a rank hears a topic.
    """

    def __init__(self, group: Group, topics: Topics, hears: Callable[[int, str], bool]) -> None:
        self._group, self._topics, self._hears = group, topics, hears
        self._number = 0

    def _to(self, topic: str, rank: int) -> bool:
        """Tells whether the messages of a topic go to a rank."""
        return topic in self._topics.latched or self._hears(rank, topic)

    # -- telling -----------------------------------------------------------------------------------------------------

    def tell(self, said: Sequence[tuple[str, Any]], standing: Standing, text: str = "", failed: bool = False) -> None:
        """Tells what the own region has done.

        Args:
            said: topics and messages, in the order in which they were published.
            standing: of the region.
            text: JSON for the rank outside, or why the region failed, for all; empty: none.
            failed: it did.

        Raises:
            GroupError: a rank is lost. MessageError: a message cannot be encoded.
        """
        others = frozenset(range(self._group.size)) - {self._group.rank}
        entries = [_Entry(self._topics.numbers[topic], *apart(message),
                          frozenset(rank for rank in others if self._to(topic, rank))) for topic, message in said]
        if text:
            entries.append(_Entry(_TEXT, text.encode(errors="replace"), (), (), others if failed else frozenset((0,))))
        rows: list[list[_Entry]] = [[]]
        for entry in entries:
            if sum(e.size for e in rows[-1]) + entry.size > NUMBERS - _ENTRIES:
                rows.append([])
            rows[-1].append(entry)
        for row in rows:
            self._send(row, standing, _MORE if row is not rows[-1] else _FAILED if failed else _WHOLE)

    def _send(self, row: list[_Entry], standing: Standing, status: int) -> None:
        numbers = np.zeros(NUMBERS, np.int64)
        numbers[[_NUMBER, _STATUS, _COUNT, _IDLE]] = self._number, status, len(row), standing.idle
        numbers[[_NEXT, _HELD]] = np.array([standing.next_tick, standing.held_until]).view(np.int64)
        at = _ENTRIES
        for entry in row:
            numbers[at:at + entry.size] = [entry.topic, len(entry.rest), *entry.lengths]
            at += entry.size
        self._number += 1
        self._group.spread(numbers, self._group.rank)
        for rank in range(self._group.size):
            for_it = [entry for entry in row if rank in entry.to]
            if for_it:
                self._group.send(np.frombuffer(b"".join(entry.rest for entry in for_it), np.uint8), rank)
                for entry in for_it:
                    for array in entry.arrays:
                        self._group.send(array, rank)

    # -- following -----------------------------------------------------------------------------------------------------

    def follow(self, source: int) -> Record:
        """Waits for what another rank tells: what :meth:`tell` was given there.

        Raises:
            GroupError: the rank is lost, or at something else. MessageError: a message cannot be read.
        """
        said: list[tuple[str, Any]] = []
        text = ""
        while True:
            numbers = np.empty(NUMBERS, np.int64)
            self._group.spread(numbers, source)
            if numbers[_NUMBER] != self._number or not 0 <= numbers[_COUNT] <= NUMBERS:
                raise GroupError(f"{self._group.names[source]} is at record {numbers[_NUMBER]}, where "
                                 f"{self._group.names[self._group.rank]} is at {self._number}; the ranks run other "
                                 f"code, or were not started together")
            self._number += 1
            failed = bool(numbers[_STATUS] == _FAILED)
            for topic, content in self._receive(numbers, source, failed):
                if topic:
                    said.append((topic, content))
                else:
                    text = content or text
            if numbers[_STATUS] != _MORE:
                next_tick, held_until = numbers[[_NEXT, _HELD]].view(np.float64)
                return Record(said, Standing(bool(numbers[_IDLE]), float(next_tick), float(held_until)), text, failed)

    def _receive(self, numbers: np.ndarray, source: int, failed: bool) -> Iterator[tuple[str, Any]]:
        """Yields topics and messages of one row; an empty topic: text. None is what this rank does not hear."""
        topics, me, at = self._topics, self._group.rank, _ENTRIES
        announced: list[tuple[str, int, list[int], bool]] = []
        for _ in range(numbers[_COUNT]):
            number, size = int(numbers[at]), int(numbers[at + 1])
            name = topics.names[number] if 0 <= number < len(topics.names) else ""
            count = len(array_fields(topics.types[name])) if name else 0
            mine = self._to(name, me) if name else failed or me == 0
            announced.append((name, size, numbers[at + 2:at + 2 + count].tolist(), mine))
            at += 2 + count
        rests = np.empty(sum(size for _, size, _, mine in announced if mine), np.uint8)
        if any(mine for *_, mine in announced):
            self._group.receive(rests, source)
        begin = 0
        for name, size, lengths, mine in announced:
            if not mine:
                yield name, None
                continue
            rest = rests[begin:begin + size].tobytes()
            begin += size
            if not name:
                yield name, rest.decode(errors="replace")
                continue
            message, arrays = messages.decode(rest, topics.types[name]), room(topics.types[name], lengths)
            for field, array in arrays.items():
                self._group.receive(array, source)
                setattr(message, field, array)
            yield name, message


# -- messages and their arrays ----------------------------------------------------------------------------------------


@functools.cache
def array_fields(type_name: str) -> dict[str, np.dtype[Any]]:
    """The arrays of any length that a message has itself, in the order of its fields: their names and numbers."""
    return {name: np.dtype(cdr.FORMATS[detail[0][1][0]]) for name, (kind, detail) in messages.fields_of(type_name)
            if kind == Nodetype.SEQUENCE and detail[0][0] == Nodetype.BASE and detail[0][1][0] != "string"}


def apart(message: Any) -> tuple[bytes, tuple[int, ...], tuple[NDArray[Any], ...]]:
    """Takes a message apart into ``rest``, ``lengths`` and ``arrays`` of an entry.

    Raises:
        MessageError: it cannot be encoded.
    """
    alone, lengths = {}, []
    for name, dtype in array_fields(messages.type_name(message)).items():
        value = np.asarray(getattr(message, name))
        is_alone = value.nbytes >= WORTH and value.ndim == 1
        lengths.append(len(value) if is_alone else 0)
        if is_alone:
            alone[name] = np.require(value, dtype, ["C", "W"])     # as torch takes it, once for all who hear it
    if alone:
        message = replace(message, **{name: value[:0] for name, value in alone.items()})
    return messages.encode(message), tuple(lengths), tuple(alone.values())


def room(type_name: str, lengths: list[int]) -> dict[str, NDArray[Any]]:
    """Arrays to receive into, by field.

    Raises:
        MessageError: there are more bytes than :data:`MOST`, or less than none.
    """
    known = array_fields(type_name)
    sizes = [length * dtype.itemsize for length, dtype in zip(lengths, known.values())]
    if min(lengths, default=0) < 0 or sum(sizes) > MOST:
        raise MessageError(f"{type_name} of {sum(sizes)} bytes was announced, and {MOST} at most are taken")
    return {name: np.empty(length, dtype) for (name, dtype), length in zip(known.items(), lengths) if length}
