# SPDX-License-Identifier: Apache-2.0
"""Manifests of jobs as people write them for Kubeflow Trainer and Sedna, for tests."""
from __future__ import annotations

from typing import Any

ANCESTOR = "trainer.kubeflow.org/trainjob-ancestor-step"


def step(name: str, ancestor: str, image: str, **more: Any) -> dict[str, Any]:
    """A replicated job of a runtime."""
    return {"name": name, "template": {"metadata": {"labels": {ANCESTOR: ancestor}}, "spec": {"template": {
        "spec": {"containers": [{"name": name, "image": image}]}}}}, **more}


def runtime(*before: dict[str, Any], name: str = "torch", **policy: Any) -> dict[str, Any]:
    """A runtime whose last step trains."""
    after = [{"name": one["name"], "status": "Complete"} for one in before]
    node = step("node", "trainer", "trainer:1", **({"dependsOn": after} if after else {}))
    return {"metadata": {"name": name}, "spec": {"mlPolicy": {"numNodes": 1, **(policy or {"torch": {}})}, "template": {
        "spec": {"replicatedJobs": [*before, node]}}}}


def train_job(name: str = "pfc", runtime_name: str = "torch", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"runtimeRef": {"name": runtime_name}, **spec}}


def pod(image: str, **spec: Any) -> dict[str, Any]:
    """A worker's template."""
    return {"template": {"spec": {"containers": [{"name": "worker", "image": image}], **spec}}}


def dataset(name: str, node: str = "robot1", url: str = "/data/rooms/train.txt", samples: int | None = None
            ) -> dict[str, Any]:
    more = {} if samples is None else {"status": {"numberOfSamples": samples}}
    return {"metadata": {"name": name}, "spec": {"url": url, "format": "txt", "nodeName": node}, **more}


def model(name: str, url: str = "/models/vision.safetensors") -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"url": url, "format": "safetensors"}}


def federated(name: str = "rooms", datasets: tuple[str, ...] = ("room1", "room2")) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {
        "aggregationWorker": {"model": {"name": "vision"}, **pod("aggregate:1")},
        "trainingWorkers": [{"dataset": {"name": one}, **pod("train:1")} for one in datasets]}}


def joint(name: str = "look", hpa: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {
        "edgeWorker": {"model": {"name": "little"}, **pod("little:1"), "hardExampleMining": {
            "name": "IBT", "parameters": [{"key": "threshold_img", "value": "0.5"}]}},
        "cloudWorker": {"model": {"name": "big"}, **pod("big:1"), **({"hpa": hpa} if hpa else {})}}}


def incremental(name: str = "objects", least: int = 100) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {
        "initialModel": {"name": "vision"}, "dataset": {"name": "room1", "trainProb": 0.8}, "outputDir": "/output",
        "trainSpec": {**pod("train:1"), "trigger": {
            "checkPeriodSeconds": 60, "timer": {"start": "00:00", "end": "24:00"},
            "condition": {"operator": ">", "threshold": least, "metric": "num_of_samples"}}},
        "evalSpec": pod("eval:1"),
        "deploySpec": {**pod("infer:1"), "model": {"name": "deployed"}, "hardExampleMining": {"name": "IBT"},
                       "trigger": {"condition": {"operator": ">", "threshold": 0.1, "metric": "precision_delta"}}}}}


def lifelong(name: str = "tasks") -> dict[str, Any]:
    one = incremental(name)
    del one["spec"]["initialModel"]
    one["spec"]["deploySpec"] = pod("infer:1")
    return one
