"""Parse texts and files of any size, and write each sentence as soon as it is there: the work of `zishu parse`.

A file is cut into chunks of whole sentences, the same ones on every run. A chunk is the unit of work, for this process
or for one of several, and becomes text there; so the output does not depend on the number of processes, nor on
whether a run was interrupted and resumed. Memory is that of a few chunks.

Documents, the rows of a table or the files of a pattern, share chunks if they are short. Sentences are numbered from 1
through all texts, in tables (see `zishu.tables`) from 1 in each document. White space between two sentences is told in
CoNLL-U behind the last word of the first one, so that the rows and their spaces give the text back, from its first word
on.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from zishu.cli._resume import Done, check_same, cut, look_at
from zishu.compression import plain_name
from zishu.errors import InputError
from zishu.files import STANDARD, FilePath, Input, Output

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Self

    from zishu.cli._progress import Report
    from zishu.document import Sentence
    from zishu.items import Item
    from zishu.lexicon import Lexicon
    from zishu.model.decode import Decoding
    from zishu.parser import Parser
    from zishu.tables import RawDocument, Row

Format = Literal["tree", "conllu", "json", "chars", "svg", "parquet"]

CHUNK: Final = 16_000  # characters: half a second of work

Place = tuple[str, int]
NOWHERE: Final[Place] = ("", 0)  # in a text that has no name


@dataclass(frozen=True, slots=True)
class Options:
    """What to do with a sentence, wherever it comes from."""

    format: Format = "conllu"
    model: FilePath | None = None
    words: bool = False  # a sentence a line, words between white space
    lexicon: Lexicon | None = None
    k_best: int = 0  # so many analyses of each sentence; 0: the best one, without a rank
    confidence: bool = True
    decoding: Decoding = "mbr"
    threads: int = 0
    colour: bool = False
    width: int | None = None


@dataclass(slots=True)
class Chunk:
    """Some sentences of a text: the number of the first one, counted from 0, and the white space behind each.

    Sentences of documents have places, too: the id of the document, and the sentence's number in it from 1.
    """

    first: int
    items: list[Item] = field(default_factory=list)
    spaces: list[str] = field(default_factory=list)
    size: int = 0
    places: list[Place] = field(default_factory=list)
    end: int = 0  # the offset that its last sentence ends at, counted through all documents

    @property
    def last(self) -> int:
        """Return the number behind the last sentence."""
        return self.first + len(self.items)


@dataclass(frozen=True, slots=True)
class Written:
    """A chunk as it goes into the output: for every sentence its analyses, and the offset that it ends at."""

    first: int
    sentences: list[list[Any]]  # strings, or rows for a table
    end: int


# ---- texts in memory


def parse_texts(
    texts: Sequence[str],
    output: FilePath,
    options: Options,
    *,
    pins: Iterable[tuple[int, int]] = (),
    breaks: Iterable[int] = (),
) -> None:
    """Parse texts, each of them a document of its own if there are several."""
    known: dict[str, Any] = {"pins": tuple(pins), "breaks": tuple(breaks), "lexicon": options.lexicon}
    sentences = _sentences(texts, options, known)
    # Before the output is opened, because a file that is there should not pay for a pin that cannot be.
    first = list(islice(sentences, 1))
    with open_output(output, options.format) as out:
        for analyses in chain(first, sentences):
            out.put(analyses)


def _analyse(parser: Parser, items: Iterable[Item], options: Options) -> Iterator[list[Sentence]]:
    return parser.analyse(
        items,
        words=options.words,
        k_best=options.k_best,
        confidence=options.confidence,
        decoding=options.decoding,
    )


def _sentences(texts: Sequence[str], options: Options, known: dict[str, Any]) -> Iterator[list[Any]]:
    from zishu.items import line_items, text_items
    from zishu.parser import load

    parser = load(options.model, threads=options.threads)
    number = 0
    for document_id, text in enumerate(texts, start=1):
        items = line_items([text]) if options.words else text_items(text, **known)
        analyses = list(_analyse(parser, items, options))
        for place, ranked in enumerate(analyses):
            after = analyses[place + 1][0].start if place + 1 < len(analyses) else len(text)
            named = len(texts) > 1 or options.format == "parquet"
            document_place = (str(document_id), place + 1) if named else NOWHERE
            yield show(ranked, number, text[ranked[0].end : after], options, document_place)
            number += 1


# ---- files


def parse_file(
    text: Input,
    output: FilePath,
    options: Options,
    report: Report,
    *,
    jobs: int = 1,
    resume: bool = False,
    at_once: bool = False,
) -> None:
    """Parse a file; `at_once`: every sentence as soon as it is read, for somebody who types."""
    size = 1 if at_once else CHUNK
    found = chunks(text.blocks(), options, name=text.name, size=size, look_ahead=not at_once)
    _parse_chunks(found, text.name, output, options, report, jobs, resume)


def parse_documents(
    documents: Iterable[RawDocument],
    name: str,
    output: FilePath,
    options: Options,
    report: Report,
    *,
    jobs: int = 1,
    resume: bool = False,
) -> None:
    """Parse documents into one file; `name` is what they are called together."""
    _parse_chunks(document_chunks(documents, options), name, output, options, report, jobs, resume)


def _parse_chunks(
    found: Iterable[Chunk],
    name: str,
    output: FilePath,
    options: Options,
    report: Report,
    jobs: int,
    resume: bool,
) -> None:
    path = Path(output)
    done = Done()
    if resume and path.exists():
        done = look_at(path, options.format)
    with contextlib.ExitStack() as stack:
        run = stack.enter_context(_engine(options, jobs))
        # The last sentence of the output is parsed once more, to see that it is the same.
        wanted = (chunk for chunk in found if chunk.last >= done.sentences)
        out: Sink | None = None
        for written in run(wanted):
            skipped = max(0, done.sentences - written.first)
            if out is None:
                if done:
                    check_same(done, "".join(written.sentences[skipped - 1]), path, options.format)
                    cut(path, done)
                # Not before there is something to write: a file that is there should not pay for a mistake.
                out = stack.enter_context(open_output(output, options.format, append=bool(done)))
            for analyses in written.sentences[skipped:]:
                out.put(analyses)
            report(written.end, written.first + len(written.sentences))
        if out is None:
            if done:
                raise InputError(f"{path}: has more sentences than {name}: another input, or other options?")
            stack.enter_context(open_output(output, options.format))


@contextlib.contextmanager
def _engine(options: Options, jobs: int) -> Iterator[Callable[[Iterable[Chunk]], Iterator[Written]]]:
    """Give what maps chunks to their output, in order: this process, or others."""
    # A lexicon has done its work when a chunk is made.
    options = replace(options, lexicon=None)
    if jobs == 1:
        yield partial(map, prepare(options))
    else:
        from zishu.cli._workers import workers

        with workers(jobs, partial(prepare, replace(options, threads=options.threads or 1))) as run:
            yield run


def chunks(
    blocks: Iterable[str],
    options: Options,
    *,
    name: str = "",
    size: int = CHUNK,
    look_ahead: bool = True,
) -> Iterator[Chunk]:
    """Cut a text that comes in blocks into chunks of at least `size` characters; errors tell its name.

    Without `look_ahead` a sentence does not wait for the next one, and the space behind it is not known.
    """
    from zishu.constraints import Constraints
    from zishu.items import line_items, stream_items

    fault: InputError | None = None  # told when all that came before it is done
    torn = False  # the text breaks off within its last sentence
    recent, start = "", 0  # the latest text, and where it begins
    end = 0  # of the last sentence

    def good() -> Iterator[str]:
        nonlocal recent, start, fault, torn
        try:
            for block in blocks:
                # Here and not at every sentence: a block may be a text of millions of characters.
                recent, start = recent[end - start :] + block, end
                yield block
        except InputError as error:
            fault, torn = error, True

    def good_items() -> Iterator[Item]:
        nonlocal fault
        known = Constraints(lexicon=options.lexicon)
        try:
            yield from line_items(good()) if options.words else stream_items(good(), known)
        except InputError as error:
            fault = InputError(f"{name}: {error}" if name else str(error))

    items = good_items()
    chunk = Chunk(0)
    for item, after in _with_next(items) if look_ahead else ((item, None) for item in items):
        if torn and after is None:
            break  # the end of this sentence is not known
        end = item.start + len(item.text)
        space = ""
        if look_ahead:
            rest = recent[end - start : after.start - start if after else None]
            space = rest if after else rest[: len(rest) - len(rest.lstrip())]
        chunk.items.append(item)
        chunk.spaces.append(space)
        chunk.size += len(item.text)
        chunk.end = end
        if chunk.size >= size:
            yield chunk
            chunk = Chunk(chunk.last)
    if chunk.items:
        yield chunk
    if fault is not None:
        raise fault


def document_chunks(documents: Iterable[RawDocument], options: Options) -> Iterator[Chunk]:
    """Cut documents into chunks; a chunk has as many short ones as it can hold."""
    fault: InputError | OSError | None = None
    chunk = Chunk(0)
    before = 0  # the length of all documents before this one
    try:
        for document in documents:
            end = 0
            for number, part in enumerate(
                chunks(document.blocks, options, name=document.doc_id, size=1), start=1
            ):
                chunk.items += part.items
                chunk.spaces += part.spaces
                chunk.places.append((document.doc_id, number))
                chunk.size += part.size
                end = part.end
                chunk.end = before + end
                if chunk.size >= CHUNK:
                    yield chunk
                    chunk = Chunk(chunk.last)
            before += end
    except (InputError, OSError) as error:
        fault = error  # told when all that came before it is done
    if chunk.items:
        yield chunk
    if fault is not None:
        raise fault


def _with_next(items: Iterable[Item]) -> Iterator[tuple[Item, Item | None]]:
    """Yield every item with the one that follows it."""
    previous = None
    for item in items:
        if previous is not None:
            yield previous, item
        previous = item
    if previous is not None:
        yield previous, None


def prepare(options: Options) -> Callable[[Chunk], Written]:
    """Load the model, and return what turns chunks into output."""
    from zishu.parser import load

    return partial(_write, load(options.model, threads=options.threads), options)


def _write(parser: Parser, options: Options, chunk: Chunk) -> Written:
    analyses = _analyse(parser, chunk.items, options)
    places = chunk.places or [NOWHERE] * len(chunk.items)
    numbers = range(chunk.first, chunk.last)
    shown = [
        show(ranked, number, space, options, place)
        for ranked, number, space, place in zip(analyses, numbers, chunk.spaces, places, strict=True)
    ]
    return Written(chunk.first, shown, chunk.end)


# ---- output


def show(
    ranked: Sequence[Sentence], number: int, space: str, options: Options, place: Place = NOWHERE
) -> list[Any]:
    """Return the analyses of a sentence in the format that was chosen; `number` counts sentences from 0."""
    if options.format == "parquet":
        return [(*place, sentence) for sentence in ranked]
    from zishu.formats.jsonl import to_json
    from zishu.formats.sentences import to_chars_conllu, to_conllu

    name = str(number + 1)
    document_id, place_in_document = place
    shown = []
    for rank, sentence in enumerate(ranked, start=1):
        more = {"rank": rank} if options.k_best else {}
        match options.format:
            case "json":
                document = {"doc_id": document_id} if document_id else {}
                shown.append(to_json(sentence, sent_id=name, **document, **more) + "\n")
            case "conllu" | "chars":
                write = to_conllu if options.format == "conllu" else to_chars_conllu
                sent_id = f"{name}-{rank}" if options.k_best else name
                starts = place_in_document == 1 and rank == 1
                head = f"# newdoc id = {' '.join(document_id.split())}\n" if starts else ""
                shown.append(head + write(sentence, sent_id=sent_id, after=space, **more))
            case "svg":
                from zishu.render.svg import to_svg

                shown.append(to_svg(sentence).rstrip("\n") + "\n")
            case "tree":
                from zishu.render.terminal import draw

                head = "\n" if number or rank > 1 else ""
                if options.k_best:
                    prob = "" if sentence.prob is None else f", probability {sentence.prob:.4g}"
                    head += f"sentence {name}, analysis {rank}{prob}\n"
                shown.append(head + draw(sentence, colour=options.colour, width=options.width) + "\n")
    return shown


class Sink(Protocol):
    """Where sentences go."""

    def put(self, analyses: Sequence[Any]) -> None:
        """Write the analyses of a sentence."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *error: Any) -> None: ...


