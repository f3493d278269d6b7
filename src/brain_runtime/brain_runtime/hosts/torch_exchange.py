# SPDX-License-Identifier: Apache-2.0
"""Exchange between the processes of one region, point to point, so that who fails is named.

Each message has its size for a tag. So one of another size than is due is never received, and ends in the error of who
does not answer; gloo, given a message that does not fit, would abort the process.
"""
from __future__ import annotations

import json
import sys
import time
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping, Sequence

import numpy as np
import torch
import torch.distributed as dist

FACTS = 4096                    # bytes of what shards tell of themselves at the start
LARGEST = 1 << 30               # bytes that a shard makes room for
PATIENT = timedelta(seconds=60)
Lost = Callable[[int, Exception, bool], Exception]
LONG = timedelta(days=1000)     # what a shard waits for that waits for the next order


class Exchange:
    """The shards of one region, as one of them sees it.

    Args:
        group: of ``torch.distributed``, or what has its ``send`` and ``recv``.
        rank, size: of this shard, and how many there are.
        timeout: how long shard 0 waits for another one (s); the others wait, since they end with shard 0.
        lost: makes an error of a shard's number, of what the group raised, and of whether it was waited for in vain
            (else its connection is gone).
    """

    def __init__(self, group: Any, rank: int, size: int, timeout: float, lost: Lost) -> None:
        self._group, self.rank, self.size = group, rank, size
        self._timeout = timedelta(seconds=timeout) if rank == 0 else LONG
        self._lost = lost

    @contextmanager
    def patiently(self) -> Iterator[None]:
        """Waits for longer than in a step: for what is loaded, on a machine that is busy loading."""
        before, self._timeout = self._timeout, max(self._timeout, PATIENT)
        try:
            yield
        finally:
            self._timeout = before

    def facts(self, known: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Gathers each shard's facts, by rank: ``known`` and what decides how it computes; only shard 0 gets them."""
        facts = {**known, "torch": torch.__version__, "numpy": np.__version__, "python": sys.version.split()[0],
                 "processor": torch.backends.cpu.get_cpu_capability()}
        own = np.frombuffer(json.dumps(facts).encode().ljust(FACTS), np.uint8).copy()
        return [json.loads(bytes(of_one)) for of_one in self.collect(own, [FACTS] * self.size)]

    def tell(self, data: bytes) -> None:
        """Shard 0 gives bytes to all others. Raises what ``lost`` makes."""
        length, array = np.array([len(data)], np.int64), np.frombuffer(data, np.uint8).copy()
        for part in (length.view(np.uint8), array) if data else (length.view(np.uint8),):
            self._wait([(other, self._send(part, other)) for other in range(1, self.size)])

    def hear(self) -> bytes:
        """Receives bytes from shard 0, however long that takes. Raises what ``lost`` makes, and ValueError."""
        length = np.zeros(1, np.int64)
        self._wait([(0, self._receive(length.view(np.uint8), 0))])
        if not 0 <= length[0] <= LARGEST:
            raise ValueError(f"shard 0 announces {length[0]} bytes; it runs other code")
        data = np.empty(int(length[0]), np.uint8)
        if data.size:
            self._wait([(0, self._receive(data, 0))])
        return data.tobytes()

    def gather(self, own: np.ndarray, lengths: Sequence[int]) -> list[np.ndarray]:
        """All shards give all others an array, uint8 [``lengths[rank]``].

        Raises what ``lost`` makes; ValueError where ``own`` is of another length or type.
        """
        return self._given(own, lengths, range(self.size))

    def collect(self, own: np.ndarray, lengths: Sequence[int]) -> list[np.ndarray]:
        """As :meth:`gather`, but only shard 0 has the arrays; the others have an empty list."""
        return self._given(own, lengths, [0])

    def _given(self, own: np.ndarray, lengths: Sequence[int], to: Sequence[int]) -> list[np.ndarray]:
        if own.dtype != np.uint8 or own.size != lengths[self.rank]:
            raise ValueError(f"shard {self.rank} gives {own.size} {own.dtype}, where {lengths[self.rank]} bytes are "
                             f"due")
        found = [own if rank == self.rank else np.empty(length, np.uint8) for rank, length in enumerate(lengths)]
        if self.rank not in to:
            found = []
        receiving = [(rank, self._receive(array, rank)) for rank, array in enumerate(found) if rank != self.rank]
        sending = [(rank, self._send(own, rank)) for rank in to if rank != self.rank]
        self._wait(receiving + sending)
        return found

    def _send(self, array: np.ndarray, to: int) -> Any:
        try:
            return self._open().send([torch.from_numpy(array)], to, array.size)
        except RuntimeError as error:
            raise self._lost(to, error, False) from error

    def _receive(self, into: np.ndarray, source: int) -> Any:
        try:
            return self._open().recv([torch.from_numpy(into)], source, into.size)
        except RuntimeError as error:
            raise self._lost(source, error, False) from error

    def _open(self) -> Any:
        if self._group is None:
            raise RuntimeError("the group is closed")
        return self._group

    def _wait(self, works: list[tuple[int, Any]]) -> None:
        for rank, work in works:
            begin = time.monotonic()
            try:
                work.wait(self._timeout)
            except RuntimeError as error:
                waited = time.monotonic() - begin >= 0.9 * self._timeout.total_seconds()
                raise self._lost(rank, error, waited) from error

    def close(self) -> None:
        """Lets go of the group."""
        group, self._group = self._group, None
        if hasattr(group, "shutdown"):
            group.shutdown()


def meeting(path: Path | str, size: int) -> dist.Store:
    """The store by which so many shards meet, in a file."""
    return dist.FileStore(str(path), size)


def gloo(store: dist.Store, rank: int, size: int, timeout: timedelta) -> Any:
    """A group of torch's gloo that listens on the loopback interface alone."""
    options = dist.ProcessGroupGloo._Options()      # type: ignore[attr-defined] # torch's stubs lack it
    options._devices = [dist.ProcessGroupGloo.create_device(hostname="127.0.0.1")]
    options._timeout = timeout
    return dist.ProcessGroupGloo(store, rank, size, options)
