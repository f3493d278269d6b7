# SPDX-License-Identifier: Apache-2.0
"""Numbers of columns that a shard computes at once, so that each of them is added up as in the whole layer.

In which order a library adds up the summands of a column can depend on how many columns it is asked for: it takes
another kernel for few of them, or has them in another place of a block. So a shard whose own columns alone would get
other bits computes some of its neighbours', too, and leaves those aside. How many, is not known but tried, by layer and
by number of pictures: the fewest of :func:`candidates` that give all shards the bits of the whole layer. The last
candidate is the whole layer, so there is always one; only that layer is then no quicker than in one process.
"""
from __future__ import annotations

from typing import Sequence

import numpy as np

from brain_collectives.columns import Layer, parts, same_bits, window

LEAST_BLOCK = 4     # columns that a kernel has at once, at least


def candidates(own: int, columns: int) -> list[int]:
    """Numbers of columns that may be computed for ``own`` of them: these, in blocks of 4, 8, 16 and so on, and all."""
    found, block = {own, columns}, LEAST_BLOCK
    while block < columns:
        found.add(min(-(-own // block) * block, columns))
        block *= 2
    return sorted(found)


def agree(layer: Layer, heard: np.ndarray, shards: int, width: int) -> bool:
    """Checks whether shards that compute ``width`` columns each get the charges of the whole layer, to the bit.

    Args:
        heard: float32 [pictures, rows, columns, inputs].

    Raises:
        ValueError: the layer has fewer columns than there are shards.
    """
    columns = layer.shape[-1]
    each = parts(columns, shards)
    if width == columns:
        return True
    whole = layer.convolving()(heard)
    for own in each:
        wide = window(own, width, columns)
        found = layer._replace(weight=layer.weight[wide], bias=layer.bias[wide]).convolving()(heard)
        if not same_bits(found[..., own.start - wide.start:own.stop - wide.start], whole[..., own]):
            return False
    return True


def found_by_trying(layer: Layer, heard: tuple[int, int, int], shards: int, numbers: Sequence[int]) -> list[int]:
    """The fewest columns that each shard is to compute of a layer so that shards :func:`agree`.

    Tried with weights and inputs at random, none of which is 0: another order of adding shows in most sums then. So the
    answer depends on this processor, its libraries and the layer's shapes alone.

    Args:
        heard: rows, columns and channels of the inputs.
        shards: how many there are.
        numbers: of micro-steps at once, for each of which there is an answer.

    Raises:
        ValueError: the layer has fewer columns than there are shards.
    """
    rng = np.random.default_rng(0)
    weight, bias = (rng.standard_normal(values.shape, np.float32) for values in (layer.weight, layer.bias))
    layer = layer._replace(weight=weight, bias=bias)
    inputs = rng.standard_normal((max(numbers), *heard), np.float32)
    own = max(part.stop - part.start for part in parts(layer.shape[-1], shards))
    return [next(width for width in candidates(own, layer.shape[-1]) if agree(layer, inputs[:number], shards, width))
            for number in numbers]


def widths(layers: Sequence[Layer], heard: tuple[int, int, int], shards: int, most: int) -> list[list[int]]:
    """Finds how many columns each shard of a chain of layers is to compute, see :func:`found_by_trying`.

    Args:
        heard: rows, columns and channels of the picture, of which the first layer hears one for all micro-steps.
        shards: how many there are.
        most: micro-steps at once.

    Returns:
        By layer, for 1 to ``most`` micro-steps at once (the first layer: one entry).

    Raises:
        ValueError: a layer has fewer columns than there are shards.
    """
    shapes = [heard, *(layer.shape for layer in layers)]
    return [found_by_trying(layer, shape, shards, range(1, most + 1 if k else 2))
            for k, (layer, shape) in enumerate(zip(layers, shapes))]
