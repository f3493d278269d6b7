# SPDX-License-Identifier: Apache-2.0
"""Place: maps, what it offers, and a lack of input; with what all regions take of maps and objects."""
import math

import numpy as np
import pytest

from brain_regions import azimuth, room_map
from brain_regions.place import Place
from brain_regions.sensed import make, odometry, scan_of_box, seen
from brain_runtime.contract import sights
from brain_runtime.hosts.local import LocalHost

RED_BALL = dict(color=1, shape=1)


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


def test_what_a_plugin_sensor_feels_is_on_the_map_until_it_looks_through():
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
    host.listen("place/headings", lambda m: offered.__setitem__("ways", azimuth.sound_values(m.value, m.heading)))
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
    assert not np.isfinite(offered["ways"][0]).any()


def turned_round(host, x=0.0, y=0.0, **control):
    for yaw in np.arange(0, 2 * math.pi, 0.4):
        for _ in range(3):
            offered = look(host, x, y, yaw, **control)
    return offered


def test_each_heading_is_worth_what_is_left_to_see_that_way():
    host = place_in_room(plan_every=1, look_range=6.0)
    for yaw in np.arange(3.0, -0.5, -0.2):      # not to the right, from -143 to -66 degrees
        look(host, 0, 0, yaw)
    values, headings = look(host, 0, 0, 0.0)["ways"]
    assert np.isfinite(values).all()            # the robot may set out in every direction
    assert (np.abs(azimuth.wrap(headings - azimuth.CENTERS)) <= azimuth.WIDTH / 2 + 1e-3).all()
    best = float(headings[values.argmax()])
    assert -2.6 < best < -1.0
    there = np.abs(azimuth.wrap(azimuth.CENTERS - best))
    assert values[there < 0.2].min() > values[there > 2.5].max() + 0.5      # m: back, and round to it


def test_ways_are_told_from_where_the_robot_is_and_how_it_stands():
    host = place_in_room(look_range=1.0, plan_every=50)
    turned_round(host)
    values = look(host, 0, 0, 0.0)["ways"][0]
    turned = look(host, 0, 0, math.radians(40))["ways"]
    assert np.argmax(np.nan_to_num(turned[0], neginf=-99)) == (np.argmax(np.nan_to_num(values, neginf=-99)) - 4) % 36


def headed_for(host, scans):
    """Best headings (rad), scan by scan until there is none, for a robot that stands and looks the same way."""
    turned_round(host, goal_id=1)
    heard = []
    for _ in range(scans):
        values, headings = look(host, 0, 0, 0.0, goal_id=1, speed=1.0, heading=heard[-1] if heard else 0.0)["ways"]
        if not np.isfinite(values).any():
            break
        heard.append(float(headings[values.argmax()]))
    return np.array(heard)


def test_what_is_headed_for_in_vain_counts_no_more_until_another_goal_is_told():
    host = place_in_room(look_range=1.0, plan_every=1, persistence=2.0)
    heard = headed_for(host, 400)
    assert 20 < len(heard) < 400 and np.ptp(heard) > 2.0     # one after the other
    slow = headed_for(place_in_room(look_range=1.0, plan_every=1, persistence=2.0, max_linear=0.25), 50)
    for found, seconds in ((heard, 2.0), (slow, 4.0)):      # a slower robot gets more time
        assert 0.1 * np.argmax(np.abs(found - found[0]) > 0.2) == pytest.approx(seconds, abs=0.21)
    look(host, 0, 0, 0.0, goal_id=2)
    assert np.isfinite(look(host, 0, 0, 0.0, goal_id=2)["ways"][0]).any()


def test_what_was_looked_at_long_ago_is_looked_at_again_for_a_new_goal():
    host = place_in_room(plan_every=1, forget=30.0)
    turned_round(host, goal_id=1)
    for _ in range(310):
        offered = look(host, 0, 0, 0.0, goal_id=1)
    assert not np.isfinite(offered["ways"][0]).any()        # for this goal all was seen
    for _ in range(2):
        offered = look(host, 0, 0, 0.0, goal_id=2)
    view = offered["place/view"].novelty
    assert view[0] < 0.05 and view[18] == 1.0               # behind it was not looked for half a minute


def test_place_routes_to_a_target():
    host = place_in_room(plan_every=1)
    for _ in range(3):
        offered = look(host, 0, 0, 0, mode=2, bearing=1.0, distance=2.0)
    assert azimuth.direction(offered["place/route"].novelty) == pytest.approx(1.0, abs=0.25)


def test_place_routes_round_what_only_a_plugin_sensor_feels():
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


# -- objects ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [dict(color=9, shape=1), dict(color=0, shape=1), dict(color=1, shape=9),
                                 dict(bearing=math.nan), dict(distance=-1.0), dict(confidence=math.nan),
                                 dict(confidence=50.0)])
def test_unsound_detections_are_told_apart(bad):
    fields = dict(color=1, shape=1, confidence=0.9, bearing=0.0, distance=2.0)
    assert sights.sound(make("DetectedObject", **fields))
    assert not sights.sound(make("DetectedObject", **(fields | bad)))
