"""Report how a training run is going: live progress, metrics.jsonl, the training curve.

This module only reads numbers and never changes a run. Progress goes to standard error: a live bar on a terminal, plain
lines elsewhere. `metrics.jsonl` has one JSON object per epoch: epoch, step, loss, seconds, chars_per_second, and the
scores of the dev set under `dev`.
"""

from __future__ import annotations

import io
import json
import os
import time
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as LiveProgress

from zishu.errors import FormatError, MissingExtra, ZishuError
from zishu.train.checkpoint import write_atomically
from zishu.writing import replacing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

    from zishu.train.config import Config

# Seconds between two lines of progress without a terminal.
_QUIET = 30.0

# The scores in the curve, and their names in the paper.
_CURVES = {"seg": "F1$_{seg}$", "uf": "UF", "lf": "LF"}


class Progress:
    """Show where a run is: epoch, batches, loss, speed, time left.

    with Progress(config, sentences) as progress:
        progress.start_epoch(0, batches)
        progress.advance(loss, characters)      # after every batch
        progress.end_epoch(line, better=True)   # the line that metrics.jsonl gets, too
    """

    def __init__(
        self,
        config: Config,
        sentences: int,
        *,
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.console = console or Console(stderr=True)
        self._clock = clock
        self._epochs = config.optimiser.epochs
        self._title = f"{config.name}, seed {config.seed}: {sentences:,} sentences"
        self._live = LiveProgress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[numbers]}"),
            console=self.console,
            transient=True,  # only the line of each finished epoch remains
            disable=not self.console.is_terminal,
        )
        self._task = self._live.add_task("", total=None, numbers="")
        self._epoch = self._batches = self._batch = 0  # position of the run
        self._loss = self._chars = 0.0  # of this epoch, as far as this process has seen it
        self._epoch_started = self._told = 0.0
        self._started: float | None = None  # when this process started its first batch
        self._done = 0  # batches since then

    def __enter__(self) -> Self:
        self.say(self._title)
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def start_epoch(self, epoch: int, batches: int, done: int = 0) -> None:
        """Start or continue an epoch (from 0) with this number of batches, some of which may be done."""
        self._epoch, self._batches, self._batch = epoch, batches, done
        self._loss = self._chars = 0.0
        self._epoch_started = self._told = self._clock()
        self._started = self._epoch_started if self._started is None else self._started
        where = self._where()
        self._live.reset(self._task, total=batches, completed=done, description=where, numbers="starting")

    def advance(self, loss: float, chars: int) -> None:
        """Count one more batch: its loss, a mean over characters or words, and its number of characters."""
        self._batch += 1
        self._done += 1
        self._loss += loss * chars
        self._chars += chars
        numbers = self._numbers()
        if self._batch == self._batches:
            numbers += ", scoring the dev set"
        self._live.update(self._task, completed=self._batch, numbers=numbers)
        now = self._clock()
        if not self.console.is_terminal and now - self._told >= _QUIET:
            self._told = now
            self.say(f"{self._where()}  batch {self._batch}/{self._batches}  {numbers}")

    def end_epoch(self, line: Mapping[str, Any], *, better: bool = False) -> None:
        """Print the results of an epoch on one permanent line."""
        scores = "".join(f"  {name} {value:.2f}" for name, value in line.get("dev", {}).items())
        speed = f"{line['chars_per_second']:,.0f} characters/s  {_duration(line['seconds'])}"
        best = ", best so far" if better else ""
        self.say(f"{self._where()}  loss {line['loss']:.4f}{scores}  {speed}{best}")

    def _where(self) -> str:
        return f"epoch {self._epoch + 1:{len(str(self._epochs))}}/{self._epochs}"

    def _numbers(self) -> str:
        now = self._clock()
        speed = self._chars / max(now - self._epoch_started, 1e-9)
        # Batches have about equal size; the time for scoring the dev set counts towards the batches before it.
        left = self._batches - self._batch + (self._epochs - self._epoch - 1) * self._batches
        seconds = (now - (self._started or 0.0)) / max(self._done, 1) * left
        mean = self._loss / max(self._chars, 1)
        return f"loss {mean:.4f}  {speed:,.0f} characters/s  {_duration(seconds)} left"

    def say(self, text: str) -> None:
        """Print a line that stays."""
        # Not wrapped, because a line is a line in a log file; not marked up, because a name may have brackets.
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)


