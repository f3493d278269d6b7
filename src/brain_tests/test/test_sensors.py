# SPDX-License-Identifier: Apache-2.0
"""Plug-in sensors: what a distance, a cloud, a switch or the battery says becomes a hazard in its direction."""
import inspect
import math

import numpy as np
import pytest

from brain_regions.azimuth import BINS
from brain_regions.brainstem import REFLEX, Brainstem
from brain_regions.sensors.battery import Battery
from brain_regions.sensors.clouds import Cloud
from brain_regions.sensors.hazards import BUMP, CLIFF, ONE, SEVERAL, Hazards
from brain_regions.sensors.plugin import PluginSensor
from brain_regions.sensors.ranges import Range
from brain_regions.sensors.switches import Bumper, Cliff
from brain_runtime.contract.point_clouds import FARTHEST, MOST, points
from brain_runtime.hosts.local import LocalHost
from brain_sim.description import transform
from brain_wire import messages

RADIUS = 0.18
SENSORS = Range, Cloud, Bumper, Cliff, Hazards, Battery


def header(frame="", stamp=5.0):
    return messages.make("std_msgs/msg/Header", frame_id=frame, stamp=messages.time_message(stamp))


def frames(child, at, rpy, parent="base_link"):
    return messages.make("tf2_msgs/msg/TFMessage", transforms=[
        transform(parent, child, at, rpy, messages.time_message(1.0))])


def told(sensor, reading, frame=None, seconds=0.3, **parameters):
    """What a sensor tells of a reading, or None; and the region."""
    region, heard = sensor("one"), []
    host = LocalHost({"one": region}, parameters={"one": parameters})
    host.listen("sensor/features", heard.append)
    if frame is not None:
        host.publish("tf_static", frame)
    host.publish(region.reading.topic, reading)
    host.advance(seconds)
    return (heard[-1] if heard else None), region


def bins(message):
    return np.flatnonzero(message.hazard > 0.02).tolist()


def test_each_sensor_is_short_and_says_who_it_is():
    for sensor in SENSORS:
        assert len(inspect.getsourcelines(sensor)[0]) <= 40
        assert issubclass(sensor, PluginSensor) and sensor.features.topic == "sensor/features" and sensor.modality


# -- distances --------------------------------------------------------------------------------------------------------

def distance(reach, frame="", most=3.0, least=0.02, view=0.3):
    return messages.make("sensor_msgs/msg/Range", header=header(frame), field_of_view=view, min_range=least,
                         max_range=most, range=reach)


def test_a_distance_is_a_hazard_where_it_points_with_the_stamp_of_its_capture():
    message, _ = told(Range, distance(0.4), x=0.1)
    assert bins(message) == [0, 1, 35] and message.hazard[0] == pytest.approx(1.0 - (0.5 - RADIUS), abs=0.01)
    assert (message.source, message.modality) == ("one", "range") and messages.time_seconds(message.header.stamp) == 5.0
    message, _ = told(Range, distance(0.4, "sonar"), frames("sonar", (0.0, 0.15, 0.1), (0.0, 0.0, math.pi / 2)))
    assert 9 in bins(message) and 0 not in bins(message)
    frame = frames("r1/sonar", (0.0, 0.0, 0.1), (0.0, 0.0, math.pi), "r1/base_footprint")
    message, _ = told(Range, distance(0.4, "r1/sonar"), frame)
    assert 18 in bins(message)


@pytest.mark.parametrize(("reach", "hazard"), [
    (math.inf, 0.0), (3.0, 0.0), (5.0, 0.0), (2.9, 0.0), (-math.inf, 1.0), (0.0, 1.0), (0.1, 1.0), (0.68, 0.5)])
def test_what_a_distance_means(reach, hazard):
    assert told(Range, distance(reach))[0].hazard[0] == pytest.approx(hazard, abs=0.01)


@pytest.mark.parametrize("reading", [
    distance(math.nan), distance(1.0, least=2.0, most=1.0), distance(1.0, most=math.inf),
    distance(1.0, least=math.nan)])
def test_a_distance_that_is_none_is_refused(reading):
    message, region = told(Range, reading)
    assert message is None and "range is refused" in region.trouble


@pytest.mark.parametrize(("reach", "edge"), [(0.1, False), (0.11, False), (0.4, True), (math.inf, True)])
def test_a_distance_that_looks_down_sees_edges(reach, edge):
    frame = frames("ir", (0.15, 0.0, 0.1), (0.0, math.pi / 2, 0.0))
    message, _ = told(Range, distance(reach, "ir", most=0.8), frame)
    assert bool(bins(message)) == edge and (0 in bins(message)) == edge and 18 not in bins(message)


