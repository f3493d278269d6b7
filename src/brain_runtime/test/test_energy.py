# SPDX-License-Identifier: Apache-2.0
"""The gate: what passes, what waits and how long, what is cut, and what it counts. On LocalHost, in simulated time."""
import math
from dataclasses import replace

import numpy as np
import pytest

from brain_runtime import FEATURE, Gated, In, LATCHED, Out, ParameterError, Region
from brain_runtime.contract.energy import Gate, Traffic, budget_of
from brain_runtime.hosts.local import LocalHost
from brain_wire import messages

FEATURES = "brain_interfaces/msg/SensorFeatures"
STRING = "std_msgs/msg/String"
LONGEST_WAIT, BURST, RESERVE = 0.05, 1.0, 0.5   # s, s of the budget, share of a full account
PLAIN = Out("plain", STRING, FEATURE, gated=Gated())
CRITICAL = Out("critical", STRING, FEATURE)
GIST = Out("gist", STRING, FEATURE, gated=Gated(gist=lambda m: m.data[:1]))
URGENT = Out("urgent", STRING, FEATURE, gated=Gated(urgent=lambda m: m.data == "stop"))
KEYED = Out("keyed", FEATURES, FEATURE, gated=Gated(key="source"))
THIN = Out("thin", STRING, FEATURE, gated=Gated(
    thin=lambda m, share: replace(m, data=m.data[:int(share * len(m.data))])))


def size(message):
    return len(messages.encode(message))


def said(gate, port, text, now):
    passed = gate.offer(port, port(data=text), now)
    return None if passed is None else passed.message.data


def spent(budget, now=0.0, below=0.0):
    """A gate whose account holds ``below`` at ``now``, of which the streams of the test know nothing."""
    gate = Gate(budget)
    gate.offer(CRITICAL, CRITICAL(data="x" * 10_000), now)
    gate._level = below
    return gate


def test_news_passes_while_there_is_anything_on_the_account():
    gate, cost = Gate(100.0), size(PLAIN(data="a"))
    passed = [said(gate, PLAIN, "a", 0.001 * n) for n in range(20)]
    assert passed.count("a") == math.ceil(100.0 / cost) + (100.0 % cost == 0) and passed[0] == "a" and not passed[-1]
    assert -cost < gate.level <= 0


def test_what_waits_waits_no_longer_than_it_may_and_only_the_newest():
    gate = spent(1.0)
    assert said(gate, PLAIN, "first", 0.0) == "first"       # nothing was sent before, so the stream has been silent
    assert [said(gate, PLAIN, text, now) for text, now in (("b", 0.01), ("c", 0.02))] == [None, None]
    assert gate.due == pytest.approx(LONGEST_WAIT)
    assert gate.release(0.049) == []
    (passed,) = gate.release(gate.due)
    assert passed.message.data == "c" and passed.data == messages.encode(passed.message) and gate.due == math.inf
    assert gate.traffic["plain"] == Traffic(2, 2 * size(PLAIN(data="c")) + 4, 1, 0, size(PLAIN(data="b")))


@pytest.mark.parametrize("rate", [20.0, 21.0, 30.0, 75.0, 1000.0])
def test_no_stream_is_silent_for_longer_at_any_rate(rate):
    gate, times = spent(1.0), []
    for n in range(int(2 * rate)):
        now = n / rate
        while gate.due <= now:
            due = gate.due
            times += [due] * len(gate.release(due))
        if gate.offer(PLAIN, PLAIN(data=str(n)), now):
            times.append(now)
    assert max(b - a for a, b in zip(times, times[1:])) <= LONGEST_WAIT + 1e-6
    assert len(times) <= 2.0 / LONGEST_WAIT + 1 and (rate < 25 or len(times) < 2 * rate * 0.9)


def test_what_is_not_gated_and_what_is_urgent_always_passes():
    gate = Gate(1.0)
    for n in range(500):
        assert said(gate, CRITICAL, "goal", n * 1e-4) == "goal" and said(gate, URGENT, "stop", n * 1e-4) == "stop"
    assert gate.level >= -BURST - size(CRITICAL(data="goal")) and gate.traffic["urgent"].gated == 0
    assert gate.traffic["urgent"].cut == gate.traffic["critical"].saved == 0
    assert said(gate, URGENT, "go", 0.0499) is None and said(gate, URGENT, "stop", 0.04991) == "stop"
    assert gate.due == math.inf, "what is older than an urgent message must not come after it"


def test_what_always_passes_is_paid_for():
    gate = Gate(1000.0)
    for port, text in ((CRITICAL, "goal"), (URGENT, "stop")):
        before = gate.level
        said(gate, port, text, 0.0)
        assert before - gate.level == size(port(data=text))


def test_a_stream_that_holds_nothing_lets_nothing_go():
    gate = spent(1.0)
    said(gate, PLAIN, "sent", 0.0)
    assert gate.release(1.0) == gate.release(1.0, everything=True) == []


