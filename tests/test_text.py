from __future__ import annotations

import io
import re
import time
import tracemalloc
from itertools import chain, pairwise, repeat
from typing import TYPE_CHECKING

import pytest
import regex
from hypothesis import example, given
from hypothesis import strategies as st

from zishu import splitting
from zishu.errors import InputError
from zishu.sentences import line_sentences
from zishu.splitting import iter_sentences, split_sentences
from zishu.text import RawSentence, characters, is_punctuation, join_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

# Everything a rule looks at, and everything that breaks naive offsets.
NASTY = [
    *"字的确人。！？…，；：、“”‘’「」『』（）《》【】ａ３．％",
    *"aZéжß09.,:;!?'\"()[]/=@-_~",
    *" \t\n\r\x0b\x0c\x1c\x85\xa0\u2028\u2029\u3000",
    *"\x00\x01\x7f\xad\u200b\u200c\u200d\u200e\u2060\ufeff\ufe0f\u0301\u0903\u0600\u0e33\u0915\u094d",
    *"\ud800\udfff\U0001f1e8\U0001f1f3\U0001f468\U0001f469\U0001f3fd\u1100\u1161\u11a8\U000e0061",
    *(
        "\r\n",
        "\n\n",
        "\r\n \r\n",
        "……",
        "...",
        "1.",
        "Mr. ",
        "U.S.",
        "。”",
        "？！",
        "👩\u200d👩\u200d👧",
        "他说：“",
    ),
]

LONG = [*'字字字aA1…，.!“”"（）', "。", "1.", "\u0301", " "]  # few ends, so that sentences are cut
PAIRED = [*"字字a。！“”（）", "字“。", "！”"]  # few enough for end marks to stand in quotes and brackets
DENSE = [*'字字a的。！.…，“”"（）《》 \u0301', "\n\n"]  # few enough for the rules to meet often

anything = st.text(alphabet=st.characters(), max_size=80)
nasty = st.lists(st.sampled_from(NASTY), max_size=80).map("".join)
texts = anything | nasty
limits = st.integers(1, 12) | st.just(384)


def pieces(text: str, **options: int) -> list[str]:
    return [text[s.start : s.end] for s in split_sentences(text, **options)]


def runs(text: str) -> list[str]:
    """Return what `str.split` takes for words, an independent account of all that must be kept."""
    return text.split()


# ------------------------------------------------------------------------------------- properties of any text


@given(texts, limits)
@example("", 1)
@example(" \r\n\u3000", 1)
@example("\u0600 a", 1)  # \X takes a prepended mark and the space after it for one cluster
@example("a \u0301", 1)  # \X takes a space and the combining mark after it for one cluster
def test_offsets_are_exact_and_nothing_is_lost(text: str, limit: int) -> None:
    sentences = split_sentences(text, limit=limit)
    end = 0
    for sentence in sentences:
        assert 1 <= len(sentence) <= limit
        assert len(sentence.chars) == len(sentence.starts) == len(sentence.ends)
        for char, start, stop in zip(sentence.chars, sentence.starts, sentence.ends, strict=True):
            assert start >= end
            assert text[start:stop] == char
            assert text[end:start].strip() == ""  # only white space is left out
            assert not any(c.isspace() for c in char)
            assert char
            end = stop
    assert text[end:].strip() == ""
    if sentences:
        assert not sentences[-1].cut


@given(texts)
def test_characters_of_a_text_are_those_of_its_runs(text: str) -> None:
    found = [char for sentence in split_sentences(text, limit=3) for char in sentence.chars]
    assert found == [char for run in runs(text) for char in characters(run)]


@given(texts)
def test_breaks_are_the_gaps_with_white_space(text: str) -> None:
    for sentence in split_sentences(text):
        pairs = zip(sentence.ends, sentence.starts[1:], strict=False)
        holds_space = [any(map(str.isspace, text[end:start])) for end, start in pairs]
        assert sentence.breaks == tuple(k for k, space in enumerate(holds_space, start=1) if space)


