# SPDX-License-Identifier: Apache-2.0
"""The task of language, and of its ANN baseline: sentences, and what they ask for."""
from __future__ import annotations

from pathlib import Path
from typing import Any, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn

import brain_regions
from brain_regions.language import weights
from brain_regions.language.decode import decode, spell
from brain_training.definitions.language import EPSILON, AnnReader, SpikingReader, of_weights
from brain_regions.language.network import Heard
from brain_regions.language.sizes import widened
from brain_training import language_score as score
from brain_training.language_course import Course
from brain_training.language_data import Batch, encode, make, pack, sentence
from brain_training.language_loss import Recipe, hardness, loss
from brain_training.task import BASE, SIZES, Lost, Progress, Task, one_cycle

CLASSES = {"spiking": SpikingReader, "ann": AnnReader}
REPORT_SEED = 900_000   # of the sentences that are reported on
FRESH, QUICK_FRESH = 1000, 40   # of them of each kind and language, of the rules that were trained
EACH, QUICK_EACH = 12, 1        # objects for each phrasing of the suite
LISTS = {"hand": "heldout", "outside writers": "outside", "blind outside writers": "blind"}
"""Files of sentences: two whose failures were looked at when the rules were made, and one that nobody looked at."""


def examination(count: int, each: int, lists: Path | None = None) -> dict[str, list[score.Asked]]:
    """Sentences to examine a network by, with the right answers, by what is asked.

    None was drawn for training, but phrasings may be: those of the rules, and of the suite's split train. Of the other
    splits nothing that is near one was trained on, see :mod:`.language_withheld`.

    Args:
        count: fresh sentences of each kind and language.
        each: objects for each phrasing of the suite.
        lists: folder of the lists by hand; None, or a folder that is not there: without them.

    Raises:
        ValueError: a list is missing, or a line of it is no sentence with its answer.
    """
    found: dict[str, list[score.Asked]] = {}
    for language in ("en", "ja"):
        for kind, rows in score.trained(language, count, REPORT_SEED).items():
            found[f"trained phrasings, {kind}, {language}"] = rows
        for split, what in (("train", "train"), ("val", "val kept apart"), ("test", "test kept apart")):
            for kind, rows in score.suite(language, split, each, REPORT_SEED).items():
                found[f"suite's split {what}, {kind}, {language}"] = rows
        for kind, rows in score.apart(language, each, REPORT_SEED).items():
            found[f"own suite kept apart, {kind}, {language}"] = rows
    for whose, file in LISTS.items() if lists and lists.is_dir() else ():
        for language, name in (("en", "english"), ("ja", "japanese")):
            rows = score.listed(lists / f"{file}_{name}.txt")
            found[f"list by {whose}, understood, {language}"] = [row for row in rows if row.slots[0]]
            found[f"list by {whose}, refused, {language}"] = [row for row in rows if not row.slots[0]]
    return found