def open_output(path: FilePath, kind: Format, *, append: bool = False) -> Sink:
    """Open the output for sentences of a format."""
    if kind == "svg" and os.fspath(path) != STANDARD:
        return Figures(Path(path))
    if kind == "parquet":
        return Words(path)
    return Sentences(Output(path, append=append))


class Sentences:
    """A file of sentences, or standard output."""

    def __init__(self, file: Output) -> None:
        self._file = file

    def put(self, analyses: Sequence[str]) -> None:
        """Write a sentence; it is out when this returns."""
        self._file.write("".join(analyses))

    def __enter__(self) -> Self:
        self._file.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._file.__exit__(*error)


class Words:
    """A Parquet file with a row a word, which is there when it is complete."""

    def __init__(self, path: FilePath) -> None:
        from zishu.tables import ParquetWriter

        self._file = ParquetWriter(path)
        self._rows: list[Row] = []

    def put(self, analyses: Sequence[Row]) -> None:
        """Take a sentence; some hundreds are written at once."""
        self._rows += analyses
        if len(self._rows) >= 1000:
            self._write()

    def _write(self) -> None:
        from zishu.tables import to_batch

        self._file.write(to_batch(self._rows))
        self._rows = []

    def __enter__(self) -> Self:
        self._file.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        if error[1] is None and self._rows:
            self._write()
        self._file.__exit__(*error)


class Figures:
    """Files of a figure each: `figure.svg` if there is one, `figure-1.svg`, `figure-2.svg` and so on if several."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._count = 0
        self._first = ""

    def put(self, analyses: Sequence[str]) -> None:
        """Write the figures of a sentence; the very first one waits until its name is known."""
        for figure in analyses:
            self._count += 1
            if self._count == 1:
                self._first = figure
                continue
            if self._count == 2:
                self._write("-1", self._first)
            self._write(f"-{self._count}", figure)

    def _write(self, mark: str, figure: str) -> None:
        plain = Path(plain_name(self._path.name))
        packed = self._path.name.removeprefix(plain.name)
        with Output(self._path.with_name(f"{plain.stem}{mark}{plain.suffix}{packed}")) as file:
            file.write(figure)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        if self._count == 1:
            self._write("", self._first)
