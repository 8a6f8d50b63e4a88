"""The lexicon of word structures: its format, what its reader refuses, and the bundled file."""

from __future__ import annotations

import io
import re
from collections import Counter
from importlib.resources import files
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zishu.errors import FormatError
from zishu.structures import (
    BEFORE,
    CLASSES,
    RELATIONS,
    Structure,
    by_form,
    formation,
    is_chinese,
    load_structures,
    read_structures,
    words_in_text,
)
from zishu.tree import ROOT_LABEL

if TYPE_CHECKING:
    from pathlib import Path

STATION = Structure("火车站", ("NOUN",), (2, 3, 0), ("att", "att", "root"))
TALENT = Structure("才能", ("NOUN",), (0, 1), ("root", "coo"))
CAN = Structure("才能", ("ADV", "AUX"), (2, 0), ("adv", "root"))
LINES = "火车站 NOUN 2:att 3:att 0\n才能 NOUN 0 1:coo\n才能 ADV,AUX 2:adv 0\n"


def read(text: str) -> list[Structure]:
    return read_structures(io.StringIO(text))


def test_a_line_is_an_entry() -> None:
    assert read(LINES) == [STATION, TALENT, CAN]


def test_blank_lines_comments_and_repeated_spaces_do_not_matter() -> None:
    spaced = LINES.replace(" ", "  ").replace("\n", "\r\n\r\n")
    assert read(f"\ufeff# a comment\n\n{spaced}") == [STATION, TALENT, CAN]


def test_an_entry_prints_as_its_line() -> None:
    assert "".join(f"{entry}\n" for entry in read(LINES)) == LINES


def test_homographs_are_grouped() -> None:
    assert by_form(read(LINES)) == {"火车站": (STATION,), "才能": (TALENT, CAN)}


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("火车站", "expected a word"),
        ("火车站 NOUN", "expected a word"),
        ("火车站 NOUN 2:att 3 0", "expected 0 or HEAD:RELATION, found '3'"),
        ("火车站 NOUN 2:att 3:att 0:root", "found '0:root'"),
        ("火车站 NOUN 2:att 0", "3 characters but 2 heads"),
        ("火车站 NOUN 2:att 0 0", "2, 3 are all roots"),
        ("火车站 NOUN 2:att 1:coo 1:coo", "no character is the root"),
        ("火车站 NOUN 2:att 1:coo 0", "its own ancestor"),
        ("火车站 NOUN 2:att 4:att 0", "outside 0..3"),
        ("公共汽车 NOUN 3:att 4:att 0 3:coo", "the tree is not projective"),
        ("火车站 NOUN 2:att 3:mod 0", "unknown relation 'mod'"),
        ("火车站 NOUN 2:att 3:root 0", "unknown relation 'root'"),
        ("火车 NOUN 2:coo 0", "must stand behind its head"),
        ("火车 NOUN 0 1:att", "must stand before its head"),
        ("火车站 N 2:att 3:att 0", "unknown part of speech 'N'"),
        ("火车站 NOUN,NOUN 2:att 3:att 0", "listed twice"),
        ("站 NOUN 0", "not a word of two or more Chinese characters"),
        ("Ｔ恤 NOUN 2:att 0", "not a word of two or more Chinese characters"),
    ],
)
def test_what_is_no_entry_is_refused(line: str, problem: str) -> None:
    with pytest.raises(FormatError, match=re.escape(problem)) as caught:
        read(f"计划 VERB 0 1:coo\n{line}\n")
    assert caught.value.line == 2
    assert caught.value.path == "<input>"


@pytest.mark.parametrize(
    ("second", "problem"),
    [
        ("才能 NOUN 0 1:coo", "listed twice with the same structure"),
        ("才能 VERB 0 1:coo", "listed twice with the same structure"),
        ("才能 VERB,NOUN 2:adv 0", "listed twice as NOUN"),
    ],
)
def test_a_second_line_needs_another_structure_and_other_parts_of_speech(second: str, problem: str) -> None:
    with pytest.raises(FormatError, match=problem) as caught:
        read(f"才能 NOUN 0 1:coo\n\n{second}\n")
    assert caught.value.line == 3


