# SPDX-License-Identifier: Apache-2.0
"""The operator as a process against a served API, with the deployed rights: killed, cut off, and what it cannot run."""
from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path
from typing import Any, Iterator

import pytest
import yaml

pytest.importorskip("kopf")
pytest.importorskip("kubernetes")
if not (Path(__file__).parents[3] / "deploy" / "operator").is_dir():
    pytest.skip("the sources are not here", allow_module_level=True)

sys.path.insert(0, str(Path(__file__).parent / "programs"))
from clusters import DEPLOY, SPACE, Cluster         # noqa: E402
from served_api import OPERATOR     # noqa: E402
from manifests_of_jobs import (dataset, federated, incremental, joint, lifelong, model, runtime, step,     # noqa: E402
                               train_job)

from brain_cloud.cluster import api, run_operator       # noqa: E402
from brain_cloud.cluster.api import ApiProblem      # noqa: E402
from brain_cloud.cluster.kinds import (   # noqa: E402
    CLUSTER_RUNTIME, DATASET, DEPLOYMENT, FEDERATED, FLEET_NODE, FLEET_ORDER, INCREMENTAL, JOB, JOINT, LIFELONG, MODEL,
    REVISION, RUNTIME, SCALER, SERVICE, TRAIN_JOB)
from brain_cloud.cluster.plans import Settings      # noqa: E402
from brain_cloud.cluster.pods import GATE      # noqa: E402
from brain_cloud.cluster.reconcile import Reconciler        # noqa: E402
from brain_cloud.jobs.worker_data import SHA256     # noqa: E402
from brain_edge.state.kinds import KINDS           # noqa: E402


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """No operator yet."""
    found = Cluster(tmp_path)
    yield found
    found.close()


@pytest.mark.slow
def test_a_train_job_survives_kills_and_cuts(cluster: Cluster) -> None:
    cluster.start("--no-fleet")
    cluster.make(TRAIN_JOB, train_job(trainer={"numNodes": 2}, suspend=True))
    blocked = cluster.until_condition(TRAIN_JOB, "pfc", "Blocked")
    assert blocked["reason"] == "ClusterTrainingRuntimeNotFound" and "kubectl get" in blocked["message"]
    load = step("load", "dataset-initializer", "load:1")
    cluster.make(CLUSTER_RUNTIME, runtime(load), None)
    # Suspended, so its first step is there and does not run; the second waits for that.
    (first,) = cluster.until_jobs(TRAIN_JOB, "pfc", "load").values()
    assert first["spec"]["suspend"] and cluster.get(SERVICE, "pfc")["spec"]["clusterIP"] == "None"
    cluster.until_condition(TRAIN_JOB, "pfc", "Suspended")
    assert not [one for one in cluster.status(TRAIN_JOB, "pfc")["conditions"] if one["type"] == "Blocked"]
    cluster.end()       # killed, while the job is resumed and its first step ends
    cluster.make(TRAIN_JOB, train_job(trainer={"numNodes": 2}, suspend=False))
    cluster.start("--no-fleet")
    cluster.until(lambda: not cluster.get(JOB, "pfc-load-0")["spec"]["suspend"])
    cluster.until(lambda: cluster.status(TRAIN_JOB, "pfc")["conditions"][-1]["reason"] == "Resumed")
    cluster.api.cut()
    cluster.api.store.forget()      # and the versions that it knows are gone: 410
    cluster.finish("pfc-load-0")
    jobs = cluster.until_jobs(TRAIN_JOB, "pfc", "load", "node")
    cluster.end()
    cluster.job("pfc-node-0", active=2, ready=1)
    cluster.start("--no-fleet")
    cluster.until(lambda: {"active": 1, "ready": 0} .items() <= next(
        one for one in cluster.status(TRAIN_JOB, "pfc")["jobsStatus"] if one["name"] == "node").items())
    # It has found what it had made, and made nothing anew.
    assert {one["metadata"]["uid"] for one in cluster.below(TRAIN_JOB, "pfc").values()} == {
        one["metadata"]["uid"] for one in jobs.values()}
    cluster.finish("pfc-node-0")
    assert cluster.until_condition(TRAIN_JOB, "pfc", "Complete")["reason"] == "AllJobsCompleted"
    cluster.until(lambda: ("Normal", "AllJobsCompleted") in cluster.events("pfc"))
    assert ("Warning", "ClusterTrainingRuntimeNotFound") in cluster.events("pfc")
    # Deleted, its name is free only when its workers are gone; and another of its name begins anew.
    cluster.api.store.slow.add("Job")
    cluster.delete(TRAIN_JOB, "pfc")
    cluster.until(lambda: all(one["metadata"].get("deletionTimestamp")
                              for one in cluster.below(TRAIN_JOB, "pfc").values()))
    assert cluster.get(TRAIN_JOB, "pfc")["metadata"]["finalizers"] == ["fleet.brain/operator"]
    cluster.api.store.slow.clear()
    for one in jobs.values():
        cluster.admin.merge(JOB, "default", one["metadata"]["name"], {"metadata": {"finalizers": None}})
    cluster.until(lambda: cluster.get(TRAIN_JOB, "pfc") is None)
    assert cluster.get(SERVICE, "pfc") is None      # collected
    cluster.make(TRAIN_JOB, train_job())
    cluster.until_jobs(TRAIN_JOB, "pfc", "load")
    cluster.finish("pfc-load-0", "Failed")
    assert "pfc-load-0 failed: it is over" in cluster.until_condition(TRAIN_JOB, "pfc", "Failed")["message"]
    assert cluster.end(signal.SIGTERM) == 0
    assert "Traceback" not in cluster.log.read_text() and cluster.api.refused == []


