# SPDX-License-Identifier: Apache-2.0
"""Rules that sentences are drawn from: phrases put together, and whole ones with parts to choose; what each is for.

The rules stand in ``phrases/*.txt``::

    [GO 22] start                       sentences of rule ``start`` ask to go; drawn 22 times in the sum of all weights
    rule = *3 this {other} | that       alternatives, the first drawn three times as often; of a long list of mere words
                                        the first are the commonest, the last are rare
    rule:GO = drive to                  the words say the action go (GO, FIND, STOP, AVOID, OTHER), or UNKNOWN things

``{other}`` is a rule, ``{other?12}`` one that stands there in 12 of 100 cases, ``{}`` nothing (it keeps a space).
``{T}`` is the target, ``{A}`` the avoided object, ``{N}``, ``{N2}`` other objects that only are mentioned; ``{U}``,
``{V}`` further targets, ``{B}`` another avoided object, ``{t}`` and ``{n}`` are ``{T}`` and ``{N}`` without an article.
Within the rules of things (``thing_cs``: color and shape are said), ``{C}``, ``{S}``, ``{Ss}`` and ``{hint}`` are the
words of its color and shape.

The files ``*_spoken.txt`` and ``*_short.txt`` hold whole sentences, as people of many kinds say them, one a line; the
short ones are what most people say to a machine::

    GO: (hey|), see the {Ts}? the {Tc} one. [G off you go]

What stands before the colon is the kind: ``GO`` adds to rule ``go_spoken`` or ``go_short``, ``two`` to
``none_two_spoken`` or ``none_two_short``, by the name of the file. ``(a|b)``
is one of several, ``[G ...]`` the words that say an action: G go, F find, S stop, A avoid, O other, X unknown things.
``{a}`` is ``{A}`` without an article, ``{M}`` is ``{N2}``; ``{Tc}``, ``{Ts}``, ``{Ac}``, ``{As}`` are only the color
or only the shape, where a person says them apart. A mark at the end, and seldom something in front, is added where it
lacks.
"""
from __future__ import annotations

import bisect
import functools
import itertools
import random
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Iterator, NamedTuple

from brain_regions.language import words_english, words_japanese
from brain_regions.language.sizes import MEANINGS
from brain_regions.language.tokens import fold, normalize
from brain_regions.language.understanding import Verb

FOLDER = Path(__file__).with_name("phrases")
KINDS = {"go": "go", "find": "find", "stop": "stop", "none_only_avoid": "only avoid", "none_exception": "exception",
         "none_relation": "relation", "none_ordinal": "ordinal", "none_two_avoided": "two avoided",
         "none_two": "two targets",
         "none_unknown": "unknown", "none_cannot": "cannot", "none_statement": "no order", "none_question": "no order",
         "none_condition": "condition", "none_bare": "no order", "chat": "no order", "noise": "no order",
         "foreign": "foreign"}
"""Kinds of sentences, by the beginnings of their rules, and what they mean."""
LANGUAGES = {"en": ("english", "english_chatter", "english_spoken", "english_short", "english_limits"),
             "ja": ("japanese", "japanese_chatter", "japanese_spoken", "japanese_short", "japanese_dialect",
                    "japanese_limits")}
ACTIONS = ("GO", "FIND", "STOP", "AVOID", "OTHER", "UNKNOWN")
COMMON = 20.0           # rank of the word that is drawn a quarter as often as the first one
MARKED = {"G": "GO", "F": "FIND", "S": "STOP", "A": "AVOID", "O": "OTHER", "X": "UNKNOWN"}     # by [G ...]
WHOLE = {**{kind: kind.lower() for kind in ("GO", "FIND", "STOP", "chat")},
         **{kind.removeprefix("none_"): kind for kind in KINDS if kind.startswith("none_")}}
"""What the rule of the whole sentences of each kind begins with; the name of their file ends it."""
_PLACE = re.compile(r"\{([^}]*)\}")
_NOTATION = re.compile(r"(\{[^}]*\}|\[[GFSAOX] |[][()|])")
_GROUP = re.compile(r"\(([^()\[\]]*)\)|\[([GFSAOX]) ([^()\[\]]*)\]")    # an innermost (a|b) or [G ...]
_MARKS = str.maketrans("。、！？;", ".,!?,")


class Thing(NamedTuple):
    """A color and a shape, numbered as in messages; 0: not said."""

    color: int
    shape: int

    def fits(self, other: Thing) -> bool:
        """Tells whether one object can be both things."""
        return (not (self.color and other.color) or self.color == other.color) and (
            not (self.shape and other.shape) or self.shape == other.shape)

    def covers(self, other: Thing) -> bool:
        """Tells whether all that fits ``other`` fits this too."""
        return self.color in (0, other.color) and self.shape in (0, other.shape)


