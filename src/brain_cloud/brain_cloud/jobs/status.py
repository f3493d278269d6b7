# SPDX-License-Identifier: Apache-2.0
"""``status`` of each kind of job, as its own controller writes it, from how its workers are. Pure functions.

The runner of this machine sees processes (:mod:`.seen`) and the operator of a cluster Jobs and Deployments
(:mod:`brain_cloud.cluster.plans`); a job that is as far has the same status on both. Kinds of Kubernetes have one
condition of each type, whose time changes with its status, and Sedna's one after another.
"""
from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Iterable, Mapping, Sequence

LONGEST = 1024      # characters of a message
RESTARTED = "Restarted"     # condition of a TrainJob; its reason tells how often


@dataclass(frozen=True)
class Batch:
    """Workers that a cluster has as one Kubernetes Job.

    Attributes:
        step: that it belongs to.
        state: Active, Complete, Failed, Suspended, or empty: it is not there yet.
        wanted: workers.
        active, ready, succeeded, failed: counts of workers.
    """

    step: str
    state: str = ""
    wanted: int = 1
    active: int = 0
    ready: int = 0
    succeeded: int = 0
    failed: int = 0


@dataclass(frozen=True)
class Seen:
    """A job as an executor sees it.

    Attributes:
        batches: its workers.
        suspended: why it waits, Suspended or Preempted, and the same for people; None: it does not.
        restarts: of the whole job, and why the last one was.
        end: Complete or Failed, the reason and the same for people; None: it has not ended.
        begun: its workers run, or have run.
        told: how far a round of the fleet's is, for people; empty: nobody tells.
    """

    batches: Sequence[Batch]
    suspended: tuple[str, str] | None = None
    restarts: tuple[int, str] | None = None
    end: tuple[str, str, str] | None = None
    begun: bool = True
    told: str = ""


def train_status(old: Mapping[str, Any], seen: Seen, now: float, generation: int) -> dict[str, Any]:
    """Returns the status of a TrainJob: conditions, and counts of Jobs as a JobSet has them.

    Args:
        old: status as it is.
        now: s since 1970.
        generation: of the job's spec.
    """
    found = unblocked(old.get("conditions") or ())
    new: list[tuple[str, bool, str, str]] = []
    if seen.suspended is not None:
        new.append(("Suspended", True, *seen.suspended))
    elif holds(found, "Suspended"):
        new.append(("Suspended", False, "Resumed", "TrainJob is resumed"))
    if seen.restarts is not None:
        number, why = seen.restarts
        new.append((RESTARTED, True, f"Attempt{number}", f"{why}; the whole job starts again, as failurePolicy has it"))
    if seen.end is not None:
        new.append((seen.end[0], True, *seen.end[1:]))
    for one in new:
        found = with_condition(found, condition(*one, now, generation))
    return {"conditions": found, "jobsStatus": _counts(seen.batches)}


def _counts(batches: Sequence[Batch]) -> list[dict[str, Any]]:
    """Counts the Jobs of each step by their state."""
    found: dict[str, dict[str, Any]] = {}
    for one in batches:
        count = found.setdefault(one.step, {"name": one.step, "ready": 0, "succeeded": 0, "failed": 0, "active": 0,
                                            "suspended": 0})
        if one.state == "Active":
            count["active"] += bool(one.active)
            count["ready"] += one.ready + one.succeeded >= one.wanted
        elif one.state:
            count[{"Complete": "succeeded", "Failed": "failed", "Suspended": "suspended"}[one.state]] += 1
    return list(found.values())


def federated_status(old: Mapping[str, Any], seen: Seen, now: float) -> dict[str, Any]:
    """Returns the status of a FederatedLearningJob."""
    found = unblocked(old.get("conditions") or ())
    active, succeeded, failed = (sum(getattr(one, name) for one in seen.batches) for name in (
        "active", "succeeded", "failed"))
    status = {**old, "active": 0 if seen.end else active, "succeeded": succeeded, "failed": failed}
    if seen.end is not None:
        status |= {"phase": "Succeeded" if seen.end[0] == "Complete" else "Failed",
                   "completionTime": old.get("completionTime") or stamp(now)}
        end = (*seen.end[:2], seen.told or seen.end[2]) if seen.end[0] == "Complete" else seen.end
        found = found if holds(found, seen.end[0]) else [*found, heard(*end, now)]
    elif seen.suspended is not None or not seen.begun:
        status["phase"] = "Pending"
    else:
        status |= {"phase": "Running", **_began(old, now)}
        found = turned(found, heard("Training", "workersRunning", seen.told or "its workers train", now))
    return {**status, "conditions": found}


