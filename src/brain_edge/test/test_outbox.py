# SPDX-License-Identifier: Apache-2.0
"""Messages between two databases, without a wire: order, acknowledgement, expiry, room, kills at any statement."""
from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Iterator

import pytest

from brain_edge.messages import envelope, inbox
from brain_edge.messages.envelope import Portion, Position, Request
from brain_edge.messages.inbox import Message, Refused
from brain_edge.messages.outbox import Diverged, Limits, Outbox, OutboxFull, Stream
from brain_edge.schema import FormProblem
from brain_edge.store import Store
from brain_edge.uptime_clock import UptimeClock

PROGRAM = Path(__file__).parent / "programs" / "exchange.py"
STREAMS = [Stream("urgent", 0), Stream("plain", 1), Stream("idle", 2, 0.5)]


@pytest.fixture
def sender(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "sender", "robot1") as store:
        yield store


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "receiver", "cloud") as store:
        with store.change() as db:
            db.execute("CREATE TABLE arrived (place INTEGER PRIMARY KEY, stream TEXT, number INTEGER)")
        yield store


@pytest.fixture
def outbox(sender: Store) -> Outbox:
    return Outbox(sender, STREAMS, Limits(messages=100, bytes=10_000))


def put(store: Store, outbox: Outbox, *numbers: int, stream: str = "plain", **more: object) -> None:
    with store.change() as db:
        for number in numbers:
            outbox.put(db, "cloud", stream, "number", {"number": number}, **more)


def arrive(db: sqlite3.Connection, message: Message) -> None:
    if message.body["number"] < 0:
        raise Refused("it is below 0")
    db.execute("INSERT INTO arrived (stream, number) VALUES (?, ?)", (message.stream, message.body["number"]))


def deliver(receiver: Store, portions: list[Portion]) -> tuple[dict[str, Position], list[tuple[str, int, str]]]:
    """As it would come over the wire."""
    request = envelope.read_request(envelope.write_request(Request("robot1", "cloud", "0" * 16, None, portions)))
    with receiver.change() as db:
        refused = inbox.receive(db, "robot1", request.portions, arrive)
        return inbox.places(db, "robot1"), refused


def acknowledge(store: Store, outbox: Outbox, applied: dict[str, Position]) -> int:
    with store.change() as db:
        return outbox.acknowledge(db, "cloud", applied)


def arrived(receiver: Store) -> list[int]:
    return [number for (number,) in receiver.read("SELECT number FROM arrived ORDER BY place")]


def test_what_is_delivered_twice_is_applied_once_and_in_order(sender, receiver, outbox):
    put(sender, outbox, 1, 2, 3)
    first = outbox.take("cloud", most=2)
    deliver(receiver, first)
    deliver(receiver, first)                        # the acknowledgement was lost
    applied, _ = deliver(receiver, outbox.take("cloud"))        # and then some more beside
    assert acknowledge(sender, outbox, applied) == outbox.delivered == 3
    assert acknowledge(sender, outbox, applied) == outbox.delivered == 0
    assert arrived(receiver) == [1, 2, 3] and outbox.waiting("cloud") == 0 and outbox.take("cloud") == []


def test_a_message_that_comes_before_its_forerunner_waits_for_it(sender, receiver, outbox):
    put(sender, outbox, 1, 2, 3)
    (whole,) = outbox.take("cloud")
    late = Portion("plain", Position(1, whole.entries[0].id), whole.entries[1:])
    assert deliver(receiver, [late])[0] == {} and arrived(receiver) == []
    deliver(receiver, [whole])
    assert arrived(receiver) == [1, 2, 3]


def test_what_matters_more_goes_first_and_nothing_starves(sender, outbox):
    put(sender, outbox, *range(10), stream="plain")
    put(sender, outbox, *range(10), stream="idle")
    put(sender, outbox, *range(5), stream="urgent")
    taken = {portion.stream: len(portion.entries) for portion in outbox.take("cloud", most=8)}
    assert taken == {"urgent": 5, "plain": 2, "idle": 1} and list(taken) == ["urgent", "plain", "idle"]


def test_a_full_outbox_refuses_and_what_matters_more_still_has_room(sender, outbox):
    put(sender, outbox, *range(50), stream="idle")
    with pytest.raises(OutboxFull, match="outbox for cloud is full .50 messages.*send it again"):
        put(sender, outbox, 50, stream="idle")
    put(sender, outbox, *range(50), stream="urgent")
    with pytest.raises(OutboxFull):
        put(sender, outbox, 50, stream="urgent")
    assert outbox.waiting("cloud") == 100


