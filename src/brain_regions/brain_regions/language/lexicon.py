# SPDX-License-Identifier: Apache-2.0
"""The words that language knows: kinds of tokens, and an index of the English and Japanese words.

The words themselves stand in :mod:`.words_english`, :mod:`.verbs_english` and so on; here is what a word can
be.
"""
from __future__ import annotations

import bisect
import enum
from dataclasses import dataclass

from brain_runtime.interfaces import DetectedObject

COLOR_RED, COLOR_GREEN = DetectedObject.COLOR_RED, DetectedObject.COLOR_GREEN
COLOR_BLUE, COLOR_YELLOW = DetectedObject.COLOR_BLUE, DetectedObject.COLOR_YELLOW
SHAPE_BALL, SHAPE_BOX, SHAPE_CYLINDER = (
    DetectedObject.SHAPE_BALL, DetectedObject.SHAPE_BOX, DetectedObject.SHAPE_CYLINDER)


class Kind(enum.Enum):
    """Kind of a token in the grammar."""

    # what makes up the name of an object
    COLOR = enum.auto()     # value: COLOR_*
    OTHER_COLOR = enum.auto()   # a color that no object of the world has
    SHAPE = enum.auto()     # value: SHAPE_*
    HINT = enum.auto()      # an adjective of shape ("round"); value: SHAPE_*, where no noun says the shape
    THING = enum.auto()     # a noun that leaves the shape open: "one", "object"
    BARRIER = enum.auto()   # what is always avoided: walls, obstacles, "anything"
    DETERMINER = enum.auto()
    MODIFIER = enum.auto()  # an adjective that is not used: "big", "nearest"
    MANY = enum.auto()      # "both", "two", "all"
    HUE = enum.auto()       # "color", "colored"
    SHAPED = enum.auto()    # "shaped"
    # what is to be done; form: how the verb is inflected
    MOVE = enum.auto()      # value "bare": moves a thing when an object follows without a preposition
    FIND = enum.auto()
    AVOID = enum.auto()
    STOP = enum.auto()
    TOUCH = enum.auto()     # may not be done to what is to be avoided; cannot be done otherwise
    OTHER = enum.auto()     # what the robot cannot do: "kick", "pick up"
    KEEP = enum.auto()      # with an object and APART: "keep the box at a distance"
    APART = enum.auto()
    OUT = enum.auto()       # after an object: "is off limits", "is to be avoided"
    # how it is said
    NOT = enum.auto()
    REQUEST = enum.auto()   # what only precedes or follows a command: "please", "could you"
    YOU = enum.auto()       # the robot, as the one that is spoken to
    WHO = enum.auto()       # somebody else
    ASK = enum.auto()
    BE = enum.auto()
    STATE = enum.auto()     # a verb in a form that states: "found", "goes"
    CONDITION = enum.auto()
    SEEN = enum.auto()      # "if you see": the condition of every command to find
    AIM = enum.auto()       # "your goal", where it says the command
    ITS = enum.auto()       # "it", "there": an object that was named before
    TO = enum.auto()        # the preposition of a destination
    NEAR = enum.auto()      # of a place
    FROM = enum.auto()
    PAST = enum.auto()      # of a way
    OF = enum.auto()
    RELATIVE = enum.auto()  # "that is", "which"
    PLACE = enum.auto()     # "side", "corner", "left"
    AND = enum.auto()       # value: "and", "or", "but", "then"
    INSTEAD = enum.auto()   # "instead of": what follows is not wanted, nor in the way
    FILLER = enum.auto()    # says nothing that the robot needs
    COMMA = enum.auto()
    END = enum.auto()       # value: the mark
    WORD = enum.auto()      # not in the lexicon
    # Japanese only
    PARTICLE = enum.auto()  # value: the particle in hiragana
    ENDING = enum.auto()    # what follows a verb; value: its class, see words_japanese
    EXIST = enum.auto()     # aru, iru


ACTIONS = frozenset({Kind.MOVE, Kind.FIND, Kind.AVOID, Kind.STOP, Kind.TOUCH, Kind.OTHER, Kind.KEEP})


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of the sentence.

    Attributes:
        kind: what it is for the grammar.
        text: as it stands in the normalized sentence.
        value: depends on the kind.
        form: of a verb: English ``base``, ``ing``; Japanese see :mod:`.words_japanese`.
        glued: nothing stands between it and the token before, not even a space.
    """

    kind: Kind
    text: str
    value: int | str = ""
    form: str = ""
    glued: bool = False


Entry = tuple[Kind, "int | str", str]
"""Kind, value and form of a word."""


class Lexicon:
    """Words and phrases by their normalized spelling. Where a spelling is added twice, the first stays.

    The Japanese verbs make tens of thousands of spellings; as a sorted list, in which words that begin alike
    are neighbors, they take far less memory than as a tree.
    """

    def __init__(self) -> None:
        self._added: dict[str, Entry] = {}
        self._shared: dict[Entry, Entry] = {}
        self._spellings: list[str] = []
        self._entries: list[Entry] = []
        self._first: dict[str, tuple[int, int]] = {}

    def add(self, spelling: str, kind: Kind, value: int | str = "", form: str = "") -> None:
        """Adds a word or a phrase, spelled as :func:`.tokens.normalize` and ``fold`` leave it.

        Raises:
            ValueError: it is empty.
        """
        if not spelling:
            raise ValueError(f"a word of kind {kind.name} is empty; look for '||' or a '|' at a list's end")
        entry = (kind, value, form)
        self._added.setdefault(spelling, self._shared.setdefault(entry, entry))

    def add_all(self, spellings: str, kind: Kind, value: int | str = "", form: str = "") -> None:
        """Adds several, separated by ``|``."""
        for spelling in spellings.split("|"):
            self.add(spelling.strip(), kind, value, form)

    def freeze(self) -> None:
        """Makes what was added ready for :meth:`begin`; nothing is added after it."""
        self._spellings = sorted(self._added)
        self._entries = [self._added[spelling] for spelling in self._spellings]
        self._added, self._shared = {}, {}
        for letter in {spelling[0] for spelling in self._spellings}:
            self._first[letter] = self._among(letter, 0, len(self._spellings))

    def begin(self, letter: str) -> tuple[int, int] | None:
        """Returns the span of the words that begin with a letter; None if none does."""
        return self._first.get(letter)

    def narrow(self, beginning: str, span: tuple[int, int]) -> tuple[int, int] | None:
        """Narrows ``span`` to the words with this beginning; None if there are none."""
        low, high = self._among(beginning, *span)
        return (low, high) if low < high else None

    def entry(self, spelling: str, span: tuple[int, int]) -> Entry | None:
        """The word of this spelling, where ``span`` is that of the words that begin so."""
        return self._entries[span[0]] if self._spellings[span[0]] == spelling else None

    def get(self, spelling: str) -> Entry | None:
        """The word of this spelling; None if it is none."""
        span = self.begin(spelling[:1])
        span = span and self.narrow(spelling, span)
        return self.entry(spelling, span) if span else None

    def spelled(self, letters: str) -> dict[str, Entry]:
        """The words that are spelled with these letters only."""
        only = set(letters)
        return {spelling: entry for spelling, entry in zip(self._spellings, self._entries) if only.issuperset(spelling)}

    def _among(self, beginning: str, low: int, high: int) -> tuple[int, int]:
        low = bisect.bisect_left(self._spellings, beginning, low, high)
        return low, bisect.bisect_left(self._spellings, beginning + "\U0010ffff", low, high)

    def __len__(self) -> int:
        return len(self._spellings)
