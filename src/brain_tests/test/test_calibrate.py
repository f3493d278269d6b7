# SPDX-License-Identifier: Apache-2.0
"""``brain calibrate camera``: the tilt of a camera in a simulated room, by where walls meet the floor."""
from __future__ import annotations

import json
import math
import threading
import time
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from brain_observe.doctor import camera_tilt
from brain_observe.doctor.heard import Heard
from brain_regions.sensed import odometry
from brain_regions.vision import Vision
from brain_runtime.hosts.local import LocalHost
from brain_runtime.contract.camera_mount import USUAL, Mounted
from brain_runtime.contract.floor_edge import FloorEdge
from brain_runtime.contract.images import Lens
from brain_runtime.contract.optics import Mount
from brain_runtime.graph.robots import SIM, load_robot
from brain_sim.camera import RayCamera
from brain_sim.mjcf import room_xml
from brain_sim.room import generate_room
from brain_sim.sensors import Lidar
from brain_tests.in_process import brain
from brain_wire import Node, open_session
from brain_wire.messages import make, time_message
from brain_wire.qos import SENSOR
from brain_wire.router import Router, free_port

D = math.pi / 180
MOUNTS = [      # height, pitch and roll (degrees), columns and rows, view (degrees)
    (0.35, 0.0, 0.0, 320, 240, 90.0), (0.35, 8.0, 0.0, 320, 240, 90.0), (0.10, -5.0, 0.0, 320, 240, 62.0),
    (0.60, 12.0, 5.0, 640, 480, 70.0), (1.00, 15.0, -3.0, 320, 240, 62.0), (0.35, -12.0, 8.0, 160, 120, 100.0)]


class Turning:
    """A robot that turns on the spot in a room of ``val``: what its camera and its lidar see."""

    def __init__(self, seed: int, mount: Mount, columns: int, rows: int, view: float) -> None:
        room = generate_room("val", seed)
        self._camera = RayCamera(room_xml(room), columns, rows, view, mount=mount)
        self.lens = Lens(columns / 2 / math.tan(view / 2), columns, rows, columns / 2, rows / 2)
        self.lidar, self._start, self._rng = Lidar(self._camera.model), room.start, np.random.default_rng(seed)

    def at(self, turned: float) -> tuple[np.ndarray, np.ndarray]:
        """Picture and ranges, once it has turned by so much (rad)."""
        x, y, yaw = self._start
        return (self._camera.render(x, y, yaw + turned, self._rng),
                self.lidar.ranges(self._camera.data, x, y, yaw + turned, self._rng))

    def told(self, turned: float, now: float) -> dict[str, Any]:
        """Its messages by topic: picture, lens, scan and odometry."""
        picture, ranges = self.at(turned)
        rows, columns, f = *picture.shape[:2], self.lens.focal
        said = {
            "camera/image_raw": make("sensor_msgs/msg/Image", height=rows, width=columns, encoding="rgb8",
                                     step=3 * columns, data=picture.tobytes()),
            "camera/camera_info": make("sensor_msgs/msg/CameraInfo", height=rows, width=columns,
                                       k=[f, 0.0, columns / 2, 0.0, f, rows / 2, 0.0, 0.0, 1.0]),
            "scan": make("sensor_msgs/msg/LaserScan", angle_min=-math.pi, angle_max=math.pi, range_min=0.05,
                         angle_increment=2 * math.pi / len(ranges), range_max=12.0, ranges=ranges),
            "odom": odometry(0.0, 0.0, turned)}
        for message in said.values():
            message.header.stamp, message.header.frame_id = time_message(now), "camera"
        return said

    def walls(self, ranges: np.ndarray) -> np.ndarray:
        there = np.isfinite(ranges)
        angles = self.lidar.angles[there]
        return np.column_stack([np.cos(angles), np.sin(angles)]) * ranges[there, None]


def mount_of(height: float, pitch: float, roll: float) -> Mount:
    return Mount(0.1, 0.02, height, 0.0, pitch * D, roll * D)


@pytest.mark.parametrize(("height", "pitch", "roll", "columns", "rows", "view"), MOUNTS)
def test_tilt_is_measured_by_where_walls_meet_the_floor(height, pitch, roll, columns, rows, view):
    mount = mount_of(height, pitch, roll)
    robot, edge = Turning(900_003, mount, columns, rows, view * D), FloorEdge(mount_of(height, 0.0, 0.0))
    for k in range(12):
        picture, ranges = robot.at(0.5 * k)
        edge.add(picture, robot.lens, robot.walls(ranges))
    found = edge.found()
    assert found is not None and abs(found.pitch / D - pitch) < 0.75 and abs(found.roll / D - roll) <= 1.0
    assert found.spread / D <= 0.5