def test_a_path_is_named_in_errors(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_text("才能 NOUN 0 0\n", encoding="utf-8")
    with pytest.raises(FormatError, match=f"^{re.escape(str(path))}:1: 才能: "):
        read_structures(path)


@given(st.text(st.sampled_from("才能火车 \n0123:,#NOUVERBattcoo"), max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        entries = read(text)
    except FormatError:
        return
    assert read("".join(f"{entry}\n" for entry in entries)) == entries


@pytest.fixture(scope="module")
def bundled() -> list[Structure]:
    return load_structures()


def test_the_bundled_lexicon_is_large_enough(bundled: list[Structure]) -> None:
    words = {entry.form for entry in bundled}
    lengths = Counter(map(len, words))
    assert len(words) >= 6000
    assert lengths[2] >= 4300
    assert lengths[3] >= 1300
    assert lengths[4] >= 500
    assert set(lengths) == {2, 3, 4}


def test_every_relation_occurs_in_the_bundled_lexicon(bundled: list[Structure]) -> None:
    assert {relation for entry in bundled for relation in entry.relations} == {ROOT_LABEL, *RELATIONS}


def test_the_bundled_lexicon_is_sorted_so_that_a_word_is_easy_to_find(bundled: list[Structure]) -> None:
    forms = [entry.form for entry in bundled]
    assert forms == sorted(forms, key=lambda form: (len(form), form))


def test_the_bundled_lexicon_names_its_licence() -> None:
    text = (files("zishu") / "data" / "structures.txt").read_text(encoding="utf-8")
    assert "CC BY-SA 4.0" in text.split("\n\n")[0]


def test_frequent_words_have_two_characters_and_one_class() -> None:
    lines = (files("zishu") / "data" / "words.txt").read_text(encoding="utf-8").splitlines()
    listed = sum(len(line) // 2 - 1 for line in lines if not line.startswith("#"))
    words = words_in_text()
    assert len(words) == listed > 40_000
    assert all(len(word) == 2 and is_chinese(word) for word in words)
    assert set(words.values()) == set(range(1, CLASSES + 1))
    assert words["我们"] == words["中国"] == CLASSES


# The examples of docs/word-structure.md, as the page gives them.
EXAMPLES = """
火车 2:att 0
朋友 0 1:coo
毕业 0 1:obj
热爱 2:adv 0
提高 0 1:cmp
地震 2:sbj 0
人口 0 1:cls
老师 2:pre 0
桌子 0 1:suf
妈妈 0 1:red
葡萄 0 1:una
科学家 2:att 3:att 0
金融业 2:att 3:att 0
图书馆 3:att 1:coo 0
副总统 3:att 3:att 0
看不见 0 3:adv 1:cmp
绿油油 0 1:suf 2:red
巧克力 0 1:una 1:una
王昌龄 2:att 0 2:una
司马迁 3:att 1:una 0
李白 2:att 0
干干净净 0 1:red 1:coo 3:red
社会主义 4:att 1:coo 4:att 0
"""


@pytest.mark.parametrize("line", EXAMPLES.strip().split("\n"))
def test_the_examples_of_the_guidelines_are_in_the_bundled_lexicon(
    line: str, bundled: list[Structure]
) -> None:
    form, structure = line.split(" ", 1)
    assert structure in {str(entry).split(" ", 2)[2] for entry in bundled if entry.form == form}


def test_a_dependent_stands_on_the_side_its_relation_asks_for(bundled: list[Structure]) -> None:
    arcs = (arc for entry in bundled for arc in zip(range(1, 5), entry.heads, entry.relations, strict=False))
    assert all((relation in BEFORE) == (dependent < head) for dependent, head, relation in arcs if head)


@pytest.mark.parametrize(
    ("form", "arcs", "text"),
    [
        ("我", "0", "我"),
        ("吃饭", "0 1:obj", "[吃 饭] object"),
        ("火车站", "2:att 3:att 0", "[[火 车] 站] attribute"),
        ("图书馆", "3:att 1:coo 0", "[[图 书] 馆] attribute"),
        ("副总统", "3:att 3:att 0", "[副 [总 统]] attribute"),
        ("看不见", "0 3:adv 1:cmp", "[看 [不 见]] complement"),
        ("来得及", "0 1:suf 1:cmp", "[[来 得] 及] complement"),
        ("巧克力", "0 1:una 1:una", "[巧 克 力] unanalysable"),
        ("尼罗河", "3:att 1:una 0", "[[尼 罗] 河] attribute"),
        ("孩子们", "0 1:suf 1:suf", "[[孩 子] 们] suffix"),
        ("小猴子", "2:att 0 2:suf", "[小 [猴 子]] attribute"),
        ("无怪乎", "2:adv 0 2:suf", "[[无 怪] 乎] suffix"),
        ("干干净净", "0 1:red 1:coo 3:red", "[[干 干] [净 净]] coordination"),
        ("高高兴兴", "3:att 1:red 0 3:red", "[[高 高] [兴 兴]] attribute"),
        ("小星星", "2:att 0 2:red", "[小 [星 星]] attribute"),
        ("活动活动", "2:adv 0 4:adv 2:red", "[[活 动] [活 动]] reduplication"),
        ("王昌龄", "2:att 0 2:una", "[王 [昌 龄]] attribute"),
        ("社会主义", "4:att 1:coo 4:att 0", "[[社 会] [主 义]] attribute"),
        ("不吃饭", "2:adv 0 2:obj", "[不 [吃 饭]] adverbial"),
    ],
)
def test_word_formation_as_text(form: str, arcs: str, text: str) -> None:
    fields = [field.split(":") for field in arcs.split()]
    heads = [int(field[0]) for field in fields]
    relations = [field[1] if len(field) > 1 else "root" for field in fields]
    assert formation(list(form), heads, relations) == text
