"""`zishu ensemble`: combine several models into one. The work is done in `zishu.model.directory`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def ensemble_command(
    output: Annotated[Path, typer.Argument(metavar="OUTPUT", help="Directory to write the ensemble to.")],
    models: Annotated[list[Path], typer.Argument(metavar="MODEL", help="Model directories, at least two.")],
    name: Annotated[
        str,
        typer.Option(
            "--name", metavar="NAME", help="Name the new model; default: as its directory is named."
        ),
    ] = "",
) -> None:
    """Combine several parsers into one model.

    They may differ in their seeds, for example. The ensemble averages their scores. Parsing time is the sum of the
    members' times. It is used like any other model.
    """
    from zishu.model.directory import write_ensemble

    write_ensemble(models, output, name=name or output.name)
    typer.echo(f"model: {output}")
