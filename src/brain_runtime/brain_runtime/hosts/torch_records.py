# SPDX-License-Identifier: Apache-2.0
"""Records: what a rank tells the others each time its region has done something, and how they wait for it.

A record is one row of numbers to every other rank: which topics were published, and when the region steps next. A rank
that hears one of these topics gets the messages behind it. All ranks count the records; one that is at another number
runs other code, or steps in another order, and is named.
"""
from __future__ import annotations

from typing import Any, Callable, NamedTuple, Sequence

import numpy as np

from brain_runtime.hosts.group_error import GroupError
from brain_runtime.hosts.torch_group import Group
from brain_runtime.hosts.torch_parcel import array_fields, pack, room, unpack

NUMBERS = 64                        # int64 in a row
_NUMBER, _STATUS, _COUNT, _IDLE, _NEXT, _HELD, _ENTRIES = range(7)
_WHOLE, _MORE, _FAILED = range(3)   # what the status says: that is all, another row follows, the region failed
_TEXT = -1                          # in place of a topic: JSON for the rank outside


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
        entries = [self._entry(topic, message) for topic, message in said]
        if text:
            to = frozenset(range(self._group.size)) if failed else frozenset((0,))
            entries.append(_Entry(_TEXT, text.encode(errors="replace"), (), (), to - {self._group.rank}))
        rows: list[list[_Entry]] = [[]]
        for entry in entries:
            if sum(e.size for e in rows[-1]) + entry.size > NUMBERS - _ENTRIES:
                rows.append([])
            rows[-1].append(entry)
        last = _FAILED if failed else _WHOLE
        for number, row in enumerate(rows):
            self._send(row, standing, last if number == len(rows) - 1 else _MORE)

    def _entry(self, topic: str, message: Any) -> _Entry:
        others = (rank for rank in range(self._group.size) if rank != self._group.rank)
        to = frozenset(rank for rank in others if topic in self._topics.latched or self._hears(rank, topic))
        parcel = pack(message)
        return _Entry(self._topics.numbers[topic], parcel.rest, parcel.lengths, parcel.arrays, to)

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
                self._group.send(np.frombuffer(b"".join(entry.rest for entry in for_it), np.uint8).copy(), rank)
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
            for topic, message in self._receive(numbers, source, failed := numbers[_STATUS] == _FAILED):
                if topic:
                    said.append((topic, message))
                else:
                    text = message
            if numbers[_STATUS] != _MORE:
                next_tick, held_until = numbers[[_NEXT, _HELD]].view(np.float64)
                return Record(said, Standing(bool(numbers[_IDLE]), float(next_tick), float(held_until)), text,
                              bool(failed))

    def _receive(self, numbers: np.ndarray, source: int, failed: bool) -> list[tuple[str, Any]]:
        """Topics and messages of one row; an empty topic: text."""
        topics, me, at = self._topics, self._group.rank, _ENTRIES
        announced: list[tuple[str, int, list[int], bool]] = []
        for _ in range(numbers[_COUNT]):
            number, size = int(numbers[at]), int(numbers[at + 1])
            name = topics.names[number] if 0 <= number < len(topics.names) else ""
            fields = array_fields(topics.types[name]) if name else ()
            lengths = [int(length) for length in numbers[at + 2:at + 2 + len(fields)]]
            at += 2 + len(fields)
            mine = (name in topics.latched or self._hears(me, name)) if name else failed or me == 0
            announced.append((name, size, lengths, mine))
        rests = np.empty(sum(size for _, size, _, mine in announced if mine), np.uint8)
        if any(mine for *_, mine in announced):
            self._group.receive(rests, source)
        found: list[tuple[str, Any]] = []
        begin = 0
        for name, size, lengths, mine in announced:
            if not mine:
                if name:
                    found.append((name, None))
                continue
            rest = rests[begin:begin + size].tobytes()
            begin += size
            if not name:
                found.append(("", rest.decode(errors="replace")))
                continue
            arrays = room(topics.types[name], lengths)
            for array in arrays.values():
                self._group.receive(array, source)
            found.append((name, unpack(topics.types[name], rest, arrays)))
        return found


class _Entry(NamedTuple):
    topic: int
    rest: bytes
    lengths: tuple[int, ...]
    arrays: tuple[Any, ...]
    to: frozenset[int]

    @property
    def size(self) -> int:
        """Numbers that it takes in a row."""
        return 2 + len(self.lengths)
