# SPDX-License-Identifier: Apache-2.0
"""Grammar and labels of training: it is no source of them, but where both understand a sentence, they rarely differ."""
from __future__ import annotations

import random

import pytest

from brain_regions.language import Verb
from brain_training import language_score as score
from brain_training.language_drawing import draw
from brain_training.language_phrases import LANGUAGES
from experiments.grammar import parse

pytestmark = pytest.mark.extended


@pytest.mark.parametrize("language", LANGUAGES)
def test_labels_agree_with_the_grammar_where_it_understands(language):
    rng = random.Random(2)
    both = alike = 0
    for _ in range(1500):
        sentence = draw(language, rng)
        meant = parse(sentence.text)
        if meant.understood and sentence.verb in (Verb.GO, Verb.FIND):
            both += 1
            read = (meant.color, meant.shape, meant.avoid_color, meant.avoid_shape)
            alike += read == (*sentence.target, *sentence.avoid)
    assert both > 300 and alike > 0.9 * both


@pytest.mark.parametrize("language", LANGUAGES)
def test_it_reads_the_suites_phrasings_as_the_score_asks(language):
    for kind, rows in score.suite(language, "val", 2, 1).items():
        wrong = [row for row in rows if parse(row.text).slots != row.slots]
        assert len(wrong) < 0.05 * len(rows), (kind, wrong)
