# SPDX-License-Identifier: Apache-2.0
"""Sentences as arrays to train on: their bytes, what they ask for, and what each byte is part of."""
from __future__ import annotations

import random
from typing import Callable, NamedTuple

import numpy as np

from brain_regions.language import sizes as z
from brain_regions.language.spelling import neighbors
from brain_regions.language.understanding import Verb
from brain_training.language_drawing import draw
from brain_training.language_phrases import ACTIONS, LANGUAGES, Part, Sentence, Thing
from brain_training.language_withheld import kept_out, phrasing

SLIPS = {"en": 0.12, "ja": 0.03}    # share of the sentences with a slip of the keyboard
HURRY = 3.0         # so many times as often where somebody says stop
BARE = 0.12         # share of the English sentences without apostrophes
COMMAS = 0.06       # share of the sentences that lack their commas
USUAL = {"en": 45, "ja": 60}    # bytes; a sentence of n > USUAL is kept with a chance of (USUAL / n) ** LONGER:
LONGER = 1.5                    # few people talk to a machine in long ones
ROLES = {"T": z.TARGET, "A": z.AVOID}
MENTION = np.uint32(1 << 30)    # of a byte: it names a color or a shape


class Batch(NamedTuple):
    """Sentences.

    Attributes:
        text: uint8 [sentences, bytes], framed by BEGIN and END, zeros behind.
        lengths: int64 [sentences], frames included.
        meaning: int64 [sentences], number in :data:`brain_regions.language.sizes.MEANINGS`.
        labels: uint32 [sentences, bytes]: bit k says that output k is wanted; MENTION.
    """

    text: np.ndarray
    lengths: np.ndarray
    meaning: np.ndarray
    labels: np.ndarray


def encode(text: str) -> bytes:
    """Bytes of a text that is normalized and folded, with its frames; what is too long is cut."""
    return bytes([z.BEGIN]) + text.encode("utf-8", "replace")[:z.BYTES] + bytes([z.END])


def _label(part: Part) -> int:
    bits = 0
    if part.action:
        bits |= 1 << (z.ACTION.start + ACTIONS.index(part.action))
    if part.role:
        bits |= int(MENTION)
        if part.role in ROLES:
            bits |= 1 << ROLES[part.role]
        if part.color:
            bits |= 1 << (z.NAMED_COLOR.start + part.color - 1)
        if part.shape:
            bits |= 1 << (z.NAMED_SHAPE.start + part.shape - 1)
    return bits


def pack(sentences: list[Sentence]) -> Batch:
    """Arrays of sentences."""
    rows = []
    for sentence in sentences:
        data, labels = bytearray([z.BEGIN]), [0]
        for part in sentence.parts:
            piece = part.text.encode()
            data += piece
            labels += [_label(part)] * len(piece)
        rows.append((bytes(data[:z.BYTES + 1]) + bytes([z.END]), labels[:z.BYTES + 1] + [0]))
    lengths = np.array([len(data) for data, _ in rows])
    text = np.zeros((len(rows), lengths.max(initial=1)), np.uint8)
    marks = np.zeros(text.shape, np.uint32)
    for row, (data, labels) in enumerate(rows):
        text[row, :len(data)] = list(data)
        marks[row, :len(labels)] = labels
    return Batch(text, lengths, np.array([s.meaning for s in sentences]), marks)


# -- drawing --------------------------------------------------------------------------------------------------------

def _slipped(sentence: Sentence, rng: random.Random) -> None:
    """A slip of the keyboard in one part, which stays what it is, a name too: what is no sure name, decoding drops."""
    if sentence.parts:
        place = rng.randrange(len(sentence.parts))
        sentence.parts[place] = sentence.parts[place]._replace(text=slip(sentence.parts[place].text, rng))


def slip(text: str, rng: random.Random) -> str:
    """A text with a letter doubled, left out, swapped with what is next (a space, too), or with a neighboring key's.

    That stands in its place or behind it. A text of less than three letters stays as it is.
    """
    places = [at for at in range(1, len(text) - 1) if text[at].isalpha()]
    if not places or len(text) < 3:
        return text
    at = rng.choice(places)
    here, after = text[at], text[at + 1:]
    key = rng.choice(neighbors().get(here, here))
    instead = rng.choice((here + here + after, after, after[0] + here + after[1:], key + after, here + key + after))
    return (text[:at] + instead).replace("  ", " ")


def _misread(sentence: Sentence, rng: random.Random) -> None:
    """A kana doubled, or swapped with the next, somewhere outside of names and of what forbids."""
    places = [place for place, part in enumerate(sentence.parts)
              if not part.role and part.action != "AVOID" and len(part.text) > 2]
    if places:
        place = rng.choice(places)
        text = sentence.parts[place].text
        at = rng.randrange(1, len(text) - 1)
        text = text[:at] + rng.choice((text[at] * 2 + text[at + 1:], text[at + 1] + text[at] + text[at + 2:]))
        sentence.parts[place] = sentence.parts[place]._replace(text=text)


def sample(language: str, rng: random.Random, *, slips: bool = True) -> Sentence:
    """A random sentence of which the phrasing is not withheld; long ones are the rarer, the longer they are."""
    while True:
        sentence = draw(language, rng)
        if rng.random() >= (USUAL[language] / len(encode(sentence.text))) ** LONGER or kept_out(
                phrasing(sentence)):
            continue
        if slips and rng.random() < SLIPS[language] * (HURRY if sentence.verb is Verb.STOP else 1.0):
            (_slipped if language == "en" else _misread)(sentence, rng)
        if slips and language == "en" and rng.random() < BARE:
            bare = rng.choice(("", "", " "))
            sentence.parts = [p._replace(text=p.text.replace("'", bare)) for p in sentence.parts]
        if rng.random() < COMMAS:
            sentence.parts = [p._replace(text=p.text.replace(",", "")) for p in sentence.parts]
        return sentence


def sentence(seed: int, index: int) -> Sentence:
    """The sentence of a training that has this number; languages come by turns."""
    languages = list(LANGUAGES)
    return sample(languages[index % len(languages)], random.Random(f"brain/training/sentence {seed} {index}"))


def make(count: int, seed: int, progress: Callable[[int, int], None] | None = None) -> list[Sentence]:
    """The first ``count`` sentences of a training."""
    found = []
    for number in range(count):
        found.append(sentence(seed, number))
        if progress and (number + 1) % 5000 == 0:
            progress(number + 1, count)
    return found


__all__ = ["Batch", "Thing", "Verb", "encode", "make", "pack", "sample", "sentence"]
