# SPDX-License-Identifier: Apache-2.0
"""`brain bench shards`: wide networks fire, both ways are compared, and when it pays is read off; no time is judged."""
import json

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from brain_regions.vision.network import widened
from brain.cli import app
from brain_regions.vision import weights
from brain_regions.vision.network import Looking
from experiments import shards


@pytest.mark.parametrize("factor", [1, 2])
def test_a_wide_network_fires_in_all_layers_and_is_the_same_each_time(factor):
    torch.set_num_threads(1)
    looking = Looking(shards.wide(factor, 3), widened(factor))
    seen = looking.look(weights.patches(), looking.rest(), 10)
    assert [train.shape[-1] for train in seen.trains] == [factor * n for n in (16, 24, 48, 96, 96, 96)]
    assert all(0.01 < train.mean() < 0.9 for train in seen.trains)
    again = Looking(shards.wide(factor, 3), widened(factor)).look(weights.patches(), looking.rest(), 10)
    assert all(np.array_equal(a, b) for a, b in zip(seen.trains, again.trains))


@pytest.mark.extended
def test_both_ways_are_timed_in_turn():
    told = CliRunner().invoke(app, ["bench", "shards", "--factors", "1", "--rounds", "2", "--json"])
    found = json.loads(told.stdout)
    (row,) = found["widths"]
    assert told.exit_code == 0 and row["factor"] == 1 and row["spikes"] > 0 and row["neurons"] > 50_000
    for key in ("whole_ms", "split_ms", "ratio"):
        middle, low, high = row[key]
        assert 0 < low <= middle <= high


@pytest.mark.parametrize(("highs", "answer"), [((1.2, 0.9, 0.8), 2), ((0.9, 1.1, 0.8), 3), ((0.9, 0.9, 1.0), None)])
def test_it_pays_from_the_width_on_after_which_it_always_does(highs, answer):
    rows = [{"factor": k, "ratio": [0.7, 0.6, high]} for k, high in enumerate(highs, 1)]
    assert shards.pays_from(rows) == answer


def test_the_interval_of_a_median_leaves_out_what_chance_seldom_does():
    assert shards.interval(range(1, 11)) == [5.5, 2, 9]       # as in tables of order statistics
    assert shards.interval([3.0, 1.0, 2.0]) == [2.0, 1.0, 3.0]


@pytest.mark.parametrize("factors", ["0", "17", "two", "1,"])
def test_widths_that_cannot_be_are_refused(factors):
    told = CliRunner().invoke(app, ["bench", "shards", "--factors", factors])
    assert told.exit_code == 2 and "--factors is" in told.output
