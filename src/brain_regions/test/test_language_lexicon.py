# SPDX-License-Identifier: Apache-2.0
"""Lexicon: its words and tokens, slips that it mends, and the reasons that are said."""
from __future__ import annotations

import random

import pytest

from brain_regions.language.all_words import lexicon
from brain_regions.language.lexicon import Kind
from brain_regions.language.reasons import Why
from brain_regions.language.region import Language
from brain_regions.language.spelling import corrected, mended
from brain_regions.language.tokens import fold, normalize, tokenize
from brain_runtime.hosts.local import LocalHost
from brain_wire import messages


def test_the_first_sentence_does_not_wait_for_the_lexicon():
    lexicon.cache_clear()
    host = LocalHost({"language": Language("language")})
    assert lexicon.cache_info().misses == 1
    said = []
    host.listen("lang/features", said.append)
    host.publish("goal/text", messages.make("std_msgs/msg/String", data="go to the red ball"))
    host.advance(1.0)
    assert said and lexicon.cache_info().misses == 1


def test_words_of_the_lexicon_are_found():
    words = lexicon()
    for text, kinds in (("stay away from the blue box",
                         [Kind.STOP, Kind.FROM, Kind.DETERMINER, Kind.COLOR, Kind.SHAPE]),
                        ("あかいはこにはいかないで", [Kind.COLOR, Kind.SHAPE, Kind.PARTICLE, Kind.MOVE]),
                        ("はこにはいらないで", [Kind.SHAPE, Kind.PARTICLE, Kind.TOUCH])):
        assert [token.kind for token in tokenize(normalize(text), words)] == kinds


@pytest.mark.parametrize("word", ["yellow", "green", "cylinder", "avoid", "never", "don't", "stop", "the"])
def test_two_letters_swapped_are_mended_and_words_that_are_known_are_left_alone(word):
    assert lexicon().get(word) is not None
    for i in range(1, len(word) - 1):
        slip = word[:i] + word[i + 1] + word[i] + word[i + 2:]
        if slip != word:
            assert mended(slip, lexicon()) == word
            assert corrected(normalize(slip), lexicon()) == word
    for known in ("step", "shop", "dot", "hat", "hall", "bell", "reed", "bread", "fox", word):
        assert mended(known, lexicon()) == ""


def test_tokens_cover_the_text():
    rng = random.Random(3)
    pool = "赤いボールに行ってredball ,.!? ーぁﾊﾞ123'\"éß한ж。、\n"
    for _ in range(300):
        text = normalize("".join(rng.choices(pool, k=rng.randrange(60))))
        tokens = tokenize(text, lexicon())
        assert "".join(t.text for t in tokens).replace(" ", "") == fold(text).replace(" ", "")


def test_reasons_fit_into_a_message():
    for why in Why:
        for japanese in (False, True):
            for word in ("", "x" * 900, "円" * 900):
                assert len(why.text(japanese, word).encode()) <= 256
                assert "{}" not in why.text(japanese, word)
