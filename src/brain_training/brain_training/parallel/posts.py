# SPDX-License-Identifier: Apache-2.0
"""Messages from one rank to another of the same machine, past the network: what stages of a pipeline hand each other.

A message is laid into memory that both see, and a frame of a few bytes through a Unix socket says where it lies. Who
has taken it says so, and its place is free again. What finds no place goes by the backend, and the frame says that.
"""
from __future__ import annotations

import mmap
import socket
import struct
import weakref
from collections import deque
from contextlib import suppress
from typing import Any, Callable, Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from brain_training.parallel.neighbours import ROOM, Neighbours, close, gone

FRAME = struct.Struct("<Bqq")       # what it says, where the message begins (B), and its size (B)
HERE, ELSEWHERE, TAKEN = range(3)


class Posts:
    """The ranks of a group, all on one machine, as one of them sees it; made by :func:`.neighbours.met`.

    Messages from one rank to another are received in the order in which they were sent, whatever the order in which
    they are waited for.
    """

    def __init__(self, rank: int, peers: dict[int, socket.socket], rooms: Sequence[mmap.mmap]) -> None:
        self._peers = peers
        weakref.finalize(self, close, peers)    # then others that wait for this rank hear of it
        rest = 2 * ROOM // len(rooms)
        self._span = rest - rest % 64
        views = [torch.frombuffer(room, dtype=torch.uint8) for room in rooms]
        self._out = {other: views[rank][other * self._span:(other + 1) * self._span] for other in peers}
        self._in = {other: views[other][rank * self._span:(rank + 1) * self._span] for other in peers}
        self._lying: dict[int, deque[tuple[int, int]]] = {other: deque() for other in peers}  # not taken yet, in order
        self._come: dict[int, deque[tuple[int, int, int]]] = {other: deque() for other in peers}  # frames not looked at
        self._asked: dict[int, deque[Receipt]] = {other: deque() for other in peers}

    def sending(self, parts: Sequence[Tensor]) -> Callable[..., Sent]:
        """Makes a function that sends tensors of the CPU, of one type and [n] each, as one message.

        It is called as :func:`torch.distributed.isend` is by torch's schedules, whatever tensor they give. It raises
        RuntimeError where the other rank is gone.
        """
        def isend(_: Tensor, *, group: dist.ProcessGroup, tag: int, group_dst: int | None = None,
                  group_src: int | None = None) -> Sent:
            to = group_dst if group_dst is not None else group_src  # torch's batches say src of what they do not know
            assert to is not None
            return self._send(parts, to, group, tag)

        return isend

    def _send(self, parts: Sequence[Tensor], to: int, group: dist.ProcessGroup, tag: int) -> Sent:
        while self._arrived(to):
            pass
        size = sum(part.numel() * part.element_size() for part in parts)
        begin = self._place(to, size)
        if begin is None:
            self._tell(to, ELSEWHERE, 0, size)
            return Sent(dist.isend(torch.cat(list(parts)), group=group, tag=tag, group_dst=to))
        room = self._out[to][begin:begin + size].view(parts[0].dtype)
        for there, part in zip(room.split([part.numel() for part in parts]), parts):
            there.copy_(part.detach())
        self._lying[to].append((begin, begin + size))
        Neighbours.by_all += size
        self._tell(to, HERE, begin, size)
        return Sent(None)

    def irecv(self, tensor: Tensor, *, group: dist.ProcessGroup, tag: int, group_src: int | None = None) -> Receipt:
        """Receives into a contiguous tensor of the CPU, as :func:`torch.distributed.irecv` does."""
        assert group_src is not None
        receipt = Receipt(self, tensor, group_src, group, tag)
        self._asked[group_src].append(receipt)
        return receipt

    def fulfil(self, receipt: Receipt) -> None:
        """Waits until a message that was asked for is there; those before it come first."""
        source = receipt.source
        while not receipt.done:
            while not self._come[source]:
                self._arrived(source, wait=True)
            kind, begin, size = self._come[source].popleft()
            self._take(self._asked[source].popleft(), kind, begin, size)

    def _take(self, receipt: Receipt, kind: int, begin: int, size: int) -> None:
        tensor, source = receipt.tensor, receipt.source
        wanted = tensor.numel() * tensor.element_size()
        if size != wanted or begin < 0 or begin + size > self._span:
            raise RuntimeError(f"rank {source} of this machine sent {size} bytes where {wanted} were to come")
        if kind == ELSEWHERE:
            dist.irecv(tensor, group=receipt.group, tag=receipt.tag, group_src=source).wait()
        else:
            tensor.detach().reshape(-1).view(torch.uint8).copy_(self._in[source][begin:begin + size])
            with suppress(ConnectionError):     # who has left needs the place no more
                self._peers[source].sendall(FRAME.pack(TAKEN, begin, size))
        receipt.done = True

    def _place(self, to: int, size: int) -> int | None:
        """Finds the offset where a message may lie: behind the newest, or at the beginning; None: nowhere now."""
        lying = self._lying[to]
        if not lying:
            return 0 if size <= self._span else None
        first, last = lying[0][0], -(-lying[-1][1] // 64) * 64
        if lying[-1][0] >= first:       # what lies there does not go round the end
            if last + size <= self._span:
                return last
            return 0 if size < first else None
        return last if last + size < first else None

    # -- sockets ---------------------------------------------------------------------------------------------------

    def _tell(self, to: int, kind: int, begin: int, size: int) -> None:
        try:
            self._peers[to].sendall(FRAME.pack(kind, begin, size))
        except OSError as error:
            raise gone(to, error) from error

    def _arrived(self, other: int, wait: bool = False) -> bool:
        """Takes in one frame of another rank; whether there was one."""
        try:
            data = self._peers[other].recv(FRAME.size, socket.MSG_WAITALL if wait else
                                           socket.MSG_DONTWAIT | socket.MSG_PEEK)
            if not wait and 0 < len(data) < FRAME.size:
                return False
            if not wait and data:
                data = self._peers[other].recv(FRAME.size, socket.MSG_WAITALL)
        except BlockingIOError as error:
            if not wait:
                return False
            raise gone(other, error) from error
        except OSError as error:
            raise gone(other, error) from error
        if len(data) < FRAME.size:
            raise gone(other)
        kind, begin, size = FRAME.unpack(data)
        if kind != TAKEN:
            self._come[other].append((kind, begin, size))
        elif self._lying[other] and self._lying[other][0] == (begin, begin + size):     # in the order it was sent
            self._lying[other].popleft()
        else:
            raise RuntimeError(f"rank {other} of this machine has taken what was not sent to it")
        return True


class Sent:
    """A message on its way, as torch's Work has it.

    Args:
        work: of the backend; None: the message lies in memory.
    """

    def __init__(self, work: Any) -> None:
        self.work = work

    def wait(self) -> bool:
        """Until the tensor may be written to; what was laid in memory is a copy."""
        if self.work is not None:
            self.work.wait()
        return True


class Receipt:
    """A message that was asked for, as torch's Work has it."""

    def __init__(self, posts: Posts, tensor: Tensor, source: int, group: dist.ProcessGroup, tag: int) -> None:
        self.tensor, self.source, self.group, self.tag, self.done = tensor, source, group, tag, False
        self._posts = posts

    def wait(self) -> bool:
        """Until it is there. Raises RuntimeError where the other rank is gone."""
        self._posts.fulfil(self)
        return True
