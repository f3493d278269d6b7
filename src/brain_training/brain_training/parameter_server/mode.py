# SPDX-License-Identifier: Apache-2.0
"""Modes of applying gradients: all workers' together, each worker's at once, or at once while not too old."""
from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Mode:
    """Mode of applying gradients: how workers and steps go together.

    Attributes:
        together: a step has the gradients of all workers, each of its part of the samples; else each step is one
            worker's.
        bound: a step is dealt out only while so few steps before it are still to come, and refused when its
            parameters are older than so many versions; None: there is no bound.
    """

    together: bool
    bound: int | None = None

    @classmethod
    def of(cls, text: str) -> Mode:
        """From ``sync``, ``async`` or ``stale:S``; raises ValueError."""
        if text in ("sync", "async"):
            return cls(text == "sync")
        found = re.fullmatch("stale:([0-9]{1,6})", text)
        if not found:
            raise ValueError(f"there is no mode {text!r}; there are sync, async, and stale:S with S versions, as "
                             f"stale:4")
        return cls(False, int(found[1]))

    def __str__(self) -> str:
        """As :meth:`of` reads it."""
        return "sync" if self.together else "async" if self.bound is None else f"stale:{self.bound}"
