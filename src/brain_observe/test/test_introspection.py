# SPDX-License-Identifier: Apache-2.0
"""Introspection on the lockstep host: what it shows of what it hears, and that it rests while nobody looks."""
import math

import numpy as np
import pytest

from brain_observe.introspection import Introspection, markers, picture, ring, words
from brain_observe.introspection.region import ACTIONS, CLASSES, PATH_POINTS
from brain_regions import spike_trains
from brain_regions.motor import Motor
from brain_regions.pfc import PrefrontalCortex, decision, memory, region
from brain_regions.vision import Vision
from brain_runtime.contract.images import Lens
from brain_runtime.contract.optics import Mount
from brain_runtime.hosts.local import LocalHost
from brain_wire.messages import encode, make, time_message

RED, BALL, BOX = 1, 1, 2
LENS = Lens(48.0, 96, 64, 48.0, 32.0)
POPULATIONS = [p.rate for cls in (Vision, PrefrontalCortex, Motor) for p in cls.populations if p.told]
ALL = [port.topic for port in Introspection.would_publish({"populations": POPULATIONS}).values()]


def detected(color=RED, shape=BALL, bearing=0.0, distance=2.0, confidence=0.9, width=math.nan):
    return make("brain_interfaces/msg/DetectedObject", color=color, shape=shape, bearing=bearing, distance=distance,
                confidence=confidence, width=width)


def seen(*objects, stamp=0.0, frame="base_link", source="vision"):
    message = make("brain_interfaces/msg/DetectedObjects", source=source, objects=list(objects), azimuth_min=-0.78,
                   azimuth_max=0.78)
    message.header.frame_id, message.header.stamp = frame, time_message(stamp)
    return message


def image(value=40, stamp=0.0, encoding="rgb8"):
    message = make("sensor_msgs/msg/Image", height=64, width=96, step=288, encoding=encoding,
                   data=np.full(64 * 96 * 3, value, np.uint8))
    message.header.frame_id, message.header.stamp = "camera_optical_frame", time_message(stamp)
    return message


def odometry(x=0.0, y=0.0, yaw=0.0, prefix=""):
    message = make("nav_msgs/msg/Odometry", child_frame_id=f"{prefix}base_link")
    message.header.frame_id = f"{prefix}odom"
    message.pose.pose.position.x, message.pose.pose.position.y = x, y
    message.pose.pose.orientation.z, message.pose.pose.orientation.w = math.sin(yaw / 2), math.cos(yaw / 2)
    return message


def wanting(**fields):
    nothing = {"bearing": math.nan, "distance": math.nan, "heading": math.nan}
    return make("brain_interfaces/msg/Control", **{"goal_id": 1, "mode": 2, "target_color": RED, "target_shape": BALL,
                                                   **nothing, **fields})


def looking(*topics):
    """A host with the introspection region, and what comes on the topics that are looked at."""
    host = LocalHost({"introspection": Introspection()},
                     parameters={"introspection": {"populations": POPULATIONS}})
    heard = {topic: [] for topic in topics}
    for topic in topics:
        host.listen(topic, heard[topic].append)
    return host, heard


def test_it_hears_nothing_while_nobody_looks():
    host, _ = looking()
    for number in range(10):
        host.publish("camera/image_raw", image(stamp=number))
        host.publish("vision/objects", seen(detected(), stamp=number))
        host.advance(0.1)
    stepper = host.stepper("introspection")
    assert stepper.steps <= 6       # by its rate alone: nothing triggers it
    assert all(slot.message is None for slot in stepper.slots.values())
    assert all(host.latest(topic) is None for topic in ALL)
    assert "PIL" not in repr(host.regions["introspection"].__dict__)


def test_every_output_is_on_demand_and_every_input_feeds_some():
    assert all(port.on_demand for port in Introspection.outputs().values())
    assert all(port.feeds and port.device for port in Introspection.inputs().values())


