# SPDX-License-Identifier: Apache-2.0
"""A robot as its profile says, in lockstep in a room of the simulator: its topics, rates, mounts, outline and limits.

The simulated robot of :mod:`brain_sim` has one body. Here World and Camera get the body of a profile: what its regions
are told (``shared``), and what its sensors and its base are (``kit``). Physics, rays and noise are the simulator's.
"""
from __future__ import annotations

import json
import math
from dataclasses import dataclass, fields, replace
from typing import Any, Callable, NamedTuple

import mujoco
import numpy as np

from brain_eval.policies import ablation_of
from brain_runtime.contract.ablation import Ablation
from brain_runtime.contract.camera_mount import CameraParameters
from brain_runtime.graph import SIM_WORLD
from brain_runtime.graph.resolve import resolve
from brain_runtime.graph.robots import Robot, load_robot
from brain_runtime.graph.rooms import SAID
from brain_runtime.hosts.local import LocalHost
from brain_runtime.interfaces import GoalStatus
from brain_sim import robot as simulated
from brain_sim.camera import RayCamera
from brain_sim.camera_region import Camera, fresh_pose, image_message, info_message
from brain_sim.description import CAMERA, JOINTS, LIDAR, OPTICAL, transform
from brain_sim.judge import Judge, Request
from brain_sim.physics import Observer, Simulation
from brain_sim.room import Room
from brain_sim.sensors import Lidar
from brain_sim.things import Obstacle, RoomObject
from brain_sim.world import World
from brain_wire.messages import make, time_message
from brain_wire.parameters import parameter

HALL = (9.0, 9.0)           # m, of the room in which a robot goes to a ball
REACH = simulated.REACH     # m from the robot's edge within which the ball must be
ENDED = {GoalStatus.STATE_REACHED: "reached", GoalStatus.STATE_WRONG: "wrong object",
         GoalStatus.STATE_NOT_FOUND: "not found", GoalStatus.STATE_NOT_UNDERSTOOD: "not understood"}
SENTENCE = "go to the red ball"


@dataclass(frozen=True)
class Mounts(CameraParameters):
    """Mounting of lidar and camera, by the names that profiles have for it."""

    lidar_x: float = parameter(0.0, "how far ahead of the base frame the lidar is", unit="m", low=-5.0, high=5.0)
    lidar_y: float = parameter(0.0, "how far to the left it is", unit="m", low=-5.0, high=5.0)
    lidar_yaw: float = parameter(0.0, "direction of the scan's angle 0", unit="rad", low=-math.pi, high=math.pi)
    lidar_height: float = parameter(simulated.LIDAR_HEIGHT, "how high above the floor it is", unit="m", low=0.0,
                                    high=5.0)
    lidar_frame: str = parameter(LIDAR, "its frame")
    camera_frame: str = parameter(OPTICAL, "its optical frame")


@dataclass(frozen=True)
class WorldParameters(World.Parameters, Mounts):
    """The room, and a body."""

    room_text: str = parameter("", "the room as JSON, instead of a generated one", live=False)
    radius: float = parameter(simulated.BASE_RADIUS, "of the robot", unit="m", low=0.02, high=2.0)
    scan_zero_is_far: bool = parameter(False, "the lidar's driver writes 0 for no return")
    lidar_rate: float = parameter(simulated.LIDAR_RATE, "scans", unit="Hz", low=0.5, high=100.0)
    lidar_beams: int = parameter(simulated.LIDAR_BEAMS, "beams of a scan", low=5, high=5000)
    lidar_from: float = parameter(-math.pi, "first beam's angle", unit="rad", low=-7.0, high=7.0)
    lidar_to: float = parameter(math.pi * (1 - 2 / simulated.LIDAR_BEAMS), "last beam's angle", unit="rad", low=-7.0,
                                high=7.0)
    lidar_nearest: float = parameter(simulated.LIDAR_MIN, "least range", unit="m", low=0.0, high=5.0)
    lidar_farthest: float = parameter(simulated.LIDAR_MAX, "largest range", unit="m", low=0.5, high=100.0)
    odom_rate: float = parameter(simulated.ODOM_RATE, "messages of odometry", unit="Hz", low=1.0, high=100.0)
    max_linear: float = parameter(simulated.MAX_SPEED, "speed that the base itself holds", unit="m/s", low=0.01,
                                  high=simulated.MAX_SPEED)
    max_angular: float = parameter(simulated.MAX_TURN, "turning speed that it holds", unit="rad/s", low=0.01,
                                   high=simulated.MAX_TURN)


