# SPDX-License-Identifier: Apache-2.0
"""The language region: goal ids, republishing, and coming back as it was."""
from __future__ import annotations

import numpy as np
import pytest

from brain_eval.baselines.ann_language import AnnLanguage
from brain_regions.language import Language, Verb
from brain_regions.language.decode import framed, spell
from brain_regions.membranes import MICRO_STEP
from brain_runtime import Region, SILENCE
from brain_runtime.contract import snapshot
from brain_runtime.hosts.local import LocalHost
from brain_wire import messages


def reading_time(text: str) -> float:
    """What it takes to read and recall a sentence and to answer, at most (s)."""
    return 1.5 * MICRO_STEP * min(len(framed(spell(text[:1001]))), 300) + 0.1


class Recorder:
    """A host with language in it, and what it published."""

    def __init__(self, kind=Language, *, state=None, region: Region | None = None, parameters=None) -> None:
        self.host = LocalHost({}, parameters=parameters)
        self.heard = []
        self.host.listen("lang/features", self.heard.append)
        self.host.join("language", region or kind(), state)

    def say(self, text: str, *, wait: bool = True) -> None:
        """Says a sentence, and waits until it is read."""
        self.host.publish("goal/text", messages.make("std_msgs/msg/String", data=text))
        if wait:
            self.host.advance(reading_time(text))

    def control(self, goal_id: int) -> None:
        self.host.publish("pfc/control", messages.make("brain_interfaces/msg/Control", goal_id=goal_id))

    @property
    def answers(self) -> list:
        """The first message of each goal."""
        return list({f.goal_id: f for f in reversed(self.heard) if f.goal_id}.values())[::-1]

    @property
    def state(self):
        return self.host.stepper("language").state


def content(features):
    return (features.goal_id, features.text, features.understood, features.verb, features.target_color,
            features.target_shape, features.avoid_color, features.avoid_shape, features.confidence,
            features.reason)


def restored(state) -> Recorder:
    region = Language()
    region.name = "language"
    region.configure({})
    return Recorder(state=region.restore({name: np.array(value) for name, value in state.items()}), region=region)


def test_a_sentence_is_answered_when_it_is_read_and_again_five_times_a_second():
    brain = Recorder()
    brain.host.advance(0.05)
    text = "go to the red ball but avoid the blue box"
    brain.say(text)
    features = brain.heard[-1]
    assert content(features)[1] == text and len(brain.answers) == 1
    assert content(features)[2:8] == (True, Verb.GO, 1, 1, 3, 2) and features.goal_id == 1
    assert features.reason == "" and 0.5 < features.confidence <= 1.0
    before = len(brain.heard)
    brain.host.advance(2.0)
    assert 9 <= len(brain.heard) - before <= 12
    assert {content(f) for f in brain.heard[before:]} == {content(features)}


def test_every_sentence_counts_the_goal_up():
    brain = Recorder()
    for text in ("go to the red ball", "kick the red ball", "go to the red ball", "止まれ"):
        brain.say(text)
    assert [f.goal_id for f in brain.answers] == [1, 2, 3, 4]
    assert [f.understood for f in brain.answers] == [True, False, True, True]
    assert brain.heard[-1].verb == Verb.STOP


def test_what_is_no_order_changes_nothing_and_is_answered():
    brain = Recorder()
    brain.say("exactly")
    assert not brain.heard[-1].understood and "'exactly' is no order" in brain.heard[-1].reason
    brain.say("go to the red ball")
    goal, state = brain.heard[-1], brain.state
    assert goal.goal_id == 2 and goal.understood
    for text in ("exactly", "stupid", "call my mother", "その通り"):
        begin = len(brain.heard)
        brain.say(text)
        brain.host.advance(1.5)
        aside = [f for f in brain.heard[begin:] if f.text == text]
        assert len(aside) == 1 and text in aside[0].reason, text
        assert content(aside[0])[2:9] == content(goal)[2:9] and aside[0].goal_id == 2
        assert content(brain.heard[-1]) == content(goal)
    assert all(np.array_equal(brain.state[name], state[name]) for name in ("goal", "text", "reason", "digest", "rates"))
    brain.say("stop")
    assert (brain.heard[-1].goal_id, brain.heard[-1].verb) == (3, Verb.STOP)