def joint_status(old: Mapping[str, Any], seen: Seen, now: float) -> dict[str, Any]:
    """Returns the status of a JointInferenceService; each of its workers is a batch."""
    waiting = ", ".join(one.step for one in seen.batches if not one.ready)
    new = heard(*(seen.end or (("Pending", "workersNotReady", f"not ready: {waiting}") if waiting else (
        "Running", "workersReady", "both workers are ready"))), now)
    return {**old, **(_began(old, now) if seen.begun else {}), "active": sum(one.ready > 0 for one in seen.batches),
            "failed": sum(one.failed for one in seen.batches),
            "conditions": turned(unblocked(old.get("conditions") or ()), new)}


def learning_status(old: Mapping[str, Any], seen: Seen, now: float) -> dict[str, Any]:
    """Returns the status of a job that learns again and again; its conditions are :mod:`.learning`'s."""
    return {**old, **(_began(old, now) if seen.begun else {})}


def _began(old: Mapping[str, Any], now: float) -> dict[str, Any]:
    return {"startTime": old.get("startTime") or stamp(now)}


# --- conditions


def stamp(seconds: float) -> str:
    """A time of the wall clock (s since 1970) as the API writes it."""
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def seconds(text: Any) -> float | None:
    """Parses a time that :func:`stamp` has written (s since 1970); None where the text is no time."""
    try:
        return datetime.fromisoformat(str(text).replace("Z", "+00:00")).timestamp()
    except ValueError:
        return None


def find(conditions: Iterable[Mapping[str, Any]], kind: str) -> Mapping[str, Any] | None:
    """The condition of a type."""
    return next((one for one in conditions if one.get("type") == kind), None)


def holds(conditions: Iterable[Mapping[str, Any]], *kinds: str) -> bool:
    """Tells whether a condition of one of these types is true."""
    return any(one.get("type") in kinds and one.get("status") == "True" for one in conditions)


def condition(kind: str, holds: bool, reason: str, message: str, now: float, generation: int) -> dict[str, Any]:
    """One condition.

    Args:
        reason: in CamelCase.
        now: s since 1970.
        generation: of the spec that it is about.
    """
    return {"type": kind, "status": "True" if holds else "False", "reason": reason, "message": message[:LONGEST],
            "lastTransitionTime": stamp(now), "observedGeneration": generation}


def with_condition(conditions: Iterable[Mapping[str, Any]], new: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The conditions with a new one in the place of that of its type, whose time stays while its status does."""
    found, done = [], False
    for one in conditions:
        if one.get("type") == new["type"]:
            kept = one.get("status") == new["status"] and one.get("lastTransitionTime")
            one, done = {**new, **({"lastTransitionTime": kept} if kept else {})}, True
        found.append(dict(one))
    return found if done else [*found, dict(new)]


def heard(kind: str, reason: str, message: str, now: float, **more: Any) -> dict[str, Any]:
    """A condition with the fields that all of Sedna's kinds have."""
    return {"type": kind, "status": "True", "reason": reason, "message": message[:LONGEST],
            "lastHeartbeatTime": stamp(now), **more}


def turned(old: Iterable[Mapping[str, Any]], new: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Conditions of which one holds at a time, the newest last; nothing new where it says the same again."""
    found = [dict(one) for one in old]
    if found and all(found[-1].get(name) == new[name] for name in ("type", "reason", "message")):
        return found
    before = [{**one, "status": "False"} for one in found if one.get("type") != new["type"]]
    return [*before, dict(new)]


def unblocked(old: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Conditions without the one that says why a resource cannot be run."""
    return [dict(one) for one in old if one.get("type") != "Blocked"]
