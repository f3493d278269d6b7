# SPDX-License-Identifier: Apache-2.0
"""A chain of spiking layers split by columns: each of several processes computes some of each layer's outputs.

A layer's outputs (the channels of a convolution) are its columns, as those of its weight matrix. A shard has the rows
of weights that lead to its columns and the membranes of their neurons; it hears all spikes of the layer before. After
each layer the spikes of all shards are gathered, packed to one bit each::

    charge[:, own] = conv(all spikes, weight[own])      # each shard its own
    spikes[:, own], v[own] = lif(charge[:, own], v[own])
    all spikes = gather(spikes[:, own])                 # 1 bit each

A column's sum has the same summands in any split. In which order they are added up, and so which last bits they give,
can depend on how many columns are computed at once. :mod:`.column_widths` finds how many a shard is to compute, its own
among them, to get the bits of the whole layer; who splits a network checks it where it runs (see :func:`same_bits`).
"""
from __future__ import annotations

from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol, Sequence

import numpy as np

from brain_regions.convolutions import Convolving
from brain_regions.membranes import LIF, lif_run
from brain_regions.vision.network import MICRO_STEP, settled

Bits = np.ndarray
"""uint8 [bytes]: one bit a spike, in the order of bool [micro-steps, rows, columns, own channels], last axis first."""


class Exchange(Protocol):
    """Communication of a network's shards; the host gives it. All of it raises what the host's is documented to raise.

    Attributes:
        rank: of this shard, 0 for the region's own process.
        size: how many there are.
    """

    @property
    def rank(self) -> int: ...

    @property
    def size(self) -> int: ...

    def patiently(self) -> AbstractContextManager[None]:
        """Waits for longer than in a step, as long as it lasts: for what is loaded."""

    def tell(self, data: bytes) -> None:
        """Shard 0 gives bytes to all others."""

    def hear(self) -> bytes:
        """Receives bytes from shard 0, however long that takes; for the others."""

    def gather(self, own: np.ndarray, lengths: Sequence[int]) -> list[np.ndarray]:
        """All shards give all others an array, uint8 [``lengths[rank]``], and have all of them."""

    def collect(self, own: np.ndarray, lengths: Sequence[int]) -> list[np.ndarray]:
        """As :meth:`gather`, but only shard 0 has them; the others have an empty list."""


class Layer(NamedTuple):
    """A convolution and its neurons.

    Attributes:
        weight, bias: [outputs, inputs, rows, columns] and [outputs].
        stride, padding, dilation: of the convolution.
        shape: rows, columns and outputs of its neurons.
        neuron: their parameters.
    """

    weight: np.ndarray
    bias: np.ndarray
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    shape: tuple[int, int, int]
    neuron: LIF

    def convolving(self) -> Convolving:
        """Makes what computes the charges of its neurons."""
        return Convolving(self.weight, self.bias, self.stride, self.padding, self.dilation)


def parts(columns: int, shards: int) -> list[slice]:
    """Splits ``columns`` over the shards: a slice for each, all of about one size, the first ones larger.

    Raises:
        ValueError: there are fewer columns than shards.
    """
    if not 0 < shards <= columns:
        raise ValueError(f"{columns} columns cannot be split over {shards} shards; take 1 to {columns}")
    least, more = divmod(columns, shards)
    ends = [least * k + min(k, more) for k in range(shards + 1)]
    return [slice(a, b) for a, b in zip(ends, ends[1:])]


def window(own: slice, width: int, columns: int) -> slice:
    """So many of ``columns``, with the own ones among them.

    Raises:
        ValueError: these are fewer than the own ones, or more than there are.
    """
    if not own.stop - own.start <= width <= columns:
        raise ValueError(f"{width} columns cannot be computed for {own.stop - own.start} of {columns}")
    start = min(own.start, columns - width)
    return slice(start, start + width)


def packed(spikes: np.ndarray) -> Bits:
    """One bit for each spike, bool of any shape."""
    return np.packbits(spikes)


def unpacked(bits: Bits, into: np.ndarray) -> None:
    """Puts spikes back into an array, bool of the shape that they were packed with (it need not be contiguous).

    Raises:
        ValueError: these are not so many spikes.
    """
    if bits.size != packed_size(into.shape):
        raise ValueError(f"{bits.size} bytes are not the spikes of {into.size} neurons and steps")
    into[...] = np.unpackbits(bits, count=into.size).view(bool).reshape(into.shape)