def test_objects_are_drawn_into_the_picture_that_they_were_seen_in():
    host, heard = looking("inside/image")
    for stamp, value in ((1.0, 10), (2.0, 60), (3.0, 200)):
        host.publish("camera/image_raw", image(value, stamp))
    host.publish("vision/objects", seen(detected(bearing=0.2), stamp=2.0))
    host.advance(0.01)
    (shown,) = heard["inside/image"]
    pixels = shown.data.reshape(shown.height, shown.width, 3)
    assert (shown.width, shown.height, shown.header.stamp.sec) == (384, 256, 2)
    assert (pixels[5, 5] == 60).all() and shown.header.frame_id == "camera_optical_frame"
    red = (pixels == [int(255 * v) for v in words.paint(RED)]).all(2)
    assert red.any() and np.nonzero(red)[1].mean() < 192     # on the left


def test_labels_of_one_place_stand_above_or_below_each_other():
    from PIL import Image, ImageDraw

    labels = []
    draw = ImageDraw.Draw(Image.new("RGB", (300, 200)))
    for _ in range(6):
        picture._label(draw, (300, 200), (40.0, 50.0), "green ball 67 %, 1.5 m", (0, 255, 0), labels)
    tops = sorted(top for _, _, top in labels)
    assert len(tops) == 6 and min(np.diff(tops)) >= picture.TEXT_SIZE and 0 <= tops[0] and tops[-1] < 200
    for _ in range(30):     # more than there is room for
        picture._label(draw, (300, 200), (40.0, 50.0), "one too many", (0, 255, 0), labels)


def test_without_vision_the_picture_is_shown_as_it_is():
    host, heard = looking("inside/image")
    host.publish("camera/image_raw", image(90, 1.0))
    host.advance(1.0)
    (shown,) = heard["inside/image"]     # once
    assert (shown.data.reshape(shown.height, shown.width, 3)[:200] == 90).all()


def test_a_picture_that_cannot_be_read_is_said_once(caplog):
    host, heard = looking("inside/image", "inside/markers")
    for stamp in range(3):
        host.publish("camera/image_raw", image(stamp=stamp, encoding="mono16"))
        host.publish("vision/objects", seen(stamp=stamp))
        host.advance(0.3)
    assert not heard["inside/image"] and heard["inside/markers"]
    assert caplog.text.count("encoding 'mono16' is not one of rgb8") == 1


def test_a_frame_is_where_the_object_is():
    eye = picture.Eye(Mount(0.15), LENS)
    left, top, right, bottom = picture.frame_of(detected(bearing=0.0, distance=2.15, width=2 * math.atan(0.1)), eye)
    assert (left + right) / 2 == pytest.approx(48.0) and right - left == pytest.approx(48 * 0.4 / 2.0)
    assert bottom == pytest.approx(32.0 + 48 * 0.35 / 2.0) and bottom - top == pytest.approx(right - left)
    _, top, _, bottom = picture.frame_of(detected(shape=BOX, distance=2.15, width=2 * math.atan(0.1)), eye)
    assert 32.0 + 48 * 0.35 / 2.0 < bottom < 32.0 + 48 * 0.35 / 1.8     # its near side stands on the floor
    assert top == pytest.approx(32.0 + 48 * (0.35 - 0.28) / 2.0)
    aside = picture.frame_of(detected(bearing=math.radians(20), distance=2.0), eye)
    assert (aside[0] + aside[2]) / 2 < 35       # what is to the left of base_link is on the left
    assert picture.frame_of(detected(bearing=3.0), eye) is None
    # A camera that looks to the left sees in the middle what stands there, and to its right what is ahead.
    left = picture.Eye(Mount(yaw=0.5), LENS)
    for bearing, column, along in ((0.5, 48.0, 2.0), (0.0, 48.0 + 48 * math.tan(0.5), 2.0 * math.cos(0.5))):
        frame = picture.frame_of(detected(bearing=bearing, distance=2.0, width=0.1), left)
        assert sum(frame[::2]) / 2 == pytest.approx(column, abs=0.5)
        assert sum(frame[1::2]) / 2 == pytest.approx(32.0 + 48 * (0.35 - 2.0 * math.tan(0.05)) / along)
    assert picture.frame_of(detected(distance=math.nan), eye) is None


