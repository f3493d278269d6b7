# SPDX-License-Identifier: Apache-2.0
"""Jobs to their end at an API: the one that other tests are served, and a real one where its programs are.

Of a cluster a server and its database show what is asked of an API: that definitions are taken, that the deployed
rights suffice, that what is made is valid, and that the operator brings it about. Neither has controllers or kubelets,
so that Jobs run and end, and that what belongs to what was deleted goes too, is played here.
"""
from __future__ import annotations

import json
import sys
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
from real_api import ASSETS, RealApi, programs      # noqa: E402

from brain_cloud.cluster.api import ApiProblem      # noqa: E402
from brain_cloud.cluster.kinds import (   # noqa: E402
    CLUSTER_RUNTIME, DATASET, DEPLOYMENT, FEDERATED, FLEET_ORDER, INCREMENTAL, JOB, JOINT, MODEL, REVISION, SCALER,
    SERVICE, TRAIN_JOB, Kind)
from brain_cloud.jobs.manifests import LEARNING_PLAN        # noqa: E402


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
    for kind, name in ((TRAIN_JOB, "pfc"), (FEDERATED, "rooms"), (FEDERATED, "planned"), (JOINT, "look"),
                       (INCREMENTAL, "objects")):
        gone(cluster, kind, name)
    said = cluster.log.read_text()
    assert "Traceback" not in said and "403" not in said and "forbidden" not in said, said


@pytest.mark.slow
@pytest.mark.parametrize("cluster", [REAL], indirect=True)
def test_our_own_definitions_take_what_people_write_and_no_more(cluster: Cluster) -> None:
    order: dict[str, Any] = {"metadata": {"name": "calm"}, "spec": {"kind": "Parameters", "robots": ["*"], "order": {
        "region": "brainstem", "values": {"max_linear": 0.2}}}}
    made = cluster.make(FLEET_ORDER, order, SPACE)
    assert made["spec"] == order["spec"]        # nothing is pruned
    for wrong in ({**order["spec"], "robots": "all"}, {"kind": "Parameters"}):
        with pytest.raises(ApiProblem, match="422|400"):
            cluster.make(FLEET_ORDER, {**order, "spec": wrong}, SPACE)
