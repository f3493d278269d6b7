# SPDX-License-Identifier: Apache-2.0
"""Node placement of pods: on the edge nodes that KubeEdge labels, or on none of them."""
from __future__ import annotations

from typing import Any

from brain_cloud.jobs.templates import Unfit, overlaid
from brain_wire.safe_text import quoted

EDGE = "node-role.kubernetes.io/edge"
HOST = "kubernetes.io/hostname"
TIERS = ("edge", "cloud")


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
