# SPDX-License-Identifier: Apache-2.0
"""What `brain bench headings` tells of the choice among search headings."""
import json

import numpy as np
import pytest
from typer.testing import CliRunner

from brain import cli
from experiments import headings


def test_of_one_heading_there_is_no_choice_and_of_equal_ones_a_free_one():
    one, equal = np.full((2, 36), -np.inf, np.float32)
    one[3], equal[[3, 9, 20, 30]] = 0.4, 0.4
    assert headings.row([one], 20.0) == {"temperature": 20.0, "entropy": 0.0, "best": 1.0, "second": 0.0,
                                               "given_away": pytest.approx(0.0, abs=1e-6)}
    found = headings.row([equal], 0.95)
    assert found["entropy"] == pytest.approx(np.log(4)) and found["best"] == found["second"] == pytest.approx(0.25)


@pytest.mark.extended
def test_the_temperature_changes_the_choice_inside_the_range_that_it_reaches():
    told = CliRunner().invoke(cli.app, ["bench", "headings", "--episodes", "6", "--seed", "3", "--json"])
    found = json.loads(told.stdout)
    rows = found["temperatures"]
    assert found["offers"] > 50 and found["headings"] > 10
    assert rows[0]["temperature"] < 1.0 and rows[-1]["temperature"] >= found["reached"]["p95"] - 0.1
    assert [r["entropy"] for r in rows] == sorted(r["entropy"] for r in rows)
    assert rows[-1]["entropy"] > 1.0 > rows[0]["entropy"] + 0.5 and rows[0]["best"] > 0.85 > rows[-1]["best"] + 0.15
    assert rows[0]["given_away"] < 0.02


def test_where_nothing_is_searched_for_nothing_is_measured(monkeypatch):
    monkeypatch.setattr("brain_eval.episodes.run_local", lambda *_, **__: {})
    told = CliRunner().invoke(cli.app, ["bench", "headings", "--episodes", "1"])
    assert told.exit_code == 2 and "nothing was searched for" in told.stderr
