# SPDX-License-Identifier: Apache-2.0
"""What torch builds on a backend runs on this one: DDP, FSDP2, DeviceMesh, torchrun."""
from __future__ import annotations

import os
import re
import signal
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
def test_a_failed_call_is_an_error_that_names_a_rank_for_all_that_takes_it(ranks, tmp_path):
    consumers = ["DDP", "buffers", "unused", "static", "hook", "built-in hook", "join", "FSDP2", "DTensor", "wait",
                 "future", "then", "collected", "functional", "coalesced", "unwaited"]
    for said in ranks(3, "consumers.py", "another call", str(tmp_path / "store"), *consumers).succeed():
        for name in consumers:
            assert re.search(rf"^{name}: .*rank [012] calls .* where .*rank.* calls", said, re.M), (name, said)


@pytest.mark.slow
@pytest.mark.parametrize("consumer", ["DDP", "FSDP2", pytest.param("pipeline", marks=pytest.mark.extended)])
def test_training_whose_rank_is_killed_is_told_who_and_goes_on_without(ranks, tmp_path, consumer):
    started = ranks(3, "consumers.py", "killed", str(tmp_path / "store"), consumer)
    for rank in range(3):
        started.line(rank, "calling")
    started.processes[2].kill()
    for said in started.succeed(2)[:2]:
        assert re.search(rf"^{consumer}: .*rank 2 died", said, re.M) and "goes on 2" in said, said


@pytest.mark.extended
@pytest.mark.parametrize("fault", ["stopped", "late"])
def test_ddp_whose_rank_stands_still_or_comes_late_is_told_who(ranks, tmp_path, fault):
    started = ranks(3, "consumers.py", fault, str(tmp_path / "store"), "DDP", BRAIN_COLLECTIVES_LEASE="1.5")
    for rank in range(3):
        started.line(rank, "calling")
    if fault == "stopped":
        os.kill(started.processes[2].pid, signal.SIGSTOP)
    for rank in range(2):
        told = started.line(rank, "DDP:")
        assert ("rank 2 died" if fault == "stopped" else "rank 2 did not take part in") in told, told
    if fault == "stopped":
        os.kill(started.processes[2].pid, signal.SIGCONT)
        assert "took this rank (rank 2) for dead" in started.line(2, "DDP:")
    for rank in range(3):
        started.go_on(rank)
    assert fault == "stopped" or "was late" in started.succeed()[2]


@pytest.mark.slow
def test_torchrun_starts_it_and_starts_it_again_after_a_failure(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--max-restarts", "1",
         str(PROGRAMS / "restarted.py"), str(tmp_path)],
        capture_output=True, text=True, timeout=200, start_new_session=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(file.name for file in tmp_path.iterdir()) == ["0-0", "0-1", "1-0", "1-1"]
    assert done.stdout.count("sum 3.0") == 2
