"""Train every system of the paper on a handful of sentences until it knows them by heart."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace
from itertools import pairwise

import numpy as np
import onnx
import pytest
import torch
from safetensors.torch import load_file

import raw_sentences as raw
import tiny
import zishu
from tiny_training import make_config, read_lines, write_treebank
from zishu.arcs import FixedArc
from zishu.cli import info
from zishu.cli.config import find_config
from zishu.errors import ConfigError, InputError
from zishu.model.calibration import calibrate
from zishu.model.features import features
from zishu.model.model import parse_trees
from zishu.model.networks import check_members
from zishu.model.runtime import load_model
from zishu.sentences import word_sentence
from zishu.train import data, loop
from zishu.train.checkpoint import Interrupted, load_checkpoint
from zishu.train.config import EncoderConfig, config_from_dict, load_config
from zishu.train.data import repeat_sentences
from zishu.train.loop import train
from zishu.tree import WordTree

# name -> settings of the system; everything else is the same for all
SYSTEMS = {
    "segmenter": {"task": "segment"},
    "treecrf": {"task": "parse-words"},
    "leftward": {"structure": {"policy": "leftward", "roles": 1}},
    "rightward": {"structure": {"policy": "rightward", "roles": 1}},
    "annotated": {"structure": {"policy": "annotated", "roles": 1}},
    "latent": {"structure": {"policy": "latent", "roles": 1}},
    "latent-c2f": {},
    "no-single-root": {"structure": {"single_root": False}},
    "no-root-as-head": {"structure": {"root_as_head": False}},
    "no-constraints": {"structure": {"single_root": False, "root_as_head": False}},
    "yan-2020": {"objective": "head-selection", "structure": {"policy": "leftward", "roles": 1}},
    "wu-2021": {"objective": "head-selection", "structure": {"policy": "annotated", "roles": 1}},
    "head-selection-c2f": {"objective": "head-selection", "structure": {"policy": "rightward"}},
    "transition": {"objective": "transition", "structure": {"policy": "leftward"}},
    "transition-annotated": {"objective": "transition", "structure": {"policy": "annotated", "beam": 1}},
    "head-selection-words": {"objective": "head-selection", "task": "parse-words"},
}


@pytest.fixture(scope="module")
def treebank(tmp_path_factory):
    return write_treebank(tmp_path_factory.mktemp("treebank"))


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_system_learns_its_treebank_by_heart(system, treebank, tmp_path):
    config = make_config(treebank, tmp_path / "run", **SYSTEMS[system])
    scores = train(config)
    lines = read_lines(tmp_path / "run" / "metrics.jsonl")
    assert len(lines) == config.optimiser.epochs
    assert lines[-1]["loss"] < min(0.1, lines[0]["loss"] / 10)
    if config.structure.single_root:
        score = {"segment": "dev.seg", "parse-words": "dev_given_words.lf"}.get(config.task, "dev.lf")
        assert scores[score] == 100
    # Without that constraint a forest also holds the trees in which a gold word falls to pieces: a model that knows
    # its treebank by heart may prefer those.
    for name in (
        "best.safetensors",
        "last.safetensors",
        "curve.png",
        "run.json",
        "result.json",
        "model/config.json",
    ):
        assert (tmp_path / "run" / name).exists()


@pytest.mark.parametrize("system", ["latent-c2f", "leftward", "treecrf", "yan-2020", "transition"])
def test_non_projective_trees_are_learned_and_produced(system, treebank, tmp_path):
    data = {"pseudo_projective": True, "dev": str(treebank / "all.conllu")}
    scores = train(make_config(treebank, tmp_path / "run", data=data, **SYSTEMS[system]))
    assert scores["dev_given_words.lf"] == 100
    model = load_model(tmp_path / "run" / "model")
    assert any("↑" in label for label in model.settings.labels)
    inputs = [raw.all_words([tree.forms for tree in tiny.ALL])]
    if system != "treecrf":
        inputs.append([raw.chars("".join(tree.forms)) for tree in tiny.ALL])
    for sentences in inputs:
        found = [sentence.tree for sentence in model.parse(sentences)]
        assert [(tree.forms, tree.heads, tree.deprels) for tree in found] == [
            (tree.forms, tree.heads, tree.deprels) for tree in tiny.ALL
        ]
        assert [tree.is_projective for tree in found] == [tree in tiny.TREES for tree in tiny.ALL]


def test_a_transition_parser_honours_words_and_says_what_it_cannot_do(treebank, tmp_path):
    train(make_config(treebank, tmp_path / "run", **SYSTEMS["transition"]))
    model = load_model(tmp_path / "run" / "model")
    [tree, *_] = tiny.TREES
    for forms in (tree.forms, tuple("".join(tree.forms)), ("".join(tree.forms),)):
        [found] = model.parse([word_sentence(forms)], confidence=True)
        assert tuple(word.form for word in found) == forms
        assert all(word.boundary_prob == 1 for word in found)
        assert 0 < found.prob <= 1
    [ranked] = model.k_best([raw.chars("".join(tree.forms))], 3)
    assert [sentence.prob for sentence in ranked] == sorted((s.prob for s in ranked), reverse=True)
    assert len({tuple((word.form, word.head) for word in sentence) for sentence in ranked}) == len(ranked) > 1
    with pytest.raises(InputError, match="cannot honour fixed arcs"):
        model.parse([replace(word_sentence(tree.forms), arcs=(FixedArc((1, 2), (2, 3)),))])
    with pytest.raises(InputError, match="a transition parser has no temperature"):
        calibrate(model, tiny.TREES)
    assert "probabilities  from its beam of 8 analyses" in re.sub(
        " {2,}", "  ", "\n".join(info.lines(info.describe(tmp_path / "run" / "model")))
    )
    with pytest.raises(InputError, match="cannot average transition parsers"):
        check_members([model.settings, model.settings])


def assert_training_is_kept(model, config, result):
    """Check that a model's settings tell people its configuration and its scores."""
    kept = dict(model.settings.training)
    assert config_from_dict({k: v for k, v in kept.pop("config").items() if v}) == config
    assert kept == result


