# SPDX-License-Identifier: Apache-2.0
"""The ranks of a training as processes of a group of torch.distributed: what they sum, gather and tell each other."""
from __future__ import annotations

import gc
import os
import socket
import struct
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Any, Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from brain_collectives.torch_private import ReduceScatter
from brain_training.parallel.neighbours import Neighbours, met
from brain_training.parallel.posts import Posts
from brain_training.parallel.together import Together, in_order

PATIENCE = 600.0    # s that a rank waits for another one of its machine; a round of motor's drives takes minutes
TCP_INFO_SIZE, TCP_INFO_SENT = 232, 200     # B of Linux's struct tcp_info, and where tcpi_bytes_sent is in it


class Ranks(Together):
    """A process group, as one of its ranks sees it.

    Args:
        group: of torch.distributed; None: the default one.
        exact: gradients are summed in the order of ranks, on every backend.
        near: of ranks of one machine on gloo what is summed or gathered goes past the network.
    """

    def __init__(self, group: dist.ProcessGroup | None = None, exact: bool = False, near: bool = True) -> None:
        super().__init__()
        self.group = group or dist.group.WORLD
        self.exact = exact
        self._near: Neighbours | None = None
        self._looks = near      # around, at the first message
        self._beside: dist.ProcessGroup | None = None
        self.rank, self.size = dist.get_rank(self.group), dist.get_world_size(self.group)
        self.backend = "nccl" if "nccl" in (made := dist.get_backend(self.group)) else made    # gloo may be beside it

    def gather(self, tensor: Tensor) -> list[Tensor]:
        """See :class:`Together`."""
        tensor = self._here(tensor).contiguous()
        if self.size == 1:
            return [tensor]
        near = self.near
        if near is not None and near.short(tensor):
            return near.gather(tensor)
        return self._gathered(tensor)

    def _gathered(self, tensor: Tensor) -> list[Tensor]:
        """By the backend."""
        found = [torch.empty_like(tensor) for _ in range(self.size)]
        dist.all_gather(found, tensor, group=self.group)
        return found

    @property
    def near(self) -> Neighbours | None:
        """The other ranks as neighbours; None: not all of them are. All ranks ask for it at the same time."""
        if self._looks:
            self._looks = False
            if self.backend == "gloo" and self.size > 1:
                self._near = met(self.rank, self.size, self._gathered, PATIENCE, Neighbours)
                if self._near is not None:
                    weakref.finalize(self, self._near.close)
        return self._near

    def posts(self) -> Posts | None:
        """Makes posts for messages between ranks; None: not all are neighbours. All ranks call it, once each."""
        if self.backend != "gloo" or self.size < 2:
            return None
        return met(self.rank, self.size, self._gathered, PATIENCE, Posts)

    def _here(self, tensor: Tensor) -> Tensor:
        """A tensor where the backend takes it: NCCL takes none from the CPU."""
        return tensor.cuda() if self.backend == "nccl" else tensor

    def sum_(self, tensor: Tensor) -> None:
        """Sums tensors of all ranks in place, in the order of ranks where that is asked for."""
        if self.size == 1:
            return
        near = self.near
        if near is not None and near.fits(tensor):
            near.sum_(tensor)
            return
        if not self.exact or self.size == 2:    # a + b is b + a
            dist.all_reduce(tensor, group=self.group)
            return
        # each rank sums a part of it, so that as much is sent as by a ring
        flat = tensor.flatten()
        padded = torch.nn.functional.pad(flat, (0, -len(flat) % self.size))
        mine = torch.empty_like(padded[:len(padded) // self.size])
        self.sum_part(mine, padded)
        parts = [torch.empty_like(mine) for _ in range(self.size)]
        dist.all_gather(parts, mine, group=self.group)
        tensor.copy_(torch.cat(parts)[:len(flat)].view_as(tensor))

    def sum_part(self, output: Tensor, tensor: Tensor) -> None:
        """The sum of this rank's part of a tensor, [parts * n], into ``output``, [n]; in order where asked for."""
        near = self.near
        if near is not None and near.fits(tensor):
            near.sum_part(output, tensor)
            return
        if not self.exact and self.backend != "gloo":   # whose reduce_scatter is an all_reduce: twice the bytes
            dist.reduce_scatter_single(output, tensor, group=self.group)
            return
        received = torch.empty_like(tensor)
        dist.all_to_all_single(received, tensor, group=self.group)
        output.copy_(in_order(received.view(self.size, *output.shape)))

    @property
    def beside(self) -> dist.ProcessGroup:
        """The same ranks once more, on the CPU: for what goes on in the background while they train."""
        if self._beside is None:
            backend = "zenoh" if self.backend == "zenoh" else "gloo"
            self._beside = dist.new_group(dist.get_process_group_ranks(self.group), backend=backend,
                                          use_local_synchronization=True)
        return self._beside

    def told(self, data: bytes | None, source: int = 0) -> bytes:
        """Broadcasts the bytes of ``source`` to all ranks; None: it has nothing, and the answer is empty."""
        size = self._here(torch.tensor([-1 if data is None else len(data)]))
        dist.broadcast(size, group=self.group, group_src=source)
        if int(size) <= 0:
            return b""
        tensor = self._here(torch.frombuffer(bytearray(data or bytes(int(size))), dtype=torch.uint8))
        dist.broadcast(tensor, group=self.group, group_src=source)
        return tensor.cpu().numpy().tobytes()

    def agreed(self, flag: bool) -> bool:
        """Broadcasts the flag of rank 0, and returns it at all ranks."""
        if self.near is not None:
            return bool(self.gather(torch.tensor([int(flag)]))[0])
        tensor = self._here(torch.tensor([int(flag)]))
        dist.broadcast(tensor, group=self.group, group_src=0)
        return bool(tensor)

    def hook(self, compress: bool) -> Any:
        """Makes a hook for DistributedDataParallel that sums a bucket of gradients, and does not divide by ranks."""
        def summed(_, bucket):      # torch looks at annotations, and wants classes, not their names
            tensor = bucket.buffer()
            if compress:
                small = tensor.to(torch.bfloat16)
                if self.near is not None and self.near.fits(small):
                    self.near.sum_(small)
                else:
                    dist.all_reduce(small, group=self.group)
                tensor.copy_(small)
            else:
                self.sum_(tensor)
            done: torch.futures.Future[Tensor] = torch.futures.Future()
            done.set_result(tensor)
            return done

        return summed

    def sent(self) -> tuple[int, str]:
        """B that this process has sent since it began, and who counted."""
        if self.backend == "zenoh":
            from brain_collectives import counters

            return counters().bytes_sent, "the backend's count"
        counted = "the kernel's count of TCP" + (", and what went past it on this machine" if Neighbours.by_all else "")
        return _sent_by_tcp() + Neighbours.by_all, counted


class InOrder(ReduceScatter):
    """Reduce-scatter of ``fully_shard``: the sum of gradients, not the mean; in the order of ranks where asked for.

    Args:
        ranks: whose gradients are summed.
        replicas: so many groups of them, one behind the other, have all parts each; what comes is the sum of all ranks.
    """

    def __init__(self, ranks: Ranks, replicas: int = 1) -> None:
        self._ranks, self._replicas = ranks, replicas

    def allocate(self, size: Sequence[int], *, dtype: torch.dtype, device: torch.device) -> Tensor:
        """Room for what is sent and for what comes."""
        return torch.empty(*size, dtype=dtype, device=device)

    def __call__(self, output_tensor: Tensor, input_tensor: Tensor, group: dist.ProcessGroup, op: Any,
                 async_op: bool = False) -> None:
        """Sums; done when it returns."""
        self._ranks.sum_part(output_tensor, input_tensor.repeat(self._replicas) if self._replicas > 1 else input_tensor)


def _sent_by_tcp() -> int:
    """B that this process's open TCP sockets have sent, as the kernel counts them; 0 where it does not."""
    total = 0
    for entry in Path("/proc/self/fd").iterdir() if Path("/proc/self/fd").is_dir() else ():
        with suppress(OSError, struct.error):
            if not str(entry.readlink()).startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(int(entry.name))) as its:
                if its.type == socket.SOCK_STREAM and its.family in (socket.AF_INET, socket.AF_INET6):
                    info = its.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_SIZE)
                    total += struct.unpack_from("Q", info, TCP_INFO_SENT)[0]
    return total


def leave() -> None:
    """Leaves all groups, when nothing that trains in them is in use any more.

    What is in a cycle goes first: a group that something holds when the interpreter ends has threads that nobody waits
    for, and such a process ends by abort().
    """
    gc.collect()
    dist.destroy_process_group()
