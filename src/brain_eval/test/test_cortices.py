# SPDX-License-Identifier: Apache-2.0
"""The prefrontal cortex, spiking and conventional: memory, decisions, and a lack of input."""
import math

import numpy as np
import pytest

from brain_eval.baselines import object_memory
from brain_eval.baselines.ann_pfc import AnnPrefrontalCortex
from brain_eval.baselines.table_pfc import TablePrefrontalCortex
from brain_regions.pfc import PrefrontalCortex
from brain_regions.pfc import control as pfc
from brain_regions.sensed import make, odometry, scan_of_box, seen, ways_told
from brain_runtime.hosts.local import LocalHost
from brain_runtime.interfaces import GoalStatus

RED_BALL = dict(color=1, shape=1)


# -- memory --------------------------------------------------------------------------------------------------------


def test_memory_gathers_evidence_and_outweighs_an_early_mistake():
    tracks = object_memory.empty()

    def detection(shape, distance):
        return make("DetectedObject", color=1, shape=shape, confidence=0.9, bearing=0.2, distance=distance)

    for _ in range(4):
        tracks = object_memory.see(tracks, [detection(2, 4.0)], (0, 0, 0), (-0.8, 0.8), None, 0.6, 0.05)
    assert object_memory.find(tracks, 1, 2, (0, 0, 0), 0.5)[0] >= 0
    for _ in range(40):
        tracks = object_memory.see(tracks, [detection(1, 3.9)], (0, 0, 0), (-0.8, 0.8), None, 0.6, 0.05)
    assert object_memory.find(tracks, 1, 2, (0, 0, 0), 0.5)[0] == -1
    row, share = object_memory.find(tracks, 1, 1, (0, 0, 0), 0.5)
    assert row >= 0 and share > 0.8
    assert (tracks[:, object_memory.STRENGTH] > object_memory.FORGET).sum() == 1


def test_what_is_to_be_avoided_is_never_the_target():
    tracks = object_memory.empty()
    red, blue = (make("DetectedObject", color=color, shape=1, confidence=0.9, bearing=bearing, distance=distance)
                 for color, bearing, distance in ((1, 0.3, 1.0), (3, -0.3, 4.0)))
    for _ in range(10):
        tracks = object_memory.see(tracks, [red, blue], (0, 0, 0), (-0.8, 0.8), None, 0.6, 0.05)
    any_ball = object_memory.find(tracks, 0, 1, (0, 0, 0), 0.5)[0]
    but_the_red_one = object_memory.find(tracks, 0, 1, (0, 0, 0), 0.5, avoid=(1, 1))[0]
    distances = object_memory.polar(tracks, (0, 0, 0))[1]
    assert distances[any_ball] < 1.5 and distances[but_the_red_one] > 3.5
    assert object_memory.find(tracks, 1, 1, (0, 0, 0), 0.5, avoid=(1, 0))[0] == -1


def test_what_should_be_in_view_and_is_not_fades_and_what_is_hidden_stays():
    tracks = object_memory.empty()
    ball = make("DetectedObject", confidence=0.9, bearing=0.0, distance=2.0, **RED_BALL)
    for _ in range(10):
        tracks = object_memory.see(tracks, [ball], (0, 0, 0), (-0.8, 0.8), None, 0.6, 0.05)
    angles = np.linspace(-3, 3, 100).astype(np.float32)
    hidden = gone = tracks
    for _ in range(60):
        hidden = object_memory.see(hidden, [], (0, 0, 0), (-0.8, 0.8), (angles, np.ones(100)), 0.6, 0.05)
        gone = object_memory.see(gone, [], (0, 0, 0), (-0.8, 0.8), (angles, np.full(100, 5.0)), 0.6, 0.05)
    assert object_memory.find(hidden, 1, 1, (0, 0, 0), 0.5)[0] >= 0
    assert object_memory.find(gone, 1, 1, (0, 0, 0), 0.5)[0] == -1


# -- decisions -----------------------------------------------------------------------------------------------------


class Cortex:
    """A prefrontal cortex in lockstep with everything it hears published by hand."""

    def __init__(self, region=PrefrontalCortex, **parameters):
        self.host = LocalHost({"pfc": region("pfc")}, parameters={"pfc": parameters})
        self.objects = []
        self.view = np.zeros(36, np.float32)
        self.ways = []
        self.goal = 0
        self.yaw = 0.0
        self.host.advance(0.05)

    def ask(self, **fields):
        self.goal += 1
        fields = {"understood": True, "verb": 1, "target_color": 1, "target_shape": 1} | fields
        self.host.publish("lang/features", make("LanguageFeatures", goal_id=self.goal, text="x", **fields))
        return self

    def run(self, seconds, motor=1, see=True, age=0.0, turns=True):
        for _ in range(round(seconds * 20)):
            if turns and not self.objects and self.control is not None and self.control.mode == pfc.SEARCH:
                self.yaw += math.copysign(1.2, self.control.heading) * 0.05
            now = self.host.now
            self.host.publish("odom", odometry(0, 0, self.yaw, now))
            self.host.publish("scan", scan_of_box(0, 0, self.yaw))
            self.host.publish("motor/status", make("MotorStatus", goal_id=self.goal, state=motor))
            self.host.publish("sensor/features", make("SensorFeatures", source="place/view", novelty=self.view))
            self.host.publish("place/headings", ways_told(*self.ways))
            if see:
                self.host.publish("vision/objects", seen(*self.objects, stamp=max(now - age, 0.01)))
            self.host.advance(0.05)
        return self

    @property
    def control(self):
        return self.host.latest("pfc/control")

    @property
    def status(self):
        return self.host.latest("goal/status")


