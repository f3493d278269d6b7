# SPDX-License-Identifier: Apache-2.0
"""Lists of sentences are read by each half of language, and what would go wrong is counted."""
from __future__ import annotations

import pytest

from brain_training.language_score import Asked
from experiments import sentences as bench

NO = (0, 0, 0, 0, 0)


@pytest.fixture(scope="module")
def which():
    return bench.readers()


@pytest.mark.parametrize(("text", "meant"), [
    ("fnid the red ball", (2, 1, 1, 0, 0)), ("got o the blue box", (1, 3, 2, 0, 0)),
    ("go to teh gren cylinderr, avodi the redball", (1, 2, 3, 1, 1)), ("find the yelow can", (2, 4, 3, 0, 0)),
    ("青いボールめっけて", (2, 3, 1, 0, 0)), ("赤いのんのとこへ行ってや", (1, 1, 0, 0, 0)),
    ("緑の筒さ行ってけろ", (1, 2, 3, 0, 0)), ("黄色い箱ば探してくれんね", (2, 4, 2, 0, 0)),
    ("赤い玉のとこへ行きんさい", (1, 1, 1, 0, 0)),
    ("go to the bread", NO), ("read the box", NO), ("go to the read box", NO), ("find the bowl", NO),
    ("go to the bell", NO), ("go to the grean box", NO),
    ("head to the rd ball", NO), ("猫さ探してけろ", NO), ("黒か玉ば探してくれんね", NO)])
def test_slips_and_dialects_as_people_mean_them(which, text, meant):
    assert which["spiking"](text) == meant


def test_each_half_reads_for_itself(which):
    assert set(which) == {"spiking", "ann", "grammar", "network", "lexicon"}
    assert which["lexicon"]("the red ball") == NO and which["lexicon"]("go to the red ball") == (1, 1, 1, 0, 0)
    both = "go to the red ball, avoid the red box"
    assert which["spiking"](both) == (1, 1, 1, 1, 2) != which["lexicon"](both)
    assert all(read("x" * 400) == NO for read in which.values())


def test_wrong_objects_are_counted_and_lists_summed_by_what_they_are():
    answers = {"go": (1, 1, 1, 0, 0), "find": (2, 1, 1, 3, 0), "no": NO, "stop": (3, 0, 0, 0, 0)}
    rows = [Asked("go", (1, 1, 1, 0, 0)), Asked("find", (1, 1, 1, 0, 0)), Asked("go", (1, 2, 1, 0, 0)),
            Asked("no", (1, 1, 1, 0, 0)), Asked("go", NO), Asked("stop", NO), Asked("no", NO)]
    found = [bench.measure(name, rows, {"spiking": answers.__getitem__})
             for name in ("mine.txt", "yours.txt", "typos_mine.txt", "withheld_english")]
    assert {k: found[0]["networks"]["spiking"]["understood"][k] for k in ("count", "of", "wrong")} == {
        "count": 1, "of": 4, "wrong": 1}
    assert {k: found[0]["networks"]["spiking"]["refused"][k] for k in ("count", "of", "wrong")} == {
        "count": 1, "of": 3, "wrong": 1}
    rows = {(row["sentences"], row["to_do"]): row for row in bench.by_group(found, True)}
    assert len(rows) == 6 and rows["outside writers", "understood"]["of"] == 8
    assert rows["outside writers", "refused"]["networks"]["spiking"]["wrong"] == 2
    assert rows["phrasings of the suite's `val` and `test`: nothing near one was trained", "refused"]["of"] == 3


def test_slips_are_made_of_english_lists_alike_each_time():
    red_ball = (1, 1, 1, 0, 0)
    lists = {"a.txt": [Asked("go to the red ball", red_ball)] * 20, "b.txt": [Asked("赤い玉へ", red_ball)]}
    made = bench.typos(lists)
    assert set(made) == {"typos_a.txt"} and made == bench.typos(lists)
    texts = {row.text for row in made["typos_a.txt"]}
    assert len(texts) > 8 and all(row.slots == red_ball for row in made["typos_a.txt"])


def test_withheld_phrasings_are_asked_in_both_languages():
    lists = bench.withheld()
    assert all(len([row for row in rows if row.slots[0]]) > 100 for rows in lists.values()) and len(lists) == 2


@pytest.mark.extended
def test_what_a_goal_cannot_hold_is_asked_in_phrasings_that_no_training_has(monkeypatch):
    monkeypatch.setattr(bench, "EACH", 1)
    rows = bench.limits({"spiking": bench.shipped()["spiking"]})
    assert {row["language"] for row in rows} == {"en", "ja"} and sum(row["of"] for row in rows) >= 250
    assert {"exception", "relation", "ordinal", "two targets", "two avoided", "only avoid", "no order", "stop", "go",
            "stop, a slip in each"} <= {row["meaning"] for row in rows}
    for row in rows:
        told = row["networks"]["spiking"]
        assert told["right"]["count"] + told["carried_out"] + told["stop"] <= row["of"]