class Part(NamedTuple):
    """A piece of a sentence.

    Attributes:
        text: its letters.
        action: one of :data:`ACTIONS`, or None.
        role: ``T`` or ``A`` where it names the color or shape of a target or avoided object; ``N`` of another; or None.
        color, shape: which it names; 0: none.
    """

    text: str
    action: str | None = None
    role: str | None = None
    color: int = 0
    shape: int = 0


@dataclass
class Sentence:
    """A sentence with what it asks for and what its parts are for.

    Attributes:
        parts: its pieces, in order.
        verb: what it asks for; NONE: it is not understood.
        target, avoid: Thing(0, 0) where there is none.
        rule: where it started.
    """

    parts: list[Part]
    verb: Verb
    target: Thing = Thing(0, 0)
    avoid: Thing = Thing(0, 0)
    rule: str = ""

    @property
    def kind(self) -> str:
        """The kind of sentence in :data:`KINDS`, by the beginning of its rule."""
        return next(kind for kind in KINDS if self.rule.startswith(kind))

    @property
    def meaning(self) -> int:
        """Number of what it means in :data:`brain_regions.language.sizes.MEANINGS`."""
        return MEANINGS.index(KINDS[self.kind])

    @property
    def text(self) -> str:
        """All letters."""
        return "".join(part.text for part in self.parts)


class _Choice:
    """Alternatives with weights."""

    def __init__(self) -> None:
        self.options: list = []
        self.sums: list[float] = []

    def add(self, option, weight: float) -> None:
        self.options.append(option)
        self.sums.append((self.sums[-1] if self.sums else 0.0) + weight)

    def draw(self, rng: random.Random):
        return self.options[bisect.bisect_right(self.sums, rng.random() * self.sums[-1])]


@dataclass
class Rules:
    """The rules of a language."""

    language: str
    rules: dict[str, _Choice] = field(default_factory=dict)
    actions: dict[str, str] = field(default_factory=dict)
    starts: _Choice = field(default_factory=_Choice)
    colors: dict[str, dict[int, _Choice]] = field(default_factory=dict)
    shapes: dict[str, dict[int, _Choice]] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=itertools.count)     # of groups within whole sentences

    def read(self, text: str, style: str = "spoken") -> None:
        """Adds rules.

        Args:
            text: lines of a file.
            style: how the names of rules of whole sentences end.

        Raises:
            ValueError: a line is none.
        """
        for line in text.splitlines():
            line = line.strip()
            if not line or line.startswith("#"):
                continue
            if start := re.fullmatch(r"\[(\w+) (\d+)\] (\w+)", line):
                verb, weight, rule = start.groups()
                self.starts.add((Verb[verb], rule), float(weight))
                continue
            if whole := re.match(r"([A-Za-z_]+): ", line):
                self._add_whole(whole.group(1), line[whole.end():], style)
                continue
            rule = re.match(r"(\w+)(?::(\w+))? = ", line)
            if not rule:
                raise ValueError(f"not a rule: {line}")
            name, action = rule.groups()
            if action:
                self.actions[name] = action
            choice = self.rules.setdefault(name, _Choice())
            options = line[rule.end():].split(" | ")
            words = not any("{" in option.replace("{}", "") for option in options)
            for rank, option in enumerate(options):
                weight, option = _weighed(option.strip(" "))
                choice.add(_compiled(option), weight * ((COMMON / (COMMON + rank)) ** 2 if words else 1.0))

    def _add_whole(self, kind: str, text: str, style: str) -> None:
        """Adds a whole sentence; each of its groups becomes a rule of its own."""
        text = "".join(piece if number % 2 else _heard(piece) for number, piece in enumerate(_NOTATION.split(text)))
        if text[-1] not in ".!?":
            text += "{end}"
        if kind in ("GO", "FIND", "STOP"):
            text = "{pre?6}" + text
        text = re.sub(r"\{([TA])c\}色", r"{\1hue}", text)
        if kind not in WHOLE:
            raise ValueError(f"there is no kind {kind!r}: {text}")
        while group := _GROUP.search(text):
            options, action, words = group.groups()
            name = f"group{next(self._numbers)}"
            choice = self.rules[name] = _Choice()
            for option in [words] if action else options.split("|"):
                choice.add(_compiled(option), 1.0)
            if action:
                self.actions[name] = MARKED[action]
            text = f"{text[:group.start()]}{{{name}}}{text[group.end():]}"
        if re.search(r"[][()|]", text):
            raise ValueError(f"brackets that do not match: {text}")
        self.rules.setdefault(f"{WHOLE[kind]}_{style}", _Choice()).add(_compiled(text), 1.0)

    def add_words(self, name: str, words: list[str]) -> None:
        """Adds a rule of plain words."""
        choice = self.rules.setdefault(name, _Choice())
        for word in words:
            choice.add([(word, None, 100)], 1)


