# SPDX-License-Identifier: Apache-2.0
"""Classes of regions that have another name now, so that an old graph is told the new one."""
from __future__ import annotations

MOVED: dict[str, str] = {}
"""From an old ``package.module:Class``, or an old ``package.module`` all of whose classes moved, to the new one."""


def new_name(cls: str) -> str | None:
    """The new name of a class that is not where it was, as ``package.module:Class``; None: it never had another."""
    module, _, name = cls.partition(":")
    return MOVED.get(cls) or (f"{MOVED[module]}:{name}" if module in MOVED else None)