def test_a_frame_is_drawn_where_a_leaning_camera_shows_the_object():
    ball = detected(bearing=0.2, distance=2.0, width=0.2)
    level, down = (picture.frame_of(ball, picture.Eye(Mount(0.15, pitch=pitch), LENS)) for pitch in (0.0, 0.2))
    assert sum(down[1::2]) / 2 == pytest.approx(sum(level[1::2]) / 2 - 48 * math.tan(0.2), abs=1.5)     # higher up
    left, top, right, bottom = picture.frame_of(ball, picture.Eye(Mount(0.15, roll=math.pi), LENS))
    assert (96 - right, 64 - bottom, 96 - left, 64 - top) == pytest.approx(level)
    assert picture.frame_of(detected(bearing=0.0), picture.Eye(Mount(pitch=math.pi), LENS)) is None


def test_a_frame_is_drawn_by_the_mounting_that_frames_tell():
    class Vision(Introspection):
        def _eye(self, *about):
            self.eye = super()._eye(*about)
            return self.eye

    host = LocalHost({"introspection": Vision("introspection")})
    host.listen("inside/image", lambda message: None)
    mounted = make("geometry_msgs/msg/TransformStamped", child_frame_id="eye")
    mounted.header.frame_id, (at, turned) = "base_link", (mounted.transform.translation, mounted.transform.rotation)
    at.x, at.y, at.z = 0.2, 0.1, 0.5
    (s, c), (k, r) = ((math.sin(angle / 2), math.cos(angle / 2)) for angle in (0.1, 0.3))     # pitch, then yaw
    turned.x, turned.y, turned.z, turned.w = -s * k, s * r, c * k, c * r
    host.publish("tf_static", make("tf2_msgs/msg/TFMessage", transforms=[mounted]))
    shown = image(90, 1.0)
    shown.header.frame_id = "eye"
    host.publish("camera/image_raw", shown)
    host.advance(1.0)
    assert vars(host.regions["introspection"].eye.mount) == pytest.approx(vars(Mount(0.2, 0.1, 0.5, 0.3, 0.1)))


def test_markers_are_where_and_what_is_remembered():
    host, heard = looking("inside/markers")
    host.advance(0.1)
    hazard, novelty = np.zeros(36, np.float32), np.zeros(36, np.float32)
    hazard[9], novelty[0] = 1.0, 0.5
    host.publish("pfc/memory", seen(detected(distance=2.0, confidence=0.5), detected(3, BOX, 1.0, 3.0),
                                    frame="r1/base_link", source="pfc"))
    host.publish("pfc/control", wanting(bearing=0.0, distance=2.0, heading=0.1, avoid_bearing=[1.0],
                                        avoid_distance=[3.0]))
    host.publish("sensor/features", make("brain_interfaces/msg/SensorFeatures", source="s", hazard=hazard,
                                         novelty=novelty))
    host.publish("goal/status", make("brain_interfaces/msg/GoalStatus", text="go", state=2))
    host.advance(0.2)
    found = {(m.ns, m.id): m for m in heard["inside/markers"][-1].markers}
    ball, box, name = found["remembered", 0], found["remembered", 1], found["names", 0]
    assert (ball.type, box.type, name.text) == (markers.SPHERE, markers.CUBE, "red ball 50 %")
    assert ball.header.frame_id == "r1/base_link" and ball.pose.position.x == 2.0
    assert box.pose.position.y == pytest.approx(3 * math.sin(1.0)) and ball.color.a < box.color.a
    assert found["target", 0].pose.position.x == 2.0
    assert found["avoided", 0].pose.position.x == pytest.approx(3 * math.cos(1))
    assert found["goal", 0].text == '"go": approaching'
    left, ahead = found["hazard", 0].points, found["novelty", 0].points
    assert (left[1].x, left[1].y) == pytest.approx((0, markers.INNER + markers.LENGTH), abs=1e-6)
    assert ahead[1].x == pytest.approx(markers.INNER + 0.5 * markers.LENGTH)
    assert all(m.lifetime.sec == 1 and m.color.a > 0 for m in found.values())
    host.advance(1.5)    # nothing comes any more: what is old is not shown as if it were so
    assert heard["inside/markers"][-1].markers == []


