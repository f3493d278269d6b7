# SPDX-License-Identifier: Apache-2.0
"""One function for each collective, over messages between ranks.

Sums are in rank order: ((r0 + r1) + r2) + ..., whoever computes them, so all ranks have the same bits, in each run.
Each function gets an `Exchange`, which knows the call's number and its deadline, and flat tensors of one dimension.
Steps (phases) within a call are numbered from ``exchange.phase`` on.
"""
from __future__ import annotations

import warnings
from typing import Callable

import numpy as np
import torch

from brain_collectives.errors import CallsDiffer
from brain_collectives.group import Group
from brain_collectives.header import Call, packed

Tensor = torch.Tensor
Reduce = Callable[[Tensor, Tensor, "Tensor | None"], Tensor]
# Elements that are summed at a time. From 32768 on torch would use all its threads, and those that are done spin while
# Zenoh's threads want a core: measured with two ranks on two cores, all_reduce of 4 MiB took ten times as long.
PIECE = 32768
STEPS = 2       # of a collective, at most; a coalesced one has as many for each of its tensors

# A payload is read-only bytes, and torch says once in a process that it should not be written to, which nobody does.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch.frombuffer(b"\0", dtype=torch.uint8)


def _out(function: Callable[..., Tensor]) -> Reduce:
    return lambda one, other, out: function(one, other, out=out)


OPERATORS: dict[str, Reduce] = {
    "SUM": _out(torch.add), "AVG": _out(torch.add), "PRODUCT": _out(torch.mul), "MIN": _out(torch.minimum),
    "MAX": _out(torch.maximum), "BAND": _out(torch.bitwise_and), "BOR": _out(torch.bitwise_or),
    "BXOR": _out(torch.bitwise_xor),
}


def to_bytes(tensor: Tensor) -> bytes:
    """The data of a tensor, copied once."""
    flat = tensor.detach().resolve_conj().resolve_neg().contiguous()
    return _as_bytes(flat).numpy().tobytes() if flat.numel() else b""


def _as_bytes(tensor: Tensor) -> Tensor:
    """The memory of a contiguous tensor; one element counts as such, whatever its stride, but torch views it not so."""
    return tensor.as_strided((tensor.numel(),), (1,)).view(torch.uint8)


