# SPDX-License-Identifier: Apache-2.0
"""Results of reading a text by the grammars of both languages, before it is decided what they mean."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from brain_regions.language.lexicon import Kind, Token
from brain_regions.language.reasons import Why


@dataclass(slots=True)
class Thing:
    """An object as it was named.

    Attributes:
        color, shape: COLOR_*, SHAPE_*; 0 where nothing was said.
        barrier: "anything", "the walls": what is avoided always.
        many: "both", "two".
        bare: neither an article nor a noun: "red".
        problem: why this cannot be an object, and the word to blame.
        doubts: words that were skipped.
    """

    color: int = 0
    shape: int = 0
    barrier: bool = False
    many: bool = False
    bare: bool = False
    problem: tuple[Why, str] | None = None
    doubts: int = 0

    @property
    def empty(self) -> bool:
        """Nothing is known of it ("that one")."""
        return not (self.color or self.shape or self.barrier or self.problem)

    def fits(self, other: Thing) -> bool:
        """Tells whether one object can be both."""
        return (self.color in (0, other.color) or not other.color) and (
            self.shape in (0, other.shape) or not other.shape)

    def take(self, other: Thing) -> None:
        """Adds what another name of the same object says."""
        self.color, self.shape = self.color or other.color, self.shape or other.shape
        self.problem = self.problem or other.problem

    def covers(self, other: Thing) -> bool:
        """Tells whether all that fits ``other`` fits this too."""
        return self.color in (0, other.color) and self.shape in (0, other.shape)


@dataclass(slots=True)
class Act:
    """Something that was commanded, or, if negated, forbidden.

    Attributes:
        kind: MOVE, FIND, AVOID, STOP, TOUCH or OTHER.
        text: the verb, to name it to the user.
        objects: what it is about; several where they were joined ("and", "or").
        its: the object was "it" or "there".
        ceased: forbidden by "stop going there", which without anything else means stop.
    """

    kind: Kind
    text: str = ""
    negated: bool = False
    objects: list[Thing] = field(default_factory=list)
    its: bool = False
    ceased: bool = False


@dataclass(slots=True)
class Reading:
    """All that was read.

    Attributes:
        acts: in the order of the text.
        topics: objects that were named outside of commands and not meant by an "it" yet.
        fragments: objects that were named alone, for a verb without an object ("The red ball! Go!").
        excluded: objects that are not meant ("any ball but the red one", 赤以外).
        problem: the first thing within a command that was not understood, and the word to blame.
        conditional: a command hangs on a condition.
        doubts: words that were skipped.
    """

    acts: list[Act] = field(default_factory=list)
    topics: list[Thing] = field(default_factory=list)
    fragments: list[Thing] = field(default_factory=list)
    excluded: list[Thing] = field(default_factory=list)
    problem: tuple[Why, str] | None = None
    conditional: bool = False
    doubts: int = 0

    def blame(self, why: Why, word: str = "") -> None:
        """Notes a problem; the first one stays."""
        if self.problem is None:
            self.problem = (why, word)


class Cursor:
    """A place in a list of tokens; past the end it sees END."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens = tokens
        self.at = 0

    def peek(self, ahead: int = 0) -> Token:
        """The token ``ahead`` places further on."""
        place = self.at + ahead
        return self.tokens[place] if 0 <= place < len(self.tokens) else _PAST_END

    def kind(self, ahead: int = 0) -> Kind:
        """Kind of the token ``ahead`` places further on."""
        return self.peek(ahead).kind

    def take(self) -> Token:
        """The token here; moves on."""
        token = self.peek()
        self.at += 1
        return token

    def skip(self, kinds: frozenset[Kind]) -> int:
        """Moves past tokens of these kinds; returns how many."""
        start = self.at
        while self.at < len(self.tokens) and self.tokens[self.at].kind in kinds:
            self.at += 1
        return self.at - start

    @property
    def done(self) -> bool:
        """Nothing is left."""
        return self.at >= len(self.tokens)


_PAST_END = Token(Kind.END, "", ".")


def sentences(tokens: Sequence[Token]) -> list[list[Token]]:
    """Tokens between the marks that end a sentence; each keeps its mark."""
    found: list[list[Token]] = [[]]
    for token in tokens:
        found[-1].append(token)
        if token.kind is Kind.END:
            found.append([])
    return [part for part in found if any(t.kind is not Kind.END for t in part)]
