# SPDX-License-Identifier: Apache-2.0
"""``brain new``: what it writes passes its own test, fits into a graph, and runs."""
from __future__ import annotations

import os
import subprocess
import sys

from brain_tests.in_process import brain
from brain_wire import open_node
from brain_wire.messages import decode
from brain_wire.qos import STREAM
from brain_wire.router import Router, free_port

DOMAIN = 85


def new(*words, status=0):
    done = brain("new", *words, environment={})
    assert done.returncode == status, (done.stdout, done.stderr)
    return done.stderr if status else done.stdout


def test_a_new_region_passes_its_test_is_in_its_graph_and_runs(tmp_path):
    told = new("region", "warm_floor", "--in", str(tmp_path))
    assert "wrote warm_floor.py, test_warm_floor.py, warm_floor.graph.yaml" in told
    there = {"cwd": tmp_path, "capture_output": True, "text": True, "timeout": 240,
             "env": {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}}
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "test_warm_floor.py"], **there)
    assert done.returncode == 0 and "3 passed" in done.stdout, done
    done = subprocess.run([sys.executable, "-m", "brain", "up", "warm_floor.graph.yaml", "--world", "sim",
                           "--dry-run"], **there)
    assert done.returncode == 0 and "warm_floor:WarmFloor" in done.stdout, done
    endpoint = f"tcp/127.0.0.1:{free_port()}"
    with Router([endpoint]), open_node("ear", domain=DOMAIN, router=endpoint, patience=10) as node:
        beats = node.subscription("brain/heartbeat", "brain_interfaces/msg/Heartbeat", STREAM)
        process = subprocess.Popen([sys.executable, "-m", "brain", "run", "warm_floor:WarmFloor", "--name",
                                    "warm_floor", "--router", endpoint],
                                   cwd=tmp_path, env={**os.environ, "ROS_DOMAIN_ID": str(DOMAIN)})
        try:
            assert any(decode(one.data, beats.type).name == "/warm_floor" for one in beats.wait(60.0))
        finally:
            process.terminate()
            assert process.wait(60) is not None


def test_a_new_graph_is_that_of_a_whole_brain(tmp_path):
    assert "wrote mine.graph.yaml" in new("graph", "mine", "--in", str(tmp_path))
    done = brain("up", str(tmp_path / "mine.graph.yaml"), "--world", "sim", "--dry-run", environment={})
    assert done.returncode == 0 and "brainstem" in done.stdout


def test_names_that_cannot_be_and_files_that_are_there_are_refused(tmp_path):
    for name in ("Warm", "warm-floor", "class", "1st", "_x", "a__b", "x" * 41, "../x", "warm floor"):
        assert "is no name" in new("region", name, "--in", str(tmp_path), status=2)
    for name in ("vision", "json", "brain_regions"):
        assert "there is already" in new("region", name, "--in", str(tmp_path), status=2)
    assert "is no folder" in new("region", "warm", "--in", str(tmp_path / "none"), status=2)
    mine = tmp_path / "test_warm.py"
    mine.write_text("mine")
    assert "test_warm.py is there already" in new("region", "warm", "--in", str(tmp_path), status=2)
    assert mine.read_text() == "mine" and list(tmp_path.iterdir()) == [mine]
