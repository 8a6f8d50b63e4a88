"""`zishu eval`: score a predicted CoNLL-U file, or a model, against a gold file.

Four steps: load gold, get predictions, evaluate, print. `zishu.metrics` explains the scores.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from zishu.analysis.tables import ABSENT, Table, percent
from zishu.cli._options import DecodingOption, JsonOption, PunctOption, StyleOption
from zishu.cli._table import print_tables
from zishu.reading import STANDARD
from zishu.tags import COLUMNS

if TYPE_CHECKING:
    from zishu.metrics import Evaluation, Ratio


def eval_command(
    gold: Annotated[Path, typer.Argument(metavar="GOLD", help="Gold CoNLL-U file, or - for standard input.")],
    pred: Annotated[
        Path | None,
        typer.Argument(metavar="PRED", help="Predicted CoNLL-U file, or -; omit it with --model."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL", help="Parse the characters of GOLD with this model, a directory or a name."
        ),
    ] = None,
    style: StyleOption = None,
    gold_words: Annotated[
        bool, typer.Option("--gold-words", help="With --model: parse the words of GOLD instead.")
    ] = False,
    decoding: DecodingOption = None,
    as_json: JsonOption = False,
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Save the counts of every sentence to this file, for `zishu compare`."
        ),
    ] = None,
    punct: PunctOption = False,
    universal_labels: Annotated[
        bool, typer.Option("--universal-labels", help="Compare labels up to their colon (acl:relcl as acl).")
    ] = False,
) -> None:
    """Score the trees of PRED, or of a model, against GOLD.

    Both files must have the same sentences over the same characters; their words may differ. A model gets the
    characters of each gold sentence without white space, so that nothing reveals the gold words.
    """
    from zishu.errors import InputError
    from zishu.formats.conllu import read_conllu, trees_of
    from zishu.metrics import evaluate, pair, save_evaluation
    from zishu.writing import check_not_input

    if (pred is None) == (model is None):
        raise InputError("give either a file of predictions or --model")
    if gold_words and model is None:
        raise InputError("--gold-words needs --model")
    for name, value in (("--decoding", decoding), ("--style", style)):
        if value is not None and model is None:
            raise InputError(f"{name} needs --model")
    if str(gold) == STANDARD == str(pred):
        raise InputError("only one of the two files can be standard input")
    if str(output) == STANDARD:
        raise InputError("--output needs a file: the scores go to standard output")
    if output is not None:
        check_not_input(output, *filter(None, (gold, pred)))
    gold_sentences = list(read_conllu(gold))
    gold_trees = trees_of(gold_sentences)
    if pred is not None:
        predictions = trees_of(read_conllu(pred))
    elif model is not None:
        from zishu.model.files import find_model
        from zishu.model.model import parse_trees
        from zishu.model.runtime import load_model

        parser = load_model(find_model(model)).in_style(style)
        predictions = parse_trees(parser, gold_trees, given_words=gold_words, decoding=decoding or "mbr")
    evaluation = evaluate(
        pair(gold_trees, predictions),
        punct=punct,
        subtypes=not universal_labels,
        ids=(sentence.sent_id for sentence in gold_sentences),
    )
    # Do both even if one fails: the reader of standard output may go away, or the file may be unwritable.
    try:
        if output is not None:
            save_evaluation(evaluation, output)
    finally:
        if as_json:
            typer.echo(evaluation.to_json())
        else:
            print_tables(tables(evaluation))
            seg = evaluation.scores.overall.seg
            words = f"{seg.gold} gold words, {seg.predicted} predicted words"
            typer.echo(f"\n{len(evaluation.counts)} sentences, {words}\n{evaluation.signature()}")


def tables(evaluation: Evaluation) -> list[Table]:
    """Format an evaluation as text: precision and recall, single-number scores, and F1 by word length."""
    scores = evaluation.scores
    words = scores.overall
    ratios = {
        "segmentation": words.seg,
        "UPOS": words.upos,
        **{c.upper(): getattr(words, c) for c in COLUMNS[1:] if getattr(words, c) is not None},
        "dependency UF": words.uf,
        "dependency LF": words.lf,
    }
    single = [
        ("complete match", percent(scores.ucm), percent(scores.lcm)),
        ("attachment (UAS, LAS)", percent(words.uas), percent(words.las)),
    ]
    # UAS and LAS, if they exist, equal UF and LF of the same row.
    by_length = [
        (length, str(at.seg.gold), *(_cells(ratio)[-1] for ratio in (at.seg, at.upos, at.uf, at.lf)))
        for length, at in scores.by_length.items()
    ]
    return [
        Table(("", "precision", "recall", "F1"), [(name, *_cells(ratio)) for name, ratio in ratios.items()]),
        Table(("", "unlabeled", "labeled"), single),
        Table(("F1 by word length", "gold words", "segmentation", "UPOS", "UF", "LF"), by_length),
    ]


def _cells(ratio: Ratio | None) -> tuple[str, str, str]:
    """Format precision, recall and F1, or dashes if there was nothing to find."""
    if ratio is None or not ratio.gold + ratio.predicted:
        return (ABSENT, ABSENT, ABSENT)
    return (percent(ratio.precision), percent(ratio.recall), percent(ratio.f1))
