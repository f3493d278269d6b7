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
from torch._C import _distributed_c10d as c10d

from brain_collectives import algorithms
from brain_collectives.errors import CollectiveError
from brain_collectives.group import Group
from brain_collectives.header import DTYPES, NO_ROOT, Call
from brain_collectives.link import open_link
from brain_collectives.objects import guard
from brain_collectives.points import Receiving, send
from brain_collectives.registration import NAME
from brain_collectives.work import Body, Calls, Done, Together

Tensor = torch.Tensor
Tensors = Sequence[Tensor]
_REAL_ONLY = ("MIN", "MAX")
_INTEGERS_ONLY = ("BAND", "BOR", "BXOR")


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

    def getBackendName(self) -> str:    # noqa: N802
        """Name of the backend."""
        return NAME

    def setGroupName(self, name: str) -> None:      # noqa: N802
        """Takes the name by which torch finds the group."""
        self._name = name

    def getGroupName(self) -> str:      # noqa: N802
        """Name by which torch finds the group."""
        return self._name

    def setGroupDesc(self, description: str) -> None:       # noqa: N802
        """Takes what the group is for."""
        self._desc = description

    def getGroupDesc(self) -> str:      # noqa: N802
        """What the group is for."""
        return self._desc

    _set_group_name, _set_group_desc, name = setGroupName, setGroupDesc, getBackendName

    @property
    def group_name(self) -> str:
        """Name by which torch finds the group."""
        return self._name

    @property
    def group_desc(self) -> str:
        """What the group is for."""
        return self._desc

    def get_group_store(self) -> dist.Store:
        """The store of c10d by which the group's ranks met."""
        return self._store

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
        opts = _options(opts, c10d.AllreduceOptions)
        data, operation = _one(tensors), _operation(opts, tensors)
        large = self.wire.link.settings.large

        def body(exchange: algorithms.Exchange) -> None:
            with _Flat(data) as flat:
                algorithms.all_reduce(exchange, flat, operation, large)
        return self._make(_call("all_reduce", data, operation), body, [data], opts)

    def allreduce_coalesced(self, tensors: Tensors, opts: Any = None) -> Done:
        """Leaves the reduced data of several tensors at all ranks."""
        opts = _options(opts, c10d.AllreduceOptions)
        operation, large = _operation(opts, tensors), self.wire.link.settings.large

        def body(exchange: algorithms.Exchange) -> None:
            for data in tensors:
                with _Flat(data) as flat:
                    algorithms.all_reduce(exchange, flat, operation, large)
                exchange.phase += algorithms.STEPS
        return self._make(_calls("all_reduce_coalesced", tensors, operation), body, tensors, opts)

    def broadcast(self, tensors: Tensors, opts: Any = None) -> Done:
        """Copies the root's tensor to all."""
        opts, data = _options(opts, c10d.BroadcastOptions), _one(tensors)
        root = self._rank_of_group(opts.rootRank)

        def body(exchange: algorithms.Exchange) -> None:
            with _Flat(data) as flat:
                algorithms.broadcast(exchange, flat, root)
        return self._make(_call("broadcast", data, root=root), body, [data], opts)

    def reduce(self, tensors: Tensors, opts: Any = None) -> Done:
        """Leaves the reduced data at the root."""
        opts, data = _options(opts, c10d.ReduceOptions), _one(tensors)
        operation, root = _operation(opts, tensors), self._rank_of_group(opts.rootRank)

        def body(exchange: algorithms.Exchange) -> None:
            with _Flat(data) as flat:
                algorithms.reduce(exchange, flat, operation, root)
        return self._make(_call("reduce", data, operation, root), body, [data], opts)

    def allgather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None) -> Done:
        """Copies everybody's tensor to all, into one tensor for each rank."""
        opts = _options(opts, c10d.AllgatherOptions)
        data, parts = _one(inputs), self._parts(outputs, inputs)

        def body(exchange: algorithms.Exchange) -> None:
            algorithms.all_gather(exchange, [part.data for part in parts], data.data.reshape(-1))
        return self._make(_call("all_gather", data), body, parts, opts)

    def all_gather_single(self, output: Tensor, input: Tensor, opts: Any = None) -> Done:  # noqa: A002
        """Copies everybody's tensor to all, one after the other into one."""
        opts = _options(opts, c10d.AllgatherOptions)
        parts = self._split_equally(output, input, "all_gather")

        def body(exchange: algorithms.Exchange) -> None:
            with _Flat(output) as flat:
                algorithms.all_gather(exchange, list(flat.chunk(self.size())) if flat.numel() else parts,
                                      input.data.reshape(-1))
        return self._make(_call("all_gather", input.reshape(-1)), body, [output], opts)

    _allgather_base = all_gather_single

    def allgather_coalesced(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None) -> Done:
        """Copies everybody's tensors to all, into one list of tensors for each rank."""
        opts = _options(opts, c10d.AllgatherOptions)

        def body(exchange: algorithms.Exchange) -> None:
            for number, data in enumerate(inputs):
                algorithms.all_gather(exchange, [of_rank[number].data for of_rank in outputs], data.data.reshape(-1))
                exchange.phase += algorithms.STEPS
        return self._make(_calls("all_gather_coalesced", inputs), body, [t for o in outputs for t in o], opts)

    def all_gather_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Done:
        """Copies everybody's tensors to all, each into one tensor."""
        opts = _options(opts, c10d.AllgatherOptions)
        for output, data in zip(outputs, inputs, strict=True):
            self._split_equally(output, data, "all_gather")

        def body(exchange: algorithms.Exchange) -> None:
            for output, data in zip(outputs, inputs):
                with _Flat(output) as flat:
                    algorithms.all_gather(exchange, list(torch.tensor_split(flat, self.size())), data.data.reshape(-1))
                exchange.phase += algorithms.STEPS
        return self._make(_calls("all_gather_coalesced", inputs), body, outputs, opts)

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def gather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None) -> Done:
        """Copies everybody's tensor to the root."""
        opts, data = _options(opts, c10d.GatherOptions), _one(inputs)
        root = self._rank_of_group(opts.rootRank)
        parts = self._parts(outputs, inputs) if self.rank() == root else []

        def body(exchange: algorithms.Exchange) -> None:
            algorithms.gather(exchange, [part.data for part in parts], data.data.reshape(-1), root)
        return self._make(_call("gather", data, root=root), body, parts, opts)

    def scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any = None) -> Done:
        """Copies to each rank its part of the root's tensors."""
        opts, output = _options(opts, c10d.ScatterOptions), _one(outputs)
        root = self._rank_of_group(opts.rootRank)
        parts = self._parts(inputs, outputs) if self.rank() == root else []

        def body(exchange: algorithms.Exchange) -> None:
            algorithms.scatter(exchange, output.data, [part.data for part in parts], root)
        return self._make(_call("scatter", output, root=root), body, [output], opts)

    def reduce_scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any = None) -> Done:
        """Leaves at each rank its tensor of the reduced ones."""
        opts, output = _options(opts, c10d.ReduceScatterOptions), _one(outputs)
        operation, parts = _operation(opts, outputs), self._parts(inputs, outputs)

        def body(exchange: algorithms.Exchange) -> None:
            algorithms.reduce_scatter(exchange, output.data, [part.data for part in parts], operation)
        return self._make(_call("reduce_scatter", output, operation), body, [output], opts)

    def reduce_scatter_single(self, output: Tensor, input: Tensor, opts: Any = None) -> Done:   # noqa: A002
        """Leaves at each rank its part of one reduced tensor."""
        opts = _options(opts, c10d.ReduceScatterOptions)
        operation = _operation(opts, [output])
        self._split_equally(input, output, "reduce_scatter")

        def body(exchange: algorithms.Exchange) -> None:
            parts = torch.tensor_split(input.data.reshape(-1), self.size())
            algorithms.reduce_scatter(exchange, output.data, list(parts), operation)
        return self._make(_call("reduce_scatter", output.reshape(-1), operation), body, [output], opts)

    _reduce_scatter_base = reduce_scatter_single

    def reduce_scatter_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Done:
        """Leaves at each rank its parts of several reduced tensors."""
        opts = _options(opts, c10d.ReduceScatterOptions)
        operation = _operation(opts, outputs)
        for output, data in zip(outputs, inputs, strict=True):
            self._split_equally(data, output, "reduce_scatter")

        def body(exchange: algorithms.Exchange) -> None:
            for output, data in zip(outputs, inputs):
                parts = torch.tensor_split(data.data.reshape(-1), self.size())
                algorithms.reduce_scatter(exchange, output.data, list(parts), operation)
                exchange.phase += algorithms.STEPS
        return self._make(_calls("reduce_scatter_coalesced", outputs, operation), body, outputs, opts)

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def alltoall(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Done:
        """Copies to each rank the tensor that each other has for it; sizes may differ."""
        opts = _options(opts, c10d.AllToAllOptions)
        if len(outputs) != self.size() or len(inputs) != self.size():
            raise CollectiveError(f"all_to_all wants one tensor for each of {self.size()} ranks, and got "
                                  f"{len(inputs)} to send and {len(outputs)} to receive into")
        _check([*outputs, *inputs])

        def body(exchange: algorithms.Exchange) -> None:
            algorithms.all_to_all(exchange, [output.data for output in outputs], [data.data for data in inputs])
        return self._make(Call("all_to_all", inputs[0].dtype), body, outputs, opts)

    def all_to_all_single(self, output: Tensor, input: Tensor, output_sizes: Sequence[int],    # noqa: A002
                          input_sizes: Sequence[int], opts: Any = None) -> Done:
        """Copies to each rank its part of one tensor; parts are counted in rows, and equal where sizes are empty."""
        opts = _options(opts, c10d.AllToAllOptions)
        _check([output, input])
        outs, ins = self._rows(output, output_sizes, "output"), self._rows(input, input_sizes, "input")

        def body(exchange: algorithms.Exchange) -> None:
            algorithms.all_to_all(exchange, outs, ins)
        return self._make(Call("all_to_all", input.dtype), body, [output], opts)

    alltoall_base = all_to_all_single

    def barrier(self, opts: Any = None) -> Done:
        """Returns when all ranks have come."""
        return self._make(Call("barrier"), algorithms.barrier, [], _options(opts, c10d.BarrierOptions))

    def monitored_barrier(self, timeout: timedelta | None = None, wait_all_ranks: bool = False) -> None:
        """Returns when all ranks have come; else an error names who is late.

        Raises:
            TooLate: ranks have not come within ``timeout``.
        """
        from brain_collectives.barrier import monitored_barrier

        monitored_barrier(self, timeout, wait_all_ranks)

    def send(self, tensors: Tensors, rank: int, tag: int) -> Done:
        """Sends a tensor to a rank of the group."""
        return send(self.wire, _one(tensors), self._rank_of_group(rank), tag)

    def recv(self, tensors: Tensors, rank: int, tag: int) -> Done:
        """Receives a tensor from a rank of the group."""
        return Receiving(self.wire, _one(tensors), self._rank_of_group(rank), tag, self._calls.timeout)

    def recv_anysource(self, tensors: Tensors, tag: int) -> Done:
        """Receives a tensor from whichever rank of the group sends one."""
        return Receiving(self.wire, _one(tensors), None, tag, self._calls.timeout)

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
            raise CollectiveError(f"one list of {self.size()} tensors is wanted, one for each rank of {self.wire.title}")
        _check([*lists[0], *like])
        for part in lists[0]:
            if part.numel() != like[0].numel():
                raise CollectiveError(f"the tensors for all ranks must be of one size; {list(part.shape)} is not "
                                      f"{list(like[0].shape)}")
        return list(lists[0])

    def _split_equally(self, whole: Tensor, part: Tensor, kind: str) -> list[Tensor]:
        _check([whole, part])
        if whole.numel() != part.numel() * self.size():
            raise CollectiveError(f"{kind}: the large tensor has {whole.numel()} elements and the small one "
                                  f"{part.numel()}; for {self.size()} ranks that must be {self.size()} times as many")
        return [whole.data.new_empty(0)] * self.size()

    def _rows(self, tensor: Tensor, sizes: Sequence[int], which: str) -> list[Tensor]:
        if not sizes:
            if tensor.dim() == 0 or tensor.shape[0] % self.size():
                raise CollectiveError(f"all_to_all: the {which} of {list(tensor.shape)} cannot be split equally between "
                                      f"{self.size()} ranks; give split sizes")
            sizes = [tensor.shape[0] // self.size()] * self.size()
        if len(sizes) != self.size() or sum(sizes) != tensor.shape[0]:
            raise CollectiveError(f"all_to_all: split sizes {list(sizes)} do not add up to the {tensor.shape[0]} rows of "
                                  f"the {which} for {self.size()} ranks")
        return list(torch.split(tensor.data, list(sizes)))


class _Flat:
    """A tensor's memory in one dimension; where it is not contiguous a copy, which is written back at the end."""

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor.data
        self._flat = self._tensor.reshape(-1)

    def __enter__(self) -> Tensor:
        return self._flat

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None and self._flat.numel() and self._flat.data_ptr() != self._tensor.data_ptr():
            self._tensor.copy_(self._flat.view(self._tensor.shape))


def _options(opts: Any, cls: type) -> Any:
    return cls() if opts is None else opts


def _one(tensors: Tensors) -> Tensor:
    if len(tensors) != 1:
        raise CollectiveError(f"one tensor is wanted, not {len(tensors)}")
    _check(tensors)
    return tensors[0]


def _check(tensors: Tensors) -> None:
    for tensor in tensors:
        if tensor.device.type != "cpu":
            raise CollectiveError(f"a tensor on {tensor.device} was given; the zenoh backend takes tensors on the CPU: "
                                  f"tensor.cpu(), or a backend for that device, as cpu:zenoh,cuda:nccl")
        if tensor.layout != torch.strided:
            raise CollectiveError(f"a tensor of layout {tensor.layout} was given; the zenoh backend takes dense ones: "
                                  f"tensor.to_dense()")
        if tensor.dtype not in DTYPES:
            raise CollectiveError(f"a tensor of {tensor.dtype} was given, which the zenoh backend does not take")
        if tensor.dtype != tensors[0].dtype:
            raise CollectiveError(f"the tensors of a call must be of one dtype; {tensor.dtype} is not "
                                  f"{tensors[0].dtype}")


def _operation(opts: Any, tensors: Tensors) -> str:
    """Name of the operation of a reduction, which fits the tensors."""
    _check(tensors)
    name = str(opts.reduceOp.op).rpartition(".")[2]
    if name not in algorithms.OPERATORS:
        raise CollectiveError(f"the zenoh backend has no {name}; it has {', '.join(algorithms.OPERATORS)}")
    for tensor in tensors:
        floats = tensor.is_floating_point() or tensor.is_complex()
        if name in _INTEGERS_ONLY and floats or name in _REAL_ONLY and tensor.is_complex():
            raise CollectiveError(f"{name} is not defined for {str(tensor.dtype).removeprefix('torch.')}")
    return name


def _call(kind: str, tensor: Tensor, operation: str = "", root: int = NO_ROOT) -> Call:
    return Call(kind, tensor.dtype, tuple(tensor.shape), operation, root)


def _calls(kind: str, tensors: Tensors, operation: str = "") -> Call:
    """Of several tensors: how many, and their sizes added up."""
    _check(tensors)
    return Call(kind, tensors[0].dtype if tensors else torch.uint8,
                (len(tensors), sum(tensor.numel() for tensor in tensors)), operation)


_default: Group | None = None       # the ranks that torch counts are those in this group
_opening = threading.Lock()


def make(options: Any, backend_options: Any = None) -> ZenohGroup:
    """Makes a group, as torch asks it of a backend.

    Raises:
        CollectiveError: the ranks do not meet, or there is no default group of this backend to be a part of.
    """
    if backend_options is not None:
        raise CollectiveError("the zenoh backend takes no pg_options; it is set by the environment (BRAIN_COLLECTIVES_*)")
    with _opening:
        guard()
        if not options.global_ranks_in_group:
            link = open_link(options.store, options.group_rank, options.group_size, options.timeout)
            group = Group(link, options.group_id, tuple(range(options.group_size)))
            be_default(group)
        elif _default is None or _default.link.is_closed:
            raise CollectiveError("a group of the zenoh backend is a part of a default group of the zenoh backend; call "
                                  "init_process_group with \"zenoh\", or \"cpu:zenoh,...\"")
        else:
            members = tuple(_default.members[rank] for rank in options.global_ranks_in_group)
            group = Group(_default.link, options.group_id, members)
        return ZenohGroup(options.store, group, options.timeout)


def be_default(group: Group) -> None:
    """Counts the ranks of groups that are made from now on in this group."""
    global _default
    _default = group
