# SPDX-License-Identifier: Apache-2.0
"""Objects in a picture by a lens and a mounting: the one place where scores meet vision, of whatever network.

A vision is a region, and is run as a robot runs it: what it hears is put into its inbox, and what it tells is taken
out. So one of another network, with another input, is scored without a change here.
"""
from __future__ import annotations

import math
from dataclasses import fields
from pathlib import Path
from typing import Any, Mapping, NamedTuple

import numpy as np

from brain_regions import weight_files
from brain_regions.vision.network import RESOLUTION
from brain_runtime.contract.images import Lens
from brain_runtime.contract.optics import Mount
from brain_runtime.contract.region import Region
from brain_runtime.contract.sights import COLORS, SHAPES
from brain_runtime.contract.stepper import Stepper
from brain_runtime.interfaces import DetectedObject
from brain_wire import messages

IMAGE, INFO = "sensor_msgs/msg/Image", "sensor_msgs/msg/CameraInfo"
OBJECTS = "brain_interfaces/msg/DetectedObjects"
LOOKS, PERIOD = 4, 0.05     # of a still: times, s
STATIC = "tf_static"
TILTED = math.radians(25.0)     # of a camera's roll, from which on it must be undone
FLOOR = 0.05                # confidence below which nothing is taken into account
COLOR_WORDS = {number: name for number, name in COLORS.items() if number != DetectedObject.COLOR_UNKNOWN}
KIND_WORDS = {number: name for number, name in SHAPES.items() if number != DetectedObject.SHAPE_UNKNOWN}


class Seen(NamedTuple):
    """An object that vision tells of.

    Attributes:
        color, kind: in words; empty where it does not say.
        confidence: 0..1.
        bearing: rad, level, from where the camera looks, positive to the left.
        message: the DetectedObject.
    """

    color: str
    kind: str
    confidence: float
    bearing: float
    message: Any


