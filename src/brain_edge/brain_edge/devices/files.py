# SPDX-License-Identifier: Apache-2.0
"""Desired devices of one robot, from resources: those of a file, or those that the cloud has ordered."""
from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Iterable, Mapping

from brain_edge.devices import values
from brain_edge.devices.models import Device, Property, read_device, read_model
from brain_edge.schema import FormProblem
from brain_edge.state.kinds import DEVICES, check_spec
from brain_edge.state.manifests import ALL, ManifestProblem, Resource, read_manifests, resource
from brain_wire.safe_text import quoted

Key = tuple[str, str]   # kind and name of a resource


@dataclass
class Described:
    """Devices, and what is wanted of each.

    Attributes:
        devices: by name, those that can be meant so.
        desired: values by device and property, checked.
        settings: of each DeviceSettings that holds: its device, and its values.
        problems: by resource, why it cannot be meant so.
        waiting: by resource, what it waits for.
    """

    devices: dict[str, Device] = field(default_factory=dict)
    desired: dict[str, dict[str, Any]] = field(default_factory=dict)
    settings: dict[str, tuple[str, dict[str, Any]]] = field(default_factory=dict)
    problems: dict[Key, str] = field(default_factory=dict)
    waiting: dict[Key, str] = field(default_factory=dict)


def described(resources: Iterable[tuple[str, str, Mapping[str, Any]]]) -> Described:
    """Combines resources into devices and the values that are desired of them, and finds which do not fit.

    Args:
        resources: kind, name and spec of each, in the order in which they were ordered; of several that set one
            property, the last holds, and the others are told so.
    """
    found = Described()
    known: dict[str, dict[str, Property]] = {}
    by_kind: dict[str, list[tuple[str, Mapping[str, Any]]]] = {"DeviceModel": [], "Device": [], "DeviceSettings": []}
    for kind, name, spec in resources:
        if kind in by_kind:
            by_kind[kind].append((name, spec))
    for name, spec in by_kind["DeviceModel"]:
        try:
            known[name] = read_model(spec)
        except FormProblem as problem:
            found.problems["DeviceModel", name] = str(problem)
    for name, spec in by_kind["Device"]:
        try:
            check_spec("Device", spec)
            if spec["model"] in known:
                found.devices[name] = read_device(name, spec, known[spec["model"]])
            else:
                found.waiting["Device", name] = f"there is no DeviceModel {spec['model']} here"
        except FormProblem as problem:
            found.problems["Device", name] = str(problem)
    taken: dict[tuple[str, str], str] = {}
    for name, spec in reversed(by_kind["DeviceSettings"]):
        try:
            _settings(found, name, spec, taken)
        except (FormProblem, values.Misfit) as problem:
            found.problems["DeviceSettings", name] = str(problem)
    return found


def _settings(found: Described, name: str, spec: Mapping[str, Any], taken: dict[tuple[str, str], str]) -> None:
    """One DeviceSettings: all of its values or, where one cannot be set, none."""
    check_spec("DeviceSettings", spec)
    device = found.devices.get(spec["device"])
    if device is None:
        found.waiting["DeviceSettings", name] = f"there is no Device {spec['device']} here"
        return
    wanted = {one: values.settable(device, one, value) for one, value in spec["values"].items()}
    for one, value in wanted.items():
        other = taken.get((device.name, one))
        if other is not None and found.desired[device.name][one] != value:
            raise FormProblem(f"DeviceSettings {other}, ordered later, says otherwise of {one} of {device.name}; "
                              f"delete one of them")
    for one, value in wanted.items():
        found.desired.setdefault(device.name, {})[one] = value
        taken.setdefault((device.name, one), name)
    found.settings[name] = device.name, wanted


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
    try:
        wanted = values.settable(told.devices[device], name, parse(value))
    except (values.Misfit, YamlProblem, FormProblem) as problem:
        raise ManifestProblem(f"--set {quoted(text)}: {problem}") from None
    told.desired.setdefault(device, {})[name] = wanted
