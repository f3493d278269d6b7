# SPDX-License-Identifier: Apache-2.0
"""Jobs to their end at an API: the one that other tests are served, and a real one where its programs are.

Of a cluster a server and its database show what is asked of an API: that definitions are taken, that the deployed
rights suffice, that what is made is valid, and that the operator brings it about. Neither has controllers or kubelets,
so that Jobs run and end, and that what belongs to what was deleted goes too, is played here. Where Kubernetes' own
controllers are, only the nodes are.
"""
from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path
from typing import Any, Iterator

import pytest

pytest.importorskip("kopf")
pytest.importorskip("kubernetes")
if not (Path(__file__).parents[3] / "deploy" / "operator").is_dir():
    pytest.skip("the sources are not here", allow_module_level=True)

sys.path.insert(0, str(Path(__file__).parent / "programs"))
from clusters import DEPLOY, SPACE, Cluster     # noqa: E402
from manifests_of_jobs import dataset, federated, incremental, joint, model, runtime, step, train_job   # noqa: E402
from real_api import ASSETS, CONTROLLERS, CORE, RealApi, programs      # noqa: E402

from brain_cloud.cluster.api import ApiProblem      # noqa: E402
from brain_cloud.cluster.kinds import (   # noqa: E402
    CLUSTER_RUNTIME, DATASET, DEPLOYMENT, FEDERATED, FLEET_ORDER, INCREMENTAL, JOB, JOINT, MODEL, POD, REVISION, SCALER,
    SERVICE, TRAIN_JOB, Kind)
from brain_cloud.cluster.pods import GATE       # noqa: E402
from brain_cloud.jobs.manifests import LEARNING_PLAN        # noqa: E402
from brain_cloud.jobs.status import stamp       # noqa: E402
from brain_cloud.jobs.worker_data import SHA256     # noqa: E402


REAL, SERVED = "real", pytest.param("served", marks=pytest.mark.extended)      # which other tests have, too


@pytest.fixture
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    """No operator yet."""
    if request.param == REAL and (missing := ASSETS.keys() - programs().keys()):
        pytest.skip(f"{' and '.join(sorted(missing))} not found: set KUBEBUILDER_ASSETS, or have them on PATH")
    api = RealApi(tmp_path / "api", DEPLOY, Path(__file__).with_name("programs") / "definitions.json") if (
        request.param == REAL) else None
    found = Cluster(tmp_path, api=api)
    yield found
    found.close()


def gone(cluster: Cluster, kind: Kind, name: str) -> None:
    """Deletes a resource, and plays the collector: what is to go in the foreground, and what its owner leaves."""
    cluster.delete(kind, name)

    def is_gone() -> bool:
        for one in (one for what in (JOB, DEPLOYMENT) for one in cluster.admin.listed(what, "default")):
            if one["metadata"].get("deletionTimestamp") and one["metadata"].get("finalizers"):
                what = {of.kind: of for of in (JOB, DEPLOYMENT)}[one["kind"]]
                cluster.admin.merge(what, "default", one["metadata"]["name"], {"metadata": {"finalizers": None}})
        found = cluster.get(kind, name)
        left = (found or {"metadata": {}})["metadata"].get("finalizers") or []
        if found is not None and left == ["foregroundDeletion"]:
            cluster.admin.merge(kind, "default", name, {"metadata": {"finalizers": None}})
        return found is None

    cluster.until(is_gone)
    assert not [one for one in cluster.below(kind, name).values() if not one["metadata"].get("deletionTimestamp")]


