# SPDX-License-Identifier: Apache-2.0
"""A pod's containers as commands of this machine: what a container's paths, variables and volumes stand for here."""
from __future__ import annotations

import re
import socket
from pathlib import Path
from typing import Any, Mapping, Sequence

from brain_cloud.jobs.workers import GRACE, OnRobot, Places, Step, noted
from brain_edge.schema import FormProblem
from brain_wire.safe_text import quoted


def pod_steps(template: Mapping[str, Any], place: str, name: str, index: int, places: Places, notes: list[str],
              env: Mapping[str, str], namespace: str, paths: Mapping[str, str] | None = None, main: str | None = None
              ) -> tuple[Step, ...]:
    """Steps of a worker from a pod's template: its init containers, then its container.

    Args:
        template: with ``spec``.
        place: of it in the manifest, for messages.
        name, index: of the worker.
        places: where things are.
        notes: what is done otherwise than a pod does it is added; which fields have no effect, :mod:`.fields` says.
        env: variables that come before the container's own.
        namespace: of the job.
        paths: of the container, and what each is here.
        main: the container that works; None: the first.

    Raises:
        FormProblem: it names no command, no such container, or another machine.
    """
    spec = template.get("spec") or {}
    containers = spec.get("containers") or []
    found = [number for number, one in enumerate(containers) if main is None or one["name"] == main]
    if not found:
        raise FormProblem(f"{place}.spec.containers holds no container" + (f" {quoted(main)}" if main else ""))
    chosen = found[0]
    noted(notes, *(f"{place}: the container {one['name']} is not started; only {containers[chosen]['name']} is"
                   for number, one in enumerate(containers) if number != chosen))
    volumes = {one["name"]: one for one in spec.get("volumes") or ()}
    todo = [(f"{place}.spec.initContainers[{n}]", one) for n, one in enumerate(spec.get("initContainers") or ())]
    todo.append((f"{place}.spec.containers[{chosen}]", containers[chosen]))
    return tuple(_step(one, at, volumes, name, index, places, notes, env, namespace, dict(paths or {}))
                 for at, one in todo)


def on_robot(template: Mapping[str, Any], place: str, places: Places, notes: list[str]) -> OnRobot | None:
    """Finds the robot of the fleet where a pod is to run, and the program there; None: it runs on this machine.

    A robot runs nothing but what its owner names, so of the pod the name of its first container counts alone.

    Args:
        template: of the pod.
        place: of it in the manifest, for messages.
        places: where things are.
        notes: what has no effect is added.

    Raises:
        FormProblem: it names another machine, or no robot that there is.
    """
    spec = template.get("spec") or {}
    node, here = spec.get("nodeName"), socket.gethostname()
    if not node or node in ("localhost", here):
        return None
    if places.fleet is None:
        raise FormProblem(f"{place}.spec.nodeName is {quoted(node)}, and workers run on this machine, {here}, only; "
                          f"take it away, run the job in a cluster, or, where it is a robot, in its fleet's cloud")
    if not places.fleet.has(node):
        raise FormProblem(f"{place}.spec.nodeName is {quoted(node)}, and the fleet has no robot of that name, nor is "
                          f"this machine, {here}, called so; `brain fleet nodes` shows which there are")
    containers = spec.get("containers") or []
    if not containers:
        raise FormProblem(f"{place}.spec.containers is empty; name one as the program that is to run on {node}")
    program = containers[0]["name"]
    noted(notes, f"{place}: on the robot {node} runs the program {program} that its owner names (brain edge "
                 f"--programs); command, variables and volumes have no effect there, nor have the job's data")
    return OnRobot(node, program)


def grace(template: Mapping[str, Any]) -> float:
    """Seconds that a pod gets to end."""
    return float((template.get("spec") or {}).get("terminationGracePeriodSeconds", GRACE))


