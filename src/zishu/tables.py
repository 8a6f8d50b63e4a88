"""Move text and words between files of tables and the parser: Parquet out; text, JSON lines, CSV and Parquet in.

    for document in read_documents(["news/*.jsonl.gz"], text_field="body"): parser.stream(document.blocks)
    write_parquet("words.parquet", [("news-1", parser(text)), ...])
    to_table([("news-1", parser(text))]).to_pandas()

A table has one row a word, with the columns of `schema`. Its writer holds at most one row group in memory, and the
file takes its name when it is complete: a run that is stopped leaves no half of a Parquet file, which nothing could
read. A reader yields documents one by one, in order, each with an id: that of a column, or else the name of its file
and the number of its row. What is wrong with a row is told with file and row, and nothing is skipped in silence.

Arrow strings are UTF-8: a lone surrogate, which a Python string may hold, is written as `\\ud800`. Only Parquet needs
pyarrow (extra `tables`). Nothing here parses; see `zishu.files` for compression and broken bytes.
"""

from __future__ import annotations

import contextlib
import csv
import glob
import json
import os
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from zishu import __version__
from zishu.compression import plain_name
from zishu.errors import FormatError, InputError, MissingExtra
from zishu.files import STANDARD, Errors, FilePath, Input, replacing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Self

    import pyarrow as pa

    from zishu.document import Sentence

Row: TypeAlias = "tuple[str, int, Sentence]"  # the id of a document, the number of a sentence in it from 1
Kind = Literal["text", "jsonl", "csv", "tsv", "parquet"]

ROW_GROUP: Final = 1 << 17  # words: some ten megabytes of a table in memory
TEXT_FIELD: Final = "text"

_SENTENCES: Final = 1000  # sentences that become Arrow arrays at once
_ROWS: Final = 256  # rows of a Parquet file read at once: a text may be long

_ENDINGS: Final[dict[str, Kind]] = {
    ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".csv": "csv", ".tsv": "tsv", ".parquet": "parquet",
}  # fmt: skip


def _arrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingExtra("pyarrow", "tables") from None
    return pyarrow


# ---- words to tables


def schema() -> pa.Schema:
    """Return the columns of a table of words; those that a model may not know can be null."""
    pa = _arrow()
    number, offset, string, chance = pa.int32(), pa.int64(), pa.string(), pa.float32()
    columns = [
        ("doc_id", string, False),
        ("sent_id", number, False),  # counts the sentences of a document from 1
        ("id", number, False),  # counts the words of a sentence from 1
        ("form", string, False),
        ("start", offset, False),  # offsets into the text of the document, in code points
        ("end", offset, False),
        ("upos", string, True),
        ("head", number, False),  # the id of another word of the sentence; 0: its root
        ("deprel", string, False),
        ("char_heads", pa.list_(number), True),  # characters of the word from 1; 0: its root
        ("root", number, True),  # which character that is, from 0
        ("boundary_prob", chance, True),
        ("head_prob", chance, True),
        ("label_prob", chance, True),
        ("prob", chance, True),  # the product of the three
        ("sent_prob", pa.float64(), True),  # of the whole sentence: too little for 32 bits if that is long
        ("sent_cut", pa.bool_(), False),  # the sentence was cut for its length and goes on in the next one
    ]
    fields = [pa.field(name, kind, nullable=unknown) for name, kind, unknown in columns]
    return pa.schema(fields, metadata={"zishu": __version__})


def to_batch(rows: Iterable[Row]) -> pa.RecordBatch:
    """Return the words of some sentences as a record batch."""
    pa = _arrow()
    sentences = [(doc_id, number, sentence) for doc_id, number, sentence in rows]
    words = [word for _, _, sentence in sentences for word in sentence.words]

    def spread(value: Callable[[Row], object]) -> list[object]:
        return [item for row in sentences for item in [value(row)] * len(row[2].words)]

    columns: dict[str, list[Any]] = {
        "doc_id": spread(lambda row: row[0]),
        "sent_id": spread(lambda row: row[1]),
        "sent_cut": spread(lambda row: row[2].cut),
        "sent_prob": spread(lambda row: row[2].prob),
    }
    kinds = schema()
    for name in kinds.names:
        if name not in columns:
            columns[name] = [getattr(word, name) for word in words]
    arrays = [_array(pa, columns[field.name], field.type) for field in kinds]
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
    """Yield the words of documents, given as ids and sentences, in record batches of some thousand rows."""
    rows = (
        (doc_id, number, sentence)
        for doc_id, sentences in documents
        for number, sentence in enumerate(sentences, start=1)
    )
    while some := list(islice(rows, _SENTENCES)):
        yield to_batch(some)


def to_table(documents: Iterable[tuple[str, Iterable[Sentence]]]) -> pa.Table:
    """Return the words of documents as one table in memory; `.to_pandas()` makes a data frame of it, with pandas."""
    return _arrow().Table.from_batches(to_batches(documents), schema=schema())


def write_parquet(path: FilePath, documents: Iterable[tuple[str, Iterable[Sentence]]]) -> int:
    """Write the words of documents, and return how many there are."""
    with ParquetWriter(path) as out:
        for batch in to_batches(documents):
            out.write(batch)
    return out.rows


