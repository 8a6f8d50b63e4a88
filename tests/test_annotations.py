"""Read annotations from CoNLL-U, from text with spaces, and from the page's JSON."""

from __future__ import annotations

import json

import pytest

import zishu
from forests import KINDS
from oracle import BREAK, FREE, JOIN
from zishu.annotations import partial_to_conllu, read_annotations
from zishu.arcs import ROOT_SPAN
from zishu.errors import FormatError, InputError
from zishu.partial import KnownWord


def write(tmp_path, name, text):
    (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path / name


def rows(*lines):
    """Make rows of CoNLL-U from 'form upos head deprel'."""
    made = []
    for number, line in enumerate(lines, start=1):
        form, upos, head, deprel = line.split()
        made.append(f"{number}\t{form}\t_\t{upos}\t_\t_\t{head}\t{deprel}\t_\t_")
    return "\n".join(made) + "\n\n"


def test_text_with_spaces_gives_words(tmp_path):
    trees, problems = read_annotations(write(tmp_path, "a.txt", "上海 计划\n\n发展　金融业\n"))
    assert [tree.chars for tree in trees] == [tuple("上海计划"), tuple("发展金融业")]
    assert trees[1].gaps[1:5].tolist() == [JOIN, BREAK, JOIN, JOIN]
    assert trees[1].source.endswith("a.txt:3")
    assert not problems


def test_conllu_leaves_open_what_it_does_not_say(tmp_path):
    text = rows("上海 PROPN 2 _", "计划 _ _ root", "发展 _ _ _")
    [tree], _ = read_annotations(write(tmp_path, "a.conllu", text))
    assert tree.words == (
        KnownWord((1, 3), (3, 5), None, {"upos": "PROPN"}),
        KnownWord((3, 5), None, "root"),
        KnownWord((5, 7)),
    )
    assert not tree.is_full


def test_a_comment_names_unknown_words(tmp_path):
    text = "# unknown_words = 2-3 4\n" + rows(
        "上海 _ 5 nsubj", "计 _ _ _", "划 _ _ _", "发展 _ _ _", "好 _ 0 root"
    )
    [tree], _ = read_annotations(write(tmp_path, "a.conllu", text))
    # Between the two stretches, 计划 and 发展, a word ends.
    assert tree.gaps[1:7].tolist() == [JOIN, BREAK, FREE, BREAK, FREE, BREAK]
    assert tree.words == (KnownWord((1, 3), (7, 8), "nsubj"), KnownWord((7, 8), ROOT_SPAN, "root"))


def test_features_are_known_where_the_part_of_speech_is(tmp_path):
    text = rows("他 PRON 2 nsubj", "来 VERB 0 root", "了 _ 2 _").replace("PRON\t_\t_", "PRON\t_\tPerson=3")
    [tree], _ = read_annotations(write(tmp_path, "a.conllu", text))
    assert [dict(word.tags) for word in tree.words] == [
        {"upos": "PRON", "feats": "Person=3"},
        {"upos": "VERB", "feats": "_"},
        {},
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (rows("上海 _ 2 _", "计划 _ 1 _"), "cycle"),
        (rows("上海 _ 0 _", "计划 _ 0 _"), "two roots"),
        (rows("上 _ 3 _", "海 _ 4 _", "计 _ _ _", "划 _ _ _"), "1:3 and 2:4 cross"),
        ("# unknown_words = 1\n" + rows("上海 _ 2 _", "计划 _ _ _"), "word 1 has a head"),
        ("# unknown_words = 1\n" + rows("上海 _ _ _", "计划 _ 1 _"), "the head of word 2 is word 1"),
    ],
)
def test_contradictions_are_told_with_their_place_and_left_out(tmp_path, text, message):
    good = rows("上海 _ _ _", "计划 _ 0 root")
    trees, problems = read_annotations(write(tmp_path, "a.conllu", good + text + good))
    assert len(trees) == 2
    [problem] = problems
    assert "a.conllu:4: " in problem
    assert message in problem


@pytest.mark.parametrize("comment", ["x", "0", "2-9", "2-1", "1 1-2"])
def test_a_comment_that_breaks_the_format_is_an_error(tmp_path, comment):
    text = f"# unknown_words = {comment}\n" + rows("上海 _ _ _", "计划 _ _ _")
    with pytest.raises(FormatError, match="unknown_words"):
        read_annotations(write(tmp_path, "a.conllu", text))


def test_a_parse_as_json_is_known_completely(tmp_path):
    document = zishu.load("fast")("上海计划发展金融业。他来了。")
    trees, _ = read_annotations(write(tmp_path, "a.jsonl", document.to_json()))
    assert [tree.is_full for tree in trees] == [True, True]
    first = document.sentences[0]
    assert [tree.form(word.span) for tree in trees[:1] for word in tree.words] == [w.form for w in first]
    assert [word.deprel for word in trees[0].words] == [word.deprel for word in first]


def test_of_the_pages_json_only_what_is_listed_is_known(tmp_path):
    known = {
        "pins": [[0, 2], [2, 4]],
        "breaks": [6],
        "arcs": [[0, 2, "nsubj"], [2, None, None]],
        "tags": [[2, "VERB"]],
    }
    line = json.dumps({"text": "上海计划发展金融业", "words": "whatever", "known": known})
    [tree], _ = read_annotations(write(tmp_path, "a.json", line + "\n"))
    assert tree.gaps[1:9].tolist() == [JOIN, BREAK, JOIN, BREAK, FREE, BREAK, FREE, FREE]
    assert tree.words == (
        KnownWord((1, 3), (3, 5), "nsubj"),
        KnownWord((3, 5), ROOT_SPAN, None, {"upos": "VERB"}),
    )


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"text": "上海", "known": {"pins": [[0, 9]]}}, "pin 0:9 is out of range"),
        ({"text": "上海", "known": {"tags": [[0, "X"]]}}, "needs a pinned word"),
        ({"text": "上海", "known": {"pin": []}}, "has the key 'pin'"),
        ({"text": 1, "known": {}}, "needs the keys"),
        ({"words": []}, "at least one word"),
    ],
)
def test_bad_records_are_told_with_their_line(tmp_path, record, message):
    _, [problem] = read_annotations(write(tmp_path, "a.jsonl", f"\n{json.dumps(record)}\n"))
    assert "a.jsonl:2: " in problem
    assert message in problem


def test_no_json_and_no_sentence_are_errors(tmp_path):
    with pytest.raises(FormatError, match="not JSON"):
        read_annotations(write(tmp_path, "a.json", "上海\n"))
    with pytest.raises(InputError, match="no sentences found"):
        read_annotations(write(tmp_path, "a.txt", "\n"))


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_written_is_read_back(tmp_path, kind):
    tree = KINDS[kind]
    [found], _ = read_annotations(write(tmp_path, "a.conllu", partial_to_conllu(tree, sent_id="1")))
    assert found.chars == tree.chars
    known = {word.span: word for word in found.words}
    for word in tree.words:
        assert known.pop(word.span) == word
    assert all(word == KnownWord(span) for span, word in known.items())
    if kind != "inside one word":  # which CoNLL-U cannot express
        assert found.gaps.tolist() == tree.gaps.tolist()
