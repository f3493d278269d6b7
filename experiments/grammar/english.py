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

A verb commands only where nothing but openers stands before it in its clause, or a REQUEST does ("my boss
says please go"). An unknown word is harmless in a clause of its own and in a place ("behind the sofa"), and
makes a command not understood where it could change what is meant: in the name of an object or in place of
one.
"""
from __future__ import annotations

from collections.abc import Sequence

from brain_regions.language.lexicon import ACTIONS, Kind, Token
from brain_regions.language.reasons import Why
from experiments.grammar.commands_english import BREAKS, Commands
from experiments.grammar.reading import Act, Cursor, Reading, Thing, sentences
from experiments.grammar.things_english import thing

K = Kind
_NAMES = frozenset({K.DETERMINER, K.MODIFIER, K.MANY, K.COLOR, K.OTHER_COLOR, K.SHAPE, K.HINT, K.THING,
                    K.BARRIER})
_EXCEPT = frozenset((
    "except", "except for", "other than", "excluding", "aside from", "apart from", "any but"))
_OPENERS = frozenset({K.FILLER, K.YOU, K.TO, K.AND, K.INSTEAD, K.AIM})


def read(tokens: Sequence[Token], into: Reading) -> None:
    """Reads English sentences into ``into``."""
    for sentence in sentences(tokens):
        _Sentence(sentence, into).read()


def _starts_thing(c: Cursor) -> bool:
    return c.kind() in (K.DETERMINER, K.COLOR, K.SHAPE, K.THING, K.MODIFIER)


class _Sentence(Commands):
    """Reads one sentence from left to right."""

    def read(self) -> None:
        """Reads all clauses."""
        c = self.c
        while not c.done:
            token = c.peek()
            if token.kind is K.COMMA:
                c.take()
                open_negation = self.negated and self.open_negation
                self.begin_clause()
                self.negated = self.open_negation = open_negation
            elif token.kind in ACTIONS and self.may_command(token):
                self.action()
            elif token.form == "past" and c.kind(-1) is K.REQUEST and c.peek(-1).text.endswith("you"):
                self.action(Token(K[str(token.value)], token.text, form="base"))    # "... glad if you went"
            elif token.kind is K.RELATIVE and not self.strange and self.attribute():
                continue
            elif token.kind is K.NOT:
                self.negation()
            elif token.kind is K.REQUEST or (
                    not self.strange and token.text == "do" and c.peek(1).form == "base"):
                c.take()
                if not (token.text.startswith("you ") and self.asked()):
                    self.strange, self.requested = 0, True
            elif token.kind is K.AIM and not self.strange and not self.negated:
                self.aim()
            elif token.kind in (K.TO, K.NEAR, K.PAST, K.FROM) and not self.strange and self.elliptical():
                continue
            elif token.kind is K.INSTEAD:
                c.take()
                self.instead = True
                if token.text in _EXCEPT:
                    self.exception()
            elif token.text == "if" and c.kind(1) is K.YOU and c.peek(2).form == "past":
                c.at += 2
                self.strange = 0
                self.action(Token(K[str(c.peek().value)], c.peek().text, form="base"))
            elif token.kind is K.CONDITION and self.shuns() and self.when_going():
                continue
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
            elif token.kind in _NAMES:
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
        """Tells whether a verb here is a command."""
        before = self.c.peek(-1)
        if before.kind is K.DETERMINER:
            return False    # a noun: "the stop"
        if self.strange:
            plural = before.text.endswith("s")      # "Robbie go to the ball", but not "dogs go to the ball"
            if self.strange > 1 or self.c.at != 1 or before.kind is not K.WORD or plural:
                return False
        if token.form == "ing":
            ahead = 1
            while self.c.kind(ahead) in (K.FILLER, K.APART):
                ahead += 1
            if self.c.peek(ahead).value == "away":     # "staying away from the box, ..."
                return True
            said = self.negated or self.requested or self.instead or len(self.into.acts) > self.first
            return said or token.kind is K.AVOID or self.c.at > 0 and before.kind in (
                K.AND, K.NEAR, K.COMMA, K.FILLER)
        return True

    def exception(self) -> None:
        """Checks that what "except" excludes is known: not "any ball except the mauve one", "... the big one"."""
        mark = self.c.at
        found = thing(self.c)
        if found is None and self.c.kind() is K.DETERMINER:
            self.c.take()
        if found is not None and found.empty or found is None and self.c.kind() is K.WORD:
            self.into.blame(Why.WORD, self.c.peek(-1 if found else 0).text)
        self.c.at = mark

    def asked(self) -> bool:
        """Tells whether this clause asks, or says what was not wanted: "who told you to", "I didn't ask you to"."""
        for token in reversed(self.c.tokens[:self.c.at - 1]):
            if token.kind in (K.COMMA, K.AND):
                return False
            if token.kind is K.ASK or token.text == "who":
                return True
        return False

    def shuns(self) -> bool:
        """Tells whether the last act forbids."""
        last = self.into.acts[-1] if len(self.into.acts) > self.first else None
        return last is not None and (last.kind is K.AVOID) != last.negated

    def negation(self) -> None:
        """NOT before a verb, or before an object in the tail of a command."""
        c = self.c
        token = c.take()
        if token.text == "no" and c.peek().form != "ing" and not _starts_thing(c) and c.kind() is not K.TOUCH:
            return      # "no, stop"
        if c.kind() in (K.COMMA, K.END) and self.into.acts and c.peek(-2).kind not in (K.COMMA, K.END):
            self.into.blame(Why.WORD, token.text)       # "... or don't", "go to the ball NOT"
        self.negated = True
        self.open_negation = c.kind() is K.COMMA and token.text != "no"     # "do not, please, go there"
        if self.strange:
            return
        mark = c.at
        near = False
        while c.kind() in (K.FILLER, K.TO, K.NEAR, K.PAST, K.FROM):
            near |= c.take().kind in (K.NEAR, K.PAST)
        found = thing(c)
        if found is None or self.out() or not near and len(self.into.acts) <= self.first:
            c.at = mark
            return
        # "but not near the blue box" is to be avoided; "not the blue box" is only not meant
        if near:
            self.into.acts.append(Act(K.AVOID, "", objects=[found]))
        else:
            self.into.excluded.append(found)
        self.negated = False

    def topic(self) -> None:
        """An object outside of a command."""
        before = self.c.peek(-1)
        but = before.value == "but"
        found = thing(self.c)
        if found is None:
            token = self.c.take()
            self.strange += token.kind not in (K.DETERMINER, K.MODIFIER)
            return
        if self.out():
            self.take_out()
            self.into.acts.append(Act(K.AVOID, "", objects=[found]))
            return
        if not self.strange and self.c.kind() is K.BE and self.c.kind(1) is K.AIM:
            self.c.at += 2      # "the blue box is your goal"
            self.into.acts.append(Act(K.MOVE, "", objects=[found]))
            return
        if self.instead or self.negated and not self.strange and len(self.into.acts) <= self.first:
            self.instead = self.negated = False     # "Go! Not the red ball."
            self.into.excluded.append(found)
            return
        if not (self.strange or found.empty or but) and (self.c.done or self.c.kind() in (K.COMMA, K.END)):
            self.into.fragments.append(found)   # "The red ball! Go!"
            gone = [t for act in self.into.acts if act.kind in (K.MOVE, K.FIND) and not act.negated
                    for t in act.objects]
            if gone and not any(t.fits(found) for t in gone):
                self.into.blame(Why.TWO_TARGETS)    # "Go to the red ball. The blue ball!"
        last = self.into.acts[-1] if len(self.into.acts) > self.first else None
        chosen = last and last.objects and not last.negated and not self.strange
        if but and chosen and self.c.kind() in BREAKS:
            self.into.excluded.append(found)    # "any ball but the red one"
            return
        if last and not self.strange and last.negated and self.c.peek(-1) and self._after_but(found):
            return
        if not found.empty and before.text not in ("not", "isn't", "aren't", "wasn't", "weren't"):
            self.into.topics.append(found)      # but not "it is not red"
        self.strange += 1

    def _after_but(self, found: Thing) -> bool:
        """ "Don't go to the blue box but the red ball": the last verb again, without its negation."""
        last = self.into.acts[-1]
        if last.kind not in (K.MOVE, K.FIND):
            return False
        self.into.acts.append(Act(last.kind, last.text, objects=[found]))
        return True

    def attribute(self) -> bool:
        """Reads what is said later of what was named: find a ball, it should be red."""
        last = next((a for a in reversed(self.into.acts) if a.objects), None)
        if last is None:
            return False
        mark = self.c.at
        said = self.c.take()
        found = thing(self.c)
        if found is None and self.c.kind() is K.WORD and said.text.startswith("it ") and said.text != "it is":
            self.into.blame(Why.WORD, self.c.take().text)   # "It should be teal."
            return True
        if found is None or found.empty or not last.objects[-1].fits(found) or self.c.kind() not in BREAKS:
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
        if found is not None and not found.empty and c.kind() in BREAKS | {K.REQUEST, K.FILLER, K.NOT}:
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
        if token.value == "away":
            found = thing(c)
            if found is not None:
                self.into.acts.append(Act(K.AVOID, token.text, objects=[found]))
                return True
        c.skip(frozenset({K.PLACE, K.OF, K.FILLER}))
        found = thing(c) if c.kind() not in ACTIONS else None
        acts = self.into.acts[self.first:]
        # "don't go to the box, but to the ball"
        repeated = bool(acts) and acts[-1].negated and acts[-1].kind in (K.MOVE, K.FIND)
        if found is None or found.empty or self.instead or self.negated or not (
                repeated or (token.kind is K.TO or self.requested and token.kind is K.NEAR) and not acts):
            c.at = mark + 1
            if token.kind is not K.TO:
                self.strange += 1
            return True
        self.into.acts.append(Act(acts[-1].kind if repeated else K.MOVE, token.text, objects=[found]))
        self.tail(self.into.acts[-1])
        if not repeated and not (c.done or c.kind() in BREAKS or c.kind() in (K.NOT, K.REQUEST, K.INSTEAD)
                                 or c.kind() in ACTIONS):
            self.into.acts.pop()    # "to the red ball belongs a box"
            self.strange += 1
        return True
