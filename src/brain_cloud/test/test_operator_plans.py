# SPDX-License-Identifier: Apache-2.0
"""What a resource asks for, without a cluster: pods of workers, stages, gates, and how a robot or an order is shown."""
from __future__ import annotations

import calendar
import hashlib
import http.server
import sys
import threading
from datetime import datetime
from pathlib import Path
from typing import Any, Iterator

import pytest

pytest.importorskip("kopf")
pytest.importorskip("kubernetes")

sys.path.insert(0, str(Path(__file__).parent / "programs"))
from manifests_of_jobs import (dataset, federated, incremental, joint, model, runtime, step,       # noqa: E402
                               train_job)

from brain_cloud.blobs import inputs  # noqa: E402
from brain_cloud.cluster import counting, gate, mirror, pods, sedna, stages, trainjob  # noqa: E402
from brain_cloud.cluster.kinds import DATASET, FEDERATED, INCREMENTAL, JOB, JOINT, MODEL, TRAIN_JOB, Kind   # noqa: E402
from brain_cloud.cluster.plans import Below, Settings      # noqa: E402
from brain_cloud.cluster.pods import EDGE, HOST, placed     # noqa: E402
from brain_cloud.jobs import learning, samples, status, training  # noqa: E402
from brain_cloud.jobs.templates import Unfit, overlaid  # noqa: E402
from brain_cloud.jobs.worker_data import Data     # noqa: E402

SETTINGS = Settings("brain:1")
NOON = calendar.timegm((2026, 11, 25, 12, 0, 0))
NOON_OF_A_DAY = datetime(2026, 11, 25, 12)


def known(kind: Kind, one: dict[str, Any]) -> dict[str, Any]:
    """A resource as the API gives it."""
    return {"kind": kind.kind, **one, "metadata": {"namespace": "default", "uid": "u1", "generation": 1,
                                                   **one["metadata"]}}


def below(kind: Kind, one: dict[str, Any], **more: Any) -> Below:
    found = {(DATASET.kind, "room1"): dataset("room1", samples=500), (DATASET.kind, "room2"): dataset("room2")}
    found |= {(MODEL.kind, name): model(name) for name in ("vision", "little", "big", "deployed")}
    return Below(known(kind, one), **{"now": NOON, "found": found, **more})


def worker(job: dict[str, Any], its_runtime: dict[str, Any], name: str = "node") -> dict[str, Any]:
    """The pod of a step of a TrainJob."""
    compiled = training.compile_train_job(job, its_runtime)
    (found,) = [one.body for one in trainjob.children(known(TRAIN_JOB, job), compiled, SETTINGS)
                if one.kind == JOB and one.body["metadata"]["labels"]["fleet.brain/step"] == name]
    return found["spec"]["template"]["spec"]


def env(container: dict[str, Any]) -> dict[str, Any]:
    return {one["name"]: one.get("value", one.get("valueFrom")) for one in container["env"]}


def test_a_trainers_pod_is_its_runtimes_with_what_the_job_says_and_torchruns_variables():
    job = train_job("run7", trainer={
        "numNodes": 3, "numProcPerNode": 2, "image": "mine:2", "command": ["torchrun", "train.py"],
        "env": [{"name": "EPOCHS", "value": "2"}], "resourcesPerNode": {"limits": {"memory": "2Gi"}}},
        runtimePatches=[{"manager": "queue", "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [
            {"name": "node", "template": {"spec": {"template": {"spec": {
                "nodeSelector": {"pool": "gpu"}, "tolerations": [{"key": "gpu"}]}}}}}]}}}}])
    found = worker(job, runtime())
    (one,) = found["containers"]
    assert {"image": "mine:2", "command": ["torchrun", "train.py"], "ports": [{"containerPort": 29500}],
            "resources": {"limits": {"memory": "2Gi"}}}.items() <= one.items()
    assert env(one) == {"EPOCHS": "2", "PET_NNODES": "3", "PET_NPROC_PER_NODE": "2", "PET_NODE_RANK": trainjob.RANK,
                        "PET_MASTER_ADDR": "run7-node-0-0.run7", "PET_MASTER_PORT": "29500"}
    assert found["nodeSelector"] == {"pool": "gpu"} and found["subdomain"] == "run7"
    plain = worker(train_job(), runtime(name="plain", numNodes=1))
    assert "env" not in plain["containers"][0]      # no torch, no variables


