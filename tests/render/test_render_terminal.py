from __future__ import annotations

import re
import unicodedata
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsed_sentences import NASTY, SHANGHAI, parsed, sentences
from strategies import tree_heads
from zishu.render._cells import cells, visible
from zishu.render.terminal import draw, gutter, stems, structure

if TYPE_CHECKING:
    from zishu.document import Sentence

COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@pytest.mark.parametrize(
    ("text", "shown", "width"),
    [
        ("abc", "abc", 3),
        ("上海", "上海", 4),
        ("，。", "，。", 4),
        ("ＡＢ", "ＡＢ", 4),
        ("e\u0301", "e\u0301", 1),
        ("👨‍👩‍👧", "👨‍👩‍👧", 2),
        ("🇨🇳", "🇨🇳", 2),
        ("❤\ufe0f", "❤\ufe0f", 2),
        ("한", "한", 2),
        ("\x1b[0m", r"\x1b[0m", 7),
        ("a\x00\t\n", r"a\x00\x09\x0a", 13),
        ("\u200b\u202e", r"\u200b\u202e", 12),
        ("\u0301", r"\u0301", 6),
        ("\ud800", r"\ud800", 6),
        ("\uffff\U000e0001", r"\uffff\U000e0001", 16),
        ("\u3000", r"\u3000", 6),
        ("a b", "a b", 3),
        ("", "", 0),
    ],
)
def test_what_is_shown_and_its_width(text: str, shown: str, width: int) -> None:
    assert visible(text) == shown
    assert cells(shown) == width


@given(st.text(st.sampled_from(NASTY) | st.characters(exclude_categories=())))
def test_nothing_invisible_is_left(text: str) -> None:
    shown = visible(text)
    shown.encode()
    allowed = {"\u200d", " "}  # joined emoji keep their joiner
    kinds = {unicodedata.category(char) for char in shown if char not in allowed and ord(char) < 0xE0000}
    assert not kinds & {"Cc", "Cs", "Cn", "Zl", "Zp", "Zs"}
    assert "\u202e" not in shown
    assert visible(shown) == shown


def test_the_example_of_the_paper() -> None:
    assert draw(SHANGHAI) == "\n".join(
        [
            "  ┌───► 1 上海    [上]海      PROPN  nsubj  ← 2 计划  0.97",
            "──┼───► 2 计划    [计]划      VERB   root             0.99",
            "  ├─┬─► 3 发展    发[展]      VERB   ccomp  ← 2 计划  0.54",
            "  │ └─► 4 金融业  [金[融]]业  NOUN   obj    ← 3 发展  0.21",
            "  └───► 5 。                  PUNCT  punct  ← 2 计划  1.00",
        ]
    )


def test_one_word() -> None:
    assert draw(parsed([("哈哈哈", "INTJ", 0, "root", (0, 1, 2))])) == "──► 1 哈哈哈  哈[哈[哈]]  INTJ  root"
    assert draw(parsed([("好", None, 0, "root", None)])) == "──► 1 好  root"


def test_odd_characters_keep_their_columns() -> None:
    sentence = parsed(
        [
            ("e\u0301", "X", 2, "dep", (0,)),
            ("\x1b[0m", "X", 0, "root", (0, 1, 1, 1)),
            ("👨‍👩‍👧", "SYM", 2, "dep", (0,)),
            ("中\ud800", "X", 2, "dep", (0, 1)),
        ]
    )
    assert draw(sentence) == "\n".join(
        [
            "  ┌─► 1 e\u0301                     X    dep   ← 2 \\x1b[0m",
            "──┼─► 2 \\x1b[0m               X    root",
            "  ├─► 3 👨‍👩‍👧                    SYM  dep   ← 2 \\x1b[0m",
            "  └─► 4 中\\ud800  中[\\ud800]  X    dep   ← 2 \\x1b[0m",
        ]
    )


def test_crossing_arcs_get_lines_of_their_own() -> None:
    # 1 -> 3 and 2 -> 4 cross; a horizontal line passes behind a vertical one.
    assert gutter((0, 1, 1, 2)) == [
        "──┬───►",
        "  ├─┬─►",
        "  └─│─►",
        "    └─►",
    ]


@pytest.mark.parametrize(
    ("form", "heads", "brackets"),
    [
        ("好", (0,), ""),
        ("金融业", None, ""),
        ("金融业", (3, 1, 0), "[金[融]]业"),
        ("金融业", (2, 3, 0), "[[金]融]业"),
        ("金融业", (3, 3, 0), "[金][融]业"),
        ("金融业", (0, 1, 2), "金[融[业]]"),
        ("甲乙丙丁", (0, 1, 4, 2), "甲[乙[[丙]丁]]"),
        ("甲乙丙丁", (3, 4, 0, 3), "3,4,0,3"),  # crossing arcs
    ],
)
def test_the_structure_of_a_word(form: str, heads: tuple[int, ...] | None, brackets: str) -> None:
    (word,) = parsed([(form, "X", 0, "root", heads)]).words
    spans = structure(word)
    assert "".join(span.text for span in spans) == brackets
    if "[" in brackets:
        assert heads is not None
        assert [span.text for span in spans if span.style == "root"] == [form[heads.index(0)]]


