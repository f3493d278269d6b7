# SPDX-License-Identifier: Apache-2.0
"""Exchange between the processes of a group, point to point, so that who fails is named: of one region, or of a brain.

Each message has its size for a tag. So one of another size than is due is never received, and ends in the error of who
does not answer; gloo, given a message that does not fit, would abort the process.
"""
from __future__ import annotations

import json
import sys
import time
from abc import abstractmethod
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Callable, Iterable, Iterator, Mapping, NamedTuple, Sequence

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray

FACTS = 4096                    # bytes of what shards tell of themselves at the start
LARGEST = 1 << 30               # bytes in one go that a process makes room for
PATIENT = timedelta(seconds=60)
Lost = Callable[[int, Exception, bool], Exception]
LONG = timedelta(days=1000)     # what a shard waits for that waits for the next order


class _Work(NamedTuple):
    """A message on its way."""

    other: int              # rank to which it goes, or from which it comes
    work: Any               # of the group
    there: torch.Tensor     # kept until it has gone or come
    into: torch.Tensor      # where it is to be at last


class PointToPoint:
    """Sends and receives between the processes of a group, blocking.

    Args:
        group: of ``torch.distributed``, or what has its ``send`` and ``recv``.
        rank, size: of this process, and how many there are.
        timeout: how long it waits for another one.
        patience: how long it does for what is loaded.
        device: by which tensors go; None: from memory.
    """

    def __init__(self, group: Any, rank: int, size: int, timeout: timedelta, patience: timedelta = PATIENT,
                 device: torch.device | None = None) -> None:
        self._group, self.rank, self.size, self._device = group, rank, size, device
        self._timeout, self._patience = timeout, patience

    @abstractmethod
    def _lost(self, rank: int, error: Exception, waited: bool) -> Exception:
        """Makes the error for a rank that does not answer.

        Args:
            rank: of whom.
            error: that the group raised.
            waited: it was waited for in vain; else its connection is gone.
        """

    @contextmanager
    def patiently(self) -> Iterator[None]:
        """Waits for longer than in a step: for what is loaded, on a machine that is busy loading."""
        before = self._timeout
        self._wait_for(max(before, self._patience))
        try:
            yield
        finally:
            self._wait_for(before)

    def _wait_for(self, timeout: timedelta) -> None:
        self._timeout = timeout

    def _open(self) -> Any:
        if self._group is None:
            raise RuntimeError("the group is closed")
        return self._group

    def send(self, array: NDArray[Any], to: int) -> None:
        """Sends an array's bytes, and waits until they are on their way. Raises what tells who is lost."""
        self._wait([self._send(array, to)])

    def receive(self, into: NDArray[Any], source: int) -> None:
        """Waits for an array and puts it into another of as many bytes. Raises what tells who is lost."""
        self._wait([self._receive(into, source)])

    def _send(self, array: NDArray[Any], to: int) -> _Work:
        # torch takes no array that must not be written to, as what was decoded from bytes is
        tensor = torch.from_numpy(np.require(array.reshape(-1).view(np.uint8), requirements="W"))
        there = tensor if self._device is None else tensor.to(self._device)
        try:
            return _Work(to, self._open().send([there], to, tensor.numel()), there, there)
        except RuntimeError as error:
            raise self._lost(to, error, False) from error

    def _receive(self, into: NDArray[Any], source: int) -> _Work:
        tensor = torch.from_numpy(into.reshape(-1).view(np.uint8))
        there = tensor if self._device is None else torch.empty_like(tensor, device=self._device)
        try:
            return _Work(source, self._open().recv([there], source, tensor.numel()), there, tensor)
        except RuntimeError as error:
            raise self._lost(source, error, False) from error

    def _wait(self, works: Sequence[_Work]) -> None:
        for one in works:
            begin = time.monotonic()
            try:
                one.work.wait(self._timeout)
                if one.into is not one.there:
                    one.into.copy_(one.there)
            except RuntimeError as error:
                waited = time.monotonic() - begin >= 0.9 * self._timeout.total_seconds()
                raise self._lost(one.other, error, waited) from error

    def _put(self, data: bytes, to: Iterable[int]) -> None:
        """Sends bytes of any number to others, at the same time."""
        others = tuple(to)
        for array in (np.array([len(data)], np.int64), np.frombuffer(data, np.uint8)):
            if array.size:
                self._wait([self._send(array, other) for other in others])

    def _take(self, source: int) -> bytes:
        """Receives what another rank gave to :meth:`_put`."""
        length = np.zeros(1, np.int64)
        self.receive(length, source)
        if not 0 <= length[0] <= LARGEST:
            raise self._lost(source, ValueError(f"it announces {length[0]} bytes; it runs other code, or steps in "
                                                f"another order"), False)
        data = np.empty(int(length[0]), np.uint8)
        if data.size:
            self.receive(data, source)
        return data.tobytes()


class Exchange(PointToPoint):
    """The shards of one region, as one of them sees it.

    Args:
        group: of ``torch.distributed``, or what has its ``send`` and ``recv``.
        rank, size: of this shard, and how many there are.
        timeout: how long shard 0 waits for another one (s); the others wait, since they end with shard 0.
        lost: makes an error of a shard's number, of what the group raised, and of whether it was waited for in vain
            (else its connection is gone).
    """

    def __init__(self, group: Any, rank: int, size: int, timeout: float, lost: Lost) -> None:
        super().__init__(group, rank, size, timedelta(seconds=timeout) if rank == 0 else LONG)
        self._made_of = lost

    def _lost(self, rank: int, error: Exception, waited: bool) -> Exception:
        return self._made_of(rank, error, waited)

    def facts(self, known: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Gathers each shard's facts, by rank: ``known`` and what decides how it computes; only shard 0 gets them."""
        facts = {**known, "torch": torch.__version__, "numpy": np.__version__, "python": sys.version.split()[0],
                 "processor": torch.backends.cpu.get_cpu_capability()}
        own = np.frombuffer(json.dumps(facts).encode().ljust(FACTS), np.uint8)
        return [json.loads(bytes(of_one)) for of_one in self.collect(own, [FACTS] * self.size)]

    def tell(self, data: bytes) -> None:
        """Shard 0 gives bytes to all others. Raises what ``lost`` makes."""
        self._put(data, range(1, self.size))

    def hear(self) -> bytes:
        """Receives bytes from shard 0, however long that takes. Raises what ``lost`` makes."""
        return self._take(0)

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
        receiving = [self._receive(array, rank) for rank, array in enumerate(found) if rank != self.rank]
        self._wait(receiving + [self._send(own, rank) for rank in to if rank != self.rank])
        return found

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
