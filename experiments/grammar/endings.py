# SPDX-License-Identifier: Apache-2.0
"""Endings of Japanese verbs, which make of a verb a command, a prohibition, a link in a chain, a statement."""
from __future__ import annotations

import enum

from brain_regions.language.lexicon import ACTIONS, Kind, Token
from experiments.grammar.reading import Cursor

K = Kind
_CLOSE = frozenset({K.COMMA, K.END})
_AFTERWARDS = frozenset("いい いいか いいかい いいですか ごめん ごめんなさい ごめんね すみません すいません".split())


class Mood(enum.Enum):
    """Mood of a verb in its sentence."""

    COMMAND = enum.auto()   # whatever follows
    CHAIN = enum.auto()     # it has the mood of what follows; a command if nothing does
    STATE = enum.auto()
    CONDITION = enum.auto()


def ending(c: Cursor, verb: Token, question: bool) -> tuple[Mood, bool, bool]:
    """Reads the endings after a verb.

    Args:
        c: stands behind the verb.
        verb: the verb, whose ``form`` decides what may follow.
        question: the sentence ends with a question mark.

    Returns:
        Mood; negated; ceased (「行くのをやめて」).
    """
    form = verb.form
    if _quoted(c) or form in ("te", "imp", "vn") and _denied(c):
        return Mood.STATE, False, False
    if form in ("te", "naide"):
        return _after_te(c), form == "naide" or _forbidden(c), False
    if form in ("imp", "base", "ing", "can", "forbid"):
        return Mood.COMMAND, form == "forbid", False
    if form == "zu":
        return _after_te(c), True, False
    if form == "able":
        return (Mood.COMMAND if question else Mood.STATE), False, False
    if form == "cha":
        bad = _take(c, "bad")
        return (Mood.COMMAND if bad else Mood.STATE), bad, False
    if form == "tara":
        if _take(c, "bad"):
            return Mood.COMMAND, True, False    # 動いたらだめ
        arrived = verb.value in _ARRIVALS
        return (Mood.CHAIN if arrived or verb.kind in (K.FIND, K.STOP) else Mood.CONDITION), False, False
    if form == "stem":
        return _after_stem(c, question), False, False
    if form == "while":
        return Mood.CHAIN, False, False
    if form == "vn":
        return _after_noun(c), False, False
    if verb.kind is K.AVOID and c.kind() is K.PLACE:
        c.take()
        return Mood.CHAIN, form == "nai", False     # 避けるルートで
    return _after_plain(c, question, negated=form == "nai")


_ARRIVALS = frozenset("着く 辿り着く たどり着く たどりつく 到着 とうちゃく 到達 とうたつ 行く いく 近づく ちかづく".split())


def _take(c: Cursor, *values: str) -> bool:
    if c.kind() is K.ENDING and c.peek().value in values:
        c.take()
        return True
    return False


def _particle(c: Cursor, *values: str, ahead: int = 0) -> bool:
    token = c.peek(ahead)
    return token.kind is K.PARTICLE and token.value in values


def _quoted(c: Cursor) -> bool:
    """Tells whether somebody else is said to have commanded, or nobody: 「行けと彼が言った」「行けとは言っていない」."""
    if not (c.peek().kind is K.PARTICLE and (
            c.peek().text.startswith(("と", "って")) or c.peek().value == "など")):
        return False
    rest = c.tokens[c.at:]
    if c.peek(-1).text.endswith("う") and any(t.kind not in _CLOSE for t in rest[1:]):
        return True     # 「行こうとするな」「行こうと思います」
    if any(t.kind is K.ASK for t in c.tokens):
        return True     # 「誰が行けと言った」
    return any(t.kind is K.WHO or t.text.endswith(("ません", "ない")) for t in rest)


def _denied(c: Cursor) -> bool:
    """Tells whether the rest of the clause says that it is not so: 「行ってほしいわけじゃない」「行けなんて言ってない」."""
    for token in c.tokens[c.at:]:
        if token.kind in _CLOSE or token.kind in ACTIONS:
            return False
        later = token is not c.peek()       # 行ってくれるな forbids
        if token.value == "denied" or token.value == "unwanted" and later or (
                token.kind is K.EXIST and token.text.endswith(("ません", "ない"))):
            return True
    return False


def _forbidden(c: Cursor) -> bool:
    """Tells whether 「てはだめ」 or 「てくれなくていい」 was just read."""
    token = c.peek(-1)
    return token.kind is K.ENDING and token.value in ("bad", "unwanted")


