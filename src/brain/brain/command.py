# SPDX-License-Identifier: Apache-2.0
"""The start of the ``brain`` command: what is missing is named in one line."""
from __future__ import annotations

import sys


def main() -> None:
    """Entry point of the console script."""
    try:
        from brain.cli import main as run
    except ModuleNotFoundError as missing:
        sys.exit(lacks(missing))
    run()


def lacks(missing: ModuleNotFoundError) -> str:
    """What to tell a person when a package is not there."""
    return (f"brain: {sys.executable} has no package {missing.name}; install what requirements-ros.txt names (with a "
            f"simulator, requirements-ros-sim.txt) in an environment and build with its `python -m colcon build`, or "
            f"without ROS: make venv")
