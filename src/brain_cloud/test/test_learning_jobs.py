# SPDX-License-Identifier: Apache-2.0
"""Rounds of Sedna's learning jobs: one meaning on this machine and in a cluster, and rounds of an older version."""
from __future__ import annotations

import copy
import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from local_jobs import Jobs, check_status, pod, sedna, until

from brain_cloud.jobs import rounds
from brain_cloud.jobs.learning import Seen, Where, step, steps, where, written
from brain_cloud.jobs.local_plan import sedna_plan
from brain_cloud.jobs.manifests import manifest
from brain_cloud.jobs.records import Records
from brain_cloud.jobs.samples import count, read_samples, told_metrics, told_path
from brain_cloud.jobs.templates import Unfit
from brain_cloud.jobs.workers import Places

NOON = datetime(2026, 11, 25, 12)
TRIGGER = {"checkPeriodSeconds": 1, "condition": {"operator": ">=", "threshold": 2, "metric": "num_of_samples"}}
BETTER = {"condition": {"operator": ">", "threshold": 0.1, "metric": "f1_delta"}}


def objects(here: str = "/srv") -> list[dict[str, Any]]:
    return [sedna("Dataset", "d", url=f"{here}/samples.txt", format="txt", nodeName="edge"),
            *(sedna("Model", name, url=f"{here}/{name}.pt", format="pt") for name in ("initial", "first", "deployed"))]


def incremental(here: str = "/srv", train: Any = None, evaluate: Any = None, infer: Any = None, **deploy: Any
                ) -> dict[str, Any]:
    return copy.deepcopy(sedna(
        "IncrementalLearningJob", "il", initialModel={"name": "initial"}, outputDir=f"{here}/out",
        dataset={"name": "d", "trainProb": 0.5}, trainSpec={"template": train or pod(""), "trigger": TRIGGER},
        evalSpec={"template": evaluate or pod("")}, deploySpec={
            "model": {"name": "deployed", **deploy}, "hardExampleMining": {"name": "IBT"},
            "template": infer or pod(""), "trigger": BETTER}))


def lifelong() -> dict[str, Any]:
    found = incremental()
    del found["spec"]["initialModel"]
    found["spec"]["deploySpec"] = {"template": pod("")}
    return {**found, "kind": "LifelongLearningJob"}


def at(stage: str, step: str, number: int = 1, **more: Any) -> Where:
    return Where(stage, step, number, 8, **{"since": 4, **more})


# --- one state machine

def next_of(now: Where, job: dict[str, Any], **seen: Any) -> Where:
    return [now, *steps(now, job["spec"], lambda _: Seen(NOON, **seen))][-1]


def test_a_round_goes_from_samples_to_what_is_deployed():
    job, now, found = incremental(), Where(), list[dict[str, Any]]()

    def look(**seen: Any) -> tuple[str, str, int]:
        nonlocal now, found
        for new in steps(now, job["spec"], lambda _: Seen(NOON, **seen)):
            found, now = written(found, now, new, "2026-11-25T12:00:00Z"), new
        assert where(found) == now      # who starts anew goes on there
        return now.stage, now.step, now.round

    assert look() == ("Train", "Waiting", 1)
    assert look(samples=1) == ("Train", "Waiting", 1) and now.why == "1 new samples, and training begins with >= 2"
    assert look(samples=4) == ("Train", "Starting", 1) and (now.since, now.samples) == (0, 4)
    assert look(worker="Running") == ("Train", "Running", 1)
    assert look(worker="Complete", made="train/1/a.pt")[:2] == ("Deploy", "Waiting") or now.stage == "Eval"
    assert now.trained == "train/1/a.pt"
    now = Where("Eval", "Starting", 1, 4, model="train/1/a.pt")
    found = written([], Where(), now, "2026-11-25T12:00:00Z")
    assert look(worker="Running") == ("Eval", "Running", 1)
    assert step(now, job["spec"], Seen(NOON, worker="Complete")).step == "Completed"
    now = Where("Deploy", "Waiting", 1, 4, model="train/1/a.pt")
    found = written([], Where(), now, "2026-11-25T12:00:00Z")
    assert look() == ("Deploy", "Waiting", 1) and "has said no f1_delta" in now.why
    assert look(metrics={"f1_delta": [0.4]}) == ("Deploy", "Starting", 1)
    assert look(worker="Complete") == ("Deploy", "Running", 1) and now.deployed == 1
    assert look(deployed=True) == ("Train", "Waiting", 2) and now.trained == "train/2"