def test_processes_of_a_node_are_said_or_counted():
    cases = [((None, 4), "4"), ((None, None), "1"), (({"limits": {"cpu": "3"}}, None), "3"),
             (({"limits": {"cpu": "8"}, "requests": {"cpu": "1500m"}}, None), "2"),
             (({"limits": {"nvidia.com/gpu": "2", "cpu": "8"}}, None), "auto"),
             (({"requests": {"cpu": "2k"}}, None), "2000"),
             (({"limits": {"nvidia.com/gpu": 0, "cpu": 2}}, None), "2")]
    assert [training.processes_of(*given)[0] for given, _ in cases] == [wanted for _, wanted in cases]


def test_data_comes_by_the_runtimes_step_or_by_a_gate():
    data = {"dataset": {"storageUri": "https://data.example/rooms.tar?v=2", "secretRef": {"name": "keys"},
                        "env": [{"name": "TOKEN", "value": "1"}]}}
    load = worker(train_job(initializer=data), runtime(step("load", "dataset-initializer", "load:1")), "load")
    assert "env" not in load["containers"][0]       # Kubeflow sets it in a container of its own name only
    named = step("dataset-initializer", "dataset-initializer", "load:1")
    (one,) = worker(train_job(initializer=data), runtime(named), "dataset-initializer")["containers"]
    assert env(one) == {"STORAGE_URI": "https://data.example/rooms.tar?v=2", "TOKEN": "1"}
    assert one["envFrom"] == [{"secretRef": {"name": "keys"}}]
    gated = worker(train_job(initializer=data), runtime())
    (gate_of,) = gated["initContainers"]
    path = "/var/lib/fleet-data/dataset/rooms.tar"
    assert gate_of["command"][3:] == ["--data", "https://data.example/rooms.tar?v=2", path, "any"]
    assert gate_of["image"] == "brain:1" and env(gated["containers"][0])["DATASET_PATH"] == path
    (mount,) = gated["containers"][0]["volumeMounts"]
    assert mount in gate_of["volumeMounts"] and path.startswith(mount["mountPath"])


def test_what_a_patch_says_of_the_whole_job_counts_and_a_digest_is_asked_of_the_gate():
    job = train_job(runtimePatches=[{"manager": "k", "trainingRuntimeSpec": {"template": {"spec": {
        "failurePolicy": {"maxRestarts": 2}, "network": {"publishNotReadyAddresses": False},
        "successPolicy": {"operator": "Any", "targetReplicatedJobs": ["node"]}}}}}])
    compiled = training.compile_train_job(job, runtime())
    assert compiled.restarts == 2 and compiled.success == ("Any", ("node",))
    service = trainjob.children(known(TRAIN_JOB, job), compiled, SETTINGS)[0].body
    assert service["spec"]["publishNotReadyAddresses"] is False
    right = "a" * 64
    fetched = {"storageUri": "https://host/rooms", "env": [{"name": "SHA256", "value": right}]}
    (gate_of,) = worker(train_job(initializer={"dataset": fetched}), runtime())["initContainers"]
    assert gate_of["command"][-1] == right and gate_of["env"] == fetched["env"]


