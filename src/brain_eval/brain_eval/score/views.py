# SPDX-License-Identifier: Apache-2.0
"""Views of a picture, and where what is labelled should be told in each: the whole and its corners, each mirrored."""
from __future__ import annotations

import math
from typing import Any, Iterable, Iterator, NamedTuple, Sequence

import numpy as np

from brain_eval.score.labels import OTHERS, Labelled
from brain_eval.score.looker import COLOR_WORDS, INFO, KIND_WORDS, scale
from brain_runtime.contract import images
from brain_runtime.contract.images import Lens
from brain_runtime.contract.optics import Mount
from brain_wire import messages

SHARE = 0.67            # of a picture's width and height, that a corner has
ASKED = 10.0            # pixels of the network's picture that an object must cover to be asked for
HIDDEN = 0.5            # share of it that may be hidden then
NEAR = math.radians(3.0)    # that a bearing may be off, however narrow the object
_STEPS = 8              # in which a pixel's direction is found


class Target(NamedTuple):
    """Expectation of a label in a view.

    Attributes:
        color, kind: in words.
        bearing: rad, level, of the visible part's center.
        within: rad that a bearing may be off.
        asked: it is missed where it is not told. What messages have no words for is not asked for.
        ignored: whatever is told of it is neither right nor wrong.
        box: left, top, right, bottom in the view (px).
    """

    color: str
    kind: str
    bearing: float
    within: float
    asked: bool
    ignored: bool
    box: tuple[float, float, float, float]


class View(NamedTuple):
    """One view.

    Attributes:
        name: ``whole``, or of a corner; with ``mirrored``.
        picture: uint8 [rows, columns, 3].
        info: its CameraInfo.
        lens: of it.
        targets: what it shows of the labels.
    """

    name: str
    picture: np.ndarray
    info: Any
    lens: Lens
    targets: tuple[Target, ...]


def camera_info(size: tuple[int, int], view: float, part: tuple[int, int, int, int] | None = None) -> Any:
    """CameraInfo of pictures with square pixels that show what is straight ahead in their middle.

    Args:
        size: columns and rows.
        view: horizontal (rad).
        part: columns before and rows above, columns and rows of the part that is sent; None: all is.
    """
    columns, rows = size
    focal = columns / 2 / math.tan(view / 2)
    info = messages.make(INFO, width=columns, height=rows, distortion_model="plumb_bob", d=[0.0] * 5,
                         k=[focal, 0.0, columns / 2 - 0.5, 0.0, focal, rows / 2 - 0.5, 0.0, 0.0, 1.0])
    if part is not None:
        info.roi.x_offset, info.roi.y_offset, info.roi.width, info.roi.height = part
    return info


def views(picture: np.ndarray, view: float, mount: Mount, objects: Sequence[Labelled]) -> Iterator[View]:
    """Ten views of a picture: the whole and four corners of :data:`SHARE`, and each as a mirror shows it.

    A corner is what the same camera sends of a part of its picture: what was straight ahead still is.

    Args:
        picture: uint8 [rows, columns, 3].
        view: of the camera, horizontal (rad).
        mount: of the camera.
        objects: that are labelled in it.
    """
    rows, columns = picture.shape[:2]
    wide, high = max(round(SHARE * columns), images.SMALLEST), max(round(SHARE * rows), images.SMALLEST)
    parts: dict[str, tuple[int, int, int, int] | None] = {"whole": None}
    if (wide, high) != (columns, rows):
        parts |= {f"{upper} {left}": (x, y, wide, high) for upper, y in (("upper", 0), ("lower", rows - high))
                  for left, x in (("left", 0), ("right", columns - wide))}
    for name, part in parts.items():
        for mirrored in (False, True):
            x, y, across, down = part or (0, 0, columns, rows)
            shown = picture[y:y + down, x:x + across]
            if mirrored:    # the same part of what a camera would send of the mirrored room
                shown = shown[:, ::-1]
            sent = None if part is None else (columns - x - across if mirrored else x, y, across, down)
            info = camera_info((columns, rows), view, sent)
            lens = images.lens(info, (across, down), view)
            found = (_target(one, (x, y, across, down), mirrored, lens, mount) for one in objects)
            yield View(f"{name} mirrored" if mirrored else name, np.ascontiguousarray(shown), info, lens,
                       tuple(one for one in found if one is not None))


def targets(objects: Iterable[Labelled], lens: Lens, mount: Mount) -> tuple[Target, ...]:
    """Targets of what is labelled in a picture that is looked at whole."""
    found = (_target(one, (0, 0, lens.columns, lens.rows), False, lens, mount) for one in objects)
    return tuple(one for one in found if one is not None)


def _target(one: Labelled, part: tuple[int, int, int, int], mirrored: bool, lens: Lens, mount: Mount) -> Target | None:
    """Computes what a part of a picture shows of an object; None: nothing."""
    x, y, across, down = part
    left, top, right, bottom = one.box
    whole = (right - left) * (bottom - top)
    left, right = max(left - x, 0.0), min(right - x, float(across))
    top, bottom = max(top - y, 0.0), min(bottom - y, float(down))
    if left >= right or top >= bottom:
        return None
    if mirrored:
        left, right = across - right, across - left
    area = (right - left) * (bottom - top)
    visible = (1.0 - one.hidden) * area / whole
    row = (top + bottom) / 2
    toward = [azimuth(lens, mount, column, row) for column in (left, (left + right) / 2, right)]
    ignored = bool(one.ignore) or area * scale(lens) ** 2 < ASKED or visible < 1.0 - HIDDEN
    return Target(one.color, one.kind, toward[1], max(NEAR, abs(toward[0] - toward[2]) / 2),
                  not ignored and can_be_told(one), ignored, (left, top, right, bottom))


def can_be_told(one: Labelled) -> bool:
    """Tells whether messages have words for an object's color and kind: what cannot be said is not asked for."""
    colors = {OTHERS.get(word, word) for word in COLOR_WORDS.values()}
    return one.color in colors and one.kind in KIND_WORDS.values()


def azimuth(lens: Lens, mount: Mount, column: float, row: float) -> float:
    """Level direction (rad, positive to the left) of a pixel's place, from where the camera's yaw points."""
    at = np.array([column, row])
    ray = np.array([1.0, (lens.column - column) / lens.focal, (lens.row - row) / (lens.focal * lens.tall)])
    for _ in range(_STEPS if lens.distortion or lens.fisheye else 0):
        away = lens.project(ray) - at
        if not np.isfinite(away).all():
            break
        ray = ray + [0.0, away[0] / lens.focal, away[1] / (lens.focal * lens.tall)]
    level = mount.turned() @ ray
    return math.atan2(level[1], level[0])
