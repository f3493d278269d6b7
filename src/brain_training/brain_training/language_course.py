# SPDX-License-Identifier: Apache-2.0
"""The order in which sentences are read: short ones first, and the hardest again."""
from __future__ import annotations

from typing import Any, Mapping

import numpy as np
import torch
from torch import Tensor

from brain_training.language_loss import Recipe
from brain_training.task import torch_stream

SHORT = 45.0            # bytes
SHORT_PART = 0.25       # of the way is for short sentences
SHORT_SHARE = 0.6       # of the short sentences that come in it


def by_length(rows: Tensor, lengths: Tensor, size: int, generator: torch.Generator) -> list[Tensor]:
    """Batches of sentences of about one length; the last may be smaller."""
    near = lengths[rows] + 6 * torch.rand(len(rows), generator=generator)
    return list(rows[near.argsort()].split(size))


def batches(lengths: Tensor, size: int, generator: torch.Generator) -> list[Tensor]:
    """Row numbers of batches of sentences of about one length, in random order, but short ones first.

    They teach words at less cost: the chance of a sentence of n bytes to come in the first SHORT_PART of the way falls
    with n.
    """
    groups = by_length(torch.randperm(len(lengths), generator=generator), lengths, size, generator)
    mean = torch.tensor([lengths[rows].mean() for rows in groups])
    when = torch.rand(len(groups), generator=generator)
    early = (torch.rand(len(groups), generator=generator) < SHORT_SHARE) & (mean < SHORT)
    when = torch.where(early, when * SHORT_PART, SHORT_PART + (1 - SHORT_PART) * when)
    return [groups[i] for i in when.argsort()]


class Course:
    """Chapter by chapter, and the hardest that a chapter held again in the next.

    Most sentences teach nothing any more once a network reads them well, and those it stumbles over are few. What stays
    hard comes again in every chapter. The order of a chapter is drawn when it begins, from the seed and its number.

    Args:
        lengths: of all sentences, int64.
        recipe: how much comes how often.
        seed: of the order.
    """

    def __init__(self, lengths: np.ndarray, recipe: Recipe, seed: int) -> None:
        self._lengths, self._recipe, self._seed = torch.from_numpy(lengths).float(), recipe, seed
        groups = batches(self._lengths, recipe.batch, torch_stream("language course", seed))
        ends = [len(groups) * n // recipe.chapters for n in range(recipe.chapters + 1)]
        self._chapters = [groups[a:b] for a, b in zip(ends, ends[1:]) if a < b]
        reviews = [0, *(-(-self._reviewed(chapter) // recipe.batch) for chapter in self._chapters[:-1])]
        sizes = [len(chapter) + again for chapter, again in zip(self._chapters, reviews)]
        self._begins = np.cumsum([0, *sizes]).tolist()
        self._hard = torch.zeros(len(self._lengths))
        self._open(0, torch.empty(0, dtype=torch.int64))

    def __len__(self) -> int:
        """Returns the number of batches of all chapters."""
        return self._begins[-1]

    def rows(self, step: int) -> Tensor:
        """Row numbers of the batch of a step.

        Those of a chapter rest on what the one before was like: :meth:`note` each batch before asking for the next.

        Raises:
            ValueError: the step is of a chapter that is over.
        """
        while step >= self._begins[self._number + 1]:
            read = torch.cat([*self._chapters[self._number], self._again])
            hardest = self._hard[read].argsort(descending=True, stable=True)
            self._open(self._number + 1, read[hardest[:self._reviewed(self._chapters[self._number])]])
        if step < self._begins[self._number]:
            raise ValueError(f"step {step} is of a chapter that is over; the open one begins with step "
                             f"{self._begins[self._number]}")
        return self._todo[step - self._begins[self._number]]

    def note(self, rows: Tensor, hard: Tensor) -> None:
        """Remembers how hard sentences were when they were read last."""
        self._hard[rows] = hard

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Returns the hardness of each sentence, those that come again in the open chapter, and its number."""
        return {"hard": self._hard, "again": self._again}, {"chapter": self._number}

    def restore(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
        """Takes back what :meth:`state` gave."""
        self._hard = tensors["hard"].clone()
        self._open(values["chapter"], tensors["again"])

    def _open(self, number: int, again: Tensor) -> None:
        """Begins a chapter, the reviews scattered among what is fresh."""
        generator, chapter = torch_stream("language chapter", self._seed, number), self._chapters[number]
        reviews = by_length(again, self._lengths, self._recipe.batch, generator) if len(again) else []
        when = torch.cat([torch.arange(len(chapter)).float(),
                          len(chapter) * torch.rand(len(reviews), generator=generator)])
        todo = chapter + reviews
        self._number, self._again, self._todo = number, again, [todo[place] for place in when.argsort(stable=True)]

    def _reviewed(self, chapter: list[Tensor]) -> int:
        return int(self._recipe.again * sum(len(rows) for rows in chapter))
