# SPDX-License-Identifier: Apache-2.0
"""Templates of pods and jobs: how one is laid over another, and what is put into a container. Changes no argument."""
from __future__ import annotations

import copy
import hashlib
import json
import re
from typing import Any, Iterable, Mapping, Sequence

from brain_edge.schema import FormProblem

LABEL = 63      # characters of a label's value, of a Service's name and of a host's

# Lists of objects that are told apart by a field, as Kubernetes merges them; other lists are replaced as a whole.
_KEYS = {"containers": "name", "initContainers": "name", "env": "name", "volumes": "name", "replicatedJobs": "name",
         "imagePullSecrets": "name", "volumeMounts": "mountPath", "ports": "containerPort"}
_ADDED = ("tolerations", "schedulingGates")


class Unfit(FormProblem):
    """A job cannot be run as it is; says why and the remedy, in one line.

    Attributes:
        reason: in CamelCase, for a condition.
        final: whether nothing but another resource helps.
    """

    def __init__(self, reason: str, message: str, final: bool = False) -> None:
        super().__init__(message)
        self.reason, self.final = reason, final


def overlaid(below: Any, above: Any, field: str = "") -> Any:
    """Lays values over others: objects by field, lists of named objects by name; None takes a field away."""
    if isinstance(below, Mapping) and isinstance(above, Mapping):
        found = {key: overlaid(value, above[key], key) if key in above else copy.deepcopy(value)
                 for key, value in below.items()}
        found |= {key: copy.deepcopy(value) for key, value in above.items() if key not in below}
        return {key: value for key, value in found.items() if key not in above or above[key] is not None}
    if isinstance(below, list) and isinstance(above, list):
        if field in _ADDED:
            return copy.deepcopy(below) + [one for one in copy.deepcopy(above) if one not in below]
        if field in _KEYS:
            return _by_key(below, above, _KEYS[field])
    return copy.deepcopy(above)


def _by_key(below: Sequence[Any], above: Sequence[Any], key: str) -> list[Any]:
    found = list(copy.deepcopy(below))
    for one in above:
        place = next((number for number, old in enumerate(found) if old.get(key) == one.get(key)), None)
        if place is None:
            found.append(copy.deepcopy(one))
        elif key == "name" and "value" in one or "valueFrom" in one:
            found[place] = copy.deepcopy(one)   # a variable has one source
        else:
            found[place] = overlaid(found[place], one)
    return found


def variables(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Environment variables of a container; a value that is an object says where it comes from."""
    return [{"name": name, "valueFrom": value} if isinstance(value, Mapping) else {"name": name, "value": str(value)}
            for name, value in values.items()]


def plain(env: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Values of a container's environment variables, by name; empty where one comes from elsewhere."""
    return {one["name"]: one.get("value", "") for one in env}


def with_variables(container: Mapping[str, Any], env: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """A container with variables over those that it has."""
    env = list(env)
    return overlaid(container, {"env": env}) if env else copy.deepcopy(dict(container))


def pod_template(template: Mapping[str, Any], what: str, restart: str) -> dict[str, Any]:
    """A template that can be changed, with what every one has.

    Args:
        what: whose it is, for the message.
        restart: policy where it names none.

    Raises:
        Unfit: it has no container.
    """
    found = {"metadata": dict(template.get("metadata") or {}), "spec": copy.deepcopy(dict(template.get("spec") or {}))}
    if not found["spec"].get("containers"):
        raise Unfit("NoContainer", f"the template of {what} has no container; give it one with an image")
    found["spec"].setdefault("restartPolicy", restart)
    return found


def labelled(template: dict[str, Any], labels: Mapping[str, str]) -> dict[str, Any]:
    """A pod's template with labels over those that it has."""
    return overlaid(template, {"metadata": {"labels": dict(labels)}})


def fitting(name: str, what: str, longest: int = LABEL) -> str:
    """A name, where Kubernetes takes it.

    Raises:
        Unfit: it is too long, or no name of a host.
    """
    if len(name) > longest:
        raise Unfit("NameTooLong", f"{what} would be called {name}, which has {len(name)} characters and may have "
                                   f"{longest}; give the job a shorter name", final=True)
    if not re.fullmatch("[a-z0-9]([-a-z0-9]*[a-z0-9])?", name):
        raise Unfit("NameUnfit", f"{what} would be called {name}, and a host's name has small letters, digits and - "
                                 f"only; give the job another name", final=True)
    return name


def digest(value: Any) -> str:
    """A short digest of plain values."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
