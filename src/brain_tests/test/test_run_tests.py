# SPDX-License-Identifier: Apache-2.0
"""scripts/run_tests.sh: a failure in either part is one of the whole, and pytest's own line is the last."""
from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
# As a workspace: `colcon build`, `colcon test` and `colcon test-result` end as they are told, and say a word.
COLCON = """#!/usr/bin/env bash
shift 2
echo "colcon $1"
exit $(grep -c "^$1$" "$(dirname "$0")/fails")
"""
SIGNALS = "import signal\ndef test_it():\n    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler\n"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A checkout with the script, a test, and a ROS environment that has a colcon alone."""
    pytest.importorskip("xdist")
    for name in ("scripts/run_tests.sh", "conftest.py", "pytest.ini"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    for environment in (".venv", ".venv-ros"):
        (tmp_path / environment / "bin").mkdir(parents=True)
        python = tmp_path / environment / "bin" / "python"
        python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        python.chmod(0o755)
    # What counts colcon's tests has a test of its own.
    (tmp_path / "scripts" / "count_tests.py").touch()
    (tmp_path / ".venv-ros" / "setup.bash").touch()
    (tmp_path / ".venv-ros" / "ros-installed").mkdir()
    colcon = tmp_path / ".venv-ros" / "bin" / "colcon"
    colcon.write_text(COLCON)
    colcon.chmod(colcon.stat().st_mode | stat.S_IXUSR)
    (colcon.parent / "fails").touch()
    (tmp_path / "src" / "brain_interfaces").mkdir(parents=True)
    (tmp_path / "src" / "test_it.py").write_text(SIGNALS)
    return tmp_path


def run(tree: Path, *arguments: str) -> subprocess.CompletedProcess:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "BRAIN_TEST_"))}
    return subprocess.run(["bash", tree / "scripts" / "run_tests.sh", *arguments], env={**environment, "WORKERS": "1"},
                          capture_output=True, text=True)


def test_all_is_well(tree: Path) -> None:
    done = run(tree)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "brain: colcon build: " in done.stdout and "brain: tests under colcon: " in done.stdout
    assert done.stdout.index("brain: tests under colcon: ") < done.stdout.index("brain: tests from the sources: ")
    assert "1 passed" in done.stdout.splitlines()[-1]


@pytest.mark.parametrize("what", ["build", "test", "test-result"])
def test_the_part_under_colcon_fails(tree: Path, what: str) -> None:
    (tree / ".venv-ros" / "bin" / "fails").write_text(f"{what}\n")
    done = run(tree)
    assert done.returncode == 1 and "brain: the part under colcon FAILED" in done.stdout
    assert "1 passed" in done.stdout.splitlines()[-1]


@pytest.mark.parametrize("arguments", [(), ("--no-ros",)], ids=["beside colcon", "without ROS"])
def test_a_test_from_the_sources_fails(tree: Path, arguments: tuple[str, ...]) -> None:
    (tree / "src" / "test_it.py").write_text("def test_it():\n    assert False\n")
    done = run(tree, *arguments)
    assert done.returncode == 1 and "1 failed" in done.stdout.splitlines()[-1]
    assert ("brain: tests under colcon: " in done.stdout) == (not arguments)
