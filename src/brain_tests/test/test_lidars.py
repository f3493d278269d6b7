# SPDX-License-Identifier: Apache-2.0
"""Lidars that look back, hang upside down, lean or are two, by frames of all names or the profile."""
import logging
import math

import numpy as np
import pytest

from brain_eval.baselines.dynamic_window_motor import DynamicWindowMotor
from brain_regions import beams, sensed
from brain_regions.body import Body
from brain_regions.brainstem import REFUSED, Brainstem
from brain_regions.lidars import Lidars, Scanning
from brain_regions.motor import Motor
from brain_regions.pfc import PrefrontalCortex
from brain_regions.place import Place
from brain_regions.scan_watch import ScanWatch
from brain_runtime.contract.optics import Mount
from brain_runtime.hosts.local import LocalHost
from brain_sim.description import transform
from brain_wire import messages
from brain_wire.parameters import ParameterError, check_parameters
from brain_wire.qos import SENSOR

HALF = 3.0      # m, of a square room
BOX = 1.2, 0.5, 0.15    # x, y, half its side (m): ahead, to the left
MOUNTS = {"as the scan is": Mount(height=0.2), "backwards": Mount(yaw=math.pi, height=0.2),
          "upside down": Mount(roll=math.pi, height=0.2), "off the middle": Mount(-0.1, 0.12, 0.2, 0.7),
          "upside down, backwards and off": Mount(0.15, -0.1, 0.2, math.pi, 0.0, math.pi),
          "leaning": Mount(0.1, 0.0, 0.25, 0.3, 0.03, -0.02)}


class Ear(Scanning):
    """Hears scans and keeps what they tell."""

    rate, Parameters = 10.0, Body

    def configure(self, parameters):
        super().configure(parameters)
        self.lidars = Lidars()

    def step(self, inbox, state, dt, rng):
        self.scans = self.lidars.take(inbox, self.parameters)
        self.seen, self.why = self.scans.beams()
        return {}, state


def scan(mount, count=360, arc=2 * math.pi, frame="laser", box=BOX, stamp=0.0):
    """A scan of the room from a lidar that is mounted so, whose beams begin at half its arc to the right."""
    angles = -arc / 2 + arc / count * np.arange(count)
    c, s = math.cos(mount.yaw), math.sin(mount.yaw)
    rays = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]]) @ mount.turned() @ np.stack(
        [np.cos(angles), np.sin(angles), np.zeros(count)])
    with np.errstate(divide="ignore", invalid="ignore"):
        ends = [np.where(ray != 0.0, (np.sign(ray) * HALF - at) / ray, np.inf)
                for ray, at in zip(rays, (mount.x, mount.y))]
        ranges = np.minimum(np.minimum(*ends), np.where(rays[2] < -1e-9, -mount.height / rays[2], np.inf))
        if box:
            near = [((middle - np.sign(ray) * box[2]) - at) / ray for ray, at, middle in zip(
                rays, (mount.x, mount.y), box[:2])]
            far = [((middle + np.sign(ray) * box[2]) - at) / ray for ray, at, middle in zip(
                rays, (mount.x, mount.y), box[:2])]
            enter, leave = np.maximum(*near), np.minimum(*far)
            ranges = np.where((enter < leave) & (enter > 0), np.minimum(enter, ranges), ranges)
    message = messages.make("sensor_msgs/msg/LaserScan", angle_min=-arc / 2, angle_max=arc / 2 - arc / count,
                            angle_increment=arc / count, range_min=0.05, range_max=12.0, ranges=ranges)
    message.header.frame_id = frame
    return sensed.stamped(message, stamp) if stamp else message


def frames(*of_all):
    """TFMessage of (parent, child, Mount)."""
    return messages.make("tf2_msgs/msg/TFMessage", transforms=[
        transform(parent, child, (m.x, m.y, m.height), (m.roll, m.pitch, m.yaw), messages.time_message(1.0))
        for parent, child, m in of_all])


def heard(*published, **parameters):
    """An ear that heard some messages (topic, message), a step after all came."""
    ear = Ear("ear")
    host = LocalHost({"ear": ear}, parameters={"ear": parameters})
    for topic, message in published:
        host.publish(topic, message)
    host.advance(0.11)
    return ear, host


