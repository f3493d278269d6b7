# SPDX-License-Identifier: Apache-2.0
"""All private names of rclpy that this project uses: errors of its C++ half, which it exports nowhere else."""
from __future__ import annotations

from typing import Any

from brain_wire.private_names import private_name

REMEDY = "install a distribution of ROS 2 that docs/ros2.md names"
_PYBIND = "rclpy._rclpy_pybind11"
NAMES = {name: (_PYBIND, name) for name in ("RCLError", "RCLInvalidROSArgsError", "UnknownROSArgsError")}


def __getattr__(name: str) -> Any:
    """One of :data:`NAMES`.

    Raises:
        PrivateNameMissing: this release of rclpy lacks it.
    """
    if name not in NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return private_name("rclpy", *NAMES[name], REMEDY)
