"""`zishu parse`: parse texts, files or standard input. The work is done in `zishu.corpus`."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from zishu.cli._options import DecodingOption, ModelOption, ResumeOption, StyleOption, command_to_resume
from zishu.errors import InputError
from zishu.reading import STANDARD, Errors

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_HINT = "Type Chinese text. Press Enter to parse a line, Ctrl-D to quit. (zishu parse --help)"


def parse_command(
    context: typer.Context,
    texts: Annotated[
        list[str] | None,
        typer.Argument(metavar="TEXT", help="Parse these texts, each separately; - for standard input."),
    ] = None,
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "-i",
            "--input",
            metavar="FILE",
            help="Parse this file (.gz, .zst, too), the files of a pattern such as 'corpus/*.gz', or - for standard "
            "input: text, or one text per row of .jsonl, .csv, .tsv, .parquet; repeatable. With --engine ray: text "
            "only, in a file, a folder or a pattern, as path or URL.",
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="Write to this file (.gz, .zst, too); with --engine ray to this folder, one shard per file.",
        ),
    ] = None,
    format: Annotated[  # noqa: A002 (what users call it)
        Literal["tree", "text", "conllu", "json", "chars", "svg", "html", "parquet"] | None,
        typer.Option(
            help="Choose the output format. By default the ending of the output decides (.conllu, .json, .jsonl, "
            ".svg, .html, .parquet); on a terminal and for TEXT it is a tree, otherwise CoNLL-U.",
        ),
    ] = None,
    text_field: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Read the text from this column or key of an input with rows; default: text."
        ),
    ] = None,
    id_field: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Read document ids from this column or key; default: FILE:ROW."),
    ] = None,
    model: ModelOption = None,
    style: StyleOption = None,
    words: Annotated[
        bool,
        typer.Option(
            "--words", help="Take the words as given: one sentence per line, words separated by spaces."
        ),
    ] = False,
    lexicon: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Keep the words of this file whole; one per line, perhaps with frequency and part of speech as jieba has "
            "them.",
        ),
    ] = None,
    soft_lexicon: Annotated[
        bool,
        typer.Option(
            "--soft-lexicon", help="Favour the words of the lexicon; the model may still split them."
        ),
    ] = False,
    lexicon_weight: Annotated[
        float | None,
        typer.Option(
            metavar="W",
            help="Favour them by this much: odds of joins are multiplied by exp(W); default: 4. Implies "
            "--soft-lexicon.",
        ),
    ] = None,
    no_patterns: Annotated[
        bool,
        typer.Option("--no-patterns", help="Do not keep addresses, dates, numbers and Latin words whole."),
    ] = False,
    wrapped: Annotated[
        bool,
        typer.Option("--wrapped", help="Join lines: a sentence ends at a blank line, not at a line break."),
    ] = False,
    pin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="A:B", help="Keep the characters from offset A to B (exclusive) as one word; repeatable."
        ),
    ] = None,
    breaks: Annotated[
        list[int] | None,
        typer.Option("--break", metavar="K", help="Force a word boundary at offset K; repeatable."),
    ] = None,
    arc: Annotated[
        list[str] | None,
        typer.Option(
            metavar="D:H[:REL]",
            help="Make the pinned word at offset H, or `root`, the head of the pinned word at D; repeatable.",
        ),
    ] = None,
    tag: Annotated[
        list[str] | None,
        typer.Option(
            metavar="K:TAG", help="Give the pinned word at offset K this part of speech; repeatable."
        ),
    ] = None,
    only: Annotated[
        Literal["words", "tags"] | None,
        typer.Option(
            help="Find words, or words and their tags, and no trees; faster. Formats: text, conllu, json."
        ),
    ] = None,
    k_best: Annotated[
        int | None, typer.Option(metavar="K", min=1, help="Print the K best analyses of each sentence.")
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Parse with N processes, each with its own model; default: 1, or all cores of a Ray cluster.",
        ),
    ] = None,
    threads: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=0,
            help="Use N threads per process; 0: one per core, or one if there are several jobs.",
        ),
    ] = 0,
    resume: ResumeOption = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing output.")] = False,
    errors: Annotated[
        Errors,
        typer.Option(help="Stop at bytes that are not in the encoding, or replace them by U+FFFD."),
    ] = "strict",
    encoding: Annotated[
        str, typer.Option(metavar="NAME", help="Read the input in this encoding, such as gb18030 or utf-16.")
    ] = "utf-8",
    skip_bad: Annotated[
        bool,
        typer.Option(
            "--skip-bad", help="Report bad rows and documents, and continue; exit code 1 at the end."
        ),
    ] = False,
    max_document: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Reject rows of more than N characters; default: 268435456."),
    ] = None,
    no_confidence: Annotated[
        bool, typer.Option("--no-confidence", help="Omit the probabilities; faster.")
    ] = False,
    decoding: DecodingOption = None,
    inner: Annotated[
        Literal["structure", "latent"],
        typer.Option(
            help="structure: trees inside words from the structure scorer, with relations; latent: those that the parser "
            "has learned by itself, as in the paper."
        ),
    ] = "structure",
    granularity: Annotated[
        Literal["fine", "coarse"],
        typer.Option(
            help="fine: words as in the treebank; coarse: affixes of the gsd style joined with their stems."
        ),
    ] = "fine",
    relations: Annotated[
        bool, typer.Option("--relations", help="Show the relations inside words in trees and figures.")
    ] = False,
    engine: Annotated[
        Literal["local", "ray"], typer.Option(help="Parse on this machine, or file by file on a Ray cluster.")
    ] = "local",
    ray_address: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", help="Use this Ray cluster (auto, HOST:PORT, ray://...); default: a local Ray."
        ),
    ] = None,
) -> None:
    """Parse Chinese text: words, tree, trees inside words.

    Without TEXT and -i, standard input is parsed. Files may have any size: sentences are written as they are parsed,
    and --resume continues an interrupted run. A Parquet file has one row per word and appears when it is complete.
    Figures (svg) of several sentences go into one file each, OUT-1.svg, OUT-2.svg and so on.
    """
    from zishu.cli._progress import watching
    from zishu.corpus import Options, parse_files, parse_texts
    from zishu.corpus.claim import record_of
    from zishu.lexicon import WEIGHT, Lexicon

    if texts == [STANDARD]:
        texts, inputs = None, [*(inputs or ()), STANDARD]
    soft, ray = soft_lexicon or lexicon_weight is not None, engine == "ray"
    # `zishu.corpus` checks what also applies to Python.
    for wrong, problem in (
        (texts and inputs, "-i cannot be combined with TEXT; quote a pattern: -i 'corpus/*.txt'"),
        (texts and (jobs or 1) > 1, "--jobs cannot be combined with TEXT"),
        (texts and resume, "--resume cannot be combined with TEXT"),
        (texts and ray, "--engine ray cannot be combined with TEXT"),
        (texts and text_field is not None, "--text-field cannot be combined with TEXT"),
        (texts and id_field is not None, "--id-field cannot be combined with TEXT"),
        (soft and lexicon is None, "--soft-lexicon needs --lexicon"),
        (pin and not texts, "--pin needs TEXT"),
        (breaks and not texts, "--break needs TEXT"),
        (arc and not texts, "--arc needs TEXT"),
        (tag and not texts, "--tag needs TEXT"),
        (ray and not inputs, "--engine ray needs -i"),
        (ray and output is None, "--engine ray needs -o"),
        (ray_address is not None and not ray, "--ray-address needs --engine ray"),
    ):
        if wrong:
            raise InputError(problem)
    weight = WEIGHT if lexicon_weight is None else lexicon_weight
    options = Options(
        words=words,
        style=style,
        lexicon=None if lexicon is None else Lexicon.load(lexicon, soft=soft, weight=weight),
        patterns=not no_patterns,
        wrapped=wrapped,
        k_best=k_best or 0,
        confidence=not no_confidence,
        decoding=decoding or "mbr",
        inner=inner,
        granularity=granularity,
        relations=relations,
        only=only,
    )
    target = STANDARD if output is None else output
    if texts:
        for text in texts:
            if os.path.isfile(text):  # noqa: PTH113 (a path refuses names that are too long)
                typer.echo(f"zishu: {text}: parsed as text; use -i to parse the file of this name", err=True)
        spans = _read("--pin", pin or (), r"(\d+):(\d+)", "two offsets A:B, such as 0:2")
        heads = _read(
            "--arc", arc or (), r"(\d+):(\d+|root)(?::(.*))?", "two offsets D:H, such as 0:2, or D:root"
        )
        parts = _read(
            "--tag", tag or (), r"(\d+):(.+)", "an offset and a part of speech K:TAG, such as 0:NOUN"
        )
        parse_texts(
            texts, target, options, pins=[(int(start), int(end)) for start, end in spans], breaks=breaks or (),
            arcs=[(int(word), None if head == "root" else int(head), label or None) for word, head, label in heads],
            tags=[(int(start), name) for start, name in parts],
            format=format, model=model, threads=threads, force=force,
        )  # fmt: skip
        return
    inputs = inputs or [STANDARD]
    typing = inputs == [STANDARD] and not text_field and sys.stdin is not None and sys.stdin.isatty()
    if typing:
        typer.echo(_HINT, err=True)
    # A bar between lines of output or typed lines would be a nuisance.
    shown = sys.stderr.isatty() and not typing and not (target == STANDARD and sys.stdout.isatty())
    more = {} if max_document is None else {"max_document": max_document}
    try:
        with watching(shown=shown, totals=ray) as watcher:
            parse_files(
                inputs, target, options, format=format, text_field=text_field, id_field=id_field, model=model,
                jobs=jobs, threads=threads, resume=resume, force=force, skip_bad=skip_bad, encoding=encoding,
                errors=errors, engine=engine, ray_address=ray_address, watcher=watcher, **more,
            )  # fmt: skip
    except KeyboardInterrupt:
        if target != STANDARD and record_of(target).exists():
            typer.echo(f"zishu: interrupted; continue with: {command_to_resume(context)}", err=True)
        raise


def _read(option: str, values: Iterable[str], form: str, expected: str) -> Iterator[tuple[str, ...]]:
    """Yield the parts of the values of an option, as a regular expression groups them."""
    for value in values:
        found = re.fullmatch(form, value, re.DOTALL)
        if found is None:
            raise InputError(f"{option} {value}: expected {expected}")
        yield found.groups("")
