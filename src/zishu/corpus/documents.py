"""Read the texts of files: plain text, or one text per row of JSON lines, CSV, TSV and Parquet.

    for document in read_documents(["news/*.jsonl.gz"], text_field="body"): parser.stream(document.blocks)

Documents come one by one, in order. The id of a document is the value of a column, or else the name of its file and the
number of its row. A bad row raises an error with file and row, unless the caller wants to skip it. Only Parquet needs
pyarrow (extra `tables`). This module does not parse; `zishu.reading` decompresses and decodes.
"""

from __future__ import annotations

import contextlib
import csv
import glob
import json
import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from zishu.compression import plain_name
from zishu.corpus.tables import arrow, check_uncompressed
from zishu.errors import FormatError, InputError
from zishu.reading import STANDARD, Errors, FilePath, Input

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

Kind = Literal["text", "jsonl", "csv", "tsv", "parquet"]

TEXT_FIELD: Final = "text"
MAX_DOCUMENT: Final = 1 << 28  # maximum number of characters of a row, which must fit into memory

_ROWS: Final = 256  # number of rows of a Parquet file read at once; texts may be long
_ENDINGS: Final[dict[str, Kind]] = {
    ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".csv": "csv", ".tsv": "tsv", ".parquet": "parquet",
}  # fmt: skip
# Endings of files that contain text, but not as plain text.
_NO_TEXT: Final = frozenset(
    """
    .7z .bz2 .conllu .doc .docx .epub .htm .html .jpeg .jpg .odt .ods .pdf .png .ppt .pptx .rar .rtf .tar .tgz .xls .xlsx
    .xz .zip
    """.split()  # noqa: SIM905
)


@dataclass(frozen=True, slots=True)
class RawDocument:
    """Hold a text to parse, in blocks as they come from the file, and its id."""

    doc_id: str
    blocks: Iterable[str]  # can be read once

    def read(self) -> str:
        """Return the whole text."""
        return "".join(self.blocks)


def expand(patterns: Iterable[FilePath]) -> list[str]:
    """Return the files that match names and patterns (`*`, `?`, `[...]`, `**`), those of a pattern sorted.

    A pattern that is the name of an existing file means that file. A folder, or a pattern without a match, raises
    `InputError`. No file is listed twice. Names without wildcards are not checked until they are opened.
    """
    found: dict[str, None] = {}
    for given in patterns:
        pattern = os.fspath(given)
        if Path(pattern).is_dir():
            inside = os.path.join(pattern, "*.txt")  # noqa: PTH118 (as the user writes it)
            raise InputError(f"{pattern}: is a folder; use a pattern such as {inside!r}")
        if not glob.has_magic(pattern) or Path(pattern).exists():
            found[pattern] = None
            continue
        # Not `Path.glob`: it would need the pattern split, and it drops a leading `./`.
        names = glob.glob(pattern, recursive=True)  # noqa: PTH207
        files = sorted(name for name in names if Path(name).is_file())
        if not files:
            raise InputError(f"{pattern}: no file matches")
        found |= dict.fromkeys(files)
    return list(found)


def kind_of(path: FilePath) -> Kind:
    """Return the kind of a file by its ending, before `.gz` or `.zst`; other endings mean plain text.

    Raises `InputError` for endings of files that cannot be plain text.
    """
    ending = Path(plain_name(path)).suffix.lower()
    if ending in _NO_TEXT:
        raise InputError(
            f"{path}: {ending} files are not supported: use plain text, .jsonl, .csv, .tsv or .parquet"
        )
    kind = _ENDINGS.get(ending, "text")
    if kind == "parquet":
        check_uncompressed(path)
    return kind


def read_documents(
    patterns: Iterable[FilePath],
    *,
    text_field: str | None = None,
    id_field: str | None = None,
    errors: Errors = "strict",
    encoding: str = "utf-8",
    longest: int = MAX_DOCUMENT,
    skip: Callable[[Exception], None] | None = None,
) -> Iterator[RawDocument]:
    """Yield the documents of files or patterns: one per row, or one per plain text file.

    A bad row, or a file whose remaining rows cannot be read, raises an error; with `skip` the error is passed to that
    function, and reading continues. (An error inside plain text is raised when its blocks are read.) A row of more than
    about `longest` characters is an error; plain text may have any length.

    `text_field` is the column or key of the text (default: "text"). `id_field` is that of the id; without it the id is
    `file:row`. Rows count from 1, without blank lines and the header of a CSV file; in JSON lines the row is the line.
    Standard input (`-`) is plain text, or JSON lines if `text_field` is given.
    """

    def refuse(error: Exception) -> None:
        if skip is None:
            raise error
        skip(error)

    for path in expand(patterns):
        kind = "jsonl" if path == STANDARD and text_field is not None else kind_of(path)
        if kind == "text":
            if text_field is not None or id_field is not None:
                raise InputError(f"{path}: plain text has no fields; use .jsonl, .csv, .tsv or .parquet")
            yield RawDocument(path, _blocks(path, errors, encoding))
            continue
        fields = _Fields(path, text_field or TEXT_FIELD, id_field)
        try:
            with contextlib.ExitStack() as stack:
                if kind == "parquet":
                    found = _read_parquet(fields)
                else:
                    lines = stack.enter_context(Input(path, errors=errors, encoding=encoding)).lines(longest)
                    found = (
                        _read_jsonl(fields, lines)
                        if kind == "jsonl"
                        else _read_csv(fields, lines, tabs=kind == "tsv", longest=longest)
                    )
                for document in found:
                    if isinstance(document, RawDocument):
                        yield document
                    else:
                        refuse(document)
        except (InputError, OSError) as error:
            refuse(error)


