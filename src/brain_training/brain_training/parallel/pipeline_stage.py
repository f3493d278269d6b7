# SPDX-License-Identifier: Apache-2.0
"""torch's pipeline stage with a wire of its own: spikes go forward as bits, gradients come back as floats.

torch's ``PipelineStage`` sends each output as it is, and takes for the gradient's shape and type those of the output.
So spikes as uint8 would have no gradient: it leaves the stage before without one, and says nothing. Here the tensors of
autograd stay floats on both sides, and what is sent of all of a boundary's values is one message each way:

    forward    the spikes of all values, one bit each, whole numbers in the bytes that they need, and floats
    backward   a float for every spike and every float; for a train of which the mean counts, one for its spikes

It also wants the same shapes in each step, and keeps buffers for all micro-batches from the first step to the last. A
sentence has its own length, and what 1F1B saves would be lost. So buffers are made here when a message is awaited, and
given up after the backward pass. What is overridden is torch 2.13's; :mod:`.pipeline` refuses another version's.
"""
from __future__ import annotations

import time
from collections import Counter
from math import prod
from typing import Any, NamedTuple, Sequence

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.pipelining import PipelineStage

from brain_collectives.torch_private import RecvInfo, check_overridden
from brain_collectives.columns import packed, packed_size, unpacked
from brain_training.parallel.chain import Kind, Stage
from brain_training.parallel.posts import Posts


FORWARD, BACKWARD, INPUTS, WEIGHTS = "forward", "backward", "inputs", "weights"


class Span(NamedTuple):
    """Time that a stage computed for one micro-batch, without what it waited for.

    Attributes:
        stage, micro: numbers.
        what: the ``forward`` pass, the ``backward`` pass, or of a backward pass in two parts that for ``inputs`` or
            for ``weights``.
        begin, end: s, of a clock that all processes of a machine have.
    """

    stage: int
    what: str
    micro: int
    begin: float
    end: float


check_overridden("torch.distributed.pipelining.stage", "PipelineStage")