def test_what_cannot_be_run_is_said_in_a_line():
    long = "a" * 60
    cases = {
        "take a runtime with torch, jax, xgboost, or without any": lambda: worker(train_job(), runtime(flux={})),
        "'PET_NNODES' is set for torchrun": lambda: worker(train_job(trainer={
            "env": [{"name": "PET_NNODES", "value": "1"}]}), runtime()),
        "numNodes is 0": lambda: worker(train_job(trainer={"numNodes": 0}), runtime()),
        "may have 63": lambda: worker(train_job(long), runtime()),
        "small letters, digits and -": lambda: worker(train_job("a.b"), runtime()),
        "none has the label": lambda: worker(train_job(), {"metadata": {"name": "r"}, "spec": {"template": {
            "spec": {"replicatedJobs": [step("x", "other", "i")]}}}}),
        "depends on 'load'": lambda: worker(train_job(), {"metadata": {"name": "r"}, "spec": {
            "template": {"spec": {"replicatedJobs": [step("node", "trainer", "i", dependsOn=[
                {"name": "load", "status": "Complete"}])]}}}}),
        "only file://, http:// and https:// are fetched": lambda: worker(train_job(initializer={
            "dataset": {"storageUri": "s3://bucket/x"}}), runtime()),
        "SHA256 must be 64 hexadecimal digits": lambda: worker(train_job(initializer={"dataset": {
            "storageUri": "https://host/x", "env": [{"name": "SHA256", "value": "12"}]}}), runtime()),
        "there is no tier 'orbit'": lambda: placed({"spec": {}}, "orbit"),
        "begins with /": lambda: pods.path_in_pod(Data("data", "X", "s3://bucket/x")),
        "begins with / ": lambda: pods.path_in_pod(Data("data", "X", "/data/../etc/x.txt")),
        "the node's root": lambda: pods.mounted(Data("data", "X", "/train.txt")),
        "has 64 digits": lambda: pods.gate([Data("data", "X", "/d/x.txt", True, "12")], [], "i"),
        "compares by '~'": lambda: samples.fires({"operator": "~", "threshold": 1, "metric": "a"}, {"a": 1}),
        "must be as 02:00": lambda: samples.in_hours({"start": "2", "end": "24:00"}, NOON_OF_A_DAY),
    }
    wrong = {}
    for why, do in cases.items():
        try:
            wrong[why] = f"taken as {do()}"
        except Unfit as problem:
            if why.strip() not in str(problem) or "\n" in str(problem):
                wrong[why] = str(problem)
    assert wrong == {}


def test_a_template_is_laid_over_another_by_names():
    under = {"containers": [{"name": "a", "env": [{"name": "X", "value": "1"}]}, {"name": "b"}], "args": [1, 2]}
    over = {"containers": [{"name": "a", "image": "i", "env": [{"name": "X", "valueFrom": {"f": 1}}]}, {"name": "c"}],
            "args": [3], "gone": None}
    assert overlaid(under, over) == {"args": [3], "containers": [
        {"name": "a", "image": "i", "env": [{"name": "X", "valueFrom": {"f": 1}}]}, {"name": "b"}, {"name": "c"}]}
    assert under["args"] == [1, 2] and "image" not in under["containers"][0]


