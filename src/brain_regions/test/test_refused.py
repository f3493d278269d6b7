# SPDX-License-Identifier: Apache-2.0
"""Odometry and camera_info that cannot be used: the robot stands, and each region that hears them says why."""
import math

import numpy as np
import pytest

from brain_regions.brainstem import PASSED, REFUSED, Brainstem
from brain_regions.obedience import BLOCKED, DIED
from brain_regions.pfc import PrefrontalCortex
from brain_regions.place import Place
from brain_regions.sensed import make, odometry, scan_of_box, seen, stamped
from brain_regions.vision import Vision
from brain_runtime.hosts.local import LocalHost
from brain_runtime.interfaces import GoalStatus
from brain_wire import messages

FAR = 488 * 1024.0, -4882 * 1024.0      # m: a zone of UTM


def forgotten(yaw, stamp):
    message = odometry(0.0, 0.0, yaw, stamp)
    message.pose.pose.orientation.w = 0.0
    return message


def zeros(yaw, stamp):
    message = odometry(0.0, 0.0, yaw, stamp)
    message.pose.pose.orientation.z = message.pose.pose.orientation.w = 0.0
    return message


def frozen(yaw, stamp):
    message = odometry(0.0, 0.0, 0.0, stamp)
    message.twist.twist.angular.z = 1.0
    return message


def sound(yaw, stamp):
    return odometry(0.0, 0.0, 0.0, stamp)


class Brain:
    """Place, the prefrontal cortex and the brainstem in lockstep, in a room, with odometry by a driver of a test."""

    def __init__(self):
        self.host = LocalHost({"place": Place("place"), "pfc": PrefrontalCortex("pfc"), "brainstem": Brainstem()},
                              parameters={"brainstem": {"critical": ("pfc",)}})
        self.statuses, self.traces, self.beats, self.ways, self.sees = [], [], {}, [], ()
        self.host.listen("goal/status", self.statuses.append)
        self.host.listen("brain/trace", self.traces.append)
        self.host.listen("brain/heartbeat", lambda m: self.beats.__setitem__(m.name.strip("/"), m.reason))
        self.host.listen("place/headings", self.ways.append)
        self.host.publish("lang/features", make("LanguageFeatures", goal_id=1, text="x", understood=True, verb=1,
                                                target_color=3, target_shape=2))

    def run(self, seconds, driver):
        for _ in range(round(seconds * 20)):
            now = self.host.now
            self.host.publish("odom", driver(now, now))
            self.host.publish("scan", stamped(scan_of_box(0, 0, 0), now))
            self.host.publish("vision/objects", seen(*self.sees, stamp=now))
            command = make("MotorCommand")
            command.twist.linear.x = 0.05       # so slow that nobody wonders that odometry stands
            self.host.publish("motor/command", command)
            self.host.advance(0.05)
        return self


@pytest.mark.parametrize("case", [
    (forgotten, "unit quaternion"), (zeros, "all zeros"), (frozen, "turned by 0 degrees")])
def test_odometry_that_is_refused_stands_the_robot_and_every_region_says_why(case):
    driver, words = case
    brain = Brain().run(2.0, sound)
    assert brain.traces[-1].action == PASSED and not any(brain.beats.values())
    assert brain.statuses[-1].state == GoalStatus.STATE_SEARCHING
    brain.run(0.9, driver)
    ways = len(brain.ways)
    brain.run(1.0, driver)
    told = [brain.statuses[-1].reason, brain.traces[-1].reason, *brain.beats.values()]
    assert len(told) == 5 and all(words in reason and "odom is refused" in reason for reason in told), told
    assert brain.statuses[-1].state == GoalStatus.STATE_WAITING and brain.traces[-1].action == REFUSED
    assert brain.host.latest("cmd_vel").twist.linear.x == 0.0 and len(brain.ways) == ways
    assert not any("no fresh odometry" in status.reason for status in brain.statuses)
    brain.run(1.5, sound)
    assert brain.traces[-1].action == REFUSED
    brain.run(1.5, sound)
    assert brain.traces[-1].action == PASSED and not any(brain.beats.values())
    assert brain.statuses[-1].state == GoalStatus.STATE_SEARCHING
    brain.run(1.0, lambda yaw, stamp: forgotten(2.0, stamp))
    for _ in range(20):         # what has gone is missing, however it was before
        brain.host.advance(0.1)
    assert brain.statuses[-1].reason == "no fresh odometry" and not brain.beats["pfc"]


