# SPDX-License-Identifier: Apache-2.0
"""The lexicon that is used: the words of both languages together."""
from __future__ import annotations

import functools

from brain_regions.language import words_english, words_japanese
from brain_regions.language.lexicon import Lexicon


@functools.cache
def lexicon() -> Lexicon:
    """The one lexicon, of both languages: people mix them ("red のボール")."""
    words = Lexicon()
    words_english.fill(words)
    words_japanese.fill(words)
    words.freeze()
    return words
