# SPDX-License-Identifier: Apache-2.0
"""Tensors between two processes on bare gloo, there and back or one way: the least that ``torch.distributed`` can do.

``python -m experiments.gloo_echo PORT`` is the end that sends back.
"""
from __future__ import annotations

import contextlib
import sys
import time
from datetime import timedelta
from typing import Any, Iterator, Sequence

import torch
import torch.distributed as dist

from brain_collectives import torch_store
from experiments.processes import beside

PATIENCE = timedelta(minutes=30)    # that it may rest between two blocks
FEW = 20        # tensors by which it is told how many go one way in a second


def _joined(store: dist.Store, rank: int) -> Any:
    return dist.ProcessGroupGloo(store, rank, 2, PATIENCE)


class GlooPing:
    """Times round trips of bytes, as tensors.

    Args:
        group: of this process and the one that sends back.
    """

    def __init__(self, group: Any) -> None:
        self._group = group

    def block(self, size: int, count: int) -> list[float]:
        """Round trip times (s) of ``count`` tensors of ``size`` bytes."""
        self._group.send([torch.tensor([size, count, 0])], 1, 0).wait()
        out, back, found = torch.zeros(size, dtype=torch.uint8), torch.empty(size, dtype=torch.uint8), []
        for _ in range(count):
            begin = time.perf_counter()
            self._group.send([out], 1, 0).wait()
            self._group.recv([back], 1, 0).wait()
            found.append(time.perf_counter() - begin)
        return found

    def flow(self, size: int, seconds: float) -> dict[str, Any]:
        """Measures one-way throughput for about so many seconds: ``sent``, ``n`` that came, ``took`` (s) there."""
        few = self._one_way(size, FEW)
        return self._one_way(size, max(FEW, round(seconds * (FEW - 1) / max(few["took"], 1e-6))))

    def _one_way(self, size: int, count: int) -> dict[str, Any]:
        self._group.send([torch.tensor([size, count, 1])], 1, 0).wait()
        out, took = torch.zeros(size, dtype=torch.uint8), torch.zeros(1, dtype=torch.float64)
        for _ in range(count):
            self._group.send([out], 1, 0).wait()
        self._group.recv([took], 1, 0).wait()
        return {"sent": count, "n": count, "took": took.item()}

    def flows(self, sizes: Sequence[int], seconds: float) -> list[dict[str, Any]]:
        """For each size."""
        return [self.flow(size, seconds) for size in sizes]

    def leave(self) -> None:
        """Lets the other process end."""
        self._group.send([torch.tensor([0, 0, 0])], 1, 0).wait()


@contextlib.contextmanager
def gloo_ping() -> Iterator[GlooPing]:
    """Both processes; the other one has ended after it."""
    torch.set_num_threads(1)
    store = torch_store.serve(timeout=PATIENCE)
    with beside("-m", __name__, str(store.port)) as other:
        side = GlooPing(_joined(store, 0))
        yield side
        side.leave()
        other.wait()


def main() -> None:
    """Sends back what comes, until there is nothing more."""
    torch.set_num_threads(1)
    group = _joined(dist.TCPStore("127.0.0.1", int(sys.argv[1]), 2, is_master=False, timeout=PATIENCE), 1)
    order = torch.zeros(3, dtype=torch.int64)
    while True:
        group.recv([order], 0, 0).wait()
        size, count, one_way = order.tolist()
        if count == 0:
            return
        data, first = torch.empty(size, dtype=torch.uint8), None
        for _ in range(count):
            group.recv([data], 0, 0).wait()
            first = time.monotonic() if first is None else first
            if not one_way:
                group.send([data], 0, 0).wait()
        if one_way:
            group.send([torch.tensor([time.monotonic() - (first or 0.0)], dtype=torch.float64)], 0, 0).wait()


if __name__ == "__main__":
    main()
