"""`zishu ensemble`: make one model of several. The work is `zishu.model.directory`."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 (Typer reads the annotations at run time)
from typing import Annotated

import typer


def ensemble_command(
    output: Annotated[Path, typer.Argument(help="Directory to write the ensemble to.")],
    models: Annotated[list[Path], typer.Argument(help="Model directories, two at least.")],
    name: Annotated[str, typer.Option("--name", help="Name of the new model.")] = "",
) -> None:
    """Make one model of several parsers trained alike.

    With different seeds, for instance. Its scores are the means of theirs. It parses as many times more slowly as it
    has members, and is used like any other model.
    """
    from zishu.model.directory import write_ensemble

    write_ensemble(models, output, name=name or output.name)
    typer.echo(f"model: {output}")
