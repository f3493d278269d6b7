# SPDX-License-Identifier: Apache-2.0
"""Place and the prefrontal cortex: maps, memory, decisions, and a lack of input."""
import math

import numpy as np
import pytest

from brain_regions import azimuth, object_memory, room_map
from brain_regions.pfc import PrefrontalCortex, TablePrefrontalCortex
from brain_regions.pfc import control as pfc
from brain_regions.place import Place
from brain_runtime.local_host import LocalHost
from brain_wire import messages

RED_BALL = dict(color=1, shape=1)


def make(name, **fields):
    return messages.make(f"brain_interfaces/msg/{name}", **fields)


def scan_of_box(x, y, yaw, half=3.0):
    """LaserScan from (x, y, yaw) in an empty square room of side 2 * half."""
    angles = -math.pi + np.arange(180) * 2 * math.pi / 180
    direction = np.stack([np.cos(angles + yaw), np.sin(angles + yaw)])
    with np.errstate(divide="ignore"):
        reach = np.where(direction > 0, half - np.array([[x], [y]]), -half - np.array([[x], [y]])) / direction
    return messages.make("sensor_msgs/msg/LaserScan", angle_min=-math.pi, angle_max=math.pi,
                         angle_increment=2 * math.pi / 180, range_min=0.1, range_max=10.0, ranges=np.abs(reach).min(0))


def stamped(message, stamp):
    message.header.stamp = messages.time_message(stamp)
    return message


def odometry(x, y, yaw, stamp=0.0):
    message = stamped(messages.make("nav_msgs/msg/Odometry"), stamp)
    message.pose.pose.position.x, message.pose.pose.position.y = x, y
    message.pose.pose.orientation.z, message.pose.pose.orientation.w = math.sin(yaw / 2), math.cos(yaw / 2)
    return message


def seen(*objects, stamp=0.0):
    return stamped(make("DetectedObjects", source="vision", azimuth_min=-math.pi / 4, azimuth_max=math.pi / 4,
                        objects=[make("DetectedObject", confidence=0.9, **o) for o in objects]), stamp)


# -- directions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("angle", np.linspace(-3.1, 3.1, 23))
def test_a_bump_tells_its_direction(angle):
    assert azimuth.wrap(azimuth.direction(azimuth.bump(angle)) - angle) == pytest.approx(0, abs=0.03)


def test_no_direction_in_silence():
    assert math.isnan(azimuth.direction(np.zeros(36)))


def test_hazard_points_lie_where_the_message_says():
    hazard = np.zeros(36, np.float32)
    hazard[9] = 0.7     # left, 0.3 m from the edge
    points = azimuth.hazard_points(hazard, 0.18)
    assert np.hypot(*points.T) == pytest.approx(0.48) and abs(points[:, 0]).max() < 0.05 and points[:, 1].min() > 0.4


# -- the map -------------------------------------------------------------------------------------------------------


def test_cheapest_way_goes_round_a_wall():
    step = np.full((60, 60), room_map.CELL, np.float32)
    step[10:50, 30] = room_map.FAR
    seeds = np.full_like(step, room_map.FAR)
    seeds[30, 45] = 0
    values = room_map.cost_to_go(seeds, step)
    path = room_map.follow(values, 30, 15, 200)
    assert path[-1] == (30, 45) and all(step[c] < room_map.FAR for c in path)
    direct, round_ = 30 * room_map.CELL, 2 * math.hypot(21, 15) * room_map.CELL
    assert direct < round_ * 0.9 < values[30, 15] < round_ * 1.2


def test_box_sum_counts_neighbors():
    mask = np.random.default_rng(1).random((40, 40)) < 0.3
    expected = sum(mask[r, c] for r in range(3, 10) for c in range(8, 15))
    assert room_map.box_sum(mask, 3)[6, 11] == pytest.approx(expected)


def test_what_a_stranger_feels_is_on_the_map_until_it_looks_through():
    felt = np.zeros((room_map.SIZE, room_map.SIZE), np.float32)
    angles = np.linspace(-math.pi, math.pi, 180, endpoint=False).astype(np.float32)
    hazard = np.zeros(36, np.float32)
    hazard[0] = 0.5     # ahead, 0.5 m from the edge: 0.68 m from the center
    at = tuple(int(v) for v in room_map.cells(0.70, 0.0))

    def feel(hazard, ranges):
        room_map.add_hazard(felt, (0, 0, 0), hazard, 0.18, angles, np.full(180, ranges))

    for _ in range(3):
        feel(hazard, 0.7)
    assert not felt.any()       # the scan shows it too, and better
    for _ in range(3):
        feel(hazard, 4.0)
    assert felt[at] > room_map.SOLID and felt.sum() < 30
    farther = np.zeros(36, np.float32)
    farther[0] = 0.05
    for _ in range(12):
        feel(farther, 4.0)
    assert felt[at] == 0.0


def place_in_room(**parameters):
    place = Place()
    host = LocalHost({"place": place}, parameters={"place": parameters})
    host.advance(0.1)
    return host


def look(host, x, y, yaw, mode=1, **control):
    host.publish("pfc/control", make("Control", mode=mode, **control))
    host.publish("vision/objects", seen(stamp=host.now))
    host.publish("odom", odometry(x, y, yaw, host.now))
    offered = {}
    host.listen("sensor/features", lambda m: offered.__setitem__(m.source, m))
    host.publish("scan", scan_of_box(x, y, yaw))
    host.advance(0.1)
    return offered