def test_one_publication_that_comes_by_two_ways_is_one_goal():
    brain = Recorder()
    for pause in (0.1, 2.0, 0.0):       # twice within 0.1 s; the third time it is said again
        brain.say("go to the red ball", wait=False)
        brain.host.advance(pause)
    brain.host.advance(reading_time("go to the red ball"))
    assert [f.goal_id for f in brain.answers] == [1, 2] and all(f.understood for f in brain.answers)
    for text in ("stop", "go to the red ball"):     # another one is another one at once
        brain.say(text)
    assert [f.verb for f in brain.answers[2:]] == [Verb.STOP, Verb.GO]


def test_before_the_first_sentence_there_is_no_goal():
    brain = Recorder()
    brain.host.advance(0.5)
    assert brain.heard
    assert all(f.goal_id == 0 and not f.understood and f.verb == Verb.NONE for f in brain.heard)
    assert all(len(f.embedding) == 0 for f in brain.heard)


@pytest.mark.parametrize("text", ["x" * 1_000_000, "円" * 400, "a" * 255 + "円", "😀" * 100, "go\0to the red ball", "",
                                  "\ud800\udfff go to the red ball", "\x02\x03\x02", "ﷺ" * 900, "é" * 128])
def test_no_text_does_harm_and_the_sentence_is_echoed_cut_between_characters(text):
    brain = Recorder()
    # as a host hands it over that checks nothing
    stepper = brain.host.stepper("language")
    stepper.offer("text", messages.make("std_msgs/msg/String", data=text), 0.0)
    stepper.step(0.0, 0.0)
    brain.host.advance(2.2)
    assert brain.heard[-1].goal_id == 1
    clean = text.encode("utf-8", "replace").decode().replace("\0", " ")
    echo = brain.heard[-1].text
    assert clean.startswith(echo)
    assert len(echo.encode()) <= 256
    rest = clean[len(echo):len(echo) + 1]
    assert not rest or len((echo + rest).encode()) > 256


@pytest.mark.parametrize("text", ["go to the red ball", "青い箱を避けて赤いボールへ行って", "geh zum roten Ball",
                                  "あ" * 3000])
def test_what_it_knows_survives_a_snapshot(tmp_path, text):
    brain = Recorder()
    brain.say("stop")
    brain.say(text)
    region = brain.host.regions["language"]
    snapshot.write(tmp_path / "language.safetensors", region, brain.state)
    arrays = snapshot.read(tmp_path / "language.safetensors", region)
    assert all(a.dtype == np.float32 for a in arrays.values())
    back = restored(arrays)
    back.host.advance(1.0)
    assert content(back.heard[-1]) == content(brain.heard[-1])
    assert np.array_equal(back.heard[-1].embedding, brain.heard[-1].embedding)
    assert back.heard[-1].goal_id == 2


def test_a_latched_sentence_that_comes_again_after_a_restore_is_no_new_goal():
    brain = Recorder()
    brain.say("x" * 200 + " one")
    back = restored(brain.state)
    back.say("x" * 200 + " one")
    back.host.advance(1.0)
    assert back.heard[-1].goal_id == 1
    back.say("x" * 200 + " one")
    assert back.heard[-1].goal_id == 2      # now somebody said it


def test_another_sentence_after_a_restore_is_a_new_goal_even_if_it_begins_alike():
    brain = Recorder()
    brain.say("x" * 300 + " one")
    back = restored(brain.state)
    back.say("x" * 300 + " two")
    back.host.advance(1.0)
    assert back.heard[-1].goal_id == 2


def test_a_snapshot_older_than_the_goal_that_is_followed_stays_silent():
    brain = Recorder()
    brain.say("go to the red ball")
    back = restored(brain.state)
    back.control(5)
    back.host.advance(2.0)
    assert not back.heard
    back.say("go to the blue box")
    back.host.advance(0.3)
    assert back.heard[-1].goal_id == 6 and back.heard[-1].target_color == 3
    back.control(6)
    back.host.advance(1.0)
    assert back.heard[-1].goal_id == 6


def test_a_restored_region_speaks_without_anybody_to_listen_to():
    brain = Recorder()
    brain.say("go to the red ball")
    back = restored(brain.state)
    back.host.advance(0.4)
    assert not back.heard
    back.host.advance(1.0)
    assert back.heard[-1].goal_id == 1


