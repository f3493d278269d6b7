# SPDX-License-Identifier: Apache-2.0
"""A GPU beside the CPU; where there is none, the CPU beside itself."""
from __future__ import annotations

import json

import pytest
import torch
from typer.testing import CliRunner

from brain_eval.bench.verb import app
from experiments import gpu

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.mark.slow
def test_both_do_the_same_steps(monkeypatch):
    monkeypatch.setattr(gpu, "NETWORKS", ("motor",))
    told = CliRunner().invoke(app, ["gpu", "--quick", "--device", DEVICE, "--seed", "4", "--json"])
    assert told.exit_code == 0, told.output
    found = json.loads(told.stdout)
    (step,), (look,) = found["steps"], found["looks"]
    assert (step["network"], step["size"]) == ("motor", "base") and found["seed"] == 4
    assert step["times"] == pytest.approx(step["cpu_ms"] / step["gpu_ms"]) and min(look["cpu_ms"], look["gpu_ms"]) > 0
    assert step["gpu_losses"] == pytest.approx(step["cpu_losses"], rel=0 if DEVICE == "cpu" else 0.02)
    assert (step["gpu_mb"] is None) == (DEVICE == "cpu")


def test_a_device_that_is_not_there_is_named():
    told = CliRunner().invoke(app, ["gpu", "--device", "cuda:99"])
    assert told.exit_code == 1 and told.stdout == ""
    assert told.stderr.startswith("brain: there is no device 'cuda:99' here (") and "docs/training.md" in told.stderr
