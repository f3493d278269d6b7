# SPDX-License-Identifier: Apache-2.0
"""The curriculum that a worker hands in: checked before its bytes are taken, and read."""
from __future__ import annotations

import json
from typing import Any

from torch import Tensor

from brain_training.parameter_server import tensors as wire
from brain_training.parameter_server.refused import too_much, wrong

LARGEST = 4 << 30       # bytes
METADATA = "__metadata__"       # what safetensors keeps beside the tensors, under a name as theirs


def size_of(header: Any, rank: int) -> int:
    """Bytes that follow a ``CurriculumHeader`` of a worker; raises Refused where it does not read."""
    try:
        names = {spec.name for spec in header.tensors if wire.empty(spec) is not None}
        if METADATA in names or any(max(spec.shape, default=0) > wire.MOST for spec in header.tensors):
            raise ValueError(f"a tensor is called {METADATA}, which a file keeps for itself, or is too large")
        if len(names) < len(header.tensors) or not isinstance(json.loads(header.values), dict):
            raise ValueError("a tensor is there twice, or its values are no object")
    except (KeyError, ValueError, RecursionError) as error:
        raise wrong(f"the curriculum of worker {rank} does not read: {error}") from None
    size = sum(map(wire.size_of, header.tensors))
    if size > LARGEST:
        raise too_much(f"a curriculum of {size} bytes is larger than {LARGEST}")
    return size


def tensors_of(header: Any, data: Any, rank: int) -> dict[str, Tensor]:
    """Its tensors, by name; raises Refused where the bytes are not what the header says."""
    if wire.crc([data]) != header.crc32:
        raise wrong("the bytes of the curriculum do not have the checksum of its header")
    try:
        like = {spec.name: wire.empty(spec).new_empty(tuple(spec.shape)) for spec in header.tensors}
        return wire.decode(header.tensors, data, like)
    except (RuntimeError, TypeError, ValueError) as error:     # a shape that torch cannot have
        raise wrong(f"the curriculum of worker {rank} does not read: {str(error).splitlines()[0]}") from None
