# SPDX-License-Identifier: Apache-2.0
"""Misbehavior of shards in tests: other sizes than are due, an end, an error."""
from __future__ import annotations

import os

import numpy as np

WORDS = ("sizes", "end", "raise")


def misbehave(exchange) -> None:
    """Does what shard 0 tells it to."""
    while True:
        match exchange.hear().decode():
            case "sizes":       # 24 bytes where shard 0 awaits 8
                exchange.gather(np.zeros(24, np.uint8), [8] + [24] * (exchange.size - 1))
            case "end":
                os._exit(3)
            case "raise":
                raise MemoryError("as it was told")
            case _:
                exchange.gather(np.full(8, exchange.rank, np.uint8), [8] * exchange.size)
