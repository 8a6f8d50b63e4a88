from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings

from parsed import SHANGHAI, parsed, sentences
from zishu import __version__, cli, load
from zishu.cli import _parsing
from zishu.errors import FormatError, InputError, MissingExtra
from zishu.tables import (
    ParquetWriter,
    RawDocument,
    expand,
    kind_of,
    read_documents,
    schema,
    to_batch,
    to_batches,
    to_table,
    write_parquet,
)

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

if TYPE_CHECKING:
    from zishu.document import Sentence

BARE = parsed([("我", None, 2, "nsubj", None), ("走", None, 0, "root", None)])


def texts(found: Any) -> list[tuple[str, str]]:
    return [(document.doc_id, document.read()) for document in found]


# ---- words to tables


def test_a_table_has_a_row_a_word() -> None:
    table = to_table([("a", [BARE, SHANGHAI]), ("b", []), ("c", [BARE])])
    assert table.num_rows == 2 + 5 + 2
    rows = table.to_pylist()
    assert [(row["doc_id"], row["sent_id"], row["id"]) for row in rows[:3]] == [
        ("a", 1, 1),
        ("a", 1, 2),
        ("a", 2, 1),
    ]
    assert rows[-1]["doc_id"] == "c"
    assert rows[-1]["sent_id"] == 1
    word = rows[5]
    assert {name: word[name] for name in ("form", "start", "end", "upos", "head", "deprel")} == {
        "form": "金融业",
        "start": 9,
        "end": 12,
        "upos": "NOUN",
        "head": 3,
        "deprel": "obj",
    }
    assert word["char_heads"] == [3, 1, 0]
    assert word["root"] == 2
    shanghai = SHANGHAI.words[3]
    for name in ("boundary_prob", "head_prob", "label_prob", "prob"):
        assert word[name] == pytest.approx(getattr(shanghai, name), rel=1e-6)
    assert word["sent_prob"] == SHANGHAI.prob
    assert rows[0]["upos"] is None
    assert rows[0]["char_heads"] is None
    assert rows[0]["prob"] is None


def test_the_types_of_the_columns() -> None:
    kinds = {field.name: str(field.type) for field in schema()}
    assert kinds["doc_id"] == kinds["form"] == kinds["upos"] == kinds["deprel"] == "string"
    assert kinds["sent_id"] == kinds["id"] == kinds["head"] == kinds["root"] == "int32"
    assert kinds["start"] == kinds["end"] == "int64"
    assert kinds["prob"] == "float"
    assert kinds["sent_cut"] == "bool"
    assert schema().field("char_heads").type.value_type == pa.int32()
    assert not schema().field("form").nullable
    assert schema().field("upos").nullable
    assert schema().metadata == {b"zishu": __version__.encode()}


@settings(max_examples=50)
@given(sentences())
def test_every_sentence_becomes_rows(sentence: Sentence) -> None:
    batch = to_batch([("d", 7, sentence)])
    batch.validate(full=True)
    rows = batch.to_pylist()
    assert len(rows) == len(sentence.words)
    for row, word in zip(rows, sentence.words, strict=True):
        assert row["form"] == word.form.encode("utf-8", "backslashreplace").decode()
        assert (row["id"], row["start"], row["end"], row["head"]) == (
            word.id,
            word.start,
            word.end,
            word.head,
        )
        assert row["char_heads"] == (None if word.char_heads is None else list(word.char_heads))


def test_no_words_make_an_empty_table() -> None:
    assert to_table([]).schema == schema()
    assert to_table([]).num_rows == 0
    assert list(to_batches([("a", [])])) == []


def test_a_written_file_is_the_table(tmp_path: Path) -> None:
    documents = [(str(number), [SHANGHAI, BARE]) for number in range(1200)]
    path = tmp_path / "words.parquet"
    assert write_parquet(path, iter(documents)) == 1200 * 7
    assert pq.read_table(path).equals(to_table(documents))
    assert [file.name for file in tmp_path.iterdir()] == ["words.parquet"]


def test_row_groups_are_bounded(tmp_path: Path) -> None:
    path = tmp_path / "words.parquet"
    with ParquetWriter(path, row_group=4) as out:
        for number in range(1, 4):
            out.write(to_batch([("a", number, SHANGHAI)]))
        out.write(to_batch([("b", 1, parsed([("我", None, 0, "root", None)]))]))
    assert out.rows == 16
    about = pq.ParquetFile(path).metadata
    assert [about.row_group(k).num_rows for k in range(about.num_row_groups)] == [4, 4, 4, 4]
    assert pq.read_table(path)["sent_id"].to_pylist() == [1] * 5 + [2] * 5 + [3] * 5 + [1]


