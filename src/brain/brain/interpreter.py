# SPDX-License-Identifier: Apache-2.0
"""The Python that runs our executables, and its packages for launch.

``ros2 launch`` runs in the distribution's Python, our executables in the one that built the workspace
(``python -m colcon build``, in an environment that sees the distribution's packages). Launch loads the classes of the
regions to know their topics and parameters, and some of those need that environment's packages (torch). So launch, and
nobody else who sources the workspace, looks there too, behind everything that it has itself.
"""
from __future__ import annotations

import os
import sys
from pathlib import Path

EXECUTABLE = "lib/brain_runtime/ros_region"     # below the prefix of its package


def share_packages() -> Path | None:
    """Lets this process import what is installed for our executables; the folder, or None where there is no other."""
    for prefix in filter(None, os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep)):
        executable = Path(prefix) / EXECUTABLE
        if executable.is_file():
            with executable.open("rb") as file:
                line = os.fsdecode(file.readline())
            environment = Path(line.removeprefix("#!").strip()).parent.parent
            folder = environment / "lib" / "python{}.{}".format(*sys.version_info) / "site-packages"
            if not line.startswith("#!") or not (environment / "pyvenv.cfg").is_file() or not folder.is_dir():
                return None
            if str(folder) not in sys.path:
                sys.path.append(str(folder))
            return folder
    return None
