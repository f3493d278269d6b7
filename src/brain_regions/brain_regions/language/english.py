# SPDX-License-Identifier: Apache-2.0
"""The English grammar, over kinds of tokens.

    text     := sentence*                    sentence := clause ((COMMA | AND) clause)* END
    clause   := opener* [NOT] action         a command
              | opener* TO thing             "to the red ball, please"
              | opener* AIM (BE | COMMA) thing
              | thing OUT                    "the blue box is off limits": avoid it
              | other*                       states or asks: things in it can be meant by a later "it"
    opener   := FILLER | REQUEST | YOU | AIM | TO | AND
    action   := verb lead* [things] tail*
    lead     := FILLER | preposition | PLACE | DETERMINER before PLACE | FROM thing
    things   := [NOT] thing ((COMMA | AND) [preposition] thing)*
    thing    := (DETERMINER | MODIFIER | MANY)* (COLOR | HINT | MODIFIER)* [SHAPE | THING] [attribute]
    attribute:= RELATIVE COLOR | (OF | NEAR) DETERMINER* [HUE] COLOR
    tail     := FILLER | preposition place-or-thing | relative clause

A verb commands only where nothing but openers stands before it in its clause, or a REQUEST does ("my boss says
please go"). An unknown word is harmless in a clause of its own and in a place ("behind the sofa"), and makes a command
not understood where it could change what is meant: in the name of an object or in place of one.
"""
from __future__ import annotations

from collections.abc import Sequence

from brain_regions.language.lexicon import ACTIONS, Kind, Token
from brain_regions.language.reading import Act, Cursor, Reading, Thing, sentences
from brain_regions.language.reasons import Why

K = Kind
_PREPOSITIONS = frozenset({K.TO, K.NEAR, K.FROM, K.PAST, K.OF})
_OPENERS = frozenset({K.FILLER, K.YOU, K.TO, K.AND, K.INSTEAD, K.AIM})
_PLACES = frozenset({K.FILLER, K.PLACE, K.APART, K.MODIFIER, K.DETERMINER, K.OF, K.MANY})
_BREAKS = frozenset({K.COMMA, K.END, K.AND})
_PLACE_WORDS = 4    # unknown words that may name a place: "behind the old garden shed over there"


def read(tokens: Sequence[Token], into: Reading) -> None:
    """Reads English sentences into ``into``."""
    for sentence in sentences(tokens):
        _Sentence(sentence, into).read()


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
        elif token.kind is K.COMMA and named and cursor.kind(1) in (K.COLOR, K.SHAPE, K.HINT, K.MODIFIER) and (
                found.color == 0 or found.shape == 0) and (_ahead(cursor, 1) or cursor.kind(1) is K.COLOR):
            pass    # "the big, red ball", "the ball, red"
        elif token.kind in (K.THING, K.BARRIER) or token.kind is K.AIM and (named or determined):
            cursor.take()
            found.barrier = token.kind is K.BARRIER
            if found.barrier and cursor.kind() in (K.COLOR, K.HINT):
                determined = True
                continue    # "anything blue"
            if not named and cursor.kind() is K.SHAPED:
                continue
            found.barrier &= not named
            return _finish(cursor, found, hint)
        elif token.kind is K.WORD and (named or determined) and cursor.kind(1) in (K.COLOR, K.SHAPE) and (
                found.color or cursor.kind(1) is K.COLOR):
            found.doubts += 1   # "the red tennis ball", "the rusty red ball"
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
    mark = cursor.at
    if cursor.kind() in (K.RELATIVE, K.OF, K.NEAR, K.DETERMINER, K.BE) or cursor.kind() is K.HUE:
        cursor.take()
        cursor.skip(frozenset({K.DETERMINER, K.MODIFIER, K.HUE, K.OF, K.BE}))
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
            return found
        if token.kind is K.HINT and not found.shape:
            found.shape = int(cursor.take().value)
            return found
        cursor.at = mark
    following = cursor.peek()
    if following.kind in (K.WORD, K.PLACE, K.SHAPE) or following.kind in ACTIONS and following.form == "noun":
        found.problem = found.problem or (Why.WORD, following.text)
    return found


def _starts_thing(c: Cursor) -> bool:
    return c.kind() in (K.DETERMINER, K.COLOR, K.SHAPE, K.THING, K.MODIFIER)


