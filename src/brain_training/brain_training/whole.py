# SPDX-License-Identifier: Apache-2.0
"""The batch of a step as a whole, where each process has a part of it.

A loss that divides by what a batch counts (objects, words, weights), or that asks for the mean rate of a neuron, is no
mean over samples: of its parts another number comes out than of the whole. It takes its sums and means from a
:class:`Whole`. In one process they are what was put in, to the bit. Of several each process gets the sum over all, and
so the loss of the whole batch; its gradient is what its own samples have in it, and the sum of all processes' gradients
is that of the whole loss.
"""
from __future__ import annotations

from typing import Any, Sequence

import numpy as np
from torch import Tensor


class Whole:
    """The batch of one process, which is the whole. Others make it of parts: :mod:`brain_training.parallel`.

    Attributes:
        rank: which part this is, from 0.
        size: how many there are.
    """

    rank: int = 0
    size: int = 1

    def sums(self, *parts: Tensor) -> tuple[Tensor, ...]:
        """Sums over all parts, of what was summed over this one; at once where possible, it may be a message."""
        return parts

    def means(self, count: Tensor | int, *parts: Tensor) -> tuple[Tensor, ...]:
        """Means over all parts, of means over ``count`` things of this one."""
        return parts

    def sums_and_means(self, sums: Sequence[Tensor], *means: tuple[Tensor | int, Sequence[Tensor]]
                       ) -> tuple[tuple[Tensor, ...], ...]:
        """:meth:`sums` and some :meth:`means`, each of a count and parts, in one message: it costs as much as one."""
        return (tuple(sums), *(tuple(parts) for _, parts in means))

    def most(self, number: int) -> int:
        """The greatest of all parts' numbers."""
        return number

    def part(self, items: Sequence[Any]) -> Sequence[Any]:
        """Those of the things to be made that this part makes: as many as others, or one more; parts keep order."""
        return items

    def joined(self, array: np.ndarray, axis: int, of: int) -> np.ndarray:
        """Joins what all parts made of :meth:`part`, one behind the other.

        Args:
            array: what this part made.
            axis: along which parts are put together.
            of: how many things there are in all parts.
        """
        return array


ALONE = Whole()
