# SPDX-License-Identifier: Apache-2.0
"""Tests that are marked `alone` run last, and nothing runs beside them, with as many workers as there may be."""
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
TESTS = """
import time
import pytest

def during(name):
    with open("{said}", "a") as said:
        print(name, "begins", file=said, flush=True)
        time.sleep(0.2)
        print(name, "ends", file=said, flush=True)

@pytest.mark.alone
def test_first_alone(): during("alone")

@pytest.mark.parametrize("number", range(8))
def test_beside(number): during("beside")

@pytest.mark.alone
def test_last_alone(): during("alone")
"""


def test_nothing_runs_beside_them(tmp_path):
    pytest.importorskip("xdist")
    (tmp_path / "conftest.py").write_text((ROOT / "conftest.py").read_text(encoding="utf-8"))
    (tmp_path / "pytest.ini").write_text((ROOT / "pytest.ini").read_text(encoding="utf-8").replace("timeout = 240", ""))
    (tmp_path / "src").mkdir()
    said = tmp_path / "said"
    (tmp_path / "src" / "test_these.py").write_text(TESTS.format(said=said))
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "xdist", "-n", "3", "--dist", "loadgroup", "--no-loadscope-reorder"],
        cwd=tmp_path, env={**environment, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "BRAIN_TESTS_BEFORE": "the rest 7"},
        capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = said.read_text().splitlines()
    assert lines[-4:] == ["alone begins", "alone ends"] * 2
    assert sorted(lines[:-4]) == ["beside begins"] * 8 + ["beside ends"] * 8
    assert "beside begins\nbeside begins" in "\n".join(lines), "no two ran side by side"
    assert "brain: the rest: 7 s" in done.stdout and "brain: tests alone: 0 s" in done.stdout
    assert "10 passed" in done.stdout.splitlines()[-1]
