# SPDX-License-Identifier: Apache-2.0
"""Errors of calls of the zenoh backend. Each is a ``torch.distributed.DistBackendError``, so a ``RuntimeError``."""
from __future__ import annotations

import torch.distributed as dist


class CollectiveError(dist.DistBackendError):
    """A call could not be done."""


class RankDied(CollectiveError):
    """Ranks of the group are gone; names them. `brain_collectives.shrink` goes on without them.

    Attributes:
        ranks: their ranks in the default group.
    """

    def __init__(self, message: str, ranks: tuple[int, ...] = ()) -> None:
        super().__init__(message)
        self.ranks = ranks


class Refused(CollectiveError):
    """The other ranks have gone on without this one, or may have: it stood still or was cut off for too long."""


class CallsDiffer(CollectiveError):
    """Two ranks of a group made different calls; names both. The group is of no more use."""


class TooLate(CollectiveError):
    """Not all ranks did their part within the timeout; names who is missing.

    Attributes:
        ranks: the missing ones, in the default group.
    """

    def __init__(self, message: str, ranks: tuple[int, ...] = ()) -> None:
        super().__init__(message)
        self.ranks = ranks


class LinkLost(CollectiveError):
    """Messages were lost with the link, and nobody has them any more."""


class Closed(CollectiveError):
    """The group was closed, by this process."""


class ObjectsRefused(CollectiveError):
    """Objects would be unpickled from a link that is not authenticated."""
