# SPDX-License-Identifier: Apache-2.0
"""The binary header of every message, and the description of a call that is in it.

A header has a fixed length and travels as the attachment of a Zenoh message; the payload is the bare data of a
tensor. Nothing is unpickled. All numbers are little endian.

============  =======  =================================================================================
field         bytes    meaning
============  =======  =================================================================================
magic         4        ``BRCO``
version       1        of this table
what          1        one of :class:`What`
flags         2        ``LOST``: the sender of a question has lost its link meanwhile
source        4        rank in the default group
phase         4        step within a call; the tag of a point to point message
group         8        hash of the group's name
epoch         4        of the group: how often it was shrunk
sequence      8        number of the call in its group; of the message between two ranks, point to point
call          72       kind, operation, dtype, dimensions, root, shape (:class:`Call`)
============  =======  =================================================================================
"""
from __future__ import annotations

import enum
import hashlib
import struct
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import torch

MAGIC, VERSION = b"BRCO", 1
LOST = 1
DIMENSIONS = 8      # of a shape that are told; of a tensor with more the last ones are multiplied
NO_ROOT = -1

_CALL = struct.Struct(f"<BBBBi{DIMENSIONS}Q")
_HEAD = struct.Struct("<4sBBHiIQIQ")
HEADER_BYTES = _HEAD.size + _CALL.size

DTYPES = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32,
          torch.float64, torch.bool, torch.complex64, torch.complex128, torch.uint16, torch.uint32, torch.uint64,
          torch.complex32)
_DTYPE_CODE = {dtype: code for code, dtype in enumerate(DTYPES)}
KINDS = ("all_reduce", "broadcast", "reduce", "all_gather", "gather", "scatter", "reduce_scatter", "all_to_all",
         "barrier", "monitored_barrier", "all_reduce_coalesced", "all_gather_coalesced", "reduce_scatter_coalesced",
         "send")
_KIND_CODE = {kind: code for code, kind in enumerate(KINDS)}
NO_OPERATION = ""
OPERATIONS = (NO_OPERATION, "SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR")
_OPERATION_CODE = {operation: code for code, operation in enumerate(OPERATIONS)}


class What(enum.IntEnum):
    """Kind of a message."""

    DATA = 1        # of a collective
    POINT = 2       # of a send
    WAITING = 3     # the source waits for what this rank should have sent in the call that the header describes
    BROKEN = 4      # two ranks made different calls; the payload has both
    HELLO = 5       # are you there?
    HERE = 6        # I am, and I hear you
    DEAD = 7        # the payload has ranks that the source has taken for dead
    LEAVING = 8     # the source will send nothing more
    LEFT = 9        # that was heard, and so was all before
    PROPOSE = 10    # the payload has the ranks that the source would go on with
    DECIDED = 11    # the payload has the ranks that the source goes on with
    FORGOTTEN = 12  # what the receiver waits for was sent, was lost, and is no longer kept


class Malformed(ValueError):
    """Error for data that are no message of this version; says why."""


@dataclass(frozen=True)
class Call:
    """Description of the call that one rank makes; it must be the same at all ranks of the group.

    Attributes:
        kind: name of the collective, of ``KINDS``.
        operation: of a reduction, of ``OPERATIONS``.
        dtype: of the tensors.
        shape: of the input of this rank; empty for calls in which it may differ.
        root: rank in the group of the one that sends or receives; ``NO_ROOT``.
    """

    kind: str
    dtype: torch.dtype = torch.uint8
    shape: tuple[int, ...] = ()
    operation: str = NO_OPERATION
    root: int = NO_ROOT

    def __str__(self) -> str:
        if self.kind in ("barrier", "monitored_barrier"):
            return self.kind
        of = f"{self.kind}({self.operation})" if self.operation else self.kind
        sizes = "" if self.kind == "all_to_all" and not self.shape else str(list(self.shape)).replace(" ", "")
        root = f" (root {self.root})" if self.root != NO_ROOT else ""
        return f"{of} of {str(self.dtype).removeprefix('torch.')}{sizes}{root}"


