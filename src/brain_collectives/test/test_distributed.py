# SPDX-License-Identifier: Apache-2.0
"""torch's own tests of a backend: those chosen by feature before they were run (``distributed_cases.txt``)."""
from __future__ import annotations

import re
from pathlib import Path

import pytest

LIST = Path(__file__).parent / "distributed_cases.txt"
FEWEST = 60     # cases that are executed and pass; those that torch skips on a machine without GPUs do not count


@pytest.mark.extended
def test_torchs_own_tests_pass_on_this_backend_alone(ranks, tmp_path):
    chosen = re.findall(r"^test_\w+", LIST.read_text(encoding="utf-8"), re.M)
    assert len(chosen) == len(set(chosen))
    for said in ranks(4, "distributed_cases.py", str(tmp_path), str(LIST)).succeed():
        results = dict(re.findall(r"^case (\w+) (.*)", said, re.M))
        assert list(results) == chosen
        assert {name for name, result in results.items() if result == "failed"} == set(), said
        passed = [result for result in results.values() if result.startswith("passed")]
        assert len(passed) >= FEWEST, results
        # The backend did it, and no other group was there.
        assert all(int(result.split()[1]) > 0 and result.endswith(" []") for result in passed), results
