"""`zishu parse` with rows in and words out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from text_files import keep_records
from zishu import cli, load
from zishu.corpus import chunks, to_table

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

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
    monkeypatch.setattr(chunks, "CHUNK", 10)
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
    assert run("-i", "a.txt", "-o", out, "--no-confidence", "--force") == 0
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
    monkeypatch.setattr(chunks, "CHUNK", 10)
    keep_records(monkeypatch)
    out = corpus / "out.conllu"
    arguments = ["-i", corpus / "news.jsonl", "--text-field", "body", "-o", out]
    assert run(*arguments) == 0
    whole = out.read_bytes()
    for size in (0, 40, whole.index(b"\n\n") + 2, len(whole) - 3, len(whole)):
        out.write_bytes(whole[:size])
        assert run(*arguments, "--resume") == 0
        assert out.read_bytes() == whole


@pytest.mark.parametrize("kind", ["conllu", "chars", "json"])
def test_a_run_is_resumed_behind_a_lone_surrogate(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_records(monkeypatch)
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
    monkeypatch.setattr(chunks, "CHUNK", 500)
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
    # What came before it is written.
    assert "# text = 我来。" in (corpus / "out.conllu").read_text("utf-8")
    assert run("-i", source, "-o", corpus / "out.parquet") == 2
    assert "".join(pq.read_table(corpus / "out.parquet")["form"].to_pylist()) == "我来。"
    assert sorted(file.name for file in corpus.glob(".*")) == [".out.conllu.run"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["我", "--format", "parquet"], "a Parquet table needs a file"),
        (["我", "--format", "parquet", "-o", "-"], "a Parquet table needs a file"),
        (["我", "-o", "x.parquet", "--k-best", "2"], "a Parquet table holds one analysis per sentence"),
        (["-i", "a.txt", "-o", "x.parquet", "--resume"], "the format parquet cannot be resumed"),
        (["我", "--text-field", "x"], "--text-field cannot be combined with TEXT"),
        (["-i", "*.nothing"], "*.nothing: no file matches"),
        (["-i", "a.txt", "--text-field", "x"], "a.txt: plain text has no fields"),
        (["我", "-o", "x.parquet.gz"], "compressed internally"),
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
    assert "is also the input" in capsys.readouterr().err
