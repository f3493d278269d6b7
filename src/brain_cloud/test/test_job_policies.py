# SPDX-License-Identifier: Apache-2.0
"""Processes of a TrainJob's nodes find each other by the variables that Kubeflow's plugins set, whatever trains."""
from __future__ import annotations

import json
from typing import Any

import pytest
from both_executors import cluster, job as simple, runtime
from local_jobs import PLAIN, job

# What a node finds in its environment: its plugin's variables and the index that an indexed Job gives.
TOLD = """
import json, os
print("told " + json.dumps({name: value for name, value in os.environ.items() if name.startswith(
    ("PET_", "JAX_", "DMLC_", "JOB_", "MINE"))}), flush=True)
"""
FIRST = "t-node-0-0.t"      # the first node's name on a cluster
JAX = {"JAX_NUM_PROCESSES": "2", "JAX_PROCESS_ID": None, "JAX_COORDINATOR_ADDRESS": f"{FIRST}:29500"}
XGBOOST = {"DMLC_TRACKER_URI": FIRST, "DMLC_TRACKER_PORT": "29500", "DMLC_TASK_ID": None, "DMLC_NUM_WORKER": "2"}
TORCH = {"PET_NNODES": "2", "PET_NPROC_PER_NODE": "1", "PET_NODE_RANK": None, "PET_MASTER_ADDR": FIRST,
         "PET_MASTER_PORT": "29500"}
RANK = "metadata.annotations['batch.kubernetes.io/job-completion-index']"


@pytest.mark.parametrize("policy, wanted", [("jax", JAX), ("xgboost", XGBOOST), ("torch", TORCH)])
def test_on_a_cluster_a_node_is_told_by_its_pods_index_and_the_first_ones_name(policy, wanted):
    (body,) = cluster(simple(numNodes=2), runtime(policy={"numNodes": 1, policy: {}}))
    (container,) = body["spec"]["template"]["spec"]["containers"]
    assert {one["name"]: one.get("value") for one in container["env"]} == wanted
    (rank,) = [one["valueFrom"] for one in container["env"] if "valueFrom" in one]
    assert rank == {"fieldRef": {"fieldPath": RANK}} and container["ports"] == [{"containerPort": 29500}]


def test_init_containers_that_the_runtime_names_are_told_torchruns_variables_too():
    of = runtime(policy={"torch": {"envInjection": {"targets": [{"jobName": "node", "containerNames": ["look"]}]}}})
    pod = of["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    pod["initContainers"] = [{"name": "look", "image": "i"}, {"name": "other", "image": "i"}]
    (body,) = cluster(simple(numNodes=2), of)
    look, other = body["spec"]["template"]["spec"]["initContainers"]
    assert {one["name"] for one in look["env"]} == {*TORCH} and "env" not in other and "ports" not in look


def _told(jobs: Any, name: str) -> list[dict[str, str]]:
    jobs.phase(name, "Complete")
    logs = jobs.runner.logs(name)["logs"]
    return [json.loads(logs[node].partition("told ")[2].splitlines()[0]) for node in sorted(logs)]


def test_here_nodes_of_jax_xgboost_and_plain_commands_are_told_the_same_names(jobs):
    mine = [{"name": "MINE", "value": "$(JAX_PROCESS_ID)"}]
    jobs.apply(PLAIN, job("plain", TOLD, trainer={"numNodes": 2}),
               job("jax", TOLD, "jax-distributed", trainer={"numNodes": 2, "env": mine}),
               job("boost", TOLD, "xgboost-distributed", trainer={"numNodes": 2}))
    assert _told(jobs, "plain") == [{"JOB_COMPLETION_INDEX": "0"}, {"JOB_COMPLETION_INDEX": "1"}]
    nodes = _told(jobs, "jax")
    address = nodes[0]["JAX_COORDINATOR_ADDRESS"]
    assert address.startswith("127.0.0.1:") and nodes == [{
        "JOB_COMPLETION_INDEX": rank, "JAX_PROCESS_ID": rank, "MINE": rank, "JAX_NUM_PROCESSES": "2",
        "JAX_COORDINATOR_ADDRESS": address} for rank in "01"]
    nodes = _told(jobs, "boost")
    port = nodes[0]["DMLC_TRACKER_PORT"]
    assert int(port) > 0 and nodes == [{"JOB_COMPLETION_INDEX": rank, "DMLC_TASK_ID": rank, "DMLC_NUM_WORKER": "2",
                                        "DMLC_TRACKER_URI": "127.0.0.1", "DMLC_TRACKER_PORT": port} for rank in "01"]
