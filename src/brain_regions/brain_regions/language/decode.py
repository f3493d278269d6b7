# SPDX-License-Identifier: Apache-2.0
"""From what the network says of a sentence to a goal, with the lexicon as check.

The network says what the sentence asks for and, for each byte, what the word that it stands in is for; words that name
one thing together are for the same. The lexicon only takes away: what the network claims must stand in the sentence as
a word for it, on an object that the world can have, and there must be one. Why a sentence is refused the network says,
too: its meaning is a class (:data:`.sizes.MEANINGS`), and the word to blame is what it takes for an action that cannot
be done or for a thing that it does not know. A robot does what :func:`obeyed` gives, which misses no bare stop.
"""
from __future__ import annotations

import itertools
import re
from typing import NamedTuple

import numpy as np

from brain_regions.language import sizes as z
from brain_regions.language.all_words import lexicon
from brain_regions.language.lexicon import ACTIONS, Kind, Token
from brain_regions.language.network import Heard
from brain_regions.language.reasons import Why
from brain_regions.language.spelling import corrected, doubtful
from brain_regions.language.tokens import fold, is_japanese, normalize, tokenize
from brain_regions.language.understanding import Understanding, Verb

_WITHIN = frozenset({Kind.COLOR, Kind.SHAPE, Kind.HINT, Kind.HUE, Kind.SHAPED, Kind.MODIFIER})
_NAMES = {Kind.COLOR: z.NAMED_COLOR, Kind.SHAPE: z.NAMED_SHAPE, Kind.HINT: z.NAMED_SHAPE}
CLEAR = 4.0
"""Logits by which one claim must be surer than another that contradicts it, so that the other is a slip."""
FOR_NOTHING = 2.0
"""Logit by which a thing must be for nothing to be let pass. By 6,000 fresh sentences of the trained rules, half of
them to be refused: of 41 that were refused for such a thing, and should not, it lets 30 pass, 27 of them as they were
meant; of 4 that had to be refused, one."""
BOLD = np.array([0.0, 0.75, 0.75, 0.5] + [0.0] * (len(z.MEANINGS) - 4), np.float32)
"""Logits added to the verbs, against the other meanings: who asks for something wants to be understood, and without an
object in the sentence the lexicon refuses anyhow; stop is the easiest thing to say. Chosen by lists that were looked
at."""
LEAVE = 0.5
"""Chance of "no order" from which on the goal that there is stays; below, the sentence is refused: the robot stands."""
_WHY = {"no order": Why.NO_ORDER, "only avoid": Why.ONLY_NOT, "exception": Why.EXCEPTION, "relation": Why.RELATION,
        "ordinal": Why.ORDINAL, "two targets": Why.TWO_TARGETS, "two avoided": Why.TWO_AVOIDED,
        "unknown": Why.NO_TARGET, "cannot": Why.NO_COMMAND, "condition": Why.CONDITION, "foreign": Why.LANGUAGE}
_BLAMED = {"unknown": (z.ACTION.stop - 1, Why.WORD), "cannot": (z.ACTION.stop - 2, Why.CANNOT)}
"""Meanings that have a word to blame: the output that says it of each byte, and the reason that names it."""
_FORBIDS = re.compile(      # what ends a clause in dialects and forbids, which the network takes for an order
    "(?:[ぐく]な(?:よ|や|って)?|きなや|[ぐく]ん?でね[えぇ]?(?:ぞ|よ)?|わがん?ね[えぇ]?|がねで(?:けろ|くれ)?|んとって(?:や|な)?|"
    "ちゃ(?:いけん|いかん)|たらつまらん|もんじゃ(?:ない|なか)|のはよせ)(?:$|[,.!])")
_LET_IT_BE = frozenset({"let", "it", "be"})     # "let it not be the red one", "don't let it be the red one"
_WITH_STOP = frozenset({Kind.STOP, Kind.REQUEST, Kind.FILLER, Kind.YOU, Kind.COMMA, Kind.END})
_ORDERS = frozenset({"", "base", "imp", "te", "vn"})   # forms of a verb; the others forbid or state
SHARED = 0.5
"""Part of the evidence of a word that the other words of the same thing share: "red ball" is one thing."""


class _No(Exception):
    def __init__(self, why: Why, word: str = "") -> None:
        super().__init__(why.name)
        self.why, self.word = why, word


class _Claim(NamedTuple):
    kind: Kind      # of the token
    value: int
    logit: float
    place: int      # number of the token