def test_a_round_waits_fails_or_is_left_out_alike_wherever_it_runs():
    job = incremental()
    waits = at("Train", "Waiting", 2, why="")
    assert next_of(waits, job, samples=8).why.startswith("0 new samples")
    other = next_of(waits, job, samples=1)      # fewer than were trained on: another list
    assert (other.step, other.samples, other.why[:13]) == ("Waiting", 0, "1 new samples")
    assert (new := next_of(other, job, samples=3)).step == "Starting" and (new.since, new.samples) == (0, 3)
    any_number = copy.deepcopy(job)
    any_number["spec"]["trainSpec"]["trigger"]["condition"]["threshold"] = 0
    assert next_of(waits, any_number, samples=8).step == "Waiting"      # of nothing nothing is learned
    assert next_of(waits, job) == waits         # nobody knows
    failed = next_of(at("Eval", "Running", 2), job, worker="Failed", why="it died")
    assert (failed.stage, failed.step, failed.round) == ("Train", "Waiting", 3) and "it died" in failed.why
    deploys = at("Deploy", "Waiting", 2)
    for metrics, why in (({}, "has said no f1_delta"), ({"f1_delta": 0.05}, "f1_delta is 0.05, and must be > 0.1")):
        out = step(deploys, job["spec"], Seen(NOON, metrics=metrics))
        assert out.step == "Completed" and why in out.why and out.deployed == 0
    night = copy.deepcopy(job)
    night["spec"]["deploySpec"]["trigger"] = {**BETTER, "timer": {"start": "22:00", "end": "23:00"}}
    assert next_of(deploys, night, metrics={"f1_delta": 1}).why == "waiting for its hours"      # and is not left out
    with pytest.raises(Unfit, match="metric is 'loss', and training begins by num_of_samples only"):
        unknown = copy.deepcopy(job)
        unknown["spec"]["trainSpec"]["trigger"]["condition"]["metric"] = "loss"
        next_of(waits, unknown, samples=20)


def test_metrics_and_models_are_told_by_reports_and_messages_alike():
    models = [{"url": "a.pt", "metrics": {"f1": [0.9]}}, {"url": "old", "metrics": {"f1": [0.5]}}]
    for told in (models, {"results": models}):
        assert told_metrics(told)["f1_delta"] == [pytest.approx(0.4)] and told_path(told, "/out/train/1") == "a.pt"
    assert told_metrics({"f1_delta": 0.2}) == {"f1_delta": 0.2}
    for nothing in (None, 3, "x", [], [3], {"results": 3}, [{"metrics": 3}]):
        assert told_metrics(nothing) == {} and told_path(nothing, "/out/train/1") == ""
    for url in ("../2/a.pt", "/etc/passwd", "s3://b/a.pt", "", 3, "."):
        assert told_path([{"url": url}], "/out/train/1") == ""
    assert told_path([{"url": "/out/train/1/x/a.pt"}], "/out/train/1") == "x/a.pt"


# --- one compiler

def local(job: dict[str, Any], now: Where) -> dict[str, dict[str, str]]:
    """Variables of each worker that runs, by its name."""
    known = {(one["kind"], one["metadata"]["name"]): manifest(copy.deepcopy(one)) for one in objects()}
    plan = sedna_plan(manifest(copy.deepcopy(job)), known, Places(Path("/srv/job"), Path("/srv/v")),
                      {"at": now.condition})
    return {worker.name: dict(worker.steps[-1].env) for group in plan.groups for worker in group.workers
            if group.name != "loader"}