def test_path_and_goal_are_in_the_odometrys_frame():
    host, heard = looking("inside/path", "inside/goal")
    for number in range(30):
        host.publish("odom", odometry(x=0.1 * number, yaw=math.pi / 2, prefix="r1/"))
        host.publish("pfc/control", wanting(bearing=0.0, distance=2.0))
        host.advance(0.2)
    path, goal = heard["inside/path"][-1], heard["inside/goal"][-1]
    assert path.header.frame_id == goal.header.frame_id == "r1/odom"
    assert [p.pose.position.x for p in path.poses][:2] == pytest.approx([0.0, 0.2]) or len(path.poses) > 10
    assert len(heard["inside/path"]) <= 7 and len(heard["inside/goal"]) >= 29
    assert (goal.pose.position.x, goal.pose.position.y) == pytest.approx((2.9, 2.0))
    host.publish("pfc/control", wanting(mode=1, heading=-math.pi / 2))
    host.advance(0.2)
    assert heard["inside/goal"][-1].pose.position.x == pytest.approx(3.9)
    host.publish("odom", odometry(x=50.0))
    host.advance(1.2)
    assert len(heard["inside/path"][-1].poses) == 1     # it was carried


def test_the_path_does_not_grow_for_ever():
    host, heard = looking("inside/path")
    for number in range(PATH_POINTS + 100):
        host.publish("odom", odometry(x=0.15 * number))
        host.advance(0.2)
    host.advance(1.0)
    assert PATH_POINTS / 2 < len(heard["inside/path"][-1].poses) <= PATH_POINTS
    assert heard["inside/path"][-1].poses[0].pose.position.x == 0.0


def test_numbers_to_plot():
    host, heard = looking("inside/rates/edges", "inside/rates/wide", "inside/spikes", "inside/synops", "inside/latency")
    host.advance(0.1)
    host.publish("brain/spikes", make("brain_interfaces/msg/SpikeTrain", population="vision/edges", size=100,
                                      bin_width=0.005, total=50, neuron=[1, 2], bin=[0, 9]))
    host.publish("brain/spikes", make("brain_interfaces/msg/SpikeTrain", population="ears/hair", size=10, total=5))
    for name, spikes, synops in (("/a", 10.0, 100.0), ("/b", 5.0, 50.0)):
        host.publish("brain/heartbeat", make("brain_interfaces/msg/Heartbeat", name=name, spikes_per_second=spikes,
                                             synops_per_second=synops))
    host.publish("brain/trace", make("brain_interfaces/msg/Trace", latency=0.016))
    host.advance(0.2)
    assert [m.data for m in heard["inside/rates/edges"]] == pytest.approx([50 / 100 / 0.05])    # Hz a neuron; told once
    assert heard["inside/rates/wide"] == []
    assert heard["inside/spikes"][-1].data == 15.0 and heard["inside/synops"][-1].data == 150.0
    assert heard["inside/latency"][-1].data == pytest.approx(0.016)


def test_words_and_channels_are_those_of_pfc():
    assert (ACTIONS, CLASSES) == (decision.ACTIONS, memory.CLASSES)


def test_without_populations_no_spikes_are_heard():
    alone = Introspection()
    alone.configure({})
    assert "spike_trains" not in alone.hears() and not any("rates/" in name for name in alone.publishes())


