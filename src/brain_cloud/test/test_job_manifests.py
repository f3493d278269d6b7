# SPDX-License-Identifier: Apache-2.0
"""What is taken as a job manifest, what is refused and in which words, and which workers a manifest comes to."""
from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from brain.cli import app
from brain_cloud.jobs.kinds import JOBS, kinds
from brain_cloud.jobs.local_plan import examine
from brain_cloud.jobs.manifests import manifest
from brain_cloud.jobs.samples import compared, fires, in_hours, metric
from brain_edge.schema import FormProblem
from brain_edge.state.manifests import read_manifests
from brain_edge.state.manifests import ManifestProblem

TRAIN = """apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: motor}
spec:
  runtimeRef: {name: torch-distributed}
  trainer:
    numNodes: 2
    command: [torchrun, train.py]
"""
RUNTIME = """apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainingRuntime
metadata: {name: staged}
spec:
  mlPolicy: {numNodes: 3, torch: {}}
  template:
    spec:
      replicatedJobs:
      - name: dataset-initializer
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: dataset-initializer}}
          spec: {template: {spec: {containers: [{name: dataset-initializer, image: loader}]}}}
      - name: node
        dependsOn: [{name: dataset-initializer, status: Complete}]
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec:
            backoffLimit: 2
            template:
              spec:
                containers:
                - name: node
                  image: torch
                  command: [python3, train.py, --data, /workspace/dataset/rooms, --to, $(OUT)]
                  env: [{name: OUT, value: /results/a}, {name: KEPT, value: "1"}]
                  volumeMounts: [{name: results, mountPath: /results}]
                volumes: [{name: results, persistentVolumeClaim: {claimName: results}}]
"""
STAGED = """apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: staged}
spec:
  runtimeRef: {kind: TrainingRuntime, name: staged}
  initializer: {dataset: {storageUri: "file:///data/rooms"}}
  trainer: {numProcPerNode: 2, env: [{name: KEPT, value: "2"}]}
"""
POD = "spec: {containers: [{name: w, command: [python3, w.py]}]}"
DATA = """apiVersion: sedna.io/v1alpha1
kind: Dataset
metadata: {name: rooms}
spec: {url: /data/rooms.txt, format: txt, nodeName: edge1}
---
apiVersion: sedna.io/v1alpha1
kind: Model
metadata: {name: small}
spec: {url: /models/small, format: pth}
"""
FEDERATED = f"""apiVersion: sedna.io/v1alpha1
kind: FederatedLearningJob
metadata: {{name: fleet}}
spec:
  aggregationWorker: {{model: {{name: small}}, template: {{{POD}}}}}
  trainingWorkers:
  - {{dataset: {{name: rooms}}, template: {{{POD}}}}}
  - {{dataset: {{name: rooms}}, template: {{{POD}}}}}
"""
LEARNING = f"""apiVersion: sedna.io/v1alpha1
kind: LifelongLearningJob
metadata: {{name: lifelong}}
spec:
  dataset: {{name: rooms, trainProb: 0.8}}
  outputDir: /output
  trainSpec:
    template: {{{POD}}}
    trigger: {{checkPeriodSeconds: 60, timer: {{start: 02:00, end: 24:00}},
              condition: {{operator: ">", threshold: 500, metric: num_of_samples}}}}
  evalSpec: {{template: {{{POD}}}}}
  deploySpec: {{template: {{{POD}}}}}
"""
JOINT = f"""apiVersion: sedna.io/v1alpha1
kind: JointInferenceService
metadata: {{name: joint}}
spec:
  edgeWorker: {{model: {{name: small}}, hardExampleMining: {{name: IBT}}, template: {{{POD}}}}}
  cloudWorker: {{model: {{name: small}}, template: {{{POD}}}}}
"""
CLASS = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: soon}\nvalue: 100\n"
ALL = "---\n".join([TRAIN, RUNTIME, STAGED, DATA, FEDERATED, LEARNING, JOINT, CLASS])
WRONG = {
    "unknown kind": (TRAIN.replace("TrainJob", "TrainJobs"), "there is no kind 'TrainJobs'; did you mean TrainJob?"),
    "unknown version": (TRAIN.replace("v1alpha1", "v2"), "apiVersion is 'trainer.kubeflow.org/v2', and of TrainJob "
                                                         "this software knows trainer.kubeflow.org/v1alpha1"),
    "unknown field": (TRAIN.replace("numNodes", "numNode"), "spec.trainer has no field 'numNode'; did you mean "
                                                            "numNodes?"),
    "unknown field below": (FEDERATED.replace("command:", "commands:"), "has no field 'commands'; did you mean "
                                                                        "command?"),
    "a text for a number": (TRAIN.replace("numNodes: 2", "numNodes: two"), "spec.trainer.numNodes must be an integer, "
                                                                           "but is 'two'"),
    "no spec": (TRAIN.partition("spec:")[0], "spec is missing"),
    "no runtime": (TRAIN.replace("  runtimeRef: {name: torch-distributed}\n", ""), "spec.runtimeRef is missing"),
    "twice": (f"{TRAIN}---\n{TRAIN}", "document 2: TrainJob motor stands twice"),
    "twice in a list": (RUNTIME.replace("name: KEPT", "name: OUT"), "the name 'OUT' stands twice"),
    "no URI": (STAGED.replace("file:///data/rooms", "/data/rooms"), "storageUri must be SCHEME://"),
    "an operator": (LEARNING.replace('">"', '"~"'), "trigger.condition.operator must be one of"),
    "a share": (LEARNING.replace("0.8", "1.8"), "spec.dataset.trainProb must be between 0 and 1, not 1.8"),
    "a runtime of others": (TRAIN.replace("{name: torch", "{apiGroup: example.io, name: torch"), "apiGroup is"),
    "elastic": (TRAIN.replace("{name: motor}", "{name: motor, annotations: {fleet.brain/elastic: '3:1'}}"),
                "fleet.brain/elastic must be the least and the most nodes"),
    "a digest": (DATA.replace("{name: rooms}", "{name: rooms, annotations: {fleet.brain/sha256: abc}}"),
                 "must be 64 hexadecimal digits"),
}
IMPOSSIBLE = {
    "torchrun's variable": (RUNTIME + "---\n" + STAGED.replace("KEPT", "PET_NNODES"),
                            "'PET_NNODES' is set for torchrun"),
    "no such runtime": (TRAIN.replace("torch-distributed", "torch"), "spec.runtimeRef: there is no "
                        "ClusterTrainingRuntime 'torch'; apply it first"),
    "no command": (TRAIN.replace("command", "args"), "names no command"),
    "no nodes": (TRAIN.replace("numNodes: 2", "numNodes: 0"), "numNodes is 0; give 1 to 1000"),
    "another policy": (TRAIN.replace("torch-distributed", "mpi") + "---\n" + RUNTIME.replace("torch: {}", "mpi: {}")
                       .replace("TrainingRuntime", "ClusterTrainingRuntime").replace("name: staged", "name: mpi"),
                       "mlPolicy.mpi is not run here"),
    "no loader": (TRAIN + "  initializer: {dataset: {storageUri: s3://data/rooms}}\n", "without a replicated job with "
                  "the label"),
    "a patch of nothing": (TRAIN + "  runtimePatches: [{manager: me, trainingRuntimeSpec: {template: {spec: "
                           "{replicatedJobs: [{name: nodes}]}}}}]\n", "the runtime has no replicated job 'nodes'; "
                           "there are node"),
    "another machine": (DATA + "---\n" + FEDERATED.replace("spec: {containers", "spec: {nodeName: robot7, containers"),
                        "template.spec.nodeName is 'robot7', and workers run on this machine"),
    "no such dataset": (FEDERATED, "there is no Model 'small'; apply it first"),
    "no such class": (TRAIN.replace("{name: motor}", "{name: motor, labels: {kueue.x-k8s.io/priority-class: soon}}"),
                      "there is no PriorityClass 'soon'"),
}


