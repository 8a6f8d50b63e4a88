"""`zishu pretrain`: teach an encoder about the language from tagged text. The work is `zishu.train.pretrain`."""

from __future__ import annotations

from typing import Annotated

import typer

from zishu.cli._configs import find_config


def pretrain_command(
    config: Annotated[
        str,
        typer.Argument(help="TOML file with a section [pretrain], or the name of a configuration."),
    ],
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Set a key, such as pretrain.text=FILE; repeatable."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a run that was stopped.")] = False,
) -> None:
    """Pre-train the encoder of a configuration.

    It is for `zishu train` with the same configuration. A run can be killed at any moment: the same command with
    --resume goes on.
    """
    # The package itself says what to install if torch is missing.
    from zishu.train.config import load_config
    from zishu.train.pretrain import pretrain

    folder = pretrain(load_config(find_config(config), overrides or []), resume=resume, report=_report)
    typer.echo(f"encoder: {folder}")


def _report(step: int, steps: int, seconds: float, losses: dict[str, float]) -> None:
    shown = "  ".join(f"{name} {loss:.4f}" for name, loss in losses.items())
    typer.echo(f"step {step}/{steps}  {shown}  {seconds:.0f} s", err=True)
