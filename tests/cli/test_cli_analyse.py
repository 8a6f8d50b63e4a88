"""`zishu analyse`: trained models and a gold file in, tables, JSON and figures out."""

from __future__ import annotations

import json
import re
import shutil
import sys

import pytest

import tiny
from zishu.analysis.predictions import Predictions
from zishu.analysis.structures import read_drawing
from zishu.analysis.study import study
from zishu.cli import run
from zishu.cli.analyse import print_study

WIST = """\
1\t发\t0\troot
2\t展\t1\tcoo

1\t金\t2\tatt
2\t融\t3\tatt
3\t业\t0\troot

1\t国\t2\tatt
2\t家\t0\troot
"""
ENCODER = {"kind": "bilstm", "char_width": 24, "bigram_width": 0, "layers": 1, "hidden": 32}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Train parsers whose structures are known, a segmenter, and a parser of given words."""
    pytest.importorskip("torch")
    from zishu.train.config import config_from_dict
    from zishu.train.loop import train

    folder = tmp_path_factory.mktemp("analyse")
    gold = tiny.write(folder / "gold.conllu")
    (folder / "wist.conll").write_text(WIST, encoding="utf-8")
    systems = {
        "wavy/seed-0": {"structure": {"policy": "leftward", "roles": 1}},
        "wavy/seed-1": {"structure": {"policy": "rightward", "roles": 1}},
        "words": {"task": "parse-words", "optimiser": {"epochs": 1}},
        "segmenter": {"task": "segment", "optimiser": {"epochs": 1}},
    }
    for name, changes in systems.items():
        data = {
            "name": name.partition("/")[0],
            "data": {"train": gold, "dev": gold},
            "encoder": {**ENCODER, "dropout": 0.0, "embedding_dropout": 0.0},
            "scorer": {"arc": 32, "label": 16, "dropout": 0.0},
            "run": {"directory": str(folder / name), "threads": 1},
            **changes,
        }
        rates = {"epochs": 60, "batch_chars": 40, "learning_rate": 0.01, "beta2": 0.99, "eps": 1e-8}
        data["optimiser"] = {**rates, **changes.get("optimiser", {})}
        train(config_from_dict(data))
    return folder


def analyse(*arguments):
    return run(["analyse", *map(str, arguments)])


def test_two_seeds_of_one_system(folder, capsys):
    gold, wist = folder / "gold.conllu", folder / "wist.conll"
    models = [folder / "wavy/seed-0/model", folder / "wavy/seed-1/model"]
    capsys.readouterr()
    assert analyse(*models, gold, "--structures", wist, "--json") == 0
    printed = capsys.readouterr()
    data = json.loads(printed.out)
    assert printed.err == ""
    wavy = data["systems"]["wavy"]  # the name that both models have
    assert wavy["models"] == [str(model) for model in models]
    assert wavy["leftward"]["seeds"] == [100, 0]
    two = {tuple(row["heads"]): row for row in data["structures"]["2"]["shares"]}
    assert two[2, 0]["systems"]["wavy"]["seeds"] == [100, 0]
    assert two[0, 1]["systems"]["wavy"]["mean"] == 50
    assert two[2, 0]["reference"] == 50
    # 发展 (twice), 金融业 and 国家 are in the lexicon: leftward is right for the last two, rightward for the first.
    assert wavy["matches"]["all"]["cm"]["seeds"] == [50, 50]
    assert wavy["matches"]["all"]["m1"] == 100
    # Both know the treebank by heart.
    assert [wavy["scores"][name]["mean"] for name in ("seg", "uf", "lf", "lcm")] == [100] * 4
    assert {length: at["uas"]["mean"] for length, at in wavy["uas_by_length"].items()} == dict.fromkeys(
        ("1", "2", "3", "4+"), 100
    )


def test_structures_counted_by_type(folder, capsys):
    arguments = [
        folder / "wavy",
        folder / "gold.conllu",
        "--structures",
        folder / "wist.conll",
        "--count",
        "types",
    ]
    capsys.readouterr()
    assert analyse(*arguments, "--json") == 0
    data = json.loads(capsys.readouterr().out)
    # 发展 counts once: one of three words is rightward.
    assert data["systems"]["wavy"]["matches"]["all"]["words"] == 3
    assert data["systems"]["wavy"]["matches"]["all"]["by_seed"] == [2, 1]
    assert analyse(*arguments) == 0
    assert "distinct words of 2 characters" in capsys.readouterr().out


def test_systems_by_name_with_figures(folder, tmp_path, capsys):
    output = tmp_path / "new" / "figures"
    # The folder of a run means its model; a folder with several seeds means all of them.
    systems = [f"c2f={folder / 'wavy'}", f"left={folder / 'wavy/seed-0'}", f"words={folder / 'words/model'}"]
    options = [part for system in systems for part in ("--system", system)]
    capsys.readouterr()
    assert analyse(folder / "gold.conllu", *options, "--output", output, "--format", "png") == 0
    printed = capsys.readouterr()
    assert sorted(path.name for path in output.iterdir()) == [
        "analysis.json", "structures-2.png", "structures-3.png", "structures-4.png", "uas-by-length.png",
    ]  # fmt: skip
    data = json.loads((output / "analysis.json").read_text(encoding="utf-8"))
    assert len(data["systems"]["c2f"]["models"]) == 2
    assert data["systems"]["words"]["scores"] == {}
    assert data["reference"] is None
    lines = [line.split() for line in printed.out.splitlines()]
    assert ["○←●", "50.00", "100.00"] in [line[:3] for line in lines]
    assert ["c2f", "50.00", "50.00", "0.00", "100.00"] in lines
    assert (
        sum(len(line) == 5 for line in lines if line[:1] == ["words"]) == 2
    )  # attachment, and how many words
    assert ["c2f", *["100.00"] * 4, "2"] in lines  # scores from raw text
    # With a Chinese font there is no warning; without one there is exactly one.
    assert printed.err == "" or (printed.err.startswith("zishu: warning:") and printed.err.count("\n") == 1)


def test_an_analysis_is_shown_again_without_models(folder, tmp_path, capsys):
    arguments = [folder / "wavy", folder / "gold.conllu", "--structures", folder / "wist.conll"]
    assert analyse(*arguments, "--output", tmp_path / "first") == 0
    capsys.readouterr()
    assert analyse(*arguments) == 0
    expected = capsys.readouterr().out
    assert analyse(tmp_path / "first/analysis.json", "--output", tmp_path / "second") == 0
    assert capsys.readouterr().out == expected
    for path in (tmp_path / "first").iterdir():
        assert path.read_bytes() == (tmp_path / "second" / path.name).read_bytes()


def test_a_study_without_words_has_no_column_of_examples(folder, tmp_path, capsys):
    assert analyse(folder / "wavy", folder / "gold.conllu", "--output", tmp_path) == 0
    assert "example" in capsys.readouterr().out
    data = json.loads((tmp_path / "analysis.json").read_text(encoding="utf-8"))
    for of_length in data["structures"].values():
        for row in of_length["shares"]:
            row["example"] = ""
    (tmp_path / "bare.json").write_text(json.dumps(data), encoding="utf-8")
    assert analyse(tmp_path / "bare.json", "--table", "structures") == 0
    assert "example" not in capsys.readouterr().out


def test_kept_predictions_stand_for_their_models(folder, tmp_path, capsys):
    gold, kept = folder / "gold.conllu", tmp_path / "kept"
    options = ["--structures", folder / "wist.conll"]
    models = ["--system", f"wavy={folder / 'wavy'}", "--system", f"words={folder / 'words'}"]
    capsys.readouterr()
    assert analyse(gold, *models, *options, "--keep", kept, "--json") == 0
    expected = json.loads(capsys.readouterr().out)
    names = ["wavy/seed-0.predictions", "wavy/seed-1.predictions", "words/words.predictions"]
    assert sorted(str(path.relative_to(kept)) for path in kept.glob("*/*")) == names
    assert "发" not in "".join(path.read_text(encoding="utf-8") for path in kept.glob("*/*"))
    again = ["--system", f"wavy={kept / 'wavy'}", "--system", f"words={kept / 'words/words.predictions'}"]
    assert analyse(gold, *again, *options, "--json") == 0
    assert json.loads(capsys.readouterr().out) == expected
    # Kept predictions may stand beside a model, count as seeds of one system, and be kept again.
    assert analyse(kept / "wavy/seed-1.predictions", folder / "wavy/seed-0", gold, "--json") == 0
    assert json.loads(capsys.readouterr().out)["systems"]["wavy"]["leftward"]["seeds"] == [0, 100]
    assert analyse(kept / "wavy", gold, "--keep", tmp_path / "twice", "--json") == 0
    assert json.loads(capsys.readouterr().out)["systems"].keys() == {"wavy"}
    for name in names[:2]:
        assert (tmp_path / "twice" / name).read_bytes() == (kept / name).read_bytes()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda lines: [], "not predictions"),
        (lambda lines: ["{}", *lines[1:]], "not predictions"),
        (lambda lines: ["[", *lines[1:]], "not predictions"),
        (lambda lines: lines[:-1], "damaged"),
        (lambda lines: [*lines, lines[-1]], "damaged"),
        (lambda lines: [*lines[:-1], '{"given": {"heads": [0], "labels": [0]}}'], "damaged"),
        (lambda lines: [line.replace('"labels":[', '"labels":[99,') for line in lines], "damaged"),
        (lambda lines: [line.replace('"inside":[[', '"inside":[[0,1],[') for line in lines], "damaged"),
        (lambda lines: [line.replace('"lengths":[', '"lengths":[90,') for line in lines], "damaged"),
        (lambda lines: [lines[0].replace('"gold":"', '"gold":"0'), *lines[1:]], "another gold file"),
    ],
)
def test_predictions_that_do_not_fit(change, message, folder, tmp_path, capsys):
    assert analyse(folder / "wavy/seed-0", folder / "gold.conllu", "--keep", tmp_path, "--json") == 0
    path = tmp_path / "wavy" / "seed-0.predictions"
    lines = change(path.read_text(encoding="utf-8").splitlines())
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    capsys.readouterr()
    assert analyse(path, folder / "gold.conllu") == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_analyses_of_different_systems_are_shown_as_one(folder, tmp_path, capsys):
    gold, options = folder / "gold.conllu", ["--structures", folder / "wist.conll", "--json"]
    both = [f"left={folder / 'wavy/seed-0'}", f"right={folder / 'wavy/seed-1'}"]
    for name, system in zip(("a", "b"), both, strict=True):
        assert analyse(gold, "--system", system, *options, "--output", tmp_path / name) == 0
    capsys.readouterr()
    assert analyse(gold, "--system", both[0], "--system", both[1], *options) == 0
    expected = capsys.readouterr().out
    assert analyse(tmp_path / "a/analysis.json", tmp_path / "b/analysis.json", "--json") == 0
    assert capsys.readouterr().out == expected
    # The same system twice is an error, and so is another reference.
    assert analyse(tmp_path / "a/analysis.json", tmp_path / "a/analysis.json") == 2
    assert "two analyses contain the system left" in capsys.readouterr().err
    assert analyse(gold, "--system", both[1], "--json", "--output", tmp_path / "c") == 0
    assert analyse(tmp_path / "a/analysis.json", tmp_path / "c/analysis.json") == 2
    assert "differ in their sentences" in capsys.readouterr().err


def test_tables_as_markdown_of_what_is_wanted(folder, tmp_path, capsys):
    assert analyse(folder / "wavy", folder / "gold.conllu", "--output", tmp_path) == 0
    path = tmp_path / "analysis.json"
    capsys.readouterr()
    assert analyse(path, "--markdown", "--table", "directions", "--table", "scores") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "| :--- | ---: | ---: | ---: | ---: |"
    assert lines[2] == "| wavy | 50.00 | 50.00 | 0.00 | 100.00 |"
    assert lines[6] == "| wavy | 100.00 | 100.00 | 100.00 | 100.00 | 2 |"
    assert lines[-1].endswith("`")
    assert len(lines) == 9
    assert analyse(path, "--markdown", "--table", "structures", "--at-least", "50.1") == 0
    assert "○" not in capsys.readouterr().out


def test_without_a_font_there_is_one_warning(folder, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("matplotlib.font_manager.findSystemFonts", list)
    capsys.readouterr()
    assert analyse(folder / "wavy/seed-0", folder / "gold.conllu", "--output", tmp_path, "--json") == 0
    error = capsys.readouterr().err
    assert error.startswith("zishu: warning: no installed font has the characters")
    assert error.count("\n") == 1
    assert (tmp_path / "uas-by-length.svg").read_bytes().startswith(b"<?xml")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gold.conllu"], "give either model directories"),
        (["wavy/seed-0", "gold.conllu", "--system", "a=words"], "give either model directories"),
        (["gold.conllu", "--system", "words"], "NAME=DIR"),
        (["gold.conllu", "--system", "=words"], "NAME=DIR"),
        (["gold.conllu", "--system", "a=words,"], "NAME=DIR"),
        (["gold.conllu", "--system", "a=words", "--system", "a=wavy"], "given twice"),
        (["wavy/seed-0", "wavy/seed-0/model", "gold.conllu"], "two seeds"),
        (["nowhere", "gold.conllu"], "nowhere: neither a model directory nor a training run"),
        (["segmenter", "gold.conllu"], "segmenter predicts no trees"),
        (["wavy", "words", "gold.conllu"], "cannot mix character-level and word-level"),
        (["wavy/seed-0", "copy/seed-0", "gold.conllu", "--keep", "kept"], "folders of the same name"),
        (["words", "nowhere.conllu"], "nowhere.conllu"),
        (["words", "empty.conllu"], "no sentences"),
        (["words", "gold.conllu", "--structures", "gold.conllu"], "gold.conllu:1"),
        (["words", "gold.conllu", "--format", "png"], "--format needs --output"),
        (["words", "gold.conllu", "--json", "--markdown"], "only one of --markdown and --json"),
        (["words", "analysis.json"], "cannot be changed"),
        (["analysis.json"], "analysis.json"),
        (["words", "gold.conllu", "--output", "out", "--format", "gif"], "gif"),
        (["words", "gold.conllu", "--output", "gold.conllu"], "gold.conllu"),
    ],
)
def test_wrong_arguments_are_told_in_one_line(arguments, message, folder, capsys, monkeypatch):
    (folder / "empty.conllu").write_text("", encoding="utf-8")
    shutil.copytree(folder / "wavy", folder / "copy", dirs_exist_ok=True)
    monkeypatch.chdir(folder)
    capsys.readouterr()
    assert analyse(*arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert message in printed.err
    assert printed.err.count("\n") == 1


def test_a_missing_matplotlib_is_told_before_any_parsing(folder, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr("zishu.model.runtime.load_model", lambda path: pytest.fail("parsing has begun"))
    capsys.readouterr()
    assert analyse(folder / "words", folder / "gold.conllu", "--output", tmp_path / "out") == 1
    assert "pip install 'zishu[train]'" in capsys.readouterr().err


def test_a_terminal_gets_drawn_tables_whose_structures_can_be_read(capsys, monkeypatch):
    trees = tiny.TREES
    inside = [[(0, *range(1, length)) for length in tree.lengths] for tree in trees]
    report = study(trees, {"[x]": [Predictions("a", trees, inside, trees)]}, reference={"发展": (2, 0)})
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    print_study(report)
    text = re.sub("\x1b\\[[0-9;]*m", "", capsys.readouterr().out)
    assert "[x]" in text
    drawings = [word for word in text.split() if "●" in word]
    assert [read_drawing(word) for word in drawings] == [(2, 0), (0, 1), (0, 1, 2), (0, 1, 2, 3)]
    assert text.splitlines()[-1] == report.signature
