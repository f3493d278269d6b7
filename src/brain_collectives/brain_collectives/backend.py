# SPDX-License-Identifier: Apache-2.0
"""The zenoh backend: a ``torch.distributed.ProcessGroup`` whose ranks talk over Zenoh.

torch calls what stands here from Python and from C++ (DDP, functional collectives). It wants the names of both, old and
new: ``all_gather_single`` is what ``all_gather_into_tensor`` became, and C++ asks for ``setGroupName``.
"""
from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any, Sequence

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from brain_collectives import algorithms
from brain_collectives.arguments import Flat, Tensor, Tensors, call_of, calls_of, check, one, operation_of, options
from brain_collectives.errors import CollectiveError
from brain_collectives.group import Group
from brain_collectives.header import Call
from brain_collectives.objects import guard
from brain_collectives.opening import open_link
from brain_collectives.points import Receiving, send
from brain_collectives.settings import NAME
from brain_collectives.work import Body, Calls, Done, Together


class ZenohGroup(dist.ProcessGroup):
    """A group of ranks.

    Args:
        store: of c10d, as torch gives it to the group.
        group: on the wire; its link is closed with the last of its groups.
        timeout: of a call that names none.
    """

    def __init__(self, store: dist.Store, group: Group, timeout: timedelta) -> None:
        super().__init__(group.rank, group.size)
        self.wire = group
        self._store = store
        self.timeout = timeout
        self._calls = Calls(group, timeout.total_seconds())
        self._name, self._desc = group.name, "undefined"
        self._coalesced: list[Done] | None = None

    # What torch asks of a group

    def getBackendName(self) -> str:
        """Name of the backend."""
        return NAME

    def setGroupName(self, name: str) -> None:
        """Takes the name by which torch finds the group."""
        self._name = name

    def getGroupName(self) -> str:
        """Name by which torch finds the group."""
        return self._name

    def setGroupDesc(self, description: str) -> None:
        """Takes what the group is for."""
        self._desc = description

    def getGroupDesc(self) -> str:
        """Returns the description of the group."""
        return self._desc

    _set_group_name, _set_group_desc, name = setGroupName, setGroupDesc, getBackendName

    @property
    def group_name(self) -> str:
        """Name by which torch finds the group."""
        return self._name

    @property
    def group_desc(self) -> str:
        """Description of the group."""
        return self._desc

    def get_group_store(self) -> dist.Store:
        """The store of c10d by which the group's ranks met."""
        return self._store

    @property
    def _device_types(self) -> list[torch.device]:
        """Devices whose tensors it takes; torch's checkpoints ask for them."""
        return [torch.device("cpu")]

    def _get_backend(self, device: torch.device) -> ZenohGroup:
        """Returns the backend for a device: the group itself, which torch asks for those of ``_device_types``."""
        return self

    def set_timeout(self, timeout: timedelta) -> None:
        """Sets the timeout of calls that name none."""
        self.timeout = timeout
        self._calls.timeout = timeout.total_seconds()

    def shutdown(self) -> None:
        """Closes the group; with the last one the process's link."""
        self._calls.close()
        self.wire.closed()
        if not self.wire.link.remove(self.wire):
            self.wire.link.close()

    def abort(self) -> None:
        """Ends all that is under way with an error, and closes the group."""
        self.wire.closed()
        self.shutdown()

    def __repr__(self) -> str:
        return f"ZenohGroup(rank={self.rank()}, size={self.size()}, name={self._name!r})"

    # Calls

    def _make(self, call: Call, body: Body, result: Tensors, opts: Any) -> Done:
        work = self._calls.make(call, body, list(result), timeout=getattr(opts, "timeout", None),
                                asynchronous=getattr(opts, "asyncOp", True) or self._coalesced is not None)
        if self._coalesced is not None:
            self._coalesced.append(work)
        return work

    def allreduce(self, tensors: Tensors, opts: Any = None) -> Done:
        """Leaves the reduced data of one tensor at all ranks."""
        opts = options(opts, c10d.AllreduceOptions)
        data, operation = one(tensors), operation_of(opts, tensors)
        large = self.wire.link.settings.large

        def body(exchange: algorithms.Exchange) -> None:
            with Flat(data) as flat:
                algorithms.all_reduce(exchange, flat, operation, large)
        return self._make(call_of("all_reduce", data, operation), body, [data], opts)

    def allreduce_coalesced(self, tensors: Tensors, opts: Any = None) -> Done:
        """Leaves the reduced data of several tensors at all ranks."""
        opts = options(opts, c10d.AllreduceOptions)
        operation, large = operation_of(opts, tensors), self.wire.link.settings.large

        def body(exchange: algorithms.Exchange) -> None:
            for data in tensors:
                with Flat(data) as flat:
                    algorithms.all_reduce(exchange, flat, operation, large)
                exchange.phase += algorithms.STEPS
        return self._make(calls_of("all_reduce_coalesced", tensors, operation), body, tensors, opts)

    def broadcast(self, tensors: Tensors, opts: Any = None) -> Done:
        """Copies the root's tensor to all."""
        opts, data = options(opts, c10d.BroadcastOptions), one(tensors)
        root = self._rank_of_group(opts.rootRank)

        def body(exchange: algorithms.Exchange) -> None:
            with Flat(data) as flat:
                algorithms.broadcast(exchange, flat, root)
        return self._make(call_of("broadcast", data, root=root), body, [data], opts)

    def reduce(self, tensors: Tensors, opts: Any = None) -> Done:
        """Leaves the reduced data at the root."""
        opts, data = options(opts, c10d.ReduceOptions), one(tensors)
        operation, root = operation_of(opts, tensors), self._rank_of_group(opts.rootRank)

        def body(exchange: algorithms.Exchange) -> None:
            with Flat(data) as flat:
                algorithms.reduce(exchange, flat, operation, root)
        return self._make(call_of("reduce", data, operation, root), body, [data], opts)

    def allgather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None) -> Done:
        """Copies everybody's tensor to all, into one tensor for each rank."""
        opts = options(opts, c10d.AllgatherOptions)
        data, parts = one(inputs), self._parts(outputs, inputs)

        def body(exchange: algorithms.Exchange) -> None:
            algorithms.all_gather(exchange, [part.data for part in parts], data.data.reshape(-1))
        return self._make(call_of("all_gather", data), body, parts, opts)

    def all_gather_single(self, output: Tensor, input: Tensor, opts: Any = None) -> Done:  # noqa: A002
        """Copies everybody's tensor to all, one after the other into one."""
        opts = options(opts, c10d.AllgatherOptions)
        parts = self._split_equally(output, input, "all_gather")

        def body(exchange: algorithms.Exchange) -> None:
            with Flat(output) as flat:
                algorithms.all_gather(exchange, list(flat.chunk(self.size())) if flat.numel() else parts,
                                      input.data.reshape(-1))
        return self._make(call_of("all_gather", input.reshape(-1)), body, [output], opts)

    _allgather_base = all_gather_single

    def allgather_coalesced(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None) -> Done:
        """Copies everybody's tensors to all, into one list of tensors for each rank."""
        opts = options(opts, c10d.AllgatherOptions)

        def body(exchange: algorithms.Exchange) -> None:
            for number, data in enumerate(inputs):
                algorithms.all_gather(exchange, [of_rank[number].data for of_rank in outputs], data.data.reshape(-1))
                exchange.phase += algorithms.STEPS
        return self._make(calls_of("all_gather_coalesced", inputs), body, [t for o in outputs for t in o], opts)

    def all_gather_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Done:
        """Copies everybody's tensors to all, each into one tensor."""
        opts = options(opts, c10d.AllgatherOptions)
        for output, data in zip(outputs, inputs, strict=True):
            self._split_equally(output, data, "all_gather")

        def body(exchange: algorithms.Exchange) -> None:
            for output, data in zip(outputs, inputs):
                with Flat(output) as flat:
                    algorithms.all_gather(exchange, list(torch.tensor_split(flat, self.size())), data.data.reshape(-1))
                exchange.phase += algorithms.STEPS
        return self._make(calls_of("all_gather_coalesced", inputs), body, outputs, opts)

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def gather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None) -> Done:
        """Copies everybody's tensor to the root."""
        opts, data = options(opts, c10d.GatherOptions), one(inputs)
        root = self._rank_of_group(opts.rootRank)
        parts = self._parts(outputs, inputs) if self.rank() == root else []

        def body(exchange: algorithms.Exchange) -> None:
            algorithms.gather(exchange, [part.data for part in parts], data.data.reshape(-1), root)
        return self._make(call_of("gather", data, root=root), body, parts, opts)

    def scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any = None) -> Done:
        """Copies to each rank its part of the root's tensors."""
        opts, output = options(opts, c10d.ScatterOptions), one(outputs)
        root = self._rank_of_group(opts.rootRank)
        parts = self._parts(inputs, outputs) if self.rank() == root else []

        def body(exchange: algorithms.Exchange) -> None:
            algorithms.scatter(exchange, output.data, [part.data for part in parts], root)
        return self._make(call_of("scatter", output, root=root), body, [output], opts)

    def reduce_scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any = None) -> Done:
        """Leaves at each rank its tensor of the reduced ones."""
        opts, output = options(opts, c10d.ReduceScatterOptions), one(outputs)
        operation, parts = operation_of(opts, outputs), self._parts(inputs, outputs)

        def body(exchange: algorithms.Exchange) -> None:
            algorithms.reduce_scatter(exchange, output.data, [part.data for part in parts], operation)
        return self._make(call_of("reduce_scatter", output, operation), body, [output], opts)

    def reduce_scatter_single(self, output: Tensor, input: Tensor, opts: Any = None) -> Done:   # noqa: A002
        """Leaves at each rank its part of one reduced tensor."""
        opts = options(opts, c10d.ReduceScatterOptions)
        operation = operation_of(opts, [output])
        self._split_equally(input, output, "reduce_scatter")

        def body(exchange: algorithms.Exchange) -> None:
            parts = torch.tensor_split(input.data.reshape(-1), self.size())
            algorithms.reduce_scatter(exchange, output.data, list(parts), operation)
        return self._make(call_of("reduce_scatter", output.reshape(-1), operation), body, [output], opts)

    _reduce_scatter_base = reduce_scatter_single

    def reduce_scatter_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Done:
        """Leaves at each rank its parts of several reduced tensors."""
        opts = options(opts, c10d.ReduceScatterOptions)
        operation = operation_of(opts, outputs)
        for output, data in zip(outputs, inputs, strict=True):
            self._split_equally(data, output, "reduce_scatter")

        def body(exchange: algorithms.Exchange) -> None:
            for output, data in zip(outputs, inputs):
                parts = torch.tensor_split(data.data.reshape(-1), self.size())
                algorithms.reduce_scatter(exchange, output.data, list(parts), operation)
                exchange.phase += algorithms.STEPS
        return self._make(calls_of("reduce_scatter_coalesced", outputs, operation), body, outputs, opts)

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def alltoall(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Done:
        """Copies to each rank the tensor that each other has for it; sizes may differ."""
        opts = options(opts, c10d.AllToAllOptions)
        if len(outputs) != self.size() or len(inputs) != self.size():
            raise CollectiveError(f"all_to_all wants one tensor for each of {self.size()} ranks, and got "
                                  f"{len(inputs)} to send and {len(outputs)} to receive into")
        check([*outputs, *inputs])

        def body(exchange: algorithms.Exchange) -> None:
            algorithms.all_to_all(exchange, [output.data for output in outputs], [data.data for data in inputs])
        return self._make(Call("all_to_all", inputs[0].dtype), body, outputs, opts)

    def all_to_all_single(self, output: Tensor, input: Tensor, output_sizes: Sequence[int],    # noqa: A002
                          input_sizes: Sequence[int], opts: Any = None) -> Done:
        """Copies to each rank its part of one tensor; parts are counted in rows, and equal where sizes are empty."""
        opts = options(opts, c10d.AllToAllOptions)
        check([output, input])
        outs, ins = self._rows(output, output_sizes, "output"), self._rows(input, input_sizes, "input")

        def body(exchange: algorithms.Exchange) -> None:
            algorithms.all_to_all(exchange, outs, ins)
        return self._make(Call("all_to_all", input.dtype), body, [output], opts)

    alltoall_base = all_to_all_single

    def barrier(self, opts: Any = None) -> Done:
        """Returns when all ranks have come."""
        return self._make(Call("barrier"), algorithms.barrier, [], options(opts, c10d.BarrierOptions))

    def monitored_barrier(self, timeout: timedelta | None = None, wait_all_ranks: bool = False) -> None:
        """Returns when all ranks have come; else an error names who is late.

        Raises:
            TooLate: ranks have not come within ``timeout``.
        """
        from brain_collectives.barrier import monitored_barrier

        monitored_barrier(self, timeout, wait_all_ranks)

    def send(self, tensors: Tensors, rank: int, tag: int) -> Done:
        """Sends a tensor to a rank of the group."""
        return send(self.wire, one(tensors), self._rank_of_group(rank), tag)

    def recv(self, tensors: Tensors, rank: int, tag: int) -> Done:
        """Receives a tensor from a rank of the group."""
        return Receiving(self.wire, one(tensors), self._rank_of_group(rank), tag, self._calls.timeout)

    def recv_anysource(self, tensors: Tensors, tag: int) -> Done:
        """Receives a tensor from whichever rank of the group sends one."""
        return Receiving(self.wire, one(tensors), None, tag, self._calls.timeout)

    def start_coalescing(self, device: torch.device) -> None:
        """Collects the calls from here on into one."""
        self._coalesced = []

    def end_coalescing(self, device: torch.device) -> Done:
        """The calls since the start, as one."""
        works, self._coalesced = self._coalesced or [], None
        return Together(works)

    _start_coalescing, _end_coalescing = start_coalescing, end_coalescing

    # What is checked before a call

    def _rank_of_group(self, rank: int) -> int:
        if not 0 <= rank < self.size():
            raise CollectiveError(f"there is no rank {rank} in {self.wire.title}, which has {self.size()}")
        return rank

    def _parts(self, lists: Sequence[Tensors], like: Tensors) -> list[Tensor]:
        """The one list of tensors, one a rank, each like the one tensor."""
        if len(lists) != 1 or len(lists[0]) != self.size():
            raise CollectiveError(f"one list of {self.size()} tensors is wanted, one for each rank of "
                                  f"{self.wire.title}")
        check([*lists[0], *like])
        for part in lists[0]:
            if part.numel() != like[0].numel():
                raise CollectiveError(f"the tensors for all ranks must be of one size; {list(part.shape)} is not "
                                      f"{list(like[0].shape)}")
        return list(lists[0])

    def _split_equally(self, whole: Tensor, part: Tensor, kind: str) -> list[Tensor]:
        check([whole, part])
        if whole.numel() != part.numel() * self.size():
            raise CollectiveError(f"{kind}: the large tensor has {whole.numel()} elements and the small one "
                                  f"{part.numel()}; for {self.size()} ranks that must be {self.size()} times as many")
        return [whole.data.new_empty(0)] * self.size()

    def _rows(self, tensor: Tensor, sizes: Sequence[int], which: str) -> list[Tensor]:
        if not sizes:
            if tensor.dim() == 0 or tensor.shape[0] % self.size():
                raise CollectiveError(f"all_to_all: the {which} of {list(tensor.shape)} cannot be split equally "
                                      f"between {self.size()} ranks; give split sizes")
            sizes = [tensor.shape[0] // self.size()] * self.size()
        if len(sizes) != self.size() or sum(sizes) != tensor.shape[0]:
            raise CollectiveError(f"all_to_all: split sizes {list(sizes)} do not add up to the {tensor.shape[0]} rows "
                                  f"of the {which} for {self.size()} ranks")
        return list(torch.split(tensor.data, list(sizes)))


_default: Group | None = None       # the ranks that torch counts are those in this group
_opening = threading.Lock()


def make(asked: Any, backend_options: Any = None) -> ZenohGroup:
    """Makes a group, as torch asks it of a backend.

    Raises:
        CollectiveError: the ranks do not meet, or there is no default group of this backend to be a part of.
    """
    if backend_options is not None:
        raise CollectiveError("the zenoh backend takes no pg_options; it is set by the environment "
                              "(BRAIN_COLLECTIVES_*)")
    with _opening:
        guard()
        if not asked.global_ranks_in_group:
            link = open_link(asked.store, asked.group_rank, asked.group_size, asked.timeout)
            group = Group(link, asked.group_id, tuple(range(asked.group_size)))
            be_default(group)
        elif _default is None or _default.link.is_closed:
            raise CollectiveError("a group of the zenoh backend is a part of a default group of the zenoh backend; "
                                  "call init_process_group with \"zenoh\"")
        else:
            members = tuple(_default.members[rank] for rank in asked.global_ranks_in_group)
            group = Group(_default.link, asked.group_id, members)
        return ZenohGroup(asked.store, group, asked.timeout)


def be_default(group: Group) -> None:
    """Counts the ranks of groups that are made from now on in this group."""
    global _default
    _default = group
