# SPDX-License-Identifier: Apache-2.0
"""ColorVision: objects by color thresholds and outlines, the classical control for the spiking vision.

It has the same ports as ``brain_regions.vision:Vision`` and no weights: saturated pixels are sorted by hue, columns
of one hue that hang together are an object, its lowest pixel on the floor gives the distance, its outline and shading
the shape. Good where the light is plain and objects stand apart; it has no notion of what it does not expect.
"""
from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from brain_regions.vision import Vision
from brain_runtime import FEATURE, In, Out, Region, SENSOR
from brain_runtime.contract import images, sights
from brain_runtime.contract.camera_mount import USUAL, CameraParameters
from brain_runtime.contract.optics import Mount
from brain_runtime.interfaces import DetectedObject
from brain_wire import messages

SATURATION = 0.5        # walls, floor and obstacles stay below
DARKEST = 30            # of 255; hue means nothing below
HUES = {DetectedObject.COLOR_RED: 0.0, DetectedObject.COLOR_GREEN: 120.0, DetectedObject.COLOR_BLUE: 225.0,
        DetectedObject.COLOR_YELLOW: 52.0}      # degrees
MIN_PIXELS = 10
RADIUS = 0.215                                  # m, mean half width of the objects
BALL, BOX, CYLINDER = DetectedObject.SHAPE_BALL, DetectedObject.SHAPE_BOX, DetectedObject.SHAPE_CYLINDER


def color_labels(image: np.ndarray) -> np.ndarray:
    """Color (0 none, else ``COLOR_*``) of each pixel of an rgb8 picture [H, W, 3]; [H, W]."""
    rgb = image.astype(np.float32)
    high, low = rgb.max(-1), rgb.min(-1)
    span = np.maximum(high - low, 1e-6)
    r, g, b = rgb[..., 0], rgb[..., 1], rgb[..., 2]
    hue = 60.0 * np.select([high == r, high == g], [(g - b) / span % 6.0, (b - r) / span + 2.0], (r - g) / span + 4.0)
    colors = np.array(list(HUES))
    away = np.abs((hue[..., None] - np.array(list(HUES.values())) + 180.0) % 360.0 - 180.0)
    strong = (high - low > SATURATION * high) & (high > DARKEST)
    return np.where(strong, colors[away.argmin(-1)], 0)


def segments(mask: np.ndarray) -> list[tuple[int, int]]:
    """First and one-past-last columns of the runs of columns [W] in which a mask [H, W] holds a pixel."""
    filled = np.concatenate([[0], mask.any(0).astype(int), [0]])
    edges = np.flatnonzero(np.diff(filled))
    return list(zip(edges[::2], edges[1::2], strict=True))


def outline(mask: np.ndarray) -> tuple[float, float]:
    """Measures which share of its bounding box a mask [H, W] fills, and which share of the width its top fifth has."""
    rows = np.flatnonzero(mask.any(1))
    part = mask[rows[0]:rows[-1] + 1]
    columns = np.flatnonzero(part.any(0))
    part = part[:, columns[0]:columns[-1] + 1]
    top = part[:max(1, round(0.2 * len(part)))].any(0).sum()
    return float(part.mean()), float(top / part.shape[1])


