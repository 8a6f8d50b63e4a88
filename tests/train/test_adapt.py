"""Adapt a trained model to a user's data, without the data that it was trained on."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch

import tiny
import zishu
from tiny_training import make_config
from zishu.annotations import read_annotations
from zishu.cli import run
from zishu.errors import InputError
from zishu.train.adapt import Adaptation, adapt
from zishu.train.adapt_data import AdaptOptions, sure_tree
from zishu.train.exported import LABEL_WEIGHT, read_weights
from zishu.train.loop import train


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Train a small model on all sentences of the tiny treebank but the last two."""
    folder = tmp_path_factory.mktemp("adapt")
    files = {"a": tiny.write(folder / "first.conllu", tiny.TREES[:-2])}
    changes = {"data": {"train": files, "dev": files}, "export": {"compact": True}}
    tiny.write(folder / "all.conllu")
    tiny.write(folder / "projective.conllu")
    train(make_config(folder, folder / "run", **changes))
    tiny.write(folder / "new.conllu", tiny.TREES[-2:])
    lines = "".join(" ".join(tree.forms) + "\n" for tree in tiny.TREES[-2:])
    (folder / "words.txt").write_text(lines, encoding="utf-8")
    return folder


def forms(model, tree, **options):
    [sentence] = zishu.load(model)("".join(tree.forms), **options)
    return tuple(word.form for word in sentence)


def test_trees_are_learned_and_what_was_known_is_compared(folder, tmp_path):
    many = tiny.write(tmp_path / "many.conllu", tiny.TREES[-2:] * 40)
    options = AdaptOptions(gold=(many,), dev=str(folder / "new.conllu"), model=str(folder / "run"), epochs=15)
    report = adapt(tmp_path / "new", options, threads=1)
    assert report.held_out["after"]["lf"] > report.held_out["before"]["lf"]
    assert report.held_out["after"]["seg"] > report.held_out["before"]["seg"]
    assert report.sentences["known"] == 80
    assert set(report.agreement) == {"a"}
    assert 0 < report.agreement["a"]["lf"] <= 100
    # The folder of the run works like a model, and the report is stored.
    assert "".join(forms(tmp_path / "new", tiny.TREES[-1])) == "".join(tiny.TREES[-1].forms)
    assert json.loads((tmp_path / "new" / "adapt.json").read_text("utf-8"))["sentences"]["known"] == 80


def test_words_in_a_new_style_leave_the_old_one(folder, tmp_path):
    tree = tiny.TREES[0]
    (tmp_path / "words.txt").write_text((" ".join("".join(tree.forms)) + "\n") * 60, encoding="utf-8")
    words = (str(tmp_path / "words.txt"),)
    options = AdaptOptions(words=words, model=str(folder / "run"), style="b", epochs=15, keep=0)
    report = adapt(tmp_path / "new", options, threads=1)
    assert not report.held_out
    assert zishu.load(tmp_path / "new").styles == ("a", "b")
    assert forms(tmp_path / "new", tree, style="b") == tuple("".join(tree.forms))
    assert forms(tmp_path / "new", tree, style="a") == tree.forms
    # Nothing was held out, so the temperatures are those of the old model.
    old, new = (zishu.load(path).info for path in (folder / "run", tmp_path / "new"))
    assert new["temperature"] == old["temperature"]


def test_raw_text_gives_words_of_the_lexicon_and_what_is_sure(folder, tmp_path):
    text = "上海计划发展金融业。\n我喜欢图书馆。\n"
    (tmp_path / "text.txt").write_text(text, encoding="utf-8")
    (tmp_path / "lexicon.txt").write_text("海计\n", encoding="utf-8")
    files = {"text": (str(tmp_path / "text.txt"),), "lexicon": str(tmp_path / "lexicon.txt")}
    options = AdaptOptions(**files, model=str(folder / "run"), epochs=1, sure=0.6)
    adapt(tmp_path / "new", options, threads=1)
    trees, _ = read_annotations(tmp_path / "new" / "data" / "sure.conllu")
    assert {"".join(tree.chars) for tree in trees} == set(text.split())
    [first] = [tree for tree in trees if tree.chars[0] == "上"]
    assert first.is_word(2, 4)


def test_of_a_parse_only_what_is_sure_is_known():
    [sentence] = zishu.load("fast")("他研究生命起源。")
    everything, nothing = sure_tree(sentence, 0.0), sure_tree(sentence, 1.1)
    assert everything.is_full
    assert [everything.form(word.span) for word in everything.words] == [word.form for word in sentence]
    assert not nothing.is_known
    some = sure_tree(sentence, sorted(word.head_prob for word in sentence)[2])
    assert 0 < sum(word.head is not None for word in some.words) < len(sentence)


