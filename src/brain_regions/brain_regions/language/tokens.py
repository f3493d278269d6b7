# SPDX-License-Identifier: Apache-2.0
"""From text to tokens.

Normalization folds what different keyboards make of the same sentence: full width (NFKC), case, apostrophes,
brackets, dashes. The tokenizer then covers the text with words of the lexicon, katakana and hiragana alike, so
that as little as possible stays unknown, and among such covers takes the one with the fewest words: longest
match, but one that takes a step back where the longest word would leave an unknown rest, as Japanese without
spaces needs.
"""
from __future__ import annotations

import unicodedata

from brain_regions.language.lexicon import Kind, Lexicon, Token

_APOSTROPHES = dict.fromkeys(map(ord, "’‘ʼ`´′"), "'")
_MARKS = {"。": ".", "．": ".", "｡": ".", "\n": ".", "\r": ".", "、": ",", "､": ",", ";": ",", ":": ",",
          "—": ",", "–": ",", "…": ",", "―": ",", "→": ",", "&": " and ", "+": " and ", "/": " or ", "^": " ",
          "〜": "ー",
          "~": "ー", "～": "ー", "゙": "", "゚": ""}
_HIRAGANA = {code: code - 0x60 for code in range(ord("ァ"), ord("ヶ") + 1)}
_PUNCTUATION = ",.!?"
_STRETCH = frozenset("ーぁぃぅぇぉっ")  # "くださーい", "行ってぇ": length that is not in the spelling
_UNLIKELY = 15
_UNKNOWN = 10       # cost of an unknown Latin word or Japanese character; a known word costs 1


def is_japanese(character: str) -> bool:
    """Tells whether a character is kana or a Chinese character (which Japanese shares with Chinese)."""
    return ("\u3041" <= character <= "\u30ff" or "\u3400" <= character <= "\u9fff" or character in "々〆ヶ"
            or "\uf900" <= character <= "\ufaff")


def _is_letter(character: str) -> bool:
    return (character.isalnum() or character == "'") and not is_japanese(character)


def normalize(text: str) -> str:
    """Lower case, half width; ``, . ! ?`` as the only marks; single spaces."""
    text = text.translate(_APOSTROPHES).replace("...", ",").replace("--", ",").replace(" - ", ",")
    text = unicodedata.normalize("NFKC", text).translate(_APOSTROPHES).casefold().replace("w/o ", "without ")
    folded = []
    for character in text:
        if character in _MARKS:
            folded.append(_MARKS[character])
        elif character in _PUNCTUATION or is_japanese(character) or _is_letter(character):
            folded.append(character)
        elif unicodedata.category(character) == "Mn":
            folded.append(character)    # an accent that did not compose belongs to its letter
        else:
            folded.append(" ")
    return " ".join("".join(folded).split())


def fold(text: str) -> str:
    """Katakana as hiragana, as the lexicon spells it; the length stays."""
    return text.translate(_HIRAGANA)


def _is_katakana(character: str) -> bool:
    return "ァ" <= character <= "ヶ"


def tokenize(normalized: str, words: Lexicon) -> list[Token]:
    """Tokens of a normalized text.

    What is not in the lexicon becomes WORD: a whole Latin word, or a run of Japanese characters.
    """
    text, length = fold(normalized), len(normalized)
    mixed = any("ぁ" <= ch <= "ん" for ch in normalized)
    # best cover of the rest, from the end to the start: (cost, end of the first token, its entry)
    best: list[tuple[int, int, tuple | None]] = [(0, length, None)] * (length + 1)
    for start in range(length - 1, -1, -1):
        character = text[start]
        if character == " ":
            best[start] = (best[start + 1][0], start + 1, None)
            continue
        latin = _is_letter(character)
        if latin and start and _is_letter(text[start - 1]):
            continue    # inside a word: never reached
        end = start + 1
        if latin:
            while end < length and (_is_letter(text[end]) or unicodedata.category(text[end]) == "Mn"):
                end += 1
        choice = (best[end][0] + (1 if character in _PUNCTUATION else _UNKNOWN), end, None)
        span, position, spelling = words.begin(character), start + 1, character
        while span is not None:
            entry = words.entry(spelling, span)
            within = position < length and _is_letter(text[position]) and _is_letter(text[position - 1])
            if entry is not None and not (latin and within):
                # no particle stands within a word in katakana: ピカピカ
                inside = mixed and position == start + 1 and _is_katakana(normalized[start])
                cost = best[position][0] + (_UNLIKELY if inside else 1)
                if cost <= choice[0]:   # the same cost: the longer word
                    choice = (cost, position, entry)
            if position == length:
                break
            following = words.narrow(spelling + text[position], span)
            if following is not None:
                spelling += text[position]
                span = following
            elif text[position] not in _STRETCH:
                break
            position += 1
        best[start] = choice
    return _collect(text, best, words)


def _collect(text: str, best: list[tuple[int, int, tuple | None]], words: Lexicon) -> list[Token]:
    tokens: list[Token] = []
    position, glued = 0, False
    while position < len(text):
        _, end, entry = best[position]
        piece = text[position:end]
        if piece == " ":
            position, glued = end, False
            continue
        if entry is not None:
            tokens.append(Token(entry[0], piece, entry[1], entry[2], glued))
        elif piece == ",":
            tokens.append(Token(Kind.COMMA, piece))
        elif piece in _PUNCTUATION:
            tokens.append(Token(Kind.END, piece, piece))
        elif _is_letter(piece[0]):
            # an adverb of manner or a number never changes what is asked
            manner = piece.endswith("ly") and len(piece) > 4
            kind = Kind.FILLER if manner or piece[0].isdigit() else Kind.WORD
            tokens.append(Token(kind, piece, glued=glued))
        elif glued and tokens and tokens[-1].kind is Kind.WORD and is_japanese(piece[0]):
            tokens[-1] = Token(Kind.WORD, tokens[-1].text + piece, glued=tokens[-1].glued)
        else:
            tokens.append(Token(Kind.WORD, piece, glued=glued))
        position, glued = end, True
    return tokens
