"""From a copy of the treebank to training files; the copies here are tiny and made up."""

from __future__ import annotations

import io

import pytest

from zishu.errors import InputError
from zishu.formats.conllu import read_conllu
from zishu.treebank.convert import Method, SkippedSentence, convert_brackets, convert_ctb
from zishu.treebank.splits import PARTS, PUBLISHED, SPLITS, as_ranges, file_numbers, find_files

# A sentence with a dropped pronoun, a trace, function tags and indices.
LONG = """( (IP (NP-PN-SBJ-1 (NR 上海))
       (VP (PP-LOC (P 在) (NP (-NONE- *T*-2) (NN 明年)))
           (VP (VV 开始)
               (IP-OBJ (NP-SBJ (-NONE- *PRO*-1))
                       (VP (VV 发展)
                           (NP-OBJ (ADJP (JJ 新)) (NP (NN 金融业)))))))
       (PU 。)) )"""
# By hand: IP's head is VP, VP's (PP VP) is VP, VP's (VV IP) is VV, so 开始 (4) is the root. 上海 (1) depends on it;
# 在 (2) depends on it and 明年 (3) on 在; of the IP-OBJ, 发展 (5) is the head; 新 (6) depends on 金融业 (7), which
# depends on 发展; the full stop depends on the root. The phrase in which two words meet gives the label.
LONG_ROWS = [
    ("上海", "NR", 4, "VMOD"),
    ("在", "P", 4, "VMOD"),
    ("明年", "NN", 2, "PMOD"),
    ("开始", "VV", 0, "ROOT"),
    ("发展", "VV", 4, "VMOD"),
    ("新", "JJ", 7, "NMOD"),
    ("金融业", "NN", 5, "VMOD"),
    ("。", "PU", 4, "P"),
]
SHORT = "( (IP (NP-SBJ (PN 我)) (VP (VV 来))) )"


def document(*trees: str) -> str:
    body = "".join(f"<S ID={number}>\n{tree}\n</S>\n" for number, tree in enumerate(trees, start=1))
    return f"<DOC>\n<DOCID> MADE-UP </DOCID>\n<BODY>\n<P>\n{body}</P>\n</BODY>\n</DOC>\n"


LAYOUTS = {
    "5": ("bracketed", "chtb_{:03d}.fid", "gb18030"),
    "5-dep": ("bracketed", "chtb_{:03d}.fid", "gb2312"),
    "6": ("data/utf8/bracketed", "chtb_{:04d}.fid", "utf-8"),
    "7": ("data/bracketed", "chtb_{:04d}.nw.bracketed", "utf-8"),
}


def make_copy(root, version, files):
    folder, name, encoding = LAYOUTS[version]
    (root / folder).mkdir(parents=True)
    for number, text in files.items():
        (root / folder / name.format(number)).write_bytes(text.encode(encoding))
    return root


def first_files(version):
    """Give each part of a split its first file: one, two and three sentences."""
    return {
        file_numbers(version, part)[0]: document(*[LONG, SHORT, SHORT][: k + 1])
        for k, part in enumerate(PARTS)
    }


def read(path):
    return list(read_conllu(path))


@pytest.mark.parametrize("version", SPLITS)
def test_every_layout_and_encoding_becomes_training_files(tmp_path, version):
    copy = make_copy(tmp_path / "copy", version, first_files(version))
    report = convert_ctb(copy, tmp_path / "out", version, Method())
    for k, part in enumerate(PARTS):
        sentences = read(tmp_path / "out" / f"{part}.conllu")
        number = file_numbers(version, part)[0]
        assert [s.sent_id for s in sentences] == [f"chtb_{number:04d}-s{n}" for n in range(1, k + 2)]
        assert [s.comment("ctb_id") for s in sentences] == [str(n) for n in range(1, k + 2)]
        rows = [(token.form, token.xpos, token.head, token.deprel) for token in sentences[0].tokens]
        assert rows == LONG_ROWS
        assert sentences[0].text == "上海在明年开始发展新金融业。"
        assert {token.upos for token in sentences[0].tokens} == {"_"}
        counts = report.parts[part]
        assert (counts.files, counts.sentences, counts.projective) == (1, k + 1, k + 1)
        assert counts.words == sum(len(s.tokens) for s in sentences)
        assert counts.published == PUBLISHED.get(version, {}).get(part)
        assert counts.problems == []
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "dev.conllu",
        "test.conllu",
        "train.conllu",
    ]