def spell(text: str, mend: bool = True) -> str:
    """A sentence as the network hears it: normalized, katakana as hiragana, without half characters.

    Args:
        mend: put the lexicon's word where it is sure that a slip of the keyboard meant it.
    """
    spelled = fold(normalize(text.encode("utf-8", "replace").decode()))
    return corrected(spelled, lexicon()) if mend else spelled


def framed(spelled: str) -> bytes:
    """The bytes of a spelled sentence between their frames."""
    return bytes([z.BEGIN]) + spelled.encode() + bytes([z.END])


def decode(spelled: str, heard: Heard) -> tuple[Understanding, Why | None, str]:
    """Decodes what a sentence asks for.

    Args:
        spelled: the sentence, as :func:`spell` leaves it.
        heard: of its bytes between the frames.

    Returns:
        What was understood, without a reason; where nothing was: why, and the word to blame.
    """
    verb, sure, meaning = decided(heard.verb)
    try:
        if verb is Verb.NONE:
            raise _refusal(spelled, heard.evidence, meaning)
        if verb is Verb.STOP:
            return Understanding(Verb.STOP, understood=True, confidence=sure), None, ""
        color, shape, avoid_color, avoid_shape, least = _slots(spelled, heard.evidence)
    except _No as no:
        return Understanding(), no.why, no.word
    return Understanding(verb, color, shape, avoid_color, avoid_shape, True, sure * least), None, ""


def obeyed(spelled: str, heard: Heard) -> tuple[Understanding, Why | None, str]:
    """Decides what the robot does: as :func:`decode`, but a stop that the network takes for something to refuse is one.

    At no order the goal would stay. A network in which nothing fires finds no command, and obeys none.
    """
    found = decode(spelled, heard)
    if found[1] not in (None, Why.NO_COMMAND) and _bare_stop(spelled):
        return Understanding(Verb.STOP, understood=True, confidence=1.0), None, ""
    return found


def _bare_stop(spelled: str) -> bool:
    """Tells whether the lexicon finds a stop and nothing else: nothing must let the robot go on at "that's enough"."""
    tokens = tokenize(spelled, lexicon())
    stops = [token.form for token in tokens if token.kind is Kind.STOP]
    return bool(stops) and _ORDERS.issuperset(stops) and all(token.kind in _WITH_STOP for token in tokens)


def decided(logits: np.ndarray) -> tuple[Verb, float, str]:
    """Picks the verb by the logits of the meanings; returns it, its probability and, where it is none, the meaning.

    All that is no order or refused is nothing to do, whatever the reason; which reason is another question. The meaning
    is empty where "no order" is the likeliest and not sure.
    """
    chances = np.exp(logits + BOLD - (logits + BOLD).max())
    chances /= chances.sum()
    nothing = chances.copy()
    nothing[Verb.NONE + 1:z.REFUSED] = 0.0
    to_do = np.array([nothing.sum(), *chances[Verb.NONE + 1:z.REFUSED]])
    verb, likeliest = Verb(int(to_do.argmax())), int(nothing.argmax())
    sure = likeliest or chances[0] > LEAVE
    return verb, float(to_do.max()), z.MEANINGS[likeliest] if verb is Verb.NONE and sure else ""


def _refusal(spelled: str, evidence: np.ndarray, meaning: str) -> _No:
    """Returns the reason why nothing is to be done, and the word to blame."""
    if meaning in _BLAMED:
        output, why = _BLAMED[meaning]
        tokens = tokenize(spelled, lexicon())
        said = [token.text if speaks > 0 else "" for token, speaks in zip(
            tokens, _means(spelled, tokens, evidence)[:, output])]
        start = next((at for at, text in enumerate(said) if text), len(said))
        run = list(itertools.takewhile(bool, said[start:]))
        if run:
            return _No(why, ("" if is_japanese(run[0][0]) else " ").join(run))
    return _No(_WHY.get(meaning, Why.NO_COMMAND), spelled if meaning == z.MEANINGS[0] else "")


