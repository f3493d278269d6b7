# SPDX-License-Identifier: Apache-2.0
"""Findings of the camera: its pictures, and whether ``camera_info`` and the profile tell how it sees."""
from __future__ import annotations

import io
import math
from typing import Any, Iterator

import numpy as np

from brain_observe.doctor.finding import DEGRADES, NOTE, STOPS, Finding
from brain_observe.doctor.heard import IMAGE, INFO, Heard
from brain_observe.doctor.odometry import moves
from brain_runtime.contract.images import BENDING, CHANNELS, FISHEYES, LENSES, SLACK, LensError, lens, rgb

DARK = 25.0, 60.0           # gray levels: mean, and what one pixel in twenty exceeds
BRIGHT = 250, 0.5           # gray level that counts as burnt out, and share of pixels
PLAIN = 2.0                 # gray levels of standard deviation: nothing is in the picture
TINT = 1.15, 0.7, 20        # blue over red, share of the pixels, and gray levels from which on they count
VIEW = 0.15                 # share by which fields of view may differ
PATCHES = 8                 # parts of a picture's width and height that are compared
LARGEST = 64 << 20          # bytes that a compressed picture may become
USUAL = math.radians(62.0)  # field of view where nobody tells it; only to make a lens


def findings(heard: Heard) -> list[Finding]:
    """All that is wrong with pictures and with what is told of the camera."""
    found = []
    message, info = heard.newest(IMAGE), heard.newest(INFO)
    if message is not None:
        try:
            picture = rgb(message)
        except ValueError as error:
            known = message.encoding in CHANNELS
            found.append(Finding("picture-size" if known else "picture-encoding", STOPS, heard.topic(IMAGE), str(error),
                                 "look at the driver: height, width and step" if known else
                                 "let the driver publish rgb8 or bgr8, or put image_proc between"))
        else:
            found += [*_light(heard, picture), *_colors(heard, picture), *_frozen(heard)]
    if info is not None:
        found += _info(heard, message, info)
    return found


def _light(heard: Heard, picture: np.ndarray) -> Iterator[Finding]:
    topic, gray = heard.topic(IMAGE), picture[::2, ::2].mean(-1)
    if gray.mean() < DARK[0] and np.percentile(gray, 95) < DARK[1]:
        yield Finding("picture-dark", DEGRADES, topic, f"it is dark: {gray.mean():.0f} of 255 in the mean",
                      "take the cap off, turn on the light, or raise exposure and gain")
    elif (burnt := float((gray >= BRIGHT[0]).mean())) > BRIGHT[1]:
        yield Finding("picture-bright", DEGRADES, topic, f"{100 * burnt:.0f} % of it is overexposed",
                      "turn on automatic exposure, or lower exposure and gain")
    elif gray.std() < PLAIN:
        yield Finding("picture-plain", DEGRADES, topic, "there is nothing in it: all pixels are nearly the same",
                      "is the lens covered, or the camera's stream dead?")


def _colors(heard: Heard, picture: np.ndarray) -> Iterator[Finding]:
    """Finding where red and blue seem to be swapped: by the camera's own JPEG, else by a tint of nearly everything."""
    topic, remedy = heard.topic(IMAGE), "correct the driver's encoding: rgb8 against bgr8"
    other = None if heard.compressed is None else _decoded(heard.compressed)
    if other is not None:
        ours, theirs = (_patches(one) for one in (picture, other))
        apart = np.abs(ours - theirs).mean(), np.abs(ours[..., ::-1] - theirs).mean()
        if apart[1] + 5.0 < apart[0] and 2.0 * apart[1] < apart[0]:
            yield Finding("picture-swapped", DEGRADES, topic, "red and blue are the other way round than in its "
                          "compressed topic", remedy)
        return
    lit = picture[::2, ::2].reshape(-1, 3).astype(np.int32)
    lit = lit[lit.max(-1) >= TINT[2]]
    blue = float((lit[:, 2] > TINT[0] * lit[:, 0]).mean()) if len(lit) else 0.0
    if blue >= TINT[1]:
        yield Finding("picture-swapped", NOTE, topic, f"{100 * blue:.0f} % of it is bluish: red and blue may be "
                      f"swapped, or the white balance is wrong", f"hold something red in front; {remedy}, or its "
                      f"white balance")