def test_files_missing_from_a_split_are_reported(tmp_path):
    files = {301: document(SHORT), 303: document(SHORT), 326: document(SHORT), 1: document(SHORT)}
    report = convert_ctb(make_copy(tmp_path / "copy", "5", files), tmp_path / "out", "5", Method())
    assert report.parts["dev"].missing == ["302", "304-325"]
    assert report.parts["train"].missing == ["2-270", "400-931", "1001-1151"]
    assert report.parts["test"].missing == ["271-300"]
    assert report.unused == ["326"]
    assert read(tmp_path / "out" / "test.conllu") == []
    assert [s.sent_id for s in read(tmp_path / "out" / "dev.conllu")] == ["chtb_0301-s1", "chtb_0303-s1"]


def test_unreadable_sentences_are_reported_and_the_rest_is_written(tmp_path):
    files = {
        1: document(SHORT, "( (IP (VP (VV 来)) )", SHORT, "( (IP (NP-SBJ (-NONE- *pro*))) )"),
        301: document("( (IP (VP (VV 来 去))) )"),
    }
    copy = make_copy(tmp_path / "copy", "5", files)
    report = convert_ctb(copy, tmp_path / "out", "5", Method())
    first = str(copy / "bracketed" / "chtb_001.fid")
    # The header has four lines; a sentence has three, its tree in the middle.
    assert report.parts["train"].problems == [
        SkippedSentence(first, 9, "a bracket of the tree that begins here is not closed"),
        SkippedSentence(first, 15, "a sentence without words"),
    ]
    assert [problem.reason for problem in report.parts["dev"].problems] == ["two words in one bracket: 来 去"]
    # Numbers are those of the file, so that an unreadable sentence does not rename the others.
    assert [s.sent_id for s in read(tmp_path / "out" / "train.conllu")] == ["chtb_0001-s1", "chtb_0001-s3"]
    assert report.parts["train"].sentences == 2


def test_a_wrong_encoding_is_reported_sentence_by_sentence(tmp_path):
    copy = make_copy(tmp_path / "copy", "5", {1: document(SHORT, "( (NP (NN abc)) )")})
    report = convert_ctb(copy, tmp_path / "out", "5", Method(encoding="utf-8"))
    assert [problem.reason for problem in report.parts["train"].problems] == ["not valid utf-8: 0xce"]
    assert report.parts["train"].sentences == 1
    with pytest.raises(InputError, match="unknown encoding"):
        convert_ctb(copy, tmp_path / "out", "5", Method(encoding="nonsense"))


