"""Define the options of parsing: decoding, style, and trees inside words."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


class DecodingName(StrEnum):
    """Name a decoding algorithm."""

    MBR = "mbr"
    VITERBI = "viterbi"
    VANILLA = "vanilla"


DecodingOption = Annotated[
    DecodingName | None,
    typer.Option(
        help="mbr: the tree with the highest expected number of correct heads; viterbi: the most probable tree; "
        "vanilla: the paper's algorithm for models with one role.",
        show_default="mbr",
    ),
]


class InnerName(StrEnum):
    """Name a kind of tree inside words."""

    STRUCTURE = "structure"
    LATENT = "latent"


class GranularityName(StrEnum):
    """Name a granularity of words."""

    FINE = "fine"
    COARSE = "coarse"


StyleOption = Annotated[
    str | None,
    typer.Option(
        metavar="STYLE",
        help="Follow the conventions of this treebank, such as gsd, pud or hk; `zishu info` lists those of a model.",
        show_default="the model's first",
    ),
]
