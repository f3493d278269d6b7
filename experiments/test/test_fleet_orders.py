# SPDX-License-Identifier: Apache-2.0
"""Orders through cuts and kills: counted outside, and told of where they are not each once and in order."""
import json

import pytest
from typer.testing import CliRunner

from brain_eval.bench import verb
from experiments.fleet_orders import OrdersProblem, compare


@pytest.mark.parametrize("found, told", [
    (["a", "c"], "taken in 2 of 3: c came where b was to come"), (["a", "b"], "2 of 3: nothing came where c"),
    (["a", "a", "b", "c"], "4 of 3: a came where b"), (["b", "a", "c"], "b came where a"),
    (["a", "b", "c", "c"], "4 of 3: c came where nothing was to come")])
def test_lost_doubled_and_disordered_orders_are_told(found, told):
    compare("robot1", ["a", "b", "c"], ["a", "b", "c"])
    with pytest.raises(OrdersProblem, match=told):
        compare("robot1", found, ["a", "b", "c"])


@pytest.mark.slow
def test_each_comes_once_through_cuts_and_kills():
    done = CliRunner().invoke(verb.app, ["fleet-orders", "--quick", "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["each_once_and_in_order"] == 80 and (found["cuts"], found["kills"]) == (2, 2)