def cut_metrics(path: Path, *, epochs: int) -> None:
    """Keep the lines of a metrics.jsonl about the first epochs, those in the checkpoint of a resumed run."""
    kept = [line for line in read_metrics(path) if line["epoch"] <= epochs]
    write_atomically(path, "".join(map(_to_line, kept)))


def append_metrics(path: Path, line: Mapping[str, Any]) -> None:
    """Append one object, which has at least an `epoch`, and wait until it is on disk."""
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(_to_line(line))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise ZishuError(f"{path}: cannot be written ({error.strerror or error})") from error


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Read a metrics.jsonl; a missing file has no lines, and an incomplete last line is ignored."""
    if not path.exists():
        return []
    *whole, _ = path.read_text(encoding="utf-8", errors="replace").split("\n")
    lines = []
    for number, line in enumerate(whole, start=1):
        try:
            parsed = json.loads(line)
        except ValueError:
            parsed = None
        if not isinstance(parsed, dict) or not isinstance(parsed.get("epoch"), int):
            raise FormatError("not a JSON object with an epoch", path=str(path), line=number)
        lines.append(parsed)
    return lines


def plot_curve(metrics: Path, picture: Path) -> None:
    """Plot loss and dev scores over the epochs of a metrics.jsonl as a PNG; without epochs plot nothing."""
    try:
        from matplotlib.figure import Figure
        from matplotlib.ticker import MaxNLocator
    except ModuleNotFoundError as error:
        raise MissingExtra("matplotlib", "train") from error

    lines = read_metrics(metrics)
    if not lines:
        return
    epochs = [line["epoch"] for line in lines]
    # Not pyplot: no window, no global state.
    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.plot(epochs, [line["loss"] for line in lines], color="0.25", marker="o", markersize=3)
    left.set(title="training loss", ylim=(0, None))
    _plot_scores(right, epochs, [line.get("dev", {}) for line in lines])
    for axes in (left, right):
        axes.set_xlabel("epoch")
        axes.set_xlim(epochs[0] - 0.5, epochs[-1] + 0.5)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=150)
    with replacing(picture, follow=False) as file:
        file.write(drawn.getvalue())


def _plot_scores(axes: Axes, epochs: Sequence[int], scores: Sequence[Mapping[str, float]]) -> None:
    """Plot each score as a line, with a circle at the kept epoch and the value there at the line's end."""
    shown = [name for name in _CURVES if all(name in at for at in scores)]
    curves = {name: [at[name] for at in scores] for name in shown}
    if not curves:
        return
    # The last of the best epochs by LF or, for a segmenter, by its only score.
    by = curves.get("lf", curves[shown[0]])
    kept = max(range(len(by)), key=lambda k: (by[k], k))
    for number, values in enumerate(curves.values()):
        axes.plot(epochs, values, color=f"C{number}", marker="o", markersize=3)
        axes.plot(epochs[kept], values[kept], f"oC{number}", markersize=8, fillstyle="none", clip_on=False)
    bottom, top = axes.get_ylim()
    place = float("inf")
    for number, (name, values) in sorted(enumerate(curves.items()), key=lambda item: -item[1][1][-1]):
        # Lines may end close together, but their names must not overlap.
        place = min(values[-1], place - 0.06 * (top - bottom))
        axes.annotate(
            f"{_CURVES[name]} {values[kept]:.2f}",
            (epochs[-1], place),
            xytext=(10, 0),
            textcoords="offset points",
            color=f"C{number}",
            verticalalignment="center",
            annotation_clip=False,
        )
    axes.set_title(f"dev scores (epoch {epochs[kept]} is kept)")


def _to_line(line: Mapping[str, Any]) -> str:
    return json.dumps(line, ensure_ascii=False) + "\n"


def _duration(seconds: float) -> str:
    """Format a time in one or two units: 8 s, 3 min 20 s, 2 h 05 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600:,} h {whole % 3600 // 60:02} min"
