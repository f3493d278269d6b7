# SPDX-License-Identifier: Apache-2.0
"""Training of language: sentences in, a trained network out."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Iterator

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from brain_regions.language import sizes as z
from brain_regions.language.decode import decode, spell
from brain_regions.language.network import Heard
from brain_training.language_data import MENTION, Batch, encode
from brain_training.language_network import Answer, SpikingReader

Progress = Callable[[str, int, int, str], None]
ELSEWHERE = 0.05        # weight of the roles of a byte that names no color and no shape
WANTED = 3.0            # weight of a role that is there, against one that is not
SHORT = 45.0            # bytes
SHORT_PART = 0.25       # of the way is for short sentences
SHORT_SHARE = 0.6       # of the short sentences that come in it
DECISION = 2.0          # weight of what the sentence asks for
WORDS = 2.0             # weight of what the words of things are for, each by the mean over its bytes, as it is decoded
ROLES = 0.5             # weight of the same for each byte by itself
NAMES = 1.0             # weight of which color or shape a word names, whatever it is for
KIND = 0.3              # weight of the kind of sentence, by which it is told why nothing is to be done
ACTIONS = 0.5           # weight of what the words of an action say


@dataclass(frozen=True)
class Recipe:
    """How much of what."""

    sentences: int = 240_000
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
    """What the words for colors and shapes are for, as the decoder takes it: by the mean over the bytes of each.

    Returns:
        Logits [words, 3], what they should say [words] (0, 1 or 2), and in which sentence of the batch each word
        stands [words].
    """
    mention = marks & int(MENTION) != 0
    before = F.pad(marks[:, :-1], (1, 0))
    begins = mention & (before != marks)
    place = (begins.flatten().cumsum(0) - 1).view_as(marks)[mention]
    row, wanted = begins.nonzero()[:, 0], _purpose(marks)[begins]
    bytes_of = torch.zeros(len(row)).index_add_(0, place, torch.ones(len(place)))
    said = _for_what(answer).transpose(1, 2)[mention]
    return torch.zeros(len(row), 3).index_add_(0, place, said) / bytes_of[:, None], wanted, row


def loss(answer: Answer, verb: Tensor, kind: Tensor, marks: Tensor, lengths: Tensor, recipe: Recipe) -> Tensor:
    """Of a batch: what the sentence asks for, what its words are for, and spikes beyond what is needed."""
    bits = (marks[..., None] >> torch.arange(z.OUTPUTS)) & 1
    wanted = bits.float()
    inside = (torch.arange(marks.shape[1]) < lengths[:, None]).float()
    mention = (marks & int(MENTION) != 0).float()
    weight = inside * (ELSEWHERE + mention)
    each = F.binary_cross_entropy_with_logits(answer.evidence[..., z.ACTION.start:], wanted[..., z.ACTION.start:],
                                              reduction="none")
    each = each * (1 + (WANTED - 1) * wanted[..., z.ACTION.start:])
    roles = F.cross_entropy(_for_what(answer), _purpose(marks), reduction="none")
    roles = (roles * weight).sum() / weight.sum().clamp(min=1.0)
    said, meant, _ = by_word(answer, marks)
    words = F.cross_entropy(said, meant, reduction="sum") / max(len(meant), 1)
    actions = (each[..., :z.NAMED_COLOR.start - z.ACTION.start].mean(-1) * inside).sum() / inside.sum()
    named = (each[..., z.NAMED_COLOR.start - z.ACTION.start:].sum(-1) * weight).sum() / weight.sum()
    decision = F.cross_entropy(answer.verb, verb, label_smoothing=recipe.smoothing)
    kinds = F.cross_entropy(answer.kind, kind, label_smoothing=recipe.smoothing)
    busy = sum(F.relu(layer - RATE).pow(2).mean() for layer in answer.activity)
    return (DECISION * decision + WORDS * words + ROLES * roles + ACTIONS * actions + NAMES * named + KIND * kinds
            + recipe.calm * busy)


@torch.no_grad()
def hardness(answer: Answer, verb: Tensor, marks: Tensor) -> Tensor:
    """How wrong a batch is read, [batch]: what is asked for, and the worst word of a thing (nats)."""
    said, meant, row = by_word(answer, marks)
    worst = torch.zeros(len(marks)).scatter_reduce_(0, row, F.cross_entropy(said, meant, reduction="none"), "amax")
    return F.cross_entropy(answer.verb, verb, reduction="none") + worst


def by_length(rows: Tensor, lengths: Tensor, size: int, generator: torch.Generator) -> list[Tensor]:
    """Batches of sentences of about one length; the last may be smaller."""
    near = lengths[rows] + 6 * torch.rand(len(rows), generator=generator)
    return list(rows[near.argsort()].split(size))


def batches(data: Batch, size: int, generator: torch.Generator) -> list[Tensor]:
    """Row numbers of batches of sentences of about one length, in random order, but short ones first.

    They teach words at less cost: the chance of a sentence of n bytes to come in the first SHORT_PART of the way falls
    with n.
    """
    lengths = torch.from_numpy(data.lengths).float()
    groups = by_length(torch.randperm(len(lengths), generator=generator), lengths, size, generator)
    mean = torch.tensor([lengths[rows].mean() for rows in groups])
    when = torch.rand(len(groups), generator=generator)
    early = (torch.rand(len(groups), generator=generator) < SHORT_SHARE) & (mean < SHORT)
    when = torch.where(early, when * SHORT_PART, SHORT_PART + (1 - SHORT_PART) * when)
    return [groups[i] for i in when.argsort()]


class Course:
    """The order in which sentences are read: chapter by chapter, and the hardest that a chapter held again in the next.

    Most sentences teach nothing any more once a network reads them well, and those it stumbles over are few. What stays
    hard comes again in every chapter.
    """

    def __init__(self, data: Batch, recipe: Recipe, generator: torch.Generator) -> None:
        self._lengths = torch.from_numpy(data.lengths).float()
        self._hard = torch.zeros(len(self._lengths))
        self._recipe, self._generator = recipe, generator
        groups = batches(data, recipe.batch, generator)
        ends = [len(groups) * n // recipe.chapters for n in range(recipe.chapters + 1)]
        self._chapters = [groups[a:b] for a, b in zip(ends, ends[1:]) if a < b]

    def __len__(self) -> int:
        """How many batches will come."""
        reviews = (-(-self._reviewed(chapter) // self._recipe.batch) for chapter in self._chapters[:-1])
        return sum(len(chapter) for chapter in self._chapters) + sum(reviews)

    def __iter__(self) -> Iterator[Tensor]:
        """Row numbers of one batch after the other; :meth:`note` what each was like before taking the next."""
        again = torch.empty(0, dtype=torch.int64)
        for chapter in self._chapters:
            reviews = by_length(again, self._lengths, self._recipe.batch, self._generator) if len(again) else []
            when = torch.cat([torch.arange(len(chapter)).float(),
                              len(chapter) * torch.rand(len(reviews), generator=self._generator)])
            todo = chapter + reviews
            for place in when.argsort(stable=True):
                yield todo[place]
            read = torch.cat([*chapter, again])
            hardest = self._hard[read].argsort(descending=True, stable=True)
            again = read[hardest[:self._reviewed(chapter)]]

    def note(self, rows: Tensor, hard: Tensor) -> None:
        """Remembers how hard sentences were when they were read last, see :func:`hardness`."""
        self._hard[rows] = hard

    def _reviewed(self, chapter: list[Tensor]) -> int:
        return int(self._recipe.again * sum(len(rows) for rows in chapter))


def tensors(data: Batch, rows: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Text, lengths, verbs, kinds and marks of some rows, no longer than needed."""
    chosen = rows.numpy()
    longest = int(data.lengths[chosen].max())
    return (torch.from_numpy(data.text[chosen, :longest].astype(np.int64)), torch.from_numpy(data.lengths[chosen]),
            torch.from_numpy(data.verb[chosen]), torch.from_numpy(data.kind[chosen]),
            torch.from_numpy(data.labels[chosen, :longest].astype(np.int64)))


