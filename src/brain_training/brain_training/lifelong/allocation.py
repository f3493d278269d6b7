# SPDX-License-Identifier: Apache-2.0
"""To which task of a library pictures belong, or that they belong to none: then nobody here has seen such a site."""
from __future__ import annotations

from collections import Counter
from typing import Mapping, NamedTuple, Sequence

import numpy as np

from brain_training.lifelong.descriptor import Descriptor


class Allocated(NamedTuple):
    """Task that windows of pictures were taken for.

    Attributes:
        task: name, or None: unknown.
        nearest: the task that is nearest, whether within its bound or not; None: there is no task.
        share: of the windows that were taken for ``task``.
        ratios: distance over bound of each task, the median over windows; up to 1 is usual.
    """

    task: str | None
    nearest: str | None
    share: float
    ratios: dict[str, float]


def of_window(window: np.ndarray, tasks: Mapping[str, Descriptor]) -> tuple[str | None, dict[str, float]]:
    """The task of one window [numbers], None: unknown; and its distance over the bound of each task.

    A distance is counted in bounds, so that a site whose rooms are much alike and one of many kinds of rooms are asked
    the same: would this be unusual here?
    """
    ratios = {name: one.distance(window) / max(one.bound, 1e-9) for name, one in tasks.items()}
    nearest = min(ratios, key=lambda name: ratios[name], default=None)
    return (nearest if nearest is not None and ratios[nearest] <= 1.0 else None), ratios


def of_windows(windows: Sequence[np.ndarray] | np.ndarray, tasks: Mapping[str, Descriptor]) -> Allocated:
    """The task of all pictures of one site, by what most of its windows are taken for.

    Args:
        windows: one at least.
        tasks: by name.

    Raises:
        ValueError: there is no window.
    """
    if not len(windows):
        raise ValueError("there is no window of pictures to judge by")
    each = [of_window(window, tasks) for window in windows]
    taken, count = Counter(task for task, _ in each).most_common(1)[0]
    ratios = {name: float(np.median([found[name] for _, found in each])) for name in tasks}
    return Allocated(taken, min(ratios, key=lambda name: ratios[name], default=None), count / len(each), ratios)
