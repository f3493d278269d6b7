# SPDX-License-Identifier: Apache-2.0
"""Descriptor of a task's pictures: a normal distribution of windows' numbers, and how far off still is usual.

The covariance of few windows is drawn towards its diagonal as Ledoit and Wolf propose (A well-conditioned estimator for
large-dimensional covariance matrices, Journal of Multivariate Analysis 88, 2004, equations 2 and 14), on numbers of
unit variance. The bound comes from windows that the distribution was not made from: each is left out in turn, and
judged by that of the others.
"""
from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from brain_training.lifelong.pictures import NAMES

RATE = 0.05             # of a task's own windows that are taken for unknown
FEWEST = 4              # windows from which a distribution is made
MOST_WINDOWS = 256      # of a task: each is judged by the distribution of all others
LARGEST = 1e6           # that a number of a window can be; those of pictures are below 10
SPREAD = 0.01           # standard deviation that each number has at least: a camera's noise alone has as much
LEAST_DRAWN = 0.01      # of the way to the diagonal, so that there is an inverse whatever the windows are
BEYOND = 1.2            # of the largest distance, where there are too few windows to have one for the rate


@dataclass(frozen=True)
class Descriptor:
    """A distribution of windows.

    Args:
        windows: float64 [windows, numbers], each the mean over some pictures; finite, at most :data:`MOST_WINDOWS`.
        rate: of its own windows that are to be taken for unknown.

    Attributes:
        mean: [numbers].
        covariance: [numbers, numbers].
        bound: Mahalanobis distance beyond which a window is not of this task.
        reached: the share of its own windows that the bound takes for unknown: ``rate``, or what few windows can tell.

    Raises:
        ValueError: there are too few windows or too many, or they hold what is not finite.
    """

    windows: np.ndarray
    rate: float = RATE
    mean: np.ndarray = field(init=False, repr=False)
    covariance: np.ndarray = field(init=False, repr=False)
    bound: float = field(init=False)
    reached: float = field(init=False)
    _inverse: np.ndarray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        windows = self.windows
        if windows.ndim != 2 or windows.shape[1] != len(NAMES) or not np.isfinite(windows).all():
            raise ValueError(f"windows are finite numbers [windows, {len(NAMES)}], not {windows.shape}")
        count = len(windows)
        if count > MOST_WINDOWS or count and np.abs(windows).max() > LARGEST:
            raise ValueError(f"a site has at most {MOST_WINDOWS} windows, of numbers up to {LARGEST:g}")
        if count < FEWEST:
            raise ValueError(f"{count} windows are too few to know a site by; {FEWEST} are needed, and "
                             f"{math.ceil(1 / self.rate) - 1} for a bound of {self.rate:.0%}: record more")
        mean, covariance = _normal(windows)
        object.__setattr__(self, "mean", mean)
        object.__setattr__(self, "covariance", covariance)
        object.__setattr__(self, "_inverse", np.linalg.inv(covariance))
        own = np.sort([_distance(window, *_fitted(np.delete(windows, number, 0)))
                       for number, window in enumerate(windows)])
        # A new window is as likely as each of these to be the farthest, the second farthest, and so on.
        rank = math.ceil((count + 1) * (1.0 - self.rate))
        enough = rank <= count
        object.__setattr__(self, "bound", float(own[rank - 1] if enough else BEYOND * own[-1]))
        object.__setattr__(self, "reached", self.rate if enough else 1.0 / (count + 1))

    def distance(self, window: np.ndarray) -> float:
        """Mahalanobis distance of a window [numbers]."""
        return _distance(window, self.mean, self._inverse)


def _normal(windows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and shrunken covariance."""
    count = len(windows)
    mean = windows.mean(0)
    spread = np.maximum(windows.std(0, ddof=1), SPREAD)
    z = (windows - mean) / spread
    raw = z.T @ z / count
    off = np.square(raw - np.diag(np.diag(raw))).sum()
    noise = np.square(np.einsum("ni,nj->nij", z, z) - raw).sum() / count**2
    share = max(min(noise / off, 1.0), LEAST_DRAWN) if off > 0.0 else 1.0
    # the diagonal stays as the spread says, so that it is never 0
    joint = (1.0 - share) * raw
    np.fill_diagonal(joint, 1.0)
    return mean, joint * np.outer(spread, spread) * (1.0 + 1.0 / count)     # of a new window about this mean


def _fitted(windows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    mean, covariance = _normal(windows)
    return mean, np.linalg.inv(covariance)


def _distance(window: np.ndarray, mean: np.ndarray, inverse: np.ndarray) -> float:
    off = window - mean
    return float(math.sqrt(max(off @ inverse @ off, 0.0)))
