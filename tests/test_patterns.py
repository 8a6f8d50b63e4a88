"""Tokens known by their form: found by a table, kept whole by the chart, overruled by the user."""

from __future__ import annotations

import pytest

import zishu
from zishu.gaps import BREAK, FREE, JOIN
from zishu.patterns import TABLE, find_tokens
from zishu.sentences import text_sentences


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("看https://example.org/a?b=1。", "https://example.org/a?b=1"),
        ("写信到a.b@example.com吧", "a.b@example.com"),
        ("@李雷 你好，@han_mei在吗", "@李雷 @han_mei"),
        ("发了#春节快乐#和#news", "#春节快乐# #news"),
        ("改redis.conf和a.tar.gz", "redis.conf a.tar.gz"),
        ("23:59到2024-01-05", "23:59 2024-01-05"),
        ("打138-1234-5678、010-62345678或400-800-1234", "138-1234-5678 010-62345678 400-800-1234"),
        ("电话+86-138-1234-5678，比分3-0", "+86-138-1234-5678 3 0"),
        ("升级到v1.2或1.2.3-rc1", "v1.2 1.2.3-rc1"),
        ("涨了1,234.5元，即5%", "1,234.5 5%"),
        ("52F在2023Q3，共37.5F", "52F 2023Q3 37.5F"),  # a number that a letter follows is not cut in two
        ("重5kg，跑100km/h，23℃，长1,234.5km", "5kg 100km/h 23℃ 1,234.5km"),
        ("会challenge我的MacBook和iPhone15", "challenge MacBook iPhone15"),
        ("用C++、C#写GPT-4o", "C++ C# GPT-4o"),
        ("在U.S.A.的AT&T", "U.S.A. AT&T"),
        ("海😂😂👍🏽👍🏽🇨🇳", "😂😂 👍🏽👍🏽 🇨🇳"),
        ("哈哈哈哈好呀，呜呜呜哈哈", "哈哈哈哈 呜呜呜"),
        ("我喜欢北京。", ""),
    ],
)
def test_the_table(text: str, tokens: str) -> None:
    assert [text[start:end] for start, end, _, _ in find_tokens(text)] == tokens.split()


def test_a_kind_has_one_name() -> None:
    names = [name for name, _, _ in TABLE]
    assert len(set(names)) == len(names)


def test_emoji_and_laughter_have_their_parts_of_speech() -> None:
    nlp = zishu.load(threads=1)
    tags = dict(nlp.tag("哈哈哈哈哈笑死我了😂😂"))
    assert (tags["哈哈哈哈哈"], tags["😂😂"]) == ("INTJ", "SYM")
    [sentence] = nlp("海滩😂好玩", pins=[(2, 3)], tags={2: "PUNCT"})
    assert sentence[1].upos == "PUNCT"  # the user's tag has priority


def gaps(text: str, **known: object) -> list[int]:
    [sentence] = text_sentences(text, **known)  # type: ignore[arg-type]
    assert sentence.gaps is not None
    return sentence.gaps[1 : len(sentence)].tolist()


def test_tokens_are_constraints_that_others_overrule() -> None:
    assert gaps("会ab吗") == [BREAK, JOIN, BREAK]
    assert gaps("第12条") == [FREE, JOIN, FREE]  # 第12 and 12条 are words in some treebanks
    assert gaps("会ab吗", pins=[(0, 2)]) == [JOIN, BREAK, FREE]
    assert gaps("会ab吗", breaks=[2]) == [FREE, BREAK, FREE]
    assert gaps("会ab吗", lexicon=zishu.Lexicon(["会ab"])) == [JOIN, JOIN, BREAK]
    [sentence] = text_sentences("会ab吗", patterns=False)
    assert sentence.gaps is None


def test_the_parser_keeps_tokens_whole() -> None:
    nlp = zishu.load(threads=1)
    text = "海😂😂，他会challenge一下https://a.org/x?y=1，23:59截止。"
    forms = [word.form for word in nlp(text)[0]]
    assert {"😂😂", "challenge", "https://a.org/x?y=1", "23:59"} <= set(forms)
    pinned = nlp(text, pins=[(0, 2)])[0]
    assert pinned[0].form == "海😂"
