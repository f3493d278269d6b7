# SPDX-License-Identifier: Apache-2.0
"""Each field of each kind does what the table says, on this machine and in a cluster: it is set, and a change seen."""
from __future__ import annotations

import copy
from datetime import datetime
from pathlib import Path
from typing import Any, Iterator, Mapping

import pytest
from public_samples import DATA, FEDERATED, INCREMENTAL, JOINT, LIFELONG, runtime, train_job

from brain_cloud.jobs import fields
from brain_cloud.jobs.fields import EFFECT, NONE, REFUSED, Field
from brain_cloud.jobs.job_queue import priority
from brain_cloud.jobs.kinds import kinds
from brain_cloud.jobs.learning import DEPLOY, EVAL, KINDS, TRAIN, WAITING, Seen, Where, steps
from brain_cloud.jobs.local_plan import plan as plan_of
from brain_cloud.jobs.manifests import manifest
from brain_cloud.jobs.training import compile_train_job
from brain_cloud.jobs.workers import Places
from brain_edge.schema import FormProblem

PAGE = Path(__file__).resolve().parents[3] / "docs" / "fleet-jobs.md"
PLACES = Path("/srv/job"), Path("/srv/volumes")
# Setting one takes what there was before away, and says so: a volume is no empty folder then, a variable is not set.
TAKES_AWAY = ("volumes.*", "env.valueFrom.*")
RUNTIME = runtime(startupPolicy={"startupPolicyOrder": "AnyOrder"}, failurePolicy={"maxRestarts": 0})
JOBS = {"TrainJob": train_job(), "FederatedLearningJob": FEDERATED, "IncrementalLearningJob": INCREMENTAL,
        "LifelongLearningJob": LIFELONG, "JointInferenceService": JOINT}
VALUES = {"Pod.restartPolicy": "Never", "JobSet.network.publishNotReadyAddresses": False}   # else it is as before
NAMES = ("cpu", "nvidia.com/gpu", "memory")     # of resources
PATIENCE = [Seen(datetime(2026, 1, 1, hour), samples, metrics=metrics) for hour in (1, 3) for samples in (2, 600)
            for metrics in ({"precision_delta": 0.05}, {"precision_delta": 0.5}, {"precision_delta": [4]})]
STANDS = [Where(), Where(TRAIN, "Running", samples=600), Where(EVAL, "Running", samples=600, model="train/1/a"),
          Where(DEPLOY, WAITING, samples=600), Where(DEPLOY, "Running", samples=600, deployed=1),
          Where(TRAIN, "Running", round=2, samples=900, since=600, deployed=1)]


def here(documents: list[dict[str, Any]]) -> tuple[str, list[str]]:
    """What a job comes to on this machine, and what is told of it."""
    job, *others = [manifest(copy.deepcopy(one)) for one in documents]
    objects, found, notes = {(one.kind, one.name): one for one in others}, [], list[str]()
    for stand in STANDS if job.kind in KINDS else STANDS[:1]:
        plan = plan_of(job, objects, Places(*PLACES, ports={"aggregation": 1, "cloud": 2}), {"at": stand.condition})
        found += [plan.groups, plan.restarts, plan.deadline, plan.ttl]
        notes += plan.notes
    return repr([found, job.suspended, priority(job, objects), _rounds(job.kind, job.spec)]), notes


def _rounds(kind: str, spec: Mapping[str, Any]) -> Any:
    if kind not in KINDS:
        return None
    waits = Where(TRAIN, WAITING, why="-"), Where(DEPLOY, WAITING, why="-")
    return [spec["trainSpec"]["trigger"].get("checkPeriodSeconds"),     # what counts looks so often
            [list(steps(stand, spec, lambda at, seen=seen: seen)) for stand in waits[:2 if "trigger" in spec[
                "deploySpec"] else 1] for seen in PATIENCE]]


