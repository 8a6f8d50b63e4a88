"""`zishu analyse`: repeat the paper's analyses on any models. The work is done in `zishu.analysis`."""

from __future__ import annotations

import sys
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from zishu.analysis.tables import ABSENT, Table, escape_markdown, percent
from zishu.cli._options import JsonOption, MarkdownOption, PunctOption
from zishu.cli._table import print_json, print_tables
from zishu.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from zishu.analysis.study import Study
    from zishu.metrics import Average

REFERENCE = "reference"


FigureFormat = Literal["svg", "png"]


class TableName(StrEnum):
    """Name a table of a study. (Typer does not accept a list of a Literal.)"""

    STRUCTURES = "structures"
    DIRECTIONS = "directions"
    MATCHES = "matches"
    LENGTHS = "lengths"
    SCORES = "scores"


def analyse_command(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="[MODEL]... GOLD",
            help="Model directories (seeds of one system) and a CoNLL-U file, or analysis.json files to print again.",
        ),
    ],
    system: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=DIR[,DIR...]", help="Add a system and its models, one per seed; repeatable."
        ),
    ] = None,
    structures: Annotated[
        Path | None, typer.Option(metavar="WIST.conll", help="Compare with these annotated structures.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write analysis.json and the figures into this folder.")
    ] = None,
    keep: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Save predictions here; DIR/NAME can then replace the models of NAME."
        ),
    ] = None,
    figure_format: Annotated[
        FigureFormat | None, typer.Option("--format", help="Draw the figures in this format; default: svg.")
    ] = None,
    table: Annotated[
        list[TableName] | None, typer.Option(help="Print only this table; repeatable; default: all.")
    ] = None,
    at_least: Annotated[
        float,
        typer.Option(metavar="PERCENT", help="Omit structures that are rarer than this in every column."),
    ] = 0.0,
    markdown: MarkdownOption = False,
    as_json: JsonOption = False,
    punct: PunctOption = False,
    count: Annotated[
        Literal["tokens", "types"] | None,
        typer.Option(help="Count structures by word token (the default), or by type as in the paper."),
    ] = None,
) -> None:
    """Study the structures that models predict inside words.

    Also shows how well they parse words of each length. A model is a model directory, the folder of a training run, a
    folder of seed-* folders, or predictions saved by --keep. Each model parses the sentences of GOLD twice: with the
    gold words, and from the characters alone.
    """
    *models, gold = paths
    if figure_format is not None and output is None:
        raise InputError("--format needs --output")
    if markdown and as_json:
        raise InputError("choose only one of --markdown and --json")
    # Parsing may take long, so everything that can be wrong is checked first.
    if output is not None:
        from zishu.analysis.fonts import check_matplotlib

        check_matplotlib()
        output.mkdir(parents=True, exist_ok=True)
    if gold.suffix == ".json":
        no_files = any(path.suffix != ".json" for path in models)
        if no_files or system or structures is not None or punct or count is not None or keep is not None:
            raise InputError(
                "a finished analysis cannot be changed: remove models, --structures, --keep, --count and --punct"
            )
        from zishu.analysis.study import merge
        from zishu.analysis.study_files import read_study

        report = merge([read_study(path) for path in paths])
    else:
        from zishu.analysis.systems import find_systems, study_systems

        if bool(models) == bool(system):
            raise InputError("give either model directories before GOLD or systems with --system NAME=DIR")
        report = study_systems(
            find_systems(_named(system or []), models),
            gold,
            structures=structures,
            keep=keep,
            punct=punct,
            count=count or "tokens",
            say=partial(typer.echo, err=True) if sys.stderr.isatty() else lambda _: None,
        )
    if output is not None:
        _write(report, output, figure_format or "svg")
    if as_json:
        from zishu.analysis.study_files import study_to_dict

        print_json(study_to_dict(report))
    else:
        print_study(report, tables=table, at_least=at_least, markdown=markdown)


def print_study(
    report: Study,
    *,
    tables: Collection[TableName] | None = None,
    at_least: float = 0.0,
    markdown: bool = False,
) -> None:
    """Print the tables (default: all), the size of the data and the signature."""
    laid_out = _tables(report, tables or [*TableName], at_least)
    size = f"{report.sentences} sentences, {report.words} words"
    if markdown:
        for table in laid_out:
            header, *rows = ([*map(escape_markdown, row)] for row in (table.header, *table.rows))
            typer.echo(Table(header, rows).to_markdown() + "\n")
        typer.echo(f"{size}. `{report.signature}`")
        return
    print_tables(laid_out)
    typer.echo(f"\n{size}\n{report.signature}")


def _tables(report: Study, names: Collection[TableName], at_least: float) -> list[Table]:
    """Format a study as text; empty tables are omitted."""
    laid_out = _structure_tables(report, at_least) if TableName.STRUCTURES in names else []
    for name, make in (
        (TableName.DIRECTIONS, _direction_table),
        (TableName.MATCHES, _match_table),
        (TableName.LENGTHS, _attachment_table),
        (TableName.SCORES, _score_table),
    ):
        laid_out += [make(report)] if name in names else []
    return [table for table in laid_out if table.rows]