def in_pieces(tree):
    """Return a tree in another convention: every character is a word and depends on the preceding one."""
    chars = tree.chars
    return WordTree(tuple(chars), tuple(range(len(chars))), ("root", *["flat"] * (len(chars) - 1)))


@pytest.mark.parametrize("encoder", ["bilstm", "transformer"])
def test_one_model_learns_the_conventions_of_several_styles(encoder, treebank, tmp_path):
    pieces = tuple(map(in_pieces, tiny.TREES))
    tiny.write(tmp_path / "pieces.conllu", pieces)
    files = {"whole": str(treebank / "projective.conllu"), "pieces": [str(tmp_path / "pieces.conllu")]}
    config = make_config(
        treebank,
        tmp_path / "run",
        encoder=encoder,
        data={"train": files, "dev": files, "weights": {"pieces": 1.5}},
    )
    scores = train(config)
    lines = read_lines(tmp_path / "run" / "metrics.jsonl")
    assert lines[-1]["dev"]["lf"] == pytest.approx(
        (lines[-1]["dev"]["whole.lf"] + lines[-1]["dev"]["pieces.lf"]) / 2, abs=0.01
    )
    assert scores["dev-whole.lf"] == scores["dev-pieces.lf"] == 100
    model = load_model(tmp_path / "run" / "model")
    result = json.loads((tmp_path / "run" / "result.json").read_text(encoding="utf-8"))
    assert_training_is_kept(model, config, result)
    assert model.settings.styles == ("whole", "pieces")
    found = {style: parse_trees(model.in_style(style), tiny.TREES) for style in (None, "whole", "pieces")}
    assert [tree.heads for tree in found["pieces"]] == [tree.heads for tree in pieces]
    assert [tree.forms for tree in found["whole"]] == [tree.forms for tree in tiny.TREES]
    assert found[None] == found["whole"]  # the first one is the default
    with pytest.raises(InputError, match="unknown style 'ctb': this model has whole, pieces"):
        model.in_style("ctb")
    with pytest.raises(InputError, match="a style is a string, not int"):
        model.in_style(3)


