# SPDX-License-Identifier: Apache-2.0
"""What of a scan is the robot itself: proposed after a full turn, written on a person's word, then not free floor."""
import math
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
import yaml

from brain_observe.doctor import own_outline, scan
from brain_observe.doctor.heard import Came, Heard
from brain_regions import beams
from brain_regions.body import Body
from brain_regions.scan_watch import ScanWatch
from brain_runtime.contract import outline
from brain_runtime.graph.robots import Robot, RobotError, load_robot, robots_directory
from brain_tests.fake_robot import FakeRobot
from brain_wire import messages, open_session
from brain_wire.parameters import check_parameters
from brain_wire.router import Router, free_port

RADIUS = 0.20
POSTS = (2.6, 2.7, 0.15), (-2.0, -1.9, 0.21)      # rad, rad, m: one well inside, one a little beyond the outline


def message(yaw, posts=POSTS, count=360, x=0.0):
    """A scan in a room that is no circle, with posts that turn with the robot, from a lidar that is x m ahead."""
    angles = -math.pi + math.tau / count * np.arange(count)
    ranges = 3.0 + np.sin(3 * (angles + yaw))
    for begin, end, reach in posts:
        ends = np.linspace(begin, end, 200)
        at = np.stack([reach * np.cos(ends) - x, reach * np.sin(ends)])
        seen = np.rint((np.arctan2(at[1], at[0]) + math.pi) / (math.tau / count)).astype(int) % count
        ranges[seen] = np.hypot(*at)
    return messages.make("sensor_msgs/msg/LaserScan", angle_min=-math.pi, angle_max=math.pi, range_min=0.05,
                         angle_increment=math.tau / count, range_max=8.0, ranges=ranges)


def odometry(yaw):
    found = messages.make("nav_msgs/msg/Odometry")
    found.pose.pose.orientation.z, found.pose.pose.orientation.w = math.sin(yaw / 2), math.cos(yaw / 2)
    return found


def heard(turn, path=None, **more):
    """What was heard of a robot that turned so far (rad)."""
    shared = {"radius": RADIUS, **more.pop("shared", {})}
    robot = load_robot(str(path)) if path else Robot("mine", robots_directory() / "mine.yaml", shared=shared)
    found = Heard(robot)
    for k, yaw in enumerate(np.linspace(0.0, turn, 60)):
        for name, one in (("scan", message(yaw, **more)), ("odom", odometry(yaw))):
            found.came[name].append(Came(k * 0.1, k * 0.1, None, 0.0, 0, 0, one))
    return found


@pytest.mark.parametrize(("count", "x"), [(360, 0.0), (180, 0.0), (720, 0.0), (360, 0.05), (36, 0.0)])
def test_parts_are_proposed_after_a_full_turn_and_hide_nothing_else(count, x):
    told = heard(math.tau, count=count, x=x, shared={"lidar_x": x})
    own = own_outline.proposed(told)
    assert len(own) == 6 and all(reach <= RADIUS + outline.MARGIN for reach in own[2::3])
    body = Body(radius=RADIUS, lidar_x=x, scan_own=tuple(own))
    seen = beams.read(message(1.0, count=count, x=x), body)
    assert seen.hits()[1].min() > 1.5
    wide = sum(end - begin for begin, end, _ in POSTS) + 4 * (0.07 + math.tau / count)
    assert np.count_nonzero(seen.kinds == beams.OWN) <= wide * count / math.tau + 4
    assert np.count_nonzero(seen.kinds == beams.HIT) >= count - wide * count / math.tau - 4


@pytest.mark.parametrize("turn", [0.0, 2.0, 5.0])
def test_before_a_full_turn_only_what_is_well_inside_is_told_and_nothing_is_asked(turn):
    inside, beyond, turned = scan.own_parts(heard(turn))
    assert len(inside) == 3 and not beyond and turned == pytest.approx(turn)
    assert "turn it once around" in own_outline.proposed(heard(turn))


def test_what_is_left_out_already_stays_and_is_not_told_again():
    told = heard(math.tau, shared={"scan_own": [2.5, 2.8, 0.2]})
    assert scan.own_parts(told)[0] == []
    own = own_outline.proposed(told)
    assert own[:3] == [2.5, 2.8, 0.2] and len(own) == 6
    assert "nothing of the robot" in own_outline.proposed(heard(math.tau, posts=()))


def test_a_wall_beside_a_robot_that_stands_or_turns_is_none_of_it():
    """A wall 1 cm beyond the outline is there in all scans of a robot that stands, and goes round one that turns."""
    def wall(yaw):
        return [(2.0 - yaw, 2.5 - yaw, RADIUS + 0.01)]
    for turn in (0.0, math.tau):
        told = heard(turn)
        for k, yaw in enumerate(np.linspace(0.0, turn, 60)):
            told.came["scan"][k] = told.came["scan"][k]._replace(message=message(yaw, wall(yaw)))
        assert not any(scan.own_parts(told)[:2])


# -- what is left out is unknown --------------------------------------------------------------------------------------

