"""`zishu analyse`: repeat the paper's analyses on any models. The work is done in `zishu.analysis`."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from zishu.analysis.tables import ABSENT, Table, escape_markdown, percent
from zishu.cli._options import JsonOption, MarkdownOption, PunctOption
from zishu.cli._table import print_tables
from zishu.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from rich.console import Console

    from zishu.analysis.study import Predictions, Study, TokensOrTypes
    from zishu.metrics import Average
    from zishu.tree import WordTree

REFERENCE = "reference"
KEPT = ".predictions"  # ending of the names of saved predictions


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
        typer.Option(metavar="NAME=DIR[,DIR...]", help="A system and its models, one per seed; repeatable."),
    ] = None,
    structures: Annotated[
        Path | None, typer.Option(metavar="WIST.conll", help="Annotated structures to compare with.")
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
        FigureFormat | None, typer.Option("--format", help="Format of the figures (default: svg).")
    ] = None,
    table: Annotated[
        list[TableName] | None, typer.Option(help="Print only this table; repeatable (default: all).")
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
        typer.Option(help="Count structures by word token (default), or by type as in the paper."),
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
        _prepare(output)
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
        chosen = _systems(models, system or [])
        report = _study(chosen, gold, structures, keep, punct=punct, count=count or "tokens")
    if output is not None:
        _write(report, output, figure_format or "svg")
    if as_json:
        typer.echo(_to_json(report))
    else:
        print_study(report, tables=table, at_least=at_least, markdown=markdown)


def _study(
    systems: dict[str, list[Path]],
    gold_path: Path,
    structures: Path | None,
    keep: Path | None,
    *,
    punct: bool,
    count: TokensOrTypes,
) -> Study:
    """Parse the gold file with every model, and analyse the predictions."""
    from zishu.analysis.prediction_files import write_predictions
    from zishu.analysis.study import study
    from zishu.formats.conllu import read_conllu
    from zishu.treebank.wist import read_wist

    reference = None if structures is None else read_wist(structures)
    gold = [sentence.tree() for sentence in read_conllu(gold_path)]
    if not gold:
        raise InputError(f"{gold_path}: no sentences to analyse")
    places = {} if keep is None else _places(systems, keep)
    runs: dict[str, list[Predictions]] = {name: [] for name in systems}
    for name, paths in systems.items():
        for path in paths:
            if sys.stderr.isatty():
                typer.echo(f"{name}: {path}", err=True)
            run = _predictions(path, gold)
            runs[name].append(run)
            # Save immediately, because a later model may fail.
            if keep is not None:
                write_predictions(run, gold, places[name, path])
    return study(gold, runs, reference=reference, punct=punct, count=count)


def _predictions(path: Path, gold: Sequence[WordTree]) -> Predictions:
    """Parse with a model, or read its saved predictions."""
    if path.suffix == KEPT:
        from zishu.analysis.prediction_files import read_predictions

        return read_predictions(path, gold)
    from zishu.analysis.study import predict
    from zishu.model.runtime import load_model

    # Loaded here and released soon, because a pre-trained encoder is large.
    return predict(load_model(path), str(path), gold)


def _places(systems: dict[str, list[Path]], keep: Path) -> dict[tuple[str, Path], Path]:
    """Return the file for the predictions of every model."""
    places = {
        (name, path): keep / name / _kept_name(path) for name, paths in systems.items() for path in paths
    }
    if len({*places.values()}) < len(places):
        raise InputError("--keep: two models of a system have folders of the same name")
    return places


def _kept_name(path: Path) -> str:
    """Return the name of a model's predictions: that of its run, such as seed-0, or its own."""
    return f"{path.stem if path.suffix == KEPT else path.parent.name if path.name == 'model' else path.name}{KEPT}"


def print_study(
    report: Study,
    console: Console | None = None,
    *,
    tables: Collection[TableName] | None = None,
    at_least: float = 0.0,
    markdown: bool = False,
) -> None:
    """Print the tables, the size of the data and the signature (default: all tables, to standard output)."""
    laid_out = _tables(report, tables or [*TableName], at_least)
    size = f"{report.sentences} sentences, {report.words} words"
    if markdown:
        for table in laid_out:
            header, *rows = ([*map(escape_markdown, row)] for row in (table.header, *table.rows))
            typer.echo(Table(header, rows).to_markdown() + "\n")
        typer.echo(f"{size}. `{report.signature}`")
        return
    print_tables(laid_out, console)
    typer.echo(f"\n{size}\n{report.signature}", file=console.file if console else None)


def _tables(report: Study, names: Collection[TableName], at_least: float) -> list[Table]:
    """Format a study as text; empty tables are omitted."""
    makers: dict[TableName, Callable[[], list[Table]]] = {
        TableName.STRUCTURES: lambda: _structure_tables(report, at_least),
        TableName.DIRECTIONS: lambda: [_direction_table(report)],
        TableName.MATCHES: lambda: [_match_table(report)],
        TableName.LENGTHS: lambda: [_attachment_table(report)],
        TableName.SCORES: lambda: [_score_table(report)],
    }
    laid_out = [table for name, make in makers.items() if name in names for table in make()]
    return [table for table in laid_out if table.rows]


