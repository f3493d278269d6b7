# SPDX-License-Identifier: Apache-2.0
"""Round trips of tensors between two processes on bare gloo: the least that ``torch.distributed`` can do.

``python -m brain_bench.gloo_echo PORT`` is the end that sends back.
"""
from __future__ import annotations

import subprocess
import sys
import time
from datetime import timedelta
from types import TracebackType
from typing import Any

import torch
import torch.distributed as dist

from brain_runtime import end_with_parent

PATIENCE = timedelta(seconds=120)


def _joined(store: dist.Store, rank: int) -> Any:
    return dist.ProcessGroupGloo(store, rank, 2, PATIENCE)


class GlooPing:
    """Times round trips of bytes, as tensors. A context manager: the other process has ended after it."""

    def __init__(self) -> None:
        import os

        torch.set_num_threads(1)
        store = dist.TCPStore("127.0.0.1", 0, 2, is_master=True, wait_for_workers=False, timeout=PATIENCE)
        self._other = subprocess.Popen(
            [sys.executable, "-I", "-S", end_with_parent.__file__, str(os.getpid()), sys.executable, "-m", __name__,
             str(store.port)], stdin=subprocess.DEVNULL)
        self._store, self._group = store, _joined(store, 0)

    def block(self, size: int, count: int) -> list[float]:
        """Round trip times (s) of ``count`` tensors of ``size`` bytes."""
        self._group.send([torch.tensor([size, count])], 1, 0).wait()
        out, back, found = torch.zeros(size, dtype=torch.uint8), torch.empty(size, dtype=torch.uint8), []
        for _ in range(count):
            begin = time.perf_counter()
            self._group.send([out], 1, 0).wait()
            self._group.recv([back], 1, 0).wait()
            found.append(time.perf_counter() - begin)
        return found

    def __enter__(self) -> GlooPing:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
                 ) -> None:
        if kind is None:
            self._group.send([torch.tensor([0, 0])], 1, 0).wait()
        else:
            self._other.kill()
        self._other.wait()


def main() -> None:
    """Sends back what comes, until there is nothing more."""
    torch.set_num_threads(1)
    group = _joined(dist.TCPStore("127.0.0.1", int(sys.argv[1]), 2, is_master=False, timeout=PATIENCE), 1)
    order = torch.zeros(2, dtype=torch.int64)
    while True:
        group.recv([order], 0, 0).wait()
        size, count = order.tolist()
        if count == 0:
            return
        data = torch.empty(size, dtype=torch.uint8)
        for _ in range(count):
            group.recv([data], 0, 0).wait()
            group.send([data], 0, 0).wait()


if __name__ == "__main__":
    main()
