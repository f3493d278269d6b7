# SPDX-License-Identifier: Apache-2.0
"""What a TrainJob means: the same on this machine and on a cluster."""
from __future__ import annotations

from typing import Any

import pytest
from both_executors import cluster, job, local, runtime, step

from brain_cloud.jobs.templates import Unfit
from brain_cloud.jobs.training import compile_train_job

CPU4 = {"limits": {"cpu": "4"}}
INITIALIZER = {"initializer": {"dataset": {"storageUri": "https://data.example/a.tar"}}}
RUN = [     # nodes, processes of each
    (job(), runtime(), 1, "1"),
    (job(resourcesPerNode={"limits": {"nvidia.com/gpu": "2", "cpu": "4"}}), runtime(), 1, "auto"),
    (job(resourcesPerNode={**CPU4, "requests": {"cpu": "2"}}), runtime(), 1, "2"),
    (job(resourcesPerNode={**CPU4, "requests": {"memory": "1Gi"}}), runtime(), 1, "4"),
    (job(resourcesPerNode={"requests": {"cpu": "2k"}}), runtime(), 1, "2000"),
    (job(resourcesPerNode={"requests": {"cpu": "1500m"}}), runtime(), 1, "2"),
    (job(_spec=INITIALIZER), runtime(), 1, "1"),
    (job(_spec={"initializer": {"dataset": {"storageUri": "file:///data/a.tar"}}}), runtime(), 1, "1"),
    (job(_spec={"initializer": {"model": {"storageUri": "file:///data/a.pt"}}}), runtime(), 1, "1"),
    (job(numProcPerNode=2), runtime(policy={"numNodes": 1}), 1, "1"),
    (job(numProcPerNode=3, numNodes=2), runtime(), 2, "3"),
    (job(), runtime(startupPolicy={"startupPolicyOrder": "InOrder"}), 1, "1"),
    (job(), runtime(failurePolicy={"maxRestarts": 3}), 1, "1"),
    (job(numNodes=2000), runtime(), 2000, "1"),
    (job(numNodes=3, numProcPerNode=2), runtime(policy={"jax": {}}), 3, "1"),
    (job(resourcesPerNode={"limits": {"nvidia.com/gpu": "2"}}), runtime(policy={"numNodes": 2, "xgboost": {}}), 2, "2"),
]
REFUSED = [
    (job(env=[{"name": "PET_NNODES", "value": "9"}]), runtime(), "'PET_NNODES' is set"),
    (job(), runtime(policy={"numNodes": 1, "mpi": {}}), "mlPolicy.mpi is not run here"),
    (job(env=[{"name": "JAX_PROCESS_ID", "value": "9"}]), runtime(policy={"jax": {}}), "is set for jax"),
    (job(env=[{"name": "DMLC_TASK_ID", "value": "9"}]), runtime(policy={"xgboost": {}}), "is set for xgboost"),
    (job(numNodes=0), runtime(), "numNodes is 0"),
    (job(numNodes=20_000), runtime(), "numNodes is 20000"),
    ({**job(), "spec": {"runtimeRef": {"name": "rt"}, "trainer": {}}}, runtime(), "spec.trainer.command is missing"),
    (job(resourcesPerNode={"requests": {"cpu": "4Ki"}}), runtime(), "cpu must be a number"),
    (job(_spec={"initializer": {"dataset": {"storageUri": "s3://bucket/x"}}}), runtime(), "only file://, http://"),
    (job(_spec={"runtimePatches": [{"manager": "k", "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [
        {"name": "nope", "template": {"spec": {}}}]}}}}]}), runtime(), "has no replicated job 'nope'; there are node"),
    (job(_spec={"runtimePatches": [{"manager": "k", "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [
        {"name": "node", "template": {"spec": {"template": {"spec": {"containers": [
            {"name": "node", "env": [{"name": "A", "value": "1"}]}]}}}}}]}}}}]}), runtime(), "not in a patch"),
    (job(), runtime(steps=[step("a", dependsOn=[{"name": "node", "status": "Ready"}])]), "depends on 'node'"),
    (job(), {**runtime(), "spec": {"template": {"spec": {"replicatedJobs": [step("a")]}}}}, "none has the label"),
]


