# SPDX-License-Identifier: Apache-2.0
"""Introspection as a region: everything it publishes is made on demand, and what that takes is heard only meanwhile."""
from __future__ import annotations

import logging
import math
from collections import deque
from dataclasses import dataclass, replace
from typing import Any, Iterable

import numpy as np

from brain_observe.introspection import markers, picture, ring
from brain_runtime import FEATURE, In, LATCHED, Out, SENSOR, STREAM, parameter
from brain_runtime.contract import azimuth, images
from brain_runtime.contract.camera_mount import CameraMount, CameraParameters
from brain_runtime.contract.constants import goal_state
from brain_runtime.contract.odometry import Odometry
from brain_runtime.contract.polar import RINGS
from brain_runtime.contract.robot_frames import Framed
from brain_wire import messages
from brain_wire.arrays import single

log = logging.getLogger(__name__)

DETECTED = "brain_interfaces/msg/DetectedObjects"
NUMBER = "std_msgs/msg/Float32"
PLOTTED = FEATURE.with_depth(10)    # rqt_plot subscribes reliably
ACTIONS = ("stop", "idle", "search", "approach", "avoid")   # of Choice.actions
CLASSES = 13                        # of things, channels of the memory's sheet
BELIEFS = ("entropy", "alpha", *(f"for_{name}" for name in ACTIONS))
PATH_STEP, PATH_TURN = 0.1, 0.35    # m, rad between two points of the path
PATH_POINTS = 500                   # after which every other one is let go of
PATH_PERIOD = 1.0                   # s between two paths
COMPLAINTS = 20                     # kinds of broken pictures that are told of
FRESH = 1.0                         # s after which what was heard is not shown any more
RING_SIZE = 360                     # px, of the picture of the memory
RING_FULL = 0.25                    # share of what a place can hold that is drawn opaque
PICTURES = 6                        # that wait for what vision tells of them


@dataclass(frozen=True)
class IntrospectionParameters(CameraParameters):
    """Place of the camera, for drawing into its picture, and the size at which that is drawn."""

    base_frame: str = parameter("base_link", "frame of the base, as headers name it", live=False)
    columns: int = parameter(384, "width up to which a small picture is enlarged", unit="px", low=16, high=1920)
    populations: tuple = parameter((), "populations whose rates are shown, as ears/hair on inside/rates/ears/hair; "
                                   "the graph tells all that its regions have", live=False)


def _number(topic: str) -> Out:
    return Out(f"inside/{topic}", NUMBER, PLOTTED, on_demand=True)


def _rates_of(populations: Iterable[str]) -> dict[str, Out]:
    """Ports for the rates of populations that are named by ``populations``."""
    return {f"rates/{name}": _number(f"rates/{name}") for name in populations}


