# SPDX-License-Identifier: Apache-2.0
"""Sentences for the robot: English and Japanese phrasings, other ones in each split."""

from __future__ import annotations

import numpy as np

from brain_sim.things import Kind

LANGUAGES = ("en", "ja")

_EN_COLORS = {c: (c,) for c in ("red", "green", "blue", "yellow")}
_EN_SHAPES = {"ball": ("ball", "ball", "sphere"), "box": ("box", "box", "cube"),
              "cylinder": ("cylinder", "cylinder", "can", "tube")}
_JA_COLORS = {"red": ("赤い", "赤い", "赤の", "赤色の", "あかい"), "blue": ("青い", "青い", "青の", "青色の", "あおい"),
              "green": ("緑の", "緑の", "緑色の", "みどりの"), "yellow": ("黄色い", "黄色い", "黄色の", "きいろい")}
_JA_SHAPES = {"ball": ("ボール", "ボール", "玉", "球"), "box": ("箱", "箱", "立方体", "はこ"),
              "cylinder": ("円柱", "円柱", "筒", "シリンダー")}

# {t} is the target, {a} what is to be avoided, both as color and shape words without an article.
_GO = {
    "en": {
        "train": (
            "go to the {t}", "find the {t}", "please go to the {t}", "move to the {t}", "drive to the {t}",
            "look for the {t}", "Go to the {t}.", "could you go to the {t}?", "find the {t} and stop there",
            "head to the {t}", "take yourself to the {t}", "I want you to find the {t}", "search for the {t}",
            "approach the {t}", "robot, go to the {t}", "please find a {t}", "get to the {t}"),
        "val": (
            "can you find the {t} for me?", "head over to the {t}", "make your way to the {t}",
            "Please drive up to the {t}.", "go and find the {t}", "I'd like you to go to the {t}",
            "go stand in front of the {t}", "would you please move to the {t}", "now go to the {t}, please",
            "there is a {t} somewhere; go to it"),
        "test": (
            "please head for the {t}", "would you go over to the {t}?", "try to find the {t}",
            "go on to the {t} now", "find me the {t}, please", "I need you to drive to the {t}",
            "Stop next to the {t} after you find it.", "your goal is the {t}", "let's go to the {t}",
            "the {t}: go there"),
    },
    "ja": {
        "train": (
            "{t}へ行って", "{t}に行って", "{t}を探して", "{t}へ行ってください", "{t}を見つけて", "{t}に向かって",
            "{t}まで移動して", "{t}を探してください", "{t}のところへ行って", "{t}まで行け", "{t}に近づいて",
            "{t}へ進んで", "{t}へいってください", "{t}をさがして", "{t}まで来て", "{t}の前まで行って"),
        "val": (
            "{t}まで行ってください", "{t}を見つけてください", "{t}の方へ行ってくれる?", "{t}のそばに行って",
            "{t}の前で止まって", "{t}へ移動してください", "すみません、{t}を探してもらえますか",
            "ロボットさん、{t}へ行ってね", "{t}に向かってください", "{t}をみつけてね"),
        "test": (
            "{t}まで行ってもらえますか", "{t}を探しに行って", "{t}の所まで移動してください", "{t}に近寄ってください",
            "次は{t}へ行きましょう", "{t}を探してほしい", "{t}の近くに行ってくれますか", "{t}へ向かってほしいです",
            "{t}を見つけたらそこで止まって", "目標は{t}です。行ってください"),
    },
}
_AVOID = {
    "en": {
        "train": (
            "go to the {t} but avoid the {a}", "find the {t} and stay away from the {a}",
            "avoid the {a} and go to the {t}", "go to the {t} without going near the {a}",
            "move to the {t}, but keep away from the {a}", "find the {t}, avoiding the {a}",
            "keep clear of the {a} and drive to the {t}", "go to the {t}; do not go near the {a}"),
        "val": (
            "please go to the {t}, keeping clear of the {a}", "head to the {t} while avoiding the {a}",
            "stay away from the {a} on your way to the {t}", "find the {t}, but don't go near the {a}",
            "while you avoid the {a}, make your way to the {t}",
            "drive to the {t} and keep away from the {a}, please"),
        "test": (
            "could you find the {t} without getting close to the {a}?",
            "keep your distance from the {a} and go to the {t}",
            "go to the {t}, but do stay clear of the {a}", "without going near the {a}, find the {t}",
            "please avoid the {a} as you head for the {t}", "I want you at the {t}, away from the {a}"),
    },
    "ja": {
        "train": (
            "{a}を避けて{t}へ行って", "{a}に近づかないで{t}へ行って", "{t}へ行って、{a}は避けて",
            "{a}を避けながら{t}を探して", "{a}を避けて{t}に向かってください", "{a}には近づかずに{t}まで行って",
            "{t}を探して。ただし{a}は避けて", "{a}から離れて{t}へ行ってください"),
        "val": (
            "{a}を避けて{t}まで行ってください", "{t}へ行ってください。{a}には近づかないでください",
            "{a}に近寄らないで{t}を見つけて", "{a}をよけて{t}へ向かって", "{t}に行って。でも{a}からは離れていて",
            "{a}を避けるようにして{t}を探してください"),
        "test": (
            "{a}に近づかないように{t}まで移動して", "{t}を見つけてください、ただし{a}を避けること",
            "{a}のそばを通らずに{t}へ行って", "{a}をよけながら{t}まで行ってもらえますか",
            "{t}に向かって、{a}には近寄らないで", "{a}から距離を取って{t}を探して"),
    },
}
_STOP = {
    "en": {
        "train": ("stop", "stop now", "please stop", "halt", "stop moving", "stop there", "Stop!",
                  "stay where you are"),
        "val": ("stop right there", "please stop now", "stop the robot", "that's enough, stop",
                "stand still"),
        "test": ("could you stop?", "stop where you are", "stop at once", "halt, please", "don't move"),
    },
    "ja": {
        "train": ("止まれ", "止まって", "止まってください", "停止", "ストップ", "とまって", "動かないで", "停止してください"),
        "val": ("今すぐ止まって", "そこで止まってください", "ストップしてください", "とまってください", "止まりなさい"),
        "test": ("もう止まって", "すぐに停止して", "その場で止まれ", "ちょっと止まってくれる?", "動かないでください"),
    },
}
_NONSENSE = {
    "en": {
        "train": (
            "what time is it?", "the weather is lovely today", "I had soup for lunch", "tell me a joke",
            "my sister plays the violin", "how far is the moon?", "blue is a nice color",
            "the train was late again",
            "seven times eight is fifty-six", "good morning", "asdf qwer zxcv", "who wrote this song?",
            "we should paint the kitchen", "thank you very much"),
        "val": (
            "did you sleep well?", "coffee tastes better in the morning", "the library closes at six",
            "green tea or black tea?", "my shoes are wet", "lorem ipsum dolor sit amet", "how old are you?",
            "it rained for three days", "she sells sea shells", "happy birthday"),
        "test": (
            "is it Tuesday already?", "the soup needs more salt", "I forgot my umbrella",
            "what a beautiful song",
            "red wine goes well with cheese", "xkcd blorp fizzle", "our neighbor has two cats",
            "why is the sky dark?",
            "please pass the butter", "I am reading a long book"),
    },
    "ja": {
        "train": (
            "今日はいい天気ですね", "お腹がすきました", "今何時ですか", "おはようございます", "電車が遅れています",
            "好きな色は青です", "音楽を聴きたい", "昨日は映画を見ました", "ありがとうございました", "猫が好きです",
            "あいうえおかきくけこ", "明日は雨が降りますか", "お名前は何ですか", "この本は面白い"),
        "val": (
            "お元気ですか", "お茶を飲みたいです", "昨日の夜は寒かった", "週末は何をしますか", "冗談を言って",
            "犬が庭で寝ている", "緑茶がおいしい", "らりるれろ", "駅はどこですか", "宿題が終わらない"),
        "test": (
            "眠くなってきました", "夕飯は何にしよう", "桜がきれいに咲きました", "傘を忘れてしまった", "誕生日おめでとう",
            "赤ワインが好きです", "さしすせそ", "電話が鳴っている", "日曜日は休みです", "歌を歌ってください"),
    },
}
_TEMPLATES = {"go": _GO, "absent": _GO, "avoid": _AVOID, "stop": _GO, "halt": _STOP, "nonsense": _NONSENSE}


