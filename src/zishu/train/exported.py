"""Read the weights of an exported model, or of a pre-trained encoder, into torch.

A model directory has no checkpoint, but its networks hold all the weights. Matrices of an 8-bit model are integers times
one scale per output channel, so weights are recovered to within half a step of that scale. The same holds for compact
embeddings. A network recovered in this way gives nearly the same scores as the exported one.

The exporter keeps the path of the torch module in the names of nodes (`/encoder/base/project/MatMul`), and plain
names of weights that it does not transform. If a weight cannot be found by these names, that is an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch

from zishu.errors import ConfigError
from zishu.model.files import BIGRAMS, CHARS, CONFIG, ENCODER, LABELS, SCORER, find_model, read_json
from zishu.model.settings import read_settings
from zishu.model.vocabulary import Vocabulary
from zishu.train.checkpoint import load_checkpoint, under

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray
    from torch import Tensor

Weights = dict[str, "Tensor"]

WEIGHTS: Final = "weights.safetensors"  # of an encoder from `zishu pretrain`
LABEL_WEIGHT: Final = "label_scorer.weight"
STYLES: Final = "embeddings.styles.weight"
_OWN: Final = ("transformer", "bilstm")


def read_weights(folder: Path) -> Weights:
    """Return the weights of an exported parser of characters under the names of the torch network."""
    settings = read_settings(folder)
    if not settings.can.finds_structures or settings.beam or settings.encoder not in _OWN:
        raise ConfigError(
            f"{folder}: only a parser of characters with a chart and an encoder of Zishu's own can be trained further"
        )
    networks = {**_read_graph(folder / ENCODER), **_read_graph(folder / SCORER)}
    return _tensors({**networks, LABEL_WEIGHT: _read_labels(folder / LABELS)})


def load_pretrained(name: str) -> tuple[Weights, Vocabulary, Vocabulary | None]:
    """Return an encoder that `zishu pretrain` wrote, or that of a trained model, with its vocabularies.

    That of a model comes without the layer on top. A model with styles adds the embedding of a style to those of
    characters and bigrams. Here that of the first style is added to them once and for all, so the encoder reads every
    sentence in that style.
    """
    folder = find_model(name)
    if (folder / WEIGHTS).is_file():
        return load_checkpoint(folder / WEIGHTS)[0], *read_vocabularies(folder)
    if not (folder / CONFIG).is_file():
        raise ConfigError(
            f"encoder.pretrained: no encoder in {name}: make one (zishu pretrain, or make encoder TEXT=FOLDER), start "
            "from that of a bundled model (--set encoder.pretrained=default) or train latent-c2f-transformer, which "
            "needs none"
        )
    if read_settings(folder).encoder not in _OWN or not (folder / ENCODER).is_file():
        raise ConfigError(f"encoder.pretrained: {folder}: this model has no encoder of Zishu's own")
    weights = under("encoder.", _tensors(_read_graph(folder / ENCODER)))
    weights = under("base.", weights) or weights
    if STYLES in weights:
        style = weights.pop(STYLES)[0]
        for part in ("chars", "bigrams"):
            table = weights.get(f"embeddings.{part}.weight")
            if table is not None:
                table += style[: table.shape[1]]
                style = style[table.shape[1] :]
    return weights, *read_vocabularies(folder)


def read_vocabularies(folder: Path) -> tuple[Vocabulary, Vocabulary | None]:
    """Return the characters and bigrams of a folder; a model may have no bigrams."""
    pairs = folder / BIGRAMS
    return (
        Vocabulary.from_json(read_json(folder / CHARS)),
        Vocabulary.from_json(read_json(pairs)) if pairs.is_file() else None,
    )


def _tensors(arrays: dict[str, NDArray[np.float32]]) -> Weights:
    return {name: torch.from_numpy(np.array(value, dtype=np.float32)) for name, value in arrays.items()}


def _load(path: Path) -> tuple[Any, dict[str, NDArray[np.float32]]]:
    """Return the graph of a file and its arrays by their names."""
    import onnx  # here, because only few runs start from a model

    graph = onnx.load(str(path)).graph
    return graph, {weight.name: onnx.numpy_helper.to_array(weight) for weight in graph.initializer}


def _read_graph(path: Path) -> dict[str, NDArray[np.float32]]:
    graph, arrays = _load(path)
    found: dict[str, Any] = {}
    for name, array in arrays.items():
        table, _, part = name.rpartition(".")
        if part == "rows":  # see `zishu.train.compact`
            found[f"{table}.weight"] = array * arrays[f"{table}.scales"]
        elif part in ("weight", "bias"):
            found[name.removeprefix("network.")] = array
    roles: list[NDArray[np.float32]] = []
    products: dict[str, list[Any]] = {}
    for node in graph.node:
        if node.op_type == "LSTM":
            found |= _lstm(_module(node), [arrays[name][0] for name in node.input[1:4]])
        elif node.op_type == "DynamicQuantizeLSTM":
            found |= _quantised_lstms(_module(node), node, arrays)
        elif _is_product(node, arrays) and _module(node) == "arcs":
            roles.append(_with_bias(graph, node, arrays))
        elif _is_product(node, arrays):
            products.setdefault(_module(node), []).append(node)
    # A layer may be several products, one for each part of its outputs (`zishu.train.encoder_graph`).
    for module, nodes in products.items():
        found[f"{module}.weight"] = np.concatenate([_weight(node, arrays).T for node in nodes])
        if len(nodes) > 1:
            found[f"{module}.bias"] = np.concatenate([arrays[node.input[6]] for node in nodes])
    return {**found, "arcs.weight": np.stack(roles)} if roles else found


def _read_labels(path: Path) -> NDArray[np.float32]:
    """Return the weight of the label scorer; older models have it in one piece, with its bias."""
    graph, arrays = _load(path)
    nodes = [node for node in graph.node if _is_product(node, arrays)]
    return arrays["weight"] if "weight" in arrays else _with_bias(graph, nodes[0], arrays)


def _is_product(node: Any, arrays: dict[str, Any]) -> bool:
    return node.op_type in ("MatMul", "MatMulIntegerToFloat") and node.input[1] in arrays


def _weight(node: Any, arrays: dict[str, Any]) -> NDArray[np.float32]:
    """Return the matrix that a node multiplies by, `[in, out]`."""
    weight: NDArray[np.float32] = arrays[node.input[1]]
    if node.op_type == "MatMulIntegerToFloat":
        zero = arrays[node.input[5]].astype(np.float32)
        weight = (weight.astype(np.float32) - zero) * arrays[node.input[3]]
    return weight


def _with_bias(graph: Any, node: Any, arrays: dict[str, Any]) -> NDArray[np.float32]:
    """Return the matrix of a biaffine product, whose last row is added by itself."""
    added = [add.input for add in graph.node if add.op_type == "Add" and node.output[0] in add.input]
    names = node.input[6:] or (name for names in added for name in names if name in arrays)
    return np.vstack([_weight(node, arrays), arrays[next(iter(names))][None]])


def _module(node: Any) -> str:
    """Return the name of the torch module that a node comes from: `encoder.blocks.0.feed.3`."""
    parts: list[str] = []
    for part in node.name.strip("/").split("/")[:-1]:
        # The module of a sequence has the name of the sequence in front: /feed/feed.3.
        if parts and part.startswith(f"{parts[-1]}."):
            parts.pop()
        parts.append(part)
    return ".".join(parts).removeprefix("network.")


def _lstm(module: str, parts: list[NDArray[np.float32]]) -> dict[str, NDArray[np.float32]]:
    """Return the weights of a recurrent layer; ONNX orders the gates i o f c, torch i f c o."""
    inputs, recurrent, biases = parts
    values = (inputs, recurrent, *np.split(biases, 2))
    found = {}
    for name, value in zip(("weight_ih", "weight_hh", "bias_ih", "bias_hh"), values, strict=True):
        first, last, *middle = np.split(value, 4)
        found[f"{module}.{name}_l0"] = np.concatenate([first, *middle, last])
    return found


def _quantised_lstms(module: str, node: Any, arrays: dict[str, Any]) -> dict[str, NDArray[np.float32]]:
    """Return the weights of both directions of a recurrent layer in 8 bits, without its constant units."""
    from zishu.train.encoder_graph import LIMITS  # here, because it imports onnx

    def cut(gates: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return `[2, in, 4 (hidden + LIMITS)]` as `[2, 4 hidden, in]`."""
        by_gate = np.stack(np.split(gates, 4, axis=2), axis=1)[..., :-LIMITS]
        return np.concatenate(list(by_gate.transpose(1, 0, 3, 2)), axis=1)

    weights, recurrent = (
        cut((arrays[node.input[k]] * arrays[node.input[scale]][:, None])[:, :-LIMITS])
        for k, scale in ((1, 8), (2, 10))
    )
    biases = cut(arrays[node.input[3]].reshape(2, 2, -1))  # 2 4*hidden 2
    found: dict[str, NDArray[np.float32]] = {}
    for k, side in enumerate(("forwards.0", "backwards.0")):
        found |= _lstm(f"{module}.{side}", [weights[k], recurrent[k], biases[k].T.ravel()])
    return found
