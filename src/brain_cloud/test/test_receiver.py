# SPDX-License-Identifier: Apache-2.0
"""What an end that takes deliveries counts."""
from collections import Counter

import pytest

from brain_cloud.enrolment import admission
from brain_edge.messages.envelope import Entry, Portion, Position, Request, read_answer, write_request
from brain_edge.messages.inbox import Refused
from brain_edge.messages.receiver import Desk, Receiver
from brain_edge.store import Store
from brain_security.fleet_keys import CLOUD, up
from brain_wire import open_session
from brain_wire.router import Router, free_port

A = "a" * 16


def odd_only(db, message):
    if message.body["number"] % 2 == 0:
        raise Refused("it is even")


@pytest.fixture
def desk(tmp_path):
    """The reception, and how a delivery of robot1 is answered."""
    endpoint, told = f"tcp/127.0.0.1:{free_port()}", Counter()
    with Router([endpoint]), open_session(endpoint, patience=10) as session, Store(tmp_path, CLOUD) as store:
        made = Receiver(session, up("robot1"), store, Desk(
            lambda key: "robot1", admission.admit, odd_only,
            apart=lambda peer, why: told.update([f"{peer} apart: {why}"]),
            heard=lambda peer: told.update(["heard"]), applied=lambda peer: told.update(["applied"])))

        def deliver(request):
            told["bytes"] += len(write_request(request))
            [reply] = session.zenoh.get(up("robot1"), payload=write_request(request), timeout=60.0)
            return read_answer(reply.ok.payload.to_bytes())

        yield made._tally, deliver, told


def test_messages_are_counted_once_however_often_they_come(desk):
    tally, deliver, told = desk
    assert {value for name, value in vars(tally).items() if name != "took"} == {0}
    epoch = deliver(Request("robot1", CLOUD, A, None)).epoch
    entries = [Entry(1, 1, A, "number", '{"number":1}'), Entry(2, 2, A, "number", '{"number":2}'),
               Entry(3, 5, A, gone="expired"), Entry(6, 6, A, "number", '{"number":3}'),
               Entry(7, 7, A, "number", '{"number":5}')]
    request = Request("robot1", CLOUD, A, epoch, [Portion("plain", Position(), entries)])
    answer = deliver(request)
    assert answer.applied == {"plain": Position(7, A)} and answer.refused == [("plain", 2, "it is even")]
    assert (tally.received, tally.refused_here, tally.taken, tally.turned_away) == (3, 1, 2, 0)
    deliver(request)
    assert (tally.received, tally.refused_here, tally.taken) == (3, 1, 3)
    assert (told["heard"], told["applied"], told["bytes"]) == (3, 1, tally.received_bytes)


def test_who_is_set_apart_is_told_of_once(desk):
    _, deliver, told = desk
    why = deliver(Request("robot1", CLOUD, A, "e" * 16)).apart
    assert why and deliver(Request("robot1", CLOUD, A, "e" * 16)).apart == why
    assert {what: count for what, count in told.items() if "apart" in what} == {f"robot1 apart: {why}": 1}


def test_one_that_a_full_cloud_does_not_take_in_is_not_told_of(desk, monkeypatch):
    monkeypatch.setattr(admission, "MOST", 0)
    _, deliver, told = desk
    assert "takes no more in" in deliver(Request("robot1", CLOUD, A, None)).apart and told.keys() == {"bytes", "heard"}
