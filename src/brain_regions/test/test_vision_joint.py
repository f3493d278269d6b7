# SPDX-License-Identifier: Apache-2.0
"""Vision that asks a larger network: what is told when and in which order, whether it is away or lies."""
import json
import math

import numpy as np
import pytest

from brain_regions.vision import Vision, opinions, weights
from brain_regions.vision.asking import LONGEST, Asking, Picture, Rules, doubt
from brain_regions.vision.decode import Found
from brain_regions.vision.joint import JointVision
from brain_regions.vision.network import HEIGHT, WIDTH
from brain_regions.vision.second import SecondVision
from brain_regions.weight_files import WeightsError
from brain_runtime.contract import snapshot
from brain_runtime.hosts.local import LocalHost
from brain_wire.messages import make, time_message, time_seconds

PERIOD = 0.05
HIGH = 0.35     # m, of the camera; answers tell distances in it
BALL = Found(0, 0, 0.9, 0.1, 2.0, 0.2)
BOX = Found(2, 1, 0.8, -0.4, 1.5, 0.3)


class Stage:
    """A joint vision in lockstep, a camera before it, and whatever answers."""

    def __init__(self, **parameters):
        self.vision, self.frame = JointVision("vision"), 0
        self.host = LocalHost({"vision": self.vision}, parameters={"vision": {"doubt": 0.0, "carry": 0.0, "share": 1.0,
                                                                              "most_rate": 100.0, **parameters}})
        self.told, self.asked = [], []
        self.host.listen("vision/objects", lambda m: self.told.append((round(self.host.now, 3), m)))
        self.host.listen("vision/hard", self.asked.append)

    def see(self, count=1, yaw=0.0):
        """Pictures, of patches that move, each with odometry; the stamp of each."""
        stamps = []
        for _ in range(count):
            self.frame += 1
            stamp = time_message(self.frame * PERIOD)
            self.host.publish("odom", odometry(stamp, yaw))
            self.host.publish("camera/image_raw", picture(self.frame, stamp))
            stamps.append((stamp.sec, stamp.nanosec))
            self.host.advance(PERIOD)
        return stamps

    def answer(self, stamp, *objects, **more):
        self.host.publish("vision/second", answer(stamp, *objects, **more))

    @property
    def stamps(self):
        """Of all objects that were told."""
        return [(m.header.stamp.sec, m.header.stamp.nanosec) for _, m in self.told]


def picture(number, stamp):
    data = np.roll(weights.patches(), 2 * number, 1)
    return make("sensor_msgs/msg/Image", header=make("std_msgs/msg/Header", stamp=stamp), height=HEIGHT,
                width=WIDTH, encoding="rgb8", step=3 * WIDTH, data=data.reshape(-1))


def odometry(stamp, yaw):
    message = make("nav_msgs/msg/Odometry", header=make("std_msgs/msg/Header", stamp=stamp))
    message.pose.pose.orientation.z, message.pose.pose.orientation.w = math.sin(yaw / 2), math.cos(yaw / 2)
    return message


def answer(stamp, *objects, **more):
    found = [make("brain_interfaces/msg/DetectedObject", **{
        "color": o.color + 1, "shape": o.shape + 1, "confidence": o.confidence, "bearing": o.bearing,
        "distance": o.distance, "width": o.width, **more}) for o in objects]
    header = make("std_msgs/msg/Header", stamp=make("builtin_interfaces/msg/Time", sec=stamp[0], nanosec=stamp[1]))
    return make("brain_interfaces/msg/DetectedObjects", header=header, objects=found)


def kinds(message):
    return [(o.color - 1, o.shape - 1) for o in message.objects]


def test_a_picture_that_it_is_sure_of_is_told_at_once_as_vision_tells_it():
    stage, plain = Stage(doubt=100.0), LocalHost({"vision": Vision("vision")})
    said = []
    plain.listen("vision/objects", said.append)
    for number in range(1, 6):
        plain.publish("camera/image_raw", picture(number, time_message(number * PERIOD)))
        plain.advance(PERIOD)
    stage.see(5)
    assert not stage.asked and [message for _, message in stage.told] == said
    assert [now for now, _ in stage.told] == [0.0, 0.05, 0.1, 0.15, 0.2]


