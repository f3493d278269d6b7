# SPDX-License-Identifier: Apache-2.0
"""The kinds of Kubernetes resources that the operator reads and writes, and the labels by which it finds its own."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping

from brain_cloud.jobs.kinds import GROUPS

TRAINER, SEDNA = GROUPS
FLEET = "fleet.brain"

OWNER_KIND = f"{FLEET}/owner-kind"
OWNER = f"{FLEET}/owner"
STEP = f"{FLEET}/step"
# Written on the jobs below: what their pods were made from, so that a change is seen.
PLAN = f"{FLEET}/plan"
TIER = f"{FLEET}/tier"          # where the workers of a job may run: edge or cloud
FINALIZER = f"{FLEET}/operator"
MANAGER = "brain-operator"      # of fields, as server-side apply has it


@dataclass(frozen=True)
class Kind:
    """A kind of resource.

    Attributes:
        group, version, plural, kind: as the API names it; the core group is empty.
        namespaced: whether its objects are in a namespace.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """As a manifest has it."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None, name: str | None = None, subresource: str | None = None) -> str:
        """Returns the API path of this kind, or of one object; no namespace: in all of them."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        inner = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        return root + inner + f"/{self.plural}" + "".join(f"/{part}" for part in (name, subresource) if part)


TRAIN_JOB = Kind(TRAINER, "v1alpha1", "trainjobs", "TrainJob")
RUNTIME = Kind(TRAINER, "v1alpha1", "trainingruntimes", "TrainingRuntime")
CLUSTER_RUNTIME = Kind(TRAINER, "v1alpha1", "clustertrainingruntimes", "ClusterTrainingRuntime", namespaced=False)
FEDERATED = Kind(SEDNA, "v1alpha1", "federatedlearningjobs", "FederatedLearningJob")
INCREMENTAL = Kind(SEDNA, "v1alpha1", "incrementallearningjobs", "IncrementalLearningJob")
LIFELONG = Kind(SEDNA, "v1alpha1", "lifelonglearningjobs", "LifelongLearningJob")
JOINT = Kind(SEDNA, "v1alpha1", "jointinferenceservices", "JointInferenceService")
DATASET = Kind(SEDNA, "v1alpha1", "datasets", "Dataset")
MODEL = Kind(SEDNA, "v1alpha1", "models", "Model")
FLEET_NODE = Kind(FLEET, "v1", "fleetnodes", "FleetNode")
FLEET_ORDER = Kind(FLEET, "v1", "fleetorders", "FleetOrder")
JOB = Kind("batch", "v1", "jobs", "Job")
DEPLOYMENT = Kind("apps", "v1", "deployments", "Deployment")
REVISION = Kind("apps", "v1", "controllerrevisions", "ControllerRevision")
SERVICE = Kind("", "v1", "services", "Service")
POD = Kind("", "v1", "pods", "Pod")
EVENT = Kind("", "v1", "events", "Event")
SCALER = Kind("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler")

SEDNA_JOBS = (FEDERATED, INCREMENTAL, LIFELONG, JOINT)
JOBS = (TRAIN_JOB, *SEDNA_JOBS)
BY_KIND: Mapping[str, Kind] = {kind.kind: kind for kind in JOBS}


def owner_labels(kind: Kind, name: str, step: str | None = None) -> dict[str, str]:
    """Labels of what is below a resource; with a step, of one part of it."""
    found = {OWNER_KIND: kind.kind, OWNER: name}
    return found if step is None else {**found, STEP: step}


def owned(kind: Kind, owner: Mapping[str, Any], below: Kind, name: str, step: str, **more: Any) -> dict[str, Any]:
    """An object below a resource: named, labelled, and ended by Kubernetes when the resource is.

    Args:
        owner: the resource, as the API gives it.
        below: the object's kind.
        step: part of the resource that it belongs to.
        more: fields beside its metadata.
    """
    about = owner["metadata"]
    return {"apiVersion": below.api_version, "kind": below.kind, "metadata": {
        "name": name, "namespace": about["namespace"], "labels": owner_labels(kind, about["name"], step),
        "ownerReferences": [{"apiVersion": kind.api_version, "kind": kind.kind, "name": about["name"],
                             "uid": about["uid"], "controller": True, "blockOwnerDeletion": True}]}, **more}
