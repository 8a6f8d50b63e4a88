"""`zishu convert`: convert bracketed treebanks to CoNLL-U. The work is done in `zishu.treebank.convert`."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from zishu.analysis.tables import Table
from zishu.cli._options import JsonOption
from zishu.cli._table import print_json, print_tables
from zishu.reading import STANDARD

if TYPE_CHECKING:
    from zishu.treebank.convert import Report


SchemeOption = Annotated[
    Literal["zc", "sd", "conllx"],
    typer.Option(
        help="zc: use the head rules of Zhang and Clark; sd: Stanford Dependencies; conllx: files that you converted."
    ),
]
LabelsOption = Annotated[
    Literal["malt", "functional"],
    typer.Option(
        help="Use these labels, with --scheme zc: malt, as in the paper's data; functional: with subjects and objects."
    ),
]
JarOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Use this stanford-parser.jar, for --scheme sd; Java must be on PATH."),
]
EncodingOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="Read the trees in this encoding; default: UTF-8 or GB18030, detected."
    ),
]

convert_app = typer.Typer(rich_markup_mode=None, help="Convert bracketed treebanks to CoNLL-U.")


@convert_app.command("ctb")
def ctb_command(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Your copy of the treebank.")],
    out: Annotated[
        Path, typer.Argument(metavar="OUT", help="Folder for train.conllu, dev.conllu and test.conllu.")
    ],
    version: Annotated[
        Literal["5", "5-dep", "6", "7"],
        typer.Option(help="Use the split of this release of the treebank."),
    ],
    scheme: SchemeOption = "zc",
    labels: LabelsOption = "malt",
    stanford_jar: JarOption = None,
    converted: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="DIR",
            help="Read the CoNLL-X or Malt-TAB files of this folder, one per part or per file, for --scheme conllx.",
        ),
    ] = None,
    encoding: EncodingOption = None,
    as_json: JsonOption = False,
) -> None:
    """Convert the Penn Chinese Treebank by its published splits.

    Compares the counts with the paper's. Sentences that cannot be read are listed and skipped.
    """
    from zishu.treebank.convert import Method, convert_ctb

    method = Method(scheme, labels, stanford_jar, converted, encoding)
    _print(convert_ctb(directory, out, version, method), as_json=as_json)


@convert_app.command("brackets")
def brackets_command(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="File of bracketed trees, or - for standard input.")
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="FILE", help="Write to this file; default, or -: standard output."
        ),
    ] = None,
    scheme: SchemeOption = "zc",
    labels: LabelsOption = "malt",
    stanford_jar: JarOption = None,
    converted: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="FILE",
            help="Read the same trees as CoNLL-X or Malt-TAB from here, for --scheme conllx.",
        ),
    ] = None,
    encoding: EncodingOption = None,
    as_json: JsonOption = False,
) -> None:
    """Convert one file of bracketed trees.

    Sentences that cannot be read are listed and skipped. The report goes to standard error if the sentences go to
    standard output.
    """
    from zishu.reading import standard_input
    from zishu.treebank.convert import Method, convert_brackets

    piped = str(file) == STANDARD
    if str(output) == STANDARD:
        output = None
    report = convert_brackets(
        standard_input() if piped else file,
        output or sys.stdout,
        "stdin" if piped else file.name.partition(".")[0] or file.name,
        Method(scheme, labels, stanford_jar, converted, encoding),
    )
    _print(report, as_json=as_json, err=output is None)


def _print(report: Report, *, as_json: bool, err: bool = False) -> None:
    if as_json:
        print_json(asdict(report), err=err)
    else:
        print_tables(tables(report), err=err)


def tables(report: Report) -> list[Table]:
    """Format a report as text: the counts, then what is missing, then every unreadable sentence."""
    compared = any(counts.published is not None for counts in report.parts.values())
    header = ("output", "files", "sentences", *(("paper", "difference") if compared else ()))
    rows = []
    for name, counts in report.parts.items():
        comparison: tuple[str, ...] = ()
        if compared and counts.published is not None:
            comparison = (f"{counts.published:,}", f"{counts.sentences - counts.published:+,}")
        numbers = (counts.words, counts.projective, len(counts.problems))
        rows.append(
            (name, f"{counts.files:,}", f"{counts.sentences:,}", *comparison, *(f"{n:,}" for n in numbers))
        )
    laid_out = [Table((*header, "words", "projective", "unreadable"), rows)]
    for name, counts in report.parts.items():
        if counts.missing:
            laid_out.append(Table((f"numbers of {name} without a file",), [(", ".join(counts.missing),)]))
    if report.unused:
        laid_out.append(Table(("numbers of files outside the split",), [(", ".join(report.unused),)]))
    problems = [problem for counts in report.parts.values() for problem in counts.problems]
    if problems:
        lines = [(f"{problem.path}:{problem.line}: {problem.reason}",) for problem in problems]
        laid_out.append(Table(("unreadable sentences",), lines))
    return laid_out