def in_the_room(seen):
    """Tells whether all returns lie on the walls or the box as they are, and the box is seen where it is."""
    angles, distances = seen.hits()
    x, y = distances * np.cos(angles), distances * np.sin(angles)
    wall = np.maximum(np.abs(x), np.abs(y))
    box = np.maximum(np.abs(x - BOX[0]), np.abs(y - BOX[1])) < BOX[2] + 0.02
    return bool((box | (np.abs(wall - HALF) < 0.02)).all() and np.count_nonzero(box) > 5)


@pytest.mark.parametrize("by", ["tf_static", "robot_description", "profile"])
@pytest.mark.parametrize("how", MOUNTS)
def test_all_returns_are_where_things_are_however_the_lidar_is_mounted(how, by):
    mount = MOUNTS[how]
    told, profile = [("scan", scan(mount))], {}
    if by == "tf_static":
        told.insert(0, ("tf_static", frames(("base_link", "laser", mount))))
    elif by == "robot_description":
        urdf = f"""<robot name="r"><joint name="j" type="fixed"><parent link="base_link"/><child link="laser"/><origin
            xyz="{mount.x} {mount.y} {mount.height}" rpy="{mount.roll} {mount.pitch} {mount.yaw}"/></joint></robot>"""
        told.insert(0, ("robot_description", messages.make("std_msgs/msg/String", data=urdf)))
    else:
        profile = {f"lidar_{name}": getattr(mount, name) for name in ("x", "y", "height", "yaw", "pitch", "roll")}
    ear, _ = heard(*told, **profile)
    assert not ear.why and not ear.lidars.note
    assert in_the_room(ear.seen)
    assert np.count_nonzero(ear.seen.kinds == beams.HIT) > 300 or how == "leaning"
    assert ear.seen.spacing == pytest.approx(2 * math.pi / 360, rel=0.01)


@pytest.mark.parametrize(("parent", "child", "wanted"), [
    ("base_link", "base_scan", "base_link"), ("robot1/base_link", "robot1/base_scan", "base_link"),
    ("/robot1/base_link", "robot1/laser", "robot1/base_link"), ("base_footprint", "laser", "base_link"),
    ("r/1/base_footprint", "r/1/laser", "base_link"), ("base", "laser", "base"), ("a/base", "a/laser", "base")])
def test_the_base_is_found_by_every_name(parent, child, wanted):
    mount = MOUNTS["off the middle"]
    told = frames((parent, child, mount))
    ear, _ = heard(("tf_static", told), ("scan", scan(mount, frame=child)), base_frame=wanted)
    assert not ear.lidars.note and in_the_room(ear.seen)


def test_the_base_need_not_carry_the_lidar_and_lies_above_its_footprint():
    ear, _ = heard(("tf_static", frames(("r/base_footprint", "r/base_link", Mount(height=0.1)),
                                        ("r/base_footprint", "r/tower", Mount(0.2, 0.0, 0.3)),
                                        ("r/tower", "r/laser", Mount(-0.3, 0.12, 0.1, 0.7)))),
                   ("scan", scan(MOUNTS["off the middle"], frame="r/laser")))
    assert in_the_room(ear.seen) and ear.scans.body.lidar_height == pytest.approx(0.4)


def test_beams_that_meet_the_floor_are_no_obstacle_and_no_free_floor():
    mount = Mount(height=0.15, pitch=math.radians(6.0))       # the floor is 1.4 m ahead
    ear, _ = heard(("tf_static", frames(("base_link", "laser", mount))), ("scan", scan(mount, box=None)))
    seen = ear.seen
    assert np.count_nonzero(seen.kinds == beams.FLOOR) > 100
    angles, distances = seen.hits()
    wall = np.maximum(np.abs(distances * np.cos(angles)), np.abs(distances * np.sin(angles)))
    assert np.allclose(wall, HALF, atol=0.03)
    assert not np.isin(seen.angles[seen.kinds == beams.FLOOR], seen.rays()[0]).any()
    high = messages.make("sensor_msgs/msg/LaserScan", angle_min=-math.pi, angle_max=math.pi, range_min=0.1,
                         angle_increment=math.pi / 180, range_max=2.0, ranges=np.full(360, np.inf))
    steep = beams.read(high, Body(lidar_pitch=math.radians(12.0), lidar_height=0.5))
    assert 0.3 < np.mean(steep.kinds == beams.UNKNOWN) < 0.7     # over the heads of things, or into the floor


