# SPDX-License-Identifier: Apache-2.0
"""Ranks of one machine: what they tell each other goes past the network.

Between two steps of a small network there are a dozen short messages, and each has to be there before a rank goes on.
gloo hands each to a thread of its own, which hands it to the kernel's network, behind which another thread hears of it.
Here the thread that trains writes it into a Unix socket, and reads the others' from theirs. What is long (gradients) is
laid into memory that all of them see, and only a byte says that it is there.

A rank that dies closes its sockets, and its memory has no name: whoever waits for it hears of it at once, and nothing
is left behind.
"""
from __future__ import annotations

import mmap
import os
import secrets
import socket
import struct
import sys
from contextlib import suppress
from typing import Any, Callable, ClassVar, Sequence, TypeVar

import torch
from torch import Tensor

from brain_training.parallel.together import bounds, in_order

SHORT = 1 << 15     # B of a message through a socket: two of them are less than its buffer, so nobody waits to send
ROOM = 1 << 28      # B of a tensor in memory that all see, at most; only what is written to is taken from the machine
CARD = struct.Struct("16sqq")   # name of the socket, process, user
CREDENTIALS = struct.Struct("3i")
Made = TypeVar("Made")


class Neighbours:
    """The ranks of a group, all on one machine, as one of them sees it. Made by :func:`met`.

    All calls are made by all ranks in the same order, with tensors of the same size and type.

    Attributes:
        sent: B that this rank has handed to others.
        by_all: B that this process has, in all groups.
    """

    by_all: ClassVar[int] = 0

    def __init__(self, rank: int, peers: dict[int, socket.socket], rooms: Sequence[mmap.mmap]) -> None:
        self.rank, self.size, self.sent = rank, len(rooms), 0
        self._peers = dict(sorted(peers.items()))
        self._rooms = [torch.frombuffer(room, dtype=torch.uint8) for room in rooms]
        self._turn = 0
        self._note = bytearray(1)

    def short(self, tensor: Tensor) -> bool:
        """Tells whether :meth:`gather` takes a tensor: on the CPU, of at most ``SHORT`` bytes."""
        return tensor.device.type == "cpu" and 0 < tensor.numel() * tensor.element_size() <= SHORT

    def fits(self, tensor: Tensor) -> bool:
        """Tells whether :meth:`sum_` and :meth:`sum_part` take a tensor: on the CPU, of at most ``ROOM`` bytes."""
        return tensor.device.type == "cpu" and 0 < tensor.numel() * tensor.element_size() <= ROOM

    def gather(self, tensor: Tensor) -> list[Tensor]:
        """The tensors of all ranks, in their order."""
        own = tensor.detach().contiguous()
        data = _bytes(own)
        self._handed(len(data) * len(self._peers))
        self._tell(data)
        found = []
        for rank in range(self.size):
            if rank == self.rank:
                found.append(own)
                continue
            its = torch.empty_like(own)
            self._hear(rank, _bytes(its))
            found.append(its)
        return found

    def sum_(self, tensor: Tensor) -> None:
        """The sum of all ranks' tensors in place, in the order of ranks."""
        own = self._laid(tensor)
        self._meet()
        if self.size == 2:      # a + b is b + a
            self._handed(tensor.numel() * tensor.element_size())
            tensor += self._room(1 - self.rank, tensor)
            return
        # each sums a part of it, and the others read that: less is read than if each summed all
        ends = bounds(tensor.numel(), self.size)
        parts = [slice(a, b) for a, b in zip(ends, ends[1:])]
        mine = parts[self.rank]
        own.view(-1)[mine] = in_order([self._room(rank, tensor).view(-1)[mine] for rank in range(self.size)])
        self._meet()
        own_size = mine.stop - mine.start
        self._handed((tensor.numel() - own_size + own_size * (self.size - 1)) * tensor.element_size())
        tensor.copy_(torch.cat([self._room(rank, tensor).view(-1)[part] for rank, part in enumerate(parts)])
                     .view_as(tensor))

    def sum_part(self, output: Tensor, tensor: Tensor) -> None:
        """The sum of this rank's part of all ranks' tensors [ranks * n] into ``output`` [n], in the order of ranks."""
        self._laid(tensor)
        self._meet()
        self._handed((tensor.numel() - output.numel()) * tensor.element_size())
        output.copy_(in_order([self._room(rank, tensor).view(self.size, *output.shape)[self.rank]
                               for rank in range(self.size)]))

    def close(self) -> None:
        """Leaves; the others hear of it when they wait for this rank."""
        for peer in self._peers.values():
            peer.close()

    def _handed(self, size: int) -> None:
        self.sent += size
        Neighbours.by_all += size

    # -- memory that all see ---------------------------------------------------------------------------------------

    def _laid(self, tensor: Tensor) -> Tensor:
        """Lays a tensor where others see it.

        In one half of the room and the other by turns: a rank has said that it came to the call in between, so it has
        read what is written over.
        """
        self._turn ^= 1
        room = self._room(self.rank, tensor)
        room.copy_(tensor)
        return room

    def _room(self, rank: int, like: Tensor) -> Tensor:
        """Returns the shared memory where a rank has laid a tensor of the shape and type of another one."""
        begin = self._turn * ROOM
        data = self._rooms[rank][begin:begin + like.numel() * like.element_size()]
        return data.view(like.dtype).view(like.shape)

    def _meet(self) -> None:
        """Waits until all ranks are here."""
        self._tell(b"\1")
        for rank in self._peers:
            self._hear(rank, memoryview(self._note))

    # -- sockets ---------------------------------------------------------------------------------------------------

    def _tell(self, data: Any) -> None:
        for rank, peer in self._peers.items():
            try:
                peer.sendall(data)
            except OSError as error:
                raise gone(rank, error) from error

    def _hear(self, rank: int, into: memoryview) -> None:
        peer = self._peers[rank]
        while into:
            try:
                got = peer.recv_into(into)
            except OSError as error:
                raise gone(rank, error) from error
            if not got:
                raise gone(rank)
            into = into[got:]