def test_cortex_searches_sees_approaches_and_reports():
    cortex = Cortex()
    cortex.run(0.2)
    assert cortex.control.mode == pfc.IDLE and cortex.status.state == pfc.S_IDLE
    cortex.view[10:26] = 1.0
    cortex.ask().run(0.5)
    assert cortex.control.mode == pfc.SEARCH and cortex.status.state == pfc.S_SEARCHING
    cortex.objects = [dict(bearing=0.3, distance=2.0, **RED_BALL)]
    cortex.run(1.0)
    assert cortex.control.mode == pfc.APPROACH and cortex.control.bearing == pytest.approx(0.3, abs=0.05)
    cortex.objects = [dict(bearing=0.3, distance=0.6, **RED_BALL)]
    cortex.run(1.0, motor=2)
    assert cortex.control.mode == pfc.IDLE
    assert cortex.status.state == pfc.S_APPROACHING and cortex.status.reason.startswith("looking at what")
    cortex.run(1.0, motor=2)
    assert cortex.status.state == pfc.S_REACHED and cortex.control.mode == pfc.IDLE
    cortex.ask().run(0.5)
    assert cortex.status.goal_id == 2 and cortex.status.state == pfc.S_APPROACHING


def test_cortex_is_not_misled_by_what_shares_color_or_shape():
    cortex = Cortex().ask()
    cortex.objects = [dict(color=1, shape=2, bearing=0.3, distance=2.0),
                      dict(color=2, shape=1, bearing=-0.3, distance=2.0)]
    cortex.view[10:26] = 1.0
    assert cortex.run(3.0).control.mode == pfc.SEARCH


@pytest.mark.parametrize("region", [PrefrontalCortex, TablePrefrontalCortex])
def test_cortex_gives_up_where_nothing_is_left_to_see(region):
    cortex = Cortex(region).ask().run(1.0)
    assert cortex.status.state == pfc.S_SEARCHING and cortex.control.mode == pfc.SEARCH
    cortex.run(3.0)
    assert cortex.status.state == pfc.S_NOT_FOUND and cortex.control.mode == pfc.IDLE
    assert cortex.status.cause == GoalStatus.CAUSE_COVERED and cortex.status.reason.startswith("I looked everywhere")
    assert abs(cortex.yaw) < 1.4 * math.pi


@pytest.mark.extended(120.0)
@pytest.mark.parametrize("seconds", [30.0, 120.0])
@pytest.mark.parametrize("region", [PrefrontalCortex, TablePrefrontalCortex])
def test_cortex_searches_for_as_long_as_there_is_something_left_to_see(region, seconds):
    cortex = Cortex(region)
    cortex.ways = [(0.3, -4.0)]
    cortex.ask().run(seconds)
    assert cortex.status.state == pfc.S_SEARCHING and cortex.control.heading == pytest.approx(0.3, abs=0.1)
    cortex.ways = []
    assert cortex.run(4.0).status.cause == GoalStatus.CAUSE_COVERED


@pytest.mark.parametrize("region", [PrefrontalCortex, TablePrefrontalCortex])
def test_cortex_gives_up_nothing_while_vision_is_late_and_looks_round_once_more_then(region):
    cortex = Cortex(region, patience=5.0).ask().run(1.0)
    cortex.run(20.0, age=0.4)
    assert cortex.status.state == pfc.S_SEARCHING and cortex.control.mode == pfc.SEARCH
    cortex.yaw = 0.0
    cortex.run(3.0)
    assert cortex.status.state == pfc.S_SEARCHING       # what was seen late does not count
    assert cortex.run(4.0).status.state == pfc.S_NOT_FOUND and abs(cortex.yaw) > 1.4 * math.pi


@pytest.mark.parametrize("region", [PrefrontalCortex, TablePrefrontalCortex])
def test_cortex_says_that_its_patience_ran_out(region):
    cortex = Cortex(region, patience=2.0)
    cortex.view[10:26] = 1.0
    cortex.ask().run(1.5)
    assert cortex.status.state == pfc.S_SEARCHING
    cortex.run(1.5)
    assert cortex.status.state == pfc.S_NOT_FOUND and cortex.status.cause == GoalStatus.CAUSE_PATIENCE
    assert cortex.status.reason == "I ran out of patience after 2 s of search and did not look everywhere"


