# SPDX-License-Identifier: Apache-2.0
"""Words with which people correct themselves, in both languages.

``STRONG`` is a mark wherever it stands, ``OPENING`` at the start of a clause or where two stand together
("no wait"); ``DROPS`` takes back what came before where nothing follows, ``HALTS`` where it is a sentence.
"""
from __future__ import annotations

STRONG = (
    "i mean|i meant|i meant to say|i mean to say|or rather|or better|or better yet|better yet|scratch that|"
    "strike that|correction|make that|change of plan|change of plans|on second thought|on second thoughts|"
    "oops|whoops|my mistake|my bad|i was wrong|i changed my mind|changed my mind|or actually|"
    "間違えた|間違えました|間違いました|まちがえた|まちがえました|間違いです|間違った|訂正|訂正します|訂正です|もとい|"
    "言い間違えた|言い間違えました|言い間違い|じゃなかった")
_INTERJECTIONS = (
    "いや|いやいや|いえ|いいえ|違う|違います|ちがう|ちがいます|違った|違うな|違うよ|そうじゃなくて|そうではなくて|"
    "ごめん|ごめんなさい|ごめんね|失礼|失礼しました|やっぱ|というか|ていうか")
OPENING = (
    "no|nope|nah|wait|hold on|hang on|sorry|actually|pardon|excuse me|じゃなくて|じゃなく|ではなく|ではなくて|"
    "じゃない|すみません|すいません|やっぱり|やはり|" + _INTERJECTIONS)
_NOTHING = (
    "nevermind|forget it|forget that|forget about it|belay that|なんでもない|なんでもないです|何でもない|何でもないです|"
    "なんでもありません|今のなし|今のは無し|今のはなし|なかったことにして|やめとく|取り消し|取り消します|取消|取り消して|"
    "やっぱりいい|やっぱりいいや|やっぱりいいです|やっぱりいいよ|やっぱいい|やっぱいいや|やっぱりいらない|もういい|もういいや|もういいよ|"
    "もういいです")
_JOKES = (
    "just kidding|only kidding|kidding|jk|just joking|joking|i was joking|嘘|嘘です|うそ|うそです|冗談|冗談です|冗談だよ|"
    "なんちゃって")
CANCELS = "never mind|scratch that|strike that|" + _NOTHING     # alone they mean stop
DROPS = (
    "no way|no chance|not a chance|i don't think so|i'd rather you didn't|absolutely not|certainly not|"
    "definitely not|of course not|never|please don't|no|nope|not|don't|dont|do not|cancel|cancel that|"
    "cancel it|i changed my mind|changed my mind|"
    "やめて|やめた|やめます|やめる|やめよう|やめ|忘れて|キャンセル|中止|中止して|" + CANCELS + "|" + _JOKES)
HALTS = (
    "stop|halt|freeze|abort|quit|stop it|stop that|emergency stop|止まれ|止まって|とまれ|とまって|ストップ|停止|停止して|停止せよ|"
    "やめろ|緊急停止|動くな")
# what is nothing to the grammars where it corrects nothing
QUIET = "|".join((
    STRONG, _INTERJECTIONS, _NOTHING, _JOKES,
    "no hurry|no worries|no pressure|no doubt|sorry to bother you|sorry to trouble you|sorry to disturb you"))
