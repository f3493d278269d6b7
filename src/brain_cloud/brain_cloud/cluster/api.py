# SPDX-License-Identifier: Apache-2.0
"""The Kubernetes API, as plain values, through the official client: what the operator reads and writes there."""
from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from typing import Any, Mapping

import kubernetes
import urllib3

from brain_cloud.cluster.kinds import MANAGER, Kind
from brain_wire.safe_text import line

PATIENCE = urllib3.Timeout(connect=5.0, read=30.0)      # s
LONGEST = 64 * 2**20        # bytes of an answer
NAME = re.compile("[a-z0-9]([-.a-z0-9]*[a-z0-9])?")
LONGEST_NAME = 253
APPLY, MERGE = "application/apply-patch+yaml", "application/merge-patch+json"
UNTYPED = "failed to create typed patch object"     # with 500: what is applied does not fit its kind

log = logging.getLogger("brain.operator")


class ApiProblem(RuntimeError):
    """The API cannot be asked, or refuses; says what and why, in one line.

    Attributes:
        status: of HTTP; 0: it was not reached.
    """

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class Api:
    """A cluster's API.

    Args:
        kubeconfig: file; None: that of KUBECONFIG or ~/.kube/config, or in a pod its service account.
        context: of the file; None: its current one.

    Raises:
        ApiProblem: nothing says where the API is.
    """

    def __init__(self, kubeconfig: Path | None = None, context: str | None = None) -> None:
        self.configuration = kubernetes.client.Configuration()
        try:
            if kubeconfig is None and context is None:
                try:
                    kubernetes.config.load_incluster_config(client_configuration=self.configuration)
                except kubernetes.config.ConfigException:
                    kubernetes.config.load_kube_config(client_configuration=self.configuration)
            else:
                kubernetes.config.load_kube_config(str(kubeconfig) if kubeconfig else None, context,
                                                   client_configuration=self.configuration)
        except Exception as error:      # the client raises whatever a file makes it stumble over
            where = kubeconfig or "KUBECONFIG, ~/.kube/config, or a pod's service account"
            raise ApiProblem(f"no cluster: {where} names none that can be used ({line(error)}); name a file with "
                             f"--kubeconfig; `kubectl cluster-info` shows whether it is right") from None
        self.configuration.retries = False
        if not self.configuration.verify_ssl:       # as the file asks; urllib3 would say so at each request
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
            log.warning("the certificate of the API at %s is not checked", self.host)
        self._client = kubernetes.client.ApiClient(self.configuration)

    @property
    def host(self) -> str:
        """URL of the API server."""
        return self.configuration.host

    def _ask(self, method: str, path: str, query: Mapping[str, str] | None = None, body: Any = None,
             form: str = "application/json") -> Any:
        what = f"{method} {path}"
        headers = {"Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = form
        try:
            _, url, headers, _, _ = self._client.param_serialize(
                method, path, query_params=list((query or {}).items()), header_params=headers,
                auth_settings=["BearerToken"])
            # The client's own writing knows no apply; its connections and credentials are all that is wanted.
            answer = self._client.rest_client.pool_manager.request(
                method, url, body=None if body is None else json.dumps(body).encode(), headers=headers,
                timeout=PATIENCE, preload_content=False, redirect=False)
            try:
                data = answer.read(LONGEST + 1)
            finally:
                answer.release_conn()
        except urllib3.exceptions.HTTPError as error:
            reason = line(getattr(error, "reason", None) or error)
            raise ApiProblem(f"the API at {self.host} is not reached: {reason}") from None
        if len(data) > LONGEST:
            raise ApiProblem(f"{what}: the answer has more than {LONGEST} bytes")
        try:
            found = json.loads(data) if data else {}
        except (ValueError, RecursionError):
            found = {"message": data[:200].decode("utf-8", "replace")}
        if answer.status >= 300:
            message = found.get("message") if isinstance(found, dict) else None
            raise ApiProblem(f"{what}: {answer.status} {line(message or answer.reason or '')}", answer.status)
        return found

    def get(self, kind: Kind, namespace: str | None, name: str) -> dict[str, Any] | None:
        """One object; None: there is none.

        A name may come out of a manifest: one that no object can have is not made part of a path.
        """
        if len(name) > LONGEST_NAME or not NAME.fullmatch(name):
            return None
        try:
            return self._ask("GET", kind.path(namespace, name))
        except ApiProblem as problem:
            if problem.status == 404:
                return None
            raise

    def listed(self, kind: Kind, namespace: str | None, labels: Mapping[str, str] | None = None
               ) -> list[dict[str, Any]]:
        """All objects of a kind; with labels, those that have them."""
        query = {"limit": "500"}
        if labels:
            query["labelSelector"] = ",".join(f"{name}={value}" for name, value in labels.items())
        found: list[dict[str, Any]] = []
        while True:
            page = self._ask("GET", kind.path(namespace), query)
            found += [{"apiVersion": kind.api_version, "kind": kind.kind, **one} for one in page.get("items") or ()]
            more = (page.get("metadata") or {}).get("continue")
            if not more:
                return found
            query["continue"] = more

    def named(self, kind: Kind, name: str) -> list[dict[str, Any]]:
        """The objects of a name in all namespaces."""
        found = self._ask("GET", kind.path(None), {"fieldSelector": f"metadata.name={name}"})
        return list(found.get("items") or ())

    def apply(self, kind: Kind, body: Mapping[str, Any]) -> dict[str, Any]:
        """Makes an object as it is given, or lets it be where it is so: server-side apply.

        Raises:
            ApiProblem: it was not reached, or refuses. A field that the kind has not, or a name that a list has twice,
                has the status 400: a server answers it with 500, and would again.
        """
        about = body["metadata"]
        try:
            return self._ask("PATCH", kind.path(about.get("namespace"), about["name"]),
                             {"fieldManager": MANAGER, "force": "true"}, body, APPLY)
        except ApiProblem as problem:
            if problem.status == 500 and UNTYPED in str(problem):
                problem.status = 400
            raise

    def merge(self, kind: Kind, namespace: str | None, name: str, patch: Mapping[str, Any],
              subresource: str | None = None) -> dict[str, Any]:
        """Changes fields of an object; None takes one away."""
        return self._ask("PATCH", kind.path(namespace, name, subresource), {"fieldManager": MANAGER}, patch, MERGE)

    def delete(self, kind: Kind, namespace: str | None, name: str, uid: str) -> None:
        """Deletes an object, and what is below it before; one that is gone, or another of its name, is let be."""
        try:
            self._ask("DELETE", kind.path(namespace, name), body={
                "propagationPolicy": "Foreground", "preconditions": {"uid": uid}})
        except ApiProblem as problem:
            if problem.status not in (404, 409):
                raise

    def served(self, group: str, version: str) -> set[str]:
        """The plural names of what is served in a version of a group; empty: there is none."""
        try:
            found = self._ask("GET", f"/apis/{group}/{version}")
        except ApiProblem as problem:
            if problem.status == 404:
                return set()
            raise
        return {one["name"] for one in found.get("resources") or ()}

    def may(self, verb: str, kind: Kind, namespace: str | None, subresource: str = "", name: str = "") -> bool:
        """Asks the API whether this operator has a permission; in all namespaces where none is named."""
        wanted = {"verb": verb, "group": kind.group, "resource": kind.plural, "subresource": subresource, "name": name,
                  "namespace": namespace or ""}
        found = self._ask("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body={
            "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {name: value for name, value in wanted.items() if value}}})
        return bool((found.get("status") or {}).get("allowed"))
