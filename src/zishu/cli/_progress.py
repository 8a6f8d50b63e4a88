"""Show the progress of a long parse on a terminal: a bar, characters per second, and the remaining time."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING

import typer

from zishu.corpus.files import Summary, Watcher
from zishu.errors import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.progress import Progress


@contextlib.contextmanager
def watching(*, shown: bool | None = None, totals: bool = False) -> Iterator[Watcher]:
    """Provide a watcher that reports failed inputs and final `totals`, with a bar if standard error is a terminal."""
    if not (sys.stderr.isatty() if shown is None else shown):
        yield _Reporter(totals)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = [
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.description}"),
        TextColumn("{task.fields[speed]:,.0f} characters/s"),
        TimeRemainingColumn(compact=True),
    ]
    with Progress(*columns, console=Console(stderr=True)) as bar:
        yield _Bar(totals, bar)


class _Reporter(Watcher):
    def __init__(self, totals: bool) -> None:
        self._totals = totals

    def fail(self, message: str) -> None:
        typer.echo(f"zishu: {one_line(message)}", err=True)

    def end(self, summary: Summary) -> None:
        if self._totals:
            typer.echo(
                f"{summary.written:,} shards written, {summary.skipped:,} skipped, {summary.failed:,} failed; "
                f"{summary.sentences:,} sentences, {summary.characters:,} characters",
                err=True,
            )


class _Bar(_Reporter):
    """Show a bar that counts bytes of input, because files differ in size."""

    def __init__(self, totals: bool, bar: Progress) -> None:
        super().__init__(totals)
        self._bar = bar
        self._workers = ""

    def begin(self, summary: Summary, size: int | None, workers: int) -> None:
        self._workers = f", {workers} workers" if workers > 1 else ""
        self._task = self._bar.add_task(self._describe(summary), total=size, speed=0.0)

    def advance(self, summary: Summary, size: float) -> None:
        elapsed = self._bar.tasks[0].elapsed
        speed = summary.characters / elapsed if elapsed else 0.0
        self._bar.update(self._task, completed=size, description=self._describe(summary), speed=speed)

    def _describe(self, summary: Summary) -> str:
        done = summary.written + summary.failed
        shards = f", {done}/{summary.inputs - summary.skipped} shards" if self._totals else ""
        return f"{summary.sentences:,} sentences{shards}{self._workers}"
