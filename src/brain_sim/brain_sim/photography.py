# SPDX-License-Identifier: Apache-2.0
"""A camera's doing, from light to a picture: exposure, white balance, gamma, blur, noise and JPEG."""
from __future__ import annotations

import io
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Camera:
    """A camera's settings.

    Attributes:
        exposure: share of white that the mean of a picture gets.
        balance: factors of red, green and blue that its white balance leaves.
        gamma: of its curve; light is stored to the power of 1 / gamma.
        saturation: factor of the colors' distance from gray.
        blur: standard deviation of the lens's blur (px).
        motion: px over which a picture is smeared along its rows.
        noise: standard deviation of dark noise, shot noise at white: of gray levels 0..1.
        jpeg: quality; 0: none.
        flare: light that comes everywhere, 0..1.
    """

    exposure: float = 0.45
    balance: tuple[float, float, float] = (1.0, 1.0, 1.0)
    gamma: float = 2.0
    saturation: float = 1.0
    blur: float = 0.0
    motion: float = 0.0
    noise: tuple[float, float] = (0.01, 0.0)
    jpeg: int = 0
    flare: float = 0.0

    @classmethod
    def drawn(cls, rng: np.random.Generator) -> Camera:
        """Draws one."""
        warm, green = rng.normal(0.0, 0.12), rng.normal(0.0, 0.04)
        return cls(
            exposure=float(rng.uniform(0.25, 0.65)), balance=tuple(float(v) for v in np.exp([warm, green, -warm])),
            gamma=float(rng.uniform(1.3, 2.6)), saturation=float(rng.uniform(0.6, 1.3)),
            blur=float(rng.random() < 0.5) * float(rng.uniform(0.3, 1.2)),
            motion=float(rng.random() < 0.25) * float(rng.uniform(1.0, 6.0)),
            noise=(float(rng.uniform(0.0, 0.03)), float(rng.uniform(0.0, 0.03))),
            jpeg=int(rng.integers(15, 95)) if rng.random() < 0.2 else 0,
            flare=float(rng.random() < 0.3) * float(rng.uniform(0.0, 0.15)))

    def opened(self, light: np.ndarray) -> float:
        """Factor of all light that exposes light [..., 3], linear, of a picture as its settings ask."""
        seen = (light * np.array(self.balance, np.float32)).mean(-1)
        return self.exposure ** self.gamma * 1.4 / max(float(np.quantile(seen, 0.6)), 1e-4)

    def take(self, light: np.ndarray, rng: np.random.Generator, opened: float | None = None) -> np.ndarray:
        """A picture uint8 [rows, columns, 3] of light [rows, columns, 3], linear.

        ``opened``: of the picture that this is a part of, from :meth:`opened`; None: it is the whole.
        """
        image = light * np.array(self.balance, np.float32)
        image *= self.opened(light) if opened is None else opened
        image += self.flare
        if self.blur:
            image = _smeared(_smeared(image, _bell(self.blur), 0), _bell(self.blur), 1)
        if self.motion:
            image = _smeared(image, np.ones(int(self.motion) + 1, np.float32) / (int(self.motion) + 1), 1)
        image = np.clip(image, 0.0, 1.0) ** np.float32(1.0 / self.gamma)
        gray = image.mean(-1, keepdims=True)
        image = gray + self.saturation * (image - gray)
        dark, shot = self.noise
        image += rng.standard_normal(image.shape, np.float32) * np.sqrt(dark ** 2 + shot ** 2 * np.maximum(gray, 0.0))
        found = (np.clip(image, 0.0, 1.0) * 255.0 + 0.5).astype(np.uint8)
        if self.jpeg:
            from PIL import Image

            file = io.BytesIO()
            Image.fromarray(found).save(file, "jpeg", quality=self.jpeg)
            found = np.array(Image.open(file))
        return found


def _bell(width: float) -> np.ndarray:
    at = np.arange(-int(3 * width + 0.5), int(3 * width + 0.5) + 1)
    found = np.exp(-0.5 * (at / width) ** 2).astype(np.float32)
    return found / found.sum()


def _smeared(image: np.ndarray, kernel: np.ndarray, axis: int) -> np.ndarray:
    reach = len(kernel) // 2
    padded = np.pad(image, [(reach, len(kernel) - 1 - reach) if k == axis else (0, 0) for k in range(3)], mode="edge")
    n = image.shape[axis]
    return sum(w * np.take(padded, range(k, k + n), axis) for k, w in enumerate(kernel))
