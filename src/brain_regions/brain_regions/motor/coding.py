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
MODES, STATES = 5, 4
RINGS = azimuth.BINS * (len(GAPS[0]) + 3)
INPUTS = (RINGS + 2 * len(FINE) + sum(map(len, (AWAY[0], LEFT[0], SHARE[0], LINEAR[0], ANGULAR[0])))
          + MODES + STATES + 16)
MODE_AT = INPUTS - 16 - STATES - MODES      # place of the modes among the inputs
STILL = (0, 3)                              # modes in which nothing is to move
INPUT_SCALING = "gaussian fields, 0..1"


def fields(values: np.ndarray, preferred: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Activity 0..1 of a population, [..., n] of values [...]; NaN drives nobody."""
    centers, widths = preferred
    found = np.exp(-0.5 * ((values[..., None] - centers) / widths) ** 2)
    return np.nan_to_num(found, nan=0.0)


def _bump(angles: np.ndarray) -> np.ndarray:
    return np.nan_to_num(np.exp(-0.5 * (azimuth.wrap(angles[..., None] - azimuth.CENTERS) / azimuth.BUMP) ** 2))


def encode(rows: np.ndarray) -> np.ndarray:
    """Input currents float32[..., INPUTS] of rows float32[..., senses.SIZE]."""
    s = senses
    near = fields(np.where(rows[..., s.GAP] < s.REACH, rows[..., s.GAP], np.nan), GAPS)
    one = np.eye(max(MODES, STATES) + 1, dtype=np.float32)
    mode = np.clip(rows[..., s.MODE], 0, MODES - 1).astype(int)
    state = np.clip(rows[..., s.LAST_STATE], 0, STATES - 1).astype(int)
    fine = FINE, np.full(len(FINE), FINE_WIDTH, np.float32)
    with np.errstate(divide="ignore", invalid="ignore"):
        away = np.log(rows[..., s.DISTANCE])
        limits = [fields(np.log(rows[..., at]), (np.log(np.array(values, np.float32)), np.full(4, 0.35, np.float32)))
                  for at, values in LIMITS]
    parts = [near.reshape(*near.shape[:-2], -1), rows[..., s.SHRUNK], _bump(rows[..., s.HEADING]),
             _bump(rows[..., s.BEARING]), fields(rows[..., s.HEADING], fine), fields(rows[..., s.BEARING], fine),
             fields(away, AWAY), fields(np.minimum(rows[..., s.TARGET_GAP], 1.2), LEFT),
             fields(rows[..., s.SPEED], SHARE), fields(rows[..., s.LAST_LINEAR], LINEAR),
             fields(rows[..., s.LAST_ANGULAR], ANGULAR), one[mode][..., :MODES], one[state][..., :STATES], *limits]
    return np.concatenate(parts, -1).astype(np.float32, copy=False)


def preferred_turns(count: int) -> np.ndarray:
    """Shares of the top turning speed that the neurons of a population of ``count`` stand for at first."""
    half = count // 2
    sizes = np.array([0.25, 0.5, 1.0, 1.0] * math.ceil(half / 4), np.float32)[:half]
    return np.concatenate([sizes, -sizes])