@pytest.mark.slow
@pytest.mark.parametrize("cluster", [REAL, SERVED], indirect=True)
def test_jobs_run_to_their_end_with_the_deployed_rights(cluster: Cluster) -> None:
    cluster.start("--no-fleet")
    # A TrainJob with a step before, whose runtime is deleted in mid-run.
    cluster.make(CLUSTER_RUNTIME, runtime(step("load", "dataset-initializer", "load:1")), None)
    cluster.make(TRAIN_JOB, train_job(trainer={"numNodes": 2}))
    cluster.until_jobs(TRAIN_JOB, "pfc", "load")
    cluster.until(lambda: cluster.below(TRAIN_JOB, "pfc", REVISION))
    assert cluster.get(SERVICE, "pfc")["spec"]["clusterIP"] == "None"
    one = cluster.get(CLUSTER_RUNTIME, "torch")
    cluster.admin.delete(CLUSTER_RUNTIME, None, "torch", one["metadata"]["uid"])
    cluster.finish("pfc-load-0")
    cluster.until_jobs(TRAIN_JOB, "pfc", "load", "node")
    cluster.finish("pfc-node-0")
    assert cluster.until_condition(TRAIN_JOB, "pfc", "Complete")["reason"] == "AllJobsCompleted"
    # What cannot be run says so in the status, which the definition's own schema takes.
    cluster.make(CLUSTER_RUNTIME, runtime(name="mpi", mpi={}), None)
    cluster.make(TRAIN_JOB, train_job("mpi", "mpi"))
    assert "mlPolicy.mpi is not run here" in cluster.until_condition(TRAIN_JOB, "mpi", "Failed")["message"]
    # So does what a server cannot even take for a Job: the gate is added to a container of its name.
    cluster.make(DATASET, {**dataset("checked"), "metadata": {"name": "checked", "annotations": {SHA256: "0" * 64}}})
    cluster.make(MODEL, model("vision"))
    doubled = federated("doubled", datasets=("checked",))
    doubled["spec"]["trainingWorkers"][0]["template"]["spec"]["initContainers"] = [{"name": GATE, "image": "i"}]
    cluster.make(FEDERATED, doubled)
    assert "duplicate entries for" in cluster.until_condition(FEDERATED, "doubled", "Blocked")["message"]
    # Federated: programs of its own, and the fleet's own round.
    for name in ("room1", "room2"):
        cluster.make(DATASET, dataset(name))
    for name in ("vision", "little", "big", "deployed"):
        cluster.make(MODEL, model(name))
    planned = federated("planned")
    planned["metadata"]["annotations"] = {LEARNING_PLAN: json.dumps(
        {"learner": "vision", "strategy": "FedAvg", "rounds": 2})}
    for name, body in (("rooms", federated()), ("planned", planned)):
        cluster.make(FEDERATED, body)
        cluster.until_jobs(FEDERATED, name, "aggregation", "train-0", "train-1")
        cluster.until(lambda name=name: cluster.get(SERVICE, f"{name}-aggregation"))
        cluster.finish(f"{name}-aggregation")
    for number in range(2):     # those with a plan end with their aggregator
        cluster.finish(f"rooms-train-{number}")
    for name in ("rooms", "planned"):
        cluster.until_condition(FEDERATED, name, "Complete")
        assert {"phase": "Succeeded", "succeeded": 3}.items() <= cluster.status(FEDERATED, name).items()
    # A service with an autoscaler, and a job that learns again and again.
    cluster.make(JOINT, joint(hpa={"maxReplicas": 3}))
    cluster.until(lambda: cluster.below(JOINT, "look", DEPLOYMENT).keys() == {"edge", "cloud"})
    cluster.until(lambda: cluster.below(JOINT, "look", SCALER))
    ready = dict.fromkeys(("replicas", "readyReplicas", "updatedReplicas", "availableReplicas"), 1)
    for name in ("look-edge", "look-cloud"):
        cluster.admin.merge(DEPLOYMENT, "default", name, {"status": ready}, "status")
    cluster.until_condition(JOINT, "look", "Running")
    cluster.make(INCREMENTAL, incremental())
    cluster.until_jobs(INCREMENTAL, "objects", "count")
    cluster.until(lambda: cluster.below(INCREMENTAL, "objects", DEPLOYMENT).keys() == {"infer"})
    cluster.says(INCREMENTAL, "objects-count", "count", '{"num_of_samples": 500}')
    cluster.finish("objects-count")
    cluster.until(lambda: "train" in cluster.below(INCREMENTAL, "objects"))     # the other waits for a collector
    for kind, name in ((TRAIN_JOB, "pfc"), (FEDERATED, "rooms"), (FEDERATED, "planned"), (JOINT, "look"),
                       (INCREMENTAL, "objects")):
        gone(cluster, kind, name)
    said = cluster.log.read_text()
    assert "Traceback" not in said and "403" not in said and "forbidden" not in said, said


