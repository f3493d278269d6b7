# SPDX-License-Identifier: Apache-2.0
"""`brain bench steps`: each network is clocked while it works, and what it computes is counted; no time is judged."""
import os

import pytest
from typer.testing import CliRunner

from brain.cli import app
from brain_eval.bench import steps
from brain_eval import ablations


@pytest.fixture
def found(monkeypatch):
    monkeypatch.setattr(steps, "SECONDS", 3.0)
    monkeypatch.setattr(steps, "EVERY", 1.5)

    def measure(*ablate):
        cores = os.sched_getaffinity(0)
        (told,) = steps.measure(1, 3, ablations.parse(ablate))
        assert os.sched_getaffinity(0) == cores
        return {region["region"]: region for region in told["regions"]}, told["reference"]

    return measure


def test_every_network_is_clocked_and_what_it_computes_is_counted_apart(found):
    regions, reference = found()
    assert set(regions) == {"vision", "language", "pfc", "motor"} and reference > 0
    for region in regions.values():
        assert region["steps"] > 5 and 0 < region["quick"] <= region["median"] <= region["slow"]
        assert 0 < region["network"] <= region["median"]
        assert region["spikes"] > 0 and region["accumulates"] > region["spikes"]
    assert regions["vision"]["multiply_accumulates"] == 3996736     # docs/regions.md
    assert regions["motor"]["multiply_accumulates"] == 69504 and regions["language"]["multiply_accumulates"] > 0
    assert regions["pfc"]["multiply_accumulates"] == 184 * 36       # 182 sheets' rows, frontier, causes; 36 places each
    assert regions["vision"]["limit"] == 3.0 and regions["pfc"]["limit"] == 1.0


@pytest.mark.parametrize(("median", "status"), [(0.9, 0), (1.1, 1)])
def test_the_exit_status_tells_whether_each_network_keeps_its_limit(monkeypatch, median, status):
    told = {"region": "motor", "steps": 9, "quick": 0.8, "median": median, "slow": 9.0, "network": 0.5, "limit": 1.0,
            "spikes": 1.0, "accumulates": 1.0, "multiply_accumulates": 0.0}
    monkeypatch.setattr(steps, "measure", lambda *_: iter([{"reference": 1.0, "regions": [told]}]))
    assert CliRunner().invoke(app, ["bench", "steps"]).exit_code == status


def test_what_is_no_network_is_not_clocked(found):
    regions, _ = found("motor=ann", "pfc=conventional")
    assert regions["motor"]["steps"] == regions["pfc"]["steps"] == 0 and regions["vision"]["steps"] > 5


def test_what_is_silent_computes_nothing(found):
    regions, _ = found("motor=silent")
    assert regions["motor"]["steps"] == 0 and regions["vision"]["steps"] > 5