def test_in_a_picture_of_nothing_it_tells_nothing_and_does_not_fall_silent():
    stage = Stage(doubt=0.5)
    for number in range(1, 4):
        black = make("sensor_msgs/msg/Image", header=make("std_msgs/msg/Header", stamp=time_message(number * PERIOD)),
                     height=64, width=96, encoding="rgb8", step=288, data=np.zeros(64 * 288, np.uint8))
        stage.host.publish("camera/image_raw", black)
        stage.host.advance(PERIOD)
    assert [kinds(message) for _, message in stage.told] == [[], [], []] and not stage.asked


def test_a_hard_picture_is_told_by_the_network_that_was_asked():
    stage = Stage(confidence=1.0)       # its own network tells nothing
    stage.host.join("second", SecondVision("second"), parameters={"confidence": 0.0})
    stamps = stage.see(4)
    assert stage.stamps == stamps and stage.vision.counts["answered"] == 4
    second = SecondVision("second")
    second.configure({"confidence": 0.0})
    for asked, (_, message) in zip(stage.asked, stage.told):
        alone = second._answer(np.asarray(asked.data).reshape(HEIGHT, WIDTH, 3))
        assert len(message.objects) == len(alone.objects) > 0
        for one in alone.objects:
            one.distance *= HIGH
        for told, one in zip(message.objects, sorted(alone.objects, key=lambda o: math.hypot(
                0.15 + o.distance * math.cos(o.bearing), o.distance * math.sin(o.bearing)))):
            assert (told.color, told.shape) == (one.color, one.shape)
            assert (told.confidence, told.distance * math.sin(told.bearing)) == pytest.approx(
                (one.confidence, one.distance * math.sin(one.bearing)), abs=1e-5)
        assert message.origins[0].stamp == message.header.stamp


def test_each_picture_is_answered_as_if_it_were_the_only_one():
    host, said = LocalHost({"second": SecondVision("second")}, parameters={"second": {"confidence": 0.0}}), []
    host.listen("vision/second", said.append)
    for number in (1, 7, 1, 7):
        host.publish("vision/hard", picture(number, time_message(1.0)))
    host.publish("vision/hard", make("sensor_msgs/msg/Image", encoding="rgb8", height=4, width=2**31, step=1))
    assert len(said) == 4 and said[0] == said[2] != said[1] == said[3]


def test_without_an_answer_its_own_is_told_at_the_deadline_and_then_nothing_waits():
    stage, reports = Stage(deadline=0.12, misses=3, probe=0.5), []
    stage.host.listen("vision/asked", reports.append)
    stamps = stage.see(12)
    stage.host.advance(0.2)
    assert stage.stamps == stamps       # each once, in order
    waits = [round(now - PERIOD * k, 3) for k, (now, _) in enumerate(stage.told)]
    assert all(0.12 <= wait <= 0.14 for wait in waits[:3]) and waits[5:] == [0.0] * 7      # it looks at 50 Hz
    assert stage.vision.counts["missed"] == 3 and stage.vision.counts["away"] == 1
    assert len(stage.asked) <= 6        # those before, and a probe every 0.5 s
    stage.host.join("second", SecondVision("second"))
    stage.see(12)
    assert not stage.vision._asking.away and stage.vision.counts["answered"] > 5
    stage.host.kill("second")
    stamps += stage.see(12)
    assert stage.vision._asking.away and stage.vision.counts["away"] == 2
    assert stage.stamps == sorted(stage.stamps)
    last = json.loads(bytes(reports[-1].data))
    assert 1 <= len(reports) <= 3 and last["missed"] >= 3 <= last["pictures"]


def test_an_answer_to_a_later_picture_waits_for_the_earlier_one():
    stage = Stage(deadline=0.2)
    first, second = stage.see(2)
    stage.answer(second, BOX)
    assert not stage.told
    stage.answer(first, BALL)
    assert stage.stamps == [first, second] and [kinds(m) for _, m in stage.told] == [[(0, 0)], [(2, 1)]]


