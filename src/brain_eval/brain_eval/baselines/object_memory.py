# SPDX-License-Identifier: Apache-2.0
"""Memory of objects of the conventional prefrontal cortex: where they are, and the evidence for what they are.

A fixed table float32[TRACKS, WIDTH] in the odometry's frame, so that it is part of a region's state.
"""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from brain_regions.azimuth import wrap

TRACKS = 24
CLASSES = 12                    # 4 colors x 3 shapes; index (color - 1) * 3 + (shape - 1)
X, Y, STRENGTH, BEST = range(4)  # position (m), belief that it is there, distance (m) of the nearest look
EVIDENCE = 4                    # first of the class columns
WIDTH = EVIDENCE + CLASSES
CAP = 12.0                      # evidence that one object can gather: new looks must be able to outweigh old ones
FORGET = 0.05                   # strength below which a row is free


def empty() -> np.ndarray:
    """A memory of nothing."""
    return np.zeros((TRACKS, WIDTH), np.float32)


def class_mask(color: int, shape: int) -> np.ndarray:
    """Returns a mask, bool[12], of the classes that fit a color and a shape; 0 stands for any."""
    mask = np.zeros((4, 3), bool)
    mask[slice(None) if color == 0 else color - 1, slice(None) if shape == 0 else shape - 1] = True
    return mask.ravel()


def polar(tracks: np.ndarray, pose: tuple[float, float, float]) -> tuple[np.ndarray, np.ndarray]:
    """Bearing (rad) and distance (m) of each row from ``pose``."""
    dx, dy = tracks[:, X] - pose[0], tracks[:, Y] - pose[1]
    return wrap(np.arctan2(dy, dx) - pose[2]), np.hypot(dx, dy)


def see(tracks: np.ndarray, detections: list[Any], pose: tuple[float, float, float], sector: tuple[float, float],
        scan: tuple[np.ndarray, np.ndarray] | None, tau: float, dt: float) -> np.ndarray:
    """The memory after one frame.

    Args:
        tracks: memory before.
        detections: sound DetectedObjects.
        pose: of the robot when the frame was taken (odometry's frame).
        sector: right and left edge of what the camera covers (rad).
        scan: angles and ranges of the newest scan, to tell hidden from gone; None when there is none.
        tau: s, time constant with which an object fades that should be seen and is not.
        dt: s since the last frame.
    """
    tracks = tracks.copy()
    bearing, distance = polar(tracks, pose)
    used = tracks[:, STRENGTH] > FORGET
    matched = np.zeros(TRACKS, bool)
    for d in sorted(detections, key=lambda d: d.distance):
        kind = (d.color - 1) * 3 + d.shape - 1
        sideways = np.abs(wrap(bearing - d.bearing)) * np.minimum(distance, d.distance)
        along = np.abs(distance - d.distance)
        gate = used & ~matched & (sideways < 0.12 + 0.08 * d.distance) & (along < 0.30 + 0.25 * d.distance)
        x = pose[0] + d.distance * math.cos(pose[2] + d.bearing)
        y = pose[1] + d.distance * math.sin(pose[2] + d.bearing)
        weight = float(d.confidence) / (1 + max(d.distance - 1.5, 0.0) ** 2 / 4)
        if gate.any():
            likeness = tracks[:, EVIDENCE + kind] / (tracks[:, EVIDENCE:].sum(1) + 1e-6)
            cost = np.where(gate, sideways / 0.3 + along / 0.6 - likeness, np.inf)
            row = int(np.argmin(cost))
            nearer = d.distance < 1.3 * tracks[row, BEST] + 0.1
            share = 0.25 if nearer else 0.05
            tracks[row, X] += share * (x - tracks[row, X])
            tracks[row, Y] += share * (y - tracks[row, Y])
            tracks[row, BEST] = min(tracks[row, BEST], d.distance)
        else:
            free = np.flatnonzero(~used)
            row = int(free[0]) if len(free) else int(np.argmin(tracks[:, STRENGTH]))
            tracks[row] = 0
            tracks[row, [X, Y, BEST]] = x, y, d.distance
            used[row] = True
        matched[row] = True
        tracks[row, STRENGTH] = min(1.0, tracks[row, STRENGTH] + 0.35 * weight)
        tracks[row, EVIDENCE + kind] += weight
        total = tracks[row, EVIDENCE:].sum()
        if total > CAP:
            tracks[row, EVIDENCE:] *= CAP / total
    missed = used & ~matched & (bearing > sector[0] + 0.08) & (bearing < sector[1] - 0.08) \
        & (distance > 0.5) & (distance < 3.0)
    for row in np.flatnonzero(missed):
        if scan is None or _hidden(scan, float(bearing[row]), float(distance[row])):
            continue
        tracks[row, STRENGTH] *= math.exp(-dt / tau)
        tracks[row, EVIDENCE:] *= math.exp(-dt / tau)
    tracks[tracks[:, STRENGTH] <= FORGET] = 0
    return tracks


