"""Print tables, drawn by Rich on a terminal and as aligned columns elsewhere, and JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zishu.analysis.tables import Table


def print_tables(tables: Iterable[Table], *, err: bool = False) -> None:
    """Print tables one below the other."""
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    console = Console(stderr=err)
    if not console.is_terminal:
        typer.echo("\n\n".join(table.to_text() for table in tables), err=err)
        return
    for table in tables:
        drawn = RichTable(box=box.SIMPLE_HEAD)
        drawn.add_column(table.header[0])
        for title in table.header[1:]:
            drawn.add_column(title, justify="right")
        for row in table.rows:
            # `Text`, because a label such as [x] would be interpreted as markup.
            drawn.add_row(*map(Text, row))
        console.print(drawn)


def print_json(data: object, *, err: bool = False) -> None:
    """Print plain values as one JSON object."""
    typer.echo(json.dumps(data, ensure_ascii=False, indent=2), err=err)
