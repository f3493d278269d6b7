# SPDX-License-Identifier: Apache-2.0
"""The robot's description: the URDF against the figures of robot.py and the room, tf against MuJoCo's kinematics."""

import json
import math
import xml.etree.ElementTree as ElementTree

import mujoco
import numpy as np
import pytest

from brain_runtime.hosts.local import LocalHost
from brain_sim import description, robot
from brain_sim.camera_region import Camera
from brain_sim.mjcf import room_xml
from brain_sim.room import generate_room
from brain_sim.world import World
from brain_wire.messages import make, time_seconds


def text(value: str):
    return make("std_msgs/msg/String", data=value)


def twist(v: float, w: float):
    message = make("geometry_msgs/msg/TwistStamped")
    message.twist.linear.x, message.twist.angular.z = v, w
    return message


def start(prefix: str = "", listen: tuple[str, ...] = ()):
    """A host with world and camera, and what comes on some topics."""
    host = LocalHost({"world": World(), "camera": Camera()},
                     parameters={name: {"frame_prefix": prefix} for name in ("world", "camera")})
    heard = {topic: [] for topic in listen}
    for topic in listen:
        host.listen(topic, heard[topic].append)
    host.advance(0.1)
    return host, heard


def drive(host, v: float, w: float, seconds: float) -> None:
    for _ in range(round(seconds / 0.1)):
        host.publish("cmd_vel", twist(v, w))
        host.advance(0.1)


@pytest.fixture(scope="module")
def model():
    """The URDF as MuJoCo reads it, with all of its links."""
    keep = '<mujoco><compiler fusestatic="false" discardvisual="false"/></mujoco></robot>'
    return mujoco.MjModel.from_xml_string(description.urdf().replace("</robot>", keep))


def matrix(transform) -> np.ndarray:
    """4 x 4 matrix of a TransformStamped."""
    t, q = transform.transform.translation, transform.transform.rotation
    turned = np.empty(9)
    mujoco.mju_quat2Mat(turned, np.array([q.w, q.x, q.y, q.z]))
    result = np.eye(4)
    result[:3, :3], result[:3, 3] = turned.reshape(3, 3), (t.x, t.y, t.z)
    return result


def test_the_urdf_has_the_measures_of_the_robot_and_of_the_room(model):
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    room = generate_room("train", 1)
    base = mujoco.MjModel.from_xml_string(room_xml(room)).geom("base")
    place = {name: data.body(name).xpos for name in (j.child for j in description.JOINTS)}
    chassis = next(g for g in range(model.ngeom) if model.geom_bodyid[g] == model.body("chassis").id)
    assert model.geom_size[chassis] == pytest.approx(base.size)
    assert place["chassis"] == pytest.approx(base.pos)
    assert place["camera_link"] == pytest.approx((robot.CAMERA_FORWARD, 0, robot.CAMERA_HEIGHT))
    assert place["lidar"] == pytest.approx((0, 0, robot.LIDAR_HEIGHT))
    assert place["left_wheel"][1] == -place["right_wheel"][1] > 0
    assert place["left_wheel"][2] == description.WHEEL_RADIUS   # it stands on the floor
    assert sum(model.body_mass) == pytest.approx(robot.BASE_MASS)


def test_optical_axes_are_those_of_rep_103(model):
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    axes = data.body("camera_optical_frame").xmat.reshape(3, 3)
    assert axes[:, 0] == pytest.approx((0, -1, 0), abs=1e-9)    # x of the picture: to the right
    assert axes[:, 1] == pytest.approx((0, 0, -1), abs=1e-9)    # y: down
    assert axes[:, 2] == pytest.approx((1, 0, 0), abs=1e-9)     # z: ahead