def test_a_lidar_that_leans_by_far_is_refused_by_each_reader():
    mount = Mount(height=0.3, pitch=math.radians(30.0))
    ear, _ = heard(("tf_static", frames(("base_link", "laser", mount))), ("scan", scan(mount)))
    assert ear.seen is None and "leans by 30 degrees" in ear.why and "mount it level" in ear.why


# -- frames that contradict, break, move ------------------------------------------------------------------------------

def test_a_contradiction_is_told_once_with_its_remedy_and_the_frame_is_believed(caplog):
    stem = Brainstem("brainstem")
    host = LocalHost({"brainstem": stem}, parameters={"brainstem": {"lidar_yaw": 0.5, "critical": ()}})
    host.publish("tf_static", frames(("base_link", "laser", MOUNTS["backwards"])))
    with caplog.at_level(logging.WARNING):
        for _ in range(30):
            host.publish("scan", scan(MOUNTS["backwards"]))
            host.advance(0.05)
    told = [r.message for r in caplog.records if "contradict" in r.message]
    assert len(told) == 1 and stem.trouble == told[0]
    assert "'laser'" in told[0] and "lidar_yaw is 3.14 and not 0.50" in told[0] and "{lidar_yaw: 3.1416}" in told[0]
    assert in_the_room(stem._lidar.beams)
    assert check_parameters("b", Body, {"lidar_yaw": 3.1416})        # as the remedy says
    ear, _ = heard(("tf_static", frames(("base_link", "laser", MOUNTS["backwards"]))), ("scan", scan(Mount(yaw=0.5))),
                   lidar_yaw=0.5, lidar_frames=False)
    assert not ear.lidars.note and in_the_room(ear.seen)


@pytest.mark.parametrize(("told", "says"), [
    ((("a", "b", Mount()), ("b", "a", Mount())), ""), ((("laser", "b", Mount()), ("b", "laser", Mount())), "circle"),
    ((("tower", "laser", Mount()),), "no fixed frames lead from 'base_link' to 'laser'"),
    ((("base_link", "laser", Mount(x=9.0)),), "not on the robot"),
    ((("base_link", "laser", Mount(x=math.nan)),), "tf_static is refused"),
    ((("base_link", "laser", Mount(pitch=math.pi / 2)),), "straight down")])
def test_frames_that_cannot_be_leave_it_to_the_profile(told, says):
    ear, _ = heard(("tf_static", frames(*told)), ("scan", scan(MOUNTS["backwards"])), lidar_yaw=math.pi)
    assert in_the_room(ear.seen)
    assert says in ear.lidars.note if says else ear.lidars.note


def test_one_transform_that_is_none_hides_no_other():
    message = frames(("base_link", "gripper", Mount(x=math.inf)), ("base_link", "laser", MOUNTS["backwards"]))
    ear, _ = heard(("tf_static", message), ("scan", scan(MOUNTS["backwards"])))
    assert in_the_room(ear.seen) and "'gripper'" in ear.lidars.note


@pytest.mark.parametrize("text", ["", "<robot>", "no XML", "<!DOCTYPE a []><robot/>", "\0"])
def test_a_description_that_is_none_is_told(text):
    ear, _ = heard(("robot_description", messages.make("std_msgs/msg/String", data=text)), ("scan", scan(Mount())))
    assert in_the_room(ear.seen) and "robot_description is refused" in ear.lidars.note


@pytest.mark.parametrize("frame", ["", "x" * 500, " " * 10**6 + "x", "\x00", "elsewhere"])
def test_a_scan_of_an_odd_frame_is_read_by_the_profile(frame):
    told = frames(("base_link", "laser", MOUNTS["backwards"]))
    ear, _ = heard(("tf_static", told), ("scan", scan(Mount(), frame=frame)))
    assert in_the_room(ear.seen) and 0 < len(ear.lidars.note) < 400


def test_a_lidar_whose_frame_jumps_is_not_believed_for_a_while():
    stem = Brainstem("brainstem")
    host = LocalHost({"brainstem": stem}, parameters={"brainstem": {"critical": ()}})
    said = []
    host.listen("brain/trace", said.append)

    def run(seconds, mount):
        for _ in range(round(seconds / 0.1)):
            host.publish("scan", scan(mount))
            command = messages.make("brain_interfaces/msg/MotorCommand")
            command.twist.linear.x = 0.1
            host.publish("motor/command", command)
            host.advance(0.1)

    host.publish("tf_static", frames(("base_link", "laser", Mount(height=0.2))))
    run(1.0, Mount(height=0.2))
    assert said[-1].linear > 0.0
    host.publish("tf_static", frames(("base_link", "laser", MOUNTS["backwards"])))
    run(1.0, MOUNTS["backwards"])
    assert said[-1].action == REFUSED and "'laser'" in said[-1].reason and "publishers" in said[-1].reason
    run(5.0, MOUNTS["backwards"])
    assert said[-1].linear > 0.0 and in_the_room(stem._lidar.beams)


