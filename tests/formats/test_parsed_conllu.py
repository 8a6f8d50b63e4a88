from __future__ import annotations

import io
import re
import sys
import tracemalloc
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given

from parsed_sentences import SHANGHAI, parsed, sentences
from zishu.errors import InputError
from zishu.formats.conllu import ConlluSentence, read_conllu
from zishu.formats.parsed_conllu import to_chars_conllu, to_conllu
from zishu.tree import CharTree, recover

if TYPE_CHECKING:
    from zishu.document import Sentence


def read(block: str) -> ConlluSentence:
    (sentence,) = read_conllu(io.StringIO(block, newline="\n"), dialect="u")
    return sentence


def misc(value: str) -> dict[str, str]:
    return dict(part.split("=", 1) for part in value.split("|"))


def unescape(space: str) -> str:
    names = {"s": " ", "t": "\t", "n": "\n", "r": "\r"}
    return re.sub(
        r"\\(?:u([0-9a-f]{4})|([stnr]))", lambda m: chr(int(m[1], 16)) if m[1] else names[m[2]], space
    )


def rebuilt(sentence: ConlluSentence) -> str:
    """Put forms and white space together again."""
    text = ""
    for token in sentence.tokens:
        values = misc(token.misc)
        space = "" if values.get("SpaceAfter") == "No" else unescape(values.get("SpacesAfter", r"\s"))
        text += token.form + space
    return text


def test_words() -> None:
    block = to_conllu(SHANGHAI, sent_id="doc-1", rank=2)
    lines = block.split("\n")
    assert lines[:4] == [
        "# sent_id = doc-1",
        "# text = 上海计划发展金融业。",
        "# prob = 0.001235",
        "# rank = 2",
    ]
    assert lines[7] == (
        "4\t金融业\t_\tNOUN\t_\t_\t3\tobj\t_\t"
        "CharHeads=3,1,0|Conf=0.2100|ConfWord=0.5000|ConfHead=0.6000|ConfLabel=0.7000|Start=9|End=12|SpaceAfter=No"
    )
    assert lines[-2:] == ["", ""]
    assert read(block).tree() == SHANGHAI.tree


def test_characters() -> None:
    block = to_chars_conllu(SHANGHAI, sent_id="1")
    rows = [line.split("\t") for line in block.split("\n") if "\t" in line]
    assert [(row[1], row[3], row[6], row[7]) for row in rows] == [
        ("上", "_", "2", "INTRA"),
        ("海", "PROPN", "4", "nsubj"),
        ("计", "_", "4", "INTRA"),
        ("划", "VERB", "0", "root"),
        ("发", "VERB", "4", "ccomp"),
        ("展", "_", "5", "INTRA"),
        ("金", "_", "9", "INTRA"),
        ("融", "_", "7", "INTRA"),
        ("业", "NOUN", "5", "obj"),
        ("。", "PUNCT", "4", "punct"),
    ]
    assert [misc(row[9])["Place"] for row in rows] == list("BEBEBEBMES")
    assert [misc(row[9])["Word"] for row in rows] == list("1122334445")
    assert rows[7][9] == "Word=4|Place=M|Start=10|End=11|SpaceAfter=No"
    assert rows[8][9] == "Word=4|Place=E|Conf=0.2100|Start=11|End=12|SpaceAfter=No"


def test_what_is_not_known_is_left_out() -> None:
    row = to_conllu(parsed([("_", None, 0, "root", None)]), sent_id="1").split("\n")[2]
    assert row == "1\t_\t_\t_\t_\t_\t0\troot\t_\tStart=0|End=1|SpaceAfter=No"


def test_a_cut_sentence_says_so() -> None:
    assert "\n# cut = yes\n" in to_conllu(parsed([("好", "ADJ", 0, "root", (0,))], cut=True), sent_id="1")


def test_white_space_follows_ud() -> None:
    rows = [(form, "X", i, "dep", (0,)) for i, form in enumerate("甲乙丙丁戊己")]
    sentence = parsed(rows, spaces=["", " ", "  ", "\t", "\n\u3000"], after="\r\n")
    block = to_conllu(sentence, sent_id="1")
    spaces = [line.partition("|End=")[2].partition("|")[2] for line in block.split("\n") if "\t" in line]
    assert spaces == [
        "SpaceAfter=No",
        "",
        r"SpacesAfter=\s\s",
        r"SpacesAfter=\t",
        r"SpacesAfter=\n\u3000",
        r"SpacesAfter=\r\n",
    ]
    # One space for each character that a comment cannot contain: offsets remain valid.
    assert "# text = 甲乙 丙  丁 戊 \u3000己\n" in block


