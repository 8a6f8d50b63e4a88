"""Parse files into files: what `zishu parse -i INPUT -o OUTPUT` does, for Python.

    parse_files("corpus.txt.gz", "corpus.conllu.zst", jobs=4)
    parse_files("news/*.jsonl", "words.parquet", Options(lexicon=["图书馆"]), text_field="body", id_field="url")
    parse_files("corpus/*.txt", "out/", engine="ray", resume=True)

The path of a file: `documents` reads texts from it, `chunks` splits them into sentences, a `Recipe` (`outputs`) parses a
chunk and formats it, in this process or in one of several (`workers`), and `open_output` writes it. The order is kept,
every chunk is written as soon as it is parsed, and memory holds only a few chunks. `claim` keeps other runs away from
the output, and finds where an interrupted run ended. With Ray, every input gets its own output file (`shards`, `ray`).
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Literal

from zishu.arguments import list_of, whole_number
from zishu.constraints import Pin, TagsLike, read_tags
from zishu.corpus.chunks import Chunk, chunks
from zishu.corpus.claim import RESUMABLE, cannot_extend, claimed
from zishu.corpus.documents import MAX_DOCUMENT, RawDocument, expand, kind_of, read_documents
from zishu.corpus.options import Format, Options
from zishu.corpus.outputs import Recipe, make_recipe, open_output
from zishu.errors import InputError, ZishuError, explain, until_error
from zishu.reading import STANDARD, Errors, FilePath, Input, check_encoding
from zishu.writing import check_not_input

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from zishu.arcs import ArcLike

_DEFAULT: Final = Options()


@dataclass(slots=True)
class Summary:
    """Count what a run has done so far; sentences and characters are those parsed in this run."""

    inputs: int
    skipped: int = 0  # inputs that an earlier run finished
    written: int = 0
    failed: int = 0
    sentences: int = 0
    characters: int = 0


class Watcher:
    """Follow a run, for example with a progress bar. This base class ignores everything."""

    def begin(self, summary: Summary, size: int | None, workers: int) -> None:
        """Handle the start of a run over `size` bytes of input; None if unknown."""

    def advance(self, summary: Summary, size: float) -> None:
        """Handle progress; `size` bytes of the input are done in total."""

    def fail(self, message: str) -> None:
        """Handle the failure of one input; the others continue."""

    def end(self, summary: Summary) -> None:
        """Handle the end of the run."""


def parse_files(
    inputs: FilePath | Iterable[FilePath],
    output: FilePath,
    options: Options = _DEFAULT,
    *,
    format: Format | None = None,  # noqa: A002 (what users call it)
    text_field: str | None = None,
    id_field: str | None = None,
    model: FilePath | None = None,
    jobs: int | None = None,
    threads: int = 0,
    resume: bool = False,
    force: bool = False,
    skip_bad: bool = False,
    encoding: str = "utf-8",
    errors: Errors = "strict",
    max_document: int = MAX_DOCUMENT,
    engine: Literal["local", "ray"] = "local",
    ray_address: str | None = None,
    watcher: Watcher | None = None,
) -> Summary:
    """Parse files into one file, or with `engine="ray"` into a folder with one file per input.

    `inputs` are names or patterns (`*`, `?`, `[...]`, `**`), or `-` for standard input. They hold text, or one text per
    row (.jsonl, .csv, .tsv, .parquet) in the column or key `text_field` (default: "text"); `id_field` holds the ids of
    these documents. `output` is a file, or `-` for standard output. Its ending determines the format unless `format` is
    given; .gz and .zst compress it. `jobs` is the number of processes (default: 1; with Ray: one per core of the
    cluster at `ray_address`). `resume` continues an interrupted run with the same options. `force` overwrites an
    existing output, which is otherwise an error. `encoding` is that of the inputs; `errors` handles invalid bytes:
    "strict" or "replace". A row may have about `max_document` characters.

    Wrong arguments and bad input raise `InputError`; everything before an error in the input is written. With
    `skip_bad`, and always with Ray, bad documents do not end the run: each is reported to the watcher and skipped, and
    a `ZishuError` at the end gives their number.
    """
    progress = watcher or Watcher()
    names = list_of([inputs] if isinstance(inputs, str | os.PathLike) else inputs, "inputs")
    if jobs is not None:
        jobs = whole_number(jobs, "the number of jobs", least=1)
    max_document = whole_number(max_document, "max_document", least=1)
    check_encoding(encoding)
    if engine not in ("local", "ray"):
        raise InputError(f"unknown engine {engine!r}: choose from local, ray")
    if engine == "ray" and format is None:
        format = "conllu"  # noqa: A001 (the output is a folder)
    recipe = make_recipe(options, output, format, model, threads)
    if engine == "ray":
        from zishu.corpus.ray import parse_shards

        if text_field is not None or id_field is not None:
            raise InputError("the Ray engine reads plain text, which has no fields")
        if force:
            raise InputError("the Ray engine cannot overwrite: use another output folder")
        return parse_shards(
            [os.fspath(name) for name in names], os.fspath(output), recipe, address=ray_address, workers=jobs,
            resume=resume, encoding=encoding, errors=errors, watcher=progress,
        )  # fmt: skip
    if resume:
        _check_resumable(recipe, output)
    sources = expand(names)
    kinds = [kind_of(source) for source in sources]
    check_not_input(output, *sources)
    # A single text needs no document id, and its length is known.
    alone = kinds == ["text"] and not (text_field or id_field or recipe.format == "parquet")
    with contextlib.ExitStack() as stack:
        text = stack.enter_context(Input(sources[0], errors=errors, encoding=encoding)) if alone else None
        summary = Summary(len(sources))

        def report_bad(error: Exception) -> None:
            summary.failed += 1
            progress.fail(explain(error))

        skip = report_bad if skip_bad else None
        # In interactive use, every sentence is answered immediately.
        interactive = text is not None and text.is_conversation()
        if text is not None:
            pieces = text.lines() if interactive else text.blocks()
            documents: Iterable[RawDocument] = [RawDocument(text.name, pieces)]
        else:
            documents = read_documents(
                sources, text_field=text_field, id_field=id_field, errors=errors, encoding=encoding,
                longest=max_document, skip=skip,
            )  # fmt: skip
        found = chunks(documents, options.sentences, named=not alone, interactive=interactive, skip=skip)
        progress.begin(summary, text.size if text else None, jobs or 1)

        def report(chunk: Chunk) -> None:
            summary.sentences += len(chunk.sentences)
            summary.characters += chunk.size
            # Reading is ahead of writing. Offsets count characters, the size counts bytes, perhaps compressed.
            progress.advance(summary, chunk.end * text.bytes / max(1, text.characters) if text else 0.0)

        record = {
            **recipe.record(),
            "text_field": text_field,
            "id_field": id_field,
            "encoding": encoding,
            "errors": errors,
            "skip_bad": skip_bad,
        }
        name = ", ".join(os.fspath(name) for name in names)
        _parse_chunks(
            found, name, output, recipe, record, jobs=jobs or 1, resume=resume, force=force, report=report
        )
    summary.written = len(sources)
    progress.end(summary)
    if summary.failed:
        count = "1 bad document was" if summary.failed == 1 else f"{summary.failed} bad documents were"
        raise ZishuError(f"{count} skipped; all others are done")
    return summary


def parse_texts(
    texts: Sequence[str],
    output: FilePath = STANDARD,
    options: Options = _DEFAULT,
    *,
    pins: Iterable[Pin] = (),
    breaks: Iterable[int] = (),
    arcs: Iterable[ArcLike] = (),
    tags: TagsLike = (),
    format: Format | None = None,  # noqa: A002 (what users call it)
    model: FilePath | None = None,
    threads: int = 0,
    force: bool = False,
) -> None:
    """Parse texts as if each were a file; a single text may have pins, breaks, arcs and tags.

    `force` overwrites an existing output, which is otherwise an error.
    """
    if format is None and os.fspath(output) == STANDARD and not options.only:
        format = "tree"  # noqa: A001
    recipe = make_recipe(options, output, format, model, threads)
    texts = list_of(texts, "texts")
    pins, breaks, arcs = list_of(pins, "pins"), list_of(breaks, "breaks"), list_of(arcs, "arcs")
    if tags:
        from zishu.model.files import find_model
        from zishu.model.settings import read_settings

        tags = read_tags(tags, read_settings(find_model(model)).upos)
    if (pins or breaks or arcs or tags) and (len(texts) != 1 or options.words):
        raise InputError("pins, breaks, arcs and tags need a single text without given words")
    options.check_fixed(arcs=arcs, tags=tags)
    named = len(texts) > 1 or recipe.format == "parquet"
    documents = [RawDocument(str(k) if named else "", (text,)) for k, text in enumerate(texts, start=1)]
    split = partial(options.sentences, pins=pins, breaks=breaks, arcs=arcs, tags=tags)
    found = chunks(documents, split, named=named)
    _parse_chunks(found, "the texts", output, recipe, recipe.record(), force=force)


def _check_resumable(recipe: Recipe, output: FilePath) -> None:
    if os.fspath(output) == STANDARD:
        raise InputError("standard output cannot be resumed; an output file can")
    if recipe.format not in RESUMABLE:
        raise InputError(f"the format {recipe.format} cannot be resumed; {', '.join(RESUMABLE)} can")
    if recipe.options.k_best:
        raise InputError("a run with several analyses per sentence cannot be resumed")


def _parse_chunks(
    found: Iterable[Chunk],
    name: str,
    output: FilePath,
    recipe: Recipe,
    record: Mapping[str, Any],
    *,
    jobs: int = 1,
    resume: bool = False,
    force: bool = False,
    report: Callable[[Chunk], None] = lambda _: None,
) -> None:
    """Parse chunks into the output; `name` describes the input, `record` holds all that the output depends on."""
    kind = recipe.format if recipe.format in RESUMABLE and not recipe.options.k_best else ""
    faults: list[BaseException] = []
    put: Callable[[list[Any]], None] | None = None
    with contextlib.ExitStack() as stack:
        claim = stack.enter_context(claimed(output, kind, record, resume=resume, force=force))
        # The last sentence of the output is parsed again to check that it is the same.
        coming = (chunk for chunk in found if chunk.last >= claim.sentences)
        if jobs == 1:
            parse = recipe.load()
            parsed: Iterator[tuple[Chunk, list[list[Any]]]] = ((chunk, parse(chunk)) for chunk in coming)
        else:
            from zishu.corpus.workers import workers

            # The lexicon is only used when a chunk is made.
            lean = replace(recipe, options=replace(recipe.options, lexicon=None), threads=recipe.threads or 1)
            parsed = stack.enter_context(workers(jobs, lean.load))(coming)
        with contextlib.ExitStack() as open_files:

            def start() -> Callable[[list[Any]], None]:
                # Only now: a mistake must not cost the user an existing file.
                claim.started = True
                return open_files.enter_context(
                    open_output(output, recipe.format, append=claim.sentences > 0, force=force)
                )

            # The output before an error is kept, and closed properly before the error is raised.
            for chunk, sentences in until_error(parsed, faults, InputError, OSError, KeyboardInterrupt):
                if done := max(0, claim.sentences - chunk.first):
                    claim.take_up("".join(sentences[done - 1]))
                put = put or start()
                if new := list(chain.from_iterable(sentences[done:])):
                    if claim.finished:
                        raise cannot_extend(claim.path)
                    put(new)
                report(chunk)
            if put is None and not faults:
                if claim.sentences:
                    raise InputError(
                        f"{output}: has more sentences than {name}: was the input or were the options different?"
                    )
                start()
        for fault in faults:
            raise fault