@pytest.mark.slow
@pytest.mark.parametrize("cluster", [REAL], indirect=True)
def test_a_server_that_is_killed_and_comes_back_is_asked_on(cluster: Cluster) -> None:
    cluster.api.kubeconfig(cluster.config, checked=False)
    cluster.start("--no-fleet")
    cluster.make(CLUSTER_RUNTIME, runtime(step("load", "dataset-initializer", "load:1")), None)
    cluster.make(TRAIN_JOB, train_job())
    cluster.until_jobs(TRAIN_JOB, "pfc", "load")
    cluster.api.restart(5.0)
    cluster.finish("pfc-load-0")
    jobs = cluster.until_jobs(TRAIN_JOB, "pfc", "load", "node")
    cluster.make(TRAIN_JOB, train_job("later"))
    cluster.until_jobs(TRAIN_JOB, "later", "load")
    cluster.end()
    cluster.api.restart(0.0)
    cluster.finish("pfc-node-0")
    cluster.start("--no-fleet")
    cluster.until_condition(TRAIN_JOB, "pfc", "Complete")
    assert {one["metadata"]["uid"] for one in cluster.below(TRAIN_JOB, "pfc").values()} == {
        one["metadata"]["uid"] for one in jobs.values()}
    said = cluster.log.read_text()
    assert "Traceback" not in said and "InsecureRequestWarning" not in said
    assert said.count("the certificate of the API") == 2        # once by each operator


class Nodes:
    """Plays nodes, where each pod runs at once, and ends by itself where it may: beside Kubernetes' own controllers.

    Args:
        cluster: of them.
        told: termination messages, by Job.
    """

    def __init__(self, cluster: Cluster, told: dict[str, str]) -> None:
        self._admin, self._told, self._stop = cluster.admin, told, threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(0.2):
            for one in self._admin.listed(POD, None):
                try:
                    self._pod(one, one["metadata"]["namespace"], one["metadata"]["name"])
                except ApiProblem as problem:
                    assert problem.status in (403, 404, 409), problem       # it goes, or its namespace does

    def _pod(self, pod: dict[str, Any], space: str, name: str) -> None:
        phase, now = pod["status"]["phase"], stamp(time.time())
        if pod["metadata"].get("deletionTimestamp"):
            self._admin._ask("DELETE", POD.path(space, name), body={"gracePeriodSeconds": 0})
        elif not pod["spec"].get("nodeName"):
            self._admin._ask("POST", POD.path(space, name, "binding"), body={
                "metadata": {"name": name}, "target": {"kind": "Node", "name": "node1"}})
        elif phase == "Pending":
            self._write(pod, "Running", "True", {"running": {"startedAt": now}}, now)
        elif phase == "Running" and pod["spec"]["restartPolicy"] != "Always":
            message = self._told.get(pod["metadata"]["labels"]["batch.kubernetes.io/job-name"], "")
            self._write(pod, "Succeeded", "False", {"terminated": {
                "exitCode": 0, "startedAt": now, "finishedAt": now, "message": message}}, now)

    def _write(self, pod: dict[str, Any], phase: str, ready: str, state: dict[str, Any], now: str) -> None:
        about = pod["metadata"]
        self._admin.merge(POD, about["namespace"], about["name"], {"status": {
            "phase": phase, "startTime": now, "conditions": [
                {"type": "Ready", "status": ready, "lastTransitionTime": now}],
            "containerStatuses": [{"name": one["name"], "ready": ready == "True", "restartCount": 0, "image": "i",
                                   "imageID": "i", "state": state} for one in pod["spec"]["containers"]]}}, "status")

    def close(self) -> None:
        self._stop.set()
        self._thread.join()


