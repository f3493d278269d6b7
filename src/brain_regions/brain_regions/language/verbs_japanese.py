# SPDX-License-Identifier: Apache-2.0
"""The Japanese verbs, by kind, and their forms.

=========  ============================================  =================================================
form       example                                       what it does in a sentence
=========  ============================================  =================================================
te         行って                                        commands, or is chained to what follows
naide, zu  行かないで; 行かずに                          the same, negated
imp        行け, 行きなさい, お進みください, 行こう      commands
forbid     行くな                                        forbids
dict, nai  行く, 行かない                                depends on what follows
stem       行き (ます, なさい, に行く)                   depends on what follows
while      行きながら, 行きつつ                          is chained to what follows
can        行けますか                                    asks whether one can: a polite command
able       行ける                                        the same, if it is a question
cha        行っちゃ (だめ)                               forbids with what follows
tara       行ったら, 行けば                              condition
vn         移動                                          noun of action, alone
=========  ============================================  =================================================

All other forms are STATE, with the name of the verb's kind as value.
"""
from __future__ import annotations

from collections.abc import Iterator

from brain_regions.language.lexicon import Kind, Lexicon
from brain_regions.language.tokens import fold

_ROWS = {"う": "わいえおって", "く": "かきけこいて", "ぐ": "がぎげごいで", "す": "さしせそして", "つ": "たちてとって",
         "ぶ": "ばびべぼんで", "む": "まみめもんで", "る": "らりれろって", "ぬ": "なにねのんで"}