class ProfiledSimulation(Simulation):
    """A robot of another size, with its lidar elsewhere."""

    def __init__(self, room: Room, observer: Observer | None, body: WorldParameters):
        super().__init__(room, observer)
        size, tall = 'size="{:.9g} {:.9g}"'.format, simulated.BASE_HEIGHT / 2
        begin, base, end = self.xml.partition('<geom name="base"')
        self.xml = begin + base + end.replace(size(simulated.BASE_RADIUS, tall), size(body.radius, tall), 1)
        self.model = mujoco.MjModel.from_xml_string(self.xml)
        self.data = mujoco.MjData(self.model)
        self._base_geom = self.model.geom("base").id
        mujoco.mj_forward(self.model, self.data)
        self._body = body
        self.lidar = Lidar(self.model, body.lidar_height, body.lidar_beams, far=body.lidar_farthest)
        self.lidar.angles = np.linspace(body.lidar_from, body.lidar_to, body.lidar_beams)

    def command(self, v: float, w: float) -> None:
        """See Simulation; the base holds its own limits."""
        body = self._body
        super().command(min(max(v, -body.max_linear), body.max_linear), min(max(w, -body.max_angular),
                                                                            body.max_angular))

    def scan(self, noisy: bool = True) -> np.ndarray:
        """Ranges float32[beams] in meters from where the lidar is."""
        body, (c, s) = self._body, (math.cos(self.yaw), math.sin(self.yaw))
        x, y = self.x + c * body.lidar_x - s * body.lidar_y, self.y + s * body.lidar_x + c * body.lidar_y
        found = self.lidar.ranges(self.data, x, y, self.yaw + body.lidar_yaw, self._scan_rng if noisy else None)
        if body.scan_zero_is_far:
            found[np.isinf(found)] = 0.0
        return found


class ProfiledWorld(World):
    """The world with a profile's robot in it."""

    Parameters = WorldParameters

    def _reset(self, request: dict[str, Any]) -> None:
        super()._reset(request)
        body: WorldParameters = self.parameters
        if body.room_text:
            self._judge = Judge(Request(request, Room.from_json(body.room_text), None, {}))
        self.simulation = ProfiledSimulation(self._judge.room, self._judge.observe, body)
        self._rolled_at = self.simulation.pose
        # those of the simulated robot never come; ours do
        self._next |= {"scan": math.inf, "odom": math.inf, "its scan": 0.0, "its odometry": 0.0}

    def _publish(self, stamp: float) -> dict[str, Any]:
        body, sim, out = self.parameters, self.simulation, dict(super()._publish(stamp))
        if out.pop("robot_description", None) is not None:      # which is the simulated robot's
            out["tf_static"] = self.tf_static(transforms=self._fixed(time_message(stamp)))
        if self._due("its odometry", 1 / body.odom_rate):
            o = sim.read_odometry()
            out["odom"] = self._odometry(self.odom, "odom", o.x, o.y, o.yaw, o.v, o.w, 1e-3)
            if "tf" in self.wanted:
                out["tf"] = self._tf_message(o, time_message(stamp))
        if self._due("its scan", 1 / body.lidar_rate):
            angles = sim.lidar.angles
            out["scan"] = self.scan(
                header=self._header(body.lidar_frame), angle_min=angles[0], angle_max=angles[-1],
                angle_increment=(angles[-1] - angles[0]) / (len(angles) - 1), scan_time=1 / body.lidar_rate,
                range_min=body.lidar_nearest, range_max=body.lidar_farthest, ranges=sim.scan())
        return out

    def _fixed(self, stamp: Any) -> list[Any]:
        body, mount = self.parameters, self.parameters.mount
        places = {
            LIDAR: (body.lidar_frame, (body.lidar_x, body.lidar_y, body.lidar_height), (0.0, 0.0, body.lidar_yaw)),
            CAMERA: (CAMERA, (mount.x, mount.y, mount.height), (mount.roll, mount.pitch, mount.yaw))}
        found = []
        for joint in JOINTS:
            if not joint.moving:
                name, at, turned = places.get(joint.child, (joint.child, joint.xyz, joint.rpy))
                found.append(transform(joint.parent, body.camera_frame if name == OPTICAL else name, at, turned, stamp,
                                       self._prefix))
        return found


