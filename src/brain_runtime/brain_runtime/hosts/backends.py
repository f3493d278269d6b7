# SPDX-License-Identifier: Apache-2.0
"""Backends of ``torch.distributed`` for groups of this machine's processes, found by the entry points of packages.

An entry point of the group ``brain.backends`` names a function that makes a group beside torch's default one, of which
a process can have one only::

    def make(store, rank, size, timeout): ...   # a torch.distributed.ProcessGroup, or what has its send() and recv()

The name of the entry point is that of the backend, as it stands in a graph.
"""
from __future__ import annotations

import re
from datetime import timedelta
from typing import Any, Callable

GROUP = "brain.backends"
DEFAULT = "gloo"
NAME = re.compile(r"[a-z][a-z0-9_]{0,30}", re.ASCII)
TIMEOUT = 2.0       # s that a step waits for another process; below what a supervisor lets a step take
MOST = 64           # processes of one region
Make = Callable[[Any, int, int, timedelta], Any]


class GroupError(RuntimeError):
    """A static process group cannot be, or has lost a rank; says which and why."""


def first_line(error: Exception) -> str:
    """The first line of what an error says; of those of torch, all that a person can use."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _points() -> Any:
    from importlib.metadata import entry_points     # a region in one process needs none

    return entry_points(group=GROUP)


def names() -> list[str]:
    """Backends that are installed."""
    return sorted({point.name for point in _points()})


def backend(name: str) -> Make:
    """The function that makes a group of a backend.

    Raises:
        GroupError: there is none of that name, or it cannot be loaded; says what there is.
    """
    for point in _points():
        if point.name == name:
            try:
                return point.load()
            except Exception as error:      # it is a stranger's code
                raise GroupError(f"the backend {name} ({point.value}) cannot be loaded: {type(error).__name__}: {error}"
                                 ) from error
    raise GroupError(f"there is no backend {name!r}; installed are {', '.join(names()) or 'none'}. Another comes with "
                     f"its package, as zenoh with brain_collectives (entry points are read anew by `pip install`)")