@pytest.mark.parametrize("case", [(Place, "place"), (PrefrontalCortex, "pfc")])
def test_far_from_zero_everything_is_to_the_bit_as_near_it(case):
    """With poses that 64 bits hold exactly in both places."""
    made, name = case
    found = []
    for x0, y0 in ((0.0, 0.0), FAR):
        host = LocalHost({name: made(name)})
        kept = []
        for topic in ("place/headings", "pfc/control", "sensor/features"):
            host.listen(topic, lambda m, kept=kept: kept.append(messages.encode(m)))
        host.publish("lang/features", make("LanguageFeatures", goal_id=1, text="x", understood=True, verb=1,
                                           target_color=3, target_shape=2))
        for k in range(60):
            x, y, yaw = k / 64, k / 128, k * 0.1
            host.publish("pfc/control" if name == "place" else "place/route", make("Control", mode=1))
            host.publish("odom", odometry(x0 + x, y0 + y, yaw, host.now))
            host.publish("vision/objects", seen(dict(color=3, shape=2, bearing=0.3, distance=2.5), stamp=host.now))
            host.publish("scan", stamped(scan_of_box(x, y, yaw), host.now))
            host.advance(0.05)
        state = dict(host.stepper(name).state)
        origin = state.pop("far")
        assert tuple(map(float, origin)) == (x0, y0) and origin.dtype == np.float32
        found.append((kept, {key: np.asarray(value).tobytes() for key, value in state.items()}))
        # kept in the snapshot: a region that goes on from it jumps nowhere
        stepper = host.kill(name)
        again = LocalHost({})
        again.join(name, made(name), {key: np.array(value) for key, value in stepper.state.items()})
        again.publish("odom", odometry(x0 + x, y0 + y, yaw, 1.0))
        again.publish("scan", scan_of_box(x, y, yaw))
        again.advance(0.2)
        assert np.array_equal(again.stepper(name).state["pose"], state["pose"])
    (near, near_state), (far, far_state) = found
    assert len(near) > 30 and near == far and near_state == far_state


@pytest.mark.parametrize("case", [(DIED, True), (BLOCKED, False)])
def test_what_was_seen_by_odometry_that_died_is_forgotten_and_of_a_base_that_stands_it_is_kept(case):
    why, forgotten = case
    brain = Brain()
    brain.sees = [dict(color=3, shape=2, bearing=0.3, distance=2.5)]
    brain.run(1.0, sound)
    place, pfc = (brain.host.stepper(name) for name in ("place", "pfc"))
    assert place.state["solid"].any() and np.abs(pfc.state["trace"]).max() > 0.1
    for _ in range(4):
        brain.host.publish("brain/heartbeat", messages.make("brain_interfaces/msg/Heartbeat", name="/base", reason=why))
        brain.run(0.1, sound)
    assert brain.statuses[-1].reason == why and brain.statuses[-1].state == GoalStatus.STATE_WAITING
    assert place.state["solid"].any() != forgotten and (np.abs(pfc.state["trace"]).max() < 1e-3) == forgotten


def camera_info(width, height, f, cx, cy):
    return messages.make("sensor_msgs/msg/CameraInfo", width=width, height=height, k=[f, 0, cx, 0, f, cy, 0, 0, 1])