class ParquetWriter:
    """A Parquet file of words that is written batch by batch and takes its name when it is complete."""

    def __init__(self, path: FilePath, *, row_group: int = ROW_GROUP) -> None:
        if row_group < 1:
            raise InputError(f"a row group needs at least 1 row, not {row_group}")
        _check_plain(path)
        self.path = Path(path)
        self.rows = 0
        self._row_group = row_group
        self._waiting: list[pa.RecordBatch] = []
        self._size = 0
        self._arrow = _arrow()  # what is missing is told before anything is parsed
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            file = stack.enter_context(replacing(self.path))
            writer = self._arrow.parquet.ParquetWriter(file, schema(), compression="zstd")
            self._writer = stack.enter_context(writer)
            self._stack = stack.pop_all()
        return self

    def write(self, batch: pa.RecordBatch) -> None:
        """Write a batch, with those before it as soon as they fill a row group."""
        self.rows += batch.num_rows
        while self._size + batch.num_rows >= self._row_group:
            room = self._row_group - self._size
            self._waiting.append(batch.slice(0, room))
            self._flush()
            batch = batch.slice(room)
        if batch.num_rows:
            self._waiting.append(batch)
            self._size += batch.num_rows

    def _flush(self) -> None:
        if self._waiting:
            table = self._arrow.Table.from_batches(self._waiting)
            self._writer.write_table(table, row_group_size=self._row_group)
            self._waiting, self._size = [], 0

    def __exit__(self, *error: Any) -> None:
        with self._stack:
            # Raised inside the stack, an error keeps the file from taking its name.
            if error[1] is not None:
                raise error[1]
            self._flush()


# ---- files to texts


@dataclass(frozen=True, slots=True)
class RawDocument:
    """A text to be parsed, in blocks as they come from the file, and what it is called."""

    doc_id: str
    blocks: Iterable[str]  # may be gone through once

    def read(self) -> str:
        """Return the whole text."""
        return "".join(self.blocks)


def expand(patterns: Iterable[FilePath]) -> list[str]:
    """Return the files that names and patterns (`*`, `?`, `[...]`, `**`) stand for, those of a pattern sorted.

    A file that has the very name of a pattern is that file. A pattern without any file is an `InputError`; a name
    without one is found out when it is opened. No file comes twice.
    """
    found: dict[str, None] = {}
    for given in patterns:
        pattern = os.fspath(given)
        if not glob.has_magic(pattern) or Path(pattern).exists():
            found[pattern] = None
            continue
        # Not `Path.glob`, which wants the fixed part of a pattern cut off, and drops a leading `./`.
        names = glob.glob(pattern, recursive=True)  # noqa: PTH207
        files = sorted(name for name in names if Path(name).is_file())
        if not files:
            raise InputError(f"{pattern}: no file has such a name")
        found |= dict.fromkeys(files)
    return list(found)


def kind_of(path: FilePath) -> Kind:
    """Tell what a file holds by the ending of its name, before `.gz` or `.zst`: what is unknown is plain text."""
    name = os.fspath(path)
    kind = _ENDINGS.get(Path(plain_name(name)).suffix.lower(), "text")
    if kind == "parquet":
        _check_plain(path)
    return kind


def _check_plain(path: FilePath) -> None:
    name = os.fspath(path)
    if plain_name(name) != name:
        raise InputError(
            f"{name}: a Parquet file has its compression inside, there must not be another around it"
        )


def read_documents(
    patterns: Iterable[FilePath],
    *,
    text_field: str | None = None,
    id_field: str | None = None,
    errors: Errors = "strict",
) -> Iterator[RawDocument]:
    """Read files, or what patterns stand for: a document a row, or a document a file if it is plain text.

    The column or key of the text is `text_field`, or else "text"; that of the id `id_field`, or else the id is
    `file:row`. Rows count from 1, blank lines and the header of a CSV file not counted; in JSON lines the row is the
    line. Standard input (`-`) is plain text, or JSON lines if there is a `text_field`.
    """
    for path in expand(patterns):
        kind = kind_of(path)
        if path == STANDARD and text_field is not None:
            kind = "jsonl"
        if kind == "text":
            if text_field is not None or id_field is not None:
                raise InputError(f"{path}: plain text has no fields; .jsonl, .csv, .tsv and .parquet have")
            yield RawDocument(path, _blocks(path, errors))
            continue
        fields = _Fields(path, text_field or TEXT_FIELD, id_field)
        match kind:
            case "jsonl":
                yield from _read_jsonl(fields, errors)
            case "parquet":
                yield from _read_parquet(fields)
            case _:
                yield from _read_csv(fields, errors, tabs=kind == "tsv")


