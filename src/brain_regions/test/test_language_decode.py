# SPDX-License-Identifier: Apache-2.0
"""From evidence to a goal: words of one thing share what they are for, and the lexicon takes away what cannot be."""
from __future__ import annotations

import numpy as np
import pytest

from brain_regions.language import Verb
from brain_regions.language import sizes as z
from brain_regions.language.decode import decode, framed, spell
from brain_regions.language.network import Heard
from brain_regions.language.reasons import Why

COLORS, SHAPES = ("red", "green", "blue", "yellow"), ("ball", "box", "cylinder")


def heard(text, *words, verb=Verb.GO, sure=5.0, meaning=None, blamed=()):
    """What a network says of which each word (text, target, avoid, what it names) is known, and what is blamed."""
    spelled = spell(text)
    evidence = np.full((len(framed(spelled)), z.OUTPUTS), -5.0, np.float32)
    start = 0
    for word, target, avoid, *names in words:
        letter = spelled.index(spell(word), start)
        start = letter + 1
        at = 1 + len(spelled[:letter].encode())
        rows = slice(at, at + len(spell(word).encode()))
        evidence[rows, z.TARGET], evidence[rows, z.AVOID] = target, avoid
        for name in names:
            of, group = (COLORS, z.NAMED_COLOR) if name in COLORS else (SHAPES, z.NAMED_SHAPE)
            evidence[rows, group.start + of.index(name)] = 5.0
    for output, word in blamed:
        at = 1 + len(spelled[:spelled.index(spell(word))].encode())
        evidence[at:at + len(spell(word).encode()), output] = 5.0
    logits = np.full(len(z.MEANINGS), -sure, np.float32)
    logits[int(verb) if meaning is None else z.MEANINGS.index(meaning)] = sure
    return spelled, Heard(evidence, logits, np.zeros(z.CHOICE, np.float32))


def slots(text, *words, **more):
    meant, why, word = decode(*heard(text, *words, **more))
    assert meant.understood == (why is None)
    return (meant.color, meant.shape, meant.avoid_color, meant.avoid_shape) if meant.understood else (why.name, word)


def test_target_and_avoided_object_are_what_the_network_says_they_are():
    said = "go to the red ball but not the blue box"
    things = [("red", 4, -4, "red"), ("ball", 4, -4, "ball"), ("blue", -4, 4, "blue"), ("box", -4, 4, "box")]
    assert slots(said, *things) == (1, 1, 3, 2)
    turned = [(word, avoid, target, name) for word, target, avoid, name in things]
    assert slots(said, *turned) == (3, 2, 1, 1)
    assert slots(said, *things, verb=Verb.NONE) == ("NO_ORDER", said)
    assert slots(said, *things, meaning="exception") == ("EXCEPTION", "")
    assert slots(said, *things, verb=Verb.STOP) == (0, 0, 0, 0)


def test_words_of_one_thing_share_what_they_are_for():
    # alone, "ball" would be what is to be avoided
    assert slots("go to the red ball", ("red", 4, -2, "red"), ("ball", 0.4, 0.5, "ball")) == (1, 1, 0, 0)
    assert slots("go to the red one. the ball", ("red", 4, -2, "red"), ("ball", 0.4, 0.5, "ball")) == (1, 0, 0, 1)
    # two colors in a row are two things
    assert slots("the green box blue ball", ("green", 3, -3, "green"), ("box", 3, -3, "box"), ("blue", -3, 3, "blue"),
                 ("ball", -3, 3, "ball")) == (2, 2, 3, 1)


def test_a_word_of_a_thing_that_is_for_something_is_for_it_too():
    # half of "red" would not be enough to say of "ball" that it is for anything
    assert slots("go to the red ball", ("red", 3, -4, "red"), ("ball", -2, -2.5, "ball")) == (1, 1, 0, 0)
    assert slots("go, not to the red ball, but a box", ("red", -4, 3, "red"), ("ball", -2.5, -2.6, "ball"),
                 ("box", 3, -4, "box")) == (0, 2, 1, 1)
    # where it stands apart, it is another one
    apart = slots("go to the red one. the ball", ("red", 3, -4, "red"), ("ball", -1.5, -2.5, "ball"))
    assert apart == ("TWO_TARGETS", "")
    assert slots("go to the red ball", ("red", -1, -4, "red"), ("ball", -2, -2.5, "ball")) == ("NO_TARGET", "")