def read(folder: Path, text: str):
    path = folder / "jobs.yaml"
    path.write_text(text)
    return list(read_manifests(path, manifest))


def plans(folder: Path, text: str):
    found = read(folder, text)
    objects = {(one.kind, one.name): one for one in found}
    return {one.name: examine(one, objects, folder) for one in found if one.job}


def test_every_kind_is_taken_and_what_cannot_be_meant_so_is_refused_by_document_and_field(tmp_path):
    assert {one.kind for one in read(tmp_path, ALL)} >= {*JOBS[:2], "LifelongLearningJob", "JointInferenceService"}
    wrong = {}
    for name, (text, why) in WRONG.items():
        try:
            told = f"taken as {read(tmp_path, text)}"
        except ManifestProblem as problem:
            told = str(problem)
        if why not in told or "\n" in told or "document" not in told:
            wrong[name] = told
    for name, (text, why) in IMPOSSIBLE.items():
        try:
            told = f"planned as {plans(tmp_path, text)}"
        except FormProblem as problem:
            told = str(problem)
        if why not in told or "\n" in told:
            wrong[name] = told
    assert wrong == {}


def test_each_schema_refuses_a_field_that_it_has_not_at_any_depth():
    for kind, about in kinds().items():
        waiting, seen = [about["schema"]], set()
        while waiting:
            schema = waiting.pop()
            if id(schema) in seen or not isinstance(schema, dict):
                continue
            seen.add(id(schema))
            assert schema.get("type") != "object" or "properties" in schema or "additionalProperties" in schema or (
                schema == {"type": "object"}), (kind, schema)
            waiting += [*schema.get("properties", {}).values(), schema.get("items"), schema.get("additionalProperties")]
        assert len(seen) > (5 if kind in ("Dataset", "Model") or "Priority" in kind else 100), kind


