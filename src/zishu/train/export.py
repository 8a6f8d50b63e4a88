"""Write a trained network as a model directory that runs without torch (see `zishu.model.settings`).

The encoder, the scorer and the label scorer become an ONNX graph each, with dynamic batch and length. The
encoder is on its own because one that reads only so many characters at once is run on windows of longer
sentences, and their encodings are put together before anything is scored.

What was written is loaded by the runtime and compared with the network before it gets its name. It holds no pickle.
"""

from __future__ import annotations

import copy
import io
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from zishu.errors import ZishuError
from zishu.model.directory import fresh_directory
from zishu.model.features import pooling
from zishu.model.model import Model
from zishu.model.networks import Networks
from zishu.model.runtime import load_model
from zishu.model.settings import (
    BIGRAMS,
    CHARS,
    CONFIG,
    ENCODER,
    LABELS,
    SCORER,
    Settings,
    write_json,
)
from zishu.tags import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from torch import Tensor

    from zishu.train.systems import Network

# LayerNormalization came with it; every ONNX Runtime that Zishu allows reads it.
_OPSET = 17
# What two orders of adding up single-precision numbers may make of a score; a wrong export is off by far
# more.
_TOLERANCE = 1e-3
# The sentences that the graphs are traced with, and those that are compared: the lengths of their words.
_TRACED = ((2, 3), (1, 5, 1), (3,))
_COMPARED = ((1,), (4, 2, 3, 1, 1))

# The dynamic dimensions of what the graphs read and return.
_DIMENSIONS = {
    **dict.fromkeys(("chars", "bigrams", "encoded", "tags", "pairs"), ("batch", "n")),
    **dict.fromkeys(("lengths", "styles"), ("batch",)),
    "pool": ("batch", "units", "n"),
    **dict.fromkeys(("inter", "intra"), ("batch", "units", "units")),
    **dict.fromkeys(("label_dep", "label_head", "states", *COLUMNS), ("batch", "units")),
    **dict.fromkeys(("dep", "head", "labels"), ("arcs",)),
    "arcs": ("batch", "n", "heads"),
    "relations": ("batch", "n", "n"),
}


def settings_of(network: Network, training: Mapping[str, Any] | None = None) -> Settings:
    """Return the settings of a network as it is now: those that it learned, too."""
    settings = replace(
        network.settings,
        bigrams=network.bigram_vocabulary is not None,
        window=getattr(network.encoder, "longest", None) or 0,
        window_overlap=getattr(network.encoder, "overlap", 0),
    )
    if training is not None:
        settings = replace(settings, training=training)
    if settings.beam:
        settings = replace(settings, actions=network.action_weights())
    if not settings.can.parses:
        crf = network.crf
        settings = replace(
            settings,
            transitions=tuple(tuple(row) for row in crf.transitions.tolist()),
            starts=tuple(crf.starts.tolist()),
            ends=tuple(crf.ends.tolist()),
        )
    return settings


def export_model(network: Network, directory: Path, *, training: Mapping[str, Any] | None = None) -> Model:
    """Write a network as a model directory, replacing one that is there, and return it as loaded from there.

    `training` is kept in config.json for people to read: the configuration of the run, its scores.
    """
    # A copy: tracing wants evaluation mode on the CPU, and the encoder is going to be taken out.
    network = copy.deepcopy(network).cpu().eval()
    compared = _example(network, _COMPARED)
    with torch.inference_mode():
        expected = _run(network, compared)
    with fresh_directory(directory) as folder:
        _write(network, settings_of(network, training), folder)
        return _check(compared, expected, folder)


def _write(network: Network, settings: Settings, folder: Path) -> None:
    """Write all files of a model directory; the network loses its encoder."""
    write_json(folder / CONFIG, settings.to_json())
    write_json(folder / CHARS, network.vocabulary.to_json())
    if network.bigram_vocabulary is not None:
        write_json(folder / BIGRAMS, network.bigram_vocabulary.to_json())

    example = _example(network, _TRACED)
    pool = {"pool": example.pop("pool")} if "pool" in example else {}
    with torch.no_grad():
        encoder = _Encoder(network.encoder, list(example))
        write_graph(encoder, example, ["encoded"], folder / ENCODER)
        encoded = {"encoded": encoder(*example.values())}
        network.encoder = _Given()
        outputs = _Scorer(network)(*encoded.values(), *pool.values())
        write_graph(_Scorer(network), {**encoded, **pool}, list(outputs), folder / SCORER)
        if settings.can.parses:
            ends = {"dep": outputs["label_dep"][0], "head": outputs["label_head"][0]}
            write_graph(network.label_scorer, ends, ["labels"], folder / LABELS)


