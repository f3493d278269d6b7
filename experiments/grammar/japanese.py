# SPDX-License-Identifier: Apache-2.0
"""The Japanese grammar, over kinds of tokens.

    text     := sentence*                       sentence := clause* END
    clause   := (thing role | adverb)* predicate
    thing    := (DETERMINER | MODIFIER | word の)* (COLOR | HINT | SHAPE | THING の)*
    role     := [の PLACE | PLACE] PARTICLE      を に へ まで は が から ...
    predicate:= verb ending*                    in a form that commands or is chained to one that does
             |  bad                             「青い箱はだめ」: avoid it
             |  nothing, after へ に まで        「赤いボールへ（お願いします）」
             |  EXIST | STATE | BE              states: the things can be meant by a later それ, そこ

Objects wait until the verb comes. A verb in the middle of a sentence (て, ながら, ずに) takes the nearest of them;
the one at the end takes the rest, and its mood is the mood of all that are chained to it: 「探して、見つけた」
commands nothing. An unknown word is harmless in a clause of its own, before で (where, by what) and before の
in the full name of an object; elsewhere in a clause with a verb it makes the command not understood.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from brain_regions.language.lexicon import ACTIONS, Kind, Token
from brain_regions.language.reasons import Why
from experiments.grammar import english
from experiments.grammar.endings import Mood, ending
from experiments.grammar.reading import Act, Cursor, Reading, Thing, sentences
from experiments.grammar.things_japanese import NAMES, SIDES, role, thing

K = Kind


def read(tokens: Sequence[Token], into: Reading) -> None:
    """Reads sentences into ``into``; those with English verbs and no Japanese particle as English."""
    for sentence in sentences(tokens):
        if any(t.text.isascii() and t.kind in ACTIONS for t in sentence) and not any(
                t.kind is K.PARTICLE for t in sentence):
            english.read(sentence, into)
        else:
            _Sentence(sentence, into).read()


@dataclass(slots=True)
class _Waiting:
    """Objects that wait for their verb."""

    things: list[Thing]
    role: str = ""      # the particle
    place: bool = False


def _complete(first: Thing, second: Thing) -> bool:
    """Tells whether one says the color and the other the shape."""
    return bool(first.color) != bool(second.color) and bool(first.shape) != bool(second.shape)


class _Sentence:
    """Reads one sentence from left to right."""

    def __init__(self, tokens: Sequence[Token], into: Reading) -> None:
        self.c = Cursor(tokens)
        self.into = into
        self.question = bool(tokens) and tokens[-1].value == "?"
        self.waiting: list[_Waiting] = []
        self.chain: list[Act] = []      # verbs whose mood depends on what follows
        self.others = False             # somebody else is the subject
        self.acted = False              # a verb was read
        self.unknown: str | None = None     # word in this clause that nothing excuses
        self.patient = False    # the unknown word is what something is done to
        self.its = False
        self.found: list[Thing] = []    # of 見つけたら, for the next verb
        self.aim = False
        self.clause_start = True

    def read(self) -> None:
        """Reads all clauses."""
        c = self.c
        while not c.done:
            token = c.peek()
            start = self.clause_start
            self.clause_start = False
            if token.kind is K.COMMA:
                c.take()
                self.comma()
            elif token.kind in ACTIONS:
                self.verb()
            elif token.kind in NAMES or token.kind is K.HUE:
                self.name()
            elif token.kind is K.WORD:
                self.word(start)
            elif token.kind is K.ITS:
                c.take()
                self.its = True
                self.skip_role()
            elif token.kind is K.STATE or token.kind is K.EXIST or token.kind is K.BE:
                self.state()
            elif token.kind is K.WHO:
                c.take()
                self.others |= c.kind() is K.PARTICLE and c.peek().value in ("は", "が", "も")
                if c.kind() is K.PARTICLE and c.peek().value in ("を", "へ", "まで"):
                    self.unknown = token.text
            elif token.kind is K.AIM:
                c.take()
                self.aim = c.kind() in NAMES | {K.PARTICLE, K.COMMA, K.BE}
                if c.kind() is K.PARTICLE:
                    c.take()
            elif token.kind is K.CONDITION:
                c.take()
                if token.text == "もし" or not self.chain:
                    self.conditional_unless_seen(token)
            elif token.kind is K.REQUEST:
                c.take()
                self.request()
            else:
                c.take()
                self.clause_start = start and token.kind in (K.FILLER, K.AND, K.YOU)
        self.end()

    def conditional_unless_seen(self, token: Token) -> None:
        """「もし赤いボールがあったら」 is no condition for a robot that is to look for it."""
        rest = self.c.tokens[self.c.at:]
        seen = any(t.kind is K.EXIST or t.form == "tara" and t.kind is K.FIND for t in rest)
        if token.text in ("もし", "もしも"):
            self.into.conditional |= not seen and any(t.form == "tara" for t in rest)
        elif token.text in ("場合", "場合は", "場合には", "なら", "ならば", "たび"):
            self.into.conditional = True

    # -- objects ----

    def name(self, prefix: str = "") -> None:
        """An object and its role."""
        c = self.c
        found = thing(c)
        if found is None:
            c.take()
            return
        if found.empty:
            if c.kind() is not K.WORD:
                self.its = True
            if c.kind() is K.PLACE and c.kind(1) is K.PARTICLE and c.peek(-1).text == "その":
                self.skip_role()    # そのそばで
                return
        if prefix:
            found.doubts += 1
            if not (found.color and found.shape):
                found.problem = found.problem or (Why.WORD, prefix)
        following = c.peek()
        if following.kind in (K.WORD, K.PLACE) and following.glued and (
                following.kind is K.WORD or not found.shape and following.text not in SIDES):
            found.problem = found.problem or (Why.WORD, following.text)
            c.take()    # 箱根, 玉ねぎ
        place, particle = role(c, found)
        if particle == "drop":
            if c.peek(-1).kind is K.INSTEAD and not found.empty:
                self.into.excluded.append(found)
            elif c.peek(-1).kind is K.INSTEAD and "以外" in c.peek(-1).text:
                self.into.blame(Why.WORD, c.peek(-2).text)
            return
        if particle == "bad":
            self.into.acts.append(Act(K.AVOID, "", objects=[found]))
            return
        last = self.waiting[-1] if self.waiting else None
        if last is not None and last.role == "&":
            last.things.append(found)
            last.role, last.place = particle, place
        elif not found.empty:
            self.waiting.append(_Waiting([found], particle, place))

    def skip_role(self) -> None:
        """Particles and places after それ, そこ."""
        c = self.c
        while c.kind() in (K.PARTICLE, K.PLACE):
            c.take()

    def word(self, start: bool) -> None:
        """An unknown word."""
        c = self.c
        word = c.take()
        self.into.doubts += 1
        following = c.peek(c.kind() is K.PARTICLE and c.peek().value == "の")
        if following.kind is K.INSTEAD and "以外" in following.text:
            self.into.blame(Why.WORD, word.text)
        following = c.peek()
        if following.kind in (K.COMMA, K.END) and not self.waiting and not self.chain:
            return
        if following.kind is K.PARTICLE:
            role = following.value
            if role in ("の", "な") and c.kind(1) in NAMES:
                c.take()
                self.name(word.text)
                return
            if role in ("の", "な") and c.kind(1) in (K.PLACE, K.WORD):
                c.at += 2
                if c.kind() is K.PARTICLE and c.peek().value in ("に", "へ", "まで", "を"):
                    self.unknown = word.text
                return
            self.others |= role in ("が", "は", "も")
            if role in ("で", "から", "と") and not self.waiting:
                c.take()
                return
        if start and (following.kind in NAMES or following.kind in ACTIONS) and (
                len(word.text) > 2 or not following.glued):
            if following.kind in NAMES:
                self.name(word.text)    # a name to call it by: ロボ太赤いボールへ
            return
        if following.kind in NAMES and following.glued:
            self.name(word.text)
            if self.waiting:
                waiting = self.waiting[-1].things[-1]
                waiting.problem = waiting.problem or (Why.WORD, word.text)
            return
        self.patient |= following.kind is K.PARTICLE and following.value == "を"
        self.unknown = self.unknown or word.text

    # -- verbs ----

    def verb(self) -> None:
        """A verb, its endings, and the objects that waited for it."""
        c = self.c
        token = c.take()
        if token.kind is K.OTHER and token.form == "te" and self.chain and c.peek(-2).form == "te":
            token = Token(self.chain[-1].kind, token.text, token.value, token.form)     # 探して見て
            act = self.chain.pop()
            self.waiting.append(_Waiting(act.objects))
        else:
            act = Act(token.kind, token.text)
        self.acted = True
        mood, negated, ceased = ending(c, token, self.question)
        act.negated ^= negated
        act.ceased |= ceased
        self.take_objects(act, mood)
        if token.form == "tara" and token.kind is K.FIND:
            self.found = act.objects    # 見つけたら近づいて
            return
        if self.unknown is not None and mood is not Mood.STATE:
            self.into.blame(Why.WORD, self.unknown)
        if mood is Mood.STATE:
            self.into.topics.extend(t for t in act.objects if not t.empty)
            self.into.fragments.extend(t for t in act.objects if not t.empty)
            self.chain.clear()
            return
        if mood is Mood.CONDITION:
            self.into.conditional = True
            return
        if self.others and mood is not Mood.COMMAND:
            self.into.topics.extend(act.objects)
            return
        self.chain.append(act)
        if mood is Mood.COMMAND:
            self.commit()

    def take_objects(self, act: Act, mood: Mood) -> None:
        """Gives the verb the objects that waited."""
        waiting = [w for w in self.waiting if w.role != "&"] or self.waiting
        if len(waiting) > 1 and mood is Mood.CHAIN and not self.last_verb():
            taken, self.waiting = waiting[-1:], waiting[:-1]
        else:
            taken, self.waiting = waiting, []
            if len(taken) == 2 and taken[0].role in ("は", "", "の") and len(taken[0].things) == 1:
                self.one_of_two(taken)
        if act.kind is K.STOP and self.patient:
            act.kind = K.OTHER  # 話を止めて
        if act.kind is K.STOP and taken:
            if taken[-1].role == "を":
                act.kind = K.OTHER
            elif taken[-1].role in ("で", "に", "へ", "まで") or taken[-1].place:
                act.kind = K.MOVE   # ボールの前で止まって
            else:
                taken = []
        if act.kind is K.MOVE and not act.negated:
            taken = [w for w in taken if w.role != "から"] or taken
        if act.kind is K.MOVE and taken and taken[-1].role == "を" and "目指" not in act.text and (
                act.text.startswith(("動", "うご", "移", "うつ")) or "詰" in act.text):
            act.kind = K.OTHER
        act.objects = [t for w in taken for t in w.things]
        if not act.objects and self.found:
            act.objects, self.found = self.found, []
            act.kind = K.FIND if act.kind in (K.STOP, K.MOVE) and not act.negated else act.kind
        elif not act.objects and self.into.topics and (act.kind is K.AVOID or act.negated and act.kind in (
                K.MOVE, K.TOUCH) and not act.text.startswith(("動", "うご"))):
            act.objects.append(self.into.topics.pop())      # 「青い箱がある。近づかないで」
        elif not act.objects and self.its:
            act.its = True
            if self.into.topics:
                act.objects.append(self.into.topics.pop())
        self.its = False

    def last_verb(self) -> bool:
        """Tells whether no verb follows in this sentence."""
        return not any(t.kind in ACTIONS or t.kind is K.STATE for t in self.c.tokens[self.c.at:])

    def one_of_two(self, taken: list[_Waiting]) -> None:
        """「ボールは赤いのに行って」: two names of one object."""
        first, second = taken[0].things[0], taken[1].things[0]
        if _complete(first, second):
            second.color, second.shape = first.color or second.color, first.shape or second.shape
            taken.pop(0)

    def commit(self) -> None:
        """The chained verbs are commands."""
        self.into.acts.extend(self.chain)
        self.chain.clear()

    def request(self) -> None:
        """お願いします and the like make commands of what came before; after へ or まで they are the command."""
        if self.chain:
            self.commit()
        else:
            self.elliptical()

    def elliptical(self) -> None:
        """A destination without a verb: 「赤いボールへ」."""
        last = self.waiting[-1] if self.waiting else None
        if last and not self.unknown and not self.others and (
                last.role in ("へ", "まで") or last.role == "に"):
            self.waiting.pop()
            self.into.acts.append(Act(K.MOVE, "", objects=last.things))

    def state(self) -> None:
        """A predicate that states."""
        c = self.c
        token = c.take()
        things = [t for w in self.waiting for t in w.things]
        self.waiting.clear()
        if self.aim and token.kind is K.BE and things:
            self.into.acts.append(Act(K.MOVE, "", objects=things))
            self.aim = False
            return
        self.into.topics.extend(t for t in things if not t.empty)
        described = c.kind() is K.PARTICLE and c.peek().value in ("な", "の")      # 好きな犬
        if c.kind() in (K.END, K.COMMA) or c.kind() is K.PARTICLE and not described:
            self.into.fragments.extend(t for t in things if not t.empty)
        if token.kind is not K.BE:
            if not (token.kind is K.EXIST and c.kind() is K.PARTICLE and c.peek().value in ("か", "の")
                    and c.kind(1) is not K.END):
                self.chain = [a for a in self.chain if a.kind is K.AVOID] if token.kind is K.EXIST else []
            else:
                # 「赤いボールがどこにあるか探して」
                for _ in things[-1:]:
                    self.waiting.append(_Waiting([self.into.topics.pop()], "を"))

    def comma(self) -> None:
        """The end of a clause, maybe within a chain."""
        if self.unknown is not None and (self.waiting or self.chain):
            self.into.blame(Why.WORD, self.unknown)
        self.unknown = None
        if self.aim and self.waiting:
            self.into.acts.append(Act(K.MOVE, "", objects=[t for w in self.waiting for t in w.things]))
            self.waiting.clear()
            self.aim = False
        self.clause_start = True

    def end(self) -> None:
        """The end of the sentence."""
        things = [t for w in self.waiting for t in w.things if not t.empty]
        last = self.chain[-1] if self.chain else self.into.acts[-1] if self.acted and self.into.acts else None
        if self.aim and things and not self.chain:
            self.into.acts.append(Act(K.MOVE, "", objects=things))
        elif things and last is not None and not last.objects and last.kind in (K.MOVE, K.FIND, K.AVOID):
            last.objects = things   # 「行って、赤いボールに」
        elif things and last is not None and len(self.waiting) == 1 and not last.negated and (
                last.kind in (K.MOVE, K.FIND)):
            if len(last.objects) == len(things) == 1 and _complete(last.objects[0], things[0]):
                last.objects[0].take(things[0])     # 「箱に行って、青いほうね」
            else:
                last.objects.extend(things)
        elif things:
            before = len(self.into.acts)
            self.elliptical()
            if len(self.into.acts) == before:
                self.into.topics.extend(things)
                self.into.fragments.extend(things)
            elif len(self.waiting):
                self.into.topics.extend(t for w in self.waiting for t in w.things)
        if self.chain and self.unknown is not None:
            self.into.blame(Why.WORD, self.unknown)
        self.commit()
