# SPDX-License-Identifier: Apache-2.0
"""A static process group of ``torch.distributed``: who is in it, and blocking sends and receives that name who failed.

Ranks are fixed at the start. Whoever ends takes all down: every other rank's next word to it, or from it, fails.
"""
from __future__ import annotations

import json
import os
import re
from datetime import timedelta
from typing import Any, Callable, Sequence

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray

from brain_runtime.hosts.backends import GroupError, first_line
from brain_collectives.hosts.torch_exchange import PointToPoint

TIMEOUT = 60.0      # s that a rank waits for another one
FORMING = 180.0     # s that it does while others still import torch, or configure their regions


class Group(PointToPoint):
    """The ranks of this run.

    Args:
        backend: of torch.distributed; ``nccl`` moves what is sent over the GPU.
        timeout: how long a rank waits for another one (s).
        store: rendezvous that is there already, with ``rank`` and ``size``; None: from the environment, as torchrun
            sets it.
        rank, size: of this process, where there is a store.

    Attributes:
        rank, size: this process's number, and how many there are.
        names: of what each rank runs, for messages; set by who knows.

    Raises:
        GroupError: the environment names no group, two processes have one rank, or the others do not come.
    """

    def __init__(self, backend: str = "gloo", timeout: float = TIMEOUT, store: dist.Store | None = None,
                 rank: int = 0, size: int = 1) -> None:
        patience = timedelta(seconds=max(timeout, FORMING))
        try:
            if store is None:
                store, rank, size = next(iter(dist.rendezvous("env://", timeout=patience)))
            store.set_timeout(patience)
            # torchrun's agent keeps its store from one attempt to the next
            store = dist.PrefixStore(f"brain/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
            if store.add(f"rank {rank}", 1) != 1:
                raise GroupError(f"two processes of the group have rank {rank}; start each rank once")
            store.set(f"{rank} is here", "")
            store.wait([f"{other} is here" for other in range(size)], patience)     # most are still importing torch
            made = _made(backend, store, rank, size, patience)
        except GroupError:
            raise
        except (RuntimeError, ValueError) as error:     # torch's own are derived from these
            raise GroupError(f"rank {rank} finds no group: {first_line(error)}; start all ranks with torchrun"
                             ) from error
        super().__init__(made, rank, size, patience, patience,
                         torch.device("cuda", _place(rank)) if backend == "nccl" else None)
        self._backend, self._store = backend, store
        self._part: Group | None = None
        self._parts: dict[tuple[int, ...], int] = {}    # how often some ranks have had a group of their own
        self.names = [f"rank {number}" for number in range(size)]
        self._wait_for(timedelta(seconds=timeout))

    def close(self) -> None:
        """Leaves the group; others that wait for this rank fail."""
        self._group = None
        if self._part is not None:
            self._part.close()

    def _wait_for(self, timeout: timedelta) -> None:
        # gloo's own holds for collectives alone; what is sent and received takes one with each wait
        super()._wait_for(timeout)
        if self._group is not None:
            self._group.set_timeout(timeout)

    def part(self, name: str, ranks: Sequence[int]) -> Group:
        """A group of some of the ranks, for collectives of theirs; these call it, with the same arguments.

        It takes the place of the one that this rank was in before.

        Raises:
            GroupError: one of them does not come.
        """
        times = self._parts[tuple(ranks)] = self._parts.get(tuple(ranks), 0) + 1
        # what an earlier group of the same ranks has left in the store would be taken for this one's
        store = dist.PrefixStore(f"{'+'.join(map(str, ranks))}/{times}", self._store)
        if self._part is not None:
            self._part.close()
        try:
            self._part = Group(self._backend, self._timeout.total_seconds(), store, ranks.index(self.rank), len(ranks))
        except GroupError as error:
            raise GroupError(f"{self.names[self.rank]} does not find the other {name}: {error}") from error
        self._part.names = [self.names[rank] for rank in ranks]
        return self._part

    # -- collectives -------------------------------------------------------------------------------------------------

    def spread(self, array: NDArray[Any], source: int) -> NDArray[Any]:
        """Gives all ranks the bytes of one (broadcast); all call it, with an array of that size.

        Returns:
            The array, with them in it.

        Raises:
            GroupError: a rank is lost.
        """
        try:
            self._all(array.reshape(-1).view(np.uint8), lambda tensor: self._open().broadcast(tensor, source))
        except RuntimeError as error:
            raise self._lost(source, error, False) from error
        return array

    def sum(self, array: NDArray[np.float64]) -> NDArray[np.float64]:
        """The sum of what all give (all_reduce), the same everywhere. Raises GroupError."""
        found = array.copy()
        try:
            self._all(found, lambda tensor: self._open().allreduce(tensor))
        except RuntimeError as error:
            raise GroupError(f"{self.names[self.rank]} has lost another of {', '.join(self.names)}: "
                             f"{first_line(error)}; a static group ends with its first rank that does") from error
        return found

    def _all(self, array: NDArray[Any], collective: Callable[[torch.Tensor], Any]) -> None:
        """Does a collective with an array, in its place."""
        tensor = torch.from_numpy(array)
        there = tensor if self._device is None else tensor.to(self._device)
        collective(there).wait()
        if there is not tensor:
            tensor.copy_(there)

    def barrier(self, what: str) -> None:
        """Returns when all ranks have come to ``what``.

        Raises:
            GroupError: names all that have not come in time. Under nccl, which cannot tell, it names none.
        """
        try:
            group = self._open()
            if hasattr(group, "monitored_barrier"):
                group.monitored_barrier(self._timeout, True)
            else:
                group.barrier().wait()
        except RuntimeError as error:
            named = re.search(r"Ranks? ([\d, ]+) failed", str(error))
            late = [self.names[int(rank)] for rank in re.findall(r"\d+", named[1])] if named else []
            who = ", ".join(late) or "a rank"
            raise GroupError(f"{who} did not come to {what} within {self._timeout.total_seconds():g} s; a static group "
                             f"ends with its first rank that does") from error

    def _lost(self, rank: int, error: Exception, waited: bool) -> GroupError:
        return GroupError(f"{self.names[self.rank]} has lost {self.names[rank]}: {first_line(error)}; a static group "
                          f"ends with its first rank that does")

    # -- bytes and text, of any length; nothing is ever pickled ------------------------------------------------------

    def tell(self, content: Any, default: Callable[[Any], Any] | None = None) -> None:
        """Sends what JSON can hold to all others; ``default`` as :func:`json.dumps` takes it. Raises GroupError."""
        self._put(json.dumps(content, default=default).encode(), self._others())

    def hear(self, source: int) -> Any:
        """Receives the content that another rank gave to :meth:`tell`. Raises GroupError."""
        return json.loads(self._take(source))

    def share(self, content: Any) -> list[Any]:
        """Gathers the content of every rank, by rank; all call it. Raises GroupError."""
        found: list[Any] = []
        for source in range(self.size):
            if source == self.rank:
                self.tell(content)
                found.append(content)
            else:
                found.append(self.hear(source))
        return found

    def gather(self, mine: bytes) -> list[bytes]:
        """Brings the bytes of each rank to rank 0, by rank; the others have an empty list. All call it.

        Raises:
            GroupError: a rank is lost, or announces too many.
        """
        if self.rank == 0:
            return [mine, *map(self._take, self._others())]
        self._put(mine, [0])
        return []

    def scatter(self, all_of_them: Sequence[bytes]) -> bytes:
        """Gives each rank its part of what rank 0 has, by rank; the others give nothing. Raises as :meth:`gather`."""
        if self.rank:
            return self._take(0)
        for other in self._others():
            self._put(all_of_them[other], [other])
        return all_of_them[0]

    def _others(self) -> list[int]:
        return [rank for rank in range(self.size) if rank != self.rank]


def _made(backend: str, store: dist.Store, rank: int, size: int, timeout: timedelta) -> Any:
    """A group beside torch's default one, of which a process can have one only. Raises GroupError."""
    if backend == "gloo":
        return dist.ProcessGroupGloo(store, rank, size, timeout)
    if backend == "nccl" and dist.is_nccl_available():
        there = torch.cuda.device_count()
        if _place(rank) >= there:
            raise GroupError(f"rank {rank} has no GPU: nccl wants one for each, and its machine has {there}; take gloo")
        options = dist.ProcessGroupNCCL.Options()
        options._timeout = timeout
        return dist.ProcessGroupNCCL(store, rank, size, options)
    raise GroupError(f"there is no backend {backend!r} here for a static group; there is gloo, and nccl where torch "
                     f"was built with CUDA")


def _place(rank: int) -> int:
    """Returns this process's place among its machine's ranks, as torchrun tells it."""
    return int(os.environ.get("LOCAL_RANK", rank))
