# SPDX-License-Identifier: Apache-2.0
"""Processes of a static gloo group for ``brain bench backends``, beside the light ones of ``brain bench scale``.

``python -m experiments.gloo_nodes`` is ordered about as :mod:`experiments.scale_nodes`. Each rank says something to the
next ten times a second, and hears the one before it. It sends and hears in threads of their own, so that nobody waits
for a neighbour that is late: the best that such a group can do.
"""
from __future__ import annotations

import os
import threading
import time
from datetime import timedelta
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from brain_collectives import torch_store
from experiments.costs import Scheduled
from experiments.scale_nodes import LAST, READY, SIZE, TURN, main

PATIENCE = timedelta(seconds=READY)


class GlooNode:
    """One rank.

    Args:
        order: ``port`` of the store, which rank 0 keeps; ``number`` of the rank, ``count`` of all, ``rate`` (Hz).
    """

    def __init__(self, order: dict[str, Any]) -> None:
        torch.set_num_threads(1)
        self._order = order
        self._store = torch_store.serve(order["port"], PATIENCE) if order["number"] == 0 else dist.TCPStore(
            torch_store.HERE, order["port"], is_master=False, timeout=PATIENCE)
        self._group = dist.ProcessGroupGloo(self._store, order["number"], order["count"], PATIENCE)

    def declare(self) -> dict[str, Any]:
        """Waits until all are linked; how long that took (s)."""
        begin = time.monotonic()
        self._group.allreduce([torch.ones(1)]).wait()
        return {"found": time.monotonic() - begin}

    def run(self, seconds: float) -> dict[str, Any]:
        """Says something for so long; as :meth:`experiments.scale_nodes.LightNode.run`."""
        number, size, period = self._order["number"], self._order["count"], 1.0 / self._order["rate"]
        count = round(seconds / period)
        took: list[int] = []
        before = Scheduled(os.getpid())
        hearing = threading.Thread(target=self._hear, args=((number - 1) % size, count, took), daemon=True)
        hearing.start()
        begin = time.monotonic() + period * (number * TURN % 1.0)
        out = np.zeros(SIZE, np.uint8)
        for tick in range(count):
            time.sleep(max(0.0, begin + tick * period - time.monotonic()))
            out[:8] = np.frombuffer(np.int64(time.time_ns()).tobytes(), np.uint8)
            self._group.send([torch.from_numpy(out)], (number + 1) % size, 0).wait()
        late = time.monotonic() - (begin + (count - 1) * period)
        hearing.join(LAST)
        ran, waited = Scheduled(os.getpid()).since(before)
        return {"sent": count, "heard": len(took), "late": late, "ns": list(took), "ran": ran, "waited": waited}

    def _hear(self, source: int, count: int, took: list[int]) -> None:
        data = torch.zeros(SIZE, dtype=torch.uint8)
        for _ in range(count):
            self._group.recv([data], source, 0).wait()
            took.append(time.time_ns() - int(data[:8].numpy().view(np.int64)[0]))

    def close(self) -> None:
        """Leaves."""
        del self._group


if __name__ == "__main__":
    main(GlooNode)
