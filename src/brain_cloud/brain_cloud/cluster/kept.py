# SPDX-License-Identifier: Apache-2.0
"""References of a job, kept as they were when it began: in a ControllerRevision that it owns and that ends with it.

Deleting or changing a runtime, Dataset or Model changes nothing that has begun, for an operator that is started again
neither. A job that ends goes on with what it began with; one that runs for ever takes changes, and what was there last
where nothing is there any more.
"""
from __future__ import annotations

from typing import Any, Callable, Iterable, Mapping

from brain_cloud.cluster.kinds import FEDERATED, FLEET, REVISION, TRAIN_JOB, Kind, owned
from brain_cloud.cluster.plans import NO_SETTINGS
from brain_cloud.jobs.templates import digest

STEP = "kept"
ENDS = (TRAIN_JOB, FEDERATED)
Key = tuple[str, str]       # kind and name


def newest(revisions: Iterable[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The last of a job's revisions; None: there is none."""
    return max(revisions, key=lambda one: int(one["revision"]), default=None)


def objects(revision: Mapping[str, Any] | None) -> dict[Key, Mapping[str, Any]]:
    """Objects that a revision holds, by kind and name."""
    return {(one["kind"], one["metadata"]["name"]): one
            for one in ((revision or NO_SETTINGS).get("data") or NO_SETTINGS).get("objects") or ()}


def found(kind: Kind, wanted: Iterable[tuple[Kind, str]], held: Mapping[Key, Mapping[str, Any]],
          get: Callable[[Kind, str], Mapping[str, Any] | None]) -> dict[Key, Mapping[str, Any] | None]:
    """Objects that a job refers to, as they count for it; None: there is none.

    Args:
        kind: of the job.
        wanted: kinds and names.
        held: by its revision.
        get: asks the API for one.
    """
    return {(that.kind, name): held[that.kind, name] if kind in ENDS and (that.kind, name) in held
            else get(that, name) or held.get((that.kind, name)) for that, name in wanted}


def revised(kind: Kind, owner: Mapping[str, Any], uses: Mapping[Key, Mapping[str, Any] | None],
            last: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The revision to make for a job that has begun; None: the last one is as good, or nothing is to be kept.

    Args:
        kind, owner: the job.
        uses: objects that it refers to.
        last: its newest revision.
    """
    data = {"objects": [_kept(*key, one) for key, one in uses.items() if one is not None]}
    if not data["objects"] or last is not None and last.get("data") == data:
        return None
    about = owner["metadata"]
    # of its own uid: one that a job of the same name has left behind is not changed
    name = f"{about['name']}-{digest([about['uid'], data])}"
    number = 1 if last is None else int(last["revision"]) + 1
    return owned(kind, owner, REVISION, name, STEP, data=data, revision=number)


def _kept(kind: str, name: str, one: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an object that a plan reads."""
    notes = (one["metadata"].get("annotations") or NO_SETTINGS).items()
    own = {key: value for key, value in notes if key.startswith(f"{FLEET}/")}
    return {"kind": kind, "metadata": {"name": name, **({"annotations": own} if own else {})}, "spec": one["spec"]}