def cluster(job: dict[str, Any], now: Where) -> dict[str, dict[str, str]]:
    pytest.importorskip("kopf")
    pytest.importorskip("kubernetes")
    from brain_cloud.cluster.plans import Below, Settings
    from brain_cloud.cluster.stages import learning

    found = {(one["kind"], one["metadata"]["name"]): one for one in objects()}
    its = {**copy.deepcopy(job), "status": {"conditions": [now.condition]}}
    its["metadata"] |= {"namespace": "default", "uid": "u1"}
    jobs = {f"il-{name}": {"metadata": {}, "spec": {}, "status": {"active": 1}} for name in (
        "train-2", "eval-2", "put-2")}
    plan = learning(Below(its, jobs=jobs, found=found), Settings())
    assert learned(plan.status["conditions"]) == (now.stage, now.step), plan.status
    told = {}
    for child in plan.children:
        (container,) = child.body["spec"]["template"]["spec"]["containers"]
        told[child.name.removeprefix("il-")] = {one["name"]: one["value"] for one in container.get("env", ())}
    return told


def learned(conditions: list[dict[str, Any]]) -> tuple[str, str]:
    return conditions[-1]["stage"], conditions[-1]["type"]


def hot() -> dict[str, Any]:
    return incremental(hotUpdateEnabled=True, pollPeriodSeconds=5)


def first_eval() -> dict[str, Any]:
    found = incremental()
    found["spec"]["evalSpec"]["initialEvalModel"] = {"name": "first"}
    return found


@pytest.mark.parametrize("now", [at("Train", "Running", 2), at("Train", "Running", 2, deployed=1),
                                 at("Eval", "Running", 2, model="train/2/a.pt"),
                                 at("Eval", "Running", 2, deployed=1)], ids=lambda one: f"{one.stage}-{one.deployed}")
@pytest.mark.parametrize("job", [incremental(), lifelong(), hot(), first_eval()],
                         ids=["incremental", "lifelong", "hot", "first-eval"])
def test_a_worker_is_told_the_same_on_both(job, now):
    here, there = local(job, now), cluster(job, now)
    assert here.keys() == ({*there} - {"train-2"} if now.stage == "Eval" else {*there})    # which is kept to be seen
    for name, variables in here.items():
        own = {one: there[name].get(one) for one in variables if one not in ("WORKER_NAME", "LC_SERVER")}
        assert own == {one: variables[one] for one in own}, name
        assert {*there[name]} - {*variables} == set()


def test_the_variables_are_those_of_sednas_manager():
    first = local(incremental(), at("Train", "Running", 1))
    next_ = local(incremental(), at("Train", "Running", 2, deployed=1))
    assert first["train-1"].items() >= {
        "NAMESPACE": "default", "JOB_NAME": "il", "BASE_MODEL_URL": "/srv/initial.pt", "MODEL_URL": "/srv/out/train/1",
        "TRAIN_DATASET_URL": "/srv/out/data/1/train.txt", "ORIGINAL_DATASET_URL": "/srv/samples.txt"}.items()
    assert next_["train-2"]["BASE_MODEL_URL"] == "/srv/deployed.pt" == next_["infer"]["MODEL_URL"]
    told = local(first_eval(), at("Eval", "Running", 1, model="train/1/a.pt"))["eval-1"]
    assert told["MODEL_URLS"] == "/srv/out/train/1/a.pt;/srv/first.pt"
    assert told["TEST_DATASET_URL"] == "/srv/out/data/1/eval.txt"
    told = local(lifelong(), at("Eval", "Running", 2, deployed=1))
    assert told["eval-2"].items() >= {"MODEL_URLS": "/srv/out/train/2", "OUTPUT_URL": "/srv/out/deploy"}.items()
    assert told["infer"].items() >= {"MODEL_URLS": "/srv/out/deploy/index.pkl", "OUTPUT_URL": "/srv/out"}.items()
    told = local(hot(), at("Train", "Running", 1))["infer"]
    assert (told["MODEL_HOT_UPDATE"], told["MODEL_POLL_PERIOD_SECONDS"]) == ("true", "5")


