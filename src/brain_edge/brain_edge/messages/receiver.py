# SPDX-License-Identifier: Apache-2.0
"""The reception: one thread that takes what others deliver, has it applied, and acknowledges what is on the disk.

Who delivers is hostile until it is shown otherwise. The key on which a delivery comes has the sender's name in it, and
a router with the rules of ``brain keys`` lets each certificate use its own key alone: so a message that names another
sender than its key is refused.
"""
from __future__ import annotations

import logging
import sqlite3
from dataclasses import dataclass
from typing import Callable

import zenoh

from brain_edge.messages import answering, envelope, history, inbox
from brain_edge.messages.delivery_counters import DeliveryCounters
from brain_edge.messages.envelope import Answer, Request
from brain_edge.messages.history import Standing
from brain_edge.messages.outbox import Diverged
from brain_edge.schema import FormProblem, values_in
from brain_edge.store import Store, StoreProblem
from brain_wire import Session
from brain_wire.messages import clip_utf8
from brain_wire.rate_limited_log import RateLimitedLog
from brain_wire.safe_text import quoted

RATE, BURST = 10_000.0, 20_000.0            # messages a second of one peer, and at once
VALUES_EACH = 10        # values that cost as much as a message does; they count before they are read
BYTES, BYTES_BURST = 20e6, 40e6
PEERS = 20_000          # whose rates are kept
AGAIN = 2.0             # s after which a peer is to try again where the disk is full

log = logging.getLogger(__name__)
limited_log = RateLimitedLog(log)


@dataclass
class Desk:
    """Callbacks by which an end takes deliveries.

    Attributes:
        sender: the peer that a key stands for; None where it is nobody's key.
        standing: what a request may do; within the transaction.
        apply: applies one message; within the transaction.
        joined: a peer has just been taken in, or begins a new epoch; within the transaction.
        begun: a peer begins an epoch: what waits for it can be delivered.
        apart: a peer was set apart: its name and why.
        applied: messages of a peer were applied, and that is on the disk.
        heard: a peer has delivered something.
        refused: a message was put aside: peer, stream, number, reason.
        reads: a peer has said which format it reads at most.
        meant: whether a request is meant for this end, and not for another installation of its name.
        second: a request came from another installation than the one that was taken in: peer, installation, why.
    """

    sender: Callable[[str], str | None]
    standing: Callable[[sqlite3.Connection, Request], Standing]
    apply: inbox.Apply
    joined: Callable[[sqlite3.Connection, str], None] = lambda db, peer: None
    begun: Callable[[str], None] = lambda peer: None
    apart: Callable[[str, str], None] = lambda peer, why: None
    applied: Callable[[str], None] = lambda peer: None
    heard: Callable[[str], None] = lambda peer: None
    refused: Callable[[str, str, int, str], None] = lambda peer, stream, number, why: None
    reads: Callable[[str, int], None] = lambda peer, newest: None
    meant: Callable[[Request], bool] = lambda request: True
    second: Callable[[str, str, str], None] = lambda peer, installation, why: None


