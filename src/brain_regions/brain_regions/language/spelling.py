# SPDX-License-Identifier: Apache-2.0
"""Misspelt English words, and spaces in the wrong place: "teh", "yelow", "dotn", "got o the", "redball".

A slip is two letters swapped, one doubled or left out, one of a neighboring key too many or in place of another, and in
long words any one mistaken. A word is mended only where one known word, and no other, is a slip away, and where it is
no word of English itself: a "bell" is no ball, and a "bed" is not red. The first letter stays or is one of those
swapped; of the name of a thing it may be that of a neighboring key.
"""
from __future__ import annotations

import functools
import re
from string import ascii_lowercase

from brain_regions.language.lexicon import Entry, Kind, Lexicon
from brain_regions.language.words_english import COLORS, NOUNS
from brain_regions.language.words_near import REAL

_MENDABLE = frozenset({
    Kind.COLOR, Kind.SHAPE, Kind.HINT, Kind.THING, Kind.DETERMINER, Kind.MOVE, Kind.FIND, Kind.AVOID, Kind.STOP,
    Kind.TOUCH, Kind.KEEP, Kind.OTHER, Kind.OTHER_COLOR, Kind.NOT, Kind.TO, Kind.NEAR, Kind.FROM, Kind.REQUEST,
    Kind.YOU, Kind.AND, Kind.APART})
_NAMING = (Kind.COLOR, Kind.SHAPE, Kind.HINT)
_SHORT = frozenset("the go to red box can and not you get one for".split())    # of two and three letters
_COMMONEST = frozenset({"the", "for"})      # meant whatever else may be
_SPACED = frozenset("a at by get go in is it me my of on the to up you and red box can not for".split())
_OMISSIBLE = 4      # letters of words in which one may be left out, or mistaken for that of a neighboring key
_MISTAKABLE = 7     # ... or mistaken for any other
_LONG = 5           # letters of colors of which two may be wrong, and they are still thought of
_WORD = re.compile("[a-z']+")
_ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")    # of an English keyboard


@functools.cache
def neighbors() -> dict[str, str]:
    """The letters beside each letter of an English keyboard."""
    at = {key: (row, column + row / 2) for row, keys in enumerate(_ROWS) for column, key in enumerate(keys)}
    return {key: "".join(k for k, (r, c) in at.items() if k != key and abs(r - row) <= 1 and abs(c - column) <= 1)
            for key, (row, column) in at.items()}


def _meant(word: str) -> set[str]:
    """All that may be meant by a misspelt word, known or not."""
    size, near, letters = len(word), neighbors() | {"'": ""}, ascii_lowercase + "'"
    found = {word[:i] + word[i + 1] + word[i] + word[i + 2:] for i in range(size - 1)}
    found |= {word[:i] + word[i + 1:] for i in range(1, size) if word[i] == word[i - 1]}
    if size >= _OMISSIBLE:
        found |= {key + word[1:] for key in near[word[0]]} & _names()
        found |= {name for name in _names() if name[1:] == word and len(name) >= _LONG}
        found |= {word[:i] + word[i + 1:] for i in range(1, size)
                  if word[i] in near[word[i - 1]] or word[i] in near[word[i + 1:i + 2] or "'"]}
        found |= {word[:i] + key + word[i + 1:] for i in range(1, size) for key in near[word[i]]}
    if size + 1 >= _OMISSIBLE:
        found |= {word[:i] + letter + word[i:] for i in range(1, size + 1) for letter in letters}
    if size == 3:
        found |= {word[:i] + key + word[i + 1:] for i in range(3) for key in near[word[i]]} & {"the", "and", "one"}
        found |= {word[0] + key + word[2] for key in near[word[1]]} & {"red", "box", "can"}
    if size == 2:
        found |= {word[0] + key for key in near[word[1]]} & {"go", "to"} | {word + "e"} & {"the"}
    if size >= _MISTAKABLE:
        found |= {word[:i] + word[i + 1:] for i in range(1, size)}
        found |= {word[:i] + letter + word[i + 1:] for i in range(1, size) for letter in letters}
    return found - {word}


@functools.cache
def _names() -> frozenset[str]:
    """Words for colors and shapes."""
    return frozenset("|".join((*COLORS.values(), *NOUNS.values())).split("|"))


@functools.cache
def _known(words: Lexicon) -> dict[str, Entry]:
    """The English words that may be meant: short ones are too near to each other."""
    return {word: entry for word, entry in words.spelled(ascii_lowercase + "'").items()
            if len(word) >= _OMISSIBLE or word in _SHORT or "'" in word}


