"""Start from a trained parser: from the best checkpoint of a run or from an exported model.

A model directory has no checkpoint, but its networks hold all the weights. Matrices of an 8-bit model are integers times
one scale per output channel, so weights are recovered to within half a step of that scale. The same holds for compact
embeddings. A network recovered in this way gives nearly the same scores as the exported one.

The exporter keeps the path of the torch module in the names of nodes (`/encoder/base/project/MatMul`), and plain
names of weights that it does not transform. If a weight cannot be found by these names, that is an error.

New styles and relations are added. A new style starts as a copy of the first one. A new relation starts as a copy of the
relation that it refines (`discourse` for `discourse:sp`), otherwise as the mean of all relations. At first it is
improbable.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch

from zishu.errors import ConfigError
from zishu.model.settings import BIGRAMS, CHARS, CONFIG, ENCODER, LABELS, SCORER, read_json, read_settings
from zishu.model.vocabulary import Vocabulary
from zishu.train.checkpoint import BEST, load_checkpoint, under
from zishu.train.data import Inventory, add_tags
from zishu.train.setup import build_network, inventory_from_json, styles_of
from zishu.tree import INTRA

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from zishu.train.config import Config
    from zishu.train.data import Treebank
    from zishu.train.systems import Network

Weights = dict[str, "Tensor"]

_IMPROBABLE: Final = (
    3.0  # by which the score of a new relation starts lower than that of the one it is copied from
)
_STYLES: Final = "embeddings.styles.weight"
_LABELS: Final = "label_scorer.weight"


def load_initial(config: Config, treebank: Treebank) -> tuple[Network, Inventory]:
    """Return the network of the run or model that a configuration starts from, ready to learn from a treebank.

    Tag columns that it does not know are added, with random weights.
    """
    folder = Path(config.initial)
    if (folder / BEST).is_file():
        tensors, state = load_checkpoint(folder / BEST)
        inventory = inventory_from_json(state["inventory"])
        hf_config = state["encoder"]
        weights = {**under("model.", tensors), **under("average.", tensors)}
    elif (folder / CONFIG).is_file():
        inventory, weights, hf_config = _model_inventory(folder), read_weights(folder), None
    else:
        raise ConfigError(f"initial: {config.initial}: neither a finished run ({BEST}) nor a model in it")
    known = inventory.tags
    grown = _extended(config, inventory, treebank)
    network, grown = build_network(config, None, inventory=grown, hf_config=hf_config)
    _grow(weights, inventory, grown)
    for column in grown.tags.keys() - known.keys():
        weights |= network.get_submodule(column).state_dict(prefix=f"{column}.")
    try:
        network.load_state_dict(weights)
    except RuntimeError as error:
        reason = " ".join(str(error).split())
        raise ConfigError(f"initial: the weights of {config.initial} do not match: {reason}") from error
    return network, grown


def _model_inventory(folder: Path) -> Inventory:
    settings = read_settings(folder)
    pairs = Vocabulary.from_json(read_json(folder / BIGRAMS)) if settings.bigrams else None
    return Inventory(
        Vocabulary.from_json(read_json(folder / CHARS)),
        pairs,
        settings.labels,
        settings.tags,
        settings.styles,
        {style: tuple(columns) for style, columns in settings.absent_tags.items()},
    )


# --- more styles, more relations --------------------------------------------------------------------------------


def _extended(config: Config, inventory: Inventory, treebank: Treebank) -> Inventory:
    """Return an inventory with the styles, relations and tag columns of a treebank, too."""
    styles = tuple(style for style in styles_of(config) if style)
    if bool(styles) != bool(inventory.styles):
        has = f"the styles {', '.join(inventory.styles)}" if inventory.styles else "no styles"
        raise ConfigError(f"initial: {config.initial} has {has}: data.train and data.partial must agree")
    counts = treebank.deprels
    new = sorted(counts.keys() - set(inventory.labels), key=lambda label: (-counts[label], label))
    labels = (*inventory.labels, *new) if config.can.parses else inventory.labels
    more = (*inventory.styles, *(style for style in styles if style not in inventory.styles))
    return add_tags(replace(inventory, labels=labels, styles=more), treebank)


def _grow(weights: Weights, before: Inventory, after: Inventory) -> None:
    """Make room in the weights for styles and relations that are new, in place."""
    extra = len(after.styles) - len(before.styles)
    if extra:
        name = next(name for name in weights if name.endswith(_STYLES))
        weights[name] = torch.cat([weights[name], weights[name][:1].repeat(extra, 1)])
    if len(after.labels) > len(before.labels):
        # width+1 labels width+1
        blocks = weights[_LABELS].view(len(weights[_LABELS]), len(before.labels), -1)
        between = blocks[:, [label != INTRA for label in before.labels]]
        added = []
        for label in after.labels[len(before.labels) :]:
            general = label.partition(":")[0]
            known = general in before.labels
            block = blocks[:, before.labels.index(general)] if known else between.mean(1)
            block = block.clone()
            block[-1, -1] -= _IMPROBABLE
            added.append(block)
        weights[_LABELS] = torch.cat([blocks, torch.stack(added, 1)], 1).flatten(1)


# --- weights of an exported model -------------------------------------------------------------------------------


def read_weights(folder: Path) -> Weights:
    """Return the weights of an exported parser of characters under the names of the torch network's."""
    settings = read_settings(folder)
    if (
        not settings.can.finds_structures
        or settings.beam
        or settings.encoder not in ("transformer", "bilstm")
    ):
        raise ConfigError(
            f"{folder}: only a parser of characters with a chart and an encoder of Zishu's own can be trained further"
        )
    found: dict[str, NDArray[np.float32]] = {}
    for name in (ENCODER, SCORER):
        found |= _read_graph(folder / name)
    found[_LABELS] = _read_labels(folder / LABELS)
    return {name: torch.from_numpy(np.array(value, dtype=np.float32)) for name, value in found.items()}