def cluster(documents: list[dict[str, Any]]) -> tuple[str, list[str]]:
    """What a job comes to in a cluster, and what is told of it."""
    from brain_cloud.cluster import trainjob
    from brain_cloud.cluster.kinds import BY_KIND, JOB
    from brain_cloud.cluster.plans import Below, Settings
    from brain_cloud.cluster.reconcile import PLANS, not_done, ours

    job, *others = copy.deepcopy(documents)
    job["metadata"] |= {"namespace": "default", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}
    objects = {(one["kind"], one["metadata"]["name"]): one for one in others}
    kind, found = BY_KIND[job["kind"]], []
    if job["kind"] == "TrainJob":
        of = Below(job, found=objects).need(*trainjob.runtime_of(job))
        made = trainjob.children(job, compile_train_job(job, of), Settings())
        names = [one.name for one in made if one.kind == JOB]
        for which in (names[:0], names[:1], names[-1:]):
            for how in ("Complete", "Failed"):
                jobs = {name: {"metadata": {"labels": {}}, "status": {"conditions": [
                    {"type": how, "status": "True"}]}} for name in which}
                for now in (0.0, 1767225700.0):      # 100 s after it was made
                    found.append(trainjob.plan(Below(job, jobs, now=now, found=objects), Settings()))
        below = Below(job, found=objects)
    else:
        for stand in STANDS if job["kind"] in KINDS else STANDS[:1]:
            job["status"] = {"conditions": [stand.condition]} if job["kind"] in KINDS else {}
            below = Below(job, found=objects, now=1.77e9)
            found.append(PLANS[job["kind"]](below, Settings()))
            problem = [one for one in found[-1].status.get("conditions", ()) if one["type"] in ("Blocked", "Failed")]
            if problem:
                raise FormProblem(problem[-1]["message"])
    return repr([found, ours(kind, job), _rounds(job["kind"], job["spec"])]), not_done(kind, below)


EXECUTORS = {"here": here, "cluster": cluster}


def outcome(where: str, documents: list[dict[str, Any]]) -> tuple[str, list[str]]:
    try:
        return EXECUTORS[where](documents)
    except (FormProblem, ValueError) as problem:
        return "refused", [str(problem)]


def made_up(schema: Mapping[str, Any]) -> Any:
    """Any value that a schema takes."""
    kind = schema.get("type")
    if "enum" in schema:
        return schema["enum"][-1]
    if kind == "array":
        return [made_up(schema["items"])]
    if kind == "object":
        known = schema.get("properties", {})
        return {name: made_up(known[name]) for name in schema.get("required", [])} or (
            {"k": made_up(schema["additionalProperties"])} if isinstance(schema.get("additionalProperties"), dict)
            else {})
    return {"string": "x", "integer": 7, "number": 7, "boolean": True}.get(kind if isinstance(kind, str) else "", 7)


def settings(form: str, schema: Mapping[str, Any], value: Any, seen: set[Any], path: tuple[str, ...] = (),
             at: tuple[Any, ...] = ()) -> Iterator[tuple[str, tuple[str, ...], tuple[Any, ...], Any]]:
    """Each field of a schema as deep as the table tells fields apart: its form and path, where it is, a value of it."""
    if schema.get("type") == "array":
        for number in range(len(value) if isinstance(value, list) and value else 1):
            one = value[number] if isinstance(value, list) and value else {}
            yield from settings(form, schema["items"], one, seen, path, (*at, number))
        return
    inner = dict(schema.get("properties") or {})
    if not inner and isinstance(schema.get("additionalProperties"), dict) and fields.divided(form, path):
        inner = {name: schema["additionalProperties"] for name in NAMES}
    if path and (not inner or not fields.divided(form, path)):
        yield form, path, at, made_up(schema)
        return
    for name, its in inner.items():
        below, there = (*path, name), value.get(name) if isinstance(value, dict) else None
        row = fields.row(form, below)
        if row is not None and row.form and row.path.count(".") == len(path):
            places = row.form, *(one for one in at if isinstance(one, int))
            if row.form not in seen and places not in seen:     # each form once, but in each of a list
                seen.add(places)
                yield from settings(row.form, its, there, seen, (), (*at, name))
        else:
            yield from settings(form, its, there, seen, below, (*at, name))


