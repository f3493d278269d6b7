# SPDX-License-Identifier: Apache-2.0
"""Sentences are read with and without a population, and what each is for shows."""
from __future__ import annotations

import pytest

from brain_runtime import ParameterError
from brain_training.language_score import Asked
from experiments import sentence_lesions as bench

NO = (0, 0, 0, 0, 0)
ROWS = [Asked("go to the red ball", (1, 1, 1, 0, 0)), Asked("find the blue box", (2, 3, 2, 0, 0)),
        Asked("stop", (3, 0, 0, 0, 0)), Asked("止まって", (3, 0, 0, 0, 0)), Asked("hello", NO),
        Asked("find the bowl", NO)]


def test_a_network_without_letters_obeys_nothing_and_refuses_all():
    whole, blind = (bench.measure(lesion, ROWS, 1) for lesion in ("", "letters=silent"))
    assert [whole[what]["count"] for what in bench.ASKED] == [2, 2, 2] and whole["of"] == 6
    assert [blind[what]["count"] for what in bench.ASKED] == [0, 0, 2] and blind["wrong"] == 0


def test_what_goes_to_something_else_is_counted():
    assert bench.measure("", [Asked("go to the red ball", (1, 2, 1, 0, 0)), Asked("go to the red ball", NO)], 1)[
        "wrong"] == 2


def test_what_lesions_draw_follows_from_the_seed():
    drawn = [bench.measure("letters=drop:0.3", ROWS, 1) for _ in range(2)]
    assert drawn[0] == drawn[1]
    with pytest.raises(ParameterError, match="there is no population 'word'; there are letters, words"):
        bench.measure("word=silent", ROWS, 1)


def test_withheld_and_fresh_sentences_are_asked_in_both_languages():
    rows = bench.asked(3, 1)
    assert len(rows) == len(bench.asked(1, 1)) + 2 * 2 * 3
    assert {row.slots[0] for row in rows} == {0, 1, 2, 3}
