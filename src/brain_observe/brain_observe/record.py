# SPDX-License-Identifier: Apache-2.0
"""Keeps what a run was like: the true path, what the eye saw, spikes, and what was wanted. It only listens."""
from __future__ import annotations

import copy
import json
import time
from typing import Any

import numpy as np

from brain_wire import messages
from brain_wire import Node
from brain_wire.qos import FEATURE, LATCHED, SENSOR, STREAM

PATH_PERIOD = 0.1       # s between two points of the path
EYE_PERIOD = 0.2        # s between two pictures that are kept
ROWS = 120              # neurons of each population whose spikes are kept
MOST_POPULATIONS = 16
MOST_MESSAGES = 20_000  # of each population
MOST_PICTURES = 6000
MOST_NEURONS = 1_000_000  # of a population that is recorded


VERDICT = {"sentence", "outcome", "success", "time", "object", "reason"}
"""What a verdict of the world tells; what lacks one is none."""


class Spikes:
    """Spikes of one population: those of a fixed, random choice of its neurons, and the rate of all.

    Attributes:
        size: neurons in the population.
        rows: how many of them were chosen.
        times, chosen: per message, when (s since the recording began) which row spiked.
        rates: (s, spikes per neuron and second) of each message.
    """

    def __init__(self, size: int) -> None:
        self.size = max(size, 1)
        self.rows = min(ROWS, self.size)
        self.times: list[np.ndarray] = []
        self.chosen: list[np.ndarray] = []
        self.rates: list[tuple[float, float]] = []
        picked = np.sort(np.random.default_rng(0).choice(self.size, self.rows, replace=False))
        self._row = np.full(self.size, -1, np.int16)
        self._row[picked] = np.arange(self.rows)

    def add(self, message: Any, t: float) -> None:
        """Takes in a ``SpikeTrain`` whose last bin ended at ``t``."""
        bins = np.asarray(message.bin, np.float32)
        neurons = np.minimum(np.asarray(message.neuron), self.size - 1)
        count = float(bins.max()) + 1.0 if len(bins) else 1.0
        rows = self._row[neurons]
        kept = rows >= 0
        self.times.append((t + (bins[kept] + 1.0 - count) * message.bin_width).astype(np.float32))
        self.chosen.append(rows[kept])
        self.rates.append((t, float(message.total) / self.size / max(count * message.bin_width, 1e-6)))


class Recorder:
    """Records through a node. It does nothing by itself: call :meth:`take` often.

    Attributes:
        path: (t, x, y, yaw) of the robot: s since the recording began, m, rad.
        eye: (t, uint8 [H, W, 3]) pictures.
        spikes: by population.
        room: the room's JSON, from sim/world.
        report: newest sim/verdict.
        broken: messages that could not be taken in; the regions complain about them.
        objects, control: newest messages of vision and pfc.
    """

    def __init__(self, node: Node) -> None:
        self.begin = time.monotonic()
        self.path: list[tuple[float, float, float, float]] = []
        self.eye: list[tuple[float, np.ndarray]] = []
        self.spikes: dict[str, Spikes] = {}
        self.room: dict[str, Any] | None = None
        self.xml = ""
        self.request: dict[str, Any] = {}
        self.report: dict[str, Any] = {}
        self.broken = 0
        self.objects: Any | None = None
        self.control: Any | None = None
        self.picture: np.ndarray | None = None
        self.broken = 0
        topic = node.subscription
        self._handlers = [
            (topic("sim/ground_truth", "nav_msgs/msg/Odometry", SENSOR), self._pose),
            (topic("camera/image_raw", "sensor_msgs/msg/Image", SENSOR), self._image),
            (topic("brain/spikes", "brain_interfaces/msg/SpikeTrain", STREAM), self._spikes),
            (topic("sim/world", "std_msgs/msg/String", LATCHED), self._world),
            (topic("sim/verdict", "std_msgs/msg/String", LATCHED), self._verdict),
            (topic("vision/objects", "brain_interfaces/msg/DetectedObjects", FEATURE), self._objects),
            (topic("pfc/control", "brain_interfaces/msg/Control", FEATURE), self._control),
        ]

    @property
    def now(self) -> float:
        """Seconds since the recording began."""
        return time.monotonic() - self.begin

    def take(self) -> None:
        """Takes in what has come."""
        for subscription, handler in self._handlers:
            for arrival in subscription.take():
                if handler in (self._pose, self._image) and not self._due(handler, arrival.received):
                    continue
                try:
                    handler(messages.decode(arrival.data, subscription.type), arrival.received - self.begin)
                except Exception:   # whatever another node publishes: a picture of the run may miss what was broken
                    self.broken += 1

    def _due(self, handler: Any, received: float) -> bool:
        kept, period = (self.path, PATH_PERIOD) if handler == self._pose else (self.eye, EYE_PERIOD)
        return not kept or received - self.begin - kept[-1][0] >= period

    def _pose(self, message: Any, t: float) -> None:
        p, q = message.pose.pose.position, message.pose.pose.orientation
        self.path.append((t, p.x, p.y, 2 * float(np.arctan2(q.z, q.w))))

    def _image(self, message: Any, t: float) -> None:
        if message.encoding != "rgb8" or not message.height or not message.width:
            return
        self.picture = np.array(message.data, np.uint8).reshape(message.height, message.width, 3)
        if len(self.eye) < MOST_PICTURES:
            self.eye.append((t, self.picture))

    def _spikes(self, message: Any, t: float) -> None:
        if message.size > MOST_NEURONS:
            raise ValueError(f"{message.population} has {message.size} neurons; at most {MOST_NEURONS} are recorded")
        if message.population not in self.spikes and len(self.spikes) < MOST_POPULATIONS:
            self.spikes[message.population] = Spikes(int(message.size))
        kept = self.spikes.get(message.population)
        if kept is not None and len(kept.times) < MOST_MESSAGES:
            kept.add(message, t)

    def _world(self, message: Any, t: float) -> None:
        world = json.loads(message.data)
        room, xml, request = world["room"], world["xml"], world["request"]
        if not (isinstance(room, dict) and isinstance(xml, str) and isinstance(request, dict)):
            raise ValueError("sim/world does not tell a room")
        self.room, self.xml, self.request = room, xml, request

    def _verdict(self, message: Any, t: float) -> None:
        report = json.loads(message.data)
        if not all(isinstance(verdict, dict) for verdict in report.get("verdicts") or ()):
            raise ValueError("sim/verdict holds what is no verdict")
        self.report = report

    def _objects(self, message: Any, t: float) -> None:
        self.objects = message

    def _control(self, message: Any, t: float) -> None:
        self.control = message

    def freeze(self) -> Recorder:
        """A copy that does not grow any more."""
        frozen = copy.copy(self)
        frozen.path, frozen.eye = list(self.path), list(self.eye)
        frozen.spikes = {}
        for name, kept in self.spikes.items():
            still = frozen.spikes[name] = copy.copy(kept)
            still.times, still.chosen, still.rates = list(kept.times), list(kept.chosen), list(kept.rates)
        return frozen

    @property
    def verdicts(self) -> list[dict[str, Any]]:
        """The world's verdicts so far."""
        found = self.report.get("verdicts")
        return [v for v in found if isinstance(v, dict) and VERDICT <= v.keys()] if isinstance(found, list) else []

    def moved(self) -> float | None:
        """Returns when the robot had driven or turned for the first time (s since the recording began), or None."""
        for before, after in zip(self.path, self.path[1:]):
            if np.hypot(after[1] - before[1], after[2] - before[2]) > 0.01 or abs(after[3] - before[3]) > 0.02:
                return after[0]
        return None
