# SPDX-License-Identifier: Apache-2.0
"""Taught things: their file, their names in sentences, and what the prefrontal cortex remembers of them."""
import json

import numpy as np
import pytest

from brain_regions.language import taught_words
from brain_regions.language.decode import framed, obeyed, spell
from brain_regions.language.network import SpikingReader
from brain_regions.language.reasons import Why
from brain_regions.language.understanding import Verb
from brain_regions.language.weights import SHIPPED, load
from brain_regions.pfc import PrefrontalCortex, memory
from brain_regions.sensed import make
from brain_regions.vision import taught
from brain_regions.vision.network import HEIGHT, WIDTH
from brain_runtime.contract import sights
from brain_runtime.contract.taught import FIRST, MOST, TaughtError, checked, names

NAMES = {FIRST: "mug", FIRST + 1: "shoe", FIRST + 2: "コップ"}


def examples(seed=0, number=5):
    rng = np.random.default_rng(seed)
    return [taught.Example(rng.integers(1, 255, (HEIGHT, WIDTH, 3)).astype(np.uint8), 20, 30 + k)
            for k in range(number)]


def test_what_is_kept_is_there_again_and_what_is_forgotten_is_not(tmp_path):
    path = tmp_path / "more" / "taught.safetensors"
    assert names(path) == {} and taught.load(path) == {}
    assert taught.keep(path, "mug", examples()) == FIRST and taught.keep(path, "shoe", examples(1, 7)) == FIRST + 1
    assert names(path) == {FIRST: "mug", FIRST + 1: "shoe"}
    for number, its in ((FIRST, examples()), (FIRST + 1, examples(1, 7))):
        again = taught.load(path)[number]
        assert [one[1:] for one in again] == [one[1:] for one in its]
        assert all(map(np.array_equal, (one.picture for one in again), (one.picture for one in its)))
    assert taught.keep(path, "mug", examples(2)) == FIRST and len(names(path)) == 2      # taught anew
    taught.forget(path, "mug")
    assert names(path) == {FIRST + 1: "shoe"} and list(taught.load(path)) == [FIRST + 1]
    with pytest.raises(TaughtError, match="mug was not taught; there are shoe"):
        taught.forget(path, "mug")
    assert taught.keep(path, "plant", examples()) == FIRST      # a number that is free again


def test_there_is_room_for_so_many_things(tmp_path):
    path = tmp_path / "taught.safetensors"
    for name in ("one", "two", "three", "four", "five", "six", "seven", "eight"):
        taught.keep(path, name, examples())
    assert len(names(path)) == MOST
    with pytest.raises(TaughtError, match="no room for nine; forget one"):
        taught.keep(path, "nine", examples())


@pytest.mark.parametrize("name", ["", "a", "two words", "mug2", "../mug", "x" * 25, "mug\n", "mu\u200bg"])
def test_a_name_is_one_word_of_letters(name):
    if name == "mug\n":
        assert checked(name) == "mug"       # of an editor
        return
    with pytest.raises(TaughtError, match="is no name"):
        checked(name)
    assert checked(" Mug ") == "mug" and checked("コップ") == "コップ"


def test_a_file_that_is_torn_or_another_is_named_with_the_remedy(tmp_path):
    path = tmp_path / "taught.safetensors"
    taught.keep(path, "mug", examples())
    whole = path.read_bytes()
    size = int.from_bytes(whole[:8], "little")
    other = json.loads(whole[8:8 + size])

    def with_header(**metadata):
        text = json.dumps({**other, "__metadata__": {**other["__metadata__"], **metadata}}).encode()
        return len(text).to_bytes(8, "little") + text + whole[8 + size:]

    for data in (b"", whole[:5], whole[:200], b"\xff" * 64, with_header(format="brain-taught-9"),
                 with_header(names='{"3": "mug"}'), with_header(names='{"128": "two words"}'),
                 with_header(names="[" * 5000), with_header(names='{"129": "mug"}'), whole[:-1000]):
        path.write_bytes(data)
        with pytest.raises(TaughtError, match="teach them again|is no name"):
            names(path)
            taught.load(path)
    path.write_bytes(whole)
    assert names(path) == {FIRST: "mug"}


@pytest.fixture(scope="module")
def reader():
    return SpikingReader(load(SHIPPED, SpikingReader)[0], False, {})


