"""Put parsed words into tables: Arrow in memory, Parquet on disk.

    write_parquet("words.parquet", [("news-1", parser(text)), ...])
    to_table([("news-1", parser(text))]).to_pandas()

A table has one row per word, with the columns of `schema`. The writer holds at most one row group in memory. The file
gets its name when it is complete, so a stopped run leaves no partial Parquet file, which nothing could read. Arrow
strings are UTF-8: a lone surrogate, which a Python string may contain, is written as `\\ud800`.

Needs pyarrow (extra `tables`). This module does not parse; `zishu.corpus.documents` reads tables.
"""

from __future__ import annotations

import contextlib
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

from zishu import __version__
from zishu.compression import plain_name
from zishu.errors import InputError, MissingExtra
from zishu.writing import replacing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

    from zishu.document import Sentence, Word
    from zishu.reading import FilePath

# The id of a document, the number of a sentence from 1 across all documents, and the sentence.
Row: TypeAlias = "tuple[str, int, Sentence]"

ROW_GROUP: Final = 1 << 17  # number of words; about ten megabytes of a table in memory

_SENTENCES: Final = 1000  # number of sentences converted to Arrow arrays at once


def arrow() -> Any:
    """Return pyarrow with its Parquet module loaded."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingExtra("pyarrow", "tables") from None
    return pyarrow


def check_uncompressed(path: FilePath) -> None:
    """Raise InputError if the name of a Parquet file has an ending for compression."""
    if plain_name(path) != str(path):
        raise InputError(f"{path}: Parquet is compressed internally; remove the ending")


def schema() -> pa.Schema:
    """Return the columns of a table of words; what a model may not predict is nullable."""
    pa = arrow()
    number, offset, string, chance = pa.int32(), pa.int64(), pa.string(), pa.float32()
    columns = [
        ("doc_id", string, False),
        ("sent_id", number, False),  # number of the sentence, from 1 across all documents
        ("id", number, False),  # number of the word in its sentence, from 1
        ("form", string, False),
        ("start", offset, False),  # offsets into the text of the document, in code points
        ("end", offset, False),
        ("lemma", string, True),
        ("upos", string, True),
        ("xpos", string, True),
        ("feats", string, True),  # as in CoNLL-U; "_" for a word without features
        ("head", number, False),  # the id of another word of the sentence; 0: its root
        ("deprel", string, False),
        ("char_heads", pa.list_(number), True),  # characters of the word from 1; 0: its root
        ("char_rels", pa.list_(string), True),  # the relations to these heads; "root" for the root
        ("root", number, True),  # index of the root character, from 0
        ("structure_prob", chance, True),  # probability of char_heads and char_rels
        ("boundary_prob", chance, True),
        ("head_prob", chance, True),
        ("label_prob", chance, True),
        ("upos_prob", chance, True),
        ("prob", chance, True),  # the product of the last four
        ("boundary_prob_without_lexicon", chance, True),  # null unless a lexicon found something here
        ("sent_prob", pa.float64(), True),  # probability of the whole sentence; can be too small for 32 bits
        ("sent_prob_without_lexicon", pa.float64(), True),
        ("sent_cut", pa.bool_(), False),  # it was cut because of its length and continues in the next one
    ]
    fields = [pa.field(name, kind, nullable=unknown) for name, kind, unknown in columns]
    return pa.schema(fields, metadata={"zishu": __version__})


def to_batch(rows: Iterable[Row]) -> pa.RecordBatch:
    """Convert the words of sentences to a record batch."""
    pa = arrow()
    words: list[Word] = []
    of_sentences: list[tuple[Any, ...]] = []  # for each word what its sentence says
    for doc_id, number, sentence in rows:
        words += sentence.words
        says = (doc_id, number, sentence.cut, sentence.prob, sentence.prob_without_lexicon)
        of_sentences += [says] * len(sentence.words)
    names = ("doc_id", "sent_id", "sent_cut", "sent_prob", "sent_prob_without_lexicon")
    columns = {name: [says[k] for says in of_sentences] for k, name in enumerate(names)}
    kinds = schema()
    arrays = [
        _array(pa, columns.get(field.name) or [getattr(word, field.name) for word in words], field.type)
        for field in kinds
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=kinds)


def _array(pa: Any, values: list[Any], kind: Any) -> Any:
    try:
        return pa.array(values, kind)
    except UnicodeEncodeError:
        escaped = [
            value if value is None else value.encode("utf-8", "backslashreplace").decode() for value in values
        ]
        return pa.array(escaped, kind)


def to_batches(documents: Iterable[tuple[str, Iterable[Sentence]]]) -> Iterator[pa.RecordBatch]:
    """Yield the words of documents, given as ids and sentences, in record batches of a few thousand rows."""
    pairs = ((doc_id, sentence) for doc_id, sentences in documents for sentence in sentences)
    return _batches((doc_id, number, sentence) for number, (doc_id, sentence) in enumerate(pairs, start=1))


def _batches(rows: Iterable[Row]) -> Iterator[pa.RecordBatch]:
    coming = iter(rows)
    while some := list(islice(coming, _SENTENCES)):
        yield to_batch(some)


def to_table(documents: Iterable[tuple[str, Iterable[Sentence]]]) -> pa.Table:
    """Return the words of documents as one table in memory; `.to_pandas()` converts it to a data frame."""
    return arrow().Table.from_batches(to_batches(documents), schema=schema())


def write_parquet(path: FilePath, documents: Iterable[tuple[str, Iterable[Sentence]]]) -> int:
    """Write the words of documents and return their number."""
    with ParquetWriter(path) as out:
        for batch in to_batches(documents):
            out.write(batch)
    return out.rows


class ParquetWriter:
    """Write a Parquet file of words that gets its name when it is complete."""

    def __init__(self, path: FilePath, *, row_group: int = ROW_GROUP) -> None:
        if row_group < 1:
            raise InputError(f"a row group needs at least 1 row, not {row_group}")
        check_uncompressed(path)
        self.path = Path(path)
        self.rows = 0
        self._row_group = row_group
        self._waiting: list[pa.RecordBatch] = []
        self._size = 0
        self._arrow = arrow()  # report a missing package before anything is parsed
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            file = stack.enter_context(replacing(self.path))
            writer = self._arrow.parquet.ParquetWriter(file, schema(), compression="zstd")
            self._writer = stack.enter_context(writer)
            self._stack = stack.pop_all()
        return self

    def put(self, rows: Iterable[Row]) -> None:
        """Write sentences, each with the id of its document and its number."""
        for batch in _batches(rows):
            self.write(batch)

    def write(self, batch: pa.RecordBatch) -> None:
        """Write a batch; it reaches the file when a row group is full."""
        self.rows += batch.num_rows
        self._waiting.append(batch)
        self._size += batch.num_rows
        if self._size >= self._row_group:
            self._flush(self._size - self._size % self._row_group)

    def _flush(self, rows: int) -> None:
        """Write the first rows of those that are waiting."""
        table = self._arrow.Table.from_batches(self._waiting)
        self._writer.write_table(table.slice(0, rows), row_group_size=self._row_group)
        self._waiting = table.slice(rows).to_batches()
        self._size -= rows

    def __exit__(self, *error: Any) -> None:
        with self._stack:
            # An error raised inside the stack prevents the file from getting its name.
            if error[1] is not None:
                raise error[1]
            if self._size:
                self._flush(self._size)
