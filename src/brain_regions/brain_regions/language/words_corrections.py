# SPDX-License-Identifier: Apache-2.0
"""Words with which people correct themselves, in both languages.

``STRONG`` is a mark of a correction wherever it stands, ``INTERJECTIONS`` where a clause begins; ``NOTHING`` and
``JOKES`` take back all.
"""
from __future__ import annotations

STRONG = (
    "i mean|i meant|i meant to say|i mean to say|or rather|or better|or better yet|better yet|scratch that|"
    "strike that|correction|make that|change of plan|change of plans|on second thought|on second thoughts|"
    "oops|whoops|my mistake|my bad|i was wrong|i changed my mind|changed my mind|or actually|"
    "間違えた|間違えました|間違いました|まちがえた|まちがえました|間違いです|間違った|訂正|訂正します|訂正です|もとい|"
    "言い間違えた|言い間違えました|言い間違い|じゃなかった")
INTERJECTIONS = (
    "いや|いやいや|いえ|いいえ|違う|違います|ちがう|ちがいます|違った|違うな|違うよ|そうじゃなくて|そうではなくて|"
    "ごめん|ごめんなさい|ごめんね|失礼|失礼しました|やっぱ|というか|ていうか")
NOTHING = (
    "nevermind|forget it|forget that|forget about it|belay that|なんでもない|なんでもないです|何でもない|何でもないです|"
    "なんでもありません|今のなし|今のは無し|今のはなし|なかったことにして|やめとく|取り消し|取り消します|取消|取り消して|"
    "やっぱりいい|やっぱりいいや|やっぱりいいです|やっぱりいいよ|やっぱいい|やっぱいいや|やっぱりいらない|もういい|もういいや|もういいよ|"
    "もういいです")
JOKES = (
    "just kidding|only kidding|kidding|jk|just joking|joking|i was joking|嘘|嘘です|うそ|うそです|冗談|冗談です|冗談だよ|"
    "なんちゃって")
# what names nothing and asks for nothing
QUIET = "|".join((
    STRONG, INTERJECTIONS, NOTHING, JOKES,
    "no hurry|no worries|no pressure|no doubt|sorry to bother you|sorry to trouble you|sorry to disturb you"))