class LanguageTask(Task):
    """Understanding sentences. Sample n is the n-th sentence of an endless row, English and Japanese by turns.

    Attributes:
        lists: folder of the lists by hand, see :func:`examination`; they are there where this is a checkout.
    """

    name = "language"
    apart = True
    counts = True
    looks = False
    sizes = tuple(SIZES)
    full = Recipe()
    tiny = Recipe(sentences=640, rate=3e-3)
    lists: Path | None = Path(brain_regions.__file__).parents[1] / "test" / "test_language_sentences"

    def __init__(self, which: str = "spiking", *, quick: bool = False, recipe: Recipe | None = None, size: str = BASE
                 ) -> None:
        super().__init__(which, quick=quick, recipe=recipe, size=size)
        self._made: tuple[int, Batch] | None = None     # with their seed
        self._course: Course | None = None

    @classmethod
    def files(cls) -> dict[str, Path]:
        """The weight files that ship."""
        return {"spiking": weights.SHIPPED, "ann": weights.ANN}

    def check(self) -> None:
        """Raises ValueError where a list to examine by is missing or wrong."""
        examination(1, 1, self.lists)

    def prepare(self, seed: int, tell: Progress) -> None:
        """Makes all sentences, and their order."""
        if self._made is None or self._made[0] != seed:
            self._made = seed, pack(make(self.recipe.sentences, seed, lambda done, of: tell(
                f"sentences ({self.which})", done, of, "")))
        self._course = Course(self._made[1].lengths, self.recipe, seed)

    # -- the network -----------------------------------------------------------------------------------------------

    def build(self, seed: int) -> nn.Module:
        """A network before training."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return CLASSES[self.which](widened(SIZES[self.size]))

    def together(self, network: nn.Module) -> None:
        """Lets charges be normalized over the whole batch."""
        from brain_training.parallel.normalization import normal

        whole, alone, place = self.whole, network.normalize, getattr(network, "place", None)

        def normalize(x: Tensor, gain: Tensor, bias: Tensor) -> Sequence[Tensor]:
            return alone(x, gain, bias) if whole.single else normal(
                whole, x, gain, bias, (1,), EPSILON, place and place(x))[:3]

        network.normalize = normalize

    def optimizer(self, network: nn.Module) -> torch.optim.Optimizer:
        """AdamW."""
        return torch.optim.AdamW(network.parameters(), lr=self.recipe.rate, weight_decay=1e-4, betas=(0.9, 0.98))

    def schedule(self, optimizer: torch.optim.Optimizer) -> torch.optim.lr_scheduler.LRScheduler:
        """One cycle."""
        return one_cycle(optimizer, self.recipe.rate, self.steps)

    # -- the data --------------------------------------------------------------------------------------------------

    @property
    def steps(self) -> int:
        """Once over the sentences, and over the hardest again."""
        return len(self._course)

    def indices(self, seed: int, step: int) -> Sequence[int]:
        """Sentences of about one length."""
        return self._course.rows(step).tolist()

    def sample(self, seed: int, index: int) -> tuple[np.ndarray, np.ndarray, int]:
        """Bytes uint8 and labels uint32 of a sentence, and its meaning."""
        if self._made and self._made[0] == seed and index < len(self._made[1].lengths):
            data, row = self._made[1], index
        else:
            data, row = pack([sentence(seed, index)]), 0
        length = data.lengths[row]
        return data.text[row, :length], data.labels[row, :length], int(data.meaning[row])

    def collate(self, samples: Sequence[Any]) -> tuple[Tensor, ...]:
        """Text, lengths, meanings and marks."""
        lengths = np.array([len(text) for text, *_ in samples])
        longest = self.whole.most(int(lengths.max()))       # what is beyond a length is normalized with the rest
        text, marks = (np.zeros((len(samples), longest), np.int64) for _ in range(2))
        for row, (its, labels, _) in enumerate(samples):
            text[row, :len(its)], marks[row, :len(its)] = its, labels
        meanings = np.array([meaning for *_, meaning in samples])
        return tuple(map(torch.from_numpy, (text, lengths, meanings, marks)))

    # -- a step ----------------------------------------------------------------------------------------------------

    def begin(self, seed: int, step: int, network: nn.Module, tell: Progress) -> None:
        """Chooses how charges are normalized.

        Batches are of one length each, and live there is one mean and variance for all: the end is trained with those.
        """
        network.train(step + 1 <= (1 - self.recipe.settled) * self.steps)

    def loss(self, network: nn.Module, batch: tuple[Tensor, ...], rng: np.random.Generator) -> Lost:
        """Of sentences, and how hard each was."""
        text, lengths, meaning, marks = batch
        answer = network(text, lengths)
        return Lost(loss(answer, meaning, marks, lengths, self.recipe, self.whole), hardness(answer, meaning, marks))

    def end(self, network: nn.Module, indices: Sequence[int], lost: Lost) -> None:
        """Remembers what was hard."""
        self._course.note(torch.tensor(indices), lost.hard.cpu())

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """That of the course."""
        return self._course.state()

    def restore(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
        """Takes it back."""
        self._course.restore(tensors, values)

    # -- what it comes to ------------------------------------------------------------------------------------------

    def score(self, network: nn.Module, tell: Progress) -> dict[str, Any]:
        """Shares of an :func:`examination` that the weights get right as a file holds them."""
        asked = examination(QUICK_FRESH if self.quick else FRESH, QUICK_EACH if self.quick else EACH, self.lists)
        shipped = of_weights(CLASSES[self.which], weights.rounded(network.folded()))
        return {"held_out": {what: score.share(rows, lambda texts: understood(shipped, texts))
                             for what, rows in asked.items()}}

    def export(self, path: Path, network: nn.Module, training: dict[str, Any], figures: dict[str, Any]) -> None:
        """Writes the weight file."""
        weights.save(path, network.folded(), network.runs, training, figures)


@torch.inference_mode()
def hear(network: SpikingReader, texts: list[str], size: int = 128) -> list[Heard]:
    """Runs a network on sentences, in batches of ``size``, and returns its answer to each, in their order."""
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
