# SPDX-License-Identifier: Apache-2.0
"""Held-out figures are read from the weight files that ship, and the saved ones are those."""
import json
from pathlib import Path

import pytest

from experiments import weights

SAVED = Path(__file__).resolve().parents[2] / "results" / "weights.json"


@pytest.fixture(scope="module")
def found():
    return weights.Weights().measure()


def test_every_trained_region_has_its_figures_and_those_of_its_baseline(found):
    trained = {"vision", "fovea", "language", "motor"}
    assert set(found) == {*trained, "bytes"}
    for region in trained:
        for side in weights.SIDES:
            told = found[region][side]
            assert told["training"]["split"] == "train" and told["held_out"] and len(told["sha256"]) == 16, region
        assert found[region]["spiking"]["sha256"] != found[region]["baseline"]["sha256"]
    assert 0 < found["vision"]["spiking"]["held_out"]["bearing_mean_degrees"] < 5


def test_lists_of_sentences_have_both_languages_side_by_side(found):
    rows = {row["sentences"]: row for row in found["language"]["lists"]}
    row = rows.get("of its `val`: nothing near one was trained: understood") or rows[
        "of its `val`, of which not one was trained, but what contains it, or is near, was: understood"]
    assert set(row["en"]) == set(row["ja"]) == {"of", "spiking", "baseline"} and row["en"]["of"] > 100


def test_what_is_no_weight_file_is_named(tmp_path):
    for name, content in (("torn.safetensors", b"\x10"), ("none.safetensors", None)):
        path = tmp_path / name
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(ValueError, match=f"{name} is no weight file"):
            weights.read(path)


@pytest.mark.skipif(not SAVED.is_file(), reason="the results are not beside an installed package")
def test_the_saved_figures_are_those_of_the_files_that_ship(found):
    assert json.loads(SAVED.read_text(encoding="utf-8"))["figures"] == found, \
        "weights have changed: `brain bench weights --save`, then `brain docs`"
