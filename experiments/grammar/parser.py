# SPDX-License-Identifier: Apache-2.0
"""From a sentence to what the robot is to do.

``parse`` normalizes and tokenizes the text, lets the grammar of its language (:mod:`.english`,
:mod:`.japanese`) read the commands out of it, and decides here what they mean together. What was decided
about meaning:

* A target may be only a color ("go to the red one") or only a shape ("go to the ball"); the other is 0: any.
* One target. Two that are joined ("the ball and the box", "the ball or the box") or named by two commands are
  not understood, unless the second only repeats the first ("find the red ball and go to the ball").
* At most one object to avoid. "Avoid obstacles", "without hitting anything" add nothing: that is done always.
* Forbidding to go to, approach, pass or touch an object is to avoid it. A text that only forbids is not
  understood: there is nothing to do. A prohibition that no grammar made anything of spoils the rest, too.
  "Don't move" is stop.
* "Not the blue one", "instead of the blue one" say what is not meant, which is not to avoid it; where it
  could be taken for the target ("any ball but the blue one"), it is.
* An object to avoid that covers the target (the same, or "avoid balls" where that is a red ball) contradicts
  it.
* "Stop at the ball" is to go there. Stop with a target that is named by another command is that command, but
  a sentence behind it that only says stop takes it back, as "never mind" does (:mod:`.corrections`).
* Questions, statements, wishes of others, and conditions are not understood.
"""
from __future__ import annotations

from brain_regions.language.all_words import lexicon
from brain_regions.language.lexicon import Kind, Token
from brain_regions.language.reasons import Why
from brain_regions.language.spelling import corrected
from brain_regions.language.tokens import fold, is_japanese, normalize, tokenize
from brain_regions.language.understanding import MAX_CHARACTERS, Understanding, Verb
from experiments.grammar import corrections, english, japanese
from experiments.grammar.reading import Act, Reading, Thing

_DOUBT = 0.1            # confidence lost by each word that was skipped
_CAREFUL = ("気", "き", "注意", "ちゅうい", "用心", "警戒")     # what may be said without an object
_LEAST = 0.3            # confidence of what was understood at all


class _NotUnderstood(Exception):
    def __init__(self, why: Why, word: str = "") -> None:
        super().__init__(why.name)
        self.why, self.word = why, word


def parse(text: str) -> Understanding:
    """Parses an English or Japanese sentence, or a few of them, into what they ask for. Never raises on any string.

    A text of more than 1000 characters is refused unread, so that its length costs nothing.
    """
    if len(text) > MAX_CHARACTERS:
        return Understanding(reason=Why.LONG.text(any(map(is_japanese, text[:100]))))
    normalized = corrected(normalize(text), lexicon())
    in_japanese = any(map(is_japanese, normalized))
    tokens = tokenize(normalized, lexicon())
    content = [t for t in tokens if t.kind not in (Kind.COMMA, Kind.END)]
    try:
        if not content:
            raise _NotUnderstood(Why.EMPTY if not text.strip() or normalized else Why.LANGUAGE)
        reading = corrections.read(tokens, (japanese if in_japanese else english).read)
        known = sum(t.kind not in (Kind.WORD, Kind.PARTICLE, Kind.FILLER) for t in content)
        unknown = known <= len(content) // 4
        meant = decide(reading, unknown)
        forbids = any(a.negated or a.kind is Kind.AVOID for a in reading.acts)
        if meant.verb in (Verb.GO, Verb.FIND) and not forbids and _prohibition(tokens):
            raise _NotUnderstood(Why.WORD, _prohibition(tokens))
        return meant
    except _NotUnderstood as no:
        place = fold(normalized).find(no.word)      # the word as it was written
        word = normalized[place:place + len(no.word)] if place >= 0 else no.word
        return Understanding(reason=no.why.text(in_japanese, word))


def _prohibition(tokens: list[Token]) -> str:
    """A word by which something is forbidden.

    Where there is one and no grammar made anything of it, the rest must not be done either: half a command is worse
    than none.
    """
    denied = verb = ""
    for before, token in zip([None, *tokens], tokens):
        if token.kind in (Kind.COMMA, Kind.END):
            denied = verb = ""
        elif token.kind is Kind.NOT:
            denied = token.text
        elif denied and token.kind in (Kind.MOVE, Kind.TOUCH):
            return denied
        elif denied and token.kind is Kind.WORD and before is not None and before.kind is Kind.NOT:
            verb = token.text       # "don't whack the box"
        elif verb and token.kind in (Kind.COLOR, Kind.SHAPE):
            return verb
        if token.kind in (Kind.AVOID, Kind.OUT) or token.value in (Kind.AVOID.name, "bad", "away"):
            return token.text
        if token.form in ("naide", "zu", "forbid") and token.kind in (Kind.MOVE, Kind.TOUCH, Kind.OTHER):
            return token.text
    return ""


