"""`parse_files` as Python users call it: the same as the command line, with the same errors."""

from __future__ import annotations

import doctest
import json
import re
from pathlib import Path

import pytest

import zishu
import zishu.corpus
from text_files import keep_records, read, write
from zishu import cli
from zishu.corpus import Options, Summary, Watcher, parse_files, parse_texts
from zishu.errors import InputError
from zishu.formats.jsonl import from_json

EASY = "我喜欢北京。"
TEXT = EASY + "他去上海！\n\n  你好吗？今天天气很好。"
QUICK = Options(confidence=False)


def command(*arguments: object) -> None:
    assert cli.run(["parse", *map(str, arguments)]) == 0


def forms(path: Path) -> list[list[str]]:
    return [[word.form for word in from_json(line).words] for line in read(path).splitlines()]


def test_public_names_are_sorted_and_there() -> None:
    assert zishu.corpus.__all__ == sorted(zishu.corpus.__all__)
    assert {"Options", "parse_files"} <= set(zishu.corpus.__all__)
    for name in zishu.corpus.__all__:
        assert getattr(zishu.corpus, name) is not None


def test_the_example_of_the_documentation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guide = Path(__file__).parents[2] / "docs" / "files.md"
    (block,) = re.findall(
        r"^```pycon\n(.*?)^```$", guide.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    monkeypatch.chdir(tmp_path)
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner()
    results = runner.run(parser.get_doctest(block, {}, guide.name, str(guide), 0))
    assert results.attempted > 3
    assert results.failed == 0


@pytest.mark.parametrize(
    ("name", "options", "more", "arguments"),
    [
        ("out.conllu.gz", Options(), {}, []),
        ("out.jsonl", Options(k_best=2), {}, ["--k-best", 2]),
        (
            "out",
            Options(decoding="viterbi"),
            {"format": "chars"},
            ["--decoding", "viterbi", "--format", "chars"],
        ),
        ("out.json.zst", QUICK, {"errors": "replace"}, ["--no-confidence", "--errors", "replace"]),
        ("out.conllu", Options(words=True), {"jobs": 2}, ["--words", "--jobs", 2]),
    ],
)
def test_python_writes_what_the_command_line_writes(
    tmp_path: Path, name: str, options: Options, more: dict[str, object], arguments: list[object]
) -> None:
    source = write(tmp_path / "in.txt", TEXT)
    ours, theirs = tmp_path / f"ours-{name}", tmp_path / f"theirs-{name}"
    summary = parse_files(source, ours, options, threads=1, **more)  # type: ignore[arg-type]
    command("-i", source, "-o", theirs, "--threads", 1, *arguments)
    assert read(ours) == read(theirs)
    assert (summary.inputs, summary.written, summary.failed) == (1, 1, 0)
    assert summary.sentences == (2 if options.words else 4)


def test_several_files_and_a_lexicon(tmp_path: Path) -> None:
    files = [write(tmp_path / f"{name}.txt", EASY) for name in "ab"]
    (tmp_path / "c.jsonl").write_text(json.dumps({"text": EASY}), encoding="utf-8")
    out = tmp_path / "out.json"
    done = parse_files([*files, tmp_path / "*.jsonl"], out, Options(confidence=False, lexicon=["欢北京"]))
    assert forms(out) == [["我", "喜", "欢北京", "。"]] * 3
    assert done == Summary(3, written=3, sentences=3, characters=18)
    ids = [json.loads(line)["doc_id"] for line in read(out).splitlines()]
    assert ids == [str(files[0]), str(files[1]), f"{tmp_path / 'c.jsonl'}:1"]


def test_rows_become_a_table(tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    (tmp_path / "a.jsonl").write_text(json.dumps({"body": EASY, "url": "x"}), encoding="utf-8")
    parse_files(tmp_path / "a.jsonl", tmp_path / "a.parquet", QUICK, text_field="body", id_field="url")
    rows = pq.read_table(tmp_path / "a.parquet").to_pylist()
    assert [(row["doc_id"], row["form"]) for row in rows[:2]] == [("x", "我"), ("x", "喜欢")]


def test_an_interrupted_run_is_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zishu.corpus.chunks, "CHUNK", 5)
    keep_records(monkeypatch)
    source, out = write(tmp_path / "in.txt", TEXT), tmp_path / "out.conllu"
    parse_files(source, out, QUICK)
    whole = out.read_bytes()
    out.write_bytes(whole[: len(whole) // 2])
    parse_files(source, out, QUICK, resume=True)
    assert out.read_bytes() == whole


def test_a_watcher_sees_all_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[object, ...]] = []

    class Noting(Watcher):
        def begin(self, summary: Summary, size: int | None, workers: int) -> None:
            seen.append(("begin", summary.inputs, size, workers))

        def advance(self, summary: Summary, size: float) -> None:
            seen.append((summary.sentences, summary.characters, round(size)))

        def end(self, summary: Summary) -> None:
            seen.append(("end", summary.written))

    monkeypatch.setattr(zishu.corpus.chunks, "CHUNK", 6)
    parse_files(write(tmp_path / "in.txt", EASY * 2), tmp_path / "out", QUICK, watcher=Noting())
    assert seen == [("begin", 1, 36, 1), (1, 6, 18), (2, 12, 36), ("end", 1)]


def test_texts(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    parse_texts([EASY], out, QUICK, pins=[(1, 5)], breaks=[5])
    assert forms(out) == [["我", "喜欢北京", "。"]]
    parse_texts(["我 喜 欢北京。", "他 来"], out, Options(words=True, confidence=False), force=True)
    assert forms(out) == [["我", "喜", "欢北京。"], ["他", "来"]]
    before = out.read_bytes()
    with pytest.raises(InputError, match="99"):
        parse_texts([EASY], out, pins=[(0, 99)], force=True)
    with pytest.raises(InputError, match="need a single text"):
        parse_texts([EASY, EASY], out, breaks=[1])
    assert out.read_bytes() == before


@pytest.mark.parametrize(
    ("output", "options", "more", "message"),
    [
        ("out.svg", {}, {"resume": True}, "the format svg cannot be resumed; conllu, chars, json can"),
        ("out.json", {"k_best": 2}, {"resume": True}, "several analyses per sentence cannot be resumed"),
        ("-", {}, {"resume": True, "format": "json"}, "standard output cannot be resumed"),
        ("-", {}, {"format": "parquet"}, "a Parquet table needs a file"),
        ("out", {}, {"format": "xml"}, "unknown format 'xml': choose from tree, text, conllu"),
        ("out", {}, {"engine": "Ray"}, "unknown engine 'Ray': choose from local, ray"),
        ("out.parquet", {"k_best": 2}, {}, "one analysis per sentence"),
        ("out", {"k_best": -1}, {}, "k_best must be at least 0"),
        ("out", {"k_best": 2, "decoding": "viterbi"}, {}, "k_best ranks by probability"),
        ("out", {"words": True, "lexicon": ["我"]}, {}, "a lexicon cannot be used"),
        ("out", {}, {"jobs": 0}, "the number of jobs must be at least 1"),
        ("out", {}, {"threads": -1}, "threads must be at least 0"),
        ("in.txt", {}, {}, "in.txt: is also the input"),
        ("out", {}, {"text_field": "body"}, "in.txt: plain text has no fields"),
        (
            "out",
            {},
            {"engine": "ray", "id_field": "x"},
            "the Ray engine reads plain text, which has no fields",
        ),
        ("out", {}, {"engine": "ray", "format": "svg"}, "the Ray engine writes conllu, chars, json, not svg"),
    ],
)
def test_what_makes_no_sense_is_an_input_error(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    output: str,
    options: dict[str, object],
    more: dict[str, object],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    write(Path("in.txt"), EASY)
    with pytest.raises(InputError, match=re.escape(message)):
        parse_files("in.txt", output, Options(**options), **more)  # type: ignore[arg-type]
    assert [path.name for path in tmp_path.iterdir()] == ["in.txt"]
    assert read("in.txt") == EASY


def test_a_missing_file_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        parse_files(tmp_path / "nothing.txt", tmp_path / "out")
    with pytest.raises(InputError, match="no file matches"):
        parse_files(tmp_path / "*.txt", tmp_path / "out")
