"""CoNLL-U and CoNLL-X: exact round trips, one clear error for each malformed line, streaming."""

from __future__ import annotations

import gzip
import io
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zishu.errors import FormatError, InputError, InvalidTree
from zishu.formats.conllu import (
    ConlluSentence,
    ConlluToken,
    Extra,
    format_sentence,
    from_tree,
    read_conllu,
    trees_of,
    write_conllu,
)
from zishu.tree import WordTree

# Repeated comments without a value, odd spacing, a range, empty nodes at three positions, unsorted features, `=` inside
# a MISC value, a U+2028 inside a word: everything must be preserved.
RICH = """\
# newdoc
# sent_id = a-1
# text = 我喜欢duel。
#no space
# note = 1
# note = 2
0.1\t_\t_\t_\t_\t_\t_\t_\t0:root\t_
1\t我\t我\tPRON\tPN\t_\t2\tnsubj\t2:nsubj|3:nsubj\tSpaceAfter=No
2\t喜欢\t喜欢\tVERB\tVV\tB=1|A=2\t0\troot\t_\tSpaceAfter=No|CharHeads=2,0|Url=a=b
2.1\tx\t_\t_\t_\t_\t_\t_\t_\t_
2.2\ty\t_\t_\t_\t_\t_\t_\t_\tCopy=Yes
3-4\tduel\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No
3\tdu\u2028\t_\t_\t_\t_\t4\tdet\t_\t_
4\tel\t_\tNOUN\t_\t_\t2\tobj\t_\t_
5\t。\t。\tPUNCT\tPU\t_\t2\tpunct\t_\tSpaceAfter=No

"""
PLAIN = """\
1\t上海\t_\tNR\tNR\t_\t2\tSUB\t_\t_
2\t发展\t_\tVV\tVV\t_\t0\tROOT\t_\t_

"""
PROJECTED = """\
1\t上海\t_\tNR\tNR\t_\t2\tSUB\t2\tSUB
2\t发展\t_\tVV\tVV\t_\t0\tROOT\t0\tROOT

1\t好\t_\tVA\tVA\t_\t_\t_\t_\t_

"""


def read(text: str, **options) -> list[ConlluSentence]:
    return list(read_conllu(io.BytesIO(text.encode()), **options))


def write(sentences) -> str:
    stream = io.StringIO()
    write_conllu(sentences, stream)
    return stream.getvalue()


def row(identifier="1", form="字", head="0", deprel="root", misc="_") -> str:
    return f"{identifier}\t{form}\t_\t_\t_\t_\t{head}\t{deprel}\t_\t{misc}\n"


# --- round trips


@pytest.mark.parametrize("text", [RICH, PLAIN, PROJECTED, RICH + PLAIN + RICH, ""])
def test_writing_gives_back_the_very_bytes(text):
    assert write(read(text)) == text


def test_the_columns_arrive_in_their_fields():
    (sentence,) = read(RICH)
    assert sentence.tokens[1] == ConlluToken(
        2, "喜欢", "喜欢", "VERB", "VV", "B=1|A=2", 0, "root", "_", "SpaceAfter=No|CharHeads=2,0|Url=a=b"
    )
    assert [token.form for token in sentence.tokens] == ["我", "喜欢", "du\u2028", "el", "。"]
    assert [extra.before for extra in sentence.extras] == [0, 2, 2, 2]
    assert sentence.sent_id == "a-1"
    assert sentence.comment("note") == "1"
    assert sentence.comment("absent") is None


@pytest.mark.parametrize(
    "text",
    [
        PLAIN.removesuffix("\n"),
        PLAIN.removesuffix("\n\n"),
        PLAIN + "\n\n",
        "\n\n" + PLAIN,
        PLAIN.replace("\n", "\r\n"),
        "\ufeff" + PLAIN,
    ],
)
def test_line_ends_and_blank_lines_are_normalised(text):
    assert write(read(text)) == PLAIN


def test_a_path_a_gzip_file_and_streams_read_alike(tmp_path):
    plain = tmp_path / "a.conllu"
    plain.write_bytes(RICH.encode())
    packed = tmp_path / "a.conllu.gz"
    packed.write_bytes(gzip.compress(RICH.encode()))
    expected = read(RICH)
    assert list(read_conllu(plain)) == expected
    assert list(read_conllu(str(plain))) == expected
    assert list(read_conllu(packed)) == expected
    with plain.open(encoding="utf-8") as stream:
        assert list(read_conllu(stream)) == expected


# A column may contain anything but tabs, line breaks and lone surrogates, including white space and NUL.
values = st.text(st.characters(codec="utf-8", exclude_characters="\t\n\r"), min_size=1, max_size=6)
comment_lines = st.text(st.characters(codec="utf-8", exclude_characters="\n\r"), max_size=12).map("#".__add__)


