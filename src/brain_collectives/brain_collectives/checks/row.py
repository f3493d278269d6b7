# SPDX-License-Identifier: Apache-2.0
"""Row of the table, for one collective: what the table says of it, and what a rank gives it to work with.

Nothing here imports torch: whoever reads the table, as the command does, needs none. A row reaches it by its
:class:`Place`, which is in a rank.
"""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Mapping, NamedTuple

import numpy as np

BYTES = 4       # of an element: all tensors here are float32


class Values(NamedTuple):
    """Source of the inputs: hashes where values are checked, small numbers where they are shown.

    Attributes:
        numbers: float32 [count] of a rank; sums over up to 1024 ranks are exact in float32.
        powers: the same, powers of two and their negatives: products over up to 126 ranks are exact.
        object: something to pickle, of about so many bytes.
        late: s by which a rank comes later to a barrier than the rank before it; 0: all come at once.
    """

    numbers: Callable[[int, int], np.ndarray]
    powers: Callable[[int, int], np.ndarray]
    object: Callable[[int, int], Any]
    late: float = 0.0


@dataclass
class Place:
    """A rank of a group, as a row sees it.

    Attributes:
        rank: which one of ``ranks`` this is.
        backend: name of the group's.
        torch, dist: the modules.
        device: where tensors are.
        patience: s that a barrier which names who is late waits.
    """

    rank: int
    ranks: int
    backend: str
    torch: Any
    dist: Any
    device: Any
    patience: float

    def empty(self, *like: Any) -> list[Any]:
        """New tensors of the sizes of others, full of NaN, so that what is left unwritten is found."""
        return [self.torch.full_like(one, float("nan")) for one in like]

    def several(self, one: Any) -> list[Any]:
        """As many tensors of NaN as there are ranks, each of the size of ``one``."""
        return self.empty(*[one] * self.ranks)


Run = Callable[[], None]
Found = Callable[[], list[Any]]


@dataclass(frozen=True)
class Mpi:
    """The counterpart in MPI.

    Attributes:
        name: of mpi4py's method.
        bind: as :attr:`Collective.bind`, with mpi4py's ``MPI`` module, a communicator and numpy arrays.
    """

    name: str
    bind: Callable[[Any, Any, list[Any]], tuple[Run, Found]]


@dataclass(frozen=True)
class Factor:
    """Factor of bus bandwidth over algorithm bandwidth, as in nccl-tests: the formula, and its value for n ranks."""

    formula: str
    of: Callable[[int], float]


TWICE = Factor("2(n-1)/n", lambda n: 2 * (n - 1) / n)
OTHERS = Factor("(n-1)/n", lambda n: (n - 1) / n)
ONE = Factor("1", lambda n: 1.0)

WHOLE = "whole"         # each rank has a tensor of the size
SHARES = "shares"       # the size is split evenly over the ranks
OBJECTS = "objects"     # each rank has an object of about the size
NOTHING = "nothing"     # there is no data, and one measurement


@dataclass(frozen=True)
class Collective:
    """One row of the table.

    Attributes:
        name: of the row, as --only takes it.
        of: name of torch's function; rows of one function are chosen together by it.
        does: what it is, in one plain line.
        unit: what the size says: WHOLE, SHARES, OBJECTS or NOTHING.
        given: what a rank has before, from where values come, rank, ranks and the number of elements (bytes for
            objects): a list of arrays or of objects.
        expected: what a rank has afterwards, from what all had before, and the rank: arrays of float64, or objects.
            Computed without torch.
        bind: makes, of a place and of what it has (tensors, objects), what runs the collective once, and what tells
            the tensors or objects it left.
        factor: of the bus bandwidth, or None where nccl-tests defines none.
        no_factor: why it defines none.
        tolerance: of a value, relative to the mean or sum of the magnitudes it was made of; 0: to the bit.
        least: ranks that it takes.
        hops: it takes as many sends one after the other as there are ranks; a time is that of one.
        lacks: backends that do not have it, each with the reason.
        more: what --explain says beside the line.
        shown: elements that --explain takes, for so many ranks.
        shows: lines that --explain adds after running something more, from the place.
        mpi: the counterpart in MPI, or None.
    """

    name: str
    of: str
    does: str
    unit: str
    given: Callable[[Values, int, int, int], list[Any]]
    expected: Callable[[list[list[Any]], int], list[Any]]
    bind: Callable[[Place, list[Any]], tuple[Run, Found]]
    factor: Factor | None = None
    no_factor: str = ""
    tolerance: float = 0.0
    least: int = 1
    hops: bool = False
    lacks: Mapping[str, str] = field(default_factory=dict)
    more: str = ""
    shown: Callable[[int], int] = lambda ranks: 2
    shows: Callable[[Place], list[str]] | None = None
    mpi: Mpi | None = None

    def counts(self, size: int, ranks: int) -> list[int]:
        """Numbers of elements (bytes, for objects) to check at a size (bytes): the first is measured too.

        Where the tensor is whole, one that the ranks do not divide is checked beside one that they do.
        """
        if self.unit == NOTHING:
            return [0]
        if self.unit == OBJECTS:
            return [size]
        if self.unit == SHARES:
            return [max(1, round(size / BYTES / ranks))]
        count = max(1, -(-size // BYTES))
        return [count, count + 1] if ranks > 1 and count % ranks == 0 else [count]

    def bytes(self, count: int, ranks: int) -> int:
        """The size that nccl-tests puts into the bandwidth: of the whole, over all ranks where it is split."""
        return {NOTHING: 0, OBJECTS: count, SHARES: BYTES * count * ranks, WHOLE: BYTES * count}[self.unit]


def root(ranks: int) -> int:
    """The rank that has, or gets, what only one does; not 0 where there is another, so that it has to be heeded."""
    return 1 % ranks


def hashed(rank: int, count: int) -> np.ndarray:
    """uint32 [count] in 0..2**14-1: another for each rank and index, without a short period."""
    mixed = np.arange(count, dtype=np.uint32)
    mixed *= np.uint32(2654435761)
    mixed += np.uint32((rank + 1) * 0x9E3779B1 & 0xFFFFFFFF)
    return mixed >> np.uint32(18)


def _numbers(rank: int, count: int) -> np.ndarray:
    return ((hashed(rank, count).astype(np.float32) - np.float32(2**13)) / np.float32(8)).astype(np.float32)


def _powers(rank: int, count: int) -> np.ndarray:
    of = hashed(rank, count)
    return np.take(np.array([0.5, 1, 2, -0.5, -1, -2], np.float32), of % np.uint32(6))


def _object(rank: int, size: int) -> Any:
    return {"rank": rank, "size": size, "bytes": bytes([rank % 256]) * size}


def _small_object(rank: int, size: int) -> Any:
    return {"of rank": rank}


CHECKED = Values(_numbers, _powers, _object)
SHOWN = Values(lambda rank, count: (rank + 0.01 * (1 + np.arange(count))).astype(np.float32),
               lambda rank, count: (rank + 1 + 0.5 * np.arange(count)).astype(np.float32), _small_object, 0.1)