def _blocks(path: str, errors: Errors, encoding: str) -> Iterator[str]:
    with Input(path, errors=errors, encoding=encoding) as text:
        yield from text.blocks()


_Fault: TypeAlias = "Callable[[str], InputError]"  # returns an error that names the file and the row


@dataclass(frozen=True, slots=True)
class _Fields:
    """Define what to read from the rows of a file."""

    path: str
    text: str
    id: str | None

    def document(self, text: object, id_: object, row: int, fault: _Fault) -> RawDocument | InputError:
        """Return the document of a row, or the error if it is bad."""
        if not isinstance(text, str):
            return fault(_wrong(self.text, text, "not a string"))
        if self.id is None:
            id_ = f"{self.path}:{row}"
        elif not isinstance(id_, str | int) or isinstance(id_, bool):
            return fault(_wrong(self.id, id_, "neither a string nor a whole number"))
        return RawDocument(str(id_), (text,))

    def place(self, names: list[str], fault: _Fault) -> tuple[int, int]:
        """Return the positions of text and id in a row, -1 if no id is wanted."""
        for name, option in ((self.text, "--text-field"), (self.id, "--id-field")):
            if name is not None and (count := names.count(name)) != 1:
                problem = (
                    f"{count} columns {name!r}" if count else f"no column {name!r}: choose one with {option}"
                )
                raise fault(f"{problem}; found: {', '.join(map(repr, names)) or 'none'}")
        return names.index(self.text), -1 if self.id is None else names.index(self.id)


def _wrong(name: str, value: object, problem: str) -> str:
    return f"{name!r} is missing or null" if value is None else f"{name!r} is {value!r:.40}, {problem}"


# The readers of rows yield the document of a row, or the error if it is bad, and raise what ends the whole file.


def _read_jsonl(fields: _Fields, lines: Iterable[str]) -> Iterator[RawDocument | InputError]:
    for number, line in enumerate(lines, start=1):
        if line.isspace():
            continue
        fault = partial(FormatError, path=fields.path, line=number)
        try:
            record = json.loads(line.rstrip())
        except (ValueError, RecursionError) as error:
            reason = str(error)
            if isinstance(error, json.JSONDecodeError):
                # Without the line that Python counts, always 1. Some messages end in "at".
                reason = f"{error.msg.removesuffix(' at')} at column {error.colno}"
            yield fault(f"not JSON: {reason}")
            continue
        if not isinstance(record, dict):
            yield fault(f"expected a JSON object on every line, not {line.strip()!r:.40}")
        elif fields.text not in record:
            keys = ", ".join(map(repr, record)) or "none"
            yield fault(f"no key {fields.text!r}: choose one with --text-field; found: {keys}"[:300])
        else:
            yield fields.document(record[fields.text], record.get(fields.id), number, fault)


def _read_csv(
    fields: _Fields, lines: Iterable[str], *, tabs: bool, longest: int
) -> Iterator[RawDocument | InputError]:
    """Read CSV, or TSV with `tabs`, where quotation marks are ordinary characters and every line is a row."""
    # The default limit guards against files that are not CSV, but texts are often longer. It is global to the process.
    csv.field_size_limit(max(csv.field_size_limit(), (1 << 31) - 1))
    name, delimiter = ("TSV", "\t") if tabs else ("CSV", ",")
    held = 0  # characters of a row so far

    def lines_of_a_row() -> Iterator[str]:
        """Yield lines; a quotation mark that is never closed must not hold the whole file in memory."""
        nonlocal held
        for line in lines:
            held += len(line)
            if held > longest + 1:  # the end of a line does not count
                message = f"a row of more than {longest:,} characters"
                raise FormatError(message, path=fields.path, line=reader.line_num + 1)
            yield line

    reader = csv.reader(
        lines_of_a_row(),
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
        held, problem = 0, ""
        try:
            values = next(reader, None)
        except csv.Error as error:
            values, problem = [], f"not {name}: {error}"
        if values is None:
            break
        if not (values or problem):  # a blank line
            continue
        row += 1
        if row == 0:
            if problem:  # without a header the rows are meaningless
                raise fault(problem)
            header = values
            text, id_ = fields.place(header, fault)
        elif problem or len(values) != len(header):
            count = f"{len(values)} field{'s' * (len(values) != 1)}"
            yield fault(problem or f"{count}, but the header has {len(header)}")
        else:
            yield fields.document(values[text], values[id_], row, fault)
    if row < 0:
        raise fault("no header: the first line must name the columns")


def _read_parquet(fields: _Fields) -> Iterator[RawDocument | InputError]:
    pa = arrow()
    row = 0

    def fault(message: str) -> InputError:
        return InputError(f"{fields.path}: row {row}: {message}" if row else f"{fields.path}: {message}")

    try:
        with pa.parquet.ParquetFile(fields.path) as file:
            fields.place(file.schema_arrow.names, fault)
            column = file.schema_arrow.field(fields.text)
            kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
            if str(kind) not in ("string", "large_string", "string_view"):
                raise fault(f"the column {column.name!r} holds {column.type}, not strings")
            columns = list({fields.text, fields.id} - {None})
            for batch in file.iter_batches(batch_size=_ROWS, columns=columns):
                ids = [None] * batch.num_rows if fields.id is None else batch[fields.id]
                for text, id_ in zip(batch[fields.text], ids, strict=True):
                    row += 1
                    id_ = None if id_ is None else id_.as_py()
                    yield fields.document(text.as_py(), id_, row, fault)
    except UnicodeDecodeError as error:
        raise fault(f"not valid UTF-8: {error.reason}") from None
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # such as a missing file; Arrow's own errors have no errno
        raise fault(f"not a Parquet file, or a damaged one: {str(error).splitlines()[0]}") from None
