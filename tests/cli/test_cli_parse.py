"""`zishu parse` and `zishu info` as a user sees them: formats, modes, files of any size, and bad input.

Most tests call the command line in this process; those of pipes, signals and terminals start the installed command.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from text_files import keep_records, read, write
from zishu import cli
from zishu.cli._progress import watching
from zishu.corpus import Summary, chunks, claim
from zishu.corpus.claim import claimed
from zishu.errors import InputError
from zishu.formats.conllu import read_conllu
from zishu.formats.jsonl import from_json
from zishu.model.files import find_model
from zishu.reading import open_bytes
from zishu.tree import INTRA

COMMAND = Path(sys.executable).with_name("zishu")
EASY = "我喜欢北京。"
TEXT = "我喜欢北京。他去上海！\n\n  你好吗？今天天气很好，我们去公园 Hello World。\r\n最后一句"


def run(*arguments: object) -> int:
    return cli.run(["parse", *map(str, arguments)])


def assert_one_line(stderr: str, *parts: str) -> None:
    assert stderr.startswith("zishu: ")
    assert stderr.endswith("\n")
    assert stderr.count("\n") == 1, stderr
    for part in parts:
        assert part in stderr


def rebuild(conllu: str) -> str:
    """Rebuild a text from the rows and the white space in MISC."""
    unescape = {r"\s": " ", r"\t": "\t", r"\n": "\n", r"\r": "\r"}
    pieces = []
    for sentence in read_conllu(io.StringIO(conllu)):
        for token in sentence.tokens:
            misc = dict(item.split("=", 1) for item in token.misc.split("|"))
            spaces = misc.get("SpacesAfter", "" if "SpaceAfter" in misc else " ")
            pieces += [token.form, re.sub(r"\\[strn]", lambda m: unescape[m[0]], spaces)]
    return "".join(pieces)


@pytest.fixture
def small_chunks(monkeypatch):
    """Make chunks so small that a few sentences fill many of them."""
    monkeypatch.setattr(chunks, "CHUNK", 12)


# ---- formats


def test_texts_are_drawn(capsys):
    assert run(EASY) == 0
    out, err = capsys.readouterr()
    assert err == ""
    lines = out.splitlines()
    assert len(lines) == 4
    assert [word in line for word, line in zip(["我", "喜欢", "北京", "。"], lines, strict=True)] == [
        True
    ] * 4
    assert "\x1b" not in out  # no colours in a pipe
    assert run(EASY + EASY, EASY) == 0
    assert capsys.readouterr().out.count("\n\n") == 2  # a blank line between two sentences


def test_a_text_that_names_a_file_is_a_text_with_a_note(tmp_path, capsys):
    file = tmp_path / "新闻.txt"
    file.write_text(EASY, encoding="utf-8")
    assert run(str(file), EASY[:2], "长" * 5000, "--format", "conllu") == 0
    printed = capsys.readouterr()
    assert f"# text = {file}" in printed.out
    assert "北京" not in printed.out
    assert printed.err == f"zishu: {file}: parsed as text; use -i to parse the file of this name\n"


@pytest.mark.parametrize("kind", ["conllu", "chars"])
def test_conllu_gives_the_text_back(capsys, kind):
    assert run(TEXT, "--format", kind) == 0
    out = capsys.readouterr().out
    sentences = list(read_conllu(io.StringIO(out)))
    assert [sentence.sent_id for sentence in sentences] == [str(k + 1) for k in range(len(sentences))]
    assert len(sentences) >= 5
    assert sentences[0].text == EASY
    assert rebuild(out) == TEXT
    assert "newdoc" not in out
    words = [[token.form for token in sentence.tokens] for sentence in sentences]
    if kind == "chars":
        assert words[0] == list(EASY)
        labels = [token.deprel for token in sentences[0].tokens]
        assert sum(label.startswith(INTRA) for label in labels) == 2
        assert labels.count("root") == 1
    else:
        assert words[0] == ["我", "喜欢", "北京", "。"]
        assert all(token.upos != "_" and "CharHeads=" in token.misc for token in sentences[0].tokens)
        assert "Conf=" in sentences[0].tokens[0].misc
        assert sentences[0].comment("prob") is not None


def test_several_texts_are_several_documents(capsys):
    assert run(EASY + EASY, "", EASY, "--format", "conllu") == 0
    lines = capsys.readouterr().out.splitlines()
    heads = [line for line in lines if line.startswith(("# newdoc", "# sent_id"))]
    assert heads == [
        "# newdoc id = 1", "# sent_id = 1", "# sent_id = 2", "# newdoc id = 3", "# sent_id = 3"
    ]  # fmt: skip
    assert run(EASY, EASY, "--format", "json") == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(record["sent_id"], record["doc_id"]) for record in records] == [("1", "1"), ("2", "2")]


def test_json_is_an_object_a_sentence(capsys):
    assert run(TEXT, "--format", "json") == 0
    sentences = [from_json(line) for line in capsys.readouterr().out.splitlines()]
    for sentence in sentences:
        assert sentence.text == TEXT[sentence.start : sentence.end]
        assert all(TEXT[word.start : word.end] == word.form for word in sentence.words)
    joined = "".join(word.form for sentence in sentences for word in sentence.words)
    assert joined == "".join(TEXT.split())
    assert run(EASY, "--format", "json", "--no-confidence") == 0
    record = json.loads(capsys.readouterr().out)
    assert record["prob"] is None
    assert record["words"][0]["prob"] is None


def test_figures(tmp_path, capsys):
    assert run(EASY + EASY, "--format", "svg") == 0
    out = capsys.readouterr().out
    documents = re.split(r"(?<=</svg>)\n", out.rstrip("\n"))
    assert [ET.fromstring(document).tag for document in documents] == ["{http://www.w3.org/2000/svg}svg"] * 2
    assert run(EASY, "-o", tmp_path / "one.svg") == 0
    assert run(EASY * 3, "-o", tmp_path / "many.svg") == 0
    assert run(EASY * 2, "-o", tmp_path / "packed.svg.gz") == 0
    assert run("  ", "-o", tmp_path / "none.svg") == 0
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [
        "many-1.svg", "many-2.svg", "many-3.svg", "one.svg", "packed-1.svg.gz", "packed-2.svg.gz"
    ]  # fmt: skip
    assert len({read(tmp_path / name) for name in names}) == 1


def test_the_ending_of_the_output_decides_the_format(tmp_path, capsys):
    for name in ("a.json.gz", "a.jsonl", "a.ndjson", "A.JSON", "a.conllu.zst", "a.txt"):
        assert run(EASY, "-o", tmp_path / name) == 0
    assert capsys.readouterr().out == ""
    for name in ("a.json.gz", "a.ndjson", "A.JSON"):
        assert read(tmp_path / name) == read(tmp_path / "a.jsonl")
    assert from_json(read(tmp_path / "a.jsonl")).text == EASY
    assert read(tmp_path / "a.conllu.zst") == read(tmp_path / "a.txt")
    assert rebuild(read(tmp_path / "a.txt")) == EASY


# ---- modes


def forms(capsys) -> list[str]:
    return [
        word["form"] for line in capsys.readouterr().out.splitlines() for word in json.loads(line)["words"]
    ]


def test_given_words(tmp_path, capsys):
    assert run("我 喜 欢北京。\n\n 他\t来 ", "--words", "--format", "json") == 0
    assert forms(capsys) == ["我", "喜", "欢北京。", "他", "来"]
    path = write(tmp_path / "words.txt", "我 喜 欢北京。\r\n\n 他\t来")
    assert run("-i", path, "--words") == 0
    out = capsys.readouterr().out
    assert rebuild(out) == "我 喜 欢北京。\r\n\n 他\t来"
    assert out.count("# sent_id") == 2


def test_pins_breaks_and_a_lexicon(tmp_path, capsys):
    assert run(EASY, "--pin", "1:5", "--format", "json") == 0
    assert forms(capsys) == ["我", "喜欢北京", "。"]
    assert run(EASY, "--pin", "0:2", "--break", "4", "--format", "json") == 0
    found = forms(capsys)
    assert found[0] == "我喜"
    assert "京" in "".join(found[found.index("北") + 1 :]) if "北" in found else False
    lexicon = write(tmp_path / "words.txt", "# names\n欢北京\n")
    assert run(EASY, "--lexicon", lexicon, "--format", "json") == 0
    assert forms(capsys) == ["我", "喜", "欢北京", "。"]
    path = write(tmp_path / "in.txt", EASY * 2)
    assert run("-i", path, "--lexicon", lexicon, "--format", "json") == 0
    assert forms(capsys) == ["我", "喜", "欢北京", "。"] * 2


def test_the_k_best_analyses(tmp_path, capsys):
    assert run(EASY + EASY, "--k-best", "3", "--format", "json") == 0
    from_text = capsys.readouterr().out
    records = [json.loads(line) for line in from_text.splitlines()]
    assert [(record["sent_id"], record["rank"]) for record in records] == [
        ("1", 1), ("1", 2), ("1", 3), ("2", 1), ("2", 2), ("2", 3)
    ]  # fmt: skip
    probs = [record["prob"] for record in records[:3]]
    assert probs == sorted(probs, reverse=True)
    assert run("-i", write(tmp_path / "in.txt", EASY + EASY), "--k-best", "3", "--format", "json") == 0
    assert capsys.readouterr().out == from_text
    assert run(EASY, "--k-best", "2", "--format", "conllu") == 0
    best, second = read_conllu(io.StringIO(capsys.readouterr().out))
    assert [(s.sent_id, s.comment("rank")) for s in (best, second)] == [("1-1", "1"), ("1-2", "2")]
    assert run(EASY, "--k-best", "2") == 0
    assert "sentence 1, analysis 2, probability 0.0" in capsys.readouterr().out


def test_the_k_best_trees_of_given_words(tmp_path, capsys):
    text = "我 喜 欢北京。\n他 来"
    assert run(text, "--words", "--k-best", "2", "--format", "json") == 0
    from_text = capsys.readouterr().out
    records = [json.loads(line) for line in from_text.splitlines()]
    assert [(record["sent_id"], record["rank"]) for record in records] == [
        ("1", 1), ("1", 2), ("2", 1), ("2", 2)
    ]  # fmt: skip
    for words, ranked in ((["我", "喜", "欢北京。"], records[:2]), (["他", "来"], records[2:])):
        assert [[word["form"] for word in record["words"]] for record in ranked] == [words] * 2
        assert [word["head"] for word in ranked[0]["words"]] != [word["head"] for word in ranked[1]["words"]]
        assert ranked[0]["prob"] > ranked[1]["prob"]
    # All trees over two words.
    assert sum(record["prob"] for record in records[2:]) == pytest.approx(1, abs=1e-3)
    path = write(tmp_path / "in.txt", text)
    assert run("-i", path, "--words", "--k-best", "2", "--format", "json") == 0
    assert capsys.readouterr().out == from_text


def test_what_is_no_unicode_in_an_argument_survives(tmp_path, capsys):
    assert run("好\udcff来", "--format", "json") == 0
    assert from_json(capsys.readouterr().out).text == "好\udcff来"
    for kind in ("conllu", "tree", "svg"):
        assert run("好\udcff来", "--format", kind, "-o", tmp_path / kind) == 0
        assert "来" in (tmp_path / kind).read_text(encoding="utf-8")
    assert rebuild((tmp_path / "conllu").read_text(encoding="utf-8")) == "好\\udcff来"


def test_the_way_of_decoding_is_chosen(tmp_path, capsys):
    for decoding in ("mbr", "viterbi"):
        assert run(EASY, "--decoding", decoding, "--format", "json", "-o", tmp_path / decoding) == 0
    assert run(EASY, "--format", "json", "-o", tmp_path / "default") == 0
    assert (tmp_path / "default").read_bytes() == (tmp_path / "mbr").read_bytes()
    capsys.readouterr()
    assert run(EASY, "--decoding", "vanilla") == 2  # the bundled model has two roles
    assert_one_line(capsys.readouterr().err, "vanilla decoding needs a character-level model with one role")


def test_another_model_must_be_one(tmp_path, capsys):
    assert run(EASY, "--model", tmp_path, "-o", tmp_path / "out") == 2
    assert_one_line(capsys.readouterr().err, "config.json")
    assert not (tmp_path / "out").exists()


# ---- files


@pytest.mark.parametrize("ending", ["", ".gz", ".zst"])
def test_a_file_is_parsed_like_its_text(tmp_path, capsys, small_chunks, ending):
    assert run(TEXT, "--format", "conllu") == 0
    expected = capsys.readouterr().out
    path, out = write(tmp_path / f"in.txt{ending}", TEXT), tmp_path / f"out{ending}"
    assert run("-i", path, "-o", out) == 0
    assert capsys.readouterr() == ("", "")
    # Batches differ, so probabilities may differ in the last digit.
    strip = re.compile(r"(?<=[=] |\w=)0\.\d+|(?<=prob = )\S+|(?<=\w=)1\.0+")
    assert strip.sub("p", read(out)) == strip.sub("p", expected)
    assert rebuild(read(out)) == TEXT


@pytest.mark.parametrize("arguments", [(), ("-",), ("-i", "-")])
def test_standard_input(capsys, monkeypatch, arguments):
    monkeypatch.setattr(
        "sys.stdin", io.TextIOWrapper(io.BytesIO(("\ufeff" + TEXT).encode()), encoding="ascii")
    )
    assert run(*arguments) == 0
    out, err = capsys.readouterr()
    assert err == ""  # not a terminal: no hint
    assert rebuild(out) == TEXT
    for blank in (b"", b" \n\n\t\n"):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(blank), encoding="utf-8"))
        assert run("-i", "-") == 0
        assert capsys.readouterr() == ("", "")


def test_bytes_that_are_no_utf8(tmp_path, capsys, small_chunks):
    path = tmp_path / "in.txt"
    path.write_bytes(EASY.encode() + b"\xff" + EASY.encode())
    assert run("-i", path) == 2
    assert_one_line(capsys.readouterr().err, f"{path}: not valid UTF-8: byte 18 (counted from 0) is 0xff")
    assert run("-i", path, "--errors", "replace") == 0
    assert rebuild(capsys.readouterr().out) == EASY + "\ufffd" + EASY


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_what_came_before_a_fault_is_written(tmp_path, capsys, small_chunks, jobs):
    path, out = tmp_path / "in.txt", tmp_path / "out.gz"
    path.write_bytes(EASY.encode() * 10 + b"\xff")
    assert run("-i", path, "-o", out, "--no-confidence", "--jobs", jobs) == 2
    assert_one_line(capsys.readouterr().err, "not valid UTF-8: byte 180 ")
    # The last sentence may continue after the error. Once that is fixed, the run can be resumed.
    assert rebuild(read(out)) == EASY * 9
    path.write_bytes(EASY.encode() * 10 + b"\n")
    assert run("-i", path, "-o", out, "--no-confidence", "--resume") == 0
    assert rebuild(read(out)) == EASY * 10 + "\n"


def test_what_came_before_a_word_that_is_too_long_is_written(tmp_path, capsys):
    path, out = write(tmp_path / "in.txt", f"我 来 。\n他\n{'长' * 300}\n我"), tmp_path / "out"
    assert run("-i", path, "-o", out, "--words") == 2
    assert_one_line(capsys.readouterr().err, f"{path}: the word at 8 has 300 characters")
    assert rebuild(read(out)) == "我 来 。\n他\n"


def test_several_processes_give_the_same(tmp_path, capsys, small_chunks):
    path = write(tmp_path / "in.txt", TEXT * 3)
    assert run("-i", path, "-o", tmp_path / "one", "--threads", "1") == 0
    assert run("-i", path, "-o", tmp_path / "two", "--jobs", "2") == 0
    assert capsys.readouterr() == ("", "")
    assert rebuild(read(tmp_path / "two")) == TEXT * 3
    assert read(tmp_path / "one") == read(tmp_path / "two")


# ---- resuming an interrupted run


@pytest.mark.parametrize(
    ("kind", "ending", "moments"),
    [
        ("conllu", "", (0, 1, 100, 0.3, 0.5, 0.9, 1.0)),
        ("json", "", (0.4, 1.0)),
        ("chars", "", (0.6,)),
        ("conllu", ".gz", (0.0, 0.2, 0.7, 1.0)),
        ("json", ".zst", (0.2, 0.7, 1.0)),
    ],
)
def test_a_resumed_run_ends_like_an_unbroken_one(
    tmp_path, capsys, small_chunks, monkeypatch, kind, ending, moments
):
    keep_records(monkeypatch)
    path, out = write(tmp_path / "in.txt", TEXT * 2), tmp_path / f"out{ending}"
    options = ("-i", path, "--format", kind, "--no-confidence" if kind == "chars" else "--threads=1")
    assert run(*options, "-o", out) == 0
    data, whole = out.read_bytes(), read(out)
    for moment in moments:
        out.write_bytes(data[: moment if isinstance(moment, int) else int(moment * len(data))])
        assert run(*options, "-o", out, "--resume") == 0
        assert capsys.readouterr() == ("", "")
        assert read(out) == whole, moment
    out.unlink()
    assert run(*options, "-o", out, "--resume") == 0  # nothing to resume, so it starts from the beginning
    assert out.read_bytes() == data


def test_only_the_output_of_the_same_input_is_resumed(tmp_path, capsys, small_chunks, monkeypatch):
    keep_records(monkeypatch)
    path, out = write(tmp_path / "in.txt", TEXT), tmp_path / "out"
    assert run("-i", path, "-o", out) == 0
    data = out.read_bytes() + b"# torn"
    other = write(tmp_path / "other.txt", TEXT.replace("最后", "最前"))
    shorter = write(tmp_path / "shorter.txt", EASY)
    for source, message in (
        (other, "sentence 5 does not match: was the input or were the options different?"),
        (shorter, f"has more sentences than {shorter}"),
    ):
        out.write_bytes(data)
        assert run("-i", source, "-o", out, "--resume") == 2
        assert_one_line(capsys.readouterr().err, f"{out}: ", message)
        assert out.read_bytes() == data
    for name in ("notes.gz", "notes.txt"):
        (tmp_path / name).write_bytes(b"my notes")
        assert run("-i", path, "-o", tmp_path / name, "--resume") == 2
        assert_one_line(capsys.readouterr().err, name)
        assert (tmp_path / name).read_bytes() == b"my notes"


@pytest.mark.parametrize(
    ("arguments", "key"),
    [
        (["--no-confidence"], "confidence"),
        (["--decoding", "viterbi"], "decoding"),
        (["--style", "hk"], "style"),
        (["--lexicon", "words.txt"], "lexicon"),
        (["--model", "model"], "model"),
        (["--errors", "replace"], "errors"),
        (["--format", "chars"], "format"),
        (["--words"], "words"),
    ],
)
def test_other_options_do_not_resume_a_run(tmp_path, capsys, small_chunks, monkeypatch, arguments, key):
    monkeypatch.chdir(tmp_path)
    write(Path("words.txt"), "喜欢北京")
    Path("model").symlink_to(find_model())
    path, out = tmp_path / "in.txt", tmp_path / "out"
    path.write_bytes(TEXT.encode() + b"\xff")
    assert run("-i", path, "-o", out) == 2  # stops at the end and leaves its record
    data = out.read_bytes()
    capsys.readouterr()
    assert run("-i", path, "-o", out, "--resume", *arguments) == 2
    assert_one_line(capsys.readouterr().err, f"{out}: was written with {key} = ", "with the same options")
    assert out.read_bytes() == data
    # With the same options it continues, and the record is removed when the run is done.
    write(path, TEXT)
    assert (tmp_path / ".out.run").exists()
    assert run("-i", path, "-o", out, "--resume") == 0
    assert rebuild(read(out)) == TEXT
    assert not (tmp_path / ".out.run").exists()


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_nothing_is_added_to_a_finished_output(tmp_path, capsys, small_chunks, ending):
    path, out = write(tmp_path / "in.txt", EASY), tmp_path / f"out{ending}"
    assert run("-i", path, "-o", out) == 0
    data = out.read_bytes()
    assert run("-i", path, "-o", out, "--resume") == 0
    assert out.read_bytes() == data
    write(path, EASY * 3)
    assert run("-i", path, "-o", out, "--resume") == 2
    assert_one_line(capsys.readouterr().err, f"{out}: is finished, or was not written by this version")
    assert out.read_bytes() == data
    write(out, "# my notes\n")
    notes = out.read_bytes()
    assert run("-i", path, "-o", out, "--resume") == 2
    assert out.read_bytes() == notes


def test_an_existing_output_is_overwritten_by_force_only(tmp_path, capsys):
    for name in ("out.conllu", "out.json.gz", "out.svg", "out.parquet"):
        out = tmp_path / name
        out.write_bytes(b"precious")
        for arguments in ([EASY], ["-i", write(tmp_path / "in.txt", EASY)]):
            assert run(*arguments, "-o", out) == 2
            error = capsys.readouterr().err
            assert_one_line(error, f"{out}: exists", "--force")
            assert ("--resume" in error) == (name in ("out.conllu", "out.json.gz"))
            assert out.read_bytes() == b"precious"
        assert run(EASY, "-o", out, "--force") == 0
        assert b"precious" not in out.read_bytes()
    write(tmp_path / "figure-2.svg", "precious")
    assert run(EASY, EASY, "-o", tmp_path / "figure.svg") == 2
    assert_one_line(capsys.readouterr().err, "figure-2.svg: exists")
    assert run(EASY, EASY, "-o", tmp_path / "figure.svg", "--force") == 0
    assert run(EASY, "-o", tmp_path / "new.json", "--force") == 0
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_only_files_are_resumed(tmp_path, capsys):
    os.mkfifo(tmp_path / "pipe")
    assert (
        run("-i", write(tmp_path / "in.txt", EASY), "-o", tmp_path / "pipe", "--resume", "--format", "json")
        == 2
    )
    assert_one_line(capsys.readouterr().err, "pipe: is not a regular file")
    assert run(EASY, "-o", "/dev/null") == 0


def test_an_output_belongs_to_one_run_at_a_time(tmp_path, capsys):
    path, out = write(tmp_path / "in.txt", EASY), tmp_path / "out.conllu"
    (tmp_path / "link.conllu").symlink_to(out)
    with claimed(out, "conllu", {}, resume=False, force=False):
        for name in ("out.conllu", "link.conllu"):
            for flags in ([], ["--force"], ["--resume"]):
                for _ in ("before the first sentence", "after it"):
                    assert run("-i", path, "-o", tmp_path / name, *flags) == 2
                    assert_one_line(capsys.readouterr().err, f"{tmp_path / name}: another run is writing it")
                    write(out, "precious")
                assert read(out) == "precious"
                out.unlink()
    assert run("-i", path, "-o", out) == 0


def test_an_output_that_appears_during_the_claim_is_kept(tmp_path, monkeypatch):
    """Another run may finish between the first look at the output and the lock."""
    out = tmp_path / "out.conllu"
    lock = claim.lock

    def finish_first(descriptor):
        write(out, "precious")
        return lock(descriptor)

    monkeypatch.setattr(claim, "lock", finish_first)
    with pytest.raises(InputError, match="exists"), claimed(out, "conllu", {}, resume=False, force=False):
        write(out, "lost")
    assert read(out) == "precious"
    assert not claim.record_of(out).exists()


def test_a_record_is_no_way_to_other_files(tmp_path, capsys):
    victim, record = write(tmp_path / "victim", "precious"), tmp_path / ".out.conllu.run"
    for make in (record.symlink_to, record.hardlink_to):
        make(victim)
        assert run(EASY, "-o", tmp_path / "out.conllu") == 2
        assert_one_line(capsys.readouterr().err, str(record))
        record.unlink()
    for content in ("precious", "[" * 50_000, "[]"):
        write(record, content)
        assert run(EASY, "-o", tmp_path / "out.conllu") == 2
        assert_one_line(capsys.readouterr().err, f"{record}: is not the record of a run")
        assert read(record) == content
    record.unlink()
    os.mkfifo(record)
    assert run(EASY, "-o", tmp_path / "out.conllu") == 2
    assert read(victim) == "precious"
    assert not (tmp_path / "out.conllu").exists()


def test_a_table_is_no_way_to_other_files(tmp_path):
    pytest.importorskip("pyarrow")
    victim = write(tmp_path / "victim", "precious")
    (tmp_path / ".out.parquet.unfinished").symlink_to(victim)
    assert run(EASY, "-o", tmp_path / "out.parquet") == 0
    assert read(victim) == "precious"
    assert (tmp_path / "out.parquet").read_bytes()[:4] == b"PAR1"


# ---- what goes wrong


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([EASY, "-i", "x"], "-i cannot be combined with TEXT"),
        ([EASY, "--jobs", "2"], "--jobs cannot be combined with TEXT"),
        (["-i", "x", "--resume"], "standard output cannot be resumed; an output file can"),
        (["-i", "x", "-o", "-", "--resume"], "standard output cannot be resumed; an output file can"),
        (["-i", "x", "-o", "y.svg", "--resume"], "the format svg cannot be resumed"),
        (["-i", "x", "--pin", "0:1"], "--pin needs TEXT"),
        ([EASY, EASY, "--break", "1"], "need a single text"),
        ([EASY, "--pin", "1-2"], "--pin 1-2: expected two offsets A:B"),
        ([EASY, "--pin", "0:2", "--pin", "1:3"], "1"),
        ([EASY, "--pin", "0:99"], "99"),
        ([EASY, "--k-best", "0"], "--k-best"),
        ([EASY, "--k-best", "2", "--no-confidence"], "k_best ranks by probability"),
        ([EASY, "--k-best", "2", "--decoding", "viterbi"], "k_best ranks by probability"),
        (
            ["-i", "x", "-o", "y", "--k-best", "2", "--resume"],
            "several analyses per sentence cannot be resumed",
        ),
        ([EASY, "--words", "--pin", "0:1"], "need a single text without given words"),
        ([EASY, "--format", "xml"], "Invalid value for '--format': 'xml' is not one of 'tree'"),
        (["-i", "no-such-file"], "no-such-file: No such file or directory"),
        (["-i", "x.txt", "y.txt"], "-i cannot be combined with TEXT; quote a pattern: -i 'corpus/*.txt'"),
        ([EASY, "-o", "no-such-folder/"], "no-such-folder/: is a folder; give the name of a file in it"),
        ([EASY, "-o", "/"], "/: is a folder; give the name of a file in it"),
        (["-i", "/"], "/: is a folder; use a pattern such as '/*.txt'"),
        ([EASY, "-o", "no/such/folder"], "no/such/folder: No such file or directory"),
        ([EASY, "--lexicon", "no-such-lexicon"], "no-such-lexicon"),
        ([EASY, "--model", "no-such-model"], "no-such-model"),
    ],
)
def test_wrong_usage_is_one_line_and_code_2(arguments, message, capsys):
    assert run(*arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert_one_line(err, message)


def test_a_lexicon_does_not_go_with_given_words(tmp_path, capsys):
    assert run(EASY, "--words", "--lexicon", write(tmp_path / "words.txt", "图书馆\n")) == 2
    assert_one_line(capsys.readouterr().err, "lexicon")


def test_the_input_is_not_written_over(tmp_path, capsys, monkeypatch):
    path = write(tmp_path / "in.txt", TEXT)
    assert run("-i", path, "-o", path) == 2
    assert_one_line(capsys.readouterr().err, "is also the input")
    with path.open(encoding="utf-8") as stream:
        monkeypatch.setattr("sys.stdin", stream)
        assert run("-o", path) == 2
    assert_one_line(capsys.readouterr().err, f"{path}: is also the input")
    broken = write(tmp_path / "in.gz", TEXT)
    broken.write_bytes(broken.read_bytes()[:-5])
    assert run("-i", broken) == 2
    assert_one_line(capsys.readouterr().err, "in.gz: not a complete gzip file: it ends too early")
    assert run(EASY, "--pin", "0:99", "-o", path, "--force") == 2
    assert_one_line(capsys.readouterr().err, "99")
    assert path.read_bytes() == TEXT.encode()


@pytest.mark.parametrize("ending", ["", ".gz", ".parquet"])
def test_a_mistake_leaves_the_output_of_yesterday_alone(tmp_path, capsys, ending):
    write(tmp_path / "in.txt", EASY)
    write(tmp_path / "rows.jsonl", json.dumps({"text": EASY}))
    (tmp_path / "bad.txt").write_bytes(b"\xff" + EASY.encode())
    out = tmp_path / f"out{ending}"
    for arguments in (
        ["-i", tmp_path / "no-such-file"],
        ["-i", tmp_path / "bad.txt"],
        ["-i", tmp_path / "in.txt", "--text-field", "body"],
        ["-i", tmp_path / "rows.jsonl", "--text-field", "body"],
    ):
        out.write_bytes(b"yesterday")
        assert run(*arguments, "-o", out, "--force") == 2
        assert_one_line(capsys.readouterr().err)
        assert out.read_bytes() == b"yesterday"
    # An input without sentences is not an error.
    assert run("-i", write(tmp_path / "blank.txt", "\n"), "-o", out, "--force") == 0
    assert out.read_bytes() != b"yesterday"
    assert ending == ".parquet" or read(out) == ""


def test_every_input_is_parsed(tmp_path):
    names = [write(tmp_path / name, EASY) for name in ("a.txt", "b.txt")]
    assert run("-i", names[0], "-i", names[1], "-o", tmp_path / "out.json") == 0
    records = [json.loads(line) for line in read(tmp_path / "out.json").splitlines()]
    assert [record["doc_id"] for record in records] == [str(name) for name in names]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_one_line_and_code_1(capsys, monkeypatch):
    assert run(EASY, "-o", "/dev/full") == 1
    assert_one_line(capsys.readouterr().err, "/dev/full: No space left on device")
    with open("/dev/full", "w", encoding="utf-8") as full:  # noqa: PTH123
        monkeypatch.setattr("sys.stdout", full)
        assert run(EASY) == 1
        assert_one_line(capsys.readouterr().err, "zishu: standard output: No space left on device")
        monkeypatch.undo()
        with pytest.raises(OSError, match="No space"):
            full.flush()
        os.dup2(os.open(os.devnull, os.O_WRONLY), full.fileno())


def test_the_bar(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    path = write(tmp_path / "in.txt", TEXT)
    summary = Summary(2)
    with watching(shown=True, totals=True) as watcher:
        watcher.begin(summary, path.stat().st_size, workers=3)
        summary.sentences, summary.characters, summary.written = 1234, len(TEXT), 1
        watcher.advance(summary, path.stat().st_size)
        watcher.fail("b.txt: not\nvalid")
        watcher.end(summary)
    err = capsys.readouterr().err
    assert "100%" in err
    assert "1/2 shards, 3 workers" in err
    assert "zishu: b.txt: not valid\n" in err
    assert "1 shards written, 0 skipped, 0 failed; 1,234 sentences" in err
    assert "1,234 sentences" in err
    assert "characters/s" in err


# ---- the installed command


def start(*arguments: object, **options) -> subprocess.Popen[bytes]:
    return subprocess.Popen([COMMAND, "parse", *map(str, arguments)], stderr=subprocess.PIPE, **options)


@pytest.mark.skipif(os.name != "posix", reason="pipes as on POSIX")
def test_the_command_reads_and_writes_pipes():
    with start("--format", "json", stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        out, err = process.communicate(TEXT.encode(), timeout=120)
    assert (process.returncode, err) == (0, b"")
    assert from_json(out.splitlines()[0]).text == EASY


@pytest.mark.skipif(os.name != "posix", reason="pipes as on POSIX")
def test_a_reader_that_goes_away_is_no_news():
    read_end, write_end = os.pipe()
    os.close(read_end)
    with os.fdopen(write_end, "wb") as closed, start(EASY, stdout=closed) as process:
        assert process.communicate(timeout=120)[1] == b""
    assert process.returncode == 1


def test_a_terminal_gets_colour_a_tree_and_a_hint():
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    with start(stdin=theirs, stdout=theirs, env={**os.environ, "COLUMNS": "60"}) as process:
        os.close(theirs)
        assert process.stderr is not None
        hint = process.stderr.readline()
        os.write(ours, f"{EASY}\n".encode())
        seen = b""
        while b"PUNCT" not in seen:  # the sentence is printed before the input ends
            seen += os.read(ours, 4096)
        os.write(ours, b"\x04")
        with contextlib.suppress(OSError):  # the other side is closed
            while block := os.read(ours, 4096):
                seen += block
        assert process.wait(timeout=120) == 0
        assert process.stderr.read() == b""
    os.close(ours)
    assert b"Press Enter to parse a line" in hint
    assert b"\x1b[" in seen
    assert "喜欢" in seen.decode()


def wait_for_output(path: Path, process: subprocess.Popen[bytes]) -> None:
    while not (path.exists() and path.stat().st_size):
        assert process.poll() is None, process.stderr and process.stderr.read()
        time.sleep(0.01)


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals as on POSIX")
@pytest.mark.parametrize(("name", "jobs"), [("out.conllu", 1), ("out.json.zst", 2)])
def test_kill_minus_9_and_resume(tmp_path, name, jobs):
    # Three chunks of different sentences.
    text = "".join(f"第{k}个人喜欢北京，他在{k * 7}号那天去了上海的公园。\n" for k in range(1500))
    path, whole, out = write(tmp_path / "in.txt", text), tmp_path / f"whole-{name}", tmp_path / name
    options = ("-i", path, "--threads", 1, "--jobs", jobs)
    with start(*options, "-o", whole) as process:
        assert process.wait(timeout=300) == 0
    with start(*options, "-o", out) as process:
        wait_for_output(out, process)
        process.kill()
        process.wait(timeout=60)
    size = out.stat().st_size
    assert 0 < size < whole.stat().st_size
    with start(*options, "-o", out, "--resume") as process:
        assert process.wait(timeout=300) == 0
        assert process.stderr is not None
        assert process.stderr.read() == b""
    assert read(out) == read(whole)
    if not name.endswith(".zst"):
        assert out.read_bytes() == whole.read_bytes()


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").exists(), reason="looks for processes in /proc")
@pytest.mark.skipif(
    signal.getsignal(signal.SIGINT) == signal.SIG_IGN,
    reason="a job in the background of a shell ignores Ctrl-C",
)
def test_interruption_ends_all_processes_and_leaves_a_whole_file(tmp_path):
    path, out = write(tmp_path / "in.txt", (EASY + "\n") * 20_000), tmp_path / "out.gz"
    with start("-i", path, "-o", out, "--jobs", 2, start_new_session=True) as process:
        wait_for_output(out, process)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        assert process.wait(timeout=60) == 130
        assert process.stderr is not None
        told = process.stderr.read().decode()
        assert told.startswith("zishu: interrupted; continue with: zishu parse ")
        assert told.endswith(" --resume\n")
        assert told.count("\n") == 1
    deadline = time.monotonic() + 10
    while any(_group(pid) == process.pid for pid in Path("/proc").iterdir() if pid.name.isdigit()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    with open_bytes(out) as stream:  # complete: its last member is closed
        assert stream.read().endswith(b"\n\n")


def _group(folder: Path) -> int | None:
    try:
        return int((folder / "stat").read_text().rpartition(")")[2].split()[2])
    except (OSError, ValueError):
        return None


# ---- info


def test_info_of_the_bundled_model(capsys):
    assert cli.run(["info"]) == 0
    out = capsys.readouterr().out
    for part in (
        "task",
        "labels",
        "nsubj",
        "parts of speech",
        "NOUN",
        "vocabulary",
        " MB",
        "scores on dev-gsd ",
        "scores on dev in int8 ",
        "scores are by",
    ):
        assert part in out
    assert cli.run(["info", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["task"] == "parse"
    assert found["vocabulary"]["chars"] > 1000
    assert found["files"]["config.json"] > 0


def test_info_of_a_pipeline_with_a_card(tmp_path, capsys):
    settings = {"format": 1, "task": "pipeline", "name": "both"}
    for folder, task in ((tmp_path, "pipeline"), (tmp_path / "segmenter", "segment")):
        folder.mkdir(exist_ok=True)
        (folder / "config.json").write_text(json.dumps(settings | {"task": task}), encoding="utf-8")
    (tmp_path / "treecrf").mkdir()
    labels = {"task": "parse-words", "labels": ["root"]}
    (tmp_path / "treecrf" / "config.json").write_text(json.dumps(settings | labels), encoding="utf-8")
    (tmp_path / "README.md").write_text("# A card\nLicence: CC BY-SA 4.0\n", encoding="utf-8")
    assert cli.run(["info", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert out.endswith("# A card\nLicence: CC BY-SA 4.0\n")
    assert [part in out for part in ("segmenter", "treecrf", "parse-words", "1 labels")] == [True] * 4


@pytest.mark.parametrize("content", [None, "{}", '{"format": 99, "task": "parse"}', "nonsense"])
def test_info_of_what_is_no_model(tmp_path, capsys, content):
    if content is not None:
        (tmp_path / "config.json").write_text(content, encoding="utf-8")
    assert cli.run(["info", str(tmp_path)]) == 2
    assert_one_line(capsys.readouterr().err)


def test_info_and_calibrate_name_what_is_missing(tmp_path, capsys):
    for name in (tmp_path / "no-such-model", write(tmp_path / "file.txt", EASY)):
        assert cli.run(["info", str(name)]) == 2
        assert_one_line(capsys.readouterr().err, f"zishu: {name}: no such model\n")
    empty = write(tmp_path / "empty.conllu", "")
    assert cli.run(["calibrate", "default", str(empty), "--check"]) == 2
    assert_one_line(capsys.readouterr().err, f"{empty}: no sentences found")
