# SPDX-License-Identifier: Apache-2.0
"""Bags that a test writes message by message."""
import numpy as np

from brain_observe.bags import BagWriter
from brain_training.recordings.library import find
from brain_training.recordings.reading import frames
from brain_wire.messages import make

OBJECTS = "brain_interfaces/msg/DetectedObjects"


def image(picture, stamp, encoding="rgb8", **fields):
    rows, columns, depth = picture.shape
    message = make("sensor_msgs/msg/Image", **{"height": rows, "width": columns, "step": columns * depth,
                                               "encoding": encoding, "data": picture.reshape(-1)} | fields)
    message.header.stamp.sec, message.header.stamp.nanosec = divmod(round(stamp * 1e9), 10**9)
    return message


def told(stamp, *objects):
    """DetectedObjects of (color, shape, confidence, bearing, distance, width)."""
    names = "color", "shape", "confidence", "bearing", "distance", "width"
    message = make(OBJECTS, source="hand", objects=[
        make("brain_interfaces/msg/DetectedObject", **dict(zip(names, o))) for o in objects])
    message.header.stamp.sec, message.header.stamp.nanosec = divmod(round(stamp * 1e9), 10**9)
    return message


BALL = (1, 1, 1.0, 0.1, 2.0, 0.2)


def write(path, pictures, *, stamps=None, label=BALL, storage="mcap", kind="sensor_msgs/msg/Image"):
    """A bag of pictures 50 ms apart, or of messages that are pictures, each with a label."""
    with BagWriter(path, storage) as bag:
        bag.declare("camera/image_raw", kind)
        bag.declare("labels", OBJECTS)
        for number, picture in enumerate(pictures):
            stamp = 0.05 * number if stamps is None else stamps[number]
            message = image(picture, stamp) if isinstance(picture, np.ndarray) else picture
            bag.write("camera/image_raw", 0.05 * number, message)
            if label is not None:
                bag.write("labels", 0.05 * number, told(stamp, label))
    return path


def noise(count, rows=64, columns=96, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (count, rows, columns, 3)).astype(np.uint8)


def all_frames(path, source="labels"):
    (recording,) = find([path])
    return list(frames(recording, source))
