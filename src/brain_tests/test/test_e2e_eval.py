# SPDX-License-Identifier: Apache-2.0
"""`brain eval --host zenoh`: an episode in real time over processes, judged by the same referee as in lockstep."""
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from brain_sim.suite import episodes
from brain_tests.processes import gone, workers


@pytest.mark.slow
@pytest.mark.alone      # the world gives a second to stop in, whatever else the machine has to do
def test_an_episode_over_zenoh():
    seed = next(s for s in range(1000) if episodes("val", 1, s)[0].kind == "stop")
    done = subprocess.run(
        [sys.executable, "-m", "brain", "eval", "--host", "zenoh", "--episodes", "1", "--seed", str(seed),
         "--time-limit", "40", "--json", "-"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}, stdin=subprocess.DEVNULL,
        capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    (result,) = report["results"]
    assert report["host"] == "zenoh" and result["kind"] == "stop"
    assert report["time_limit"] == 40.0 and result["id"].endswith("/40s")   # the world judged by it
    assert result["outcome"] == "success", result
    assert result["violations"] == 0 and result["restarts"] == [] and result["synops"] > 0
    assert result["latency"]["n"] > 0


def test_over_zenoh_one_at_a_time():
    done = subprocess.run(
        [sys.executable, "-m", "brain", "eval", "--host", "zenoh", "--episodes", "1", "--jobs", "2"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}, stdin=subprocess.DEVNULL,
        capture_output=True, text=True)
    assert done.returncode == 2 and "--jobs" in done.stderr


@pytest.mark.slow
def test_an_evaluation_that_is_killed_leaves_no_workers():
    running = subprocess.Popen(
        [sys.executable, "-m", "brain", "eval", "--episodes", "6", "--jobs", "2"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}, stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while len(at_work := workers(running.pid)) < 2:
            assert running.poll() is None
            time.sleep(0.1)
        time.sleep(3.0)     # by now they are at work
    finally:
        running.kill()
        running.wait()
    try:
        while not all(map(gone, at_work)):
            time.sleep(0.1)     # they end, or the test's time is over
    finally:
        for worker in at_work:
            if not gone(worker):
                os.kill(worker, signal.SIGKILL)
