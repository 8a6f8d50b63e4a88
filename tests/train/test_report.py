"""Progress, metrics.jsonl, the training curve, averages over seeds."""

from __future__ import annotations

import io
import json
import sys
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console

from zishu.errors import FormatError, MissingExtra, ZishuError
from zishu.train import report
from zishu.train.config import Config, DataConfig, EncoderConfig, OptimiserConfig
from zishu.train.report import Progress, append_metrics, cut_metrics, plot_curve, read_metrics

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = Config(
    name="small[red]",
    data=DataConfig(train="train.conllu", dev="dev.conllu"),
    encoder=EncoderConfig(kind="bilstm"),
    optimiser=OptimiserConfig(epochs=12),
)


def _line(epoch: int, **dev: float) -> dict[str, Any]:
    return {
        "epoch": epoch,
        "step": 10 * epoch,
        "loss": 2.5 / epoch,
        "seconds": 75.2,
        "chars_per_second": 1532,
        "dev": dev or {"seg": 90.0 + epoch, "uf": 60.0 + epoch, "lf": 50.0 + epoch},
    }


class Clock:
    """A clock that advances only on demand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def _run(console: Console, seconds: float) -> None:
    """Run one epoch of four batches, with this number of seconds for each."""
    clock = Clock()
    with Progress(CONFIG, 3997, console=console, clock=clock) as progress:
        progress.start_epoch(0, 4)
        for loss in (4.0, 3.0, 2.0, 1.0):
            clock.now += seconds
            progress.advance(loss, 100)
        progress.end_epoch(_line(1), better=True)


def test_a_quick_epoch_is_one_line_where_there_is_no_terminal() -> None:
    console = Console(file=io.StringIO(), width=40)
    _run(console, 1)
    scores = "seg 91.00  uf 61.00  lf 51.00"
    assert console.file.getvalue().splitlines() == [  # type: ignore[attr-defined]
        "small[red], seed 0: 3,997 sentences",
        f"epoch  1/12  loss 2.5000  {scores}  1,532 characters/s  1 min 15 s, best so far",
    ]


def test_a_slow_epoch_tells_every_half_minute() -> None:
    console = Console(file=io.StringIO(), width=40)
    _run(console, 20)
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    # 40 s for 2 of 48 batches: 46 batches of 20 s are left; mean of the losses 4 and 3; 200 characters.
    assert lines[1] == "epoch  1/12  batch 2/4  loss 3.5000  5 characters/s  15 min 20 s left"
    assert lines[2] == (
        "epoch  1/12  batch 4/4  loss 2.5000  5 characters/s  14 min 40 s left, scoring the dev set"
    )
    assert len(lines) == 4


def test_the_time_left_of_a_resumed_run_counts_what_is_left() -> None:
    console = Console(file=io.StringIO(), width=40)
    clock = Clock()
    with Progress(CONFIG, 10, console=console, clock=clock) as progress:
        progress.start_epoch(11, 100, 97)
        clock.now += 30
        progress.advance(1.0, 3000)
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert lines == [
        "small[red], seed 0: 10 sentences",
        "epoch 12/12  batch 98/100  loss 1.0000  100 characters/s  1 min 00 s left",
    ]


def test_a_terminal_gets_a_bar_and_keeps_the_line_of_the_epoch() -> None:
    console = Console(file=io.StringIO(), width=120, force_terminal=True, color_system=None)
    _run(console, 1)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "━" in text
    assert "4/4" in text
    assert "scoring the dev set" in text
    assert text.count("best so far") == 1


def test_an_error_ends_the_live_display() -> None:
    console = Console(file=io.StringIO(), width=120, force_terminal=True)
    progress = Progress(CONFIG, 1, console=console)
    with pytest.raises(KeyError), progress:
        raise KeyError
    with Progress(CONFIG, 1, console=console):  # Rich refuses a second live display
        pass


def test_metrics_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    append_metrics(path, _line(1))
    assert read_metrics(path) == [_line(1)]  # written at once
    append_metrics(path, {"epoch": 2, "note": "汉字\n"})
    assert path.read_text(encoding="utf-8").count("\n") == 2
    assert read_metrics(path) == [_line(1), {"epoch": 2, "note": "汉字\n"}]


def test_resuming_drops_what_came_after_the_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    for epoch in (1, 2, 3):
        append_metrics(path, _line(epoch))
    with path.open("a", encoding="utf-8") as file:
        file.write('{"epoch": 4, "st')  # killed while writing
    cut_metrics(path, epochs=2)  # in the middle of the third epoch
    assert read_metrics(path) == [_line(1), _line(2)]
    append_metrics(path, _line(3))
    assert read_metrics(path) == [_line(1), _line(2), _line(3)]
    cut_metrics(path, epochs=3)
    assert read_metrics(path) == [_line(1), _line(2), _line(3)]


def test_a_new_run_starts_an_empty_log(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    append_metrics(path, _line(1))
    cut_metrics(path, epochs=0)
    assert path.read_text(encoding="utf-8") == ""


@pytest.mark.parametrize("bad", ["", "{", "[1]", '{"step": 1}'])
def test_a_damaged_log_names_file_and_line(tmp_path: Path, bad: str) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text(f"{json.dumps(_line(1))}\n{bad}\n", encoding="utf-8")
    with pytest.raises(FormatError, match=r"metrics\.jsonl:2: not a JSON object with an epoch"):
        cut_metrics(path, epochs=10)


def test_a_log_that_cannot_be_written_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ZishuError, match="cannot be written"):
        append_metrics(tmp_path, _line(1))  # a folder


@pytest.mark.parametrize(
    "dev",
    [
        {},
        {"seg": 93.1},
        {"uf": 91.0, "lf": 90.9, "upos": 95.0},
        {"seg": 99.0, "uf": 98.9, "lf": 98.8},
    ],
)
@pytest.mark.parametrize("epochs", [1, 5])
def test_the_curve_is_a_picture(tmp_path: Path, dev: dict[str, float], epochs: int) -> None:
    metrics, picture = tmp_path / "metrics.jsonl", tmp_path / "curve.png"
    for epoch in range(1, epochs + 1):
        append_metrics(metrics, _line(epoch) | {"dev": dev})
    plot_curve(metrics, picture)
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_of_equal_epochs_the_last_is_kept() -> None:
    from matplotlib.figure import Figure

    axes = Figure().subplots()
    report._plot_scores(axes, [1, 2, 3, 4], [{"lf": lf} for lf in (1.0, 2.0, 2.0, 1.0)])
    assert axes.get_title() == "dev scores (epoch 3 is kept)"


def test_no_epochs_no_curve(tmp_path: Path) -> None:
    plot_curve(tmp_path / "metrics.jsonl", tmp_path / "curve.png")
    assert not (tmp_path / "curve.png").exists()


def test_without_matplotlib_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtra, match=r"zishu\[train\]"):
        plot_curve(tmp_path / "metrics.jsonl", tmp_path / "curve.png")
