"""Options of parsing: how to decode, in which style, with which trees inside words."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


class DecodingName(StrEnum):
    """The ways of decoding."""

    MBR = "mbr"
    VITERBI = "viterbi"
    VANILLA = "vanilla"


DecodingOption = Annotated[
    DecodingName | None,
    typer.Option(
        help="mbr: the tree with the most heads expected to be right; viterbi: the most probable tree; vanilla: as the "
        "paper does with models of one role.",
        show_default="mbr",
    ),
]


class InnerName(StrEnum):
    """The kinds of trees inside words."""

    STRUCTURE = "structure"
    LATENT = "latent"


class GranularityName(StrEnum):
    """How long words are."""

    FINE = "fine"
    COARSE = "coarse"


StyleOption = Annotated[
    str | None,
    typer.Option(
        metavar="STYLE",
        help="Follow the conventions of this treebank, such as gsd, pud or hk; `zishu info` lists those of a model.",
        show_default="the model's first one",
    ),
]
