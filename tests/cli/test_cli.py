"""The command line as a user sees it: run as a separate process and judged by exit code and output."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import zishu
from zishu import cli
from zishu.errors import MissingExtra

GOOD = (
    "# text = 我来\n1\t我\t_\tPRON\t_\t_\t2\tnsubj\t_\tSpaceAfter=No\n2\t来\t_\tVERB\t_\t_\t0\troot\t_\t_\n\n"
)
COMMAND = [sys.executable, "-c", "from zishu.cli import main; main()"]


def run(
    *arguments: str | Path, env: dict[str, str] | None = None, **options
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *map(str, arguments)],
        capture_output="stdout" not in options,
        encoding="utf-8",
        env=os.environ | (env or {}),
        timeout=60,
        check=False,
        **options,
    )


def assert_one_line(stderr: str, *parts: str) -> None:
    assert stderr.endswith("\n")
    assert stderr.count("\n") == 1, stderr
    assert stderr.startswith("zishu: ")
    for part in parts:
        assert part in stderr


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "good.conllu"
    path.write_text(GOOD, encoding="utf-8")
    return path


def test_stats_prints_plain_text_into_a_pipe(good):
    done = run("stats", good)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert [line.split() for line in lines[:4]] == [
        ["size", "count"],
        ["sentences", "1"],
        ["words", "2"],
        ["characters", "2"],
    ]
    assert "nsubj      1  50.00" in lines
    assert done.stdout.isascii()


def test_stats_prints_json(good):
    done = run("stats", good, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == {
        "sentences": 1,
        "words": 2,
        "characters": 2,
        "longest_sentence": 2,
        "lengths": [2, 0, 0, 0],
        "trees": 1,
        "projective": 1,
        "leftward": 1,
        "rightward": 0,
        "labels": {"nsubj": 1, "root": 1},
        "upos": {"PRON": 1, "VERB": 1},
    }


def test_stats_reads_standard_input():
    done = run("stats", "-", "--json", input=GOOD)
    assert done.returncode == 0
    assert json.loads(done.stdout)["words"] == 2
    done = run("stats", "-", input="bad\n")
    assert done.returncode == 2
    assert_one_line(done.stderr, "<stdin>:1: expected 10 columns")


def test_output_is_utf8_whatever_the_locale(tmp_path):
    path = tmp_path / "labels.conllu"
    path.write_text(GOOD.replace("nsubj", "主语"), encoding="utf-8")
    done = run("stats", path, env={"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0
    assert "主语" in done.stdout


def test_version():
    done = run("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"zishu {zishu.__version__}\n", "")


def test_help_lists_every_command():
    done = run("--help")
    assert (done.returncode, done.stderr) == (0, "")
    for name in cli.COMMANDS:
        assert f" {name} " in done.stdout


def test_help_is_plain(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")

    def shown(*arguments: str) -> str:
        assert cli.run([*arguments, "--help"]) == 0
        return capsys.readouterr().out

    assert "with a section [pretrain]," in shown("pretrain")
    assert "..." not in shown().replace("[ARGS]...", "")  # no help text is cut off
    for name in cli.COMMANDS:
        assert "<bool>" not in shown(name)
    assert "<bool>" not in shown("convert", "ctb")


def test_a_command_does_not_import_the_others():
    code = "import sys; from zishu.cli import run; run(['config', '-h']); assert 'zishu.cli.train' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def shell(command: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a command line with `zishu` in it, with redirections that only a shell can do."""
    python = shlex.join(COMMAND)
    names = " ".join(shlex.quote(str(argument)) for argument in arguments)
    return subprocess.run(
        ["sh", "-c", command.replace("zishu", python).replace("FILES", names)],
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )


def test_a_closed_output_matters_only_if_something_is_written(good, tmp_path):
    done = shell("zishu stats FILES >&-", good)
    assert done.returncode == 2
    assert_one_line(done.stderr, "standard output is closed")
    text, out = tmp_path / "in.txt", tmp_path / "out"
    text.write_text("她喜欢北京。\n", encoding="utf-8")
    for closed in (">&-", "2>&-", "<&- >&- 2>&-"):
        done = shell(f"zishu parse --no-confidence -i FILES {closed}", text, "-o", out)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        assert out.read_text(encoding="utf-8").startswith("# sent_id = 1\n")
        out.unlink()
    assert shell("zishu stats FILES 2>&-", "no-such-file").returncode == 2


@pytest.mark.parametrize("command", ["stats -", "eval - FILES", "convert brackets -", "parse"])
def test_a_closed_input_is_one_line_and_code_2(good, command):
    done = shell(f"zishu {command} <&-", good)
    assert done.returncode == 2
    assert_one_line(done.stderr, "standard input is closed")


@pytest.mark.parametrize(
    "place", ["README*.md", "Makefile", "CHANGELOG.md", "docs/*.md", "configs/**/*.toml"]
)
def test_every_command_that_is_documented_is_there(place):
    known = set(cli.COMMANDS)
    texts = [path.read_text(encoding="utf-8") for path in Path(__file__).parents[2].glob(place)]
    # At the start of a line (after a comment sign or a prompt), or in backquotes; in the Makefile after a folder.
    named = [
        name
        for text in texts
        for name in re.findall(r"(?m)(?:^[#$ \t]*|`|\)/)zishu ([a-z]+(?:-[a-z]+)*)\b", text)
    ]
    assert named
    assert set(named) <= known


@pytest.mark.parametrize("arguments", [[], ["-h"], ["--help"]])
def test_without_a_command_there_is_help(arguments):
    done = run(*arguments)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Usage: zishu" in done.stdout
    assert all(name in done.stdout for name in cli.COMMANDS)


def test_every_command_has_a_short_way_to_its_help():
    done = run("parse", "-h")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == run("parse", "--help").stdout