class Introspection(Framed):
    """Shows what the brain sees, remembers, wants and avoids, and how much it fires."""

    rate = 5.0
    Parameters = IntrospectionParameters

    image = In("camera/image_raw", "sensor_msgs/msg/Image", SENSOR.with_depth(PICTURES), every=True, device=True,
               feeds=("picture",))
    frames, description = (replace(port, feeds=("picture",)) for port in (Framed.frames, Framed.description))
    info = In("camera/camera_info", "sensor_msgs/msg/CameraInfo", SENSOR, device=True, feeds=("picture",))
    objects = In("vision/objects", DETECTED, FEATURE.with_depth(4), trigger=True, device=True, feeds=("picture",))
    memory = In("pfc/memory", DETECTED, FEATURE, device=True, feeds=("markers", "ring"))
    choice = In("pfc/choice", "brain_interfaces/msg/Choice", FEATURE, device=True, feeds=("markers", *BELIEFS))
    sheet = In("pfc/sheet", "sensor_msgs/msg/Image", SENSOR, device=True, feeds=("ring",))
    control = In("pfc/control", "brain_interfaces/msg/Control", FEATURE, device=True,
                 feeds=("picture", "markers", "goal"))
    status = In("goal/status", "brain_interfaces/msg/GoalStatus", LATCHED, device=True, feeds=("picture", "markers"))
    features = In("sensor/features", "brain_interfaces/msg/SensorFeatures", FEATURE.with_depth(10), key="source",
                  device=True, feeds=("markers",))
    odom = In("odom", "nav_msgs/msg/Odometry", SENSOR, device=True, feeds=("path", "goal"))
    spike_trains = In("brain/spikes", "brain_interfaces/msg/SpikeTrain", STREAM, key="population", device=True,
                      feeds=("all_spikes",))     # of a configured region: its rates
    heartbeats = In("brain/heartbeat", "brain_interfaces/msg/Heartbeat", STREAM, key="name", epoch="epoch", device=True,
                    feeds=("all_spikes", "all_synops"))
    trace = In("brain/trace", "brain_interfaces/msg/Trace", STREAM, device=True, feeds=("latency",))

    picture = Out("inside/image", "sensor_msgs/msg/Image", SENSOR, on_demand=True)
    ring = Out("inside/memory", "sensor_msgs/msg/Image", SENSOR, on_demand=True)
    markers = Out("inside/markers", "visualization_msgs/msg/MarkerArray", FEATURE, on_demand=True)
    path = Out("inside/path", "nav_msgs/msg/Path", FEATURE, on_demand=True)
    goal = Out("inside/goal", "geometry_msgs/msg/PoseStamped", FEATURE, on_demand=True)
    entropy, alpha = _number("entropy"), _number("alpha")
    for_stop, for_idle, for_search, for_approach, for_avoid = (_number(f"choice/{name}") for name in ACTIONS)
    all_spikes, all_synops, latency = map(_number, ("spikes", "synops", "latency"))

    def configure(self, parameters) -> None:
        """Forgets what was shown. Nothing of it is state: what nobody sees need not survive a restart."""
        super().configure(parameters)
        self._rates_to = _rates_of(self.parameters.populations)
        self.spike_trains = replace(type(self).spike_trains, feeds=tuple(self._rates_to))
        self._pictures: deque = deque(maxlen=PICTURES)
        self._path: list = []
        self._last: tuple[float, float, float] | None = None
        self._odometry, self._camera_mount = Odometry(), CameraMount()
        self._next_path = 0.0
        self._complained: set[str] = set()
        self._shown: Any = None     # stamp of the newest picture that was shown
        self._next = 0.0            # s, host clock: when all but pictures are made again

    def hears(self):
        """The ports of the class, without spikes where no population is to be shown."""
        return {name: port for name, port in super().hears().items() if name != "spike_trains" or self._rates_to}

    def publishes(self):
        """The ports of the class, and one for the rate of each population of ``populations``."""
        return {**super().publishes(), **self._rates_to}

    @classmethod
    def would_publish(cls, parameters):
        """See :meth:`publishes`."""
        return {**super().would_publish(parameters), **_rates_of(parameters.get("populations", ()))}

    def step(self, inbox, state, dt, rng):
        """Makes what somebody looks at: pictures as vision tells of them, the rest at the region's rate."""
        wanted = self.wanted
        self._camera_mount.hear(inbox)
        self.trouble = self._odometry.refusal(inbox, FRESH)
        if not wanted:
            self._pictures.clear()
            self._path, self._last, self._next_path = [], None, 0.0
            return {}, state
        out: dict[str, Any] = {}
        if "picture" in wanted:
            out["picture"] = self._picture(inbox)
        if not wanted.isdisjoint(self._rates_to):
            out |= self._rates(inbox)
        if inbox.now >= self._next - 0.01:
            self._next = inbox.now + 1 / self.rate
            out |= self._told(inbox, wanted)
        return out, state

    def _told(self, inbox, wanted: frozenset[str]) -> dict[str, Any]:
        """All but pictures and rates."""
        out: dict[str, Any] = {}
        if "path" in wanted:
            out["path"] = self._driven(inbox)
        if "goal" in wanted:
            out["goal"] = self._goal(inbox)
        if "markers" in wanted:
            out["markers"] = self._believed(inbox)
        if "ring" in wanted:
            out["ring"] = self._ring(inbox)
        if not wanted.isdisjoint(BELIEFS):
            out |= self._beliefs(inbox)
        if "all_spikes" in wanted or "all_synops" in wanted:
            beats = [r.message for r in inbox.each("heartbeats", FRESH)]
            out["all_spikes"] = self.all_spikes(data=single(sum(b.spikes_per_second for b in beats)))
            out["all_synops"] = self.all_synops(data=single(sum(b.synops_per_second for b in beats)))
        trace = inbox.get("trace", within=FRESH)
        if trace is not None and math.isfinite(trace.latency):
            out["latency"] = self.latency(data=float(trace.latency))
        return out

    # -- the camera's picture --------------------------------------------------------------------------------------

    def _picture(self, inbox) -> Any | None:
        """The picture that vision has just told of; without vision the newest, as it is."""
        if inbox.new("image"):
            self._pictures.extend(r.message for r in inbox.each("image") if r.new)
        objects = inbox.get("objects", within=FRESH)
        if not self._pictures or (objects is not None and not inbox.new("objects")):
            return None
        seen = self._pictures[-1]
        if objects is not None:
            seen = next((p for p in self._pictures if p.header.stamp == objects.header.stamp), seen)
        elif seen.header.stamp == self._shown:
            return None
        self._shown = seen.header.stamp
        try:
            found = images.rgb(seen)
        except ValueError as wrong:
            if str(wrong) not in self._complained and len(self._complained) < COMPLAINTS:
                self._complained.add(str(wrong))
                log.warning("camera/image_raw is not shown: %s", wrong)
            return None
        rows, columns = found.shape[:2]
        scale = max(1, self.parameters.columns // columns)
        control, status = (inbox.get(name, within=age) for name, age in (("control", FRESH), ("status", math.inf)))
        target = (control.target_color, control.target_shape) if control is not None and control.goal_id else None
        note = "no word of vision" if objects is None else "" if status is None else goal_state(status.state)
        eye = self._eye(inbox, seen.header.frame_id, rows, columns)
        image = picture.drawn(found, [] if objects is None else objects.objects, eye,
                              None if target == (0, 0) else target, scale, note)
        message = self.picture(height=image.shape[0], width=image.shape[1], encoding="rgb8", step=3 * image.shape[1],
                               data=image.reshape(-1))
        message.header.frame_id, message.header.stamp = seen.header.frame_id, seen.header.stamp
        return message

    def _eye(self, inbox, frame: str, rows: int, columns: int) -> picture.Eye:
        p = self.parameters
        try:
            lens = images.lens(inbox.get("info"), (columns, rows), p.field_of_view, p.rectified)
        except images.LensError:    # vision says so, and tells of no objects that could be drawn in
            lens = images.lens(None, (columns, rows), p.field_of_view)
        return picture.Eye(self._camera_mount.of(p, frame, p.base_frame).mount, lens)

    # -- places ----------------------------------------------------------------------------------------------------

    def _believed(self, inbox) -> Any:
        memory, control = inbox.get("memory", within=FRESH), inbox.get("control", within=FRESH)
        status = inbox.get("status")
        found = [] if memory is None else markers.remembered(memory)
        found += [] if control is None else markers.wanted(control)
        choice = inbox.get("choice", within=FRESH)
        found += [] if choice is None else markers.chosen(choice)
        found += markers.felt([r.message for r in inbox.each("features", FRESH)], control)
        if status is not None and control is not None:
            found += markers.said(status, control.header)
        return self.markers(markers=found)

    def _goal(self, inbox) -> Any | None:
        """Builds the goal's pose in the odometry's frame: the target, or a meter ahead in the wanted direction."""
        control, odom, pose = inbox.get("control", within=FRESH), inbox.get("odom"), self._odometry.pose(inbox, FRESH)
        if control is None or pose is None:
            return None
        bearing, distance = float(control.bearing), float(control.distance)
        if not (math.isfinite(bearing) and math.isfinite(distance)):
            bearing, distance = float(control.heading), 1.0
        if not math.isfinite(bearing):
            return None
        yaw = pose[2] + bearing
        return _pose(self.goal, odom.header.frame_id, pose[0] + distance * math.cos(yaw),
                     pose[1] + distance * math.sin(yaw), yaw)

    def _driven(self, inbox) -> Any | None:
        """The way since somebody looks; it begins anew where the robot was carried."""
        odom, pose = inbox.get("odom"), self._odometry.pose(inbox, FRESH)
        if pose is None:
            return None
        x, y, yaw = self._last or (math.inf, math.inf, 0.0)
        moved = math.hypot(pose[0] - x, pose[1] - y)
        if moved > PATH_STEP or abs(azimuth.wrap(pose[2] - yaw)) > PATH_TURN:
            if moved > 2.0:
                self._path = []
            self._last = pose
            self._path.append(_pose(_stamped, odom.header.frame_id, *pose))
            self._path[-1].header.stamp = odom.header.stamp
            if len(self._path) > PATH_POINTS:
                del self._path[1::2]
        if inbox.now < self._next_path:
            return None
        self._next_path = inbox.now + PATH_PERIOD
        message = self.path(poses=list(self._path))
        message.header.frame_id = odom.header.frame_id
        return message

    def _ring(self, inbox) -> Any | None:
        """The memory of the prefrontal cortex as a picture; none while it tells nothing that can be read."""
        sheet, memory = inbox.get("sheet", within=FRESH), inbox.get("memory", within=FRESH)
        shape = RINGS, azimuth.BINS, CLASSES
        if sheet is None or (sheet.height, sheet.width) != shape[:2] or sheet.data.size != math.prod(shape):
            return None
        evidence = sheet.data.reshape(shape).transpose(2, 1, 0) / np.float32(255.0)
        image = ring.drawn(evidence, RING_FULL, [] if memory is None else memory.objects, RING_SIZE)
        message = self.ring(height=RING_SIZE, width=RING_SIZE, encoding="rgb8", step=3 * RING_SIZE,
                            data=image.reshape(-1))
        message.header = sheet.header
        return message

    # -- numbers ---------------------------------------------------------------------------------------------------

    def _rates(self, inbox) -> dict[str, Any]:
        """Spikes per neuron and second of each population that has told since the last step."""
        found: dict[str, Any] = {}
        for received in inbox.each("spike_trains", FRESH):
            train = received.message
            names = (f"rates/{told}" for told in (train.population, train.population.rpartition("/")[2]))
            name = next((name for name in names if name in self._rates_to), None)
            if received.new and name is not None:
                bins = float(np.max(train.bin)) + 1.0 if len(train.bin) else 1.0
                rate = train.total / max(train.size, 1) / max(bins * train.bin_width, 1e-6)
                found[name] = self._rates_to[name](data=single(rate))
        return found

    def _beliefs(self, inbox) -> dict[str, Any]:
        """Builds the messages of how undecided the prefrontal cortex is, and of how much fires for each action."""
        choice = inbox.get("choice", within=FRESH)
        if choice is None:
            return {}
        numbers = (choice.entropy, choice.alpha, *choice.actions)
        return {name: getattr(self, name)(data=float(number)) for name, number in zip(BELIEFS, numbers)}


def _stamped(**fields: Any) -> Any:
    return messages.make("geometry_msgs/msg/PoseStamped", **fields)


def _pose(make: Any, frame: str, x: float, y: float, yaw: float) -> Any:
    message = make()
    message.header.frame_id = frame
    message.pose.position.x, message.pose.position.y = x, y
    message.pose.orientation.z, message.pose.orientation.w = math.sin(yaw / 2), math.cos(yaw / 2)
    return message