@lru_cache(maxsize=4096)
def packed(call: Call) -> bytes:
    """Bytes of a call, as they stand in a header."""
    shape = call.shape
    if len(shape) > DIMENSIONS:
        rest = 1
        for size in shape[DIMENSIONS - 1:]:
            rest *= size
        shape = (*shape[:DIMENSIONS - 1], rest)
    dims = (*shape, *(0,) * (DIMENSIONS - len(shape)))
    return _CALL.pack(_KIND_CODE[call.kind], _OPERATION_CODE[call.operation], _DTYPE_CODE[call.dtype], len(shape),
                      call.root, *dims)


def unpacked(data: bytes) -> Call:
    """The call that :func:`packed` made bytes of.

    Raises:
        Malformed: it is none.
    """
    try:
        kind, operation, dtype, dimensions, root, *dims = _CALL.unpack(data)
        if dimensions > DIMENSIONS:
            raise Malformed(f"{dimensions} dimensions")
        return Call(KINDS[kind], DTYPES[dtype], tuple(dims[:dimensions]), OPERATIONS[operation], root)
    except (struct.error, IndexError) as error:
        raise Malformed(str(error)) from None


class Header(NamedTuple):
    """A header as it was read; ``call`` is still packed, since it is compared more often than shown."""

    what: int
    flags: int
    source: int
    phase: int
    group: int
    epoch: int
    sequence: int
    call: bytes


NO_CALL = packed(Call("barrier"))


def write(what: What, source: int, *, group: int = 0, epoch: int = 0, sequence: int = 0, phase: int = 0,
          call: bytes = NO_CALL, flags: int = 0) -> bytes:
    """Bytes of a header."""
    return _HEAD.pack(MAGIC, VERSION, what, flags, source, phase, group, epoch, sequence) + call


def read(data: bytes) -> Header:
    """A header that came from the wire.

    Raises:
        Malformed: it is none of this version.
    """
    if len(data) != HEADER_BYTES:
        raise Malformed(f"a header of {len(data)} B where {HEADER_BYTES} are due")
    magic, version, what, flags, source, phase, group, epoch, sequence = _HEAD.unpack_from(data)
    if magic != MAGIC:
        raise Malformed("no message of brain_collectives")
    if version != VERSION:
        raise Malformed(f"version {version} of the header where this rank has {VERSION}; install the same version of "
                        f"brain_collectives for all ranks")
    if not What.DATA <= what <= What.FORGOTTEN:
        raise Malformed(f"an unknown message {what}")
    return Header(what, flags, source, phase, group, epoch, sequence, data[_HEAD.size:])


def group_id(name: str) -> int:
    """Number of a group on the wire."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")


_RANKS = struct.Struct("<i")
MOST_RANKS = 1 << 16


def write_ranks(ranks: list[int]) -> bytes:
    """Bytes of a list of ranks."""
    return b"".join(map(_RANKS.pack, ranks))


def read_ranks(data: bytes) -> list[int]:
    """The list of ranks in a payload.

    Raises:
        Malformed: it is none.
    """
    if len(data) % _RANKS.size or len(data) > MOST_RANKS * _RANKS.size:
        raise Malformed(f"{len(data)} B are no list of ranks")
    return [rank for rank, in _RANKS.iter_unpack(data)]


def write_difference(one: int, call: bytes, other: int, other_call: bytes) -> bytes:
    """Bytes that tell of two ranks that made different calls."""
    return _RANKS.pack(one) + call + _RANKS.pack(other) + other_call


def read_difference(data: bytes) -> tuple[int, Call, int, Call]:
    """Two ranks (in the default group), each with its call.

    Raises:
        Malformed: it is none.
    """
    half = _RANKS.size + _CALL.size
    if len(data) != 2 * half:
        raise Malformed(f"{len(data)} B do not tell of two calls")
    one, other = data[:half], data[half:]
    return (_RANKS.unpack_from(one)[0], unpacked(one[_RANKS.size:]), _RANKS.unpack_from(other)[0],
            unpacked(other[_RANKS.size:]))
