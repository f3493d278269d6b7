# SPDX-License-Identifier: Apache-2.0
"""Place of a sensor on a robot, a camera or a lidar. How a camera's lens projects says :mod:`.images`.

Frames are those of REP 103: x ahead, y to the left, z up. A sensor's pitch is positive down and its roll positive when
its right side goes down, as the right-hand rule has it about y and x.
"""
from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Mount:
    """Place of a camera or a lidar on a robot.

    Attributes:
        x, y: from the base's frame (m).
        height: above the floor (m).
        yaw, pitch, roll: rad.
    """

    x: float = 0.0
    y: float = 0.0
    height: float = 0.35
    yaw: float = 0.0
    pitch: float = 0.0
    roll: float = 0.0

    def turned(self) -> np.ndarray:
        """Rotation [3, 3] from the sensor (x along its axis) to a level frame that looks along its yaw."""
        c, s = math.cos(self.pitch), math.sin(self.pitch)
        k, r = math.cos(self.roll), math.sin(self.roll)
        return np.array([[c, 0.0, s], [0.0, 1.0, 0.0], [-s, 0.0, c]]) @ np.array(
            [[1.0, 0.0, 0.0], [0.0, k, -r], [0.0, r, k]])

    def beams(self, angles: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Computes how a lidar's beams leave it, float[n] each, by their angles in its scan (rad, float[n]).

        Returns:
            Directions seen from the base (rad, not wrapped); and of each m of a beam, m along the floor and m up.
        """
        ahead, left, up = self.turned() @ np.stack([np.cos(angles), np.sin(angles), np.zeros_like(angles)])
        return np.unwrap(np.arctan2(left, ahead)) + self.yaw, np.hypot(ahead, left), up
