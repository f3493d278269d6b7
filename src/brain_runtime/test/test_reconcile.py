# SPDX-License-Identifier: Apache-2.0
"""What is done about workloads, and what follows where one has ended: rules, without a process."""
import signal
from dataclasses import replace

import pytest

from brain_runtime.run.reconcile import SETTLED, Action, Seen, after_end, reconcile
from brain_runtime.run.workload import ALWAYS, NEVER, REGION, Backoff, Restart, Workload

A = Workload("a", ("true",), grace=5.0)
B = Workload("b", ("true",), after=("a",))
FAILURE = Restart(always=False)
QUICK = Backoff(first=1.0, most=4.0, healthy=10.0)


def done(wanted, now, **seen):
    return reconcile(wanted, seen, now)


def test_what_is_due_is_started_and_what_is_not_waits():
    assert done([A], 0.0, a=Seen(A)) == [Action("a")]
    assert done([A], 1.0, a=Seen(A, due=1.5)) == []
    assert done([A], 1.5, a=Seen(A, due=1.5)) == [Action("a")]
    assert done([A], 9.0, a=Seen(A, due=None)) == [], "given up"
    assert done([A], 9.0, a=Seen(A, began=0.0, due=None)) == [], "it runs"
    assert done([], 9.0, a=Seen(A)) == [], "it is not wanted"


def test_what_comes_after_another_waits_until_that_runs():
    assert done([A, B], 0.0, a=Seen(A), b=Seen(B)) == [Action("a")]
    assert done([A, B], 0.1, a=Seen(A, began=0.0, due=None), b=Seen(B)) == [Action("b")]
    assert done([B], 0.1, b=Seen(B)) == [], "it is not there at all"


def test_what_is_not_wanted_ends_in_turn_and_by_force_where_it_must():
    early, late = A, replace(A, name="late", stop_order=1)
    runs = {"a": Seen(early, began=0.0, due=None), "late": Seen(late, began=0.0, due=None)}
    assert reconcile([], runs, 1.0) == [Action("a", signal.SIGTERM)]
    runs["a"].asked = 1.0
    assert reconcile([], runs, 5.9) == []
    (kill,) = reconcile([], runs, 6.0)
    assert (kill.name, kill.number) == ("a", signal.SIGKILL) and "within 5 s of SIGTERM" in kill.why
    runs["a"].killed = True
    assert reconcile([], runs, 7.0) == []
    runs["a"].began = None
    assert reconcile([], runs, 7.1) == [Action("late", signal.SIGTERM)]


def test_what_is_wanted_otherwise_ends_first():
    other = replace(A, argv=("false",))
    assert done([other], 1.0, a=Seen(A, began=0.0, due=None)) == [Action("a", signal.SIGTERM)]
    assert done([other], 2.0, a=Seen(other)) == [Action("a")]


def test_what_is_not_well_is_killed_once():
    seen = Seen(A, began=0.0, due=None, wrong="hung")
    assert done([A], 1.0, a=seen) == [Action("a", signal.SIGKILL, why="hung")]
    seen.killed = True
    assert done([A], 1.1, a=seen) == []
    assert done([], 1.2, a=seen) == [], "it is on its way"


def test_a_spare_one_is_made_when_the_first_has_settled():
    spare = replace(A, spare=True)
    seen = Seen(spare, began=0.0, due=None, spare_due=SETTLED)
    assert done([spare], SETTLED - 0.1, a=seen) == []
    assert done([spare], SETTLED, a=seen) == [Action("a", spare=True)]
    seen.spare = True
    assert done([spare], SETTLED + 1.0, a=seen) == []
    assert done([A], SETTLED, a=Seen(A, began=0.0, due=None)) == []


@pytest.mark.parametrize("restart, failures, ran, status, spare, then", [
    (ALWAYS, 0, 1.0, 1, False, (1, 0.2, "ended")),
    (ALWAYS, 2, 1.0, -9, False, (3, 0.8, "ended")),
    (ALWAYS, 9, 1.0, 0, False, (10, 10.0, "ended")),
    (ALWAYS, 9, 10.1, 1, False, (1, 0.2, "ended")),
    (ALWAYS, 9, 1.0, 1, True, (10, 0.0, "ended")),
    (NEVER, 0, 1.0, 1, False, (0, None, "given up")),
    (NEVER, 0, 1.0, 0, True, (0, None, "given up")),
    (FAILURE, 3, 1.0, 0, False, (0, None, "done")),
    (FAILURE, 3, 1.0, 1, False, (4, 1.6, "ended")),
    (REGION, 1, 1.0, 2, False, (2, 0.4, "ended")),
    (REGION, 2, 1.0, 2, False, (3, None, "given up")),
    (REGION, 2, 1.0, 1, False, (3, 0.8, "ended")),
    (REGION, 2, 11.0, 2, False, (1, 0.2, "ended")),
    (Restart(tries=2), 1, 1.0, None, False, (2, None, "given up")),
    (Restart(backoff=QUICK), 5, 1.0, 1, False, (6, 4.0, "ended"))])
def test_what_follows_an_end(restart, failures, ran, status, spare, then):
    found = after_end(restart, failures, ran, status, spare)
    assert (found.failures, found.wait, found.kind) == then
    assert found.wait is None or f"in {found.wait:g} s" in found.text


def test_a_drawn_wait_is_never_longer_and_not_always_the_same():
    waits = {Backoff(first=1.0, drawn=0.5).delay(1) for _ in range(20)}
    assert len(waits) > 1 and 0.5 <= min(waits) and max(waits) <= 1.0
