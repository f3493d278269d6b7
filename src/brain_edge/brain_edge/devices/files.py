# SPDX-License-Identifier: Apache-2.0
"""Desired devices of one robot, from resources: those of a file, or those that the cloud has ordered."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Iterable, Mapping

from brain_edge.devices import values
from brain_edge.devices.models import Device, Property, read_device, read_model
from brain_edge.schema import FormProblem
from brain_edge.state.kinds import check_spec

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
    wanted = {one: values.settable(_property(device, one), device.name, one, value)
              for one, value in spec["values"].items()}
    for one, value in wanted.items():
        other = taken.get((device.name, one))
        if other is not None and found.desired[device.name][one] != value:
            raise FormProblem(f"DeviceSettings {other}, ordered later, says otherwise of {one} of {device.name}; "
                              f"delete one of them")
    for one, value in wanted.items():
        found.desired.setdefault(device.name, {})[one] = value
        taken.setdefault((device.name, one), name)
    found.settings[name] = device.name, wanted


def _property(device: Device, name: str) -> Property | None:
    mapped = device.properties.get(name)
    return None if mapped is None else mapped.property
