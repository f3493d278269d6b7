# SPDX-License-Identifier: Apache-2.0
"""Tensors as bytes of a stream: row-major, little endian, dense or with the elements that were kept."""
from __future__ import annotations

import math
import sys
import zlib
from typing import Any, Iterable, Iterator, Mapping

import torch
from torch import Tensor

from brain_training.parameter_server.messages import TensorSpec

CHUNK = 1 << 20     # bytes of a message of a stream, at most
DTYPES = {"F32": torch.float32, "F64": torch.float64, "F16": torch.float16, "BF16": torch.bfloat16,
          "I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8,
          "BOOL": torch.bool}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
INDEX = torch.int32     # of elements that were kept; read as uint32, whose places fit in half of it
MOST = 2**31 - 1        # elements of a tensor that is sent sparse
if sys.byteorder != "little":
    raise ImportError("parameter servers need a little-endian machine: tensors are sent as they lie in memory")


class WrongTensor(ValueError):
    """A tensor is not as it should be; names it and what was expected."""


def spec_of(name: str, value: Tensor, kept: int = 0) -> Any:
    """Makes the header of a tensor, which stands before its bytes."""
    return TensorSpec(name=name, dtype=NAMES[value.dtype], shape=value.shape, kept=kept)


def said(spec: Any) -> str:
    """Type and shape in a message."""
    return f"{spec.dtype} [{', '.join(map(str, spec.shape))}]"


def check(spec: Any, expected: Tensor) -> None:
    """Raises WrongTensor where a spec is not of such a tensor."""
    if spec.dtype != NAMES[expected.dtype] or tuple(spec.shape) != tuple(expected.shape):
        raise WrongTensor(f"{spec.name} is {said(spec)}, and {said(spec_of('', expected))} is expected")
    if spec.kept and (spec.kept > expected.numel() or expected.numel() > MOST):
        raise WrongTensor(f"{spec.name} keeps {spec.kept} elements of {expected.numel()}")


def size_of(spec: Any) -> int:
    """Bytes that follow for a spec whose type is known."""
    each = DTYPES[spec.dtype].itemsize
    return spec.kept * (each + INDEX.itemsize) if spec.kept else each * math.prod(spec.shape)


def raw(value: Tensor) -> memoryview:
    """Bytes of a tensor in row-major order; a view of it where it lies so."""
    flat = value.detach().cpu().contiguous()
    if not flat.numel():
        return memoryview(b"")
    # One element counts as contiguous whatever its stride is, and a view as bytes needs a stride of 1.
    return memoryview(flat.as_strided((flat.numel(),), (1,)).view(torch.uint8).numpy())


def unread(data: Any, dtype: torch.dtype, start: int, count: int) -> Tensor:
    """A copy of ``count`` elements that begin at a byte."""
    if not count:
        return torch.empty(0, dtype=dtype)
    piece = bytearray(data[start:start + count * dtype.itemsize])   # aligned, and writable as torch asks
    return torch.frombuffer(piece, dtype=dtype)


def decode(specs: Iterable[Any], data: Any, like: Mapping[str, Tensor], start: int = 0) -> dict[str, Tensor]:
    """Tensors of checked specs, each in the memory layout of its like, in which it is rounded as it would have been.

    Raises:
        WrongTensor: places of what was kept are not rising, or lie outside.
    """
    found = {}
    for spec in specs:
        dtype, expected = DTYPES[spec.dtype], like[spec.name]
        count = expected.numel()
        if spec.kept:
            places = unread(data, INDEX, start, spec.kept).long()
            if int(places[0]) < 0 or int(places[-1]) >= count or bool((places.diff() <= 0).any()):
                raise WrongTensor(f"the places of the elements of {spec.name} that were kept must rise from 0 to at "
                                  f"most {count - 1}")
            values = torch.zeros(count, dtype=dtype)
            values[places] = unread(data, dtype, start + spec.kept * INDEX.itemsize, spec.kept)
        else:
            values = unread(data, dtype, start, count)
        start += size_of(spec)
        found[spec.name] = torch.empty_like(expected, requires_grad=False).copy_(values.view(expected.shape))
    return found


def empty(spec: Any) -> Tensor:
    """An empty tensor of a spec's type; raises KeyError or ValueError where the spec is none."""
    if spec.kept or len(spec.shape) > 16:
        raise ValueError(f"tensor {spec.name!r} is sparse, or has {len(spec.shape)} dimensions")
    return torch.empty(0, dtype=DTYPES[spec.dtype])


def chunks(parts: Iterable[Any]) -> Iterator[bytes]:
    """Bytes of several views, in messages of at most :data:`CHUNK`."""
    held = bytearray()
    for part in parts:
        view, at = memoryview(part).cast("B") if len(part) else memoryview(b""), 0
        while at < len(view):
            more = view[at:at + CHUNK - len(held)]
            held += more
            at += len(more)
            if len(held) == CHUNK:
                yield bytes(held)
                held.clear()
    if held:
        yield bytes(held)


def crc(parts: Iterable[Any]) -> int:
    """zlib's CRC-32 of bytes that follow each other."""
    found = 0
    for part in parts:
        found = zlib.crc32(part, found)
    return found


def largest(value: Tensor, share: float) -> tuple[Tensor, Tensor]:
    """Places and values of the largest elements by amount, one at least: int32 rising, and as the tensor."""
    flat = value.reshape(-1)
    count = max(1, min(len(flat), round(share * len(flat))))
    places = flat.abs().topk(count, sorted=False).indices.sort().values
    return places.to(INDEX), flat[places]
