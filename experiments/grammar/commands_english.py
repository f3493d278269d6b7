# SPDX-License-Identifier: Apache-2.0
"""English verbs with what follows them: objects, places, conditions, relative clauses."""
from __future__ import annotations

from collections.abc import Sequence

from brain_regions.language.lexicon import ACTIONS, Kind, Token
from brain_regions.language.reasons import Why
from experiments.grammar.reading import Act, Cursor, Reading, Thing
from experiments.grammar.things_english import thing

K = Kind
PREPOSITIONS = frozenset({K.TO, K.NEAR, K.FROM, K.PAST, K.OF})
BREAKS = frozenset({K.COMMA, K.END, K.AND})
_PLACES = frozenset({K.FILLER, K.PLACE, K.APART, K.MODIFIER, K.DETERMINER, K.OF, K.MANY})
_PLACE_WORDS = 4    # unknown words that may name a place: "behind the old garden shed over there"


class Commands:
    """Reads verbs at the cursor into acts; :mod:`.english` decides which verbs command.

    Attributes:
        c: the cursor in the sentence.
        into: what was read.
        first: number of acts that were there before this sentence.
        negated, requested, instead: what was said before the verb in its clause.
        open_negation: what was negated is still to come, behind a comma.
        strange: words since the clause's start, or since its last request, that no command has.
    """

    def __init__(self, tokens: Sequence[Token], into: Reading) -> None:
        self.c = Cursor(tokens)
        self.into = into
        self.first = len(into.acts)
        self.begin_clause()

    def begin_clause(self) -> None:
        """Forgets what was said before the verb."""
        self.negated = self.requested = self.instead = self.open_negation = False
        self.strange = 0    # words since the clause's start or its last request that no command has

    def out(self) -> bool:
        """Tells whether the object that was just read is to be avoided ("... is off limits")."""
        ahead, relative = 0, False
        while ahead < 4 and (self.c.kind(ahead) in (K.RELATIVE, K.BE, K.FILLER, K.COMMA, K.YOU)
                             or relative and self.c.kind(ahead) is K.REQUEST):
            relative |= self.c.kind(ahead) is K.RELATIVE
            ahead += 1
        which = relative and self.c.kind(ahead) is K.AVOID and self.c.kind(ahead + 1) in BREAKS
        return which or self.c.kind(ahead) is K.OUT     # "which you should avoid"

    def take_out(self) -> None:
        """Moves past what :meth:`out` saw."""
        while self.c.take().kind not in (K.OUT, K.AVOID):
            pass

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
        """Begins a clause that may inherit "not" or "please": "don't hit or touch the box", "please go and find it"."""
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
            elif token.kind is K.COMMA and (c.peek(-1).kind in PREPOSITIONS or c.peek(-1).kind is K.DETERMINER
                                            or c.kind(1) is K.FILLER and c.kind(2) is K.COMMA):
                c.take()    # "go to the, um, red ball"
            elif token.kind is K.ITS and c.kind(1) is K.TO and verb.kind is K.MOVE:
                c.take()    # "walk over there to the ball"
                directly = False
            elif token.kind is K.COMMA and c.peek(-1) is verb and self.listed():
                c.take()    # "avoid: blue box"
            elif token.kind is K.NOT and c.kind(1) in PREPOSITIONS | {K.DETERMINER}:
                c.take()
                act.negated = negated_here = True   # "go not to the blue box but to the red ball"
            elif token.kind in PREPOSITIONS or token.kind is K.ASK and token.text == "where":
                c.take()
                directly = False
                if token.value == "source" and verb.kind in (K.MOVE, K.FIND):
                    thing(c)    # where it starts
                away |= token.value in ("away", "around") or token.text == "around" and verb.kind is K.MOVE
                away |= token.value == "source" and verb.kind in (K.KEEP, K.STOP)     # "keep out of"
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

    def listed(self) -> bool:
        """Tells whether an object stands alone behind the mark here."""
        mark = self.c.at
        self.c.take()
        found = thing(self.c)
        alone = found is not None and not found.empty and self.c.kind() in BREAKS
        self.c.at = mark
        return alone

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
            if found is None or found.empty or self.out() or c.kind() in ACTIONS | {K.BE, K.STATE}:
                c.at = mark
                return
            if joined == "," and first.fits(found):
                first.take(found)
            else:   # "the ball, the red one" above is one object, this is another
                act.objects.append(found)

    def no_object(self, act: Act, verb: Token, token: Token, directly: bool) -> None:
        """Decides what a verb without a known object means."""
        c = self.c
        pointing = token.text in ("that", "this", "those", "these") and c.kind(1) in BREAKS
        if token.kind is K.ITS or pointing:
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
        noun = c.peek(-1).kind is K.DETERMINER
        if token.kind in BREAKS | {K.NOT, K.INSTEAD, K.SEEN} or token.kind in ACTIONS and not noun:
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
        while not self.c.done and self.c.kind() not in BREAKS:
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
            elif token.kind in PREPOSITIONS:
                if not self.preposition(act):
                    return
            elif token.text in ("the", "a") and act.objects and self.apposition(act):
                continue
            elif token.kind is K.RELATIVE or token.kind in (K.SEEN, K.WHO) or (
                    token.kind in (K.DETERMINER, K.ASK) and act.objects):
                if self.out():
                    return self.make_out(act)
                if c.peek(1).form == "third" and c.peek(1).value == K.AVOID.name:
                    c.take()
                    return self.action(Token(K.AVOID, c.peek().text, form="base"))    # "a way that avoids it"
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
            elif token.kind in BREAKS or token.kind in ACTIONS or token.kind in (
                    K.NOT, K.INSTEAD, K.AIM) or not act.objects:
                return
            else:
                self.into.doubts += 1
                c.take()

    def apposition(self, act: Act) -> bool:
        """ "Go to the ball (the red one)": another name of the object."""
        mark = self.c.at
        found = thing(self.c)
        if found is None or found.empty or self.c.kind() not in BREAKS:
            self.c.at = mark
            return False
        if act.objects[-1].fits(found):
            act.objects[-1].take(found)
        else:
            act.objects.append(found)
        return True

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
        c.skip(PREPOSITIONS)
        return c.kind() is K.ITS or c.kind() in BREAKS and c.peek(-1).kind in (K.MOVE, K.FIND)

    def make_out(self, act: Act) -> None:
        """ "... the blue box, which you should avoid": the last object is not the verb's."""
        self.take_out()
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
                # "go around the box to the ball"
                self.into.acts.append(Act(K.MOVE, token.text, objects=[found]))
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