@st.composite
def sentences(draw) -> ConlluSentence:
    size = draw(st.integers(1, 6))
    sentence = ConlluSentence(draw(st.lists(comment_lines, max_size=3)))
    range_end = 0
    for index in range(size + 1):
        identifiers = []
        if index and draw(st.booleans()):
            identifiers += [f"{index}.{rank}" for rank in range(1, draw(st.integers(2, 3)))]
        if range_end <= index < size and draw(st.booleans()):
            range_end = draw(st.integers(index + 1, size))
            identifiers.append(f"{index + 1}-{range_end}")
        for identifier in identifiers:
            columns = [identifier, *draw(st.lists(values, min_size=9, max_size=9))]
            sentence.extras.append(Extra(index, "\t".join(columns)))
        if index < size:
            form, lemma, upos, xpos, feats, deprel, deps, misc = draw(st.tuples(*[values] * 8))
            head = draw(st.none() | st.integers(0, size))
            token = ConlluToken(index + 1, form, lemma, upos, xpos, feats, head, deprel, deps, misc)
            sentence.tokens.append(token)
    return sentence


@given(st.lists(sentences(), max_size=3))
def test_whatever_is_written_is_read_back(written):
    # A sentence without comments could pass for CoNLL-X, hence the explicit dialect.
    text = write(written)
    assert read(text, dialect="u") == written
    assert write(read(text)) == text


@pytest.mark.parametrize("value", ["", "a\tb", "a\nb", "a\rb"])
@pytest.mark.parametrize("column", ["form", "feats", "misc"])
def test_a_value_that_would_not_read_back_is_refused(column, value):
    token = ConlluToken(1, "字", head=0, deprel="root")
    setattr(token, column, value)
    stream = io.StringIO()
    with pytest.raises(InputError):
        write_conllu([ConlluSentence([], [token])], stream)
    assert stream.getvalue() == ""


def test_a_comment_with_a_line_break_is_refused():
    with pytest.raises(InputError, match="line break"):
        format_sentence(ConlluSentence(["# a\nb"], [ConlluToken(1, "字")]))


# --- malformed input: one error, with file and line

MALFORMED = {
    "nine columns": (row().replace("\t_\n", "\n"), 1, "expected 10 columns separated by tabs, found 9"),
    "eleven columns": (row(misc="_\t_"), 1, "expected 10 columns separated by tabs, found 11"),
    "spaces for tabs": (
        row() + row("2").replace("\t", " "),
        2,
        "expected 10 columns separated by tabs, found 1",
    ),
    "blank line of spaces": (row() + " \n", 2, "expected 10 columns separated by tabs, found 1"),
    "empty form": (row(form=""), 1, "column 2 (FORM) is empty: write _ for no value"),
    "empty misc": (row(misc=""), 1, "column 10 (MISC) is empty: write _ for no value"),
    "id is a word": (row("x"), 1, "the id 'x' is not a word (1), range (1-2) or empty node (1.1)"),
    "id with a zero": (row("01"), 1, "the id '01' is not a word (1), range (1-2) or empty node (1.1)"),
    "full-width id": (row("１"), 1, "the id '１' is not a word (1), range (1-2) or empty node (1.1)"),
    "negative id": (row("-1"), 1, "the id '-1' is not a word (1), range (1-2) or empty node (1.1)"),
    "starts at 2": (row("2"), 1, "expected word 1, found word 2"),
    "a word is missing": (row() + row("3", head="1"), 2, "expected word 2, found word 3"),
    "a word twice": (row() + row("1", head="1"), 2, "expected word 2, found word 1"),
    "no blank line between": (row() + row("2", head="1") + row(), 3, "expected word 3, found word 1"),
    "id beyond the table": (row("1000"), 1, "expected word 1, found word 1000"),
    "head is a word": (row(head="root"), 1, "the head 'root' is not a number"),
    "negative head": (row(head="-1"), 1, "the head '-1' is not a number"),
    "head is a fraction": (row(head="1.1"), 1, "the head '1.1' is not a number"),
    "head beyond the end": (
        "# c\n" + row("1-2") + row() + row("2", head="3"),
        4,
        "the head 3 is out of range: the sentence has 2 words",
    ),
    "huge head": (row(head="9" * 30), 1, f"the head '{'9' * 30}' is not a number"),
    "range beyond the end": (
        row() + row("2-3") + row("2", head="1"),
        2,
        "the range 2-3 exceeds the sentence, which has 2 words",
    ),
    "range out of place": (row() + row("1-2"), 2, "the range 1-2 stands before word 2, not before word 1"),
    "range backwards": (row() + row("2-1"), 2, "the range 2-1 ends before it begins"),
    "ranges overlap": (
        row("1-2") + row() + row("2-3") + row("2") + row("3"),
        3,
        "the range 2-3 overlaps an earlier one",
    ),
    "empty node out of place": (row() + row("2.1"), 2, "expected the empty node 1.1 here, found 2.1"),
    "empty node twice": (row() + row("1.1") + row("1.1"), 3, "expected the empty node 1.2 here, found 1.1"),
    "comment inside": (
        row() + "# c\n",
        2,
        "a comment inside a sentence: comments come before the first word",
    ),
    "only comments": ("# a\n# b\n\n" + row(), 1, "a sentence without words"),
    "only an empty node": (row("0.1"), 1, "a sentence without words"),
}