def _step(container: Mapping[str, Any], place: str, volumes: Mapping[str, Any], name: str, index: int, places: Places,
          notes: list[str], env: Mapping[str, str], namespace: str, paths: dict[str, str]) -> Step:
    for mount in container.get("volumeMounts") or ():
        where = _volume(mount["name"], volumes.get(mount["name"]), places, name)
        if where is not None:
            paths.setdefault(mount["mountPath"].rstrip("/") or "/",
                             str(Path(where, mount["subPath"])) if mount.get("subPath") else where)
    here = _Translation(paths)
    argv = [*(container.get("command") or ()), *(container.get("args") or ())]
    if not container.get("command"):
        if not argv or not argv[0].endswith(".py"):
            raise FormProblem(f"{place} names no command, and what its image would start is not known here; give "
                              f"command")
        argv = ["python3", *argv]
        noted(notes, "args without a command, of which the first is a .py file, are run by python3")
    own: dict[str, str] = dict(env)
    for one in container.get("env") or ():
        value = one.get("value", "")
        if one.get("valueFrom"):
            told = _field(one["valueFrom"], name, index, namespace)
            if told is None:
                if one["valueFrom"].get("fieldRef"):
                    noted(notes, f"{place}.env: {one['name']} is of a field that is not here, and is not set")
                continue
            value = told
        own.pop(one["name"], None)
        own[one["name"]] = here(value)
    cwd = str(places.work)
    if container.get("workingDir"):
        wanted = here(container["workingDir"])
        if Path(wanted).is_dir():
            cwd = wanted
        else:
            noted(notes, f"{place}.workingDir {quoted(wanted)} is not there; the job's own folder is taken")
    return Step(tuple(map(here, argv)), tuple(own.items()), cwd)


class _Translation:
    """Puts what stands for a container's paths in their place, wherever they stand in a text."""

    def __init__(self, paths: Mapping[str, str]) -> None:
        self._paths = {path: here for path, here in paths.items() if path != here and path != "/"}
        words = "|".join(re.escape(path) for path in sorted(self._paths, key=len, reverse=True))
        self._search = re.compile(rf"(?<![\w./-])({words})(?![\w.-])") if words else None

    def __call__(self, text: str) -> str:
        if self._search is None:
            return text
        return self._search.sub(lambda found: self._paths[found[1]], text)


def _volume(name: str, volume: Mapping[str, Any] | None, places: Places, worker: str) -> str | None:
    """The folder that a volume is here; None: nothing."""
    kind = next((key for key in volume if key != "name"), "emptyDir") if volume else "claim"
    if volume and kind == "hostPath":
        return str(volume["hostPath"]["path"]).rstrip("/") or "/"
    if volume and kind == "persistentVolumeClaim":
        claim = volume["persistentVolumeClaim"]["claimName"]
        if not re.fullmatch(r"[a-z0-9][-.a-z0-9]*", claim):
            raise FormProblem(f"the claim {quoted(claim)} of the volume {quoted(name)} cannot be a name")
        return str(places.volumes / claim)
    if not re.fullmatch(r"[a-z0-9][-a-z0-9]*", name):
        raise FormProblem(f"the name {quoted(name)} of a volume must consist of small letters, digits and -")
    if kind == "claim":     # of a template of claims: one for the job
        return str(places.folder / "volumes" / name)
    if kind == "emptyDir":
        return str(places.folder / "volumes" / worker / name)
    return None


def _field(source: Mapping[str, Any], name: str, index: int, namespace: str) -> str | None:
    path = str((source.get("fieldRef") or {}).get("fieldPath"))
    return {"metadata.name": name, "metadata.namespace": namespace, "status.podIP": "127.0.0.1",
            "status.hostIP": "127.0.0.1", "spec.nodeName": "localhost",
            "metadata.annotations['batch.kubernetes.io/job-completion-index']": str(index)}.get(path)


def made(steps: Sequence[Step]) -> None:
    """Makes the folders that steps run in. Raises OSError."""
    for step in steps:
        Path(step.cwd).mkdir(parents=True, exist_ok=True)
