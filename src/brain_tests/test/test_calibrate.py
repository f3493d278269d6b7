# SPDX-License-Identifier: Apache-2.0
"""``brain calibrate camera``: the tilt of a camera in a simulated room, by where walls meet the floor."""
from __future__ import annotations

import json
import math
import threading
import time
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest

from brain_observe.doctor import camera_tilt
from brain_observe.doctor.heard import Heard
from brain_runtime.contract.camera_mount import USUAL
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

    def walls(self, ranges: np.ndarray) -> np.ndarray:
        there = np.isfinite(ranges)
        angles = self.lidar.angles[there]
        return np.column_stack([np.cos(angles), np.sin(angles)]) * ranges[there, None]


def mount_of(height: float, pitch: float, roll: float) -> Mount:
    return Mount(0.1, 0.02, height, 0.0, pitch * D, roll * D)


@pytest.mark.parametrize(("height", "pitch", "roll", "columns", "rows", "view"), MOUNTS)
def test_tilt_is_measured_by_where_walls_meet_the_floor(height, pitch, roll, columns, rows, view):
    mount = mount_of(height, pitch, roll)
    robot, edge = Turning(900_003, mount, columns, rows, view * D), FloorEdge()
    for k in range(12):
        picture, ranges = robot.at(0.5 * k)
        edge.add(picture, robot.lens, mount_of(height, 0.0, 0.0), robot.walls(ranges))
    found = edge.found()
    assert found is not None and abs(found.pitch / D - pitch) < 0.75 and abs(found.roll / D - roll) <= 1.0
    assert found.spread / D <= 0.5


def test_pictures_of_another_place_tell_nothing():
    here, there = (Turning(seed, mount_of(0.35, 6.0, 0.0), 320, 240, math.pi / 2) for seed in (900_004, 900_005))
    rng = np.random.default_rng(0)
    for picture in (lambda turned: there.at(turned)[0],
                    lambda turned: rng.integers(0, 255, (240, 320, 3), np.uint8),
                    lambda turned: np.full((240, 320, 3), 128, np.uint8)):
        edge = FloorEdge()
        for k in range(12):
            edge.add(picture(0.5 * k + 2.0), here.lens, Mount(), here.walls(here.at(0.5 * k)[1]))
        found = edge.found()
        assert found is None or not found.spread <= camera_tilt.AGREED
    edge = FloorEdge()      # nothing near is no wall
    assert not edge.add(here.at(0.0)[0], here.lens, Mount(), np.array([[50.0, 0.1 * k] for k in range(60)]))
    assert edge.found() is None and len(edge) == 0


def test_the_verb_says_what_the_profile_is_to_tell():
    domain, robot = 78, Turning(900_006, replace(USUAL, pitch=9.0 * D), 320, 240, 70 * D)
    endpoint = f"tcp/127.0.0.1:{free_port()}"
    stop = threading.Event()

    def drive(session) -> None:
        with closing(Node(session, "robot", domain=domain)) as node:
            told = {name: node.publisher(name, f"sensor_msgs/msg/{kind}", SENSOR) for name, kind in (
                ("camera/image_raw", "Image"), ("camera/camera_info", "CameraInfo"), ("scan", "LaserScan"))}
            k = 0
            while not stop.is_set():
                picture, ranges = robot.at(0.1 * k)
                now = time_message(time.time())
                header = dict(header__stamp=now, header__frame_id="camera")
                f = robot.lens.focal
                image = make("sensor_msgs/msg/Image", height=240, width=320, encoding="rgb8", step=960,
                             data=picture.tobytes())
                info = make("sensor_msgs/msg/CameraInfo", height=240, width=320,
                            k=[f, 0.0, 160.0, 0.0, f, 120.0, 0.0, 0.0, 1.0])
                scan = make("sensor_msgs/msg/LaserScan", angle_min=-math.pi, angle_max=math.pi,
                            angle_increment=2 * math.pi / len(ranges), range_min=0.05, range_max=12.0, ranges=ranges)
                for message, name in ((image, "camera/image_raw"), (info, "camera/camera_info"), (scan, "scan")):
                    message.header.stamp, message.header.frame_id = header["header__stamp"], header["header__frame_id"]
                    told[name].publish(message)
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


def test_without_pictures_it_says_so():
    endpoint = f"tcp/127.0.0.1:{free_port()}"
    with Router([endpoint]):
        done = brain("calibrate", "camera", "--seconds", "2", environment={"BRAIN_ROUTER": endpoint})
    assert done.returncode == 1 and "the camera's tilt is not measured: there are no scans" in done.stderr
    assert camera_tilt.tilt(Heard(load_robot(SIM))) == "there are no scans"
    assert list(camera_tilt.findings(Heard(load_robot(SIM)))) == []