@pytest.mark.slow
def test_it_asks_what_it_may_and_may_nothing_more(cluster: Cluster, fleet: Any) -> None:
    """One of each kind from its beginning to its end, a fleet beside; then what was asked is what the roles grant."""
    fleet.cloud()
    fleet.edge()
    fleet.until_robot(state="connected")
    cluster.api.page = 2        # lists come in pieces
    cluster.start("--cloud", f"tcp/localhost:{fleet.port}", "--fleet-namespace", SPACE)
    _fleet(cluster, fleet)
    cluster.make(RUNTIME, runtime(name="own"))
    cluster.make(CLUSTER_RUNTIME, runtime(), None)
    cluster.make(TRAIN_JOB, train_job(runtimeRef={"kind": "TrainingRuntime", "name": "own"}))
    cluster.make(TRAIN_JOB, train_job("other", suspend=True))
    cluster.until_jobs(TRAIN_JOB, "pfc", "node")
    cluster.until_jobs(TRAIN_JOB, "other", "node")
    cluster.make(TRAIN_JOB, train_job("other", suspend=False))
    for one in (dataset("room1", samples=10), dataset("room2", "robot2")):
        cluster.make(DATASET, one)
    for name in ("vision", "little", "big", "deployed"):
        cluster.make(MODEL, model(name))
    _federated(cluster)
    _joint(cluster)
    _learning(cluster)
    for kind, name in ((TRAIN_JOB, "pfc"), (FEDERATED, "rooms"), (JOINT, "look"), (INCREMENTAL, "objects"),
                       (LIFELONG, "tasks")):
        cluster.delete(kind, name)
    cluster.until(lambda: not [kind for kind in (TRAIN_JOB, FEDERATED, JOINT, INCREMENTAL, LIFELONG)
                               for one in cluster.admin.listed(kind, None) if one["metadata"]["name"] != "other"])
    assert cluster.admin.listed(DEPLOYMENT, None) == [] and cluster.api.refused == []
    asked = {(verb, group, resource) for verb, group, resource, _ in cluster.api.asked}
    granted = cluster.api.rights.grants()
    assert {"asked, not granted": asked - granted, "granted, not asked": granted - asked} == {
        "asked, not granted": set(), "granted, not asked": set()}
    assert "Traceback" not in cluster.log.read_text()