def changed(document: dict[str, Any], at: tuple[Any, ...], value: Any) -> dict[str, Any]:
    """A document with a value at a place, whose parents are made where they are not there."""
    found: Any = copy.deepcopy(document)
    one = found["spec"]
    for name, after in zip(at, at[1:]):
        empty: Any = [] if isinstance(after, int) else {}
        if isinstance(name, int) and len(one) <= name:
            one.append(empty)
        elif isinstance(name, str) and one.get(name) is None:
            one[name] = empty
        one = one[name]
    if isinstance(at[-1], int) and len(one) <= at[-1]:
        one.append(value)
    else:
        one[at[-1]] = value
    return found


# A kind, the documents of which one is of it, and the forms that others show already.
PODS = "Template"
CASES: list[tuple[str, list[dict[str, Any]], tuple[str, ...]]] = [
    ("TrainJob", [JOBS["TrainJob"], RUNTIME], ("Runtime",)),
    ("ClusterTrainingRuntime", [train_job(trainer={"command": ["true"]}, runtimePatches=[]), RUNTIME], ()),
    ("ClusterTrainingRuntime", [train_job(runtimePatches=[]), runtime({"numNodes": 1})], ("JobSet",)),
    ("FederatedLearningJob", [FEDERATED, *DATA], ()), ("IncrementalLearningJob", [INCREMENTAL, *DATA], (PODS,)),
    ("LifelongLearningJob", [LIFELONG, *DATA], (PODS,)), ("JointInferenceService", [JOINT, *DATA], (PODS,)),
    ("Dataset", [INCREMENTAL, *DATA], ()), ("Model", [INCREMENTAL, *DATA], ())]


@pytest.mark.slow
@pytest.mark.parametrize("where", ["here", "cluster"])
def test_each_field_of_each_definition_does_what_the_table_says(where):
    if where == "cluster":
        pytest.importorskip("kopf")
        pytest.importorskip("kubernetes")
    wrong, effects = dict[str, Any](), dict[tuple[str, ...], bool]()
    for kind, whole, shown in CASES:
        plain, why = outcome(where, whole)
        assert plain != "refused", (kind, why)
        number = next(number for number, one in enumerate(whole) if one["kind"] == kind)
        schema = kinds()[kind]["schema"]["properties"]["spec"]
        for form, path, at, value in settings(kind, schema, whole[number]["spec"], {*shown}):
            row, name = fields.row(form, path), f"{kind} {'.'.join(map(str, at))}"
            if row is None:
                wrong[name] = f"the table has no row of {form} for it"
                continue
            value = VALUES.get(".".join((form, *path)), value)
            documents = [*whole[:number], changed(whole[number], at, value), *whole[number + 1:]]
            found, told = outcome(where, documents)
            says = row.here if where == "here" else row.cluster
            if says == EFFECT:
                key = form.replace("ClusterTraining", ""), *path
                effects[key] = effects.get(key, False) or found != plain
            elif says == REFUSED and found != "refused":
                wrong[name] = "it is not refused"
            elif says == NONE and not _is_there(whole[number]["spec"], at[:-1]):
                continue    # what it belongs to would be made, and have an effect
            elif says == NONE and found != plain and row.path not in TAKES_AWAY:
                wrong[name] = f"it has an effect: {told}"
            elif says == NONE and found != "refused" and not _tells(row, at, told):
                wrong[name] = f"nobody is told: {told}"
    wrong |= {" ".join(key): "it has no effect" for key, has in effects.items() if not has}
    assert wrong == {}, "\n".join(f"{name}: {why}" for name, why in wrong.items())


def _is_there(value: Any, at: tuple[Any, ...]) -> bool:
    for name in at:
        if not (name < len(value) if isinstance(name, int) else name in value):
            return False
        value = value[name]
    return True


def _tells(row: Field, at: tuple[Any, ...], told: list[str]) -> bool:
    """Whether a field, or one below it, is named."""
    place = "spec" + "".join(f"[{one}]" if isinstance(one, int) else f".{one}" for one in at)
    return any(row.line in one if row.line else place in one for one in told)


def test_the_page_shows_the_table():
    if not PAGE.is_file():
        pytest.skip("the package alone has no docs")
    assert fields.table() in PAGE.read_text(encoding="utf-8"), "`python -m brain_cloud.jobs.fields` prints it"