def _structure_tables(report: Study, at_least: float) -> list[Table]:
    """Format the distribution of structures by word length: Tables 4 and 6 of the paper.

    Structures whose share is below `at_least` in every system and in the reference are omitted.
    """
    from zishu.analysis.structures import draw_structure

    # Systems without structures have no column.
    systems = {name: system for name, system in report.systems.items() if system.counts}
    names = [*systems] + [REFERENCE] * (report.reference is not None)
    laid_out = []
    for length, words in report.by_length.items():
        rows = []
        for heads in report.structures(length):
            found = [system.share(heads) for system in systems.values()]
            values = [None if share is None else share.mean for share in found]
            if report.reference is not None:
                values.append(report.reference_share(heads))
            if max((value for value in values if value is not None), default=0.0) >= at_least:
                rows.append((draw_structure(heads), *map(percent, values), report.examples[heads]))
        unit = "distinct words" if report.count == "types" else "words"
        laid_out.append(Table((f"% of {words:,} {unit} of {length} characters", *names, "example"), rows))
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
    rows = []
    for name, system in report.systems.items():
        if system.matches is not None:
            rows += [
                (
                    name if length == "all" else f"  {length} characters",
                    f"{found.words:,}",
                    _mean(found.cm),
                    percent(found.many_to_one),
                )
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
    rows = []
    for name, system in report.systems.items():
        if system.scores:
            rows.append(
                (name, *(_mean(average) for average in system.scores.values()), str(len(system.runs)))
            )
    return Table(("from raw text", "F1 seg", "UF", "LF", "CM (labeled trees)", "seeds"), rows)


def _systems(models: Sequence[Path], named: Sequence[str]) -> dict[str, list[Path]]:
    """Return the existing models of every system: directories, or files of predictions."""
    if bool(models) == bool(named):
        raise InputError("give either model directories before GOLD or systems with --system NAME=DIR")
    systems: dict[str, list[Path]] = {}
    for text in named:
        name, equals, folders = text.partition("=")
        parts = [part.strip() for part in folders.split(",")]
        if not name.strip() or not equals or not all(parts):
            raise InputError(f"--system {text}: write NAME=DIR, or NAME=DIR,DIR for several seeds")
        if name.strip() in systems:
            raise InputError(f"--system {name.strip()}: given twice")
        systems[name.strip()] = [folder for part in parts for folder in _expand(Path(part))]
    if models:
        seeds = [folder for path in models for folder in _expand(path)]
        systems[_common_name(seeds)] = seeds
    for name, chosen in systems.items():
        if len({folder.resolve() for folder in chosen}) != len(chosen):
            raise InputError(f"system {name}: a model is given twice, as if it were two seeds")
    return systems


def _expand(path: Path) -> list[Path]:
    """Return the models of a path: the path itself, the model of a run, or those of its seeds."""
    from zishu.model.settings import CONFIG

    kept = [path] if path.suffix == KEPT and path.is_file() else sorted(path.glob(f"*{KEPT}"), key=_seed)
    if kept and not (path / CONFIG).is_file():
        return kept

    for found in ([path], [path / "model"], sorted(path.glob("seed-*/model"), key=_seed)):
        if found and all((folder / CONFIG).is_file() for folder in found):
            return found
    raise InputError(f"{path}: neither a model directory nor a training run with one")


def _seed(path: Path) -> tuple[int, str]:
    """Return a sort key for the models of seeds: 2 before 10."""
    name = _kept_name(path)
    return len(name), name


def _common_name(models: Sequence[Path]) -> str:
    """Return the name that all models have in their settings, or a generic one."""
    from zishu.model.settings import read_settings

    names = {path.parent.name if path.suffix == KEPT else read_settings(path).name for path in models}
    return (names.pop() if len(names) == 1 else "") or "model"


def _prepare(output: Path) -> None:
    """Create the folder for the figures, and check that Matplotlib is installed."""
    from zishu.analysis.fonts import check_matplotlib

    check_matplotlib()
    output.mkdir(parents=True, exist_ok=True)


def _write(report: Study, output: Path, figure_format: FigureFormat) -> None:
    """Write the numbers and the figures; warn once about characters that figures cannot show."""
    from zishu.analysis.figures import draw_figures, labels
    from zishu.analysis.fonts import choose_fonts

    (output / "analysis.json").write_text(_to_json(report) + "\n", encoding="utf-8")
    fonts = choose_fonts(labels(report))
    if fonts.warning:
        typer.echo(f"zishu: warning: {fonts.warning}", err=True)
    for name, picture in draw_figures(report, figure_format, fonts).items():
        (output / f"{name}.{figure_format}").write_bytes(picture)


def _to_json(report: Study) -> str:
    from zishu.analysis.study_files import study_to_dict

    return json.dumps(study_to_dict(report), ensure_ascii=False, indent=1)


def _mean(average: Average | None) -> str:
    return percent(average.mean if average else None)
