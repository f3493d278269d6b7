# SPDX-License-Identifier: Apache-2.0
"""The language region: goal ids, republishing, and coming back as it was."""
from __future__ import annotations

import numpy as np
import pytest

from brain_regions import language
from brain_regions.language import Language, Verb
from brain_runtime import SILENCE, Region, messages, snapshot
from brain_runtime.local_host import LocalHost
from brain_runtime.stepper import Stepper


class Recorder:
    """A host with language in it, and what it published."""

    def __init__(self, state=None, region: Region | None = None) -> None:
        self.host = LocalHost({}, through_bytes=True)
        self.heard = []
        self.host.listen("lang/features", self.heard.append)
        self.host.join("language", region or Language(), state)

    def say(self, text: str) -> None:
        self.host.publish("goal/text", messages.make("std_msgs/msg/String", data=text))

    def control(self, goal_id: int) -> None:
        self.host.publish("pfc/control", messages.make("brain_interfaces/msg/Control", goal_id=goal_id))

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
    return Recorder(region.restore({name: np.array(value) for name, value in state.items()}), region)


def test_a_sentence_is_answered_at_once_and_again_five_times_a_second():
    brain = Recorder()
    brain.host.advance(0.05)
    before = len(brain.heard)
    brain.say("go to the red ball but avoid the blue box")
    assert len(brain.heard) == before + 1
    features = brain.heard[-1]
    assert content(features)[1] == "go to the red ball but avoid the blue box"
    assert content(features)[2:8] == (True, Verb.GO, 1, 1, 3, 2) and features.goal_id == 1
    assert features.reason == "" and features.confidence == 1.0 and len(features.embedding) == 0
    brain.host.advance(2.0)
    assert 9 <= len(brain.heard) - before <= 12
    assert {content(f) for f in brain.heard[before:]} == {content(features)}


def test_every_sentence_counts_the_goal_up():
    brain = Recorder()
    for text in ("go to the red ball", "gibberish", "go to the red ball", "止まれ"):
        brain.say(text)
    assert [f.goal_id for f in brain.heard if f.goal_id] == [1, 2, 3, 4]
    assert [f.understood for f in brain.heard if f.goal_id] == [True, False, True, True]
    assert brain.heard[-1].verb == Verb.STOP


def test_before_the_first_sentence_there_is_no_goal():
    brain = Recorder()
    brain.host.advance(0.5)
    assert brain.heard
    assert all(f.goal_id == 0 and not f.understood and f.verb == Verb.NONE for f in brain.heard)


@pytest.mark.parametrize("text", ["x" * 1_000_000, "円" * 400, "a" * 255 + "円", "😀" * 100,
                                  "go\0to the red ball", ""])
def test_the_sentence_is_echoed_cut_between_characters(text):
    brain = Recorder()
    brain.say(text)
    echo = brain.heard[-1].text
    assert text.replace("\0", " ").startswith(echo)
    assert len(echo.encode()) <= 256
    rest = text[len(echo):len(echo) + 1]
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
    assert back.heard[-1].goal_id == 2


def test_a_latched_sentence_that_comes_again_after_a_restore_is_no_new_goal():
    brain = Recorder()
    brain.say("x" * 300 + " one")
    back = restored(brain.state)
    back.say("x" * 300 + " one")
    back.host.advance(1.0)
    assert back.heard[-1].goal_id == 1
    back.say("x" * 300 + " one")
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
    state = Language().initial_state()
    state["goal"][0] = 2 ** 24
    brain = Recorder(state)
    brain.say("stop")
    assert brain.heard[-1].goal_id == 1


def test_it_is_conventional_and_counts_nothing():
    region = Language()
    region.configure({})
    stepper = Stepper(region)
    stepper.offer("text", messages.make("std_msgs/msg/String", data="go to the red ball"), 0.0)
    stepper.step(0.0, 0.0)
    assert region.spikes == 0 and region.synops == 0
    assert "conventional" in language.__doc__


def test_silence_says_nothing_and_an_empty_sentence_is_answered():
    brain = Recorder()
    brain.say("go to the red ball")
    before = brain.heard[-1]
    brain.say(SILENCE)
    assert (brain.heard[-1].goal_id, brain.heard[-1].text) == (before.goal_id, "go to the red ball")
    brain.say("")
    assert brain.heard[-1].goal_id == before.goal_id + 1 and not brain.heard[-1].understood and brain.heard[-1].reason
