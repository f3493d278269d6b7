# SPDX-License-Identifier: Apache-2.0
"""``brain bench sentence-lesions``: what each population of language is for, by what becomes of sentences without it.

Episodes ask for objects only, so that nobody sees there what a population does for a "stop". Here all that the network
was trained to tell apart is read: phrasings that are kept out of training, and fresh sentences of its rules, also those
that are to be refused.
"""
from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import typer

from brain_eval.bench.experiment import Experiment, Jobs
from brain_eval.results import share
from brain_regions.language import weights
from brain_regions.language.decode import decode
from brain_regions.language.network import SpikingReader
from brain_regions.language.region import Language
from brain_regions.lesions import parse
from brain_regions.weight_files import WeightsError
from brain_training.language_score import Asked, trained
from experiments.lesions import KINDS
from experiments.sentences import by, sends_astray, withheld


ASKED = {"go": (1, 2), "stop": (3,), "refused": (0,)}      # what is to be done with a sentence, by its verb


def asked(fresh: int, seed: int, phrasings: int | None = None) -> list[Asked]:
    """Withheld phrasings, all or so many from among them, and so many fresh sentences of each language and sort."""
    rows = [row for found in withheld().values() for row in found]
    if phrasings is not None:
        rows = rows[::-(-len(rows) // phrasings)]
    for language in ("en", "ja"):
        rows += [row for found in trained(language, fresh, seed).values() for row in found]
    return rows


def measure(lesion: str, rows: list[Asked], seed: int) -> dict[str, Any]:
    """Measures how sentences are read under a lesion.

    Args:
        lesion: ``POPULATION=KIND``; empty: none.
        rows: the sentences.
        seed: of what a lesion draws.

    Returns:
        ``lesion``; of :data:`ASKED` each the share that is read right with its Wilson interval, and ``of`` how many;
        ``wrong``: how many of all would send the robot to an object that was not asked for.

    Raises:
        ParameterError: there is no such population, or kind.
        WeightsError: the weight file that ships does not fit.
    """
    lesions = parse([lesion] if lesion else [], Language.populations, "lesion")
    lesions.draw_by(np.random.default_rng(seed))
    read = by(SpikingReader(weights.load(weights.SHIPPED, SpikingReader)[0], lesions=lesions), decode)
    right: dict[str, list[bool]] = {what: [] for what in ASKED}
    wrong = 0
    for row in rows:
        answer = read(row.text)
        right[next(what for what, verbs in ASKED.items() if row.slots[0] in verbs)].append(answer == row.slots)
        wrong += sends_astray(answer, row.slots)
    return {"lesion": lesion or "none", "of": len(rows), "wrong": wrong,
            **{what: share(sum(each), len(each)) | {"of": len(each)} for what, each in right.items()}}


class SentenceLesions(Experiment):
    """Reads sentences with the spikes of one population of language lost, and without a lesion.

    Sentences are the phrasings that are kept out of training, and fresh ones of its rules.
    """

    quick = {"fresh": 1, "phrasings": 8}
    problems = (WeightsError,)

    def measure(self, fresh: Annotated[int, typer.Option(min=1, max=100_000, help="Fresh sentences of each language: "
                                                         "so many to obey, and of two sorts to refuse.")] = 200,
                seed: Annotated[int, typer.Option(min=0, help="Of sentences, and of what lesions draw.")] = 1,
                jobs: Jobs = 1,
                phrasings: Annotated[int | None, typer.Option(min=1, help="At most so many of those that are kept out "
                                                              "of training. Default: all.")] = None) -> dict[str, Any]:
        """Reads all sentences under each lesion."""
        lesions = ["", *(f"{population.name}={kind}" for population in Language.populations for kind in KINDS)]
        asked_ = asked(fresh, seed, phrasings)
        return {"rows": self.side_by_side(measure, [(lesion, asked_, seed) for lesion in lesions], jobs, "lesions")}