def _after_te(c: Cursor) -> Mood:
    while True:
        token = c.peek()
        if token.kind is K.ENDING and token.value == "try":
            c.take()
            if token.text.endswith(("よう", "しょう")) and _particle(c, "か"):
                return Mood.COMMAND     # 行ってみようか
        elif token.kind is K.ENDING and token.value == "unwanted":
            c.take()
            return Mood.COMMAND
        elif token.kind is K.ENDING and token.value == "req" or token.kind is K.REQUEST:
            return Mood.COMMAND
        elif _particle(c, "ね", "よ", "さ", "や", "な", "ぜ", "ぞ"):
            return Mood.COMMAND
        elif _particle(c, "は") and c.kind(1) is K.ENDING and c.peek(1).value == "bad":
            c.at += 2
            return Mood.COMMAND
        elif _particle(c, "は") and c.kind(1) in (K.EXIST, K.FILLER, K.ASK):
            return Mood.STATE
        elif _particle(c, "も", "か", "の") or token.glued and token.text in _AFTERWARDS:
            return Mood.STATE   # 行ってもいい, 行っていいの, 行ってごめん
        elif token.kind in (K.EXIST, K.STATE) and token.glued:
            c.take()
            return Mood.STATE   # 行っている
        elif token.kind is K.BE and token.glued:
            return Mood.STATE
        elif _particle(c, "は") and c.kind(1) is not K.ENDING and c.kind(1) not in _CLOSE:
            return Mood.STATE   # 行っては困る
        elif _particle(c, "から", "は"):
            c.take()
        else:
            return Mood.CHAIN


def _after_stem(c: Cursor, question: bool) -> Mood:
    if _take(c, "nasai"):
        return Mood.COMMAND
    if _take(c, "while"):
        return Mood.CHAIN
    if _particle(c, "な") and not question:
        return Mood.COMMAND
    if _particle(c, "に") and c.kind(1) in ACTIONS:
        c.take()
        return Mood.CHAIN
    if _take(c, "req", "so"):
        return Mood.COMMAND
    if c.kind() is K.COMMA:
        return Mood.CHAIN
    return Mood.STATE


def _after_noun(c: Cursor) -> Mood:
    if _take(c, "req", "begin") or c.kind() is K.REQUEST:
        return Mood.COMMAND
    if _particle(c, "を", "で") and c.kind(1) in (K.REQUEST, K.FILLER) or (
            _particle(c, "を") and c.kind(1) is K.ENDING and c.peek(1).value == "begin"):
        c.take()
        return Mood.COMMAND
    if _particle(c, "だ", "よ", "ね", "ぞ"):
        return Mood.COMMAND
    if _take(c, "while", "must") or c.kind() in _CLOSE | ACTIONS | {K.FILLER, K.AND}:
        return Mood.CHAIN
    return Mood.STATE


def _after_plain(c: Cursor, question: bool, negated: bool) -> tuple[Mood, bool, bool]:
    if _take(c, "unwanted"):
        return (Mood.STATE if question else Mood.COMMAND), not negated, False   # 行くべからず, 行くんじゃない
    if _take(c, "notdo"):
        return Mood.CHAIN, True, False
    if c.kind() is K.ENDING and c.peek().value in ("so", "must"):
        chained = c.peek().text.endswith(("て", "つつ", "ながら", "に", "よう", "から", "で"))
        c.take()
        if _particle(c, "も") or _particle(c, "は") and c.kind(1) is not K.ENDING:
            return Mood.STATE, False, False
        if _take(c, "req") or c.kind() is K.REQUEST:
            chained = False
        if _particle(c, "は") and c.kind(1) is K.ENDING and c.peek(1).value == "bad":
            c.at += 2
            return Mood.COMMAND, not negated, False     # 行くことは禁止
        if c.kind() is K.INSTEAD or (_particle(c, "で") or c.peek().text in ("では", "じゃ")) and (
                c.kind(1) is K.EXIST):
            c.take()
            return Mood.COMMAND, not negated, False     # 行くべきではない
        if c.kind() not in _CLOSE and chained and c.kind() is not K.REQUEST:
            return Mood.CHAIN, negated, False
        return Mood.COMMAND, negated, False
    if _particle(c, "の"):
        return _after_nominal(c, negated)
    if _particle(c, "まで"):
        c.take()
        return Mood.CHAIN, negated, False
    if _particle(c, "で") and negated:
        c.take()
        return _after_te(c), True, False
    if c.kind() is K.CONDITION and c.peek().text not in ("場合", "場合は", "場合には", "なら", "ならば", "たび"):
        c.take()
        return Mood.CHAIN, negated, False       # 行くときは, 行く途中で
    if c.kind() is K.PLACE and c.peek().text in ("前", "まえ", "先"):
        return Mood.CHAIN, negated, False
    if c.kind() is K.PLACE and negated:
        c.take()
        return Mood.CHAIN, True, False          # 近づかないルートで
    if c.kind() in _CLOSE:
        return (Mood.STATE if question else Mood.CHAIN), negated, False
    if c.kind() is K.REQUEST or negated and c.kind() is K.FILLER:
        return Mood.COMMAND, negated, False
    return Mood.STATE, False, False


def _after_nominal(c: Cursor, negated: bool) -> tuple[Mood, bool, bool]:
    """行くの followed by をやめて, は禁止, を避けて, をお願いします."""
    if not _particle(c, "を", "は", "が", "も", ahead=1):
        return Mood.STATE, False, False
    following = c.peek(2)
    if following.kind is K.STOP:
        c.at += 3
        return Mood.CHAIN, not negated, True
    if following.kind is K.AVOID or following.kind is K.ENDING and following.value == "bad":
        c.at += 3
        return _after_te(c) if following.form == "te" else Mood.COMMAND, not negated, False
    if following.kind is K.REQUEST:
        c.at += 3
        return Mood.COMMAND, negated, False
    return Mood.STATE, False, False
