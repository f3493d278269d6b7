# SPDX-License-Identifier: Apache-2.0
"""Convolutions where a region runs without torch: driven by events in C, and in NumPy where that was not built.

By events (``events.c``): each input that is not 0 adds its row of the weights to what hears it, so a layer costs what
its spikes cause, and any machine gets the same bits. In NumPy: one matrix product for all positions and micro-steps,
of what a kernel covers copied side by side first (im2col; K. Chellapilla, S. Puri, P. Simard: High Performance
Convolutional Neural Networks for Document Processing, 2006); sums are added in the order of its BLAS, and so differ in
their last bits. Channels lie next to each other, so a row of the kernel is one run of memory. A process without torch
takes a fraction of its memory, and starts sooner.
"""
from __future__ import annotations

import ctypes
import functools
from pathlib import Path
from typing import Any, Callable, NamedTuple, Sequence

import numpy as np

Charging = Callable[[np.ndarray], np.ndarray]
"""From float32 [pictures, rows, columns, inputs] to new float32 [pictures, rows, columns, outputs]."""
LIBRARY = Path(__file__).with_name("_events.abi3.so")
"""Built from ``events.c`` where the package is installed with a C compiler."""
LANES = 8               # outputs at once, of which their number is filled up to a multiple
MOST_INPUTS = 65_535
_EVENT = np.dtype([("channel", np.uint16), ("value", np.float32)], align=True)


class _Shape(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64) for name in (
        "pictures", "rows", "columns", "channels", "kernel_rows", "kernel_columns", "outputs", "out_rows",
        "out_columns", "down", "right", "up", "aside", "far", "wide")]


@functools.lru_cache(maxsize=1)
def by_events() -> Any | None:
    """The compiled function, or None where it was not built."""
    try:
        found = ctypes.CDLL(str(LIBRARY)).convolve
    except OSError:
        return None
    found.argtypes, found.restype = (ctypes.c_void_p,) * 7, None
    return found


class _Room(NamedTuple):
    """Memory for inputs of one shape: with a margin; what a kernel covers in it; and a copy of that."""

    inside: np.ndarray
    covered: np.ndarray
    beside: np.ndarray


class Convolving:
    """A convolution with its weights.

    Args:
        weight: [outputs, inputs, rows, columns]; ``bias`` [outputs].
        stride, padding, dilation: of rows and columns.
        compiled: take :func:`by_events`, where it was built.
    """

    def __init__(self, weight: np.ndarray, bias: np.ndarray, stride: Sequence[int] = (1, 1),
                 padding: Sequence[int] = (0, 0), dilation: Sequence[int] = (1, 1), compiled: bool = True) -> None:
        self._kernel, self._stride, self._padding, self._dilation = weight.shape[2:], stride, padding, dilation
        self._weight = np.ascontiguousarray(weight.transpose(2, 3, 1, 0), np.float32).reshape(-1, len(weight))
        self._bias = np.ascontiguousarray(bias, np.float32)
        self._rooms: dict[tuple[int, ...], _Room] = {}
        self._compiled = by_events() if compiled and weight.shape[1] <= MOST_INPUTS else None
        self._outputs = len(weight)
        if self._compiled is not None and (lacking := -self._outputs % LANES):
            self._weight = np.pad(self._weight, ((0, 0), (0, lacking)))
            self._bias = np.pad(self._bias, (0, lacking))
        self._shape: tuple[tuple[int, ...], _Shape, tuple[int, ...]] | None = None      # of what was heard last
        self._events: tuple[np.ndarray, np.ndarray]

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Convolves float32 [pictures, rows, columns, inputs] to new float32 [pictures, rows, columns, outputs].

        Raises:
            ValueError: it has other channels than the weights.
        """
        if x.shape[3] * self._kernel[0] * self._kernel[1] != len(self._weight):
            raise ValueError(f"{x.shape[3]} channels are heard, and the weights are for others")
        return self._product(x) if self._compiled is None else self._by_events(x)

    def _by_events(self, x: np.ndarray) -> np.ndarray:
        x = np.ascontiguousarray(x, np.float32)
        if self._shape is None or self._shape[0] != x.shape:
            pictures, rows, columns, channels = x.shape
            size = self._size(rows, columns)
            self._shape = x.shape, _Shape(*x.shape, *self._kernel, len(self._bias), *size, *self._stride,
                                          *self._padding, *self._dilation), (pictures, *size, len(self._bias))
            self._events = np.empty(rows * columns * channels + 1, _EVENT), np.empty(rows * columns, np.int32)
        _, told, size = self._shape
        found = np.empty(size, np.float32)
        events, counts = self._events
        self._compiled(ctypes.byref(told), x.ctypes.data, self._weight.ctypes.data, self._bias.ctypes.data,
                       found.ctypes.data, events.ctypes.data, counts.ctypes.data)
        return found if found.shape[-1] == self._outputs else np.ascontiguousarray(found[..., :self._outputs])

    def _product(self, x: np.ndarray) -> np.ndarray:
        count, shape = len(x), x.shape[1:]
        room = self._rooms.get(shape)
        if room is None or len(room.inside) < count:    # fewer pictures use a part of it
            room = self._rooms[shape] = self._room((count, *shape))
        beside = room.beside[:count]
        np.copyto(room.inside[:count], x)
        np.copyto(beside, room.covered[:count])
        found = np.dot(beside.reshape(-1, len(self._weight)), self._weight)
        found += self._bias
        return found.reshape(*beside.shape[:3], -1)

    def _size(self, rows: int, columns: int) -> tuple[int, ...]:
        """Rows and columns of the outputs."""
        return tuple((size + 2 * margin - spread * (kernel - 1) - 1) // step + 1 for size, margin, spread, kernel, step
                     in zip((rows, columns), self._padding, self._dilation, self._kernel, self._stride))

    def _room(self, shape: tuple[int, ...]) -> _Room:
        pictures, rows, columns, channels = shape
        (up, aside), (down, right), (far, wide) = self._padding, self._stride, self._dilation
        whole = np.zeros((pictures, rows + 2 * up, columns + 2 * aside, channels), np.float32)
        a, b, c, d = whole.strides
        covered = np.lib.stride_tricks.as_strided(
            whole, (pictures, *self._size(rows, columns), *self._kernel, channels),
            (a, b * down, c * right, b * far, c * wide, d), writeable=False)
        return _Room(whole[:, up:up + rows, aside:aside + columns], covered, np.empty(covered.shape, np.float32))