def test_configurations_are_known_by_name(tmp_path):
    listed = run("config").stdout
    folder = Path(__file__).parents[2] / "configs"
    titles = {name: title for name, _, title in (line.partition(" ") for line in listed.splitlines())}
    assert set(titles) == {
        path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.toml")
    }
    assert list(titles) == sorted(titles, key=lambda name: ("/" in name, name))
    assert all(title.endswith(".") for title in titles.values())  # a whole sentence
    assert titles["annotated"].strip() == (
        "Annotated: a character parser that learns the annotated trees inside words (Gong et al., 2021), and any tree "
        "inside words that have none (Appendix B.1)."
    )
    assert run("config", "paper/latent").stdout == (folder / "paper/latent.toml").read_text(encoding="utf-8")
    printed = run("config", "latent-c2f")
    assert printed.stdout == (Path(__file__).parents[2] / "configs/latent-c2f.toml").read_text(
        encoding="utf-8"
    )
    unknown = run("config", "latent-c3f")
    assert unknown.returncode == 2
    assert_one_line(unknown.stderr, "latent-c3f: neither a file nor one of", "latent-c2f")


def test_a_configuration_is_trained_by_name(tmp_path):
    done = run("train", "latent-c2f", "--set", "data.train=none.conllu", cwd=tmp_path)
    assert done.returncode == 2
    assert_one_line(done.stderr, "none.conllu")


def test_a_gpu_that_is_not_there_is_one_line(good, tmp_path):
    done = run(
        *("train", "latent-c2f-transformer", "--set", f"data.train={good}", "--set", f"data.dev={good}"),
        *("--set", "data.test=", "--set", "run.device=cuda", "--directory", tmp_path / "run"),
        env={"CUDA_VISIBLE_DEVICES": ""},
    )
    assert done.returncode == 2
    assert_one_line(done.stderr, "run.device = 'cuda': torch finds no CUDA GPU here")


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["nonsense"], "nonsense"),
        (["stats"], "Missing argument"),
        (["stats", "--no-such-option"], "--no-such-option"),
        (["stats", "no/such/file.conllu"], "no/such/file.conllu: No such file or directory"),
        (["stats", "/"], "Is a directory"),
        (["stats", "a\nb"], "a b: No such file"),
    ],
)
def test_wrong_usage_is_one_line_and_code_2(arguments, part):
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert_one_line(done.stderr, part)


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (GOOD.replace("\t_\n", "\n").encode(), ":3: expected 10 columns separated by tabs, found 9"),
        (GOOD.replace("\t0\troot", "\t1\troot").encode(), ":2: the sentence is not a tree"),
        (GOOD.encode().replace(b"VERB", b"\xff"), ":3: not valid UTF-8"),
    ],
)
def test_bad_input_is_one_line_and_code_2(tmp_path, content, part):
    path = tmp_path / "bad.conllu"
    path.write_bytes(content)
    done = run("stats", path)
    assert (done.returncode, done.stdout) == (2, "")
    assert_one_line(done.stderr, f"{path}{part}")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("arguments", [["stats", "-"], ["--version"], ["stats", "-", "--json"]])
def test_a_full_disk_is_one_line_and_code_1(arguments):
    with Path("/dev/full").open("wb") as full:
        done = run(*arguments, stdout=full, stderr=subprocess.PIPE, input=GOOD)
    assert done.returncode == 1
    assert_one_line(done.stderr, "No space left on device")


@pytest.mark.skipif(os.name != "posix", reason="pipes and signals as on POSIX")
def test_a_reader_that_goes_away_is_no_news(good, tmp_path):
    read_end, write_end = os.pipe()
    os.close(read_end)
    with os.fdopen(write_end, "wb") as closed:
        done = run("stats", good, stdout=closed, stderr=subprocess.PIPE)
        assert (done.returncode, done.stderr) == (1, "")
        kept = tmp_path / "counts.json"
        run("eval", good, good, "--output", kept, stdout=closed, stderr=subprocess.PIPE)
    assert kept.exists()


@pytest.mark.skipif(os.name != "posix", reason="pipes and signals as on POSIX")
def test_interruption_is_quiet_and_code_130():
    with subprocess.Popen(
        [*COMMAND, "stats", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # A shell starts background jobs with this signal ignored, and their children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        assert process.stdin is not None
        # More than a pipe holds: once all is written, the command has started to read and waits for more.
        process.stdin.write(GOOD.encode() * 5000)
        process.stdin.flush()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 130
        assert process.stdout is not None
        assert process.stderr is not None
        assert (process.stdout.read(), process.stderr.read()) == (b"", b"")


def test_the_command_line_starts_without_the_heavy_libraries():
    check = (
        "import sys, zishu.cli\n"
        "print(sorted({'numba', 'onnxruntime', 'torch', 'transformers'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


# No command shows these errors in a normal environment, so test the function that handles them.


def test_a_missing_extra_is_a_failure_and_not_bad_input():
    message, code = cli.outcome(MissingExtra("torch", "train"))
    assert code == 1
    assert "pip install 'zishu[train]'" in message


def test_a_mistake_of_ours_is_told_in_one_line_too(good, monkeypatch, capsys):
    def broken(sentences):
        raise KeyError("x\ny")

    # An injected bug.
    monkeypatch.setattr("zishu.stats.measure", broken)
    monkeypatch.delenv("ZISHU_TRACEBACK", raising=False)
    assert cli.run(["stats", str(good)]) == 1
    assert_one_line(capsys.readouterr().err, "internal error: KeyError")
    monkeypatch.setenv("ZISHU_TRACEBACK", "1")
    assert cli.run(["stats", str(good)]) == 1
    assert "Traceback" in capsys.readouterr().err