@functools.lru_cache(4096)
def mended(word: str, words: Lexicon) -> str:
    """The word of a lexicon that is meant by an unknown one; empty where that is not sure."""
    if word in REAL or words.get(word) or not _WORD.fullmatch(word):
        return ""
    known = _known(words)
    found = {meant: known[meant] for meant in _meant(word) & known.keys()}
    for meant in [meant for meant in found if "'" in meant]:
        found.pop(meant.replace("'", ""), None)     # one word, two spellings
    commonest = {meant: found[meant] for meant in _COMMONEST & found.keys()
                 if not any(entry[0] in _NAMING for entry in found.values())}
    if len({entry[:2] for entry in found.values()}) != 1 and not commonest:     # "cylinder" and "cylinders" are one
        return ""
    meant, entry = min((commonest or found).items(), key=lambda item: (len(item[0]), item[0]))
    others = {words.get(name) for name in _names() if distance(word, name) <= 1}
    if entry[0] in _NAMING and others - {entry} or entry[0] is not Kind.COLOR and doubtful(word):
        return ""       # "gube" may be "tube", and it may be "cube"; "res" may be "rest", and it may be "red"
    return meant if entry[0] in _MENDABLE else ""


def corrected(text: str, words: Lexicon) -> str:
    """A normalized text with its misspelt English words as they are meant, where that is sure."""
    pieces = re.split(r"([a-z']+)", text)       # words are at odd places
    for at in range(1, len(pieces), 2):
        word = pieces[at]
        if not word or words.get(word) or word == "'":
            continue
        pairs = [first for first in (at - 2, at) if first > 0 and first + 2 < len(pieces) and pieces[first + 1] == " "]
        moves = sorted(((rank, first, moved) for first in pairs
                        for rank, moved in _respaced(pieces[first], pieces[first + 2], words)), key=lambda m: m[0])
        if moves and (len(moves) == 1 or moves[0][0] < moves[1][0]):
            _, first, moved = moves[0]
            pieces[first:first + 3] = [moved[0], " " if moved[1] else "", moved[1]]
        else:
            pieces[at] = mended(word, words) or _split(word, words) or word
    return "".join(pieces)


def _respaced(first: str, second: str, words: Lexicon) -> list[tuple[int, tuple[str, str]]]:
    """Lists what two words may be, one of them unknown: with the space a letter further, or without; likeliest: 0."""
    found = [(0, moved) for moved in ((first + second[:1], second[1:]), (first[:-1], first[-1:] + second))
             if all(_whole(word, words) for word in moved)]
    whole, known = first + second, any(words.get(word) is not None for word in (first, second))
    if whole in _names() or whole in _known(words) and not known and min(len(first), len(second)) < _OMISSIBLE:
        found.append((1 + known, (whole, "")))
    return found


def _split(word: str, words: Lexicon) -> str:
    """Two words that lack the space between them; empty where that is not sure."""
    if word in REAL:
        return ""
    found = [f"{word[:i]} {word[i:]}" for i in range(1, len(word))
             if all(_whole(part, words) and (len(part) < _OMISSIBLE or words.get(part)[0] in _MENDABLE)
                    for part in (word[:i], word[i:]))]
    return found[0] if len(found) == 1 else ""


def _whole(word: str, words: Lexicon) -> bool:
    """Tells whether a word may stand where a space was wrong: a common short one, or a longer one that is known."""
    if len(word) < _OMISSIBLE:
        return word in _SPACED
    return words.get(word) is not None


def doubtful(word: str) -> bool:
    """Tells whether a word may be a misspelt color, though not surely: "read", "grean"."""
    return any(distance(word, color) <= (1 if len(color) < _LONG else 2) for color in _colors())


@functools.cache
def _colors() -> tuple[str, ...]:
    return tuple(color for colors in COLORS.values() for color in colors.split("|"))


def distance(one: str, other: str) -> int:
    """Levenshtein's distance, by Hyyrö's bit-parallel form (2003) of Myers' algorithm: a step for each letter."""
    if not one:
        return len(other)
    places: dict[str, int] = {}
    for at, letter in enumerate(one):
        places[letter] = places.get(letter, 0) | 1 << at
    every, last = (1 << len(one)) - 1, 1 << len(one) - 1
    more, less, found = every, 0, len(one)
    for letter in other:
        same = places.get(letter, 0)
        still = ((same & more) + more ^ more) | same | less
        up, down = less | ~(still | more) & every, more & still
        found += bool(up & last) - bool(down & last)
        up, down = (up << 1 | 1) & every, down << 1 & every
        more, less = down | ~(still | up) & every, up & still
    return found