@pytest.mark.parametrize(("sentence", "verb", "slots"), [
    ("find the mug", Verb.FIND, (0, FIRST, 0, 0)), ("Go to the mug, please", Verb.GO, (0, FIRST, 0, 0)),
    ("go to the red mug", Verb.GO, (0, FIRST, 0, 0)), ("find the mug, not the box", Verb.FIND, (0, FIRST, 0, 0)),
    ("go to the shoe and avoid the blue box", Verb.GO, (0, FIRST + 1, 3, 2)),
    ("コップを探して", Verb.FIND, (0, FIRST + 2, 0, 0)),
    ("コップに行って、赤い箱を避けて", Verb.GO, (0, FIRST + 2, 1, 2)),
    ("find the red box", Verb.FIND, (1, 2, 0, 0)), ("stop", Verb.STOP, (0, 0, 0, 0))])
def test_sentences_name_taught_things(reader, sentence, verb, slots):
    said, stand_ins = taught_words.put_in(sentence, NAMES)
    spelled = spell(said)
    found, why, _ = taught_words.meant(*obeyed(spelled, reader.hear(framed(spelled))), stand_ins)
    assert why is None and found.slots == (verb, *slots)


@pytest.mark.parametrize(("sentence", "why", "word"), [
    ("find the box but avoid the mug", Why.TAUGHT_AVOIDED, "mug"), ("find the smuggler", Why.WORD, "smuggler"),
    ("where is the mug?", Why.NO_ORDER, "where is the mug?")])
def test_what_cannot_be_done_with_them_is_said_by_their_names(reader, sentence, why, word):
    said, stand_ins = taught_words.put_in(sentence, NAMES)
    spelled = spell(said)
    assert taught_words.meant(*obeyed(spelled, reader.hear(framed(spelled))), stand_ins)[1:] == (why, word)


def test_without_taught_things_a_sentence_stays_as_it_was_said():
    assert taught_words.put_in("Find THE mug!", {}) == ("Find THE mug!", [])
    assert taught_words.put_in("Find THE box!", NAMES) == ("Find THE box!", [])


def test_the_taught_thing_that_the_goal_names_is_remembered_apart():
    state, held = memory.empty(), memory.ObjectMemory()
    mug = make("DetectedObject", shape=FIRST, bearing=0.2, distance=1.0, confidence=0.9)
    assert sights.sound(mug) and not sights.sound(make("DetectedObject", color=1, shape=FIRST, bearing=0.2,
                                                       distance=1.0, confidence=0.9))
    memory.about(state, FIRST)
    held.see(state, [mug], 0.0, (-0.8, 0.8), None, 3.0, 0.05)
    assert state["trace"][memory.TAUGHT].max() > 0 and not state["trace"][:memory.TAUGHT].any()
    assert memory.class_mask(0, FIRST).nonzero()[0].tolist() == [memory.TAUGHT]
    assert not memory.class_mask(0, 0)[memory.TAUGHT] and not memory.class_mask(1, 0)[memory.TAUGHT]
    memory.about(state, 2)          # a box: what was looked for before stays, for the next time
    assert state["trace"][memory.TAUGHT].max() > 0
    memory.about(state, FIRST + 1)
    assert not state["trace"][memory.TAUGHT].any()


def test_of_the_taught_thing_that_is_sought_no_other_name_is_remembered():
    def thing(**fields):
        return make("DetectedObject", **{"bearing": 0.2, "distance": 1.0, "confidence": 0.9, "width": 0.3, **fields})

    mug, cup, red, green = thing(shape=FIRST), thing(shape=FIRST + 1), thing(color=1, shape=3), thing(
        color=2, shape=3, bearing=0.5)
    usable = PrefrontalCortex._usable
    assert usable([mug, red, green, cup], FIRST) == [mug, green] and usable([mug, red, green], 3) == [red, green]
    assert usable([mug, red], FIRST + 1) == [red]       # another taught thing is sought
    behind = thing(color=2, shape=3, bearing=2.5)
    for width in (float("inf"), float("nan"), -1.0):    # of anybody: it does not blind
        assert usable([thing(shape=FIRST, width=width), behind], FIRST)[1:] == [behind]


def test_what_has_a_color_alone_is_evidence_for_all_its_shapes_and_no_answer_to_one_of_them():
    state, held = memory.empty(), memory.ObjectMemory()
    red = make("DetectedObject", color=1, bearing=0.2, distance=1.0, confidence=0.9)
    held.see(state, [red], 0.0, (-0.8, 0.8), None, 3.0, 0.05)
    each = state["trace"].max((1, 2))
    assert each[:3] == pytest.approx(each[0]) and each[0] > 0 and not each[3:].any()
    whole = memory.empty()
    held.see(whole, [make("DetectedObject", color=1, shape=1, bearing=0.2, distance=1.0, confidence=0.9)], 0.0,
             (-0.8, 0.8), None, 3.0, 0.05)
    assert whole["trace"].sum() == pytest.approx(state["trace"].sum(), rel=1e-4)