def test_a_word_that_the_network_hears_as_another_than_the_lexicon_is_no_claim():
    assert slots("go to the red ball", ("red", 4, -4, "blue"), ("ball", 4, -4, "ball")) == (0, 1, 0, 0)
    assert slots("go to the red ball", ("red", 4, -4, "blue"), ("ball", 4, -4, "box")) == ("NO_TARGET", "")


def test_two_targets_are_too_many_unless_one_is_a_slip():
    both = "go to the red ball or the blue ball"
    assert slots(both, ("red", 4, -4, "red"), ("ball", 4, -4, "ball"), ("blue", 4, -4, "blue"),
                 ("ball", 4, -4, "ball")) == ("TWO_TARGETS", "")
    assert slots(both, ("red", 9, -4, "red"), ("ball", 9, -4, "ball"), ("blue", 0.1, -4, "blue"),
                 ("ball", 0.1, -4, "ball")) == (1, 1, 0, 0)


@pytest.mark.parametrize(("unsure", "sure"), [(-1.5, -2.5)])
def test_a_thing_that_may_be_for_something_is_too_much_unless_it_is_denied_or_named_again(unsure, sure):
    def said(text, *words):
        return [slots(text, *((word, *((value, -4) if value > 0 else (-4, value)), name)
                              for word, value, name in [(word, value or logit, name) for word, value, name in words]))
                for logit in (unsure, sure)]

    ball, box = [("red", 4, "red"), ("ball", 4, "ball")], [("blue", 0, "blue"), ("box", 0, "box")]
    too_much = ("TWO_TARGETS", "")
    assert said("go to the red ball flanked by the blue box", *ball, *box) == [too_much, (1, 1, 0, 0)]
    assert said("赤い玉のある青い箱に行って", ("赤い", 0, "red"), ("玉", 0, "ball"), ("青い", 4, "blue"), ("箱", 4, "box")
                ) == [too_much, (3, 2, 0, 0)]
    # a word that looks like a name: crimson is "kurenai", too, and "kurenai" asks for something
    assert said("黄色の箱に来てくれない", ("黄色", 4, "yellow"), ("箱", 4, "box"), ("くれない", 0, "red")
                ) == [too_much, (4, 2, 0, 0)]
    assert said("go to the red ball, not the blue box", *ball, *box) == [(1, 1, 0, 0)] * 2
    assert said("go to the red ball. yes, the ball", *ball, ("ball", 0, "ball")) == [(1, 1, 0, 0)] * 2


def test_what_covers_the_target_cannot_be_avoided():
    assert slots("go to the red ball, avoid balls", ("red", 4, -4, "red"), ("ball", 4, -4, "ball"),
                 ("balls", -4, 4, "ball")) == ("SAME", "")


@pytest.mark.parametrize(("text", "words", "blamed"), [
    ("go to the red car", [("red", "red")], "car"),
    ("緑のパソコンを探して", [("緑", "green")], "ぱ"),
    ("青い星を探して", [("青い", "blue")], "星"),
    ("赤のたまごまで行って", [("赤", "red"), ("たま", "ball")], "ご"),
    ("ゴミ箱に行って", [("箱", "box")], "ごみ"),
    ("ボールペンを探して", [("ボール", "ball")], "ぺん"),
])
def test_a_part_of_another_word_is_no_thing(text, words, blamed):
    assert slots(text, *[(word, 4, -4, name) for word, name in words]) == ("WORD", blamed)


@pytest.mark.parametrize(("text", "blamed"), [
    ("go to the grean box", "grean"), ("find the bread box", "bread"), ("go to the read box", "read"),
    ("head to yeklw box", "yeklw"), ("find grean box", "grean"), ("visit the ride box", "ride")])
def test_a_shape_behind_what_may_be_its_color_misspelt_is_not_any_one(text, blamed):
    assert slots(text, ("box", 4, -4, "box")) == ("WORD", blamed)


@pytest.mark.parametrize("text", [
    "go to the big box", "find box", "visit a rolling box", "find that box", "plox find the box", "go to the box"])