# in dictionary form, by conjugation; vn: nouns that make verbs with する
_VERBS: dict[Kind, dict[str, str]] = {
    Kind.MOVE: {
        "godan": (
            "行く いく 向かう むかう 進む すすむ 近づく 近付く ちかづく 近ずく ちかずく 近寄る ちかよる 近よる 立ち寄る たちよる 寄る 走る はしる 急ぐ いそぐ "
            "着く 辿り着く たどり着く たどりつく 辿りつく 行き着く 目指す めざす 戻る もどる 移る 動く うごく 突き進む 突っ走る 歩く あるく 歩み寄る 駆け寄る "
            "かけよる 忍び寄る 迫る 飛ぶ 参る まいる 見に行く 見にいく 会いに行く 会いにいく 向く 寄り付く 寄りつく よりつく 赴く おもむく 至る たどる 突っ込む "
            "上がる 回り込む 立つ ゆく 進み出す 向かってく くっつく 擦り寄る すり寄る 這い寄る 滑り込む 駆け込む 乗り込む 迎えに行く 連れてく"),
        "ichidan": "訪れる おとずれる 詰める 近づける 出かける 出掛ける でかける 駆けつける 付ける 迎える",
        "kuru": "来る くる やって来る やってくる 寄って来る",
        "vn": (
            "移動 いどう 到達 とうたつ 到着 とうちゃく 接近 せっきん 前進 ぜんしん 直行 ちょっこう 走行 進行 訪問 アプローチ 移行 進軍 突進 直進 案内 誘導 "
            "ドライブ ナビゲート ダッシュ 急行 遠征 合流 寄り道 ムーブ アクセス"),
    },
    Kind.FIND: {
        "godan": "探す 捜す さがす 見つけ出す みつけだす 探し出す さがしだす 捜し出す 見出す 探し回る 捜し回る 見いだす 嗅ぎ出す",
        "ichidan": "見つける みつける 見付ける めっける 見っける みっける 探し当てる 捜し当てる 探し求める 追い求める 突き止める 見定める 探しあてる",
        "kuru": "探して来る 探してくる 見つけて来る 見つけてくる",
        "vn": "発見 はっけん 探索 たんさく 捜索 そうさく 検索 特定 サーチ ファインド 検出 探査 探知 索敵 スキャン 物色",
    },
    Kind.AVOID: {
        "godan": (
            "遠ざかる とおざかる かわす 躱す 距離を取る 距離をとる 距離を置く 距離をおく 距離を保つ 距離をたもつ 間を取る 間隔を取る 避けて通る よけて通る "
            "間合いを取る 間合いを保つ 間隔を保つ はなす 離す 間をとる 距離取る 距離とる 距離置く 距離おく 距離保つ 身をかわす 避けまくる 避け切る やり過ごす "
            "遠のく 離れて通る"),
        "ichidan": (
            "避ける さける よける 離れる はなれる 気をつける 気を付ける きをつける 距離を空ける 距離をあける 距離を開ける 間を空ける 間隔を空ける 間隔をあける "
            "間を開ける 遠ざける 逃れる 逃げる 除ける 距離空ける 距離あける 間をあける"),
        "vn": (
            "回避 かいひ 迂回 うかい 敬遠 警戒 用心 注意 ちゅうい 遠回り とおまわり 大回り 回り道 距離をキープ 距離を確保 忌避 退避 遠慮 離脱 避難"),
    },
    Kind.STOP: {
        "godan": "止まる とまる 停まる 留まる とどまる 立ち止まる たちどまる 待つ まつ 踏みとどまる 休む 止す よす 立ち尽くす 電源を落とす",
        "ichidan": (
            "止める とめる やめる 辞める 停める 動きを止める 動くのをやめる 足を止める 車を止める ブレーキをかける 移動をやめる 移動を止める 走るのをやめる "
            "歩くのをやめる 行動をやめる 全てをやめる 進むのをやめる 動作を止める ロボットを止める モーターを止める 探すのをやめる"),
        "vn": (
            "停止 ていし ストップ 静止 せいし 一時停止 いちじていし 緊急停止 待機 たいき 中止 ちゅうし 中断 ちゅうだん フリーズ じっと ジッと 停車 キャンセル "
            "ハルト 休止 急停止 休憩 全停止 完全停止 ウェイト ホールド 即停止 即時停止 ステイ 移動停止 動作を停止 動きを停止 移動を停止 急ブレーキ 停止命令 移動を中止 "
            "探索を中止 探索中止 移動中止"),
    },
    Kind.TOUCH: {
        "godan": (
            "触る さわる ぶつかる 当たる あたる 通る とおる 横切る よこぎる 踏む ふむ 入る はいる 立ち入る すれ違う 倒す かする かすめ通る 乗る 踏み込む 接す "
            "突っつく 構う かまう 突っ切る 近くを通る 擦る"),
        "ichidan": "触れる ふれる ぶつける 当てる あてる 通り抜ける 通り過ぎる 越える 抜ける 引っかける かすめる 踏み入れる すり抜ける 乗り上げる",
        "vn": "接触 せっしょく 衝突 しょうとつ 通過 つうか 侵入 追突 激突 タッチ 干渉 クラッシュ 体当たり 進入 立ち入り 邪魔 手出し 経由",
    },
    Kind.OTHER: {
        "godan": (
            "持つ もつ 運ぶ はこぶ 取る とる 拾う ひろう 蹴る 押す おす 引く 掴む つかむ 置く おく 壊す こわす 買う かう 飲む 描く かく 回る まわる 踊る "
            "歌う 話す 読む 書く 撮る 渡す 転がす ころがす 叩く たたく 塗る 選ぶ えらぶ 作る つくる 使う つかう 送る 動かす うごかす 移す うつす 隠す 測る "
            "遊ぶ あそぶ 直す 切る 洗う 帰る かえる 追う 取り除く 割る 殴る 潰す 突く つつく 囲む 消す 盗む 奪う 吸う 打つ 抱く 守る 飛ばす 積む 並ぶ "
            "ついて行く ついていく 持って行く 持っていく もっていく 取りに行く 取りにいく 買いに行く"),
        "ichidan": (
            "投げる なげる 開ける 閉める 食べる たべる 教える おしえる 数える かぞえる 追いかける おいかける 届ける 捨てる すてる 入れる いれる 隠れる 片付ける "
            "片づける 比べる 覚える 忘れる あげる 持ち上げる もちあげる 載せる 乗せる 見る 眺める 見つめる 見守る ながめる 調べる しらべる 答える こたえる "
            "伝える 集める 並べる 変える かえる 混ぜる 抱える 抱きしめる 知らせる 投げ捨てる 数え上げる 借りる つける 見せる"),
        "kuru": "持って来る 持ってくる もってくる 取って来る 取ってくる とってくる 買ってくる 買って来る 拾ってくる 連れてくる 運んでくる",
        "vn": (
            "説明 回転 撮影 掃除 記録 測定 報告 破壊 観察 監視 確認 追跡 追尾 配達 運搬 計算 翻訳 検査 描写 紹介 プレゼント キック 洗濯 料理 ジャンプ "
            "分析 予約 充電 印刷 写真撮影"),
    },
}
# what asks for the deed of a verb in て
_REQUESTS = (
    "ください|下さい|くださいね|くださいよ|くださいな|くださいませ|くだされ|くださいませんか|くださいますか|くださいますよう|くださらない|くださらないか|下さいね|下さいませ|下さいませんか|"
    "下さいますか|くれ|くれよ|くれや|くれな|くれっ|くれる|くれるか|くれるかい|くれるかな|くれるよね|くれない|くれないか|くれないかな|くれないかい|くれないでしょうか|くれますか|"
    "くれますよね|くれますでしょうか|くれませんか|くれませんかね|くれません|くれまいか|くれたまえ|くれたら|くれると|くれれば|くれたらいい|もらえる|もらえるか|もらえるかな|もらえるかい|"
    "もらえるでしょうか|もらえない|もらえないか|もらえないかな|もらえないでしょうか|もらえます|もらう|もらうぞ|もらえますか|もらえますかね|もらえませんか|もらえますでしょうか|"
    "もらえませんでしょうか|もらえたら|もらえると|もらえれば|もらいたい|もらいたいです|もらいたいのですが|もらいたいんだけど|もらおう|もらおうか|もらってもいい|もらっていい|"
    "もらってもいいですか|もらっていいですか|もらってもよいですか|もらってよろしいですか|もらっていいかな|もらってもいいかな|もらってもいいかい|もらいます|いただけますか|いただけませんか|"
    "いただけますでしょうか|いただけませんでしょうか|いただけない|いただけないか|いただけないでしょうか|いただけないですか|いただけると|いただけたら|いただければ|いただければと|いただきたい|"
    "いただきたいです|いただきたいのですが|いただきたく|いただいてもいいですか|いただいてもよろしいですか|いただけますと|いただいていいですか|いただける|いただけるかな|ほしい|ほしいです|"
    "ほしいな|ほしいの|ほしいのですが|ほしいんですが|ほしいんだけど|ほしいんです|ほしいんだ|ほしいと思います|ほしいなあ|ほしいですね|ちょうだい|ちょうだいな|ちょうだいね|ちょーだい|"
    "おくれよ|やってくれ|やってください|やれ|くれへん|くれへんか|くれんか|くれんかね|くれますまいか|んか|たもれ|つかあさい|ほしいものだ|ほしいのだ|ほしいのだが|もろて|もらうよ|いいよ")


