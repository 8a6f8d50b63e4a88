"""`zishu suggest`: choose the sentences that are worth correcting. The work is done in `zishu.suggest`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from zishu.cli._options import ModelOption, StyleOption


def suggest_command(
    corpus: Annotated[list[str], typer.Argument(metavar="FILE", help="Raw text; - for standard input.")],
    output: Annotated[
        Path,
        typer.Option("-o", "--output", metavar="FILE", help="Write JSON lines for the page to this file."),
    ],
    number: Annotated[
        int, typer.Option("-n", "--number", metavar="N", min=1, help="Choose N sentences.")
    ] = 100,
    model: ModelOption = None,
    style: StyleOption = None,
    lexicon: Annotated[
        str, typer.Option(metavar="FILE", help="Keep the words of this file (one per line) whole.")
    ] = "",
    most: Annotated[
        int,
        typer.Option(metavar="N", min=1, help="Parse at most N sentences, evenly spread over the corpus."),
    ] = 20_000,
) -> None:
    """Choose the sentences that are most worth correcting.

    The model doubts their words; they are spread over the corpus and contain no near-duplicates. Correct them on the
    page (zishu serve), download them, and run zishu adapt.
    """
    import zishu
    from zishu.formats.jsonl import to_json
    from zishu.lexicon import Lexicon
    from zishu.suggest import suggest_from_files
    from zishu.writing import check_not_input, replacing

    check_not_input(output, *corpus)
    words = Lexicon.load(lexicon) if lexicon else None
    found, total = suggest_from_files(
        zishu.load(model, style=style), corpus, number, lexicon=words, most=most
    )
    with replacing(output) as file:
        for rank, one in enumerate(found, start=1):
            line = to_json(one.sentence, sent_id=str(rank), doubt=round(one.doubt, 4))
            file.write(f"{line}\n".encode())
    all_of_them = sum(one.doubt for one in found) / len(found)
    typer.echo(
        f"{len(found):,} of {total:,} sentences; "
        f"the model expects {100 * all_of_them:.0f} % of their words to be wrong in some respect"
    )