@pytest.mark.parametrize(("text", "line", "message"), MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_line_is_named(text, line, message):
    # A good sentence first: lines are counted in the file, not in the sentence.
    before = 4
    with pytest.raises(FormatError) as caught:
        read("# text = 字\n" + row() + "\n\n" + text + "\n", name="bad.conllu")
    assert str(caught.value) == f"bad.conllu:{line + before}: {message}"
    assert (caught.value.path, caught.value.line) == ("bad.conllu", line + before)


def test_the_error_names_the_path(tmp_path):
    path = tmp_path / "x.conllu"
    path.write_text("1\n", encoding="utf-8")
    with pytest.raises(FormatError, match="expected 10 columns") as caught:
        list(read_conllu(path))
    assert str(caught.value).startswith(f"{path}:1: ")


def test_crlf_lines_count_once():
    with pytest.raises(FormatError, match=r"^<input>:4: "):
        read((row() + "\n" + row() + "x\n").replace("\n", "\r\n"))


def test_broken_utf8_is_named_by_line_and_byte():
    data = (row() + "\n" + row()).encode().replace(b"\t_\n", b"\t\xff\n")
    with pytest.raises(FormatError, match=r"^<input>:1: not valid UTF-8: byte \d+ of the line is 0xff$"):
        list(read_conllu(io.BytesIO(data)))
    data = row().encode() + b"\n" + b"1\t\xe5\xad"
    with pytest.raises(FormatError, match=r"^<input>:3: not valid UTF-8: byte 3 of the line is 0xe5$"):
        list(read_conllu(io.BytesIO(data)))


def test_broken_utf8_in_a_text_stream_is_named_by_line():
    # More than one buffer of good lines, so that the bad line is not in the first one.
    data = (row() + "\n").encode() * 1000 + b"1\t\xff\n"
    stream = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8")
    with pytest.raises(FormatError, match=r"^<input>:2001: not valid utf-8: 0xff$"):
        list(read_conllu(stream))


@pytest.mark.parametrize(
    "data", [b"not gzip", gzip.compress(PLAIN.encode() * 100)[:-20]], ids=["not gzip", "cut short"]
)
def test_a_broken_gzip_file_is_an_input_error(tmp_path, data):
    path = tmp_path / "x.conllu.gz"
    path.write_bytes(data)
    with pytest.raises(FormatError, match="not a complete gzip file"):
        list(read_conllu(path))


# --- streaming


def test_a_sentence_comes_before_the_next_one_is_read():
    given_out = 0

    def lines():
        nonlocal given_out
        for line in [*PLAIN.splitlines(keepends=True)] * 3:
            given_out += 1
            yield line.encode()

    reader = read_conllu(lines())
    next(reader)
    assert given_out == 3
    next(reader)
    assert given_out == 6


def test_sentences_before_a_malformed_one_are_still_given():
    reader = read_conllu(io.BytesIO((PLAIN + "bad\n").encode()))
    assert next(reader).tokens[0].form == "上海"
    with pytest.raises(FormatError):
        next(reader)


def test_a_sentence_is_written_before_the_next_is_asked_for():
    stream = io.StringIO()

    def sentences():
        (first,) = read(PLAIN)
        yield first
        assert stream.getvalue() == PLAIN
        yield first

    write_conllu(sentences(), stream)
    assert stream.getvalue() == PLAIN * 2


# --- text


def test_the_text_comment_wins():
    (sentence,) = read("# text =  甲  =乙 \n" + row() + "\n")
    assert sentence.text == " 甲  =乙 "


def test_text_is_rebuilt_with_space_after():
    no = "SpaceAfter=No"
    (sentence,) = read(
        row("1", "Hi", misc="A=1|" + no) + row("2", "！", "1") + row("3", "你", "1", misc=no) + "\n"
    )
    assert sentence.text == "Hi！ 你"


def test_rebuilt_text_takes_the_multiword_token_and_not_its_words():
    text = "".join(line for line in RICH.splitlines(keepends=True) if not line.startswith("# text"))
    (sentence,) = read(text)
    assert sentence.text == "我喜欢duel。"


def test_the_space_after_the_last_word_is_not_text():
    (sentence,) = read("# c\n" + row("1", "甲") + row("2", "乙", "1") + "\n")
    assert sentence.text == "甲 乙"


def test_conllx_is_told_from_its_first_sentence_or_by_the_caller():
    assert [sentence.text for sentence in read(PROJECTED)] == ["上海发展", "好"]
    assert read(PLAIN)[0].dialect == "x"
    assert read(PLAIN, dialect="u")[0].text == "上海 发展"
    assert [sentence.dialect for sentence in read(RICH + PLAIN)] == ["u", "u"]


# --- trees


def test_tree():
    (sentence,) = read(RICH)
    tree = sentence.tree()
    assert tree == WordTree(
        ("我", "喜欢", "du\u2028", "el", "。"),
        (2, 0, 4, 2, 2),
        ("nsubj", "root", "det", "obj", "punct"),
        ("PRON", "VERB", "_", "NOUN", "PUNCT"),
        xpos=tuple(token.xpos for token in sentence.tokens),
        feats=("_", "B=1|A=2", "_", "_", "_"),
        lemma=tuple(token.lemma for token in sentence.tokens),
    )
    empty = read(row() + "\n")[0].tree()
    assert (empty.upos, empty.xpos, empty.feats, empty.lemma) == (None, None, None, None)


def test_a_file_with_features_has_them_in_every_sentence():
    bare = replace(read(RICH)[0], tokens=[replace(token, feats="_") for token in read(RICH)[0].tokens])
    assert [tree.feats for tree in trees_of([bare, bare])] == [None, None]
    assert [tree.feats for tree in trees_of([bare, *read(RICH)])] == [
        ("_",) * 5,
        ("_", "B=1|A=2", "_", "_", "_"),
    ]


def test_tags_of_a_tree_are_written_in_their_columns():
    tree = read(RICH)[0].tree()
    [again] = read(format_sentence(from_tree(tree)))
    assert again.tree() == tree


@pytest.mark.parametrize(
    ("heads", "message"),
    [("2 1 0", "own ancestor"), ("0 2 1", "own ancestor"), ("0 1 0", "root"), ("2 3 1", "root")],
)
def test_heads_that_form_no_tree_are_named_with_the_first_word_of_the_sentence(heads, message):
    words = "".join(row(str(k), head=head) for k, head in enumerate(heads.split(), 1))
    *_, sentence = read(PLAIN + "# c\n" + row("1-2") + words + "\n", name="f")
    with pytest.raises(FormatError, match=f"^f:6: the sentence is not a tree: .*{message}"):
        sentence.tree()
    sentence.line = 0
    with pytest.raises(InvalidTree, match=message):
        sentence.tree()


def test_a_missing_head_is_named_with_its_line():
    *_, sentence = read(PLAIN + row("1") + row("1.1") + row("2", head="_") + "\n", name="f")
    with pytest.raises(FormatError, match=r"^f:6: word 2 has no head$"):
        sentence.tree()


# --- building sentences for writing

TREE = WordTree(("我", "爱", "New", "York"), (2, 0, 4, 2), ("nsubj", "root", "compound", "obj"))


def test_from_tree_joins_the_words_when_there_is_no_text():
    assert write([from_tree(TREE)]) == (
        "# text = 我爱New York\n"
        + row("1", "我", "2", "nsubj", "SpaceAfter=No")
        + row("2", "爱", "0", "root", "SpaceAfter=No")
        + row("3", "New", "4", "compound")
        + row("4", "York", "2", "obj", "SpaceAfter=No")
        + "\n"
    )


def test_from_tree_takes_spaces_from_the_text_and_keeps_misc():
    misc = ["CharHeads=0", "_", "_", "Conf=0.5"]
    tree = WordTree(TREE.forms, TREE.heads, TREE.deprels, ("PRON", "VERB", "PROPN", "PROPN"))
    sentence = from_tree(tree, "s1", "我 爱New\r\nYork ", misc)
    assert sentence.comments == ["# sent_id = s1", "# text = 我 爱New  York "]
    assert [token.misc for token in sentence.tokens] == ["CharHeads=0", "SpaceAfter=No", "_", "Conf=0.5"]
    (back,) = read(write([sentence]))
    assert back == sentence
    assert back.tree() == tree


@pytest.mark.parametrize("text", ["我爱", "我爱New Yorks", "你爱New York", "我爱New York。", ""])
def test_from_tree_refuses_a_text_of_other_words(text):
    with pytest.raises(InputError, match="the text"):
        from_tree(TREE, text=text)


def test_from_tree_refuses_misc_of_another_length():
    with pytest.raises(InputError, match="3 MISC values for 4 words"):
        from_tree(TREE, misc=["_"] * 3)