def test_what_must_pass_overdraws_by_one_full_account_at_most():
    gate = Gate(1000.0)
    for _ in range(100):
        gate.offer(CRITICAL, CRITICAL(data="x" * 500), 0.0)
    assert gate.level == -1000.0
    said(gate, PLAIN, "x", 0.0)
    assert said(gate, PLAIN, "y", 1.001) == "y" and gate.level == pytest.approx(1.0 - size(PLAIN(data="y")), abs=0.2)


def test_repetitions_leave_the_reserve_to_news():
    gate = spent(1000.0, below=RESERVE * 1000.0)
    assert said(gate, GIST, "a1", 0.0) == "a1"
    assert said(gate, GIST, "a2", 0.001) is None    # the same gist, and less than the reserve
    assert said(gate, GIST, "b1", 0.002) == "b1"    # news
    assert said(gate, GIST, "a3", 0.003) == "a3"    # news again: it is compared with what was sent last
    assert gate.traffic["gist"].gated == 1
    little = spent(1000.0, below=0.5)
    assert said(little, GIST, "a1", 0.0) == "a1"
    little._level = 0.5
    assert said(little, GIST, "b1", 0.0) == "b1"    # as long as there is anything


def test_streams_of_one_topic_are_told_apart():
    gate = spent(1.0)
    passed = [gate.offer(KEYED, KEYED(source=source), 0.001) for source in ("a", "b", "a", "b")]
    assert [p is not None for p in passed] == [True, True, False, False]
    assert [p.message.source for p in gate.release(0.051)] == ["a", "b"]


def test_what_can_be_cut_is_cut_to_what_is_above_the_reserve():
    budget, whole = 1000.0, "x" * 400
    gate = Gate(budget)
    assert said(gate, THIN, whole, 0.0) == whole and gate.level == 1000.0 - size(THIN(data=whole))
    assert said(gate, THIN, whole, 0.001) is None and said(gate, THIN, whole, 0.002) is None
    (passed,) = gate.release(0.05)
    assert 50 < len(passed.message.data) < 400
    assert RESERVE * budget - 20 <= gate.level <= RESERVE * budget + 20
    assert said(gate, GIST, "n", 0.051) == "n"      # the reserve is there for news
    assert said(gate, THIN, whole, 0.052) is None   # and not for what can be cut
    (passed,) = gate.release(0.1)
    assert len(passed.message.data) <= 50           # what came in 50 ms
    traffic = gate.traffic["thin"]
    assert (traffic.messages, traffic.cut, traffic.gated) == (3, 2, 1)
    assert traffic.bytes + traffic.saved == 4 * size(THIN(data=whole)) and gate.total().cut == 2


@pytest.mark.parametrize("budget", [500.0, 5000.0, 50_000.0])
def test_in_the_long_run_no_more_is_sent_than_the_budget_where_it_can_be_cut(budget):
    gate = Gate(budget)
    for n in range(2000):
        gate.release(n / 100)
        gate.offer(THIN, THIN(data="x" * 4000), n / 100)
    least = 20.0 * 20 * size(THIN(data=""))     # empty messages, every 50 ms
    assert gate.total().bytes <= budget * (20.0 + BURST) + least
    assert gate.total().bytes >= min(budget * 19.0, 2000 * 4000 * 0.9)


def test_the_moment_that_is_due_may_be_missed_by_a_microsecond():
    gate = spent(1.0)
    said(gate, PLAIN, "a", 0.0)
    assert said(gate, PLAIN, "b", 0.05 - 1.5e-6) is None and gate.release(0.05 - 1.4e-6) == []
    assert [p.message.data for p in gate.release(0.05 - 0.5e-6)] == ["b"]
    assert said(gate, PLAIN, "c", 0.1 - 1e-6) == "c"


def test_the_stream_that_has_waited_longest_is_due_next_and_a_clock_that_goes_back_takes_nothing():
    gate = spent(1.0)
    for source, now in (("a", 0.0), ("b", 0.01), ("b", 0.02), ("a", 0.03)):
        gate.offer(KEYED, KEYED(source=source), now)
    assert gate.due == LONGEST_WAIT
    gate = Gate(100.0)
    said(gate, CRITICAL, "x", 5.0)
    level = gate.level
    gate.release(4.9)
    assert gate.level == level < 100.0
    gate.release(4.95)
    assert gate.level == pytest.approx(level + 5.0)


def test_what_is_cut_is_told_the_share_that_it_may_have_and_what_fits_is_not_cut():
    shares = []
    port = Out("shared", STRING, FEATURE, gated=Gated(thin=lambda m, share: shares.append(share) or m))
    message = port(data="x" * 100)
    gate = Gate(1000.0)
    assert gate.offer(port, message, 0.0) is not None and shares == []
    for level, share in ((600.0, 100.0 / size(message)), (500.0, 0.0), (-1000.0, 0.0)):
        gate = spent(1000.0, below=level)
        gate.offer(port, message, 0.0)
        assert shares.pop() == pytest.approx(share)
    gate = Gate()
    assert (gate.limited, gate.budget, gate.level, gate.total()) == (False, 0.0, 0.0, Traffic(0, 0, 0, 0, 0))
    gate.offer(port, message, 0.0), gate.offer(port, message, 0.001)
    assert len(gate.release(0.01, everything=True)) == 1 and shares == []
    gate.budget = 7.0
    assert (gate.limited, gate.budget, gate.level) == (True, 7.0, 7.0)