def decide(reading: Reading, unknown: bool = False) -> Understanding:
    """Decides what the commands mean together.

    Args:
        reading: what was read.
        unknown: hardly any word is of a language that is known.

    Raises:
        _NotUnderstood: nothing that could be done.
    """
    wanted = [a for a in reading.acts if a.kind in (Kind.MOVE, Kind.FIND) and not a.negated]
    shunned = [a for a in reading.acts if a.kind is Kind.AVOID and not a.negated
               or a.kind in (Kind.MOVE, Kind.FIND, Kind.TOUCH, Kind.OTHER) and a.negated]
    halts = [a for a in reading.acts if a.kind is Kind.STOP and not a.negated
             or a.ceased or a.kind is Kind.MOVE and a.negated and not (a.objects or a.its or _nearing(a))]
    targets = [t for act in wanted for t in act.objects]
    if wanted and not targets:
        targets = wanted[-1].objects = reading.fragments
    confidence = max(_LEAST, 1.0 - _DOUBT * (reading.doubts + sum(t.doubts for t in targets)))
    if halts and not targets:
        return Understanding(Verb.STOP, understood=True, confidence=confidence)
    _refuse_what_cannot_be(reading, wanted, shunned)
    if not targets:
        if wanted:
            raise _NotUnderstood(Why.NO_TARGET)
        if shunned:
            raise _NotUnderstood(Why.ONLY_NOT)
        raise _NotUnderstood(Why.LANGUAGE if unknown else Why.NO_COMMAND)
    target = _only(targets, Why.TWO_TARGETS)
    if target.barrier or not (target.color or target.shape):
        raise _NotUnderstood(Why.NO_TARGET)
    avoid = Thing()
    avoided = [t for act in shunned for t in act.objects if not t.barrier]
    for excluded in reading.excluded:
        if excluded.problem and excluded.fits(target):
            raise _NotUnderstood(*excluded.problem)
    avoided += [Thing(t.color or target.color, t.shape or target.shape) for t in reading.excluded
                if not t.empty and t.fits(target)]
    if avoided:
        avoid = _only(avoided, Why.TWO_AVOIDED)
        if avoid.covers(target):
            raise _NotUnderstood(Why.SAME)
    verb = Verb.FIND if any(a.kind is Kind.FIND for a in wanted) else Verb.GO
    return Understanding(verb, target.color, target.shape, avoid.color, avoid.shape, True, confidence)


def _refuse_what_cannot_be(reading: Reading, wanted: list[Act], shunned: list[Act]) -> None:
    for act in reading.acts:
        if act.kind in (Kind.OTHER, Kind.TOUCH) and not act.negated:
            raise _NotUnderstood(Why.CANNOT, act.text)
        for found in act.objects:
            if found.problem:
                raise _NotUnderstood(*found.problem)
    if reading.problem:
        raise _NotUnderstood(*reading.problem)
    for act in shunned:
        if act.kind is Kind.AVOID and not (act.objects or act.its) and not act.text.startswith(_CAREFUL):
            raise _NotUnderstood(Why.WORD, act.text)
        if act.its and not act.objects and act.kind is not Kind.TOUCH:  # "don't touch it": the target
            raise _NotUnderstood(Why.WORD, act.text)
    if reading.conditional and wanted:
        raise _NotUnderstood(Why.CONDITION)
    for act in wanted:
        if any(t.many for t in act.objects):
            raise _NotUnderstood(Why.TWO_TARGETS)


def _nearing(act: Act) -> bool:
    """Tells whether a verb is about coming near: "don't go near" says something else than "don't go"."""
    return any(word in act.text for word in ("near", "close", "approach", "近", "ちか", "寄", "よら", "接近"))


def _only(things: list[Thing], why: Why) -> Thing:
    """The one object that all of these name; they may name it more or less exactly."""
    exact = max(things, key=lambda t: bool(t.color) + bool(t.shape))
    if not all(t.covers(exact) for t in things):
        raise _NotUnderstood(why)
    return exact
