"""Pins, breaks and lexicons as gaps; sentences that end inside a word; contradictions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zishu import constraints
from zishu.constraints import constrain, given_gaps, mend, read_marks, rejoin
from zishu.errors import InputError
from zishu.gaps import BREAK, FREE, JOIN
from zishu.lexicon import Lexicon
from zishu.splitting import split_sentences
from zishu.text import LIMIT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zishu.text import RawSentence


def marks_of(text: str, pins: Any = (), breaks: Any = ()) -> dict[int, int]:
    return read_marks(text, split_sentences(text), pins, breaks)


def gaps(text: str, lexicon: Lexicon | None = None, **known: Any) -> str:
    """Return the gaps of a text of one sentence, one letter each, without the two ends."""
    [sentence] = constrain(split_sentences(text), marks_of(text, **known), lexicon, patterns=False)
    return "" if sentence.gaps is None else "".join("-JB"[value] for value in sentence.gaps[1:-1])


def mended(text: str, *, limit: int = LIMIT, lexicon: Lexicon | None = None, **known: Any) -> list[str]:
    return [
        text[sentence.start : sentence.end] + "…" * sentence.cut
        for sentence in mend(split_sentences(text, limit=limit), marks_of(text, **known), lexicon, limit)
    ]


def test_gaps_say_what_is_known() -> None:
    assert (FREE, JOIN, BREAK) == (0, 1, 2)
    assert gaps("上海计划发展") == ""
    assert gaps("上海 计划发展") == "-B---"
    assert gaps("上海计划发展", pins=[(2, 4)]) == "-BJB-"
    assert gaps("上海计划发展", pins=[(0, 2), (4, 6), (0, 2)]) == "JB-BJ"
    assert gaps("上海计划发展", breaks=[1, 5, 0, 6]) == "B---B"
    assert gaps("上海计划发展", pins=[(3, 4)], breaks=[3]) == "--BB-"
    assert gaps(" 上海计 划", pins=[(1, 3)], breaks=[4, 5]) == "JBB"
    assert gaps("上海计划发展", lexicon=Lexicon(["计划", "海计"])) == "BJB--"
    assert gaps("上海计划发展", lexicon=Lexicon(["计划", "海计"]), breaks=[2]) == "-BJB-"
    assert gaps("上海计划发展", lexicon=Lexicon(["海计划"]), pins=[(0, 2)]) == "JB---"


def test_offsets_count_code_points_and_gaps_characters() -> None:
    assert gaps("e\u0301大e\u0301小", pins=[(2, 5)]) == "BJB"
    assert gaps("🇨🇳好🇨🇳 好", breaks=[3]) == "-BB"


@pytest.mark.parametrize(
    ("known", "message"),
    [
        ({"pins": [(1, 2), (0, 2)]}, "the pin 0:2 and the pin 1:2 overlap"),
        ({"pins": [(0, 7)]}, "the pin 0:7 is out of range: the text has 6 code points"),
        ({"pins": [(-1, 2)]}, "the pin -1:2 is out of range"),
        ({"pins": [(3, 1)]}, "the pin 3:1 ends before it begins"),
        ({"pins": [(2, 2)]}, "the pin 2:2 is empty"),
        ({"pins": [(1, 4)]}, "the pin 1:4 contains white space at 2"),
        ({"pins": [(3, 5)]}, "the pin 3:5 splits the character 4:6"),
        ({"pins": [(5, 6)]}, "the pin 5:6 splits the character 4:6"),
        ({"pins": [(0, 2)], "breaks": [1]}, "the break at 1 lies inside the pin 0:2"),
        ({"breaks": [5]}, "the break at 5 splits the character 4:6"),
        ({"breaks": [7]}, "the break at 7 is out of range: the text has 6 code points"),
        ({"breaks": [-1]}, "the break at -1 is out of range"),
        ({"pins": [3]}, r"a pin is a pair of offsets \(start, end\), not 3"),
        ({"pins": ["02"]}, "not '02'"),
        ({"pins": [(0, 1.5)]}, r"not \(0, 1.5\)"),
        ({"breaks": ["1"]}, "a break is an offset, not '1'"),
    ],
)
def test_contradictions_name_their_offsets(known: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        marks_of("上海 计e\u0301", **known)
    assert "\n" not in str(caught.value)


def test_a_pin_has_at_most_the_characters_of_a_sentence() -> None:
    text = "好" * (LIMIT + 1)
    assert len(marks_of(text, pins=[(1, LIMIT + 1)])) == LIMIT + 1
    with pytest.raises(InputError, match=rf"pin 0:{LIMIT + 1} has {LIMIT + 1} characters, more than"):
        marks_of(text, pins=[(0, LIMIT + 1)])


def test_no_sentence_ends_inside_a_pin_or_a_word_of_the_lexicon() -> None:
    text = "他看你好！李焕英。我走。"
    assert mended(text) == ["他看你好！", "李焕英。", "我走。"]
    assert mended(text, pins=[(2, 8)]) == ["他看你好！李焕英。", "我走。"]
    assert mended(text, pins=[(2, 10)]) == ["他看你好！李焕英。我走。"]
    assert mended(text, pins=[(2, 5), (5, 8)]) == ["他看你好！", "李焕英。", "我走。"]
    assert mended(text, lexicon=Lexicon(["你好！李焕英"])) == ["他看你好！李焕英。", "我走。"]
    # Leftmost first: 看你好 prevents the longer word, which begins later.
    assert mended(text, lexicon=Lexicon(["你好！李焕英", "看你好"])) == ["他看你好！", "李焕英。", "我走。"]
    assert mended(text, lexicon=Lexicon(["！李"]), breaks=[5]) == ["他看你好！", "李焕英。", "我走。"]
    assert mended("好！ 李。", lexicon=Lexicon(["！李"])) == ["好！", "李。"]


def test_a_sentence_that_would_be_too_long_is_cut_beside_the_word() -> None:
    text = "零一二三四五六七八九"
    assert mended(text, limit=5) == ["零一二三四…", "五六七八九"]
    assert mended(text, limit=5, pins=[(4, 6)]) == ["零一二三…", "四五…", "六七八九"]
    assert mended(text, limit=5, lexicon=Lexicon(["四五"])) == ["零一二三…", "四五…", "六七八九"]
    assert mended(text, limit=5, pins=[(0, 5), (5, 10)]) == ["零一二三四…", "五六七八九"]
    assert mended(text[:8], limit=5, pins=[(3, 6)]) == ["零一二…", "三四五六七"]
    assert mended(text, limit=3, lexicon=Lexicon(["二三四五"])) == ["零一二…", "三四五…", "六七八…", "九"]


def test_overlapping_pins_are_refused_before_anything_looks_into_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: list[tuple[int, int]] = []

    class Looking:
        def search(self, _: str, start: int, end: int) -> None:
            looked.append((start, end))

    monkeypatch.setattr(constraints, "_SPACE", Looking())
    with pytest.raises(InputError, match="overlap"):
        marks_of("好" * 200, pins=[(0, end) for end in range(1, 200)])
    assert not looked
    marks_of("好" * 200, pins=[(start, start + 2) for start in range(0, 200, 2)])
    assert sum(end - start for start, end in looked) == 200


class CountedLexicon(Lexicon):
    """A lexicon that counts the places where it is asked to look."""

    __slots__ = ("visits",)

    def __init__(self, words: list[str]) -> None:
        super().__init__(words)
        self.visits = 0

    def scan(self, *args: Any, **options: Any) -> Iterator[tuple[int, int, bool]]:
        for visit in super().scan(*args, **options):
            self.visits += 1
            yield visit


@pytest.mark.parametrize("word", ["。字", "字。" * 3 + "大", "。字。字"])
def test_mending_is_linear_in_the_text(word: str) -> None:
    text = "字。" * 500
    lexicon = CountedLexicon([word])
    assert sum(map(len, mend(split_sentences(text), {}, lexicon))) == len(text)
    assert lexicon.visits <= (len(word) + 2) * len(text)


def naive_mend(
    sentences: list[RawSentence], marks: dict[int, int], lexicon: Lexicon, limit: int
) -> Iterator[RawSentence]:
    """Mend sentences like `mend`, but search both sentences from their beginning at every border."""
    left = sentences[0] if sentences else None
    for right in sentences[1:]:
        assert left is not None
        both = left + right
        spans = lexicon.matches(both.chars, given_gaps(both, marks))
        bridges = [
            (first, last)
            for first, last in spans
            if first < len(left) < last <= first + limit
            and left.end == right.start
            and marks.get(left.end, FREE) == FREE
        ]
        if bridges:
            *done, left = rejoin(both, *bridges[0], limit)
            yield from done
        else:
            yield left
            left = right
    if left is not None:
        yield left


@given(
    text=st.text(st.sampled_from("零一。！ ab"), max_size=40),
    words=st.lists(st.text(st.sampled_from("零一。！ab"), min_size=1, max_size=7), min_size=1, max_size=6),
    breaks=st.sets(st.integers(0, 40), max_size=3),
    limit=st.integers(4, 20),
)
def test_mending_agrees_with_a_search_from_the_beginning(
    text: str, words: list[str], breaks: set[int], limit: int
) -> None:
    sentences = split_sentences(text, limit=limit)
    known = marks_of(text, breaks=[k for k in breaks if k <= len(text)]), Lexicon(words), limit
    assert list(mend(sentences, *known)) == list(naive_mend(sentences, *known))


pieces = st.text(st.sampled_from("零一二三，。！ ab"), max_size=40)


@given(text=pieces, limit=st.integers(4, 12), data=st.data())
def test_mending_loses_nothing_and_cuts_no_word(text: str, limit: int, data: st.DataObject) -> None:
    sentences = split_sentences(text, limit=limit)
    lexicon = data.draw(
        st.lists(st.text(st.sampled_from("零一二，。！"), min_size=1, max_size=4), max_size=4)
    )
    starts = data.draw(st.sets(st.integers(0, max(0, len(text) - 1)), max_size=4))
    pins: list[tuple[int, int]] = []
    for start in sorted(starts):
        end = min(start + data.draw(st.integers(1, 4)), len(text))
        apart = not pins or pins[-1][1] <= start
        if apart and start < end and " " not in text[start:end]:
            pins.append((start, end))
    marks = read_marks(text, sentences, pins, ())
    found = list(mend(sentences, marks, Lexicon(lexicon), limit))
    assert [c for sentence in found for c in sentence.chars] == [c for c in text if not c.isspace()]
    assert all(1 <= len(sentence) <= limit for sentence in found)
    for start, end in pins:
        [home] = [sentence for sentence in found if sentence.start <= start < sentence.end]
        assert end <= home.end
        first = home.starts.index(start)
        [known] = constrain([home], marks, Lexicon(lexicon), patterns=False)
        values = known.gaps
        assert values is not None
        assert set(values[first + 1 : first + end - start]) <= {JOIN}
        assert first == 0 or values[first] == BREAK
        assert end == home.end or values[first + end - start] == BREAK