def test_populations_that_the_graph_tells_of_are_shown_too():
    host = LocalHost({"introspection": Introspection()},
                     parameters={"introspection": {"populations": ["ears/hair", "ears/nerve"]}})
    heard = []
    host.listen("inside/rates/ears/hair", heard.append)
    for population, total in (("ears/hair", 5), ("ears/nerve", 7)):
        host.publish("brain/spikes", make("brain_interfaces/msg/SpikeTrain", population=population, size=10,
                                          bin_width=0.005, total=total, neuron=[1], bin=[9]))
    host.advance(0.3)
    assert [m.data for m in heard] == pytest.approx([5 / 10 / 0.05])


def brain_that_saw(listen, spikes=None, asked=False):
    """A pfc that has seen a red ball 2 m ahead, with introspection; what it controls, as bytes, and its memory.

    Args:
        listen: whether somebody hears its memory.
        spikes: who hears its spikes.
        asked: whether it was told to go there.
    """
    host = LocalHost({"pfc": PrefrontalCortex(), "introspection": Introspection()},
                     parameters={"pfc": {"base_frame": "r1/base_link"},
                                 "introspection": {"populations": POPULATIONS}})
    controls, memories = [], []
    host.listen("pfc/control", lambda m: controls.append(encode(m)))
    if listen:
        host.listen("pfc/memory", memories.append)
    if spikes is not None:
        host.listen("brain/spikes", spikes)
    if asked:
        host.publish("lang/features", make("brain_interfaces/msg/LanguageFeatures", goal_id=7, verb=1, target_color=RED,
                                           target_shape=BALL, understood=True, text="go to the red ball"))
    for number in range(20):
        host.publish("odom", odometry(prefix="r1/"))
        host.publish("vision/objects", seen(detected(), stamp=host.now))
        host.advance(0.05)
    return host, controls, memories


def test_pfc_tells_what_it_remembers_where_somebody_asks():
    quiet, controls, _ = brain_that_saw(listen=False)
    host, same, memories = brain_that_saw(listen=True)
    assert controls == same and quiet.latest("pfc/memory") is None and not quiet.regions["pfc"].wanted
    (ball,) = memories[-1].objects
    assert (ball.color, ball.shape) == (RED, BALL) and ball.confidence > 0.8
    assert (ball.bearing, ball.distance) == pytest.approx((0.0, 2.0), abs=0.02) and math.isnan(ball.width)
    assert memories[-1].header.frame_id == host.latest("pfc/control").header.frame_id == "r1/base_link"
    shown = []
    quiet.listen("inside/markers", shown.append)    # introspection asks pfc in its turn
    for _ in range(4):
        quiet.publish("odom", odometry(prefix="r1/"))
        quiet.advance(0.1)
    assert quiet.regions["pfc"].wanted == {"memory", "belief"}
    assert "red ball" in " ".join(m.text for m in shown[-1].markers if m.ns == "names")