def test_a_model_without_styles_says_so(treebank, tmp_path):
    train(make_config(treebank, tmp_path / "run", optimiser={"epochs": 1}))
    model = load_model(tmp_path / "run" / "model")
    assert model.in_style(None) is model
    with pytest.raises(InputError, match="unknown style 'gsd': this model has no styles"):
        model.in_style("gsd")


def test_a_run_starts_from_another_one(treebank, tmp_path):
    first = make_config(treebank, tmp_path / "first")
    train(first)
    again = make_config(
        treebank,
        tmp_path / "second",
        initial=str(tmp_path / "first"),
        optimiser={"epochs": 1, "learning_rate": 1e-9},
    )
    assert train(again)["dev.lf"] == 100  # one step with almost no learning rate: it was right from the start
    styled = {"a": str(treebank / "all.conllu")}
    for change, message in (
        ({"initial": str(tmp_path / "nowhere")}, "neither a finished run"),
        ({"scorer": {"arc": 16}}, "do not match"),
        ({"data": {"train": styled, "dev": styled}}, "has no styles"),
    ):
        changes = {"initial": str(tmp_path / "first"), **change}
        with pytest.raises(ConfigError, match=message):
            train(make_config(treebank, tmp_path / "third", **changes))


def test_weights_repeat_sentences():
    weights = np.array([1.0, 2.0, 0.5, 2.5] * 500)
    chosen = [np.bincount(repeat_sentences(weights, seed=0, epoch=k), minlength=2000) for k in range(4)]
    for counts in chosen:
        assert set(counts[0::4]) == {1}
        assert set(counts[1::4]) == {2}
        assert set(counts[3::4]) == {2, 3}
        assert 200 < counts[2::4].sum() < 300
    assert not np.array_equal(chosen[0], chosen[1])  # a new random choice in every epoch
    again = repeat_sentences(weights, seed=0, epoch=0)
    assert np.array_equal(np.bincount(again, minlength=2000), chosen[0])


def test_training_in_bfloat16_learns_the_treebank(treebank, tmp_path):
    config = make_config(treebank, tmp_path / "run", encoder="transformer", run={"precision": "bfloat16"})
    assert train(config)["dev.lf"] == 100


@pytest.mark.parametrize("task", ["parse", "parse-words", "segment"])
def test_an_8_bit_model_parses_alike_whatever_the_batch(task, treebank, tmp_path):
    config = make_config(
        treebank,
        tmp_path / "run",
        encoder="transformer",
        task=task,
        export={"precision": "int8", "compact": True},
    )
    train(config)
    result = json.loads((tmp_path / "run" / "result.json").read_text(encoding="utf-8"))
    name = "seg" if task == "segment" else "lf"
    assert result["int8"][name] == result["float32"][name] == 100
    model = load_model(tmp_path / "run" / "model")
    assert_training_is_kept(model, config, result)
    assert model.settings.temperature > 0
    chars = [tree.chars for tree in tiny.TREES]
    together = model.networks.encode(features(chars, model.networks.chars, None))
    for k, sentence in enumerate(chars):
        alone = model.networks.encode(features([sentence], model.networks.chars, None))
        assert np.allclose(alone[0], together[k, : len(sentence) + 1], atol=1e-5)
    graph = onnx.load(tmp_path / "run" / "model" / "encoder.onnx").graph
    assert sum(node.op_type == "QuantizeLinear" for node in graph.node) >= 4


def make_bert(folder):
    """Save a tiny BERT that knows the characters of the treebank, with random weights."""
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    symbols = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    symbols += sorted({char for tree in tiny.ALL for form in tree.forms for char in form})
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(symbols) + "\n", encoding="utf-8")
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}', encoding="utf-8")
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    rates = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    bert = BertConfig(vocab_size=len(symbols), max_position_embeddings=32, **sizes, **rates)
    BertModel(bert).save_pretrained(folder)
    return str(folder)


@pytest.mark.parametrize("rate", [0.0, 0.1])
def test_styles_may_learn_at_a_rate_of_their_own(rate, treebank, tmp_path):
    files = dict.fromkeys("ab", str(treebank / "projective.conllu"))
    rates = {"epochs": 1, "learning_rate": 1e-9, "style_learning_rate": rate}
    config = make_config(treebank, tmp_path / "run", data={"train": files, "dev": files}, optimiser=rates)
    train(config)
    weights, _ = load_checkpoint(tmp_path / "run" / "last.safetensors")
    [styles] = [
        weight for name, weight in weights.items() if name == "model.encoder.embeddings.styles.weight"
    ]
    assert (styles.abs().max() > 0.01) == bool(rate)  # they start at zero


