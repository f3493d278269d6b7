# SPDX-License-Identifier: Apache-2.0
"""Scores of language: share of sentences with all slots right, and of unrelated ones that are refused."""
from __future__ import annotations

import random
from pathlib import Path
from typing import Callable, Iterable, NamedTuple

import numpy as np

from brain_regions.language.understanding import Verb
from brain_runtime.contract import sights
from brain_sim.sentences import LANGUAGES as SPOKEN
from brain_sim.sentences import phrase, templates
from brain_sim.things import COLORS, SHAPES
from brain_training.language_data import sample
from brain_training.language_suite import suite as own_suite

Slots = tuple[int, int, int, int, int]
# as sights calls them, but for what is not known: 0 in both
NAMES_COLORS = {name if number else "any": number for number, name in sights.COLORS.items()}
NAMES_SHAPES = {name if number else "any": number for number, name in sights.SHAPES.items()}
NAMES_VERBS = {"-": Verb.NONE, "go": Verb.GO, "find": Verb.FIND, "stop": Verb.STOP}
UNRELATED = ("chat", "noise", "foreign")     # kinds of what has nothing to do with the task


class Asked(NamedTuple):
    """A sentence and the right answer: verb, color, shape, avoided color and shape; all 0: not understood."""

    text: str
    slots: Slots


def trained(language: str, count: int, seed: int) -> dict[str, list[Asked]]:
    """Fresh sentences of the rules that training draws from: ``understood``, ``refused``, and ``unrelated`` ones."""
    rng = random.Random(seed)
    found: dict[str, list[Asked]] = {"understood": [], "refused": [], "unrelated": []}
    while min(map(len, found.values())) < count:
        sentence = sample(language, rng, slips=False)
        slots = (int(sentence.verb), *sentence.target, *sentence.avoid)
        which = "understood" if slots[0] else "unrelated" if sentence.kind in UNRELATED else "refused"
        if len(found[which]) < count:
            found[which].append(Asked(sentence.text, slots))
    return found


def suite(language: str, split: str, each: int, seed: int) -> dict[str, list[Asked]]:
    """Phrasings of the suite's split, ``each`` with so many objects: ``understood`` and ``unrelated`` ones."""
    if language not in SPOKEN:
        raise ValueError(f"no sentences in {language!r}; there are some in {', '.join(SPOKEN)}")
    rng = np.random.default_rng(seed)
    found: dict[str, list[Asked]] = {"understood": [], "unrelated": []}
    for purpose in ("go", "avoid", "halt", "nonsense"):
        for template in templates(purpose, language, split):
            for _ in range(each if "{" in template else 1):
                target, avoid = rng.choice(len(COLORS) * len(SHAPES), 2, replace=False)
                kinds = [(COLORS[k // len(SHAPES)], SHAPES[k % len(SHAPES)]) for k in (target, avoid)]
                text = template.format(t=phrase(kinds[0], language, rng), a=phrase(kinds[1], language, rng))
                if purpose == "nonsense":
                    found["unrelated"].append(Asked(text, (0, 0, 0, 0, 0)))
                    continue
                named = [(NAMES_COLORS[c], NAMES_SHAPES[s]) for c, s in kinds]
                verb = Verb.STOP if purpose == "halt" else Verb.FIND if _seeks(template) else Verb.GO
                slots = (int(verb), *(named[0] if "{t}" in template else (0, 0)),
                         *(named[1] if "{a}" in template else (0, 0)))
                found["understood"].append(Asked(text, slots))
    return found


def apart(language: str, each: int, seed: int) -> dict[str, list[Asked]]:
    """Sentences of :mod:`.language_suite`, ``each`` with so many objects, by what is to be done with them."""
    found: dict[str, list[Asked]] = {"understood": [], "stop": [], "refused": [], "unrelated": []}
    for sentence in own_suite(language, each, seed):
        which = "unrelated" if sentence.kind in UNRELATED else "refused" if not sentence.verb else (
            "stop" if sentence.verb is Verb.STOP else "understood")
        found[which].append(Asked(sentence.text, (int(sentence.verb), *sentence.target, *sentence.avoid)))
    return found


def _seeks(template: str) -> bool:
    return any(word in template for word in ("find", "look for", "search", "探", "さが", "見つけ", "みつけ"))


def listed(path: Path) -> list[Asked]:
    """Sentences of a list by hand, such as ``go red ball / blue any : go to the red ball but avoid what is blue``.

    Raises:
        ValueError: a line is none, or the file cannot be read.
    """
    rows = []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ValueError(f"cannot read the list {path}: {error.strerror}") from error
    for line in lines:
        if not line or line.startswith("#"):
            continue
        expected, mark, text = line.partition(" : ")
        try:
            verb, *words = expected.replace("/", "").split()
            color, shape, avoid_color, avoid_shape = words + ["any"] * (4 - len(words))
            rows.append(Asked(text, (int(NAMES_VERBS[verb]), NAMES_COLORS[color], NAMES_SHAPES[shape],
                                     NAMES_COLORS[avoid_color], NAMES_SHAPES[avoid_shape])))
            if not mark:
                raise ValueError
        except (KeyError, ValueError):
            raise ValueError(f"{path}: not a sentence with its slots: {line}") from None
    return rows


def share(rows: Iterable[Asked], understand: Callable[[list[str]], list[Slots]]) -> dict[str, float | int]:
    """Share of sentences of which all slots are right, and how many there are."""
    rows = list(rows)
    answers = understand([row.text for row in rows])
    right = sum(tuple(answer) == row.slots for answer, row in zip(answers, rows))
    return {"right": right / max(len(rows), 1), "of": len(rows)}
