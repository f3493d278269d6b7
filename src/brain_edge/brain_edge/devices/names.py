# SPDX-License-Identifier: Apache-2.0
"""Names that a device has in the brain: of its node, and of the keys in a secured brain."""
from __future__ import annotations


def node_name(device: str) -> str:
    """Name of a device's node."""
    return f"device_{device.replace('-', '_')}"


def link_name(device: str) -> str:
    """Name of the node by which its driver, of the protocol ros-topic, hears and says topics."""
    return f"{node_name(device)}_link"
