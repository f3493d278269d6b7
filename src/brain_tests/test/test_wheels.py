# SPDX-License-Identifier: Apache-2.0
"""Ordinary installation with pip, away from the sources: everything a package reads is in its wheel."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = ["brain_interfaces", "brain_wire", "brain_runtime", "brain_security", "brain_regions", "brain",
            "brain_sim", "brain_observe", "brain_collectives", "brain_eval", "brain_training",
            "brain_edge", "brain_cloud"]
DATA = {".json", ".msg", ".safetensors", ".xml", ".yaml"}

pytestmark = pytest.mark.slow


def unsourced() -> dict[str, str]:
    """Return the environment variables without those of a workspace."""
    return {key: value for key, value in os.environ.items() if key not in ("AMENT_PREFIX_PATH", "PYTHONPATH")}


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheels from a copy of the sources, so that nothing is left beside those."""
    folder = tmp_path_factory.mktemp("wheels")
    skip = shutil.ignore_patterns("*.egg-info", "build", "__pycache__", "test")
    for package in PACKAGES:
        shutil.copytree(ROOT / "src" / package, folder / "src" / package, ignore=skip)
    # What pip calls, which for each package starts three interpreters of its own beside.
    build = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
    for package in PACKAGES:
        subprocess.run([sys.executable, "-c", build, str(folder)], cwd=folder / "src" / package, check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    shutil.rmtree(folder / "src")
    return folder


@pytest.fixture(scope="module")
def environment(wheels: Path) -> Path:
    """An environment with the wheels in it and everything else borrowed from this one."""
    folder = wheels / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = folder / "bin" / "python"
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "-qq", "--no-deps"]
    # Without a sourced workspace, whose packages pip would take for installed.
    subprocess.run(command + [str(wheel) for wheel in wheels.glob("*.whl")], check=True, env=unsourced())
    site = folder / "lib" / f"python{sysconfig.get_python_version()}" / "site-packages"
    # Plain paths do not bring the links to our sources to life that are installed there. On ROS there are several, and
    # ours are in some.
    others = [path for path in sys.path if path.endswith("-packages")
              and not any((Path(path) / package).is_dir() for package in PACKAGES)]
    (site / "borrowed.pth").write_text("\n".join(others) + "\n", encoding="utf-8")
    return folder


def run(environment: Path, *command: str) -> str:
    """Run a program of the environment outside of the sources and return what it printed."""
    done = subprocess.run([str(environment / "bin" / command[0]), *command[1:]], cwd=environment, env=unsourced(),
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_data_is_found_where_pip_put_it(environment: Path) -> None:
    script = """
import json
from brain_runtime.share import share_directory
from brain_runtime.interfaces import definitions
from brain_wire.messages import type_hash
places = {name: str(share_directory(name)) for name in ("brain_interfaces", "brain_runtime", "brain")}
messages = sorted(file.stem for file in (definitions() / "msg").glob("*.msg"))
graphs = sorted(file.name for file in (share_directory("brain") / "config").glob("*.yaml"))
print(json.dumps([places, messages, graphs, type_hash("brain_interfaces/msg/Heartbeat")]))
"""
    places, messages, graphs, heartbeat = json.loads(run(environment, "python", "-c", script))
    assert places == {name: str(environment.resolve() / "share" / name) for name in places}
    source = ROOT / "src"
    assert messages == sorted(file.stem for file in (source / "brain_interfaces" / "msg").glob("*.msg"))
    assert graphs == sorted(file.name for file in (source / "brain" / "config").glob("*.yaml"))
    assert heartbeat.startswith("RIHS01_")


def test_modules_and_their_data_are_all_in_the_wheels(wheels: Path) -> None:
    for package in PACKAGES[1:]:
        (wheel,) = wheels.glob(f"{package}-*.whl")
        held = set(zipfile.ZipFile(wheel).namelist())
        source = ROOT / "src" / package
        wanted = {str(f.relative_to(source)) for f in (source / package).rglob("*") if f.suffix in {".py", *DATA}}
        assert wanted - held == set()


def test_definitions_come_without_a_python_package(wheels: Path) -> None:
    # rosidl generates a package brain_interfaces, which one of pip's would hide.
    (wheel,) = wheels.glob("brain_interfaces-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert not [name for name in names if name.endswith(".py") or name.startswith("brain_interfaces/")]


def test_command_is_installed(environment: Path) -> None:
    assert "Usage" in run(environment, "brain", "--help")