@pytest.mark.parametrize("system", ["latent-c2f", "leftward", "treecrf"])
def test_a_pretrained_encoder_is_fine_tuned(system, treebank, tmp_path):
    encoder = EncoderConfig(kind="bert", pretrained=make_bert(tmp_path / "bert"), window_overlap=8)
    rates = {"encoder_learning_rate": 0.005}
    config = make_config(treebank, tmp_path / "run", optimiser=rates, **SYSTEMS[system])
    train(replace(config, encoder=encoder))
    model = load_model(tmp_path / "run" / "model")
    assert parse_trees(model, tiny.TREES, given_words=True) == list(tiny.TREES)


def test_the_switches_of_a_bert_are_exported(treebank, tmp_path):
    # The exporter compares the networks that it writes, before they become 8 bits, with the trained ones.
    encoder = EncoderConfig(
        kind="bert",
        pretrained=make_bert(tmp_path / "bert"),
        window_overlap=8,
        mixed_layers=2,
        output_dropout=0.1,
        separator=False,
    )
    rates = {"encoder_learning_rate": 0.005}
    config = make_config(treebank, tmp_path / "run", optimiser=rates, export={"precision": "int8"})
    train(replace(config, encoder=encoder))
    result = json.loads((tmp_path / "run" / "result.json").read_text(encoding="utf-8"))
    assert result["int8"]["lf"] == result["float32"]["lf"] == 100
    model = load_model(tmp_path / "run" / "model")
    assert parse_trees(model, tiny.TREES) == list(tiny.TREES)
    mix = load_checkpoint(tmp_path / "run" / "last.safetensors")[0]["model.encoder.core.mix.weights"]
    assert mix.abs().sum() > 0  # it was trained


def test_the_most_accurate_parser_is_trained_and_exported_in_8_bits(treebank, tmp_path):
    path = find_config("accurate")
    files = [f"data.train={tmp_path / 'train.conllu'}", f"data.dev={treebank / 'projective.conllu'}"]
    with pytest.raises(InputError, match=r"--set encoder\.pretrained=FOLDER"):
        load_config(path, files)
    # More characters than this BERT reads at once.
    long = WordTree(("上海",) * 20, tuple(range(20)), ("root", *("conj",) * 19), ("PROPN",) * 20)
    tiny.write(tmp_path / "train.conllu", (*tiny.TREES, long))
    settings = [f"encoder.pretrained={make_bert(tmp_path / 'bert')}", "encoder.window_overlap=8"]
    settings += [f"run.directory={tmp_path / 'run'}", "optimiser.epochs=1"]
    train(load_config(path, [*files, *settings]))
    result = json.loads((tmp_path / "run" / "result.json").read_text(encoding="utf-8"))
    assert result["float32"].keys() == result["int8"].keys()
    operators = [node.op_type for node in onnx.load(tmp_path / "run" / "model" / "encoder.onnx").graph.node]
    assert (
        operators.count("MatMulIntegerToFloat") >= 2 * 6
    )  # in each layer four of attention, two feed-forward
    parser = zishu.load(tmp_path / "run" / "model")
    for text in ("上海计划发展金融业。", "上海" * 20):
        (sentence,) = parser(text)
        assert "".join(word.form for word in sentence) == text


@pytest.mark.slow
@pytest.mark.skipif(
    "ZISHU_TEST_BERT" not in os.environ, reason="ZISHU_TEST_BERT names no folder of a Chinese BERT"
)
def test_a_real_bert_learns_in_a_few_steps(treebank, tmp_path):
    config = make_config(treebank, tmp_path / "run", optimiser={"epochs": 20, "learning_rate": 0.001})
    encoder = EncoderConfig(kind="bert", pretrained=os.environ["ZISHU_TEST_BERT"])
    assert train(replace(config, encoder=encoder))["dev.lf"] == 100