class _Encoder(nn.Module):
    """An encoder with inputs in the order of their names."""

    def __init__(self, encoder: nn.Module, names: list[str]) -> None:
        super().__init__()
        self.encoder = encoder
        self.names = names

    def forward(self, *inputs: Tensor) -> Tensor:
        named = dict(zip(self.names, inputs, strict=True))
        encoded: Tensor = self.encoder(
            named["chars"], named.get("bigrams"), named["lengths"], named.get("styles")
        )
        return encoded


class _Scorer(nn.Module):
    """A network whose encoder is `_Given`: all that comes after the encoder."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network

    def forward(self, encoded: Tensor, pool: Tensor | None = None) -> dict[str, Tensor]:
        outputs: dict[str, Tensor] = self.network(encoded, None, None, pool)
        return outputs


class _Given(nn.Module):
    """Stands in for an encoder whose work is done: returns what it gets in place of characters."""

    def forward(self, encoded: Tensor, _bigrams: None, _lengths: None, _styles: None) -> Tensor:
        return encoded


def write_graph(
    module: nn.Module, inputs: Mapping[str, Tensor], outputs: Sequence[str], path: Path, *, fold: bool = True
) -> None:
    """Trace a module and write it as an ONNX graph with named inputs and outputs.

    With `fold`, what depends on no input is computed now, else when the graph is loaded: `CompactLinear` stays small.
    """
    names = [*inputs, *outputs]
    graph = io.BytesIO()  # so that a full disk is met by Python, which says so
    with warnings.catch_warnings():
        # This exporter is deprecated for one that is slower and fixes the length of an LSTM's input;
        # tracing also warns of every branch on a shape, and that the shapes are right is compared
        # afterwards.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module.eval(),
            tuple(inputs.values()),
            graph,  # type: ignore[arg-type]  # this exporter takes it
            dynamo=False,
            opset_version=_OPSET,
            do_constant_folding=fold,
            input_names=list(inputs),
            output_names=list(outputs),
            dynamic_axes={name: dict(enumerate(_DIMENSIONS[name])) for name in names},
        )
    path.write_bytes(graph.getvalue())


def _example(network: Network, word_lengths: Sequence[Sequence[int]]) -> dict[str, Tensor]:
    """Make up a batch of sentences whose words have these lengths."""
    random = np.random.default_rng(0)
    lengths = np.array([sum(sizes) for sizes in word_lengths])
    inside = np.arange(lengths.max() + 1) <= lengths[:, None]
    arrays = {}
    for name, vocabulary in (("chars", network.vocabulary), ("bigrams", network.bigram_vocabulary)):
        if vocabulary is not None:
            numbers = random.integers(len(vocabulary), size=inside.shape)
            numbers[:, 0] = vocabulary.bos
            arrays[name] = np.where(inside, numbers, vocabulary.pad)
    arrays["lengths"] = lengths
    if network.settings.styles:
        arrays["styles"] = np.arange(len(lengths)) % len(network.settings.styles)
    if network.settings.can.units == "words":
        arrays["pool"] = pooling(word_lengths)
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


def _run(network: Network, example: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Run a network on a made-up batch; the arcs that get labels are all those between neighbours."""
    outputs: dict[str, Tensor] = network(
        example["chars"],
        example.get("bigrams"),
        example["lengths"],
        example.get("pool"),
        example.get("styles"),
    )
    if network.settings.can.parses:
        outputs["labels"] = network.label_scorer(*_neighbours(outputs["label_dep"], outputs["label_head"]))
    return outputs


def _neighbours(dependents: Any, heads: Any) -> tuple[Any, Any]:
    """Pick the ends of the arcs from each unit of the last sentence to the next."""
    return dependents[-1][1:], heads[-1][:-1]


def _check(example: Mapping[str, Tensor], expected: Mapping[str, Tensor], folder: Path) -> Model:
    """Load what was written and make sure that it gives the scores of the network."""
    model = load_model(folder)
    assert isinstance(model, Model)
    networks = model.networks
    assert isinstance(networks, Networks)
    encoded = networks.encode({name: tensor.numpy() for name, tensor in example.items() if name != "pool"})
    outputs = networks.score(encoded, _COMPARED if "pool" in example else None)
    for name, tensor in expected.items():
        if name == "labels":
            found = networks.score_labels(*_neighbours(outputs.label_dep, outputs.label_head))
        else:
            found = getattr(outputs, name)
        if not np.allclose(found, tensor.numpy(), rtol=_TOLERANCE, atol=_TOLERANCE):
            raise ZishuError(f"the exported network differs from the trained one in its output {name!r}")
    return model
