"""Learn from full and partial trees together, and continue from an exported model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import tiny
from tiny_training import make_config, read_lines
from zishu.errors import ConfigError, InputError
from zishu.model.files import find_model
from zishu.model.runtime import load_model
from zishu.train.checkpoint import BEST, load_checkpoint, under
from zishu.train.config import config_from_dict
from zishu.train.data import read_treebank
from zishu.train.evaluation import TorchNetworks
from zishu.train.exported import read_weights
from zishu.train.initial import load_initial
from zishu.train.loop import train


@pytest.fixture(scope="module")
def treebank(tmp_path_factory):
    folder = tmp_path_factory.mktemp("treebank")
    tiny.write(folder / "all.conllu")
    tiny.write(folder / "projective.conllu")
    tiny.write(folder / "first.conllu", tiny.TREES[:1])
    words = "\n".join(" ".join(tree.forms) for tree in tiny.TREES)
    (folder / "words.txt").write_text(words, encoding="utf-8")
    return folder


def test_words_alone_teach_words(treebank, tmp_path):
    data = {"train": str(treebank / "first.conllu"), "partial": str(treebank / "words.txt")}
    train(make_config(treebank, tmp_path, data=data))
    last = read_lines(tmp_path / "metrics.jsonl")[-1]["dev"]
    assert last["seg"] == 100
    assert last["lf"] < 100


def test_all_knowledge_together_teaches_everything(treebank, tmp_path):
    # The heads of odd words in one file, those of even words in another: neither has a tree.
    for parity in (0, 1):
        lines = (treebank / "all.conllu").read_text(encoding="utf-8").splitlines()
        rows = []
        for line in lines:
            columns = line.split("\t")
            if len(columns) == 10 and int(columns[0]) % 2 == parity:
                columns[6] = columns[7] = "_"
            rows.append("\t".join(columns))
        (tmp_path / f"{parity}.conllu").write_text("\n".join(rows) + "\n", encoding="utf-8")
    data = {"train": {"a": str(treebank / "first.conllu")}, "dev": {"a": str(treebank / "projective.conllu")},
            "partial": {"a": [str(tmp_path / "0.conllu"), str(tmp_path / "1.conllu")]}}  # fmt: skip
    scores = train(make_config(treebank, tmp_path / "run", data=data))
    assert scores["dev-a.lf"] == 100


def test_a_weight_of_nothing_leaves_partial_trees_out(treebank, tmp_path):
    data = {"train": str(treebank / "first.conllu"), "partial": str(treebank / "words.txt")}
    train(make_config(treebank, tmp_path, data={**data, "partial_weight": 0}))
    assert read_lines(tmp_path / "metrics.jsonl")[-1]["dev"]["seg"] < 100


def test_contradictions_are_named_and_left_out(treebank, tmp_path, capfd):
    row = "{}\t上海\t_\t_\t_\t_\t_\tobj\t_\t_"
    text = f"{row.format(1)}\n{row.format(2)}\n\n1\t好\t_\t_\t_\t_\t0\troot\t_\t_\n\n"
    (tmp_path / "bad.conllu").write_text(text, encoding="utf-8")
    data = {"train": str(treebank / "first.conllu"), "partial": str(tmp_path / "bad.conllu")}
    train(make_config(treebank, tmp_path / "run", data=data, optimiser={"epochs": 1}))
    assert f"left out: {tmp_path / 'bad.conllu'}:1: no projective tree agrees" in capfd.readouterr().err


def test_partial_trees_need_a_chart_and_something_to_learn(treebank, tmp_path):
    data = {"train": str(treebank / "first.conllu"), "partial": str(treebank / "words.txt")}
    with pytest.raises(ConfigError, match=r"data\.partial is for the task 'parse'"):
        make_config(treebank, tmp_path, data=data, task="segment")
    row = "{}\t好\t_\t_\t_\t_\t_\troot\t_\t_\n"
    (tmp_path / "bad.conllu").write_text(f"{row.format(1)}{row.format(2)}\n", encoding="utf-8")
    data = {"train": "", "partial": str(tmp_path / "bad.conllu")}
    with pytest.raises(InputError, match="no training data is left"):
        train(make_config(treebank, tmp_path / "run", data=data))


@pytest.mark.parametrize("encoder", ["bilstm", "transformer"])
@pytest.mark.parametrize("compact", [False, True])
def test_the_weights_of_an_exported_model_are_those_of_the_network(encoder, compact, treebank, tmp_path):
    changes = {"export": {"compact": compact}, "optimiser": {"epochs": 2}}
    config = make_config(treebank, tmp_path, encoder=encoder, **changes)
    train(replace(config, encoder=replace(config.encoder, top=8)))
    tensors, _ = load_checkpoint(tmp_path / BEST)
    found = read_weights(tmp_path / "model")
    expected = under("model.", tensors)
    assert found.keys() == expected.keys()
    for name, weight in expected.items():
        tolerance = 0.005 * weight.abs().max().item() if compact and "embeddings" in name else 1e-6
        assert (found[name] - weight).abs().max() <= tolerance, name


@pytest.mark.parametrize("name", ["default", "fast"])
def test_bundled_models_can_be_trained_further(name):
    """Weights that are recovered from 8 bits give nearly the scores of the model itself."""
    folder = find_model(name)
    model = load_model(folder)
    trained = config_from_dict({**_known_sections(model.settings.training["config"]), "initial": str(folder)})
    network = load_initial(trained, [])
    sentences = [tuple("上海计划发展金融业。"), tuple("他们昨天已经离开北京了")]
    own = TorchNetworks(network.eval(), 0).run(sentences)
    theirs = model.networks.run(sentences)
    for b, sentence in enumerate(sentences):
        inside = slice(1, len(sentence) + 1)
        a, b_ = (outputs.inter[b, inside, inside] for outputs in (own, theirs))
        assert np.corrcoef(a.ravel(), b_.ravel())[0, 1] > 0.99
        tags = [outputs.upos[b, inside].argmax(-1) for outputs in (own, theirs)]
        assert (tags[0] == tags[1]).mean() > 0.9


def _known_sections(config):
    kept = {key: config[key] for key in ("name", "structure", "encoder", "scorer")}
    return {**kept, "data": {"train": {"gsd": "x"}, "dev": ""}}


def test_new_styles_and_relations_are_added_to_a_model(treebank, tmp_path):
    files = {"a": str(treebank / "all.conllu")}
    first = make_config(treebank, tmp_path / "first", data={"train": files, "dev": files})
    train(first)
    renamed = tuple(
        replace(tree, deprels=tuple("obj:new" if label == "obj" else label for label in tree.deprels))
        for tree in tiny.TREES
    )
    more = {"b": tiny.write(tmp_path / "more.conllu", renamed)}
    config = make_config(
        treebank,
        tmp_path / "second",
        data={"train": more, "dev": {**files, **more}},
        initial=str(tmp_path / "first" / "model"),
        optimiser={"epochs": 30},
    )
    network = load_initial(config, read_treebank(config)[0])
    assert network.settings.styles == ("a", "b")
    assert network.settings.labels[-1] == "obj:new"
    styles = network.encoder.embeddings.styles.weight
    assert torch.equal(styles[0], styles[1])
    scores = train(config)
    assert scores["dev-b.lf"] == 100
    assert load_model(tmp_path / "second" / "model").settings.styles == ("a", "b")


def test_an_initial_folder_without_weights_is_named(treebank, tmp_path):
    config = make_config(treebank, tmp_path, initial=str(tmp_path / "nowhere"))
    with pytest.raises(ConfigError, match="neither a finished run"):
        load_initial(config, [])
