# SPDX-License-Identifier: Apache-2.0
"""Procedural textures of floors, walls and clutter: noise, stripes, checks, tiles, bricks, planks, dots and blots."""
from __future__ import annotations

import colorsys
from typing import Callable

import numpy as np

SIZE = 128      # px


def make(number: int, rng: np.random.Generator, size: int = SIZE) -> np.ndarray:
    """Textures float32 [number, size, size, 3] that tile, with a mean of about 1."""
    return np.stack([_one(rng, size) for _ in range(number)])


def _one(rng: np.random.Generator, size: int) -> np.ndarray:
    kind = _KINDS[rng.integers(len(_KINDS))]
    gray = kind(rng, size)
    gray = (gray - gray.mean()) / max(gray.std(), 1e-6)
    contrast = rng.uniform(0.04, 0.45)
    # between two colors that are near each other, now and then far
    hue, far = rng.random(), rng.random() < 0.3
    one = np.array(colorsys.hsv_to_rgb(hue, rng.uniform(0.0, 0.6 if far else 0.2), 1.0))
    beside = rng.uniform(-0.1, 0.1) + (0.5 if far and rng.random() < 0.3 else 0.0)
    other = np.array(colorsys.hsv_to_rgb((hue + beside) % 1.0, rng.uniform(0.0, 0.6 if far else 0.2), 1.0))
    share = np.clip(0.5 + 0.35 * gray, 0.0, 1.0)[..., None]
    grain = rng.uniform(0.0, 0.08) * rng.standard_normal((size, size, 1))
    found = (one * share + other * (1 - share)) * (1.0 + contrast * gray[..., None] + grain)
    return np.clip(found, 0.02, 2.5).astype(np.float32)


def noise(rng: np.random.Generator, size: int, slope: float | None = None, stretch: float = 1.0) -> np.ndarray:
    """Noise [size, size] whose spectrum falls as a power of the frequency; ``stretch``: finer across than along."""
    f = np.fft.fftfreq(size)[:, None] * stretch, np.fft.rfftfreq(size)[None]
    radius = np.hypot(*f)
    radius[0, 0] = 1.0
    power = radius ** -(rng.uniform(0.4, 1.8) if slope is None else slope)
    power[0, 0] = 0.0
    phase = rng.standard_normal(power.shape) + 1j * rng.standard_normal(power.shape)
    found = np.fft.irfft2(power * phase, (size, size))
    return found / max(found.std(), 1e-9)


def _grid(size: int) -> tuple[np.ndarray, np.ndarray]:
    return np.meshgrid(np.arange(size) / size, np.arange(size) / size)


def _stripes(rng: np.random.Generator, size: int) -> np.ndarray:
    x, y = _grid(size)
    across, along = rng.integers(0, 9), rng.integers(0, 9)
    wave = np.sin(2 * np.pi * ((across or 1) * x + along * y) + 0.4 * rng.random() * noise(rng, size))
    return np.sign(wave) if rng.random() < 0.5 else wave


def _checks(rng: np.random.Generator, size: int) -> np.ndarray:
    x, y = _grid(size)
    n = 2 * rng.integers(1, 5)
    return ((np.floor(x * n) + np.floor(y * n)) % 2) + 0.15 * noise(rng, size)


def _tiles(rng: np.random.Generator, size: int) -> np.ndarray:
    x, y = _grid(size)
    n, m = int(rng.integers(1, 6)), int(rng.integers(1, 6))
    shift = rng.choice((0.0, 0.5)) if m % 2 == 0 else 0.0
    row = np.floor(y * m)
    u, v = (x * n + shift * (row % 2)) % n, y * m
    tone = rng.standard_normal((m, n))[row.astype(int), np.floor(u).astype(int)]
    gap = rng.uniform(0.02, 0.1)
    joint = (u % 1 < gap) | (v % 1 < gap)
    return np.where(joint, rng.choice((-2.0, 2.0)), 0.5 * tone) + 0.3 * noise(rng, size)


def _planks(rng: np.random.Generator, size: int) -> np.ndarray:
    y = _grid(size)[1]
    m = int(rng.integers(2, 9))
    row = np.floor(y * m).astype(int)
    grain = noise(rng, size, 1.0, stretch=rng.uniform(4, 12)).T if rng.random() < 0.5 else noise(rng, size, 1.0, 0.2)
    return 0.7 * rng.standard_normal(m)[row] + 0.6 * grain - 1.5 * (y * m % 1 < 0.06)


def _dots(rng: np.random.Generator, size: int) -> np.ndarray:
    x, y = _grid(size)
    n = int(rng.integers(2, 9))
    r = rng.uniform(0.15, 0.42)
    return (np.hypot(x * n % 1 - 0.5, y * n % 1 - 0.5) < r) + 0.2 * noise(rng, size)


def _blots(rng: np.random.Generator, size: int) -> np.ndarray:
    field = noise(rng, size, rng.uniform(1.5, 3.0))
    return np.floor(field * rng.integers(1, 4)) + 0.1 * noise(rng, size)


def _lines(rng: np.random.Generator, size: int) -> np.ndarray:
    """Rows of marks, as of print or shelves."""
    found = np.zeros((size, size))
    row = 0
    while row < size:
        tall = int(rng.integers(2, 14))
        if rng.random() < 0.8:
            marks = np.repeat(rng.random(size) > rng.uniform(0.2, 0.8), rng.integers(1, 5))[:size]
            found[row:row + max(1, tall - int(rng.integers(0, 4)))] = marks
        row += tall
    return found + 0.1 * noise(rng, size)


_KINDS: tuple[Callable[[np.random.Generator, int], np.ndarray], ...] = (
    noise, noise, _stripes, _checks, _tiles, _tiles, _planks, _planks, _dots, _blots, _blots, _lines)
