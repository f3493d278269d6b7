# SPDX-License-Identifier: Apache-2.0
"""A real kube-apiserver over a real etcd, for tests, where a developer has their programs; no nodes.

They are looked for as controller-runtime's envtest does: ``TEST_ASSET_KUBE_APISERVER`` and ``TEST_ASSET_ETCD`` name
them, or ``KUBEBUILDER_ASSETS`` the folder of both; else they are those on PATH. So is a kube-controller-manager, with
which Kubernetes' own controllers run, and which envtest has not.
"""
from __future__ import annotations

import json
import os
import shutil
import ssl
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any

import yaml
from served_api import ADMIN, OPERATOR

from brain_cloud.cluster.api import Api
from brain_cloud.cluster.kinds import Kind
from brain_wire.router import free_port

PATIENCE = 120.0    # s; only ends a hang
ASSETS = {"etcd": "TEST_ASSET_ETCD", "kube-apiserver": "TEST_ASSET_KUBE_APISERVER"}
CONTROLLERS = "kube-controller-manager"
ACCOUNT = "system:serviceaccount:brain-fleet:brain-operator"
CORE = {one.kind: one for one in (
    Kind("", "v1", "namespaces", "Namespace", False), Kind("", "v1", "serviceaccounts", "ServiceAccount"),
    Kind("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", False),
    Kind("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", False),
    Kind("rbac.authorization.k8s.io", "v1", "roles", "Role"),
    Kind("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding"),
    Kind("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False))}


def programs() -> dict[str, str]:
    """Paths of the programs that are there, by their names."""
    folder = os.environ.get("KUBEBUILDER_ASSETS")
    found = {name: os.environ.get(variable) or shutil.which(name, path=folder) or shutil.which(name)
             for name, variable in {**ASSETS, CONTROLLERS: "TEST_ASSET_KUBE_CONTROLLER_MANAGER"}.items()}
    return {name: path for name, path in found.items() if path}


class RealApi:
    """A server with the deployed definitions and rights, and those of Trainer and Sedna; ends with :meth:`close`.

    Args:
        folder: for keys, logs and the database.
        deploy: folder of what is applied in a cluster.
        published: definitions as ``definitions.json`` has them.
    """

    def __init__(self, folder: Path, deploy: Path, published: Path) -> None:
        self._folder, self._running = folder, list[subprocess.Popen[bytes]]()
        folder.mkdir()
        try:
            self._start()
            admin = Api(self.kubeconfig(folder / "admin", ADMIN))
            for name in ("namespace", "definitions", "rbac"):
                for one in yaml.safe_load_all((deploy / f"{name}.yaml").read_text(encoding="utf-8")):
                    if one:
                        admin.apply(CORE[one["kind"]], one)
            found = json.loads(published.read_text(encoding="utf-8"))
            for one in found["kinds"]:
                admin.apply(CORE["CustomResourceDefinition"], _definition(one, found["shared"]))
            wanted = {(one["group"], one["version"], one["plural"]) for one in found["kinds"]}
            end = time.monotonic() + PATIENCE
            while not all(plural in admin.served(group, version) for group, version, plural in wanted):
                assert time.monotonic() < end, self._said("kube-apiserver")
                time.sleep(0.2)
        except BaseException:
            self.close()
            raise

    def _start(self) -> None:
        paths, keys = programs(), self._folder / "keys"
        keys.mkdir()
        etcd, peers, self._port = free_port(), free_port(), free_port()
        (keys / "tokens.csv").write_text(f'{ADMIN},admin,admin,"system:masters"\n{OPERATOR},{ACCOUNT},operator,'
                                         '"system:serviceaccounts,system:serviceaccounts:brain-fleet"\n')
        _key(keys / "accounts.pem")
        self._run("etcd", paths["etcd"], f"--data-dir={self._folder / 'etcd'}",
                  f"--listen-client-urls=http://127.0.0.1:{etcd}", f"--advertise-client-urls=http://127.0.0.1:{etcd}",
                  f"--listen-peer-urls=http://127.0.0.1:{peers}",
                  f"--initial-advertise-peer-urls=http://127.0.0.1:{peers}",
                  f"--initial-cluster=default=http://127.0.0.1:{peers}")
        self._until("etcd", f"http://127.0.0.1:{etcd}/health")
        self._serve(paths["kube-apiserver"], f"--etcd-servers=http://127.0.0.1:{etcd}",
                    f"--cert-dir={keys}", "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1",
                    f"--secure-port={self._port}", "--service-cluster-ip-range=10.0.0.0/24",
                    "--authorization-mode=RBAC", f"--token-auth-file={keys / 'tokens.csv'}",
                    f"--service-account-issuer=https://127.0.0.1:{self._port}",
                    f"--service-account-key-file={keys / 'accounts.pem'}",
                    f"--service-account-signing-key-file={keys / 'accounts.pem'}",
                    # that of service accounts waits for a controller, which is not here
                    "--disable-admission-plugins=ServiceAccount",
                    "--enable-admission-plugins=OwnerReferencesPermissionEnforcement")

    def _serve(self, *words: str) -> None:
        self._run("kube-apiserver", *words)
        self._until("kube-apiserver", f"https://127.0.0.1:{self._port}/readyz")

    def restart(self, away: float) -> None:
        """Kills the server, and starts it again over the same database.

        Args:
            away: s between the two.
        """
        server = self._running.pop()
        server.kill()
        server.wait()
        time.sleep(away)
        self._serve(*server.args)

    def control(self) -> None:
        """Starts those of Kubernetes' own controllers that run and collect what the operator makes."""
        wanted = ("job", "deployment", "replicaset", "garbage-collector", "namespace")
        self._run(CONTROLLERS, programs()[CONTROLLERS], f"--kubeconfig={self.kubeconfig(self._folder / 'own', ADMIN)}",
                  "--leader-elect=false", "--secure-port=0",
                  f"--controllers={','.join(f'{name}-controller' for name in wanted)}")

    def _run(self, name: str, *words: str) -> None:
        with (self._folder / f"{name}.log").open("ab") as log:
            self._running.append(subprocess.Popen(words, stdout=log, stderr=log, cwd=self._folder))

    def _said(self, name: str) -> str:
        return (self._folder / f"{name}.log").read_text(errors="replace")[-5000:]

    def _until(self, name: str, url: str) -> None:
        """Waits until a program answers that it is well."""
        unchecked = ssl.create_default_context()
        unchecked.check_hostname, unchecked.verify_mode = False, ssl.CERT_NONE
        end = time.monotonic() + PATIENCE
        while True:
            try:
                asked = urllib.request.Request(url, headers={"Authorization": f"Bearer {ADMIN}"})
                with urllib.request.urlopen(asked, timeout=5.0, context=unchecked):
                    return
            except OSError:
                assert self._running[-1].poll() is None and time.monotonic() < end, self._said(name)
                time.sleep(0.1)

    def kubeconfig(self, file: Path, token: str = OPERATOR, checked: bool = True) -> Path:
        """A file by which the server is reached.

        Args:
            checked: whether the certificate that it has made itself is.
        """
        trust = {"certificate-authority": str(self._folder / "keys" / "apiserver.crt")} if checked else {
            "insecure-skip-tls-verify": True}
        file.write_text(yaml.safe_dump({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": f"https://127.0.0.1:{self._port}", **trust}}],
            "users": [{"name": "test", "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}]}))
        return file

    def close(self) -> None:
        """Ends the server, then its database."""
        while self._running:
            process = self._running.pop()
            process.terminate()
            try:
                process.wait(30.0)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _definition(one: dict[str, Any], shared: list[Any]) -> dict[str, Any]:
    """A definition as it is applied, of one in the tests' own form."""
    kind = one["kind"]
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{one['plural']}.{one['group']}"}, "spec": {
                "group": one["group"], "scope": one["scope"],
                "names": {"kind": kind, "listKind": f"{kind}List", "plural": one["plural"], "singular": kind.lower()},
                "versions": [{"name": one["version"], "served": True, "storage": True,
                              "schema": {"openAPIV3Schema": _resolved(one["schema"], shared)},
                              **({"subresources": {"status": {}}} if one["status"] else {})}]}}


def _resolved(schema: Any, shared: list[Any]) -> Any:
    if isinstance(schema, dict):
        if isinstance(schema.get("$ref"), int):
            return _resolved(shared[schema["$ref"]], shared)
        return {name: _resolved(inner, shared) for name, inner in schema.items()}
    return [_resolved(inner, shared) for inner in schema] if isinstance(schema, list) else schema


def _key(file: Path) -> None:
    """Writes a private key by which service accounts' tokens are signed."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    file.touch(mode=0o600)
    file.write_bytes(rsa.generate_private_key(65537, 2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
