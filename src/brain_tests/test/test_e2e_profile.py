# SPDX-License-Identifier: Apache-2.0
"""A whole brain on a robot whose profile names its topics, and whose base hears Twist."""
import pytest

from brain_runtime import FEATURE, messages
from brain_tests.driven import running
from brain_wire.qos import SENSOR

pytestmark = pytest.mark.slow

PROFILE = "topics: {cmd_vel: base/cmd_vel, odom: base/odom, scan: front/scan}\nshared: {stamped: false}\n"


@pytest.fixture
def brain(tmp_path):
    profile = tmp_path / "other.yaml"
    profile.write_text(PROFILE)
    yield from running(tmp_path, "--robot", str(profile))


def moves(twist):
    return abs(twist.linear.x) + abs(twist.angular.z) > 0.1


def test_a_robot_with_names_of_its_own_and_a_twist(brain):
    commands = brain.node.subscription("base/cmd_vel", "geometry_msgs/msg/Twist", FEATURE)
    odometry = brain.node.subscription("base/odom", "nav_msgs/msg/Odometry", SENSOR)
    brain._goal.publish(messages.make("std_msgs/msg/String", data=f"find the {brain.absent}"))
    assert any(moves(m) for m in commands.messages(timeout=60.0))
    assert any(moves(m.twist.twist) for m in odometry.messages(timeout=60.0))     # the base heard them