def test_a_shape_behind_what_says_nothing_of_its_color_is_any_one(text):
    assert slots(text, ("box", 4, -4, "box")) == (0, 2, 0, 0)
    assert slots("go to the fluffy red box", ("red", 4, -4, "red"), ("box", 4, -4, "box")) == (1, 2, 0, 0)


@pytest.mark.parametrize(("text", "words", "right"), [
    ("赤いのに行って", [("赤い", "red")], (1, 0, 0, 0)),
    ("青い物体へ", [("青い", "blue")], (3, 0, 0, 0)),
    ("赤い小さなボールへ", [("赤い", "red"), ("ボール", "ball")], (1, 1, 0, 0)),
    ("ボールの赤いやつへ", [("ボール", "ball"), ("赤い", "red")], (1, 1, 0, 0)),
])
def test_a_thing_in_other_words_is_one(text, words, right):
    assert slots(text, *[(word, 4, -4, name) for word, name in words]) == right


@pytest.mark.parametrize(("text", "right"), [
    ("Gehe zum roten Ball", ("WORD", "gehe")), ("finde den ball bitte", ("WORD", "finde")),
    ("schnell, ball", (0, 1, 0, 0)), ("gehe to the ball", (0, 1, 0, 0)), ("ball ball", (0, 1, 0, 0)),
    ("ボール、hayaku ne", (0, 1, 0, 0))])
def test_a_language_of_which_no_word_is_known_is_not_understood_for_its_balls(text, right):
    word = "ボール" if "ボール" in text else "ball"
    assert slots(text, (word, 4, -4, "ball")) == right


def test_who_asks_is_rather_understood_than_not():
    """Most of all who says stop, and not where nothing is heard."""
    words = [("red", 4, -4, "red"), ("ball", 4, -4, "ball")]
    spelled, said = heard("go to the red ball", *words)
    for logits, verb in (([0.5, 0.0, -3.0, -3.0], Verb.GO), ([1.0, 0.0, -3.0, -3.0], Verb.NONE),
                         ([0.5, -3.0, -3.0, 0.1], Verb.STOP), ([0.5, -0.3, -3.0, 0.1], Verb.STOP),
                         ([0.5, -3.0, -3.0, -0.1], Verb.NONE), (z.AT_REST[:4], Verb.NONE)):
        assert decode(spelled, said._replace(verb=padded(logits)))[0].verb == verb


def padded(logits, rest=-20.0):
    return np.array([*logits, *[rest] * (len(z.MEANINGS) - len(logits))], np.float32)


def test_reasons_to_do_nothing_are_added_up_before_they_are_compared_with_a_verb():
    words = [("red", 4, -4, "red"), ("ball", 4, -4, "ball")]
    spelled, said = heard("go to the red ball", *words)
    logits = padded([-20.0, 1.0, -20.0, -20.0])
    assert decode(spelled, said._replace(verb=logits))[0].verb == Verb.GO
    logits[z.REFUSED:z.REFUSED + 6] = 0.5      # each is less likely than to go, all together are not
    meant, why, _ = decode(spelled, said._replace(verb=logits))
    assert meant.verb == Verb.NONE and why is Why.ONLY_NOT


def test_each_meaning_has_its_reason_and_words_to_blame_are_those_the_network_marks():
    said = "go to the fluffy dice and juggle the red ball"
    for meaning in z.MEANINGS[z.REFUSED:]:
        assert slots(said, meaning=meaning)[0] not in ("NO_ORDER", "WORD"), meaning
    cannot, unknown = z.ACTION.stop - 2, z.ACTION.stop - 1
    assert slots(said, meaning="cannot", blamed=[(cannot, "juggle")]) == ("CANNOT", "juggle")
    assert slots(said, meaning="unknown", blamed=[(unknown, "fluffy dice")]) == ("WORD", "fluffy dice")
    assert slots("もふもふに行って", meaning="unknown", blamed=[(unknown, "もふもふ")]) == ("WORD", "もふもふ")


def test_the_goal_stays_only_where_the_network_is_sure_that_it_is_no_order():
    spelled, said = heard("exactly")
    for logits, why in ((padded([2.0, -9.0, -9.0, 0.0]), Why.NO_ORDER),
                        (padded([2.0, -9.0, -9.0, 0.8], -0.2), Why.NO_COMMAND)):
        assert decode(spelled, said._replace(verb=logits))[1] is why