def test_pictures_of_another_place_tell_nothing():
    here, there = (Turning(seed, mount_of(0.35, 6.0, 0.0), 320, 240, math.pi / 2) for seed in (900_004, 900_005))
    rng = np.random.default_rng(0)
    for picture in (lambda turned: there.at(turned)[0],
                    lambda turned: rng.integers(0, 255, (240, 320, 3), np.uint8),
                    lambda turned: np.full((240, 320, 3), 128, np.uint8)):
        edge = FloorEdge(Mount())
        for k in range(12):
            edge.add(picture(0.5 * k + 2.0), here.lens, here.walls(here.at(0.5 * k)[1]))
        found = edge.found()
        assert found is None or not found.spread <= camera_tilt.AGREED
    edge = FloorEdge(Mount())       # nothing near is no wall
    assert not edge.add(here.at(0.0)[0], here.lens, np.array([[50.0, 0.1 * k] for k in range(60)]))
    assert edge.found() is None and len(edge) == 0


def test_the_verb_says_what_the_profile_is_to_tell():
    domain, robot = 78, Turning(900_006, replace(USUAL, pitch=9.0 * D), 320, 240, 70 * D)
    endpoint = f"tcp/127.0.0.1:{free_port()}"
    stop = threading.Event()

    def drive(session) -> None:
        with closing(Node(session, "robot", domain=domain)) as node:
            ports = {name: node.publisher(name, f"sensor_msgs/msg/{kind}", SENSOR) for name, kind in (
                ("camera/image_raw", "Image"), ("camera/camera_info", "CameraInfo"), ("scan", "LaserScan"))}
            k = 0
            while not stop.is_set():
                told = robot.told(0.1 * k, time.time())
                for name, port in ports.items():
                    port.publish(told[name])
                k += 1
                time.sleep(0.1)

    with Router([endpoint]), open_session(endpoint, patience=10) as session:
        thread = threading.Thread(target=drive, args=(session,))
        thread.start()
        try:
            environment = {"BRAIN_ROUTER": endpoint, "ROS_DOMAIN_ID": str(domain)}
            done = brain("calibrate", "camera", "--seconds", "6", "--json", environment=environment)
        finally:
            stop.set()
            thread.join()
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["told"] == {"height": 0.35, "pitch": 0.0, "roll": 0.0}
    assert abs(said["pitch"] / D - 9.0) < 1.0 and abs(said["roll"] / D) < 1.5


def test_vision_finds_the_mounting_that_nobody_tells_while_the_robot_turns_and_still_asks_for_care(tmp_path):
    mount = Mount(USUAL.x, 0.0, 0.5, 0.0, 12.0 * D, 0.0)
    robot, vision = Turning(900_008, mount, 320, 240, 80 * D), Vision("vision")
    host = LocalHost({"vision": vision})
    vision.storage = tmp_path       # it keeps a state: time passes while a thread of it works
    vision.configure({"camera_confirmed": False})
    said, seen = [], []
    host.listen("vision/objects", seen.append)
    for k in range(80):
        for topic, message in robot.told(0.16 * k, 1.0 + 0.1 * k).items():
            host.publish(topic, message)
        host.advance(0.1)
        if (thread := vision._tilting._thread) is not None:
            thread.join()
        said.append(vision.trouble)
    assert vision.careful and "0.35 m high" in said[0] and said[0] != said[-1]
    found = vision._tilting.better(Mounted(USUAL, "", True)).mount
    assert abs(found.pitch - mount.pitch) < D and abs(found.height / mount.height - 1.0) < 0.1
    assert f"{found.height:.2f} m high" in said[-1] and f"camera_pitch: {found.pitch:.3f}" in said[-1]
    assert len(said[-1]) < 256      # of which nothing is cut off
    assert {one.source for one in seen[-1].origins} == {"camera/image_raw", "camera/camera_info", "odom"}
    # what a person says is believed before it
    vision.configure({"camera_height": 0.5, "camera_pitch": 0.21})
    for topic, message in robot.told(0.0, 20.0).items():
        host.publish(topic, message)
    host.advance(0.1)
    assert not vision.careful and not vision.trouble


def test_without_pictures_it_says_so():
    endpoint = f"tcp/127.0.0.1:{free_port()}"
    with Router([endpoint]):
        done = brain("calibrate", "camera", "--seconds", "2", environment={"BRAIN_ROUTER": endpoint})
    assert done.returncode == 1 and "the camera's tilt is not measured: there are no scans" in done.stderr
    assert camera_tilt.tilt(Heard(load_robot(SIM))) == "there are no scans"
    assert list(camera_tilt.findings(Heard(load_robot(SIM)))) == []
