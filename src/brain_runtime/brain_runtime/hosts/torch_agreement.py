# SPDX-License-Identifier: Apache-2.0
"""Agreement of all ranks of a static group, checked before anything is sent between regions."""
from __future__ import annotations

import functools
import hashlib
from pathlib import Path
from typing import Any, Mapping, Sequence

from brain_runtime.hosts.group_error import GroupError


def agree(cards: Sequence[Mapping[str, Any]], who: Sequence[str]) -> None:
    """Raises GroupError where ranks were given other things, or have other code."""
    first = cards[0]
    for rank, other in enumerate(cards[1:], 1):
        for what in ("names", "seed", "code"):
            if other[what] != first[what]:
                raise GroupError(f"{who[rank]} has other {what} than {who[0]}: {other[what]}, not {first[what]}; start "
                                 f"all ranks from the same installation with the same arguments")
        if other["name"] != first["names"][rank - 1]:
            raise GroupError(f"{who[rank]} runs {other['name']}")
    known: dict[str, tuple[str, int]] = {}
    for rank, other in enumerate(cards[1:], 1):
        for type_name, type_hash in other["types"].items():
            found, before = known.setdefault(type_name, (type_hash, rank))
            if found != type_hash:
                raise GroupError(f"{who[rank]} and {who[before]} have other definitions of {type_name}; install the "
                                 f"same version of its package for both")


@functools.cache
def code_hash() -> str:
    """Hashes the code of hosts, which all ranks must have the same."""
    found = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        found.update(path.read_bytes())
    return found.hexdigest()[:16]
