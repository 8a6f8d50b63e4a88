"""Stanford Dependencies with a fake Java: a program that reads its arguments and the file of trees."""

from __future__ import annotations

import io
import os
import stat
import sys
import tempfile
from pathlib import Path

import pytest

from zishu.errors import InputError, ZishuError
from zishu.formats.brackets import read_brackets, remove_empty
from zishu.formats.conllu import read_conllu
from zishu.treebank.convert import Method, convert_brackets, convert_ctb
from zishu.treebank.stanford import MAIN_CLASS, stanford_dependencies

# Every word depends on the next one, and the last is the root. BEHAVIOUR selects how the program fails.
JAVA = f"""#!{sys.executable}
import os, re, sys
arguments = sys.argv[1:]
assert arguments[0] == "-cp" and arguments[1].endswith(".jar"), arguments
assert os.path.exists(arguments[1])
assert arguments[2] == "{MAIN_CLASS}", arguments
flags = arguments[3:]
for flag in ("-basic", "-conllx", "-keepPunct"):
    flags.remove(flag)
options = dict(zip(flags[::2], flags[1::2], strict=True))
assert set(options) == {{"-treeFile", "-encoding"}}, options
behaviour = os.environ.get("BEHAVIOUR", "")
if log := os.environ.get("LOG"):
    print(options["-treeFile"], file=open(log, "a"))
if behaviour == "fail":
    print("first line", file=sys.stderr)
    print("java.lang.OutOfMemoryError: heap", file=sys.stderr)
    sys.exit(3)
if behaviour == "silent":
    sys.exit(1)
sys.stdout.reconfigure(encoding=options["-encoding"])
if behaviour == "chatter":
    print("Phrase structure tree, then dependencies")
with open(options["-treeFile"], encoding=options["-encoding"]) as file:
    for number, line in enumerate(file, start=1):
        assert line.startswith("( (") and line.count("(") == line.count(")"), line
        assert "-NONE-" not in line, line
        words = re.findall(r"\\(([^\\s()]+) ([^\\s()]+)\\)", line)
        if behaviour == "drop-sentence" and number == 2:
            continue
        if behaviour == "drop-word" and number == 2:
            words.pop()
        if behaviour == "change-word" and number == 2:
            words[0] = (words[0][0], "别")
        for index, (tag, word) in enumerate(words, start=1):
            head = index + 1 if index < len(words) else 0
            if behaviour == "two-roots" and number == 2:
                head = 0
            if behaviour == "no-head" and number == 2:
                head = "_"
            label = "dep" if head else "root"
            print(index, word, "_", tag, tag, "_", head, label, "_", "_", sep="\\t")
        print()
"""
TREES = """( (IP (NP-SBJ (-NONE- *pro*)) (VP (VV 来))) )
( (IP (NP-PN-SBJ (NR-SHORT 沪)) (VP (VV 发展) (NP-OBJ (PU -LRB-) (NN 业)))) )
( (NP (NN 书)) )
"""


@pytest.fixture
def jar(tmp_path, monkeypatch) -> Path:
    """Put the fake first on PATH, and return a jar for it."""
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(JAVA, encoding="utf-8")
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{java.parent}{os.pathsep}{os.environ['PATH']}")
    path = tmp_path / "stanford-parser.jar"
    path.touch()
    return path


def trees_of(text: str):
    return [remove_empty(item.tree) for item in read_brackets(io.BytesIO(text.encode()))]


def test_trees_go_through_the_program_and_come_back(jar):
    _, second, _ = stanford_dependencies(trees_of(TREES), jar)
    assert second.forms == ("沪", "发展", "(", "业")
    assert second.xpos == ("NR", "VV", "PU", "NN")
    assert second.heads == (2, 3, 4, 0)
    assert second.deprels == ("dep", "dep", "dep", "root")


