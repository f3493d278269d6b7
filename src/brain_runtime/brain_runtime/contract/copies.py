# SPDX-License-Identifier: Apache-2.0
"""Copies: regions of one class that learn as one. They have the same weights, and their adaptive state is averaged.

What is averaged a class names as ``adaptive``: entries of its state that change slowly, as thresholds or gains that
follow what is seen. Membranes are not among them: the mean of two membranes is the state of no network.
"""
from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, Iterable, Mapping, Protocol

import numpy as np
from numpy.typing import NDArray

from brain_runtime.contract.region import Region, State
from brain_wire.rate_limited_log import RateLimitedLog

EVERY = 2.0     # s between two means
SHORTEST, LONGEST = 0.05, 86_400.0
OTHER_SIZES = "copies have adaptive states of other sizes, so no mean is made; give them the same parameters"

limited_log = RateLimitedLog(logging.getLogger(__name__))


class CopiesError(ValueError):
    """Regions cannot be copies of each other; says which and why."""


@dataclass(frozen=True)
class Copies:
    """Regions that are copies of each other.

    Attributes:
        name: that they have in common.
        members: names of the regions, in the graph's order.
        every: time between two means of their adaptive state (s).
    """

    name: str
    members: tuple[str, ...]
    every: float = EVERY


def copies_of(named: Iterable[tuple[str, str, float]]) -> tuple[Copies, ...]:
    """All copies among regions, given as name, name of their copies (empty: none) and time between two means (s)."""
    found: dict[str, Copies] = {}
    for region, name, every in named:
        if name:
            before = found.get(name)
            found[name] = Copies(name, (*(before.members if before else ()), region), every)
    return tuple(found.values())


class Mean:
    """The adaptive state of one region, as it goes into a mean and comes out of it.

    Args:
        region: configured.

    Raises:
        CopiesError: its class names an entry that its state does not have.
    """

    def __init__(self, region: Region) -> None:
        self._region = region
        state = region.initial_state()
        lacking = sorted(set(region.adaptive) - set(state))
        if lacking:
            raise CopiesError(f"{region.name}: {type(region).__name__}.adaptive names {', '.join(lacking)}, which its "
                              f"state does not have; it has {', '.join(sorted(state)) or 'nothing'}")
        self._shapes = {name: np.asarray(state[name]).shape for name in region.adaptive}
        self.size = sum(int(np.prod(shape)) for shape in self._shapes.values())

    def part(self, state: State) -> NDArray[np.float64]:
        """Returns a region's share of the sum: its values and a 1, float64 [size + 1].

        Zeros where one of them is not finite: one copy must not spoil the others.
        """
        values = [np.asarray(state[name], np.float64).ravel() for name in self._shapes]
        found = np.concatenate([*values, [1.0]])
        if np.isfinite(found).all():
            return found
        limited_log(self._region.name, f"the adaptive state of {self._region.name} is not finite; it counts nothing in "
                                       f"the mean of its copies, and gets theirs")
        return np.zeros(self.size + 1)

    def taken(self, state: State, total: NDArray[np.float64]) -> State:
        """The state with the mean in it.

        Args:
            state: before.
            total: sum of what all copies have added, float64 [size + 1].
        """
        if not total[-1] > 0.0:
            return state
        mean, begin, found = total[:-1] / total[-1], 0, dict(state)
        for name, shape in self._shapes.items():
            length = int(np.prod(shape))
            found[name] = _as(state[name], mean[begin:begin + length].reshape(shape).astype(np.float32))
            begin += length
        return found


class HasState(Protocol):
    """Runner of a region, which has its state."""

    state: State


def average(copies: Iterable[tuple[Mean | None, HasState | None]]) -> None:
    """Copies in one process take the mean of their adaptive state; those that are not configured have none."""
    running = [(mean, one) for mean, one in copies if mean is not None and one is not None]
    if len({mean.size for mean, _ in running}) > 1:
        limited_log("sizes", OTHER_SIZES)
        return
    parts = [mean.part(one.state) for mean, one in running]
    for mean, one in running:
        one.state = mean.taken(one.state, np.sum(parts, axis=0))


def _as(before: Any, values: NDArray[np.float32]) -> Any:
    """An array as an entry of a state has it: of NumPy, or a tensor of torch on its device."""
    return values if isinstance(before, np.ndarray) else before.new_tensor(values)


def refuse(copies: Copies, classes: Mapping[str, type[Region]], values: Mapping[str, Mapping[str, Any]],
           every: Mapping[str, float]) -> None:
    """Raises CopiesError where regions cannot be copies of each other.

    Args:
        copies: in question.
        classes, values, every: by region: its class, what it is given, and the time between two means it asks for (s).
    """
    first, *others = copies.members
    who = f"copies {copies.name} ({', '.join(copies.members)})"
    if not others:
        raise CopiesError(f"copies {copies.name}: {first} is alone; give another region of its class "
                          f"`copies: {copies.name}`, or take it away here")
    for other in others:
        if classes[other] is not classes[first]:
            raise CopiesError(f"{who}: {other} is a {classes[other].__name__}, and {first} a "
                              f"{classes[first].__name__}; copies have one class")
        if every[other] != every[first]:
            raise CopiesError(f"{who}: {other} asks for a mean every {every[other]:g} s, and {first} for one every "
                              f"{every[first]:g} s; give all the same")
        if values[other].get("weights", "") != values[first].get("weights", ""):
            raise CopiesError(f"{who}: {other} and {first} are given other weights; copies have the same")
