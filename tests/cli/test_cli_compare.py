"""`zishu compare`: run folders in, a table out; and the file of `zishu eval --output`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from run_records import SIGNATURE, write_run
from zishu.cli import run
from zishu.metrics import load_evaluation

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def runs(tmp_path: Path) -> list[str]:
    write_run(tmp_path / "leftward" / "seed-0", "leftward", 0, [1, 1])
    write_run(tmp_path / "leftward" / "seed-1", "leftward", 1, [2, 2])
    write_run(tmp_path / "潜在", "潜在", 0, [3, 3])
    return [str(tmp_path / "leftward"), str(tmp_path / "潜在")]


def test_plain_table(runs: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", *runs, "--metrics", "seg, uf"]) == 0
    output, errors = capsys.readouterr()
    assert errors == ""
    assert output.splitlines() == [
        "system    seeds          F1seg              UF",
        "leftward      2  100.00 ± 0.00*  50.00 ± 23.57",
        "潜在          1         100.00*         100.00*",
        "",
        "difference from leftward                         F1seg                               UF",
        "潜在                      +0.00 [+0.00, +0.00] p=1.000  +50.00 [+50.00, +50.00] p<0.001",
        "",
        "Dev set from raw text, 2 sentences.",
        "Mean ± standard deviation over seeds.",
        "Best mean: *.",
        (
            "Differences: 95% interval in brackets; two-sided p by paired bootstrap over sentences, 10,000 samples, "
            "corrected for 2 tests (Holm)."
        ),
        SIGNATURE,
    ]


def test_forms(runs: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", *runs, "--json", "--samples", "9", "--baseline", "潜在"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["baseline"], data["samples"]) == ("潜在", 9)
    assert data["systems"][0]["differences"]["lf"]["p_value"] == pytest.approx(0.1)
    assert run(["compare", *runs, "--markdown"]) == 0
    assert capsys.readouterr().out.startswith("| system | seeds |")
    assert run(["compare", *runs, "--latex"]) == 0
    assert r"\toprule" in capsys.readouterr().out


def test_seeds_are_drawn_if_wanted(
    tmp_path: Path, runs: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    write_run(tmp_path / "latent" / "seed-0", "latent", 0, [3, 3])
    write_run(tmp_path / "latent" / "seed-1", "latent", 1, [1, 1])
    pair = [runs[0], str(tmp_path / "latent"), "--metrics", "uf"]
    # By hand: a sample of a system is one of its two seeds, 33.3 or 66.7 against 33.3 or 100.
    assert run(["compare", *pair, "--draw-seeds", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["draw_seeds"] is True
    difference = data["systems"][1]["differences"]["uf"]
    assert difference["difference"] == pytest.approx(50 / 3)
    assert (difference["low"], difference["high"]) == (pytest.approx(-100 / 3), pytest.approx(200 / 3))
    assert difference["p_value"] == 1.0  # every sample is at least as far from the mean as zero is
    assert run(["compare", *pair, "--draw-seeds"]) == 0
    assert "by paired bootstrap over sentences and seeds, 10,000 samples." in capsys.readouterr().out


def test_terminal_gets_a_rich_table(
    runs: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "140")
    assert run(["compare", *runs]) == 0
    text = capsys.readouterr().out
    assert "\x1b[" in text  # styled
    assert "100.00 ± 0.00*" in text
    assert "p<0.001" in text
    assert text.endswith(f"{SIGNATURE}\n")


def test_warnings_go_to_standard_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_run(tmp_path / "x", "x", 0, [1, 1], keep=False)
    assert run(["compare", str(folder), "--markdown"]) == 0
    output, errors = capsys.readouterr()
    assert errors == f"zishu: no evaluation file, so no test of significance: {folder}\n"
    assert "| x | 1 | 100.00 | 33.33 | 33.33 |" in output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Missing argument"),
        (["nowhere"], "zishu: nowhere: no such run"),
        (["RUNS", "--json", "--latex"], "only one of"),
        (["RUNS", "--metrics", "uas"], "unknown metric 'uas' from raw text: choose from seg, uf"),
        (["RUNS", "--baseline", "x"], "--baseline x: no such system"),
        (["RUNS", "--samples", "0"], "--samples"),
        (["RUNS", "--set", "train"], "--set"),
        (["RUNS", "--draw-seeds"], "--draw-seeds: needs at least two runs of 潜在"),
    ],
)
def test_failures_are_one_line_and_exit_code_2(
    runs: list[str], capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    given = [path for argument in arguments for path in (runs if argument == "RUNS" else [argument])]
    assert run(["compare", *given]) == 2
    output, errors = capsys.readouterr()
    assert output == ""
    assert errors.count("\n") == 1
    assert message in errors


CONLLU = "1\t我\t_\tPRON\t_\t_\t2\tnsubj\t_\t_\n2\t来\t_\tVERB\t_\t_\t0\troot\t_\t_\n\n"


def test_eval_writes_what_compare_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gold, pred = tmp_path / "gold.conllu", tmp_path / "pred.conllu"
    gold.write_text(CONLLU * 2, encoding="utf-8")
    pred.write_text(CONLLU + CONLLU.replace("nsubj", "dep"), encoding="utf-8")
    for name, file in (("perfect", gold), ("other", pred)):
        assert run(["eval", str(gold), str(file), "--output", str(tmp_path / "kept" / f"{name}.json")]) == 0
    assert "dependency LF" in capsys.readouterr().out  # it still prints its table
    assert load_evaluation(tmp_path / "kept" / "other.json").value("las") == 75.0
    files = [str(tmp_path / "kept" / f"{name}.json") for name in ("perfect", "other")]
    assert run(["compare", *files, "--given-words", "--metrics", "las", "--json"]) == 0
    systems = json.loads(capsys.readouterr().out)["systems"]
    assert [(s["name"], s["scores"]["lf"]["mean"]) for s in systems] == [("perfect", 100.0), ("other", 75.0)]
    (tmp_path / "folder").mkdir()
    assert run(["eval", str(gold), str(pred), "--output", str(tmp_path / "folder")]) == 2
    output, errors = capsys.readouterr()
    assert "dependency LF" in output  # what was computed is not lost
    assert errors.count("\n") == 1
    assert not list(tmp_path.glob("*.part"))
