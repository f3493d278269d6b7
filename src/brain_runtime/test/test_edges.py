# SPDX-License-Identifier: Apache-2.0
"""Edges as diagnostics tell them, and what is read of them whoever wrote them."""
import math
import random

import pytest

from brain_runtime.contract import heartbeat
from brain_runtime.hosts import diagnostics
from brain_runtime.hosts.edges import MOST, Edge, edge, parse, tell
from brain_runtime.hosts.input import Incoming, Input
from brain_runtime.contract.inbox import make_slot
from brain_runtime.contract.ports import In
from brain_runtime.supervision.report import edges_report, edges_table
from brain_wire.latency import Hop, Passage
from brain_wire.messages import MessageError
from brain_wire.qos import FEATURE

KNOWN = Edge("/vision", "/vision/objects", 0.00031, 0.0012, False, 2, 3, 1200, 1)


@pytest.mark.parametrize("one", [
    KNOWN, KNOWN._replace(source="gid:00ff"), KNOWN._replace(lost=None, restarts=0),
    KNOWN._replace(p50=math.nan, p99=math.nan, clocks_differ=True), KNOWN._replace(p50=math.nan, p99=math.nan),
    KNOWN._replace(p50=1e-9, p99=9.99), KNOWN._replace(messages=10**18 - 1)])
def test_what_is_told_is_read_again(one):
    (key, value), = tell([one]).items()
    assert str(parse(key, value)) == str(one)      # as texts, since NaN is not equal to itself


def test_a_person_can_read_it():
    assert tell([KNOWN]) == {"hop /vision/objects from /vision":
                             "p50 0.31 ms, p99 1.2 ms, lost 2, overwritten 3, messages 1200, restarts 1"}
    unknown = KNOWN._replace(p50=math.nan, p99=math.nan, clocks_differ=True, restarts=0)
    assert "latency unknown: clocks differ, lost 2" in tell([unknown]).popitem()[1]


def test_no_more_edges_are_told_than_a_message_ought_to_hold():
    told = tell(KNOWN._replace(source=f"/n{number}", lost=10**30) for number in range(3 * MOST))
    assert len(told) == MOST + 1 and told["hops left out"] == str(2 * MOST)
    status = diagnostics.diagnostics(heartbeat.heartbeat("/x", "zenoh", heartbeat.ACTIVE, stamp=0.0, now=0.0),
                                     edges=[KNOWN]).status[0]
    assert "hop /vision/objects from /vision" in {pair.key for pair in status.values}


def test_what_others_write_is_read_or_passed_over():
    key, value = next(iter(tell([KNOWN]).items()))
    for bad in ("", "hop", "hop /a", "hop a from /b", "hop /a from /b c", "hop /a\n from /b", "hop /\x1b from /b",
                f"hop /{'a' * 300} from /b"):
        assert parse(bad, value) is None
    for bad in ("", "p50 1 ms", value + " ", value.replace("0.31", "-1"), value.replace("0.31", "1e999"),
                value.replace("0.31", "5"), value.replace("0.31", "nan"), value.replace("0.31", "1.2.3"),
                value.replace("1200", "9" * 40), value.replace("1200", "-1"), value.replace("1200", "١")):
        assert parse(key, bad) is None, bad
    rng = random.Random(3)
    for _ in range(2000):
        cut = list(value)
        cut[rng.randrange(len(cut))] = chr(rng.randrange(256))
        found = parse(key, "".join(cut))
        assert found is None or (found.messages >= 0 and not found.p50 < 0)


def test_the_publisher_is_named_or_told_by_its_id():
    passage = Passage(bytes(range(16)), 5, 0, 0, 0, 0.001, 0.002, False, 0.0)
    assert edge(passage, "/t", "/n").source == "/n"
    assert edge(passage, "/t", None).source == "gid:000102030405060708090a0b0c0d0e0f"


def test_the_table_and_the_json_say_what_is_not_known():
    from brain_runtime.command.terminal import Terminal

    edges = [KNOWN._replace(source="/r1/vision"), KNOWN._replace(p50=math.nan, p99=math.nan, clocks_differ=True),
             KNOWN._replace(p50=math.nan, p99=math.nan, lost=None)]
    rows = edges_report({"/r1/pfc": edges})
    assert rows[0]["loss"] == pytest.approx(2 / 1202, abs=1e-6) and rows[0]["to"] == "/r1/pfc"
    assert rows[1]["p50"] is None and rows[1]["clocks_differ"] and rows[2]["loss"] is None
    console = Terminal(width=80, record=True, file=open("/dev/null", "w"))
    console.print(edges_table(rows, "/r1"))
    lines = console.export_text().splitlines()
    assert any("vision" in one and "pfc" in one and "0.31" in one and "0.2%" in one for one in lines)
    assert any("clocks" in one for one in lines) and any("?" in one for one in lines)


class Waiting:
    """A subscription in which messages wait."""

    topic = "/t"

    def __init__(self, *arrivals):
        self.arrivals = list(arrivals)

    def take(self):
        taken, self.arrivals = self.arrivals, []
        return taken


def inbound(port, *arrivals):
    def decode(data):
        if data == b"broken":
            raise MessageError("broken")
        return data
    slot = make_slot(port)
    made = Input("t", port, slot, decode, lambda *_: None)
    made.subscription = Waiting(*arrivals)
    return made, slot


def test_what_no_step_has_seen_counts_as_overwritten():
    hop, other = Hop(b"a"), Hop(b"b")
    made, slot = inbound(In("t", "std_msgs/msg/String", FEATURE), *(
        Incoming(data, 0.0, one) for data, one in ((b"1", hop), (b"2", other), (b"3", hop), (b"broken", hop))))
    made.take()
    assert slot.message == b"3" and (hop.passed, other.passed) == (1, 1)
    made.offer(Incoming(b"4", 0.0, hop))
    assert hop.passed == 2
    slot.seen()
    made.offer(Incoming(b"5", 0.0, hop))
    made.offer(Incoming(b"6", 0.0))     # of a host that notes nothing
    assert hop.passed == 2


def test_what_every_step_sees_all_of_is_not_overwritten():
    hop = Hop(b"a")
    made, slot = inbound(In("t", "std_msgs/msg/String", FEATURE, every=True),
                         *(Incoming(data, 0.0, hop) for data in (b"1", b"2", b"3")))
    made.take()
    assert hop.passed == 0 and len(slot.each(0.0, 1.0)) == 3
