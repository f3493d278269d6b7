# SPDX-License-Identifier: Apache-2.0
"""The sentences that language is trained on: they are spelled as they are heard, and labeled as they are meant."""
from __future__ import annotations

import copy
import random
import re

import numpy as np
import pytest

from brain_regions.language import Verb, words_english, words_japanese
from brain_regions.language import sizes as z
from brain_regions.language.decode import framed, spell
from brain_regions.language.sizes import MEANINGS
from brain_regions.language.spelling import distance
from brain_regions.language.tokens import fold, normalize
from brain_sim.sentences import templates
from brain_training import language_score as score
from brain_training.language_data import MENTION, encode, make, pack, sample
from brain_training.language_drawing import draw, draw_from
from brain_training.language_phrases import LANGUAGES, Rules, rules
from brain_training.language_suite import suite
from brain_training.language_withheld import given, kept_out, near, phrasing, spelled, withheld


@pytest.mark.parametrize("language", LANGUAGES)
def test_sentences_are_spelled_as_the_network_hears_them(language):
    rng = random.Random(1)
    for _ in range(1500):
        text = draw(language, rng).text
        assert fold(normalize(text)) == text and framed(text)[1:-1].decode() == text


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_rule_says_something(language):
    rng = random.Random(2)
    seen = {draw(language, rng).rule for _ in range(1500)}
    assert len(seen) > 0.9 * len(rules(language).starts.options)


def test_labels_stand_on_the_bytes_of_the_words():
    for sentence in make(300, 3):
        data = pack([sentence])
        length = data.lengths[0]
        assert data.text[0, 0] == z.BEGIN and data.text[0, length - 1] == z.END
        assert bytes(data.text[0, 1:length - 1]).decode() == sentence.text
        marks = data.labels[0]
        at = 1
        for part in sentence.parts:
            size = len(part.text.encode())
            bits = set(marks[at:at + size].tolist())
            assert len(bits) <= 1
            mark = bits.pop() if bits else 0
            wanted = [k for k in (z.TARGET, z.AVOID) if mark >> k & 1]
            assert bool(mark & int(MENTION)) == bool(part.role)
            assert wanted == {"T": [z.TARGET], "A": [z.AVOID]}.get(part.role, [])
            for named, rows in ((part.color, z.NAMED_COLOR), (part.shape, z.NAMED_SHAPE)):
                assert [k for k in range(rows.start, rows.stop) if mark >> k & 1] == (
                    [rows.start + named - 1] if named else [])
            at += size


def test_the_same_seed_gives_the_same_sentences_and_another_one_others():
    texts = [s.text for s in make(200, 5)]
    assert texts == [s.text for s in make(200, 5)]
    assert len(set(texts) & {s.text for s in make(200, 6)}) < 40


@pytest.mark.extended(4000)
@pytest.mark.parametrize("many", [800, 4000])
def test_phrasings_of_val_and_test_are_withheld(many):
    assert spelled("Please, go to the #!") == spelled("please go to #") == "please go to #"
    assert spelled("head over to that old # one") == "head over to #" and spelled("#いろの#、やつへ") == "#へ"
    for language in LANGUAGES:
        for split in ("val", "test"):
            for template in templates("avoid", language, split):
                assert spelled(template.replace("{t}", "#").replace("{a}", "#")) in withheld()
    rng = random.Random(7)
    drawn = {phrasing(sample(language, rng)) for language in LANGUAGES for _ in range(many)}
    assert "go to #" in drawn
    assert not {one for one in drawn - given() if any(near(one, other) for other in withheld())}


