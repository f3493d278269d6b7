# SPDX-License-Identifier: Apache-2.0
"""Deliveries over real sessions: what is hostile is refused in a line, and costs nothing but itself."""
from __future__ import annotations

import json
import secrets
import time
from pathlib import Path
from typing import Iterator

import pytest
import zenoh

from brain_cloud.processes.cloud import Cloud
from brain_cloud.checks import ordeal
from brain_edge.messages import envelope
from brain_edge.messages.envelope import Entry, Portion, Position, Request
from brain_edge.messages.outbox import Outbox
from brain_edge.messages.rate_limit import RETRY, Bucket
from brain_edge.messages.sender import Sender
from brain_edge.processes.settings import FROM_ROBOT, ZENOH
from brain_edge.schema import FormProblem, check, load_schema, read_json
from brain_edge.store import Store
from brain_security.fleet_keys import CLOUD, robot_of, up
from brain_wire import Session, open_session
from brain_wire.router import Router, free_port
from brain_wire.session import Elsewhere

HEAD = {"format": 1, "from": "robot1", "to": "cloud", "incarnation": "0" * 16, "epoch": None, "streams": []}


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cloud, zenoh.Session]]:
    """A cloud in this process, and a bare session of somebody at its router."""
    endpoint = f"tcp/127.0.0.1:{free_port()}"
    with Store(tmp_path_factory.mktemp("cloud"), CLOUD) as store, Router([endpoint], more=ZENOH) as router, \
            Session(router.session, endpoint) as session:
        running = Cloud(store, session)
        with open_session(endpoint, elsewhere=Elsewhere(), more=ZENOH) as other:
            yield running, other.zenoh
        running.stop()


def send(session: zenoh.Session, payload: bytes | None, key: str = up("robot1"), timeout: float = 20.0) -> str:
    """What is answered: an answer's text, or why it was refused."""
    for reply in session.get(key, payload=payload, timeout=timeout, target=zenoh.QueryTarget.ALL,
                             consolidation=zenoh.ConsolidationMode.NONE):
        return (reply.ok.payload if reply.ok is not None else reply.err.payload).to_bytes().decode()
    return "nothing"


def head(**more: object) -> bytes:
    return json.dumps({**HEAD, **more}).encode()


def stream(*entries: object, after: object = None) -> list[object]:
    return [{"stream": "reports", "after": after or {"seq": 0, "id": ""}, "entries": list(entries)}]


MESSAGE = {"seq": 1, "id": "1" * 16, "kind": "report", "body": {}}
HOSTILE = {
    "nothing at all": (None, "it is no JSON"),
    "no JSON": (b"\xff{", "it is no JSON"),
    "brackets without an end": (b"[" * 100_000, "it is no JSON"),
    "deep": (b'{"a":' * 50 + b"1" + b"}" * 50, "nested more than 32 deep"),
    "a list": (b"[]", "it must be an object"),
    "not a number": (head(streams=float("nan")), "NaN is no number"),
    "too many digits": (b'{"format":' + b"9" * 5000 + b"}", "it is no JSON"),
    "65 bits": (head(format=2**64), "more than 64 bits"),
    "a later format": (head(format=4), "it is of format 4, and this software reads formats 1 to 3: update"),
    "an installation too soon": (head(installation="0" * 16), "no field 'installation' in format 1"),
    "an unknown field": (head(stream=[]), "it has no field 'stream'; did you mean streams?"),
    "a missing field": (json.dumps({"format": 1, "from": "robot1"}).encode(), "to is missing"),
    "another's name": (head(**{"from": "robot2"}), "it says that it is from robot2, on the key of robot1: each speaks"),
    "the cloud's name": (head(**{"from": "cloud"}), "each speaks for itself only"),
    "to another": (head(to="robot2"), "it is to robot2, and this is cloud"),
    "True as a number": (head(streams=stream({**MESSAGE, "seq": True})), "must be an integer, but is true"),
    "a number below 1": (head(streams=stream({**MESSAGE, "seq": 0})), "at least 1"),
    "a gap": (head(streams=stream(MESSAGE, {**MESSAGE, "seq": 3})), "3 follows 1"),
    "not after its place": (head(streams=stream({**MESSAGE, "seq": 2})), "2 follows 0"),
    "both message and gone": (head(streams=stream({**MESSAGE, "gone": "expired"})), "is gone, so it has no kind"),
    "neither": (head(streams=stream({"seq": 1, "id": "1" * 16})), "must have kind and body"),
    "backwards": (head(streams=stream({"seq": 1, "to": 0, "id": "1" * 16, "gone": "expired"})), "at least 1"),
    "a stream twice": (head(streams=stream(MESSAGE) * 2), "a stream stands twice"),
    "text that is none": (head(software="\ud800"), "surrogate"),
    "3 MB": (b" " * 3_000_000, "it has 3000000 bytes, and at most 1048576 bytes are taken"),
}


