# SPDX-License-Identifier: Apache-2.0
"""Slips of the keyboard are mended where it is sure what is meant, and never into another color or shape."""
from __future__ import annotations

import random

import pytest

from brain_regions.language.all_words import lexicon
from brain_regions.language.decode import spell
from brain_regions.language.spelling import corrected, distance, doubtful, mended
from brain_regions.language.words_near import REAL


@pytest.mark.parametrize(("typed", "meant"), [
    ("fnid the red ball", "find the red ball"),
    ("got o the red ball", "go to the red ball"),
    ("Got o the red ball", "go to the red ball"),
    ("go tot he red bal", "go to the red ball"),
    ("go to th eblue box", "go to the blue box"),
    ("fin dthe red ball", "find the red ball"),
    ("go to the gren box", "go to the green box"),
    ("serach for the bleu cyclinder", "search for the blue cylinder"),
    ("plaese gp to teh redball", "please go to the red ball"),
    ("go to the re d bo x", "go to the red box"),
    ("go to thd tellow box", "go to the yellow box"),
    ("dotn go there, avodi the cna", "dont go there, avoid the can"),
    ("set course for th red bpx", "set course for the red box"),
    ("roll to tye ellow boxc", "roll to the yellow box"),
    ("yel low box, pikc it up", "yellow box, pick it up"),
    ("mov eto the cylinderr", "move to the cylinder"),
])
def test_what_a_person_would_understand_is_mended(typed, meant):
    assert spell(typed) == meant


@pytest.mark.parametrize("text", [
    "go to the bread", "read the box", "find the bowl", "go to the bell", "the bed box", "go to the ref ball", "a hall",
    "the glue can", "my brother lost a glove", "gehe zum roten ball", "ga naar de rode kegel", "the reed", "the rd box",
    "go to the re ball", "find the green tbe", "lock the crate rate", "the red bo", "the fed ball", "a red gox",
    "sit still"])
def test_what_may_mean_something_else_stays(text):
    assert spell(text) == text


def test_a_name_is_mended_only_where_one_known_word_is_that_near():
    """Whatever single letter is wrong in whatever word: what becomes a color or shape is near to no other one."""
    words, rng = lexicon(), random.Random(5)
    names = "red green blue yellow ball sphere box cube cylinder can tube crate navy lime ruby tin".split()
    letters, checked = "abcdefghijklmnopqrstuvwxyz", 0
    for name in names:
        for _ in range(60):
            at, letter = rng.randrange(len(name)), rng.choice(letters)
            slip = name[:at] + rng.choice((letter + name[at + 1:], name[at + 1:], letter + name[at:]))
            entry = words.get(mended(slip, words)) if not words.get(slip) else None
            if entry and entry[1] in (1, 2, 3, 4):
                checked += 1
                assert entry == words.get(name), (slip, name)
    assert checked > 150


def test_known_and_real_words_are_left_alone():
    words = lexicon()
    assert all(corrected(word, words) == word for word in REAL)
    assert not mended("ball's", words) and not mended("", words)


def test_a_word_that_may_be_a_color_is_doubtful():
    assert all(doubtful(word) for word in ("read", "rd", "grean", "yleow", "bleue", "res"))
    assert not any(doubtful(word) for word in ("wooden", "bread", "shiny", "x"))
    assert distance("kitten", "sitting") == 3 and distance("", "abc") == 3