@dataclass(frozen=True, slots=True)
class _Fields:
    """What to read from the rows of a file."""

    path: str
    text: str
    id: str | None

    def document(self, text: object, id_: object, row: int, fault: Callable[[str], Exception]) -> RawDocument:
        """Return a row as a document; `fault` makes an error that names the row."""
        if not isinstance(text, str):
            raise fault(f"{self.text!r} is {_short(text)}, not a string")
        if self.id is None:
            id_ = f"{self.path}:{row}"
        elif not isinstance(id_, str | int) or isinstance(id_, bool):
            raise fault(f"{self.id!r} is {_short(id_)}, neither a string nor a whole number")
        return RawDocument(str(id_), (text,))

    def place(self, names: list[str], fault: Callable[[str], Exception]) -> tuple[int, int]:
        """Return where in a row the text and the id are, -1 for an id that nobody asks for."""
        for name in (self.text, self.id):
            if name is not None and (count := names.count(name)) != 1:
                problem = "no column" if count == 0 else f"{count} columns"
                raise fault(f"{problem} {name!r}; there are: {', '.join(map(repr, names)) or 'none'}")
        return names.index(self.text), -1 if self.id is None else names.index(self.id)


def _short(value: object) -> str:
    return "missing" if value is None else f"{value!r:.40}"


def _blocks(path: str, errors: Errors) -> Iterator[str]:
    with Input(path, errors=errors) as text:
        yield from text.blocks()


def _lines(path: str, errors: Errors) -> Iterator[str]:
    """Yield lines with their ends; only LF ends one, because a text may hold U+2028 and its like."""
    held: list[str] = []
    for block in _blocks(path, errors):
        first, *rest = block.split("\n")
        held.append(first)
        for part in rest:
            yield "".join(held) + "\n"
            held = [part]
    if last := "".join(held):
        yield last


def _read_jsonl(fields: _Fields, errors: Errors) -> Iterator[RawDocument]:
    for number, line in enumerate(_lines(fields.path, errors), start=1):

        def fault(message: str, number: int = number) -> FormatError:
            return FormatError(message, path=fields.path, line=number)

        if line.isspace():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise fault(f"not JSON: {error}") from None
        if not isinstance(record, dict):
            raise fault(f"a JSON object is expected on every line, not {line.strip()!r:.40}")
        if fields.text not in record:
            keys = ", ".join(map(repr, record)) or "none"
            raise fault(f"no key {fields.text!r}; there are: {keys}"[:300])
        yield fields.document(record[fields.text], record.get(fields.id), number, fault)


def _read_csv(fields: _Fields, errors: Errors, *, tabs: bool) -> Iterator[RawDocument]:
    """Read CSV; with `tabs` TSV, where a quotation mark is a character like others, and a row is a line."""
    # The limit is there against files that are no CSV; a text is often longer. It is one for the whole process.
    csv.field_size_limit(max(csv.field_size_limit(), (1 << 31) - 1))
    name, delimiter = ("TSV", "\t") if tabs else ("CSV", ",")
    reader = csv.reader(
        _lines(fields.path, errors),
        delimiter=delimiter,
        quoting=csv.QUOTE_NONE if tabs else csv.QUOTE_MINIMAL,
        strict=True,
    )
    row = -1  # the header is row 0

    def fault(message: str) -> FormatError:
        where = f"row {row}: " if row > 0 else ""
        return FormatError(where + message, path=fields.path, line=max(1, reader.line_num))

    header: list[str] = []
    text = id_ = -1
    while True:
        try:
            values = next(reader, None)
        except csv.Error as error:
            row += 1
            raise fault(f"not {name}: {error}") from None
        if values is None:
            break
        if not values:  # a blank line
            continue
        row += 1
        if row == 0:
            header = values
            text, id_ = fields.place(header, fault)
            continue
        if len(values) != len(header):
            raise fault(f"{len(values)} fields where the header has {len(header)}")
        yield fields.document(values[text], values[id_], row, fault)
    if row < 0:
        raise fault("no header: the first line must name the columns")


def _read_parquet(fields: _Fields) -> Iterator[RawDocument]:
    pa = _arrow()
    row = 0

    def fault(message: str) -> InputError:
        return InputError(f"{fields.path}: row {row}: {message}" if row else f"{fields.path}: {message}")

    with contextlib.ExitStack() as stack:
        try:
            file = stack.enter_context(pa.parquet.ParquetFile(fields.path))
            fields.place(file.schema_arrow.names, fault)
            _check_string(pa, file.schema_arrow.field(fields.text), fault)
            columns = list({fields.text, fields.id} - {None})
            for batch in file.iter_batches(batch_size=_ROWS, columns=columns):
                ids = batch[fields.id] if fields.id is not None else [None] * batch.num_rows
                for text, id_ in zip(batch[fields.text], ids, strict=True):
                    row += 1
                    name = None if id_ is None else id_.as_py()
                    yield fields.document(text.as_py(), name, row, fault)
        except UnicodeDecodeError as error:
            raise fault(f"not valid UTF-8: {error.reason}") from None
        except (pa.ArrowException, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise  # no such file and the like; Arrow's own have no number
            raise fault(f"not a Parquet file, or a damaged one: {str(error).splitlines()[0]}") from None


def _check_string(pa: Any, field: Any, fault: Callable[[str], Exception]) -> None:
    kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    if str(kind) not in ("string", "large_string", "string_view"):
        raise fault(f"the column {field.name!r} holds {field.type}, not strings")