@pytest.mark.slow
def test_a_camera_info_or_picture_that_is_refused_is_what_the_goal_waits_for():
    host = LocalHost({"vision": Vision("vision"), "pfc": PrefrontalCortex("pfc")},
                     parameters={"vision": {"camera_confirmed": True}})
    statuses, objects, beats = [], [], {}
    host.listen("goal/status", statuses.append)
    host.listen("vision/objects", objects.append)
    host.listen("brain/heartbeat", lambda m: beats.__setitem__(m.name.strip("/"), m.reason))
    host.publish("lang/features", make("LanguageFeatures", goal_id=1, text="x", understood=True, verb=1,
                                       target_color=3, target_shape=2))
    rng = np.random.default_rng(0)
    sight = np.linspace(200, 60, 64)[:, None, None] + np.zeros((64, 96, 3))
    noise = rng.integers(0, 256, (64, 96, 3), np.uint8)

    def run(seconds, info, encoding="rgb8", pixels=None, turning=0.0):
        objects.clear()
        for k in range(round(seconds * 20)):
            host.publish("odom", odometry(0, 0, turning * k / 20, host.now))
            picture = rng.normal(sight, 2.0).astype(np.uint8) if pixels is None else pixels
            if info is not None:
                host.publish("camera/camera_info", info)
            if encoding:
                host.publish("camera/image_raw", stamped(messages.make(
                    "sensor_msgs/msg/Image", encoding=encoding, height=64, width=96, step=288,
                    data=picture.reshape(-1)), host.now))
            host.advance(0.05)

    contradiction, right = camera_info(1280, 960, 160.0, 160.0, 120.0), camera_info(96, 64, 48.0, 47.5, 31.5)
    run(1.5, contradiction)
    assert not objects and statuses[-1].state == GoalStatus.STATE_WAITING
    for words in ("camera/camera_info is refused", "1280 x 960", "160, 120", "96 x 64"):
        assert words in statuses[-1].reason and words in beats["vision"]
    run(1.5, right)
    assert len(objects) == 30 and not beats["vision"] and statuses[-1].state != GoalStatus.STATE_WAITING
    assert math.isclose(objects[-1].azimuth_max, math.pi / 4, abs_tol=1e-3)
    run(1.5, right, "yuv422")
    assert not objects and "camera/image_raw is refused: encoding 'yuv422'" in statuses[-1].reason
    run(1.5, right, pixels=noise)
    assert len(objects) == 4 and "camera/image_raw is refused: its pictures are noise" in statuses[-1].reason
    run(1.8, right, turning=0.5)
    assert not objects
    run(1.0, right)
    assert len(objects) > 10 and not beats["vision"]
    run(1.5, right, pixels=sight.astype(np.uint8))      # the robot stands, and there is nothing wrong
    assert len(objects) == 30 and not beats["vision"]
    run(2.5, right, pixels=sight.astype(np.uint8), turning=0.5)
    assert len(objects) < 30
    assert "camera/image_raw is refused: its pictures stay equal to the bit" in statuses[-1].reason
    run(2.5, right)
    run(1.5, right, "")
    assert statuses[-1].reason == "no fresh picture from vision"       # none comes any more
    assert not any(s.reason == "no fresh picture from vision" for s in statuses[:-1] if s.header.stamp.sec > 1)
    run(1.5, camera_info(96, 64, 0.0, 0.0, 0.0))        # uncalibrated: the profile's view is taken, and that is told
    assert len(objects) == 30 and "uncalibrated" in beats["vision"] and "90 degrees" in beats["vision"]
    assert all(status.reason != beats["vision"] for status in statuses)
    left = messages.make("sensor_msgs/msg/CameraInfo", width=192, height=64, k=[48, 0, 95.5, 0, 48, 31.5, 0, 0, 1])
    left.roi.width, left.roi.height = 96, 64            # the left half of a wider view
    run(1.0, left)
    assert len(objects) == 20 and abs(objects[-1].azimuth_min) < 0.02
    assert math.isclose(objects[-1].azimuth_max, math.pi / 3)      # where level pictures end; the camera sees more
    assert all(-0.1 < o.bearing < 1.2 for message in objects for o in message.objects)