def test_pfc_tells_its_spikes_in_turn_where_somebody_listens_and_decides_the_same():
    trains = []
    quiet, controls, _ = brain_that_saw(listen=False, asked=True)
    host, same, _ = brain_that_saw(listen=False, spikes=trains.append, asked=True)
    assert controls == same and len({bytes(c) for c in controls}) > 3
    assert quiet.latest("brain/spikes") is None
    for name, value in quiet.stepper("pfc").state.items():
        assert np.array_equal(value, host.stepper("pfc").state[name]), name
    told = [t.population for t in trains]
    assert set(told) == {f"pfc/{name}" for name in region.POPULATIONS}
    assert all(a != b for a, b in zip(told, told[1:]))
    for train in trains:
        assert train.size == region.POPULATIONS[train.population.removeprefix("pfc/")].size
        assert len(train.neuron) == len(train.bin) == min(train.total, spike_trains.MOST)
        assert not len(train.neuron) or (train.neuron.max() < train.size and train.bin.max() < 10)
    fired = {name: sum(t.total for t in trains if t.population == name) for name in set(told)}
    assert min(fired[f"pfc/{n}"] for n in ("memory", "target", "candidates", "commitment", "actions", "heading")) > 0
    assert fired["pfc/avoid"] == 0      # nothing is to be avoided
    actions = {int(n) // 8 for t in trains[-16:] if t.population == "pfc/actions" for n in t.neuron}
    assert actions == {3}               # approach


def test_the_memory_and_the_choice_are_shown_as_pfc_has_them():
    host, _, _ = brain_that_saw(listen=False, asked=True)
    heard = {topic: [] for topic in ("inside/memory", "inside/markers", "inside/entropy", "inside/alpha",
                                     "inside/choice/approach", "inside/choice/search", "inside/rates/pfc/commitment")}
    for topic, found in heard.items():
        host.listen(topic, found.append)
    for _ in range(20):
        host.publish("odom", odometry(prefix="r1/"))
        host.publish("vision/objects", seen(detected(), stamp=host.now))
        host.advance(0.05)
    image = heard["inside/memory"][-1]
    pixels = image.data.reshape(image.height, image.width, 3).astype(int)
    red = (pixels[..., 0] > 150) & (pixels[..., 1:].max(-1) < 90)
    rows, columns = np.nonzero(red)
    right, up = ring.spot(0.0, 2.0)     # ahead is up
    assert image.encoding == "rgb8" and image.header.frame_id == "r1/base_link"
    assert np.median(columns) == pytest.approx(180 * (1 + right), abs=6)
    assert np.median(rows) == pytest.approx(180 * (1 - up), abs=15)
    assert heard["inside/entropy"][-1].data < 0.6 * math.log(36) and heard["inside/alpha"][-1].data > 0.3
    assert heard["inside/choice/approach"][-1].data > 0.2 > heard["inside/choice/search"][-1].data
    assert max(m.data for m in heard["inside/rates/pfc/commitment"]) > 0
    (lines,) = [m for m in heard["inside/markers"][-1].markers if m.ns == "choice"]
    ends = [(p.x, p.y) for p in lines.points[1::2]]
    longest = max(ends, key=lambda p: math.hypot(*p))
    assert abs(math.atan2(longest[1], longest[0])) < 0.1


@pytest.mark.parametrize("fields", [{"height": 3}, {"width": 35}, {"data": np.zeros(10, np.uint8)}])
def test_a_sheet_of_another_shape_is_not_shown(fields):
    host, heard = looking("inside/memory", "inside/markers")
    whole = {"height": 14, "width": 36, "encoding": "8UC13", "data": np.zeros(14 * 36 * 13, np.uint8)}
    host.publish("pfc/sheet", make("sensor_msgs/msg/Image", **{**whole, **fields}))
    host.advance(0.5)
    assert heard["inside/memory"] == [] and heard["inside/markers"]
    host.publish("pfc/sheet", make("sensor_msgs/msg/Image", **whole))
    host.advance(0.5)
    assert heard["inside/memory"]


def test_what_lies_to_the_left_is_drawn_on_the_left():
    from brain_regions.pfc import polar

    evidence = np.zeros((13, 36, 14), np.float32)
    evidence[8] = polar.bump(math.pi / 2, 1.0)      # a blue cylinder
    image = ring.drawn(evidence, 0.5, [detected(3, 3, math.pi / 2, 1.0)], 200).astype(int)
    blue = (image[..., 2] > 150) & (image[..., 0] < 90)
    rows, columns = np.nonzero(blue)
    right, up = ring.spot(math.pi / 2, 1.0)
    assert right < -0.3 and abs(up) < 1e-6
    assert np.median(columns) == pytest.approx(100 * (1 + right), abs=6)
    assert np.median(rows) == pytest.approx(100, abs=6)