def test_a_phrasing_is_near_a_withheld_one_that_it_contains_or_stands_in_or_resembles():
    assert near("robot head over to # right now", "head over to #") and near("head for #", "please head for #")
    assert near("make you way to #", "make your way to #") and near("すぐ#へ移動してくださいね", "#へ移動してください")
    assert not near("go to #", "keep your distance from # and go to #") and not near("drive to #", "head over to #")
    assert kept_out("do head over to #") and not kept_out("go to #") and "go to #" in given()
    assert [distance(*two) for two in (("", "ab"), ("ab", ""), ("kitten", "sitting"), ("#へ行って", "#に行って"))] == [
        2, 2, 3, 1]


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_suite_asks_what_no_training_has(language):
    asked = suite(language, 3, 1)
    meanings = {MEANINGS[one.meaning] for one in asked}
    assert {"no order", "go", "find", "stop", "only avoid", "exception", "relation", "ordinal", "two targets",
            "two avoided"} <= meanings and len({one.text for one in asked}) >= 300
    assert asked == suite(language, 3, 1) != suite(language, 3, 2)
    rng = random.Random(5)
    trained = {sample(language, rng, slips=False).text for _ in range(3000)}
    assert not trained & {one.text for one in asked if not any(part.role for part in one.parts)}
    assert all(kept_out(phrasing(one)) for one in asked if phrasing(one) in withheld())


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_sentence_that_is_refused_has_a_target_in_its_parts_by_exception_relation_or_ordinal(language):
    """So what the network says of the words refuses the sentence once more."""
    rng = random.Random(6)
    drawn = [draw(language, rng) for _ in range(2500)]
    for meaning in ("exception", "relation", "ordinal"):
        chosen = [one for one in drawn if MEANINGS[one.meaning] == meaning]
        assert len(chosen) > 30 and all(one.verb == Verb.NONE for one in chosen)
        assert not [one.text for one in chosen if any(part.role == "T" for part in one.parts)]


def blanked(text: str, language: str) -> str:
    """A sentence with its things as #, without articles and marks, found by their words alone."""
    words = words_english if language == "en" else words_japanese
    colors, shapes = ("|".join(sorted("|".join(of.values()).split("|"), key=len, reverse=True))
                      for of in (words.COLORS, words.NOUNS))
    thing = rf"(?:(?:the|an?|any|that) )?(?:{colors})(?:い|の|色の|いろの)? ?(?:{fold(shapes)})"
    text = re.sub("[ ,.!?]+", " ", re.sub(thing, "#", fold(normalize(text)))).strip()
    return f" {re.sub('the #', '#', text)} " if language == "en" else text.replace(" ", "")


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_withheld_phrasing_stands_in_a_sentence_that_is_trained_or_near_one(language):
    """Found in another way than training does: by the words of the sentences as they are drawn."""
    rng = random.Random(11)
    drawn = {blanked(sample(language, rng, slips=False).text, language) for _ in range(6_000)}
    trained = "\n".join(drawn)
    ball = "red ball" if language == "en" else "赤いボール"
    filled = {split: [blanked(t.format(t=ball, a=ball), language)
                      for purpose in ("go", "avoid", "halt") for t in templates(purpose, language, split)]
              for split in ("train", "val", "test")}
    lines, own = filled["val"] + filled["test"], set(filled["train"])
    assert len(lines) > 35
    assert not [line for line in lines if line in trained]
    close = [(one, line) for line in lines for one in drawn - own
             if abs(len(one) - len(line)) <= 1 and len(line) > 9 and distance(one, line) <= 1]
    assert not close


def test_whole_sentences_as_people_say_them():
    of, rng = copy.deepcopy(rules("en")), random.Random(0)
    of.starts = type(of.starts)()
    del of.rules["go_spoken"], of.rules["pre"], of.rules["end"]
    of.read("[GO 1] go_spoken\npre = well, {}\nend = !\n"
            "GO: (Hey-ho|yo): [A shun (all|any)] {As}, {Ac}... a {Ts}, {Tc}, [G off (you|u) go]\n")
    drawn = [draw_from(of, rng) for _ in range(300)]
    for sentence in drawn:
        assert sentence.verb == Verb.GO and all(sentence.target) and all(sentence.avoid)
        named = {role: [(p.color, p.shape) for p in sentence.parts if p.role == role] for role in "TA"}
        assert named["T"] == [(0, sentence.target.shape), (sentence.target.color, 0)]
        assert named["A"] == [(0, sentence.avoid.shape), (sentence.avoid.color, 0)]
        said = ["".join(p.text for p in sentence.parts if p.action == action).strip() for action in ("AVOID", "GO")]
        assert said[0] in ("shun all", "shun any") and said[1] in ("off you go", "off u go")
    openings = {sentence.text.split(" shun")[0] for sentence in drawn}
    assert openings == {"hey ho,", "yo,", "well, hey ho,", "well, yo,"}
    assert all(sentence.text.endswith("go!") for sentence in drawn)


