# SPDX-License-Identifier: Apache-2.0
"""Grammar as a region: it answers at once, says it again, counts goals, comes back as it was, and has no neurons."""
from __future__ import annotations

import numpy as np

from brain_eval import ablations
from brain_regions.language import Language, Verb
from brain_runtime import SILENCE
from brain_runtime.contract import snapshot
from brain_runtime.hosts.local import LocalHost
from brain_wire import messages
from experiments.grammar.region import GrammarLanguage


class Said:
    """A host with the region in it, and what it published."""

    def __init__(self, state=None, region=None) -> None:
        self.host, self.heard = LocalHost({}), []
        self.host.listen("lang/features", self.heard.append)
        self.host.join("language", region or GrammarLanguage(), state)

    def say(self, text: str) -> None:
        self.host.publish("goal/text", messages.make("std_msgs/msg/String", data=text))
        self.host.advance(0.25)     # it publishes five times a second


def restored(state, goal: int | None = None) -> Said:
    region = GrammarLanguage()
    region.name = "language"
    region.configure({})
    back = Said(region.restore({name: np.array(value) for name, value in state.items()}), region)
    if goal is not None:
        back.host.publish("pfc/control", messages.make("brain_interfaces/msg/Control", goal_id=goal))
    return back


def test_it_stands_behind_the_ports_of_the_network_and_is_asked_for_by_name():
    assert {name: port.topic for name, port in {**GrammarLanguage.inputs(), **GrammarLanguage.outputs()}.items()} == {
        name: port.topic for name, port in {**Language.inputs(), **Language.outputs()}.items()}
    assert ablations.parse(["language=conventional"]).classes == {
        "language": f"{GrammarLanguage.__module__}:{GrammarLanguage.__name__}"}


def test_a_sentence_is_answered_at_once_and_again_and_each_counts_up():
    brain = Said()
    brain.host.advance(0.5)
    assert brain.heard and all(f.goal_id == 0 and not f.understood for f in brain.heard)
    brain.say("go to the red ball but avoid the blue box")
    told = brain.heard[-1]
    assert (told.goal_id, told.verb, told.target_color, told.target_shape, told.avoid_color, told.avoid_shape) == (
        1, Verb.GO, 1, 1, 3, 2)
    assert told.understood and told.reason == "" and len(told.embedding) == 0
    before = len(brain.heard)
    brain.host.advance(2.0)
    assert 9 <= len(brain.heard) - before <= 12
    brain.say("kick the red ball")
    assert (brain.heard[-1].goal_id, brain.heard[-1].understood) == (2, False) and "kick" in brain.heard[-1].reason
    brain.say(SILENCE)
    assert brain.heard[-1].goal_id == 2
    brain.say("止まれ")
    assert (brain.heard[-1].goal_id, brain.heard[-1].verb) == (3, Verb.STOP)
    region = brain.host.regions["language"]
    assert region.spikes == 0 and region.synops == 0


def test_it_comes_back_from_a_snapshot_as_it_was(tmp_path):
    brain = Said()
    for text in ("stop", "青い箱を避けて赤いボールへ行って"):
        brain.say(text)
    region, file = brain.host.regions["language"], tmp_path / "language.safetensors"
    snapshot.write(file, region, brain.host.stepper("language").state)
    state = snapshot.read(file, region)
    back = restored(state)
    back.host.advance(1.0)
    assert (back.heard[-1].goal_id, back.heard[-1].text) == (2, "青い箱を避けて赤いボールへ行って")
    back.say("青い箱を避けて赤いボールへ行って")      # it is latched, and comes again
    back.host.advance(1.0)
    assert back.heard[-1].goal_id == 2
    behind = restored(state, goal=5)
    behind.host.advance(2.0)
    assert not behind.heard     # a newer goal is followed: what the snapshot knows is past
    behind.say("go to the blue box")
    assert (behind.heard[-1].goal_id, behind.heard[-1].target_color) == (6, 3)