def test_tf_and_joint_states_are_the_urdfs_at_the_same_angles(model):
    host, heard = start(listen=("tf", "tf_static", "joint_states", "odom", "robot_description"))
    drive(host, 0.3, 0.8, 1.0)
    assert len(heard["tf"]) == len(heard["odom"]) == len(heard["joint_states"]) > 50
    (static,), states = heard["tf_static"], heard["joint_states"][-1]
    assert heard["robot_description"][0].data == description.urdf()
    data = mujoco.MjData(model)
    for name, angle in zip(states.name, states.position, strict=True):
        data.joint(name).qpos[0] = angle
    mujoco.mj_forward(model, data)
    tree = {t.child_frame_id: t for t in [*static.transforms, *heard["tf"][-1].transforms]}
    assert set(tree) == {"base_link", *(j.child for j in description.JOINTS)}
    for joint in description.JOINTS:
        found, at = np.eye(4), joint.child
        while at != "base_link":
            found, at = matrix(tree[at]) @ found, tree[at].header.frame_id
        assert found[:3, 3] == pytest.approx(data.body(joint.child).xpos, abs=1e-9)
        assert found[:3, :3] == pytest.approx(data.body(joint.child).xmat.reshape(3, 3), abs=1e-9)
    for tf, odom in zip(heard["tf"], heard["odom"], strict=True):
        base = tf.transforms[0]
        assert (base.header.frame_id, base.child_frame_id) == ("odom", "base_link") == (
            odom.header.frame_id, odom.child_frame_id)
        assert base.header.stamp == odom.header.stamp
        assert base.transform.translation.x == odom.pose.pose.position.x
        assert base.transform.rotation.z == pytest.approx(odom.pose.pose.orientation.z, abs=1e-12)


def test_wheels_roll_as_far_as_the_base_truly_goes():
    host, heard = start(listen=("joint_states", "sim/ground_truth"))
    before, left, right = heard["sim/ground_truth"][-1], *heard["joint_states"][-1].position
    drive(host, 0.25, 0.0, 1.0)
    drive(host, 0.0, 0.0, 0.5)
    after, states = heard["sim/ground_truth"][-1], heard["joint_states"][-1]
    moved = math.hypot(after.pose.pose.position.x - before.pose.pose.position.x,
                       after.pose.pose.position.y - before.pose.pose.position.y)
    assert moved > 0.15
    rolled = (states.position - np.array([left, right])) * description.WHEEL_RADIUS
    assert rolled == pytest.approx([moved] * 2, rel=1e-3)
    drive(host, 0.0, 1.0, 0.5)
    left_turned, right_turned = heard["joint_states"][-1].position - states.position
    assert left_turned < -0.2 and right_turned == pytest.approx(-left_turned, rel=1e-2)


def test_a_prefix_stands_before_every_frame():
    topics = ("tf", "tf_static", "odom", "scan", "imu", "sim/ground_truth", "camera/image_raw", "camera/camera_info")
    _, heard = start("r1/", topics)
    frames = set()
    for message in [m for messages in heard.values() for m in messages]:
        for one in getattr(message, "transforms", [message]):
            frames |= {one.header.frame_id, *([one.child_frame_id] if hasattr(one, "child_frame_id") else [])}
    links = {e.get("name") for e in ElementTree.fromstring(description.urdf()).iter("link")}
    assert frames == {f"r1/{name}" for name in {*links, "odom", "map"}}


def test_frames_of_the_sensors_are_in_the_urdf():
    _, heard = start(listen=("scan", "imu", "camera/image_raw", "camera/camera_info"))
    links = {e.get("name") for e in ElementTree.fromstring(description.urdf()).iter("link")}
    assert {m.header.frame_id for messages in heard.values() for m in messages} <= links


def test_the_clock_goes_on_when_the_room_changes():
    host, heard = start(listen=("clock",))
    host.advance(0.4)
    host.publish("sim/episode", text(json.dumps({"split": "train", "seed": 3})))
    host.advance(0.5)
    times = np.array([time_seconds(m.clock) for m in heard["clock"]])
    assert np.diff(times) == pytest.approx(np.full(len(times) - 1, 0.01), abs=2e-3)
    assert times[-1] == pytest.approx(host.now, abs=0.02)


def test_what_nobody_hears_is_not_made_and_changes_nothing():
    topics = ("odom", "scan", "imu", "sim/ground_truth", "camera/image_raw")
    quiet, heard = start(listen=topics)
    looked, same = start(listen=(*topics, "tf", "joint_states", "clock"))
    for host in (quiet, looked):
        drive(host, 0.2, 0.5, 1.0)
    assert all(quiet.latest(topic) is None for topic in ("tf", "joint_states", "clock"))
    from brain_wire.messages import encode
    for topic in topics:
        assert [encode(m) for m in heard[topic]] == [encode(m) for m in same[topic]]
