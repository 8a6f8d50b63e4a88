"""Show the progress of a long parse on a terminal: a bar, characters per second, and the remaining time."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import typer

from zishu.corpus.files import Summary, Watcher
from zishu.errors import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.progress import Progress


@contextlib.contextmanager
def watching(*, shown: bool, totals: bool) -> Iterator[Watcher]:
    """Provide a watcher that reports failed inputs and final `totals` and, if `shown`, draws a bar."""
    if not shown:
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
        yield _Reporter(totals, bar)


class _Reporter(Watcher):
    """Follow a run; a bar counts bytes of input, because files differ in size."""

    def __init__(self, totals: bool, bar: Progress | None = None) -> None:
        self._totals, self._bar = totals, bar
        self._workers = ""

    def begin(self, summary: Summary, size: int | None, workers: int) -> None:
        self._workers = f", {workers} workers" if workers > 1 else ""
        if self._bar is not None:
            self._bar.add_task(self._describe(summary), total=size, speed=0.0)

    def advance(self, summary: Summary, size: float) -> None:
        if self._bar is not None:
            [task] = self._bar.tasks
            speed = summary.characters / task.elapsed if task.elapsed else 0.0
            self._bar.update(task.id, completed=size, description=self._describe(summary), speed=speed)

    def fail(self, message: str) -> None:
        typer.echo(f"zishu: {one_line(message)}", err=True)

    def end(self, summary: Summary) -> None:
        if self._totals:
            typer.echo(
                f"{summary.written:,} shards written, {summary.skipped:,} skipped, {summary.failed:,} failed; "
                f"{summary.sentences:,} sentences, {summary.characters:,} characters",
                err=True,
            )

    def _describe(self, summary: Summary) -> str:
        done = summary.written + summary.failed
        shards = f", {done}/{summary.inputs - summary.skipped} shards" if self._totals else ""
        return f"{summary.sentences:,} sentences{shards}{self._workers}"
