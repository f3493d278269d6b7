# SPDX-License-Identifier: Apache-2.0
"""One group on the wire: its mailbox, and what its members tell each other beside data.

Every message of a collective carries what its sender calls. It is compared with what this rank calls under the same
number, when it arrives or when this rank gets there. Who waits for longer than ``ASK_AFTER`` tells those it waits for
what it calls, so that calls that differ are found where nobody has sent anything yet, and messages that a link took
with it are sent again.
"""
from __future__ import annotations

import threading
import time
from typing import Any, Callable, Iterable

import zenoh

from brain_collectives.errors import CallsDiffer, Closed, CollectiveError, LinkLost, RankDied, TooLate
from brain_collectives.header import (LOST, Call, Header, What, group_id, packed, read_difference, unpacked,
                                      write, write_difference)
from brain_collectives.link import Link, named
from brain_collectives.mailboxes import Key, Mailbox, Receive
from brain_collectives.settings import KEEP_VARIABLE

ASK_AFTER = 0.1     # s of waiting after which a rank tells what it waits for
ASK_EVERY = 1.0     # s between doing so again

Asked = Callable[[Header, zenoh.ZBytes], None]


class Group:
    """A group of ranks, as one of them sees it.

    Args:
        link: of this process.
        name: the same at all members, and of no other group of the link.
        members: their ranks in the default group, in the order of their ranks in this one.
        epoch: how often the group was shrunk.

    Attributes:
        rank: own rank in the group.
        number: of the group on the wire.
        mailbox: of what has arrived.
        on_vote: takes what members propose after a death (`brain_collectives.shrink`); None: kept in ``votes``.
    """

    def __init__(self, link: Link, name: str, members: tuple[int, ...], epoch: int = 0) -> None:
        self.link, self.name, self.members, self.epoch = link, name, members, epoch
        self.size = len(members)
        self.rank = members.index(link.rank)
        self.number = group_id(f"{name}/{epoch}/{members}")
        self.mailbox = Mailbox(members)
        self.votes: list[tuple[Header, bytes]] = []
        self.on_vote: Asked | None = None
        self._sending = threading.Lock()        # point to point: two threads may send at once
        self._sent_points: dict[int, int] = {}
        self._losses = 0
        link.add(self)

    # Sending and waiting

    def send(self, ranks: Iterable[int], sequence: int, phase: int, call: bytes, payload: Any) -> None:
        """Sends data of a call to ranks of this group; to itself nothing."""
        self.check()
        header = write(What.DATA, self.link.rank, group=self.number, epoch=self.epoch, sequence=sequence, phase=phase,
                       call=call)
        self.link.send(tuple(self.members[rank] for rank in ranks), header, payload,
                       (self.number, What.DATA, sequence, phase))

    def send_point(self, rank: int, tag: int, call: bytes, payload: Any) -> None:
        """Sends data to one rank of this group."""
        self.check()
        to = self.members[rank]
        with self._sending:
            number = self._sent_points.get(to, 0)
            header = write(What.POINT, self.link.rank, group=self.number, epoch=self.epoch, sequence=number, phase=tag,
                           call=call)
            self.link.send((to,), header, payload, (self.number, What.POINT, number))
            self._sent_points[to] = number + 1

    def wait(self, sequence: int, keys: list[Key], call: Call, deadline: float, timeout: float) -> None:
        """Waits for messages of a call.

        Args:
            deadline: on the steady clock (s), which is ``timeout`` s after the call began.

        Raises:
            TooLate: not all came; names who is missing, or has left.
            CollectiveError: the group has failed.
        """
        asked = time.monotonic() + ASK_AFTER
        while True:
            missing = self.mailbox.wait(sequence, keys, min(asked, deadline))
            if not missing:
                return
            sources = sorted({source for _, source in missing})
            gone = [source for source in sources if source in self.mailbox.left]
            if gone:
                # What they sent last may have come since the look: it comes before they are known to have left.
                missing = self.mailbox.wait(sequence, keys, 0.0)
                gone = sorted({source for _, source in missing} & set(gone))
                if not gone:
                    continue
                raise TooLate(f"{self.call_them(gone)} closed the group, or ended, and did not take part in {call} "
                              f"(call {sequence} of {self.title})", tuple(gone))
            now = time.monotonic()
            if now >= deadline:
                raise self.too_late(sources, f"{call} (call {sequence} of {self.title})", timeout)
            if now >= asked:
                flags = LOST if self._losses else 0
                for phase, source in sorted(missing):
                    self.link.send((source,), write(
                        What.WAITING, self.link.rank, group=self.number, epoch=self.epoch, sequence=sequence,
                        phase=phase, call=packed(call), flags=flags))
                asked = now + ASK_EVERY

    def wait_for(self, receive: Receive, what: str, deadline: float, timeout: float) -> None:
        """Waits until a receive has its message.

        Raises:
            TooLate, CollectiveError: as :meth:`wait`.
        """
        asked = time.monotonic() + ASK_AFTER
        while not receive.wait(min(asked, deadline) - time.monotonic()):
            sources = [receive.source] if receive.source is not None else [m for m in self.members
                                                                           if m != self.link.rank]
            failure = self.mailbox.failure
            now = time.monotonic()
            if failure is None and set(sources) <= self.mailbox.left:
                failure = TooLate(f"{self.call_them(sources)} closed the group, or ended, and sent nothing for {what}",
                                  tuple(sources))
            if failure is None and now >= deadline:
                failure = self.too_late(sources, what, timeout)
            if failure is not None:
                self.mailbox.withdraw(receive)
                if receive.header is None:      # it may have come at the last moment
                    raise failure
                return
            if now >= asked:
                # Again and again: the question may be lost as well, where the other's link is not back yet.
                for source in sources if self._losses else ():
                    self._ask_for_point(source)
                asked = now + ASK_EVERY

    def _ask_for_point(self, source: int) -> None:
        self.link.send((source,), write(
            What.WAITING, self.link.rank, group=self.number, epoch=self.epoch,
            sequence=self.mailbox.next_point(source), call=packed(Call("send")), flags=LOST))

    def check(self) -> None:
        """Raises why the group is of no more use, if it is."""
        if self.mailbox.failure is not None:
            raise self.mailbox.failure.with_traceback(None)

    def begin(self, sequence: int, call: Call) -> None:
        """Says what this rank calls.

        Raises:
            CallsDiffer: another rank has called something else.
        """
        for header in self.mailbox.begin(sequence, packed(call)):
            self._differ(header)
        self.check()

    # What comes: data in Zenoh's thread, all else in that of the membership

    def receive(self, header: Header, payload: zenoh.ZBytes) -> None:
        """Takes a message.

        Raises:
            Malformed: it does not read.
        """
        if header.epoch != self.epoch:
            return
        if header.what == What.DATA:
            if not self.mailbox.put(header, payload):
                self.link.membership.later(lambda: self._differ(header))
        elif header.what == What.POINT:
            if self.mailbox.point(header, payload) is not None:
                self.link.membership.later(lambda: self._ask_for_point(header.source))
        elif header.what == What.WAITING:
            self._asked(header)
        elif header.what == What.FORGOTTEN:
            self._forgotten(header)
        elif header.what == What.BROKEN:
            self._told_of_difference(header, payload.to_bytes())
        elif header.what in (What.PROPOSE, What.DECIDED):
            if self.on_vote is None:
                self.votes.append((header, payload.to_bytes()))
            else:
                self.on_vote(header, payload)

    def _asked(self, header: Header) -> None:
        """A rank waits for something of this one."""
        call = unpacked(header.call)
        if call.kind == "send":
            self._send_points_again(header)
            return
        own = self.mailbox.call_of(header.sequence)
        if own is not None and own != header.call:
            self._differ(header)
        elif own is not None and (header.flags & LOST or self._losses):
            key = (self.number, What.DATA, header.sequence, header.phase)
            if not self.link.send_again(header.source, key) and header.sequence <= self.mailbox.ended:
                self.link.send((header.source,), write(What.FORGOTTEN, self.link.rank, group=self.number, call=own,
                                                       epoch=self.epoch, sequence=header.sequence, phase=header.phase))

    def _send_points_again(self, header: Header) -> None:
        for number in range(header.sequence, self._sent_points.get(header.source, 0)):
            if not self.link.send_again(header.source, (self.number, What.POINT, number)):
                self.link.send((header.source,), write(What.FORGOTTEN, self.link.rank, group=self.number,
                                                       call=header.call, epoch=self.epoch, sequence=number))
                return

    def _forgotten(self, header: Header) -> None:
        """A rank no longer keeps what was asked for; it may have been on its way, and then came before this."""
        source = header.source
        if header.flags & LOST:     # not to this rank, but the group has failed there
            self.fail(LinkLost(f"messages to {self.call_them([source])} were lost with the link, and nobody keeps them "
                               f"any more; raise {KEEP_VARIABLE} (bytes), and begin the group anew"))
            return
        if unpacked(header.call).kind == "send":
            is_here = self.mailbox.next_point(source) > header.sequence
        else:
            is_here = not self.mailbox.waits_for(header.sequence, (header.phase, source))
        if not is_here:
            # Told first, as in `differ`: else the others wait for this rank until their timeout.
            self.link.send(tuple(m for m in self.members if m != self.link.rank), write(
                What.FORGOTTEN, self.link.rank, group=self.number, epoch=self.epoch, flags=LOST))
            self.fail(LinkLost(f"messages from {self.call_them([source])} were lost with the link, and that rank no "
                               f"longer keeps them; raise {KEEP_VARIABLE} (bytes), and begin the group anew"))

    def _differ(self, header: Header) -> None:
        """A rank calls something else than this one: all end with an error that says so."""
        own = self.mailbox.call_of(header.sequence)
        if own is None:
            return
        self.differ(header.sequence, header.source, header.call, own)

    def differ(self, sequence: int, source: int, theirs: bytes, own: bytes) -> None:
        """Fails the group everywhere, since a rank's call is not this one's."""
        # Told first: whoever waits here may end this process as soon as it knows.
        self.link.send(tuple(m for m in self.members if m != self.link.rank), write(
            What.BROKEN, self.link.rank, group=self.number, epoch=self.epoch, sequence=sequence),
            write_difference(source, theirs, self.link.rank, own))
        if self.mailbox.failure is None:
            self.fail(CallsDiffer(self._difference(sequence, source, unpacked(theirs), self.link.rank, unpacked(own))))

    def _told_of_difference(self, header: Header, payload: bytes) -> None:
        one, call, other, other_call = read_difference(payload)
        if one == self.link.rank:
            one, call, other, other_call = other, other_call, one, call
        if one in self.members and other in self.members:
            self.fail(CallsDiffer(self._difference(header.sequence, one, call, other, other_call)))

    def _difference(self, sequence: int, one: int, call: Call, other: int, other_call: Call) -> str:
        where = "this rank" if other == self.link.rank else self.call_them([other])
        return (f"{self.call_them([one])} calls {call} where {where} calls {other_call} (call {sequence} of "
                f"{self.title}); all ranks of a group must make the same calls in the same order")

    # Ends

    def rank_died(self, rank: int, why: str) -> None:
        """A rank has died: nothing can be done any more in a group that it was a member of."""
        if rank in self.members:
            self.fail(RankDied(f"{self.call_them([rank])} died: {why}. `brain_collectives.shrink()` gives those who "
                               f"are left a group", (rank,)))

    def rank_left(self, rank: int) -> None:
        """A rank sends nothing more."""
        if rank in self.members:
            self.mailbox.leave(rank)

    def link_back(self) -> None:
        """A link was lost and is back; who waits asks for what may have been lost."""
        self._losses += 1

    def closed(self) -> None:
        """The link was closed, or the group."""
        self.fail(Closed(f"{self.title} was closed by this rank (rank {self.link.rank}); make a new one"))

    def fail(self, failure: CollectiveError) -> None:
        """Ends all that is under way, and all later calls, with an error."""
        self.mailbox.fail(failure)

    # Words

    @property
    def title(self) -> str:
        """Name of the group in messages."""
        return "the default group" if self.size == self.link.size and not self.epoch else f"group {self.name}"

    def call_them(self, ranks: Iterable[int]) -> str:
        """Ranks of the default group, in words, with those in this group where they differ."""
        ranks = list(ranks)
        text = named(ranks)
        if self.size == self.link.size:
            return text
        inner = ", ".join(str(self.members.index(rank)) for rank in ranks if rank in self.members)
        return f"{text} ({inner} in {self.title})"

    def too_late(self, sources: list[int], what: str, timeout: float) -> TooLate:
        """The error where ranks did not do their part in time."""
        return TooLate(f"{self.call_them(sources)} did not take part in {what} within the timeout of {timeout:g} s, "
                       f"but {'lives' if len(sources) == 1 else 'live'}: computing, waiting elsewhere, or making other "
                       f"calls",
                       tuple(sources))
