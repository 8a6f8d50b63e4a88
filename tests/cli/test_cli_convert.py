"""`zishu convert` as a user sees it: exit codes, standard output and error, and complete or absent files."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from zishu import cli
from zishu.formats.conllu import read_conllu

if TYPE_CHECKING:
    from pathlib import Path

GOOD = "( (IP (NP-SBJ (PN 我)) (VP (VV 来))) )\n"
COMMAND = [sys.executable, "-c", "from zishu.cli import main; main()"]


@pytest.fixture
def copy(tmp_path) -> Path:
    folder = tmp_path / "ctb" / "bracketed"
    folder.mkdir(parents=True)
    (folder / "chtb_001.fid").write_text(f"<S ID=1>\n{GOOD}</S>\n<S ID=2>\n( (IP (NP\n</S>\n", encoding="gbk")
    (folder / "chtb_271.fid").write_text(f"<S ID=3>\n{GOOD}</S>\n", encoding="gbk")
    return tmp_path / "ctb"


def run(*arguments) -> int:
    return cli.run([str(argument) for argument in arguments])


def test_a_treebank_is_converted_and_reported(copy, tmp_path, capsys):
    assert run("convert", "ctb", copy, tmp_path / "out", "--version", "5", "--scheme", "zc") == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    lines = [line.split() for line in printed.out.splitlines()]
    assert lines[0] == [
        "output",
        "files",
        "sentences",
        "paper",
        "difference",
        "words",
        "projective",
        "unreadable",
    ]
    assert lines[1] == ["train", "1", "1", "18,104", "-18,103", "2", "1", "1"]
    assert lines[2] == ["dev", "0", "0", "352", "-352", "0", "0", "0"]
    assert lines[3] == ["test", "1", "1", "348", "-347", "2", "1", "0"]
    assert "numbers of dev without a file\n301-325\n" in printed.out
    path = copy / "bracketed" / "chtb_001.fid"
    assert (
        f"unreadable sentences\n{path}:5: a bracket of the tree that begins here is not closed\n"
        in printed.out
    )
    (sentence,) = read_conllu(tmp_path / "out" / "train.conllu")
    assert (sentence.sent_id, sentence.text) == ("chtb_0001-s1", "我来")


def test_the_report_as_json(copy, tmp_path, capsys):
    assert run("convert", "ctb", copy, tmp_path / "out", "--version", "5", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["version"], report["scheme"], report["unused"]) == ("5", "zc", [])
    train = report["parts"]["train"]
    assert (train["sentences"], train["published"], train["projective"]) == (1, 18104, 1)
    assert [problem["line"] for problem in train["problems"]] == [5]
    assert train["missing"] == ["2-270", "400-931", "1001-1151"]


def test_a_split_that_the_paper_has_no_counts_for_is_compared_with_nothing(copy, tmp_path, capsys):
    assert run("convert", "ctb", copy, tmp_path / "out", "--version", "5-dep") == 0
    header, train = capsys.readouterr().out.splitlines()[:2]
    assert header.split() == ["output", "files", "sentences", "words", "projective", "unreadable"]
    assert train.split() == ["train", "2", "2", "4", "2", "1"]


def test_brackets_go_to_standard_output_and_the_report_elsewhere(tmp_path):
    path = tmp_path / "my.trees"
    path.write_bytes((GOOD + "(IP\n").encode("gb18030"))
    for arguments, source in ([str(path)], None), (["-"], path.read_bytes()), ([str(path), "-o", "-"], None):
        done = subprocess.run(
            [*COMMAND, "convert", "brackets", *arguments],
            input=source,
            capture_output=True,
            check=True,
            timeout=60,
            cwd=tmp_path,
        )
        assert [file.name for file in tmp_path.iterdir()] == ["my.trees"]
        name = "stdin" if source else "my"
        assert done.stdout.decode() == (
            f"# sent_id = {name}-s1\n# text = 我来\n1\t我\t_\t_\tPN\t_\t2\tVMOD\t_\tSpaceAfter=No\n"
            "2\t来\t_\t_\tVV\t_\t0\tROOT\t_\tSpaceAfter=No\n\n"
        )
        report = done.stderr.decode()
        assert report.splitlines()[1].split() == [name, "1", "1", "2", "1", "1"]
        assert ":2: a bracket of the tree that begins here is not closed" in report


def test_the_input_is_not_written_over(tmp_path, capsys, monkeypatch):
    path, link = tmp_path / "my.trees", tmp_path / "link"
    path.write_text(GOOD, encoding="utf-8")
    link.symlink_to(path)
    with path.open(encoding="utf-8") as stream:
        monkeypatch.setattr("sys.stdin", stream)
        for source, out in ((path, path), (path, link), ("-", path)):
            assert run("convert", "brackets", source, "-o", out) == 2
            assert capsys.readouterr().err == f"zishu: {out}: is also the input\n"
    assert path.read_text(encoding="utf-8") == GOOD


def test_labels_may_say_what_is_a_subject(tmp_path):
    path, out = tmp_path / "my.trees", tmp_path / "out.conllu"
    path.write_text(GOOD, encoding="utf-8")
    for labels, relation in ("malt", "VMOD"), ("functional", "SUB"):
        assert run("convert", "brackets", path, "-o", out, "--labels", labels) == 0
        (sentence,) = read_conllu(out)
        assert [token.deprel for token in sentence.tokens] == [relation, "ROOT"]


def test_files_converted_by_another_program_are_taken_over(copy, tmp_path, capsys):
    given = tmp_path / "malt"
    given.mkdir()
    (given / "chtb_001.fid.tab").write_text("我\tPN\t2\tSBJ\n来\tVV\t0\tROOT\n", encoding="gbk")
    (given / "chtb_271.fid.tab").write_text("我\tPN\t0\tROOT\n来\tVV\t1\tX\n\n", encoding="utf-8")
    out = tmp_path / "out"
    assert run("convert", "ctb", copy, out, "--version", "5", "--scheme", "conllx", "--from", given) == 0
    capsys.readouterr()
    for part, rows in ("train", [(2, "SBJ"), (0, "ROOT")]), ("test", [(0, "ROOT"), (1, "X")]):
        (sentence,) = read_conllu(out / f"{part}.conllu")
        assert [(token.head, token.deprel) for token in sentence.tokens] == rows
        assert [token.xpos for token in sentence.tokens] == ["PN", "VV"]
    before = (out / "train.conllu").read_bytes()
    (given / "chtb_001.fid.tab").write_text("他\tPN\t2\tSBJ\n来\tVV\t0\tROOT\n", encoding="gbk")
    assert run("convert", "ctb", copy, out, "--version", "5", "--scheme", "conllx", "--from", given) == 2
    message = "1 of 1 trees have no sentence with the same words in the converted files; the first is 我 来"
    assert message in capsys.readouterr().err
    assert (out / "train.conllu").read_bytes() == before


def test_brackets_go_to_a_file(tmp_path, capsys):
    path = tmp_path / "my.trees"
    path.write_text(GOOD, encoding="utf-8")
    out = tmp_path / "out.conllu"
    assert run("convert", "brackets", path, "-o", out, "--json") == 0
    assert json.loads(capsys.readouterr().out)["parts"]["my"]["sentences"] == 1
    assert len(list(read_conllu(out))) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ctb", "{tmp}", "{tmp}/out", "--version", "5"], "no files like chtb_001.fid"),
        (["ctb", "{tmp}/absent", "{tmp}/out", "--version", "5"], "not a directory"),
        (["ctb", "{ctb}", "{tmp}/out", "--version", "9"], "'9' is not one of '5', '5-dep', '6', '7'"),
        (["ctb", "{ctb}", "{tmp}/out"], "Missing option '--version'"),
        (
            ["ctb", "{ctb}", "{tmp}/out", "--version", "5", "--scheme", "ud"],
            "'ud' is not one of 'zc', 'sd', 'conllx'",
        ),
        (["ctb", "{ctb}", "{tmp}/out", "--version", "5", "--scheme", "sd"], "give its jar"),
        (
            [
                "ctb",
                "{ctb}",
                "{tmp}/out",
                "--version",
                "5",
                "--scheme",
                "sd",
                "--stanford-jar",
                "{tmp}/x.jar",
            ],
            "x.jar: no such file",
        ),
        (
            ["ctb", "{ctb}", "{tmp}/out", "--version", "5", "--scheme", "conllx"],
            "needs converted files (--from)",
        ),
        (["ctb", "{ctb}", "{tmp}/out", "--version", "5", "--from", "{tmp}"], "the scheme zc does not use"),
        (
            ["ctb", "{ctb}", "{tmp}/out", "--version", "5", "--scheme", "conllx", "--from", "{tmp}"],
            "neither a file train.* nor files chtb_NNNN.* for train",
        ),
        (
            ["brackets", "{ctb}/x", "--scheme", "conllx", "--labels", "functional", "--from", "{tmp}/x"],
            "--labels works only with the scheme zc",
        ),
        (["ctb", "{ctb}", "{tmp}/out", "--version", "5", "--encoding", "x-y"], "unknown encoding 'x-y'"),
        (["ctb", "{ctb}", "{ctb}/bracketed/chtb_001.fid", "--version", "5"], "File exists"),
        (["brackets", "{tmp}/absent"], "absent: No such file or directory"),
        (["brackets", "{tmp}"], "Is a directory"),
        ([], "Missing command"),
    ],
)
def test_bad_usage_is_one_line_and_exit_code_2(copy, tmp_path, capsys, arguments, message):
    empty = tmp_path / "empty"
    empty.mkdir()
    filled = [argument.format(tmp=empty, ctb=copy) for argument in arguments]
    assert run("convert", *filled) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert printed.err.startswith("zishu: ")
    assert message in printed.err
    assert not any(empty.rglob("*.conllu"))


def test_a_java_that_fails_is_exit_code_1(copy, tmp_path, capsys, monkeypatch):
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!{sys.executable}\nimport sys\nsys.exit('Error: Could not find the class')\n")
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{java.parent}{os.pathsep}{os.environ['PATH']}")
    jar = tmp_path / "parser.jar"
    jar.touch()
    out = tmp_path / "out"
    assert run("convert", "ctb", copy, out, "--version", "5", "--scheme", "sd", "--stanford-jar", jar) == 1
    assert "exit code 1: Error: Could not find the class" in capsys.readouterr().err
    assert list(out.iterdir()) == []


@pytest.mark.parametrize("arguments", [["convert"], ["convert", "ctb"], ["convert", "brackets"]])
def test_help(arguments, capsys):
    assert run(*arguments, "--help") == 0
    assert "Usage: zishu convert" in capsys.readouterr().out
