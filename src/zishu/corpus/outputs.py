"""Parse chunks of sentences, format them and write them: CoNLL-U, JSON, characters, drawings, figures, tables.

A `Recipe` turns a chunk into output, in any process; `open_output` opens the file or files that the output goes to.

Sentences are numbered from 1 across all documents, in every format (`sent_id`). A document with an id begins with `#
newdoc id` in CoNLL-U, and its sentences have a `doc_id` in JSON. Text formats are written chunk by chunk. A table
appears when it is complete. Figures are written to one file each, or all to one page (HTML).

The formats themselves are in `zishu.formats`, `zishu.render` and `zishu.corpus.tables`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_args

from zishu.compression import plain_name
from zishu.corpus.options import ONLY_FORMATS, Format, Options
from zishu.corpus.tables import ParquetWriter
from zishu.document import Sentence, Tokens
from zishu.errors import InputError
from zishu.formats.jsonl import to_json
from zishu.formats.parsed_conllu import to_chars_conllu, to_conllu
from zishu.reading import STANDARD, FilePath
from zishu.writing import Output

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zishu.corpus.chunks import Chunk, Place

# The format of an output file by its ending, which may be followed by .gz or .zst.
_FORMATS: Final[dict[str, Format]] = {
    ".conllu": "conllu", ".txt": "conllu", ".json": "json", ".jsonl": "json", ".ndjson": "json", ".svg": "svg",
    ".html": "html", ".htm": "html", ".parquet": "parquet",
}  # fmt: skip


def format_of(output: FilePath, only: str | None = None) -> Format:
    """Return the default format of an output by its ending; without an ending it is CoNLL-U.

    With `only` words or tags, a terminal or a text file gets text.
    """
    if os.fspath(output) == STANDARD:
        if only:
            return "text"
        return "tree" if sys.stdout is not None and sys.stdout.isatty() else "conllu"
    ending = Path(plain_name(output)).suffix.lower()
    if only and ending == ".txt":
        return "text"
    if ending and ending not in _FORMATS:
        raise InputError(f"{output}: unknown ending {ending}; use one of {' '.join(_FORMATS)}, or --format")
    return _FORMATS.get(ending, "conllu")


def make_recipe(
    options: Options, output: FilePath, chosen: Format | None, model: FilePath | None, threads: int
) -> Recipe:
    """Return the recipe for an output; raise `InputError` if its format cannot represent what the options ask for."""
    chosen = chosen or format_of(output, options.only)
    if chosen not in get_args(Format):
        raise InputError(f"unknown format {chosen!r}: choose from {', '.join(get_args(Format))}")
    standard = os.fspath(output) == STANDARD
    if chosen == "parquet" and standard:
        raise InputError("a Parquet table needs a file: it cannot go to standard output")
    if chosen == "parquet" and options.k_best:
        raise InputError("a Parquet table holds one analysis per sentence: remove k_best")
    if options.only and chosen not in ONLY_FORMATS:
        raise InputError(
            f"the format {chosen} shows trees; with only {options.only} choose from {', '.join(ONLY_FORMATS)}"
        )
    if not options.only and chosen == "text":
        raise InputError("the format text cannot show a tree; use it with only words or tags")
    if standard and sys.stdout is not None and sys.stdout.isatty():
        colour, width = not os.environ.get("NO_COLOR"), shutil.get_terminal_size().columns
        return Recipe(options, chosen, model, threads, colour, width)
    return Recipe(options, chosen, model, threads)


@dataclass(frozen=True, slots=True)
class Recipe:
    """Hold everything needed to turn a chunk of sentences into output, in any process."""

    options: Options
    format: Format = "conllu"
    model: FilePath | None = None  # None for the bundled one
    threads: int = 0
    colour: bool = False  # for drawings on a terminal
    width: int | None = None

    def record(self) -> dict[str, Any]:
        """Return everything the output depends on, as plain values for JSON."""
        model = None if self.model is None else os.fspath(self.model)
        if model is not None and os.path.exists(model):  # noqa: PTH110 (else it is the name of a bundled one)
            model = os.path.abspath(model)  # noqa: PTH100 (links stay)
        return {"format": self.format, "model": model, **self.options.record()}

    def load(self) -> Callable[[Chunk], list[list[Any]]]:
        """Load the model and return the function that parses a chunk.

        It returns the formatted analyses of each sentence, best first: strings, or rows of a table.
        """
        from zishu.parser import load

        options = self.options
        parser = load(self.model, style=options.style, inner=options.inner, threads=self.threads)

        def parse(chunk: Chunk) -> list[list[Any]]:
            found = zip(options.analyse(parser, chunk.sentences), chunk.places, strict=True)
            return [
                [self.show(one, number, place, rank) for rank, one in enumerate(ranked, start=1)]
                for number, (ranked, place) in enumerate(found, start=chunk.first)
            ]

        return parse

    def show(self, sentence: Sentence | Tokens, number: int, place: Place, rank: int = 1) -> Any:
        """Format an analysis of a sentence; `number` counts sentences from 0, `rank` its analyses from 1."""
        doc_id, number_in_document = place
        name, options = str(number + 1), self.options
        more = {"rank": rank} if options.k_best else {}
        match self.format:
            case "parquet":
                return doc_id, number + 1, sentence
            case "json":
                document = {"doc_id": doc_id} if doc_id else {}
                return to_json(sentence, sent_id=name, **document, **more) + "\n"
            case "conllu" | "chars":
                begins = doc_id and number_in_document == rank == 1
                head = f"# newdoc id = {' '.join(doc_id.split())}\n" if begins else ""
                write: Callable[..., str] = to_conllu if self.format == "conllu" else to_chars_conllu
                return head + write(sentence, sent_id=f"{name}-{rank}" if options.k_best else name, **more)
        if isinstance(sentence, Tokens):
            tagged = options.only == "tags"
            words = [f"{word.form}/{word.upos or '_'}" if tagged else word.form for word in sentence.words]
            return " ".join(words) + "\n"
        if self.format != "tree":
            from zishu.render.svg import to_svg

            figure = to_svg(sentence, relations=options.relations).rstrip("\n") + "\n"
            return figure if self.format == "svg" else _section(figure, name, rank if more else None, doc_id)
        from zishu.render.terminal import draw

        head = "\n" if number or rank > 1 else ""
        if options.k_best:
            prob = "" if sentence.prob is None else f", probability {sentence.prob:.4g}"
            head += f"sentence {name}, analysis {rank}{prob}\n"
        effect = ""
        if sentence.prob is not None and sentence.prob_without_lexicon is not None:
            with_it, without = sentence.prob, sentence.prob_without_lexicon
            effect = f"probability {with_it:.3g} with the lexicon, {without:.3g} without\n"
        drawn = draw(sentence, colour=self.colour, width=self.width, relations=options.relations)
        return f"{head}{drawn}\n{effect}"


def _section(figure: str, name: str, rank: int | None, doc_id: str) -> str:
    """Return a figure as a section of a page."""
    title = f"{doc_id} {name}".strip() + ("" if rank is None else f", {rank}")
    start = figure.index("<svg")  # after the XML declaration, if there is one
    return f"<figure><figcaption>{escape(title)}</figcaption>\n{figure[start:]}</figure>\n"


_PAGE_HEAD: Final = """\
<!DOCTYPE html>
<html lang="zh">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Zishu</title>
<style>
:root { color-scheme: light dark; }
body { margin: 1rem; font-family: sans-serif; }
figure { margin: 0 0 2rem; overflow-x: auto; }
figcaption { font-size: 0.8rem; opacity: 0.7; }
</style>
</head>
<body>
"""
_PAGE_END: Final = "</body>\n</html>\n"


# ---- output to files


@contextlib.contextmanager
def open_output(
    path: FilePath, kind: Format, *, append: bool = False, force: bool = False
) -> Iterator[Callable[[list[Any]], None]]:
    """Open the output for sentences of a format, and provide the function that writes their analyses."""
    if kind == "svg" and os.fspath(path) != STANDARD:
        with _figures(Path(path), force=force) as put:
            yield put
    elif kind == "parquet":
        with ParquetWriter(path) as table:
            yield table.put
    else:
        with Output(path, append=append) as file:
            if kind == "html":
                file.write(_PAGE_HEAD)
            yield lambda analyses: file.write("".join(analyses))
            if kind == "html":
                file.write(_PAGE_END)


@contextlib.contextmanager
def _figures(path: Path, *, force: bool) -> Iterator[Callable[[list[str]], None]]:
    """Write one file per figure: `figure.svg` if there is only one, else `figure-1.svg`, `figure-2.svg` and so on."""
    plain = Path(plain_name(path.name))
    packed = path.name.removeprefix(plain.name)
    waiting: list[str] = []  # the first figure, until its name is known
    number = 0  # of the last figure that has a file

    def put(figures: list[str]) -> None:
        nonlocal number
        waiting.extend(figures)
        if number or len(waiting) > 1:
            for figure in waiting:
                number += 1
                marked = path.with_name(f"{plain.stem}-{number}{plain.suffix}{packed}")
                # The claim covers only the name that the user gave.
                if not force and os.path.lexists(marked):
                    raise InputError(f"{marked}: exists; overwrite it with --force")
                write(marked, figure)
            waiting.clear()

    def write(name: Path, figure: str) -> None:
        with Output(name) as file:
            file.write(figure)

    try:
        yield put
    finally:
        if waiting and not number:
            write(path, waiting[0])
