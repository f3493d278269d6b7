# SPDX-License-Identifier: Apache-2.0
"""Reasons why a text was not understood, said to the person in the language of the text, and what would be."""
from __future__ import annotations

import enum

MAX_BYTES = 256     # bound of LanguageFeatures.reason


class Why(enum.Enum):
    """Reasons for not understanding: English, Japanese. ``{}`` is the word to blame."""

    EMPTY = ("The text is empty. Say for example 'go to the red ball'.",
             "文が空です。例：「赤いボールへ行って」")
    LONG = ("The text is longer than 1000 characters. Say one short sentence, such as 'go to the red ball'.",
            "文が1000文字を超えています。短い文で言ってください。例：「赤いボールへ行って」")
    BYTES = ("The sentence is longer than I can read, which is 256 bytes. Say one short sentence, such as 'go to the "
             "red ball'.",
             "文が長すぎます（256バイトまで）。短い文で言ってください。例：「赤いボールへ行って」")
    INTERRUPTED = ("Another sentence came before I had read this one.",
                   "読み終わる前に別の文が来ました。")
    LANGUAGE = ("I understand English and Japanese. Say for example 'go to the red ball' or 「赤いボールへ行って」.",
                "英語か日本語で言ってください。例：「赤いボールへ行って」")
    NO_COMMAND = ("I found no command. Say 'go to', 'find' or 'stop', for example 'find the red ball'.",
                  "命令が見つかりません。例：「赤いボールへ行って」「青い箱を探して」「止まれ」")
    NO_TARGET = ("I do not know which object to go to. I know the colors red, green, blue, yellow and the "
                 "shapes ball, box, cylinder.",
                 "どの物か分かりません。色は赤・緑・青・黄色、形はボール・箱・円柱が分かります。")
    WORD = ("I do not understand '{}'. I know the colors red, green, blue, yellow and the shapes ball, box, "
            "cylinder.",
            "「{}」が分かりません。色は赤・緑・青・黄色、形はボール・箱・円柱が分かります。")
    COLOR = ("I do not know the color '{}'. I know the colors red, green, blue and yellow.",
             "「{}」という色は知りません。赤・緑・青・黄色なら分かります。")
    COLORS = ("An object has one color. Name one of red, green, blue and yellow.",
              "一つの物の色は一つだけ言ってください（赤・緑・青・黄色）。")
    TWO_TARGETS = ("You named more than one object to go to. Name one at a time.",
                   "行き先が二つ以上あります。一度に一つだけ言ってください。")
    TWO_AVOIDED = ("You named more than one object to avoid. I can avoid one.",
                   "避ける物が二つ以上あります。一つだけ言ってください。")
    SAME = ("You asked for an object that you also want avoided. Name two different objects.",
            "行き先と避ける物が同じです。別の物を言ってください。")
    TAUGHT_AVOIDED = ("I can look for '{}', which I was taught, but not avoid it. I can avoid colors and shapes.",
                      "「{}」は教わった物なので、探せますが避けられません。避けられるのは色と形です。")
    ONLY_NOT = ("I know what not to do, but not what to do. Say for example 'go to the red ball without "
                "going near the blue box', or 'stop'.",
                "してはいけないことだけで、行き先が分かりません。例：「青い箱を避けて赤いボールへ行って」")
    CANNOT = ("I cannot do '{}'. I can go to an object, find one, avoid one, and stop.",
              "「{}」はできません。できるのは、行く・探す・避ける・止まることです。")
    EXCEPTION = ("I cannot hold an exception, such as 'anywhere but'. Name the one object to go to, for example 'go to "
                 "the red ball'.",
                 "「以外」「ではない方」のような除き方はできません。行き先を一つ言ってください。例：「赤いボールへ行って」")
    RELATION = ("I cannot tell objects by where they are, such as 'next to' or 'left of'. Name a color and a shape, "
                "for example 'go to the red ball'.",
                "「隣の」「左の」のような位置では物を区別できません。色と形で言ってください。例：「赤いボールへ行って」")
    ORDINAL = ("I cannot tell objects by order or number, such as 'the second' or 'another'. Name a color and a shape, "
               "for example 'go to the red ball'.",
               "「二番目の」「別の」のような順番や数では物を区別できません。色と形で言ってください。例：「赤いボールへ行って」")
    NO_ORDER = ("'{}' is no order, so nothing changes. Say 'go to', 'find' or 'stop', for example 'find the red ball'.",
                "「{}」は命令ではないので、何も変えません。例：「赤いボールへ行って」「青い箱を探して」「止まれ」")
    CONDITION = ("I do not understand conditions such as 'if' and 'when'. Say what to do now.",
                 "条件つきの命令は分かりません。今することを言ってください。")

    def text(self, japanese: bool, word: str = "") -> str:
        """The reason as at most 256 bytes of UTF-8; the word to blame is shortened where it is long."""
        template = self.value[1 if japanese else 0]
        room = min(MAX_BYTES - len(template.replace("{}", "").encode()), 60)
        return template.replace("{}", cut(word, room))


def cut(text: str, size: int) -> str:
    """The longest start of ``text`` that takes at most ``size`` bytes in UTF-8."""
    return text[:size].encode("utf-8", "replace")[:size].decode("utf-8", "ignore")
