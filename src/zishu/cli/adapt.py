"""`zishu adapt`: fit a model to a domain. The work is done in `zishu.train.adapt`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from zishu.analysis.tables import Table
from zishu.cli import INTERRUPTED
from zishu.cli._options import ModelOption, ResumeOption, command_to_resume
from zishu.cli._table import print_tables
from zishu.errors import InputError

if TYPE_CHECKING:
    from zishu.train.adapt import Adaptation


def adapt_command(
    context: typer.Context,
    output: Annotated[
        Path,
        typer.Option(
            "-o", "--output", metavar="FOLDER", help="Write the new model and its run to this folder."
        ),
    ],
    gold: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            help="Learn from complete or partial trees: CoNLL-U (_ for unknown) or JSON of the page; repeatable.",
        ),
    ] = None,
    words: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE", help="Learn from sentences, one per line, with spaces between words; repeatable."
        ),
    ] = None,
    lexicon: Annotated[
        str, typer.Option(metavar="FILE", help="Keep these words (one per line) whole in the raw text.")
    ] = "",
    text: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            help="Learn from raw text: the words of the lexicon, and parses that the model is sure of; repeatable.",
        ),
    ] = None,
    model: ModelOption = None,
    style: Annotated[
        str | None,
        typer.Option(
            metavar="STYLE",
            help="Take the data to be in this style; a new name adds a style; default: the model's first style.",
        ),
    ] = None,
    dev: Annotated[
        str,
        typer.Option(
            metavar="FILE",
            help="Score on these complete trees; by default, on every tenth of --gold if it has 50 or more.",
        ),
    ] = "",
    rehearsal: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[STYLE=]FILE", help="Do not forget this treebank: learn from it, too; repeatable."
        ),
    ] = None,
    sure: Annotated[
        float,
        typer.Option(
            metavar="P",
            min=0.5,
            max=1,
            help="Learn from the model's own parses where they are at least this probable.",
        ),
    ] = 0.95,
    keep: Annotated[
        float,
        typer.Option(
            metavar="PERCENT",
            min=0,
            max=100,
            help="Forget little: in all other styles, agree with the old model on at least this share of the words, "
            "heads and relations of general text.",
        ),
    ] = 80.0,
    epochs: Annotated[int, typer.Option(metavar="N", min=1, help="Pass over the data N times.")] = 4,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Set the random seed.")] = 0,
    threads: Annotated[int, typer.Option(metavar="N", min=0, help="Use N threads; 0: one per core.")] = 0,
    resume: ResumeOption = False,
) -> None:
    """Adapt a model to a domain.

    Files may contain complete trees, or only some words or arcs of a sentence. Use the new model like any other: zishu
    parse --model FOLDER. docs/adapt.md walks through an example.
    """
    from zishu.train.adapt import adapt
    from zishu.train.adapt_data import AdaptOptions
    from zishu.train.checkpoint import Interrupted
    from zishu.writing import exclusive

    options = AdaptOptions(
        gold=tuple(gold or ()),
        words=tuple(words or ()),
        lexicon=lexicon,
        text=tuple(text or ()),
        rehearsal=tuple(rehearsal or ()),
        dev=dev,
        model=model,
        style=style,
        sure=sure,
        keep=keep,
        epochs=epochs,
        seed=seed,
    )
    if output.exists() and any(output.iterdir()) and not resume:
        raise InputError(f"{output}: is not empty: use --resume or another folder")
    try:
        with exclusive(output):
            say = partial(typer.echo, err=True)
            report = adapt(output, options, threads=threads, resume=resume, say=say)
    except Interrupted as stop:
        typer.echo(f"zishu: {stop}; to continue: {command_to_resume(context)}", err=True)
        raise typer.Exit(INTERRUPTED) from None
    _print(report)
    typer.echo(f"\nmodel: {output}")


def _print(report: Adaptation) -> None:
    rows = [
        (f"held-out sentences, {when}", *(f"{value:.1f}" for value in scores.values()))
        for when, scores in report.held_out.items()
    ]
    rows += [
        (
            f"agreement with the old model{f', {style}' if style else ''}",
            *(f"{x:.1f}" for x in scores.values()),
        )
        for style, scores in report.agreement.items()
    ]
    print_tables([Table(("", "F1seg", "UF", "LF"), rows)])
    learned = ", ".join(f"{number:,} {kind}" for kind, number in report.sentences.items() if number)
    typer.echo(f"\nsentences: {learned}")
    if not report.held_out:
        typer.echo(
            "no sentences were held out, so the gain on your text was not measured; give some with --dev"
        )
    for warning in report.warnings:
        typer.echo(f"zishu: warning: {warning}", err=True)