def test_whole_sentences_in_japanese():
    of, rng = copy.deepcopy(rules("ja")), random.Random(0)
    of.starts = type(of.starts)()
    del of.rules["find_spoken"], of.rules["pre"]
    of.read("[FIND 1] find_spoken\npre = ねえ、\nFIND: {Ts}の（{Tc}色の）を、[F サーチ]して！")
    texts = set()
    for _ in range(100):
        sentence = draw_from(of, rng)
        assert sentence.verb == Verb.FIND and all(sentence.target) and spell(sentence.text) == sentence.text
        assert "色色" not in sentence.text and sentence.text.endswith("を,さーちして!")
        texts.add(sentence.text.startswith("ねえ,"))
    assert texts == {True, False}


def test_short_whole_sentences_have_rules_of_their_own():
    of, rng = Rules("en"), random.Random(0)
    of.read("[STOP 1] stop_short\nend = .\npre = oh, {}\nSTOP: [S halt]", "short")
    of.read("[STOP 1] stop_spoken\nSTOP: [S freeze] right there", "spoken")
    said = {(s.rule, s.text.removeprefix("oh, ")) for s in (draw_from(of, rng) for _ in range(50))}
    assert said == {("stop_short", "halt."), ("stop_spoken", "freeze right there.")}
    for language in LANGUAGES:
        starts = {rule for _, rule in rules(language).starts.options}
        assert {"go_short", "find_short", "stop_short", "none_two_short", "chat_short"} <= starts


@pytest.mark.parametrize("language", LANGUAGES)
def test_long_sentences_are_drawn_the_less_often(language):
    rng, long = random.Random(3), 75
    every = np.mean([len(encode(draw(language, rng).text)) > long for _ in range(1500)])
    kept = np.mean([len(encode(sample(language, rng).text)) > long for _ in range(1500)])
    assert every > 0.05 and kept < every * 0.8


def test_a_line_that_is_no_rule_is_refused():
    with pytest.raises(ValueError, match="nonsense"):
        Rules("en").read("nonsense")
    with pytest.raises(ValueError, match="no kind 'tow'"):
        Rules("en").read("tow: go to {T} and {U}")
    for line in ("GO: ((a|b) go to {T}", "GO: go | drive to {T}", "GO: [Z go to] {T}"):
        with pytest.raises(ValueError, match="do not match"):
            Rules("en").read(line)


def test_sentences_to_report_on(tmp_path):
    for language in LANGUAGES:
        rows = score.trained(language, 20, 1)
        assert {kind: len(r) for kind, r in rows.items()} == {"understood": 20, "refused": 20, "unrelated": 20}
        assert all(r.slots[0] for r in rows["understood"]) and not any(r.slots[0] for r in rows["unrelated"])
        asked = score.suite(language, "val", 2, 1)
        assert all(r.slots[0] for r in asked["understood"]) and not any(r.slots[0] for r in asked["unrelated"])
    file = tmp_path / "list.txt"
    file.write_text("# a comment\ngo red ball / blue any : go: to it\n- : no\n")
    assert score.listed(file) == [("go: to it", (1, 1, 1, 3, 0)), ("no", (0, 0, 0, 0, 0))]
    for line in ("run red ball : run", "go red / blue box : go", "go red ball go to it", "go red ball box red box : go",
                 " : go"):
        file.write_text(line + "\n")
        with pytest.raises(ValueError, match=line):
            score.listed(file)
