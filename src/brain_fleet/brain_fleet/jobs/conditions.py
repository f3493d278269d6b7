# SPDX-License-Identifier: Apache-2.0
"""``status`` of a job as its own controller would write it: Kubernetes' conditions, and Sedna's."""
from __future__ import annotations

from typing import Any

from brain_fleet.state.events import now

MOST = 8            # conditions of a TrainJob, by its definition
MOST_STAGES = 200   # of Sedna's, which add one each time


def set_condition(status: dict[str, Any], type_: str, truth: bool, reason: str, message: str, generation: int) -> bool:
    """Sets a condition as Kubernetes does: its time changes only where its status does; whether anything changed."""
    found = status.setdefault("conditions", [])
    told = {"type": type_, "status": "True" if truth else "False", "reason": reason, "message": message[:1000],
            "observedGeneration": generation}
    for one in found:
        if one["type"] == type_:
            changed = any(one.get(key) != value for key, value in told.items())
            moved = one["status"] != told["status"]
            one.update(told, lastTransitionTime=now() if moved else one["lastTransitionTime"])
            return changed
    found.append({**told, "lastTransitionTime": now()})
    del found[:-MOST]
    return True


def is_true(status: dict[str, Any], type_: str) -> bool:
    """Tells whether a condition is true."""
    return any(one["type"] == type_ and one["status"] == "True" for one in status.get("conditions", ()))


def add_condition(status: dict[str, Any], dated: bool = True, **told: str) -> None:
    """Adds a condition to the list that Sedna keeps, unless the newest says the same.

    Args:
        status: with the list.
        dated: with ``lastTransitionTime``, which the conditions of a FederatedLearningJob have not.
        told: its fields.
    """
    found = status.setdefault("conditions", [])
    if found and {key: found[-1].get(key) for key in told} == told:
        return
    times = {"lastHeartbeatTime": now(), **({"lastTransitionTime": now()} if dated else {})}
    found.append({"status": "True", **told, **times})
    del found[:-MOST_STAGES]
