# SPDX-License-Identifier: Apache-2.0
"""Checks of what launch will need, made before the first process starts.

What launch finds missing only when it comes to it ends launch itself, and leaves behind what runs already.
"""
from __future__ import annotations

import os
from pathlib import Path

OF_THE_WORKSPACE = ("brain", "brain_runtime")


class LaunchProblem(RuntimeError):
    """Something is missing that is to be started; names it and the remedy."""


def install(package: str) -> str:
    """Returns the remedy for a package that is missing: how to install it, in a few words."""
    if package in OF_THE_WORKSPACE:
        return "build the workspace with colcon and source its install/setup.bash"
    return f"apt install ros-{os.environ.get('ROS_DISTRO') or 'DISTRIBUTION'}-{package.replace('_', '-')}"


def prefix_of(package: str) -> Path | None:
    """Finds the prefix in which a ROS 2 package is installed, by the ament index; None: it is not."""
    for prefix in filter(None, os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep)):
        if (Path(prefix) / "share" / "ament_index" / "resource_index" / "packages" / package).is_file():
            return Path(prefix)
    return None


def find_executable(package: str, executable: str, otherwise: str = "") -> Path:
    """The program that launch starts for a node.

    Args:
        otherwise: another remedy than to install it.

    Raises:
        LaunchProblem: there is no such package, or no such program in it.
    """
    prefix = prefix_of(package)
    if prefix is None:
        raise LaunchProblem(f"there is no ROS package {package}, which has {executable}; {install(package)}{otherwise}")
    found = prefix / "lib" / package / executable
    if not (found.is_file() and os.access(found, os.X_OK)):
        raise LaunchProblem(f"package {package} in {prefix} has no program {executable}; {install(package)}{otherwise}")
    return found
