"""Adapt a trained model to a user's data, without the data that it was trained on."""

from __future__ import annotations

import json

import pytest

import tiny
import zishu
from train.test_train import make_config
from zishu.annotations import read_annotations
from zishu.cli import run
from zishu.errors import InputError
from zishu.train.adapt import Adaptation, adapt
from zishu.train.adapt_data import AdaptOptions, sure_tree
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
    options = AdaptOptions(words=words, model=str(folder / "run"), style="b", epochs=30)
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
    trees = read_annotations(tmp_path / "new" / "data" / "sure.conllu").trees
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
    report = Adaptation("hk", {}, (), {"before": {"lf": 60.0}, "after": {"lf": 59.0}}, {"gsd": {"lf": 80.0}})
    assert [line.split(" ")[0] for line in report.warnings] == ["on", "on"]
    assert "in style gsd only 80.0 %" in report.warnings[0]
    fine = Adaptation("hk", {}, (), {"before": {"lf": 60.0}, "after": {"lf": 61.0}}, {"gsd": {"lf": 95.0}})
    assert not fine.warnings


def test_a_lexicon_needs_text():
    with pytest.raises(InputError, match="a lexicon only works together with raw text"):
        AdaptOptions(words=("x",), lexicon="y")
