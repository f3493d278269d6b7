# SPDX-License-Identifier: Apache-2.0
"""A consistent snapshot of a whole brain on a static group: the states of all regions at one instant, in one file.

The cut lies between two orders of rank 0. There no message is on its way: whatever was published has been handed on at
the instant at which it was. What lies in inboxes is not kept; regions hear it anew.
"""
from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, Mapping

import numpy as np
from safetensors.numpy import save

from brain_runtime.contract import snapshot
from brain_runtime.contract.region import Region
from brain_runtime.contract.snapshot import SnapshotError
from brain_wire.temporary_folder import TemporaryFolder

FORMAT = "1"

log = logging.getLogger(__name__)


def pack(states: Mapping[str, bytes], brain: str, now: float) -> bytes:
    """One file of the snapshots of all regions, by name, taken ``now`` (s since the start)."""
    return save({name: np.frombuffer(blob, np.uint8) for name, blob in states.items() if blob},
                metadata={"format": FORMAT, "brain": brain, "now": f"{now:.6f}"})


def unpack(path: Path, brain: str) -> dict[str, bytes]:
    """The snapshots of a brain's regions by name, from the newest file that can be used; none where there is none."""
    def use(candidate: Path) -> dict[str, bytes]:
        told, arrays = snapshot.content(candidate)
        if told.get("format") != FORMAT or told.get("brain") != brain:
            raise SnapshotError(f"snapshot {candidate} is of brain {told.get('brain')!r} and format "
                                f"{told.get('format')!r}, but {brain!r} and {FORMAT!r} are needed")
        return {name: value.tobytes() for name, value in arrays.items()}

    found, warnings = snapshot.newest(path, use, "the brain")
    for warning in warnings:
        log.warning(warning)
    return found or {}


def restored(packed: bytes, region: Region) -> Any | None:
    """The state of a configured region from its snapshot; None where it does not fit, which is told."""
    with TemporaryFolder("state") as folder:
        path = Path(folder, f"{region.name}.safetensors")
        path.write_bytes(packed)
        try:
            return region.restore(snapshot.read(path, region))
        except SnapshotError as error:
            log.warning("%s. %s starts without it.", error, region.name)
            return None
