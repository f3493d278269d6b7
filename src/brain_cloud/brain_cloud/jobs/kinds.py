# SPDX-License-Identifier: Apache-2.0
"""Kinds of manifests that a job may be made of, and what each may say: the published schemas, read offline."""
from __future__ import annotations

import difflib
import functools
import json
from importlib import resources
from typing import Any, Mapping

from brain_edge.schema import FormProblem, check
from brain_wire.safe_text import quoted

GROUPS = "trainer.kubeflow.org", "sedna.io"
JOBS = ("TrainJob", "FederatedLearningJob", "IncrementalLearningJob", "LifelongLearningJob", "JointInferenceService")
RUNTIMES = RUNTIME, CLUSTER_RUNTIME = "TrainingRuntime", "ClusterTrainingRuntime"
PRIORITIES = ("PriorityClass", "WorkloadPriorityClass")

_TEXTS = {"type": "object", "maxProperties": 200, "additionalProperties": {"type": "string", "maxLength": 20_000}}
_ANY = {"type": ["array", "object", "string", "integer", "null"], "items": {"type": "object",
        "additionalProperties": True}, "additionalProperties": True}
# What people write of an object's metadata, and what `kubectl get -o yaml` adds; the definitions leave it open.
_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
METADATA = {"type": "object", "required": ["name"], "properties": {
    "name": {"type": "string", "pattern": "[a-z0-9]([-a-z0-9]*[a-z0-9])?", "maxLength": 63},
    "namespace": {"type": "string", "pattern": "[a-z0-9]([-a-z0-9]*[a-z0-9])?", "maxLength": 63},
    "labels": _TEXTS, "annotations": _TEXTS, "finalizers": {"type": "array", "items": {"type": "string"}},
    "ownerReferences": _ANY, "managedFields": _ANY, "uid": {"type": "string"}, "resourceVersion": {"type": "string"},
    "generation": {"type": "integer"}, "creationTimestamp": {"type": ["string", "null"]},
    "selfLink": {"type": "string"}}}
_REFERRED = {**METADATA, "properties": {**METADATA["properties"], "name": {  # type: ignore[dict-item]
    "type": "string", "pattern": rf"{_LABEL}(\.{_LABEL})*", "maxLength": 253}}}
_VALUE = {"type": "integer", "minimum": -2**31, "maximum": 10**9}
_PRIORITY = {"type": "object", "required": ["value"], "properties": {
    "apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": _REFERRED, "value": _VALUE,
    "description": {"type": "string", "maxLength": 10_000}, "globalDefault": {"type": "boolean"},
    "preemptionPolicy": {"enum": ["PreemptLowerPriority", "Never"]}}}
_OWN = {"PriorityClass": {"apiVersion": "scheduling.k8s.io/v1", "namespaced": False, "schema": _PRIORITY},
        "WorkloadPriorityClass": {"apiVersion": "kueue.x-k8s.io/v1beta1", "namespaced": False, "schema": {
            **_PRIORITY, "properties": {name: inner for name, inner in _PRIORITY["properties"].items()  # type: ignore
                                        if name not in ("globalDefault", "preemptionPolicy")}}}}


@functools.cache
def kinds() -> Mapping[str, Mapping[str, Any]]:
    """``apiVersion``, ``namespaced`` and ``schema`` of each kind, by its name."""
    found: dict[str, Mapping[str, Any]] = dict(_OWN)
    for group in ("trainer", "sedna"):
        text = resources.files("brain_cloud.jobs.schemas").joinpath(f"{group}.json").read_text(encoding="utf-8")
        read = json.loads(text)
        shared: list[Any] = []
        for schema in read["shared"]:       # each refers only to those before it
            shared.append(_resolved(schema, shared))
        for kind, about in read["kinds"].items():
            found[kind] = {**about, "schema": _resolved(about["schema"], shared)}
    return found


def _resolved(schema: Any, shared: list[Any]) -> Any:
    if isinstance(schema, dict):
        if isinstance(schema.get("$ref"), int):
            return shared[schema["$ref"]]
        return {key: _resolved(value, shared) for key, value in schema.items()}
    return [_resolved(value, shared) for value in schema] if isinstance(schema, list) else schema


def is_job_manifest(value: Any) -> bool:
    """Tells whether a document says that it is of one of these groups, or names a kind of theirs."""
    if not isinstance(value, dict):
        return False
    group = str(value.get("apiVersion", "")).partition("/")[0]
    return group in {about["apiVersion"].partition("/")[0] for about in kinds().values()} or (
        isinstance(value.get("kind"), str) and value["kind"] in kinds() and group != "fleet.brain")


def check_kind(value: Any) -> None:
    """Raises FormProblem where a document is of no kind or version that is known here, or says what its kind has not.

    Args:
        value: plain values (:func:`brain_edge.schema.check_plain`).
    """
    if not isinstance(value, dict):
        raise FormProblem("it must be an object with apiVersion, kind, metadata and spec")
    for field in ("apiVersion", "kind"):
        if not isinstance(value.get(field), str):
            raise FormProblem(f"{field} is missing" if field not in value else f"{field} must be a string")
    kind, version = value["kind"], value["apiVersion"]
    if kind not in kinds():
        near = difflib.get_close_matches(kind[:80], kinds(), 1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(kinds()))}"
        raise FormProblem(f"there is no kind {quoted(kind)}; {hint}")
    about = kinds()[kind]
    if version != about["apiVersion"]:
        raise FormProblem(f"apiVersion is {quoted(version)}, and of {kind} this software knows {about['apiVersion']}")
    if "metadata" not in value:
        raise FormProblem("metadata is missing")
    # what is referred to has a name of Kubernetes, with dots; what is run is found by its name in other names too
    check(value["metadata"], METADATA if kind in JOBS else _REFERRED, "metadata")
    check({name: inner for name, inner in value.items() if name != "metadata"}, _without_metadata(kind), "")


@functools.cache
def _without_metadata(kind: str) -> Mapping[str, Any]:
    schema = kinds()[kind]["schema"]
    # the definitions ask for no spec in some kinds, and without one there is nothing to run
    asked = [name for name in dict.fromkeys((*schema.get("required", ()), *(
        () if kind in PRIORITIES else ("spec",)))) if name != "metadata"]
    return {**schema, "required": asked}
