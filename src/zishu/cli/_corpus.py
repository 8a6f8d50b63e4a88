"""Parse a corpus on a Ray cluster: what `zishu parse --engine ray` adds to `zishu.integrations.ray`.

A worker does what `zishu parse` does with one file, chunk by chunk, so a shard has the bytes that a single process would
have written.
"""

from __future__ import annotations

import contextlib
import sys
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import typer

from zishu.cli._parsing import Options, chunks, prepare
from zishu.errors import InputError, ZishuError
from zishu.integrations.ray import Watcher, run
from zishu.integrations.shards import MANIFEST, Part
from zishu.integrations.storage import join
from zishu.tables import kind_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rich.progress import Progress

    from zishu.files import Errors
    from zishu.integrations.shards import Entry, Source, Work

ENDINGS: Final = {"conllu": ".conllu", "chars": ".chars.conllu", "json": ".jsonl"}


def parse_corpus(
    inputs: Sequence[str],
    output: str,
    options: Options,
    *,
    address: str | None = None,
    workers: int | None = None,
    resume: bool = False,
    errors: Errors = "strict",
) -> None:
    """Parse files into shards and say what came of it; a failed input makes it a `ZishuError` in the end."""
    if options.format not in ENDINGS:
        raise InputError(f"--engine ray writes {', '.join(ENDINGS)}, not {options.format}")
    for pattern in inputs:
        if kind_of(pattern) != "text":
            raise InputError(f"{pattern}: --engine ray reads plain text only")
    options = replace(options, threads=options.threads or 1)
    with _watch() as watcher:
        summary = run(
            inputs,
            output,
            partial(prepare_text, options),
            ending=ENDINGS[options.format],
            options=_recorded(options, errors),
            address=address,
            workers=workers,
            threads=options.threads,
            resume=resume,
            errors=errors,
            watcher=watcher,
        )
    typer.echo(
        f"{summary.written:,} shards written, {summary.skipped:,} skipped, {summary.failed:,} failed; "
        f"{summary.sentences:,} sentences, {summary.characters:,} characters",
        err=True,
    )
    if summary.failed:
        raise ZishuError(f"{summary.failed} of {summary.total} inputs failed: see {join(output, MANIFEST)}")


def prepare_text(options: Options) -> Work:
    """Load the model, and return what parses the text of a file."""
    parse = prepare(replace(options, lexicon=None))  # it has done its work when a chunk is made

    def parts(blocks: Iterable[str]) -> Iterator[Part]:
        for chunk in chunks(blocks, options):
            written = parse(chunk)
            text = "".join(analysis for analyses in written.sentences for analysis in analyses)
            yield Part(text, len(written.sentences))

    return parts


def _recorded(options: Options, errors: Errors) -> dict[str, Any]:
    """Return what the content of a shard depends on."""
    lexicon = None
    if options.lexicon is not None:
        import hashlib

        lexicon = hashlib.sha256("\n".join(options.lexicon).encode("utf-8", "surrogatepass")).hexdigest()
    return {
        "format": options.format,
        "model": None if options.model is None else str(options.model),
        "words": options.words,
        "lexicon": lexicon,
        "kbest": options.k_best,
        "confidence": options.confidence,
        "decoding": options.decoding,
        "errors": errors,
    }


@contextlib.contextmanager
def _watch() -> Iterator[Watcher]:
    """Give a watcher that tells of every failure at once, and shows a bar on a terminal."""
    if not sys.stderr.isatty():
        yield _Failures()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = [
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TextColumn("{task.fields[shards]} shards, {task.fields[workers]} workers"),
        TextColumn("{task.fields[speed]:,.0f} characters/s"),
        TimeRemainingColumn(compact=True),
    ]
    with Progress(*columns, console=Console(stderr=True)) as bar:
        yield _Bar(bar)


class _Failures(Watcher):
    def end(self, entry: Entry) -> None:
        if entry.error is not None:
            named = entry.error if entry.input in entry.error else f"{entry.input}: {entry.error}"
            typer.echo(f"zishu: {' '.join(named.split())}", err=True)


class _Bar(_Failures):
    """A bar that counts bytes of input, because shards differ in size."""

    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._characters = self._ended = self._total = 0

    def begin(self, todo: Sequence[Source], workers: int) -> None:
        self._total = len(todo)
        size = sum(source.size for source in todo)
        self._task = self._bar.add_task("", total=size, shards=f"0/{len(todo)}", workers=workers, speed=0.0)

    def end(self, entry: Entry) -> None:
        super().end(entry)
        self._ended += 1
        self._characters += entry.characters
        elapsed = self._bar.tasks[0].elapsed
        self._bar.update(
            self._task,
            advance=entry.size,
            shards=f"{self._ended}/{self._total}",
            speed=self._characters / elapsed if elapsed else 0.0,
        )