def packed_size(shape: Sequence[int]) -> int:
    """Bytes of spikes of a shape."""
    return -(-int(np.prod(shape)) // 8)


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Tells whether two float32 arrays are equal to the bit."""
    return a.shape == b.shape and np.array_equal(np.ascontiguousarray(a).view(np.uint32),
                                                 np.ascontiguousarray(b).view(np.uint32))


class Columns:
    """One shard's part of a chain of layers: its columns' weights and membranes.

    Args:
        layers: of the whole network; a copy of the own columns is kept.
        exchange: with the other shards.
        widths: how many columns are computed, by layer and number of micro-steps that it hears (the last for all that
            are more), see :mod:`.column_widths`; the same at all shards. None: the own ones.

    Attributes:
        potentials: by layer, of the own neurons: float32 [rows, columns, own channels].

    Raises:
        ValueError: a layer has fewer columns than there are shards, or ``widths`` are not of these layers.
    """

    def __init__(self, layers: Sequence[Layer], exchange: Exchange, widths: Sequence[Sequence[int]] | None = None
                 ) -> None:
        self._exchange = exchange
        self._shapes = [layer.shape for layer in layers]
        self._neurons = [layer.neuron for layer in layers]
        self._parts = [parts(layer.shape[-1], exchange.size) for layer in layers]
        own = [each[exchange.rank] for each in self._parts]
        if widths is None:
            widths = [[part.stop - part.start] for part in own]
        if len(widths) != len(layers) or not all(widths):
            raise ValueError(f"widths are told of {len(widths)} layers, and there are {len(layers)}")
        self._computed = [_windows(*each) for each in zip(layers, own, widths)]
        self.potentials = [np.zeros((*y.shape[:-1], part.stop - part.start), np.float32)
                           for y, part in zip(layers, own)]

    def fire(self, k: int, heard: np.ndarray, steps: int) -> Bits:
        """Runs the own neurons of layer ``k`` for ``steps`` micro-steps.

        Args:
            heard: float32 [steps or 1, rows, columns, inputs]; one: the same in all micro-steps.

        Returns:
            Their spikes.
        """
        charged, own = self._computed[k][min(len(heard), len(self._computed[k])) - 1]
        charge = np.ascontiguousarray(charged(heard)[..., own])
        v = settled(self.potentials[k])
        fired = np.empty((steps, *v.shape), bool)
        _, self.potentials[k] = (
            lif_run(charge, v, self._neurons[k], MICRO_STEP, fired, charge) if len(charge) == steps else
            lif_run(np.broadcast_to(charge[0], fired.shape), v, self._neurons[k], MICRO_STEP, fired))
        return packed(fired)

    def of_all(self, k: int, bits: Bits, steps: int, everybody: bool = True) -> np.ndarray | None:
        """Spikes of the whole layer, from those of each shard; all shards call it.

        Args:
            bits: the own ones.
            everybody: all shards want them; else shard 0 alone, and the others get None.

        Returns:
            bool [steps, rows, columns, channels].
        """
        shape, each = self._shapes[k], self._parts[k]
        shapes = [(steps, *shape[:-1], part.stop - part.start) for part in each]
        move = self._exchange.gather if everybody else self._exchange.collect
        found = move(bits, [packed_size(of_one) for of_one in shapes])
        if not found:
            return None
        whole = np.empty((steps, *shape), bool)
        for part, more in zip(each, found):
            unpacked(more, whole[..., part])
        return whole

    # -- membranes -------------------------------------------------------------------------------------------------

    def take(self, whole: Sequence[np.ndarray]) -> None:
        """Goes on from potentials of the whole network, by layer float32 [rows, columns, channels]."""
        self.potentials = [np.ascontiguousarray(v[..., each[self._exchange.rank]])
                           for v, each in zip(whole, self._parts)]

    def told(self, data: bytes) -> list[np.ndarray]:
        """Potentials of the whole network by layer, from the bytes that shard 0 told (float32, one after the other).

        Raises:
            ValueError: these are not so many.
        """
        flat = np.frombuffer(data, np.float32)
        ends = np.cumsum([int(np.prod(shape)) for shape in self._shapes])
        if flat.size != ends[-1]:
            raise ValueError(f"{flat.size} potentials were told to a network of {ends[-1]} neurons")
        return [part.reshape(shape) for part, shape in zip(np.split(flat, ends[:-1]), self._shapes)]

    def collected(self) -> list[np.ndarray]:
        """Potentials of the whole network, by layer; all shards call it. For all but shard 0 an empty list."""
        size = self._exchange.size
        neurons = [[int(np.prod(shape[:-1])) * (each[rank].stop - each[rank].start)
                    for shape, each in zip(self._shapes, self._parts)] for rank in range(size)]
        own = np.concatenate([v.reshape(-1) for v in self.potentials]).view(np.uint8)
        found = self._exchange.collect(own, [4 * sum(counts) for counts in neurons])
        whole = [np.empty(shape, np.float32) for shape in self._shapes] if found else []
        for rank, data in enumerate(found):
            flat, start = data.view(np.float32), 0
            for v, each, count in zip(whole, self._parts, neurons[rank]):
                v[..., each[rank]] = flat[start:start + count].reshape(*v.shape[:-1], -1)
                start += count
        return whole


def _windows(layer: Layer, own: slice, widths: Sequence[int]) -> list[tuple[Convolving, slice]]:
    """For each of ``widths``: what computes so many columns of a layer, and which of these are the own ones."""
    made = {}
    for width in set(widths):
        wide = window(own, width, layer.shape[-1])
        made[width] = (layer._replace(weight=layer.weight[wide], bias=layer.bias[wide]).convolving(),
                       slice(own.start - wide.start, own.stop - wide.start))
    return [made[width] for width in widths]