@pytest.mark.parametrize("encoder", ["bilstm", "transformer"])
def test_the_exported_model_gives_the_gold_trees_without_torch(encoder, treebank, tmp_path):
    config = make_config(treebank, tmp_path / "run", encoder=encoder)
    train(config)
    model = load_model(tmp_path / "run" / "model")
    assert parse_trees(model, tiny.TREES) == list(tiny.TREES)
    assert model.settings.temperature < 1  # it knows its dev set by heart
    assert parse_trees(model, tiny.TREES, given_words=True) == list(tiny.TREES)


def test_a_pipeline_is_one_run_and_one_model(treebank, tmp_path):
    config = make_config(treebank, tmp_path / "run", task="pipeline")
    scores = train(config)
    assert scores["dev.seg"] == scores["dev.lf"] == 100
    model = load_model(tmp_path / "run" / "model")
    assert parse_trees(model, tiny.TREES) == list(tiny.TREES)


def test_annotated_words_get_their_structure(treebank, tmp_path):
    config = make_config(treebank, tmp_path / "run", structure={"policy": "annotated", "roles": 2})
    train(config)
    model = load_model(tmp_path / "run" / "model")
    (analysis,) = model.parse([word_sentence(tiny.TREES[0].forms)])
    # 上海 计划 发展 金融业 。
    assert tuple(word.char_heads for word in analysis[2:4]) == ((0, 1), (3, 1, 0))


def test_averaged_weights_are_what_is_scored_and_exported(treebank, tmp_path):
    config = make_config(treebank, tmp_path / "run", optimiser={"averaging": 0.9, "epochs": 80})
    assert train(config)["dev.lf"] == 100
    tensors, _ = load_checkpoint(tmp_path / "run" / "last.safetensors")
    averaged = {k.removeprefix("average.") for k in tensors if k.startswith("average.")}
    assert averaged
    assert any(not torch.equal(tensors[f"average.{k}"], tensors[f"model.{k}"]) for k in averaged)


def test_parts_of_speech_are_optional(treebank, tmp_path):
    scores = train(make_config(treebank, tmp_path / "run", scorer={"upos": False}))
    assert scores["dev.lf"] == 100
    assert "dev.upos" not in scores
    (found,) = parse_trees(load_model(tmp_path / "run" / "model"), tiny.TREES[:1])
    assert found.upos is None


def with_tags(tree):
    """Add XPOS, features and lemmas that follow from the word."""
    assert tree.upos is not None
    return replace(
        tree,
        xpos=tuple(tag[:2] for tag in tree.upos),
        feats=tuple("Number=Plur" if form.endswith("们") else "_" for form in tree.forms),
        lemma=tuple(form.removesuffix("们") for form in tree.forms),
    )


def test_all_tag_columns_are_learned_where_the_treebank_has_them(treebank, tmp_path):
    rich = tuple(map(with_tags, tiny.TREES))
    tiny.write(tmp_path / "rich.conllu", rich)
    files = {"rich": str(tmp_path / "rich.conllu"), "plain": str(treebank / "projective.conllu")}
    config = make_config(treebank, tmp_path / "run", data={"train": files, "dev": files})
    scores = train(config)
    assert scores["dev-rich.upos"] == scores["dev-rich.xpos"] == scores["dev-rich.feats"] == 100
    assert scores["dev-rich.lemma"] == 100
    assert "dev-plain.xpos" not in scores
    model = load_model(tmp_path / "run" / "model")
    assert model.settings.xpos
    assert set(model.settings.feats) == {"_", "Number=Plur"}
    assert set(model.settings.lemma) == {"0:0", "0:1"}
    assert model.settings.absent_tags == {"plain": ["xpos", "feats", "lemma"]}
    assert parse_trees(model, rich) == list(rich)
    assert parse_trees(model.in_style("plain"), rich) == list(tiny.TREES)  # without the other columns
    assert parse_trees(model.in_style("plain").in_style("rich"), rich) == list(rich)


