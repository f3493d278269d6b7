# SPDX-License-Identifier: Apache-2.0
"""The reference page on words: the colors and shapes that language knows, from its lexicon."""
from __future__ import annotations

from brain_regions.language import words_english, words_japanese
from brain_regions.language.lexicon import (
    COLOR_BLUE, COLOR_GREEN, COLOR_RED, COLOR_YELLOW, SHAPE_BALL, SHAPE_BOX, SHAPE_CYLINDER)

COLORS = {COLOR_RED: "red", COLOR_GREEN: "green", COLOR_BLUE: "blue", COLOR_YELLOW: "yellow"}
SHAPES = {SHAPE_BALL: "ball", SHAPE_BOX: "box", SHAPE_CYLINDER: "cylinder"}


def _listed(*texts: str) -> str:
    return ", ".join(dict.fromkeys(word for text in texts if text for word in text.split("|")))


def words_lines() -> list[str]:
    """Lines of the page, without what stands above."""
    lines = ["# Words", "",
             "The colors and shapes that [language](../regions.md#language) knows, and what else they may be called. "
             "English nouns stand in the plural, too. Each Japanese root of a color also makes 赤い, 赤色, 赤くて, 赤っぽい and "
             "赤系; katakana, hiragana and half width are the same. A color or a shape that is not here is not "
             "understood.", "",
             "## Colors", "", "| color | English | Japanese, roots | Japanese, words |", "|---|---|---|---|"]
    lines += [f"| {name} | {_listed(words_english.COLORS[number])} | {_listed(words_japanese.COLORS[number])} | "
              f"{_listed(words_japanese.COLOR_WORDS[number])} |" for number, name in COLORS.items()]
    lines += ["", "## Shapes", "", "| shape | English | English, adjectives | Japanese | Japanese, adjectives |",
              "|---|---|---|---|---|"]
    lines += [f"| {name} | {_listed(words_english.NOUNS[number])} | {_listed(words_english.HINTS[number])} | "
              f"{_listed(words_japanese.NOUNS[number])} | {_listed(words_japanese.HINTS[number])} |"
              for number, name in SHAPES.items()]
    lines += ["", "## Colors that no object has", "",
              "They are known for what they are, and a sentence that asks for one is not understood.", "",
              f"- English: {_listed(words_english.OTHER_COLORS)}",
              f"- Japanese: {_listed(words_japanese.OTHER_COLORS)}"]
    return lines