@pytest.mark.parametrize("change, why", [
    (lambda job: job["spec"].update(outputDir="s3://bucket/out"), "spec.outputDir: 's3://bucket/out' must be a path"),
    (lambda job: job["spec"]["dataset"].update(name="none"), "there is no Dataset"),
    (lambda job: job["spec"]["deploySpec"]["model"].update(name="none"), "there is no Model"),
    (lambda job: job["spec"]["evalSpec"].update(initialEvalModel={"name": "none"}), "there is no Model"),
    (lambda job: job["spec"]["trainSpec"]["trigger"]["condition"].update(metric="loss"),
     "begins by num_of_samples only"),
])
def test_what_is_refused_is_refused_on_both(change, why):
    pytest.importorskip("kopf")
    from brain_cloud.cluster.plans import Below, Settings
    from brain_cloud.cluster.stages import learning

    job = incremental()
    change(job)
    with pytest.raises(ValueError, match=why):
        local(job, Where())
    job["metadata"] |= {"namespace": "default", "uid": "u1"}
    found = {(one["kind"], one["metadata"]["name"]): {**one, "status": {"numberOfSamples": 9}} for one in objects()}
    last = learning(Below(job, found=found), Settings()).status["conditions"][-1]
    assert last["type"] == "Blocked" and why in last["message"]


# --- files of a round

def test_files_of_a_round_are_made_once_and_again(tmp_path, capsys):
    lists, out = tmp_path / "samples.csv", tmp_path / "out"
    lists.write_text("head\n1\n2\x0c\n3\n4\n5")
    assert count(lists, "csv") == 5 == len(read_samples(lists, "csv")[1])
    words = ["begin", str(out / "train" / "2"), "--split", str(lists), "csv", "1", "5", "0.5", str(out / "data" / "2")]
    for _ in range(2):
        assert rounds.main(words) == 0
        assert (out / "data" / "2" / "train.csv").read_text() == "head\n2\x0c\n3\n"
        assert (out / "data" / "2" / "eval.csv").read_text() == "head\n4\n5\n"
    lists.write_text("head\n1\n")
    assert rounds.main(words) == 1 and "had 5 samples and has 1; let a list only grow" in capsys.readouterr().err
    trained, target = out / "train" / "2", tmp_path / "models" / "deployed.pt"
    (trained / "a.pt").write_text("second")
    for _ in range(2):
        assert rounds.main(["put", str(trained), str(target), "--hot", str(out / "hot.json"), "--round", "2"]) == 0
        assert target.read_text() == "second" and [one.name for one in target.parent.iterdir()] == ["deployed.pt"]
    assert json.loads((out / "hot.json").read_text()) == {"model_config": {
        "model_path": str(target), "model_update_time": "2"}}
    (trained / "b.pt").write_text("of two")     # then it is a folder
    assert rounds.main(["put", str(trained), str(target)]) == 0 and (target / "b.pt").read_text() == "of two"
    assert rounds.main(["put", str(tmp_path / "none"), str(target)]) == 1 and "No such file" in capsys.readouterr().err
    assert (target / "a.pt").read_text() == "second"


def test_an_evaluation_is_heard_by_its_message_and_a_worker_that_looks_for_models_is_told(tmp_path):
    """The same file as of a container: what a worker leaves at /dev/termination-log."""
    (tmp_path / "samples.txt").write_text("1\n2\n3\n4\n")
    (tmp_path / "initial.pt").write_text("0 ")
    (tmp_path / "deployed.pt").write_text("first ")
    train = pod("import os; open(os.environ['MODEL_URL'] + '/m.pt', 'w').write("
                "open(os.environ['BASE_MODEL_URL']).read() + open(os.environ['TRAIN_DATASET_URL']).read())")
    said = json.dumps({"f1_delta": 0.3})
    evaluate = {"spec": {"containers": [
        {"name": "w", "command": ["sh", "-c", f"echo '{said}' > /dev/termination-log"]}]}}
    jobs = Jobs(tmp_path / "runner")
    try:
        jobs.apply(*objects(str(tmp_path)), incremental(
            str(tmp_path), train, evaluate, pod("import time; print('infers', flush=True); time.sleep(1000)"),
            hotUpdateEnabled=True))
        config = tmp_path / "out" / "hot" / "model_config.json"
        until(config.is_file, lambda: jobs.said("il"))
        until(lambda: where(jobs.one("il")["status"]["conditions"]).round == 2, lambda: jobs.one("il"))
        assert (tmp_path / "deployed.pt").read_text() == "0 1\n2\n"
        assert json.loads(config.read_text())["model_config"]["model_path"] == str(tmp_path / "deployed.pt")
        infer = next(one for one in jobs.one("il")["workers"] if one["name"] == "infer")
        assert infer["attempt"] == 1        # it has not been started again
        check_status(jobs.one("il"))
    finally:
        jobs.runner.stop()