class PackedStage(PipelineStage):
    """One stage of a pipeline.

    Args:
        module: its sections.
        number: of this stage, of ``stages``.
        stages: how many there are.
        group: of the ranks that have them.
        posts: what takes messages to ranks of one machine; None: the backend does.

    Attributes:
        bytes: that were sent so far, ``forward`` and ``backward``; and ``forward_floats``, what the same would
            have been as floats.
        most: micro-batches at once whose backward pass was still to come.
        spans: what was done when is added to it; None: nobody asks.
    """

    spans: list[Span] | None = None

    def __init__(self, module: Stage, number: int, stages: int, group: dist.ProcessGroup | None,
                 device: torch.device, posts: Posts | None = None) -> None:
        # shapes are said by micro-batch, see expect(); of these torch takes how many there are
        def some(names: list[str]) -> tuple[Tensor, ...]:
            return tuple(torch.empty(1, device=device, requires_grad=True) for _ in names)

        super().__init__(module, number, stages, device, input_args=some(module.takes),
                         output_args=some(module.gives or ["loss"]), group=group)
        self._posts = posts if device.type == "cpu" else None
        self.bytes: Counter[str] = Counter()
        self.most = 0
        self._taken: list[list[Kind]] = []
        self._given: list[list[Kind]] = []
        self._wire: dict[tuple[str, int], Tensor] = {}
        self._back: dict[int, list[Tensor]] = {}     # gradients to send, by micro-batch
        self._due: dict[tuple[str, int], Any] = {}   # messages of this machine that are waited for when they are needed
        self._sent: list[Any] = []                   # and what was sent

    def expect(self, kinds: list[dict[str, Kind]]) -> None:
        """Says what the values of each micro-batch of the next step are."""
        self._taken = [[one[name] for name in self.submod.takes] for one in kinds]
        self._given = [[one[name] for name in self.submod.gives] for one in kinds]

    # -- forward ---------------------------------------------------------------------------------------------------

    def _setup_forward_recv_info(self, num_microbatches: int, has_backward: bool) -> None:
        for chunk in range(num_microbatches):
            self.args_recv_info[chunk] = tuple(
                RecvInfo(input_name=name, source=self.stage_index - 1, buffer=None, tensor_meta=meta)
                for name, meta in zip(self.submod.takes, self._stage_meta.inputs))

    def get_fwd_recv_ops(self, fwd_chunk_id: int) -> list[dist.P2POp]:
        """One message from the stage before."""
        if self.is_first:
            return []
        size = sum(map(_sent_size, self._taken[fwd_chunk_id]))
        self._wire["taken", fwd_chunk_id] = torch.empty(size, dtype=torch.uint8, device=self.device)
        return [self._receive("taken", fwd_chunk_id, self.stage_index - 1)]

    def get_fwd_send_ops(self, fwd_chunk_id: int) -> list[dist.P2POp]:
        """One message to the next stage."""
        if self.is_last:
            return []
        message = self._wire.pop(("given", fwd_chunk_id))
        self.bytes["forward"] += message.numel()
        self.bytes["forward_floats"] += torch.get_default_dtype().itemsize * sum(
            prod(kind.shape) for kind in self._given[fwd_chunk_id])
        return [self._send([message.to(self.device)], self.stage_index + 1)]

    def _retrieve_recv_activations(self, fwd_chunk_id: int) -> tuple[Tensor, ...]:
        infos = self.args_recv_info[fwd_chunk_id]
        message = self._wire.pop(("taken", fwd_chunk_id), None)
        if message is not None:     # else the stage before is this rank's, and has handed its values over
            for info, value in zip(infos, from_bytes(message.cpu(), self._taken[fwd_chunk_id])):
                info.buffer = value.to(self.device)
        return tuple(info.buffer.requires_grad_(self.has_backward) for info in infos)

    def forward_one_chunk(self, fwd_chunk_id: int, *args: Any, **kwargs: Any) -> Any:
        """As torch's; takes down how many micro-batches are under way."""
        self._await("taken", fwd_chunk_id)
        begin = time.monotonic()
        found = super().forward_one_chunk(fwd_chunk_id, *args, **kwargs)
        if not self.is_last and not self._is_here(self.stage_index + 1):    # to pack is work of the stage
            outputs, _ = self.fwd_cache[fwd_chunk_id]
            self._wire["given", fwd_chunk_id] = to_bytes([value.detach() for value in outputs],
                                                         self._given[fwd_chunk_id])
        self._took(FORWARD, fwd_chunk_id, begin)
        self.most = max(self.most, len(self.fwd_cache) + len(self.backward_state))
        return found

    # -- backward --------------------------------------------------------------------------------------------------

    def _create_grad_recv_info(self, act_send_info: dict) -> tuple[RecvInfo, ...]:
        return tuple(RecvInfo(input_name=f"gradient of {name}", source=self.stage_index + 1, buffer=None,
                              tensor_meta=meta) for name, meta in zip(self.submod.gives, self._stage_meta.outputs))

    def get_bwd_recv_ops(self, bwd_chunk_id: int) -> list[dist.P2POp]:
        """One message from the next stage."""
        if not self.has_backward or self.is_last:
            return []
        size = sum(prod(_back_shape(kind)) for kind in self._given[bwd_chunk_id])
        self._wire["gradient", bwd_chunk_id] = torch.empty(size, device=self.device)
        return [self._receive("gradient", bwd_chunk_id, self.stage_index + 1)]

    def get_bwd_send_ops(self, bwd_chunk_id: int) -> list[dist.P2POp]:
        """One message to the stage before."""
        if not self.has_backward or self.is_first:
            return []
        parts = self._back.pop(bwd_chunk_id)
        self.bytes["backward"] += sum(part.numel() * part.element_size() for part in parts)
        return [self._send(parts, self.stage_index - 1)]

    def _flat(self, grads: Sequence[Tensor | None], kinds: list[Kind]) -> list[Tensor]:
        """Gradients as they lie on the wire."""
        return [torch.zeros(prod(_back_shape(kind)), device=self.device) if grad is None
                else (grad[:1] if kind.once else grad).permute(kind.order).reshape(-1)
                for grad, kind in zip(grads, kinds)]

    def _is_here(self, stage: int) -> bool:
        """Tells whether a stage is one of this rank's, which hands its values over."""
        return self.stage_index_to_group_rank[stage] == self.group_rank

    def _retrieve_recv_grads(self, bwd_chunk_id: int) -> tuple[Tensor, ...]:
        infos = self.grad_recv_info[bwd_chunk_id]
        message = self._wire.pop(("gradient", bwd_chunk_id), None)
        if message is not None:
            kinds = self._given[bwd_chunk_id]
            parts = message.split([prod(_back_shape(kind)) for kind in kinds])
            for info, part, kind in zip(infos, parts, kinds):
                info.buffer = _as(part, kind._replace(shape=_back_shape(kind))).expand(kind.shape)
        return tuple(info.buffer for info in infos)

    def backward_one_chunk(self, bwd_chunk_id: int, *args: Any, **kwargs: Any) -> None:
        """As torch's; then gives up what came for this micro-batch."""
        self._await("gradient", bwd_chunk_id)
        begin = time.monotonic()
        super().backward_one_chunk(bwd_chunk_id, *args, **kwargs)
        if self.has_backward and not self.is_first and not self._is_here(self.stage_index - 1):
            self._back[bwd_chunk_id] = self._flat(self.bwd_cache.pop(bwd_chunk_id), self._taken[bwd_chunk_id])
        self._took(BACKWARD if kwargs.get("full_backward", True) else INPUTS, bwd_chunk_id, begin)
        for info in (*self.args_recv_info.get(bwd_chunk_id, ()), *self.grad_recv_info.get(bwd_chunk_id, ())):
            info.buffer = None

    def backward_weight_one_chunk(self, bwd_chunk_id: int, *args: Any, **kwargs: Any) -> None:
        """As torch's."""
        begin = time.monotonic()
        super().backward_weight_one_chunk(bwd_chunk_id, *args, **kwargs)
        self._took(WEIGHTS, bwd_chunk_id, begin)

    def _took(self, what: str, chunk: int, begin: float) -> None:
        if self.spans is not None:
            self.spans.append(Span(self.stage_index, what, chunk, begin, time.monotonic()))

    def _send(self, parts: list[Tensor], stage: int) -> dist.P2POp:
        message = parts[0] if self._posts is not None or len(parts) == 1 else torch.cat(parts)
        op = dist.P2POp(dist.isend, message, self._resolve_peer_global_rank(stage), self.group)
        if self._posts is not None:
            send = self._posts.sending(parts)

            def isend(tensor: Tensor, **where: Any) -> _Later:
                self._sent.append(send(tensor, **where))
                return _Later()

            op.op = isend
        return op

    def _receive(self, what: str, chunk: int, stage: int) -> dist.P2POp:
        op = dist.P2POp(dist.irecv, self._wire[what, chunk], self._resolve_peer_global_rank(stage), self.group)
        posts = self._posts
        if posts is not None:
            def irecv(tensor: Tensor, **where: Any) -> _Later:
                self._due[what, chunk] = posts.irecv(tensor, **where)
                return _Later()

            op.op = irecv
        return op

    def _await(self, what: str, chunk: int) -> None:
        """Waits for a message of this machine, if one is to come."""
        due = self._due.pop((what, chunk), None)
        if due is not None:
            due.wait()

    def settle(self) -> None:
        """Waits until all that this stage has sent in a step is on its way; then its tensors may be written to."""
        for sent in self._sent:
            sent.wait()
        self._sent.clear()