def _slots(spelled: str, evidence: np.ndarray) -> tuple[int, int, int, int, float]:
    tokens = tokenize(spelled, lexicon())
    _check_language(tokens)
    means = _means(spelled, tokens, evidence)
    targets, avoided = _claims(tokens, means)
    found, sure, told = [], 1.0, []
    for claims, many in ((targets, Why.TWO_TARGETS), (avoided, Why.TWO_AVOIDED)):
        for kinds in ((Kind.COLOR,), (Kind.SHAPE,), (Kind.HINT,)):
            made = [claim for claim in claims if claim.kind in kinds]
            if kinds == (Kind.HINT,):
                if found[-1] or not made:
                    continue
                found.pop()
            best = max(made, key=lambda c: c.logit, default=None)
            for other in made:
                if other.value != best.value and other.logit > best.logit - CLEAR:
                    raise _No(many)
            found.append(best.value if best else 0)
            told += [best] if best else []
            # how sure: by the words that say so themselves
            sure = min([sure] + [1 / (1 + float(np.exp(-c.logit))) for c in made
                                 if c.value == best.value and c.logit > 0])
    color, shape, avoid_color, avoid_shape = found
    for claim in told:
        _check(tokens, claim.place)
    if not (color or shape):
        raise _No(Why.NO_TARGET)
    if not (avoid_color or avoid_shape):
        _check_forbidden(spelled, tokens, {claim.place for claim in targets}, color, shape)
    if (avoid_color or avoid_shape) and avoid_color in (0, color) and avoid_shape in (0, shape):
        raise _No(Why.SAME)
    _check_dropped(tokens, means, {claim.place for claim in targets + avoided},
                   ((color, shape), (avoid_color, avoid_shape)))
    return color, shape, avoid_color, avoid_shape, sure


def _claims(tokens: list[Token], means: np.ndarray) -> tuple[list[_Claim], list[_Claim]]:
    """Collects the network's claims about the words of target and avoided object.

    A word is for what its own evidence says, and half of that of the words that name the same thing with it. Once one
    of them says that the thing is for something, so are the others.
    """
    targets: list[_Claim] = []
    avoided: list[_Claim] = []
    for thing in _things(tokens):
        named = [place for place in thing if _agrees(tokens[place], means[place])]
        own = means[named][:, [z.TARGET, z.AVOID]]
        evidence = own + SHARED * (own.sum(0) - own)
        if not (evidence > 0).any():
            continue
        surest = int(evidence.argmax()) % 2
        for place, logits in zip(named, evidence):
            role = int(logits.argmax()) if logits.max() > 0 else surest
            logit = float(np.ptp(logits) if logits.min() > 0 else logits[role])
            (targets, avoided)[role].append(_Claim(tokens[place].kind, int(tokens[place].value), logit, place))
    return targets, avoided


def _things(tokens: list[Token]) -> list[list[int]]:
    """Numbers of the tokens that name a color or a shape, those of one thing together."""
    things: list[list[int]] = []
    near = False
    for place, token in enumerate(tokens):
        if token.kind in _NAMES:
            slot = _NAMES[token.kind]
            if not near or any(_NAMES[tokens[other].kind] == slot for other in things[-1]):
                things.append([])
            things[-1].append(place)
            near = True
        elif token.kind not in _WITHIN and token.text != "の":
            near = False
    return things


def _agrees(token: Token, logits: np.ndarray) -> bool:
    """Tells whether the network hears the color or shape that the lexicon says the word is."""
    heard = logits[_NAMES[token.kind]]
    return int(heard.argmax()) == int(token.value) - 1


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
    """Checks that the words around a claimed one make it an object that the world can have."""
    before = place - 1
    while before >= 0 and (tokens[before].kind in _WITHIN or tokens[before].text == "の"):
        before -= 1
    if before >= 0 and tokens[before].kind is Kind.OTHER_COLOR:
        raise _No(Why.COLOR, tokens[before].text)
    if before >= 0 and _unnamed(tokens, before, place):
        raise _No(Why.WORD, tokens[before].text)
    after = place + 1
    said_of_it = before >= 0 and (    # "the one that is red", and the sentence goes on
        tokens[before].kind is Kind.RELATIVE or tokens[before].text in ("is", "was"))
    if after < len(tokens) and tokens[place].kind is Kind.COLOR and tokens[after].kind is Kind.WORD and not said_of_it:
        raise _No(Why.WORD, tokens[after].text)     # "red car"
    while after < len(tokens) and tokens[after].kind in _WITHIN:
        after += 1
    if after < len(tokens) and tokens[after].kind is Kind.OTHER_COLOR and tokens[place].kind is Kind.COLOR:
        raise _No(Why.COLOR, tokens[after].text)
    _check_compound(tokens, place, after)


def _unnamed(tokens: list[Token], before: int, place: int) -> bool:
    """Tells whether the word before a bare shape may be what says which: "the grean box" is not any box."""
    if is_japanese(tokens[before].text[0]) or any(token.kind is Kind.COLOR for token in tokens[before + 1:place + 1]):
        return False
    word = tokens[before]
    begun = tokens[before - 1].kind if before > 0 else None
    if word.kind is Kind.WORD:
        return begun in (Kind.DETERMINER, Kind.TO, Kind.NEAR) or doubtful(word.text)
    return begun is Kind.DETERMINER and word.kind in ACTIONS and word.form != "ing"     # "the read box"


