# SPDX-License-Identifier: Apache-2.0
"""A worker's pod: the nodes where it may run, and the data and models that it has.

Nodes are those that KubeEdge labels as edge, or none of them. Data are folders of the node, or fetched by the data gate
before the worker starts.
"""
from __future__ import annotations

import posixpath
import re
from typing import Any, Mapping, Sequence

from brain_cloud.cluster.kinds import Kind, owner_labels
from brain_cloud.jobs.templates import Unfit, fitting, labelled, overlaid, pod_template, variables, with_variables
from brain_cloud.jobs.worker_data import Data
from brain_wire.safe_text import quoted

EDGE = "node-role.kubernetes.io/edge"
HOST = "kubernetes.io/hostname"
TIERS = ("edge", "cloud")
FETCHED = "/var/lib/fleet-data"     # below it, what the gate has fetched
GATE = "data-gate"


def worker_template(kind: Kind, owner: Mapping[str, Any], step: str, name: str, template: Mapping[str, Any],
                    sources: Sequence[Data], env: Mapping[str, Any], tier: str, node: str | None, image: str,
                    restart: str) -> dict[str, Any]:
    """The template of a worker's pod.

    Args:
        template: of its pod, as the owner has it.
        sources: data and models that it gets.
        env: variables.
        tier: where it may run.
        node: the one node where it must.
        image: with this package, for the gate.
        restart: policy where the template names none.

    Raises:
        Unfit: it cannot be run.
    """
    fitting(name, f"the worker {step}")
    found = pod_template(template, f"the worker {step}", restart)
    found = placed(stored(found, sources, image), tier, node)
    for number, one in enumerate(found["spec"]["containers"]):
        # two of the sources may be told by one variable, which then has both
        once = {its["name"]: its for its in one.get("env", ())}
        found["spec"]["containers"][number] = with_variables({**one, "env": list(once.values())} if once else one,
                                                             variables(env))
    return labelled(found, owner_labels(kind, owner["metadata"]["name"], step))


def placed(template: dict[str, Any], tier: str | None, node: str | None = None) -> dict[str, Any]:
    """A pod's template with its place, unless it names one itself.

    Args:
        tier: ``edge``, ``cloud``, or None: anywhere.
        node: the one node where it must run, as that which has its data.

    Raises:
        Unfit: there is no such tier.
    """
    if tier is not None and tier not in TIERS:
        raise Unfit("UnknownTier", f"there is no tier {quoted(tier)}; there are {' and '.join(TIERS)}")
    spec = template["spec"]
    # An edge node may be tainted, so that only what is meant for it comes to it.
    tolerated = {"tolerations": [{"key": EDGE, "operator": "Exists", "effect": "NoSchedule"}]}
    if spec.get("nodeName") or spec.get("nodeSelector") or (spec.get("affinity") or {}).get("nodeAffinity"):
        return overlaid(template, {"spec": tolerated}) if tier == "edge" else template
    if node is not None:
        return overlaid(template, {"spec": {"nodeSelector": {HOST: node}, **tolerated}})
    if tier == "edge":
        return overlaid(template, {"spec": {"nodeSelector": {EDGE: ""}, **tolerated}})
    if tier == "cloud":
        return overlaid(template, {"spec": {"affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": EDGE, "operator": "DoesNotExist"}]}]}}}}})
    return template


def fetched(one: Data) -> bool:
    """Tells whether data come over the network."""
    return one.url.startswith(("http://", "https://"))


def path_in_pod(one: Data) -> str:
    """Path of data within a pod.

    Raises:
        Unfit: nobody here can fetch it.
    """
    if fetched(one):
        return posixpath.join(FETCHED, one.role, posixpath.basename(one.url.partition("?")[0]) or "data")
    path = one.url.removeprefix("file://")
    if posixpath.dirname(path.rstrip("/")) in ("", "/") and posixpath.splitext(path)[1] or path == "/":
        raise Unfit("UrlUnfit", f"{one.role} is at {quoted(one.url)}, and its folder is mounted: the node's root is "
                                f"not; move it into a folder")
    if not path.startswith("/") or posixpath.normpath(path) != path.rstrip("/"):
        raise Unfit("UrlUnfit", f"{one.role} is at {quoted(one.url)}, and a worker gets a path of its node that begins "
                                f"with /, or http:// and https://; copy it there")
    return path


def mounted(one: Data) -> str:
    """Folder that is mounted: a file's folder, since lists of files name those beside them. Raises Unfit."""
    path = path_in_pod(one)
    return (posixpath.dirname(path) if posixpath.splitext(path)[1] else path) or "/"


def stored(template: dict[str, Any], sources: Sequence[Data], image: str, only: str | None = None) -> dict[str, Any]:
    """A pod's template whose containers have all sources, and whose gate opens once the checked ones are right.

    Args:
        image: with this package, for the gate.
        only: the one container that has the sources; None: all.

    Raises:
        Unfit: see :func:`path_in_pod`.
    """
    volumes: dict[str, dict[str, Any]] = {}     # by folder; two in one folder share it
    for one in sources:
        kind: dict[str, Any] = {"emptyDir": {}} if fetched(one) else {"hostPath": {
            "path": mounted(one), "type": "Directory" if one.checked else "DirectoryOrCreate"}}
        volumes.setdefault(mounted(one), {"name": f"fleet-{one.role}", **kind})
    mounts = [{"name": volume["name"], "mountPath": folder} for folder, volume in volumes.items()]
    told = [{"name": one.variable, "value": path_in_pod(one)} for one in sources]
    found = overlaid(template, {"spec": {"volumes": list(volumes.values())}}) if volumes else template
    found["spec"]["containers"] = [
        with_variables(overlaid(one, {"volumeMounts": mounts}) if mounts else one, told)
        if only in (None, one["name"]) else one for one in found["spec"]["containers"]]
    gated = [one for one in sources if one.checked or fetched(one)]
    if gated:
        found["spec"]["initContainers"] = [gate(gated, mounts, image), *found["spec"].get("initContainers", ())]
    return found


def gate(sources: Sequence[Data], mounts: list[dict[str, Any]], image: str) -> dict[str, Any]:
    """The init container whose end releases the worker: ``brain_cloud.cluster.gate``."""
    command = ["python3", "-m", "brain_cloud.cluster.gate"]
    for one in sources:
        if one.sha256 and not re.fullmatch("[0-9a-f]{64}", one.sha256):
            raise Unfit("DigestUnfit", f"the sha256 of {one.role} is {quoted(one.sha256)}, and has 64 digits of 0-9a-f")
        path = path_in_pod(one)
        command += ["--data", one.url if fetched(one) else path, path, one.sha256 or "any"]
    found: dict[str, Any] = {"name": GATE, "image": image, "command": command, "volumeMounts": mounts}
    env = [variable for one in sources for variable in one.env]
    if env:
        found["env"] = env
    secrets = sorted({one.secret for one in sources if one.secret})
    if secrets:
        found["envFrom"] = [{"secretRef": {"name": name}} for name in secrets]
    return found
