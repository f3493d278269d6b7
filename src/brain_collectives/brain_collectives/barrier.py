# SPDX-License-Identifier: Apache-2.0
"""A barrier that says who is late; torch's own `monitored_barrier` is for gloo alone."""
from __future__ import annotations

from datetime import timedelta
from typing import Any

import torch.distributed as dist

from brain_collectives import algorithms
from brain_collectives.errors import CollectiveError, TooLate
from brain_collectives.group import Group
from brain_collectives.header import Call


def monitored_barrier(group: dist.ProcessGroup | None = None, timeout: timedelta | float | None = None,
                      wait_all_ranks: bool = False) -> None:
    """Returns when all ranks of a group have called it.

    Args:
        group: of the zenoh backend; None: the default group.
        timeout: of waiting (s, if a number); None: the group's.
        wait_all_ranks: name all ranks that have not come within the timeout, not the first only.

    Raises:
        TooLate: ranks have not come; the message and its ``ranks`` name them. All who came get this error. The group
            is of further use: a rank that comes late finds the others' messages, and the calls after it fit.
        CollectiveError: the group is not of the zenoh backend, or has failed.
    """
    found = group or dist.group.WORLD
    if not isinstance(getattr(found, "wire", None), Group):
        raise CollectiveError("brain_collectives.monitored_barrier is for groups of the zenoh backend; gloo has "
                              "torch.distributed.monitored_barrier")
    _wait(found, timedelta(seconds=timeout) if isinstance(timeout, (int, float)) else timeout, wait_all_ranks)


def _wait(group: Any, timeout: timedelta | None, wait_all_ranks: bool) -> None:
    opts = dist.BarrierOptions()
    opts.asyncOp = False
    if timeout is not None:
        opts.timeout = timeout
    try:
        group._make(Call("monitored_barrier"), algorithms.barrier, [], opts)
    except TooLate as late:
        if wait_all_ranks or len(late.ranks) < 2:
            raise
        first = late.ranks[:1]
        seconds = (timeout or group.timeout).total_seconds()
        raise group.wire.too_late(list(first), "monitored_barrier", seconds) from None
