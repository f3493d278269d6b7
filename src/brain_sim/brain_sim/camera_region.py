# SPDX-License-Identifier: Apache-2.0
"""Camera: the robot's eye as a process of its own, so that casting rays never delays the physics."""

from __future__ import annotations

import json
import logging
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from brain_runtime.contract.ports import In, Out
from brain_runtime.contract.region import Inbox, Outbox, Region, State
from brain_sim import robot
from brain_sim.camera import RayCamera
from brain_sim.description import OPTICAL
from brain_sim.movers import put_movers
from brain_wire.messages import make
from brain_wire.parameters import parameter
from brain_wire.qos import LATCHED, SENSOR
from brain_wire.rate_limited_log import RateLimitedLog
from brain_wire.safe_text import quoted

limited_log = RateLimitedLog(logging.getLogger(__name__))

POSE_TIMEOUT = 0.5


def planar_pose(message: Any) -> tuple[float, float, float]:
    """(x, y, yaw) in meters and radians of a nav_msgs/Odometry."""
    p, q = message.pose.pose.position, message.pose.pose.orientation
    return p.x, p.y, 2 * math.atan2(q.z, q.w)


def fresh_pose(inbox: Inbox) -> tuple[float, float, float] | None:
    """The newest pose on the port `pose`, or None when it is missing, old or no sound number."""
    message = inbox.get("pose", within=POSE_TIMEOUT)
    pose = None if message is None else planar_pose(message)
    return pose if pose is not None and all(map(math.isfinite, pose)) else None


def mover_places(inbox: Inbox) -> np.ndarray | None:
    """Reads the places of the movers on the port `movers`, [n, 2] in meters; None where nothing new is told of them."""
    if not inbox.new("movers"):
        return None
    places = np.array([(p.position.x, p.position.y) for p in inbox.get("movers").poses], float).reshape(-1, 2)
    return places if np.isfinite(places).all() else None


def camera_of(world: str, *size: int, **more: Any) -> RayCamera | None:
    """A :class:`RayCamera` for the text of sim/world, or None, with a warning, when the text is not one."""
    try:
        return RayCamera(json.loads(world)["xml"], *size, **more)
    except Exception as error:  # mujoco's too: whatever a text is that is no room, the camera goes on
        limited_log("world", f"sim/world is ignored, since it holds no room: {quoted(str(error))}; only the world may "
                             "publish it")
        return None


class Camera(Region):
    """Renders what the robot sees from sim/world and sim/ground_truth; the picture's stamp is the pose's."""

    frame = OPTICAL
    rate = robot.CAMERA_RATE
    ablations = {"blind": "brain_sim.blind_camera:BlindCamera", "moved": "brain_sim.moved_camera:MovedCamera"}

    world = In("sim/world", "std_msgs/msg/String", LATCHED, device=True)
    pose = In("sim/ground_truth", "nav_msgs/msg/Odometry", SENSOR, device=True)
    movers = In("sim/movers", "geometry_msgs/msg/PoseArray", SENSOR, device=True)

    image = Out("camera/image_raw", "sensor_msgs/msg/Image", SENSOR, stamp_from="pose")
    info = Out("camera/camera_info", "sensor_msgs/msg/CameraInfo", SENSOR, stamp_from="pose")

    @dataclass(frozen=True)
    class Parameters:
        """Size of the picture."""

        width: int = parameter(robot.CAMERA_WIDTH, "Columns.", unit="px", low=16, high=640, live=False)
        height: int = parameter(robot.CAMERA_ROWS, "Rows.", unit="px", low=16, high=480, live=False)
        noise: bool = parameter(True, "Whether the sensor adds noise.")
        frame_prefix: str = parameter("", "Stands in front of the frame id, as r1/.", live=False)

    def configure(self, parameters) -> None:
        """Takes the parameters; the room comes with the first sim/world."""
        super().configure(parameters)
        self.camera: RayCamera | None = None

    def opened(self, world: str) -> RayCamera | None:
        """The camera in a room, by the text of sim/world; None where that is none."""
        return camera_of(world, self.parameters.width, self.parameters.height)

    def step(self, inbox: Inbox, state: State, dt: float, rng: np.random.Generator) -> tuple[Outbox, State]:
        """One picture, unless the room or a fresh pose is missing."""
        if inbox.new("world") or (self.camera is None and inbox.get("world") is not None):
            self.camera = self.opened(inbox.get("world").data) or self.camera
        pose = fresh_pose(inbox)
        if self.camera is None or pose is None:
            return {}, state
        if (places := mover_places(inbox)) is not None:
            put_movers(self.camera.model, self.camera.data, places)
        picture = self.camera.render(*pose, rng if self.parameters.noise else None)
        frame = self.parameters.frame_prefix + self.frame
        image, info = image_message(self.image, picture, frame), info_message(self.info, self.camera, frame)
        return {"image": image, "info": info}, state


def image_message(port: Out, picture: np.ndarray, frame: str = OPTICAL) -> Any:
    """sensor_msgs/Image (rgb8) of uint8[H, W, 3]."""
    height, width, _ = picture.shape
    return port(header=make("std_msgs/msg/Header", frame_id=frame), height=height, width=width,
                encoding="rgb8", is_bigendian=0, step=3 * width, data=picture.reshape(-1))


def info_message(port: Out, camera: RayCamera, frame: str = OPTICAL) -> Any:
    """sensor_msgs/CameraInfo of a pinhole without distortion; pixel (0, 0) has its center at (0, 0)."""
    f, cx, cy = camera.focal, (camera.width - 1) / 2, (camera.height - 1) / 2
    return port(header=make("std_msgs/msg/Header", frame_id=frame), height=camera.height, width=camera.width,
                distortion_model="plumb_bob", d=np.zeros(5), k=np.array([f, 0, cx, 0, f, cy, 0, 0, 1.0]),
                r=np.eye(3).reshape(-1), p=np.array([f, 0, cx, 0, 0, f, cy, 0, 0, 0, 1.0, 0]))