def fit(network: SpikingReader, data: Batch, recipe: Recipe, seed: int,
        progress: Progress | None = None) -> list[float]:
    """Trains in place: once over the data, and over the hardest again.

    Returns:
        Mean loss of each tenth of the way (of each step, if there are fewer), of what was read then: the hardest again
        among it.
    """
    course = Course(data, recipe, torch.Generator().manual_seed(seed))
    steps = len(course)
    optimizer = torch.optim.AdamW(network.parameters(), lr=recipe.rate, weight_decay=1e-4, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, recipe.rate, total_steps=steps, pct_start=0.1)
    losses = []
    for done, rows in enumerate(course, 1):
        # batches are of one length each, and live there is one mean and variance for all: the end is trained with those
        network.train(done <= (1 - recipe.settled) * steps)
        text, lengths, verb, kind, marks = tensors(data, rows)
        optimizer.zero_grad()
        answer = network(text, lengths)
        value = loss(answer, verb, kind, marks, lengths, recipe)
        value.backward()
        course.note(rows, hardness(answer, verb, marks))
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(value.item())
        if progress:
            progress("spiking" if network.spiking else "twin", done, steps, f"loss {np.mean(losses[-50:]):.3f}")
    network.eval()
    return [float(np.mean(part)) for part in np.array_split(np.array(losses), min(10, len(losses)))]


@torch.inference_mode()
def hear(network: SpikingReader, texts: list[str], size: int = 128) -> list[Heard]:
    """What a network says of sentences."""
    encoded = [encode(spell(text)) for text in texts]
    order = sorted(range(len(texts)), key=lambda i: len(encoded[i]))
    found: list[Heard | None] = [None] * len(texts)
    for start in range(0, len(order), size):
        rows = order[start:start + size]
        lengths = torch.tensor([len(encoded[i]) for i in rows])
        text = torch.zeros(len(rows), int(lengths.max()), dtype=torch.int64)
        for row, i in enumerate(rows):
            text[row, :len(encoded[i])] = torch.tensor(list(encoded[i]))
        answer = network(text, lengths)
        for row, i in enumerate(rows):
            found[i] = Heard(answer.evidence[row, :lengths[row]].numpy(), answer.verb[row].numpy(),
                             answer.rates[row].numpy())
    return found


def understood(network: SpikingReader, texts: list[str]) -> list[tuple[int, ...]]:
    """(verb, color, shape, avoided color, avoided shape) of sentences; all 0 where one was not understood."""
    return [decode(spell(text), heard)[0].slots for text, heard in zip(texts, hear(network, texts))]