def test_a_tenth_of_many_trees_is_held_out(folder, tmp_path):
    tiny.write(tmp_path / "many.conllu", tiny.TREES * 12)
    options = AdaptOptions(gold=(str(tmp_path / "many.conllu"),), model=str(folder / "run"), epochs=1)
    report = adapt(tmp_path / "new", options, threads=1)
    assert report.sentences["held out"] == 6
    assert report.sentences["known"] == 54
    assert report.held_out.keys() == {"before", "after"}


def test_a_run_goes_on_with_its_own_arguments_only(folder, tmp_path):
    command = ["adapt", "-o", str(tmp_path / "new"), "--model", str(folder / "run"), "--threads", "1"]
    command += ["--words", str(folder / "words.txt"), "--epochs", "1"]
    assert run(command) == 0
    assert run(command) == 2
    assert run([*command, "--resume"]) == 0
    assert run([*command, "--resume", "--style", "b"]) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no data"),
        (["--lexicon", "x"], "no data"),
        (["--gold", "nowhere.conllu"], "nowhere.conllu"),
        (["--words", "empty.txt"], "no sentences found"),
        (["--gold", "bad.conllu"], "no file has a usable sentence"),
        (["--words", "words.txt", "--rehearsal", "x=words.txt"], "the model has no style 'x'"),
        (["--words", "words.txt", "--model", "nowhere"], "nowhere"),
    ],
)
def test_bad_input_is_one_line(folder, tmp_path, arguments, message, capfd, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.txt").write_text("", encoding="utf-8")
    (tmp_path / "words.txt").write_text("上海 计划\n", encoding="utf-8")
    rows = "".join(f"{k}\t字\t_\t_\t_\t_\t0\troot\t_\t_\n" for k in (1, 2))
    (tmp_path / "bad.conllu").write_text(f"{rows}\n", encoding="utf-8")
    given = arguments if "--model" in arguments else [*arguments, "--model", str(folder / "run")]
    assert run(["adapt", "-o", "new", *given]) == 2
    lines = capfd.readouterr().err.strip().splitlines()
    assert lines[-1].startswith("zishu: ")
    assert message in lines[-1]


def test_forgetting_is_told():
    agreement = {"gsd": {"lf": 79.0}, "hk": {"lf": 70.0}, "pud": {"lf": 95.0}}
    worse = {"before": {"lf": 60.0}, "after": {"lf": 59.0}}
    report = Adaptation("hk", {}, (), worse, agreement, wanted=80, kept=0.5)
    assert report.forgotten == ["gsd"]
    half, other, own, lower = report.warnings
    assert "only 50% of the change" in half
    assert "in style gsd only 79.0 %" in other
    assert "in style hk only 70.0 %" in own
    assert "a new --style" in own
    assert "do not use it" in lower
    better = {"before": {"lf": 60.0}, "after": {"lf": 61.0}}
    fine = Adaptation("hk", {}, (), better, agreement, wanted=70)
    assert not fine.warnings


def test_a_model_that_forgot_too_much_moves_back_to_the_old_one(folder, tmp_path):
    tree = tiny.TREES[0]
    (tmp_path / "words.txt").write_text((" ".join("".join(tree.forms)) + "\n") * 60, encoding="utf-8")
    words = (str(tmp_path / "words.txt"),)
    options = AdaptOptions(words=words, model=str(folder / "run"), style="b", epochs=4, keep=0)
    free = adapt(tmp_path / "free", options, threads=1)
    assert free.kept == 1
    assert not free.warnings
    said = []
    bound = min(99.9, free.agreement["a"]["lf"] + 0.1)
    report = adapt(tmp_path / "bound", replace(options, keep=bound), threads=1, say=said.append)
    assert report.kept < 1
    assert "too much was forgotten in style a" in said[0]
    assert report.agreement["a"]["lf"] > free.agreement["a"]["lf"]
    assert f"only {report.kept:.0%} of the change" in report.warnings[0]
    # The exported weights lie between those of the old model and those of the run without a bound.
    folders = (folder / "run/model", tmp_path / "free/model", tmp_path / "bound/model")
    old, new, between = (read_weights(path)[LABEL_WEIGHT] for path in folders)
    torch.testing.assert_close(between, old.lerp(new, report.kept), atol=1e-5, rtol=0)


def test_a_lexicon_needs_text():
    with pytest.raises(InputError, match="a lexicon only works together with raw text"):
        AdaptOptions(words=("x",), lexicon="y")
