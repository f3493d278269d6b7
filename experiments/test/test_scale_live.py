# SPDX-License-Identifier: Apache-2.0
"""`brain bench scale` with a few nodes: what it tells is so, and nothing is left running however it ends."""
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from brain_tests.processes import children, gone
from brain_wire.router import free_port
from experiments.scale import ScaleProblem, measure

PATIENCE = 240.0     # s; only ends a hang
pytestmark = pytest.mark.slow


def below(process):
    """Processes that a process has started, and those that these have."""
    return [found for child in children(process) for found in (child, *below(child))]


@pytest.mark.extended(12)
@pytest.mark.parametrize("count, routers", [(3, 1), (12, 3)])
def test_a_few_are_measured_and_nothing_is_left_running(count, routers):
    before = below(os.getpid())     # of tests before this one in the same process
    endpoints = [f"tcp/127.0.0.1:{free_port()}" for _ in range(routers)]
    found = measure(count, 2.0, free_port() % 200, endpoints, lambda text: None)
    assert found["processes"] == count and found["sent"] == 20 * count
    assert found["lost"] + found["heard"] == found["sent"] and 0 < found["p50"] <= found["p99"] <= found["longest"]
    assert found["tokens"] == 3 * count and set(found["declarations"]) == {"publisher", "subscriber"}
    assert found["declarations"]["subscriber"] >= count and 0 <= found["waiting"] <= 1
    assert len(found["router"]) == routers
    for router in found["router"]:
        assert router["descriptors"] > router["descriptors_empty"] and router["rss"] > 10e6
        assert router["descriptors"] > count // routers     # one for each node, and its own
    assert found["load"]["cores"] == os.cpu_count() and found["load"]["ours"] > 0
    if routers > 1:
        assert found["within"]["messages"] + found["across"]["messages"] == found["heard"]
    assert set(below(os.getpid())) <= set(before)
    json.dumps(found)


def test_a_node_that_fails_ends_the_measurement_and_nothing_is_left_running(monkeypatch):
    before = below(os.getpid())
    monkeypatch.setattr("experiments.scale.RATE", "fast")     # of which no period can be made
    with pytest.raises(ScaleProblem, match="TypeError"):
        measure(2, 1.0, 1, [f"tcp/127.0.0.1:{free_port()}"], lambda text: None)
    assert set(below(os.getpid())) <= set(before)


@pytest.mark.extended(signal.SIGINT, signal.SIGTERM)
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_whoever_ends_it_ends_all_that_it_started(how):
    bench = subprocess.Popen([sys.executable, "-m", "brain", "bench", "scale", "--processes", "3", "--seconds", "50"],
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + PATIENCE
        while len(below(bench.pid)) < 5:    # a router, who forks, and three nodes
            assert bench.poll() is None and time.monotonic() < until
            time.sleep(0.2)
        started = below(bench.pid)
        bench.send_signal(how)
        assert bench.wait(120) != 0
        while not all(map(gone, started)):
            assert time.monotonic() < until + 60
            time.sleep(0.2)
    finally:
        bench.kill()
        bench.wait()