@given(sentences())
def test_words_read_back(sentence: Sentence) -> None:
    again = read(to_conllu(sentence, sent_id="1"))
    assert [token.form for token in again.tokens] == [word.form for word in sentence.words]
    assert [token.head for token in again.tokens] == [word.head for word in sentence.words]
    assert [token.deprel for token in again.tokens] == [word.deprel for word in sentence.words]
    assert rebuilt(again) == sentence.text + sentence.after
    assert len(again.text) == len(sentence.text)
    for token, word in zip(again.tokens, sentence.words, strict=True):
        values = misc(token.misc)
        assert (int(values["Start"]), int(values["End"])) == (word.start, word.end)
        heads = None if word.char_heads is None else ",".join(map(str, word.char_heads))
        assert values.get("CharHeads") == heads
        assert ("Conf" in values) == (word.prob is not None)


@given(sentences())
def test_characters_read_back(sentence: Sentence) -> None:
    again = read(to_chars_conllu(sentence, sent_id="1"))
    assert rebuilt(again) == sentence.text + sentence.after
    tree = CharTree(
        tuple(token.form for token in again.tokens),
        tuple(token.head or 0 for token in again.tokens),
        tuple(token.deprel for token in again.tokens),
    )
    assert tree == sentence.char_tree
    for token in again.tokens:
        values = misc(token.misc)
        start = int(values["Start"]) - sentence.start
        assert sentence.text[start : int(values["End"]) - sentence.start] == token.form
    if all(word.char_heads is not None for word in sentence.words):
        recovery = recover(tree)
        assert recovery.tree.forms == sentence.tree.forms
        assert recovery.tree.heads == sentence.tree.heads
        assert recovery.char_heads == tuple(word.char_heads for word in sentence.words)


@pytest.mark.parametrize("form", ["a\tb", "a\nb", "a\rb"])
def test_a_form_that_breaks_the_format_is_an_error(form: str) -> None:
    with pytest.raises(InputError, match="CoNLL-U cannot represent"):
        to_conllu(parsed([(form, "X", 0, "root", (2, 3, 0))]), sent_id="1")


def test_other_values_that_break_the_format_are_errors() -> None:
    with pytest.raises(InputError, match="CoNLL-U cannot represent"):
        to_conllu(SHANGHAI, sent_id="1\n2")
    with pytest.raises(InputError, match="CoNLL-U cannot represent"):
        to_conllu(parsed([("好", "X", 0, "", (0,))]), sent_id="1")
    with pytest.raises(InputError, match="white space"):
        to_conllu(replace(SHANGHAI, after="x"), sent_id="1")


def test_relations_inside_words_are_subtypes_of_intra() -> None:
    word = replace(SHANGHAI.words[3], char_rels=("att", "coo", "root"), structure_prob=0.75)
    sentence = replace(SHANGHAI, words=(*SHANGHAI.words[:3], word, *SHANGHAI.words[4:]))
    row = to_conllu(sentence, sent_id="1").splitlines()[6]
    assert "CharHeads=3,1,0|CharRels=att,coo,root|" in row
    assert "|ConfStructure=0.7500|" in row
    rows = [line.split("\t") for line in to_chars_conllu(sentence, sent_id="1").splitlines() if "\t" in line]
    assert [row[7] for row in rows] == [
        *("INTRA", "nsubj", "INTRA", "root", "ccomp", "INTRA"),
        *("INTRA:att", "INTRA:coo", "obj"),
        "punct",
    ]


def test_white_space_of_any_length_takes_little_memory() -> None:
    after = "\n \u3000\t" * 50_000
    sentence = replace(SHANGHAI, after=after)
    to_conllu(sentence, sent_id="1")
    tracemalloc.start()
    found = to_conllu(sentence, sent_id="1")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert unescape(misc(read(found).tokens[-1].misc)["SpacesAfter"]) == after
    assert peak < 7 * len(found)  # a list of pieces takes more


def test_all_white_space_has_an_escape() -> None:
    space = "".join(filter(str.isspace, map(chr, range(sys.maxunicode + 1))))
    found = misc(read(to_conllu(replace(SHANGHAI, after=space), sent_id="1")).tokens[-1].misc)["SpacesAfter"]
    assert found.isascii()
    assert unescape(found) == space