def arcs_of(lines: list[str]) -> list[int]:
    """Follow the line of every arrow back to its word, as a reader would."""
    up, down, left, right = "│┤├┼┘└┴╵", "│┤├┼┐┌┬╷", "─┤┼┘┐┴┬╴", "─├┼└┌┴┬╶"
    heads = []
    for y, line in enumerate(lines):
        # Left along the row, past the word's own vertical line, to where the horizontal one begins.
        x = len(line) - 2
        while x > 0 and (line[x] in left or (line[x] == "│" and line[x - 1] in right)):
            x -= 1
        if x == 0:
            heads.append(0)
            continue
        # All rows on this vertical line; the head is the one whose own arrow passes through it from the left.
        rows = [y]
        while rows[0] > 0 and lines[rows[0]][x] in up and lines[rows[0] - 1][x] in down:
            rows.insert(0, rows[0] - 1)
        while rows[-1] + 1 < len(lines) and lines[rows[-1]][x] in down and lines[rows[-1] + 1][x] in up:
            rows.append(rows[-1] + 1)
        (head,) = (row for row in rows if lines[row][x] in left)
        heads.append(head + 1)
    return heads


@given(st.integers(1, 14).flatmap(lambda n: tree_heads(n, projective=True)), st.sampled_from([1, 2]))
def test_the_tree_can_be_read_off_the_gutter(heads: tuple[int, ...], step: int) -> None:
    lines = gutter(heads, step=step)
    assert len({len(line) for line in lines}) == 1
    assert tuple(arcs_of(lines)) == heads


@given(st.integers(1, 14).flatmap(lambda n: tree_heads(n, projective=True)))
def test_the_gutter_of_a_projective_tree_is_as_deep_as_the_tree(heads: tuple[int, ...]) -> None:
    def depth(word: int) -> int:
        return 0 if heads[word - 1] == 0 else 1 + depth(heads[word - 1])

    assert {word: stem.column for word, stem in stems(heads).items()} == {
        h: depth(h) for h in set(heads) - {0}
    }


@given(st.integers(1, 12).flatmap(lambda n: tree_heads(n, projective=False)))
def test_lines_never_touch(heads: tuple[int, ...]) -> None:
    placed = stems(heads)
    for a, one in placed.items():
        for b, other in placed.items():
            if a < b and one.column == other.column:
                assert one.bottom < other.top or other.bottom < one.top
    assert all(placed[heads[d - 1]].column < placed[d].column for d in placed if heads[d - 1])


@given(sentences())
def test_columns_are_aligned_whatever_the_text(sentence: Sentence) -> None:
    rows = draw(sentence).split("\n")
    assert len(rows) == len(sentence.words)
    assert len({row.index("►") for row in rows}) == 1
    places = set()
    for row, word in zip(rows, sentence.words, strict=True):
        # A form or a bracket may hold anything, so look for the relation from the right.
        before, _, _ = row.rpartition(f"  {word.deprel}")
        places.add(cells(before))
        assert visible(word.form) in row
    assert len(places) == 1


@given(sentences(), st.sampled_from([None, 30, 80]))
def test_colour_changes_nothing_but_colour(sentence: Sentence, width: int | None) -> None:
    plain = draw(sentence, width=width)
    assert "\x1b" not in plain
    coloured = draw(sentence, width=width, colour=True)
    assert coloured != plain
    assert COLOUR.sub("", coloured) == plain


def chain(n: int) -> Sentence:
    return parsed([("词语", "NOUN", i, "compound", (2, 0)) for i in range(n)], probs=[(1.0, 1.0, 0.5)] * n)


@pytest.mark.parametrize("n", [1, 5, 20, 40, 384])
@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_a_drawing_keeps_within_its_width(n: int, width: int) -> None:
    rows = draw(chain(n), width=width).split("\n")
    assert max(map(cells, rows)) <= width
    assert all("词语" in row and "compound" in row for row in rows)


def test_a_narrow_drawing_gives_up_what_tells_least() -> None:
    expected = [
        "  │ └─► 4 金融业  [金[融]]业  NOUN   obj    ← 3 发展  0.21",
        "  │ └─► 4 金融业  [金[融]]业  NOUN   obj    ← 3  0.21",
        "  │└► 4 金融业  [金[融]]业  NOUN   obj    ← 3  0.21",
        "  │└► 4 金融业  [金[融]]业  NOUN   obj    0.21",
        "  │└► 4 金融业  NOUN   obj    0.21",
    ]
    for row in expected:
        # Just wide enough for this column; one cell less, and the next one follows.
        assert draw(SHANGHAI, width=cells(row)).split("\n")[3] == row
    assert draw(SHANGHAI, width=28).split("\n")[3] == "  │└► 4 金融业  NOUN   obj"
    assert draw(SHANGHAI, width=27).split("\n")[3] == "4 金融业  NOUN   obj    ← 3"
    assert draw(SHANGHAI, width=0).split("\n")[3] == "4 金融业  NOUN   obj    ← 3"


def test_long_words_are_cut_to_the_width() -> None:
    url = "https://example.org/" + "a" * 100
    sentence = parsed([(url, "X", 2, "nsubj", (*range(2, len(url) + 1), 0)), ("好", "ADJ", 0, "root", (0,))])
    assert url in draw(sentence)
    rows = draw(sentence, width=60).split("\n")
    assert max(map(cells, rows)) <= 60
    assert "https://example.org…" in rows[0]


def test_relations_inside_words_are_named_on_demand() -> None:
    word = replace(SHANGHAI.words[3], char_rels=("att", "coo", "root"))
    assert "".join(span.text for span in structure(word, relations=True)) == "[金[融:coo]:att]业"
    assert "".join(span.text for span in structure(word)) == "[金[融]]业"
    assert "".join(span.text for span in structure(SHANGHAI.words[3], relations=True)) == "[金[融]]业"