def test_traffic_is_added_up_over_topics_and_what_is_forgotten_counts_as_gated():
    gate = spent(1.0)
    for port, text, now in ((PLAIN, "a", 0.0), (GIST, "bb", 0.0), (PLAIN, "c", 0.01), (GIST, "dd", 0.01)):
        said(gate, port, text, now)
    gate.forget()
    assert gate.due == math.inf and gate.release(1.0) == []
    one, other = (size(PLAIN(data=text)) for text in ("a", "bb"))
    assert gate.traffic["plain"] == Traffic(1, one, 1, 0, one)
    assert gate.traffic["gist"] == Traffic(1, other, 1, 0, other)
    assert gate.traffic["plain"] + gate.traffic["gist"] == Traffic(2, one + other, 2, 0, one + other)
    assert gate.total() == gate.traffic["critical"] + Traffic(2, one + other, 2, 0, one + other)
    gate._level = 0.0       # nothing was sent before what is forgotten, so it goes at once
    assert said(gate, PLAIN, "e", 0.02) == "e"


def test_without_a_budget_nothing_stays_behind():
    gate = spent(1.0)
    said(gate, PLAIN, "a", 0.0), said(gate, PLAIN, "b", 0.01)
    gate.budget = 0.0
    assert [p.message.data for p in gate.release(0.02, everything=True)] == ["b"] and gate.due == math.inf


def test_a_latched_port_cannot_be_gated():
    with pytest.raises(ValueError, match="goal/text is latched"):
        Out("goal/text", STRING, LATCHED, gated=Gated())


@pytest.mark.parametrize("wrong", [-1.0, math.nan, "much", True])
def test_a_budget_that_is_none_is_refused(wrong):
    with pytest.raises(ParameterError, match="energy_budget of eye"):
        budget_of("eye", {"energy_budget": wrong})
    assert budget_of("eye", {"energy_budget": 5, "other": 1}) == 5.0 and budget_of("eye", {}) == 0.0
    assert budget_of("eye", {"energy_budget": 0.5}) == 0.5


class Chatter(Region):
    """Says a number a thousand times a second, and every tenth of a second an alarm."""

    rate = 1000.0
    number = Out("number", FEATURES, FEATURE, gated=Gated(urgent=lambda m: m.hazard[0] > 0))
    alarm = Out("alarm", STRING, FEATURE)

    def initial_state(self):
        return {"count": np.zeros(1, np.float32)}

    def step(self, inbox, state, dt, rng):
        count = state["count"] + 1
        hazard = np.zeros(36)
        hazard[0] = count[0] % 130 == 0
        outbox = {"number": self.number(source="chatter", confidence=float(count[0]), hazard=hazard)}
        if count[0] % 100 == 0:
            outbox["alarm"] = self.alarm(data=str(count[0]))
        return outbox, {"count": count}


class Counts(Region):
    number = In("number", FEATURES, FEATURE, trigger=True)

    def step(self, inbox, state, dt, rng):
        self.heard = getattr(self, "heard", []) + [(inbox.stamp, inbox.get("number").confidence)]
        return {}, state


def run(parameters):
    counts = Counts()
    host = LocalHost({"chatter": Chatter(), "counts": counts}, parameters=parameters)
    alarms = []
    host.listen("alarm", alarms.append)
    host.advance(2.0)
    return host, counts, alarms


def test_on_a_host_a_starved_region_says_what_is_critical_and_the_rest_every_50_ms():
    host, counts, alarms = run({"chatter": {"energy_budget": 1.0}})
    assert len(alarms) == 20 and set(host.gates) == {"chatter"}
    times, numbers = zip(*counts.heard)
    assert {130 * n for n in range(1, 16)} <= set(numbers), "every urgent number was heard"
    assert max(b - a for a, b in zip(times, times[1:])) <= LONGEST_WAIT + 1e-6 and len(times) < 70
    traffic = host.gates["chatter"].traffic["number"]
    assert traffic.messages == len(times) and traffic.gated + traffic.messages in (2000, 2001)
    assert list(numbers) == sorted(numbers)


def test_a_budget_that_is_never_short_changes_nothing():
    plenty, free = run({"chatter": {"energy_budget": 1e9}}), run({})
    assert plenty[1].heard == free[1].heard and free[0].gates == {}
    assert plenty[0].gates["chatter"].total().gated == 0
    assert plenty[0].gates["chatter"].traffic["alarm"].messages == 20


def test_on_a_host_a_wrong_budget_is_named():
    with pytest.raises(ParameterError, match="energy_budget of chatter"):
        run({"chatter": {"energy_budget": "much"}})
