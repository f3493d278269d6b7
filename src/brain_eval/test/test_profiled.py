# SPDX-License-Identifier: Apache-2.0
"""Robots as their profiles say, in lockstep: each drives to the ball, with its sensors where the profile has them."""
import math

import pytest

from brain_eval import profiled
from brain_eval.profiled import body_of, drive
from brain_runtime.contract.frames import Frames
from brain_runtime.graph.robots import RobotError, load_robot, robots_directory, shipped

VISION = "conventional"     # or "brain": the graph's own vision
GENERIC = {"sim", "diff_drive_controller"}      # profiles of no robot that can be bought
ROBOTS = sorted(set(shipped()) - GENERIC)


@pytest.mark.parametrize("name", ROBOTS)
def test_each_robot_drives_to_the_ball(name):
    driven = drive(name, VISION)
    assert driven.well, driven
    assert 0.05 < driven.fastest <= load_robot(name).shared["max_linear"] + 0.01


def test_a_drive_is_the_same_each_time():
    assert drive("rosbot", VISION) == drive("rosbot", VISION)
    assert drive("rosbot", VISION, seed=1) != drive("rosbot", VISION, seed=2)


@pytest.mark.parametrize("name", ["turtlebot4", "leo_rover", "jackal"])
def test_topics_rates_and_mounts_are_the_profiles(name):
    robot, heard = load_robot(name), {}
    body = body_of(robot)
    topics = {ours: robot.topics.get(ours, ours) for ours in ("scan", "odom", "camera/image_raw", "camera/camera_info",
                                                              "cmd_vel")}

    def look(host):
        for ours, theirs in topics.items():
            heard[ours] = []
            host.listen(theirs, heard[ours].append)
        heard["tf_static"] = []
        host.listen("tf_static", heard["tf_static"].append, latched=True)

    drive(name, VISION, seconds=2.0, look=look)
    begun = 0.5 + 2.0
    kit = robot.kit
    for ours, rate in (("scan", kit["lidar"]["rate"]), ("odom", kit["base"]["odom_rate"]),
                       ("camera/image_raw", kit["camera"]["rate"])):
        assert begun * rate * 0.8 <= len(heard[ours]) <= begun * rate * 1.2 + 1, ours
    scan, frames = heard["scan"][-1], Frames()
    assert scan.header.frame_id == kit["lidar"]["frame"] and len(scan.ranges) == kit["lidar"]["beams"]
    assert scan.range_max == pytest.approx(kit["lidar"]["farthest"])
    for message in heard["tf_static"]:
        frames.take(message)
    lidar = frames.pose(scan.header.frame_id, "base_link")
    assert lidar.at == pytest.approx([robot.shared["lidar_x"], 0.0, kit["lidar"]["height"]])
    assert math.atan2(lidar.turned[1, 0], lidar.turned[0, 0]) == pytest.approx(robot.shared.get("lidar_yaw", 0.0))
    image, info = heard["camera/image_raw"][-1], heard["camera/camera_info"][-1]
    mount = frames.mount(image.header.frame_id, "base_link")
    assert (mount.x, mount.height, mount.pitch) == pytest.approx(
        (robot.shared["camera_x"], robot.shared["camera_height"], robot.shared.get("camera_pitch", 0.0)))
    assert 2 * math.atan(info.width / 2 / info.k[0]) == pytest.approx(body["field_of_view"], abs=0.01)
    assert {hasattr(message, "twist") for message in heard["cmd_vel"]} == {robot.shared["stamped"]}


def test_the_lidar_is_where_the_profile_has_it():
    """What it sees is as far as geometry says: the robot stands in the middle, the ball's place is known."""
    seen = []
    drive("rosbot", VISION, seconds=0.2, look=lambda host: host.listen("scan", seen.append))
    scan, room = seen[0], profiled.hall(body_of(load_robot("rosbot"))["lidar_height"])
    shared = load_robot("rosbot").shared
    angle, ball = room.start[2] - shared["lidar_yaw"], room.objects[0]
    x, y = ball.x - shared["lidar_x"], ball.y
    bearing = (math.atan2(y, x) + angle + math.pi) % math.tau - math.pi
    beam = round((bearing - scan.angle_min) / scan.angle_increment)
    slice_ = math.sqrt(ball.radius ** 2 - (ball.radius - load_robot("rosbot").kit["lidar"]["height"]) ** 2)
    assert scan.ranges[beam] == pytest.approx(math.hypot(x, y) - slice_, abs=0.06)


def test_every_profile_of_a_robot_names_its_kit_and_its_middleware():
    for name in ROBOTS:
        robot = load_robot(name)
        assert set(robot.kit) == {"lidar", "camera", "base"} and robot.kit["lidar"]["model"] and robot.kit["camera"][
            "model"], name
        assert robot.middleware["rmw"].startswith("rmw_") and isinstance(robot.middleware["zenoh"], bool), name
        assert robot.middleware["bridge"], name
    assert {"turtlebot3_burger", "turtlebot3_waffle_pi", "turtlebot4", "husky", "jackal", "rosbot", "leo_rover"} \
        <= set(ROBOTS)


def test_a_bare_create_3_is_refused_by_name_with_the_remedy():
    with pytest.raises(RobotError, match="create3 .* is refused: a bare Create 3 has no camera and no lidar.*Put a "
                                         "lidar"):
        load_robot("create3")
    assert "create3" not in shipped() and (robots_directory() / "create3.yaml").is_file()
