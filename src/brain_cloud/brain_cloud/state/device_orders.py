# SPDX-License-Identifier: Apache-2.0
"""Devices in the cloud: what is refused before any robot hears of it, and what robots say of theirs."""
from __future__ import annotations

import json
import sqlite3
from typing import Any, Iterable, Mapping

from brain_edge.devices.files import described
from brain_edge.devices.protocols import OWN, checked
from brain_edge.devices.twin_form import shown
from brain_edge.schema import FormProblem
from brain_edge.state.kinds import DEVICES
from brain_edge.state.manifests import Resource


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
    every = {**known, **new}
    for key in new:
        _check(key, every)
    for key in known.keys() - new.keys():       # what was ordered by a model, or for a device, that is ordered anew
        if any(one in new for one in _needs(key, every)):
            _check(key, every)


def _needs(key: tuple[str, str], every: Mapping[tuple[str, str], Mapping[str, Any]]) -> list[tuple[str, str]]:
    """The resources that one refers to, those among them that there are; it may be in any form."""
    found: list[tuple[str, str]] = []
    if key[0] == "DeviceSettings":
        found.append(("Device", str(every[key].get("device"))))
    for one in [*found, key]:
        if one[0] == "Device" and one in every:
            found.append(("DeviceModel", str(every[one].get("model"))))
    return [one for one in found if one in every]


def _check(key: tuple[str, str], every: Mapping[tuple[str, str], Mapping[str, Any]]) -> None:
    told = described([(*one, every[one]) for one in (*_needs(key, every), key)])
    if key in told.problems:
        raise FormProblem(f"{key[0]} {key[1]}: {told.problems[key]}")
    device = told.devices.get(key[1]) if key[0] == "Device" else None
    if device is not None and device.protocol in OWN:   # of others' drivers the cloud knows nothing
        try:
            checked(device, named=True)
        except FormProblem as problem:
            raise FormProblem(f"Device {device.name}: {problem}") from None


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
        found.append(shown(robot, name, spec, about, here.get(robot, False)))
    return found