def gone(rank: int, error: OSError | None = None) -> RuntimeError:
    """In words by which :func:`.lost_rank.lost` knows it."""
    if isinstance(error, BlockingIOError):
        return RuntimeError(f"Timed out waiting for rank {rank} of this machine")
    return RuntimeError(f"the connection to rank {rank} of this machine was closed by peer"
                        + (f" ({error})" if error else ""))


def _bytes(tensor: Tensor) -> memoryview:
    """The memory of a contiguous tensor; one element counts as such whatever its stride is, and bytes need one of 1."""
    return memoryview(tensor.as_strided((tensor.numel(),), (1,)).view(torch.uint8).numpy())


def met(rank: int, size: int, gather: Callable[[Tensor], list[Tensor]], patience: float,
        made: Callable[[int, dict[int, socket.socket], Sequence[mmap.mmap]], Made]) -> Made | None:
    """Finds the other ranks on this machine; all ranks call it.

    Who connects is known to the kernel, and it has to be the process, of this user, that the rank said it is.

    Args:
        rank, size: of the group.
        gather: of the backend, by which they tell where they are.
        patience: s to wait for a rank, here and in each call.
        made: of the own rank, a socket to each other one, and the memory that each lays things in, [2 * ROOM].

    Returns:
        What is ``made``; None, at all ranks, where they are not all on one machine, or it has no such
        sockets and memory.
    """
    listener, room, peers, name = None, None, dict[int, socket.socket](), secrets.token_bytes(16)
    try:
        if sys.platform == "linux":
            with suppress(OSError):
                listener = socket.socket(socket.AF_UNIX)
                listener.settimeout(patience)
                listener.bind(_address(name))
                listener.listen(size)
                room = os.memfd_create("brain-training")
                os.ftruncate(room, 2 * ROOM)
        card = CARD.pack(name, os.getpid(), os.getuid() if hasattr(os, "getuid") else -1)
        cards = [CARD.unpack(its.numpy().tobytes()) for its in gather(torch.frombuffer(bytearray(card),
                                                                                       dtype=torch.uint8))]
        here = room is not None and len({user for _, _, user in cards}) == 1
        for other in range(rank) if here else ():
            peers[other] = peer = socket.socket(socket.AF_UNIX)
            try:
                peer.connect(_address(cards[other][0]))
                here = here and _who(peer) == cards[other][1:]
            except OSError:
                here = False
        if not all(bool(its) for its in gather(torch.tensor([int(here)]))):
            close(peers)
            return None
        assert listener is not None and room is not None
        _accepted(listener, {cards[other][1:]: other for other in range(rank + 1, size)}, peers)
        rooms = _rooms(rank, room, peers, patience)
    except BaseException:
        close(peers)
        raise
    finally:
        if listener is not None:
            listener.close()
        if room is not None:
            os.close(room)
    return made(rank, peers, rooms)


def _address(name: bytes) -> bytes:
    """Of no file: it is gone with its socket."""
    return b"\0brain-training-" + name.hex().encode()


def _who(peer: socket.socket) -> tuple[int, int]:
    """Process and user at the other end."""
    data = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    return CREDENTIALS.unpack(data)[:2]


def _accepted(listener: socket.socket, awaited: dict[tuple[int, int], int], peers: dict[int, socket.socket]) -> None:
    """Takes in the ranks that have connected; anybody else is turned away."""
    while awaited:
        try:
            peer, _ = listener.accept()
        except TimeoutError:
            raise RuntimeError(f"Timed out waiting for rank {min(awaited.values())} of this machine") from None
        rank = awaited.pop(_who(peer), None)
        if rank is None:
            peer.close()
        else:
            peers[rank] = peer


def _rooms(rank: int, room: int, peers: dict[int, socket.socket], patience: float) -> list[mmap.mmap]:
    """Hands the own memory to all others, and takes theirs; in the order of ranks."""
    found = {rank: mmap.mmap(room, 2 * ROOM)}
    waits = struct.pack("ll", int(patience), 0)
    for peer in peers.values():
        peer.setblocking(True)
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, waits)
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, waits)
    for other, peer in peers.items():
        try:
            socket.send_fds(peer, [b"\1"], [room])
        except OSError as error:
            raise gone(other, error) from error
    for other, peer in peers.items():
        try:
            _, given, _, _ = socket.recv_fds(peer, 1, 1)
        except OSError as error:
            raise gone(other, error) from error
        if len(given) != 1:
            raise gone(other)
        found[other] = mmap.mmap(given[0], 2 * ROOM)
        os.close(given[0])
    return [its for _, its in sorted(found.items())]


def close(peers: dict[int, socket.socket]) -> None:
    """Closes what leads to other ranks."""
    for peer in peers.values():
        peer.close()
