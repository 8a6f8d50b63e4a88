"""Words and tags without trees, with the bundled model: the same words as parsing, for less work."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import zishu
from zishu import cli
from zishu.chart import _compiled, _layout
from zishu.corpus import chunks
from zishu.errors import InputError
from zishu.formats.conllu import read_conllu

if TYPE_CHECKING:
    from zishu.parser import Parser

COMMAND = Path(sys.executable).with_name("zishu")
TEXT = "他出生于1984年。研究生命起源 需要时间！\n这家店的火锅太好吃了，下次还来"


@pytest.fixture(scope="module")
def parser() -> Parser:
    return zishu.load(threads=1)


def test_words_and_tags_are_those_of_the_parse(parser: Parser) -> None:
    words = [word for sentence in parser(TEXT) for word in sentence]
    assert parser.segment(TEXT) == [word.form for word in words]
    assert parser.tag(TEXT) == [(word.form, word.upos) for word in words]
    assert parser.segment("") == parser.tag(" \n") == []


def test_constraints_hold_without_trees(parser: Parser) -> None:
    assert "研究生" in parser.segment(TEXT, lexicon=["研究生"])
    start = TEXT.index("火锅")
    assert "锅太" in parser.segment(TEXT, pins=[(start + 1, start + 3)])
    assert "火" in parser.segment(TEXT, pins=[(start, start + 1)])
    assert "火锅" not in parser.segment(TEXT, breaks=[start + 1])
    assert parser.segment("他 来", patterns=False) == ["他", "来"]
    with pytest.raises(InputError, match="unknown style"):
        parser.tag(TEXT, style="nowhere")
    upos = parser.info["upos"][-1]
    words = parser(TEXT, pins=[(0, 1), (1, 4)], arcs=[(0, 1)], tags={0: upos})[0].words
    found = parser.tag(TEXT, pins=[(0, 1), (1, 4)], arcs=[(0, 1)], tags={0: upos})
    assert found[: len(words)] == [(word.form, word.upos) for word in words]
    assert found[0] == ("他", upos)


def test_words_take_one_chart(parser: Parser, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = []
    run = _compiled.run

    def spy(task, *rest):
        tasks.append(task)
        return run(task, *rest)

    scored = []
    score_labels = type(parser.model.networks).score_labels
    monkeypatch.setattr(_compiled, "run", spy)
    monkeypatch.setattr(
        type(parser.model.networks),
        "score_labels",
        lambda *arguments: scored.append(1) or score_labels(*arguments),
    )
    parser.tag("我喜欢北京。")
    assert tasks == [_layout.BEST]
    assert not scored
    parser("我喜欢北京。")
    assert len(tasks) > 4
    assert scored


def parse(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert cli.run(["parse", *map(str, arguments)]) == 0
    return capsys.readouterr().out


def test_formats(parser: Parser, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    lines = [" ".join(word.form for word in sentence) + "\n" for sentence in parser(TEXT)]
    assert parse(capsys, TEXT, "--only", "words") == "".join(lines)
    tagged = parse(capsys, TEXT, "--only", "tags")
    assert tagged.split() == [f"{form}/{tag}" for form, tag in parser.tag(TEXT)]

    source = tmp_path / "in.txt"
    source.write_text(TEXT)
    output = tmp_path / "out.txt"
    parse(capsys, "-i", source, "-o", output, "--only", "words")
    assert output.read_text() == "".join(lines)
    # Plain text cannot be resumed, so the message does not offer it.
    assert cli.run(["parse", "-i", str(source), "-o", str(output), "--only", "words"]) == 2
    assert capsys.readouterr().err == f"zishu: {output}: exists; overwrite it with --force\n"

    rows = parse(capsys, TEXT, "--only", "tags", "--format", "conllu")
    found = [token for sentence in read_conllu(io.StringIO(rows)) for token in sentence.tokens]
    assert [(token.form, token.upos) for token in found] == parser.tag(TEXT)
    assert {(token.head, token.deprel) for token in found} <= {(None, "_"), ("_", "_")}

    records = list(map(json.loads, parse(capsys, TEXT, "--only", "words", "--format", "json").splitlines()))
    for record, sentence in zip(records, parser(TEXT), strict=True):
        assert (record["text"], record["start"], record["after"]) == (
            sentence.text,
            sentence.start,
            sentence.after,
        )
        assert [set(word) for word in record["words"]] == [{"id", "form", "start", "end"}] * len(sentence)
        assert all(TEXT[word["start"] : word["end"]] == word["form"] for word in record["words"])


@pytest.mark.parametrize("only", ["words", "tags"])
@pytest.mark.parametrize("name", ["out.jsonl", "out.conllu"])
def test_resume(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    name: str,
    only: str,
) -> None:
    """A run that stops at a bad byte continues where it stopped, with the same `--only` and no other."""
    monkeypatch.setattr(chunks, "CHUNK", 12)  # characters: several chunks
    source, output, whole = tmp_path / "in.txt", tmp_path / name, tmp_path / f"whole-{name}"
    source.write_text(TEXT * 3)
    parse(capsys, "-i", source, "-o", whole, "--only", only)
    source.write_bytes((TEXT * 3).encode() + b"\xff")
    assert cli.run(["parse", "-i", str(source), "-o", str(output), "--only", only]) == 2
    written = output.read_bytes()
    assert 0 < len(written) < whole.stat().st_size
    source.write_text(TEXT * 3)
    for other in ([], ["--only", "words" if only == "tags" else "tags"]):
        capsys.readouterr()
        assert cli.run(["parse", "-i", str(source), "-o", str(output), "--resume", *other]) == 2
        assert "was written with only = " in capsys.readouterr().err
        assert output.read_bytes() == written
    output.write_bytes(written[:-20])  # a sentence that was cut off by a crash is written anew
    parse(capsys, "-i", source, "-o", output, "--only", only, "--resume")
    assert output.read_text() == whole.read_text()


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("--only", "words", "--format", "svg"), "shows trees"),
        (("--format", "text"), "cannot show a tree"),
        (("--only", "words", "--granularity", "coarse"), "finds no trees"),
        (("--only", "words", "--words"), "words are given"),
        (("--only", "tags", "--pin", "0:1", "--arc", "0:root"), "finds no trees"),
        (("--only", "words", "--pin", "0:1", "--tag", "0:NOUN"), "only words are wanted"),
    ],
)
def test_what_does_not_go_together(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    assert cli.run(["parse", "我来", *arguments]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1


def test_the_installed_command() -> None:
    done = subprocess.run(
        [COMMAND, "parse", "--only", "words"],
        input="我喜欢北京。\n".encode(),
        capture_output=True,
        check=True,
    )
    assert done.stdout.decode() == "我 喜欢 北京 。\n"
