"""The ways of decoding as a choice on the command line; `zishu.model.decode` tells what they are."""

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
