# SPDX-License-Identifier: Apache-2.0
"""Which jobs run next, and which end for a more important one; no process is started."""
from __future__ import annotations

import itertools

import pytest
from local_jobs import job as train_job

from brain_cloud.jobs.job import QUEUED, RUNNING, Job
from brain_cloud.jobs.job_queue import Priority, admitted, giving_way, priority
from brain_cloud.jobs.manifests import manifest
from brain_cloud.jobs.records import Record
from brain_cloud.jobs.workers import Group, Places, Plan, Worker

numbers = itertools.count(1)


@pytest.fixture
def made(tmp_path):
    def make(name, slots, value, phase=RUNNING, preempts=True, **state):
        record = Record(manifest(train_job(name)), name, 1, "", next(numbers), [], {}, {
            "phase": phase, "priority": value, "preempts": preempts, **state})
        plan = Plan((Group("node", tuple(Worker(f"node-{number}") for number in range(slots))),))
        return Job(record, plan, Places(tmp_path / name, tmp_path / "volumes"), "test", lambda text: None)
    return make


def names(found):
    first, ends = found
    return None if first is None else first.record.manifest.name, [job.record.manifest.name for job in ends]


def test_nobody_ends_where_there_is_room_or_where_it_would_not_suffice(made):
    low, same = made("low", 1, 0), made("same", 2, 5)
    waits = made("waits", 2, 5, QUEUED)
    assert names(giving_way([low, same, waits], 5)) == ("waits", [])        # there is room
    assert names(giving_way([low, same, waits], 3)) == ("waits", [])        # of one priority, and one slot is too few
    assert names(giving_way([low, same, made("polite", 1, 9, QUEUED, preempts=False)], 3)) == ("polite", [])
    assert names(giving_way([low, same], 3)) == (None, [])
    assert admitted([low, same, waits], 3) == [] and admitted([low, same, waits], 5) == [waits]


def test_the_lowest_end_first_of_them_the_latest_and_no_more_than_needed(made):
    lowest = made("lowest", 1, 0, began=30.0)
    early, late = made("early", 1, 2, began=10.0), made("late", 1, 2, began=20.0)
    wide = made("wide", 3, 3, began=5.0)
    jobs = [early, wide, late, lowest]
    assert names(giving_way([*jobs, made("one", 1, 9, QUEUED)], 6)) == ("one", ["lowest"])
    assert names(giving_way([*jobs, made("two", 2, 9, QUEUED)], 6)) == ("two", ["lowest", "late"])
    # Three slots more, of one job: then the small ones need not end besides.
    assert names(giving_way([lowest, wide, made("three", 3, 9, QUEUED)], 4)) == ("three", ["wide"])
    assert names(giving_way([*jobs, made("larger-than-all", 99, 9, QUEUED)], 6)) == (
        "larger-than-all", ["lowest", "late", "early", "wide"])


def test_what_ends_already_is_room_to_come(made):
    stays, ends = made("stays", 1, 0), made("ends", 1, 0, ending={"phase": "Failed", "reason": "", "message": ""})
    gone = made("gone", 1, 0)
    gone.deleted = True
    waits = made("waits", 2, 9, QUEUED)
    assert names(giving_way([stays, ends, gone, waits], 3)) == ("waits", [])
    assert names(giving_way([stays, made("other", 1, 1), ends, waits], 3)) == ("waits", ["stays"])
    assert admitted([stays, ends, gone, waits], 3) == []


def test_classes_of_kubernetes_preempt_unless_they_say_never_and_those_of_kueue_do_not():
    def of(kind, version, **more):
        return manifest({"apiVersion": version, "kind": kind, "metadata": {"name": "soon"}, "value": 7, **more})

    job = manifest(train_job("mine", labels={"kueue.x-k8s.io/priority-class": "soon"}))
    plain = manifest(train_job("other"))
    for one, expected in ((of("PriorityClass", "scheduling.k8s.io/v1"), Priority(7, True)),
                          (of("PriorityClass", "scheduling.k8s.io/v1", preemptionPolicy="Never"), Priority(7, False)),
                          (of("WorkloadPriorityClass", "kueue.x-k8s.io/v1beta1"), Priority(7, False))):
        assert priority(job, {(one.kind, one.name): one}) == expected
        assert priority(plain, {(one.kind, one.name): one}) == Priority(0, True)
    usual = of("PriorityClass", "scheduling.k8s.io/v1", globalDefault=True)
    assert priority(plain, {(usual.kind, usual.name): usual}) == Priority(7, True)
