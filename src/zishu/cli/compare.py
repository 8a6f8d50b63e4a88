"""`zishu compare`: the paper's Tables 1 and 2 for any set of runs. The work is done in `zishu.analysis.compare`."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from zishu.cli._options import JsonOption, MarkdownOption
from zishu.cli._table import print_json, print_tables
from zishu.errors import InputError, one_line


def compare_command(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="[NAME=]RUN",
            help="Run folder, folder of seed-* folders, or file from `zishu eval --output`.",
        ),
    ],
    part: Annotated[
        Literal["dev", "test"], typer.Option("--set", help="Compare the scores on this set.")
    ] = "dev",
    style: Annotated[
        str | None,
        typer.Option(metavar="STYLE", help="Compare the scores in this style, for runs with several."),
    ] = None,
    given_words: Annotated[
        bool,
        typer.Option("--given-words", help="Compare scores with given words (UAS, LAS) instead of raw text."),
    ] = False,
    metrics: Annotated[
        str | None,
        typer.Option(
            metavar="M,M,...",
            help="Choose from seg, uf, lf, ucm, lcm, upos, xpos, feats, lemma; default: the paper's.",
        ),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(metavar="SYSTEM", help="Test the others against this one; default: the first."),
    ] = None,
    samples: Annotated[int, typer.Option(metavar="N", min=1, help="Draw N bootstrap samples.")] = 10_000,
    draw_seeds: Annotated[
        bool,
        typer.Option("--draw-seeds", help="Generalise to other seeds, not only to other sentences."),
    ] = False,
    markdown: MarkdownOption = False,
    latex: Annotated[bool, typer.Option("--latex", help="Print LaTeX (booktabs).")] = False,
    as_json: JsonOption = False,
) -> None:
    """Compare trained systems, and test their differences.

    Scores are mean and standard deviation over seeds. Runs of the same name are seeds of one system. Systems are rows,
    in the given order. All runs must be scored on the same sentences.
    """
    from zishu.analysis.compare import compare
    from zishu.analysis.compare_tables import as_dict, to_latex, to_markdown, to_text

    if markdown + latex + as_json > 1:
        raise InputError("choose only one of --markdown, --latex and --json")
    comparison = compare(
        runs,
        f"{part}-{style}" if style else part,
        given_words=given_words,
        metrics=None if metrics is None else [name.strip() for name in metrics.split(",")],
        baseline=baseline,
        samples=samples,
        draw_seeds=draw_seeds,
        warn=_warn,
    )
    if as_json:
        print_json(as_dict(comparison))
    elif markdown:
        typer.echo(to_markdown(comparison))
    elif latex:
        typer.echo(to_latex(comparison))
    else:
        tables, notes = to_text(comparison)
        print_tables(tables)
        typer.echo("\n" + "\n".join(notes))


def _warn(message: str) -> None:
    typer.echo(f"zishu: {one_line(message)}", err=True)