def _fleet(cluster: Cluster, fleet: Any) -> None:
    node = cluster.until(lambda: (found := cluster.get(FLEET_NODE, "robot1", SPACE)) and found.get("status") and found)
    assert node["spec"] == {"robot": "robot1"} and node["status"]["state"] == "connected"
    order = {"metadata": {"name": "calm"}, "spec": {"kind": "Parameters", "robots": ["robot1"], "order": {
        "region": "gauge", "values": {"gain": 0.5}}}}
    cluster.make(FLEET_ORDER, order, SPACE)
    cluster.until_condition(FLEET_ORDER, "calm", "Ordered", SPACE)
    cluster.until(lambda: cluster.status(FLEET_ORDER, "calm", SPACE).get("robots"))
    assert fleet.ask("resources")["resources"][0]["name"] == "calm"
    wrong = {**order, "metadata": {"name": "wrong"}, "spec": {**order["spec"], "order": {"region": "gauge"}}}
    cluster.make(FLEET_ORDER, wrong, SPACE)
    cluster.make(FLEET_ORDER, order)        # in a namespace that is not the fleet's
    for name, space, why in (("wrong", SPACE, "spec.values is missing"), ("calm", "default", f"namespace {SPACE}")):
        told = cluster.until(lambda: cluster.status(FLEET_ORDER, name, space).get("conditions"))[0]
        assert told["status"] == "False" and why in told["message"]
        cluster.delete(FLEET_ORDER, name, space)
    cluster.until(lambda: len(cluster.admin.listed(FLEET_ORDER, None)) == 1)
    assert fleet.ask("resources")["resources"]      # the refused one of its name has taken nothing back
    # Every kind that `brain fleet apply` takes, and by the same rules.
    device = {"model": "talker", "protocol": "ros-topic", "settings": {"namespace": "/goal"}, "properties": {"say": {
        "visitor": {"topic": "b", "type": "std_msgs/msg/String"}}}}
    for name, kind, spec in (("talker", "DeviceModel", {"properties": {"say": {"type": "string"}}}),
                             ("well", "Device", device),
                             ("lamp", "DeviceSettings", {"device": "lamp", "values": {"on": True}}),
                             ("learn", "Job", {"program": "learn"}), ("own", "Model", {"region": "m", "digest": "own"}),
                             ("still", "Region", {"region": "gauge", "active": False})):
        cluster.make(FLEET_ORDER, {"metadata": {"name": name}, "spec": {"kind": kind, "robots": ["robot1"],
                                                                        "order": spec}}, SPACE)
        cluster.until_condition(FLEET_ORDER, name, "Ordered", SPACE)
    assert {one["kind"] for one in fleet.ask("resources")["resources"]} == {*KINDS}
    device["properties"]["say"]["visitor"]["topic"] = "text"
    cluster.make(FLEET_ORDER, {"metadata": {"name": "hears"}, "spec": {"kind": "Device", "robots": ["robot1"],
                                                                       "order": device}}, SPACE)
    told = cluster.until(lambda: cluster.status(FLEET_ORDER, "hears", SPACE).get("conditions"))[0]
    assert told["status"] == "False" and "no device may hear" in told["message"]
    for name in ("hears", "well", "talker", "lamp", "learn", "own", "still"):
        cluster.delete(FLEET_ORDER, name, SPACE)
    cluster.until(lambda: len(cluster.admin.listed(FLEET_ORDER, None)) == 1)
    fleet.end("cloud")
    cluster.until(lambda: cluster.status(FLEET_NODE, "robot1", SPACE)["conditions"][0]["status"] == "Unknown")
    cluster.delete(FLEET_ORDER, "calm", SPACE)      # waits for the cloud
    fleet.cloud()
    cluster.until(lambda: not cluster.admin.listed(FLEET_ORDER, None))
    assert fleet.ask("resources")["resources"] == []
    cluster.make(FLEET_NODE, {"metadata": {"name": "ghost", "labels": {"fleet.brain/mirrored": "true"}},
                              "spec": {"robot": "ghost"}}, SPACE)
    cluster.until(lambda: cluster.get(FLEET_NODE, "ghost", SPACE) is None)


