# SPDX-License-Identifier: Apache-2.0
"""The networks of vision and motor whose layers are split over the ranks of a group; language is :mod:`.tensor_reader`.

Each is the class that is trained in one process, with the own part of the weights and other answers to its questions
what a layer takes in and what it hands on. So its forward pass is the same code.

Exact mode: all layers are split by columns, and each layer's spikes are gathered. Readouts are the same on all ranks.
Classic mode, Megatron's: layers by turns are split by columns, whose spikes stay where they are, and by rows, whose
charges are summed up; the neurons behind the sum are the same on all ranks. What is added up in another order can flip
a spike.
"""
from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Mapping, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from brain_training.definitions.motor import MotorNetwork
from brain_training.definitions.vision import SpikingVision
from brain_training.parallel.gathering import Gathering

EXACT, CLASSIC = "exact", "classic"
MODES = (EXACT, CLASSIC)
_N = TypeVar("_N", bound="Split")


class Share(NamedTuple):
    """Split of a parameter or buffer: dimension and columns.

    Attributes:
        dim: in which dimension, by its columns (or rows).
        columns: how many all ranks have.
        blocks: so many times does the dimension have them, one after the other, each of which is split.
    """

    dim: int
    columns: int
    blocks: int = 1

    def part(self, whole: Tensor, part: slice) -> Tensor:
        """Those of one rank, as new memory in the layout of the whole."""
        found = whole.detach().unflatten(self.dim, (self.blocks, self.columns))
        found = found.narrow(self.dim + 1, part.start, part.stop - part.start).flatten(self.dim, self.dim + 1)
        if whole.dim() == 4 and whole.is_contiguous(memory_format=torch.channels_last):
            return found.clone(memory_format=torch.channels_last)
        return found.clone(memory_format=torch.contiguous_format)

    def joined(self, own: Tensor, gathering: Gathering) -> Tensor:
        """The whole, from that of each rank; all ranks call it."""
        parts = own.detach().unflatten(self.dim, (self.blocks, -1))
        return gathering.all_floats(parts, self.columns, self.dim + 1).flatten(self.dim, self.dim + 1)


Splits = dict[str, Share]
"""By name of a parameter or buffer that is split."""


class Split(nn.Module, ABC):
    """Base of the split networks.

    Attributes:
        whole_class: what a gathered network is.
        gathering: with the other ranks.
        mode: one of :data:`MODES`.
        splits: which weights are split.
    """

    whole_class: ClassVar[type[nn.Module]]
    gathering: Gathering
    mode: str
    splits: Splits

    @classmethod
    def of(cls: type[_N], network: nn.Module, gathering: Gathering, mode: str) -> _N:
        """The own part of a whole network, which is not changed.

        Raises:
            ValueError: a layer has fewer columns than there are ranks.
        """
        split = cls.__new__(cls)
        nn.Module.__init__(split)
        split.__dict__.update({name: value for name, value in network.__dict__.items() if not name.startswith("_")})
        split._modules = copy.deepcopy(network._modules)
        split._parameters = copy.deepcopy(network._parameters)
        split._buffers = copy.deepcopy(network._buffers)
        split.gathering, split.mode = gathering, mode
        split.splits = split._plan()
        for name, share in split.splits.items():
            split._put(name, share.part(split.tensor(name), gathering.own(share.columns)))
        split._settle()
        return split

    @abstractmethod
    def _plan(self) -> Splits:
        """Returns which weights are split, of the whole network, and how."""

    def _settle(self) -> None:
        """Adapts whatever else depends on the own columns."""

    def tensor(self, name: str) -> Tensor:
        """The own part of a parameter or buffer."""
        owner, _, last = name.rpartition(".")
        return getattr(self.get_submodule(owner), last)

    def _put(self, name: str, value: Tensor) -> None:
        owner, _, last = name.rpartition(".")
        module = self.get_submodule(owner)
        setattr(module, last, nn.Parameter(value) if last in module._parameters else value)

    def joined(self) -> dict[str, Tensor]:
        """The state of the whole network, gathered; all ranks call it, and all have it."""
        return {name: self.splits[name].joined(value, self.gathering) if name in self.splits
                else value.detach().clone() for name, value in self.state_dict().items()}

    @torch.no_grad()
    def take(self, state: Mapping[str, Tensor]) -> None:
        """Takes the own part of the state of a whole network."""
        for name, value in self.state_dict().items():
            if name in self.splits:
                share = self.splits[name]
                value.copy_(share.part(state[name], self.gathering.own(share.columns)))
            else:
                value.copy_(state[name])

    def whole(self) -> nn.Module:
        """The whole network, gathered, on the CPU; all ranks call it, and all have it."""
        network = self._empty()
        network.load_state_dict({name: value.cpu() for name, value in self.joined().items()})
        return network.train(self.training)

    @abstractmethod
    def _empty(self) -> nn.Module:
        """A whole network of the same sizes, whose weights do not count."""


class Handing(Split):
    """Keeps, beside the spikes that all ranks have, the same ones for the own columns of the next layer, and the own.

    They are attributes of the tensor: the layer's code hands on one.
    """

    def _handed(self, own: Tensor, columns: int, dim: int, rates: bool = False) -> Tensor:
        """Gathered spikes, or rates; what feeds them to own columns asks :meth:`_shared`."""
        shared, whole = self.gathering.spikes(own, columns, dim, rates)
        whole.own, whole.shared = own, shared       # type: ignore[attr-defined]
        return whole

    def _shared(self, x: Tensor) -> Tensor:
        """Returns the spikes that all ranks have, for the own columns of each."""
        found = getattr(x, "shared", None)
        return found if found is not None else self.gathering.copied(x)


