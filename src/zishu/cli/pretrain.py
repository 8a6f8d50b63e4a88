"""`zishu pretrain`: pre-train an encoder on tagged text. The work is done in `zishu.train.pretrain`."""

from __future__ import annotations

from typing import Annotated

import typer

from zishu.cli._options import OverridesOption, ResumeOption
from zishu.cli.config import find_config


def pretrain_command(
    config: Annotated[
        str,
        typer.Argument(
            metavar="CONFIG", help="TOML file with a section [pretrain], or the name of a configuration."
        ),
    ],
    overrides: OverridesOption = None,
    resume: ResumeOption = False,
) -> None:
    """Pre-train the encoder of a configuration.

    The encoder is for `zishu train` with the same configuration. An interrupted run continues with the same command and
    --resume.
    """
    # The package itself says what to install if torch is missing.
    from zishu.train.config import load_config
    from zishu.train.pretrain import pretrain

    folder = pretrain(load_config(find_config(config), overrides or []), resume=resume, report=_report)
    typer.echo(f"encoder: {folder}")


def _report(step: int, steps: int, seconds: float, losses: dict[str, float]) -> None:
    shown = "  ".join(f"{name} {loss:.4f}" for name, loss in losses.items())
    typer.echo(f"step {step}/{steps}  {shown}  {seconds:.0f} s", err=True)
