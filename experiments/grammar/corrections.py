# SPDX-License-Identifier: Apache-2.0
"""People who correct themselves: "go to the red ball, no wait, the blue one", 「赤いボールに。いや、やめて」.

A correction takes back what was commanded before its mark, so it is found before anything is decided:

* an object alone behind the mark replaces the last one that was named, and keeps of it what is not said anew;
* a command behind the mark replaces the commands before it;
* stop, or nothing but a mark that takes back ("never mind"), means stop;
* anything else behind a mark that can only be a correction makes the text not understood.

A word that is only sometimes a mark ("actually", "wait", やっぱり) is one where it opens a clause behind a
command.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence

from brain_regions.language.lexicon import Kind, Token
from brain_regions.language.reasons import Why
from brain_regions.language.tokens import fold
from brain_regions.language.words_corrections import INTERJECTIONS, JOKES, NOTHING, STRONG
from experiments.grammar.reading import Act, Reading, Thing

# marks at the start of a clause, or where two stand together ("no wait")
OPENING = (
    "no|nope|nah|wait|hold on|hang on|sorry|actually|pardon|excuse me|じゃなくて|じゃなく|ではなく|ではなくて|"
    "じゃない|すみません|すいません|やっぱり|やはり|" + INTERJECTIONS)
CANCELS = "never mind|scratch that|strike that|" + NOTHING     # alone they mean stop
# what takes back what came before where nothing follows
DROPS = (
    "no way|no chance|not a chance|i don't think so|i'd rather you didn't|absolutely not|certainly not|"
    "definitely not|of course not|never|please don't|no|nope|not|don't|dont|do not|cancel|cancel that|"
    "cancel it|i changed my mind|changed my mind|"
    "やめて|やめた|やめます|やめる|やめよう|やめ|忘れて|キャンセル|中止|中止して|" + CANCELS + "|" + JOKES)
# what does so where it is a sentence
HALTS = (
    "stop|halt|freeze|abort|quit|stop it|stop that|emergency stop|止まれ|止まって|とまれ|とまって|ストップ|停止|停止して|停止せよ|"
    "やめろ|緊急停止|動くな")

K = Kind
Reader = Callable[[Sequence[Token], Reading], None]
_STRONG, _OPENING, _DROPS, _HALTS, _CANCELS = (
    frozenset(fold(words).split("|")) for words in (STRONG, OPENING, DROPS, HALTS, CANCELS))
_SURE = _STRONG | frozenset(fold("no|nope|nah|いや|いやいや|いえ|いいえ|違う|違います|ちがう|じゃなくて").split("|"))
_APOLOGIES = frozenset(("sorry", "pardon", "excuse me"))
_SIGHS = frozenset(fold("あ|あっ|ああ|え|えっ").split("|"))
_PAUSES = frozenset({K.COMMA, K.END, K.FILLER, K.YOU})
_SAYS_WHAT = frozenset({K.COLOR, K.OTHER_COLOR, K.SHAPE, K.HINT})
_NAMES = _SAYS_WHAT | {K.DETERMINER, K.MODIFIER, K.HUE, K.SHAPED, K.THING, K.TO, K.NEAR, K.OF, K.RELATIVE,
                       K.PLACE, K.FILLER, K.YOU, K.REQUEST}
_PARTICLES = frozenset("に へ まで を の で が な ね よ さ と".split())
_MOST = 4       # corrections in one text; each doubles the work
_LEADS = frozenset({K.TO, K.NEAR, K.FILLER})


def read(tokens: Sequence[Token], reader: Reader) -> Reading:
    """Reads a text with the grammar of its language, and what its speaker took back in it."""
    if any(t.text in _CANCELS for t in tokens) and _rest_is_idle(tokens, 0):
        return Reading(acts=[Act(K.STOP, tokens[0].text)])
    marks = _marks(tokens)
    if len(marks) > _MOST:
        whole = Reading()
        reader(tokens, whole)
        whole.blame(Why.WORD, tokens[marks[-1][0]].text)
        return whole
    for start, stop in reversed(marks):
        corrected = _correct(tokens, start, stop, reader)
        if corrected is not None:
            return corrected
    whole = Reading()
    reader(tokens, whole)
    return whole


def _marks(tokens: Sequence[Token]) -> list[tuple[int, int]]:
    """Finds where marks begin and end, with the pauses around them."""
    found: list[tuple[int, int]] = []
    at = 1
    while at < len(tokens):
        opens = tokens[at - 1].kind in (K.COMMA, K.END) or (
            tokens[at].text in _OPENING and at + 1 < len(tokens) and tokens[at + 1].text in _OPENING)
        stop = at
        marked = False
        while stop < len(tokens):
            if _is_mark(tokens, stop, opens, marked):
                marked = True
            elif not ((opens or marked) and (tokens[stop].kind in _PAUSES or tokens[stop].text in _SIGHS)):
                break
            stop += 1
        if marked:
            found.append((at, stop))
            at = stop
        at += 1
    return found


def _is_mark(tokens: Sequence[Token], at: int, opens: bool, marked: bool) -> bool:
    token = tokens[at]
    if token.text in _STRONG:
        return True
    if not (opens or marked):
        return False
    if (token.text in _DROPS or token.text in _HALTS and tokens[at - 1].kind is K.END) and (
            _rest_is_idle(tokens, at + 1)):
        return True
    if token.text not in _OPENING:
        return False
    following = tokens[at + 1] if at + 1 < len(tokens) else None
    if token.kind is K.STOP:    # "wait, ..." corrects, "wait. ..." and "wait there" are what to do
        return following is not None and (
            following.kind is K.COMMA or following.text in _OPENING | _STRONG
            or marked and following.kind not in (K.END, K.PLACE, K.ITS, K.FILLER))
    if token.text == "no":      # "no touching", "no box" forbid
        return following is None or following.form != "ing" and following.kind not in (
            K.COLOR, K.SHAPE, K.WORD, K.TOUCH, K.NEAR)
    return True


def _rest_is_idle(tokens: Sequence[Token], at: int) -> bool:
    """Tells whether nothing is said from here on."""
    return all(t.kind in _PAUSES | {K.REQUEST, K.PARTICLE, K.ENDING, K.BE, K.ITS} or t.text in _DROPS
               or t.text == "that"
               for t in tokens[at:])


def _correct(tokens: Sequence[Token], start: int, stop: int, reader: Reader) -> Reading | None:
    """Reads a text whose correction is behind ``stop``; None if that is no correction."""
    before, said = read(tokens[:start], reader), tokens[stop:]
    if not (before.acts or before.fragments):
        return None
    if _rest_is_idle(said, 0):
        if before.acts and any(t.text in _DROPS | _HALTS for t in tokens[start:stop]):
            return Reading(acts=[Act(K.STOP, tokens[start].text)])
        return None
    length = _name_length(said)
    if length:
        return _rename(before, said[:length], said[length:], reader)
    if said[0].kind is K.AND:
        return None     # "wait, then go to the box": one after the other
    after = read(said, reader)
    wanted = _wanted(after)
    halts = any(a.kind is K.STOP and not a.negated for a in after.acts)
    forbids = len(_wanted(before)) < len(before.acts)
    if wanted and not forbids and not _repeats(before, wanted) or halts and not wanted:
        return after
    mark = {t.text for t in tokens[start:stop]}
    # "actually the chair" is a correction, "sorry for the trouble" is none
    clause = said[:next((i for i, t in enumerate(said) if t.kind in (K.COMMA, K.END)), len(said))]
    names = any(t.kind is K.WORD for t in clause) and all(
        t.kind in _NAMES or t.kind is K.WORD or _japanese_end(t) for t in clause) and not (
        said[0].kind is K.TO and mark & _APOLOGIES)
    if (names or mark & _SURE) and before.acts and not after.acts:
        before.blame(Why.WORD, next((t.text for t in said if t.kind is K.WORD), tokens[start].text))
        return before
    return None


def _wanted(reading: Reading) -> list[Thing]:
    """The objects of commands to go or to find; what was not an object counts as an unknown one."""
    return [thing for act in reading.acts if act.kind in (K.MOVE, K.FIND) and not act.negated
            for thing in act.objects or [Thing()]]


def _repeats(before: Reading, wanted: list[Thing]) -> bool:
    """Tells whether the second command names the object of the first again, or leaves it open."""
    return any(a.fits(b) for a in _wanted(before) for b in wanted)


def _name_length(said: Sequence[Token]) -> int:
    """Counts the tokens at the start that name an object alone; 0: there is a verb, or no name."""
    end = next((i for i, t in enumerate(said) if t.kind is K.END), len(said))
    for stop in (end, *(i for i in range(end) if said[i].kind in (K.COMMA, K.AND))):
        if any(t.kind in _SAYS_WHAT for t in said[:stop]) and all(
                t.kind in _NAMES or t.kind is K.COMMA or _japanese_end(t) for t in said[:stop]):
            return stop
    return 0


def _japanese_end(token: Token) -> bool:
    if token.kind is K.PARTICLE:
        return token.value in _PARTICLES
    return not token.text.isascii() and (token.kind is K.BE or token.kind is K.STATE and token.text in (
        "でした", "だった") or token.kind is K.ENDING and token.value == "req")


def _rename(before: Reading, name: Sequence[Token], rest: Sequence[Token], reader: Reader) -> Reading | None:
    """Puts the object that is named in place of the last one before it, and reads on."""
    at = next(i for i, t in enumerate(name) if t.kind not in _LEADS)
    alone = Reading()
    reader(name[at:], alone)
    things = [t for act in alone.acts for t in act.objects] or alone.fragments
    act = next((a for a in reversed(before.acts) if a.objects), None)
    old = act.objects if act else before.fragments
    if not old:
        return None
    if not things or alone.problem:
        before.problem = alone.problem or (Why.WORD, name[at].text)
        return before
    last = old[-1]
    for new in things:
        if not (new.color and new.shape):
            new.problem = new.problem or last.problem
        new.color, new.shape = new.color or last.color, new.shape or last.shape
    if act:
        act.objects = [*old[:-1], *things]
    else:
        before.fragments, before.topics = [*old[:-1], *things], [*before.topics[:-1], *things]
    if rest:
        reader(rest, before)
    return before