@pytest.mark.parametrize("its, of, nodes, processes", RUN)
def test_what_is_run_is_run_alike_on_both(its, of, nodes, processes):
    training = compile_train_job(its, of)
    assert (training.nodes, training.processes) == (nodes, processes)
    group = local(its, of).groups[-1]
    assert len(group.workers) == nodes and group.procs == processes
    spec = cluster(its, of)[-1]["spec"]
    assert spec["completions"] == nodes
    given = {one["name"]: one.get("value") for one in spec["template"]["spec"]["containers"][0].get("env", ())}
    assert given.get("PET_NPROC_PER_NODE") == (processes if group.policy == "torch" else None)


@pytest.mark.parametrize("its, of, why", REFUSED)
def test_what_is_refused_is_refused_alike_on_both(its, of, why):
    with pytest.raises(Unfit, match=why):
        compile_train_job(its, of)
    for executor in (local, cluster):
        with pytest.raises(ValueError, match=why):
            executor(its, of)


def test_what_the_runtime_has_no_step_for_is_fetched_before_the_nodes_start():
    its = job(numNodes=2, _spec=INITIALIZER)
    plan = local(its, runtime())
    fetch, nodes = plan.groups
    assert [worker.load.uri for worker in fetch.workers] == ["https://data.example/a.tar"] * 2
    assert [worker.needs for worker in nodes.workers] == [("fetch-dataset-0",), ("fetch-dataset-1",)]
    assert ("DATASET_PATH", "/srv/job/nodes/1/dataset/a.tar") in nodes.workers[1].steps[-1].env
    (body,) = cluster(its, runtime())
    pod = body["spec"]["template"]["spec"]
    assert "https://data.example/a.tar" in pod["initContainers"][0]["command"]
    assert {"name": "DATASET_PATH", "value": "/var/lib/fleet-data/dataset/a.tar"} in pod["containers"][0]["env"]


def test_steps_start_in_order_where_the_runtime_asks_for_it():
    of = runtime(steps=[step("a"), step("b")], startupPolicy={"startupPolicyOrder": "InOrder"})
    assert [group.after for group in local(job(), of).groups] == [(), (("a", "Ready"),), (("b", "Ready"),)]
    assert [one.after for one in compile_train_job(job(), of).steps] == [(), (("a", "Ready"),), (("b", "Ready"),)]


def test_a_failed_step_starts_the_whole_job_again_on_a_cluster_as_often_as_the_runtime_says():
    pytest.importorskip("kopf")
    from brain_cloud.cluster.plans import Below, Settings
    from brain_cloud.cluster.trainjob import plan

    of, its = runtime(failurePolicy={"maxRestarts": 2}), job()
    failed = {"conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}]}

    def below(jobs: dict[str, Any], status: Any) -> Below:
        return Below({**its, "status": status}, jobs=jobs, found={("ClusterTrainingRuntime", "rt"): of})

    status: dict[str, Any] = {}
    for attempt in range(3):
        (made,) = [one.body for one in plan(below({}, status), Settings()).children if one.kind.kind == "Job"]
        assert made["metadata"]["labels"]["jobset.sigs.k8s.io/restart-attempt"] == str(attempt)
        jobs = {made["metadata"]["name"]: {**made, "status": failed}}
        found = plan(below(jobs, status), Settings())
        status = found.status
        if attempt < 2:
            assert not found.over and status["conditions"][-1]["reason"] == f"Attempt{attempt + 1}"
            # What ran before goes, and counts no more, until the next has its name.
            assert plan(below(jobs, status), Settings()).deleted == tuple(jobs)
    assert found.over and status["conditions"][-1]["type"] == "Failed"
