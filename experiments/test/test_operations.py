# SPDX-License-Identifier: Apache-2.0
"""`brain bench operations`: what networks compute for a decision, beside what their baselines multiply."""
import json

import pytest
from typer.testing import CliRunner

from brain.cli import app
from brain_eval.bench import steps
from brain_regions.circuits import neurons, synapses
from brain_regions.language import Language
from brain_regions.motor import Motor
from brain_regions.vision import Vision


@pytest.fixture(scope="module")
def found():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steps, "SECONDS", 4.0)
        patch.setattr(steps, "EVERY", 2.0)
        made = CliRunner().invoke(app, ["bench", "operations", "--rooms", "1", "--seed", "3", "--json"])
    assert made.exit_code == 0, made.output
    return json.loads(made.stdout)


def test_a_decision_is_a_picture_a_step_or_a_sentence(found):
    assert 75 <= found["decisions"]["vision"] <= 81 and found["decisions"]["language"] == 2
    assert found["decisions"]["motor"] > 70 and found["decisions"]["pfc"] > 70


def test_dense_operations_are_all_synapses_of_the_circuit_once(found):
    """The baseline of vision and of motor goes through all its synapses once, that of language once a byte."""
    rows = {row["network"]: row for row in found["networks"]}
    for name, region in (("vision", Vision), ("motor", Motor)):
        circuit = region.circuit()
        dense = sum(synapses(circuit, p) for p in circuit.projections)
        assert rows[name]["dense"] == pytest.approx(dense, rel=0.02)      # a step may be too short for a micro-step
        assert rows[name]["multiply_accumulates"] == pytest.approx(
            sum(synapses(circuit, p) for p in circuit.projections if p.source == "input"), rel=0.02)
        steps = {"vision": 6, "motor": 10}[name]      # micro-steps in 50 ms
        assert rows[name]["updates"] == pytest.approx(steps * neurons(circuit), rel=0.05)
    circuit, layers = Language.circuit(), ("letters", "words", "context")
    streams = sum(synapses(circuit, p) for p in circuit.projections if p.source.endswith(layers))
    assert 30 * streams < rows["language"]["dense"] < 100 * streams     # bytes of a sentence


def test_every_network_has_its_share_and_spikes_cost_more_than_one_operation(found):
    rooms = [row for row in found["networks"] if row["pictures"] == "of rooms"]
    assert sum(row["share"] for row in rooms) == pytest.approx(1.0)
    assert all(row["accumulates"] > row["spikes"] > 0 for row in found["networks"])
    assert next(row["share"] for row in rooms if row["network"] == "pfc") < 0.01


def test_pictures_of_one_gray_are_looked_at_layer_by_layer(found):
    by_pictures = {row["pictures"]: row for row in found["networks"] if row["network"] == "vision"}
    assert set(by_pictures) == {"of rooms", "black", "gray"}
    for pictures, key in (("of rooms", "of_rooms"), ("black", "black"), ("gray", "gray")):
        assert sum(layer[key] for layer in found["layers"]) == pytest.approx(by_pictures[pictures]["spikes"], rel=0.03)
    shapes = found["layers"][2]     # where nothing is there are none
    assert max(shapes["black"], shapes["gray"]) < 0.7 * shapes["of_rooms"]
