# SPDX-License-Identifier: Apache-2.0
"""Who is answered next, what gives way, and what an answerer that nobody asks does."""
import threading

import pytest

from brain_edge.messages import answering
from brain_edge.messages.answering import Buckets, Turns, answer
from brain_wire import open_session
from brain_wire.router import Router, free_port

MIB = 2**20


class Question:
    """What Turns knows of a query: its name here, and that it was let go of."""

    def __init__(self, name, gone):
        self.name, self._gone = name, gone

    def drop(self):
        self._gone.append(self.name)


@pytest.fixture
def line():
    """Turns, a function that has questions of a key wait, and the names of those that gave way."""
    def make(most=100, each=4):
        turns, gone = Turns(most, each), []

        def ask(key, *names, size=1):
            for name in names:
                turns.put(key, Question(name, gone), size)
        return turns, ask, gone
    return make


def answered(turns):
    found = []
    while (question := turns.get(0.0)) is not None:
        found.append(question.name)
    return found


def test_each_key_is_answered_in_turn_and_its_oldest_question_first(line):
    turns, ask, gone = line()
    ask("a", "a1", "a2", "a3")
    ask("b", "b1")
    ask("c", "c1", "c2")
    assert answered(turns) == ["a1", "b1", "c1", "a2", "c2", "a3"] and not gone
    ask("a", "a4")
    assert answered(turns) == ["a4"]


def test_of_one_key_the_oldest_gives_way(line):
    turns, ask, gone = line(each=2)
    ask("a", "a1", "a2", "a3")
    ask("b", "b1")
    assert gone == ["a1"] and answered(turns) == ["a2", "b1", "a3"]


def test_of_all_that_of_the_key_with_the_most_bytes_gives_way(line):
    turns, ask, gone = line(most=3)
    ask("small", "s1", "s2", size=1)
    ask("large", "l1", size=1000)
    ask("other", "o1", size=2)
    assert gone == ["l1"] and sorted(answered(turns)) == ["o1", "s1", "s2"]
    ask("other", "o2", "o3", size=2)        # of what was answered or gave way nothing is counted any more
    assert gone == ["l1"] and answered(turns) == ["o2", "o3"]


def test_what_waits_has_no_more_than_64_mib(line):
    turns, ask, gone = line()
    ask("a", "a1", "a2", size=20 * MIB)
    ask("b", "b1", size=24 * MIB)
    assert not gone
    ask("c", "c1", size=1)
    assert gone == ["a1"] and answered(turns) == ["a2", "b1", "c1"]


def test_a_question_that_comes_ends_the_wait_for_it(line):
    turns, ask, _ = line()
    later = threading.Timer(0.2, ask, ("a", "a1"))
    later.start()
    question = turns.get(60.0)
    later.join()
    assert question is not None and question.name == "a1"


def test_an_answerer_that_nobody_asks_complains_of_nothing_and_answers(monkeypatch):
    monkeypatch.setattr(answering, "LOOK", 0.01)
    told, looks, get = [], threading.Semaphore(0), Turns.get

    def counted(self, timeout):
        looks.release()
        return get(self, timeout)

    monkeypatch.setattr(Turns, "get", counted)
    endpoint = f"tcp/127.0.0.1:{free_port()}"
    with Router([endpoint]), open_session(endpoint, patience=10) as session:
        answer(session, "asked", 100, lambda query: query.reply("asked", b"yes"), "answers",
               lambda *of, **how: told.append(of))
        for _ in range(5):
            assert looks.acquire(timeout=60.0)
        replies = [reply.ok.payload.to_bytes() for reply in session.zenoh.get("asked", timeout=60.0)]
        long = session.zenoh.get("asked", payload=b"x" * 101, timeout=60.0)
        refused = [reply.err.payload.to_string() for reply in long]
        just = session.zenoh.get("asked", payload=b"x" * 100, timeout=60.0)
        taken = [reply.ok.payload.to_bytes() for reply in just]
    assert replies == taken == [b"yes"] and not told
    assert refused == ["it has 101 bytes, and at most 100 bytes are taken"]


def test_each_robot_has_a_bucket_of_its_own_and_beyond_the_most_all_begin_anew():
    buckets = Buckets(1.0, 2.0, most=2)
    one, two = buckets.of("one"), buckets.of("two")
    assert one is not two and (buckets.of("one"), buckets.of("two")) == (one, two)
    assert buckets.of("three") not in (one, two) and buckets.of("one") is not one