def test_what_a_sensor_sees_below_the_lidar_stops_the_robot():
    stem = Brainstem("brainstem")
    host = LocalHost({"one": Range("one"), "brainstem": stem}, parameters={"brainstem": {"critical": ()}})
    said = []
    host.listen("brain/trace", said.append)
    for k in range(40):
        host.publish("scan", messages.make(
            "sensor_msgs/msg/LaserScan", angle_min=-math.pi, angle_max=math.pi, angle_increment=math.tau / 180,
            range_min=0.1, range_max=10.0, ranges=np.full(180, 5.0, np.float32)))
        command = messages.make("brain_interfaces/msg/MotorCommand")
        command.twist.linear.x = 0.3
        host.publish("motor/command", command)
        if k >= 20:
            host.publish("range", distance(RADIUS + 0.03))
        host.advance(0.05)
        if k == 19:
            assert said[-1].linear > 0.2
    assert (said[-1].action, said[-1].linear) == (REFLEX, 0.0)


# -- clouds -----------------------------------------------------------------------------------------------------------

def cloud(xyz, frame="", kind="f4", big=False, step=20, extra=0, rows=1, **changed):
    xyz = np.asarray(xyz, float).reshape(-1, 3)
    size = np.dtype(kind).itemsize
    columns = len(xyz) // rows
    row = columns * step + extra
    data = np.zeros((rows, row), np.uint8)
    kinds = {"f4": 7, "f8": 8}
    for axis in range(3):
        values = xyz[:, axis].astype((">" if big else "<") + kind).reshape(rows, columns)
        for byte in range(size):
            data[:, :columns * step].reshape(rows, columns, step)[:, :, axis * size + byte] = \
                values.view(np.uint8).reshape(rows, columns, size)[:, :, byte]
    fields = [messages.make("sensor_msgs/msg/PointField", name=name, offset=k * size, datatype=kinds[kind], count=1)
              for k, name in enumerate("xyz")]
    return messages.make("sensor_msgs/msg/PointCloud2", **dict(dict(
        header=header(frame), height=rows, width=columns, point_step=step, row_step=row, is_bigendian=big,
        fields=fields, data=data.reshape(-1)), **changed))


WALL = [[0.5, y, z] for y in np.linspace(-0.1, 0.1, 10) for z in np.linspace(0.1, 0.5, 6)]


@pytest.mark.parametrize("how", [{}, {"kind": "f8", "step": 32}, {"big": True}, {"rows": 6}, {"rows": 6, "extra": 24},
                                 {"kind": "f8", "big": True, "step": 24, "rows": 2}])
def test_points_are_read_however_they_are_written(how):
    assert np.allclose(points(cloud(WALL, **how)), np.array(WALL), atol=1e-6)
    message, _ = told(Cloud, cloud(WALL, **how))
    assert set(bins(message)) == {0, 1, 35} and message.hazard[0] == pytest.approx(1.0 - (0.5 - RADIUS), abs=0.02)


def test_points_of_a_camera_that_looks_to_the_left_and_what_is_not_in_the_way():
    """In an optical frame z goes along the lens."""
    optical = frames("depth_optical_frame", (0.0, 0.1, 0.3), (-math.pi / 2, 0.0, 0.0))
    ahead = [[x, 0.0, 0.5] for x in np.linspace(-0.05, 0.05, 20)]
    message, _ = told(Cloud, cloud(ahead, "depth_optical_frame"), optical)
    assert 9 in bins(message) and 0 not in bins(message)
    assert message.hazard[9] == pytest.approx(1.0 - (0.6 - RADIUS), abs=0.02)
    for low in ([[0.5, 0.0, 0.01]] * 20, [[0.5, 0.0, 1.5]] * 20, [[0.1, 0.0, 0.3]] * 20, [[0.5, 0.0, 0.3]] * 2):
        assert not bins(told(Cloud, cloud(low), z=0.0)[0])


def test_points_that_are_none_are_left_out():
    odd = [[math.nan, 0.0, 0.3], [math.inf, 0.0, 0.3], [1e30, 0.0, 0.3], [0.0, -2 * FARTHEST, 0.0]]
    assert len(points(cloud(odd + WALL))) == len(WALL)
    assert len(points(cloud([[1e300, 0.0, 0.0]], kind="f8", step=24))) == 0
    assert len(points(cloud(np.zeros((0, 3))))) == 0
    assert 0 < len(points(cloud(np.ones((3 * MOST + 7, 3))))) <= MOST


def field(name="x", offset=0, datatype=7, count=1):
    return messages.make("sensor_msgs/msg/PointField", name=name, offset=offset, datatype=datatype, count=count)