class SplitVision(Handing, SpikingVision):
    """Vision. In classic mode layers 0, 2 and 4 are split by columns, 1, 3 and 5 by rows."""

    whole_class = SpikingVision

    def _plan(self) -> Splits:
        self.whole_layers = self.layers
        found: Splits = {}
        for k, layer in enumerate(self.layers):
            if self._by_rows(k):
                found[f"convolutions.{k}.weight"] = Share(1, layer.inputs)
                continue
            names = ("weight", "bias", "running_mean", "running_var")
            found |= {f"convolutions.{k}.{name}": Share(0, layer.outputs) for name in names[:2]}
            found |= {f"norms.{k}.{name}": Share(0, layer.outputs) for name in names}
        return found

    def _by_rows(self, k: int) -> bool:
        return self.mode == CLASSIC and k % 2 == 1

    def _settle(self) -> None:
        own = []
        for k, layer in enumerate(self.whole_layers):
            if not self._by_rows(k):
                part = self.gathering.own(layer.outputs)
                layer = layer._replace(outputs=part.stop - part.start)
            own.append(layer)
        self.layers = self.whole_layers.of(own)
        for layer, whole, convolution, norm in zip(self.layers, self.whole_layers, self.convolutions, self.norms):
            convolution.out_channels, convolution.in_channels = convolution.weight.shape[:2]
            norm.num_features = layer.outputs
            if layer.outputs != whole.outputs:
                norm.place = 1, self.gathering.own(whole.outputs).start, whole.outputs

    def _charge(self, k: int, x: Tensor) -> Tensor:
        if not self._by_rows(k):
            return super()._charge(k, x)
        c = self.convolutions[k]
        charge = nn.functional.conv2d(x, c.weight, None, c.stride, c.padding, c.dilation)
        return self._normalized(k, self.gathering.summed(charge) + c.bias[:, None, None])

    def _channels(self, k: int) -> range:
        part = self.gathering.own(self.whole_layers[k].outputs)
        return super()._channels(k) if self._by_rows(k) else range(part.start, part.stop)

    def _heard(self, k: int, spikes: Tensor) -> Tensor:
        return spikes if not k or self._by_rows(k) else self._shared(spikes)

    def _fired(self, k: int, spikes: Tensor) -> Tensor:
        return (spikes if self.mode == CLASSIC
                else self._handed(spikes, self.whole_layers[k].outputs, 2, rates=self.steady))

    def _empty(self) -> nn.Module:
        return SpikingVision(self.whole_layers).to(memory_format=torch.channels_last)

    def folded(self) -> Any:
        """That of the whole network; all ranks call it."""
        return self.whole().folded()


class SplitMotor(Handing, MotorNetwork):
    """Motor. In classic mode the second layer and the readout are split by rows, the others by columns."""

    whole_class = MotorNetwork

    def _plan(self) -> Splits:
        found: Splits = {}
        for k in range(3):
            before, after = getattr(self, f"w{k}").shape
            if self._by_rows(k):
                found[f"w{k}"] = Share(0, before)
            else:
                found |= {f"w{k}": Share(1, after), f"b{k}": Share(0, after)}
        self.columns = [getattr(self, f"w{k}").shape[1] for k in range(3)]
        if self.mode == CLASSIC:
            found |= {name: Share(0, self.columns[2]) for name in ("readout", "mask")}
        return found

    def _by_rows(self, k: int) -> bool:
        return self.mode == CLASSIC and k == 1

    def rest(self, batch: int) -> dict[str, Tensor]:
        """State before the first step: potentials of the own neurons, and all readouts."""
        state = super().rest(batch)
        for k, columns in enumerate(self.columns):
            if not self._by_rows(k):
                part = self.gathering.own(columns)
                state[f"v{k}"] = state[f"v{k}"][:, part].clone()
        return state

    def _charge(self, k: int, x: Tensor) -> Tensor:
        if self._by_rows(k):
            return self.gathering.summed(x.own @ self.w1) + self.b1     # type: ignore[attr-defined]
        return super()._charge(k, self._shared(x) if k else x)

    def _fired(self, k: int, spikes: Tensor) -> Tensor:
        if self._by_rows(k):
            return spikes
        # in classic mode the loss alone asks for those of all ranks
        return self._handed(spikes, self.columns[k], spikes.dim() - 1)

    def _answered(self, heard: Tensor) -> Tensor:
        if self.mode == EXACT:
            return super()._answered(heard)
        part = self.gathering.own(self.columns[2])
        return self.gathering.summed(super()._answered(heard[..., part]))

    def _empty(self) -> nn.Module:
        import numpy as np

        return MotorNetwork(np.random.default_rng(0), self.spiking, self.layers)

    def folded(self) -> Any:
        """That of the whole network; all ranks call it."""
        return MotorNetwork.folded(self.whole())

    def live(self) -> Any:
        """That of the whole network; all ranks call it."""
        return MotorNetwork.live(self.whole())
