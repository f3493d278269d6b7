# SPDX-License-Identifier: Apache-2.0
"""What is kept out of training: the phrasings of the suite's splits val and test, and whatever comes near one."""
from __future__ import annotations

import functools
import re

from brain_regions.language import words_english, words_japanese
from brain_regions.language.spelling import distance
from brain_regions.language.tokens import fold, normalize
from brain_training.language_phrases import Sentence

JAPANESE = re.compile("[ぁ-ん一-龥]")
NAMED_SO = re.compile("#(?:(?:いろ|色)?の?#)*(?: ?(?:one|object|thing|item)(?![a-z])|やつ|奴|もの|物体?|おぶじぇくと)?")
"""A thing's name and what may stand behind it: "the # one"."""
LETTERS_AN_EDIT = 8     # of a withheld phrasing: so many for each letter by which another may differ and still be near
PART = 0.5              # of its letters: what stands inside it and is shorter says something else


@functools.cache
def withheld() -> frozenset[str]:
    """Phrasings of the splits val and test of the suite, as :func:`phrasing` spells them."""
    return _of("val") | _of("test")


@functools.cache
def given() -> frozenset[str]:
    """Phrasings of the suite's split train: "go to #" may be trained, though it stands in "let's go to #"."""
    return _of("train") - withheld()


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
    """Whether one phrasing stands in another: of English, as whole words."""
    return part in whole if JAPANESE.search(part) else f" {part} " in f" {whole} "


def near(one: str, withheld_one: str) -> bool:
    """Whether a phrasing contains a withheld one, is most of it, or is the same but for a letter or two."""
    if inside(withheld_one, one) or len(one) >= PART * len(withheld_one) and inside(one, withheld_one):
        return True
    allowed = max(1, len(withheld_one) // LETTERS_AN_EDIT)
    return abs(len(one) - len(withheld_one)) <= allowed and distance(one, withheld_one) <= allowed


@functools.lru_cache(1 << 18)
def kept_out(one: str) -> bool:
    """Whether nothing with this phrasing is trained on: it is :func:`near` a withheld one, and not :func:`given`."""
    return one not in given() and any(near(one, other) for other in withheld())
