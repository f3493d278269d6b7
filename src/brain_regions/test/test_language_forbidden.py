# SPDX-License-Identifier: Apache-2.0
"""What a goal cannot hold is refused for that reason, what is no order changes nothing, and every stop stops."""
import numpy as np
import pytest

from brain_regions.language import Verb, weights
from brain_regions.language.decode import decode, framed, obeyed, spell
from brain_regions.language.network import SpikingReader
from brain_regions.language.reasons import Why
from brain_regions.language.sizes import MEANINGS

MISREAD = pytest.mark.xfail(strict=True, reason="the network that ships misreads it, see docs/evidence.md")
FORBIDDEN = ("go to any ball but the red one", "go to any box except the blue one", "go to anything but the red ball",
             "go to the box that isn't blue", "find something that isnt blue", "find a non-red ball",
             "赤い玉さ行ぐな", "青い箱さ行ぐでねえ", "緑の筒さ行っでわがんね", "赤い玉に行かんとって",
             "赤いボールに行きなや", "赤いボールに行っちゃいけん")


@pytest.fixture(scope="module")
def reader():
    return SpikingReader(weights.load(weights.SHIPPED, SpikingReader)[0])


@pytest.mark.parametrize("text", FORBIDDEN)
def test_what_is_excepted_or_forbidden_is_not_gone_to(reader, text):
    meant, why, _ = decode(spell(text), reader.hear(framed(spell(text))))
    assert why is not None, meant.slots


@pytest.mark.parametrize("text", ("not the blue box but the red ball, please",
                                  pytest.param("go to the red ball, not the blue one", marks=MISREAD),
                                  "instead of the blue box go to the red ball", "青い箱じゃなくて赤い玉のほうに行って"))
def test_what_is_named_in_passing_hinders_nothing(reader, text):
    meant, why, _ = decode(spell(text), reader.hear(framed(spell(text))))
    assert why is None and meant.slots[1:] == (1, 1, 0, 0)


# what a goal cannot hold, and the reasons that are right for it
CANNOT_HOLD = {
    (Why.EXCEPTION,): (
        "go anywhere but the red ball", "drive anywhere except to the red ball",
        "go to anything other than the blue box", "find a ball that is not red",
        "go to every box apart from the green one", "赤いボール以外へ行って",
        "青い箱以外に行って", "青い箱以外のところへ行って", "赤じゃない方へ行って", "緑の筒を除いてどこでもいいから行って",
        "赤くないボールを探して", "黄色い箱ではないものに向かって"),
    (Why.ONLY_NOT, Why.EXCEPTION): (
        "run away from the red ball", "get away from the green box", "flee from the blue can", "赤いボールから逃げて",
        "青い箱から離れて", "緑の円柱から遠ざかってください"),
    (Why.RELATION,): (
        "go to the ball on the left of the red box", "find the box behind the green ball",
        "go to the can next to the ball", "drive between the red ball and the blue box",
        "go to the ball on the left", "赤い箱の左のボールに行って",
        "青い玉の隣の箱を探して", "緑の円柱の後ろの箱に行って", "赤い箱と青い箱の間に行って", "右の箱へ行って"),
    (Why.ORDINAL,): (
        "go to the second red ball", "find another box", "go to the other one", "go to the next ball", "もう一つの箱に行って",
        "二番目の赤いボールへ行って", "別の円柱を探して", "次の箱に行って"),
    (Why.TWO_TARGETS, Why.TWO_AVOIDED): (
        "go to the red ball and the blue box", "find the box, then the green ball", "visit both the ball and the can",
        "go to the yellow box and steer clear of green and red", "赤いボールと青い箱に行って",
        "青い箱と赤いボールを避けて緑の円柱に行って"),
}
NO_ORDER = ("exactly", "certainly", "confirm", "that's right", "stupid", "you idiot", "call my mother", "well done",
            "what a lovely day", "good luck", "I bought a red box", "is the ball red?", "その通り", "もちろん", "了解です", "ばか",
            "母に電話して", "いい天気ですね", "すごい", "お腹が空いた", "赤い箱を買いました", "青い箱はどこ？")
STOPS = ("stop", "stop!", "Stop now", "halt", "wait", "freeze", "don't move", "stop, stupid",
         "exactly, now stop", "stpo", "sotp", "stopp", "stop plese", "that's enough", "cancel", "terminate",
         "discontinue", "robot, desist", "end it", "もう、待って！",
         "止まれ", "止まって", "ストップ", "待って", "動くな", "停止", "やめて", "ばか、止まれ", "その通り、止まって", "とまれー")


@pytest.mark.parametrize("case", [
    pytest.param((text, whys), marks=MISREAD if text == "右の箱へ行って" else ())      # refused, as an ordinal
    for whys, texts in CANNOT_HOLD.items() for text in texts])
def test_what_a_goal_cannot_hold_is_refused_for_that_reason(case, reader):
    text, whys = case
    meant, why, _ = decode(spell(text), reader.hear(framed(spell(text))))
    assert why in whys, (meant.slots, why)


@pytest.mark.parametrize("text", [*NO_ORDER, "have fun"])
def test_what_is_no_order_changes_nothing(text, reader):
    meant, why, _ = decode(spell(text), reader.hear(framed(spell(text))))
    assert why is Why.NO_ORDER, (meant.slots, why)


@pytest.mark.parametrize("text", STOPS)
def test_every_stop_stops(text, reader):
    meant, why, _ = obeyed(spell(text), reader.hear(framed(spell(text))))
    assert meant.verb == Verb.STOP, why


@pytest.mark.parametrize(("text", "stops"), [
    ("that's enough", True), ("Halt, please!", True), ("もう、やめて", True), ("don't stop", False), ("never stop", False),
    ("stop worrying", False), ("do not wait", False), ("止まるな", False), ("止まらないで", False), ("待つな", False)])
def test_a_bare_stop_is_never_taken_for_no_order(text, stops, reader):
    no_order = np.where(np.arange(len(MEANINGS)) == MEANINGS.index("no order"), np.float32(9), np.float32(0))
    meant, _, _ = obeyed(spell(text), reader.hear(framed(spell(text)))._replace(verb=no_order))
    assert (meant.verb == Verb.STOP) == stops
