"""Pre-training on a handful of tagged sentences: it learns, resumes, and gives `zishu train` what it needs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import tiny
from zishu.cli import run
from zishu.cli.config import bundled_configs
from zishu.errors import ConfigError, FormatError
from zishu.model.features import number
from zishu.model.vocabulary import bigrams
from zishu.train.config import (
    Config,
    DataConfig,
    EncoderConfig,
    OptimiserConfig,
    PretrainConfig,
    RunConfig,
    load_config,
)
from zishu.train.encoders import Topped, build_encoder
from zishu.train.exported import load_pretrained, read_weights
from zishu.train.initial import load_initial
from zishu.train.loop import train
from zishu.train.pretrain import LAST, Pretraining, pretrain
from zishu.train.tagged_text import PairTable, read_tagged_text

CONFIGS = Path(__file__).parents[2] / "configs"
_TEXT = """上海/ns 计划/n 发展/vn 金融业/n 。/x
我们/r 在/p 图书馆/n 看书/v 。/x
他/r 说/v 1/2/m 的/uj 人/n 来/v 了/ul
"""


def _config(folder: Path, text: str = _TEXT * 100, **pretraining: object) -> Config:
    (folder / "text.txt").write_text(text, encoding="utf-8")
    treebank = tiny.write(folder / "train.conllu")
    return Config(
        name="tiny",
        data=DataConfig(train=treebank, dev=treebank),
        encoder=EncoderConfig(
            kind="transformer",
            char_width=16,
            bigram_width=8,
            layers=1,
            hidden=16,
            heads=2,
            feed_forward=32,
            dropout=0.0,
            embedding_dropout=0.0,
            pretrained=str(folder / "encoder"),
        ),
        pretrain=PretrainConfig(
            text=str(folder / "text.txt"),
            min_count=2,
            batch_chars=60,
            learning_rate=0.01,
            dropout=0.0,
            **pretraining,
        ),  # type: ignore[arg-type]
        optimiser=OptimiserConfig(epochs=1, batch_chars=100),
        run=RunConfig(directory=str(folder / "run"), threads=1, checkpoint_seconds=0),
    )


def test_corpus(tmp_path: Path) -> None:
    config = _config(tmp_path, _TEXT * 2, bigrams=5)
    corpus = read_tagged_text(config)
    assert corpus.lengths.tolist() == [10, 9, 9] * 2
    batch = corpus.batch(torch.tensor([0, 2]).numpy())
    assert [corpus.chars.symbols[k] for k in batch["chars"][1]][1:] == [*"他说1/2的人来了", "<pad>"]
    assert batch["places"][0].tolist() == [-100, 0, 2, 0, 2, 0, 2, 0, 1, 2, 3]  # B E B E B E B M E S
    assert corpus.tags[batch["tags"][0][1]] == "ns"
    assert batch["lengths"].tolist() == [10, 9]
    assert "昨" in corpus.chars.symbols  # the text does not have it, but the treebank does


def test_long_sentences_are_read_in_pieces(tmp_path: Path) -> None:
    corpus = read_tagged_text(_config(tmp_path, _TEXT, longest=4))
    assert max(corpus.lengths) <= 4
    assert sum(corpus.lengths) == 28


@pytest.mark.parametrize("line", ["上海 计划/v", "/v", "上海/"])
def test_bad_line(tmp_path: Path, line: str) -> None:
    with pytest.raises(FormatError, match=r"text.txt:2: .* expected a word, a slash and a tag"):
        read_tagged_text(_config(tmp_path, f"他/r\n{line}\n"))


def test_it_learns_and_train_starts_from_it(tmp_path: Path) -> None:
    config = _config(tmp_path)
    heard: list[dict[str, float]] = []
    folder = pretrain(config, report=lambda *told: heard.append(told[-1]))
    assert heard[-1]["places"] < 0.7 * heard[0]["places"]
    assert heard[-1]["hidden"] < heard[0]["hidden"]
    assert not (folder / LAST).exists()

    weights, chars, pairs = load_pretrained(str(folder))
    assert pairs is not None
    train(config)
    model = json.loads((tmp_path / "run/model/chars.json").read_text(encoding="utf-8"))
    assert tuple(model["symbols"]) == chars.symbols
    assert weights["embeddings.chars.weight"].shape == (len(chars), 16)


@pytest.mark.parametrize("objective", ["masked", "replaced"])
@pytest.mark.parametrize("whole_words", [False, True])
def test_objectives_learn_from_the_text_alone(tmp_path: Path, objective: str, whole_words: bool) -> None:
    config = _config(
        tmp_path, objective=objective, whole_words=whole_words, word_weight=0.0, optimiser="muon", mask=0.3
    )
    heard: list[dict[str, float]] = []
    pretrain(config, report=lambda *told: heard.append(told[-1]))
    assert set(heard[0]) == ({"hidden", "replaced"} if objective == "replaced" else {"hidden"})
    assert all(heard[-1][name] < heard[0][name] for name in heard[0])


def test_whole_words_are_hidden_together(tmp_path: Path) -> None:
    config = _config(tmp_path, whole_words=True, mask=0.5)
    text = read_tagged_text(config)
    network = Pretraining(config, text)
    batch = text.batch(torch.arange(60).numpy())
    hidden = network._choose(batch["places"])
    inner = (batch["places"] == 1) | (batch["places"] == 2)  # M and E share the fate of the character before
    before = torch.cat((hidden[:, :1], hidden[:, :-1]), dim=1)
    assert bool((hidden == before)[inner].all())
    inside = batch["places"] >= 0
    assert 0.4 < float(hidden[inside].float().mean()) < 0.6


def test_pairs_are_those_that_the_parser_looks_up(tmp_path: Path) -> None:
    text = read_tagged_text(_config(tmp_path, bigrams=8))
    assert text.pairs is not None
    batch = text.batch(torch.arange(3).numpy())
    found = PairTable(text.chars, text.pairs)(batch["chars"])
    for row, chars, length in zip(found, batch["chars"], batch["lengths"], strict=True):
        symbols = [text.chars.symbols[k] for k in chars[1 : length + 1]]
        assert row[1 : length + 1].tolist() == number(symbols, text.chars, text.pairs)[1]
        assert int(row[0]) == text.pairs.bos
    masked = batch["chars"].clone()
    masked[0, 2] = text.chars.unknown
    assert PairTable(text.chars, text.pairs)(masked)[0, 2:4].tolist() == [text.pairs.unknown] * 2


def test_it_continues_from_another_encoder(tmp_path: Path) -> None:
    first = pretrain(_config(tmp_path))
    weights, chars, _ = load_pretrained(str(first))
    config = _config(tmp_path, "新/a 字/n 。/x\n" * 40, initial=str(first), steps=1)
    config = replace(
        config,
        pretrain=replace(config.pretrain, learning_rate=1e-9),
        encoder=replace(config.encoder, pretrained=str(tmp_path / "second")),
    )
    again, same_chars, _ = load_pretrained(str(pretrain(config)))
    assert same_chars.symbols == chars.symbols  # "新" stays unknown: the embeddings keep their numbers
    assert all(torch.allclose(weights[name], again[name], atol=1e-3) for name in weights)


def test_bfloat16_learns_like_float32(tmp_path: Path) -> None:
    losses = {}
    for precision in ("float32", "bfloat16"):
        folder = tmp_path / precision
        folder.mkdir()
        config = _config(folder)
        heard: list[dict[str, float]] = []
        config = replace(config, run=replace(config.run, precision=precision))
        pretrain(config, report=lambda *told, heard=heard: heard.append(told[-1]))
        losses[precision] = heard[-1]
    for name, loss in losses["float32"].items():
        assert losses["bfloat16"][name] == pytest.approx(loss, rel=0.1, abs=0.02)


def test_resume_equals_an_unbroken_run(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    whole, _, _ = load_pretrained(str(pretrain(_config(tmp_path / "a"))))

    class Stop(Exception):
        pass

    def stop(step: int, *_: object) -> None:
        raise Stop

    config = _config(tmp_path / "b")
    with pytest.raises(Stop):
        pretrain(config, report=stop)
    assert (
        tmp_path / "b" / "encoder" / LAST
    ).exists()  # otherwise the second run would start from the beginning
    with pytest.raises(ConfigError, match="differs"):
        pretrain(replace(config, pretrain=replace(config.pretrain, learning_rate=0.02)), resume=True)
    # Settings of the parser or the machine may change.
    encoder = replace(config.encoder, top=8, dropout=0.5)
    config = replace(config, encoder=encoder, run=replace(config.run, checkpoint_seconds=60))
    resumed, _, _ = load_pretrained(str(pretrain(config, resume=True)))
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)


def test_what_is_finished_is_neither_done_again_nor_overwritten(tmp_path: Path) -> None:
    config = _config(tmp_path, _TEXT * 2)
    folder = pretrain(config)
    before = (folder / "weights.safetensors").read_bytes()
    assert pretrain(replace(config, seed=1), resume=True) == folder
    with pytest.raises(ConfigError, match="holds a finished encoder"):
        pretrain(replace(config, seed=1))
    assert (folder / "weights.safetensors").read_bytes() == before


def test_a_device_that_it_cannot_use_is_refused(tmp_path: Path) -> None:
    config = _config(tmp_path)
    with pytest.raises(ConfigError, match=r"run\.device: cuda:7"):
        pretrain(replace(config, run=replace(config.run, device="cuda:7")))


def test_small_numbers_are_numbers_again_afterwards(tmp_path: Path) -> None:
    pretrain(_config(tmp_path, _TEXT * 2))
    assert float(torch.tensor(1e-40) * 0.5) > 0


def test_needs_a_text_and_a_folder(tmp_path: Path) -> None:
    config = _config(tmp_path)
    with pytest.raises(ConfigError, match=r"pretrain\.text"):
        pretrain(replace(config, pretrain=PretrainConfig()))
    with pytest.raises(ConfigError, match="zishu pretrain"):
        train(config)


@pytest.mark.parametrize("name", ["default", "fast"])
def test_the_encoder_of_a_bundled_model_reads_as_the_model_does_in_its_first_style(name: str) -> None:
    config = load_config(CONFIGS / f"{name}.toml")
    weights, chars, pairs = load_pretrained(name)
    encoder = build_encoder(config.encoder, chars, pairs, weights=weights).eval()
    nothing = ["data.train={gsd = 'x'}", "data.dev=", "data.weights={}", "teacher.model=", "teacher.text="]
    further = load_config(CONFIGS / f"{name}.toml", [f"initial={name}", *nothing])
    network = load_initial(further, [])
    assert network.vocabulary.symbols == chars.symbols
    assert isinstance(encoder, Topped)
    assert isinstance(network.encoder, Topped)
    sentences = [list("上海计划发展金融业。"), list("他来了")]
    lengths = torch.tensor([len(sentence) for sentence in sentences])
    ids = _padded([[chars.bos, *chars.ids(sentence)] for sentence in sentences], chars.pad)
    pair_ids = None
    if pairs:
        pair_ids = _padded([[pairs.bos, *pairs.ids(bigrams(sentence))] for sentence in sentences], pairs.pad)
    first = torch.zeros(2, dtype=torch.long)
    found = encoder.base(ids, lengths, pair_ids)
    expected = network.eval().encoder.base(ids, lengths, pair_ids, first)
    inside = torch.arange(ids.shape[1]) <= lengths[:, None]
    assert (found - expected)[inside].abs().max() < 1e-4
    # The test is not trivial: the two sentences have different encodings.
    assert (found[0, 1] - found[1, 1]).abs().max() > 0.1


def _padded(rows: list[list[int]], pad: int) -> torch.Tensor:
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[pad] * (longest - len(row))] for row in rows])


def test_training_starts_from_the_encoder_of_a_trained_model(tmp_path: Path) -> None:
    """The new treebank need not have the model's styles, relations or tags."""
    config = replace(_config(tmp_path), optimiser=OptimiserConfig(epochs=2, batch_chars=100))
    bare = replace(config.encoder, pretrained="", bigram_min_count=1)
    treebank = {"a": (str(tmp_path / "train.conllu"),)}
    first = replace(
        config,
        data=DataConfig(train=treebank, dev=treebank),
        encoder=replace(bare, top=8),
        run=replace(config.run, directory=str(tmp_path / "first")),
    )
    train(first)
    again = replace(config, encoder=replace(bare, top=8, pretrained=str(tmp_path / "first")))
    train(replace(again, optimiser=replace(config.optimiser, learning_rate=1e-9, encoder_learning_rate=1e-9)))
    old = read_weights(tmp_path / "first" / "model")
    new = read_weights(tmp_path / "run" / "model")
    assert not any(name.endswith("styles.weight") for name in new)
    for name in ("encoder.base.project.weight", "encoder.base.blocks.0.feed.0.weight"):
        assert torch.allclose(old[name], new[name], atol=1e-4), name
    name = "encoder.top.forwards.0.weight_ih_l0"
    assert not torch.allclose(old[name], new[name], atol=1e-2)
    with pytest.raises(ConfigError, match="is a trained model: choose another folder"):
        pretrain(again)


def test_a_missing_encoder_is_one_line_that_helps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    tiny.write(tmp_path / "train.conllu")
    data = ["--set", "data.train=train.conllu", "--set", "data.dev=train.conllu"]
    assert run(["train", str(CONFIGS / "default.toml"), *data]) == 2
    [line] = capfd.readouterr().err.splitlines()
    assert "no encoder in encoders/base" in line
    for advice in ("make encoder TEXT=", "--set encoder.pretrained=default", "latent-c2f-transformer"):
        assert advice in line
    assert "latent-c2f-transformer" in bundled_configs()
