# SPDX-License-Identifier: Apache-2.0
"""Logs, states and checkpoints are their owner's alone, whatever the umask is."""
from __future__ import annotations

import os
import sys

import pytest
import torch

from brain_edge.blobs.store import Blobs
from brain_observe.bags import BagWriter
from brain_regions.brainstem import Brainstem
from brain_runtime.contract import snapshot
from brain_collectives.hosts.torch_ranks import Ranks
from brain_runtime.run import state_folder
from brain_runtime.run.tree import Tree
from brain_runtime.run.workload import Workload
from brain_runtime.supervision.runs import new_run
from brain_runtime.supervision.supervisor import Supervisor
from brain_training import checkpoint
from brain_training.motor import MotorTask
from brain_training.parameter_server.durable import Durable
from brain_training.parameter_server.shard import Shard


@pytest.fixture
def open_to_all():
    """A umask that keeps nothing from anybody."""
    before = os.umask(0)
    yield
    os.umask(before)


def readable(folder):
    """What others than the owner can reach in a folder, by name."""
    found = []
    for place, names, files in os.walk(folder):
        for name in (*names, *files):
            path = os.path.join(place, name)
            if os.stat(path).st_mode & 0o077:
                found.append(os.path.relpath(path, folder))
    return sorted(found)


@pytest.mark.slow
def test_what_a_brain_writes_is_its_owners_alone(open_to_all, tmp_path):
    claim = new_run(tmp_path / "home" / "runs")
    said = (sys.executable, "-c", "print('go to the red ball', flush=True)")
    supervisor = Supervisor([Workload("ears", said)], claim.folder / "logs")
    supervisor.start()
    while "red ball" not in (claim.folder / "logs" / "ears.log").read_text():
        supervisor.round()
    supervisor.stop()
    region = Brainstem("brainstem")
    region.configure({})
    region.storage = tmp_path / "states" / "r2"
    region._write_record(True)
    state_folder.usable(tmp_path / "states" / "r1")
    snapshot.write(tmp_path / "states" / "r1" / "brainstem.safetensors", region, region.initial_state())
    snapshot.write(tmp_path / "states" / "r1" / "brainstem.safetensors", region, region.initial_state())
    checkpoint.save(tmp_path / "trained" / "a.checkpoint", {"a": torch.ones(2)}, {"step": 1})
    durable = Durable(Shard(MotorTask(quick=True), 0), tmp_path / "server")
    durable.close()
    job = Tree(tmp_path / "jobs" / "one", "token", [{"argv": [*said], "env": {}, "cwd": str(tmp_path)}], 1.0)
    job.let_go(10.0)
    (tmp_path / "ranks").mkdir(mode=0o700)
    with Ranks(1, folder=tmp_path / "ranks"):
        pass
    Blobs(tmp_path / "models").write("sha256:" + "0" * 64, 0, b"half of a model")
    with BagWriter(tmp_path / "bag"):
        pass
    claim.release()
    written = [place.name for place in tmp_path.rglob("*") if place.is_file()]
    assert {"ears.log", "supervisor.log", "brainstem.safetensors", "brainstem.safetensors.previous", "brainstem.estop",
            "rank1.log", "a.checkpoint", "shard-0-of-1.checkpoint", "log"} <= {*written}, written
    # A lock holds nothing; it is in a folder that nobody else can look into, as recordings are.
    assert [name for name in readable(tmp_path) if not name.endswith((".lock", "exit")) and "bag/" not in name] == []