def _federated(cluster: Cluster) -> None:
    cluster.make(FEDERATED, federated())
    jobs = cluster.until_jobs(FEDERATED, "rooms", "aggregation", "train-0", "train-1")
    train = jobs["train-1"]["spec"]["template"]["spec"]
    env = {one["name"]: one["value"] for one in train["containers"][0]["env"]}
    assert env["AGG_IP"] == "rooms-aggregation.default" and cluster.get(SERVICE, "rooms-aggregation")
    assert env["TRAIN_DATASET_URL"] == "/data/rooms/train.txt" and env["PARTICIPANTS_COUNT"] == "2"
    assert train["nodeSelector"] == {"kubernetes.io/hostname": "robot2"}
    (gate,) = train["initContainers"]
    assert gate["name"] == "data-gate" and gate["command"][-3:] == ["/data/rooms/train.txt"] * 2 + ["any"]
    changed = federated()
    changed["spec"]["trainingWorkers"].pop()
    changed["spec"]["trainingWorkers"][0]["template"]["spec"]["containers"][0]["image"] = "train:2"
    cluster.make(FEDERATED, changed)        # one worker fewer, and the others made anew
    cluster.until(lambda: (found := cluster.below(FEDERATED, "rooms")).keys() == {"aggregation", "train-0"} and
                  found["train-0"]["spec"]["template"]["spec"]["containers"][0]["image"] == "train:2")
    for name in ("rooms-aggregation", "rooms-train-0"):
        cluster.finish(name)
    cluster.until_condition(FEDERATED, "rooms", "Complete")
    assert {"phase": "Succeeded", "succeeded": 2}.items() <= cluster.status(FEDERATED, "rooms").items()


def _joint(cluster: Cluster) -> None:
    cluster.make(JOINT, joint(hpa={"maxReplicas": 3}))
    cluster.until(lambda: cluster.below(JOINT, "look", DEPLOYMENT).keys() == {"edge", "cloud"})
    cluster.until(lambda: cluster.below(JOINT, "look", SCALER))
    for name in ("look-edge", "look-cloud"):
        cluster.admin.merge(DEPLOYMENT, "default", name, {"status": {"availableReplicas": 1}}, "status")
    cluster.until_condition(JOINT, "look", "Running")
    cluster.make(JOINT, joint())
    cluster.until(lambda: not cluster.below(JOINT, "look", SCALER))
    cluster.make(MODEL, model("big", "/models/bigger.safetensors"))     # a service takes changes, and what it keeps too
    cluster.until(lambda: "/models/bigger.safetensors" in str(cluster.get(DEPLOYMENT, "look-cloud")))
    cluster.until(lambda: cluster.below(JOINT, "look", REVISION)["kept"]["revision"] == 2)
    edge = cluster.get(DEPLOYMENT, "look-edge")["spec"]["template"]["spec"]
    assert edge["nodeSelector"] == {"node-role.kubernetes.io/edge": ""}


