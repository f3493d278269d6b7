# SPDX-License-Identifier: Apache-2.0
"""Watch on the camera: whether pictures that are sound one by one can be believed, by what odometry says of the robot.

A camera that has died may go on to publish: the last picture again and again, one color, or noise. In front of a wall a
picture is the same for a while, too, and so it is judged by how far the robot moved meanwhile. One that hangs upside
down or is mirrored shows what moves the wrong way while the robot turns; of one whose focal length is not what
``camera_info`` says, what moves much too far or too little. Of the last seconds only, and so not of a
region's state: who comes back after a restart begins anew.
"""
from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from brain_regions.past import Pose, since

HOLD = 2.0                          # s for which pictures must be sound after one that was not
STILL = math.radians(10.0), 0.2     # rad or m that the robot moved while the picture stayed equal to the bit
EQUAL = 1.0, 3                      # s and pictures for which it did: a slow camera's are sent twice
TURN = math.radians(90.0)           # that it turned while there was nothing in the picture
ROWS = 64                           # of a picture, at most about so many are looked at
BLOCKS = 8                          # parts of a picture's width and height, whose means are compared
PLAIN = 5.0, 15.0                   # gray levels between the darkest and brightest of them, standard deviation of all
NOISE = 25.0, 0.9                   # gray levels between neighboring pixels, and their share in those between others
DISTANT = range(2, 17)              # pixels that lie between those
NOISY = 5                           # pictures in a row
COLUMNS = 128                       # and columns; means of so many are compared with those of another picture
TURNED = math.radians(8.0), math.radians(20.0), 0.15    # rad: between two such, at least and at most; m: less
SHIFT = 2, 0.35                     # columns, share of their number: by so far what they show moved
ALIKE = 0.8                         # correlation at that shift
BETTER, SURE = 0.2, 0.8             # by how much more than at any as it should be, at most, and over several of them
NARROW = 0.15                       # picture widths that it moves by the focal length after which the next is compared
SCALES = 0.5, 3.0                   # times that shift: at the edges of a wide picture things move farther
CUT = 1.0, 0.6                      # picture widths, the longest focal length that is looked for; correlation below
JUMP = (0.5, 1.0)                   # m, rad between two pictures: the robot was carried,
FASTEST = (2.0, 4.0)                # m/s, rad/s: if so far in that time
MIRRORED = ("what its pictures show moves the wrong way while the robot turns; is the camera upside down (turn or flip "
            "its pictures), or is odometry mirrored?")
SCALED = ("what its pictures show does not move as far as the focal length of camera_info says while the robot turns; "
          "calibrate the camera anew")
DEAD = "is the camera frozen, covered or in the dark?"


class _Kept(NamedTuple):
    """A picture that comes again: when it came first, from where, and how often."""

    picture: np.ndarray
    pose: Pose | None
    at: float
    count: int


