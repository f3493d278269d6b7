# SPDX-License-Identifier: Apache-2.0
"""Losses of language: for what a sentence asks for, for what its words are for, and how hard it was."""
from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from brain_regions.language import sizes as z
from brain_training.definitions.language import Answer
from brain_training.language_data import MENTION
from brain_training.whole import ALONE, Whole

ELSEWHERE = 0.05        # weight of the roles of a byte that names no color and no shape
WANTED = 3.0            # weight of a role that is there, against one that is not
DECISION = 2.0          # weight of whether something is to be done, and what
WORDS = 2.0             # weight of what the words of things are for, each by the mean over its bytes, as it is decoded
ROLES = 0.5             # weight of the same for each byte by itself
NAMES = 1.0             # weight of which color or shape a word names, whatever it is for
MEANING = 0.5           # weight of what the sentence is, also where nothing is to be done
ACTIONS = 0.5           # weight of what the words of an action say


@dataclass(frozen=True)
class Recipe:
    """Hyperparameters of the training of language."""

    sentences: int = 360_000
    again: float = 0.5      # so many of the hardest come again in each next chapter, as a part (0 to 1) of its size
    chapters: int = 20
    batch: int = 32
    rate: float = 1e-2
    settled: float = 0.15   # last part of the way, on which charges are normalized as they will be live
    calm: float = 0.05      # weight of what is fired beyond RATE
    smoothing: float = 0.02


RATE = 0.25     # spikes per neuron and micro-step that cost nothing


def _for_what(answer: Answer) -> Tensor:
    """Logits of what each byte's word is for, nothing (always 0), target or avoided: [batch, 3, bytes]."""
    return F.pad(answer.evidence[..., :z.ACTION.start], (1, 0)).transpose(1, 2)


def _purpose(marks: Tensor) -> Tensor:
    """The same as it should be: 0, 1 or 2, [batch, bytes]."""
    return (marks >> z.TARGET & 1) + 2 * (marks >> z.AVOID & 1)


def by_word(answer: Answer, marks: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Averages over the bytes of each word for a color or shape, as the decoder does: what the word is for.

    Returns:
        Logits [words, 3], what they should say [words] (0, 1 or 2), and in which sentence of the batch each word
        stands [words].
    """
    mention = marks & int(MENTION) != 0
    before = F.pad(marks[:, :-1], (1, 0))
    begins = mention & (before != marks)
    place = (begins.flatten().cumsum(0) - 1).view_as(marks)[mention]
    row, wanted = begins.nonzero()[:, 0], _purpose(marks)[begins]
    said = _for_what(answer).transpose(1, 2)[mention]
    bytes_of = said.new_zeros(len(row)).index_add_(0, place, said.new_ones(len(place)))
    return said.new_zeros(len(row), 3).index_add_(0, place, said) / bytes_of[:, None], wanted, row


def decisions(verb: Tensor) -> Tensor:
    """Logits [batch, 4] of nothing to do, go, find and stop: all that is no order or refused is nothing to do."""
    nothing = torch.cat([verb[:, :1], verb[:, z.REFUSED:]], 1).logsumexp(1, keepdim=True)
    return torch.cat([nothing, verb[:, 1:z.REFUSED]], 1)


def decided(meaning: Tensor) -> Tensor:
    """The right one of :func:`decisions`, of the number of a meaning."""
    return meaning.where(meaning < z.REFUSED, 0)


def loss(answer: Answer, meaning: Tensor, marks: Tensor, lengths: Tensor, recipe: Recipe,
         whole: Whole = ALONE) -> Tensor:
    """Of a batch: what the sentence asks for, what its words are for, and spikes beyond what is needed.

    Weights, words and rates are those of the whole batch.
    """
    bits = (marks[..., None] >> torch.arange(z.OUTPUTS, device=marks.device)) & 1
    wanted = bits.float()
    inside = (torch.arange(marks.shape[1], device=lengths.device) < lengths[:, None]).float()
    mention = (marks & int(MENTION) != 0).float()
    weight = inside * (ELSEWHERE + mention)
    each = F.binary_cross_entropy_with_logits(answer.evidence[..., z.ACTION.start:], wanted[..., z.ACTION.start:],
                                              reduction="none")
    each = each * (1 + (WANTED - 1) * wanted[..., z.ACTION.start:])
    roles = F.cross_entropy(_for_what(answer), _purpose(marks), reduction="none")
    said, meant, _ = by_word(answer, marks)
    named = each[..., z.NAMED_COLOR.start - z.ACTION.start:].sum(-1)
    # all that is of the whole batch in one message
    (roles, weights, words, count, actions, named, inner), (decision, meant_so, chosen), layers = whole.sums_and_means(
        ((roles * weight).sum(), weight.sum(), F.cross_entropy(said, meant, reduction="sum"),
         torch.tensor(len(meant), device=said.device),
         (each[..., :z.NAMED_COLOR.start - z.ACTION.start].mean(-1) * inside).sum(), (named * weight).sum(),
         inside.sum()),
        (len(meaning), (F.cross_entropy(decisions(answer.verb), decided(meaning), label_smoothing=recipe.smoothing),
                        F.cross_entropy(answer.verb, meaning, label_smoothing=recipe.smoothing), answer.activity[-1])),
        (inside.sum(), answer.activity[:-1]))
    roles = roles / weights.clamp(min=1.0)
    words = words / count.clamp(min=1)
    actions, named = actions / inner, named / weights
    busy = sum(F.relu(layer - RATE).pow(2).mean() for layer in (*layers, chosen))
    return (DECISION * decision + WORDS * words + ROLES * roles + ACTIONS * actions + NAMES * named + MEANING * meant_so
            + recipe.calm * busy)


@torch.no_grad()
def hardness(answer: Answer, meaning: Tensor, marks: Tensor) -> Tensor:
    """Computes how wrongly each sentence is read, [batch]: what is asked for, and the worst word of a thing (nats)."""
    said, meant, row = by_word(answer, marks)
    worst = said.new_zeros(len(marks)).scatter_reduce_(0, row, F.cross_entropy(said, meant, reduction="none"), "amax")
    return F.cross_entropy(decisions(answer.verb), decided(meaning), reduction="none") + worst
