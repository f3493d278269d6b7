# SPDX-License-Identifier: Apache-2.0
"""`brain eval --host zenoh`: an episode in real time over processes, judged by the same referee as in lockstep."""
import json
import os
import subprocess
import sys

import pytest

from brain_sim.suite import episodes


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_an_episode_over_zenoh():
    seed = next(s for s in range(1000) if episodes("val", 1, s)[0].kind == "stop")
    done = subprocess.run(
        [sys.executable, "-m", "brain", "eval", "--host", "zenoh", "--episodes", "1", "--seed", str(seed), "--json",
         "-"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}, stdin=subprocess.DEVNULL,
        capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    (result,) = report["results"]
    assert report["host"] == "zenoh" and result["kind"] == "stop"
    assert result["outcome"] == "success", result
    assert result["violations"] == 0 and result["restarts"] == [] and result["synops"] > 0
    assert result["latency"]["n"] > 0


def test_over_zenoh_one_at_a_time():
    done = subprocess.run(
        [sys.executable, "-m", "brain", "eval", "--host", "zenoh", "--episodes", "1", "--jobs", "2"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}, stdin=subprocess.DEVNULL,
        capture_output=True, text=True)
    assert done.returncode == 2 and "--jobs" in done.stderr
