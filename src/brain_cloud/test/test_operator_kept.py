# SPDX-License-Identifier: Apache-2.0
"""What a job has begun with is kept: who deletes or changes a runtime, Dataset or Model in mid-run changes nothing."""
from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Iterator

import pytest

pytest.importorskip("kopf")
pytest.importorskip("kubernetes")

sys.path.insert(0, str(Path(__file__).parent / "programs"))
from clusters import Cluster        # noqa: E402
from manifests_of_jobs import dataset, federated, incremental, joint, model, runtime, step, train_job    # noqa: E402

from brain_cloud.cluster.kinds import (   # noqa: E402
    CLUSTER_RUNTIME, DATASET, DEPLOYMENT, FEDERATED, INCREMENTAL, JOB, JOINT, MODEL, REVISION, TRAIN_JOB, Kind)
from brain_cloud.cluster.plans import Settings      # noqa: E402
from brain_cloud.cluster.reconcile import Reconciler        # noqa: E402


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    found = Cluster(tmp_path)
    yield found
    found.close()


def bring(cluster: Cluster, kind: Kind, name: str) -> dict[str, Any]:
    """Looks at a resource as an operator does that has just started; its status."""
    for _ in range(2):      # what is ready for the next step is seen at the next look
        Reconciler(cluster.admin, Settings())(kind, "default", name)
    return cluster.status(kind, name)


def images(cluster: Cluster, kind: Kind, name: str) -> dict[str, str]:
    return {key: one["spec"]["template"]["spec"]["containers"][0]["image"]
            for key, one in cluster.below(kind, name).items()}


def gone(cluster: Cluster, kind: Kind, *names: str) -> None:
    for name in names:
        one = cluster.admin.get(kind, "default" if kind.namespaced else None, name)
        cluster.admin.delete(kind, "default" if kind.namespaced else None, name, one["metadata"]["uid"])
        assert cluster.admin.get(kind, "default" if kind.namespaced else None, name) is None


@pytest.mark.parametrize("what", ["deleted", "changed"])
def test_a_train_job_goes_on_with_the_runtime_that_it_began_with(cluster, what):
    load = step("load", "dataset-initializer", "load:1")
    cluster.make(CLUSTER_RUNTIME, runtime(load), None)
    cluster.make(TRAIN_JOB, train_job())
    bring(cluster, TRAIN_JOB, "pfc")
    assert images(cluster, TRAIN_JOB, "pfc") == {"load": "load:1"}
    if what == "deleted":
        gone(cluster, CLUSTER_RUNTIME, "torch")
    else:
        other = runtime(load)
        node = other["spec"]["template"]["spec"]["replicatedJobs"][-1]["template"]["spec"]["template"]["spec"]
        node["containers"][0]["image"] = "trainer:2"
        cluster.make(CLUSTER_RUNTIME, other, None)
    cluster.finish("pfc-load-0")
    status = bring(cluster, TRAIN_JOB, "pfc")
    assert not [one for one in status["conditions"] if one["type"] == "Blocked"]
    assert images(cluster, TRAIN_JOB, "pfc") == {"load": "load:1", "node": "trainer:1"}
    cluster.finish("pfc-node-0")
    assert bring(cluster, TRAIN_JOB, "pfc")["conditions"][-1]["type"] == "Complete"
    # Another job of its name, which has not begun, has the runtime that is there now.
    gone(cluster, TRAIN_JOB, "pfc")
    cluster.until(lambda: cluster.below(TRAIN_JOB, "pfc", REVISION) == {})
    cluster.make(TRAIN_JOB, train_job())
    status = bring(cluster, TRAIN_JOB, "pfc")
    assert ("Blocked" in str(status)) is (what == "deleted")


def test_a_suspended_train_job_has_not_begun(cluster):
    cluster.make(CLUSTER_RUNTIME, runtime(), None)
    cluster.make(TRAIN_JOB, train_job(suspend=True))
    bring(cluster, TRAIN_JOB, "pfc")
    assert cluster.below(TRAIN_JOB, "pfc", REVISION) == {}
    gone(cluster, CLUSTER_RUNTIME, "torch")
    assert bring(cluster, TRAIN_JOB, "pfc")["conditions"][-1]["type"] == "Blocked"


def test_a_federated_job_whose_datasets_and_model_are_deleted_goes_on_and_ends(cluster):
    for name in ("room1", "room2"):
        cluster.make(DATASET, dataset(name))
    cluster.make(MODEL, model("vision"))
    cluster.make(FEDERATED, federated())
    bring(cluster, FEDERATED, "rooms")
    before = {one["metadata"]["uid"] for one in cluster.below(FEDERATED, "rooms").values()}
    gone(cluster, DATASET, "room1", "room2")
    gone(cluster, MODEL, "vision")
    bring(cluster, FEDERATED, "rooms")
    assert {one["metadata"]["uid"] for one in cluster.below(FEDERATED, "rooms").values()} == before
    for name in ("aggregation", "train-0", "train-1"):
        cluster.finish(f"rooms-{name}")
    assert bring(cluster, FEDERATED, "rooms")["phase"] == "Succeeded"


def test_a_learning_job_whose_references_are_deleted_goes_on_with_its_rounds(cluster):
    cluster.make(DATASET, dataset("room1"))
    for name in ("vision", "deployed"):
        cluster.make(MODEL, model(name))
    cluster.make(INCREMENTAL, incremental())
    bring(cluster, INCREMENTAL, "objects")
    infer = cluster.get(DEPLOYMENT, "objects-infer")
    gone(cluster, DATASET, "room1")
    gone(cluster, MODEL, "vision", "deployed")
    cluster.says(INCREMENTAL, "objects-count", "count", '{"num_of_samples": 500}')
    cluster.finish("objects-count")
    last = bring(cluster, INCREMENTAL, "objects")["conditions"][-1]
    assert (last["stage"], last["type"]) == ("Train", "Starting") and cluster.get(JOB, "objects-train-1")
    assert cluster.get(DEPLOYMENT, "objects-infer")["metadata"]["generation"] == infer["metadata"]["generation"]


def test_a_service_takes_a_changed_model_and_keeps_the_last_when_that_is_deleted(cluster):
    for name in ("little", "big"):
        cluster.make(MODEL, model(name))
    cluster.make(JOINT, joint())
    bring(cluster, JOINT, "look")
    cluster.make(MODEL, model("big", "/models/bigger.safetensors"))
    bring(cluster, JOINT, "look")
    cloud = cluster.get(DEPLOYMENT, "look-cloud")
    assert "/models/bigger.safetensors" in str(cloud)
    gone(cluster, MODEL, "big", "little")
    assert not [one for one in bring(cluster, JOINT, "look")["conditions"] if one["type"] == "Blocked"]
    assert cluster.get(DEPLOYMENT, "look-cloud")["spec"] == cloud["spec"]
    (kept,) = cluster.admin.listed(REVISION, "default")
    assert kept["revision"] == 2
