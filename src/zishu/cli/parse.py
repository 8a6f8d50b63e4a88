"""`zishu parse`: parse texts, a file or standard input. The work is `zishu.cli._parsing`."""

from __future__ import annotations

import contextlib
import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from zishu.cli._decoding import DecodingName, DecodingOption
from zishu.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zishu.cli._parsing import Format, Options
    from zishu.model.decode import Decoding

STANDARD = "-"
# What the ending of an output file says about its format; a second ending, .gz or .zst, compresses.
_ENDINGS: dict[str, Format] = {
    ".conllu": "conllu", ".json": "json", ".jsonl": "json", ".ndjson": "json", ".svg": "svg", ".parquet": "parquet",
}  # fmt: skip
_HINT = "Type Chinese text; a blank line parses what stands before it, Ctrl-D ends. (zishu parse --help)"


class FormatName(StrEnum):
    """How sentences are printed."""

    TREE = "tree"
    CONLLU = "conllu"
    JSON = "json"
    CHARS = "chars"
    SVG = "svg"
    PARQUET = "parquet"


class ErrorsName(StrEnum):
    """What to do with bytes that are not UTF-8."""

    STRICT = "strict"
    REPLACE = "replace"


class EngineName(StrEnum):
    """Who does the work: this machine, or a cluster."""

    LOCAL = "local"
    RAY = "ray"


def parse_command(
    texts: Annotated[
        list[str] | None, typer.Argument(metavar="TEXT", help="Texts to parse, each one by itself.")
    ] = None,
    input_file: Annotated[
        str | None,
        typer.Option(
            "-i",
            "--input",
            metavar="FILE",
            help="Parse this file (.gz, .zst too), the files of a pattern such as 'corpus/*.gz', or - for standard "
            "input: text, or a text in each row of .jsonl, .csv, .tsv, .parquet. With --engine ray text only, in a "
            "file, a folder or a pattern, as path or URL.",
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="Write into this file (.gz, .zst too); with --engine ray into this folder, a shard for each file.",
        ),
    ] = None,
    format_name: Annotated[
        FormatName | None,
        typer.Option(
            "--format",
            help="Output format. Otherwise the ending of the output decides (.conllu, .json, .jsonl, .svg, .parquet); "
            "a terminal and TEXT get a tree, all else CoNLL-U.",
        ),
    ] = None,
    text_field: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="The column or key of the text in an input with rows; otherwise text."
        ),
    ] = None,
    id_field: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The column or key of document ids; otherwise they are FILE:ROW."),
    ] = None,
    model: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Model directory; otherwise the bundled model.")
    ] = None,
    words: Annotated[
        bool,
        typer.Option("--words", help="The words are given: a sentence a line, words separated by spaces."),
    ] = False,
    lexicon: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Keep the words of this file whole, a word a line.")
    ] = None,
    pin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="A:B", help="Keep the characters from offset A to B (exclusive) as one word; repeatable."
        ),
    ] = None,
    breaks: Annotated[
        list[int] | None,
        typer.Option("--break", metavar="K", help="Let a word begin at offset K; repeatable."),
    ] = None,
    kbest: Annotated[
        int | None, typer.Option(metavar="K", min=1, help="Give the K best analyses of each sentence.")
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Parse with N processes, each with its own model; otherwise with one, or with all cores of a "
            "Ray cluster.",
        ),
    ] = None,
    threads: Annotated[
        int, typer.Option(metavar="N", min=0, help="Threads; 0: one for each core, or one for each job.")
    ] = 0,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on where the output file of an interrupted run ends.")
    ] = False,
    errors: Annotated[
        ErrorsName, typer.Option(help="Bytes that are not UTF-8: stop there, or replace them by U+FFFD.")
    ] = ErrorsName.STRICT,
    no_confidence: Annotated[
        bool, typer.Option("--no-confidence", help="Leave the probabilities out; faster.")
    ] = False,
    decoding: DecodingOption = None,
    engine: Annotated[
        EngineName, typer.Option(help="Work on this machine, or on a Ray cluster, file by file.")
    ] = EngineName.LOCAL,
    ray_address: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", help="The Ray cluster (auto, HOST:PORT, ray://...); otherwise a local Ray."
        ),
    ] = None,
) -> None:
    """Parse Chinese text: words, their tree, and trees inside words.

    Without TEXT and -i, standard input is parsed. Files may have any size: sentences are written as they are
    parsed, and a run that was interrupted goes on with --resume. A Parquet file has a row a word, and is there when it
    is complete. Figures (svg) of several sentences go into files of their own, OUT-1.svg, OUT-2.svg and so on.
    """
    chosen: Format = format_name.value if format_name else _default_format(texts, output)
    pins = [_span(text) for text in pin or ()]
    _check_usage(
        {
            "TEXT": bool(texts),
            "-i": input_file is not None,
            "-o": output is not None,
            "-o FILE": output not in (None, STANDARD),
            "--text-field": text_field is not None,
            "--id-field": id_field is not None,
            "--format parquet": chosen == "parquet",
            "--words": words,
            "--lexicon": lexicon is not None,
            "--pin": bool(pins),
            "--break": bool(breaks),
            "--kbest": kbest is not None,
            "--decoding": decoding is not None,
            "--no-confidence": no_confidence,
            "--jobs": (jobs or 1) > 1,
            "--resume": resume,
            "--engine ray": engine is EngineName.RAY,
            "--ray-address": ray_address is not None,
        }
    )
    if (pins or breaks) and len(texts or ()) > 1:
        raise InputError("--pin and --break count offsets of one TEXT, not of several")
    options = _options(
        chosen, output, model=model, words=words, lexicon=lexicon, kbest=kbest, confidence=not no_confidence,
        decoding=(decoding or DecodingName.MBR).value, threads=threads,
    )  # fmt: skip
    target = STANDARD if output is None else output
    if engine is EngineName.RAY:
        from zishu.cli._corpus import parse_corpus

        parse_corpus(
            [input_file or STANDARD], target, options, address=ray_address, workers=jobs, resume=resume,
            errors=errors.value,
        )  # fmt: skip
    elif texts:
        from zishu.cli._parsing import parse_texts

        for text in texts:
            if os.path.isfile(text):  # noqa: PTH113 (a path refuses names that are too long)
                typer.echo(f"zishu: {text}: parsed as a text; -i parses the file of this name", err=True)
        parse_texts(texts, target, options, pins=pins, breaks=breaks or ())
    else:
        pattern = STANDARD if input_file is None else input_file
        _parse_files(
            pattern,
            Path(target),
            options,
            jobs or 1,
            resume,
            errors,
            text_field=text_field,
            id_field=id_field,
        )