def test_a_runtime_is_merged_as_kubeflow_does_and_paths_of_containers_stand_for_folders_here(tmp_path):
    found = plans(tmp_path, ALL)
    loaders, nodes = found["staged"].groups
    assert [worker.load.uri for worker in loaders.workers] == ["file:///data/rooms"] * 3
    assert [worker.needs for worker in nodes.workers] == [(f"dataset-initializer-{index}",) for index in range(3)]
    assert (nodes.backoff, nodes.procs, nodes.together, found["staged"].slots) == (2, "2", True, 6)
    step = nodes.workers[1].steps[-1].resolved({}, {"PATH": "/bin"})
    assert step["argv"] == ["python3", "train.py", "--data", f"{tmp_path}/job/nodes/1/dataset/rooms", "--to",
                            f"{tmp_path}/volumes/results/a"]
    assert step["env"]["KEPT"] == "2" and step["env"]["PATH"] == "/bin"
    assert "images are not used" in " ".join(found["staged"].notes)
    loaders, aggregation, train = found["fleet"].groups
    first, second = (dict(worker.steps[-1].env) for worker in train.workers)
    agg = dict(aggregation.workers[0].steps[-1].env)
    assert first["AGG_PORT"] == second["AGG_PORT"] == agg["AGG_BIND_PORT"] and first["PARTICIPANTS_COUNT"] == "2"
    assert first["TRAIN_DATASET_URL"] == "/data/rooms.txt" and first["WORKER_NAME"] != second["WORKER_NAME"]
    assert train.workers[0].needs == ("loader-train-0-dataset",)
    assert [(group.name, group.service) for group in found["joint"].groups] == [
        ("loader", False), ("cloud", True), ("edge", True)]


def test_triggers_hold_as_sedna_has_them():
    more = {"operator": ">", "threshold": 0.1, "metric": "precision_delta"}
    stats = compared({"precision": [0.9], "recall": [0.5, 0.6]}, {"precision": [0.7], "recall": [0.4, 0.7]})
    assert fires(more, stats) and not fires(more, compared({"precision": 0.75}, {"precision": 0.7}))
    assert metric("recall_delta[1]", stats) == pytest.approx(-0.1) and metric("recall", stats) is None
    assert not fires(more, {}) and not fires(more, {"precision_delta": float("nan")})
    night = {"start": "23:00", "end": "2:00"}
    assert [in_hours(night, datetime(2026, 1, 1, hour)) for hour in (22, 23, 1, 3)] == [
        False, True, True, False]


def test_the_command_checks_a_file_and_prints_digests(tmp_path):
    path = tmp_path / "jobs.yaml"
    path.write_text(ALL)
    done = CliRunner().invoke(app, ["jobs", "check", str(path)], env={"COLUMNS": "200"})
    assert done.exit_code == 0 and "TrainJob motor: good; node-0, node-1" in done.output
    path.write_text(WRONG["unknown field"][0])
    done = CliRunner().invoke(app, ["jobs", "check", str(path)])
    assert done.exit_code == 1 and "document 1: spec.trainer has no field 'numNode'" in done.output
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "b").write_text("2")
    (tmp_path / "data" / "a").write_text("1")
    done = CliRunner().invoke(app, ["jobs", "digest", str(tmp_path / "data")])
    assert (done.exit_code, len(done.output.strip())) == (0, 64)
