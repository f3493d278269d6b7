# SPDX-License-Identifier: Apache-2.0
"""Phrasings that are kept out of training: those of two suites, val and test of the one, and what comes near."""
from __future__ import annotations

import functools
import re

from brain_regions.language import words_english, words_japanese
from brain_regions.language.spelling import distance
from brain_regions.language.tokens import fold, normalize
from brain_training.language_phrases import LANGUAGES, Sentence
from brain_training.language_suite import suite

JAPANESE = re.compile("[ぁ-ん一-龥]")
NAMED_SO = re.compile("#(?:(?:いろ|色)?の?#)*(?: ?(?:one|object|thing|item)(?![a-z])|やつ|奴|もの|物体?|おぶじぇくと)?")
"""A thing's name and what may stand behind it: "the # one"."""
LETTERS_AN_EDIT = 8     # of a withheld phrasing: so many for each letter by which another may differ and still be near
PART = 0.5              # of its letters: what stands inside it and is shorter says something else


@functools.cache
def withheld() -> frozenset[str]:
    """Phrasings of the suite's splits val and test, and of :mod:`.language_suite`, as :func:`phrasing` spells them."""
    own = {phrasing(one) for language in LANGUAGES for one in suite(language, 3, 0)}
    # an ordinal is taken for an adjective of the name: what is left is trained anyhow
    return _of("val") | _of("test") | {one for one in own if not any(inside(one, other) for other in _of("train"))}


@functools.cache
def given() -> frozenset[str]:
    """Phrasings of the suite's split train: "go to #" may be trained, though it stands in "let's go to #"."""
    return _of("train") - withheld()


@functools.cache
def _of(split: str) -> frozenset[str]:
    from brain_sim.sentences import LANGUAGES as SPOKEN
    from brain_sim.sentences import templates

    return frozenset(spelled(t.replace("{t}", "#").replace("{a}", "#")) for lang in SPOKEN
                     for purpose in ("go", "avoid", "halt", "nonsense") for t in templates(purpose, lang, split))


def spelled(text: str) -> str:
    """A phrasing without what does not make it another: marks, spaces, and what stands around a thing's name."""
    text = fold(normalize(text.replace("#", "０"))).replace("0", "#")
    text = re.sub("#( ?#)+", "#", _unlabeled().sub("#", text))
    text = re.sub(r"\b(the|a|an|that|this|any)( \w+)? (?=#)", "", text)
    text = re.sub(r"[ ,.!?]+", "" if JAPANESE.search(text) else " ", text).strip()
    return NAMED_SO.sub("#", text)


@functools.cache
def _unlabeled() -> re.Pattern[str]:
    """A color and a shape that are no thing: "the red can pizza"."""
    def either(words: dict[int, str]) -> str:
        return "|".join(sorted(fold("|".join(words.values())).split("|"), key=len, reverse=True))

    (color, shape), (iro, katachi) = ((either(words.COLORS), either(words.NOUNS))
                                      for words in (words_english, words_japanese))
    return re.compile(rf"\b(?:{color}) (?:{shape})\b|(?:{iro})(?:い|の|色の|いろの)?(?:{katachi})")


def phrasing(sentence: Sentence) -> str:
    """A sentence with its things as ``#``."""
    text = "".join("#" if part.role else part.text for part in sentence.parts)
    return spelled(re.sub("#( ?#)+", "#", text))


def inside(part: str, whole: str) -> bool:
    """Tells whether one phrasing stands in another: of English, as whole words."""
    return part in whole and (JAPANESE.search(part) is not None or f" {part} " in f" {whole} ")


def near(one: str, withheld_one: str) -> bool:
    """Tells whether a phrasing contains a withheld one, is most of it, or is the same but for a letter or two."""
    if inside(withheld_one, one) or len(one) >= PART * len(withheld_one) and inside(one, withheld_one):
        return True
    allowed = _allowed(withheld_one)
    return abs(len(one) - len(withheld_one)) <= allowed and distance(one, withheld_one) <= allowed


def _allowed(withheld_one: str) -> int:
    """Edits by which another phrasing may differ from a withheld one and still be near."""
    return max(1, len(withheld_one) // LETTERS_AN_EDIT)


@functools.cache
def _parts() -> tuple[tuple[str, int, int, tuple[str, ...]], ...]:
    """Lists withheld phrasings with length, allowed edits, and parts of which so many edits leave one whole."""
    found = []
    for one in sorted(withheld()):
        size, edits = len(one), _allowed(one)
        cuts = [number * size // (edits + 1) for number in range(edits + 2)]
        found.append((one, size, edits, tuple(one[start:end] for start, end in zip(cuts, cuts[1:]))))
    return tuple(found)


@functools.lru_cache(1 << 18)
def kept_out(one: str) -> bool:
    """Tells whether a phrasing is kept out of training: it is :func:`near` a withheld one, and not :func:`given`."""
    size = len(one)
    return one not in given() and any(     # what cannot be near is told apart without its distance
        near(one, other) for other, length, edits, parts in _parts()
        if one in other or other in one
        or -edits <= size - length <= edits and any(part in one for part in parts))