def test_what_is_hostile_is_refused_in_a_line_and_costs_nothing(cloud):
    running, session = cloud
    wrong = {}
    for name, (payload, why) in HOSTILE.items():
        told = send(session, payload)
        if why not in told or "\n" in told or len(told) > envelope.WHY:
            wrong[name] = told
    assert wrong == {}
    assert running.store.read("SELECT COUNT(*) FROM peers") == [(0,)]


def test_only_a_robots_own_key_is_one(cloud):
    _, session = cloud
    for key in ("brain_fleet/*/up", "brain_fleet/**", "brain_fleet/Robot1/up", "brain_fleet/cloud/up"):
        assert "is no robot's key" in send(session, head(), key)
    assert robot_of("brain_fleet/robot1/up", "up") == "robot1"
    assert robot_of("brain_fleet/robot1/down", "up") is None and robot_of("brain_fleet/a/b/up", "up") is None


def test_100_megabytes_reach_nobody_and_the_next_message_does(cloud):
    running, session = cloud
    assert send(session, bytes(100_000_000), timeout=1.0) == "Timeout"      # Zenoh's own word
    answer = json.loads(send(session, head(**{"from": "robot9"}), up("robot9")))
    assert answer["found"] and running.store.read("SELECT name FROM peers") == [("robot9",)]


def test_a_flood_is_told_to_wait_and_costs_nobody_else_anything(cloud):
    _, session = cloud
    many = {**MESSAGE, "body": {"values": [1] * 200_000}}      # as much as 20,000 messages
    data = head(**{"from": "robot8"}, streams=stream(many))
    waits = 0
    for _ in range(20):
        answer = json.loads(send(session, data, up("robot8")))
        waits += "wait" in answer
        if waits:
            break
    assert waits and answer["epoch"] is None and "more came than one robot may" in answer["why"]
    assert "wait" not in json.loads(send(session, head(**{"from": "robot7"}), up("robot7")))


def test_a_format_is_what_it_was_written_as():
    portions = [Portion("a", Position(3, "3" * 16), [Entry(4, 4, "4" * 16, "kind", '{"x":[1,"ü"]}'),
                                                     Entry(5, 9, "9" * 16, gone="expired")])]
    request = Request("robot1", "cloud", "0" * 16, "e" * 16, portions, "why", "1.0")
    read = envelope.read_request(envelope.write_request(request))
    assert read.portions[0].entries[0].body == {"x": [1, "ü"]}
    assert (read.portions[0].entries[1], read.portions[0].after) == (portions[0].entries[1], portions[0].after)
    answer = envelope.Answer("cloud", "robot1", "0" * 16, "e" * 16, {"a": Position(9, "9" * 16)}, [("a", 4, "no")],
                             True, "apart", 2.0, "full", "1.0")
    assert envelope.read_answer(envelope.write_answer(answer)) == answer


def test_a_schema_that_says_more_than_is_checked_is_refused(tmp_path, monkeypatch):
    (tmp_path / "oddities").mkdir()
    (tmp_path / "oddities" / "__init__.py").write_text("")
    (tmp_path / "oddities" / "odd.schema.json").write_text('{"type": "object", "properties": {"a": {"oneOf": []}}}')
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match="the keyword oneOf is not understood"):
        load_schema("oddities", "odd")
    with pytest.raises(FormProblem, match="holds more than 20000 values"):
        read_json(json.dumps([0] * 20_001), 10**6)
    with pytest.raises(FormProblem, match=r"a\[1\] must be at most 3, not 4"):
        check({"a": [1, 4]}, {"properties": {"a": {"type": "array", "items": {"type": "integer", "maximum": 3}}}})


