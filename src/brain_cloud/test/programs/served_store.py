# SPDX-License-Identifier: Apache-2.0
"""The objects of the served API: versions, generations, finalizers, owners, and who applied which fields."""
from __future__ import annotations

import copy
import threading
import time
import uuid
from dataclasses import dataclass
from typing import Any, Callable

import jsonpatch
from openapi import Invalid, Schemas

BUILT_IN = (("", "v1", "services", "Service"), ("", "v1", "configmaps", "ConfigMap"), ("", "v1", "pods", "Pod"),
            ("", "v1", "events", "Event"), ("batch", "v1", "jobs", "Job"), ("apps", "v1", "deployments", "Deployment"),
            ("apps", "v1", "controllerrevisions", "ControllerRevision"),
            ("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler"),
            ("", "v1", "namespaces", "Namespace"),
            ("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition"))


class Refusal(Exception):
    """An answer that is no success."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code, self.reason = code, reason


@dataclass(frozen=True)
class Served:
    """A kind that is served."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    status: bool
    schema: Any = None      # of the whole object, or of its spec where it is built in

    @property
    def key(self) -> tuple[str, str]:
        return self.group, self.plural


class Store:
    """All objects, and what has happened to them since a version."""

    def __init__(self, groups: tuple[str, ...], own: list[dict[str, Any]]) -> None:
        self.schemas = schemas = Schemas()
        self.kinds: dict[tuple[str, str], Served] = {}
        found = {one["kind"]: one for one in schemas.kinds}
        jobs = schemas.within(found["TrainingRuntime"]["schema"], "spec", "template", "spec", "replicatedJobs", "[]",
                              "template", "spec")
        hpa = schemas.within(found["JointInferenceService"]["schema"], "spec", "cloudWorker", "hpa")
        self.pods = schemas.within(jobs, "template")
        built = {"Job": jobs, "HorizontalPodAutoscaler": {**schemas.whole(hpa), "properties": {
            **schemas.whole(hpa)["properties"], "scaleTargetRef": {"type": "object", "additionalProperties": True}}}}
        for group, version, plural, kind in BUILT_IN:
            self._serve(Served(group, version, plural, kind,
                               kind not in ("CustomResourceDefinition", "Namespace"), True, built.get(kind)))
        for one in [*schemas.kinds, *own]:
            if one["group"] in groups:
                self._serve(Served(one["group"], one["version"], one["plural"], one["kind"],
                                   one["scope"] == "Namespaced", one["status"], one["schema"]))
        self.changed = threading.Condition()
        self.version, self.oldest = 100, 100
        self.log: list[tuple[int, str, tuple[str, str], dict[str, Any]]] = []
        self.objects: dict[tuple[str, str], dict[tuple[str, str], dict[str, Any]]] = {key: {} for key in self.kinds}
        self.applied: dict[tuple[str, str], dict[str, Any]] = {}        # by uid and manager
        self.slow: set[str] = set()     # kinds whose foreground deletion waits until it is let go

    def _serve(self, kind: Served) -> None:
        self.kinds[kind.key] = kind

    def _event(self, what: str, kind: Served, one: dict[str, Any]) -> dict[str, Any]:
        self.version += 1
        one["metadata"]["resourceVersion"] = str(self.version)
        self.log.append((self.version, what, kind.key, copy.deepcopy(one)))
        self.changed.notify_all()
        return copy.deepcopy(one)

    def forget(self) -> None:
        """What has happened until now cannot be watched any more: compaction."""
        with self.changed:
            self.oldest, self.log = self.version + 1, []
            self.version += 1
            self.changed.notify_all()

    def get(self, kind: Served, namespace: str, name: str) -> dict[str, Any]:
        with self.changed:
            return copy.deepcopy(self._find(kind, namespace, name))

    def _find(self, kind: Served, namespace: str, name: str) -> dict[str, Any]:
        found = self.objects[kind.key].get((namespace, name))
        if found is None:
            raise Refusal(404, "NotFound", f'{kind.plural}.{kind.group} "{name}" not found')
        return found

    def list(self, kind: Served, namespace: str, fits: Callable[[dict[str, Any]], bool]) -> tuple[int, list[Any]]:
        with self.changed:
            return self.version, [copy.deepcopy(one) for (where, _), one in sorted(self.objects[kind.key].items())
                                  if (not namespace or where == namespace) and fits(one)]

    def create(self, kind: Served, namespace: str, body: dict[str, Any]) -> dict[str, Any]:
        with self.changed:
            about = {**body.get("metadata", {})}
            if "generateName" in about:
                about.setdefault("name", about["generateName"] + uuid.uuid4().hex[:5])
            about |= {"namespace": namespace} if kind.namespaced else {}
            if (namespace, about["name"]) in self.objects[kind.key]:
                raise Refusal(409, "AlreadyExists", f'{kind.plural} "{about["name"]}" already exists')
            about |= {"uid": str(uuid.uuid4()), "generation": 1,
                      "creationTimestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
            one = {**body, "metadata": about}
            if kind.status:
                one.pop("status", None)
            one = self._checked(kind, one)
            self.objects[kind.key][namespace, about["name"]] = one
            return self._event("ADDED", kind, one)

    def _checked(self, kind: Served, one: dict[str, Any]) -> dict[str, Any]:
        try:
            if kind.group not in {built[0] for built in BUILT_IN}:
                return self.schemas.check(one, kind.schema, kind.kind)
            if kind.schema is not None:
                one = {**one, "spec": self.schemas.check(one["spec"], kind.schema, f"{kind.kind}.spec")}
            if kind.kind == "Job":
                pod = one["spec"]["template"]["spec"]
                if pod.get("restartPolicy") not in ("Never", "OnFailure"):
                    raise Invalid("Job.spec.template.spec.restartPolicy: must be Never or OnFailure")
                for name, value in (("parallelism", 1), ("completions", 1), ("backoffLimit", 6), ("suspend", False)):
                    one["spec"].setdefault(name, value)
            if kind.kind == "Deployment":
                one["spec"]["template"] = self.schemas.check(one["spec"]["template"], self.pods, "Deployment.template")
        except Invalid as problem:
            raise Refusal(422, "Invalid", str(problem)) from problem
        return one

    def patch(self, kind: Served, namespace: str, name: str, sub: str, form: str, body: Any, manager: str
              ) -> dict[str, Any]:
        with self.changed:
            if "apply-patch" in form:
                if not manager:
                    raise Refusal(400, "BadRequest", "fieldManager is required for apply patch")
                if (namespace, name) not in self.objects[kind.key]:
                    made = self.create(kind, namespace, body)
                    self.applied[made["metadata"]["uid"], manager] = copy.deepcopy(body)
                    return made
                old = self._find(kind, namespace, name)
                before = self.applied.get((old["metadata"]["uid"], manager), {})
                new = applied(old, body, before)
                self.applied[old["metadata"]["uid"], manager] = copy.deepcopy(body)
            elif "json-patch" in form:
                old = self._find(kind, namespace, name)
                try:
                    new = jsonpatch.apply_patch(old, body)
                except jsonpatch.JsonPatchException as error:
                    raise Refusal(422, "Invalid", f"the server rejected our request: {error}") from None
            elif "merge-patch" in form and "strategic" not in form:
                old = self._find(kind, namespace, name)
                wanted = body.get("metadata", {}).get("resourceVersion")
                if wanted is not None and wanted != old["metadata"]["resourceVersion"]:
                    raise Refusal(409, "Conflict", "the object has been modified")
                new = merged(old, body)
            else:
                raise Refusal(415, "UnsupportedMediaType", f"no patch of the form {form}")
            return self._replace(kind, namespace, name, sub, old, new)

    def _replace(self, kind: Served, namespace: str, name: str, sub: str, old: dict[str, Any], new: dict[str, Any]
                 ) -> dict[str, Any]:
        kept = ("uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "name", "namespace")
        new["metadata"] = {**{key: value for key, value in new["metadata"].items() if key not in kept},
                           **{key: old["metadata"][key] for key in kept if key in old["metadata"]}}
        if sub == "status":
            new = {**old, **({"status": new["status"]} if "status" in new else {})}
        elif kind.status:
            new = {**{key: value for key, value in new.items() if key != "status"},
                   **({"status": old["status"]} if "status" in old else {})}
        new = self._checked(kind, new)
        if new == old:
            return copy.deepcopy(old)
        if kind.kind == "Job" and new["spec"]["template"] != old["spec"]["template"]:
            raise Refusal(422, "Invalid", "spec.template: Invalid value: field is immutable")
        if new.get("spec") != old.get("spec"):
            new["metadata"]["generation"] += 1
        self.objects[kind.key][namespace, name] = new
        if new["metadata"].get("deletionTimestamp") and not new["metadata"].get("finalizers"):
            self._remove(kind, namespace, name)
            return copy.deepcopy(new)
        return self._event("MODIFIED", kind, new)

    def delete(self, kind: Served, namespace: str, name: str, options: dict[str, Any]) -> dict[str, Any]:
        with self.changed:
            one = self._find(kind, namespace, name)
            wanted = options.get("preconditions", {}).get("uid")
            if wanted is not None and wanted != one["metadata"]["uid"]:
                raise Refusal(409, "Conflict", "the UID in the precondition does not match")
            if options.get("propagationPolicy") == "Foreground" and kind.kind in self.slow:
                one["metadata"]["finalizers"] = [*one["metadata"].get("finalizers", ()), "foregroundDeletion"]
            if one["metadata"].get("finalizers"):
                if "deletionTimestamp" not in one["metadata"]:
                    one["metadata"]["deletionTimestamp"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
                    return self._event("MODIFIED", kind, one)
                return copy.deepcopy(one)
            self._remove(kind, namespace, name)
            return copy.deepcopy(one)

    def _remove(self, kind: Served, namespace: str, name: str) -> None:
        one = self.objects[kind.key].pop((namespace, name))
        self._event("DELETED", kind, one)
        for other in self.kinds.values():       # what it owns is collected
            for (where, below), that in list(self.objects[other.key].items()):
                if any(ref["uid"] == one["metadata"]["uid"] for ref in that["metadata"].get("ownerReferences", ())):
                    self.delete(other, where, below, {})


def merged(old: Any, patch: Any) -> Any:
    """A merge patch laid over an object."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    found = copy.deepcopy(old) if isinstance(old, dict) else {}
    for name, value in patch.items():
        if value is None:
            found.pop(name, None)
        else:
            found[name] = merged(found.get(name), value)
    return found


def applied(old: Any, body: Any, before: Any) -> Any:
    """Fields that are applied laid over an object, without those that the same manager applied before; lists whole."""
    if not isinstance(body, dict) or not isinstance(old, dict):
        return copy.deepcopy(body)
    before = before if isinstance(before, dict) else {}
    found = {name: copy.deepcopy(value) for name, value in old.items() if name in body or name not in before}
    for name, value in body.items():
        found[name] = applied(old.get(name), value, before.get(name))
    return found
