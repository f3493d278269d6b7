# SPDX-License-Identifier: Apache-2.0
"""Convolutions in NumPy, where a region runs without torch: one matrix product for all positions and micro-steps.

What a kernel covers is copied side by side first (im2col; K. Chellapilla, S. Puri, P. Simard: High Performance
Convolutional Neural Networks for Document Processing, 2006). Channels lie next to each other, so a row of the kernel is
one run of memory. A process without torch takes a fraction of its memory, and starts sooner.
"""
from __future__ import annotations

from typing import Callable, NamedTuple, Sequence

import numpy as np

Charging = Callable[[np.ndarray], np.ndarray]
"""From float32 [pictures, rows, columns, inputs] to new float32 [pictures, rows, columns, outputs]."""


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
    """

    def __init__(self, weight: np.ndarray, bias: np.ndarray, stride: Sequence[int] = (1, 1),
                 padding: Sequence[int] = (0, 0), dilation: Sequence[int] = (1, 1)) -> None:
        self._kernel, self._stride, self._padding, self._dilation = weight.shape[2:], stride, padding, dilation
        self._weight = np.ascontiguousarray(weight.transpose(2, 3, 1, 0), np.float32).reshape(-1, len(weight))
        self._bias = np.ascontiguousarray(bias, np.float32)
        self._rooms: dict[tuple[int, ...], _Room] = {}

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Convolves float32 [pictures, rows, columns, inputs] to new float32 [pictures, rows, columns, outputs]."""
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

    def _room(self, shape: tuple[int, ...]) -> _Room:
        pictures, rows, columns, channels = shape
        (up, aside), (down, right), (far, wide) = self._padding, self._stride, self._dilation
        whole = np.zeros((pictures, rows + 2 * up, columns + 2 * aside, channels), np.float32)
        a, b, c, d = whole.strides
        height, width = self._kernel
        covered = np.lib.stride_tricks.as_strided(
            whole, (pictures, (rows + 2 * up - far * (height - 1) - 1) // down + 1,
                    (columns + 2 * aside - wide * (width - 1) - 1) // right + 1, height, width, channels),
            (a, b * down, c * right, b * far, c * wide, d), writeable=False)
        return _Room(whole[:, up:up + rows, aside:aside + columns], covered, np.empty(covered.shape, np.float32))