def _pick(options, rng: np.random.Generator) -> str:
    return options[int(rng.integers(len(options)))]


def phrase(kind: Kind, lang: str, rng: np.random.Generator) -> str:
    """Words for a (color, shape), without an article: "red sphere", 「赤い玉」."""
    if lang == "en":
        return f"{_pick(_EN_COLORS[kind[0]], rng)} {_pick(_EN_SHAPES[kind[1]], rng)}"
    return _pick(_JA_COLORS[kind[0]], rng) + _pick(_JA_SHAPES[kind[1]], rng)


def templates(purpose: str, lang: str, split: str) -> tuple[str, ...]:
    """Phrasings of a purpose (go, absent, avoid, stop, halt, nonsense) in a language and split.

    halt is what is said to stop; stop is what is said first in an episode that will be stopped.
    """
    return _TEMPLATES[purpose][lang][split]


def sentence(purpose: str, lang: str, split: str, rng: np.random.Generator,
             target: Kind | None = None, avoid: Kind | None = None) -> str:
    """A random sentence; `target` and `avoid` fill the template's places where it has them."""
    text = _pick(templates(purpose, lang, split), rng)
    words = {name: phrase(kind, lang, rng) for name, kind in (("t", target), ("a", avoid)) if kind}
    return text.format(**words)
