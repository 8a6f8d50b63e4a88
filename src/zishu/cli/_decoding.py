"""Define the options of parsing: decoding, style, and trees inside words."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

DecodingOption = Annotated[
    Literal["mbr", "viterbi", "vanilla"] | None,
    typer.Option(
        help="mbr: the tree with the highest expected number of correct heads; viterbi: the most probable tree; "
        "vanilla: the paper's algorithm for models with one role.",
        show_default="mbr",
    ),
]

StyleOption = Annotated[
    str | None,
    typer.Option(
        metavar="STYLE",
        help="Follow the conventions of this treebank, such as gsd, pud or hk; `zishu info` lists those of a model.",
        show_default="the model's first",
    ),
]