# --- rounds that an older version began

# What a runner of 0.2.0 kept of a job in the middle of its second round.
BEFORE = {"ports": {}, "stage_state": {"name": "Train", "running": True, "round": 2, "seen": 8, "checked": 9.7,
                                       "deployed": 1, "trained": True, "reports": {}, "told": ""},
          "phase": "Running", "workers": {
              "infer": {"attempt": 2, "state": "Running"},
              "loader-train-2-dataset": {"attempt": 1, "state": "succeeded"},
              "train-2": {"attempt": 1, "state": "Running"}},
          "groups": {name: {"failures": 0, "round": 0} for name in ("loader", "infer", "train")}, "priority": 0,
          "preempts": True, "stage": "Train", "began": 0.5}
STATUS = {"startTime": "2026-11-29T15:02:38Z", "conditions": [
    {"status": "True", "stage": "Train", "type": "Running", "reason": "", "message": "",
     "lastHeartbeatTime": "2026-11-29T15:02:47Z", "lastTransitionTime": "2026-11-29T15:02:47Z"}]}
REPORTS = """
import json, os, urllib.request
print("examines", os.environ["MODEL_URLS"], open(os.environ["TEST_DATASET_URL"]).read().split())
told = {"name": os.environ["WORKER_NAME"], "namespace": os.environ["NAMESPACE"], "ownerName": os.environ["JOB_NAME"],
        "ownerKind": "IncrementalLearningJob", "kind": "eval", "status": "completed", "results": [
            {"url": "model", "metrics": {"f1": [0.9]}}, {"url": "old", "metrics": {"f1": [0.5]}}]}
urllib.request.urlopen(urllib.request.Request(
    os.environ["LC_SERVER"] + "/sedna/workers/" + told["name"] + "/info", json.dumps(told).encode(),
    {"Content-Type": "application/json"}), timeout=60)
"""


@pytest.mark.parametrize("stage", ["Train", "Eval", "Waiting"])
def test_a_runner_goes_on_with_what_the_version_before_kept(tmp_path, stage):
    (tmp_path / "samples.txt").write_text("".join(f"{number}\n" for number in range(1, 9)))
    (tmp_path / "deployed.pt").write_text("first ")
    (tmp_path / "initial.pt").write_text("0 ")
    for folder in ("data/2", "train/2"):
        (tmp_path / "out" / folder).mkdir(parents=True)
    (tmp_path / "out" / "data" / "2" / "train.txt").write_text("5\n6\n")
    (tmp_path / "out" / "data" / "2" / "eval.txt").write_text("7\n8\n")
    (tmp_path / "out" / "train" / "2" / "model").write_text("first 5 6" if stage == "Eval" else "")
    train = pod("import os; open(os.environ['MODEL_URL'] + '/model', 'w').write(open(os.environ['BASE_MODEL_URL'])"
                ".read() + ' '.join(open(os.environ['TRAIN_DATASET_URL']).read().split()))")
    job = incremental(str(tmp_path), train, pod(REPORTS), pod("import time; time.sleep(1000)"))
    state = json.loads(json.dumps(BEFORE).replace("train-2", "eval-2") if stage == "Eval" else json.dumps(BEFORE))
    if stage == "Waiting":
        state["stage_state"] |= {"running": False, "seen": 4}
        del state["workers"]["train-2"], state["workers"]["loader-train-2-dataset"]
    else:
        state["stage_state"]["name"] = state["stage"] = stage
    records = Records(tmp_path / "runner")
    uses = [manifest(one) for one in objects(str(tmp_path)) if one["metadata"]["name"] != "first"]
    with records.store.change() as db:
        for one in uses:
            records.put(db, one, [])
        records.put(db, manifest(job), uses)
    (record,) = [one for one in records.all() if one.manifest.job]
    record.state, record.status = state, copy.deepcopy(STATUS)
    for loader in ("loader-train-2-dataset", "loader-eval-2-dataset"):      # what it fetched it had signalled
        signal = tmp_path / "runner" / "jobs" / f"il-{record.uid}" / "workers" / loader / "signal"
        signal.parent.mkdir(parents=True)
        signal.touch()
    records.keep(record)
    records.close()
    jobs = Jobs(tmp_path / "runner")
    try:
        until(lambda: where(jobs.one("il")["status"]["conditions"]).round == 3, lambda: jobs.said("il"))
        assert (tmp_path / "deployed.pt").read_text() == "first 5 6", jobs.said("il")
        assert f"examines {tmp_path}/out/train/2/model;{tmp_path}/deployed.pt ['7', '8']" in jobs.said("il")
        now = where(jobs.one("il")["status"]["conditions"])
        assert (now.stage, now.step, now.samples, now.deployed) == ("Train", "Waiting", 8, 2)
        assert jobs.one("il")["status"]["startTime"] == STATUS["startTime"]
    finally:
        jobs.runner.stop()