class _Later:
    """Work handle that is done at once: torch waits for it as soon as it has asked.

    Its schedules of several stages would hold a rank up at each action until its neighbours have done theirs, also
    where what they send is needed much later. :class:`PackedStage` waits where it is needed.
    """

    def wait(self) -> bool:
        """At once."""
        return True


def _sent_size(kind: Kind) -> int:
    return packed_size(kind.shape) if kind.spikes else _type(kind).itemsize * prod(kind.shape)


def _back_shape(kind: Kind) -> tuple[int, ...]:
    """Of a gradient on the wire."""
    return (1, *kind.shape[1:]) if kind.once else kind.shape


def _type(kind: Kind) -> np.dtype:
    """Of numbers on the wire: torch's default type, which a network's are; of whole numbers the smallest."""
    whole = np.min_scalar_type(kind.most)
    own = np.dtype(str(torch.get_default_dtype()).removeprefix("torch."))
    return whole if kind.most and whole.itemsize < own.itemsize else own


def _as(flat: Tensor, kind: Kind) -> Tensor:
    """Numbers as they lie in memory, as a tensor."""
    back = [kind.order.index(axis) for axis in range(len(kind.order))]
    return flat.view([kind.shape[axis] for axis in kind.order]).permute(back)


def to_bytes(values: list[Tensor], kinds: list[Kind]) -> Tensor:
    """Values as uint8 [bytes] on the CPU: each as it lies in memory, spikes packed to one bit each.

    Raises:
        ValueError: a value has another shape than its kind.
    """
    parts = []
    for value, kind in zip(values, kinds, strict=True):
        if tuple(value.shape) != kind.shape:
            raise ValueError(f"a value of shape {tuple(value.shape)} is to cross a cut as one of {kind.shape}")
        flat = value.permute(kind.order).cpu().numpy()
        parts.append(packed(flat > 0) if kind.spikes else np.ascontiguousarray(flat, _type(kind)).reshape(-1).view(
            np.uint8))
    return torch.from_numpy(np.concatenate(parts))


def from_bytes(message: Tensor, kinds: list[Kind]) -> list[Tensor]:
    """Unpacks what :func:`to_bytes` packed, as torch's default type of floats.

    Raises:
        ValueError: these are not so many bytes.
    """
    data, found, at = message.numpy(), [], 0
    if data.size != sum(map(_sent_size, kinds)):
        raise ValueError(f"{data.size} bytes are not the values of {len(kinds)} kinds")
    for kind in kinds:
        part = data[at:at + _sent_size(kind)]
        at += _sent_size(kind)
        if kind.spikes:
            fired = np.empty(prod(kind.shape), bool)
            unpacked(part, fired)
            flat = torch.from_numpy(fired).to(torch.get_default_dtype())
        else:
            flat = torch.from_numpy(np.frombuffer(part.tobytes(), _type(kind)).copy()).to(torch.get_default_dtype())
        found.append(_as(flat, kind))
    return found