def test_bytes_are_limited_too_and_one_message_is(sender, outbox):
    with sender.change() as db:
        outbox.put(db, "cloud", "plain", "text", {"text": "x" * 9000})
    with pytest.raises(OutboxFull, match="bytes wait"), sender.change() as db:
        outbox.put(db, "cloud", "plain", "text", {"text": "x" * 2000})
    with pytest.raises(FormProblem, match="too large: at most 262144"), sender.change() as db:
        outbox.put(db, "cloud", "plain", "text", {"text": "x" * 300_000})
    with pytest.raises(FormProblem, match="cannot be written as JSON"), sender.change() as db:
        outbox.put(db, "cloud", "plain", "text", {"value": float("nan")})


def test_what_has_waited_too_long_is_not_delivered_and_leaves_no_gap(sender, receiver, outbox):
    put(sender, outbox, 1)
    put(sender, outbox, 2, 3, lives=5.0)
    put(sender, outbox, 4)
    with sender.change() as db:
        assert outbox.expire(db) == 0
    sender.elapsed._base += 6.0
    assert outbox.overdue()
    with sender.change() as db:
        assert outbox.expire(db) == 2
        outbox.tidy(db)
    assert outbox.waiting("cloud") == 2
    applied, _ = deliver(receiver, outbox.take("cloud"))
    assert arrived(receiver) == [1, 4] and acknowledge(sender, outbox, applied) == 4


def test_of_several_about_one_subject_the_newest_is_delivered(sender, receiver, outbox):
    for number in range(20):
        put(sender, outbox, number, subject="state")
    with sender.change() as db:
        outbox.tidy(db)
    assert len(sender.read("SELECT 1 FROM outbox")) == 2
    applied, _ = deliver(receiver, outbox.take("cloud"))
    assert arrived(receiver) == [19] and acknowledge(sender, outbox, applied) == 20


def test_an_acknowledgement_that_crosses_with_tidying_is_no_divergence(sender, receiver, outbox):
    put(sender, outbox, 1, 2, 3, subject="state")
    part = outbox.take("cloud", most=2)
    put(sender, outbox, 4, subject="state")
    with sender.change() as db:
        outbox.tidy(db)
    applied, _ = deliver(receiver, part)
    acknowledge(sender, outbox, applied)
    acknowledge(sender, outbox, deliver(receiver, outbox.take("cloud"))[0])
    assert arrived(receiver)[-1] == 4 and outbox.waiting("cloud") == 0


def test_one_message_that_cannot_be_applied_is_put_aside_and_told(sender, receiver, outbox):
    put(sender, outbox, 1, -1, 2)
    with sender.change() as db:
        outbox.put(db, "cloud", "plain", "odd", {"something": "else"})
    applied, refused = deliver(receiver, outbox.take("cloud"))
    assert arrived(receiver) == [1, 2] and applied["plain"].seq == 4
    assert refused == [("plain", 2, "it is below 0"), ("plain", 4, "it could not be applied: KeyError: 'number'")]
    assert receiver.read("SELECT seq, kind FROM refused") == [(2, "number"), (4, "odd")]


def failing(sender: Store, receiver: Store, outbox: Outbox, error: type[Exception]) -> list[tuple[str, int, str]]:
    """What is refused of one message that raises an error when it is applied."""
    def fail(db: sqlite3.Connection, message: Message) -> None:
        raise error("too wide")

    put(sender, outbox, 1)
    with receiver.change() as db:
        return inbox.receive(db, "robot1", outbox.take("cloud"), fail)


@pytest.mark.parametrize("error", [sqlite3.IntegrityError, sqlite3.DataError, sqlite3.ProgrammingError])
def test_a_message_that_does_not_fit_the_database_is_put_aside(sender, receiver, outbox, error):
    assert failing(sender, receiver, outbox, error) == [("plain", 1, "it does not fit the database (too wide)")]


@pytest.mark.parametrize("error", [sqlite3.DatabaseError, sqlite3.OperationalError, sqlite3.InternalError])
def test_a_database_that_fails_is_no_messages_fault(sender, receiver, outbox, error):
    with pytest.raises(Exception, match="too wide"):
        failing(sender, receiver, outbox, error)
    with receiver.change() as db:
        assert inbox.places(db, "robot1") == {}