def test_place_offers_what_turning_would_show_until_it_was_looked_at():
    host = place_in_room()
    view = look(host, 0, 0, 0)["place/view"].novelty
    assert view[0] < 0.05 and view[18] == 1.0
    for yaw in np.arange(0, 2 * math.pi, 0.5):
        view = look(host, 0, 0, yaw)["place/view"].novelty
    assert view.sum() < 1.0


def test_place_offers_no_frontier_in_a_room_that_was_seen():
    host = place_in_room()
    for _ in range(2):
        for yaw in np.arange(0, 2 * math.pi, 0.4):
            for _ in range(3):
                offered = look(host, 0, 0, yaw)
    assert not offered["place/frontier"].novelty.any()


def test_place_routes_to_a_target():
    host = place_in_room(plan_every=1)
    for _ in range(3):
        offered = look(host, 0, 0, 0, mode=2, bearing=1.0, distance=2.0)
    assert azimuth.direction(offered["place/route"].novelty) == pytest.approx(1.0, abs=0.25)


def test_place_routes_round_what_only_a_stranger_feels():
    host = place_in_room(plan_every=1)
    hazard = np.zeros(36, np.float32)
    hazard[[0, 1, 35]] = 0.6
    for _ in range(4):
        host.publish("sensor/features", make("SensorFeatures", source="sonar", confidence=1.0, hazard=hazard))
        offered = look(host, 0, 0, 0, mode=2, bearing=0.0, distance=2.0)
    assert abs(azimuth.direction(offered["place/route"].novelty)) > 0.3


def test_place_forgets_when_it_was_carried_and_keeps_quiet_without_odometry():
    host = place_in_room()
    for yaw in np.arange(0, 2 * math.pi, 0.5):
        look(host, 0, 0, yaw)
    assert look(host, 2.5, 0, 0)["place/view"].novelty.sum() > 5
    host.advance(2.0)
    heard = []
    host.listen("sensor/features", heard.append)
    host.publish("scan", scan_of_box(0, 0, 0))
    assert heard == []


def test_place_survives_nonsense():
    host = place_in_room()
    for bad in (odometry(math.nan, 0, 0), odometry(math.inf, 0, 0)):
        host.publish("odom", bad)
        host.publish("scan", scan_of_box(0, 0, 0))
    host.publish("odom", odometry(0, 0, 0))
    broken = scan_of_box(0, 0, 0)
    broken.ranges = np.full(180, np.nan, np.float32)
    host.publish("scan", broken)
    look(host, 0, 0, 0, mode=2, bearing=math.nan, distance=math.inf)


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


@pytest.mark.parametrize("bad", [dict(color=9, shape=1), dict(color=1, shape=0), dict(bearing=math.nan),
                                 dict(distance=-1.0), dict(confidence=math.nan), dict(confidence=50.0)])
def test_unsound_detections_are_told_apart(bad):
    fields = dict(color=1, shape=1, confidence=0.9, bearing=0.0, distance=2.0)
    assert object_memory.sound(make("DetectedObject", **fields))
    assert not object_memory.sound(make("DetectedObject", **(fields | bad)))


# -- decisions -----------------------------------------------------------------------------------------------------


class Cortex:
    """A prefrontal cortex in lockstep with everything it hears published by hand."""

    def __init__(self, region=PrefrontalCortex, **parameters):
        self.host = LocalHost({"pfc": region("pfc")}, parameters={"pfc": parameters})
        self.objects = []
        self.view = np.zeros(36, np.float32)
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
            self.host.publish("scan", scan_of_box(0, 0, 0))
            self.host.publish("motor/status", make("MotorStatus", goal_id=self.goal, state=motor))
            self.host.publish("sensor/features", make("SensorFeatures", source="place/view", novelty=self.view))
            self.host.publish("sensor/features", make("SensorFeatures", source="place/frontier"))
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
def test_cortex_gives_up_where_nothing_is_left_to_see_after_one_more_look_round(region):
    cortex = Cortex(region).ask().run(3.0)
    assert cortex.status.state == pfc.S_SEARCHING and cortex.control.mode == pfc.SEARCH
    cortex.run(4.0)
    assert cortex.status.state == pfc.S_NOT_FOUND and cortex.control.mode == pfc.IDLE
    assert cortex.status.reason.startswith("I looked everywhere") and abs(cortex.yaw) > 1.4 * math.pi


@pytest.mark.parametrize("region", [PrefrontalCortex, TablePrefrontalCortex])
def test_cortex_gives_up_nothing_while_vision_is_late(region):
    cortex = Cortex(region, patience=5.0).ask().run(3.0)
    cortex.run(20.0, age=0.4)
    assert cortex.status.state == pfc.S_SEARCHING and cortex.control.mode == pfc.SEARCH
    cortex.run(3.0)
    assert cortex.status.state == pfc.S_SEARCHING       # what was seen late does not count
    assert cortex.run(4.0).status.state == pfc.S_NOT_FOUND


@pytest.mark.parametrize("region", [PrefrontalCortex, TablePrefrontalCortex])
@pytest.mark.parametrize("turns, after", [(True, 4.0), (False, 20.5)])
def test_cortex_says_that_its_patience_ran_out_after_one_more_look_round(region, turns, after):
    cortex = Cortex(region, patience=2.0)
    cortex.view[10:26] = 1.0
    cortex.ask().run(2.0, turns=turns)
    cortex.run(after - 1.0, turns=turns)
    assert cortex.status.state == pfc.S_SEARCHING
    cortex.run(2.5, turns=turns)
    assert cortex.status.state == pfc.S_NOT_FOUND
    assert cortex.status.reason == "I ran out of patience after 2 s of search and did not look everywhere"


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