@pytest.mark.slow
@pytest.mark.parametrize("cluster", [REAL], indirect=True)
def test_kubernetes_own_controllers_run_and_collect_what_is_made(cluster: Cluster) -> None:
    if CONTROLLERS not in programs():
        pytest.skip(f"{CONTROLLERS} not found: put it into KUBEBUILDER_ASSETS, or have it on PATH")
    cluster.api.control()
    nodes = Nodes(cluster, {"objects-count": '{"num_of_samples": 500}', "objects-eval-1": '{"precision_delta": 0.2}'})
    try:
        cluster.start("--no-fleet")
        cluster.make(CLUSTER_RUNTIME, runtime(step("load", "dataset-initializer", "load:1")), None)
        for name in ("room1", "room2"):
            cluster.make(DATASET, dataset(name))
        for name in ("vision", "little", "big", "deployed"):
            cluster.make(MODEL, model(name))
        cluster.make(TRAIN_JOB, train_job(trainer={"numNodes": 2}))
        cluster.make(FEDERATED, federated())
        cluster.make(JOINT, joint())
        cluster.make(INCREMENTAL, incremental())
        for kind, name, how in ((TRAIN_JOB, "pfc", "Complete"), (FEDERATED, "rooms", "Complete"),
                                (JOINT, "look", "Running")):
            cluster.until_condition(kind, name, how)
        rounds = cluster.until(lambda: (found := cluster.status(INCREMENTAL, "objects").get("conditions")) and any(
            '"round": 2' in one["data"] for one in found) and found)
        passed = [(one["stage"], one["type"]) for one in rounds]
        assert len(passed[:-1]) == len({*passed[:-1]}), passed      # none of a round's steps twice
        # One is deleted in mid-run; of each all that is below it goes.
        nodes.close()
        cluster.make(TRAIN_JOB, train_job("held"))
        cluster.until(lambda: (one := cluster.get(JOB, "held-load-0")) and one["status"].get("active"))
        nodes = Nodes(cluster, {})
        for kind, name in ((TRAIN_JOB, "held"), (TRAIN_JOB, "pfc"), (FEDERATED, "rooms"), (JOINT, "look"),
                           (INCREMENTAL, "objects")):
            cluster.delete(kind, name)
        for kind, name in ((TRAIN_JOB, "held"), (TRAIN_JOB, "pfc"), (FEDERATED, "rooms"), (JOINT, "look"),
                           (INCREMENTAL, "objects")):
            cluster.until(lambda kind=kind, name=name: cluster.get(kind, name) is None)
        cluster.until(lambda: not any(cluster.admin.listed(kind, "default") for kind in (
            JOB, DEPLOYMENT, REVISION, POD)))
        assert [one["metadata"]["name"] for one in cluster.admin.listed(SERVICE, "default")] == ["kubernetes"]
        # A namespace that is deleted goes, with a job of it that runs.
        space = cluster.admin.apply(CORE["Namespace"], {
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "lab"}})
        cluster.make(TRAIN_JOB, train_job(), "lab")
        cluster.until(lambda: cluster.admin.listed(JOB, "lab"))
        cluster.admin.delete(CORE["Namespace"], None, "lab", space["metadata"]["uid"])
        cluster.until(lambda: cluster.admin.get(CORE["Namespace"], None, "lab") is None)
    finally:
        nodes.close()
    assert "Traceback" not in cluster.log.read_text()


@pytest.mark.slow
@pytest.mark.parametrize("cluster", [REAL, SERVED], indirect=True)
def test_our_own_definitions_take_what_people_write_and_no_more(cluster: Cluster) -> None:
    order: dict[str, Any] = {"metadata": {"name": "calm"}, "spec": {"kind": "Parameters", "robots": ["*"], "order": {
        "region": "brainstem", "values": {"max_linear": 0.2}}}}
    made = cluster.make(FLEET_ORDER, order, SPACE)
    assert made["spec"] == order["spec"]        # nothing is pruned
    for wrong in ({**order["spec"], "robots": "all"}, {"kind": "Parameters"}):
        with pytest.raises(ApiProblem, match="422|500 failed to create typed patch object"):
            cluster.make(FLEET_ORDER, {**order, "spec": wrong}, SPACE)
