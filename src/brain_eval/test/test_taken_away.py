# SPDX-License-Identifier: Apache-2.0
"""What is taken away to see what it is worth: the map, the reflex, the lexicon or the network that it checks."""
import math

import numpy as np
import pytest

from brain_eval.baselines.ann_language import AnnLanguage
from brain_eval.baselines.ann_pfc import AnnPrefrontalCortex
from brain_eval.baselines.ann_vision import AnnVision
from brain_eval.baselines.no_place import NoPlace
from brain_eval.baselines.passive_brainstem import PassiveBrainstem
from brain_regions.brainstem import LIMITED, REFLEX, STALE, Brainstem
from brain_regions.language import Language
from brain_regions.language.decode import decode, framed, spell
from brain_regions.language.halves import of_lexicon, of_network
from brain_regions.language.network import SpikingReader
from brain_regions.language.weights import SHIPPED, load
from brain_regions.place import Place
from brain_runtime import ParameterError
from brain_runtime.hosts.local import LocalHost
from brain_wire import messages


def scan(distance=2.0):
    return messages.make("sensor_msgs/msg/LaserScan", angle_min=-math.pi, angle_max=math.pi,
                         angle_increment=2 * math.pi / 180, range_min=0.1, range_max=10.0,
                         ranges=np.full(180, distance, np.float32))


@pytest.mark.parametrize("cls, says", [(Place, True), (NoPlace, False)])
def test_without_a_map_nothing_is_offered(cls, says):
    host, heard = LocalHost({"place": cls("place")}), []
    host.listen("sensor/features", heard.append)
    odom = messages.make("nav_msgs/msg/Odometry")
    odom.pose.pose.orientation.w = 1.0
    for _ in range(10):
        host.publish("odom", odom)
        host.publish("pfc/control", messages.make("brain_interfaces/msg/Control", goal_id=1, mode=1))
        host.publish("scan", scan())
        host.advance(0.1)
    assert bool(heard) is says


def driven(cls, scans, command=(0.4, 0.0), **parameters):
    """What a brainstem lets through at last, with its traces, where a wall is near."""
    host, sent, traces = LocalHost({"stem": cls("stem")}, parameters={"stem": parameters}), [], []
    host.listen("cmd_vel", lambda m: sent.append(m.twist.linear.x))
    host.listen("brain/trace", traces.append)
    wanted = messages.make("brain_interfaces/msg/MotorCommand")
    wanted.twist.linear.x, wanted.twist.angular.z = command
    for now in range(30):
        for name in ("pfc", "motor"):
            host.publish("brain/heartbeat", messages.make("brain_interfaces/msg/Heartbeat", name=f"/{name}", state=2))
        if scans(now):
            host.publish("scan", scan(0.22))
        host.publish("motor/command", wanted)
        host.advance(0.05)
    return sent[-1], {trace.action for trace in traces}, traces[-1]


def test_without_reflexes_limits_and_staleness_stay(caplog):
    speed, actions, _ = driven(Brainstem, lambda now: True)
    assert speed == 0.0 and REFLEX in actions
    speed, actions, _ = driven(PassiveBrainstem, lambda now: True)
    assert speed == pytest.approx(0.4) and REFLEX not in actions
    assert "must not drive a robot" in caplog.text
    assert driven(PassiveBrainstem, lambda now: True, (0.9, 0.0), max_linear=0.3)[0] == pytest.approx(0.3)
    speed, _, last = driven(PassiveBrainstem, lambda now: now < 10)
    assert speed == 0.0 and last.action == STALE and last.reason == "no fresh scan"
    assert driven(PassiveBrainstem, lambda now: True, (math.nan, 0.0))[0] == 0.0
    assert LIMITED in driven(PassiveBrainstem, lambda now: True)[1]     # it speeds up as fast as it may, no faster


def test_no_parameter_takes_the_reflex_away():
    for name in ("passive", "reflex", "reflexes"):
        with pytest.raises(ParameterError, match="has no parameter"):
            Brainstem("stem").configure({name: True})


@pytest.mark.parametrize("cls", [AnnPrefrontalCortex, AnnVision, AnnLanguage])
def test_what_has_no_spikes_has_no_populations_to_lesion(cls):
    with pytest.raises(ParameterError, match="there is no population 'memory'; there are none"):
        cls("me").configure({"lesions": ["memory=silent"]})


# -- lexicon and network -------------------------------------------------------------------------------------------


ASKED = "go to the red ball but avoid the blue box"


def test_the_network_tells_what_is_avoided_without_a_lexicon_and_the_lexicon_does_not_without_a_network():
    network = SpikingReader(load(SHIPPED, SpikingReader)[0])

    def alone(text):
        return decode(spell(text), network.hear(framed(spell(text)))._replace(**of_lexicon(spell(text))))[0].slots

    for text, slots in ((ASKED, (1, 1, 1, 3, 2)), ("青い箱を避けて赤いボールへ行って", (1, 1, 1, 3, 2)),
                        ("find a cylinder", (2, 0, 3, 0, 0)), ("stop", (3, 0, 0, 0, 0))):
        heard = network.hear(framed(spell(text)))
        assert of_network(heard)[0].slots == decode(spell(text), heard)[0].slots == slots, text
        # all that it finds is a target to it, and two of them contradict each other
        assert alone(text) == (slots if not slots[3] else (0, 0, 0, 0, 0)), text
    assert alone("hello") == (0, 0, 0, 0, 0)


@pytest.mark.parametrize("parameters, understood", [
    ({}, True), ({"lexicon": "off"}, True), ({"lexicon": "alone"}, True), ({"silent": True}, False),
    ({"silent": True, "lexicon": "off"}, False), ({"silent": True, "lexicon": "alone"}, True)])
def test_a_half_of_language_needs_nothing_of_the_other(parameters, understood):
    host = LocalHost({"language": Language("language")}, parameters={"language": parameters})
    host.publish("goal/text", messages.make("std_msgs/msg/String", data="go to the red ball"))
    host.advance(1.0)
    said = host.latest("lang/features")
    assert said.understood is understood and (not understood or (said.verb, said.target_color, said.target_shape) == (
        1, 1, 1))


def test_without_its_lexicon_language_asks_no_list_of_words(monkeypatch):
    def asked(*_):
        raise AssertionError("the lexicon was asked")

    monkeypatch.setattr("brain_regions.language.decode.lexicon", asked)
    monkeypatch.setattr("brain_regions.language.halves.lexicon", asked)
    host = LocalHost({"language": Language("language")}, parameters={"language": {"lexicon": "off"}})
    host.publish("goal/text", messages.make("std_msgs/msg/String", data=ASKED))
    host.advance(1.0)
    assert (host.latest("lang/features").avoid_color, host.latest("lang/features").avoid_shape) == (3, 2)
