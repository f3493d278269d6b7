# SPDX-License-Identifier: Apache-2.0
"""`brain bench placement`: its plans can be meant so, and one runs with real processes; no time is judged."""
from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from brain.cli import app
from experiments.placement import read_plans, tiers_of


def test_the_plans_can_be_meant_so():
    plans = read_plans()
    assert len(plans) >= 6 and len({plan["what"] for plan in plans}) == len(plans)
    for plan in plans:
        assert set(plan["place"].values()) <= set(tiers_of(plan).by_name)
        assert not {"motor", "brainstem"} & set(plan["place"])


@pytest.mark.extended
def test_a_plan_is_run_and_takes_no_less_than_its_links():
    pytest.importorskip("mujoco")
    done = CliRunner().invoke(app, ["bench", "placement", "--seconds", "3", "--plans", "1", "--json"])
    (row,) = json.loads(done.stdout)["plans"]
    least = 2 * (20 - 3) / 1000      # out and back, each at the best of its jitter
    assert row["n"] >= 20 and row["measured"] > least and row["predicted"] > least and row["restarts"] == 0
    assert row["off"] == pytest.approx(row["predicted"] / row["measured"] - 1)
