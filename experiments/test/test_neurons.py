# SPDX-License-Identifier: Apache-2.0
"""Neurons beside those of other libraries: that all do the same work, and that what is missing is named."""
import json
import sys

import pytest
from typer.testing import CliRunner

from brain.cli import app
from brain_training import nir_files
from experiments import neurons, nir_comparison, other_libraries
from experiments.neurons import Case, Worker


@pytest.fixture
def start(tmp_path):
    """Starts workers in this very environment, which has snntorch for the tests."""
    made = []

    def started(maker):
        made.append(Worker(maker, sys.executable, 0, tmp_path / maker))
        return made[-1]
    yield started
    for worker in made:
        worker.close()


@pytest.mark.extended
@pytest.mark.slow
def test_all_step_the_same_neurons(start):
    workers = {maker: start(maker) for maker in (*neurons.OURS, "snntorch")}
    for case in (Case("", 20, 3, 1), Case("", 20, 1, 10), Case("", 20, 2, 1, 9)):
        found = {maker: worker.turn(case, 0.01) for maker, worker in workers.items()}
        assert all(answer["time"] > 0 for answer in found.values())
        fired = {maker: answer["fired"] for maker, answer in found.items()}
        if case.steps > 1:
            fired.pop("snntorch")       # its call returns the spikes of the last step, ours those of all
        assert 0.02 < fired["brain_numpy"] < 0.5 and len(set(fired.values())) == 1, fired


def test_a_worker_that_ends_is_named(start):
    with pytest.raises(other_libraries.NotThere, match="nothing_such ended: KeyError"):
        start("nothing_such")


@pytest.mark.extended
def test_a_library_that_cannot_be_installed_is_left_out_and_named(tmp_path, monkeypatch):
    for name, value in (("NO_INDEX", "1"), ("FIND_LINKS", str(tmp_path)), ("CONFIG_FILE", "/dev/null")):
        monkeypatch.setenv(f"PIP_{name}", value)
    folder = tmp_path / "libraries"
    result = CliRunner().invoke(app, ["bench", "neurons", "--rounds", "1", "--libraries", "sinabs", "--folder",
                                      str(folder), "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["left_out"]["sinabs"].startswith("sinabs is not there: ERROR: No matching distribution found for")
    assert [case["what"] for case in found["cases"]] == [case.what for case in neurons.CASES]
    assert all(set(case["us"]) == set(neurons.OURS) and not case["ratio"] for case in found["cases"])
    told = nir_comparison.Nir().measure(pictures=1, libraries="snntorch", folder=folder)["ways"]
    assert len(told) == 2 and all("snntorch is not there: ERROR" in way["left_out"] for way in told)
    assert not list(folder.iterdir())


@pytest.mark.parametrize("verb", ["neurons", "nir"])
def test_a_library_that_is_not_known_is_named(verb):
    result = CliRunner().invoke(app, ["bench", verb, "--libraries", "norse,nest"])
    assert result.exit_code == 2 and "there is no library 'nest'" in result.output


def test_every_way_to_read_a_file_is_of_a_known_library():
    assert {way.library for way in nir_comparison.WAYS} <= set(other_libraries.LIBRARIES)
    assert {way.reader for way in nir_comparison.WAYS} == set(nir_files.READERS)
