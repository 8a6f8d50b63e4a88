from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings

from parsed_sentences import SHANGHAI, parsed, sentences
from zishu import __version__
from zishu.corpus import (
    ParquetWriter,
    read_documents,
    schema,
    to_batch,
    to_batches,
    to_table,
    write_parquet,
)
from zishu.errors import InputError, MissingExtra

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

if TYPE_CHECKING:
    from pathlib import Path

    from zishu.document import Sentence

BARE = parsed([("我", None, 2, "nsubj", None), ("走", None, 0, "root", None)])


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
    assert rows[-1]["sent_id"] == 3
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


def test_the_probabilities_without_a_lexicon() -> None:
    aided = replace(
        SHANGHAI,
        words=tuple(replace(word, boundary_prob_without_lexicon=0.25) for word in SHANGHAI.words),
        prob_without_lexicon=1e-60,
    )
    first, *_, last = to_table([("a", [aided, SHANGHAI])]).to_pylist()
    assert (first["boundary_prob_without_lexicon"], first["sent_prob_without_lexicon"]) == (0.25, 1e-60)
    assert (last["boundary_prob_without_lexicon"], last["sent_prob_without_lexicon"]) == (None, None)


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
    # Other formats do not need it.
    (tmp_path / "a.csv").write_text("text\n我\n", encoding="utf-8")
    assert [document.read() for document in read_documents([tmp_path / "a.csv"])] == ["我"]