class Looker:
    """A vision that looks.

    Args:
        cls: the region.
        name: for messages to a person.
        weights: of the region, where it has any; empty: its own.

    Attributes:
        threshold: confidence from which on the region tells of an object, by its weight file.
        refused: why the last picture was refused; empty: it was not.

    Raises:
        WeightsError, ParameterError: the region cannot be made.
    """

    def __init__(self, cls: type[Region], name: str = "vision", weights: str = "") -> None:
        self.name, self.refused = name, ""
        self._cls, self._known = cls, {field.name for field in fields(cls.Parameters)}
        self._weights = {"weights": weights} if weights and "weights" in self._known else {}
        self.threshold = 0.0 if cls.weights is None else _threshold(cls.weights.path(weights))
        self._region = cls(name)
        self._ports = {port.type: key for key, port in self._region.hears().items()}
        self._mount = Mount(height=math.nan)
        self._stepper: Stepper | None = None

    def _why_not(self) -> str:
        """Tells why a camera that is mounted so is not looked through; empty: it is."""
        tilted = abs(math.remainder(self._mount.roll, 2 * math.pi)) > TILTED
        if tilted and "camera_roll" not in self._known and STATIC not in self.hears:
            return (f"the camera is rolled by {math.degrees(self._mount.roll):.0f} degrees, which {self.name} does not "
                    f"undo")
        return ""

    @property
    def hears(self) -> dict[str, str]:
        """Topics that it hears beside pictures and their lens, and their types."""
        return {port.topic: port.type for port in self._region.hears().values() if port.type not in (IMAGE, INFO)}

    def rest(self, view: float, mount: Mount) -> None:
        """Begins anew, as a network that has seen nothing.

        Args:
            view: of the camera (rad), where no CameraInfo tells it.
            mount: of the camera; a height that is NaN is unknown. Of it the region gets what it asks for.
        """
        told = {"field_of_view": view, "confidence": FLOOR, "spikes": False, **{
            f"camera_{name}": value for name, value in vars(mount).items() if math.isfinite(value)}}
        self._mount = Mount(*(value if f"camera_{name}" in self._known or name in ("height", "pitch", "roll") else 0.0
                              for name, value in vars(mount).items()))
        self._region.configure({**{name: value for name, value in told.items() if name in self._known},
                                **self._weights})
        self._stepper = Stepper(self._region)

    def hear(self, kind: str, message: Any, now: float) -> None:
        """Puts a message of a type into its inbox, at ``now`` (s)."""
        assert self._stepper is not None
        if kind in self._ports:
            self._stepper.offer(self._ports[kind], message, now)

    def look(self, picture: np.ndarray, info: Any, now: float, stamp: float | None = None) -> list[Seen]:
        """Looks once, with membranes as they are.

        Args:
            picture: uint8 [rows, columns, 3].
            info: CameraInfo of it; None: nobody told.
            now: s.
            stamp: of the picture (s); None: now.

        Returns:
            Objects, the surest first; none where the picture is refused.
        """
        assert self._stepper is not None
        if why := self._why_not():
            self.refused = why
            return []
        if info is not None:
            self.hear(INFO, info, now)
        self.hear(IMAGE, message_of(picture, now if stamp is None else stamp), now)
        told = [message for port, message in self._stepper.step(now, now) if port.type == OBJECTS]
        self.refused = "" if told else self._region.trouble or "it was not looked at"
        return sorted((self._seen(one) for message in told for one in message.objects if one.confidence >= FLOOR),
                      key=lambda seen: -seen.confidence)

    def look_at_still(self, picture: np.ndarray, info: Any, view: float, mount: Mount) -> list[Seen]:
        """Looks at one picture :data:`LOOKS` times, :data:`PERIOD` apart, from rest; returns what is told then."""
        self.rest(view, mount)
        found: list[Seen] = []
        for number in range(LOOKS):
            found = self.look(picture, info, 1.0 + PERIOD * number)
        return found

    def _seen(self, one: Any) -> Seen:
        """A DetectedObject from the camera's place, where that is not the base's."""
        bearing, mount = float(one.bearing), self._mount
        if (mount.x or mount.y) and math.isfinite(one.distance):
            bearing = math.atan2(one.distance * math.sin(bearing) - mount.y,
                                 one.distance * math.cos(bearing) - mount.x)
        return Seen(COLOR_WORDS.get(one.color, ""), KIND_WORDS.get(one.shape, ""), float(one.confidence),
                    math.remainder(bearing - mount.yaw, 2 * math.pi), one)


def visions(weights: str = "", only: Mapping[str, Any] | None = None) -> dict[str, Looker]:
    """The spiking vision, and what is compared with it: its ReLU twin and colour thresholds, by name.

    Args:
        weights: of the spiking one.
        only: names that are made; None: all.
    """
    from brain_regions.vision import Vision
    from brain_runtime.contract.declared import named

    found: dict[str, Looker] = {}
    for name, what in {"spiking": Vision, **Vision.baselines}.items():
        if only is None or name in only:
            cls = named(what, f"the baseline {name} of vision") if isinstance(what, str) else what
            found[name] = Looker(cls, "vision", weights if name == "spiking" else "")
    return found


def scale(lens: Lens) -> float:
    """Pixels of the network's picture to one of the camera's, along a row."""
    return 1.0 / (RESOLUTION * lens.focal)


def message_of(picture: np.ndarray, stamp: float) -> Any:
    """``sensor_msgs/Image`` of a picture, uint8 [rows, columns, 3]."""
    rows, columns = picture.shape[:2]
    made = messages.make(IMAGE, height=rows, width=columns, encoding="rgb8", step=3 * columns,
                         data=np.ascontiguousarray(picture).reshape(-1))
    made.header.stamp = messages.time_message(stamp)
    return made


def _threshold(path: Path) -> float:
    """Confidence from which on objects are told, by a weight file; whether that fits, its region says."""
    told = weight_files.report_of(path).get("threshold")
    return float(told) if isinstance(told, (int, float)) else 0.0
