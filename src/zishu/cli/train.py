"""`zishu train`: train a system from its configuration, with one or more seeds. `zishu.train.loop` does the work."""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from zishu.analysis.tables import Table
from zishu.cli import FAILURE, INTERRUPTED
from zishu.cli._options import OverridesOption, ResumeOption, command_to_resume
from zishu.cli._table import print_tables
from zishu.cli.config import find_config
from zishu.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zishu.metrics import Average
    from zishu.train.config import Config
    from zishu.train.distributed import Group


def train_command(
    context: typer.Context,
    config: Annotated[
        str,
        typer.Argument(
            metavar="CONFIG", help="TOML file, or the name of a configuration (see zishu config)."
        ),
    ],
    overrides: OverridesOption = None,
    seeds: Annotated[
        str | None,
        typer.Option(metavar="N,N,...", help="Train once per seed and average the scores."),
    ] = None,
    resume: ResumeOption = False,
    directory: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write the run to this folder; default: runs/NAME/seed-SEED."),
    ] = None,
) -> None:
    """Train a parser and export it as a model directory.

    An interrupted run continues with the same command and --resume, and gives the same result. Under torchrun (torchrun
    --nproc-per-node N -m zishu train ...) several processes share every batch.
    """
    # The package itself says what to install if torch is missing.
    from zishu.train.checkpoint import Interrupted
    from zishu.train.distributed import PeerLost, joined

    runs = _plan(find_config(config), overrides or [], seeds, directory)
    interrupted = False
    with joined() as group:
        try:
            if group.is_writer:
                for run in runs:
                    _check_folder(run, resume=resume)
            scores = [_train(run, group, resume=resume) for run in runs]
            if group.is_writer:
                _report(runs, scores, average=seeds is not None)
        except Interrupted as stop:
            if group.size > 1:
                # A terminal sends Ctrl-C to all processes, and the launcher then sends it again.
                signal.signal(signal.SIGINT, signal.SIG_IGN)
            # Printed inside the group, which waits: a launcher ends all processes as soon as one is gone.
            if group.is_writer:
                where = " in one or more processes" if group.size > 1 else ""
                typer.echo(f"zishu: {stop}; to continue{where}: {command_to_resume(context)}", err=True)
            interrupted = True
        except PeerLost as lost:
            # The process that failed has printed the error, unless it was killed; then one report is enough.
            if group.is_writer:
                raise
            raise typer.Exit(FAILURE) from lost
    if interrupted:
        raise typer.Exit(INTERRUPTED)


def _plan(path: Path, overrides: list[str], seeds: str | None, directory: Path | None) -> list[Config]:
    """Return the configurations of the runs, each with its folder."""
    from zishu.train.config import load_config

    if seeds is None:
        single = load_config(path, overrides)
        folder = directory or single.folder
        return [replace(single, run=replace(single.run, directory=str(folder)))]
    runs = []
    for seed in _parse_seeds(seeds):
        run = load_config(path, [*overrides, f"seed={seed}"])
        folder = run.folder
        # A given folder is shared by all seeds; the default one already has the seed in its name.
        if directory or run.run.directory:
            folder = (directory or folder) / f"seed-{seed}"
        runs.append(replace(run, run=replace(run.run, directory=str(folder))))
    return runs


def _parse_seeds(text: str) -> list[int]:
    seeds = [part.strip() for part in text.split(",")]
    # Not `isdigit`, which accepts ² as a digit.
    if not all(seed.isdecimal() for seed in seeds) or len(set(map(int, seeds))) < len(seeds):
        raise InputError(f"--seeds {text}: expected different whole numbers, separated by commas")
    return list(map(int, seeds))


def _check_folder(run: Config, *, resume: bool) -> None:
    """Refuse to overwrite anything; report runs that are finished."""
    from zishu.train.evaluation import RESULT

    folder = run.folder
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    finished = (folder / RESULT).exists()
    if resume:
        _refuse_links(folder)
        if finished:
            typer.echo(f"{folder}: this run is finished", err=True)
        return
    if finished:
        raise InputError(f"{folder}: contains a finished run: use another --directory, or remove it")
    raise InputError(f"{folder}: is not empty: use --resume or another --directory, or remove it")


def _refuse_links(folder: Path) -> None:
    """Reject a run's folder with links: it may not be ours, and training would replace the files they point to."""
    for path in folder.rglob("*"):
        if path.is_symlink():
            raise InputError(f"{path}: is a link; a run is resumed only in a folder without links")


def _train(run: Config, group: Group, *, resume: bool) -> dict[str, float]:
    from zishu.train.loop import train
    from zishu.writing import exclusive

    if not group.is_writer:
        return train(run, resume=resume, group=group)
    with exclusive(run.folder):
        return train(run, resume=resume, group=group)


def _report(runs: Sequence[Config], scores: Sequence[Mapping[str, float]], *, average: bool) -> None:
    """Print the scores, optionally with their averages, which also go to summary.json."""
    from zishu.metrics import average_seeds
    from zishu.model.files import write_json
    from zishu.train.evaluation import MODEL

    averages = average_seeds(scores) if average else {}
    print_tables([table({run.seed: its for run, its in zip(runs, scores, strict=True)}, averages)])
    typer.echo()
    for run in runs:
        typer.echo(f"model: {run.folder / MODEL}")
    if average:
        summary = {
            "name": runs[0].name,
            "seeds": {str(run.seed): its for run, its in zip(runs, scores, strict=True)},
            "mean": {name: average.mean for name, average in averages.items()},
            "sd": {name: average.sd for name, average in averages.items()},
        }
        path = runs[0].folder.parent / "summary.json"
        write_json(path, summary)
        typer.echo(f"summary: {path}")


def table(scores: Mapping[int, Mapping[str, float]], averages: Mapping[str, Average]) -> Table:
    """Format the scores of each seed and, if given, their means and standard deviations."""
    names = dict.fromkeys(name for its in scores.values() for name in its)
    rows = []
    for name in names:
        cells = [f"{its[name]:.2f}" if name in its else "-" for its in scores.values()]
        if averages:
            average = averages.get(name)
            numbers = (None, None) if average is None else (average.mean, average.sd)
            cells += ["-" if number is None else f"{number:.2f}" for number in numbers]
        rows.append((name, *cells))
    titles = [f"seed {seed}" for seed in scores] + (["mean", "sd"] if averages else [])
    return Table(("score", *titles), rows)