@given(texts, limits)
def test_limit_only_divides_sentences_further(text: str, limit: int) -> None:
    whole = split_sentences(text, limit=10**9)
    joined: list[tuple[str, ...]] = []
    part: tuple[str, ...] = ()
    for sentence in split_sentences(text, limit=limit):
        part += sentence.chars
        if not sentence.cut:
            joined.append(part)
            part = ()
    assert joined == [sentence.chars for sentence in whole]
    assert not any(sentence.cut for sentence in whole)


@given(
    st.lists(st.sampled_from(NASTY), max_size=150)
    | st.lists(st.sampled_from(DENSE), max_size=60)
    | st.lists(st.sampled_from(LONG), max_size=150),
    limits,
    st.sets(st.integers(0, 300)),
    st.sampled_from([1, 7, 40]),
    st.sampled_from([5, 20]),
)
@example(
    ['a"好。一二三四五六七\n', "\n", '好。"走。"'], 384, {12, 13}, 1, 5
)  # a quote ends with its paragraph
def test_stream_equals_text_however_it_is_divided(
    parts: list[str], limit: int, places: set[int], block: int, reach: int
) -> None:
    text = "".join(parts)
    edges = [0, *sorted(p for p in places if p < len(text)), len(text)]
    lines = [text[a:b] for a, b in pairwise(edges)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(splitting, "_REACH", reach)
        expected = split_sentences(text, limit=limit)
        patch.setattr(splitting, "_BLOCK", block)
        assert list(iter_sentences(lines, limit=limit)) == expected
        assert list(iter_sentences(text.splitlines(keepends=True), limit=limit)) == expected


@given(
    st.lists(st.sampled_from(PAIRED) | st.sampled_from(LONG), min_size=30, max_size=40).map("".join)
    | st.lists(st.sampled_from(PAIRED), min_size=30, max_size=40).map("".join),
    limits,
    st.sampled_from([5, 12]),
)
@example("甲“。乙！”丙丙丙丙丙丙丙丙", 384, 5)  # the protection of a quote ends with its sentence
def test_stream_equals_text_wherever_it_is_looked_at(text: str, limit: int, reach: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(splitting, "_REACH", reach)
        expected = split_sentences(text, limit=limit)
        patch.setattr(splitting, "_BLOCK", 1)
        for k in range(1, len(text)):
            assert list(iter_sentences([text[:k], text[k:]], limit=limit)) == expected


@given(texts)
def test_characters_are_grapheme_clusters(text: str) -> None:
    for run in runs(text):
        assert characters(run) == regex.findall(r"\X", run)


@given(st.lists(st.sampled_from(["\U0001f1e8", "\U0001f1f3", "\u0301", "\u200d", "\u0600", "\u0903", "字"])))
def test_flags_are_paired_as_by_the_unicode_rule(parts: list[str]) -> None:
    form = "".join(parts)
    assert characters(form) == regex.findall(r"\X", form)


@given(texts)
def test_words_made_of_characters_have_the_same_characters(text: str) -> None:
    for sentence in split_sentences(text):
        edges = [0, *sentence.breaks, len(sentence)]
        for first, last in pairwise(edges):
            for k in range(first + 1, last):
                for part in (sentence.chars[first:k], sentence.chars[k:last]):
                    assert characters("".join(part)) == list(part)


# --------------------------------------------------------------------------------------- characters, punctuation


@pytest.mark.parametrize(
    "form, expected",
    [
        ("", []),
        ("上海", ["上", "海"]),
        ("ＣＴＢ５", ["Ｃ", "Ｔ", "Ｂ", "５"]),
        ("e\u0301a", ["e\u0301", "a"]),
        ("👩\u200d👩\u200d👧好", ["👩\u200d👩\u200d👧", "好"]),
        ("👍🏽", ["👍🏽"]),
        ("\U0001f1e8\U0001f1f3\U0001f1fa\U0001f1f8", ["\U0001f1e8\U0001f1f3", "\U0001f1fa\U0001f1f8"]),
        ("\U0001f1e8\U0001f1f3\U0001f1fa", ["\U0001f1e8\U0001f1f3", "\U0001f1fa"]),
        ("葛\U000e0100城", ["葛\U000e0100", "城"]),  # an ideograph with its variation selector
        ("か\u3099", ["か\u3099"]),
        ("\u200b字", ["\u200b", "字"]),
        ("\ud83d\x00", ["\ud83d", "\x00"]),
        ("𠮷野", ["𠮷", "野"]),
    ],
)
def test_characters(form: str, expected: list[str]) -> None:
    assert characters(form) == expected


@pytest.mark.parametrize(
    "form", ["。", "，", "……", "——", "“", "》", "·", "%", "％", "!?", "、", "-", "_", "＂"]
)
def test_punctuation(form: str) -> None:
    assert is_punctuation(form)


@pytest.mark.parametrize(
    "form", ["", "字", "a.", "3.5", "$", "+", "=", "～", "￥", "°", "😀", " ", "\u200b", "\ud800"]
)
def test_not_punctuation(form: str) -> None:
    assert not is_punctuation(form)


# ---------------------------------------------------------------------------------------------- sentence ends

# A bar marks the expected sentence ends; white space around it belongs to the text.
EXAMPLES = [
    "上海计划发展金融业。|北京呢？|也一样！",
    "她来了｡|我走了。",
    "真的吗？！|不会吧！！！|天哪!?|好的。。。|再见",
    "好!|我来。 |是吗? |是。",
    "没有结尾",
    "他等了很久……然后走了。|好…吧。",
    "等等...然后呢...没有了。",
    "什么？……|我不信。",
    "他问了……！|我答了。",
    "苹果；梨；桃。|都好。",
    "“你好吗？”|他问。",
    "他说：“你好。|我走了。”|然后离开。",
    "他说：「走吧！」|大家走了。",
    "他总结说：“自然是不可欺骗的。”。|众人称是。",
    "“好。”，他说，“走吧。”|他走了。",
    "问题“画完了吗？”的答案是“是”。|继续。",
    "他大喊：“救命！”|的确很危险。",
    "节目“谁是球王？”开播了。|大家都看。",
    '节目"谁是球王？"开播了。|大家都看。',
    "他回信说“我明天到。”|众人大喜。",
    '他说"你好。|我走了。"|然后离开。',
    "他说“你好。|我走了！”|然后离开。",
    '他说"今天天气很好。|我们一起到公园里去走走看看吧。"|然后离开。|"好。"|她说。',
    '他走了。|"我来了。"|她说。',
    "他说 '好!' |他走了。|'慢点!' |她说。",
    "他说：“这句话没有引完。|后面照常分句。|真的。",
    "《你好！李焕英》很好看。|《谁？》也好。",
    "他来了（真的！没骗你。）。|我走了。",
    "子元素（但这次不是！）属于前缀。|好。",
    "他来了。|（详见下文。）|然后走了。",
    "这是【注意！】标记。|好。",
    "他走了）。|好（没有右括号。|真的。",
    "好。\u200b”|他走了。",
    "好！ ”|他走了。",
    "太好了！ ！ ！|走吧。",
    "圆周率是3.14159，约３．１４。|对。",
    "版本2.0.1发布了。|下载zishu-0.1.tar.gz即可。",
    "见http://a.com/x?q=1&b=2#c，或www.b.cn/!a。|好。",
    "见 https://example.com/index.html. |谢谢。",
    "写信给a.b@c.com.cn。|多谢。",
    ".NET很好。 |.NET 也好。",
    "他用Node.js写的。|真快。",
    "他走了. |我来了.|好.",
    "他走了．|我来了．",
    "Mr. Smith见了Dr. 李和J. K. 罗琳。|好。",
    "U.S. 的 GDP 与 U.K.相比, e.g. 2020年, 更高. |对.",
    "Apple Inc.是公司。|对。",
    'He left. |She stayed! |"Really?" he asked. |"Yes." |I see.',
    "He has approx. five apples. |Good.",
    "约 5 hrs. later 到达. |好.",
    "你好!|Hello。",
    "1. 总则。|2. 细则。",
    "1.总则。|1.2. 小节。|10．附则。",
    "分为：1.总则 2.细则。|完。",
    "他生于1990. |他很好.",
    "共3.5. |好.",
    "一行|\n又一行。|\n第三行",
    "标题\n\n|正文。\r\n\r\n|尾",
    "标题|\r\n正文",
    "甲\n \u3000\t\n|乙",
    "甲\r\r|乙",
    '他说"好\n\n|"走。"|他走了。',
    "\ufeff你好。|再见。",
    "好！\ufe0f|走。",
    "c!=d。|好",
    "？|好。",
    ". 好。",
]


@pytest.mark.parametrize("marked", EXAMPLES)
def test_sentence_ends(marked: str) -> None:
    text = marked.replace("|", "")
    assert pieces(text) == [part.strip() for part in marked.split("|")]
    assert not any(sentence.cut for sentence in split_sentences(text))


@pytest.mark.parametrize("first", range(0, len(EXAMPLES), 3))
def test_no_sentence_comes_out_of_a_stream_too_early(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splitting, "_REACH", 12)
    text = "".join(EXAMPLES[first : first + 3]).replace("|", "")
    expected = split_sentences(text)
    monkeypatch.setattr(splitting, "_BLOCK", 1)  # the search for sentences starts after the first line
    for k in range(1, len(text)):
        assert list(iter_sentences([text[:k], text[k:]])) == expected


def test_a_bracket_that_closes_too_far_away_shields_nothing() -> None:
    note = "字" * 120
    assert len(split_sentences(f"甲（{note}。乙）丙。")) == 2
    assert len(split_sentences(f"甲（{note[:50]}。乙）丙。")) == 1


def test_a_sentence_knows_its_places() -> None:
    text = "  他 用\tNode.js 。\r\n 好"
    first, second = split_sentences(text)
    assert first == RawSentence(
        tuple("他用Node.js。"),
        (2, 4, 6, 7, 8, 9, 10, 11, 12, 14),
        (3, 5, 7, 8, 9, 10, 11, 12, 13, 15),
        "他 用\tNode.js 。",
        "\r\n ",
    )
    assert (first.start, first.end, first.breaks, len(first), first.cut) == (2, 15, (1, 2, 9), 10, False)
    assert (second.start, second.end, second.breaks, second.text, second.after) == (18, 19, (), "好", "")
    assert (first.part(0, 2) + first.part(2, 10)) == first
    assert (first.part(2, 9).text, first.part(2, 9).after, first.part(2, 9).cut) == ("Node.js", " ", True)


@pytest.mark.parametrize("blank", ["", " ", "\n", "\r\n\r\n", "\u3000\x1c\x85\u2029"])
def test_blank_text_has_no_sentences(blank: str) -> None:
    assert split_sentences(blank) == []
    assert list(iter_sentences([blank, blank])) == []
    assert list(iter_sentences([])) == []


# ------------------------------------------------------------------------------------------------------ cuts


@pytest.mark.parametrize(
    "text, limit, expected",
    [
        ("一二三四五六七八", 8, ["一二三四五六七八"]),
        ("一二三四五六七八九", 8, ["一二三四五六七八", "九"]),
        ("一二，三四，五六七八。", 8, ["一二，三四，", "五六七八。"]),  # the last clause mark that fits
        ("一二，三 四五六七八九", 8, ["一二，", "三 四五六七八九"]),  # a clause mark before white space
        ("一二 三四五 六七八九十", 8, ["一二 三四五", "六七八九十"]),
        ("一二、三四五六七八九", 8, ["一二、", "三四五六七八九"]),
        ("“一二，”三四五六七八九", 8, ["“一二，”", "三四五六七八九"]),  # the closing quote stays
        ("一“二三四五六，”七八", 8, ["一“二三四五", "六，”七八"]),  # and does not begin a piece
        ("一二三四五六1,234元", 8, ["一二三四五六", "1,234元"]),  # a number stays whole
        ("一二三四五Python好", 8, ["一二三四五", "Python好"]),
        ("一二三四五六七八。", 8, ["一二三四五六七", "八。"]),  # an end mark does not begin a piece
        ("一二三四五六七（八）", 8, ["一二三四五六七", "（八）"]),  # nor does an opening mark end one
        ("《一！二三四五六七八九》", 8, ["《一！", "二三四五六七八", "九》"]),  # a title's end mark will do
        ("abcdefgh", 3, ["abc", "def", "gh"]),
        ("。。。。", 1, ["。", "。", "。", "。"]),
    ],
)
def test_cuts(text: str, limit: int, expected: list[str]) -> None:
    sentences = split_sentences(text, limit=limit)
    assert [text[s.start : s.end] for s in sentences] == expected
    assert [s.cut for s in sentences] == [True] * (len(expected) - 1) + [False]


def test_only_cut_sentences_are_marked() -> None:
    assert [s.cut for s in split_sentences("一二三四五六。七八。", limit=4)] == [True, False, False]


def test_default_limit() -> None:
    assert [len(s) for s in split_sentences("字" * 1000)] == [256, 256, 256, 232]


@pytest.mark.parametrize("limit", [0, -1])
def test_limit_must_be_positive(limit: int) -> None:
    with pytest.raises(InputError, match="at least 1"):
        split_sentences("字", limit=limit)


# ---------------------------------------------------------------------------------------------- streams, cost


def test_paragraphs_come_out_before_the_stream_ends() -> None:
    def lines() -> object:
        yield "甲。乙\n"
        yield "\n"
        yield from pytest.fail("the first paragraph was complete")

    stream = iter_sentences(lines(), look_ahead=False)  # type: ignore[arg-type]
    assert [next(stream).chars, next(stream).chars] == [("甲", "。"), ("乙",)]


@pytest.mark.parametrize("line", ["今天天气很好。我们去公园吧！\n", "没有标点的一行\n", "一段\n\n", "\n"])
def test_a_long_stream_equals_the_text(line: str) -> None:
    text = line * 10_000
    assert list(iter_sentences(io.StringIO(text))) == split_sentences(text)


@pytest.mark.parametrize(
    "line", ["今天天气很好。\n", "今天天气很好\n", "今天天气很好", "（今天！", '今天"很好'], ids=ascii
)
def test_memory_of_a_stream_does_not_grow_with_it(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splitting, "_BLOCK", 4096)

    def peak(count: int) -> int:
        tracemalloc.start()
        for _ in iter_sentences(line for _ in range(count)):
            pass
        top = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return top

    peak(10)  # the table of kinds fills up
    assert peak(20_000) < 1.5 * peak(2000)


# Repeated units that stay together or end no sentence, and those that separate lines.
ROWS = ["。", "…", ".", "！”", "”", "\u200b", "\0", "'", "\n", "\r\n", "\n \t"]


@pytest.mark.parametrize("unit", ROWS, ids=ascii)
@pytest.mark.parametrize("cut", [iter_sentences, line_sentences])
def test_a_row_of_anything_takes_constant_memory(
    unit: str, cut: Callable[[Iterable[str]], Iterable[RawSentence]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """White space is stored until the sentence before it is complete: a few bytes for each, not a hundred."""
    if cut is line_sentences and not unit.isspace():
        pytest.skip("a word has a limit")
    monkeypatch.setattr(splitting, "_BLOCK", 4096)
    piece = unit * (1000 // len(unit))

    def peak(count: int) -> int:
        tracemalloc.start()
        for _ in cut(chain(["字"], repeat(piece, count), ["字"])):
            pass
        top = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return top

    peak(1)
    small, large = peak(20), peak(200)
    assert large < 1.5 * small + (4 * 180 * len(piece) if unit.isspace() else 0)


@pytest.mark.parametrize("unit", ["\n", "\n \t"], ids=ascii)
@pytest.mark.parametrize("cut", [iter_sentences, line_sentences])
def test_blank_lines_cost_next_to_nothing(
    unit: str, cut: Callable[[Iterable[str]], Iterable[RawSentence]]
) -> None:
    def seconds(count: int) -> float:
        start = time.process_time()
        assert len(list(cut(chain(["字"], repeat(unit * 10_000, count), ["字"])))) == 2
        return time.process_time() - start

    # One microsecond per code point would take five times as long.
    assert min(seconds(100) for _ in range(3)) < 0.2 * len(unit)


def test_all_white_space_of_a_stream_comes_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splitting, "_BLOCK", 100)
    text = "字\n" + " " * 500 + "\n" + "\t" * 300 + "字"
    pieces = [text[k : k + 100] for k in range(0, len(text), 100)]
    assert list(iter_sentences(pieces)) == split_sentences(text)
    assert next(iter(iter_sentences(pieces))).after == text.strip("字")


@given(
    st.lists(st.sampled_from([*NASTY, *("。", "…", ".", "!", "”", "\u200b", "'") * 4]), max_size=60).map(
        "".join
    ),
    limits,
    st.sampled_from([1, 7, 40]),
)
def test_stream_equals_text_where_rows_are_longer_than_their_limit(text: str, limit: int, block: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("_END", "_TAIL"):
            pattern = getattr(splitting, name).pattern
            short = re.sub(r"\{0,\d+\}", "{0,3}", pattern)
            assert short != pattern
            patch.setattr(splitting, name, re.compile(short))
        patch.setattr(splitting, "_REACH", 5)
        expected = split_sentences(text, limit=limit)
        patch.setattr(splitting, "_BLOCK", block)
        assert list(iter_sentences(text, limit=limit)) == expected


def test_a_long_row_of_end_marks_is_divided() -> None:
    row = splitting._ROW
    lengths = [len(sentence) for sentence in split_sentences("字" + "。" * 3 * row, limit=10_000)]
    assert lengths == [1 + 2 * row, row]
    # An ellipsis ends no sentence, however long.
    assert len(split_sentences("字" + "…" * 3 * row + "字", limit=10_000)) == 1


UNITS = [
    "字",
    "a",
    ".",
    "…",
    "。",
    "（",
    "）",
    "“",
    '"',
    "'",
    "，",
    " ",
    "\n",
    "\u0301",
    "\u200d",
    "\u200b",
    "\ud800",
    "\U0001f1e8",
    "👩\u200d",
    "（）",
    "…”",
    ".)",
    "！”，",
    "！”的",
    "字 ",
    "a. ",
    "1.",
    "（真的！）",
    "“字！”的",
    "。 ）",
    "\r\n\r\n字",
    "a!",
    "，a",
]


@pytest.mark.parametrize("unit", UNITS, ids=ascii)
def test_cost_is_linear(unit: str) -> None:
    """Allow ten times what these texts take: a quadratic step would take a hundred times as long."""
    text = unit * (100_000 // len(unit))
    start = time.process_time()
    sentences = split_sentences(text)
    assert time.process_time() - start < 4
    assert sum(len("".join(s.chars)) for s in sentences) == len("".join(text.split()))


def test_cost_of_short_lines_is_linear(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splitting, "_BLOCK", 1000)
    start = time.process_time()
    assert list(iter_sentences(["字"] * 30_000)) == split_sentences("字" * 30_000)
    assert time.process_time() - start < 4


@pytest.mark.parametrize("unit", ["字", "\u0301", "（", ".", "\U0001f1e8"], ids=ascii)
@pytest.mark.slow
def test_a_million_code_points(unit: str) -> None:
    start = time.process_time()
    assert split_sentences(unit * 1_000_000)
    assert time.process_time() - start < 10


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["我", "用", "Python", "3", "。"], "我用Python 3。"),
        (["é", "a"], "éa"),
        (["word"], "word"),
        ([], ""),
    ],
)
def test_words_are_joined_as_chinese_is_written(words, text):
    assert join_words(words) == text


HEADLINES = "上海发展金融业\n他去北京\n\n天气很好"


def test_a_line_break_ends_a_sentence_unless_the_text_is_wrapped() -> None:
    def texts(text: str, **options: bool) -> list[str]:
        return [sentence.text for sentence in split_sentences(text, **options)]

    assert texts(HEADLINES) == ["上海发展金融业", "他去北京", "天气很好"]
    assert texts(HEADLINES, wrapped=True) == ["上海发展金融业\n他去北京", "天气很好"]
    assert texts("上海\r\n北京\u2028天津\r南京") == ["上海", "北京", "天津", "南京"]


@given(st.text('上。a \n\r\u2028"“”', max_size=40), st.data(), st.booleans())
def test_lines_end_alike_however_the_text_comes(text: str, data: st.DataObject, wrapped: bool) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=5)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert list(iter_sentences(pieces, wrapped=wrapped)) == split_sentences(text, wrapped=wrapped)
