"""Files as users have them: other encodings, bad rows, unknown endings, pages, conversations through pipes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest

from text_files import read, write
from zishu import cli
from zishu.corpus import Options, Watcher, parse_files
from zishu.corpus.documents import kind_of
from zishu.corpus.outputs import format_of
from zishu.errors import FormatError, InputError, ZishuError
from zishu.formats.jsonl import from_json
from zishu.reading import Input, read_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMAND = Path(sys.executable).with_name("zishu")
EASY = "我喜欢北京。"
QUICK = Options(confidence=False)


def run(*arguments: object) -> int:
    return cli.run(["parse", "--no-confidence", *map(str, arguments)])


def texts(path: Path) -> list[str]:
    return [from_json(line).text for line in read(path).splitlines()]


# ---- encodings


@pytest.mark.parametrize("encoding", ["gb18030", "big5", "utf-16", "utf-16-le", "utf-8", "GBK"])
def test_other_encodings(tmp_path: Path, encoding: str) -> None:
    text = "我來了。你說。\n" * 3
    source = tmp_path / "in.txt"
    source.write_bytes(text.encode(encoding))
    assert run("-i", source, "-o", tmp_path / "out.json", "--encoding", encoding) == 0
    assert texts(tmp_path / "out.json") == ["我來了。", "你說。"] * 3
    assert read(source, encoding=encoding) == text


@pytest.mark.parametrize(
    ("encoding", "hint"),
    [
        ("gb18030", "it looks like GB18030: convert it to UTF-8, or parse it with --encoding gb18030"),
        ("big5", "it looks like BIG5: convert it to UTF-8, or parse it with --encoding big5"),
        ("utf-16", "it looks like UTF-16: convert it to UTF-8, or parse it with --encoding utf-16"),
    ],
)
def test_another_encoding_is_guessed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], encoding: str, hint: str
) -> None:
    text = "這個人說：我來了，你們不要走。" if encoding == "big5" else "这个人说：我来了，你们不要走。"
    for name, content in (("in.txt", text), ("in.csv", f"text\n{text}\n")):
        source = tmp_path / name
        source.write_bytes(content.encode(encoding))
        assert run("-i", source) == 2
        error = capsys.readouterr().err
        assert hint in error
        assert error.count("\n") == 1


def test_bytes_of_no_encoding_have_no_hint(tmp_path: Path) -> None:
    source = tmp_path / "in.txt"
    source.write_bytes(b"abc\xff\xfe\xfd\x80")
    with pytest.raises(InputError, match=r"byte 3 \(counted from 0\) is 0xff$"):
        read(source)
    source.write_bytes("好的".encode("gb18030") + b"\xff")
    with pytest.raises(InputError, match=r"not valid gb18030: byte 4 .*0xff$"):
        read(source, encoding="gb18030")
    with Input(source, encoding="gb18030") as text:
        blocks = text.blocks()
        assert next(blocks) == "好的"
        with pytest.raises(InputError):
            next(blocks)


def test_unknown_encodings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("no-such", "base64", "", "\0"):
        assert run("-i", write(tmp_path / "in.txt", EASY), "-o", tmp_path / "out", "--encoding", name) == 2
        assert "unknown encoding" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


# ---- bad documents


class Noting(Watcher):
    def __init__(self) -> None:
        self.failed: list[str] = []

    def fail(self, message: str) -> None:
        self.failed.append(message)


def test_bad_rows_are_named_counted_and_passed_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "rows.jsonl"
    rows = ['{"text": "我来。"}', '{"text": null}', "no JSON", "[]", '{"body": "x"}', '{"text": "他走。"}']
    source.write_text("\n".join(rows), encoding="utf-8")
    out = tmp_path / "out.json"
    assert run("-i", source, "-o", out, "--skip-bad") == 1
    assert texts(out) == ["我来。", "他走。"]
    errors = capsys.readouterr().err.splitlines()
    assert [line.split(": ")[1] for line in errors[:4]] == [f"{source}:{row}" for row in (2, 3, 4, 5)]
    assert errors[4:] == ["zishu: 4 bad documents were skipped; all others are done"]
    assert not (tmp_path / ".out.json.run").exists()


def test_bad_files_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes((EASY * 2).encode() + b"\xff" + EASY.encode())
    write(tmp_path / "b.txt", EASY)
    (tmp_path / "c.csv").write_text('text,x\n我来。\n他走。,1\n"你好。,2\n', encoding="utf-8")
    (tmp_path / "d.jsonl").write_bytes(b'{"text": "\xff"}')
    watcher, out = Noting(), tmp_path / "out.json"
    names = [
        tmp_path / name for name in ("a.txt", "b.txt", "c.csv", "d.jsonl", "missing.jsonl", "missing.txt")
    ]
    with pytest.raises(ZishuError, match="6 bad documents"):
        parse_files(names, out, QUICK, skip_bad=True, watcher=watcher)
    # The last sentence before an error may continue after it.
    assert texts(out) == [EASY, EASY, "他走。"]
    assert [message.split(":")[0] for message in watcher.failed] == [
        str(names[k]) for k in (0, 2, 2, 3, 4, 5)
    ]
    with pytest.raises(InputError, match=r"a\.txt: not valid UTF-8"):
        parse_files(names, out, QUICK, force=True)


def test_null_rows_of_a_table(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table({"text": ["我来。", None, "他走。"]}), tmp_path / "in.parquet")
    out = tmp_path / "out.parquet"
    with pytest.raises(InputError, match=r"row 2: 'text' is missing"):
        parse_files(tmp_path / "in.parquet", out, QUICK)
    assert "".join(pq.read_table(out)["form"].to_pylist()) == "我来。"  # what came before is kept
    with pytest.raises(ZishuError, match="1 bad document was skipped"):
        parse_files(tmp_path / "in.parquet", out, QUICK, skip_bad=True, force=True)
    assert "".join(pq.read_table(out)["form"].to_pylist()) == "我来。他走。"


def test_a_row_without_an_end_is_bad(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write(tmp_path / "in.jsonl", json.dumps({"text": EASY * 10_000}, ensure_ascii=False))
    assert run("-i", source, "-o", tmp_path / "out.json", "--max-document", 1000) == 2
    assert capsys.readouterr().err == f"zishu: {source}:1: a line of more than 1,000 characters\n"
    with pytest.raises(FormatError, match="a line of more than"), Input(source) as text:
        list(text.lines(1000))
    assert len(list(read_lines(source))) == 1


# ---- endings


@pytest.mark.parametrize("name", ["out.docx", "out.tsv", "out.csv.gz", "out.xml"])
def test_unknown_endings_of_outputs(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert run(EASY, "-o", tmp_path / name) == 2
    assert "unknown ending" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
    assert run(EASY, "-o", tmp_path / name, "--format", "json") == 0


def test_endings() -> None:
    assert format_of("out") == format_of("out.gz") == format_of("a.b/out.CONLLU.zst") == "conllu"
    assert format_of("x.html") == "html"
    for name in ("a.docx", "a.pdf", "a.zip", "a.XLSX", "a.conllu.gz"):
        with pytest.raises(InputError, match="files are not supported"):
            kind_of(name)
    assert kind_of("wiki_00") == kind_of("part.001") == kind_of("a.txt.gz") == "text"


# ---- pages and numbers


def test_a_page_with_all_trees(tmp_path: Path) -> None:
    out = tmp_path / "out.html"
    source = tmp_path / "rows.jsonl"
    source.write_text(
        '{"text": "我来。他走。", "id": "<a&b>"}\n{"text": "你好。", "id": "c"}\n', encoding="utf-8"
    )
    assert run("-i", source, "--id-field", "id", "-o", out) == 0
    page = read(out)
    assert page.startswith("<!DOCTYPE html>")
    assert page.endswith("</html>\n")
    assert page.count("<figure>") == page.count("<svg ") == page.count("</figure>") == 3
    assert "&lt;a&amp;b&gt; 1<" in page
    body = page[page.index("<body>") : page.index("</html>")]
    assert len(ET.fromstring(body).findall("figure")) == 3
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "")
    assert run(EASY, EASY, "--format", "html", "-o", tmp_path / "two.html.gz") == 0
    assert read(tmp_path / "two.html.gz").count("<svg ") == 2


def test_numbers_mean_the_same_in_all_formats(tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    source = tmp_path / "rows.jsonl"
    source.write_text('{"text": "我来。他走。"}\n{"text": "你好。"}\n', encoding="utf-8")
    for ending in ("conllu", "json", "parquet"):
        assert run("-i", source, "-o", tmp_path / f"out.{ending}") == 0
    rows = pq.read_table(tmp_path / "out.parquet").to_pylist()
    found = dict.fromkeys((row["sent_id"], row["doc_id"]) for row in rows)
    assert list(found) == [(1, f"{source}:1"), (2, f"{source}:1"), (3, f"{source}:2")]
    records = [json.loads(line) for line in read(tmp_path / "out.json").splitlines()]
    assert [(int(record["sent_id"]), record["doc_id"]) for record in records] == list(found)
    assert [line for line in read(tmp_path / "out.conllu").splitlines() if "sent_id" in line] == [
        f"# sent_id = {number}" for number, _ in found
    ]


# ---- conversations


def start(arguments: Sequence[object], **more: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # type: ignore[call-overload, no-any-return]
        [COMMAND, "parse", *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **more,
    )


@pytest.mark.skipif(os.name != "posix", reason="pipes as on POSIX")
def test_who_waits_in_a_pipe_is_answered() -> None:
    with start(["--format", "json", "--no-confidence"]) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for text in ("我来。", "他走。"):
            process.stdin.write(f"{text}\n\n".encode())
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["text"] == text  # without the end of the input
        process.stdin.close()
        assert process.stdout.read() == b""
        assert process.wait(timeout=60) == 0


@pytest.mark.skipif(os.name != "posix", reason="pipes as on POSIX")
def test_a_pipe_that_is_not_waiting_gives_what_a_file_gives(tmp_path: Path) -> None:
    text = "我来。\n\n 他走。\n\n\n你好。 \n" * 50
    source, out = write(tmp_path / "in.txt", text), tmp_path / "out.conllu"
    assert run("-i", source, "-o", out) == 0
    with start(["--no-confidence"]) as process:
        found, _ = process.communicate(text.encode(), timeout=300)
    assert found.decode() == read(out)


@pytest.mark.skipif(
    signal.getsignal(signal.SIGINT) == signal.SIG_IGN,
    reason="a job in the background of a shell ignores Ctrl-C",
)
def test_ctrl_c_says_how_to_continue(tmp_path: Path) -> None:
    source, out = write(tmp_path / "my text.txt", EASY * 40_000), tmp_path / "out.conllu"
    with start(["-i", source, "-o", out, "--force", "--no-confidence"]) as process:
        while not (out.exists() and out.stat().st_size):
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=120) == 130
        assert process.stderr is not None
        error = process.stderr.read().decode()
    assert error == (
        f"zishu: interrupted; continue with: zishu parse -i '{source}' -o {out} --no-confidence --resume\n"
    )
    assert (tmp_path / ".out.conllu.run").exists()
