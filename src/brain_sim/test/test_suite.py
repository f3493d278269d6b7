# SPDX-License-Identifier: Apache-2.0
"""The suite's mix, its sentences, and that both stay as they are."""

from collections import Counter

import pytest

from brain_sim.sentences import LANGUAGES, phrase, sentence, templates
from brain_sim.suite import Episode, episode, episodes, suite_hash, wilson
from brain_sim.things import COLORS, SHAPES

PURPOSES = ("go", "avoid", "halt", "nonsense")


@pytest.mark.parametrize("split, seed", [("val", 0), ("test", 3), ("train", 11)])
def test_mix_of_any_hundred_episodes(split, seed):
    some = episodes(split, 100, seed)
    kinds = Counter(e.kind for e in some)
    assert kinds == {"go": 70, "avoid": 15, "stop": 5, "absent": 5, "nonsense": 5}
    assert Counter(e.lang for e in some) == {"en": 50, "ja": 50}
    seen = Counter(e.visibility for e in some)
    assert seen == {"hidden": 30, "behind": 30, "front": 30, "none": 10}


def test_language_kind_and_visibility_are_not_tied_together():
    some = episodes("train", 400, 2)
    cells = Counter((e.lang, e.visibility) for e in some if e.kind == "go")
    assert len(cells) == 6 and min(cells.values()) >= 25
    assert min(Counter((e.lang, e.kind) for e in some).values()) >= 4


def test_episodes_repeat_and_do_not_depend_on_how_many():
    assert episodes("val", 30, 5) == episodes("val", 60, 5)[:30]
    assert episode("val", 17, 5) == episodes("val", 30, 5)[17]
    assert [e.seed for e in episodes("val", 30, 5)] != [e.seed for e in episodes("val", 30, 6)]
    assert not {e.seed for e in episodes("val", 200)} & {e.seed for e in episodes("test", 200)}


def test_rooms_are_what_the_episodes_say():
    for e in episodes("test", 40, 1):
        room = e.room()
        if e.target:
            assert room.target == e.target
        assert room.avoid == e.avoid and room.absent == (e.kind == "absent")
        assert (room.target_object is None) == (e.kind == "absent")
        if e.visibility != "none":
            assert room.visibility == e.visibility


def test_json_round_trip():
    import json
    for e in episodes("val", 40):
        assert Episode.from_dict(json.loads(e.to_json())) == e


def test_script_of_a_stop_episode():
    (stop,) = [e for e in episodes("val", 20) if e.kind == "stop"]
    (begin, first), (later, second) = stop.script
    assert begin == 0.0 and first == stop.sentence and 3.0 <= later <= 6.0 and second == stop.stop_text
    assert all(len(e.script) == 1 for e in episodes("val", 20) if e.kind != "stop")


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("purpose", PURPOSES)
def test_phrasings_differ_between_splits(purpose, lang):
    # Letter case and marks make no phrasing of its own.
    def plain(split):
        marks = " .,;:!?。、"
        return {"".join(c for c in t.lower() if c not in marks) for t in templates(purpose, lang, split)}

    train, val, test = plain("train"), plain("val"), plain("test")
    assert not train & val and not train & test and not val & test
    assert min(len(train), len(val), len(test)) >= 5


def test_every_sentence_holds_its_words():
    import numpy as np
    rng = np.random.default_rng(4)
    for _ in range(300):
        split, lang = rng.choice(["train", "val", "test"]), rng.choice(LANGUAGES)
        t, a = ("red", "ball"), ("blue", "box")
        text = sentence("avoid", lang, split, rng, t, a)
        assert "{" not in text
        if lang == "en":
            assert "red" in text and "blue" in text
            assert any(w in text for w in ("ball", "sphere")) and any(w in text for w in ("box", "cube"))
        else:
            assert any(w in text for w in ("赤", "あか")) and any(w in text for w in ("青", "あお"))
            assert not text.isascii()


def test_every_kind_has_words_in_both_languages():
    import numpy as np
    rng = np.random.default_rng(0)
    for lang in LANGUAGES:
        words = {(c, s): {phrase((c, s), lang, rng) for _ in range(60)} for c in COLORS for s in SHAPES}
        for kind, some in words.items():
            assert len(some) >= 2
            assert all(not some & other for k, other in words.items() if k != kind)


def test_suite_hash_is_of_the_code():
    assert suite_hash() == suite_hash() and len(suite_hash()) == 64


def test_suite_hash_changes_with_a_file(monkeypatch, tmp_path):
    import shutil
    from pathlib import Path

    import brain_sim.suite as suite
    before = suite_hash()
    copy = tmp_path / "brain_sim"
    shutil.copytree(Path(suite.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(suite, "__file__", str(copy / "suite.py"))
    assert suite_hash() == before
    (copy / "referee.py").write_text((copy / "referee.py").read_text() + "\n# changed\n")
    assert suite_hash() != before


@pytest.mark.parametrize("k, n, low, high", [
    (0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (50, 100, 0.4038, 0.5962)])
def test_wilson_against_published_values(k, n, low, high):
    assert wilson(k, n) == pytest.approx((low, high), abs=2e-4)


def test_wilson_of_nothing():
    assert wilson(0, 0) == (0.0, 1.0)
