# SPDX-License-Identifier: Apache-2.0
"""Every experiment can be called, and results that are kept are what their own figures give."""
import pytest
from typer.testing import CliRunner

from brain_eval.bench import verb
from brain_eval.bench.experiment import Experiment
from brain_eval import saved
from brain_tests.cases import of_all
from experiments import EXPERIMENTS, integration, memory

ROOT = verb.checkout()


@of_all(EXPERIMENTS)
def test_each_is_an_experiment_that_tells_how_it_is_called(name):
    kind = verb.load(name)
    assert issubclass(kind, Experiment)
    assert (kind.draw is Experiment.draw) == (not kind.picture)
    told = CliRunner().invoke(verb.app, [name, "--help"])
    assert told.exit_code == 0 and "--json" in told.output and "--save" in told.output


def test_differences_of_the_committed_results_are_what_their_pairs_give():
    remembered, added = (saved.read(ROOT / "results")[name]["figures"] for name in ("memory", "integration"))
    assert memory.difference(remembered["restored"]) == pytest.approx(remembered["difference"])
    again = integration.summary(added["pairs"])
    assert again["interval95"] == pytest.approx(added["interval95"])
    assert again["difference"] == added["difference"]
