# SPDX-License-Identifier: Apache-2.0
"""Folders of runs: nobody prunes or takes that of a brain that runs, whoever runs it, and however it ended."""
import signal
import subprocess
import sys

import pytest

from brain_runtime.supervision import runs

HOLD = "import sys, time; from pathlib import Path; from brain_runtime.supervision import runs\n" \
       "claim = runs.{make}; print(claim.folder, flush=True); time.sleep(600)"


@pytest.fixture
def hold():
    """Starts processes that hold a folder."""
    held = []

    def start(make):
        held.append(subprocess.Popen([sys.executable, "-c", HOLD.format(make=make)], stdout=subprocess.PIPE, text=True))
        return held[-1], held[-1].stdout.readline().strip()
    yield start
    for process in held:
        process.kill()
        process.communicate()


def test_no_two_share_a_folder_though_they_begin_in_the_same_second(tmp_path):
    script = ("import sys; from pathlib import Path; from brain_runtime.supervision import runs; input()\n"
              "claims = [runs.new_run(Path(sys.argv[1]), 99) for _ in range(6)]\n"
              "print(*(claim.folder for claim in claims), sep='\\n')")
    begun = [subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdin=subprocess.PIPE, text=True,
                              stdout=subprocess.PIPE) for _ in range(4)]
    for process in begun:   # all have loaded what they need, or soon will have
        process.stdin.write("\n")
        process.stdin.flush()
    made = [folder for process in begun for folder in process.communicate(timeout=400)[0].split()]
    assert len(made) == len(set(made)) == 24


def test_what_runs_is_not_pruned_and_the_oldest_of_the_rest_are(tmp_path, hold):
    process, held = hold(f"new_run(Path({str(tmp_path)!r}))")
    oldest = tmp_path / "20010101-000000"
    (tmp_path / held).rename(oldest)      # the lock goes with the folder
    for number in range(30):
        (tmp_path / f"20020101-0000{number:02}").mkdir()
    (tmp_path / "20020101-000005-2").mkdir()
    for foreign in ("notes", "20020101", "2002-01"):
        (tmp_path / foreign).mkdir()
    claim = runs.new_run(tmp_path, 20)
    left = {p.name for p in tmp_path.iterdir() if p.is_dir()}
    assert left == {oldest.name, claim.folder.name, "notes", "20020101", "2002-01",
                    *(f"20020101-0000{number:02}" for number in range(10, 30))}
    process.send_signal(signal.SIGKILL)     # the lock goes with the process
    process.wait()
    runs.new_run(tmp_path, 20)
    assert not oldest.exists()


def test_a_named_folder_is_taken_once(tmp_path, hold):
    process, _ = hold(f"Claim(Path({str(tmp_path / 'mine')!r}))")
    with pytest.raises(runs.FolderTaken, match="a brain that is running uses .*mine; end it"):
        runs.Claim(tmp_path / "mine")
    process.kill()
    process.wait()
    claim = runs.Claim(tmp_path / "mine")
    claim.release()
    runs.Claim(tmp_path / "mine").release()
