"""The parser with other models than the bundled one: one role, a pipeline, a parser of words; random weights."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from typing import TYPE_CHECKING

import zishu
from model.test_model import TEXT, make_network
from parse_checks import check
from zishu import cli
from zishu.document import Document
from zishu.errors import InputError
from zishu.model.directory import write_pipeline
from zishu.train.export import export_model

if TYPE_CHECKING:
    from pathlib import Path

    from zishu.parser import Parser

SPACED = f"{TEXT}\n\n{TEXT[:9]} {TEXT[9:14]}。{TEXT[5:]}e\u0301"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    for name, task, roles in (
        ("latent", "parse", 1),
        ("segmenter", "segment", 1),
        ("treecrf", "parse-words", 1),
    ):
        export_model(make_network(task, roles), folder / name)
    export_model(make_network(), folder / "joint")
    export_model(make_network(kind="transformer"), folder / "other")
    write_pipeline(folder / "segmenter", folder / "treecrf", folder / "pipeline", name="两步")
    return folder


@pytest.fixture(scope="module")
def latent(folder: Path) -> Parser:
    return zishu.load(folder / "latent", threads=1)


def forms(document: Document) -> list[tuple[str, ...]]:
    return [sentence.tree.forms for sentence in document]


def test_a_model_with_one_role_takes_constraints(latent: Parser) -> None:
    for confidence in (False, True):
        document = latent(SPACED, pins=[(1, 4)], breaks=[7], lexicon=["外商投资"], confidence=confidence)
        check(document)
        spans = {(word.start, word.end) for sentence in document for word in sentence.words}
        assert (1, 4) in spans
        assert not any(start < 7 < end for start, end in spans)
        assert all(SPACED[a:b] == "外商投资" for a, b in spans if "外商" in SPACED[a:b])
    check(latent.parse_words([["上海计", "划"], ["发展"]]))
    assert len(latent.k_best(SPACED, 2)) == len(latent(SPACED))


def test_vanilla_decoding_keeps_white_space_too(latent: Parser) -> None:
    for confidence in (False, True):
        document = latent(SPACED, decoding="vanilla", confidence=confidence)
        check(document)
        assert [list(d) for d in latent.pipe([SPACED], decoding="vanilla", confidence=confidence)] == [
            list(document)
        ]
        assert list(latent.stream([SPACED], decoding="vanilla", confidence=confidence)) == list(document)
    usual = latent(SPACED, decoding="viterbi")
    spaced = [k for k, sentence in enumerate(document) if " " in sentence.text]
    assert spaced
    assert all(document[k] == usual[k] for k in spaced)
    assert forms(document) != forms(usual)


def test_a_pipeline_is_a_parser_like_any_other(folder: Path) -> None:
    pipeline = zishu.load(folder / "pipeline", threads=1)
    document = pipeline(SPACED, pins=[(1, 4)])
    check(document)
    assert {word.char_heads for sentence in document for word in sentence.words} == {None}
    assert (1, 4) in {(word.start, word.end) for word in document[0].words}
    assert all(0 <= (word.prob or 0) <= 1 for sentence in document for word in sentence.words)
    check(pipeline.parse_words([["上海", "计划"]]))
    check(aided := pipeline(SPACED, lexicon=["外商投资"], confidence=True))
    assert "外商投资" in [word.form for sentence in aided for word in sentence]
    assert forms(Document("", tuple(found[0] for found in pipeline.k_best(SPACED, 2)))) == forms(
        pipeline(SPACED)
    )
    assert pipeline.info["name"] == "两步"
    with pytest.raises(InputError, match="vanilla"):
        pipeline(TEXT, decoding="vanilla")


def test_an_ensemble_is_a_parser_like_any_other(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "both"
    assert cli.run(["ensemble", str(output), str(folder / "joint"), str(folder / "other")]) == 0
    assert capsys.readouterr().out == f"model: {output}\n"
    ensemble = zishu.load(output, threads=1)
    document = ensemble(SPACED, pins=[(1, 4)], lexicon=["外商投资"])
    check(document)
    assert (1, 4) in {(word.start, word.end) for word in document[0].words}
    assert all(0 <= (word.prob or 0) <= 1 for sentence in document for word in sentence.words)
    check(ensemble.parse_words([["上海", "计划"]]))
    assert ensemble.info["name"] == "both"
    parts = [zishu.load(folder / name, threads=1)(SPACED) for name in ("joint", "other")]
    assert forms(parts[0]) != forms(document) != forms(parts[1])
    assert cli.run(["info", str(output)]) == 0
    shown = capsys.readouterr().out
    assert "ensemble" in shown
    assert "member-1" in shown
    assert "member-2" in shown
    assert cli.run(["ensemble", str(tmp_path / "x"), str(folder / "joint"), str(folder / "latent")]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "x").exists()


def test_models_that_lack_something_say_so(folder: Path) -> None:
    words = zishu.load(folder / "treecrf", threads=1)
    document = words.parse_words([["上海", "计划"], ["好"]])
    check(document)
    assert document[0].words[0].boundary_prob in (None, 1.0)
    with pytest.raises(InputError, match="a model that parses words needs all words"):
        words(TEXT)
    segmenter = zishu.load(folder / "segmenter", threads=1)
    with pytest.raises(InputError, match="cannot parse"):
        segmenter(TEXT)
    with pytest.raises(InputError, match="cannot parse"):
        segmenter.parse_words([["上海"]])
