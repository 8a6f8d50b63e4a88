"""Turn the networks of a model directory into 8-bit ones.

The products with weights, which are nearly all of the work, are computed in 8 bits; everything else stays in single
precision. Weights have one scale per output channel. Activations have one fixed scale each, found on sample sentences,
so that the result for a sentence does not depend on its batch. Weights use 7 of their 8 bits: then no sum of products
overflows 16 bits, which processors without VNNI instructions add in, and every processor computes the same integers.

The quantiser is ONNX Runtime's own. Nothing here needs torch.
"""

from __future__ import annotations

import logging
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx
from onnxruntime.quantization import (
    CalibrationDataReader,
    CalibrationMethod,
    QuantFormat,
    QuantType,
    quantize_static,
)

from zishu.model.features import batches, features
from zishu.model.networks import Networks
from zishu.model.runtime import load_model
from zishu.model.settings import ENCODER, SCORER

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

_BATCH_CHARS = 1000


def quantise(folder: Path, sentences: Mapping[str, Sequence[Sequence[str]]]) -> None:
    """Replace the encoder and the scorer of a model directory by 8-bit networks.

    `sentences` are samples of characters by style, to find the scales of activations.
    """
    model = load_model(folder)
    inputs: list[dict[str, NDArray[Any]]] = []
    encoded: list[dict[str, NDArray[Any]]] = []
    for style, samples in sentences.items():
        networks = model.in_style(style or None).networks  # type: ignore[union-attr]
        assert isinstance(networks, Networks)
        for batch in batches([len(sample) for sample in samples], _BATCH_CHARS):
            chosen = [samples[k] for k in batch]
            arrays = features(chosen, networks.chars, networks.bigrams, networks.style)
            inputs.append(dict(arrays))
            encoded.append({"encoded": networks.encode(arrays)})
    _quantise(folder / ENCODER, inputs)
    if model.settings.task == "parse":
        _quantise(folder / SCORER, encoded)


class _Samples(CalibrationDataReader):  # type: ignore[misc]
    """Hand out one batch after the other, as the quantiser asks for them."""

    def __init__(self, batches: Sequence[dict[str, NDArray[Any]]]) -> None:
        self._batches: Iterator[dict[str, NDArray[Any]]] = iter(batches)

    def get_next(self) -> dict[str, NDArray[Any]] | None:
        return next(self._batches, None)


def _quantise(path: Path, samples: Sequence[dict[str, NDArray[Any]]]) -> None:
    with tempfile.TemporaryDirectory() as place, _quiet():
        found = Path(place) / path.name
        quantize_static(
            str(path),
            str(found),
            _Samples(samples),
            quant_format=QuantFormat.QDQ,
            op_types_to_quantize=["MatMul"],
            per_channel=True,
            reduce_range=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            calibrate_method=CalibrationMethod.MinMax,
            extra_options={
                "MatMulConstBOnly": True,
                "OpTypesToExcludeOutputQuantization": ["MatMul"],
                "CalibMovingAverage": True,
            },
        )
        onnx.checker.check_model(str(found))
        path.write_bytes(found.read_bytes())


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the quantiser's advice, which is for interactive use, out of the log."""
    logger = logging.getLogger()
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)