class Exchange:
    """Messages of one call.

    Args:
        group: on the wire.
        sequence: number of the call in its group.
        call: what this rank calls.
        timeout: s from now that it may take.
    """

    def __init__(self, group: Group, sequence: int, call: Call, timeout: float, began: float) -> None:
        self.group, self.sequence, self.call, self.timeout = group, sequence, call, timeout
        self.rank, self.size = group.rank, group.size
        self.phase = 0
        self._packed = packed(call)
        self._deadline = began + timeout

    def others(self) -> list[int]:
        """Ranks of the group without this one."""
        return [rank for rank in range(self.size) if rank != self.rank]

    def send(self, rank: int, step: int, tensor: Tensor) -> None:
        """Sends a tensor to a rank of the group."""
        self.group.send((rank,), self.sequence, self.phase + step, self._packed, to_bytes(tensor))

    def send_all(self, step: int, tensor: Tensor | None = None) -> None:
        """Sends a tensor, or nothing but the fact, to all others."""
        if self.size > 1:
            self.group.send(range(self.size), self.sequence, self.phase + step, self._packed,
                            b"" if tensor is None else to_bytes(tensor))

    def wait(self, step: int, ranks: list[int]) -> None:
        """Waits until ranks have sent what is due."""
        if ranks:
            keys = [(self.phase + step, self.group.members[rank]) for rank in ranks]
            self.group.wait(self.sequence, keys, self.call, self._deadline, self.timeout)

    def receive(self, rank: int, step: int, like: Tensor) -> Tensor:
        """Returns a rank's message: flat, of the dtype and number of elements of ``like``, not to be written to.

        Raises:
            CallsDiffer: it has another size.
            CollectiveError: it did not come.
        """
        self.wait(step, [rank])
        data = self.group.mailbox.take(self.sequence, (self.phase + step, self.group.members[rank]))
        self.check_size(rank, len(data), like)
        return torch.frombuffer(data.to_bytes(), dtype=like.dtype) if len(data) else like.new_empty(0)

    def check_size(self, rank: int, sent: int, like: Tensor) -> None:
        """Checks that a rank sends as many bytes as ``like`` has, which is to take them.

        Raises:
            CallsDiffer: it does not; all other ranks get this error, too.
        """
        expected, source, call = like.numel() * like.element_size(), self.group.members[rank], self.call
        if sent == expected:
            return
        theirs, own = (Call(call.kind, like.dtype, (size // like.element_size(),), call.operation, call.root)
                       for size in (sent, expected))
        self.group.differ(self.sequence, source, packed(theirs), packed(own))
        raise CallsDiffer(f"{self.group.call_them([source])} sends {sent} B in {theirs} (call {self.sequence} of "
                          f"{self.group.title}) where this rank waits for {expected} B; the sizes that ranks expect of "
                          f"each other must be those that are sent")


def sum_in_order(exchange: Exchange, step: int, own: Tensor, operation: str, out: Tensor) -> None:
    """Reduces the own data and that of all others, in rank order, into ``out``, which may be the own data."""
    if exchange.size == 1:
        if out is not own:
            copy(out, own)
        return
    parts = [own if rank == exchange.rank else exchange.receive(rank, step, own) for rank in range(exchange.size)]
    for begin in range(0, own.numel(), PIECE):
        _sum_piece([part[begin:begin + PIECE] for part in parts], operation, out[begin:begin + PIECE])


def _sum_piece(parts: list[Tensor], operation: str, out: Tensor) -> None:
    reduce = OPERATORS[operation]
    # Only the last step writes to ``out``, which may be a part that is still to be added before.
    total = parts[0]
    for number, part in enumerate(parts[1:-1]):
        total = reduce(total, part, total if number else None)
    reduce(total, parts[-1], out)
    if operation == "AVG":
        if out.is_floating_point() or out.is_complex():
            out.div_(len(parts))
        else:
            out.copy_(torch.div(out, len(parts), rounding_mode="trunc"))


def copy(output: Tensor, data: Tensor) -> None:
    """Copies flat data into a tensor of any shape."""
    if (output.is_contiguous() and not output.is_neg() and output.dtype == data.dtype and not data.is_complex()
            and data.numel()):
        np.copyto(_as_bytes(output).numpy(), _as_bytes(data).numpy())
    else:
        output.copy_(data.view(output.shape))


def all_reduce(exchange: Exchange, data: Tensor, operation: str, large: int) -> None:
    """Leaves the reduced data at all ranks.

    Small: everybody sends to everybody, and each sums. Large: each sums its chunk of all, and sends that to all.
    """
    if data.numel() * data.element_size() < large or exchange.size == 1:
        exchange.send_all(0, data)
        exchange.wait(0, exchange.others())
        sum_in_order(exchange, 0, data, operation, data)
        return
    chunks = torch.tensor_split(data, exchange.size)
    for rank in after(exchange):
        exchange.send(rank, 0, chunks[rank])
    own = chunks[exchange.rank]
    sum_in_order(exchange, 0, own, operation, own)
    exchange.send_all(1, own)
    for rank in after(exchange):
        copy(chunks[rank], exchange.receive(rank, 1, chunks[rank]))


def after(exchange: Exchange) -> list[int]:
    """The other ranks, the next one first, so that not all ranks send to the same one at once."""
    return [(exchange.rank + step) % exchange.size for step in range(1, exchange.size)]


def broadcast(exchange: Exchange, data: Tensor, root: int) -> None:
    """Copies the root's data to all."""
    if exchange.rank == root:
        exchange.send_all(0, data)
    else:
        copy(data, exchange.receive(root, 0, data))


def reduce(exchange: Exchange, data: Tensor, operation: str, root: int) -> None:
    """Leaves the reduced data at the root."""
    if exchange.rank == root:
        sum_in_order(exchange, 0, data, operation, data)
    else:
        exchange.send(root, 0, data)


def all_gather(exchange: Exchange, outputs: list[Tensor], data: Tensor) -> None:
    """Copies everybody's data to all; ``outputs``, one a rank, may be of any shape."""
    exchange.send_all(0, data)
    copy(outputs[exchange.rank], data)
    for rank in after(exchange):
        copy(outputs[rank], exchange.receive(rank, 0, outputs[rank]))


def gather(exchange: Exchange, outputs: list[Tensor], data: Tensor, root: int) -> None:
    """Copies everybody's data to the root."""
    if exchange.rank != root:
        exchange.send(root, 0, data)
        return
    copy(outputs[root], data)
    for rank in exchange.others():
        copy(outputs[rank], exchange.receive(rank, 0, outputs[rank]))


def scatter(exchange: Exchange, output: Tensor, inputs: list[Tensor], root: int) -> None:
    """Copies to each rank its part of the root's data."""
    if exchange.rank == root:
        for rank in exchange.others():
            exchange.send(rank, 0, inputs[rank])
        copy(output, inputs[root].reshape(-1))
    else:
        copy(output, exchange.receive(root, 0, output))


def reduce_scatter(exchange: Exchange, output: Tensor, inputs: list[Tensor], operation: str) -> None:
    """Leaves at each rank its part of the reduced data."""
    for rank in after(exchange):
        exchange.send(rank, 0, inputs[rank])
    own = inputs[exchange.rank].reshape(-1)
    total = torch.empty_like(own)
    sum_in_order(exchange, 0, own, operation, total)
    copy(output, total)


def all_to_all(exchange: Exchange, outputs: list[Tensor], inputs: list[Tensor]) -> None:
    """Copies to each rank the part that each other has for it."""
    for rank in after(exchange):
        exchange.send(rank, 0, inputs[rank])
    own = inputs[exchange.rank].reshape(-1)
    exchange.check_size(exchange.rank, own.numel() * own.element_size(), outputs[exchange.rank])
    copy(outputs[exchange.rank], own)
    for rank in after(exchange):
        copy(outputs[rank], exchange.receive(rank, 0, outputs[rank]))


def barrier(exchange: Exchange, step: int = 0) -> None:
    """Returns when all ranks have come here."""
    exchange.send_all(step)
    nothing = torch.empty(0, dtype=torch.uint8)
    exchange.wait(step, exchange.others())
    for rank in exchange.others():
        exchange.receive(rank, step, nothing)