class PictureWatch:
    """Judges pictures as they come; see the module.

    Attributes:
        fault: why no picture is to be believed now, for a person; empty where they are.
        plain: there is nothing in the newest picture.
    """

    def __init__(self) -> None:
        self.fault, self.plain = "", False
        self._bad = -math.inf       # when the last picture came that is not to be believed
        self._pose: tuple[Pose, float] | None = None                # the newest, and when it was
        self._yaw = 0.0             # rad turned, not wrapped
        self._kept: _Kept | None = None     # which the newest picture equals
        self._plain_since: tuple[float, float] | None = None        # least and largest yaw since nothing is in it
        self._noisy = 0             # pictures in a row
        self._across: tuple[np.ndarray, Pose] | None = None     # means of the columns of one before, from where
        self._last: tuple[np.ndarray, Pose] | None = None       # those of the picture before
        self._wrong = {MIRRORED: 0.0, SCALED: 0.0}      # surplus of wrong shifts
        self._found = {MIRRORED: False, SCALED: False}  # until nothing is left of it

    def take(self, picture: np.ndarray, pose: Pose | None, now: float, focal: float | None = None) -> str:
        """Takes in the newest picture.

        Args:
            picture: uint8 [rows, columns, 3].
            pose: of the robot by odometry; None: not known.
            now: s, on any steady clock.
            focal: focal length by ``camera_info``, in widths of the picture; None: not known.

        Returns:
            :attr:`fault`.
        """
        if pose is not None:
            self._move(pose, now)
        every = max(len(picture) // ROWS, 1)
        self.plain = plain = self._is_plain(picture[::every, ::max(picture.shape[1] // COLUMNS, 1)])
        why = (self._plain(plain) or self._noise(picture, every) or self._frozen(picture, plain, pose, now)
               or self._turns(picture, pose, focal))
        if why:
            self.fault, self._bad = why, now
        elif now - self._bad >= HOLD:
            self.fault = ""
        return self.fault

    def _move(self, pose: Pose, now: float) -> None:
        if self._pose is not None:
            (ahead, left, turned), passed = since(self._pose[0], pose), now - self._pose[1]
            if (math.hypot(ahead, left) > max(JUMP[0], FASTEST[0] * passed)
                    or abs(turned) > max(JUMP[1], FASTEST[1] * passed)):
                self._kept = self._plain_since = None
            else:
                self._yaw += turned
        self._pose = pose, now

    def _frozen(self, picture: np.ndarray, plain: bool, pose: Pose | None, now: float) -> str:
        """Checks whether the picture stays equal to the bit while the robot moves; one of nothing is left aside."""
        kept = self._kept
        if plain or kept is None or not np.array_equal(picture, kept.picture):
            self._kept = None if plain else _Kept(picture, pose, now, 1)
            return ""
        self._kept = kept = kept._replace(pose=kept.pose or pose, count=kept.count + 1)
        if pose is None or now - kept.at < EQUAL[0] or kept.count < EQUAL[1]:
            return ""
        ahead, left, turned = since(kept.pose, pose)
        moves = abs(turned) > STILL[0] or math.hypot(ahead, left) > STILL[1]
        return f"its pictures stay equal to the bit while the robot moves; {DEAD}" if moves else ""

    def _noise(self, picture: np.ndarray, every: int) -> str:
        """Checks whether pixels have nothing to do with those beside and below them."""
        gray = picture[::every, :, 1].astype(np.int16)      # green, which no encoding leaves out
        below = picture[1::every, :, 1].astype(np.int16)
        beside = float(np.abs(np.diff(gray, axis=1)).mean())
        across = float(np.abs(below - gray[:len(below)]).mean())
        noisy = min(beside, across) > NOISE[0]
        if noisy:   # in a picture of something those farther apart differ more, and where it repeats itself, some less
            others = [float(np.abs(gray[:, far:] - gray[:, :-far]).mean()) for far in DISTANT if far < gray.shape[1]]
            noisy = NOISE[1] * max(others) < beside < min(others) / NOISE[1]
        self._noisy = self._noisy + 1 if noisy else 0
        return ("its pictures are noise: neighboring pixels have nothing in common; look at its cable and driver"
                if self._noisy >= NOISY else "")

    def _turns(self, picture: np.ndarray, pose: Pose | None, focal: float | None) -> str:
        """Checks whether what the pictures show moves the wrong way, too far or too little while the robot turns."""
        if pose is None:
            self._across = self._last = None
            return self._said()
        now = _columns(picture)
        last, self._last = self._last, (now, pose)
        if last is not None and self._is_cut(*last):
            for fault, surplus in self._wrong.items():
                self._wrong[fault] = max(surplus - BETTER, 0.0)
        if self._across is None:
            self._across = now, pose
            return self._said()
        before, then = self._across
        ahead, left, turned = since(then, pose)
        least = TURNED[0] if focal is None else min(TURNED[0], math.atan(NARROW / focal))
        if abs(turned) < least and math.hypot(ahead, left) < TURNED[2]:
            return self._said()
        self._across = now, pose
        if not least <= abs(turned) <= TURNED[1] or math.hypot(ahead, left) >= TURNED[2] or now.shape != before.shape:
            return self._said()
        shifts = range(SHIFT[0], int(SHIFT[1] * len(now)))
        right, wrong = (_alike(before, now, way, shifts) for way in ((1, -1) if turned > 0.0 else (-1, 1)))
        self._judge(MIRRORED, max(right.values()), max(wrong.values()))
        by = 0.0 if focal is None else len(now) * focal * math.tan(abs(turned))
        if SHIFT[0] / SCALES[1] < by <= SHIFT[1] * len(now):     # at some such shifts they are compared
            near = {shift for shift in right if SCALES[0] * by <= shift <= SCALES[1] * by}
            self._judge(SCALED, max(right[shift] for shift in near),
                        max((right[shift] for shift in right.keys() - near), default=0.0))
        return self._said()

    def _is_cut(self, before: np.ndarray, then: Pose) -> bool:
        """Checks whether the picture is another than the one before, and not that one moved: it is of a film.

        What the pictures of a film show tells nothing of this camera.
        """
        now, pose = self._last
        ahead, left, turned = since(then, pose)
        if now.shape != before.shape or abs(turned) > TURNED[1] or math.hypot(ahead, left) >= TURNED[2]:
            return False
        for shift in range(SHIFT[0] + math.ceil(CUT[0] * len(now) * math.tan(abs(turned))) + 1):
            for way in (1, -1):
                alike = _alike(before, now, way, range(shift, shift + 1))[shift]
                if alike == 0.0 or alike >= CUT[1]:     # 0: there is nothing in one of them
                    return False
        return True

    def _judge(self, fault: str, right: float, wrong: float) -> None:
        """Adds up by how much pictures are more alike at a shift that is a fault's than at any as it should be."""
        if max(right, wrong) < ALIKE:
            return
        self._wrong[fault] = surplus = min(max(self._wrong[fault] + min(wrong - right, BETTER), 0.0), SURE)
        if surplus == 0.0 or surplus > SURE - 1e-6:
            self._found[fault] = surplus > 0.0

    def _said(self) -> str:
        return next((fault for fault, found in self._found.items() if found), "")

    @staticmethod
    def _is_plain(picture: np.ndarray) -> bool:
        """Tells whether there is nothing in the picture."""
        rows, columns = (size // BLOCKS for size in picture.shape[:2])
        parts = picture[:rows * BLOCKS, :columns * BLOCKS].reshape(BLOCKS, rows, BLOCKS, columns, 3).mean((1, 3))
        return bool(np.ptp(parts, axis=(0, 1)).max() <= PLAIN[0] and picture.std((0, 1)).max() <= PLAIN[1])

    def _plain(self, plain: bool) -> str:
        """Checks whether there is nothing in the pictures wherever the robot turns."""
        if not plain:
            self._plain_since = None
            return ""
        low, high = self._plain_since or (self._yaw, self._yaw)
        self._plain_since = low, high = min(low, self._yaw), max(high, self._yaw)
        return f"there is nothing in its pictures wherever the robot turns; {DEAD}" if high - low > TURN else ""


def _columns(picture: np.ndarray) -> np.ndarray:
    """Means of a picture's columns, or of some side by side: float32 [columns, 3]."""
    together = max(picture.shape[1] // COLUMNS, 1)
    across = picture[::max(len(picture) // ROWS, 1)].mean(0, dtype=np.float32)
    return across[:len(across) // together * together].reshape(-1, together, 3).mean(1)


def _alike(before: np.ndarray, now: np.ndarray, way: int, shifts: range) -> dict[int, float]:
    """Correlation of two rows of columns by the shift of the second, to the right (``way`` 1) or to the left (-1)."""
    size, found = len(now), {}
    for shift in shifts:
        one, other = (before[:size - shift], now[shift:]) if way > 0 else (before[shift:], now[:size - shift])
        one, other = one - one.mean(0), other - other.mean(0)
        both = math.sqrt(float((one * one).sum()) * float((other * other).sum()))
        found[shift] = float((one * other).sum()) / both if both > size else 0.0
    return found
