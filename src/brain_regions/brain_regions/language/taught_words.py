# SPDX-License-Identifier: Apache-2.0
"""Names of taught things in sentences: for the network, which has never heard them, a shape stands in for each.

"Find the mug" is read as "find the box", and what was understood of that box is meant of the mug. So all that the
network knows of sentences goes for taught things, and nothing is trained.
"""
from __future__ import annotations

import dataclasses
import re
from typing import Mapping, NamedTuple

from brain_regions.language.all_words import lexicon
from brain_regions.language.lexicon import SHAPE_BALL, SHAPE_BOX, SHAPE_CYLINDER, Kind
from brain_regions.language.reasons import Why
from brain_regions.language.tokens import fold, is_japanese, normalize, tokenize
from brain_regions.language.understanding import Understanding, Verb

_ENGLISH = {SHAPE_BOX: "box", SHAPE_BALL: "ball", SHAPE_CYLINDER: "cylinder"}
_JAPANESE = {SHAPE_BOX: "箱", SHAPE_BALL: "ボール", SHAPE_CYLINDER: "円柱"}


class StandIn(NamedTuple):
    """A word that stands in for a taught thing, and the shape that it names; the thing's name and number."""

    word: str
    shape: int
    name: str
    number: int


def put_in(text: str, names: Mapping[int, str]) -> tuple[str, list[StandIn]]:
    """A sentence with stand-ins for taught things, shapes that it does not name itself; and these.

    Args:
        text: as it was said.
        names: of taught things by number.
    """
    spelled, found = normalize(text.encode("utf-8", "replace").decode()), []
    named = {name: number for number, name in names.items() if _said(name).search(spelled)}
    if not named:
        return text, []
    own = {token.value for token in tokenize(fold(spelled), lexicon()) if token.kind in (Kind.SHAPE, Kind.HINT)}
    free = [shape for shape in _ENGLISH if shape not in own]
    for shape, (name, number) in zip(free, named.items()):
        word = (_JAPANESE if is_japanese(spelled[0]) or is_japanese(name[0]) else _ENGLISH)[shape]
        spelled = _said(name).sub(word, spelled)
        found.append(StandIn(word, shape, name, number))
    return spelled, found


def _said(name: str) -> re.Pattern[str]:
    """Finds a name as a word; Japanese has nothing between words."""
    return re.compile(re.escape(name) if is_japanese(name[0]) else rf"\b{re.escape(name)}\b")


def meant(understood: Understanding, why: Why | None, word: str, stand_ins: list[StandIn]
          ) -> tuple[Understanding, Why | None, str]:
    """Puts taught things for their stand-ins in what was understood, as :func:`.decode.obeyed` gives it.

    A taught thing can be looked for, and not avoided. It has no color, whatever was said of it.
    """
    for one in stand_ins:
        word = word.replace(fold(one.word), one.name)       # of a reason, which names what was said
        if understood.verb in (Verb.GO, Verb.FIND):
            if understood.avoid_shape == one.shape:
                return Understanding(), Why.TAUGHT_AVOIDED, one.name
            if understood.shape == one.shape:
                understood = dataclasses.replace(understood, color=0, shape=one.number)
    return understood, why, word
