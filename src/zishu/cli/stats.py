"""`zishu stats`: print statistics of a treebank. The work is done in `zishu.stats`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from zishu.analysis.tables import Table
from zishu.cli._options import JsonOption
from zishu.cli._table import print_json, print_tables

if TYPE_CHECKING:
    from zishu.stats import Statistics


def stats_command(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="CoNLL-U or CoNLL-X file (.gz too), or - for standard input."),
    ],
    as_json: JsonOption = False,
) -> None:
    """Count the words, labels and arcs of a treebank."""
    from zishu.formats.conllu import read_conllu
    from zishu.stats import measure

    statistics = measure(read_conllu(file))
    if as_json:
        print_json(asdict(statistics))
    else:
        print_tables(tables(statistics))


def tables(stats: Statistics) -> list[Table]:
    """Format statistics as text: sizes, word lengths, trees, labels and tags; empty tables are omitted."""
    mean = stats.characters / stats.sentences if stats.sentences else 0.0
    sizes = [
        ("sentences", f"{stats.sentences:,}"),
        ("words", f"{stats.words:,}"),
        ("characters", f"{stats.characters:,}"),
        ("characters per sentence, mean", f"{mean:.2f}"),
        ("characters per sentence, max", f"{stats.longest_sentence:,}"),
    ]
    *short, _ = lengths = [str(length) for length in range(1, len(stats.lengths) + 1)]
    names = [*short, f">= {lengths[-1]}"]
    arcs = stats.leftward + stats.rightward
    trees = [
        _row("projective trees", stats.projective, stats.trees),
        _row("leftward arcs (dependent before head)", stats.leftward, arcs),
        _row("rightward arcs (dependent after head)", stats.rightward, arcs),
    ]
    shares = {
        "characters in word": [_row(*pair, stats.words) for pair in zip(names, stats.lengths, strict=True)],
        "trees": trees if stats.trees else [],
        "label": [_row(*pair, sum(stats.labels.values())) for pair in stats.labels.items()],
        "UPOS": [_row(*pair, sum(stats.upos.values())) for pair in stats.upos.items()],
    }
    laid_out = [Table((title, "count", "%"), rows) for title, rows in shares.items() if rows]
    return [Table(("size", "count"), sizes), *laid_out]


def _row(name: str, count: int, whole: int) -> tuple[str, str, str]:
    return name, f"{count:,}", f"{100 * count / whole:.2f}" if whole else "-"