def test_a_file_without_words_is_a_file(tmp_path: Path) -> None:
    assert write_parquet(tmp_path / "none.parquet", []) == 0
    assert pq.read_table(tmp_path / "none.parquet").equals(to_table([]))


def test_what_fails_leaves_the_old_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "words.parquet"
    write_parquet(path, [("old", [BARE])])

    def broken() -> Any:
        yield "new", [SHANGHAI]
        raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        write_parquet(path, broken())

    def stopped() -> None:
        with ParquetWriter(path, row_group=2) as out:
            out.write(to_batch([("new", 1, SHANGHAI)]))
            raise RuntimeError("late")

    with pytest.raises(RuntimeError, match="late"):
        stopped()
    assert pq.read_table(path)["doc_id"].to_pylist() == ["old", "old"]
    assert [file.name for file in tmp_path.iterdir()] == ["words.parquet"]


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"words\.parquet"):
        write_parquet(tmp_path / "no" / "words.parquet", [])


def test_a_row_group_has_rows(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="at least 1 row"):
        ParquetWriter(tmp_path / "x.parquet", row_group=0)


def test_without_pyarrow_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match=r"zishu\[tables\]"):
        write_parquet(tmp_path / "x.parquet", [])
    with pytest.raises(MissingExtra, match=r"zishu\[tables\]"):
        list(read_documents([tmp_path / "x.parquet"]))
    # The others do without it.
    (tmp_path / "a.csv").write_text("text\n我\n", encoding="utf-8")
    assert texts(read_documents([tmp_path / "a.csv"]))[0][1] == "我"


# ---- files to texts


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
    with pytest.raises(InputError, match=r"\*\.csv: no file"):
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
    with pytest.raises(InputError, match="compression inside"):
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
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ('["text"]', "a JSON object is expected"),
        ('{"body": "x"}', "no key 'text'; there are: 'body'"),
        ('{"text": null, "id": 1}', "'text' is missing, not a string"),
        ('{"text": 7, "id": 1}', "'text' is 7, not a string"),
        ('{"text": "x"}', "'id' is missing, neither"),
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
        ("a,b\n1,2\n", "a.csv:1: no column 'text'; there are: 'a', 'b'"),
        ("text,text\n1,2\n", "a.csv:1: 2 columns 'text'"),
        ('text,b\n"x\n",1\n1,2,3\n', "a.csv:4: row 2: 3 fields where the header has 2"),
        ("text,b\nx\n", "a.csv:2: row 1: 1 fields"),
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
    with pytest.raises(InputError, match=r"a\.csv: not valid UTF-8: byte 5"):
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
    fails("no column 'body'; there are: 'text', 'n', 'id'", text_field="body")
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


# ---- the command


ROWS = [("n1", "我喜欢北京。他去上海！"), ("n2", ""), ("n 3", " 今天天气很好。\n\n你好吗？")]