def _learning(cluster: Cluster) -> None:
    cluster.make(INCREMENTAL, incremental())
    cluster.make(LIFELONG, lifelong())

    def told(kind: Any, name: str, stage: str, step: str) -> dict[str, Any]:
        return cluster.until(lambda: (found := (cluster.status(kind, name).get("conditions") or [{}])[-1]) and (
            found.get("stage"), found.get("type")) == (stage, step) and found)

    # Before anything is counted, what whoever collects the samples has written of them holds.
    cluster.until(lambda: "10 new samples" in told(INCREMENTAL, "objects", "Train", "Waiting")["message"])
    cluster.until_jobs(INCREMENTAL, "objects", "count")
    cluster.says(INCREMENTAL, "objects-count", "count", '{"num_of_samples": 12}')
    cluster.finish("objects-count")
    cluster.until(lambda: "12 new samples" in told(INCREMENTAL, "objects", "Train", "Waiting")["message"])
    cluster.until(lambda: (one := cluster.get(JOB, "objects-count")) and one["metadata"]["annotations"][
        "fleet.brain/known"] == "12")
    cluster.says(INCREMENTAL, "objects-count", "count", '{"num_of_samples": 500}')
    cluster.finish("objects-count")
    cluster.make(DATASET, dataset("room1", samples=500))
    for kind, name in ((INCREMENTAL, "objects"), (LIFELONG, "tasks")):
        cluster.until_jobs(kind, name, "train")
        cluster.finish(f"{name}-train-1")
        cluster.until_jobs(kind, name, "train", "eval")
    cluster.says(INCREMENTAL, "objects-eval-1", "eval", '{"precision_delta": 0.2}')
    for kind, name in ((INCREMENTAL, "objects"), (LIFELONG, "tasks")):
        assert cluster.get(DEPLOYMENT, f"{name}-infer")["spec"]["template"]["metadata"]["annotations"][
            "fleet.brain/round"] == "0"     # what was deployed before infers from the beginning
        cluster.finish(f"{name}-eval-1")
        if kind == INCREMENTAL:     # the model is put in the deployed one's place on the node that has it
            told(kind, name, "Deploy", "Starting")
            jobs = cluster.until_jobs(kind, name, "train", "eval", "put")
            (put,) = jobs["put"]["spec"]["template"]["spec"]["containers"]
            assert put["command"][2:] == ["brain_cloud.jobs.rounds", "put", "/output/train/1",
                                          "/models/vision.safetensors"]
            cluster.finish("objects-put-1")
        infer = cluster.until(lambda: (one := cluster.get(DEPLOYMENT, f"{name}-infer"))["spec"]["template"]["metadata"][
            "annotations"]["fleet.brain/round"] == "1" and one)
        there = {"observedGeneration": infer["metadata"]["generation"], "updatedReplicas": 1, "availableReplicas": 1}
        cluster.admin.merge(DEPLOYMENT, "default", f"{name}-infer", {"status": there}, "status")
        assert '"round": 2' in told(kind, name, "Train", "Waiting")["data"]
    cluster.until(lambda: (one := cluster.get(JOB, "objects-count")) and one["metadata"]["annotations"][
        "fleet.brain/known"] == "500")
    cluster.says(INCREMENTAL, "objects-count", "count", '{"num_of_samples": 1000}')
    cluster.finish("objects-count")
    cluster.until_jobs(INCREMENTAL, "objects", "train")     # and those of the round before are gone
    assert cluster.get(JOB, "objects-train-2")