def _structure_tables(report: Study, at_least: float) -> list[Table]:
    """Format the distribution of structures by word length: Tables 4 and 6 of the paper.

    Structures whose share is below `at_least` in every system and in the reference are omitted.
    """
    from zishu.analysis.structures import draw_structure

    # Systems without structures have no column.
    systems = {name: system for name, system in report.systems.items() if system.counts}
    names = [*systems] + [REFERENCE] * (report.reference is not None)
    # A study that is passed on without its words has no examples.
    last = ["example"] if any(report.examples.values()) else []
    laid_out = []
    for length, words in report.by_length.items():
        rows = []
        for heads in report.structures(length):
            found = [system.share(heads) for system in systems.values()]
            values = [None if share is None else share.mean for share in found]
            if report.reference is not None:
                values.append(report.reference_share(heads))
            if max((value for value in values if value is not None), default=0.0) >= at_least:
                rows.append(
                    (draw_structure(heads), *map(percent, values), *[report.examples[heads] for _ in last])
                )
        unit = "distinct words" if report.count == "types" else "words"
        laid_out.append(Table((f"% of {words:,} {unit} of {length} characters", *names, *last), rows))
    return laid_out


def _direction_table(report: Study) -> Table:
    """Format the direction of the arcs inside words; leftward: the dependent precedes its head."""
    from zishu.analysis.structures import leftward_share

    rows = []
    for name, system in report.systems.items():
        leftward = system.leftward
        if leftward is not None:
            mean = leftward.mean
            seeds = (percent(min(leftward.values)), percent(max(leftward.values)))
            rows.append((name, percent(mean), percent(100 - mean), *seeds))
    known = leftward_share(report.reference or {})
    if known is not None:
        rows.append((REFERENCE, percent(known), percent(100 - known), ABSENT, ABSENT))
    header = ("% of arcs inside words", "leftward", "rightward", "leftward, min seed", "leftward, max seed")
    return Table(header, rows)


def _match_table(report: Study) -> Table:
    """Format complete match and many-to-one complete match: Table 8 of the paper."""
    rows = [
        (
            name if length == "all" else f"  {length} characters",
            f"{found.words:,}",
            _mean(found.cm),
            percent(found.many_to_one),
        )
        for name, system in report.systems.items()
        for length, found in system.matches.items()
    ]
    unit = "distinct words" if report.count == "types" else "words"
    return Table(("structures as in the reference", unit, "CM", "M-1"), rows)


def _attachment_table(report: Study) -> Table:
    """Format attachment by word length: Figure 4 of the paper."""
    first = next(iter(report.systems.values())).attachment
    rows = [
        (name, *(_mean(at.uas) for at in system.attachment.values()))
        for name, system in report.systems.items()
    ]
    sizes = ("words", *(f"{at.words:,}" for at in first.values()))
    return Table(("UAS by word length, given words", *first), [*rows, sizes])


def _score_table(report: Study) -> Table:
    """Format the scores from raw text: Table 3 of the paper."""
    rows = [
        (name, *map(_mean, system.scores.values()), str(len(system.runs)))
        for name, system in report.systems.items()
        if system.scores
    ]
    return Table(("from raw text", "F1 seg", "UF", "LF", "CM (labeled trees)", "seeds"), rows)


def _named(texts: Sequence[str]) -> dict[str, list[Path]]:
    """Read the values of --system."""
    systems: dict[str, list[Path]] = {}
    for text in texts:
        name, equals, folders = text.partition("=")
        parts = [part.strip() for part in folders.split(",")]
        if not name.strip() or not equals or not all(parts):
            raise InputError(f"--system {text}: write NAME=DIR, or NAME=DIR,DIR for several seeds")
        if name.strip() in systems:
            raise InputError(f"--system {name.strip()}: given twice")
        systems[name.strip()] = [Path(part) for part in parts]
    return systems


def _write(report: Study, output: Path, figure_format: FigureFormat) -> None:
    """Write the numbers and the figures; warn once about characters that figures cannot show."""
    from zishu.analysis.figures import draw_figures, labels
    from zishu.analysis.fonts import choose_fonts
    from zishu.analysis.study_files import study_to_dict
    from zishu.model.files import write_json

    write_json(output / "analysis.json", study_to_dict(report))
    fonts = choose_fonts(labels(report))
    if fonts.warning:
        typer.echo(f"zishu: warning: {fonts.warning}", err=True)
    for name, picture in draw_figures(report, figure_format, fonts).items():
        (output / f"{name}.{figure_format}").write_bytes(picture)


def _mean(average: Average | None) -> str:
    return percent(average.mean if average else None)