def _godan(verb: str) -> Iterator[tuple[str, str]]:
    root, last = verb[:-1], verb[-1]
    a, i, e, o, *te = _ROWS[last]
    sound = "".join(te)
    if verb.endswith(("行く", "いく", "ゆく", "てく")) and not verb.endswith("うごく"):
        sound = "って"
    yield from _shared(root + sound, root + a, root + i, verb)
    yield root + e, "imp"
    yield root + e + "ば", "tara"
    yield root + o + "う", "imp"
    yield root + o + "っか", "imp"
    yield from _able(root + e)


def _ichidan(verb: str) -> Iterator[tuple[str, str]]:
    root = verb[:-1]
    yield from _shared(root + "て", root, root, verb)
    for end in ("ろ", "よ", "よう"):
        yield root + end, "imp"
    yield root + "れば", "tara"
    yield from _able(root + "られ")
    yield from _able(root + "れ")


def _kuru(verb: str) -> Iterator[tuple[str, str]]:
    root = verb[:-2]
    if verb.endswith("来る"):
        yield from _shared(root + "来て", root + "来", root + "来", verb)
        yield root + "来い", "imp"
        yield from _able(root + "来られ")
        yield from _able(root + "来れ")
    else:
        yield from _shared(root + "きて", root + "こ", root + "き", verb)
        yield root + "こい", "imp"
        yield from _able(root + "こられ")


def _noun(noun: str) -> Iterator[tuple[str, str]]:
    yield noun, "vn"
    for root in (noun, noun + "を"):
        yield from _shared(root + "して", root + "し", root + "し", root + "する")
        for end in ("しろ", "せよ", "しよう", "してちょうだい"):
            yield root + end, "imp"
        yield root + "すれば", "tara"
        yield root + "せず", "zu"
        yield root + "せずに", "zu"
        yield from _able(root + "でき")
    for end in ("ください", "下さい"):
        yield "ご" + noun + end, "imp"


