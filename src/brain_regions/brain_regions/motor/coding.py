# SPDX-License-Identifier: Apache-2.0
"""Populations that stand for numbers: Gaussian receptive fields in, preferred values out.

Population coding as in G. Tang, N. Kumar, R. Yoo, K. Michmizos: Deep Reinforcement Learning with Population-Coded
Spiking Neural Network for Continuous Control, CoRL 2020 (section 3.1): each input number drives a population whose
neurons prefer different values, each action is read from a population of its own.
"""
from __future__ import annotations

import math

import numpy as np

from brain_regions import azimuth
from brain_regions.motor import senses
from brain_runtime.interfaces import Control

GAPS = (np.array([0.0, 0.07, 0.16, 0.32, 0.6], np.float32), np.array([0.05, 0.06, 0.09, 0.13, 0.20], np.float32))
"""Preferred gaps (m) and widths of the fields of each bin."""
LEFT = (np.array([-0.2, -0.08, -0.03, 0.0, 0.03, 0.08, 0.16, 0.35, 0.8], np.float32),
        np.array([0.08, 0.04, 0.025, 0.02, 0.025, 0.05, 0.07, 0.15, 0.35], np.float32))
"""The same of what is left to drive to the target (m)."""
AWAY = (np.log(np.array([0.35, 0.5, 0.7, 1.0, 1.5, 2.2, 3.5], np.float32)), np.full(7, 0.25, np.float32))
SHARE = (np.linspace(0, 1, 4, dtype=np.float32), np.full(4, 0.2, np.float32))
LINEAR = (np.linspace(-0.25, 1, 6, dtype=np.float32), np.full(6, 0.15, np.float32))
ANGULAR = (np.linspace(-1, 1, 9, dtype=np.float32), np.full(9, 0.15, np.float32))
LIMITS = ((senses.MAX_LINEAR, (0.15, 0.3, 0.5, 0.9)), (senses.MAX_ANGULAR, (0.6, 1.0, 1.5, 2.5)),
          (senses.BRAKING, (0.2, 0.4, 0.7, 1.2)), (senses.RADIUS, (0.12, 0.18, 0.25, 0.35)))
"""Preferred limits of the robot, on a logarithmic scale of width 0.35."""
FINE = np.array([-0.30, -0.15, -0.06, 0.0, 0.06, 0.15, 0.30], np.float32)    # rad, near ahead
FINE_WIDTH = 0.06
MODES, STATES = 5, 4    # inputs of the network, which another constant in Control or MotorStatus would not change
RINGS = azimuth.BINS * (len(GAPS[0]) + 3)
INPUTS = (RINGS + 2 * len(FINE) + sum(map(len, (AWAY[0], LEFT[0], SHARE[0], LINEAR[0], ANGULAR[0])))
          + MODES + STATES + 16)
MODE_AT = INPUTS - 16 - STATES - MODES      # place of the modes among the inputs
STILL = Control.MODE_IDLE, Control.MODE_STOP    # in which nothing is to move
INPUT_SCALING = "gaussian fields, 0..1"


_FINE = FINE, np.full(len(FINE), FINE_WIDTH, np.float32)
_POPULATIONS = (
    (senses.HEADING, _FINE), (senses.BEARING, _FINE), (senses.DISTANCE, AWAY), (senses.TARGET_GAP, LEFT),
    (senses.SPEED, SHARE), (senses.LAST_LINEAR, LINEAR), (senses.LAST_ANGULAR, ANGULAR),
    *((at, (np.log(np.array(values, np.float32)), np.full(4, 0.35, np.float32))) for at, values in LIMITS))
"""Which number of a row drives which population; all are computed at once, for a step's time goes into calls."""
_SOURCES = np.repeat([at for at, _ in _POPULATIONS], [len(preferred[0]) for _, preferred in _POPULATIONS])
_FIELDS = tuple(np.concatenate([preferred[k] for _, preferred in _POPULATIONS]) for k in range(2))
_LOGARITHMS = [senses.DISTANCE, *(at for at, _ in LIMITS)]
_ONE = np.eye(max(MODES, STATES), dtype=np.float32)


def _gaussian(offsets: np.ndarray, widths: np.ndarray | float) -> np.ndarray:
    """Activity 0..1 of neurons that are so far from what they prefer; NaN drives nobody."""
    found = np.exp(-0.5 * (offsets / widths) ** 2)
    found[np.isnan(found)] = 0.0
    return found


def encode(rows: np.ndarray) -> np.ndarray:
    """Input currents float32[..., INPUTS] of rows float32[..., senses.SIZE]."""
    s = senses
    gaps = np.where(rows[..., s.GAP] < s.REACH, rows[..., s.GAP], np.float32(np.nan))
    near = _gaussian(gaps[..., None] - GAPS[0], GAPS[1])
    rows = rows.copy()
    with np.errstate(divide="ignore", invalid="ignore"):
        rows[..., _LOGARITHMS] = np.log(rows[..., _LOGARITHMS])
    rows[..., s.TARGET_GAP] = np.minimum(rows[..., s.TARGET_GAP], 1.2)
    angles = rows[..., [s.HEADING, s.BEARING]]
    bumps = _gaussian(azimuth.wrap(angles[..., None] - azimuth.CENTERS), azimuth.BUMP)
    found = _gaussian(rows[..., _SOURCES] - _FIELDS[0], _FIELDS[1])
    mode = np.clip(rows[..., s.MODE], 0, MODES - 1).astype(int)
    state = np.clip(rows[..., s.LAST_STATE], 0, STATES - 1).astype(int)
    lead, limits = rows.shape[:-1], 4 * len(LIMITS)
    parts = [near.reshape(*lead, -1), rows[..., s.SHRUNK], bumps.reshape(*lead, -1), found[..., :-limits],
             _ONE[mode][..., :MODES], _ONE[state][..., :STATES], found[..., -limits:]]
    return np.concatenate(parts, -1).astype(np.float32, copy=False)


def preferred_turns(count: int) -> np.ndarray:
    """Shares of the top turning speed that the neurons of a population of ``count`` stand for at first."""
    half = count // 2
    sizes = np.array([0.25, 0.5, 1.0, 1.0] * math.ceil(half / 4), np.float32)[:half]
    return np.concatenate([sizes, -sizes])
