# SPDX-License-Identifier: Apache-2.0
"""Hops: what a subscription notes of its publishers, over real sessions and from whatever a peer writes."""
import math
import random
import socket
import threading
import time

import pytest

from brain_wire import Node, messages, names, open_session
from brain_wire.attachment import pack
from brain_wire.latency import BEHIND, JUMP, LATER, LONGEST, MOST, RECENT, SILENT, Hop, Hops
from brain_wire.qos import QoS
from brain_wire.router import Router

STRING = "std_msgs/msg/String"
TEXT = bytes(messages.encode(messages.make(STRING, data="x")))
GID, OTHER = bytes(range(16)), bytes(range(1, 17))
DEEP = QoS(True, False, 100)
SECOND = 10**9


def heard(numbers, *, stamps=None, waited=False):
    """A hop that has got these numbers, each published 1 ms before it came; stamps in their order of publication."""
    hop = Hop(GID)
    for index, number in enumerate(numbers):
        stamp = (stamps[index] if stamps else number) * SECOND
        hop.note(number, stamp, stamp + 10**6, waited)
    return hop.passage(0.0)


@pytest.mark.parametrize("numbers, lost, messages_", [
    ([1, 2, 3], 0, 3), ([1, 4, 5], 2, 3), ([7, 8], 0, 2), ([1, 3, 2, 4], 0, 4), ([1, 5, 2, 4], 1, 4),
    ([1, 2, 2, 3], 0, 3), ([5, 4, 3, 6], 0, 2), ([1, BEHIND + 9, 2], BEHIND + 7, 2), ([1, 1 + JUMP], JUMP - 1, 2)])
def test_gaps_are_lost_and_late_ones_and_those_told_again_are_not(numbers, lost, messages_):
    passage = heard(numbers)
    assert (passage.lost, passage.messages, passage.restarts, passage.overwritten) == (lost, messages_, 0, 0)


@pytest.mark.parametrize("numbers", [[8, 9, 1, 2], [500, 1, 2], [900, 901, 3, 4], [1, 2, JUMP + 3, JUMP + 4]])
def test_a_publisher_that_counts_anew_has_lost_nothing(numbers):
    passage = heard(numbers, stamps=range(1, 9))
    assert (passage.lost, passage.messages, passage.restarts) == (0, len(numbers), 1)


def test_who_counts_anew_without_times_is_known_by_its_numbers():
    assert heard([500, 1, 2], stamps=[0, 0, 0]).restarts == 1


def test_what_gave_way_in_our_own_channel_is_not_lost_on_the_way():
    hop = Hop(GID)
    for number, waited in ((1, False), (4, True), (6, False), (8, True)):
        hop.note(number, number, number, waited)
    assert (hop.passage(0.0).lost, hop.passage(0.0).overwritten) == (1, 3)