# -- two lidars -------------------------------------------------------------------------------------------------------

REAR = Mount(-0.2, 0.0, 0.2, math.pi)
FRONT = Mount(0.2, 0.0, 0.2)


def halves(front=FRONT, rear=REAR):
    return [("scan", scan(front, 180, math.pi, "front")), ("scan/second", scan(rear, 180, math.pi, "rear"))]


@pytest.mark.parametrize("by", ["frames", "profile"])
def test_two_lidars_are_one_scan(by):
    told, profile = halves(), {"lidar_x": 0.2, "second_lidar": [-0.2, 0, math.pi]}
    if by == "frames":
        told.insert(0, ("tf_static", frames(("base_link", "front", FRONT), ("base_link", "rear", REAR))))
        profile = {}
    ear, host = heard(*told, **profile)
    assert not ear.lidars.note and in_the_room(ear.seen) and len(ear.seen.kinds) == 360
    behind = np.abs(ear.seen.hits()[0]) > 2.0
    assert np.count_nonzero(behind) > 50
    host.publish("scan", told[-2][1])
    host.advance(1.0)       # the second is silent
    assert len(ear.seen.kinds) == 180


def test_a_second_lidar_that_nobody_places_is_not_used_and_said():
    ear, _ = heard(*halves(), lidar_x=0.2)
    assert len(ear.seen.kinds) == 180
    assert "scan/second is not used" in ear.lidars.note and "second_lidar" in ear.lidars.note
    broken = halves()
    broken[1][1].angle_increment = 0.0
    ear, _ = heard(*broken, lidar_x=0.2, second_lidar=[-0.2, 0.0, 3.1416])
    assert len(ear.seen.kinds) == 180 and ear.lidars.note.startswith("scan/second's angles")
    both = frames(("base_link", "front", FRONT), ("base_link", "rear", REAR))
    ear, _ = heard(("tf_static", both), *halves(), second_lidar=[-0.2, 0.0, 0.0])
    assert "second_lidar: [-0.200, 0.000, 3.142, -0.000, 0.000]" in ear.lidars.note and len(ear.seen.kinds) == 360


@pytest.mark.parametrize("second", [[1.0], [1.0, 2.0], [1.0] * 7, ["a", "b", "c"], [math.nan, 0.0, 0.0]])
def test_a_place_that_is_none_is_refused(second):
    with pytest.raises(ParameterError, match="second_lidar"):
        check_parameters("ear", Body, {"second_lidar": second})


def test_the_second_scan_is_seen_from_where_the_first_was_taken():
    """The robot turns by 20 degrees between the two; by their stamps they show one room."""
    watch, turned = ScanWatch(), math.radians(20.0)
    for stamp, yaw in ((10.0, turned), (10.1, 0.0)):
        watch.take(sensed.scan_of_box(0, 0, 0), (0.0, 0.0, yaw), stamp, Body(), stamp)
    first, second = (message for _, message in halves())
    sensed.stamped(first, 10.1)
    c, s = math.cos(turned), math.sin(turned)
    other = Mount(c * REAR.x, s * REAR.x, 0.2, REAR.yaw + turned)
    moved = sensed.stamped(scan(other, 180, math.pi, "rear"), 10.0)
    assert second is not moved
    watch.take(first, (0.0, 0.0, 0.0), 10.1, Body().with_lidar(FRONT), 10.1, (moved, Body().with_lidar(REAR)))
    assert in_the_room(watch.beams)


def test_all_readers_of_scans_hear_both_lidars_and_frames():
    for region in (Brainstem, Place, Motor, PrefrontalCortex, DynamicWindowMotor):
        ports = region.inputs()
        assert {"scan", "second_scan", "frames", "description"} <= ports.keys()
        assert (ports["second_scan"].topic, ports["scan"].qos) == ("scan/second", SENSOR)
    assert Place.scan.trigger
