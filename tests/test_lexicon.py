"""Lexicons: valid words, reading files, finding words in a sentence."""

from __future__ import annotations

import gzip
import io
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zishu import lexicon as lexicon_module
from zishu.errors import FormatError, InputError
from zishu.gaps import BREAK, FREE, JOIN
from zishu.lexicon import Entry, Lexicon, simplify
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


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[Counted]:
    """Count the characters that searches read: they read them in simplified forms."""
    made: list[Counted] = []

    def count(chars: Sequence[str]) -> Counted:
        made.append(Counted(simplify(chars)))
        return made[-1]

    monkeypatch.setattr(lexicon_module, "simplify", count)
    return made


def test_many_words_that_begin_alike_cost_no_more_than_one(counted: list[Counted]) -> None:
    words = ["大" + "小" * k for k in range(LIMIT)]
    lexicon = Lexicon(words[1:])
    counted.clear()
    assert len(list(lexicon.matches("大" * 1000))) == 0
    assert 1000 <= sum(chars.read for chars in counted) <= 4 * 1000
    lexicons = Lexicon(words), Lexicon(words[2:])
    counted.clear()
    assert lexicons[0].straddles("中大", "小")
    assert not lexicons[1].straddles("中大", "大")
    assert 0 < sum(chars.read for chars in counted) <= 3 * 2 * 3


def test_no_word_is_looked_for_inside_a_run_of_letters(counted: list[Counted]) -> None:
    lexicon = Lexicon(["a" * k for k in range(1, 33)])
    counted.clear()
    assert len(list(lexicon.matches("a" * 1000))) == 0
    assert 0 < sum(chars.read for chars in counted) <= 80  # only the first of them can begin a word


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
    for line, message in (
        ("New York", "'York' after 'New' is not a part of speech"),
        ("上海 5 ns 6", "more than a word, a frequency and a part of speech"),
        ("上海 0 ns", "the frequency of '上海' is a number above 0"),
    ):
        path.write_text(f"北京\n{line}\n", encoding="utf-8")
        with pytest.raises(FormatError, match=rf"words\.txt:2: .*{message}"):
            Lexicon.load(path)
    path.write_bytes("北京\n".encode("gb18030"))
    with pytest.raises(FormatError, match=r"words\.txt:1: "):
        Lexicon.load(path)
    with pytest.raises(InputError, match=r"nowhere\.txt: "):
        Lexicon.load(tmp_path / "nowhere.txt")
    with pytest.raises(InputError):
        Lexicon.load(tmp_path)


def test_lines_as_jieba_has_them() -> None:
    lexicon = Lexicon.load(
        io.StringIO("云计算 5\n李小福 2 nr\n创新办 3 i\neasy_install 3 eng\n台中\n凱特琳 nz\n")
    )
    assert dict(lexicon.entries) == {
        "云计算": Entry(5.0, None),
        "李小福": Entry(2.0, "PROPN"),
        "创新办": Entry(3.0, None),
        "easy_install": Entry(3.0, "X"),
        "台中": Entry(1.0, None),
        "凱特琳": Entry(1.0, "PROPN"),
    }
    assert Lexicon([("台中", 2.5), ("高雄", 3, "PROPN"), "台南"]).entries["高雄"] == Entry(3.0, "PROPN")


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (("台中", "n"), "frequency of '台中' is a number above 0, not 'n'"),
        (("台中", 1, ["n"]), r"\['n'\] after '台中' is not a part of speech"),
        (("台中", True), "frequency"),
        (("台中", 1, "noun"), "not a part of speech"),
        (("台中", 1, "n", 2), "more than"),
        ((), "is a string"),
    ],
)
def test_what_is_no_entry_is_refused(entry: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Lexicon([entry])


@pytest.mark.parametrize("weight", [0, -1, 51, float("nan"), "2", True, None])
def test_what_is_no_weight_is_refused(weight: Any) -> None:
    with pytest.raises(InputError, match="weight of a soft lexicon"):
        Lexicon(["台中"], soft=True, weight=weight)


def test_either_script_finds_the_other() -> None:
    assert found(["图书馆"], "我在圖書館") == ["圖書館"]
    assert found(["圖書館"], "我在图书馆") == ["图书馆"]
    assert found(["头发"], "頭髮長") == ["頭髮"]
    assert found(["ＡＢ"], "AB") == []  # width still matters
    assert Lexicon([("圖書館", 7)]).entry("图书馆").frequency == 7


def soft(words: Sequence[Any], text: str, gaps: Sequence[int] | None = None) -> list[tuple[str, float]]:
    chars = characters(text)
    return [("".join(chars[a:b]), share) for a, b, share in Lexicon(words).occurrences(chars, gaps)]


def test_what_a_soft_lexicon_counts() -> None:
    # Words inside others do not count; overlapping ones share.
    assert soft(["北京", "北京大学", "大学"], "北京大学") == [("北京大学", 1.0)]
    assert soft(["研究生", "生命", "研究"], "研究生命") == [("研究生", 0.5), ("生命", 0.5)]
    assert soft([("研究生", 1), ("生命", 3)], "研究生命") == [("研究生", 0.25), ("生命", 0.75)]
    assert soft(["研究", "生命"], "研究生命") == [("研究", 1.0), ("生命", 1.0)]
    assert soft(["研究生", "生命"], "研究生命", [BREAK, FREE, BREAK, FREE, 0]) == [("生命", 1.0)]
    assert soft(["甲乙", "乙丙", "丙丁"], "甲乙丙丁") == [
        ("甲乙", 1 / 2),
        ("乙丙", 1 / 3),
        ("丙丁", 1 / 2),
    ]


def test_joins_are_favoured_and_boundaries_half_as_much() -> None:
    lexicon = Lexicon(["研究生"], soft=True, weight=3)
    assert lexicon.favour([(1, 4, 1.0)], 5) == [0.0, 1.5, -3.0, -3.0, 1.5, 0.0]
    assert lexicon.favour([(0, 2, 0.5), (2, 3, 1.0)], 3) == [0.75, -1.5, 0.75 + 1.5, 1.5]
    assert repr(lexicon) == "<Lexicon of 1 word, soft with weight 3>"


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