def test_an_operator_ends_a_round_as_the_version_before_began_it():
    pytest.importorskip("kopf")
    from brain_cloud.cluster.plans import Below, Settings
    from brain_cloud.cluster.stages import learning

    found = {(one["kind"], one["metadata"]["name"]): one for one in objects()}
    job = incremental()
    job["metadata"] |= {"namespace": "default", "uid": "u1"}

    def looks(conditions: list[dict[str, Any]], **more: Any) -> tuple[Any, dict[str, dict[str, str]]]:
        plan = learning(Below({**job, "status": {"conditions": conditions}}, found=found, **more), Settings())
        return plan, {child.name: {one["name"]: one["value"] for one in child.body["spec"]["template"]["spec"][
            "containers"][0].get("env", ())} for child in plan.children}

    before = {"type": "Running", "status": "True", "reason": "EvalRunning", "message": "job il-eval-4", "stage": "Eval",
              "data": '{"round": 4, "samples": 8, "deployed": 3, "counted": 9}'}
    running = {"il-eval-4": {"metadata": {}, "spec": {}, "status": {"active": 1}}}
    plan, told = looks([before], jobs=running)
    assert told["il-eval-4"]["MODEL_URLS"] == "/srv/out/il/round-4;/srv/out/il/round-3"
    assert told["il-eval-4"]["TEST_DATASET_URL"] == "/srv/samples.txt"      # it was not divided then
    assert told["il-infer"]["MODEL_URL"] == "/srv/out/il/round-3"
    done = {"il-eval-4": {"metadata": {}, "spec": {}, "status": {"conditions": [
        {"type": "Complete", "status": "True"}]}}}
    plan, told = looks([before], jobs=done, said={"il-eval-4": '{"f1_delta": 0.5}'})
    at_ = where(plan.status["conditions"])
    assert (at_.stage, at_.step, at_.deployed, at_.counted) == ("Deploy", "Running", 4, 9)
    assert told["il-infer"]["MODEL_URL"] == "/srv/out/il/round-4" and "il-put-4" not in told
    ready = {"il-infer": {"spec": {"template": {"metadata": {"annotations": {"fleet.brain/round": "4"}}}},
                          "status": {"observedGeneration": 1, "updatedReplicas": 1, "availableReplicas": 1}}}
    plan, told = looks(plan.status["conditions"], deployments=ready)
    at_ = where(plan.status["conditions"])
    assert (at_.stage, at_.step, at_.round, at_.home) == ("Train", "Waiting", 5, "train/5")
    assert told["il-infer"]["MODEL_URL"] == "/srv/out/il/round-4"
    waits = {**before, "type": "Waiting", "stage": "Train", "data": '{"round": 4, "samples": 3, "deployed": 3}'}
    plan, told = looks([waits], said={})
    assert where(plan.status["conditions"], "il").home == "train/4"
    assert told["il-infer"]["MODEL_URL"] == "/srv/out/il/round-3"
