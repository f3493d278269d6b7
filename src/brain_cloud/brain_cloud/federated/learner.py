# SPDX-License-Identifier: Apache-2.0
"""Learner of a robot: an entry point of the group ``brain.learners``, so that this package needs no training.

An entry point names a function ``make(data: Sequence[str], labels: str, seed: int) -> Learner``.
"""
from __future__ import annotations

from importlib import metadata
from typing import Any, Callable, Mapping, NamedTuple, Protocol, Sequence

import numpy as np

from brain_runtime.command.lacking import build
from brain_wire.moved_modules import without_gone

GROUP = "brain.learners"


class LearnerProblem(RuntimeError):
    """A learner cannot be had, or has nothing to learn from; says why and the remedy."""


class Fitted(NamedTuple):
    """Result of a training: weights (float32 by name), number of examples it has learned from, and metrics."""

    weights: dict[str, np.ndarray]
    examples: int
    metrics: Mapping[str, float]


class Learner(Protocol):
    """Trains on what a robot has. It imports nothing of this package: what it returns needs only be alike."""

    def fit(self, weights: Mapping[str, np.ndarray], config: Mapping[str, float], left: Callable[[], float]
            ) -> tuple[dict[str, np.ndarray], int, Mapping[str, float]]:
        """Trains from ``weights``.

        Args:
            weights: float32 by name.
            config: numbers of the plan.
            left: seconds to the deadline; who cannot be done by then may come back sooner.

        Returns:
            As :class:`Fitted`.

        Raises:
            ValueError, RuntimeError: it cannot; the text says why.
        """


def found(name: str) -> Callable[..., Any]:
    """Loads the function that makes the learner of a name, from its entry point.

    Raises:
        LearnerProblem: it is not installed.
    """
    known = without_gone(metadata.entry_points(group=GROUP))
    if name not in known:
        raise LearnerProblem(f"the learner {name[:80]!r} is not installed here; there is "
                             f"{', '.join(sorted(known)) or 'none'}. vision is in brain_training: "
                             f"{build('brain_training')}")
    try:
        return known[name].load()
    except ImportError as error:
        raise LearnerProblem(f"the learner {name} cannot be imported ({error}); install what it needs") from error


def make(name: str, data: Sequence[str], labels: str, seed: int) -> Learner:
    """A learner with a robot's data.

    Raises:
        LearnerProblem: it is not installed, or the data cannot be used.
    """
    make_it = found(name)
    try:
        return make_it(data, labels, seed)
    except (ValueError, OSError) as error:
        raise LearnerProblem(str(error)) from error
