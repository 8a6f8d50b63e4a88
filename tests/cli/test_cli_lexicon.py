"""Lexicons at the command line: hard and soft ones, as jieba writes them, and the probabilities without them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import zishu
from zishu import cli
from zishu.lexicon import Lexicon

COMMAND = Path(sys.executable).with_name("zishu")
TORN = "研究生命起源。"


def parse(*arguments: object) -> str:
    """Run the installed command."""
    done = subprocess.run(
        [COMMAND, "parse", *map(str, arguments)], capture_output=True, check=True, encoding="utf-8"
    )
    return done.stdout


@pytest.fixture
def words(tmp_path: Path) -> Path:
    path = tmp_path / "words.txt"
    path.write_text("# names\n研究生 20 n\n武当派 3 nz\n", encoding="utf-8")
    return path


def test_a_soft_lexicon_does_not_tear_words_apart(words: Path) -> None:
    assert parse(TORN, "--lexicon", words, "--only", "words") == "研究生 命 起源 。\n"
    assert parse(TORN, "--lexicon", words, "--only", "words", "--soft-lexicon") == "研究 生命 起源 。\n"
    heavy = parse(TORN, "--lexicon", words, "--only", "words", "--lexicon-weight", "40")
    assert heavy == "研究生 命 起源 。\n"


def test_the_damage_shows(words: Path) -> None:
    drawn = parse(TORN, "--lexicon", words)
    assert "with the lexicon" in drawn.splitlines()[-1]
    [record] = map(json.loads, parse(TORN, "--lexicon", words, "--format", "json").splitlines())
    assert record["prob_without_lexicon"] < 0.05 < record["prob"]
    assert record["words"][0]["form"] == "研究生"
    assert record["words"][0]["boundary_prob_without_lexicon"] < 0.05
    assert record["words"][0]["boundary_prob"] == 1
    rows = parse(TORN, "--lexicon", words, "--format", "conllu")
    assert "# prob_without_lexicon = " in rows
    assert rows.count("ConfWordWithoutLexicon=") == 4
    [bare] = map(json.loads, parse("我来了。", "--lexicon", words, "--format", "json").splitlines())
    assert "prob_without_lexicon" not in bare


def test_tags_of_a_lexicon_are_given_to_its_words(words: Path, tmp_path: Path) -> None:
    tagged = parse("他是武当派的。", "--lexicon", words, "--only", "tags")
    assert "武当派/PROPN" in tagged
    verbs = tmp_path / "verbs.txt"
    verbs.write_text("武當派 VERB\n", encoding="utf-8")
    assert "武当派/VERB" in parse("他是武当派的。", "--lexicon", verbs, "--only", "tags")


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("--soft-lexicon",), "--soft-lexicon needs --lexicon"),
        (("--lexicon-weight", "2"), "--soft-lexicon needs --lexicon"),
        (("--lexicon", "WORDS", "--lexicon-weight", "-2"), "a number above 0"),
    ],
)
def test_bad_options(
    words: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    given = [str(words) if argument == "WORDS" else argument for argument in arguments]
    assert cli.run(["parse", TORN, *given]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1


def test_resuming_needs_the_same_lexicon(
    words: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from zishu.corpus import Options

    hard, soft, tagged = (
        Options(lexicon=lexicon).record()["lexicon"]
        for lexicon in (["研究生"], Lexicon(["研究生"], soft=True), [("研究生", 1, "NOUN")])
    )
    assert len({hard, soft, tagged}) == 3


def test_fixed_tags() -> None:
    nlp = zishu.load(threads=1)
    [sentence] = nlp("他在学习。", pins=[(2, 4)], tags={2: "NOUN"})
    assert (sentence[2].upos, sentence[2].upos_prob) == ("NOUN", 1.0)
    [[first, *_]] = nlp.k_best("他在学习。", 2, pins=[(2, 4)], tags=[(2, "ADJ")])
    assert first[2].upos == "ADJ"
    for tags, message in (
        ({2: "NOUN"}, "needs a pinned word that begins at 2"),
        ({0: "NOPE"}, "unknown part of speech 'NOPE'"),
        (5, "tags are pairs"),
        ({0: 3}, "a part of speech is a string"),
    ):
        with pytest.raises(zishu.InputError, match=message):
            nlp("他在学习。", pins=[(0, 1)], tags=tags)


def test_the_tag_of_a_pinned_word() -> None:
    text = "他喜欢北京。"
    assert parse(text, "--pin", "3:5", "--only", "tags") == "他/PRON 喜欢/VERB 北京/PROPN 。/PUNCT\n"
    tagged = parse(text, "--pin", "3:5", "--tag", "3:NOUN", "--only", "tags")
    assert tagged == "他/PRON 喜欢/VERB 北京/NOUN 。/PUNCT\n"
    [record] = map(
        json.loads, parse(text, "--pin", "3:5", "--tag", "3:NOUN", "--format", "json").splitlines()
    )
    assert (record["words"][2]["upos"], record["words"][2]["upos_prob"]) == ("NOUN", 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("我来", "--tag", "NOUN"), "--tag NOUN: expected an offset and a part of speech K:TAG"),
        (("我来", "--tag", "0:"), "--tag 0:: expected"),
        (("我来", "--tag", "0:NOUN"), "the tag 'NOUN' needs a pinned word that begins at 0"),
        (("我来", "--pin", "0:1", "--tag", "0:n"), "unknown part of speech 'n': this model has "),
        (("我来", "你来", "--tag", "0:NOUN"), "need a single text"),
        (("-i", "in.txt", "--tag", "0:NOUN"), "--tag needs TEXT"),
    ],
)
def test_wrong_tags(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str) -> None:
    assert cli.run(["parse", *arguments]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1


def test_a_table_has_the_probabilities_without_the_lexicon(words: Path, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    parse(TORN, "--lexicon", words, "-o", tmp_path / "out.parquet")
    row = parquet.read_table(tmp_path / "out.parquet").to_pylist()[0]
    assert row["form"] == "研究生"
    assert row["boundary_prob_without_lexicon"] < 0.05 < row["boundary_prob"]
    assert row["sent_prob_without_lexicon"] < 0.05 < row["sent_prob"]
