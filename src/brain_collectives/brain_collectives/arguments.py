# SPDX-License-Identifier: Apache-2.0
"""Arguments that torch gives to a call, checked before anything is sent."""
from __future__ import annotations

import functools
from typing import Any, Sequence

import torch

from brain_collectives.algorithms import OPERATORS
from brain_collectives.errors import CollectiveError
from brain_collectives.header import DTYPES, NO_ROOT, Call

Tensor = torch.Tensor
Tensors = Sequence[Tensor]


class Flat:
    """A tensor's memory in one dimension; where it is not contiguous a copy, which is written back at the end."""

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor.data
        self._flat = self._tensor.reshape(-1)

    def __enter__(self) -> Tensor:
        return self._flat

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None and self._flat.numel() and self._flat.data_ptr() != self._tensor.data_ptr():
            self._tensor.copy_(self._flat.view(self._tensor.shape))


def options(opts: Any, cls: type) -> Any:
    """The options of a call, or those by default."""
    return cls() if opts is None else opts


def one(tensors: Tensors) -> Tensor:
    """The only tensor of a list.

    Raises:
        CollectiveError: there are more or fewer, or it cannot be taken.
    """
    if len(tensors) != 1:
        raise CollectiveError(f"one tensor is wanted, not {len(tensors)}")
    check(tensors)
    return tensors[0]


def check(tensors: Tensors) -> None:
    """Checks that the backend takes tensors together.

    Raises:
        CollectiveError: it does not; says why.
    """
    for tensor in tensors:
        if tensor.device.type != "cpu":
            raise CollectiveError(f"a tensor on {tensor.device} was given; the zenoh backend takes tensors on the CPU: "
                                  f"give tensor.cpu(), or a group of that device's beside this one: "
                                  f"dist.new_group(backend='nccl')")
        if tensor.layout != torch.strided:
            raise CollectiveError(f"a tensor of layout {tensor.layout} was given; the zenoh backend takes dense ones: "
                                  f"tensor.to_dense()")
        if tensor.dtype not in DTYPES:
            raise CollectiveError(f"a tensor of {tensor.dtype} was given, which the zenoh backend does not take")
        if tensor.dtype != tensors[0].dtype:
            raise CollectiveError(f"the tensors of a call must be of one dtype; {tensor.dtype} is not "
                                  f"{tensors[0].dtype}")


def operation_of(opts: Any, tensors: Tensors) -> str:
    """Name of the operation of a reduction, which fits the tensors.

    Raises:
        CollectiveError: it is not defined for them.
    """
    check(tensors)
    name = str(opts.reduceOp.op).rpartition(".")[2]
    if name not in OPERATORS:
        raise CollectiveError(f"the zenoh backend has no {name}; it has {', '.join(OPERATORS)}")
    for tensor in tensors:
        if not _defined(name, tensor.dtype):
            raise CollectiveError(f"{name} is not defined for {str(tensor.dtype).removeprefix('torch.')}")
    return name


@functools.cache
def _defined(operation: str, dtype: torch.dtype) -> bool:
    """Tells whether torch has an operation for a dtype; it has no sums of unsigned integers of more than 8 bits."""
    try:
        OPERATORS[operation](torch.zeros(1, dtype=dtype), torch.zeros(1, dtype=dtype), None)
    except RuntimeError:
        return False
    return True


def call_of(kind: str, tensor: Tensor, operation: str = "", root: int = NO_ROOT) -> Call:
    """Makes the description of a call with one tensor."""
    return Call(kind, tensor.dtype, tuple(tensor.shape), operation, root)


def calls_of(kind: str, tensors: Tensors, operation: str = "") -> Call:
    """Makes the description of a call with several tensors: how many, and their sizes added up."""
    check(tensors)
    return Call(kind, tensors[0].dtype if tensors else torch.uint8,
                (len(tensors), sum(tensor.numel() for tensor in tensors)), operation)