def _load(path: Path) -> tuple[Any, dict[str, Any]]:
    """Return the graph of a file and its arrays by their names."""
    import onnx  # here, because only few runs start from a model

    graph = onnx.load(str(path)).graph
    return graph, {weight.name: onnx.numpy_helper.to_array(weight) for weight in graph.initializer}


def _read_graph(path: Path) -> dict[str, NDArray[np.float32]]:
    graph, arrays = _load(path)
    found: dict[str, Any] = {}
    for name, array in arrays.items():
        if name.endswith(".rows"):  # see `zishu.train.compact`
            found[f"{name.removesuffix('.rows')}.weight"] = (
                array * arrays[f"{name.removesuffix('.rows')}.scales"]
            )
        elif name.endswith((".weight", ".bias")):
            found[name.removeprefix("network.")] = array
    roles: list[NDArray[np.float32]] = []
    for node in graph.node:
        if node.op_type == "LSTM":
            found |= _lstm(_module(node), [arrays[name][0] for name in node.input[1:4]])
        elif _is_product(node, arrays):
            if _module(node) == "arcs":
                roles.append(_with_bias(graph, node, arrays))
            else:
                found[f"{_module(node)}.weight"] = _weight(node, arrays).T
    return {**found, "arcs.weight": np.stack(roles)} if roles else found


def _read_labels(path: Path) -> NDArray[np.float32]:
    """Return the weight of the label scorer; older models have it in one piece, with its bias."""
    graph, arrays = _load(path)
    if "weight" in arrays:
        whole: NDArray[np.float32] = arrays["weight"]
        return whole
    [node] = [node for node in graph.node if _is_product(node, arrays)]
    return _with_bias(graph, node, arrays)


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
    if len(node.input) > 6:
        bias = arrays[node.input[6]]
    else:
        names = [
            name
            for add in graph.node
            if add.op_type == "Add" and node.output[0] in add.input
            for name in add.input
        ]
        bias = next(arrays[name] for name in names if name in arrays)
    return np.vstack([_weight(node, arrays), bias[None]])


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

    def ordered(gates: NDArray[np.float32]) -> NDArray[np.float32]:
        first, last, *middle = np.split(gates, 4)
        return np.concatenate([first, *middle, last])

    inputs, recurrent, biases = parts
    both = np.split(biases, 2)
    names = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
    values = (inputs, recurrent, *both)
    return {f"{module}.{name}": ordered(value) for name, value in zip(names, values, strict=True)}
