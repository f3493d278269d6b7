# SPDX-License-Identifier: Apache-2.0
"""Manifests with the fields that public samples of Kubeflow Trainer and Sedna use, and more."""
from __future__ import annotations

from typing import Any

import yaml

HEAD = {"TrainJob": "trainer.kubeflow.org/v1alpha1", "ClusterTrainingRuntime": "trainer.kubeflow.org/v1alpha1"}
STEP = "trainer.kubeflow.org/trainjob-ancestor-step"

# Of a pod, what Sedna's samples say, and a command, without which nothing runs here.
POD = """
metadata: {labels: {app: a}}
spec:
  restartPolicy: OnFailure
  terminationGracePeriodSeconds: 20
  containers:
  - name: worker
    image: example/worker:v1
    imagePullPolicy: IfNotPresent
    command: [python3, -c]
    args: ["print('/mnt/in/x', '/mnt/c/x', '/dev/termination-log')"]
    workingDir: /
    env: [{name: input_shape, value: "352,640"}, {name: NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
    resources: {limits: {cpu: "2", memory: 2Gi}, requests: {memory: 64Mi}}
    ports: [{containerPort: 80, protocol: TCP}]
    volumeMounts: [{name: video, mountPath: /mnt/in, subPath: s}, {name: claim, mountPath: /mnt/c},
                   {name: empty, mountPath: /mnt/e}]
  initContainers: [{name: first, image: i, command: ["true"]}]
  volumes: [{name: video, hostPath: {path: /srv/video, type: Directory}}, {name: empty, emptyDir: {}},
            {name: claim, persistentVolumeClaim: {claimName: shared}}]
"""
TRIGGER = """
checkPeriodSeconds: 60
timer: {start: "02:00", end: "24:00"}
condition: {operator: ">", threshold: 500, metric: num_of_samples}
"""


def pod(name: str = "worker", **spec: Any) -> dict[str, Any]:
    found = yaml.safe_load(POD)
    found["spec"]["containers"][0]["name"] = name
    found["spec"].update(spec)
    return found


def _of(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": HEAD.get(kind, "sedna.io/v1alpha1"), "kind": kind, "metadata": {"name": name}, "spec": spec}


def train_job(**spec: Any) -> dict[str, Any]:
    """Of the runtime below, with all that a job may say but for what is refused."""
    trainer = {"numNodes": 3, "image": "i", "command": ["torchrun"], "args": ["train.py"], "env": [
        {"name": "PYTHONUNBUFFERED", "value": "1"}], "resourcesPerNode": {
            "requests": {"memory": "4Gi"}, "limits": {"cpu": "4", "memory": "8Gi"}}}
    patch = {"manager": "example.io/team", "trainingRuntimeSpec": {"template": {
        "metadata": {"labels": {"team": "a"}}, "spec": {"replicatedJobs": [{"name": "node", "template": {"spec": {
            "template": {"spec": {"serviceAccountName": "s", "nodeSelector": {"a": "b"}}}}}}]}}}}
    return _of("TrainJob", "sample", {
        "runtimeRef": {"apiGroup": "trainer.kubeflow.org", "kind": "ClusterTrainingRuntime", "name": "torch"},
        "initializer": {what: {
            "storageUri": "https://data.example/a.tar", "secretRef": {"name": f"{what}-keys"},
            "env": [{"name": "SHA256", "value": "0" * 64}]} for what in ("dataset", "model")},
        "trainer": trainer, "runtimePatches": [patch], "suspend": False, "activeDeadlineSeconds": 900, **spec})


def runtime(policy: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """With a step beside the trainer, and all that a runtime may say but for what is refused."""
    node = pod("node", nodeSelector={"a": "b"})
    node["spec"]["containers"][0].pop("env")
    steps = [{"name": "other", "replicas": 2, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {
        "parallelism": 2, "completions": 2, "backoffLimit": 3, "template": pod()}}},
             {"name": "node", "template": {
                 "metadata": {"labels": {STEP: "trainer"}}, "spec": {"template": node}}}]
    return _of("ClusterTrainingRuntime", "torch", {"mlPolicy": policy or {"numNodes": 1, "torch": {}}, "template": {
        "metadata": {"labels": {"a": "b"}}, "spec": {"replicatedJobs": steps, **spec}}})


def _learning(kind: str, **more: Any) -> dict[str, Any]:
    spec = {"dataset": {"name": "d", "trainProb": 0.8}, "outputDir": "/output",
            "trainSpec": {"template": pod(), "trigger": yaml.safe_load(TRIGGER)}, "evalSpec": {"template": pod()},
            "deploySpec": {"template": pod()}}
    for name, value in more.items():
        spec[name] = {**spec.get(name, {}), **value}
    return _of(kind, "sample", spec)


RULE = {"name": "IBT", "parameters": [{"key": "threshold_img", "value": "0.5"}]}
FEDERATED = _of("FederatedLearningJob", "sample", {
    "aggregationWorker": {"model": {"name": "m"}, "template": pod()}, "pretrainedModel": {"name": "m"},
    "transmitter": {"s3": {"aggDataPath": "s3://a/b", "credentialName": "c"}},
    "trainingWorkers": [{"dataset": {"name": "d"}, "template": pod()}, {"dataset": {"name": "e"}, "template": pod()}]})
INCREMENTAL = _learning(
    "IncrementalLearningJob", initialModel={"name": "m"}, evalSpec={"initialEvalModel": {"name": "m"}}, deploySpec={
        "model": {"name": "deployed", "hotUpdateEnabled": True, "pollPeriodSeconds": 30}, "hardExampleMining": RULE,
        "trigger": {**yaml.safe_load(TRIGGER), "condition": {
            "operator": ">", "threshold": 0.1, "metric": "precision_delta"}}})
LIFELONG = _learning("LifelongLearningJob")
JOINT = _of("JointInferenceService", "sample", {
    "edgeWorker": {"model": {"name": "m"}, "hardExampleMining": RULE, "template": pod()},
    "cloudWorker": {"model": {"name": "big"}, "hpa": {"maxReplicas": 3}, "template": pod()}})
DATA = [_of("Dataset", name, {"url": f"/data/{name}/{name}.txt", "format": "txt", "nodeName": "edge0"})
        for name in "de"]
DATA += [_of("Model", name, {"url": f"/models/{name}.pb", "format": "ckpt"}) for name in ("m", "big", "deployed")]