BROKEN = {"a bearing that is none": dict(bearing=math.nan), "behind the camera": dict(bearing=3.0),
          "an endless distance": dict(distance=math.inf), "a color that there is not": dict(color=77),
          "more than sure": dict(confidence=1e30), "a width that is none": dict(width=math.nan)}


def test_what_is_broken_or_late_or_of_another_picture_is_counted_and_nothing_else(caplog):
    stage = Stage(deadline=0.2)
    (stamp,) = stage.see()
    for wrong in BROKEN.values():
        stage.answer(stamp, BALL, **wrong)
    stage.answer((stamp[0], stamp[1] + 1), BALL)
    stage.answer((-5, 0), BALL)
    assert not stage.told and stage.vision.counts["broken"] == len(BROKEN) and stage.vision.counts["late"] == 2
    assert caplog.text.count("numbers that no object has") == 1
    stage.host.advance(0.3)
    assert stage.stamps == [stamp]
    stage.answer(stamp, BALL)           # too late
    stage.answer(stamp, BALL)
    assert stage.stamps == [stamp] and stage.vision.counts["late"] == 4 and stage.vision.counts["answered"] == 0


def test_an_answer_holds_for_the_pictures_after_it_as_the_camera_turns():
    stage = Stage(carry=0.3, turn=3.0, confidence=1.0, deadline=0.2)
    (asked,) = stage.see()
    stage.answer(asked, BALL)
    stage.see(yaw=0.1)
    stage.see(yaw=0.2)
    assert len(stage.asked) == 1 and [kinds(m) for _, m in stage.told] == [[(0, 0)]] * 3
    bearings = [m.objects[0].bearing for _, m in stage.told]
    assert bearings[0] - bearings[1] == pytest.approx(0.1, abs=0.01) and bearings[1] - bearings[2] == pytest.approx(
        0.1, abs=0.01)
    stage.see(6, yaw=0.2)
    assert len(stage.asked) == 2 and stage.vision.counts["carried"] >= 2


@pytest.mark.parametrize("yaw", [0.0, 0.5, -2.0])
def test_what_a_turned_camera_sees_is_told_from_the_base(yaw):
    stage = Stage(carry=0.3, turn=3.0, confidence=1.0, deadline=0.2, camera_yaw=yaw, camera_x=0.3)
    for turned in (0.0, 0.3):       # what is carried turns about the camera where it is
        (asked,) = stage.see(yaw=turned)
        if turned == 0.0:
            stage.answer(asked, BALL)
    place = 0.3 + HIGH * BALL.distance * np.exp(1j * (BALL.bearing + yaw))
    (first, second) = [message for _, message in stage.told]
    for message, turned in ((first, 0.0), (second, 0.3)):
        (ball,) = message.objects
        assert ball.distance * np.exp(1j * ball.bearing) == pytest.approx(place * np.exp(-1j * turned), abs=0.02)
        assert (message.azimuth_min + message.azimuth_max) / 2 == pytest.approx(yaw)
        assert message.azimuth_min < yaw < message.azimuth_max


def test_what_waits_is_lost_with_the_process_and_all_else_goes_on(tmp_path):
    stage = Stage(deadline=0.2)
    stamps = stage.see(3)
    path, left = tmp_path / "vision.safetensors", stage.host.kill("vision")
    snapshot.write(path, stage.vision, left.state)
    stage.vision = JointVision("vision")
    stage.vision.configure({})
    state, _ = snapshot.restore(path, stage.vision)
    stage.host.join("vision", stage.vision, state, parameters={"doubt": 100.0})
    restored = stage.host.stepper("vision")
    stage.answer(stamps[2], BALL)       # to who has asked
    after = stage.see(2)
    assert stage.stamps == after and stage.vision.counts["late"] == 1 and restored.state["frames"] == 5