def test_goal_ids_stay_exact_in_float32():
    region = Language()
    region.configure({})
    state = region.initial_state()
    state["goal"][0] = 2 ** 24
    brain = Recorder(state=state)
    brain.say("stop")
    assert brain.heard[-1].goal_id == 1


def test_silence_says_nothing_and_an_empty_sentence_is_answered():
    brain = Recorder()
    brain.say("go to the red ball")
    before = brain.heard[-1]
    brain.say(SILENCE)
    assert (brain.heard[-1].goal_id, brain.heard[-1].text) == (before.goal_id, "go to the red ball")
    brain.say("")
    assert brain.heard[-1].goal_id == before.goal_id + 1 and not brain.heard[-1].understood and brain.heard[-1].reason


# -- reading ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Language, AnnLanguage])
def test_a_sentence_takes_its_bytes_in_micro_steps_and_nothing_is_computed_without_one(kind):
    brain = Recorder(kind)
    brain.host.advance(1.0)
    region = brain.host.regions["language"]
    assert region.spikes == region.synops == region.multiplies == 0
    text = "find the green cylinder"
    brain.say(text, wait=False)
    brain.host.advance(1.5 * MICRO_STEP * len(text) - 0.05)
    assert not brain.answers
    brain.host.advance(0.15)
    assert content(brain.heard[-1])[2:8] == (True, Verb.FIND, 2, 3, 0, 0)
    rates = brain.heard[-1].embedding
    assert len(rates) and 0 <= min(rates) <= max(rates) <= 1 / MICRO_STEP
    spent = region.spikes, region.synops, region.updates, region.multiplies
    assert min(spent) > 0 if kind is Language else not any(spent[:3]) and spent[3] > 10_000_000
    brain.host.advance(1.0)
    assert (region.spikes, region.synops, region.updates, region.multiplies) == spent


def test_a_sentence_that_comes_while_another_is_read_takes_its_place():
    brain = Recorder()
    brain.say("please be so kind as to go to the red ball", wait=False)
    brain.host.advance(0.1)
    brain.say("stop")
    first, second = brain.answers
    assert (first.goal_id, first.understood) == (1, False)
    assert first.text.startswith("please") and "came" in first.reason
    assert (second.goal_id, second.verb) == (2, Verb.STOP)


@pytest.mark.parametrize("after", [0.0, 0.1, 0.2, 0.3])
def test_a_region_that_was_killed_while_it_read_reads_on(tmp_path, after):
    text = "go to the red ball but stay away from the blue box"
    whole = Recorder()
    whole.say(text)
    brain = Recorder()
    brain.say(text, wait=False)
    brain.host.advance(after)
    region = brain.host.regions["language"]
    snapshot.write(tmp_path / "language.safetensors", region, brain.state)
    assert not brain.answers
    back = restored(snapshot.read(tmp_path / "language.safetensors", region))
    back.say(text, wait=False)      # it is latched
    back.host.advance(0.65 + reading_time(text) - after)
    assert [content(f) for f in back.answers] == [content(f) for f in whole.answers]
    assert np.array_equal(back.heard[-1].embedding, whole.heard[-1].embedding)


def test_a_sentence_that_was_answered_since_the_snapshot_is_not_read_on():
    brain = Recorder()
    brain.say("go to the red ball but stay away from the blue box", wait=False)
    brain.host.advance(0.1)
    back = restored(brain.state)
    back.control(1)
    back.host.advance(2.0)
    assert not back.answers


def test_without_spikes_nothing_is_understood():
    deaf = Recorder(parameters={"language": {"silent": True}})
    for text in ("go to the red ball", "stop", "赤いボールへ行って", "止まれ"):
        deaf.say(text)
        assert not deaf.heard[-1].understood and deaf.heard[-1].reason
    assert deaf.host.regions["language"].spikes == 0


def test_what_is_too_long_to_be_read_is_refused_at_once():
    brain = Recorder()
    brain.say("go to the red ball " * 20, wait=False)
    assert brain.answers[-1].reason.startswith("The sentence is longer than I can read")
    brain.say("赤いボールへ行って。" * 20, wait=False)
    assert "256" in brain.answers[-1].reason and "文" in brain.answers[-1].reason
    brain.say("x" * 2000, wait=False)
    assert "1000" in brain.answers[-1].reason
