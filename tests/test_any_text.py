"""Any text at all: no crash, no lost character, one root per sentence, all constraints kept."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import zishu
from parse_checks import check
from zishu.document import Document
from zishu.errors import InputError
from zishu.splitting import split_sentences
from zishu.text import LIMIT

if TYPE_CHECKING:
    from zishu.parser import Parser

few = settings(max_examples=60, deadline=None)


@pytest.fixture(scope="module")
def parser() -> Parser:
    return zishu.load(threads=1)


ODD = {
    "one character": "我",
    "one mark": "。",
    "marks only": "！？……——、。",
    "Latin only": "The quick brown fox doesn't jump. It sleeps at 3.14 p.m.",
    "emoji only": "😀👨\u200d👩\u200d👧🇨🇳🇨👍🏽🏳️\u200d🌈",
    "flags": "🇨🇳" * 300,
    "addresses": "见https://例子.测试/路?q=%E4%B8%AD#a,或mailto:a.b+c@example.org。",
    "traditional": "臺灣的學生們在圖書館裡讀書。",
    "mixed scripts": "臺灣和台湾、ｗｗｗ．ＡＢＣ１２３、ひらがな、한국어、العربية。",
    "never seen": "𠀀𪚥𰻝𰻝面㐀龘\U000e0100",
    "private use": "\ue000\U000f0000\U0010ffff",
    "control": "我\x00喜\x07欢\x1b[31m北\x7f京\x9f。",
    "zero width": "\u200b我\u200d喜\ufeff欢\u2060北京\u200e。\u00ad",
    "combining": "\u0301我\u0301\u0302\u0303喜\u20dd欢" + "\u0300" * 500,
    "surrogates": "我\ud800喜\udfff欢\udc80\ud83d。",
    "separators": "我\u2028喜\u2029欢\x85北\x0b京\x0c。\u3000\xa0\u1680",
    "line ends": "我\r喜\r\r欢\r\n\r\n北京\n\n\n。",
    "brackets": "（（（（《《“‘" * 20,
}


@pytest.mark.parametrize("text", ODD.values(), ids=ODD.keys())
def test_odd_text(parser: Parser, text: str) -> None:
    document = parser(text)
    assert document.text == text
    assert len(document) >= 1
    check(document)
    check(Document(text, tuple(parser.stream(text, confidence=False))))


@pytest.mark.parametrize("text", ["", " ", "\n\n\t\u3000\xa0\x85\r\n", "\x1c\x1d\u2028"])
def test_a_text_without_characters_has_no_sentences(parser: Parser, text: str) -> None:
    assert parser(text) == Document(text)
    assert list(parser.stream([text])) == []
    assert list(parser.pipe([text, text])) == [Document(text)] * 2


def test_the_look_of_any_text(parser: Parser) -> None:
    """Odd characters in a text must not break the formats either."""
    for text in ODD.values():
        document = parser(text[:60])
        assert document.to_json().count("\n") == len(document)
        assert document.to_conllu().count("# sent_id = ") == len(document)
        assert str(document)
        for sentence in document:
            assert "<svg" in sentence.to_svg()


def check_long(parser: Parser, size: int) -> None:
    """Parse a line without punctuation: sentences of bounded length bound the cost of each character."""
    line = "".join(chr(0x4E00 + k * k % 5000) for k in range(size))
    document = parser(line, confidence=False)
    check(document)
    sizes = [len(sentence.text) for sentence in document]
    assert max(sizes) <= LIMIT
    assert len(sizes) <= 2 * size / LIMIT + 1
    assert [sentence.cut for sentence in document] == [True] * (len(sizes) - 1) + [False]


def test_a_long_line_without_punctuation(parser: Parser) -> None:
    check_long(parser, 3_000)


@pytest.mark.slow
@pytest.mark.parametrize("size", [100_000, 1_000_000])
def test_a_very_long_line_without_punctuation(parser: Parser, size: int) -> None:
    check_long(parser, size)


# Characters that the rules of sentences, graphemes and white space treat specially, and all others.
anything = st.text(
    st.characters(exclude_categories=())
    | st.sampled_from("我喜欢北京的大学，。！？“”（）《》 \n\r.!?aB1\u200d\u0301\ufe0f🇨👍\ud800\u3000"),
    max_size=30,
)


@given(text=anything)
@few
def test_arbitrary_text(parser: Parser, text: str) -> None:
    document = parser(text, confidence=False)
    assert document.text == text
    check(document)
    assert tuple(document) == tuple(parser.stream([text[:7], text[7:]], confidence=False))


words = anything.map(lambda text: "".join(text.split())).filter(bool)


@given(lines=st.lists(st.lists(words, min_size=1, max_size=5), max_size=2))
@few
def test_arbitrary_words(parser: Parser, lines: list[list[str]]) -> None:
    document = parser.parse_words(lines, confidence=False)
    check(document)
    assert [[word.form for word in sentence.words] for sentence in document] == lines
    text = "\n".join(map(" ".join, lines))
    streamed = Document(text, tuple(parser.stream([text], words=True, confidence=False)))
    check(streamed)
    assert [sentence.tree for sentence in streamed] == [sentence.tree for sentence in document]


@given(text=anything, data=st.data())
@few
def test_arbitrary_pins_and_breaks_hold_or_are_refused(
    parser: Parser, text: str, data: st.DataObject
) -> None:
    offset = st.integers(-1, len(text) + 1)
    span = st.tuples(st.integers(0, len(text)), st.integers(1, 4)).map(lambda p: (p[0], p[0] + p[1]))
    pins = data.draw(st.lists(span | st.tuples(offset, offset), max_size=3))
    breaks = data.draw(st.lists(offset, max_size=3))
    words = data.draw(st.lists(span, max_size=3))
    lexicon = [text[a:b] for a, b in words if text[a:b] and not any(map(str.isspace, text[a:b]))]
    try:
        document = parser(text, pins=pins, breaks=breaks, lexicon=lexicon, confidence=False)
    except InputError as error:
        refused = str(error)
    else:
        refused = ""
    if refused:
        numbers = [*breaks, *(number for pin in pins for number in pin)]
        assert "\n" not in refused
        assert any(str(number) in refused for number in numbers)
        return
    check(document)
    spans = {(word.start, word.end) for sentence in document for word in sentence.words}
    assert spans >= set(pins)
    assert not any(start < place < end for start, end in spans for place in breaks)


@given(text=anything, data=st.data())
@few
def test_constraints_that_fit_are_never_refused(parser: Parser, text: str, data: st.DataObject) -> None:
    """Choose words that do not overlap in the text, so that they cannot contradict each other."""
    pins = []
    breaks = []
    for sentence in split_sentences(text):
        runs = [0, *sentence.breaks, len(sentence)]
        for first, last in pairwise(runs):
            cuts = sorted({first, last, *data.draw(st.sets(st.integers(first, last), max_size=3))})
            for a, b in pairwise(cuts):
                kind = data.draw(st.sampled_from(["pin", "break", ""]))
                pins += [(sentence.starts[a], sentence.ends[b - 1])] if kind == "pin" else []
                breaks += [sentence.starts[a]] if kind == "break" else []
    document = parser(text, pins=pins, breaks=breaks, confidence=False)
    check(document)
    spans = {(word.start, word.end) for sentence in document for word in sentence.words}
    assert spans >= set(pins)
    assert {start for start, _ in spans} >= set(breaks)
