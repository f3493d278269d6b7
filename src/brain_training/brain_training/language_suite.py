# SPDX-License-Identifier: Apache-2.0
"""Sentences of phrasings that no training has: of what a goal cannot hold, of no order, and of what is nearly the same.

The phrasings stand in ``phrases/suite_*.txt``, in the notation of :mod:`.language_phrases`; nothing that comes near one
is trained on, see :mod:`.language_withheld`.
"""
from __future__ import annotations

import functools
import random
from dataclasses import replace

from brain_regions.language.understanding import Verb
from brain_training.language_drawing import draw_from
from brain_training.language_phrases import FOLDER, LANGUAGES, WHOLE, Rules, Sentence, rules

STYLE = "suite"


@functools.cache
def _phrasings(language: str) -> tuple[Rules, list[tuple[Verb, str]]]:
    """Rules of a language with one for each phrasing; where each starts, and what it asks for."""
    all_of = rules(language)
    of, starts = replace(all_of, rules=dict(all_of.rules), actions=dict(all_of.actions)), []
    of.read((FOLDER / f"{STYLE}_{LANGUAGES[language][0]}.txt").read_text(encoding="utf-8"), STYLE)
    for around in ("pre", "end"):
        del of.rules[around]
        of.add_words(around, [""])
    for kind, rule in WHOLE.items():
        for number, option in enumerate(of.rules[f"{rule}_{STYLE}"].options if f"{rule}_{STYLE}" in of.rules else ()):
            name = f"{rule}_{STYLE}_{number}"
            of.rules[name] = type(of.rules["pre"])()
            of.rules[name].add(option, 1.0)
            starts.append((Verb[kind] if kind in Verb.__members__ else Verb.NONE, name))
    return of, starts


def suite(language: str, each: int, seed: int) -> list[Sentence]:
    """Sentences of the phrasings of a language (``en``, ``ja``), ``each`` of those with things in them; others once."""
    of, starts = _phrasings(language)
    rng, found = random.Random(f"brain/language suite {seed}"), []
    for start in starts:
        sentences = [draw_from(of, rng, start) for _ in range(each)]
        found += list({sentence.text: sentence for sentence in sentences}.values())
    return found