def _hidden(scan, bearing: float, distance: float) -> bool:
    near = np.abs(wrap(scan[0] - bearing)) < 0.08
    return bool(near.any() and np.median(scan[1][near]) < distance - 0.5)


def recall(tracks: np.ndarray, pose: tuple[float, float, float]) -> list[tuple[int, int, float, float, float]]:
    """Lists the objects that are remembered, nearest first.

    Returns:
        Color, shape, belief (0..1) that such an object is there, bearing (rad) and distance (m) from ``pose``.
    """
    rows = np.flatnonzero(tracks[:, STRENGTH] > FORGET)
    bearing, distance = polar(tracks, pose)
    found = []
    for row in rows[np.argsort(distance[rows])]:
        evidence = tracks[row, EVIDENCE:]
        kind = int(np.argmax(evidence))
        belief = float(tracks[row, STRENGTH] * evidence[kind] / (evidence.sum() + 1e-6))
        found.append((kind // 3 + 1, kind % 3 + 1, belief, float(bearing[row]), float(distance[row])))
    return found


def find(tracks: np.ndarray, color: int, shape: int, pose: tuple[float, float, float],
         threshold: float, avoid: tuple[int, int] = (0, 0)) -> tuple[int, float]:
    """Row that fits best what is sought, and the share of its evidence that fits; (-1, 0) when none is sure enough.

    Args:
        threshold: evidence that is needed.
        avoid: color and shape that it must not have ("any ball but the red one"); (0, 0): none.
    """
    wanted = class_mask(color, shape)
    if avoid != (0, 0):
        wanted &= ~class_mask(*avoid)
    fits = tracks[:, EVIDENCE:][:, wanted].sum(1)
    share = fits / (tracks[:, EVIDENCE:].sum(1) + 1e-6)
    good = (tracks[:, STRENGTH] > 0.2) & (fits >= threshold) & (share > 0.5)
    if not good.any():
        return -1, 0.0
    _, distance = polar(tracks, pose)
    # of several that fit (a color or shape alone was named) the surest and nearest
    score = np.where(good, share * np.minimum(fits / 4, 1) - 0.05 * distance, -np.inf)
    row = int(np.argmax(score))
    return row, float(share[row])


def like(tracks: np.ndarray, color: int, shape: int, threshold: float) -> np.ndarray:
    """Rows that may be the named kind: rather one too many, since this is for keeping away."""
    if color == 0 and shape == 0:
        return np.zeros(0, int)
    fits = tracks[:, EVIDENCE:][:, class_mask(color, shape)].sum(1)
    share = fits / (tracks[:, EVIDENCE:].sum(1) + 1e-6)
    return np.flatnonzero((tracks[:, STRENGTH] > 0.1) & (fits >= threshold) & (share > 0.3))[:8]
