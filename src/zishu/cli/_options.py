"""Define the options that several commands share, each once, and the command that continues a run."""

from __future__ import annotations

import shlex
from typing import Annotated, Literal

import typer

DecodingOption = Annotated[
    Literal["mbr", "viterbi", "vanilla"] | None,
    typer.Option(
        help="mbr (default): find the tree with the highest expected number of correct heads; viterbi: the most "
        "probable tree; vanilla: use the paper's algorithm for models with one role.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object with all numbers.")]
MarkdownOption = Annotated[bool, typer.Option("--markdown", help="Print Markdown.")]
ModelOption = Annotated[
    str | None,
    typer.Option(
        metavar="MODEL",
        help="Use this model, a directory or the name of a bundled one, instead of `default`.",
    ),
]
OverridesOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Set a key, such as encoder.layers=3; repeatable."),
]
PunctOption = Annotated[bool, typer.Option("--punct", help="Count arcs of punctuation, too.")]
ResumeOption = Annotated[bool, typer.Option("--resume", help="Continue an interrupted run.")]
StyleOption = Annotated[
    str | None,
    typer.Option(
        metavar="STYLE",
        help="Follow the conventions of this treebank, such as gsd, pud or hk, instead of the model's first; `zishu info` "
        "lists those of a model.",
    ),
]


def command_to_resume(context: typer.Context) -> str:
    """Return the command line that continues an interrupted run."""
    words = [word for word in context.find_root().obj or () if word not in ("--force", "--resume")]
    return shlex.join(["zishu", *words, "--resume"])