def test_tag_columns_can_be_left_out_and_added_to_another_run(treebank, tmp_path):
    tiny.write(tmp_path / "rich.conllu", tuple(map(with_tags, tiny.TREES)))
    data = {"train": str(tmp_path / "rich.conllu"), "dev": str(tmp_path / "rich.conllu")}
    config = make_config(treebank, tmp_path / "first", data=data, scorer={"tag_weight": 0.0})
    scores = train(config)
    assert "dev.upos" in scores
    assert "dev.xpos" not in scores
    assert load_model(tmp_path / "first" / "model").settings.tags.keys() == {"upos"}
    second = make_config(treebank, tmp_path / "second", data=data, initial=str(tmp_path / "first"))
    scores = train(second)
    assert scores["dev.lf"] == scores["dev.xpos"] == scores["dev.lemma"] == 100


def test_non_projective_sentences_are_left_out_and_counted(treebank, tmp_path, capfd):
    train(make_config(treebank, tmp_path / "run", optimiser={"epochs": 1}))
    assert "left out: 1 non-projective" in capfd.readouterr().err


def test_a_run_goes_on_only_with_its_own_configuration(treebank, tmp_path):
    config = make_config(treebank, tmp_path / "run", optimiser={"epochs": 2})
    train(config)
    (tmp_path / "run" / "result.json").unlink()
    with pytest.raises(InputError, match="configuration differs"):
        train(replace(config, seed=1), resume=True)


@pytest.mark.parametrize("policy", ["leftward", "rightward"])
def test_a_model_can_be_confined_to_its_chain(policy, treebank, tmp_path):
    structure = {"policy": policy, "roles": 1, "chain": True, "release_recovery": True}
    scores = train(make_config(treebank, tmp_path / "run", structure=structure))
    assert scores["dev.lf"] == 100
    model = load_model(tmp_path / "run" / "model")
    assert (model.settings.chain, model.settings.release_recovery) == (policy, True)
    assert parse_trees(model, tiny.TREES) == list(tiny.TREES)


def test_batches_can_count_words_where_words_are_given(treebank, tmp_path, monkeypatch):
    seen = []

    def deal(lengths, batch_chars, *, seed, epoch):
        seen.append(sorted(lengths.tolist()))
        return random_batches(lengths, batch_chars, seed=seed, epoch=epoch)

    random_batches = data.random_batches
    monkeypatch.setattr(data, "random_batches", deal)
    words = sorted(len(tree.forms) for tree in tiny.TREES)
    chars = sorted(len(tree.chars) for tree in tiny.TREES)
    assert words != chars
    for by_words in (False, True):
        seen.clear()
        optimiser = {"epochs": 1, "batch_by_words": by_words}
        train(make_config(treebank, tmp_path / str(by_words), task="pipeline", optimiser=optimiser))
        # The segmenter comes first, and always counts characters, also those of the non-projective sentence.
        assert seen[0] == sorted(len(tree.chars) for tree in tiny.ALL)
        assert seen[-1] == (words if by_words else chars)


def test_the_learning_rate_falls_to_zero_with_the_last_step(treebank, tmp_path, monkeypatch):
    rates, batches = [], []

    def record(optimisers, *place, **shares):
        set_rates(optimisers, *place, **shares)
        rates.append(optimisers[0].param_groups[0]["lr"])

    def deal(lengths, batch_chars, *, seed, epoch):
        # Make the number of batches per epoch vary more than it does by chance.
        dealt = random_batches(lengths, batch_chars if epoch % 2 else 10, seed=seed, epoch=epoch)
        batches.append(len(dealt))
        return dealt

    set_rates, random_batches = loop.set_learning_rates, data.random_batches
    monkeypatch.setattr(loop, "set_learning_rates", record)
    monkeypatch.setattr(data, "random_batches", deal)
    train(make_config(treebank, tmp_path / "run", optimiser={"epochs": 4, "warmup": 0.25}))
    assert len(set(batches)) > 1
    peak = rates.index(max(rates))
    falls = [before - after for before, after in pairwise(rates[peak + 1 :])]
    assert falls == pytest.approx(
        [rates[-1]] * len(falls)
    )  # the rate falls by the same amount in every step, and would next be 0
    assert rates[-1] > 0


