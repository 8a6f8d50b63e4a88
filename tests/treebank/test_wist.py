"""The reader of annotated word structures: its results, and errors with file and line."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zishu.errors import FormatError
from zishu.forest import build_forest
from zishu.text import characters
from zishu.tree import INTRA, WordTree, is_projective
from zishu.treebank.wist import read_wist

if TYPE_CHECKING:
    from pathlib import Path

JINRONGYE = "1\t金\t2\tatt\n2\t融\t3\tatt\n3\t业\t0\troot\n"
FAZHAN = "1\t发\t0\troot\n2\t展\t1\tcoo\n"


def read(text: str) -> dict[str, tuple[int, ...]]:
    return read_wist(io.StringIO(text), name="words")


def test_a_word_becomes_its_heads() -> None:
    assert read(f"{JINRONGYE}\n{FAZHAN}\n") == {"金融业": (2, 3, 0), "发展": (0, 1)}


@pytest.mark.parametrize(
    "text",
    [
        f"{JINRONGYE}\n{FAZHAN}",  # no blank line at the end
        f"\n\n{JINRONGYE}\n\n\n{FAZHAN}\n\n",
        f"\ufeff{JINRONGYE}\n{FAZHAN}\n".replace("\n", "\r\n"),  # as the published file
        f"{JINRONGYE}\n{FAZHAN}\n{JINRONGYE}\n",  # the same word with the same tree
    ],
)
def test_blank_lines_line_ends_and_repetition_do_not_matter(text: str) -> None:
    assert read(text) == {"金融业": (2, 3, 0), "发展": (0, 1)}


def test_an_empty_file_has_no_words() -> None:
    assert read("") == {}


def test_a_path_is_read_and_named_in_errors(tmp_path: Path) -> None:
    path = tmp_path / "words.conll"
    path.write_bytes(f"{JINRONGYE}\n".encode())
    assert read_wist(path) == {"金融业": (2, 3, 0)}
    path.write_bytes(b"1\t\xff\t0\troot\n")
    with pytest.raises(FormatError, match=f"^{re.escape(str(path))}:1: not valid UTF-8"):
        read_wist(path)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("1 金 0 root\n", 1, "1 columns, expected 4"),
        ("1\t金\t0\n", 1, "3 columns, expected 4"),
        (f"{FAZHAN}\n1\t金\t0\troot\textra\n", 4, "5 columns, expected 4"),
        ("2\t金\t0\troot\n", 1, "character number '2', expected 1"),
        ("1\t金\t0\troot\n1\t融\t1\tatt\n", 2, "character number '1', expected 2"),
        ("1\t金融\t0\troot\n", 1, "'金融' is not one character"),
        ("1\t\t0\troot\n", 1, "'' is not one character"),
        ("1\t\u3000\t0\troot\n", 1, "is not one character"),
        ("1\t金\tx\troot\n", 1, "head 'x' is not a number"),
        ("1\t金\t-1\troot\n", 1, "head '-1' is not a number"),
        ("1\t金\t０\troot\n", 1, "head '０' is not a number"),
        (f"{FAZHAN}\n1\t金\t3\tatt\n2\t融\t0\troot\n", 4, "金融: character 1 has head 3, which is outside"),
        ("1\t金\t2\tatt\n2\t融\t1\tatt\n", 1, "金融: no character is the root"),
        ("1\t金\t0\troot\n2\t融\t0\troot\n", 1, "金融: characters 1, 2 are all roots"),
        ("1\t甲\t2\ta\n2\t乙\t1\ta\n3\t丙\t0\troot\n", 1, "甲乙丙: character 1 is its own ancestor"),
        ("1\t甲\t3\ta\n2\t乙\t4\ta\n3\t丙\t0\tr\n4\t丁\t3\ta\n", 1, "甲乙丙丁: the tree is not projective"),
        ("1\te\t0\troot\n2\t\u0301\t1\tatt\n", 1, "2 lines, but the word has 1 characters"),
        (f"{FAZHAN}\n1\t发\t2\tatt\n2\t展\t0\troot\n", 4, "发展: line 1 has a different structure"),
    ],
)
def test_what_no_forest_could_use_is_an_error_with_its_place(text: str, line: int, message: str) -> None:
    with pytest.raises(FormatError, match=re.escape(message)) as caught:
        read(text)
    assert (caught.value.path, caught.value.line) == ("words", line)


@st.composite
def structures(draw: st.DrawFn) -> dict[str, tuple[int, ...]]:
    """Draw words with the trees that a reader should accept, by filtering all head vectors."""
    forms = draw(st.lists(st.text("金融业发展中", min_size=1, max_size=4), unique=True, max_size=4))
    return {form: draw(st.sampled_from(ALL_TREES[len(form)])) for form in forms}


def _all_trees(n: int) -> list[tuple[int, ...]]:
    found = []
    for code in range((n + 1) ** n):
        heads = tuple(code // (n + 1) ** d % (n + 1) for d in range(n))
        # From every character, n steps up must lead to the one root and not run in a circle.
        ups = list(range(n + 1))
        for _ in range(n):
            ups = [heads[up - 1] if up else 0 for up in ups]
        if heads.count(0) == 1 and not any(ups) and is_projective(heads):
            found.append(heads)
    return found


ALL_TREES = {n: _all_trees(n) for n in range(1, 5)}


def test_the_trees_of_the_property_test_are_complete() -> None:
    assert [len(trees) for trees in ALL_TREES.values()] == [1, 2, 7, 30]  # projective trees of 1..4 nodes


@given(structures())
def test_what_is_written_is_read_again_and_suits_a_forest(expected: dict[str, tuple[int, ...]]) -> None:
    blocks = [
        "".join(
            f"{d}\t{char}\t{h}\tx\n" for d, (char, h) in enumerate(zip(form, heads, strict=True), start=1)
        )
        for form, heads in expected.items()
    ]
    found = read("\n".join(blocks))
    assert found == expected
    for form, heads in found.items():
        word = WordTree((form,), (0,), ("root",))
        forest = build_forest(word, {INTRA: 0, "root": 1}, policy="annotated", structures=found)
        arcs = list(zip(*forest.arcs(intra=True), strict=True))
        assert len(arcs) == len(characters(form)) - 1
        assert all(heads[d - 1] == h for d, h, _ in arcs)
