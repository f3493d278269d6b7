# SPDX-License-Identifier: Apache-2.0
"""Placement of parameters on servers."""
from __future__ import annotations

import hashlib
from typing import Iterable


def server_of(name: str, servers: int) -> int:
    """The server (0 to ``servers`` - 1) of a parameter, by rendezvous hashing of its name.

    The same on every machine; with one server more, parameters move to the new one only.
    """
    if servers < 1:
        raise ValueError(f"{servers} servers cannot hold a parameter; there must be one at least")
    return max(range(servers), key=lambda number: hashlib.sha256(f"{number}/{name}".encode()).digest())


def placed(names: Iterable[str], server: int, servers: int) -> list[str]:
    """Those of some parameters that one server holds, in their order."""
    return [name for name in names if server_of(name, servers) == server]
