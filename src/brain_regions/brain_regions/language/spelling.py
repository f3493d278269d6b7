# SPDX-License-Identifier: Apache-2.0
"""Misspelt English words: "teh", "yelow", "dotn".

Only words that matter are mended, and only slips that hardly make another word: two letters swapped, one
doubled or left out, and in long words one mistaken. The first letter stays or is one of those swapped. What
forbids matters most: a "don't" that is taken for a name would make a goal of a prohibition.
"""
from __future__ import annotations

import functools
from string import ascii_lowercase

_SHORT = "the go red box ball blue cube tube find look head near stop not dont don't"
_LONG = (
    "green yellow sphere block crate cylinder pillar column search locate approach avoid avoiding navigate "
    "drive toward towards without never cannot mustn't shouldn't touch touching away freeze please")
_FORBIDS = "dont don't never cannot mustn't shouldn't stop away avoid"
_WORDS = frozenset("dot don hat hal sop stoop sto bloc carte cate dive neer thee".split())    # no slips
_OMISSIBLE = 5      # letters of words in which one may be left out
_MISTAKABLE = 7     # ... or mistaken


@functools.cache
def _slips() -> dict[str, str]:
    """The word that is meant by each misspelling; those of two words are left out."""
    found: dict[str, set[str]] = {}
    words = set(f"{_SHORT} {_LONG} {_FORBIDS}".split())
    for word in words:
        for slip in _of(word, word in _FORBIDS.split()):
            found.setdefault(slip, set()).add(word.replace("'", ""))
    meant = {slip: next(iter(of)) for slip, of in found.items() if len(of) == 1 and slip not in words}
    return {slip: "don't" if word == "dont" else word for slip, word in meant.items()}


def _of(word: str, forbids: bool) -> set[str]:
    size = len(word)
    slips = {word[:i] + word[i + 1] + word[i] + word[i + 2:] for i in range(size - 1)} if size > 2 else set()
    slips |= {word[:i] + word[i] + word[i:] for i in range(0 if size > 3 else 2, size)}
    slips |= {word[:i] + word[i + 1:] for i in range(1, size) if size > 3 and word[i] == word[i - 1]}
    if size >= _OMISSIBLE or forbids and size >= 4:
        slips |= {word[:i] + word[i + 1:] for i in range(1, size)}
    if size >= _MISTAKABLE:
        slips |= {word[:i] + letter + word[i + 1:] for i in range(1, size) for letter in ascii_lowercase}
    return slips - {word} - _WORDS


def mended(word: str) -> str:
    """The word that is meant by an unknown one; empty where that is not sure."""
    found = _slips().get(word, "")
    return {"mustnt": "mustn't", "shouldnt": "shouldn't"}.get(found, found)
