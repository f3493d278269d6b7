# SPDX-License-Identifier: Apache-2.0
"""Training of language: sentences in, a trained network out."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Callable

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
ROLES = 2.0             # weight of what the words of things are for
NAMES = 1.0             # weight of which color or shape a word names, whatever it is for
KIND = 0.3              # weight of the kind of sentence, by which it is told why nothing is to be done
ACTIONS = 0.5           # weight of what the words of an action say


@dataclass(frozen=True)
class Recipe:
    """How much of what."""

    sentences: int = 300_000
    batch: int = 32
    rate: float = 1e-2
    calm: float = 0.05      # weight of what is fired beyond RATE
    smoothing: float = 0.02


RATE = 0.25     # spikes per neuron and micro-step that cost nothing


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
    for_what = F.pad(answer.evidence[..., :z.ACTION.start], (1, 0))     # against 0: for nothing
    purpose = (wanted[..., z.TARGET] + 2 * wanted[..., z.AVOID]).long()
    roles = F.cross_entropy(for_what.transpose(1, 2), purpose, reduction="none")
    roles = (roles * weight).sum() / weight.sum().clamp(min=1.0)
    actions = (each[..., :z.NAMED_COLOR.start - z.ACTION.start].mean(-1) * inside).sum() / inside.sum()
    named = (each[..., z.NAMED_COLOR.start - z.ACTION.start:].sum(-1) * weight).sum() / weight.sum()
    decision = F.cross_entropy(answer.verb, verb, label_smoothing=recipe.smoothing)
    kinds = F.cross_entropy(answer.kind, kind, label_smoothing=recipe.smoothing)
    busy = sum(F.relu(layer - RATE).pow(2).mean() for layer in answer.activity)
    return DECISION * decision + ROLES * roles + ACTIONS * actions + NAMES * named + KIND * kinds + recipe.calm * busy


def batches(data: Batch, size: int, generator: torch.Generator) -> list[Tensor]:
    """Row numbers of batches of sentences of about one length, in random order, but short ones first.

    They teach words at less cost: the chance of a sentence of n bytes to come in the first SHORT_PART of the way falls
    with n.
    """
    order = torch.randperm(len(data.lengths), generator=generator)
    lengths = torch.from_numpy(data.lengths).float()
    near = lengths[order] + 6 * torch.rand(len(order), generator=generator)
    order = order[near.argsort()]
    groups = list(order.split(size))
    mean = torch.tensor([lengths[rows].mean() for rows in groups])
    when = torch.rand(len(groups), generator=generator)
    early = (torch.rand(len(groups), generator=generator) < SHORT_SHARE) & (mean < SHORT)
    when = torch.where(early, when * SHORT_PART, SHORT_PART + (1 - SHORT_PART) * when)
    return [groups[i] for i in when.argsort()]


def tensors(data: Batch, rows: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Text, lengths, verbs, kinds and marks of some rows, no longer than needed."""
    chosen = rows.numpy()
    longest = int(data.lengths[chosen].max())
    return (torch.from_numpy(data.text[chosen, :longest].astype(np.int64)), torch.from_numpy(data.lengths[chosen]),
            torch.from_numpy(data.verb[chosen]), torch.from_numpy(data.kind[chosen]),
            torch.from_numpy(data.labels[chosen, :longest].astype(np.int64)))


def fit(network: SpikingReader, data: Batch, recipe: Recipe, seed: int,
        progress: Progress | None = None) -> list[float]:
    """Trains in place, once over the data.

    Returns:
        Mean loss of each tenth of the way.
    """
    generator = torch.Generator().manual_seed(seed)
    groups = batches(data, recipe.batch, generator)
    optimizer = torch.optim.AdamW(network.parameters(), lr=recipe.rate, weight_decay=1e-4, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, recipe.rate, total_steps=len(groups), pct_start=0.1)
    losses = []
    network.train()
    for done, rows in enumerate(groups, 1):
        text, lengths, verb, kind, marks = tensors(data, rows)
        optimizer.zero_grad()
        value = loss(network(text, lengths), verb, kind, marks, lengths, recipe)
        value.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(value.item())
        if progress:
            progress("spiking" if network.spiking else "twin", done, len(groups), f"loss {np.mean(losses[-50:]):.3f}")
    network.eval()
    return [float(np.mean(part)) for part in np.array_split(np.array(losses), 10)]


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
    found = []
    for text, heard in zip(texts, hear(network, texts)):
        meant = decode(spell(text), heard)[0]
        found.append((int(meant.verb), meant.color, meant.shape, meant.avoid_color, meant.avoid_shape))
    return found
