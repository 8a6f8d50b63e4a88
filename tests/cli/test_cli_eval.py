"""`zishu eval`: files in, a table or JSON out."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import typer
from typer.testing import CliRunner

from zishu.cli import run
from zishu.cli.eval import eval_command
from zishu.errors import FormatError, InputError

if TYPE_CHECKING:
    from pathlib import Path

GOLD = """\
# sent_id = a-1
# text = 上海计划发展。
1	上海	_	PROPN	_	_	2	nsubj	_	SpaceAfter=No
2	计划	_	VERB	_	_	0	root	_	SpaceAfter=No
3	发展	_	VERB	_	_	2	ccomp:x	_	SpaceAfter=No
4	。	_	PUNCT	_	_	2	punct	_	SpaceAfter=No

# sent_id = a-2
# text = 他走了
1	他	_	PRON	_	_	2	nsubj	_	SpaceAfter=No
2	走	_	VERB	_	_	0	root	_	SpaceAfter=No
3	了	_	AUX	_	_	2	aux	_	SpaceAfter=No

"""
# A label without its subtype and another head for 。 in the first sentence, 走了 as one word in the second.
PRED = """\
1	上海	_	PROPN	_	_	2	nsubj	_	_
2	计划	_	VERB	_	_	0	root	_	_
3	发展	_	VERB	_	_	2	ccomp	_	_
4	。	_	PUNCT	_	_	3	punct	_	_

1	他	_	PRON	_	_	2	nsubj	_	_
2	走了	_	VERB	_	_	0	root	_	_

"""

app = typer.Typer()
app.command()(eval_command)
runner = CliRunner()


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    gold, pred = tmp_path / "gold.conllu", tmp_path / "pred.conllu"
    gold.write_text(GOLD, encoding="utf-8")
    pred.write_text(PRED, encoding="utf-8")
    return str(gold), str(pred)


def run_json(*arguments: str) -> dict[str, object]:
    result = runner.invoke(app, [*arguments, "--json"], catch_exceptions=False)
    assert result.exit_code == 0
    data = json.loads(result.stdout)
    assert isinstance(data, dict)
    return data


def f1(data: dict[str, object], metric: str) -> float:
    ratio = data[metric]
    assert isinstance(ratio, dict)
    return float(ratio["f1"])


def test_plain_table(files: tuple[str, str]) -> None:
    result = runner.invoke(app, list(files), catch_exceptions=False)
    assert result.exit_code == 0
    # Words: 5 right (上海 计划 发展 。 他) of 7 gold and 6 predicted: P 83.33, R 71.43, F1 10/13.
    # Arcs without 。: 6 gold, 5 predicted, 3 right (他 has the head 走 in gold), 2 with their label.
    # By length: 。 他 走 了 against 。 他 in row 1; the predicted 走了 joins 上海 计划 发展 in row 2.
    lines = result.stdout.splitlines()
    assert lines[:11] == [
        "               precision  recall     F1",
        "segmentation       83.33   71.43  76.92",
        "UPOS               83.33   71.43  76.92",
        "dependency UF      60.00   50.00  54.55",
        "dependency LF      40.00   33.33  36.36",
        "",
        "                       unlabeled  labeled",
        "complete match             50.00     0.00",
        "attachment (UAS, LAS)          -        -",
        "",
        "F1 by word length  gold words  segmentation   UPOS     UF     LF",
    ]
    assert lines[11:15] == [
        "1                           4         66.67  66.67   0.00   0.00",
        "2                           3         85.71  85.71  85.71  57.14",
        "3                           0             -      -      -      -",
        "4+                          0             -      -      -      -",
    ]
    assert lines[16] == "2 sentences, 7 gold words, 6 predicted words"
    assert lines[17].startswith("punct:no|labels:full|version:zishu-")


def test_json_and_switches(files: tuple[str, str]) -> None:
    data = run_json(*files)
    assert f1(data, "lf") == pytest.approx(100 * 4 / 11)
    assert f1(run_json(*files, "--universal-labels"), "lf") == pytest.approx(100 * 6 / 11)
    # The arc of 。 joins both totals and is wrong.
    punct = run_json(*files, "--punct")
    assert f1(punct, "uf") == pytest.approx(100 * 6 / 13)
    assert str(punct["signature"]).startswith("punct:yes|labels:full|")


def test_gold_against_itself(files: tuple[str, str]) -> None:
    data = run_json(files[0], files[0])
    assert (data["uas"], data["las"], data["ucm"], data["lcm"]) == (100.0, 100.0, 100.0, 100.0)


def test_prediction_from_standard_input(files: tuple[str, str]) -> None:
    piped = runner.invoke(app, [files[0], "-", "--json"], input=PRED, catch_exceptions=False)
    assert json.loads(piped.stdout) == run_json(*files)


def test_terminal_gets_a_rich_table(files: tuple[str, str]) -> None:
    text = runner.invoke(app, [*files], env={"FORCE_COLOR": "1", "COLUMNS": "100"}).stdout
    assert "\x1b[" in text  # styled
    assert "dependency UF" in text
    assert "punct:no|labels:full" in text


def test_input_errors(files: tuple[str, str], tmp_path: Path) -> None:
    other = tmp_path / "other.conllu"

    def error(text: str, *arguments: str) -> BaseException | None:
        other.write_text(text, encoding="utf-8")
        result = runner.invoke(app, [files[0], *(arguments or (str(other),))])
        assert result.stdout == ""
        return result.exception

    first, _, rest = GOLD.partition("\n\n")
    wrong_text = error(first + "\n\n" + rest.replace("走", "跑"))
    assert isinstance(wrong_text, InputError)
    assert "sentence 2 (a-2): the texts differ at character 2: '走' in gold, '跑'" in str(wrong_text)

    too_few = error(first + "\n\n")
    assert isinstance(too_few, InputError)
    assert "gold side has 2 sentences, the predicted side 1" in str(too_few)

    no_root = error(GOLD.replace("\t0\troot", "\t1\troot", 1))
    assert isinstance(no_root, FormatError)
    assert no_root.path == str(other)


def test_failures_are_one_line_and_exit_code_2(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["eval", files[0], "nowhere.conllu"]) == 2
    assert capsys.readouterr() == ("", "zishu: nowhere.conllu: No such file or directory\n")
    assert run(["eval", files[1], files[0], "--punkt"]) == 2
    output, error = capsys.readouterr()
    assert output == ""
    assert error.count("\n") == 1
    assert "--punkt" in error


def test_the_input_is_not_written_over(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    for path in files:
        assert run(["eval", *files, "--output", path]) == 2
        assert capsys.readouterr().err == f"zishu: {path}: is also the input\n"


def test_the_counts_do_not_go_to_standard_output(
    files: tuple[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["eval", *files, "--output", "-"]) == 2
    assert capsys.readouterr().err == "zishu: --output needs a file: the scores go to standard output\n"
    assert not (tmp_path / "-").exists()


def test_both_files_from_standard_input() -> None:
    assert isinstance(runner.invoke(app, ["-", "-"], input=GOLD).exception, InputError)


def test_importing_the_command_stays_cheap() -> None:
    # `zishu --help` imports every command; NumPy and Rich's tables wait until one of them runs.
    code = "import sys, zishu.cli.eval; print({'numpy', 'rich.table', 'zishu.metrics'} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "set()\n"
