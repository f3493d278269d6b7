# SPDX-License-Identifier: Apache-2.0
"""Names of objects in Japanese, and the places and particles that follow them."""
from __future__ import annotations

from brain_regions.language.lexicon import Kind
from brain_regions.language.reasons import Why
from experiments.grammar.reading import Cursor, Thing

K = Kind
_CORE = frozenset({K.COLOR, K.OTHER_COLOR, K.SHAPE, K.HINT})
NAMES = _CORE | {K.THING, K.BARRIER, K.DETERMINER, K.MODIFIER, K.MANY}
_HEADS = frozenset({K.SHAPE, K.THING, K.BARRIER})
SIDES = frozenset({"方", "ほう", "側", "がわ", "ところ", "所", "とこ", "場所", "方向", "付近"})     # of a color alone: 赤い方


def thing(c: Cursor) -> Thing | None:
    """Reads the name of an object, or nothing."""
    start = c.at
    found, named, hint, determined = Thing(), False, 0, False
    if c.kind() is K.HUE and c.kind(1) is K.PARTICLE and c.kind(2) is K.COLOR:
        c.at += 2   # 色が赤いボール
    while True:
        token = c.peek()
        if token.kind in (K.DETERMINER, K.MODIFIER, K.MANY):
            if named and c.kind(1) not in NAMES and not (_no(c, 1) and c.kind(2) in NAMES):
                break
            determined = True
            found.many |= token.kind is K.MANY
        elif token.kind in (K.COLOR, K.OTHER_COLOR):
            if token.kind is K.OTHER_COLOR:
                found.problem = (Why.COLOR, token.text)
            elif found.color not in (0, token.value):
                found.problem = (Why.COLORS, token.text)
            else:
                found.color = int(token.value)
            named = True
            if _joined(c, 1) and c.kind(2) in (K.COLOR, K.OTHER_COLOR):
                c.at += 1   # 赤と青のボール
        elif token.kind is K.HINT:
            hint, named = int(token.value), True
        elif token.kind is K.SHAPE:
            if found.shape not in (0, token.value):
                found.problem = (Why.WORD, token.text)
            found.shape, named = int(token.value), True
        elif token.kind in (K.THING, K.BARRIER) and (not named or token.kind is K.THING):
            found.barrier |= token.kind is K.BARRIER
            named |= token.kind is K.BARRIER
            determined = True
        elif token.kind in (K.HUE, K.SHAPED) and named:
            pass
        else:
            break
        c.take()
        if token.kind is K.SHAPE and c.kind() is K.SHAPED:
            continue
        if _no(c) and token.kind in _CORE | {K.HUE, K.SHAPED, K.MODIFIER, K.MANY, K.BARRIER}:
            # 赤の箱, ボールの赤いの; and の as a noun: 赤いのに
            following = c.kind(1)
            merged = following is K.COLOR and not found.color and c.kind(2) is not K.SHAPE
            if token.kind is K.SHAPE and not merged and following is not K.SHAPED:
                break
            if following in _CORE | _HEADS | {K.MODIFIER, K.HUE, K.SHAPED}:
                c.take()
            elif following in (K.PARTICLE, K.BE, K.INSTEAD) and token.kind is not K.SHAPE:
                c.take()
                break
    if not (named or determined):
        c.at = start
        return None
    found.shape = found.shape or hint
    return found


def role(c: Cursor, found: Thing) -> tuple[bool, str]:
    """Reads what follows an object.

    Returns whether a place beside it is meant, and its particle; ``drop`` for a landmark, ``bad`` for what is to be
    avoided, ``&`` where another object is joined to it.
    """
    place = False
    while True:
        if _no(c) and c.kind(1) is K.PLACE:
            if not (found.shape or place or c.peek(1).text in SIDES):
                found.problem = found.problem or (Why.WORD, c.peek(1).text)     # 緑の机
            c.at += 2
        elif c.kind() is K.PLACE and (c.peek().glued or place) and (
                found.shape or place or c.peek().text in SIDES):
            c.at += 1
        elif c.kind() is K.PARTICLE and c.peek().value in ("が", "の") and c.kind(1) is K.EXIST and (
                c.kind(2) is K.PLACE):
            c.at += 3   # ボールがある場所
        elif c.kind() is K.MANY and c.peek().text != "みんな":
            c.at += 1
            found.many = True
            continue
        else:
            break
        place = True
    token = c.peek()
    if token.kind is K.INSTEAD:
        c.take()
        return place, "drop"
    if token.kind is K.ENDING and token.value == "bad":
        c.take()
        return place, "bad"
    if _joined(c) and token.value != "も":
        ahead = 1
        while c.kind(ahead) in (K.COMMA, K.FILLER, K.AND) or _joined(c, ahead):
            ahead += 1
        if c.kind(ahead) in NAMES or c.kind(ahead) is K.WORD and token.value != "と":
            c.at += ahead
            return place, "&"
    if token.kind is not K.PARTICLE:
        return place, ""
    c.take()
    role = str(token.value)
    while c.kind() is K.PARTICLE:
        if c.peek().value == "の" and role != "の":
            role = "の"     # までの道
        c.take()
    following = c.peek()
    if following.kind is K.INSTEAD:
        c.take()
        return place, "drop"
    if following.kind is K.ENDING and following.value == "bad" and role in ("は", "が", "に", "も"):
        c.take()
        return place, "bad"
    if role in ("に", "の", "が") and following.kind is K.EXIST and c.kind(1) in NAMES:
        c.take()    # 箱の隣にあるボール
        return place, "drop"
    if role == "の" and (following.kind in NAMES):
        return place, "drop"
    if role == "の" and following.kind in (K.WORD, K.HUE, K.AIM, K.YOU, K.WHO):
        found.problem = found.problem or (Why.WORD, following.text)     # ボールの絵
    if role == "も" and following.kind in NAMES:
        return place, "&"
    return place, role


def _no(c: Cursor, ahead: int = 0) -> bool:
    token = c.peek(ahead)
    return token.kind is K.PARTICLE and token.value == "の"


def _joined(c: Cursor, ahead: int = 0) -> bool:
    token = c.peek(ahead)
    return token.kind is K.PARTICLE and token.value in ("と", "や", "か", "も") or (
        token.kind is K.AND and token.value in ("and", "or"))