def test_a_rate_is_kept_and_attempts_become_rarer():
    now = [0.0]
    bucket = Bucket(100.0, 200.0, lambda: now[0])
    bucket.take(300.0)
    assert bucket.wait() == pytest.approx(1.0)
    now[0] = 1.5
    assert bucket.wait() == 0.0
    assert 0.0 < RETRY.delay(1) <= 0.05 and 2.5 <= RETRY.delay(30) <= 5.0


def test_a_receiver_whose_disk_is_full_says_so_and_takes_the_message_later(cloud):
    running, session = cloud
    data = head(**{"from": "robot6"})
    running.store._db.execute("PRAGMA query_only=1")       # as a disk that takes nothing more
    try:
        answer = json.loads(send(session, data, up("robot6")))
    finally:
        running.store._db.execute("PRAGMA query_only=0")
    assert answer["wait"] == 2.0 and answer["epoch"] is None and "cannot write its database" in answer["why"]
    assert json.loads(send(session, data, up("robot6")))["found"]


def test_a_courier_that_has_nothing_to_do_waits(cloud, tmp_path, monkeypatch, until):
    turns, turn = [], Sender._turn
    monkeypatch.setattr(Sender, "_turn", lambda self: turns.append(self) or turn(self))
    with Store(tmp_path, "robot6") as store:
        sender = Sender(Session(cloud[1], "the test's"), store, Outbox(store, FROM_ROBOT), founds=False)
        sender.start()
        until(lambda: sender in turns)
        time.sleep(0.5)
        sender.stop()
    assert turns.count(sender) < 20


def test_what_waits_is_delivered_though_the_senders_disk_is_full(cloud, tmp_path, until):
    running, session = cloud
    with Store(tmp_path, "robot5") as store:
        outbox = Outbox(store, FROM_ROBOT)
        sender = Sender(Session(session, "the test's"), store, outbox, founds=False)
        sender.serve(CLOUD, up("robot5"), 0.2)
        sender.start()
        until(lambda: store.read("SELECT epoch FROM peers"))
        with store.change() as db:
            for number in range(1200):
                outbox.put(db, CLOUD, "events", "event", {"at": "now", "text": str(number)})
            db.execute("PRAGMA query_only=1")
        sender.wake(CLOUD)
        place = "SELECT applied FROM incoming WHERE peer = 'robot5' AND stream = 'events'"
        until(lambda: running.store.read(place) == [(1200,)])
        assert outbox.waiting(CLOUD) == 1200
        with store._mutex:
            store._db.execute("PRAGMA query_only=0")
        until(lambda: outbox.waiting(CLOUD) == 0)
        sender.stop()
        told = running.store.read("SELECT text FROM events WHERE robot = 'robot5' ORDER BY number")
        assert [text for (text,) in told if text.isdigit()] == [str(number) for number in range(1200)]


@pytest.mark.slow
def test_each_message_arrives_once_and_in_order_through_cuts_and_kills(tmp_path):
    done = ordeal.run(tmp_path, ordeal.Ordeal(messages=1000, cuts=6, kills=4))
    assert done.arrived == {"robot1": {"a": 500, "b": 200}, "cloud": {"a": 200, "b": 100}}
    assert done.cut >= 6 and done.killed == {"robot1": 2, "cloud": 2}


@pytest.mark.extended
def test_100_000_messages_arrive_through_1000_cuts_and_50_kills(tmp_path):
    done = ordeal.run(tmp_path, ordeal.Ordeal(messages=100_000, cuts=1000, kills=50, seed=int(time.time())))
    assert sum(sum(streams.values()) for streams in done.arrived.values()) == 100_000


@pytest.mark.extended
def test_what_waits_behind_a_cut_is_drained(tmp_path: Path):
    assert ordeal.drain(tmp_path, 20_000) >= 2000.0


def test_one_robot_cannot_make_up_streams_without_end(tmp_path):
    from brain_edge.messages.envelope import Entry, Portion, Position
    from brain_edge.messages.inbox import receive
    from brain_edge.store import Store

    with Store(tmp_path, "cloud") as store:
        for delivery in range(50):
            portions = [Portion(f"s{delivery}_{number}", Position(), [Entry(1, 1, secrets.token_hex(8), "x", {})])
                        for number in range(16)]
            try:
                with store.change() as db:
                    receive(db, "robot1", portions, lambda db, message: None)
            except ValueError:
                pass
        (count,) = store.read("SELECT COUNT(*) FROM incoming")[0]
        assert count <= 16, count       # an answer with more cannot be read by any peer
