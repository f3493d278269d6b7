# SPDX-License-Identifier: Apache-2.0
"""What a robot's sender makes of answers: of a cloud that is apart, older, or of another epoch."""
from __future__ import annotations

import time
from dataclasses import replace

import pytest
from zenoh.handlers import Callback

from brain_edge.messages import envelope, outbox, sender
from brain_edge.messages.delivery_counters import DeliveryCounters
from brain_edge.messages.envelope import Answer, Position
from brain_edge.messages.outbox import Outbox
from brain_edge.messages.rate_limit import Bucket
from brain_edge.messages.sender import Hooks, Sender
from brain_edge.processes.settings import FROM_ROBOT
from brain_edge.store import Store
from brain_security.fleet_keys import CLOUD, up
from brain_wire import open_session
from brain_wire.router import Router, free_port

A, EPOCH = "a" * 16, "e" * 16
JOINED = Answer(CLOUD, "robot1", A, EPOCH, found=True)
QUIET = 0.7         # s in which nothing more may come; a delivery takes some milliseconds


class Link:
    """A robot's sender, and a cloud that answers each delivery with the next of :attr:`answers`, the last for ever."""

    def __init__(self, store, session, until):
        self.store, self.until = store, until
        self.outbox, self.requests, self.answers, self.told = Outbox(store, FROM_ROBOT), [], [], []
        self._queryable = session.zenoh.declare_queryable(up("robot1"), Callback(self._answer, indirect=False))
        self.tally, self.bucket = DeliveryCounters(), Bucket(0.0, 1e6)
        self.sender = Sender(session, store, self.outbox, founds=False, bucket=self.bucket, tally=self.tally,
                             hooks=Hooks(apart=lambda peer, why: self.told.append((peer, why)),
                                         refused=lambda *what: self.told.append(what)))

    def _answer(self, query):
        with query:
            self.requests.append(envelope.read_request(query.payload.to_bytes()))
            answer = self.answers[min(len(self.requests), len(self.answers)) - 1]
            if isinstance(answer, str):
                query.reply_err(answer)
            else:
                query.reply(up("robot1"), envelope.write_answer(answer))

    def start(self):
        self.sender.serve(CLOUD, up("robot1"), 1e4)
        self.sender.start()

    def settled(self, count):
        """Waits until so many deliveries came, and nothing more comes."""
        self.until(lambda: len(self.requests) >= count)
        time.sleep(QUIET)
        assert len(self.requests) == count


@pytest.fixture
def link(tmp_path, until):
    endpoint = f"tcp/127.0.0.1:{free_port()}"
    with Router([endpoint]), open_session(endpoint, patience=10) as session, Store(tmp_path, "robot1") as store:
        made = Link(store, session, until)
        yield made
        made.sender.stop()


def test_one_that_is_apart_is_told_once_and_says_so_when_it_comes_again(link):
    link.answers = [JOINED, replace(JOINED, found=False, apart="restored")]
    link.start()
    link.settled(2)
    assert link.told == [(CLOUD, "restored")] and [request.epoch for request in link.requests] == [None, EPOCH]
    link.sender.wake(CLOUD)
    link.settled(3)
    assert link.requests[-1].apart == "restored" and len(link.told) == 1


def test_who_refuses_every_format_is_asked_in_the_newest_again(link):
    link.answers = ["no"]
    link.start()
    link.until(lambda: len(link.requests) >= 6)
    assert [request.format for request in link.requests[:6]] == [3, 2, 1, 3, 2, 1]


def test_what_is_acknowledged_in_another_epoch_waits_on(link):
    with link.store.change() as db:
        link.outbox.put(db, CLOUD, "events", "event", {"at": "now", "text": "1"})
    [(ident,)] = link.store.read("SELECT id FROM outbox")
    other = replace(JOINED, found=False, epoch="f" * 16, applied={"events": Position(1, ident)})
    link.answers = [JOINED, other, other, replace(other, epoch=EPOCH)]
    link.start()
    link.until(lambda: link.outbox.waiting(CLOUD) == 0)
    assert [request.portions[0].entries[0].id for request in link.requests[1:4]] == [ident, ident, ident]


def test_what_a_peer_could_not_apply_is_told_and_deliveries_are_timed(link):
    began = time.monotonic()
    link.answers = [JOINED, replace(JOINED, found=False, refused=[("events", 7, "no such kind"), ("events", 9, "")])]
    link.start()
    link.settled(2)
    assert link.told == [(CLOUD, "events", 7, "no such kind"), (CLOUD, "events", 9, "")] and link.tally.put_aside == 2
    assert link.tally.took.count == 2 and 0.0 < link.tally.took.rows()[1] < time.monotonic() - began


def test_on_a_thin_link_the_next_delivery_waits_until_the_last_is_made_up_for(link):
    link.bucket._rate, link.bucket._left = 1.0, 1.0     # B/s: hours
    link.answers = [replace(JOINED, found=False)]
    link.start()
    link.settled(1)
    link.sender.wake(CLOUD)
    link.settled(1)
    assert link.tally.sent_bytes > 100 and link.bucket.wait() > 60.0
    link.bucket._rate = 0.0
    link.sender.wake(CLOUD)
    link.settled(2)


def test_what_is_of_no_use_any_more_is_let_go_of_and_the_age_of_the_database_is_kept(link, monkeypatch):
    monkeypatch.setattr(sender, "KEEP", 0.1)
    monkeypatch.setattr(outbox, "UNTIDY", 3)
    link.answers = [replace(JOINED, found=False, wait=60.0)]    # it takes nothing
    with link.store.change() as db:
        for number in range(9):
            link.outbox.put(db, CLOUD, "events", "event", {"at": "now", "text": str(number)}, lives=0.05)
    kept = lambda: link.store.read("SELECT elapsed FROM clock")     # noqa: E731
    link.start()
    link.until(lambda: link.outbox.waiting(CLOUD) == 0)
    link.until(lambda: link.store.read("SELECT COUNT(*) FROM outbox") == [(1,)])
    before = kept()
    link.until(lambda: kept() != before)