def test_quantiles_are_those_of_the_latest_messages():
    hop, rng = Hop(GID), random.Random(1)
    took = [rng.randrange(10**5, 10**8) for _ in range(3 * RECENT)]
    for number, ns in enumerate(took):
        hop.note(number, SECOND, SECOND + ns, False)
    latest, passage = sorted(took[-RECENT:]), hop.passage(0.0)
    assert passage.p50 == pytest.approx(1e-9 * latest[RECENT // 2])
    assert passage.p99 == pytest.approx(1e-9 * latest[int(0.99 * RECENT)])


def test_times_that_cannot_be_say_that_clocks_differ():
    hop = Hop(GID)
    for number in range(200):
        hop.note(number, SECOND, SECOND + 10**6, False)
    hop.note(200, 2 * SECOND, SECOND, False)    # one, as when a clock is set
    assert not hop.passage(0.0).clocks_differ and hop.passage(0.0).p99 == pytest.approx(1e-3)
    for number in range(201, 210):
        hop.note(number, 0, LONGEST + 1, False)
    passage = hop.passage(0.0)
    assert passage.clocks_differ and math.isnan(passage.p50) and passage.lost == 0 and passage.messages == 210


def test_what_a_latched_topic_tells_again_says_nothing_of_latency():
    hop = Hop(GID, opened=100 * SECOND, replays=2)
    for number, stamp in ((1, 10), (2, 20)):
        hop.note(number, stamp * SECOND, 100 * SECOND, False)
    assert math.isnan(hop.passage(0.0).p50) and not hop.passage(0.0).clocks_differ
    hop.note(3, 101 * SECOND, 101 * SECOND + 10**6, False)
    assert hop.passage(0.0).p50 == pytest.approx(1e-3) and hop.passage(0.0).lost == 0
    late = Hop(GID, opened=100 * SECOND, replays=1)
    for number in range(5):     # no more are told again than the topic keeps: this one's clock is behind
        late.note(number, number * SECOND, 100 * SECOND, False)
    assert late.passage(0.0).clocks_differ


def test_whatever_is_in_an_attachment_nothing_breaks_and_nothing_grows():
    rng, hops = random.Random(2), Hops(replays=3)
    ends = [0, 1, 2**63 - 1, -2**63, -1, 2**62, 5]
    for turn in range(20_000):
        gid = GID if turn % 3 else rng.randbytes(16)
        choice = rng.choice([*ends, rng.randrange(-2**63, 2**63)])
        data = pack(choice, rng.choice([*ends, time.time_ns()]), gid)
        hops.note(rng.choice([data, data, data, data[:-1], b"", None, data[:16] + b"\x11" + gid]), 0.0, turn % 2 > 0,
                  time.time_ns())
    passages = hops.passages(1.0)
    assert len(passages) == MOST and hops.unsigned > 1000 and hops.untold > 1000
    for passage in passages:
        assert passage.lost >= 0 and passage.overwritten >= 0 and passage.messages <= 20_000
        assert passage.lost <= JUMP * 20_000 and (math.isnan(passage.p50) or 0 <= passage.p50 <= 1e-9 * LONGEST)


def test_a_flood_of_new_ids_displaces_nobody_who_is_heard():
    hops = Hops()
    for turn in range(10 * MOST):
        now = 0.1 * turn
        hops.note(pack(turn, time.time_ns(), GID), now, False, time.time_ns())
        hops.note(pack(1, 0, turn.to_bytes(16, "big")), now, False, time.time_ns())
    known = {p.gid: p for p in hops.passages(0.1 * 10 * MOST)}
    assert known[GID].messages == 10 * MOST and len(known) == MOST
    hops.note(pack(1, 0, OTHER), 0.1 * 10 * MOST + SILENT, False, time.time_ns())
    assert OTHER in {p.gid for p in hops.passages(0.0)}     # of those who are silent, one gives way


class Written(bytes):
    """An attachment as Zenoh hands it over."""

    def to_bytes(self):
        return bytes(self)


@pytest.mark.parametrize("how_many", [1, LATER - 1, LATER, 2 * LATER + 1])
def test_what_is_noted_later_is_noted_when_somebody_asks_and_in_its_order(how_many):
    hops = Hops()
    for number in range(1, how_many + 1):
        hops.note_later(Written(pack(number, 0, GID)), float(number), 10**6)
    hops.note(pack(how_many + 3, 0, GID), how_many + 1.0, False, 10**6)
    hops.note_later(None, how_many + 2.0, 10**6)
    hops.note_later(Written(bytes(5)), how_many + 2.0, 10**6)
    hops.note_later(Written(pack(how_many + 4, 0, GID)), how_many + 2.0, 10**6)
    (passage,) = hops.passages(how_many + 2.5)
    assert (passage.messages, passage.lost, passage.restarts) == (how_many + 2, 2, 0)
    assert passage.silence == pytest.approx(0.5) and passage.p50 == pytest.approx(1e-3) and hops.unsigned == 2


def test_nothing_noted_later_is_lost_or_counted_twice_while_others_ask():
    hops, over = Hops(), threading.Event()

    def ask():
        while not over.is_set():
            hops.passages(0.0)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(1, 20_001):
        hops.note_later(Written(pack(number, 0, GID)), 0.0, 10**6)
    over.set()
    for thread in threads:
        thread.join()
    assert hops.passages(0.0)[0][1:5] == (20_000, 0, 0, 0)


# -- real sessions ---------------------------------------------------------------------------------------------------


@pytest.fixture
def wire():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    endpoint = f"tcp/127.0.0.1:{port}"
    router = Router([endpoint])
    session = open_session(endpoint, patience=10)
    other = open_session(endpoint, patience=10)
    yield session, other, port % 200
    other.close()
    session.close()
    router.close()


def eventually(condition, patience=120.0):
    end = time.monotonic() + patience
    while not (found := condition()):
        assert time.monotonic() < end
        time.sleep(0.02)
    return found


def passages(subscription):
    return {p.gid: p for p in subscription.hops.passages(time.monotonic())}


def messages_of(subscription, gid):
    found = passages(subscription).get(gid)
    return found.messages if found else 0


class Raw:
    """A publisher that writes what attachments it likes. Each message has come before the next one leaves."""

    def __init__(self, session, subscription, domain):
        self._subscription = subscription
        self._publisher = session.zenoh.declare_publisher(names.data_key(domain, "/chatter", STRING))
        eventually(lambda: self._publisher.matching_status.matching)

    def put(self, attachment):
        before = self._subscription.last_received
        self._publisher.put(TEXT, attachment=attachment)
        eventually(lambda: self._subscription.last_received > before)


def test_over_a_router_what_was_left_out_is_counted_and_the_time_is_known(wire):
    session, other, domain = wire
    with Node(session, "ear", "/", domain) as ear, Node(other, "mouth", "/", domain) as mouth:
        subscription = ear.subscription("chatter", STRING, DEEP, hops=True)
        publisher = mouth.publisher("chatter", STRING, DEEP)
        eventually(lambda: publisher.heard)
        for _ in range(50):
            publisher.publish_bytes(TEXT)
        eventually(lambda: messages_of(subscription, publisher.gid) == 50)
        raw = Raw(other, subscription, domain)
        for number in [*range(1, 20), *range(30, 40)]:
            raw.put(pack(number, time.time_ns() - 3 * 10**6, GID))      # 3 ms old already
        for number in range(1, 6):      # started again, with the same id
            raw.put(pack(number, time.time_ns(), GID))
        raw.put(b"")
        raw.put(None)
        found = passages(subscription)
        assert found.keys() == {GID, publisher.gid} and subscription.hops.unsigned == 2
        own, theirs = found[publisher.gid], found[GID]
        assert (own.lost, own.restarts) == (0, 0) and 0 < own.p50 <= own.p99 < 1e-9 * LONGEST
        assert (theirs.lost, theirs.messages, theirs.restarts) == (10, 34, 1) and theirs.p50 > 0.003
        raw.put(pack(6, time.time_ns() + 3600 * SECOND, GID))
        assert passages(subscription)[GID].clocks_differ
        assert len(subscription.take()) == 87 and passages(subscription)[GID].overwritten == 0


@pytest.mark.parametrize("by_publisher", [False, True])
def test_what_gives_way_in_the_ring_is_overwritten_and_not_lost(wire, by_publisher):
    session, other, domain = wire
    with Node(session, "ear", "/", domain) as ear:
        subscription = ear.subscription("chatter", STRING, QoS(True, False, 2), hops=True, by_publisher=by_publisher)
        raw = Raw(other, subscription, domain)
        for number in range(1, 11):
            raw.put(pack(number, time.time_ns(), GID))
        found = passages(subscription)[GID]
        assert (found.messages, found.lost, found.overwritten) == (10, 0, 8) and len(subscription.take()) == 2


def test_what_gives_way_in_the_channel_while_a_step_is_made_is_overwritten_and_not_lost(wire):
    session, other, domain = wire
    busy, go_on = threading.Event(), threading.Event()

    def step(payload, received):
        busy.set()
        return go_on.wait(30.0)

    with Node(session, "ear", "/", domain) as ear:
        subscription = ear.subscription("chatter", STRING, QoS(True, False, 1), hops=True, at_once=step)
        publisher = other.zenoh.declare_publisher(names.data_key(domain, "/chatter", STRING))
        eventually(lambda: publisher.matching_status.matching)
        put = lambda number: publisher.put(TEXT, attachment=pack(number, time.time_ns(), GID))  # noqa: E731
        put(1)
        assert busy.wait(30.0)
        for number in range(2, 7):
            put(number)
        sign = ear.subscription("sign", STRING)     # by the same link: when it has come, those before have too
        after = other.zenoh.declare_publisher(names.data_key(domain, "/sign", STRING))
        eventually(lambda: after.matching_status.matching)
        after.put(TEXT, attachment=pack(1, 0, GID))
        assert sign.wait(30.0)
        go_on.set()
        # A message is noted after the step that it leads to.
        eventually(lambda: GID in passages(subscription) and passages(subscription)[GID].messages == 3)
        assert passages(subscription)[GID][2:4] == (0, 4)       # none lost, four overwritten: one before our eyes
        put(7)
        eventually(lambda: passages(subscription)[GID].messages == 4)
        put(9)
        eventually(lambda: passages(subscription)[GID].messages == 5)
        assert passages(subscription)[GID][2:4] == (1, 4)       # the channel was not full: it was lost on the way


@pytest.mark.parametrize("depth", [1, 3])
def test_a_step_gets_what_a_ring_of_the_depth_would_have_held(wire, depth):
    session, other, domain = wire
    busy, go_on, seen = threading.Event(), threading.Event(), []

    def step(payload, received):
        seen.append(int(messages.decode(payload.to_bytes(), STRING).data))
        busy.set()
        return go_on.wait(30.0)

    with Node(session, "ear", "/", domain) as ear:
        subscription = ear.subscription("chatter", STRING, QoS(True, False, depth), hops=True, at_once=step)
        sign = ear.subscription("sign", STRING)
        publisher, after = (other.zenoh.declare_publisher(names.data_key(domain, topic, STRING))
                            for topic in ("/chatter", "/sign"))
        eventually(lambda: publisher.matching_status.matching and after.matching_status.matching)
        put = lambda number: publisher.put(     # noqa: E731
            bytes(messages.encode(messages.make(STRING, data=str(number)))),
            attachment=pack(number, time.time_ns(), GID))
        put(1)
        assert busy.wait(30.0)
        for number in range(2, 20):
            put(number)
        after.put(TEXT, attachment=pack(1, 0, GID))
        assert sign.wait(30.0)
        go_on.set()
        eventually(lambda: seen[-1] == 19)
        assert seen == [1, *range(20 - depth, 20)]
        found = passages(subscription)[GID]
        assert found.lost == 0 and found.overwritten == 18 - depth


def test_who_comes_late_is_told_what_is_latched_and_counts_no_loss_and_no_latency_of_it(wire):
    session, other, domain = wire
    latched = QoS(True, True, 3)
    with Node(session, "ear", "/", domain) as ear, Node(other, "mouth", "/", domain) as mouth:
        publisher = mouth.publisher("kept", STRING, latched)
        early = ear.subscription("kept", STRING, latched)
        for _ in range(5):
            publisher.publish_bytes(TEXT)
        # what is still on its way would come to the late one as news too
        eventually(lambda: any(arrival.attachment.sequence == 5 for arrival in early.take()))
        subscription = ear.subscription("kept", STRING, latched, hops=True)
        eventually(lambda: messages_of(subscription, publisher.gid) == 3)
        told = passages(subscription)[publisher.gid]
        assert told.lost == 0 and math.isnan(told.p50) and not told.clocks_differ
        publisher.publish_bytes(TEXT)
        eventually(lambda: passages(subscription)[publisher.gid].messages == 4)
        assert passages(subscription)[publisher.gid].p50 > 0 and passages(subscription)[publisher.gid].lost == 0


def test_nothing_is_noted_where_nobody_asked(wire):
    session, _, domain = wire
    with Node(session, "ear", "/", domain) as ear:
        assert ear.subscription("chatter", STRING).hops is None
