# SPDX-License-Identifier: Apache-2.0
"""Regions of a file of devices, as ``brain keys --device`` gives rights to them: for what the device says and hears."""
from __future__ import annotations

from pathlib import Path

from brain_edge.devices.files import read_devices
from brain_edge.devices.models import Device, link_name, node_name
from brain_edge.devices.region import DeviceRegion, ports, topics
from brain_edge.state.manifests import ManifestProblem
from brain_runtime.graph.resolved import ResolvedRegion
from brain_wire.names import absolute


def device_regions(path: Path, namespace: str) -> list[ResolvedRegion]:
    """Regions of the devices of a file, and the nodes by which some of their drivers hear and say topics.

    Args:
        path: of the file.
        namespace: of the brain.

    Raises:
        ValueError: it cannot be read, or be meant so.
    """
    try:
        told = read_devices(path, [])
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror or error}") from None
    except ManifestProblem as problem:
        raise ValueError(str(problem)) from None
    return [region for device in told.devices.values() for region in _regions(device, absolute(namespace))]


def _regions(device: Device, namespace: str) -> list[ResolvedRegion]:
    names, cls = topics(device), f"{DeviceRegion.__module__}:{DeviceRegion.__name__}"
    found = [ResolvedRegion(node_name(device.name), cls, namespace, publishes=tuple(
        names.get(port.topic, port.topic) for port in ports(device).values()))]
    if device.protocol == "ros-topic" and "router" not in device.settings:
        visitors = [mapped.visitor for mapped in device.properties.values()]
        found.append(ResolvedRegion(
            link_name(device.name), cls, absolute(device.settings.get("namespace", namespace)),
            hears=tuple(visitor["topic"] for visitor in visitors),
            publishes=tuple(visitor["command"]["topic"] for visitor in visitors if "command" in visitor)))
    return found
