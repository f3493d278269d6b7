# SPDX-License-Identifier: Apache-2.0
"""A Kubernetes API over HTTP, for tests: discovery, objects, patches, status, watches, rights; no controllers.

What is not served as a real API does it is refused rather than guessed: strategic merges, unknown fields, PUT.
"""
from __future__ import annotations

import json
import re
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml
from openapi import Untyped
from served_rights import Asked, Rights
from served_store import Refusal, Served, Store

ADMIN, OPERATOR = "admin-token", "operator-token"
PATH = re.compile(r"/(?:api/(?P<core>v1)|apis/(?P<group>[^/]+)/(?P<version>[^/]+))(?:/namespaces/(?P<ns>[^/]+))?"
                  r"/(?P<plural>[^/]+)(?:/(?P<name>[^/]+))?(?:/(?P<sub>[^/]+))?")
VERBS = {"POST": "create", "PATCH": "patch", "DELETE": "delete"}


class ServedApi:
    """A served API; ends with :meth:`close`."""

    def __init__(self, rights: Path, groups: tuple[str, ...], own: list[dict[str, Any]]) -> None:
        self.store, self.rights = Store(groups, own), Rights(rights)
        self.asked: set[Asked] = set()      # by the operator, and allowed
        self.refused: list[Asked] = []
        self.watches: list[socket.socket] = []
        self.watched = 0                    # watches that were ever begun
        self.tokens = {ADMIN, OPERATOR}
        self.page = 0                       # objects in an answer; 0: all
        self.slow = 0.0                     # s until an answer
        api = self

        class Handler(_Handler):
            served = api

        self._server = _Server(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def kubeconfig(self, file: Path, token: str = OPERATOR) -> Path:
        file.write_text(yaml.safe_dump({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": self.url}}],
            "users": [{"name": "test", "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}]}))
        return file

    def cut(self) -> None:
        """Cuts all watches, as a router that fails does."""
        for one in self.watches:
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue        # it has ended
        self.watches.clear()

    def close(self) -> None:
        self.cut()
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    def handle_error(self, *_: Any) -> None:
        """A client that is killed, or cut off, resets its connections."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    served: ServedApi

    def log_message(self, *_: Any) -> None:
        """Tests read answers, not logs."""

    def _serve(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        data = self.rfile.read(length)
        time.sleep(self.served.slow)
        try:
            parts = urlsplit(self.path)
            query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
            self._answer(200, self._do(parts.path, query, json.loads(data) if data else {}))
        except Refusal as refusal:
            self._answer(refusal.code, {"kind": "Status", "apiVersion": "v1", "status": "Failure",
                                        "message": str(refusal), "reason": refusal.reason, "code": refusal.code})
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    do_GET = do_POST = do_PATCH = do_DELETE = _serve

    def _answer(self, code: int, body: Any) -> None:
        if body is None:
            return      # it was streamed
        data = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _do(self, path: str, query: dict[str, str], body: Any) -> Any:
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        if token not in self.served.tokens:
            raise Refusal(401, "Unauthorized", "Unauthorized")
        if path.endswith("/selfsubjectaccessreviews"):
            wanted = body["spec"]["resourceAttributes"]
            resource = "/".join(filter(None, (wanted["resource"], wanted.get("subresource"))))
            return {**body, "status": {"allowed": token == ADMIN or self.served.rights.allow(
                wanted["verb"], wanted.get("group", ""), resource, wanted.get("namespace", ""))}}
        found = self._discovery(path)
        if found is not None:
            return found
        match = PATH.fullmatch(path)
        group = (match["group"] or "") if match else ""
        kind = self.served.store.kinds.get((group, match["plural"])) if match else None
        if match is None or kind is None or (match["version"] or "v1") != kind.version:
            raise Refusal(404, "NotFound", "the server could not find the requested resource")
        namespace, name, sub = match["ns"] or "", match["name"] or "", match["sub"] or ""
        verb = VERBS.get(self.command) or ("get" if name else "watch" if query.get("watch") else "list")
        creates = "apply-patch" in self.headers.get("Content-Type", "") and (
            namespace, name) not in self.served.store.objects[kind.key]
        for one in (verb, *(("create",) if creates else ())):
            self._allow(token, (one, group, kind.plural + (f"/{sub}" if sub else ""), namespace), name)
        for owner in body.get("metadata", {}).get("ownerReferences", ()) if creates or verb == "create" else ():
            if owner.get("blockOwnerDeletion"):     # as the admission plug-in OwnerReferencesPermissionEnforcement asks
                (above,) = [one for one in self.served.store.kinds.values() if one.kind == owner["kind"]]
                self._allow(token, ("update", above.group, f"{above.plural}/finalizers", namespace), owner["name"])
        return self._object(kind, namespace, name, sub, verb, query, body)

    def _allow(self, token: str, asked: Asked, name: str) -> None:
        if token == ADMIN:
            return
        if not self.served.rights.allow(*asked, name):
            self.served.refused.append(asked)
            verb, group, resource, namespace = asked
            raise Refusal(403, "Forbidden", f'{resource}.{group} is forbidden: User "operator" cannot {verb} resource '
                                            f'"{resource}" in API group "{group}" in namespace "{namespace}"')
        self.served.asked.add(asked)

    def _discovery(self, path: str) -> Any:
        kinds = self.served.store.kinds.values()
        if path == "/version":
            return {"major": "1", "minor": "34", "gitVersion": "v1.34.0"}
        if path == "/api":
            return {"kind": "APIVersions", "versions": ["v1"]}
        if path == "/apis":
            groups = sorted({(kind.group, kind.version) for kind in kinds if kind.group})
            return {"kind": "APIGroupList", "groups": [
                {"name": group, "versions": [{"groupVersion": f"{group}/{version}", "version": version}],
                 "preferredVersion": {"groupVersion": f"{group}/{version}", "version": version}}
                for group, version in groups]}
        match = re.fullmatch("/api/(v1)|/apis/([^/]+)/([^/]+)", path)
        if match is None:
            return None
        found = [kind for kind in kinds if (kind.group, kind.version) == (match[2] or "", match[3] or "v1")]
        if not found:
            raise Refusal(404, "NotFound", "the server could not find the requested resource")
        rows = []
        for kind in found:
            row = {"name": kind.plural, "singularName": kind.kind.lower(), "namespaced": kind.namespaced,
                   "kind": kind.kind, "verbs": ["create", "delete", "get", "list", "patch", "watch"]}
            rows += [row, {**row, "name": f"{kind.plural}/status"}] if kind.status else [row]
        return {"kind": "APIResourceList", "groupVersion": path.rpartition("/apis/")[2], "resources": rows}

    def _object(self, kind: Served, namespace: str, name: str, sub: str, verb: str, query: dict[str, str], body: Any
                ) -> Any:
        store = self.served.store
        if verb == "get":
            return store.get(kind, namespace, name)
        if verb == "create":
            return store.create(kind, namespace, body)
        if verb == "patch":
            form = self.headers.get("Content-Type", "")
            try:
                return store.patch(kind, namespace, name, sub, form, body, query.get("fieldManager", ""))
            except Refusal as refusal:
                if "apply-patch" in form and isinstance(refusal.__cause__, Untyped):    # as a real server puts it
                    raise Refusal(500, "", f"failed to create typed patch object ({namespace}/{name}; Kind="
                                           f"{kind.kind}): {refusal}") from None
                raise
        if verb == "delete":
            return store.delete(kind, namespace, name, {**body, **query})
        if verb == "watch":
            return self._watch(kind, namespace, query)
        version, found = store.list(kind, namespace, selector(query))
        more, begin = {}, int(query.get("continue", 0))
        if self.served.page and len(found) > begin + self.served.page:
            more = {"continue": str(begin + self.served.page)}
        found = found[begin:begin + (self.served.page or len(found))]
        return {"kind": f"{kind.kind}List", "apiVersion": "v1", "items": found,
                "metadata": {"resourceVersion": str(version), **more}}

    def _watch(self, kind: Served, namespace: str, query: dict[str, str]) -> None:
        store, fits = self.served.store, selector(query)
        self.served.watches.append(self.connection)
        self.served.watched += 1
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        since, end = int(query["resourceVersion"]), time.monotonic() + float(query.get("timeoutSeconds", 300))
        while time.monotonic() < end:
            with store.changed:
                if since < store.oldest - 1:
                    self._chunk("ERROR", {"kind": "Status", "code": 410, "reason": "Expired",
                                          "message": f"too old resource version: {since} ({store.oldest})"})
                    break
                news = [entry for entry in store.log if entry[0] > since]
                if not news:
                    store.changed.wait(1.0)
            for version, what, key, one in news:
                if key == kind.key and (not namespace or one["metadata"]["namespace"] == namespace) and fits(one):
                    self._chunk(what, one)
                since = version
            if news and query.get("allowWatchBookmarks"):
                self._chunk("BOOKMARK", {"kind": kind.kind, "metadata": {"resourceVersion": str(since)}})
        self.wfile.write(b"0\r\n\r\n")
        return None

    def _chunk(self, what: str, one: Any) -> None:
        data = json.dumps({"type": what, "object": one}).encode() + b"\n"
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()


def selector(query: dict[str, str]) -> Any:
    """Whether an object is one of those that are asked for, by labels and by name."""
    wanted = [one.partition("=") for one in query.get("labelSelector", "").split(",") if one]
    field = query.get("fieldSelector", "")
    if any(len(value) > 63 for *_, value in wanted):
        raise Refusal(400, "BadRequest", "a label's value must be no more than 63 characters")
    name = field.removeprefix("metadata.name=") if field.startswith("metadata.name=") else None

    def fits(one: dict[str, Any]) -> bool:
        labels = one["metadata"].get("labels") or {}
        return (name is None or one["metadata"]["name"] == name) and all(
            labels.get(key) == value if sign else key in labels for key, sign, value in wanted)
    return fits
