"""`zishu train-structures`: train a structure scorer for a finished model, by `zishu.train.structures`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def train_structures_command(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL", help="Model directory; structures.onnx and structures.json are written to it."
        ),
    ],
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE",
            help="Text with words of the lexicon: CoNLL-U files (*.conllu), or plain text, which is parsed first.",
        ),
    ],
    sentences: Annotated[
        int,
        typer.Option(
            "--sentences", metavar="N", min=1, help="Read N sentences from the start of each plain text."
        ),
    ] = 20_000,
    epochs: Annotated[
        int, typer.Option("--epochs", metavar="N", min=1, help="Pass over the words found N times.")
    ] = 6,
    seed: Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Set the random seed.")] = 0,
    small: Annotated[
        bool, typer.Option("--small", help="Train a small network, for models that must stay small.")
    ] = False,
) -> None:
    """Train the structure scorer of a finished model.

    It predicts the trees inside words and their relations, learned from the bundled lexicon. The parser itself does not
    change. A tenth of the words is held out first to measure the printed scores; the final scorer is trained on all of
    them. This takes a few minutes.
    """
    from zishu.train.structures import train_structures

    def report(line: str) -> None:
        typer.echo(line, err=True)

    settings = train_structures(
        model, files, sentences=sentences, epochs=epochs, seed=seed, small=small, report=report
    )
    for length, score in settings.training["held_out"].items():
        typer.echo(
            f"held-out words of {length} characters: {score['words']}, tree {score['tree']} %, "
            f"tree and relations {score['tree_and_relations']} %"
        )