def test_no_more_is_taken_than_was_asked_for(sender, outbox):
    for stream in ("urgent", "plain", "idle"):
        put(sender, outbox, 1, 2, stream=stream)
    for most in (1, 2, 3, 4):
        assert sum(len(portion.entries) for portion in outbox.take("cloud", most=most)) == most
    size = len(envelope.body_text({"number": 1}))
    for room, taken in ((1, [1]), (size, [1]), (2 * size - 1, [1, 1]), (2 * size, [2]), (2 * size + 1, [2, 1])):
        assert [len(portion.entries) for portion in outbox.take("cloud", room=room)] == taken


def test_a_receiver_that_went_back_is_told_from_one_that_was_cut_off(sender, receiver, outbox):
    put(sender, outbox, 1, 2)
    old, _ = deliver(receiver, outbox.take("cloud", most=1))
    acknowledge(sender, outbox, deliver(receiver, outbox.take("cloud"))[0])
    for backup in (old, {}):
        with pytest.raises(Diverged, match="cloud has applied .* but had acknowledged 2: its database was lost, or "
                                           "restored"):
            acknowledge(sender, outbox, backup)


def test_a_sender_that_went_back_is_noticed_by_either_end(sender, receiver, outbox, tmp_path):
    put(sender, outbox, 1)
    with Store(tmp_path / "copy", "robot1") as copy, sender.change() as db:
        for table in ("outgoing", "outbox"):
            for row in db.execute(f"SELECT * FROM {table}").fetchall():
                with copy.change() as other:
                    other.execute(f"INSERT INTO {table} VALUES ({','.join('?' * len(row))})", row)
    put(sender, outbox, 2, 3)
    applied, _ = deliver(receiver, outbox.take("cloud"))
    with Store(tmp_path / "copy", "robot1") as copy:
        back = Outbox(copy, STREAMS)
        with pytest.raises(Diverged, match="message 3 of the stream plain, which the database of robot1 does not know"):
            acknowledge(copy, back, applied)
        put(copy, back, 12, 13)                 # as many as before, but others
        with pytest.raises(Diverged, match="which the database of robot1 does not know"):
            acknowledge(copy, back, applied)
        put(copy, back, 14)
        with pytest.raises(Diverged, match="message 3 of the stream plain of robot1 is another than"):
            deliver(receiver, back.take("cloud"))
        [portion] = back.take("cloud")
        later = Portion("plain", Position(3, portion.entries[2].id), portion.entries[3:])     # none of the same
        with pytest.raises(Diverged, match="message 3 of the stream plain of robot1 is another than"):
            deliver(receiver, [later])
    assert arrived(receiver) == [1, 2, 3]


def test_ages_are_counted_whatever_the_calendar_says_and_go_on_after_a_restart(tmp_path, monkeypatch):
    monkeypatch.setattr("time.time", lambda: 0.0)       # 1970
    machine = [100.0]
    with closing(sqlite3.connect(tmp_path / "clock.db", isolation_level=None)) as db:
        db.execute("CREATE TABLE clock (one INTEGER PRIMARY KEY, boot TEXT, since REAL, elapsed REAL)")
        first = UptimeClock(db, "first boot", lambda: machine[0])
        machine[0] += 50.0
        first.keep(db)
        machine[0] += 10.0
        assert UptimeClock(db, "first boot", lambda: machine[0]).now() == 60.0     # the process was started again
        machine[0] = 5.0
        after = UptimeClock(db, "second boot", lambda: machine[0])      # the machine was off: nobody knows how long
        machine[0] += 1.0
        assert after.now() == 51.0


def test_a_kill_at_any_statement_loses_and_doubles_nothing(tmp_path):
    def run(folder: Path, statement: int) -> subprocess.CompletedProcess:
        return subprocess.run([sys.executable, PROGRAM, folder, str(statement)], capture_output=True, text=True,
                              timeout=60)

    whole = run(tmp_path / "whole", 0)
    last = int(whole.stdout)
    assert last > 150
    draw = random.Random(0)
    folders = {tmp_path / str(number): [draw.randrange(1, last // 2) for _ in range(3)] for number in range(4)}
    with ThreadPoolExecutor() as pool:
        killed = list(pool.map(lambda folder: [run(folder, at).returncode for at in folders[folder]], folders))
    for folder, statuses in zip(folders, killed):
        assert -9 in statuses
        assert run(folder, 0).returncode == 0
        with closing(sqlite3.connect(folder / "receiver" / "fleet.db")) as db:
            found = [number for (number,) in db.execute("SELECT number FROM arrived ORDER BY place")]
        kept = [n for n in range(1, 31) if n % 5 or n in found]     # one may arrive before it has expired
        assert found == kept