def _weighed(option: str) -> tuple[float, str]:
    weight = re.match(r"\*(\d+) ", option)
    return (float(weight.group(1)), option[weight.end():]) if weight else (1.0, option)


def _compiled(option: str) -> list[tuple[str, str | None, int]]:
    """Literal text before each place, its name, and the chance (%) that it is there."""
    pieces, at = [], 0
    for place in _PLACE.finditer(option):
        name, _, chance = place.group(1).partition("?")
        pieces.append((_plain(option[at:place.start()]), name or None, int(chance or 50) if _ else 100))
        at = place.end()
    pieces.append((_plain(option[at:]), None, 100))
    return pieces


def _heard(literal: str) -> str:
    """Letters as normalization leaves them, with the spaces at their ends."""
    spaces = [" " if literal[at:at + 1 or None].isspace() else "" for at in (0, -1)]
    return spaces[0] + normalize(literal) + spaces[1] if literal.strip() else spaces[0]


def _plain(literal: str) -> str:
    return fold(literal).translate(_MARKS)


def _words(first: float, *groups: str) -> _Choice:
    """Words of which the first of the first group is drawn in ``first`` of all cases."""
    every = list(dict.fromkeys(fold(w) for w in itertools.chain.from_iterable(g.split("|") for g in groups)))
    choice = _Choice()
    shares = [0.0] + [1 / (number + 3) for number in range(len(every) - 1)]
    shares = [share / max(sum(shares), 1e-9) for share in shares]
    for number, word in enumerate(every):
        choice.add(word, first if number == 0 else (1 - first) * shares[number])
    return choice


@functools.cache
def rules(language: str) -> Rules:
    """The rules of a language, with the lexicon's words of colors and shapes."""
    found = Rules(language)
    for name in LANGUAGES[language]:
        found.read((FOLDER / f"{name}.txt").read_text(encoding="utf-8"), name.partition("_")[2])
    words = words_english if language == "en" else words_japanese
    found.colors["C"], found.shapes["S"] = {}, {}
    # "maruku te" leads on to another adjective, not to a noun
    found.shapes["hint"] = {value: _words(0.5, "|".join(w for w in text.split("|") if not w.endswith("くて")))
                            for value, text in words.HINTS.items()}
    for value, text in words.NOUNS.items():
        found.shapes["S"][value] = _words(0.4, text)
    for value, text in words.COLORS.items():
        if language == "en":
            found.colors["C"][value] = _words(0.7, text)
            continue
        adjectives, hues, roots, te = _Choice(), _Choice(), _Choice(), _Choice()
        for number, root in enumerate(text.split("|")):
            often = 8 if number == 0 else 1
            if root in ("赤", "あか", "青", "あお", "黄色", "きいろ"):
                adjectives.add(root + "い", 3 * often)
                adjectives.add(root + "か", 0.2 * often)    # as in Kyushu
                te.add(root + "くて", often)
            adjectives.add(root + "の", 2 * often if root in ("緑", "みどり") else often)
            for end in ("色の", "いろの", "っぽい", "系の")[:2 if root == "き色" else 4]:
                adjectives.add(root.removesuffix("色") + end, 0.6 * often if end == "色の" else 0.15 * often)
            hues.add(root.removesuffix("色") + "色", often)
            roots.add("黄色" if root == "黄" else root, often)
        for root in words.COLOR_WORDS[value].split("|"):
            adjectives.add(fold(root) + ("" if root.endswith(("な", "の")) else "の"), 1)
            hues.add(fold(root).removesuffix("な").removesuffix("の"), 0.5)
            roots.add(fold(root).removesuffix("な").removesuffix("の"), 0.5)
        te.add(text.split("|")[0] + "色で", 1)
        for name, made in (("Cadj", adjectives), ("C_hue", hues), ("C_root", roots), ("Cte", te)):
            found.colors.setdefault(name, {})[value] = made
        found.colors["C"][value] = hues
    found.actions["other"] = "UNKNOWN"
    found.add_words("other", [fold(w) + ("" if language == "en" or w.endswith(("い", "な")) else "の")
                              for w in words.OTHER_COLORS.split("|")])
    found.add_words("sword", [fold(w) for text in words.NOUNS.values() for w in text.split("|")])
    return found
