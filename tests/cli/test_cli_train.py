"""`zishu train`: seeds and averages, folders that are not overwritten, Ctrl-C, errors."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from zishu import cli
from zishu.cli.train import table
from zishu.metrics import Average

if TYPE_CHECKING:
    from collections.abc import Iterator

SENTENCES = """\
1\t上海\t_\tPROPN\t_\t_\t2\tnsubj\t_\t_
2\t发展\t_\tVERB\t_\t_\t0\troot\t_\t_
3\t金融业\t_\tNOUN\t_\t_\t2\tobj\t_\t_

1\t我\t_\tPRON\t_\t_\t2\tnsubj\t_\t_
2\t喜欢\t_\tVERB\t_\t_\t0\troot\t_\t_
3\t音乐\t_\tNOUN\t_\t_\t2\tobj\t_\t_

"""
CONFIG = """
name = "tiny"
[data]
train = "data.conllu"
dev = "data.conllu"
[encoder]
kind = "bilstm"
char_width = 8
bigram_width = 4
hidden = 8
layers = 1
[scorer]
arc = 8
label = 8
[optimiser]
epochs = 2
[run]
threads = 1
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to a directory with data and a configuration."""
    monkeypatch.chdir(tmp_path)
    Path("data.conllu").write_text(SENTENCES, encoding="utf-8")
    Path("tiny.toml").write_text(CONFIG, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["absent.toml"], "absent.toml: neither a file nor one of accurate"),
        (
            ["tiny.toml", "--set", "encoder.layer=2"],
            "unknown key encoder.layer; did you mean encoder.layers?",
        ),
        (["tiny.toml", "--set", "task=parsing"], "--set task=parsing: expected one of 'parse', "),
        (["tiny.toml", "--seeds", "0,x"], "--seeds 0,x: expected different whole numbers"),
        (["tiny.toml", "--seeds", "1,01"], "--seeds 1,01: expected different whole numbers"),
        (["tiny.toml", "--seeds", ""], "--seeds : expected different whole numbers"),
        (["tiny.toml", "--seeds", "99999999999"], "expected a whole number from 0 to 4294967295"),
        (["tiny.toml", "--set", "data.train=absent.conllu"], "absent.conllu: No such file or directory"),
    ],
)
def test_wrong_input_is_one_line_and_exit_code_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["train", *arguments]) == cli.BAD_INPUT
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("zishu: ")
    assert message in captured.err
    assert captured.err.count("\n") == 1


def test_nothing_is_written_over(capsys: pytest.CaptureFixture[str]) -> None:
    kept = Path("runs/tiny/seed-1/notes.txt")
    kept.parent.mkdir(parents=True)
    kept.write_text("mine", encoding="utf-8")
    # Every folder is checked before the first run starts.
    assert cli.run(["train", "tiny.toml", "--seeds", "0,1"]) == cli.BAD_INPUT
    assert "runs/tiny/seed-1: is not empty: use --resume" in capsys.readouterr().err
    assert not Path("runs/tiny/seed-0").exists()
    assert kept.read_text(encoding="utf-8") == "mine"


def test_a_run_folder_is_no_way_to_other_files(capsys: pytest.CaptureFixture[str]) -> None:
    victim, run = Path("victim"), Path("runs/tiny/seed-0")
    victim.write_text("precious", encoding="utf-8")
    (run / "evaluation").mkdir(parents=True)
    for name in (
        ".last.safetensors.unfinished",
        "last.safetensors",
        "metrics.jsonl",
        "evaluation/dev.json.gz",
    ):
        (run / name).symlink_to(victim.absolute())
        assert cli.run(["train", "tiny.toml", "--resume"]) == cli.BAD_INPUT
        assert f"{run / name}: is a link" in capsys.readouterr().err
        (run / name).unlink()
    assert victim.read_text(encoding="utf-8") == "precious"


def test_seeds_are_trained_one_by_one_and_averaged(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["train", "tiny.toml", "--seeds", "3, 1", "--directory", "out"]
    assert cli.run(arguments) == cli.SUCCESS
    first = capsys.readouterr()
    lines = [line.split() for line in first.out.splitlines()]
    assert lines[0] == ["score", "seed", "3", "seed", "1", "mean", "sd"]
    assert lines[1][0] == "dev.seg"
    assert lines[-3:] == [
        ["model:", "out/seed-3/model"],
        ["model:", "out/seed-1/model"],
        ["summary:", "out/summary.json"],
    ]
    assert "tiny, seed 3: 2 sentences" in first.err
    summary = json.loads(Path("out/summary.json").read_text(encoding="utf-8"))
    scores = [summary["seeds"][seed]["dev.seg"] for seed in ("3", "1")]
    assert summary["name"] == "tiny"
    assert summary["mean"]["dev.seg"] == pytest.approx(sum(scores) / 2)
    assert summary["sd"]["dev.seg"] == pytest.approx(abs(scores[0] - scores[1]) / 2**0.5)
    for seed in (3, 1):
        result = json.loads(Path(f"out/seed-{seed}/result.json").read_text(encoding="utf-8"))
        assert result["seed"] == seed
        assert len(Path(f"out/seed-{seed}/metrics.jsonl").read_text(encoding="utf-8").splitlines()) == 2

    # Again: an error; with --resume, the same scores without any training.
    assert cli.run(arguments) == cli.BAD_INPUT
    assert "out/seed-3: contains a finished run" in capsys.readouterr().err
    assert cli.run([*arguments, "--resume"]) == cli.SUCCESS
    second = capsys.readouterr()
    assert second.out == first.out
    assert second.err == "out/seed-3: this run is finished\nout/seed-1: this run is finished\n"


@contextmanager
def _ctrl_c_after_an_epoch(metrics: Path) -> Iterator[None]:
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.01):
            if metrics.exists() and "\n" in metrics.read_text(encoding="utf-8"):
                os.kill(os.getpid(), signal.SIGINT)
                return

    user = threading.Thread(target=watch)
    user.start()
    try:
        yield
    finally:
        over.set()
        user.join()


@pytest.mark.skipif(sys.platform == "win32", reason="signals to oneself")
def test_ctrl_c_saves_and_says_how_to_go_on(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["tiny.toml", "--set", "optimiser.epochs=100000", "--set", "data.test=a b.conllu"]
    with _ctrl_c_after_an_epoch(folder / "runs/tiny/seed-0/metrics.jsonl"):
        assert cli.run(["train", *arguments]) == cli.INTERRUPTED
    last = capsys.readouterr().err.splitlines()[-1]
    command = f"zishu train {shlex.join(arguments)} --resume"
    assert last == f"zishu: interrupted; the run is saved in runs/tiny/seed-0; to continue: {command}"
    assert Path("runs/tiny/seed-0/last.safetensors").exists()
    assert cli.run(["train", *arguments]) == cli.BAD_INPUT
    assert "runs/tiny/seed-0: is not empty: use --resume" in capsys.readouterr().err


def test_without_torch_the_extra_is_named_and_help_still_works() -> None:
    code = """
import sys
sys.modules["torch"] = None
from zishu.cli import run
sys.exit(10 * run(["train", "--help"]) + run(["train", "tiny.toml"]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == cli.FAILURE
    assert done.stderr == "zishu: torch is not installed: run pip install 'zishu[train]'\n"
    assert "--resume" in done.stdout


def test_the_help_needs_no_torch() -> None:
    code = "import sys; from zishu.cli import run; run(['--help']); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_the_table_shows_every_score() -> None:
    scores = {0: {"dev.lf": 1.0}, 1: {"dev.lf": 2.0, "test.lf": 3.0}}
    assert table(scores, {"dev.lf": Average((1.0, 2.0))}) == (
        ("score", "seed 0", "seed 1", "mean", "sd"),
        [("dev.lf", "1.00", "2.00", "1.50", "0.71"), ("test.lf", "-", "3.00", "-", "-")],
    )
    assert table({5: {"dev.lf": 1.0}}, {}) == (("score", "seed 5"), [("dev.lf", "1.00")])
