"""`zishu calibrate`: calibrate a model's probabilities. The work is done in `zishu.model.calibration`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from zishu.analysis.tables import Table
from zishu.cli._options import StyleOption
from zishu.cli._table import print_tables

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zishu.model.calibration import Reliability


def calibrate_command(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="Model directory; its config.json will be changed.")
    ],
    treebank: Annotated[
        Path,
        typer.Argument(
            metavar="TREEBANK", help="CoNLL-U file of sentences that the model was not trained on."
        ),
    ],
    style: StyleOption = None,
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; only report confidence and accuracy.")
    ] = False,
) -> None:
    """Calibrate a model's probabilities on held-out data.

    Sets one temperature each for trees, relations and parts of speech; `zishu train` sets them on its dev set. Only
    probabilities change: the model still predicts the same trees.
    """
    from zishu.errors import InputError
    from zishu.formats.conllu import read_conllu, trees_of
    from zishu.model.calibration import calibrate, reliability, set_temperatures
    from zishu.model.files import find_model
    from zishu.model.model import Model
    from zishu.model.runtime import load_model

    folder = find_model(model)
    parser = load_model(folder).in_style(style)
    trees = trees_of(read_conllu(treebank))
    if not trees:
        raise InputError(f"{treebank}: no sentences found")
    if check:
        print_tables([_table(reliability(parser, trees))])
        return
    if not isinstance(parser, Model):
        raise InputError(f"{folder}: a pipeline has no temperature; calibrate the parser inside it")
    found = calibrate(parser, trees)
    set_temperatures(folder, found)
    fits = (("temperature", found.trees), ("of relations", found.labels), ("of parts of speech", found.upos))
    for name, fit in fits:
        if fit.units:
            loss = f"loss {fit.before:.4f} -> {fit.after:.4f} per unit, {fit.units:,} units"
            typer.echo(f"{name} {fit.temperature}: {loss}")


def _table(found: Mapping[str, Reliability]) -> Table:
    rows = [
        (name, f"{of.decisions:,}", *(f"{100 * share:.2f}" for share in (of.sure, of.right, of.error)))
        for name, of in found.items()
    ]
    return Table(("", "decisions", "sure, %", "right, %", "calibration error"), rows)
