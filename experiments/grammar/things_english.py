# SPDX-License-Identifier: Apache-2.0
"""Names of objects in English: what a color, a shape and the words between and after them make."""
from __future__ import annotations

from brain_regions.language.lexicon import ACTIONS, Kind
from brain_regions.language.reasons import Why
from experiments.grammar.reading import Cursor, Thing

K = Kind


def thing(cursor: Cursor) -> Thing | None:
    """Reads the name of an object, or nothing."""
    start = cursor.at
    found, named, determined, hint, hue = Thing(), False, False, 0, False
    while True:
        token = cursor.peek()
        if token.kind in (K.DETERMINER, K.MANY) and not named:
            determined = True
            found.many |= token.kind is K.MANY
        elif token.kind is K.MODIFIER:
            pass
        elif token.kind is K.COLOR:
            if found.color not in (0, token.value):
                found.problem = (Why.COLORS, token.text)
            found.color, named = int(token.value), True
            if cursor.kind(1) is K.AND and cursor.kind(2) is K.HINT:
                cursor.take()   # "something red and round"
            elif cursor.kind(1) is K.AND and cursor.kind(2) in (K.COLOR, K.OTHER_COLOR) and (
                    _ahead(cursor, 3) or not determined):
                cursor.take()   # "the red and blue ball"
        elif token.kind is K.OTHER_COLOR:
            found.problem, named = (Why.COLOR, token.text), True
        elif token.kind is K.HINT:
            hint, named = int(token.value), True
        elif token.kind is K.HUE and (hue or named or cursor.kind(1) is K.COLOR):
            hue = True
        elif token.kind is K.SHAPE:
            if token.text == "can" and not (determined or named):
                break
            if found.shape not in (0, token.value):
                found.problem = (Why.WORD, token.text)
            found.shape, named = int(token.value), True
            if cursor.kind(1) not in (K.SHAPE, K.SHAPED) and not (
                    cursor.kind(1) is K.COMMA and cursor.kind(2) in (K.COLOR,) and not _ahead(cursor, 3)):
                cursor.take()
                return _finish(cursor, found, hint)
        elif token.kind is K.SHAPED and named:
            pass
        elif token.kind is K.COMMA and named and (
                cursor.kind(1) in (K.COLOR, K.SHAPE, K.HINT, K.MODIFIER)) and (
                found.color == 0 or found.shape == 0) and (_ahead(cursor, 1) or cursor.kind(1) is K.COLOR):
            pass    # "the big, red ball", "the ball, red"
        elif token.kind in (K.THING, K.BARRIER) or token.kind is K.AIM and (named or determined):
            cursor.take()
            found.barrier = token.kind is K.BARRIER
            if found.barrier and cursor.kind() in (K.COLOR, K.HINT, K.OTHER_COLOR):
                determined = True
                continue    # "anything blue"
            if not named and cursor.kind() is K.SHAPED:
                continue
            found.barrier &= not named
            return _finish(cursor, found, hint)
        elif token.kind is K.WORD and (named or determined) and cursor.kind(1) in (K.COLOR, K.SHAPE, K.THING):
            found.doubts += 1   # "the red tennis ball", "the rusty red ball"
            if not found.color and cursor.kind(1) is not K.COLOR:
                found.problem = found.problem or (Why.WORD, token.text)     # "the teal ball"
        else:
            break
        cursor.take()
    if not named:
        cursor.at = start
        return None
    found.bare = not determined
    found.barrier = False
    return _finish(cursor, found, hint)


def _ahead(cursor: Cursor, ahead: int) -> bool:
    """A noun of an object follows, after adjectives."""
    while cursor.kind(ahead) in (K.COLOR, K.MODIFIER, K.HINT):
        ahead += 1
    return cursor.kind(ahead) in (K.SHAPE, K.THING)


def _finish(cursor: Cursor, found: Thing, hint: int) -> Thing:
    """Reads what may follow a noun, and looks out for a compound ("the red ball room")."""
    found.shape = found.shape or hint
    _shaped_like(cursor, found)
    mark = cursor.at
    if cursor.kind() in (K.RELATIVE, K.OF, K.NEAR, K.DETERMINER, K.BE) or cursor.kind() is K.HUE:
        said = cursor.at
        cursor.take()
        cursor.skip(frozenset({K.DETERMINER, K.MODIFIER, K.HUE, K.OF, K.BE, K.NOT}))
        token = cursor.peek()
        denied = [t for t in cursor.tokens[said:cursor.at] if t.kind is K.NOT or t.text.endswith("n't")]
        if denied and token.kind in (K.COLOR, K.OTHER_COLOR, K.HINT, K.SHAPE) and (
                cursor.tokens[said].kind in (K.RELATIVE, K.DETERMINER)):
            found.problem = (Why.WORD, denied[0].text)      # "the ball that isn't red"
            return found
        if denied:
            cursor.at = said + 1
            token = cursor.peek()
        if found.empty and cursor.peek(-1).kind is not K.OF and _ahead(cursor, 0):
            return thing(cursor) or found   # "the thing that is a red ball"
        if token.kind in (K.COLOR, K.OTHER_COLOR) and not _ahead(cursor, 1):
            cursor.take()
            cursor.skip(frozenset({K.HUE}))
            if token.kind is K.OTHER_COLOR or found.color not in (0, token.value):
                found.problem = (Why.COLOR if token.kind is K.OTHER_COLOR else Why.COLORS, token.text)
            else:
                found.color, found.barrier = int(token.value), False
            if cursor.kind() is K.AND and cursor.kind(1) is K.HINT:
                cursor.take()   # "the thing that is blue and round"
                found.shape = found.shape or int(cursor.take().value)
            _shaped_like(cursor, found)
            return found
        if token.kind is K.WORD and not found.color and (
                cursor.kind(1) is K.HUE or cursor.peek(-1).kind is K.RELATIVE and cursor.kind(1) in (
                    K.END, K.COMMA, K.AND)):
            found.problem = found.problem or (Why.WORD, token.text)     # "the ball that is teal"
            cursor.take()
            return found
        if token.kind is K.WORD and cursor.kind(1) is K.SHAPED:
            found.problem = found.problem or (Why.WORD, token.text)     # "the one that is cone shaped"
            return found
        shaped = token.kind is K.SHAPE and cursor.kind(1) is K.SHAPED
        if (token.kind is K.HINT or shaped) and not found.shape:
            found.shape = int(cursor.take().value)
            cursor.skip(frozenset({K.SHAPED}))
            return found
        cursor.at = mark
    following = cursor.peek()
    if following.kind in (K.WORD, K.PLACE, K.SHAPE) or following.kind in ACTIONS and following.form == "noun":
        found.problem = found.problem or (Why.WORD, following.text)
    return found


def _shaped_like(cursor: Cursor, found: Thing) -> None:
    """ "... shaped like a box", "... and shaped like a box"."""
    ahead = 1 if cursor.kind() is K.AND else 0
    if cursor.kind(ahead) is not K.SHAPED or cursor.peek(ahead).value != "like":
        return
    cursor.at += ahead + 1
    token = cursor.peek()
    if token.kind is K.SHAPE and found.shape in (0, token.value):
        found.shape = int(cursor.take().value)
    else:
        found.problem = found.problem or (Why.WORD, token.text)