def _check_dropped(tokens: list[Token], means: np.ndarray, claimed: set[int], kept: tuple[tuple[int, int], ...]
                   ) -> None:
    """Checks that a thing that is for nothing is denied: "not the blue box". Else more is said than the goal holds.

    What the network is sure is for nothing is let pass: "the red ball was a mistake", and the "can" of "can wait".
    """
    if any(token.kind in (Kind.NOT, Kind.INSTEAD) for token in tokens):
        return
    for thing in _things(tokens):
        said = {_NAMES[tokens[place].kind] == z.NAMED_SHAPE: int(tokens[place].value) for place in thing}
        again = any(said.get(False, color) == color and said.get(True, shape) == shape for color, shape in kept)
        doubtful_role = means[thing][:, [z.TARGET, z.AVOID]].max() > -FOR_NOTHING
        if doubtful_role and not (again or claimed & set(thing)):
            raise _No(Why.TWO_TARGETS)


def _check_forbidden(spelled: str, tokens: list[Token], claimed: set[int], color: int, shape: int) -> None:
    """Refuses to go to what is excepted or forbidden: "any ball but the red one", "the box that isn't blue"."""
    if (found := _FORBIDS.search(spelled)) is not None:
        raise _No(Why.WORD, found.group().rstrip(",.!"))
    for thing in _things(tokens):
        if not (word := _excepted(tokens, thing[0])):
            continue
        said = {_NAMES[tokens[place].kind] == z.NAMED_COLOR: int(tokens[place].value) for place in thing}
        fits = said.get(True, color) in (color, 0) or not color, said.get(False, shape) in (shape, 0) or not shape
        if claimed & set(thing) or all(fits):
            raise _No(Why.WORD, word)


def _excepted(tokens: list[Token], place: int) -> str:
    """The English word that excepts a thing that begins at a place; empty where none does."""
    if is_japanese(tokens[place].text[0]):
        return ""
    before = place - 1
    while before >= 0 and (tokens[before].kind in _WITHIN or tokens[before].kind is Kind.DETERMINER):
        before -= 1
    while before >= 0 and tokens[before].text in _LET_IT_BE:
        before -= 1
    if before < 0:
        return ""
    word = tokens[before]
    if word.text == "but" and before and tokens[before - 1].kind in (*_NAMES, Kind.THING, Kind.FILLER):
        return "" if any(token.kind is Kind.NOT for token in tokens[:before]) else word.text
    return word.text if word.kind in (Kind.NOT, Kind.INSTEAD) else ""


def _check_language(tokens: list[Token]) -> None:
    """Checks that some word of an English sentence is known beside the names of things.

    "Ball" is a ball in German, too, but of the rest of "Gehe zum roten Ball" not one word is English. A single unknown
    word is let pass: people say a thing and something short.
    """
    if any(is_japanese(token.text[0]) for token in tokens):
        return
    others = [token for token in tokens if token.kind not in _NAMES and token.kind not in (Kind.COMMA, Kind.END)]
    if len(others) > 1 and all(token.kind is Kind.WORD for token in others):
        raise _No(Why.WORD, others[0].text)


def _check_compound(tokens: list[Token], place: int, after: int) -> None:
    """Checks that a Japanese word for a color or shape is not a part of the name of something else.

    Nothing stands between the parts of a Japanese noun: the "tama" of "tamago" (an egg) is no ball.
    """
    if not is_japanese(tokens[place].text[0]):
        return
    if tokens[place].kind is Kind.SHAPE:
        for beside in (place - 1, place + 1):
            if 0 <= beside < len(tokens) and tokens[beside].kind is Kind.WORD and is_japanese(tokens[beside].text[0]):
                raise _No(Why.WORD, tokens[beside].text)
        before, after_it = tokens[max(place - 2, 0):place], tokens[place + 1:place + 3]
        if len(before) == 2 and before[0].kind is Kind.COLOR and before[1].text == "や" and before[1].glued:
            raise _No(Why.WORD, before[1].text + tokens[place].text)        # a kettle (yakan) is no can
        if len(after_it) == 2 and after_it[0].text == "ね" and after_it[1].kind is Kind.WORD and after_it[1].glued:
            raise _No(Why.WORD, "".join(token.text for token in after_it))  # an onion (tamanegi) is no ball
    named = any(token.kind in (Kind.SHAPE, Kind.HINT) for token in tokens[place:after])
    if tokens[place].kind is Kind.COLOR and not named:
        if after < len(tokens) and tokens[after].text == "の":
            after += 1
        if after < len(tokens) and tokens[after].kind is Kind.WORD:
            raise _No(Why.WORD, tokens[after].text)     # a green computer
