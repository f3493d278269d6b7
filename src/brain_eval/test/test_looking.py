# SPDX-License-Identifier: Apache-2.0
"""RViz's and rqt's configuration against the graph: topics, types and QoS; and what `brain look` writes."""
import ast
import json
import re
from pathlib import Path

import numpy as np
import pytest
import yaml
from PIL import Image

from brain_observe.look import remembered, save
from brain_runtime.graph.graphs import config_directory
from brain_runtime.contract.ports import Out
from brain_runtime.graph.resolve import resolve
from brain_wire.messages import has_field, make
from brain_wire.qos import QoS, incompatibility

# What each display of RViz subscribes to.
TYPES = {"RobotModel": "std_msgs/msg/String", "LaserScan": "sensor_msgs/msg/LaserScan",
         "Image": "sensor_msgs/msg/Image", "MarkerArray": "visualization_msgs/msg/MarkerArray",
         "Path": "nav_msgs/msg/Path", "Pose": "geometry_msgs/msg/PoseStamped"}
PAGE = Path(__file__).resolve().parents[3] / "docs" / "looking-inside.md"
WITHOUT_TOPIC = {"Grid", "TF"}


@pytest.fixture(scope="module")
def published() -> dict[str, Out]:
    """Ports of the brain and its simulated robot, by topic."""
    regions = resolve("brain", "arena", robot=None, host="local").regions
    return {port.topic: port for region in regions
            for port in region.load().would_publish(region.parameters).values()}


@pytest.fixture(scope="module")
def rviz() -> dict:
    return yaml.safe_load((config_directory() / "brain.rviz").read_text(encoding="utf-8"))["Visualization Manager"]


def test_what_rviz_shows_is_published_and_would_be_delivered(rviz, published):
    shown = {}
    for display in rviz["Displays"]:
        kind = display["Class"].removeprefix("rviz_default_plugins/")
        topic = display.get("Topic") or display.get("Description Topic")
        assert (topic is None) == (kind in WITHOUT_TOPIC), display["Name"]
        if topic is None:
            continue
        port = published[topic["Value"]]    # relative: a namespace moves it
        assert port.type == TYPES[kind], display["Name"]
        assert topic["History Policy"] == "Keep Last"
        asked = QoS(reliable={"Reliable": True, "Best Effort": False}[topic["Reliability Policy"]],
                    latched={"Transient Local": True, "Volatile": False}[topic["Durability Policy"]],
                    depth=topic["Depth"])
        assert incompatibility(port.qos, asked) is None, display["Name"]
        assert asked.reliable == port.qos.reliable and asked.latched == port.qos.latched, display["Name"]
        shown[kind] = topic["Value"]
    assert set(shown) == set(TYPES)


def test_rviz_stands_in_the_odometrys_frame_and_finds_tf(rviz, published):
    assert rviz["Global Options"]["Fixed Frame"] == "odom"
    assert published["tf"].type == published["tf_static"].type == "tf2_msgs/msg/TFMessage"
    # As tf2_ros listens: both reliable, tf_static latched.
    assert incompatibility(published["tf"].qos, QoS(reliable=True, latched=False, depth=100)) is None
    assert incompatibility(published["tf_static"].qos, QoS(reliable=True, latched=True, depth=100)) is None


def test_what_rqt_plots_is_published_as_numbers(published):
    content = json.loads((config_directory() / "brain.perspective").read_text(encoding="utf-8"))
    manager = content["groups"]["pluginmanager"]
    running = ast.literal_eval(manager["keys"]["running-plugins"]["repr"])
    names = {f"plugin__{plugin.replace('/', '__')}__{n}" for plugin, numbers in running.items() for n in numbers}
    assert names == set(manager["groups"])
    plotted = set()
    for name in names:
        keys = manager["groups"][name]["groups"]["plugin"]["keys"]
        plotted |= set(ast.literal_eval(keys["topics"]["repr"])) if "Plot" in name else set()
    assert plotted >= {"/inside/spikes/data", "/inside/latency/data"}
    for path in plotted:
        topic, _, field = path.lstrip("/").rpartition("/")
        port = published[topic]
        assert port.type == "std_msgs/msg/Float32" and has_field(port.type, field)
        assert incompatibility(port.qos, QoS(reliable=True, latched=False, depth=10)) is None   # as rqt_plot subscribes


def test_the_page_tells_topics_and_types_as_they_are(published):
    if not PAGE.is_file():
        pytest.skip("docs are not beside an installed package")
    rows = dict(re.findall(r"^\| `([a-z_/]+)` \| `([\w/]+)` \|", PAGE.read_text(encoding="utf-8"), re.M))
    assert rows == {topic: published[topic].type for topic in rows}
    told = {topic for topic, port in published.items() if port.on_demand} | {"robot_description", "tf_static"}
    assert set(rows) == told


def test_what_people_look_at_costs_nothing_unlooked_at(published):
    looked_at = [port for topic, port in published.items() if topic.startswith("inside/")]
    assert len(looked_at) >= 12 and all(port.on_demand for port in looked_at)


def test_a_picture_is_saved_and_memory_told(tmp_path):
    pixels = np.arange(4 * 6 * 3, dtype=np.uint8).reshape(4, 6, 3)
    save(make("sensor_msgs/msg/Image", height=4, width=6, encoding="rgb8", step=18, data=pixels.reshape(-1)),
         tmp_path / "seen.png")
    assert (np.asarray(Image.open(tmp_path / "seen.png")) == pixels).all()
    ball = make("brain_interfaces/msg/DetectedObject", color=1, shape=1, bearing=0.5, distance=2.0, confidence=0.9)
    told = remembered(make("brain_interfaces/msg/DetectedObjects", objects=[ball]))
    assert told == "red ball 2.0 m 29 deg left (90 %)"
    assert remembered(make("brain_interfaces/msg/DetectedObjects")) == "no object"


def test_with_the_pages_profile_every_frame_has_the_prefix(tmp_path):
    from brain_eval.episodes import text_message
    from brain_runtime.hosts.local import LocalHost
    from brain_runtime.graph.resolve import resolve

    if not PAGE.is_file():
        pytest.skip("docs are not beside an installed package")
    (tmp_path / "r1.yaml").write_text(re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)[0])
    resolved = resolve("brain", "sim", str(tmp_path / "r1.yaml"))
    regions = resolved.make()
    host = LocalHost(regions, parameters=resolved.parameters())
    frames: dict[str, set[str]] = {}

    def note(topic, message):
        for one in [*getattr(message, "transforms", []), *getattr(message, "markers", []), message]:
            for frame in (getattr(getattr(one, "header", None), "frame_id", ""), getattr(one, "child_frame_id", "")):
                frames.setdefault(topic, set()).update({frame} - {""})
    for region in regions.values():
        for port in region.outputs().values():
            host.listen(port.topic, lambda message, topic=port.topic: note(topic, message))
    host.advance(0.5)
    host.publish("goal/text", text_message("find the red ball"))
    host.advance(1.5)
    framed = {topic for topic, found in frames.items() if found}
    assert {"tf", "tf_static", "odom", "scan", "vision/objects", "pfc/control", "sensor/features", "motor/command",
            "cmd_vel", "camera/image_raw", "inside/image", "inside/markers", "inside/path"} <= framed
    assert {topic: f for topic, f in frames.items() if any(not frame.startswith("r1/") for frame in f)} == {}