class Receiver:
    """Takes deliveries on a key, until the session is closed.

    Args:
        session: open session.
        key: may have a ``*`` where the sender's name stands.
        store: where what is applied is kept.
        desk: see there.
        software: version that others are told.
        rate: messages a second of one peer.
        tally: counts what deliveries come to.
    """

    def __init__(self, session: Session, key: str, store: Store, desk: Desk, *, software: str = "",
                 rate: float = RATE, tally: DeliveryCounters | None = None) -> None:
        self._tally = tally or DeliveryCounters()
        self._store, self._desk, self._software = store, desk, software
        self._messages = answering.Buckets(rate, 2 * rate, PEERS)
        self._bytes = answering.Buckets(BYTES, BYTES_BURST, PEERS)
        answering.answer(session, key, envelope.REQUEST, self._serve, "reception", limited_log)

    def _serve(self, query: zenoh.Query) -> None:
        key = str(query.key_expr)
        try:
            sender = self._desk.sender(key)
            if sender is None:
                raise FormProblem(f"{quoted(key)} is no robot's key")
            data = b"" if query.payload is None else query.payload.to_bytes()
            messages, bytes_in = self._messages.of(sender), self._bytes.of(sender)
            held = max(messages.wait(), bytes_in.wait())
            if held > 0.0:
                answer = self._wait(sender, min(held, 60.0), "more came than one robot may hand in")
            else:
                bytes_in.take(len(data))
                self._tally.received_bytes += len(data)
                messages.take(1 + values_in(data.decode("utf-8", "replace")) / VALUES_EACH)
                request = envelope.read_request(data)
                if request.sender != sender:
                    raise FormProblem(f"it says that it is from {request.sender}, on the key of {sender}: each speaks "
                                      f"for itself only")
                if request.to != self._store.member:
                    raise FormProblem(f"it is to {request.to}, and this is {self._store.member}")
                messages.take(sum(len(portion.entries) for portion in request.portions))
                if not self._desk.meant(request):
                    return
                answer = self._answer(request)
        except FormProblem as problem:
            limited_log(f"refuse {key}", f"refused what came on {quoted(key)}: {problem}")
            self._tally.turned_away += 1
            query.reply_err(clip_utf8(str(problem), envelope.WHY))
            return
        query.reply(key, envelope.write_answer(answer))

    def _wait(self, sender: str, wait: float, why: str) -> Answer:
        self._tally.held_back += 1
        # It says nothing of what is applied, so it must not be taken for an acknowledgement: the epoch is missing.
        return Answer(self._store.member, sender, self._store.incarnation, None, wait=wait, why=why,
                      software=self._software)

    def _answer(self, request: Request) -> Answer:
        """Applies what may be applied, and says how far we are once that is on the disk."""
        sender = request.sender
        try:
            with self._store.change() as db:
                known = history.read(db, sender)
                before = known is not None and known.apart is not None
                standing = self._desk.standing(db, request)
                set_apart = history.read(db, sender) is not None     # not where there are too many
                refused: list[tuple[str, int, str]] = []
                first = {} if not standing.open else inbox.places(db, sender)
                if standing.joined:
                    self._desk.joined(db, sender)
                if standing.open:
                    refused = inbox.receive(db, sender, request.portions, self._desk.apply)
                applied = {} if standing.second else inbox.places(db, sender)
        except Diverged as problem:
            with self._store.change() as db:
                history.set_apart(db, sender, str(problem))
                applied = inbox.places(db, sender)
            self._desk.apart(sender, str(problem))
            return self._reply(request, Standing(request.epoch, apart=str(problem)), applied, [])
        except StoreProblem as problem:
            limited_log("store", str(problem))
            self._desk.heard(sender)
            return self._wait(sender, AGAIN, f"{self._store.member} cannot write its database just now")
        if standing.second:
            self._desk.second(sender, history.named(request), standing.apart or "")
            return self._reply(request, standing, applied, [])
        self._desk.heard(sender)
        if request.formats is not None:
            self._desk.reads(sender, request.formats[1])
        if standing.apart is not None and not before and set_apart:
            self._desk.apart(sender, standing.apart)
        if standing.joined or standing.begun:
            self._desk.begun(sender)
        self._tally.taken += 1
        if standing.open:
            self._tally.refused_here += len(refused)
            self._tally.received += _fresh(request, first, applied) - len(refused)
        for stream, number, why in refused:
            self._desk.refused(sender, stream, number, why)
        if standing.open and applied != first:
            self._desk.applied(sender)
        return self._reply(request, standing, applied, refused)

    def _reply(self, request: Request, standing: Standing, applied: dict[str, envelope.Position],
               refused: list[tuple[str, int, str]]) -> Answer:
        return Answer(self._store.member, request.sender, self._store.incarnation, standing.epoch, applied, refused,
                      standing.found, standing.apart, software=self._software, format=request.format)


def _fresh(request: Request, before: dict[str, envelope.Position], after: dict[str, envelope.Position]) -> int:
    """Counts the messages of a request that were not applied before, and are now, or were put aside."""
    nowhere = envelope.Position()
    return sum(1 for portion in request.portions for entry in portion.entries if entry.gone is None
               and before.get(portion.stream, nowhere).seq < entry.seq <= after.get(portion.stream, nowhere).seq)