@pytest.mark.parametrize("encoder", ["bilstm", "transformer"])
def test_two_runs_with_one_seed_are_equal_and_two_seeds_differ(encoder, treebank, tmp_path):
    runs = []
    for place, seed in (("a", 0), ("b", 0), ("c", 1)):
        config = make_config(treebank, tmp_path / place, encoder=encoder, optimiser={"epochs": 3})
        train(replace(config, seed=seed))
        runs.append([line["loss"] for line in read_lines(tmp_path / place / "metrics.jsonl")])
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


def test_ctrl_c_saves_between_two_steps(treebank, tmp_path):
    config = make_config(treebank, tmp_path / "run", optimiser={"epochs": 100_000})
    timer = subprocess.Popen(
        [sys.executable, "-c", f"import os, time; time.sleep(1.5); os.kill({os.getpid()}, 2)"]
    )
    with pytest.raises(Interrupted):
        train(config)
    timer.wait()
    _, state = load_checkpoint(tmp_path / "run" / "last.safetensors")
    assert state["position"]["step"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("encoder", ["bilstm", "transformer"])
def test_killed_at_any_moment_and_resumed_ends_as_an_unbroken_run(encoder, treebank, tmp_path):
    options = {"optimiser": {"epochs": 30}, "run": {"checkpoint_seconds": 0}}
    dropout = {"dropout": 0.2, "embedding_dropout": 0.2, "character_dropout": 0.1}
    whole = make_config(treebank, tmp_path / "whole", encoder=encoder, **options)
    train(replace(whole, encoder=replace(whole.encoder, **dropout)))
    broken = make_config(treebank, tmp_path / "broken", encoder=encoder, **options)
    broken = replace(broken, encoder=replace(broken.encoder, **dropout))
    kills = 0
    while not (tmp_path / "broken" / "result.json").exists():
        process = subprocess.Popen([sys.executable, "-c", _RUN, json.dumps(asdict(broken))])
        last = tmp_path / "broken" / "last.safetensors"
        before = last.stat().st_mtime_ns if last.exists() else 0
        # After at least one new checkpoint, kill it at an arbitrary moment.
        while process.poll() is None and not (last.exists() and last.stat().st_mtime_ns > before):
            time.sleep(0.01)
        time.sleep(0.05 + 0.13 * kills % 0.7)
        if process.poll() is None and kills < 4:
            process.send_signal(signal.SIGKILL)
            kills += 1
        process.wait(timeout=300)
    assert kills == 4
    expected, actual = (load_file(tmp_path / name / "last.safetensors") for name in ("whole", "broken"))
    assert expected.keys() == actual.keys()
    assert all(torch.equal(expected[key], actual[key]) for key in expected)
    lines = [read_lines(tmp_path / name / "metrics.jsonl") for name in ("whole", "broken")]
    assert [(a["epoch"], a["loss"], a["dev"]) for a in lines[0]] == [
        (b["epoch"], b["loss"], b["dev"]) for b in lines[1]
    ]


_RUN = """
import json, sys
from zishu.train.config import EncoderConfig, config_from_dict
from zishu.train.data import repeat_sentences
from zishu.train.loop import train
from zishu.tree import WordTree
train(config_from_dict(json.loads(sys.argv[1])), resume=True)
"""


def test_eval_scores_a_model_on_raw_text_and_on_given_words(treebank, tmp_path, capsys):
    from zishu.cli import run

    train(make_config(treebank, tmp_path / "run"))
    gold, model = str(treebank / "projective.conllu"), str(tmp_path / "run" / "model")
    for options in (
        [],
        ["--gold-words"],
        ["--decoding", "viterbi"],
        ["--gold-words", "--decoding", "viterbi"],
    ):
        assert run(["eval", gold, "--model", model, "--json", *options]) == 0
        scores = json.loads(capsys.readouterr().out)
        assert scores["lf"]["f1"] == 100
    assert run(["eval", gold]) == 2
    assert run(["eval", gold, gold, "--gold-words"]) == 2
    assert run(["eval", gold, gold, "--decoding", "mbr"]) == 2
    assert run(["eval", gold, "--model", str(treebank)]) == 2
    assert run(["eval", gold, "--model", model, "--decoding", "vanilla"]) == 2  # it has two roles
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 5
    assert "either a file of predictions or --model" in errors[0]
