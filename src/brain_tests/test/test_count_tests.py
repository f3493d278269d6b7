# SPDX-License-Identifier: Apache-2.0
"""What compares colcon's count of tests with pytest's: equal counts pass, a lost result is named."""
from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "count_tests.py"
ENDS = {"brain_sim": "....s..\n90 passed, 2 skipped, 4 deselected, 3 warnings in 41.20s\n",
        "brain": "== 1 failed, 6 passed, 1 xfailed, 2 errors in 61.00s (0:01:01) ==\n\n",
        "brain_interfaces": "nothing to test\n"}


def count(folder: Path, results: str) -> subprocess.CompletedProcess:
    for package, text in ENDS.items():
        (folder / package).mkdir()
        (folder / package / "stdout.log").write_text(text, encoding="utf-8")
    return subprocess.run([sys.executable, str(SCRIPT), str(folder)], input=results, capture_output=True, text=True,
                          check=False)


def test_equal_counts_pass(tmp_path: Path) -> None:
    done = count(tmp_path, "build/brain_sim/pytest.xml: 92 tests, 0 errors, 0 failures, 2 skipped\n"
                           "build/brain/pytest.xml: 10 tests, 2 errors, 1 failure, 1 skipped\n"
                           "\nSummary: 102 tests, 2 errors, 1 failure, 3 skipped\n")
    assert (done.returncode, done.stdout) == (0, "pytest ran 102 tests, colcon test-result counts 102\n"), done.stderr


@pytest.mark.parametrize("of_sim", ["build/brain_sim/pytest.xml: 91 tests, 0 errors, 0 failures, 2 skipped\n", ""])
def test_a_lost_result_is_named(tmp_path: Path, of_sim: str) -> None:
    done = count(tmp_path, of_sim + "build/brain/pytest.xml: 10 tests, 0 errors, 0 failures, 0 skipped\n")
    assert done.returncode == 1
    assert done.stderr.startswith("brain: pytest ran 92 tests of brain_sim, colcon test-result counts")


def test_no_log_is_no_success(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, str(SCRIPT), str(tmp_path)], input="", capture_output=True, text=True,
                          check=False)
    assert done.returncode == 1 and "no package's log" in done.stderr