def test_what_a_job_has_counted_is_deleted_once_it_is_written_down(
        cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    bring = Reconciler(cluster.admin, Settings())
    for name in ("vision", "deployed"):
        cluster.make(MODEL, model(name))
    cluster.make(DATASET, dataset("room1"))
    cluster.make(INCREMENTAL, incremental())
    bring(INCREMENTAL, "default", "objects")
    cluster.says(INCREMENTAL, "objects-count", "count", '{"num_of_samples": 500}')
    cluster.finish("objects-count")

    def refused(*_: Any) -> None:
        raise ApiProblem("the API is being started anew", 503)

    with monkeypatch.context() as away:
        away.setattr(cluster.admin, "merge", refused)
        with pytest.raises(ApiProblem, match="started anew"):
            bring(INCREMENTAL, "default", "objects")
    assert cluster.get(JOB, "objects-count")    # and with it what it has counted
    bring(INCREMENTAL, "default", "objects")
    assert cluster.get(JOB, "objects-count") is None
    last = cluster.status(INCREMENTAL, "objects")["conditions"][-1]
    assert (last["stage"], last["type"]) == ("Train", "Starting") and '"samples": 500' in last["data"]


@pytest.mark.slow
def test_what_is_not_its_own_it_lets_be(cluster: Cluster) -> None:
    cluster.make(CLUSTER_RUNTIME, runtime(), None)
    cluster.make(CLUSTER_RUNTIME, runtime(name="mpi", mpi={}), None)
    cluster.start("--no-fleet")
    cluster.make(TRAIN_JOB, train_job("queued", managedBy="kueue.x-k8s.io/multikueue"))
    cluster.make(SERVICE, {"metadata": {"name": "taken"}, "spec": {"ports": [{"port": 80}]}})
    cluster.make(TRAIN_JOB, train_job("taken"))
    told = cluster.until_condition(TRAIN_JOB, "taken", "Blocked")
    assert told["reason"] == "NameTaken" and cluster.get(SERVICE, "taken")["spec"] == {"ports": [{"port": 80}]}
    cluster.make(TRAIN_JOB, train_job("mpi", "mpi"))
    assert cluster.until_condition(TRAIN_JOB, "mpi", "Failed")["reason"] == "TrainingRuntimeNotSupported"
    for name in ("../../../batch/v1/jobs", "Torch"):
        cluster.make(TRAIN_JOB, train_job("odd", name))      # a name that is part of no path
        cluster.until(lambda: f"there is no ClusterTrainingRuntime {name}" in str(cluster.status(TRAIN_JOB, "odd")))
        cluster.delete(TRAIN_JOB, "odd")
        cluster.until(lambda: cluster.get(TRAIN_JOB, "odd") is None)
    cluster.make(FEDERATED, federated("b" * 100))
    assert "may have 63" in cluster.until_condition(FEDERATED, "b" * 100, "Failed")["message"]
    cluster.delete(FEDERATED, "b" * 100)
    cluster.until(lambda: cluster.get(FEDERATED, "b" * 100) is None)
    # Two containers of one name, of which one is the gate that is added: a server's 500 is a refusal, too.
    doubled = federated("doubled", datasets=("checked",))
    doubled["spec"]["trainingWorkers"][0]["template"]["spec"]["initContainers"] = [{"name": GATE, "image": "i"}]
    cluster.make(DATASET, {**dataset("checked"), "metadata": {"name": "checked", "annotations": {SHA256: "0" * 64}}})
    cluster.make(MODEL, model("vision"))
    cluster.make(FEDERATED, doubled)
    told = cluster.until_condition(FEDERATED, "doubled", "Blocked")
    assert told["reason"] == "Refused" and "failed to create typed patch object" in told["message"]
    cluster.delete(FEDERATED, "doubled")
    rules = cluster.api.rights.rules
    cluster.api.rights.rules = [(where, {**rule, "verbs": [verb for verb in rule["verbs"] if verb != "create"]})
                                for where, rule in rules]      # as a quota refuses
    cluster.make(TRAIN_JOB, train_job("poor"))
    told = cluster.until_condition(TRAIN_JOB, "poor", "Blocked")
    assert "403 controllerrevisions.apps is forbidden" in told["message"]
    cluster.api.rights.rules = rules
    assert cluster.status(TRAIN_JOB, "queued") == {} and "finalizers" not in cluster.get(
        TRAIN_JOB, "queued")["metadata"]
    cluster.end()
    gm = {"metadata": {"name": "kubeflow-trainer-controller-manager"}, "spec": {"replicas": 1, "template": {
        "spec": {"containers": [{"name": "manager", "image": "trainer:2"}]}}}}
    cluster.make(DEPLOYMENT, gm, "kubeflow-system")
    cluster.make(TRAIN_JOB, train_job("theirs"))
    cluster.start("--no-fleet", "--namespace", "default")
    cluster.until(lambda: "is left to kubeflow-system/kubeflow-trainer-controller-manager" in cluster.log.read_text())
    cluster.make(DATASET, dataset("room1"))
    cluster.make(MODEL, model("vision"))
    cluster.make(FEDERATED, federated(datasets=("room1",)))      # Sedna's are done all the same
    cluster.until_jobs(FEDERATED, "rooms", "aggregation", "train-0")
    assert cluster.below(TRAIN_JOB, "theirs") == {}
    cluster.api.tokens.discard(OPERATOR)        # its rights are taken back
    cluster.api.cut()
    assert cluster.ends() == 1 and "brain operator: it ends, and may be started again" in cluster.log.read_text()
    assert "Traceback" not in cluster.log.read_text()


def test_what_cannot_run_says_so_in_a_line(cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str],
                                           monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (sys, threading):     # which the process sets up for itself
        monkeypatch.setattr(module, "excepthook", module.excepthook)

    def said(*words: str) -> str:
        assert run_operator.main(["--kubeconfig", str(cluster.config), *words]) == 1
        told = capsys.readouterr().err
        assert told.count("\n") == 1, told
        return told

    config = cluster.config
    cluster.config = tmp_path / "none"
    assert f"no cluster: {tmp_path}/none names none that can be used" in said()
    cluster.config = tmp_path / "torn"
    cluster.config.write_text("clusters: [")
    assert "names none that can be used" in said()
    cluster.config = cluster.api.kubeconfig(tmp_path / "stranger", "another-token")
    assert "401 Unauthorized" in said()
    cluster.config = config
    granted, cluster.api.rights.rules = cluster.api.rights.rules, []
    assert "it may not create events; get trainjobs.trainer.kubeflow.org; list" in said("--no-fleet")
    cluster.api.rights.rules = granted
    assert "kubectl apply -k deploy/operator" in said("--fleet-namespace", "elsewhere")
    config.write_text(config.read_text().replace(cluster.api.url, "http://127.0.0.1:9"))
    assert "the API at http://127.0.0.1:9 is not reached" in said()
    (tmp_path / "bare").mkdir()
    bare = Cluster(tmp_path / "bare", groups=())
    try:
        cluster.config = bare.config
        assert "the definition of fleetnodes.fleet.brain is not installed: kubectl apply -k" in said()
        status, told = bare.run("--no-fleet")       # as a process, whose log says which groups are not there
        assert status == 1 and "the cluster has none of the kinds that it does" in told and "Traceback" not in told
        assert "trainer.kubeflow.org is not done: trainjobs, trainingruntimes, clustertrainingruntimes not inst" in told
    finally:
        bare.close()


def test_an_answer_may_take_longer_than_a_connection(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    assert api.PATIENCE.total is None and api.PATIENCE.connect_timeout < api.PATIENCE.read_timeout
    monkeypatch.setattr(api, "PATIENCE", api.PATIENCE.__class__(connect=0.5, read=30.0))
    cluster.api.slow = 1.0      # as a server is that is busy with large definitions
    assert cluster.admin.listed(JOB, None) == []


def test_the_folder_that_is_applied_names_what_there_is() -> None:
    kustomization = yaml.safe_load((DEPLOY / "kustomization.yaml").read_text())
    assert sorted(kustomization["resources"]) == sorted(
        one.name for one in DEPLOY.glob("*.yaml") if one.name != "kustomization.yaml")
    deployment = yaml.safe_load((DEPLOY / "deployment.yaml").read_text())
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    (image,) = kustomization["images"]
    assert container["image"] == image["name"] and f"{image['name']}:{image['newTag']}" in container["args"]
    assert deployment["spec"]["template"]["spec"]["serviceAccountName"] == "brain-operator"
    with pytest.raises(SystemExit) as ended:     # all of its arguments are known; the last is asked for in addition
        run_operator.main([*container["args"], "--help"])
    assert ended.value.code == 0
    dockerfile = (DEPLOY / "Dockerfile").read_text()
    root = DEPLOY.parents[1]
    for word in dockerfile.split():
        if word.startswith(("src/brain", '"src/brain')):
            assert (root / word.strip('"').partition("[")[0]).is_dir(), word
    assert run_operator.__name__ in dockerfile