class _Sentence:
    """Reads one sentence from left to right."""

    def __init__(self, tokens: Sequence[Token], into: Reading) -> None:
        self.c = Cursor(tokens)
        self.into = into
        self.first = len(into.acts)
        self.begin_clause()

    def begin_clause(self) -> None:
        """Forgets what was said before the verb."""
        self.negated = self.requested = self.instead = False
        self.strange = 0    # words since the clause's start or its last request that no command has
        self.opened = False

    def read(self) -> None:
        """Reads all clauses."""
        c = self.c
        while not c.done:
            token = c.peek()
            if token.kind is K.COMMA:
                c.take()
                self.begin_clause()
            elif token.kind in ACTIONS and self.may_command(token):
                self.action()
            elif token.kind is K.STATE and token.form == "past" and c.peek(-1).text.endswith("if you"):
                self.action(Token(K[str(token.value)], token.text, form="base"))    # "I'd be glad if you went ..."
            elif token.kind is K.RELATIVE and not self.strange and self.attribute():
                continue
            elif token.kind is K.NOT:
                self.negation()
            elif token.kind is K.REQUEST or token.text == "do" and c.peek(1).form == "base" and not self.strange:
                c.take()
                self.strange, self.requested = 0, True
            elif token.kind is K.AIM and not self.strange and not self.negated:
                self.aim()
            elif token.kind in (K.TO, K.NEAR, K.PAST, K.FROM) and not self.strange and self.elliptical():
                continue
            elif token.kind is K.INSTEAD:
                c.take()
                self.instead = True
            elif token.kind is K.CONDITION and token.text == "if" and c.kind(1) is K.YOU and c.peek(2).form == "past":
                c.at += 2
                self.strange = 0
                self.action(Token(K[str(c.peek().value)], c.peek().text, form="base"))  # "it's best if you went ..."
            elif token.kind is K.CONDITION:
                c.take()
                self.into.conditional = True
                self.strange += 1
            elif token.kind is K.BE and (c.kind(1) is K.NOT or token.text == "be" and not self.strange
                                         and c.kind(1) in (K.TO, K.NEAR)):
                if c.kind(1) is K.NOT:
                    c.take()    # "you are not to go ..."
                else:
                    self.action(Token(K.MOVE, token.text, form="base"))     # "be next to the ball"
            elif token.kind in (K.DETERMINER, K.COLOR, K.SHAPE, K.HINT, K.THING, K.BARRIER, K.MODIFIER, K.MANY,
                                K.OTHER_COLOR):
                self.topic()
            else:
                c.take()
                if token.text == "so":
                    self.begin_clause()     # "I hate the box so stay away"
                elif token.kind is K.AND and self.strange and token.value != "by":
                    pass    # "I like balls and go to the red ball" is no command
                elif token.kind not in _OPENERS and token.kind is not K.END:
                    self.strange += 1
                    if token.kind in (K.WORD, K.STATE):
                        self.into.doubts += 1

    def may_command(self, token: Token) -> bool:
        """Whether a verb here is a command."""
        before = self.c.peek(-1)
        if before.kind is K.DETERMINER:
            return False    # a noun: "the stop"
        if self.strange:
            name = self.strange == 1 and self.c.at == 1 and before.kind is K.WORD and not before.text.endswith("s")
            if not name:    # "Robbie go to the ball"
                return False
        if token.form == "ing":
            return bool(self.negated or self.requested or self.instead or token.kind is K.AVOID or self.c.at
                        and before.kind in (K.AND, K.NEAR, K.COMMA, K.FILLER) or len(self.into.acts) > self.first)
        return True

    def negation(self) -> None:
        """NOT before a verb, or before an object in the tail of a command."""
        c = self.c
        token = c.take()
        if token.text == "no" and c.peek().form != "ing" and not _starts_thing(c):
            return      # "no, stop"
        self.negated = True
        if len(self.into.acts) <= self.first or self.strange:
            return
        mark = c.at
        near = False
        while c.kind() in (K.FILLER, K.TO, K.NEAR, K.PAST, K.FROM):
            near |= c.take().kind in (K.NEAR, K.PAST)
        found = thing(c)
        if found is None or self.out():
            c.at = mark
            return
        # "but not near the blue box" is to be avoided; "not the blue box" is only not meant
        if near:
            self.into.acts.append(Act(K.AVOID, "", objects=[found]))
        self.negated = False

    def out(self) -> bool:
        """Whether the object that was just read is to be avoided ("... is off limits")."""
        ahead = 0
        while self.c.kind(ahead) in (K.RELATIVE, K.BE, K.FILLER, K.COMMA, K.YOU) and ahead < 3:
            ahead += 1
        return self.c.kind(ahead) is K.OUT

    def topic(self) -> None:
        """An object outside of a command."""
        found = thing(self.c)
        if found is None:
            token = self.c.take()
            self.strange += token.kind not in (K.DETERMINER, K.MODIFIER)
            self.opened = True
            return
        if self.out():
            while self.c.take().kind is not K.OUT:
                pass
            self.into.acts.append(Act(K.AVOID, "", objects=[found]))
            return
        if not self.strange and self.c.kind() is K.BE and self.c.kind(1) is K.AIM:
            self.c.at += 2      # "the blue box is your goal"
            self.into.acts.append(Act(K.MOVE, "", objects=[found]))
            return
        if not self.strange and (self.c.done or self.c.kind() in (K.COMMA, K.END)) and not found.empty:
            self.into.fragments.append(found)   # "The red ball! Go!"
        if self.instead:
            self.instead = False
            return
        last = self.into.acts[-1] if len(self.into.acts) > self.first else None
        if last and not self.strange and last.negated and self.c.peek(-1) and self._after_but(found):
            return
        if not found.empty:
            self.into.topics.append(found)
        self.strange += 1

    def _after_but(self, found: Thing) -> bool:
        """ "Don't go to the blue box but the red ball": the last verb again, without its negation."""
        last = self.into.acts[-1]
        if last.kind not in (K.MOVE, K.FIND):
            return False
        self.into.acts.append(Act(last.kind, last.text, objects=[found]))
        return True

    def attribute(self) -> bool:
        """ "Find a ball. It should be red." """
        last = next((a for a in reversed(self.into.acts) if a.objects), None)
        if last is None:
            return False
        mark = self.c.at
        self.c.take()
        found = thing(self.c)
        if found is None or found.empty or not last.objects[-1].fits(found) or self.c.kind() not in _BREAKS:
            self.c.at = mark
            return False
        last.objects[-1].take(found)
        return True

    def aim(self) -> None:
        """ "Your goal is the red ball"; before a verb ("your task is to find ...") it is an opener."""
        c = self.c
        c.take()
        mark = c.at
        c.skip(frozenset({K.BE, K.COMMA, K.FILLER}))
        after = c.at
        found = thing(c)
        if found is not None and not found.empty and c.kind() in (K.END, K.COMMA, K.AND, K.REQUEST, K.FILLER, K.NOT):
            self.into.acts.append(Act(K.MOVE, "", objects=[found]))
            self.tail(self.into.acts[-1])
        elif c.kind() is K.TO or c.kind() in ACTIONS:
            c.at = after
            self.requested = True
        else:
            c.at = max(mark, after)

    def elliptical(self) -> bool:
        """ "To the red ball!": a destination without a verb; "..., away from the box"."""
        c = self.c
        mark = c.at
        token = c.take()
        if token.value == "away" and len(self.into.acts) > self.first:
            found = thing(c)
            if found is not None:
                self.into.acts.append(Act(K.AVOID, token.text, objects=[found]))
                return True
        c.skip(frozenset({K.PLACE, K.OF, K.FILLER}))
        found = thing(c) if c.kind() not in ACTIONS else None
        acts = self.into.acts[self.first:]
        repeated = bool(acts) and acts[-1].negated and acts[-1].kind in (K.MOVE, K.FIND)    # "..., but to the ball"
        if found is None or found.empty or self.instead or self.negated or not (
                repeated or (token.kind is K.TO or self.requested and token.kind is K.NEAR) and not acts):
            c.at = mark + 1
            if token.kind is not K.TO:
                self.strange += 1
            return True
        self.into.acts.append(Act(acts[-1].kind if repeated else K.MOVE, token.text, objects=[found]))
        self.tail(self.into.acts[-1])
        if not repeated and not (c.done or c.kind() in _BREAKS or c.kind() in (K.NOT, K.REQUEST, K.INSTEAD)
                                 or c.kind() in ACTIONS):
            self.into.acts.pop()    # "to the red ball belongs a box"
            self.strange += 1
        return True

    # -- a verb and what follows it ---------------------------------------------------------------------------------

    def action(self, verb: Token | None = None) -> None:
        """Reads a verb, its objects and its tail."""
        c = self.c
        verb, _ = (verb or c.peek()), c.take()
        act = Act(verb.kind, verb.text, negated=self.negated)
        dropped = self.instead
        if verb.kind is K.KEEP and c.kind() in ACTIONS and c.peek().form == "ing":
            self.requested = True
            return      # "keep going"
        if verb.kind in (K.AVOID, K.STOP) and c.kind() in ACTIONS and c.peek().form == "ing":
            if verb.kind is K.AVOID or self.negated:    # "avoid touching"; "don't stop looking" is odd enough
                self.negated = True
                return
            inner = c.take()
            self.objects(Act(inner.kind, inner.text), verb=inner, instead=True)
            self.into.acts.append(Act(K.STOP, verb.text))
            self.begin_clause_after(act)
            return
        self.objects(act, verb, instead=dropped)
        if not dropped:
            self.into.acts.append(act)
        self.tail(act)
        self.begin_clause_after(act)

    def begin_clause_after(self, act: Act) -> None:
        """What a verb leaves behind for the next one: "don't hit or touch the box", "please go and find it"."""
        open_negation = act.negated and not act.objects and not act.its and (
            self.c.kind() is K.AND or self.c.kind() in ACTIONS or self.c.kind() is K.TO)
        requested = self.requested
        self.begin_clause()
        self.requested = requested
        if open_negation and act in self.into.acts:
            self.into.acts.remove(act)
            self.negated = True

    def objects(self, act: Act, verb: Token, instead: bool = False) -> None:
        """Reads the objects of a verb."""
        c = self.c
        directly, away, negated_here, apart = True, False, False, False
        while True:
            token = c.peek()
            if token.kind in (K.FILLER, K.PLACE, K.APART, K.YOU, K.REQUEST):
                c.take()
                apart |= token.kind is K.APART
            elif token.kind is K.COMMA and (c.peek(-1).kind in _PREPOSITIONS or c.peek(-1).kind is K.DETERMINER
                                            or c.kind(1) is K.FILLER and c.kind(2) is K.COMMA):
                c.take()    # "go to the, um, red ball"
            elif token.kind is K.NOT and c.kind(1) in _PREPOSITIONS | {K.DETERMINER}:
                c.take()
                act.negated = negated_here = True   # "go not to the blue box but to the red ball"
            elif token.kind in _PREPOSITIONS or token.kind is K.ASK and token.text == "where":
                c.take()
                directly = False
                if token.value == "source" and verb.kind in (K.MOVE, K.FIND):
                    thing(c)    # where it starts
                away |= token.value in ("away", "around") or token.value == "source" and verb.kind in (K.KEEP, K.STOP)
                around = token.text == "around" and verb.kind is K.MOVE
                away |= around
                if token.kind is K.PAST and verb.kind is K.MOVE and not act.negated and not away:
                    self._through(verb, token, instead)
            elif token.kind is K.RELATIVE:
                c.take()
            else:
                mark = c.at
                found = thing(c)
                if found is not None and found.empty:
                    act.its = self.its(act)
                    break
                if found is not None:
                    self.several(act, found, instead)
                    break
                if token.kind in (K.DETERMINER, K.MODIFIER, K.MANY) and c.kind(1) in _PLACES | {K.NEAR}:
                    c.take()
                    directly = False
                    continue
                c.at = mark
                self.no_object(act, verb, token, directly)
                break
        if away and verb.kind in (K.MOVE, K.STOP, K.KEEP, K.FIND):
            act.kind = K.AVOID
        elif verb.kind is K.FIND and verb.value == "bare" and act.objects and directly and not act.negated:
            act.kind = K.OTHER
        elif act.objects or act.its:
            self._what_it_takes(act, verb, directly, apart)
        if negated_here and act.negated and act.kind is K.AVOID:
            act.negated = False

    def _what_it_takes(self, act: Act, verb: Token, directly: bool, apart: bool) -> None:
        """Verbs that with an object mean something else."""
        bare = any(t.bare for t in act.objects)
        if verb.kind is K.STOP:
            if act.its and not act.objects:
                return      # "stop there"
            act.kind = K.MOVE if not directly else K.OTHER  # "stop at the ball"; "stop the ball"
        elif verb.kind is K.MOVE and directly and not act.negated and (
                verb.value == "bare" or bare and verb.text in ("go", "head", "come")):
            act.kind = K.OTHER      # "move the ball", "go green"
        elif verb.kind is K.KEEP:
            if self.c.kind() is K.APART or self.c.kind() is K.FROM:
                self.c.take()
                act.kind = K.AVOID
            elif apart:
                act.kind = K.AVOID      # "leave some room around the box"
            else:
                act.kind = K.OTHER

    def _through(self, verb: Token, token: Token, instead: bool) -> None:
        """ "Go past the box to the ball": a way that cannot be promised."""
        mark = self.c.at
        found = thing(self.c)
        if found is not None and not found.barrier and not instead:
            self.into.blame(Why.CANNOT, f"{verb.text} {token.text}")
        elif found is None:
            self.c.at = mark

    def its(self, act: Act) -> bool:
        """An object that was named before: the newest topic."""
        if self.into.topics and not (act.negated and act.kind is K.TOUCH):
            act.objects.append(self.into.topics.pop())
        return True

    def several(self, act: Act, first: Thing, instead: bool = False) -> None:
        """The objects of a verb, joined or one."""
        c = self.c
        act.objects.append(first)
        while c.kind() in (K.AND, K.COMMA):
            mark = c.at
            joined = ""
            while c.kind() in (K.AND, K.COMMA):
                token = c.take()
                joined = str(token.value) if token.kind is K.AND else joined or ","
            if joined in ("but", "by", "while", ""):
                c.at = mark
                return
            c.skip(frozenset({K.FILLER, K.TO, K.NEAR}))
            found = thing(c)
            if found is None or found.empty or self.out() or c.kind() in (K.BE, K.STATE) or c.kind() in ACTIONS:
                c.at = mark
                return
            if joined == "," and first.fits(found):
                first.take(found)
            else:   # "the ball, the red one" above is one object, this is another
                act.objects.append(found)
        if self.out() and not act.negated and act.kind in (K.MOVE, K.FIND) and len(act.objects) == 1:
            return

    def no_object(self, act: Act, verb: Token, token: Token, directly: bool) -> None:
        """Decides what a verb without a known object means."""
        c = self.c
        if token.kind is K.ITS:
            c.take()
            act.its = self.its(act)
            return
        if token.kind is K.CONDITION:
            if verb.kind is K.STOP and token.text in ("before", "because", "otherwise", "or else"):
                self.clause_end()
                return
            if not self.when_done():
                self.into.conditional = True
            self.clause_end()
            return
        if token.kind in _BREAKS or token.kind in ACTIONS and c.peek(-1).kind is not K.DETERMINER or token.kind in (
                K.NOT, K.INSTEAD, K.SEEN):
            return
        if verb.kind is K.STOP and token.kind is K.WORD and directly and token.text.endswith("ing"):
            c.take()    # "stop whistling": whatever it is, standing still is right
            self.clause_end()
            return
        word = token
        ahead = 0
        while word.kind in (K.DETERMINER, K.MODIFIER, K.HUE) and c.kind(ahead + 1) is not K.END:
            ahead += 1
            word = c.peek(ahead)
        if verb.kind is K.OTHER:
            self.clause_end()
        elif act.negated and verb.kind is not K.STOP and verb.kind is not K.MOVE:
            self.into.doubts += 1
            self.clause_end()
        else:
            self.into.blame(Why.WORD, word.text)
            self.clause_end()

    def clause_end(self) -> None:
        """Moves to the end of the clause."""
        while not self.c.done and self.c.kind() not in _BREAKS:
            self.c.take()

    def tail(self, act: Act) -> None:
        """Reads what follows the objects: places, fillers, relative clauses."""
        c = self.c
        while not c.done:
            token = c.peek()
            if token.kind in (K.FILLER, K.REQUEST, K.APART, K.YOU, K.ITS, K.BE, K.HUE):
                c.take()
                if token.kind is K.REQUEST and (c.kind() in ACTIONS or c.kind() is K.NOT):
                    self.requested = True
                    return
            elif token.kind in _PREPOSITIONS:
                if not self.preposition(act):
                    return
            elif token.kind is K.RELATIVE or token.kind in (K.SEEN, K.WHO) or (
                    token.kind in (K.DETERMINER, K.ASK) and act.objects):
                if self.out():
                    return self.make_out(act)
                if c.peek(1).form == "third" and c.peek(1).value == K.AVOID.name:
                    c.take()
                    return self.action(Token(K.AVOID, c.peek().text, form="base"))    # "a way that avoids the box"
                self.into.doubts += 1
                while not c.done and c.kind() not in (K.COMMA, K.END, K.NOT, K.REQUEST) and not (
                        c.kind() is K.AND and c.kind(1) in ACTIONS | {K.NOT, K.FILLER}):
                    c.take()
            elif token.kind is K.OUT and act.objects:
                return self.make_out(act)
            elif token.kind is K.CONDITION:
                if (act.kind is K.AVOID or act.negated) and self.when_going():
                    return
                if not self.when_done() and act.kind is not K.STOP:
                    self.into.conditional = True
                self.clause_end()
            elif token.kind is K.WORD and act.kind is not K.STOP:
                self.into.blame(Why.WORD, token.text)
                self.clause_end()
            elif token.kind is K.AND and token.value in ("and", "then") and c.kind(1) is K.WORD and (
                    act.kind is not K.STOP):
                self.into.blame(Why.WORD, c.peek(1).text)   # "... and whistle": a second command
                c.take()
                self.clause_end()
            elif token.kind in _BREAKS or token.kind in ACTIONS or token.kind in (
                    K.NOT, K.INSTEAD, K.AIM) or not act.objects:
                return
            else:
                self.into.doubts += 1
                c.take()

    def when_going(self) -> bool:
        """ "Mind the box when you go to the ball": the ball is the goal."""
        ahead = 1
        while self.c.kind(ahead) in (K.YOU, K.REQUEST, K.FILLER, K.BE):
            ahead += 1
        if self.c.peek().text != "when" or self.c.kind(ahead) not in (K.MOVE, K.FIND):
            return False
        self.c.at += ahead
        self.requested = True
        return True

    def when_done(self) -> bool:
        """ "... after you find it": a condition that is what was asked for."""
        c = self.c
        c.take()
        c.skip(frozenset({K.YOU, K.REQUEST, K.FILLER, K.STATE, K.BE}))
        if c.kind() in (K.MOVE, K.FIND):
            c.take()
        c.skip(_PREPOSITIONS)
        return c.kind() is K.ITS or c.kind() in _BREAKS and c.peek(-1).kind in (K.MOVE, K.FIND)

    def make_out(self, act: Act) -> None:
        """ "... the blue box, which you should avoid": the last object is not the verb's."""
        while self.c.take().kind is not K.OUT:
            pass
        out = act.objects.pop()
        self.into.acts.append(Act(K.AVOID, "", objects=[out]))

    def preposition(self, act: Act) -> bool:
        """A place after the objects. False: a verb follows ("by avoiding", "to find"), or another command."""
        c = self.c
        ahead = 1
        while c.kind(ahead) is K.FILLER:
            ahead += 1
        if c.kind(ahead) in ACTIONS or c.kind(ahead) is K.NOT:
            c.take()
            return False
        token = c.take()
        c.skip(frozenset({K.FILLER}))
        if token.value == "source" or token.kind is not K.TO:
            found = thing(c)
            if found is None:
                c.skip(_PLACES | {K.NEAR, K.FROM})
                found = thing(c)
            if found is not None and token.value == "away":
                self.into.acts.append(Act(K.AVOID, token.text, objects=[found]))
                return True
            if found is not None:
                self.into.doubts += 1   # a landmark
                return True
        else:
            found = thing(c)
            if found is not None and act.kind is K.AVOID and not act.negated:
                self.into.acts.append(Act(K.MOVE, token.text, objects=[found]))     # "go around the box to the ball"
                return True
            if found is not None and not found.barrier:
                act.objects.append(found)   # "the box to the ball": two
                return True
        c.skip(_PLACES | {K.ITS, K.BARRIER})
        for _ in range(_PLACE_WORDS):
            if c.kind() not in (K.WORD, K.PLACE, K.MODIFIER):
                break
            c.take()
            self.into.doubts += 1
        return True
