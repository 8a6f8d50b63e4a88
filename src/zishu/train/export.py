"""Write a trained network as a model directory that runs without torch (see `zishu.model.settings`).

The encoder, the scorer and the label scorer become one ONNX graph each, with dynamic batch and length. The encoder is
separate because an encoder with limited input runs on windows of longer sentences, whose encodings are combined before
scoring.

The runtime loads the result, and its outputs are compared with the network's before it gets its final name. It contains
no pickle.
"""

from __future__ import annotations

import copy
import io
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from zishu.errors import ZishuError
from zishu.model.directory import fresh_directory
from zishu.model.features import pooling
from zishu.model.files import BIGRAMS, CHARS, CONFIG, ENCODER, LABELS, SCORER, write_json
from zishu.model.model import Model
from zishu.model.networks import Networks
from zishu.model.runtime import load_model
from zishu.tags import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from zishu.model.settings import Settings
    from zishu.train.network import Network

# LayerNormalization was added in this version; every ONNX Runtime that Zishu allows can read it.
_OPSET = 17
# Tolerated difference of a score, from adding single-precision numbers in another order; a wrong export is off by far
# more.
_TOLERANCE = 1e-3
# Word lengths of the sentences used for tracing the graphs, and of those that are compared.
_TRACED = ((2, 3), (1, 5, 1), (3,))
_COMPARED = ((1,), (4, 2, 3, 1, 1))

# The dynamic dimensions of the graphs' inputs and outputs.
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


def settings_of(network: Network) -> Settings:
    """Return the present settings of a network, including the numbers that it learned and that no graph holds."""
    settings = network.settings
    if settings.beam:  # the bias is the last number of an action's row
        actions = torch.cat([network.actions.weight, network.actions.bias[:, None]], dim=1)
        settings = replace(settings, actions=tuple(map(tuple, actions.tolist())))
    if not settings.can.parses:
        learned = {name: weights.tolist() for name, weights in network.crf.named_parameters()}
        transitions = tuple(map(tuple, learned["transitions"]))
        starts, ends = (tuple(learned[name]) for name in ("starts", "ends"))
        settings = replace(settings, transitions=transitions, starts=starts, ends=ends)
    return settings


def export_model(network: Network, directory: Path) -> Model:
    """Write a network as a model directory, replacing an existing one, and return it as loaded from there."""
    # A copy, because tracing needs evaluation mode on the CPU, and the encoder will be removed.
    network = copy.deepcopy(network).cpu().eval()
    compared = _example(network, _COMPARED)
    with torch.inference_mode():
        expected = _run(network, compared)
    with fresh_directory(directory) as folder:
        _write(network, folder)
        return _check(compared, expected, folder)


def _write(network: Network, folder: Path) -> None:
    """Write all files of a model directory; removes the network's encoder."""
    write_json(folder / CONFIG, settings_of(network).to_json())
    write_json(folder / CHARS, network.vocabulary.to_json())
    if network.bigram_vocabulary is not None:
        write_json(folder / BIGRAMS, network.bigram_vocabulary.to_json())

    example = _example(network, _TRACED)
    pool = {"pool": example.pop("pool")} if "pool" in example else {}
    with torch.no_grad():
        write_graph(_Part("encoder", network.encoder, example), example, ["encoded"], folder / ENCODER)
        inputs = {"encoded": network.encoder(**example), **pool}
        del network.encoder  # its weights have no place in the other graphs
        outputs = network(**inputs)
        write_graph(_Part("network", network, inputs), inputs, list(outputs), folder / SCORER)
        if network.settings.can.parses:
            ends = {"dep": outputs["label_dep"][0], "head": outputs["label_head"][0]}
            write_graph(network.label_scorer, ends, ["labels"], folder / LABELS)


class _Part(nn.Module):
    """Wrap a part of a network: inputs come in the order of their names, and the names of all nodes begin with its own."""

    def __init__(self, name: str, part: nn.Module, inputs: Iterable[str]) -> None:
        super().__init__()
        self.add_module(name, part)
        self.names = list(inputs)

    def forward(self, *inputs: Tensor) -> Any:
        [part] = self.children()
        return part(**dict(zip(self.names, inputs, strict=True)))


def write_graph(
    module: nn.Module, inputs: Mapping[str, Tensor], outputs: Sequence[str], path: Path, *, fold: bool = True
) -> None:
    """Trace a module and write it as an ONNX graph with named inputs and outputs.

    With `fold`, constant parts are computed now, otherwise when the graph is loaded: `CompactLinear` stays small.
    """
    names = [*inputs, *outputs]
    graph = io.BytesIO()  # so that Python notices and reports a full disk
    with warnings.catch_warnings():
        # This exporter is deprecated in favour of one that is slower and fixes the length of an LSTM's input. Tracing
        # also warns about every branch on a shape; the comparison afterwards shows that the shapes are right.
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
    """Create a batch of artificial sentences whose words have these lengths."""
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


def _run(network: Network, example: dict[str, Tensor]) -> dict[str, Tensor]:
    """Run a network on an artificial batch; all arcs between neighbours get labels."""
    characters = {name: tensor for name, tensor in example.items() if name != "pool"}
    outputs: dict[str, Tensor] = network(network.encoder(**characters), example.get("pool"))
    if network.settings.can.parses:
        outputs["labels"] = network.label_scorer(*_neighbours(outputs["label_dep"], outputs["label_head"]))
    return outputs


def _neighbours(dependents: Any, heads: Any) -> tuple[Any, Any]:
    """Pick the ends of the arcs from each unit of the last sentence to the next."""
    return dependents[-1][1:], heads[-1][:-1]


def _check(example: Mapping[str, Tensor], expected: Mapping[str, Tensor], folder: Path) -> Model:
    """Load the written model and check that it gives the network's scores."""
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
