# SPDX-License-Identifier: Apache-2.0
"""From what the network says of a sentence to a goal, with the lexicon as check.

The network says what the sentence asks for and, for each byte, what the word that it stands in is for. The lexicon only
takes away: what the network claims must stand in the sentence as a word for it, on an object that the world can have,
and there must be one. What the reason for not understanding is called, a person is told in the words of the grammar.
"""
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from brain_regions.language import sizes as z
from brain_regions.language.grammar import Understanding, Verb, parse
from brain_regions.language.lexicon import Kind, Token, lexicon
from brain_regions.language.network import Heard
from brain_regions.language.reasons import Why
from brain_regions.language.tokens import fold, is_japanese, normalize, tokenize

_WITHIN = frozenset({Kind.COLOR, Kind.SHAPE, Kind.HINT, Kind.HUE, Kind.SHAPED, Kind.MODIFIER})
CLEAR = 4.0
"""Logits by which one claim must be surer than another that contradicts it, so that the other is a slip."""


class _No(Exception):
    def __init__(self, why: Why, word: str = "") -> None:
        super().__init__(why.name)
        self.why, self.word = why, word


class _Claim(NamedTuple):
    value: int
    logit: float
    place: int      # number of the token


def spell(text: str) -> str:
    """A sentence as the network hears it: normalized, katakana as hiragana, without half characters."""
    return fold(normalize(text.encode("utf-8", "replace").decode()))


def framed(spelled: str) -> bytes:
    """The bytes of a spelled sentence between their frames."""
    return bytes([z.BEGIN]) + spelled.encode() + bytes([z.END])


def decode(spelled: str, heard: Heard) -> tuple[Understanding, Why | None, str]:
    """What a sentence asks for.

    Args:
        spelled: the sentence, as :func:`spell` leaves it.
        heard: of its bytes between the frames.

    Returns:
        What was understood, without a reason; where nothing was: why, and the word to blame.
    """
    chances = np.exp(heard.verb - heard.verb.max())
    chances /= chances.sum()
    verb = Verb(int(chances.argmax()))
    sure = float(chances.max())
    try:
        if verb is Verb.NONE:
            raise _No(Why.NO_COMMAND)
        if verb is Verb.STOP:
            return Understanding(Verb.STOP, understood=True, confidence=sure), None, ""
        color, shape, avoid_color, avoid_shape, least = _slots(spelled, heard.evidence)
    except _No as no:
        return Understanding(), no.why, no.word
    return Understanding(verb, color, shape, avoid_color, avoid_shape, True, sure * least), None, ""


def _slots(spelled: str, evidence: np.ndarray) -> tuple[int, int, int, int, float]:
    tokens = tokenize(spelled, lexicon())
    means = _means(spelled, tokens, evidence)
    found, sure = [], 1.0
    claims: list[_Claim] = []
    for colors, shapes, many in ((z.TARGET_COLOR, z.TARGET_SHAPE, Why.TWO_TARGETS),
                                 (z.AVOID_COLOR, z.AVOID_SHAPE, Why.TWO_AVOIDED)):
        for rows, kinds in ((colors, (Kind.COLOR,)), (shapes, (Kind.SHAPE,)), (shapes, (Kind.HINT,))):
            made = [claim for place, token in enumerate(tokens) if token.kind in kinds
                    for claim in _claimed(token, place, means[place, rows])]
            if kinds == (Kind.HINT,):
                if found[-1] or not made:
                    continue
                found.pop()
            best = max(made, key=lambda c: c.logit, default=None)
            for other in made:
                if other.value != best.value and other.logit > best.logit - CLEAR:
                    raise _No(many)
            found.append(best.value if best else 0)
            claims += [best] if best else []
            sure = min([sure] + [1 / (1 + float(np.exp(-c.logit))) for c in made if c.value == best.value])
    color, shape, avoid_color, avoid_shape = found
    for claim in claims:
        _check(tokens, claim.place)
    if not (color or shape):
        raise _No(Why.NO_TARGET)
    if (avoid_color or avoid_shape) and avoid_color in (0, color) and avoid_shape in (0, shape):
        raise _No(Why.SAME)
    return color, shape, avoid_color, avoid_shape, sure


def _claimed(token: Token, place: int, logits: np.ndarray) -> list[_Claim]:
    """What the network claims of a word, if it is what the lexicon says of the word."""
    value = int(token.value)
    logit = float(logits[value - 1])
    return [_Claim(value, logit, place)] if logit > 0 and logits.argmax() == value - 1 else []


def _means(spelled: str, tokens: list[Token], evidence: np.ndarray) -> np.ndarray:
    """Evidence of each token: the mean over its bytes."""
    found = np.zeros((len(tokens), z.OUTPUTS), np.float32)
    letter, byte = 0, 1     # behind the frame
    for number, token in enumerate(tokens):
        at = spelled.find(token.text, letter)
        if at < 0:
            continue
        start = byte + len(spelled[letter:at].encode())
        end = start + len(token.text.encode())
        letter, byte = at + len(token.text), end
        if start < len(evidence):
            found[number] = evidence[start:end].mean(0)
    return found


def _check(tokens: list[Token], place: int) -> None:
    """Whether the words around a claimed one make it an object that the world can have."""
    before = place - 1
    while before >= 0 and (tokens[before].kind in _WITHIN or tokens[before].text == "の"):
        before -= 1
    if before >= 0 and tokens[before].kind is Kind.OTHER_COLOR:
        raise _No(Why.COLOR, tokens[before].text)
    after = place + 1
    if after < len(tokens) and tokens[place].kind is Kind.COLOR and tokens[after].kind is Kind.WORD:
        raise _No(Why.WORD, tokens[after].text)     # "red car"
    while after < len(tokens) and tokens[after].kind in _WITHIN:
        after += 1
    if after < len(tokens) and tokens[after].kind is Kind.OTHER_COLOR and tokens[place].kind is Kind.COLOR:
        raise _No(Why.COLOR, tokens[after].text)


def reason(text: str, why: Why, word: str) -> str:
    """Why a sentence was not understood, for a person: as the grammar says it, if it did not understand it either."""
    if why in (Why.NO_COMMAND, Why.NO_TARGET):
        said = parse(text).reason
        if said:
            return said
    return why.text(any(map(is_japanese, text[:1000])), word)