def test_a_treebank_is_converted_with_one_run_for_each_part(jar, tmp_path, monkeypatch):
    monkeypatch.setenv("LOG", str(tmp_path / "log"))
    folder = tmp_path / "copy" / "bracketed"
    folder.mkdir(parents=True)
    for number in (1, 2, 301):
        (folder / f"chtb_{number:03d}.fid").write_text(TREES, encoding="gbk")
    report = convert_ctb(tmp_path / "copy", tmp_path / "out", "5", Method("sd", jar=jar))
    assert [(c.sentences, c.words) for c in report.parts.values()] == [(6, 12), (3, 6), (0, 0)]
    sentences = list(read_conllu(tmp_path / "out" / "train.conllu"))
    assert [s.sent_id for s in sentences][2:4] == ["chtb_0001-s3", "chtb_0002-s1"]
    assert [token.deprel for token in sentences[1].tokens] == ["dep", "dep", "dep", "root"]
    # The files of the two runs (the test part has no trees) are gone.
    used = (tmp_path / "log").read_text().split()
    assert len(used) == 2
    assert not any(Path(path).parent.exists() for path in used)


@pytest.mark.parametrize(
    ("behaviour", "message"),
    [
        ("fail", "failed with exit code 3: java.lang.OutOfMemoryError: heap"),
        ("silent", "failed with exit code 1: no message"),
        ("chatter", "did not print CoNLL-X: its output:1:"),
        *(
            (
                change,
                (
                    r"1 of 3 trees have no sentence with the same words in the Stanford parser's output; "
                    r"the first is 沪 发展 \( 业"
                ),
            )
            for change in ("drop-sentence", "drop-word", "change-word")
        ),
    ],
)
def test_a_program_that_does_something_else_is_an_error(jar, monkeypatch, tmp_path, behaviour, message):
    monkeypatch.setenv("BEHAVIOUR", behaviour)
    monkeypatch.setenv("LOG", str(tmp_path / "log"))
    with pytest.raises(ZishuError, match=message):
        stanford_dependencies(trees_of(TREES), jar)
    assert not Path((tmp_path / "log").read_text().strip()).parent.exists()


@pytest.mark.parametrize("behaviour", ["drop-sentence", "drop-word"])
def test_one_strange_sentence_among_hundreds_is_left_out(jar, monkeypatch, behaviour):
    monkeypatch.setenv("BEHAVIOUR", behaviour)
    output = io.StringIO()
    text = TREES + "".join(f"( (NP (NN 书{k})) )\n" for k in range(147))
    report = convert_brackets(io.BytesIO(text.encode()), output, "x", Method("sd", jar=jar))
    (problem,) = report.parts["x"].problems
    assert (problem.line, problem.reason) == (
        2,
        "no sentence in the Stanford parser's output has these words",
    )
    assert report.parts["x"].sentences == 149


@pytest.mark.parametrize(
    ("behaviour", "reason"), [("two-roots", "only one is allowed"), ("no-head", "word 1 has no head")]
)
def test_a_sentence_that_is_no_tree_is_left_out(jar, monkeypatch, behaviour, reason):
    monkeypatch.setenv("BEHAVIOUR", behaviour)
    output = io.StringIO()
    report = convert_brackets(io.BytesIO(TREES.encode()), output, "x", Method("sd", jar=jar))
    (problem,) = report.parts["x"].problems
    assert problem.line == 2
    assert reason in problem.reason
    assert [s.sent_id for s in read_conllu(io.StringIO(output.getvalue()))] == ["x-s1", "x-s3"]


def test_a_missing_jar_or_java_is_told_before_anything_is_read(jar, monkeypatch, tmp_path):
    with pytest.raises(InputError, match="no such file; --stanford-jar must name"):
        Method("sd", jar=tmp_path / "absent.jar")
    with pytest.raises(InputError, match="give its jar"):
        Method("sd")
    with pytest.raises(InputError, match="the scheme zc does not use"):
        Method("zc", jar=jar)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    with pytest.raises(ZishuError, match="java is not on PATH"):
        Method("sd", jar=jar)


def test_no_trees_need_no_run(jar, monkeypatch):
    monkeypatch.setenv("BEHAVIOUR", "fail")
    assert stanford_dependencies([], jar) == []


def test_temporary_files_are_kept_where_the_user_says(jar, monkeypatch, tmp_path):
    monkeypatch.setenv("LOG", str(tmp_path / "log"))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "elsewhere"))
    stanford_dependencies(trees_of(TREES), jar)
    assert (tmp_path / "log").read_text().startswith(str(tmp_path / "elsewhere"))
    assert list((tmp_path / "elsewhere").iterdir()) == []
