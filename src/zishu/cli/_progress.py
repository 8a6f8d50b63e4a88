"""Show on a terminal how far a long parse is: a bar, characters a second, and the time that is left."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zishu.files import Input


class Report(Protocol):
    """Take notice that the text is done up to an offset, which makes so many sentences."""

    def __call__(self, offset: int, sentences: int, /) -> None: ...


@contextlib.contextmanager
def progress(text: Input | None, *, shown: bool | None = None) -> Iterator[Report]:
    """Give a function to report with; nothing is shown if standard error is no terminal.

    Without a `text` it is not known how much there is to do.
    """
    if not (sys.stderr.isatty() if shown is None else shown):
        yield lambda _offset, _sentences: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = [
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[sentences]:,} sentences"),
        TextColumn("{task.fields[speed]:,.0f} characters/s"),
        TimeRemainingColumn(compact=True),
    ]
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=text.size if text else None, sentences=0, speed=0.0)

        def report(offset: int, sentences: int) -> None:
            # Offsets count characters, the size counts bytes, which may be compressed ones.
            portion = offset * text.bytes / max(1, text.characters) if text else 0.0
            elapsed = bar.tasks[0].elapsed
            speed = offset / elapsed if elapsed else 0.0
            bar.update(task, completed=portion, sentences=sentences, speed=speed)

        yield report
