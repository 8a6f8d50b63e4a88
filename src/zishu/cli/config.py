"""`zishu config`: print a bundled training configuration, or list them."""

from __future__ import annotations

from typing import Annotated

import typer

from zishu.cli._configs import bundled_configs, find_config


def config_command(
    name: Annotated[
        str | None,
        typer.Argument(help="Name of a configuration, or a TOML file (default: list all)."),
    ] = None,
) -> None:
    """Print a training configuration.

    `zishu train NAME` trains it. To change it, use `--set KEY=VALUE`, or save it to a file and edit that.
    """
    if name is not None:
        typer.echo(find_config(name).read_text(encoding="utf-8"), nl=False)
        return
    for known, path in bundled_configs().items():
        title = path.read_text(encoding="utf-8").partition("\n")[0]
        typer.echo(f"{known:28} {title.removeprefix('#').strip() if title.startswith('#') else ''}".rstrip())