def run(*arguments: object) -> int:
    return cli.run(["parse", *map(str, arguments)])


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    lines = [json.dumps({"name": name, "body": text}) for name, text in ROWS]
    (tmp_path / "news.jsonl").write_text("\n".join(lines), encoding="utf-8")
    table = pa.table({"body": [text for _, text in ROWS], "name": [name for name, _ in ROWS]})
    pq.write_table(table, tmp_path / "news.parquet")
    cells = [f'{name},"{text}"\n' for name, text in ROWS]
    (tmp_path / "news.csv").write_text("name,body\n" + "".join(cells), encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet"])
def test_rows_become_a_table_of_words(corpus: Path, ending: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_parsing, "CHUNK", 10)
    out = corpus / "words.parquet"
    source = corpus / f"news.{ending}"
    assert run("-i", source, "-o", out, "--text-field", "body", "--id-field", "name") == 0
    parser = load()
    expected = to_table([(name, parser(text)) for name, text in ROWS])
    found = pq.read_table(out)
    exact = [name for name in found.column_names if not name.endswith("prob")]
    assert found.select(exact).equals(expected.select(exact))
    assert found["prob"].to_pylist() == pytest.approx(expected["prob"].to_pylist(), abs=1e-4)


def test_texts_and_text_files_become_tables(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = corpus / "words.parquet"
    assert run("我来。", "他走。", "-o", out) == 0
    assert pq.read_table(out)["doc_id"].unique().to_pylist() == ["1", "2"]
    monkeypatch.chdir(corpus)
    Path("a.txt").write_text("我来。他走。", encoding="utf-8")
    assert run("-i", "a.txt", "-o", out, "--no-confidence") == 0
    rows = pq.read_table(out).to_pylist()
    assert {row["doc_id"] for row in rows} == {"a.txt"}
    assert {row["sent_id"] for row in rows} == {1, 2}
    assert {row["prob"] for row in rows} == {None}


def test_documents_in_text_formats(corpus: Path) -> None:
    (corpus / "one.txt").write_text("我来。", encoding="utf-8")
    (corpus / "two.txt").write_text("你好！他走。", encoding="utf-8")
    out = corpus / "out.conllu"
    assert run("-i", corpus / "*.txt", "-o", out) == 0
    heads = [
        line for line in out.read_text("utf-8").splitlines() if line.startswith(("# newdoc", "# sent_id"))
    ]
    assert heads == [
        f"# newdoc id = {corpus / 'one.txt'}",
        "# sent_id = 1",
        f"# newdoc id = {corpus / 'two.txt'}",
        "# sent_id = 2",
        "# sent_id = 3",
    ]
    out = corpus / "out.jsonl"
    assert run("-i", corpus / "news.csv", "--text-field", "body", "--id-field", "name", "-o", out) == 0
    records = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    assert [record["doc_id"] for record in records] == ["n1", "n1", "n 3", "n 3"]
    assert [record["sent_id"] for record in records] == ["1", "2", "3", "4"]


def test_documents_are_resumed(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_parsing, "CHUNK", 10)
    out = corpus / "out.conllu"
    arguments = ["-i", corpus / "news.jsonl", "--text-field", "body", "-o", out]
    assert run(*arguments) == 0
    whole = out.read_bytes()
    for size in (0, 40, whole.index(b"\n\n") + 2, len(whole) - 3, len(whole)):
        out.write_bytes(whole[:size])
        assert run(*arguments, "--resume") == 0
        assert out.read_bytes() == whole


@pytest.mark.parametrize("kind", ["conllu", "chars", "json"])
def test_a_run_is_resumed_behind_a_lone_surrogate(tmp_path: Path, kind: str) -> None:
    source, out = tmp_path / "in.jsonl", tmp_path / "out"
    source.write_text(r'{"text": "我\ud800来。他走。"}', encoding="utf-8")
    arguments = ["-i", source, "-o", out, "--format", kind]
    assert run(*arguments) == 0
    whole = out.read_bytes()
    second = whole.index(b'"sent_id": "2"' if kind == "json" else b"# sent_id = 2")
    out.write_bytes(whole[: second + 5])
    assert run(*arguments, "--resume") == 0
    assert out.read_bytes() == whole


@pytest.mark.slow
def test_several_processes_write_the_same_table(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_parsing, "CHUNK", 500)
    (corpus / "big.jsonl").write_text(
        "".join(json.dumps({"text": f"今天是第{number}天，我们去公园。"}) + "\n" for number in range(300)),
        encoding="utf-8",
    )
    tables = []
    for jobs in (1, 2):
        out = corpus / f"{jobs}.parquet"
        assert run("-i", corpus / "big.jsonl", "-o", out, "--jobs", jobs, "--no-confidence") == 0
        tables.append(pq.read_table(out))
    assert tables[0].num_rows > 2_000
    assert tables[0].equals(tables[1])


def test_a_bad_row_ends_the_run(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = corpus / "bad.jsonl"
    source.write_text('{"text": "我来。"}\n{"text": 3}\n{"text": "他走。"}\n', encoding="utf-8")
    assert run("-i", source, "-o", corpus / "out.conllu") == 2
    assert capsys.readouterr().err == f"zishu: {source}:2: 'text' is 3, not a string\n"
    # What came before it is written; but half of a Parquet file would be of no use.
    assert "# text = 我来。" in (corpus / "out.conllu").read_text("utf-8")
    assert run("-i", source, "-o", corpus / "out.parquet") == 2
    assert sorted(file.name for file in corpus.glob("*out*")) == ["out.conllu"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["我", "--format", "parquet"], "--format parquet needs -o FILE"),
        (["我", "--format", "parquet", "-o", "-"], "--format parquet needs -o FILE"),
        (["我", "-o", "x.parquet", "--kbest", "2"], "--kbest does not go with --format parquet"),
        (["-i", "a.txt", "-o", "x.parquet", "--resume"], "--resume does not go with --format parquet"),
        (["我", "--text-field", "x"], "--text-field does not go with TEXT"),
        (["-i", "*.nothing"], "*.nothing: no file has such a name"),
        (["-i", "a.txt", "--text-field", "x"], "a.txt: plain text has no fields"),
        (["我", "-o", "x.parquet.gz"], "compression inside"),
    ],
)
def test_wrong_usage(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_text("我", encoding="utf-8")
    assert run(*arguments) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert message in error
    assert [file.name for file in tmp_path.iterdir()] == ["a.txt"]


def test_the_input_is_not_written_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pq.write_table(pa.table({"text": ["我"]}), tmp_path / "a.parquet")
    assert run("-i", tmp_path / "*.parquet", "-o", tmp_path / "a.parquet") == 2
    assert "is the input, too" in capsys.readouterr().err
