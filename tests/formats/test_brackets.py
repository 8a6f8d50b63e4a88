"""Bracketed trees: valid input, errors with their location, and bad sentences that do not affect the others."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zishu.errors import FormatError, InputError
from zishu.formats import brackets
from zishu.formats.brackets import Tree, format_tree, open_text, read_brackets, remove_empty

GOOD = "( (IP (NP-SBJ (PN 我)) (VP (VV 来))) )"
GOOD_TREE = Tree("IP", (Tree("NP-SBJ", (Tree("PN", word="我"),)), Tree("VP", (Tree("VV", word="来"),))))


def read(text: str | bytes, **options):
    data = text if isinstance(text, bytes) else text.encode()
    return list(read_brackets(io.BytesIO(data), name="f", **options))


def read_all(text: str | bytes, **options):
    """Return the words of the trees with their numbers and lines, and the errors."""
    errors = []
    items = read(text, on_error=errors.append, **options)
    words = [(item.number, item.line, "".join(leaf.word for leaf in item.tree.leaves())) for item in items]
    return words, [str(error) for error in errors]


def test_the_nameless_bracket_around_a_tree_is_dropped():
    (item,) = read(GOOD)
    assert item.tree == GOOD_TREE
    assert (item.path, item.line, item.number, item.sentence_id) == ("f", 1, 1, None)


@pytest.mark.parametrize("text", ["(IP (VP (VV 来)))", "((IP (VP (VV 来))))", "(\n(IP(VP(VV 来))))\r\n"])
def test_white_space_and_the_outer_bracket_do_not_matter(text):
    (item,) = read(text)
    assert item.tree == Tree("IP", (Tree("VP", (Tree("VV", word="来"),)),))


def test_a_nameless_bracket_around_two_trees_stays():
    (item,) = read("( (NP (NN 书)) (PU 。) )")
    assert (item.tree.label, len(item.tree.children)) == ("", 2)
    assert read(format_tree(item.tree))[0].tree == item.tree


def test_trees_over_several_lines_and_several_on_one_line():
    text = "\n( (IP (NP (PN 我))\n      (VP (VV 来))) )\n\n(NP (NN 甲)) (NP (NN 乙))\n(NP\n(NN 丙))\n"
    assert read_all(text) == ([(1, 2, "我来"), (2, 5, "甲"), (3, 5, "乙"), (4, 6, "丙")], [])


def test_sgml_is_read_past_and_names_the_sentences():
    text = (
        "<DOC>\n<DOCID> ABC(1) </DOCID>\n<HEADER>\n<DATE>\n2001 年\n</DATE>\n</HEADER>\n<BODY>\n<HEADLINE>\n"
        f'<S ID=12>\n{GOOD}\n</S>\n</HEADLINE>\n<P>\n<S ID="13">\n( (NP (NN 书)) )\n</S>\n</P>\n</BODY>\n</DOC>\n'
        "<s id=x> (NP (NN 笔)) </s>\n(NP (NN 墨))\n"
    )
    errors = []
    items = read(text, on_error=errors.append)
    assert errors == []
    assert [(item.line, item.sentence_id) for item in items] == [
        (11, "12"),
        (16, "13"),
        (21, "x"),
        (22, None),
    ]


def test_a_word_may_look_like_sgml_inside_brackets():
    (item,) = read("<S ID=1>\n( (NP (PU <b>)\n(PU <)) )\n</S>")
    assert [leaf.word for leaf in item.tree.leaves()] == ["<b>", "<"]


BAD = [
    ("( (IP (VP (VV 来)) )", "f:1: a bracket of the tree that begins here is not closed"),
    ("( (IP (VP (VV 来)))) )", "f:1: a closing bracket too many"),
    ("( (IP (NP) (VP (VV 来))) )", "f:1: the bracket of NP is empty"),
    ("( (IP () (VP (VV 来))) )", "f:1: an empty bracket"),
    ("( (IP ((VP (VV 来)))) )", "f:1: a bracket without a label"),
    ("( (IP (VV 来 去)) )", "f:1: two words in one bracket: 来 去"),
    ("( (IP (VV 来　去)) )", "f:1: two words in one bracket: 来 去"),
    ("( (IP 来 (VP (VV 去))) )", "f:1: the word 来 is next to a bracket"),
    ("( (IP (VP (VV 去)) 来) )", "f:1: the word 来 is next to a bracket"),
    ("( (IP (VP (VV 去))) 来 )", "f:1: the word 来 is next to a bracket"),
    ("IP (VP (VV 来)))", "f:1: text outside brackets"),
    (") (IP (VP (VV 来)))", "f:1: a closing bracket too many"),
    ("()", "f:1: an empty bracket"),
    ("(" * 201 + "X" + ")" * 201, "f:1: a bracket without a label"),
    ("(X " * 201 + "(Y y)" + ")" * 201, "f:1: brackets are nested more than 200 deep"),
]


@pytest.mark.parametrize(("text", "message"), BAD)
def test_a_malformed_tree_is_raised_with_file_and_line(text, message):
    with pytest.raises(FormatError) as caught:
        read(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(("bad", "message"), BAD)
@pytest.mark.parametrize(
    "frame",
    [
        "{good}\n{bad}\n{good}\n",
        "{good}\n{bad}\n(NP (NN 书))\n",
        "<S ID=1>\n{good}\n</S>\n<S ID=2>\n{bad}\n</S>\n<S ID=3>\n{good}\n</S>\n",
        "<S ID=1> {good} </S>\n<S ID=2> {bad} </S>\n<S ID=3>\n{good}\n</S>\n",
    ],
)
def test_one_bad_sentence_costs_one_sentence(frame, bad, message):
    text = frame.format(good=GOOD, bad=bad)
    line = text[: text.index(bad, text.index(GOOD) + len(GOOD))].count("\n") + 1
    words, errors = read_all(text)
    assert [number for number, _, _ in words] == [1, 3]
    assert errors == [message.replace("f:1:", f"f:{line}:")]


def test_the_line_of_an_error_inside_a_tree_is_its_own():
    assert read_all("\n( (IP (NP (NN 书))\n      (VP)) )\n")[1] == ["f:3: the bracket of VP is empty"]


def test_an_unclosed_tree_without_outer_brackets_gives_back_the_trees_it_swallowed():
    text = "(IP (NP (NN 甲))\n    (VP (VV 看))\n(IP (VP (VV 来)))\n(NP (NN 书))\n"
    assert read_all(text) == (
        [(2, 3, "来"), (3, 4, "书")],
        ["f:1: a bracket of the tree that begins here is not closed"],
    )


def test_lines_that_are_not_indented_are_never_taken_for_trees_of_their_own():
    whole = "(IP\n(NP (NN 甲))\n(VP (VV 看)))\n"
    broken = "(IP\n(NP (NN 乙))\n(VP (VV 看))\n"
    words, errors = read_all(whole + broken)
    assert words == [(1, 1, "甲看")]
    assert errors == ["f:4: a bracket of the tree that begins here is not closed"]


def test_a_tree_without_an_end_is_given_up_in_bounded_memory(monkeypatch):
    monkeypatch.setattr(brackets, "MAX_LINES", 5)
    text = "(IP (NP (NN 甲))\n" + "    (VP (VV 看))\n" * 20 + "(NP (NN 书))\n"
    words, errors = read_all(text)
    assert words == [(2, 22, "书")]
    assert len(errors) == 1


def test_a_missing_end_tag_loses_nothing():
    assert read_all(f"<S ID=1>\n( (IP (NN 甲)\n<S ID=2>\n{GOOD}\n")[0] == [(2, 4, "我来")]


@given(st.text(alphabet="()<>S/ \nNP上", max_size=60))
def test_any_text_is_read_or_refused(text):
    words, errors = read_all(text)
    numbers = [number for number, _, _ in words]
    assert numbers == sorted(set(numbers))
    assert not numbers or numbers[-1] <= len(words) + len(errors)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, len(GOOD) - 1)), min_size=1, max_size=6))
def test_sentences_between_tags_never_touch_one_another(plan):
    """Remove one character from some of the sentences: all the others are still read."""
    lines, intact = [], []
    for number, (cut, position) in enumerate(plan, start=1):
        text = GOOD[:position] + GOOD[position + 1 :] if cut else GOOD
        lines.append(f"<S ID={number}>\n{text}\n</S>\n")
        intact += [] if cut else [str(number)]
    items = read("".join(lines), on_error=lambda error: None)
    by_id = {item.sentence_id: item.tree for item in items}
    assert len(items) == len(by_id)
    assert all(by_id[number] == GOOD_TREE for number in intact)


def test_utf8_and_gb18030_are_told_apart():
    text = "( (IP (NP (NN 联通)) (VP (VV 发展))) )\n"
    for encoding in ("utf-8", "utf-8-sig", "gbk", "gb18030"):
        assert read_all(text.encode(encoding)) == ([(1, 1, "联通发展")], [])
    for encoded, encoding in (text.encode("gbk"), "gb18030"), (b"", "utf-8"):
        with open_text(io.BytesIO(encoded)) as opened:
            assert opened.encoding == encoding


def test_a_given_encoding_is_obeyed():
    data = GOOD.encode("utf-16")
    assert read_all(data, encoding="utf-16") == ([(1, 1, "我来")], [])
    with pytest.raises(InputError, match="unknown encoding 'klingon'"):
        read(GOOD, encoding="klingon")


def test_a_wrong_encoding_spoils_only_the_sentences_that_need_another():
    data = "(NP (NN abc))\n(NP (NN 书))\n(NP (NN def))\n".encode("gbk")
    words, errors = read_all(data, encoding="utf-8")
    assert [word for _, _, word in words] == ["abc", "def"]
    assert errors == ["f:2: not valid utf-8: 0xca"]


def test_one_broken_byte_does_not_turn_a_file_into_another_encoding():
    data = "(NP (NN 书本))\n(NP (NN 铅笔))\n(NP (NN 墨水))\n".encode()
    position = data.index("铅".encode())
    data = data[:position] + b"\xff" + data[position + 1 :]
    words, errors = read_all(data)
    assert [word for _, _, word in words] == ["书本", "墨水"]
    assert errors == ["f:2: not valid utf-8: 0xff"]


def test_a_path_and_a_stream_that_cannot_seek(tmp_path):
    path = tmp_path / "trees.txt"
    path.write_text(GOOD, encoding="utf-8")
    (item,) = read_brackets(path)
    assert (item.tree, item.path) == (GOOD_TREE, str(path))

    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

    assert [item.tree for item in read_brackets(Pipe(GOOD.encode()))] == [GOOD_TREE]


def test_a_stream_is_left_open_even_by_a_reader_that_stops_early():
    stream = io.BytesIO((GOOD + "\n").encode() * 3)
    reader = read_brackets(stream)
    next(reader)
    reader.close()
    assert not stream.closed


def test_reading_is_lazy(tmp_path):
    """The first tree comes before the last lines are parsed."""
    reader = read_brackets(io.BytesIO((GOOD + "\n" + ") bad").encode()))
    assert next(reader).tree == GOOD_TREE
    with pytest.raises(FormatError):
        next(reader)


@pytest.mark.parametrize(
    ("label", "category", "functions"),
    [
        ("NP", "NP", set()),
        ("NP-SBJ", "NP", {"SBJ"}),
        ("NP-PN-SBJ-1", "NP", {"PN", "SBJ"}),
        ("NP=2", "NP", set()),
        ("IP-CND=3", "IP", {"CND"}),
        ("NN-SHORT", "NN", {"SHORT"}),
        ("-NONE-", "-NONE-", set()),
        ("", "", set()),
    ],
)
def test_labels_are_taken_apart(label, category, functions):
    node = Tree(label, word="x")
    assert (node.category, node.functions) == (category, functions)


def test_empty_elements_go_with_every_node_that_they_leave_empty():
    (item,) = read(
        "( (IP (NP-SBJ (-NONE- *pro*)) (VP (VV 来) (CP (WHNP-1 (-NONE- *OP*)) (CP (IP (NP (-NONE- *T*-1)))))))  )"
    )
    assert remove_empty(item.tree) == Tree("IP", (Tree("VP", (Tree("VV", word="来"),)),))
    (item,) = read("( (IP (NP-SBJ (-NONE- *pro*))) )")
    assert remove_empty(item.tree) is None
    assert remove_empty(GOOD_TREE) == GOOD_TREE


def test_a_node_has_children_or_a_word():
    with pytest.raises(InputError, match="children or a word"):
        Tree("NP")
    with pytest.raises(InputError, match="children or a word"):
        Tree("NP", (Tree("NN", word="书"),), "书")