def test_every_picture_leaves_once_in_order_and_in_time_whatever_is_answered():
    rng = np.random.default_rng(3)
    for trial in range(40):
        rules = Rules(share=float(rng.choice([0.1, 0.5, 1.0])), rate=100.0, deadline=float(rng.choice([0.0, 0.1, 0.5])),
                      carry=float(rng.choice([0.0, 0.3])), misses=int(rng.integers(1, 4)), probe=0.4)
        asking, came, left, asked = Asking(rules), [], [], 0
        for _ in range(300):
            asking.now += float(rng.choice([0.0, 0.01, 0.05]))
            if rng.random() < 0.6:
                came.append((len(came), 0))
                asked += asking.take(Picture(came[-1], [BALL], (0.0, 0.0, float(rng.random()))), rng.random() < 0.8)
            if rng.random() < 0.4 and came:
                asking.hear(came[-1 - int(rng.integers(min(len(came), 9)))], None if rng.random() < 0.2 else [BOX])
            for picture in asking.leave():
                left.append(picture.stamp)
                assert asking.now - picture.taken <= rules.deadline + 0.05 + 1e-9
            assert asking.waiting <= LONGEST + 1
        asking.now += 1.0
        assert left + [picture.stamp for picture in asking.leave()] == came, trial
        assert asking.counts["asked"] == asked <= rules.share * len(came) + 5


def test_what_is_lost_is_asked_again_and_who_may_not_ask_never_does():
    here = (0.0, 0.0, 0.0)
    for answered in (True, False):
        asking, asked = Asking(Rules(share=1.0, rate=100.0, carry=1.0, deadline=0.1, misses=100)), 0
        for number in range(20):
            asking.now = 0.05 * number
            asks = asking.take(Picture((number, 0), [], here), True)
            asked += asks
            if asks and answered:
                asking.hear((number, 0), [BALL])
            asking.leave()
        assert asked == (1 if answered else 7)      # as soon as a deadline has passed
    never = Asking(Rules(share=0.0))
    assert not any(never.take(Picture((number, 0), [], here), True) for number in range(100))


def test_doubt_counts_the_objects_that_may_be_wrong():
    assert doubt([]) == 0.0
    assert doubt([BALL._replace(confidence=c) for c in (1.0, 0.5, 0.1)]) == pytest.approx(0.6)


def test_an_opinion_is_carried_without_what_left_the_picture():
    half, here, turned = math.pi / 4, (0.0, 0.0, 0.0), (0.0, 0.0, 0.5)
    assert [one.bearing for one in opinions.carried([BALL, BOX], [], here, here, half)] == pytest.approx([0.1, -0.4])
    (seen,) = opinions.carried([BALL, BOX._replace(bearing=-0.7)], [], here, turned, half)
    assert seen.bearing == pytest.approx(-0.4) and seen.distance == pytest.approx(2.0)
    new = BOX._replace(bearing=0.6)     # in what has come into the picture, where the opinion can say nothing
    assert opinions.carried([], [new, BALL], here, turned, half) == [new]
    assert opinions.carried([BALL], [], here, (1.0, 0.0, 0.0), half)[0].distance < 1.02


def test_only_weights_of_some_vision_are_taken(tmp_path):
    with pytest.raises(WeightsError, match="is missing|are missing"):
        weights.factor(tmp_path / "none.safetensors")
    torn = tmp_path / "torn.safetensors"
    torn.write_bytes(weights.SHIPPED.read_bytes()[:5000])
    with pytest.raises(WeightsError, match="torn"):
        weights.factor(torn)
    with pytest.raises(WeightsError, match="holds no vision"):
        weights.factor(weights.SHIPPED.parents[2] / "motor" / "weights" / "motor.safetensors")
    assert weights.factor(weights.SHIPPED) == 1


def test_stamps_are_told_by_the_camera_even_when_they_go_back():
    stage = Stage(deadline=0.1)
    stage.see(2)
    stage.frame = 0
    stage.see(2)
    stage.host.advance(0.3)
    assert [time_seconds(m.header.stamp) for _, m in stage.told] == pytest.approx([0.05, 0.1, 0.05, 0.1])


HERE, HALF = (0.0, 0.0, 0.0), 0.5


