# SPDX-License-Identifier: Apache-2.0
"""Devices of no protocol, which tests share."""
from __future__ import annotations

from brain_edge.devices.device_manager import DeviceManager
from brain_edge.devices.models import read_device, read_model

MODEL = {"properties": {
    "heat": {"type": "float", "unit": "degC", "minimum": 0, "maximum": 100, "access": "ReadWrite"},
    "pid": {"type": "integer"}, "on": {"type": "boolean", "access": "ReadWrite"},
    "label": {"type": "string", "longest": 8}}}


def device(name="oven", protocol="liars:Well", patience=30, **properties):
    """One whose visitors are of no protocol: float h, or the model's."""
    spec = {"model": "oven", "protocol": protocol, "patience": patience, "properties": {
        one: {"visitor": visitor, "period": 0.1} for one, visitor in properties.items()}}
    return read_device(name, spec, read_model(MODEL))


class Manager(DeviceManager):
    """One that looks after everything whenever it is asked for the twins."""

    def twins(self):
        self.round(0.0)
        return super().twins()
