"""Statistics of treebanks, against numbers counted by hand."""

from __future__ import annotations

import io
from dataclasses import FrozenInstanceError

import pytest

from zishu.analysis.tables import Table
from zishu.cli._table import print_tables
from zishu.cli.stats import tables
from zishu.errors import FormatError
from zishu.formats.conllu import read_conllu
from zishu.stats import Statistics, measure


def treebank(*sentences: str):
    """Read sentences written as `form/UPOS/head/label` words."""
    lines = []
    for sentence in sentences:
        lines.append("# c\n")
        for number, word in enumerate(sentence.split(), 1):
            form, upos, head, label = word.split("/")
            lines.append(f"{number}\t{form}\t_\t{upos}\t_\t_\t{head}\t{label}\t_\t_\n")
        lines.append("\n")
    return read_conllu(io.BytesIO("".join(lines).encode()), name="t")


def test_counts_by_hand():
    # 1: 上海 is left of its head, 发展 and 金融业 right of theirs; 2 + 2 + 2 + 3 characters.
    # 2: the arcs 1-3 and 2-4 cross; 甲 and 乙 are left of their heads, the emoji, one character, is right.
    # 3: no heads at all, 4 + 5 characters.
    statistics = measure(
        treebank(
            "上海/PROPN/2/nsubj 计划/VERB/0/root 发展/VERB/2/xcomp 金融业/NOUN/3/obj",
            "甲/NOUN/3/a 乙/NOUN/4/b 丙/VERB/0/root 👨‍👩‍👧/SYM/3/b",
            "四个字的/_/_/_ 五个字长的/X/_/_",
        )
    )
    assert statistics == Statistics(
        sentences=3,
        words=10,
        characters=9 + 4 + 9,
        longest_sentence=9,
        lengths=(4, 3, 1, 2),
        trees=2,
        projective=1,
        leftward=3,
        rightward=3,
        labels={"root": 2, "b": 2, "nsubj": 1, "xcomp": 1, "obj": 1, "a": 1},
        upos={"VERB": 3, "NOUN": 3, "PROPN": 1, "SYM": 1, "X": 1},
    )
    assert list(statistics.labels)[:2] == ["root", "b"]
    with pytest.raises(FrozenInstanceError):
        statistics.words = 0


def test_an_empty_treebank_has_no_words():
    statistics = measure([])
    assert statistics == Statistics(0, 0, 0, 0, (0, 0, 0, 0), 0, 0, 0, 0, {}, {})
    assert tables(statistics)[0].rows[0] == ("sentences", "0")


def test_half_a_tree_is_an_error_with_its_line():
    with pytest.raises(FormatError, match=r"^t:3: word 2 has no head$"):
        measure(treebank("甲/X/0/root 乙/X/_/_"))


def test_sentences_are_not_kept():
    def sentences():
        for _ in range(3):
            (sentence,) = treebank("甲/X/0/root")
            yield sentence

    assert measure(sentences()).sentences == 3


def test_tables_give_counts_and_shares():
    first, lengths, trees, labels, upos = tables(
        Statistics(1200, 4000, 6000, 42, (2000, 1500, 300, 200), 1000, 985, 1, 2, {"a": 3, "b": 1}, {"X": 1})
    )
    assert dict(first.rows) == {
        "sentences": "1,200",
        "words": "4,000",
        "characters": "6,000",
        "characters per sentence, mean": "5.00",
        "characters per sentence, max": "42",
    }
    assert lengths.rows == [
        ("1", "2,000", "50.00"),
        ("2", "1,500", "37.50"),
        ("3", "300", "7.50"),
        (">= 4", "200", "5.00"),
    ]
    assert [row[1:] for row in trees.rows] == [("985", "98.50"), ("1", "33.33"), ("2", "66.67")]
    assert labels == Table(("label", "count", "%"), [("a", "3", "75.00"), ("b", "1", "25.00")])
    assert upos.rows == [("X", "1", "100.00")]


def test_a_treebank_without_trees_and_tags_shows_neither():
    titles = [table.header[0] for table in tables(measure(treebank("甲/_/_/_")))]
    assert titles == ["size", "characters in word"]


def test_trees_of_one_word_have_no_arcs_to_share_out():
    trees = tables(measure(treebank("甲/_/0/root")))[2]
    assert [row[1:] for row in trees.rows] == [("1", "100.00"), ("0", "-"), ("0", "-")]


def test_plain_tables_are_aligned_by_width_on_screen():
    assert Table(("名", "n"), [("ab", "1"), ("甲乙", "10")]).to_text() == "名     n\nab     1\n甲乙  10"


def test_a_label_that_looks_like_markup_is_drawn_as_it_is(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "40")
    print_tables([Table(("label", "n"), [("[bold]", "1")])])
    assert "[bold]" in capsys.readouterr().out