def test_what_a_network_sees_in_one_picture_and_not_in_the_next_is_half_as_sure():
    one = opinions.together([BALL], [], HERE, HERE, HALF)
    assert [o.confidence for o in one] == pytest.approx([0.45])
    (both,) = opinions.together([BALL], [BALL._replace(confidence=0.5)], HERE, HERE, HALF)
    assert both.confidence == pytest.approx(0.7)
    assert [o.confidence for o in opinions.together([], [BALL], HERE, HERE, HALF)] == pytest.approx([0.45])
    found = [BALL]
    for _ in range(5):
        found = opinions.together(found, [], HERE, HERE, HALF)
    assert found == []      # and is let go of


def test_opinions_are_put_together_where_the_objects_are_now_and_only_of_what_both_pictures_show():
    left = (0.0, 0.0, 0.5)      # the camera has turned by half a radian: what was at 0.1 is at -0.4 now
    (ball,) = opinions.together([BALL], [BALL._replace(bearing=-0.38)], HERE, left, HALF)
    assert (ball.bearing, ball.confidence) == (-0.38, pytest.approx(0.9))      # the place is the newer picture's
    assert opinions.together([BALL], [], HERE, (0.0, 0.0, 0.9), HALF) == []     # it is out of sight
    new = BOX._replace(bearing=0.3)         # at 0.8 of the earlier camera, which could not see it
    assert [o.confidence for o in opinions.together([], [new], HERE, left, HALF)] == [0.8]
    near = opinions.together([BALL], [BALL._replace(bearing=-0.3)], HERE, (1.0, 0.0, 0.0), HALF)
    assert [o.confidence for o in near] == pytest.approx([0.45, 0.45])      # a metre on it is at 0.2: this is another


def test_confidences_of_answers_are_scaled_so_that_each_network_tells_from_one_half_on():
    for threshold in (0.05, 0.5, 0.8, 1.0):
        at, below, above = opinions.scaled([BALL._replace(confidence=c) for c in (
            threshold, threshold - 0.01, min(1.0, threshold + 0.1))], threshold)
        assert at.confidence == pytest.approx(1.0 if threshold == 1.0 else 0.5)
        assert below.confidence < 0.5 <= above.confidence <= 1.0
    assert opinions.scaled([BALL._replace(confidence=1.3)], 0.7)[0].confidence == 1.0


def test_an_object_that_one_answer_misses_is_told_on_and_one_that_nobody_else_saw_is_not():
    asking = Asking(Rules(share=1.0, rate=100.0, carry=1.0, turn=0.01), half=HALF)
    told = []
    for number, found in enumerate(([BALL], [BALL], [], [BALL, BOX], [BALL])):
        asking.now = 0.5 * number
        pose = (0.0, 0.0, 0.02 * (number % 2))
        assert asking.take(Picture((number, 0), [], pose), True)
        asking.hear((number, 0), found)
        told.append({(o.color, o.shape): round(o.confidence, 3) for o in asking.leave()[0].answer.found})
    ball = [one[BALL.color, BALL.shape] for one in told]
    assert ball == pytest.approx([0.9, 0.9, 0.45, 0.675, 0.788], abs=1e-3)
    assert told[3][BOX.color, BOX.shape] == pytest.approx(0.4) and told[4][BOX.color, BOX.shape] == pytest.approx(0.2)


def test_opinions_that_are_far_apart_or_without_a_place_are_not_put_together():
    for pose, later in ((HERE, 2.6), (None, 0.5)):
        asking = Asking(Rules(share=1.0, rate=100.0, carry=1.0, turn=0.01), half=HALF)
        for number, found in enumerate(([BALL], [])):
            asking.now = later * number
            assert asking.take(Picture((number, 0), [], pose and (0.0, 0.0, 0.1 * number)), True)
            asking.hear((number, 0), found)
            (picture,) = asking.leave()
        assert picture.answer.found == []


def test_what_is_only_nearly_seen_is_in_an_answer_and_is_not_told():
    stage = Stage(confidence=1.0)
    (stamp,) = stage.see(1)
    stage.answer(stamp, BALL, BOX._replace(confidence=0.3))
    assert [kinds(m) for _, m in stage.told] == [[(0, 0)]]
