"""Print tables of text: drawn by Rich on a terminal, aligned columns elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import typer

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import Console


class Table(NamedTuple):
    """Hold a table as text; the first cell of a row is its name, the others are numbers."""

    header: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


def print_tables(tables: Iterable[Table], console: Console | None = None) -> None:
    """Print tables one below the other (default: to standard output)."""
    from rich.console import Console

    console = console or Console()
    if console.is_terminal:
        for table in tables:
            _draw(table, console)
    else:
        typer.echo("\n\n".join(align(table) for table in tables), file=console.file)


def align(table: Table) -> str:
    """Format a table as plain lines: names left-aligned, numbers right-aligned."""
    from rich.cells import cell_len  # a Chinese character is two columns wide

    lines = [table.header, *table.rows]
    widths = [max(cell_len(line[k]) for line in lines) for k in range(len(table.header))]
    padded = []
    for name, *numbers in lines:
        cells = [name + " " * (widths[0] - cell_len(name))]
        cells += [
            " " * (width - cell_len(cell)) + cell for cell, width in zip(numbers, widths[1:], strict=True)
        ]
        padded.append("  ".join(cells).rstrip())
    return "\n".join(padded)


def _draw(table: Table, console: Console) -> None:
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    drawn = RichTable(box=box.SIMPLE_HEAD)
    drawn.add_column(table.header[0])
    for title in table.header[1:]:
        drawn.add_column(title, justify="right")
    for row in table.rows:
        # `Text`, because a label such as [x] would be interpreted as markup.
        drawn.add_row(*map(Text, row))
    console.print(drawn)
