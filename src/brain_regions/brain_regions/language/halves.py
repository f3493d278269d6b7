# SPDX-License-Identifier: Apache-2.0
"""Halves of what understands a sentence: the network without the lexicon, and the lexicon without the network.

Controls that show what each contributes (``--ablate lexicon=off`` and ``lexicon=alone``); see :mod:`.decode` for both
together.
"""
from __future__ import annotations

import numpy as np

from brain_regions.language import sizes as z
from brain_regions.language.all_words import lexicon
from brain_regions.language.decode import decided, framed
from brain_regions.language.lexicon import Kind
from brain_regions.language.network import Heard
from brain_regions.language.reasons import Why
from brain_regions.language.tokens import tokenize
from brain_regions.language.understanding import Understanding, Verb

_SAYS = {Kind.COLOR: z.NAMED_COLOR, Kind.SHAPE: z.NAMED_SHAPE, Kind.HINT: z.NAMED_SHAPE}
_VERBS = {Kind.STOP: Verb.STOP, Kind.FIND: Verb.FIND, Kind.MOVE: Verb.GO}


def of_network(heard: Heard) -> tuple[Understanding, Why | None, str]:
    """Decodes a sentence by what the network says of its bytes, whatever words they make.

    Target and what is avoided are of the color and the shape for which the bytes speak most that it says are for them,
    where more speaks for than against it.

    Returns:
        As :func:`.decode.decode`.
    """
    verb = decided(heard.verb)[0]
    if verb is Verb.NONE:
        return Understanding(), Why.NO_COMMAND, ""
    if verb is Verb.STOP:
        return Understanding(verb, understood=True, confidence=1.0), None, ""
    roles = heard.evidence[:, [z.TARGET, z.AVOID]]
    found: list[int] = []
    for role in range(2):
        meant = (roles[:, role] > 0) & (roles[:, role] >= roles[:, 1 - role])
        for names in (z.NAMED_COLOR, z.NAMED_SHAPE):
            said = np.maximum(heard.evidence[meant][:, names], 0.0).sum(0)
            found.append(int(said.argmax()) + 1 if said.any() else 0)
    color, shape, avoid_color, avoid_shape = found
    if not (color or shape):
        return Understanding(), Why.NO_TARGET, ""
    return Understanding(verb, color, shape, avoid_color, avoid_shape, True, 1.0), None, ""


def of_lexicon(spelled: str) -> dict[str, np.ndarray]:
    """Builds the outputs of a network for which all that the lexicon finds in a sentence is for the target.

    It asks to stop, to find or to go somewhere as the first word says that the lexicon has for one of these; without
    any for nothing.

    Args:
        spelled: as :func:`.decode.spell` leaves it.

    Returns:
        ``evidence`` and ``verb`` of a :class:`.network.Heard`.
    """
    evidence = np.full((len(framed(spelled)), z.OUTPUTS), -1.0, np.float32)
    tokens = tokenize(spelled, lexicon())
    letter, byte = 0, 1     # behind the frame
    for token in tokens:
        at = spelled.find(token.text, letter)
        if at < 0:
            continue
        start = byte + len(spelled[letter:at].encode())
        letter, byte = at + len(token.text), start + len(token.text.encode())
        if token.kind in _SAYS:
            evidence[start:byte, z.TARGET] = 1.0
            evidence[start:byte, _SAYS[token.kind].start + int(token.value) - 1] = 1.0
    said = next((_VERBS[token.kind] for token in tokens if token.kind in _VERBS), Verb.NONE)
    verb = np.zeros(len(z.MEANINGS), np.float32)
    verb[said] = 10.0
    return {"evidence": evidence, "verb": verb}
