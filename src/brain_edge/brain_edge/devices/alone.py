# SPDX-License-Identifier: Apache-2.0
"""Devices of a file, on a robot that belongs to no fleet."""
from __future__ import annotations

from pathlib import Path
from typing import Any

from brain_edge.devices import device_orders, values
from brain_edge.devices.device_manager import DeviceManager
from brain_edge.devices.files import Described, described
from brain_edge.schema import FormProblem
from brain_edge.state.kinds import DEVICES
from brain_edge.state.manifests import ALL, ManifestProblem, Resource, read_manifests, resource
from brain_wire.safe_text import quoted


def read_devices(path: Path, settings: list[str]) -> Described:
    """The devices of a file.

    Args:
        path: manifests; those of other kinds than devices' are left out, and nobody needs to say of which robot.
        settings: ``DEVICE.PROPERTY=VALUE`` each, which hold before the file's DeviceSettings.

    Raises:
        OSError: it cannot be read.
        ManifestProblem: it cannot be meant so.
    """
    found = [(one.kind, one.name, one.spec) for one in read_manifests(path, _of_this_robot) if one.kind in DEVICES]
    told = described(found)
    for key, why in [*told.problems.items(), *told.waiting.items()]:
        raise ManifestProblem(f"{path}, {key[0]} {key[1]}: {why}")
    if not told.devices:
        raise ManifestProblem(f"{path} holds no Device")
    for one in settings:
        _set(told, one)
    return told


def _of_this_robot(document: Any) -> Resource:
    """A resource of a document that need not say of which robots it is wanted. Raises FormProblem."""
    if isinstance(document, dict) and isinstance(document.get("metadata"), dict):
        document["metadata"].setdefault("robots", ALL)
    return resource(document)


def _set(told: Described, text: str) -> None:
    from brain_runtime.yaml_text import YamlProblem, parse

    place, equals, value = text.partition("=")
    device, dot, name = place.partition(".")
    if not (equals and dot):
        raise ManifestProblem(f"--set {quoted(text)}: it is written DEVICE.PROPERTY=VALUE")
    if device not in told.devices:
        raise ManifestProblem(f"--set {quoted(text)}: there is no device {quoted(device)}; there are "
                              f"{', '.join(told.devices)}")
    mapped = told.devices[device].properties.get(name)
    try:
        wanted = values.settable(None if mapped is None else mapped.property, device, name, parse(value))
    except (values.Misfit, YamlProblem, FormProblem) as problem:
        raise ManifestProblem(f"--set {quoted(text)}: {problem}") from None
    told.desired.setdefault(device, {})[name] = wanted


class Alone:
    """Devices without a cloud, which are looked after at each :meth:`look`.

    Args:
        told: what is to run.
        router, namespace: of the brain.
    """

    def __init__(self, told: Described, router: str | None, namespace: str) -> None:
        self._told = told
        self._manager = DeviceManager(router, namespace, files=None)

    def look(self, wait: float = 0.0) -> dict[str, Any]:
        """All devices, as they are shown, after up to ``wait`` s."""
        self._manager.round(wait)
        twins = self._manager.twins()
        found = []
        for name, one in self._told.devices.items():
            why = self._manager.refused(name)
            status = {"state": "refused", "why": why} if why else {"state": "starting", "twin": twins[name]}
            found.append(device_orders.device("", name, one.spec, status, True))
        return {"devices": found}

    def __enter__(self) -> Alone:
        self._manager.want(self._told.devices, self._told.desired)
        return self

    def __exit__(self, *_: object) -> None:
        self._manager.stop()
