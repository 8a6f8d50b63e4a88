"""Convert the networks of a model directory to 8 bits.

The products with weights, which are nearly all of the computation, use 8 bits; everything else, including attention,
stays in single precision. Weights have one scale per output channel. Activations have one fixed scale each, found on
sample sentences, so that the result for a sentence does not depend on its batch. Weights use only 7 of their 8 bits.
Then no sum of products overflows 16 bits, which processors without VNNI instructions use for sums, and every processor
computes the same integers.

The quantiser is ONNX Runtime's own. It puts nodes around every product that quantise and dequantise, and on loading
ONNX Runtime fuses each such group into its operator MatMulIntegerToFloat. `_fuse` does so here, because it can also add
the bias, which saves a pass over the output. `encoder_graph` then rewrites the graph of a transformer.

Measured on a CPU and not used: the operators MultiHeadAttention (not faster than the graph that ONNX Runtime makes of
the exported one), SkipLayerNormalization (a third slower) and QGemm (equal), and GELU by tanh as torch exports it
(slower).
"""

from __future__ import annotations

import logging
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnxruntime.quantization import (
    CalibrationDataReader,
    CalibrationMethod,
    QuantFormat,
    QuantType,
    quantize_static,
)

from zishu.model.features import features, length_batches
from zishu.model.files import ENCODER, LABELS, SCORER
from zishu.model.model import Model
from zishu.model.networks import Networks
from zishu.model.runtime import load_model
from zishu.train.encoder_graph import rewrite

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

_BATCH_CHARS = 1000


def quantise(folder: Path, sentences: Mapping[str, Sequence[Sequence[str]]]) -> Model:
    """Replace the encoder and the scorers of a model directory by 8-bit networks, and return the model with these.

    `sentences` are samples of characters by style, to find the scales of activations. An encoder with limited input
    sees the beginning of a longer one.
    """
    model = load_model(folder)
    assert isinstance(model, Model)
    inputs: list[dict[str, NDArray[Any]]] = []
    encoded: list[dict[str, NDArray[Any]]] = []
    arcs: list[dict[str, NDArray[Any]]] = []
    of_characters = model.settings.can.finds_structures
    for style, whole in sentences.items():
        samples = [sample[: model.settings.window or None] for sample in whole]
        networks = model.in_style(style or None).networks
        assert isinstance(networks, Networks)
        for batch in length_batches([len(sample) for sample in samples], _BATCH_CHARS):
            chosen = [samples[k] for k in batch]
            arrays = features(chosen, networks.chars, networks.bigrams, networks.style)
            inputs.append(dict(arrays))
            encoded.append({"encoded": networks.encode(arrays)})
            if of_characters:
                outputs = networks.score(encoded[-1]["encoded"])
                assert outputs.label_dep is not None
                assert outputs.label_head is not None
                inside = np.arange(outputs.label_dep.shape[1]) <= arrays["lengths"][:, None]
                # The scale of a character does not depend on whose head it is.
                arcs.append({"dep": outputs.label_dep[inside], "head": outputs.label_head[inside]})
    _quantise(folder / ENCODER, inputs)
    if model.settings.encoder == "transformer":
        rewrite(folder / ENCODER, inputs)
    if of_characters:
        _quantise(folder / SCORER, encoded)
        _quantise(folder / LABELS, arcs)
    quantised = load_model(folder)
    assert isinstance(quantised, Model)
    return quantised


class _Samples(CalibrationDataReader):  # type: ignore[misc]
    """Provide one batch after the other to the quantiser."""

    def __init__(self, batches: Sequence[dict[str, NDArray[Any]]]) -> None:
        self._batches = iter(batches)

    def get_next(self) -> dict[str, NDArray[Any]] | None:
        return next(self._batches, None)


def _quantise(path: Path, samples: Sequence[dict[str, NDArray[Any]]]) -> None:
    graph = onnx.load(str(path)).graph
    weights = {weight.name for weight in graph.initializer}
    with tempfile.TemporaryDirectory() as place, _quiet():
        found = Path(place) / path.name
        quantize_static(
            str(path),
            str(found),
            _Samples(samples),
            quant_format=QuantFormat.QDQ,
            op_types_to_quantize=["MatMul"],
            nodes_to_exclude=[
                node.name  # the products of two activations
                for node in graph.node
                if node.op_type == "MatMul" and node.input[1] not in weights
            ],
            per_channel=True,
            reduce_range=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            calibrate_method=CalibrationMethod.MinMax,
            extra_options={"OpTypesToExcludeOutputQuantization": ["MatMul"], "CalibMovingAverage": True},
        )
        network = onnx.load(str(found))
    _fuse(network)
    onnx.checker.check_model(network)
    path.write_bytes(network.SerializeToString())


def _fuse(network: Any) -> None:
    """Fuse each quantised product into one operator, with its bias if it has one."""
    graph = network.graph
    weights = {weight.name for weight in graph.initializer}
    made_by = {name: node for node in graph.node for name in node.output}
    read_by: dict[str, list[Any]] = {}
    for node in graph.node:
        for name in node.input:
            read_by.setdefault(name, []).append(node)
    superseded: list[Any] = []
    for node in graph.node:
        dequantised: list[Any] = [made_by.get(name) for name in node.input]
        if node.op_type != "MatMul" or getattr(dequantised[1], "op_type", "") != "DequantizeLinear":
            continue
        superseded += [made for made in dequantised if made not in superseded]
        numbers, scales, zeros = zip(*(made.input for made in dequantised), strict=True)
        [reader, *others] = read_by[node.output[0]]
        bias = [name for name in reader.input if name in weights]
        if reader.op_type == "Add" and bias and not others:
            node.output[:] = reader.output
            superseded.append(reader)
        else:
            bias = []
        node.op_type, node.domain = "MatMulIntegerToFloat", "com.microsoft"
        node.input[:] = [*numbers, *scales, *zeros, *bias]
    # The quantiser lets all readers of an activation read its 8-bit version. Only products should: a residual connection,
    # which bypasses the product, keeps the original.
    original = {
        made.output[0]: made_by[made.input[0]].input[0]
        for made in superseded
        if made.op_type == "DequantizeLinear" and made.input[0] in made_by
    }
    for node in graph.node:
        node.input[:] = [original.get(name, name) for name in node.input]
    for node in superseded:
        graph.node.remove(node)
    network.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))


@contextmanager
def _quiet() -> Iterator[None]:
    """Hide the quantiser's advice, which is for interactive use."""
    logger = logging.getLogger()
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)