HOSTILE = {
    "too little data": {"width": 1000}, "no data": {"data": np.zeros(0, np.uint8)}, "huge": {"width": 2**32 - 1},
    "huge both": {"width": 2**32 - 1, "height": 2**32 - 1}, "no step": {"point_step": 0},
    "a step like the moon": {"point_step": 2**32 - 1}, "rows that overlap": {"height": 10, "width": 6, "row_step": 1},
    "no rows": {"height": 6, "width": 10, "row_step": 0},
    "long rows": {"height": 6, "width": 10, "row_step": 2**32 - 1},
    "no fields": {"fields": []}, "far fields": {"fields": [field("x", 2**32 - 1), field("y"), field("z")]},
    "a field beyond": {"fields": [field("x", 17), field("y"), field("z")]},
    "whole numbers": {"fields": [field("x", 0, 5), field("y", 4, 5), field("z", 8, 5)]},
    "no kind": {"fields": [field("x", 0, 99), field("y", 4), field("z", 8)]},
    "several": {"fields": [field("x", 0, 7, 3), field("y", 4), field("z", 8)]},
    "no z": {"fields": [field("x"), field("y")]}}


@pytest.mark.parametrize("changed", HOSTILE.values(), ids=list(HOSTILE))
def test_a_hostile_cloud_is_refused_by_name(changed):
    with pytest.raises(ValueError, match="points|bits|byte"):
        points(cloud(WALL, **changed))
    message, region = told(Cloud, cloud(WALL, **changed))
    assert message is None and "points is refused" in region.trouble


def test_clouds_of_random_descriptions_never_crash():
    rng = np.random.default_rng(7)
    for _ in range(300):
        numbers = rng.choice([0, 1, 4, 7, 12, 20, 60, 2**16, 2**31, 2**32 - 1], 8)
        made = cloud(WALL, height=int(numbers[0]), width=int(numbers[1]), point_step=int(numbers[2]),
                     row_step=int(numbers[3]), is_bigendian=bool(rng.integers(2)), fields=[
                         field(name, int(numbers[4 + k]), int(rng.integers(0, 12)), int(rng.integers(0, 3)))
                         for k, name in enumerate("xyz")], data=rng.integers(0, 256, 1200).astype(np.uint8))
        try:
            found = points(made)
        except ValueError:
            continue
        assert found.shape[1] == 3 and np.isfinite(found).all()


# -- switches ---------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize(("sensor", "modality"), [(Bumper, "bumper"), (Cliff, "cliff")])
def test_a_switch_holds_until_it_opens(sensor, modality):
    region, heard = sensor("one"), []
    host = LocalHost({"one": region}, parameters={"one": {"yaw": math.pi / 2, "width": 0.5}})
    host.listen("sensor/features", heard.append)
    host.advance(0.3)
    assert not heard
    host.publish(region.reading.topic, messages.make("std_msgs/msg/Bool", data=True))
    host.advance(5.0)
    assert heard[-1].modality == modality and {8, 9, 10} <= set(bins(heard[-1])) and heard[-1].hazard[9] == 1.0
    assert not {0, 18, 27} & set(bins(heard[-1])) and len(heard) > 40
    host.publish(region.reading.topic, messages.make("std_msgs/msg/Bool", data=False))
    host.advance(0.2)
    assert not bins(heard[-1])


@pytest.mark.parametrize(("kind", "frame", "inside", "outside"), [
    (BUMP, "bump_front_center", {0}, {9, 18, 27}), (BUMP, "bump_left", {9}, {0, 18, 27}),
    (CLIFF, "cliff_front_right", {31, 32}, {9, 18}), (CLIFF, "cliff_side_right", {27}, {0, 9, 18}),
    (BUMP, "base_link", set(range(BINS)), set()), (5, "bump_left", set(), set(range(BINS))), (0, "", set(), {0, 9})])
def test_hazards_of_a_create_3(kind, frame, inside, outside):
    found = messages.make(SEVERAL, header=header(), detections=[messages.make(ONE, header=header(frame), type=kind)])
    message, _ = told(Hazards, found)
    assert inside <= set(bins(message)) and not outside & set(bins(message))
    assert not bins(told(Hazards, messages.make(SEVERAL, header=header()))[0])


# -- the battery ------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize(("percentage", "charge"), [(0.5, 0.5), (0.05, 0.05), (80.0, 0.8), (1.0, 1.0), (0.0, 0.0)])
def test_the_battery_is_told_and_a_low_one_is_said(percentage, charge):
    message, region = told(Battery, messages.make("sensor_msgs/msg/BatteryState", percentage=percentage))
    assert message.confidence == pytest.approx(charge) and not bins(message) and message.modality == "battery"
    assert ("charge it" in region.trouble) == (charge < 0.15)


@pytest.mark.parametrize("percentage", [math.nan, -1.0, 101.0, math.inf])
def test_a_battery_that_says_nothing_is_said_to(percentage):
    message, region = told(Battery, messages.make("sensor_msgs/msg/BatteryState", percentage=percentage))
    assert message is None and "battery_state is refused" in region.trouble
