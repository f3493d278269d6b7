# SPDX-License-Identifier: Apache-2.0
"""Messages for a package that is not installed: its name and the remedy, in one line."""
from __future__ import annotations

import importlib.util
import sys

# What a robot, or an installation without tests, does without.
SETS = {"grpc": "test", "grpc_tools": "test", "highspy": "test",
        "mujoco": "sim", "nir": "test", "nirtorch": "test", "prometheus_client": "test", "rosbags": "test",
        "snntorch": "test"}
DISTRIBUTIONS = {"matplotlib": "python3-matplotlib", "PIL": "python3-pil", "cryptography": "python3-cryptography",
                 "protobuf": "python3-protobuf", "yaml": "python3-yaml", "numpy": "python3-numpy"}
PACKAGES = ("brain_cloud", "brain_collectives", "brain_edge", "brain_eval", "brain_observe",
            "brain_regions", "brain_runtime", "brain_security", "brain_sim", "brain_training", "brain_wire")
EXPERIMENTS = "experiments"     # a folder of the checkout that is not installed
COLLECTIVES = "brain_collectives"   # what runs on torch.distributed


def is_installed(package: str) -> bool:
    """Checks whether a package is there, without importing it."""
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:     # as importers say that hide a package
        return False


def build(package: str) -> str:
    """Returns the commands that install a package of ours from the checkout, with ROS and without."""
    return f"python -m colcon build --packages-up-to brain {package}, or without ROS: make venv"


def lacks(package: str) -> str:
    """Returns the message for a package that is not installed, with the remedy."""
    if package == EXPERIMENTS:
        return ("this needs experiments/, a folder of the checkout that is not installed; go to the top of the "
                "checkout, or name that in PYTHONPATH")
    if package in PACKAGES:
        return f"{package} is not installed here, and this needs it; build it too: {build(package)}"
    where = f"there is no package {package} for {sys.executable}, and this needs it; "
    if package in DISTRIBUTIONS:
        return f"{where}apt install {DISTRIBUTIONS[package]}, or without ROS: make venv"
    which = f"-{SETS[package]}" if package in SETS else ""
    return (f"{where}pip install -r requirements-ros{which}.txt in the environment whose `python -m colcon build` made "
            f"this workspace (docs/ros2.md), or without ROS: make venv")