def _shared(te: str, negative: str, stem: str, dictionary: str) -> Iterator[tuple[str, str]]:
    """Forms that all verbs build alike from four of theirs."""
    vowel = te[-1]
    ta = te[:-1] + ("た" if vowel == "て" else "だ")
    yield te, "te"
    soft = "と" if vowel == "て" else "ど"      # 探しといて: 探しておいて
    for end in ("いて", "いてね", "いてよ", "って"):
        yield te[:-1] + soft + end, "te"
    for end in ("ちょって", "ちょいて") if vowel == "て" else ("じょって", "じょいて"):
        yield te[:-1] + end, "te"
    for end in ("や", "んさい", "んしゃい", "なはれ", "なっせ", "まっし"):
        yield stem + end, "imp"
    yield stem + "んさんな", "forbid"
    for end in ("け", "いで", "こう"):
        yield te[:-1] + soft + end, "imp"
    yield te[:-1] + ("ちゃって" if vowel == "て" else "じゃって"), "te"
    yield te[:-1] + ("ちゃ" if vowel == "て" else "じゃ"), "cha"
    yield te[:-1] + ("ちゃあ" if vowel == "て" else "じゃあ"), "cha"
    for end in ("る", "た", "ます", "ました"):
        yield te + end, "state"
    yield ta, "state"
    yield ta + "ら", "tara"
    yield ta + "上で", "te"
    yield ta + "うえで", "te"
    yield ta + "り", "state"
    yield ta + "まま", "te"
    yield ta + "ままで", "te"
    yield ta + "後", "te"
    yield ta + "あと", "te"
    yield ta + "後に", "te"
    yield ta + "方がいい", "imp"
    yield ta + "ほうがいい", "imp"
    yield dictionary, "dict"
    yield dictionary + "な", "forbid"
    yield dictionary + "なよ", "forbid"
    yield dictionary + "なっ", "forbid"
    yield dictionary + "まじ", "forbid"
    yield stem, "stem"
    for end in ("つつ", "つつも", "ながら", "ながらも"):
        yield stem + end, "while"
    for end in ("ください", "下さい", "くださいませ", "なさい", "願います", "いただけますか", "頂けますか", "になって"):
        yield "お" + stem + end, "imp"
    for much in ("すぎ", "過ぎ"):
        yield stem + much + "ないで", "naide"
        yield stem + much + "ない", "nai"
        yield stem + much + "ず", "zu"
        yield stem + much + "ずに", "zu"
        yield stem + much + "るな", "forbid"
    yield negative + "ないで", "naide"
    yield negative + "んで", "naide"
    for end in ("んといて", "んとって", "んとき", "んとこう"):
        yield negative + end, "naide"
    yield negative + "んと", "zu"
    yield negative + "ない", "nai"
    yield negative + "ぬ", "nai"
    for end in ("なかった", "なければ", "なきゃ", "なくて", "なくちゃ", "ねば", "なくても", "ないと"):
        yield negative + end, "state"
    yield negative + "ず", "zu"
    yield negative + "ずに", "zu"
    yield negative + "なく", "zu"
    yield stem + "な", "imp"


def _able(root: str) -> Iterator[tuple[str, str]]:
    yield root + "る", "able"
    for end in ("ますか", "るか", "るかな", "るかい", "ませんか", "ないか", "ないかな", "ますかね", "ますでしょうか", "るでしょうか",
                "ないでしょうか"):
        yield root + end, "can"
    for end in ("ます", "ない", "ません", "た", "て", "ないです"):
        yield root + end, "state"


_CONJUGATIONS = {"godan": _godan, "ichidan": _ichidan, "kuru": _kuru, "vn": _noun}


def fill_requests(words: Lexicon) -> None:
    """Adds the requests, in kana and with Chinese characters."""
    for kana, written in (("", ""), ("もら", "貰"), ("いただ", "頂"), ("いただ", "戴"), ("ほしい", "欲しい"), ("ちょうだい", "頂戴")):
        for spelling in _REQUESTS.split("|"):
            words.add(fold(spelling.replace(kana, written)), Kind.ENDING, "req")


def fill(words: Lexicon) -> None:
    """Adds the verbs in all forms. Earlier additions win where one spelling has two uses."""
    forms = [(kind, verb, spelling, form) for kind, classes in _VERBS.items()
             for conjugation, verbs in classes.items() for verb in verbs.split()
             for spelling, form in _CONJUGATIONS[conjugation](verb)]
    for kind, verb, spelling, form in forms:
        if form not in ("state", "able", "can"):
            words.add(fold(spelling), kind, verb, form)
    for kind, verb, spelling, form in forms:    # 触れない is of 触れる, not that one cannot 触る
        if form in ("able", "can"):
            words.add(fold(spelling), kind, verb, form)
        elif form == "state":
            words.add(fold(spelling), Kind.STATE, kind.name)
