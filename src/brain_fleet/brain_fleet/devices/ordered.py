# SPDX-License-Identifier: Apache-2.0
"""Devices in the cloud: what is refused before any robot hears of it, and what robots say of theirs."""
from __future__ import annotations

import json
import sqlite3
from typing import Any, Iterable, Mapping

from brain_fleet.devices.files import described
from brain_fleet.devices.protocols import OWN, check_device, find
from brain_fleet.schema import FormProblem
from brain_fleet.state.kinds import DEVICES
from brain_fleet.state.manifests import Resource


def check_orders(db: sqlite3.Connection, found: Iterable[Resource]) -> None:
    """Looks at the devices of an order together with those that were ordered before.

    Args:
        db: of the cloud, within the transaction of the order, before anything of it is kept.

    Raises:
        FormProblem: one of the order cannot be meant so: names it, and says why.
    """
    new = {(one.kind, one.name): one.spec for one in found if one.kind in DEVICES}
    if not new:
        return
    places = ", ".join("?" * len(DEVICES))
    known = {(kind, name): json.loads(spec) for kind, name, spec in db.execute(
        f"SELECT kind, name, spec FROM resources WHERE kind IN ({places})", DEVICES)}
    # What others of the cloud's say of the same property is between robots, of which each may have another device.
    others = {key: spec for key, spec in known.items() if key[0] != "DeviceSettings"}
    for key, spec in new.items():
        _check(key, {**others, **{k: s for k, s in new.items() if k[0] != "DeviceSettings"}, key: spec})
    for key, spec in known.items():     # a model that is ordered anew, which devices or settings were ordered by
        if key not in new and _concerns(key, spec, new, known):
            _check(key, {**others, **new, key: spec})


def _check(key: tuple[str, str], every: Mapping[tuple[str, str], Mapping[str, Any]]) -> None:
    told = described([(*one, spec) for one, spec in every.items() if one == key or one[0] != "DeviceSettings"])
    if key in told.problems:
        raise FormProblem(f"{key[0]} {key[1]}: {told.problems[key]}")
    device = told.devices.get(key[1]) if key[0] == "Device" else None
    if device is not None and device.protocol in OWN:   # of others' drivers the cloud knows nothing
        try:
            check_device(find(device.protocol, named=True), device.settings,
                         {name: one.visitor for name, one in device.properties.items()},
                         {name: one.property.writable for name, one in device.properties.items()})
        except FormProblem as problem:
            raise FormProblem(f"Device {device.name}: {problem}") from None


def _concerns(key: tuple[str, str], spec: Mapping[str, Any], new: Mapping[tuple[str, str], Any],
              known: Mapping[tuple[str, str], Mapping[str, Any]]) -> bool:
    """Whether something that was ordered before depends on what is ordered now."""
    if key[0] == "Device":
        return ("DeviceModel", spec.get("model", "")) in new
    if key[0] == "DeviceSettings":
        device = spec.get("device", "")
        model = known.get(("Device", device), {}).get("model", "")
        return ("Device", device) in new or ("DeviceModel", model) in new
    return False


def devices(rows: Iterable[tuple[str, str, int, str, int | None, str | None]], here: Mapping[str, bool]
            ) -> list[dict[str, Any]]:
    """All devices of all robots, as they were told of last.

    Args:
        rows: robot, name, version, spec, reported version and status of each.
        here: by robot, whether it is connected: of one that is not, nothing is fresh.
    """
    found = []
    for robot, name, version, text, told, status in rows:
        spec = json.loads(text)
        about = json.loads(status) if status is not None and told == version else {"state": "ordered"}
        found.append(device(robot, name, spec, about, here.get(robot, False)))
    return found


def device(robot: str, name: str, spec: Mapping[str, Any], status: Mapping[str, Any], here: bool) -> dict[str, Any]:
    """One device, as it is shown; ``fresh`` says of each property whether its value is one of now."""
    twin = status.get("twin") or {}
    properties = {one: {**about, "fresh": here and about["state"] == "ok"}
                  for one, about in twin.get("properties", {}).items()}
    state = status["state"] if not twin else twin["state"] if here else "away"
    found = {"robot": robot, "device": name, "model": spec.get("model"), "protocol": spec.get("protocol"),
             "state": state, "properties": properties}
    why = twin.get("why") or status.get("why")
    if twin and not here:
        why = "its robot is not connected; what it said last"
    return {**found, **({"why": why} if why else {}), **({"since": twin["since"]} if twin else {})}
