# SPDX-License-Identifier: Apache-2.0
"""Permissions that the operator needs at the API: checked before it starts, so that one line says what is missing.

The role in ``deploy/operator/rbac.yaml`` grants this and no more; a test compares them, and what was really asked.
"""
from __future__ import annotations

from typing import Iterable

from brain_cloud.cluster.api import Api
from brain_cloud.cluster.kinds import (
    CLUSTER_RUNTIME, DATASET, DEPLOYMENT, EVENT, FLEET_NODE, FLEET_ORDER, JOB, JOBS, MODEL, POD, REVISION, RUNTIME,
    SCALER, SEDNA, SEDNA_JOBS, SERVICE, TRAINER, Kind)

Right = tuple[str, Kind, str]       # verb, kind, subresource

# kopf lists and watches, and writes its finalizer and annotations by patch.
_WATCHED = ("get", "list", "watch", "patch")
_READ = ("get", "list", "watch")
_MADE = ("get", "list", "create", "patch", "delete")    # server-side apply is a patch, and a create where nothing is


def rights(served: Iterable[Kind]) -> list[Right]:
    """Lists the permissions that the operator needs, with these kinds served."""
    served = set(served)
    found: list[Right] = [("create", EVENT, "")]
    for kind in (*JOBS, FLEET_ORDER):
        if kind in served:
            found += [(verb, kind, "") for verb in _WATCHED] + [("patch", kind, "status")]
    for kind in (RUNTIME, CLUSTER_RUNTIME, DATASET, MODEL):
        if kind in served:
            found += [(verb, kind, "") for verb in _READ]
    if FLEET_NODE in served:
        found += [(verb, FLEET_NODE, "") for verb in ("list", "create", "patch", "delete")]
        found += [("patch", FLEET_NODE, "status")]
    if any(kind.group in (TRAINER, SEDNA) for kind in served):
        found += [(verb, JOB, "") for verb in (*_MADE, "watch")]
        found += [(verb, SERVICE, "") for verb in ("get", "create", "patch")]
        found += [(verb, REVISION, "") for verb in ("list", "create", "patch", "delete")]
        found += [("list", DEPLOYMENT, "")]     # whether the controllers of others are there, too
    if any(kind in served for kind in SEDNA_JOBS):
        found += [(verb, DEPLOYMENT, "") for verb in (*_MADE, "watch") if verb != "list"]
        found += [(verb, SCALER, "") for verb in _MADE] + [("list", POD, "")]
    return found


def missing(api: Api, wanted: Iterable[Right], namespaces: Iterable[str], fleet: str) -> list[str]:
    """Lists the permissions that are not granted, as a person says them; empty: all are.

    Args:
        namespaces: that are watched; none: all.
        fleet: namespace where robots are shown.

    Raises:
        ApiProblem: the API cannot be asked.
    """
    found = []
    watched: list[str | None] = [*namespaces] or [None]
    for verb, kind, sub in wanted:
        for namespace in [fleet] if kind == FLEET_NODE else watched if kind.namespaced else [None]:
            if not api.may(verb, kind, namespace, sub):
                plural = ".".join(part for part in (kind.plural, kind.group) if part) + (f"/{sub}" if sub else "")
                found.append(f"{verb} {plural}" + (f" in namespace {namespace}" if namespace else ""))
    return found
