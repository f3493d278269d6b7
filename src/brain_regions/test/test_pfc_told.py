# SPDX-License-Identifier: Apache-2.0
"""What the prefrontal cortex tells other programs: the target as a pose, and what it remembers as ``vision_msgs``."""
import math

import pytest

from brain_regions import sensed
from brain_regions.pfc import PrefrontalCortex, detections
from brain_runtime.hosts.local import LocalHost
from brain_wire import definitions, messages

AT = 3.0, -2.0, 0.7     # x, y, yaw of the robot when it looks (m, m, rad)
BALL = 4.5, -1.0        # in odometry's frame
FILES = {       # as vision_msgs 4 has them
    "ObjectHypothesis": "string class_id\nfloat64 score", "BoundingBox3D": "geometry_msgs/Pose center\n"
    "geometry_msgs/Vector3 size", "ObjectHypothesisWithPose": "ObjectHypothesis hypothesis\n"
    "geometry_msgs/PoseWithCovariance pose", "Detection3D": "std_msgs/Header header\n"
    "ObjectHypothesisWithPose[] results\nBoundingBox3D bbox\nstring id",
    "Detection3DArray": "std_msgs/Header header\nDetection3D[] detections"}


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Has ``vision_msgs`` installed with some files, or others."""
    def install(files=FILES, package="vision_msgs"):
        monkeypatch.setattr(detections, "PACKAGE", package)
        folder = tmp_path / "share" / package
        (folder / "msg").mkdir(parents=True)
        (folder / "package.xml").write_text("<package/>")
        for name, text in files.items():
            (folder / "msg" / f"{name}.msg").write_text(text)
        monkeypatch.setenv("AMENT_PREFIX_PATH", str(tmp_path))
        monkeypatch.setattr(definitions, "_folders", dict(definitions._folders))
        detections.port.cache_clear()
    yield install
    detections.port.cache_clear()


def seen_from(x, y, yaw):
    dx, dy = BALL[0] - x, BALL[1] - y
    return math.atan2(dy, dx) - yaw, math.hypot(dx, dy)


def look(*topics, turning=0.3):
    """A cortex that is asked for the ball, looks at it and turns; the messages of some topics."""
    host = LocalHost({"pfc": PrefrontalCortex("pfc")})
    heard = {topic: [] for topic in topics}
    for topic in topics:
        host.listen(topic, heard[topic].append)
    host.publish("lang/features", messages.make("brain_interfaces/msg/LanguageFeatures", goal_id=1, understood=True,
                                                verb=1, text="x", target_color=1, target_shape=1))
    x, y, yaw = AT
    for k in range(80):
        yaw = AT[2] + turning * 0.05 * k
        stamp = 50.0 + 0.05 * k
        odom = sensed.odometry(x, y, yaw, stamp)
        odom.header.frame_id = "r1/odom"
        host.publish("odom", odom)
        bearing, distance = seen_from(x, y, yaw)
        if not k % 2:
            host.publish("vision/objects", sensed.seen(
                {"color": 1, "shape": 1, "bearing": bearing, "distance": distance, "width": 0.2}, stamp=stamp))
        host.advance(0.05)
    return heard


def test_the_target_is_a_pose_of_the_moment_of_odometry():
    heard = look("pfc/target")
    found = heard["pfc/target"][-1]
    assert found.header.frame_id == "r1/odom" and found.header.stamp.sec in (53, 54)
    assert (found.pose.position.x, found.pose.position.y) == pytest.approx(BALL, abs=0.15)
    q = found.pose.orientation
    assert 2 * math.atan2(q.z, q.w) == pytest.approx(math.atan2(BALL[1] - AT[1], BALL[0] - AT[0]), abs=0.1)
    assert not any(math.isnan(m.pose.position.x) for m in heard["pfc/target"])


def test_without_a_target_no_pose_is_told():
    host, heard = LocalHost({"pfc": PrefrontalCortex("pfc")}), []
    host.listen("pfc/target", heard.append)
    for k in range(20):
        host.publish("odom", sensed.odometry(0.0, 0.0, 0.0, 5.0 + k * 0.05))
        host.advance(0.05)
    assert not heard


def test_what_is_remembered_is_told_as_vision_msgs_where_they_are_installed(installed):
    installed()
    region = PrefrontalCortex("pfc")
    region.configure({})
    assert region.publishes()["objects_known"].topic == "pfc/objects" and region.would_publish({}).keys() >= {
        "objects_known"}
    assert messages.type_hash(detections.TYPE).startswith("RIHS01_")
    heard = look("pfc/objects")
    found = messages.decode(messages.encode(heard["pfc/objects"][-1]), detections.TYPE)
    assert found.header.frame_id == "r1/odom" and len(found.detections) == 1
    one = found.detections[0]
    assert one.results[0].hypothesis.class_id == "red ball" and 0.0 < one.results[0].hypothesis.score <= 1.0
    at = one.bbox.center.position
    assert (at.x, at.y) == pytest.approx(BALL, abs=0.15) and at.z == pytest.approx(one.bbox.size.z / 2)
    assert one.results[0].pose.pose.position.x == at.x


@pytest.mark.parametrize("package", ["older", "broken", "empty", "none"])
def test_other_versions_and_none_make_no_port(package, installed):
    texts = {"older": "string id\nfloat64 score", "broken": "what is this"}
    if package == "none":
        detections.port.cache_clear()
    else:
        installed({"ObjectHypothesis": texts[package]} if package in texts else {}, f"{package}_vision_msgs")
    region = PrefrontalCortex("pfc")
    region.configure({})
    assert "objects_known" not in region.publishes() and "objects_known" not in region.would_publish({})
    assert "memory" in region.publishes()
