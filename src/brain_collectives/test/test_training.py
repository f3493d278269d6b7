# SPDX-License-Identifier: Apache-2.0
"""What torch builds on a backend runs on this one: DDP, FSDP2, DeviceMesh, torchrun."""
from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs"


@pytest.mark.slow
@pytest.mark.parametrize(("world", "ways"), [
    (2, ["DDP", "FSDP2"]), pytest.param(4, ["mesh", "FSDP2"], marks=pytest.mark.extended)])
def test_weights_after_training_are_those_of_gloo(ranks, world, ways):
    for said in ranks(world, "training.py").succeed():
        assert [line for line in said.splitlines() if line.startswith("same")] == [f"same {way}" for way in ways], said


@pytest.mark.slow
def test_torchrun_starts_it_and_starts_it_again_after_a_failure(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--max-restarts", "1",
         str(PROGRAMS / "restarted.py"), str(tmp_path)],
        capture_output=True, text=True, timeout=200, start_new_session=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(file.name for file in tmp_path.iterdir()) == ["0-0", "0-1", "1-0", "1-1"]
    assert done.stdout.count("sum 3.0") == 2