def facets(image: np.ndarray, mask: np.ndarray) -> float:
    """Computes how much better two flat faces than a round side explain shading from left to right; above 0: faces."""
    weight = mask.sum(0)
    columns = np.flatnonzero(weight >= max(2, weight.max() // 2))
    if len(columns) < 5:
        return 0.0
    columns = columns[1:-1]  # the edges mix with what is behind
    shade = np.array([image[mask[:, c], c].mean() for c in columns])
    x = np.linspace(-1.0, 1.0, len(shade))
    round_side = shade - np.polyval(np.polyfit(x, shade, min(2, len(shade) - 1)), x)
    flat = min(sum(((part - part.mean()) ** 2).sum() for part in (shade[:k], shade[k:]) if len(part))
               for k in range(1, len(shade) + 1))
    spread = max(float(shade.var()) * len(shade), 4.0 * len(shade))
    return float(((round_side ** 2).sum() - flat) / spread)


def shape_of(image: np.ndarray, mask: np.ndarray) -> int:
    """``SHAPE_*`` of the object in a mask [H, W] of a picture [H, W, 3]."""
    fill, top = outline(mask)
    if fill < 0.88 and top < 0.86:
        return BALL
    return BOX if facets(image, mask) > 0.0 else CYLINDER


class ColorVision(Region):
    """Objects by color and outline; see the module."""

    pictures = Vision.pictures

    Parameters = CameraParameters

    image = In("camera/image_raw", "sensor_msgs/msg/Image", SENSOR, trigger=True, device=True)
    info = In("camera/camera_info", "sensor_msgs/msg/CameraInfo", SENSOR, device=True)
    control = In("pfc/control", "brain_interfaces/msg/Control", FEATURE)

    objects = Out("vision/objects", "brain_interfaces/msg/DetectedObjects", FEATURE, stamp_from="image",
                  gated=sights.GATED)

    def step(self, inbox, state, dt, rng):
        message = inbox.get("image")
        if message is None or message.encoding != "rgb8" or len(message.data) != message.height * message.width * 3:
            return {}, state
        image = np.asarray(message.data).reshape(message.height, message.width, 3)
        try:
            lens = images.lens(inbox.get("info"), (message.width, message.height), self.parameters.field_of_view,
                               self.parameters.rectified)
        except images.LensError as wrong:
            self.trouble = f"camera/camera_info is refused: {wrong}"
            return {}, state
        self.trouble = ""
        mount, ahead, (right, left) = self.parameters.mount, (lens.column, lens.row), lens.edges
        if abs(mount.roll) > math.pi / 2:       # it hangs upside down
            image, ahead = image[::-1, ::-1], (lens.columns - lens.column, lens.rows - lens.row)
            right, left = -left, -right
            mount = replace(mount, roll=math.remainder(mount.roll - math.pi, 2 * math.pi))
        found = see(image, lens.focal, mount, ahead)
        result = self.objects(source=self.name, azimuth_min=mount.yaw + right, azimuth_max=mount.yaw + left,
                              objects=sorted(found, key=lambda o: o.distance)[:32])
        result.header.frame_id = "base_link"
        return {"objects": result}, state


def see(image: np.ndarray, focal: float, mount: Mount = USUAL, ahead: tuple[float, float] | None = None) -> list:
    """``DetectedObject`` messages for a picture [H, W, 3].

    Args:
        image: the picture.
        focal: length in pixels.
        mount: place of the camera on the base.
        ahead: column and row of what is straight ahead; None: the picture's middle.
    """
    labels, found = color_labels(image), []
    ahead = (image.shape[1] / 2, image.shape[0] / 2) if ahead is None else ahead
    for color in HUES:
        mask = labels == color
        for left, right in segments(mask):
            part = np.zeros_like(mask)
            part[:, left:right] = mask[:, left:right]
            if part.sum() >= MIN_PIXELS:
                found.append(_object(image, part, color, left, right, focal, mount, ahead))
    return found


def _object(image, part, color, left, right, focal, mount, middle):
    column, row = middle
    bottom = np.flatnonzero(part.any(1))[-1] + 1
    ahead, aside, up = mount.turned() @ (1.0, (column - (left + right) / 2) / focal, (row - bottom) / focal)
    ahead = max(ahead, 1e-6)    # of a camera that looks steeply down
    angle = math.atan2(aside, ahead)
    away = (mount.height * ahead / -up if -up > 0.02 * ahead else 10.0) / math.cos(angle) + RADIUS
    angle += mount.yaw
    x, y = mount.x + away * math.cos(angle), mount.y + away * math.sin(angle)
    return messages.make(
        "brain_interfaces/msg/DetectedObject", color=color, shape=shape_of(image, part),
        confidence=min(0.95, 0.5 + part.sum() / 200.0), bearing=math.atan2(y, x), distance=math.hypot(x, y),
        width=math.atan((column - left) / focal) - math.atan((column - right) / focal))