@dataclass(frozen=True)
class PictureParameters(Camera.Parameters, Mounts):
    """Size of the picture, lens and mounting."""

    picture_rate: float = parameter(simulated.CAMERA_RATE, "pictures", unit="Hz", low=1.0, high=100.0)


class ProfiledCamera(Camera):
    """The camera where a profile has it."""

    Parameters = PictureParameters

    def configure(self, parameters) -> None:
        """Takes the parameters; the rate is one of them."""
        super().configure(parameters)
        self.rate = self.parameters.picture_rate

    def step(self, inbox, state, dt, rng):
        """One picture, unless the room or a fresh pose is missing."""
        p: PictureParameters = self.parameters
        if self.camera is None and inbox.get("world") is not None:
            self.camera = RayCamera(json.loads(inbox.get("world").data)["xml"], p.width, p.height, p.field_of_view,
                                    mount=p.mount)
        pose = fresh_pose(inbox)
        if self.camera is None or pose is None:
            return {}, state
        picture = self.camera.render(*pose, rng if p.noise else None)
        frame = p.frame_prefix + p.camera_frame
        return {"image": image_message(self.image, picture, frame),
                "info": info_message(self.info, self.camera, frame)}, state


def body_of(robot: Robot) -> dict[str, Any]:
    """Collects what a profile and its kit say of a body, by the names of the parameters above."""
    kit = {part: robot.kit.get(part, {}) for part in ("lidar", "camera", "base")}
    known = {**robot.shared, **robot.regions.get("vision", {})}
    names = "radius", "lidar_x", "lidar_y", "lidar_yaw", "scan_zero_is_far", "stamped"
    found = {name: known[name] for name in (*names, *(one.name for one in fields(CameraParameters))) if name in known}
    for part, keys in (("lidar", ("rate", "beams", "from", "to", "nearest", "farthest", "height", "frame")),
                       ("camera", ("frame",))):
        found |= {f"{part}_{key}": kit[part][key] for key in keys if key in kit[part]}
    for name, key, most in (("max_linear", "max_linear", simulated.MAX_SPEED),
                            ("max_angular", "max_angular", simulated.MAX_TURN)):
        if key in kit["base"]:      # the simulated base has limits of its own
            found[name] = min(float(kit["base"][key]), most)
    return found | {name: kit[part][key] for name, part, key in (
        ("odom_rate", "base", "odom_rate"), ("picture_rate", "camera", "rate")) if key in kit[part]}


def hall(height: float = 0.0, at: tuple[float, float] = (2.6, 1.5), seed: int = 0) -> Room:
    """A hall with a red ball, two other things and a block; the robot stands in the middle and looks along x.

    Args:
        height: of the lidar (m). The ball is about as wide there as anywhere: a lidar sees only what is in its plane,
            and a robot touches what is wider below it.
        at: of the ball (m).
        seed: of the sensors' noise.
    """
    radius = max(0.17, 0.9 * height)
    grey = (0.55, 0.55, 0.58)
    return Room(
        split="val", seed=seed, size=HALL, wall_height=2.5, wall_rgb=((0.75, 0.74, 0.70),) * 4,
        floor_rgb=((0.50, 0.47, 0.42), (0.42, 0.40, 0.36)), floor_tile=0.5, ceiling_rgb=(0.85, 0.85, 0.85), ambient=0.6,
        directional=0.4, light=(0.3, 0.2, 0.93),
        obstacles=(Obstacle("obstacle_0", -1.2, 2.9, 0.4, 0.3, 0.25, 0.8, grey),),
        objects=(RoomObject("object_0_red_ball", "red", "ball", *at, 0.0, radius, 2 * radius, (0.80, 0.12, 0.10)),
                 RoomObject("object_1_blue_box", "blue", "box", 2.9, -1.9, 0.3, 0.22, 0.6, (0.12, 0.25, 0.80)),
                 RoomObject("object_2_green_cylinder", "green", "cylinder", -2.9, -1.5, 0.0, 0.18, 0.8,
                            (0.12, 0.70, 0.20))),
        start=(0.0, 0.0, 0.0), target=("red", "ball"), avoid=None, absent=False, visibility="front", shortest=2.0)