def test_workers_are_placed_at_the_edge_or_in_the_cloud_unless_they_say_where():
    at = {tier: placed({"spec": {}}, tier)["spec"] for tier in ("edge", "cloud")}
    assert at["edge"]["nodeSelector"] == {EDGE: ""} and at["edge"]["tolerations"][0]["key"] == EDGE
    (term,) = at["cloud"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"]
    assert term["matchExpressions"] == [{"key": EDGE, "operator": "DoesNotExist"}]
    said = placed({"spec": {"nodeName": "robot3"}}, "edge", "robot1")["spec"]
    assert said["nodeName"] == "robot3" and "nodeSelector" not in said
    job = train_job()
    job["metadata"]["annotations"] = {"fleet.brain/tier": "edge"}
    assert worker(job, runtime())["nodeSelector"] == {EDGE: ""}


def test_federated_and_joint_workers_need_their_data_and_models():
    plan = sedna.federated(below(FEDERATED, federated(datasets=("room1", "room9"))), SETTINGS)
    assert plan.over and "there is no Dataset room9 in namespace default" in plan.status["conditions"][0]["message"]
    again = federated(datasets=("room1", "room9"))
    again["status"] = plan.status
    assert sedna.federated(below(FEDERATED, again), SETTINGS).status == plan.status     # said once
    again["metadata"]["annotations"] = {"fleet.brain/suspend": "true"}
    again["spec"]["trainingWorkers"].pop()
    plan = sedna.federated(below(FEDERATED, again), SETTINGS)
    assert plan.suspended and plan.status["phase"] == "Pending" and plan.status["conditions"] == []
    assert [one.body["spec"]["suspend"] for one in plan.children if one.kind == JOB] == [True, True]
    service = joint()
    service["spec"]["edgeWorker"]["template"]["spec"] = {}
    assert "has no container" in sedna.joint(below(JOINT, service), SETTINGS).status["conditions"][0]["message"]
    both = sedna.joint(below(JOINT, joint()), SETTINGS)
    edge = both.children[-1].body["spec"]["template"]["spec"]["containers"][0]
    assert env(edge)["BIG_MODEL_IP"] == "look-cloud.default" and env(edge)["HEM_PARAMETERS"].startswith('[{"key"')


def test_a_model_that_is_no_better_is_not_deployed_and_a_failed_round_is_followed_by_another():
    def next_of(plan: Any, **more: Any) -> Any:
        job = {**incremental(), "status": plan.status}
        return stages.learning(below(INCREMENTAL, job, **more), SETTINGS)

    def done(name: str, how: str = "Complete") -> dict[str, Any]:
        return {name: {"metadata": {"name": name}, "spec": {}, "status": {
            "conditions": [{"type": how, "status": "True"}]}}}

    def stands(plan: Any) -> tuple[str, str, int]:
        at = learning.where(plan.status["conditions"])
        return at.stage, at.step, at.round

    plan = next_of(stages.learning(below(INCREMENTAL, incremental()), SETTINGS))
    assert stands(plan) == ("Train", "Starting", 1)
    assert [one.name for one in plan.children] == ["objects-train-1", "objects-infer"]
    pod = plan.children[0].body["spec"]["template"]["spec"]
    trainer = pod["containers"][0]
    assert env(trainer)["BASE_MODEL_URL"] == "/models/vision.safetensors"
    assert env(trainer)["MODEL_URL"] == "/output/train/1"
    assert env(trainer)["TRAIN_DATASET_URL"] == "/output/data/1/train.txt"
    _, begins = pod["initContainers"]       # the samples are divided once the data are there and right
    assert begins["command"][2:] == ["brain_cloud.jobs.rounds", "begin", "/output/train/1", "--split",
                                     "/data/rooms/train.txt", "txt", "0", "500", "0.8", "/output/data/1"]
    assert {one["mountPath"] for one in begins["volumeMounts"]} == {"/data/rooms", "/output/", "/models"}
    # Of a pod that has ended a Job says first that it is not active, then that it is counted, then that all is over.
    for counts in ({"active": 1}, {"active": 0, "uncountedTerminatedPods": {"succeeded": ["u2"]}},
                   {"uncountedTerminatedPods": {}, "succeeded": 1}):
        plan = next_of(plan, jobs={"objects-train-1": {"metadata": {"name": "objects-train-1"}, "spec": {},
                                                       "status": counts}})
        assert stands(plan) == ("Train", "Running", 1), counts
    jobs = done("objects-train-1")
    plan = next_of(plan, jobs=jobs)
    assert stands(plan) == ("Eval", "Starting", 1)
    examiner = plan.children[1].body["spec"]["template"]["spec"]["containers"][0]
    assert env(examiner)["MODEL_URLS"] == "/output/train/1;/models/vision.safetensors"
    jobs |= done("objects-eval-1")
    plan = next_of(plan, jobs=jobs)
    assert stands(plan) == ("Deploy", "Waiting", 1) and "has said no precision_delta" in plan.status["conditions"][-1][
        "message"]
    silent = next_of(plan, jobs=jobs, said={"objects-eval-1": ""})
    assert stands(silent) == ("Train", "Waiting", 2) and "has said no precision_delta" in silent.status["conditions"][
        -3]["message"]
    plan = next_of(plan, jobs=jobs, said={"objects-eval-1": '{"precision_delta": 0.05}'})
    assert stands(plan) == ("Train", "Waiting", 2) and not plan.tidy
    told = [one["message"] for one in plan.status["conditions"]]
    assert "is not deployed: precision_delta is 0.05, and must be > 0.1" in told[-2] and "0 new samples" in told[-1]
    more = {("Dataset", "room1"): dataset("room1", samples=700), **{("Model", one): model(one) for one in (
        "vision", "deployed")}}
    plan = next_of(plan, found=more)
    assert stands(plan) == ("Train", "Starting", 2)
    plan = next_of(plan, found=more, jobs=done("objects-train-2", "Failed"))
    assert stands(plan) == ("Train", "Waiting", 3)
    for _ in range(60):     # each look says the same, and nothing grows
        after = next_of(plan, found=more)
        assert after.status == plan.status
    assert len(plan.status["conditions"]) <= learning.KEPT


def test_samples_are_counted_by_a_job_on_the_data_sets_node_and_training_begins_when_there_are_enough():
    def next_of(plan: Any, **more: Any) -> Any:
        job = {**incremental(), **({"status": plan.status} if plan else {})}
        return stages.learning(below(INCREMENTAL, job, found=found, **more), SETTINGS)

    def counted(known: str, said: str, how: str = "Complete") -> dict[str, Any]:
        job = {"metadata": {"name": "objects-count", "annotations": {counting.KNOWN: known}}, "spec": {},
               "status": {"conditions": [{"type": how, "status": "True"}]}}
        return {"jobs": {"objects-count": job}, "said": {"objects-count": said}}

    def message(plan: Any) -> str:
        return plan.status["conditions"][-1]["message"]

    found = below(INCREMENTAL, incremental()).found | {("Dataset", "room1"): dataset("room1")}
    first = next_of(None)
    job, infer = [one.body for one in first.children]
    assert infer["metadata"]["name"] == "objects-infer"     # it infers all the time
    assert job["metadata"]["name"] == "objects-count" and first.left == () and not first.tidy
    pod = job["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {HOST: "robot1"} and pod["restartPolicy"] == "OnFailure"
    assert "initContainers" not in pod
    assert pod["containers"][0]["command"][2:] == [
        "brain_cloud.cluster.counting", "/data/rooms/train.txt", "txt", "--known", "-1", "--period", "60"]
    assert pod["containers"][0]["image"] == "brain:1" and pod["containers"][0]["volumeMounts"][0]["readOnly"]
    assert next_of(first).status == first.status
    # What it says is taken once, written down, and the Job goes, so that the next one is told what is known.
    some = next_of(first, **counted("-1", '{"num_of_samples": 60}'))
    assert learning.where(some.status["conditions"]).counted == 60 and "60 new samples" in message(some)
    assert some.left == ("objects-count",)
    assert next_of(some, **counted("-1", '{"num_of_samples": 60}')).status == some.status
    job, _ = [one.body for one in next_of(some).children]
    assert job["spec"]["template"]["spec"]["containers"][0]["command"][-3] == "60"
    # What says nothing that can be read, or has failed, changes nothing and is made anew.
    for said, how in (("", "Complete"), ('{"num_of_samples": -5}', "Complete"), ('{"num_of_samples": 1e3}', "Complete"),
                      ("[" * 9000, "Complete"), ('{"num_of_samples": 900}', "Failed")):
        wrong = next_of(some, **counted("60", said, how))
        assert wrong.status == some.status and wrong.left == ("objects-count",), said
    going = counted("60", '{"num_of_samples": 900}')
    going["jobs"]["objects-count"]["metadata"]["deletionTimestamp"] = "2026-11-25T12:00:00Z"
    assert next_of(some, **going).status == some.status and next_of(some, **going).left == ()
    enough = next_of(some, **counted("60", '{"num_of_samples": 161}'))
    at = learning.where(enough.status["conditions"])
    assert (at.stage, at.step, at.samples, at.counted) == ("Train", "Starting", 161, 161)
    assert [one.name for one in enough.children] == ["objects-train-1", "objects-infer"] and enough.tidy
    assert enough.left == ("objects-count",)    # not before the status is written
    # Data that are elsewhere, or no lines, are not counted; then whoever collects them says how many there are.
    for url, form in (("https://data.example/train.txt", "txt"), ("/data/rooms", "jpg")):
        other = dataset("room1", url=url, samples=40)
        other["spec"]["format"] = form
        found[("Dataset", "room1")] = other
        plan = next_of(None)
        assert [one.name for one in plan.children] == ["objects-infer"] and "40 new samples" in message(plan)


@pytest.mark.parametrize("form, text, number", [
    ("txt", b"", 0), ("txt", b"a\nb\n", 2), ("txt", b"a\nb", 2), ("csv", b"", 0), ("csv", b"head\n", 0),
    ("csv", b"head\na\nb", 2)])
def test_samples_of_a_list_are_its_lines(tmp_path, form, text, number):
    (tmp_path / "list").write_bytes(text)
    assert counting.count(tmp_path / "list", form) == number


def test_the_counter_ends_when_there_is_another_number_and_says_once_why_it_waits(tmp_path, capsys):
    path, told, looks = tmp_path / "train.txt", [], []

    def sleep(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 3:
            path.write_text("a\nb\n")
        elif len(looks) == 5:
            path.write_text("A\nb\n")       # as many as before
        elif len(looks) == 6:
            path.write_text("a\nb\nc\n")

    assert counting.watch(path, "txt", 2, sleep, told.append) == 3
    assert told == [f"{path} cannot be read: No such file or directory; waiting for it"] and len(looks) == 6
    message = tmp_path / "message"
    assert counting.main([str(path), "txt", "--message", str(message)]) == 0
    assert counting.number(message.read_text()) == 3
    assert counting.main([str(path), "txt", "--message", str(tmp_path / "none" / "message")]) == 1
    assert "cannot be written: No such file" in capsys.readouterr().err


def test_where_a_job_is_cannot_be_made_up():
    begin = learning.Where()
    for data in ("", "[", "[]", '{"round": -1}', '{"round": 1e9}', '{"round": true}', '{"round": 99999999999999999999}',
                 "[" * 5000, '{"samples": "x"}', '{"counted": -1}', '{"counted": null}', '{"model": "../x"}',
                 '{"folder": "/etc"}', '{"runs": 1}', '{"since": -1}'):
        assert learning.where([{"stage": "Eval", "type": "Running", "data": data}]) in (
            begin, learning.Where("Eval", "Running")), data
    assert learning.where([{"stage": "Other", "type": "Running"}]) == begin
    assert [samples.metric("a", samples.told_metrics(stages.said(text))) for text in (
        '{"a": NaN}', "[1]", "", '{"a": true}', '{"a": 2}')] == [None] * 4 + [2]
    hours = [("11:00", "13:00", True), ("13:00", "24:00", False), ("22:00", "12:30", True), ("22:00", "02:00", False)]
    assert [samples.in_hours({"start": start, "end": end}, NOON_OF_A_DAY) for start, end, _ in hours] == [
        one for *_, one in hours]


def test_a_conditions_time_changes_with_its_status_only():
    first = status.condition("Ready", True, "A", "a", NOON, 1)
    same = status.with_condition([first], status.condition("Ready", True, "B", "b", NOON + 9, 2))
    assert same[0]["lastTransitionTime"] == first["lastTransitionTime"] and same[0]["reason"] == "B"
    other = status.with_condition(same, status.condition("Ready", False, "C", "c", NOON + 9, 2))
    assert status.seconds(other[0]["lastTransitionTime"]) == NOON + 9
    assert status.seconds("no time") is None


def test_robots_and_orders_are_shown():
    names = ["robot1", "robot_1", "robot1_", "robot_1_", "r__", "r_"]
    shown = [mirror.node_name(one) for one in names]
    assert shown == ["robot1", "robot-1", "robot1.u1", "robot-1.u1", "r.u2", "r.u1"]
    robot = {"robot": "r", "state": "connected", "apart": None, "heard_s": 3.0, "waiting": 0, "version": 4,
             "resources": {"applied": 1}, "software": "0.2.0"}
    first = mirror.node_status(robot, {}, NOON)
    assert first["conditions"][0]["status"] == "True"
    assert mirror.node_status({**robot, "heard_s": 1.0}, first, NOON + 20) == first       # nothing is written
    lost = mirror.node_status(None, first, NOON + 30)
    assert lost["conditions"][0]["status"] == "Unknown" and lost["state"] == "connected"
    apart = mirror.node_status({**robot, "state": "apart", "apart": "its database is another"}, first, NOON)
    assert apart["conditions"][0]["message"] == "its database is another"
    order = {"metadata": {"name": "calm", "generation": 1}, "spec": {
        "kind": "Parameters", "robots": ["*"], "order": {}}}
    rows: list[dict[str, Any]] = [{"robot": f"r{n}", "state": "applied", "version": 1} for n in range(300)]
    rows[250] = {**rows[250], "state": "refused", "why": "no such region"}
    status = mirror.order_status(order, rows, NOON)
    assert status["counts"] == {"applied": 299, "refused": 1} and len(status["robots"]) == mirror.SHOWN
    assert status["robots"][0]["why"] == "no such region" and status["conditions"][0]["status"] == "False"
    assert mirror.manifest_of(order)["metadata"] == {"name": "calm", "robots": "all"}


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[str]:
    """A server of files, one of which ends too early."""
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(404 if "none" in self.path else 200)
            self.send_header("Content-Length", "9" if "torn" in self.path else "4")
            self.end_headers()
            self.wfile.write(b"data")

        def log_message(self, *_: Any) -> None:
            """The test reads answers."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_the_gate_opens_for_what_is_there_and_right_only(shop: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
                                                         monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "WAITS", (0.0, 0.0))
    right, wrong = hashlib.sha256(b"data").hexdigest(), "0" * 64
    here = tmp_path / "here.txt"
    here.write_bytes(b"data")

    def opened(url: object, path: Path, sha256: str = "any") -> str:
        status = gate.main(["--data", str(url), str(path), sha256])
        found = capsys.readouterr()
        assert status == (0 if found.out else 1)
        return (found.out or found.err).splitlines()[-1]

    assert opened(here, here, right).endswith("here.txt is there and right")
    assert opened(here, here, wrong).endswith("it is another file, or torn")
    assert "is not on this node" in opened(tmp_path / "x", tmp_path / "x")
    assert "another file, or torn" in opened(tmp_path, tmp_path, right) and "is there" in opened(tmp_path, tmp_path)
    assert "is there" in opened(tmp_path, tmp_path, inputs.digest(tmp_path))
    new = tmp_path / "new" / "a.bin"
    assert "404" in opened(f"{shop}/none", new) and not new.exists()
    assert "another file" in opened(f"{shop}/a", new, wrong) and not new.exists()
    assert "ended after 4 of 9 bytes" in opened(f"{shop}/torn", new) and not new.exists()
    assert "there and right" in opened(f"{shop}/a", new, right) and new.read_bytes() == b"data"
    assert "there and right" in opened("http://127.0.0.1:9/gone", new, right)       # it has it already
    assert "cannot be fetched" in opened("http://127.0.0.1:9/gone", tmp_path / "b")
