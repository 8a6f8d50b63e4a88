"""Models in 8 bits: every product with weights and no other, nearly the same scores, each sentence by itself."""

from __future__ import annotations

import shutil
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pytest

torch = pytest.importorskip("torch")
onnx = pytest.importorskip("onnx")

import tiny  # noqa: E402
from zishu.model.runtime import load_model  # noqa: E402
from zishu.train.config import load_config  # noqa: E402
from zishu.train.data import TrainingTree  # noqa: E402
from zishu.train.export import export_model  # noqa: E402
from zishu.train.exported import read_weights  # noqa: E402
from zishu.train.initial import new_network  # noqa: E402
from zishu.train.quantise import quantise  # noqa: E402

if TYPE_CHECKING:
    from pathlib import Path

_LAYERS = 2
_SMALL = ("pretrained=", "layers=2", "hidden=32", "heads=4", "feed_forward=64", "bigram_min_count=1")
_CHARS = [tree.chars for tree in tiny.TREES]


@pytest.fixture(
    scope="module",
    params=[
        ("top=0", "activation=relu"),
        ("top=16", "activation=relu"),
        ("top=0", "activation=gelu", "neighbours=false"),
    ],
)
def folders(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return the folders of a model before and after."""
    config = load_config("configs/default.toml", [f"encoder.{setting}" for setting in _SMALL + request.param])
    torch.manual_seed(1)
    network = new_network(config, [*map(TrainingTree, tiny.TREES)])
    for parameter in network.parameters():
        if not parameter.any():  # biases and biaffine weights start as zeros
            torch.nn.init.normal_(parameter, std=0.3)
        elif (parameter == 1).all():  # the exporter would store equal weights once
            torch.nn.init.uniform_(parameter, 0.5, 1.5)
    place = tmp_path_factory.mktemp("quantise")
    export_model(network, place / "float32")
    shutil.copytree(place / "float32", place / "int8")
    quantise(place / "int8", {"": _CHARS})
    return place / "float32", place / "int8"


def _operators(path: Path) -> Counter[str]:
    return Counter(node.op_type for node in onnx.load(str(path)).graph.node)


def test_products_with_weights_are_in_8_bits_and_have_their_bias(folders: tuple[Path, Path]) -> None:
    float32, int8 = folders
    encoder, scorer, labels = (_operators(int8 / f"{name}.onnx") for name in ("encoder", "scorer", "labels"))
    # The projection of embeddings, the neighbours, and in each layer six products; attention has two others.
    neighbours = _operators(float32 / "encoder.onnx")["Pad"] > 0
    assert encoder["MatMulIntegerToFloat"] == 1 + neighbours + 6 * _LAYERS
    assert encoder["MatMul"] == 2 * _LAYERS
    assert "LSTM" not in encoder
    # Four projections, tags, and the weights of two roles; then the two products of dependents and heads.
    assert scorer["MatMulIntegerToFloat"] == 7
    assert scorer["MatMul"] == 2
    # The dependents with all labels; then with the heads.
    assert labels["MatMulIntegerToFloat"] == labels["MatMul"] == 1
    assert "DequantizeLinear" not in encoder + scorer + labels
    for name in ("encoder", "scorer", "labels"):
        products = [
            node
            for node in onnx.load(str(int8 / f"{name}.onnx")).graph.node
            if node.op_type == "MatMulIntegerToFloat"
        ]
        assert all(len(node.input) == 7 and node.input[6] for node in products)


def test_scores_stay_nearly_the_same(folders: tuple[Path, Path]) -> None:
    before, after = (load_model(folder).networks.run(_CHARS) for folder in folders)
    for name in ("inter", "intra", "upos", "label_dep", "label_head"):
        wanted, found = (
            np.concatenate(
                [
                    rows[: len(chars) + 1, ..., : len(chars) + 1].ravel()
                    for rows, chars in zip(getattr(outputs, name), _CHARS, strict=True)
                ]
            )
            for outputs in (before, after)
        )
        assert 0 < np.abs(found - wanted).max() < 0.1 * np.abs(wanted).max()


def test_labels_stay_nearly_the_same(folders: tuple[Path, Path]) -> None:
    networks = [load_model(folder).networks for folder in folders]
    ends = [getattr(networks[0].run(_CHARS), name)[0] for name in ("label_dep", "label_head")]
    before, after = (np.exp(network.score_labels(*ends)) for network in networks)
    assert 0 < np.abs(after - before).max() < 0.1


def test_a_sentence_does_not_depend_on_its_batch(folders: tuple[Path, Path]) -> None:
    networks = load_model(folders[1]).networks
    together = networks.run(_CHARS)
    for b, chars in enumerate(_CHARS):
        alone = networks.run([chars])
        n = len(chars) + 1
        np.testing.assert_allclose(together.inter[b, :n, :n], alone.inter[0], rtol=1e-4, atol=1e-4)


def test_weights_are_read_back(folders: tuple[Path, Path]) -> None:
    before, after = map(read_weights, folders)
    assert before.keys() == after.keys()
    for name, wanted in before.items():
        assert after[name].shape == wanted.shape
        # Half a step of the scale, which is that of the largest weight of a channel.
        assert (after[name] - wanted).abs().max() <= wanted.abs().max() / 120