class Drive(NamedTuple):
    """Outcome of a drive to the ball.

    Attributes:
        outcome: the brain's last word on its goal, or ``timeout``.
        time: simulated, from the sentence on (s).
        gap: between the robot's edge and the ball at the end (m).
        contacts: names of what it touched.
        fastest: largest speed (m/s).
        reason: of the outcome, for a person.
    """

    outcome: str
    time: float
    gap: float
    contacts: tuple[str, ...]
    fastest: float
    reason: str

    @property
    def well(self) -> bool:
        """True if it says that it is there, is, and touched nothing."""
        return self.outcome == "reached" and self.gap <= REACH and not self.contacts


def drive(name: str, vision: str = "conventional", *, width: int = 160, seconds: float = 180.0, seed: int = 0,
          look: Callable[[LocalHost], None] | None = None) -> Drive:
    """Drives the robot of a profile to the ball of :func:`hall`, in lockstep.

    Args:
        name: of a profile, or its path.
        vision: ``conventional``, colors and outlines with the mounting told; ``brain``, the graph's own.
        width: of the picture (px); its shape is that of the robot's camera.
        seconds: after which it is given up.
        seed: of all that is random.
        look: called before the first step.

    Raises:
        RobotError: there is no such profile, or it is refused.
    """
    robot = load_robot(name)
    body, camera = body_of(robot), robot.kit.get("camera", {})
    height = round(width * camera.get("height_px", 480) / camera.get("width", 640))
    own = ablation_of("scripted" if vision == "conventional" else "brain")
    instead = replace(own, classes={**own.classes, "world": f"{__name__}:ProfiledWorld",
                                    "camera": f"{__name__}:ProfiledCamera"})
    room = hall(body.get("lidar_height", 0.0), seed=seed)

    def taken(cls: type) -> dict[str, Any]:
        return {key: value for key, value in body.items() if key in cls.__dataclass_fields__}

    from brain_eval.baselines.color_vision import ColorVision

    given = {"world": {**taken(WorldParameters), "room_text": room.to_json()},
             "camera": {**taken(PictureParameters), "width": width, "height": height}}
    if vision == "conventional":
        given["vision"] = taken(ColorVision.Parameters)
    resolved = resolve("brain", SIM_WORLD, name, parameters=given, ablation=Ablation(instead.classes), host="local",
                       edges=False)
    host = LocalHost(resolved.make(), seed=seed, critical=resolved.critical, parameters=resolved.parameters())
    heard: list[Any] = []
    host.listen("goal/status", heard.append)
    if look is not None:
        look(host)
    host.advance(0.5)
    words, begin = make("std_msgs/msg/String", data=SENTENCE), host.now
    for topic in SAID:
        host.publish(topic, words)
    while host.now - begin < seconds and not (heard and heard[-1].text == SENTENCE and heard[-1].state in ENDED):
        host.advance(0.1)
    sim: Simulation = host.regions["world"].simulation
    ball = room.objects[0].footprint
    last = heard[-1] if heard else None
    return Drive(ENDED.get(last.state, "timeout") if last is not None else "timeout", round(host.now - begin, 2),
                 float(ball.distance_at(sim.x, sim.y)) - body.get("radius", simulated.BASE_RADIUS),
                 tuple(name for _, name in sim.contacts), sim.invariants.max_speed,
                 "" if last is None else last.reason)