def test_behind_the_robots_own_parts_nothing_is_free_for_any_reader():
    """A post that swallows beams (no return) tells of no free floor behind it, and a wide one stops the robot."""
    swallowed = message(0.0, posts=())
    angles = -math.pi + math.tau / 360 * np.arange(360)
    behind = np.abs(angles) < 0.3
    swallowed.ranges[behind] = np.inf
    free = beams.read(swallowed, Body(radius=RADIUS))
    assert np.isinf(free.rays()[1]).any()
    own = Body(radius=RADIUS, scan_own=(-0.31, 0.31, 0.2))
    seen = beams.read(swallowed, own)
    assert (seen.kinds[behind] == beams.OWN).all() and not seen.telling[behind].any()
    assert np.isfinite(seen.rays()[1]).all() and not (np.abs(seen.rays()[0]) < 0.29).any()
    for body, ahead in ((Body(radius=RADIUS), ""), (own, "tells nothing of the way ahead")):
        watch = ScanWatch()
        for k in range(5):
            watch.take(swallowed if k % 2 else message(0.0, posts=[(-0.3, 0.3, 0.15)]) if body is own else swallowed,
                       (0.0, 0.0, 0.0), 0.1 * k, body)
        assert ahead in watch.ways[0] if ahead else not watch.ways[0]
        assert not watch.ways[1]


def test_a_narrow_post_does_not_stop_the_robot():
    watch = ScanWatch()
    for k in range(5):
        watch.take(message(0.01 * k, posts=[(-0.05, 0.05, 0.15)]), (0.0, 0.0, 0.01 * k), 0.1 * k,
                   Body(radius=RADIUS, scan_own=(-0.08, 0.08, 0.2)))
    assert watch.ways == ("", "") and not watch.outline


# -- the profile ------------------------------------------------------------------------------------------------------

TEXTS = {
    "no scan": "shared: {radius: 0.2}   # mine\n", "flow": "scan: {zero_is_far: true}   # LDS\nshared: {radius: 0.2}\n",
    "lines": "scan:\n  # LDS\n  zero_is_far: true\n  empty_is_free: false\nshared:\n  radius: 0.2\n",
    "an own already": "scan:\n  own: [1.0, 2.0, 0.1]    # post\n  zero_is_far: true\n", "empty": "scan: {}\n",
    "nothing": "description: mine\nscan:\nshared: {radius: 0.2}\n", "own in a line": "scan: {own: [1.0, 2.0, 0.1]}\n",
    "own in lines": "scan:\n  own:\n    - 1.0\n    - 2.0\n    - 0.1\nshared:\n  radius: 0.2\n",
    "no last newline": "shared:\n  radius: 0.2"}


@pytest.mark.parametrize("text", TEXTS.values(), ids=list(TEXTS))
def test_a_profile_keeps_all_else_that_it_says(text):
    own = [-0.5, 0.25, 0.2]
    made = own_outline.with_own(text, own)
    before, after = yaml.safe_load(text), yaml.safe_load(made)
    assert after.pop("scan") == {**(before.pop("scan", None) or {}), "own": own} and after == before
    for comment in ("# mine", "# LDS", "# post"):
        assert (comment in made) == (comment in text)


@pytest.mark.parametrize("text", ["- 1\n", "scan: 3\n", "", "{scan: {}}\n", "scan: &a {x: 1}\nother: *a\n", "a: [\n"])
def test_a_text_that_is_none_is_left_alone(text, tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    told = Heard(Robot("mine", path, shared={"radius": RADIUS}))
    with pytest.raises(RobotError, match="by hand"):
        own_outline.write(told, [0.0, 1.0, 0.2], path)
    assert path.read_text(encoding="utf-8") == text and [p.name for p in tmp_path.iterdir()] == ["mine.yaml"]


def test_a_profile_of_the_package_is_copied_and_none_is_written_over(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    told = Heard(load_robot("turtlebot3_burger"))
    path = own_outline.file_of(told)
    assert path == tmp_path / "turtlebot3_burger.yaml"
    own_outline.write(told, [0.0, 1.0, 0.2], path)
    written = load_robot(str(path))
    assert written.shared["scan_own"] == [0.0, 1.0, 0.2] and written.shared["scan_zero_is_far"]
    check_parameters("brainstem", Body, {k: v for k, v in written.shared.items() if k in Body.__dataclass_fields__})
    with pytest.raises(RobotError, match="is there already"):
        own_outline.write(told, [0.0, 1.0, 0.2], path)


@pytest.mark.parametrize(("answer", "written"), [("yes\n", True), ("\n", False), ("y\n", False)])
def test_the_verb_asks_and_writes_on_yes(answer, written, tmp_path):
    """A robot on a real wire that turns round, with a post in its scan."""
    path = tmp_path / "mine.yaml"
    shutil.copy(robots_directory() / "sim.yaml", path)

    def post(one):
        one.ranges = one.ranges.copy()
        one.ranges[20:25] = 0.12
    endpoint = f"tcp/127.0.0.1:{free_port()}"
    environment = {**os.environ, "ROS_DOMAIN_ID": "78"}
    with Router([endpoint]), open_session(endpoint, patience=10) as session, FakeRobot(
            session, load_robot(str(path)), 78, changes={"scan": [post]}, turning=2.5):
        done = subprocess.run([sys.executable, "-m", "brain", "doctor", "--robot", str(path), "--own", "--seconds", "5",
                               "--router", endpoint], env=environment, input=answer, capture_output=True, text=True,
                              timeout=240)
    assert "Write yes" in done.stderr, done.stderr
    own = load_robot(str(path)).shared.get("scan_own")
    assert (own is not None) == written, done.stderr
    if written:
        assert len(own) == 3 and "# m, of the circle" in path.read_text(encoding="utf-8")
    else:
        assert "nothing is written" in done.stderr and done.returncode == 1