def test_an_error_leaves_earlier_output_as_it_was(tmp_path):
    copy = make_copy(tmp_path / "copy", "5", first_files("5"))
    convert_ctb(copy, tmp_path / "out", "5", Method())
    before = {path: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    with pytest.raises(InputError):
        convert_ctb(copy, tmp_path / "out", "5", Method(encoding="nonsense"))
    assert {path: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before


def test_brackets_are_spelt_out_in_trees_only():
    output = io.StringIO()
    text = "( (NP (PU -LRB-) (NN 书) (PU -RRB-)) )"
    convert_brackets(io.BytesIO(text.encode()), output, "x", Method())
    (sentence,) = read_conllu(io.StringIO(output.getvalue()))
    assert [token.form for token in sentence.tokens] == ["(", "书", ")"]
    assert sentence.text == "(书)"


def test_one_file_of_any_origin(tmp_path):
    source = tmp_path / "trees.txt"
    source.write_text(f"{SHORT}\n(IP (VP (VV 来))\n{SHORT}\n", encoding="utf-8")
    report = convert_brackets(source, tmp_path / "out.conllu", "trees", Method())
    counts = report.parts["trees"]
    assert (counts.sentences, counts.words, counts.projective, counts.published) == (2, 4, 2, None)
    assert counts.problems == [
        SkippedSentence(str(source), 2, "a bracket of the tree that begins here is not closed")
    ]
    assert [s.sent_id for s in read(tmp_path / "out.conllu")] == ["trees-s1", "trees-s3"]


@pytest.mark.parametrize(
    "folder", ["", "bracketed", "data/bracketed", "data/utf-8/bracketed", "LDC2005T01/ctb5/data/bracketed"]
)
@pytest.mark.parametrize("name", ["chtb_001.fid", "chtb_0001.nw", "chtb_0001.mz.bracketed", "CHTB_0001.FID"])
def test_trees_are_found_wherever_a_release_keeps_them(tmp_path, folder, name):
    (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    path = tmp_path / folder / name
    path.write_text(SHORT, encoding="utf-8")
    for other in ("README", "chtb_0002.nw.raw", "chtb_0002.fid~", "chtb_1.fid"):
        (tmp_path / folder / other).write_text("", encoding="utf-8")
    assert {number: path.resolve() for number, path in find_files(tmp_path).items()} == {1: path.resolve()}


def test_of_two_encodings_the_modern_one_is_read(tmp_path):
    for folder in ("x/data/gbk/bracketed", "x/data/utf8/bracketed"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "chtb_0001.fid").write_text(SHORT, encoding="utf-8")
    assert "utf8" in str(find_files(tmp_path)[1])


def test_directories_without_trees_are_refused(tmp_path):
    with pytest.raises(InputError, match="no files like"):
        find_files(tmp_path)
    with pytest.raises(InputError, match="not a directory"):
        find_files(tmp_path / "absent")
    for folder in ("a/bracketed", "b/bracketed"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "chtb_001.fid").write_text(SHORT, encoding="utf-8")
    with pytest.raises(InputError, match="several folders"):
        find_files(tmp_path)
    (tmp_path / "a/bracketed/chtb_0001.fid").write_text(SHORT, encoding="utf-8")
    with pytest.raises(InputError, match="the same number"):
        find_files(tmp_path / "a")


def test_a_copy_of_another_version_is_refused(tmp_path):
    copy = make_copy(tmp_path / "copy", "7", {4000: document(SHORT)})
    with pytest.raises(InputError, match="none of the 1 files is in the split of version 5"):
        convert_ctb(copy, tmp_path / "out", "5", Method())
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("version", SPLITS)
def test_the_parts_of_a_split_do_not_overlap(version):
    numbers = [number for part in PARTS for number in file_numbers(version, part)]
    assert len(numbers) == len(set(numbers))
    for part in PARTS:
        assert file_numbers(version, part) == sorted(file_numbers(version, part))


def test_splits_at_their_corners():
    """How many numbers each range has, summed up by hand from the published lists."""
    assert len(file_numbers("5", "train")) == 270 + 532 + 151
    assert (len(file_numbers("5", "dev")), len(file_numbers("5", "test"))) == (25, 30)
    assert len(file_numbers("5-dep", "train")) == 815 + 136
    assert len(file_numbers("5-dep", "dev")) == 46 + 4
    assert len(file_numbers("5-dep", "test")) == 70 + 11
    assert len(file_numbers("6", "dev")) == 40 + 10 + 20 + 15 + 20 + 25 + 30
    assert len(file_numbers("6", "test")) == 40 + 31 + 4 + 2 + 1 + 2 + 1 + 2 + 1 + 16 + 16 + 33 + 20 + 36
    # Versions 6 and 7 share their test files 1-40 and 3110-3145; 590-592 are one file each in version 7.
    assert [part for number in (590, 591, 592) for part in PARTS if number in file_numbers("7", part)] == [
        *PARTS
    ]
    assert file_numbers("7", "dev")[-1] == 4411
    with pytest.raises(InputError, match="no split for version '8'"):
        file_numbers("8", "dev")


def test_numbers_as_ranges():
    assert as_ranges([]) == []
    assert as_ranges([5, 1, 2, 3, 7, 8]) == ["1-3", "5", "7-8"]