@pytest.mark.parametrize("region", [PrefrontalCortex, TablePrefrontalCortex])
@pytest.mark.parametrize("turns, after", [(True, 4.0), (False, 20.5)])
def test_cortex_looks_round_once_more_where_pictures_came_late_before_its_patience_runs_out(region, turns, after):
    cortex = Cortex(region, patience=2.0)
    cortex.view[10:26] = 1.0
    cortex.ask().run(0.5, turns=turns)
    cortex.run(0.5, turns=turns, age=0.4)
    cortex.run(1.5, turns=turns)
    cortex.run(after - 1.0, turns=turns)
    assert cortex.status.state == pfc.S_SEARCHING
    cortex.run(3.0, turns=turns)
    assert cortex.status.state == pfc.S_NOT_FOUND and cortex.status.cause == GoalStatus.CAUSE_PATIENCE


@pytest.mark.parametrize("region", [PrefrontalCortex, TablePrefrontalCortex])
@pytest.mark.parametrize("objects, state, reason", [
    ([dict(bearing=0.0, distance=0.6, color=3, shape=2), dict(bearing=0.3, distance=2.5, **RED_BALL)], pfc.S_WRONG,
     "it stands in front of something else: blue box 0.6 m ahead"),
    ([dict(bearing=0.0, distance=0.6, color=3, shape=2), dict(bearing=0.3, distance=0.9, **RED_BALL)], pfc.S_REACHED,
     "standing in front of it"),
    ([], pfc.S_REACHED, "standing in front of it"),     # so near that nothing of it is recognized
])
def test_cortex_looks_at_what_it_stands_in_front_of(region, objects, state, reason):
    cortex = Cortex(region)
    heard = []
    cortex.host.listen("goal/status", lambda m: heard.append(m.state))
    cortex.view[10:26] = 1.0
    cortex.objects = [dict(bearing=0.0, distance=0.6, **RED_BALL)]
    cortex.ask().run(1.0)
    cortex.run(0.25, motor=2)
    cortex.objects = objects
    cortex.run(2.5, motor=2)
    assert heard[-1] == state and cortex.status.reason.startswith(reason) and cortex.control.mode == pfc.IDLE
    assert pfc.S_REACHED not in heard[:-1]
    count = len(heard)
    assert len((cortex.run(1.0), heard)[1]) == count    # said once


def test_cortex_stands_without_eyes_and_goes_on_with_them():
    cortex = Cortex()
    cortex.view[10:26] = 1.0
    cortex.ask().run(0.5)
    cortex.run(1.5, see=False)
    assert cortex.status.state == pfc.S_WAITING and "vision" in cortex.status.reason and cortex.control.mode == pfc.IDLE
    assert cortex.run(0.5).status.state == pfc.S_SEARCHING


def test_cortex_does_nothing_after_words_it_does_not_understand_and_stops_when_told():
    cortex = Cortex().ask(understood=False, verb=0, reason="no color").run(0.5)
    assert cortex.status.state == pfc.S_NOT_UNDERSTOOD and cortex.status.reason == "no color"
    assert cortex.control.mode == pfc.IDLE
    cortex.ask(verb=3).run(0.2)
    assert cortex.control.mode == pfc.STOP and cortex.status.state == pfc.S_STOPPED


def test_cortex_keeps_what_is_to_be_avoided_in_mind():
    cortex = Cortex().ask(avoid_color=3, avoid_shape=2)
    cortex.objects = [dict(color=3, shape=2, bearing=0.5, distance=1.5)]
    cortex.run(1.0)
    assert list(cortex.control.avoid_bearing) == pytest.approx([0.5], abs=0.05)
    assert cortex.control.hazard[3] > 0.3 and cortex.control.hazard[18] == 0


def test_cortex_comes_back_as_it_was():
    cortex = Cortex().ask()
    cortex.objects = [dict(bearing=0.3, distance=2.0, **RED_BALL)]
    cortex.run(1.0)
    left = cortex.host.kill("pfc")
    assert all(np.asarray(v).dtype == np.float32 for v in left.state.values())
    again = PrefrontalCortex("pfc")
    cortex.host.join("pfc", again, state=again.restore(left.state))
    cortex.objects = []
    cortex.run(0.1)
    assert cortex.control.mode == pfc.APPROACH and cortex.control.goal_id == 1


@pytest.mark.parametrize("region", [PrefrontalCortex, AnnPrefrontalCortex])
def test_with_rates_in_place_of_spikes_it_decides_the_same(region):
    cortex = Cortex(region).ask()
    cortex.view[10:26] = 1.0
    assert cortex.run(1.0).control.mode == pfc.SEARCH
    cortex.objects = [dict(bearing=0.3, distance=1.5, **RED_BALL)]
    assert cortex.run(1.0).control.mode == pfc.APPROACH
    cortex.objects = [dict(bearing=0.3, distance=0.8, **RED_BALL)]
    assert cortex.run(3.0, motor=2).status.state == pfc.S_REACHED


def test_without_spikes_there_are_none_to_tell():
    cortex, heard = Cortex(AnnPrefrontalCortex), []
    cortex.host.listen("brain/spikes", heard.append)
    cortex.objects = [dict(bearing=0.3, distance=1.5, **RED_BALL)]
    cortex.ask().run(0.5)
    assert heard == []
