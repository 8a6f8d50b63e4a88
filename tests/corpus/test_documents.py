"""Files to texts: names and patterns, plain text, JSON lines, CSV, TSV, Parquet, and bad rows."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from zishu.corpus import RawDocument, read_documents
from zishu.corpus.documents import expand, kind_of
from zishu.errors import FormatError, InputError

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def texts(found: Any) -> list[tuple[str, str]]:
    return [(document.doc_id, document.read()) for document in found]


def test_names_and_patterns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("b.txt", "a.txt", "c[1].txt", "sub/d.txt"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text("x", encoding="utf-8")
    Path("folder.txt").mkdir()
    assert expand(["*.txt"]) == ["a.txt", "b.txt", "c[1].txt"]
    assert expand(["c[1].txt"]) == ["c[1].txt"]
    assert expand([Path("b.txt"), "?.txt", "-"]) == ["b.txt", "a.txt", "-"]
    assert expand(["./**/d.txt"]) == ["./sub/d.txt"]
    assert expand(["missing.txt"]) == ["missing.txt"]
    with pytest.raises(InputError, match=r"\*\.csv: no file matches"):
        expand(["*.csv"])


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.txt", "text"),
        ("a", "text"),
        ("-", "text"),
        ("a.txt.gz", "text"),
        ("a.JSONL", "jsonl"),
        ("a.ndjson.zst", "jsonl"),
        ("a.json", "jsonl"),
        ("a.csv.gz", "csv"),
        ("a.tsv", "tsv"),
        ("dir.csv/a", "text"),
        ("a.parquet", "parquet"),
    ],
)
def test_the_ending_tells_the_kind(name: str, kind: str) -> None:
    assert kind_of(name) == kind


def test_a_parquet_file_is_not_compressed_from_outside() -> None:
    with pytest.raises(InputError, match="compressed internally"):
        kind_of("a.parquet.gz")


def test_plain_text_is_a_document_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("\ufeff我来。\r\n".encode())
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress("他走。".encode()))
    found = list(read_documents([tmp_path / "*"]))
    # A document does not depend on those before it.
    assert found[1].read() == "他走。"
    assert found[0].read() == "我来。\r\n"
    assert [document.doc_id for document in found] == [str(tmp_path / "a.txt"), str(tmp_path / "b.txt.gz")]
    with pytest.raises(InputError, match=r"a\.txt: plain text has no fields"):
        list(read_documents([tmp_path / "a.txt"], text_field="body"))


def test_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    lines = [
        json.dumps({"id": 7, "body": "我\u2028来\n。"}, ensure_ascii=False),
        "  ",
        '{"id": "x", "body": "\\ud800", "more": null}\r',
        '{"id": "y", "body": ""}',
    ]
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    assert texts(read_documents([path], text_field="body")) == [
        (f"{path}:1", "我\u2028来\n。"),
        (f"{path}:3", "\ud800"),
        (f"{path}:4", ""),
    ]
    found = read_documents([path], text_field="body", id_field="id")
    assert [document.doc_id for document in found] == ["7", "x", "y"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "not JSON: Expecting property name enclosed in double quotes at column 2"),
        ('{"text": "a\tb"}', "not JSON: Invalid control character at column 12"),
        ("[" * 100_000, "not JSON"),
        ('["text"]', "expected a JSON object"),
        ('{"body": "x"}', "no key 'text': choose one with --text-field; found: 'body'"),
        ('{"text": null, "id": 1}', "'text' is missing or null"),
        ('{"text": 7, "id": 1}', "'text' is 7, not a string"),
        ('{"text": "x"}', "'id' is missing or null"),
        ('{"text": "x", "id": true}', "'id' is True, neither"),
        ('{"text": "x", "id": [1]}', r"'id' is \[1\], neither"),
    ],
)
def test_a_bad_line_of_json_is_named(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "好", "id": 1}\n\n' + line + "\n", encoding="utf-8")
    found = read_documents([path], id_field="id")
    assert next(found).read() == "好"
    with pytest.raises(FormatError, match=rf"a\.jsonl:3: .*{message}"):
        next(found)


def test_csv(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    long = "长" * 200_000
    path.write_bytes(f'\ufeffid,text\r\n\r\n1,"我,""来""\r\n。"\r\n2,{long}\r\n3,\r\n'.encode())
    assert texts(read_documents([path])) == [
        (f"{path}:1", '我,"来"\r\n。'),
        (f"{path}:2", long),
        (f"{path}:3", ""),
    ]
    assert [document.doc_id for document in read_documents([path], id_field="id")] == ["1", "2", "3"]
    (tmp_path / "a.tsv").write_text("text\tx\n我，\t2\n", encoding="utf-8")
    assert texts(read_documents([tmp_path / "a.tsv"], id_field="x")) == [("2", "我，")]


def test_quotation_marks_are_text_in_tsv(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    rows = ['"你好。', '"我来。"他说。', '他说"好', '""']
    path.write_text("text\tx\n" + "".join(f"{row}\t1\n" for row in rows), encoding="utf-8")
    assert [text for _, text in texts(read_documents([path]))] == rows
    path.write_bytes("text\n我\r来\n".encode())
    with pytest.raises(FormatError, match=r"a\.tsv:2: row 1: not TSV: "):
        list(read_documents([path]))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "a.csv:1: no header"),
        ("\n\n", "no header"),
        ("a,b\n1,2\n", "a.csv:1: no column 'text': choose one with --text-field; found: 'a', 'b'"),
        ("text,text\n1,2\n", "a.csv:1: 2 columns 'text'"),
        ('text,b\n"x\n",1\n1,2,3\n', "a.csv:4: row 2: 3 fields, but the header has 2"),
        ("text,b\nx\n", "a.csv:2: row 1: 1 field, but"),
        ('text\nx\n"y', "a.csv:3: row 2: not CSV: unexpected end of data"),
        ('text\n"x"y\n', "a.csv:2: row 1: not CSV"),
    ],
)
def test_a_bad_row_of_csv_is_named(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(content, encoding="utf-8", newline="")
    with pytest.raises(FormatError) as caught:
        list(read_documents([path]))
    assert message in str(caught.value)


def test_broken_bytes(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"text\n\xff\n")
    with pytest.raises(InputError, match=r"a\.csv:2: not valid UTF-8: byte 1 of the line is 0xff"):
        list(read_documents([path]))
    assert texts(read_documents([path], errors="replace")) == [(f"{path}:1", "\ufffd")]


@pytest.mark.parametrize("kind", ["string", "large_string", "string_view", "dictionary"])
def test_parquet(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a.parquet"
    values = [f"我{number}" for number in range(600)]
    column = pa.array(values)
    column = column.dictionary_encode() if kind == "dictionary" else column.cast(getattr(pa, kind)())
    pq.write_table(pa.table({"text": column, "n.r": list(range(600))}), path, row_group_size=250)
    assert texts(read_documents([path])) == [(f"{path}:{row}", text) for row, text in enumerate(values, 1)]
    found = texts(read_documents([path], id_field="n.r"))
    assert found == [(str(number), text) for number, text in enumerate(values)]
    assert texts(read_documents([path], id_field="text"))[0] == ("我0", "我0")


def test_bad_parquet_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"

    def fails(message: str, **options: str) -> None:
        with pytest.raises(InputError, match=message):
            list(read_documents([path], **options))

    pq.write_table(pa.table({"text": ["我", None], "n": [1.5, 2.0], "id": [1, None]}), path)
    fails(r"a\.parquet: row 2: 'text' is missing")
    fails("no column 'body': choose one with --text-field; found: 'text', 'n', 'id'", text_field="body")
    fails("the column 'n' holds double, not strings", text_field="n")
    fails("row 1: 'n' is 1.5, neither", id_field="n")
    good = path.read_bytes()
    path.write_bytes(good[:-20])
    fails("not a Parquet file, or a damaged one")
    path.write_text("text\n", encoding="utf-8")
    fails("not a Parquet file, or a damaged one")
    bad = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff")]
    )
    pq.write_table(pa.table({"text": bad}), path)
    fails("row 1: not valid UTF-8")
    path.unlink()
    with pytest.raises(FileNotFoundError):
        list(read_documents([path]))


def test_standard_input_may_be_json_lines(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "in"
    path.write_text('{"body": "我"}\n', encoding="utf-8")
    with path.open(encoding="utf-8") as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        assert texts(read_documents(["-"], text_field="body")) == [("-:1", "我")]
    with path.open(encoding="utf-8") as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        assert texts(read_documents(["-"])) == [("-", '{"body": "我"}\n')]


def test_several_files_in_order(tmp_path: Path) -> None:
    (tmp_path / "1.txt").write_text("一", encoding="utf-8")
    (tmp_path / "2.jsonl").write_text('{"text": "二"}', encoding="utf-8")
    (tmp_path / "3.csv").write_text("text\n三\n", encoding="utf-8")
    assert [document.read() for document in read_documents([tmp_path / "*"])] == ["一", "二", "三"]
    assert RawDocument("a", iter("一二")).read() == "一二"


def test_a_row_has_a_limit(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('text\n一二三\n"四\n五"\n"六' + "\n七八" * 20, encoding="utf-8")
    documents = read_documents([path], longest=20)
    assert [next(documents).read() for _ in range(2)] == ["一二三", "四\n五"]
    with pytest.raises(FormatError, match=r"a\.csv:\d+: a row of more than 20 characters"):
        next(documents)
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "一"}\n{"text": "' + "一" * 20 + '"}\n', encoding="utf-8")
    documents = read_documents([path], longest=20)
    assert next(documents).read() == "一"
    with pytest.raises(FormatError, match=r"a\.jsonl:2: a line of more than 20 characters"):
        next(documents)
