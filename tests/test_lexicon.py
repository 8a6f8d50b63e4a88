"""Lexicons: what is a word of one, how a file is read, what is found in a sentence."""

from __future__ import annotations

import gzip
import io
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zishu.errors import FormatError, InputError
from zishu.gaps import BREAK, FREE, JOIN
from zishu.lexicon import Lexicon
from zishu.text import LIMIT, characters

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def found(words: Sequence[str], text: str, gaps: Sequence[int] | None = None) -> list[str]:
    chars = characters(text)
    return ["".join(chars[first:last]) for first, last in Lexicon(words).matches(chars, gaps)]


def test_the_longest_of_the_words_that_begin_first_is_taken() -> None:
    assert found(["北京", "北京大学", "大学生", "学生"], "北京大学生") == ["北京大学"]
    assert found(["北京", "大学生", "学生"], "北京大学生") == ["北京", "大学生"]
    assert found(["京大", "大学"], "北京大学") == ["京大"]
    assert found(["大"], "北京大学大") == ["大", "大"]
    assert found([], "北京") == []
    assert found(["北京大学"], "北京大") == []


def test_what_is_known_of_the_gaps_comes_first() -> None:
    words = ["北京大学", "北京", "大学"]
    assert found(words, "北京大学", [BREAK, FREE, BREAK, FREE, 0]) == ["北京", "大学"]
    assert found(words, "北京大学", [BREAK, FREE, JOIN, FREE, 0]) == ["北京大学"]
    assert found(words, "北京大学", [BREAK, BREAK, JOIN, FREE, 0]) == []
    assert found(words, "北京大学", [BREAK, JOIN, FREE, BREAK, 0]) == ["北京"]


def test_western_words_are_found_whole_or_not_at_all() -> None:
    assert found(["AI"], "MAIN AIM AI".replace(" ", "、")) == ["AI"]
    assert found(["AI"], "用AI写") == ["AI"]
    assert found(["AI芯"], "5AI芯") == []
    assert found(["C"], "C++") == ["C"]
    assert found(["3号"], "13号") == []
    # A space ends a run of letters: here are MA and AI, with a boundary between them.
    assert found(["AI"], "MAAI", [BREAK, FREE, BREAK, FREE, 0]) == ["AI"]


def test_characters_of_several_code_points_are_not_cut() -> None:
    family = "👨\u200d👩\u200d👧"
    assert found(["👨"], family) == []
    assert found([f"{family}好"], f"大{family}好") == [f"{family}好"]
    assert found(["e"], "e\u0301") == []


def test_words_that_are_longer_than_any_sentence_are_not_looked_for() -> None:
    longest, too_long = "大" * LIMIT, "大" * (LIMIT + 1)
    assert found([longest], longest) == [longest]
    assert found([too_long, longest, "大"], too_long) == [longest, "大"]
    assert not Lexicon([too_long]).straddles(too_long[:9], too_long[9:])
    assert too_long in Lexicon([too_long])


class Counted(list[str]):
    """Characters that count how many of them are read."""

    read = 0

    def __getitem__(self, place: Any) -> Any:
        found = super().__getitem__(place)
        self.read += len(found) if isinstance(place, slice) else 1
        return found


def test_many_words_that_begin_alike_cost_no_more_than_one() -> None:
    words = ["大" + "小" * k for k in range(LIMIT)]
    chars = Counted("大" * 1000)
    assert len(list(Lexicon(words[1:]).matches(chars))) == 0
    assert chars.read <= 3 * len(chars)
    chars = Counted("中大")
    assert Lexicon(words).straddles(chars, Counted("小"))
    assert not Lexicon(words[2:]).straddles(chars, Counted("大"))
    assert chars.read <= 3 * 2 * len(chars)


def test_no_word_is_looked_for_inside_a_run_of_letters() -> None:
    chars = Counted("a" * 1000)
    assert len(list(Lexicon(["a" * k for k in range(1, 33)]).matches(chars))) == 0
    assert chars.read <= 40  # only the first of them can begin a word


def test_a_lexicon_is_a_set() -> None:
    lexicon = Lexicon(["北京", "上海", "北京"])
    assert len(lexicon) == 2
    assert "北京" in lexicon
    assert "广州" not in lexicon
    assert list(lexicon) == sorted(["北京", "上海"])
    assert repr(lexicon) == "<Lexicon of 2 words>"
    assert not Lexicon()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("北京", "not a single string: '北京'"),
        (["北京", ""], "empty"),
        (["New York"], "white space in 'New York'"),
        (["北京\n"], "white space"),
        ([b"x"], "not b'x'"),
        ([["x"]], "is a string, not"),
    ],
)
def test_what_is_no_lexicon_is_refused(words: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        Lexicon(words)
    assert "\n" not in str(caught.value)


def test_a_file_has_a_word_a_line(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_bytes("\ufeff# names\r\n北京大学 \r\n\r\n\u3000上海\n#\nC#".encode())
    assert list(Lexicon.load(path)) == ["C#", "上海", "北京大学"]
    packed = tmp_path / "words.txt.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert list(Lexicon.load(packed)) == list(Lexicon.load(str(path)))
    assert list(Lexicon.load(io.StringIO("北京\n"))) == ["北京"]


def test_what_is_wrong_with_a_file_is_said_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_text("北京\n上海 5 ns\n", encoding="utf-8")
    with pytest.raises(FormatError, match=r"words\.txt:2: white space in '上海 5 ns'"):
        Lexicon.load(path)
    path.write_bytes("北京\n".encode("gb18030"))
    with pytest.raises(FormatError, match=r"words\.txt:1: "):
        Lexicon.load(path)
    with pytest.raises(InputError, match=r"nowhere\.txt: "):
        Lexicon.load(tmp_path / "nowhere.txt")
    with pytest.raises(InputError):
        Lexicon.load(tmp_path)


few = st.sampled_from("ab大中")


@given(
    words=st.lists(st.text(few, min_size=1, max_size=4), max_size=8),
    chars=st.lists(few, max_size=12),
    data=st.data(),
)
def test_matching_agrees_with_a_plain_search(words: list[str], chars: list[str], data: st.DataObject) -> None:
    n = len(chars)
    gaps = data.draw(
        st.none() | st.lists(st.sampled_from([FREE, FREE, JOIN, BREAK]), min_size=n + 1, max_size=n + 1)
    )
    known = gaps or [FREE] * (n + 1)

    def allowed(first: int, last: int) -> bool:
        edges = [k for k in (first, last) if 0 < k < n]
        western = [k for k in edges if known[k] != BREAK and chars[k - 1] in "ab" and chars[k] in "ab"]
        return not western and JOIN not in [known[k] for k in edges] and BREAK not in known[first + 1 : last]

    expected = []
    first = 0
    while first < n:
        ends = [
            last
            for last in range(first + 1, n + 1)
            if "".join(chars[first:last]) in words and allowed(first, last)
        ]
        if ends:
            expected.append((first, max(ends)))
        first = max(ends, default=first + 1)
    assert list(Lexicon(words).matches(chars, gaps)) == expected


@given(
    words=st.lists(st.text(few, min_size=1, max_size=5), max_size=8),
    left=st.lists(few, min_size=1, max_size=6),
    right=st.lists(few, min_size=1, max_size=6),
)
def test_the_quick_test_misses_no_word_on_a_border(
    words: list[str], left: list[str], right: list[str]
) -> None:
    both, border = left + right, len(left)
    on_border = any(
        "".join(both[first:last]) in words
        for first in range(border)
        for last in range(border + 1, len(both) + 1)
    )
    assert Lexicon(words).straddles(left, right) == on_border
