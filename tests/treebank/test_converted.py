"""Dependencies that another program computed from the same trees."""

from __future__ import annotations

import gzip
import io

import pytest

from zishu.errors import FormatError, InputError
from zishu.formats.brackets import read_brackets
from zishu.treebank.converted import find_converted, match_trees, read_converted

FORMS = [["我", "来"], ["你", "去"], ["(", "他", ")"], ["我", "来"]]


def trees(forms=FORMS):
    spelt = {"(": "-LRB-", ")": "-RRB-"}
    lines = ["(X " + " ".join(f"(NN {spelt.get(word, word)})" for word in words) + ")" for words in forms]
    return [item.tree for item in read_brackets(io.BytesIO("\n".join(lines).encode()))]


def conllx(forms, path):
    blocks = []
    for number, words in enumerate(forms):
        rows = [
            f"{k}\t{word}\t_\tNN\tNN\t_\t{k - 1}\tR{number}\t_\t_" for k, word in enumerate(words, start=1)
        ]
        blocks.append("\n".join(rows) + "\n\n")
    path.write_text("".join(blocks), encoding="utf-8")
    return path


def test_every_tree_gets_the_sentence_in_its_place(tmp_path):
    results = match_trees(trees(), read_converted([conllx(FORMS, tmp_path / "a.conllx")]))
    assert [result.forms for result in results] == [tuple(words) for words in FORMS]
    assert [result.heads for result in results] == [(0, 1), (0, 1), (0, 1, 2), (0, 1)]
    assert [result.deprels[0] for result in results] == ["R0", "R1", "R2", "R3"]


def test_a_sentence_that_is_missing_or_new_moves_no_other(tmp_path):
    many = [[f"字{k}", "来"] for k in range(300)]
    given = [*many[:7], *many[8:20], ["新", "句"], *many[20:]]
    results = match_trees(trees(many), read_converted([conllx(given, tmp_path / "a.conllx")]))
    assert results.pop(7) == "no sentence in the converted files has these words"
    assert [result.forms[0] for result in results] == [words[0] for words in many if words[0] != "字7"]
    with pytest.raises(InputError, match=r"4 of 300 trees have no sentence .* the first is 字0 来"):
        match_trees(trees(many), read_converted([conllx(many[4:], tmp_path / "b.conllx")]))


@pytest.mark.parametrize("encoding", ["utf-8", "gb18030"])
def test_malt_tab_in_either_encoding(tmp_path, encoding):
    path = tmp_path / "train.tab"
    path.write_bytes("我\tPN\t2\tSUB\r\n来\tVV\t0\tROOT\r\n\r\n".encode(encoding))
    packed = tmp_path / "train.tab.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    for file in (path, packed):
        (result,) = match_trees(trees(FORMS[:1]), read_converted([file]))
        assert (result.heads, result.deprels) == ((2, 0), ("SUB", "ROOT"))


def test_invalid_bytes_can_be_written(tmp_path):
    path = tmp_path / "train.tab"
    path.write_bytes("我\tPN\t2\tSU".encode() + b"\xff" + "B\n来\tVV\t0\tROOT\n".encode())
    (result,) = match_trees(trees(FORMS[:1]), read_converted([path]))
    assert result.deprels[0] == "SU\ufffdB"


@pytest.mark.parametrize("row", ["来\tVV\t0", "来\tVV\tx\tROOT", "来\tVV\t\tROOT"])
def test_a_broken_line_is_named(tmp_path, row):
    path = tmp_path / "train.tab"
    path.write_text(f"我\tPN\t2\tSUB\n{row}\n", encoding="utf-8")
    with pytest.raises(FormatError, match=r"train\.tab:2: not Malt-TAB"):
        read_converted([path])


def test_files_are_found_by_part_or_by_number(tmp_path):
    for name in ("chtb_0002.fid.conllx", "chtb_0001.nw.tab", "README"):
        (tmp_path / name).touch()
    found = find_converted(tmp_path, "train", [1, 2, 3])
    assert [path.name for path in found] == ["chtb_0001.nw.tab", "chtb_0002.fid.conllx"]
    with pytest.raises(InputError, match="neither a file dev"):
        find_converted(tmp_path, "dev", [301])
    (tmp_path / "train.conllx").touch()
    assert [path.name for path in find_converted(tmp_path, "train", [1])] == ["train.conllx"]
    (tmp_path / "train.tab").touch()
    with pytest.raises(InputError, match=r"train.conllx and train.tab are both for train"):
        find_converted(tmp_path, "train", [1])
    (tmp_path / "chtb_001.fid").touch()
    with pytest.raises(InputError, match="the same number"):
        find_converted(tmp_path, "dev", [1])
    with pytest.raises(InputError, match="not a directory"):
        find_converted(tmp_path / "absent", "dev", [1])
