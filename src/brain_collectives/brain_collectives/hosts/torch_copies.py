# SPDX-License-Identifier: Apache-2.0
"""Copies of a region in a static group: the first gives the others its weights, and all average what they adapt.

Both are collectives of the copies alone (broadcast, all_reduce); the other ranks take no part.
"""
from __future__ import annotations

import functools
import hashlib
import logging
from pathlib import Path
from typing import Any, Mapping, Sequence

import numpy as np

from brain_runtime.contract.copies import OTHER_SIZES, Copies, limited_log
from brain_runtime.contract.declared import DeclaredError
from brain_runtime.hosts.backends import GroupError
from brain_runtime.hosts.hosted_region import HostedRegion
from brain_runtime.hosts.schedule import LocalSchedule
from brain_collectives.hosts.torch_exchange import LARGEST
from brain_collectives.hosts.torch_group import Group
from brain_runtime.contract.region import Region
from brain_wire.temporary_folder import TemporaryFolder

log = logging.getLogger(__name__)


class TorchCopies:
    """The copies in a group, as one of its ranks sees them.

    Args:
        group: of all ranks.
        names: of the regions, by rank from 1.
        copies: among them; the same at every rank.

    Raises:
        GroupError: a copy is lost.
    """

    def __init__(self, group: Group, names: Sequence[str], copies: Sequence[Copies]) -> None:
        self._copies, self._mine = copies, -1
        self._folder: TemporaryFolder | None = None
        for number, one in enumerate(copies):
            ranks = [names.index(member) + 1 for member in one.members]
            if group.rank in ranks:
                self._mine, self._part = number, group.part(f"copies of {one.name}", ranks)

    def given(self, region: Region, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Parameters of this rank's region, with the weights of the first copy: of its file, not of the name.

        Raises:
            GroupError: a copy is lost, or its weights are too large.
        """
        if self._mine < 0 or region.weights is None:
            return dict(parameters)
        try:
            content = region.weights.path(str(parameters.get("weights", ""))).read_bytes()
        except (DeclaredError, OSError):
            content = b""       # configured with it, the region says what is wrong
        with self._part.patiently():    # others read theirs
            sent = self._first(content)
        if sent is None:
            return dict(parameters)
        self._folder = TemporaryFolder("weights")
        path = Path(self._folder.name, f"{region.name}.safetensors")
        path.write_bytes(sent)
        log.warning("%s has other weights than %s, of which it is a copy; it takes those", region.name,
                    self._copies[self._mine].members[0])
        return {**parameters, "weights": str(path)}

    def _first(self, content: bytes) -> bytes | None:
        """The weights of the first copy, where the own ``content`` is another."""
        own = np.frombuffer(hashlib.sha256(content).digest(), np.uint8)
        first = self._part.spread(own.copy(), 0)
        if not self._part.sum(np.array([float(not np.array_equal(own, first))]))[0]:
            return None
        size = int(self._part.spread(np.array([len(content)], np.int64), 0)[0])
        if not size:    # it cannot be read, which the first will say
            return None
        if not 0 < size <= LARGEST:
            raise GroupError(f"the first of copies {self._copies[self._mine].name} has weights of {size} bytes; at "
                             f"most {LARGEST} can be given to others")
        sent = np.frombuffer(content, np.uint8).copy() if self._part.rank == 0 else np.empty(size, np.uint8)
        self._part.spread(sent, 0)
        return None if np.array_equal(own, first) else sent.tobytes()

    def meet(self, schedule: LocalSchedule, mine: HostedRegion | None) -> None:
        """Lets the schedule make the means. All ranks call it, so that their schedules stay the same."""
        for number, one in enumerate(self._copies):
            if number == self._mine and mine is not None:
                schedule.meet_every(one.every, functools.partial(self._average, mine))
            else:
                schedule.meet_every(one.every, _nothing)

    def _average(self, mine: HostedRegion) -> None:
        if not mine.region.adaptive:
            return
        mean, stepper = mine.mean, mine.stepper
        size = float(mean.size) if mean is not None and stepper is not None else 0.0
        # gloo would abort a process whose copy gives more or less than it does
        known, sizes, squares = self._part.sum(np.array([float(size > 0.0), size, size * size]))
        if known * squares != sizes * sizes:
            limited_log("sizes", OTHER_SIZES)
            return
        if not known:
            return
        if mean is None or stepper is None:     # it is not configured now
            self._part.sum(np.zeros(int(sizes / known) + 1))
            return
        stepper.state = mean.taken(stepper.state, self._part.sum(mean.part(stepper.state)))


def _nothing() -> None:
    """Takes no part in a mean of others."""