def _parse_files(
    pattern: str,
    target: Path,
    options: Options,
    jobs: int,
    resume: bool,
    errors: ErrorsName,
    *,
    text_field: str | None,
    id_field: str | None,
) -> None:
    from zishu.cli._parsing import parse_documents, parse_file
    from zishu.cli._progress import progress
    from zishu.cli._resume import FORMATS
    from zishu.files import Input, check_not_input, standard_input
    from zishu.tables import expand, kind_of, read_documents

    sources = expand([pattern])
    has_rows = [kind_of(source) != "text" for source in sources]
    # One text is no document among others, and its length is known.
    alone = not (len(sources) > 1 or any(has_rows) or text_field or id_field or options.format == "parquet")
    if resume and options.format not in FORMATS:
        raise InputError(
            f"--resume: the format {options.format} cannot be resumed, but {', '.join(FORMATS)} can"
        )
    for source in sources:
        if str(target) != STANDARD:
            check_not_input(standard_input() if source == STANDARD else source, target)
    typing = alone and sources == [STANDARD] and sys.stdin is not None and sys.stdin.isatty()
    if typing:
        typer.echo(_HINT, err=True)
    with contextlib.ExitStack() as stack:
        text = stack.enter_context(Input(sources[0], errors=errors.value)) if alone else None
        # A bar between the lines of the output, or between those that are typed, would only be a nuisance.
        shown = sys.stderr.isatty() and not typing and not (str(target) == STANDARD and sys.stdout.isatty())
        report = stack.enter_context(progress(text, shown=shown))
        if text is not None:
            parse_file(text, target, options, report, jobs=jobs, resume=resume, at_once=typing)
        else:
            documents = read_documents(sources, text_field=text_field, id_field=id_field, errors=errors.value)
            parse_documents(documents, pattern, target, options, report, jobs=jobs, resume=resume)


def _options(
    chosen: Format,
    output: str | None,
    *,
    model: Path | None,
    words: bool,
    lexicon: Path | None,
    kbest: int | None,
    confidence: bool,
    decoding: Decoding,
    threads: int,
) -> Options:
    from zishu.cli._parsing import Options
    from zishu.lexicon import Lexicon

    colour, width = False, None
    if chosen == "tree" and output is None and sys.stdout.isatty():
        import shutil

        colour, width = not os.environ.get("NO_COLOR"), shutil.get_terminal_size().columns
    return Options(
        format=chosen,
        model=model,
        words=words,
        lexicon=None if lexicon is None else Lexicon.load(lexicon),
        k_best=kbest or 0,
        confidence=confidence,
        decoding=decoding,
        threads=threads,
        colour=colour,
        width=width,
    )


def _default_format(texts: Sequence[str] | None, output: str | None) -> Format:
    if output is not None and output != STANDARD:
        from zishu.compression import plain_name

        return _ENDINGS.get(Path(plain_name(output)).suffix.lower(), "conllu")
    return "tree" if texts or sys.stdout.isatty() else "conllu"


# Options that exclude each other, and options that need another one.
_NOT_WITH = [
    ("TEXT", ("-i", "--jobs", "--resume", "--engine ray", "--text-field", "--id-field")),
    ("--engine ray", ("--text-field", "--id-field")),
    ("--format parquet", ("--kbest", "--resume")),
    ("--words", ("--lexicon", "--pin", "--break")),
    ("--kbest", ("--decoding", "--no-confidence", "--resume")),
]
_ONLY_WITH = [
    ("--pin", "TEXT"),
    ("--break", "TEXT"),
    ("--resume", "-o FILE"),
    ("--format parquet", "-o FILE"),
    ("--engine ray", "-i"),
    ("--engine ray", "-o"),
    ("--ray-address", "--engine ray"),
]


def _check_usage(given: dict[str, bool]) -> None:
    for one, others in _NOT_WITH:
        for other in others:
            if given[one] and given[other]:
                raise InputError(f"{other} does not go with {one}")
    for one, other in _ONLY_WITH:
        if given[one] and not given[other]:
            raise InputError(f"{one} needs {other}")


def _span(text: str) -> tuple[int, int]:
    start, colon, end = text.partition(":")
    # Not `isdigit`, which takes ² for a digit.
    if not (colon and start.isdecimal() and end.isdecimal()):
        raise InputError(f"--pin {text}: expected two offsets A:B, such as 0:2")
    return int(start), int(end)