def _patches(picture: np.ndarray) -> np.ndarray:
    rows, columns = (max(size // PATCHES, 1) for size in picture.shape[:2])
    part = picture[:rows * PATCHES, :columns * PATCHES]
    return part.reshape(part.shape[0] // rows, rows, part.shape[1] // columns, columns, 3).mean((1, 3))


def _decoded(message: Any) -> np.ndarray | None:
    """uint8 [rows, columns, 3] of a compressed picture; None: it is none, or too large to look at."""
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(io.BytesIO(bytes(message.data)), formats=("JPEG", "PNG")) as picture:
            if 3 * picture.width * picture.height > LARGEST:
                return None
            return np.asarray(picture.convert("RGB"))
    except (OSError, ValueError, SyntaxError, UnidentifiedImageError, Image.DecompressionBombError):
        return None


def _frozen(heard: Heard) -> Iterator[Finding]:
    marks = {one.mark for one in heard.came[IMAGE]}
    if len(heard.came[IMAGE]) > 2 and len(marks) == 1:
        yield Finding("picture-frozen", STOPS if moves(heard) else NOTE, heard.topic(IMAGE),
                      f"{len(heard.came[IMAGE])} pictures are equal to the bit"
                      + (" while the robot moves" if moves(heard) else "; a real camera's are not, even at rest"),
                      "look at the camera's driver: it may repeat the last picture")


def _info(heard: Heard, message: Any, info: Any) -> Iterator[Finding]:
    topic, view = heard.topic(INFO), heard.value("field_of_view", None, "vision")
    model, bends = str(info.distortion_model), any(float(value) for value in info.d)
    if model in FISHEYES:
        yield Finding("camera-fisheye", NOTE, topic, f"its distortion model is {model}: a fisheye lens", "publish "
                      "rectified pictures (image_proc) with rectified: true, if things are seen in wrong directions")
    if info.k[0] == 0.0:
        yield Finding("camera-uncalibrated", DEGRADES, topic, "it is not calibrated: k is zeros", "calibrate it "
                      "(ros2 run camera_calibration cameracalibrator); until then the profile's field_of_view counts"
                      + ("" if view is not None else ", which it does not say"))
        return
    size = None if message is None or not (message.width and message.height) else (message.width, message.height)
    sent = _sent(info)
    if 0.0 < min(sent) < 1.0:
        yield Finding("camera-size", STOPS, topic, "its binning leaves no pixel", "correct binning_x and binning_y")
        return
    try:
        seen = lens(info, size, view or USUAL, bool(heard.value("rectified", False, "vision")))
    except LensError as error:
        if bends and model not in BENDING:
            code = "camera-model"
        elif not all(LENSES[0] <= float(info.k[at]) / max(int(info.width), 1) <= LENSES[1] for at in (0, 4)):
            code = "camera-focal"
        else:
            code = "camera-size"
        yield Finding(code, STOPS, topic, str(error), {
            "camera-model": "calibrate with one of them, or publish rectified pictures",
            "camera-focal": "calibrate it anew: k is in pixels",
            "camera-size": "publish the calibration of this picture size: camera_info_url of the driver"}[code])
        return
    if size is not None and min(sent) > 0.0 and max(abs(size[0] - sent[0]), abs(size[1] - sent[1])) > SLACK:
        yield Finding("camera-size", NOTE, topic, f"it is of {sent[0]:.0f} x {sent[1]:.0f} pixels, the picture has "
                      f"{size[0]} x {size[1]}: it is taken as scaled as a whole", "if it is cut out, say so by roi; "
                      "else publish the calibration of this size")
    right, left = seen.edges
    if view is not None and not seen.fisheye and abs((left - right) / view - 1.0) > VIEW:
        yield Finding("camera-view", DEGRADES, topic, f"by k the camera sees {math.degrees(left - right):.0f} degrees, "
                      f"by the profile {math.degrees(view):.0f}", f"in the profile, shared: {{field_of_view: "
                      f"{left - right:.3f}}}; or calibrate it anew")
    if message is not None and message.header.frame_id != info.header.frame_id:
        yield Finding("camera-frames", NOTE, topic, f"its frame is {info.header.frame_id!r}, the picture's "
                      f"{message.header.frame_id!r}", "give both the camera's optical frame")


def _sent(info: Any) -> tuple[float, float]:
    """Columns and rows of the picture by a CameraInfo."""
    cut = info.roi.width and info.roi.height
    size = (info.roi.width, info.roi.height) if cut else (info.width, info.height)
    return int(size[0]) / max(int(info.binning_x), 1), int(size[1]) / max(int(info.binning_y), 1)
