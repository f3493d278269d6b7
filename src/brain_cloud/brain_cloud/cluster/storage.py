# SPDX-License-Identifier: Apache-2.0
"""Data and models in a worker's pod: folders of its node, or fetched by the data gate before the worker starts."""
from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from typing import Any, Mapping, Sequence

from brain_cloud.jobs.templates import Unfit, overlaid, with_variables
from brain_wire.safe_text import quoted

FETCHED = "/var/lib/fleet-data"     # below it, what the gate has fetched
GATE = "data-gate"


@dataclass(frozen=True)
class Source:
    """Something that a worker reads or writes.

    Attributes:
        name: of its volume.
        url: a path on the node, file://, http:// or https://.
        variable: by which the worker is told where it is.
        checked: whether it must be there before the worker starts; else a folder is made.
        sha256: that it must have; empty: any.
        secret: whose keys the gate gets as variables.
    """

    name: str
    url: str
    variable: str
    checked: bool = False
    sha256: str = ""
    secret: str | None = None

    @property
    def fetched(self) -> bool:
        """True where it comes over the network."""
        return self.url.startswith(("http://", "https://"))

    @property
    def path(self) -> str:
        """Path within the pod.

        Raises:
            Unfit: nobody here can fetch it.
        """
        if self.fetched:
            return posixpath.join(FETCHED, self.name, posixpath.basename(self.url.partition("?")[0]) or "data")
        path = self.url.removeprefix("file://")
        if posixpath.dirname(path.rstrip("/")) in ("", "/") and posixpath.splitext(path)[1] or path == "/":
            raise Unfit("UrlUnfit", f"{self.name} is at {quoted(self.url)}, and its folder is mounted: the node's root "
                                    f"is not; move it into a folder")
        if not path.startswith("/") or posixpath.normpath(path) != path.rstrip("/"):
            raise Unfit("UrlUnfit", f"{self.name} is at {quoted(self.url)}, and a worker gets a path of its node that "
                                    f"begins with /, or http:// and https://; copy it there")
        return path

    @property
    def folder(self) -> str:
        """Folder that is mounted: a file's folder, since lists of files name those beside them."""
        path = self.path
        return (posixpath.dirname(path) if posixpath.splitext(path)[1] else path) or "/"


def stored(template: dict[str, Any], sources: list[Source], image: str, env: Sequence[Mapping[str, Any]] = (),
           only: str | None = None) -> dict[str, Any]:
    """A pod's template whose containers have all sources, and whose gate opens once the checked ones are right.

    Args:
        image: with this package, for the gate.
        env: variables of the gate.
        only: the one container that has the sources; None: all.

    Raises:
        Unfit: see :attr:`Source.path`.
    """
    volumes: dict[str, dict[str, Any]] = {}     # by folder; two in one folder share it
    for one in sources:
        kind: dict[str, Any] = {"emptyDir": {}} if one.fetched else {"hostPath": {
            "path": one.folder, "type": "Directory" if one.checked else "DirectoryOrCreate"}}
        volumes.setdefault(one.folder, {"name": f"fleet-{one.name}", **kind})
    mounts = [{"name": volume["name"], "mountPath": folder} for folder, volume in volumes.items()]
    told = [{"name": one.variable, "value": one.path} for one in sources]
    found = overlaid(template, {"spec": {"volumes": list(volumes.values())}}) if volumes else template
    found["spec"]["containers"] = [
        with_variables(overlaid(one, {"volumeMounts": mounts}) if mounts else one, told)
        if only in (None, one["name"]) else one for one in found["spec"]["containers"]]
    gated = [one for one in sources if one.checked or one.fetched]
    if gated:
        gate_of = gate(gated, mounts, image, list(env))
        found["spec"]["initContainers"] = [gate_of, *found["spec"].get("initContainers", ())]
    return found


def gate(sources: list[Source], mounts: list[dict[str, Any]], image: str, env: list[Mapping[str, Any]] | None = None
         ) -> dict[str, Any]:
    """The init container whose end releases the worker: ``brain_cloud.cluster.gate``."""
    command = ["python3", "-m", "brain_cloud.cluster.gate"]
    for one in sources:
        if one.sha256 and not re.fullmatch("[0-9a-f]{64}", one.sha256):
            raise Unfit("DigestUnfit", f"the sha256 of {one.name} is {quoted(one.sha256)}, and has 64 digits of 0-9a-f")
        command += ["--data", one.url if one.fetched else one.path, one.path, one.sha256 or "any"]
    found: dict[str, Any] = {"name": GATE, "image": image, "command": command, "volumeMounts": mounts}
    if env:
        found["env"] = env
    secrets = sorted({one.secret for one in sources if one.secret})
    if secrets:
        found["envFrom"] = [{"secretRef": {"name": name}} for name in secrets]
    return found


def of_resource(resource: Mapping[str, Any], name: str, variable: str, checked: bool, sha256: str = "") -> Source:
    """The source that a Dataset or a Model names."""
    spec = resource["spec"]
    return Source(name, spec["url"], variable, checked, sha256, spec.get("credentialName") or None)
