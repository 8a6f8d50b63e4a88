"""Check an ONNX file before ONNX Runtime loads it: only known operators, and nothing outside the file.

A model may be untrusted. The operators that Zishu's exporter writes compute arrays from arrays; none repeats a part of
the graph, calls code or reads a file. A graph of them terminates and has no side effects. Everything else raises
`InputError`: control flow (`Loop`, `If`, `Scan`), functions, unknown operators, weights in other files.

The module reads only the necessary parts of the wire format (protocol buffers: fields with a number and a type),
because the base install has no package for it. Cost: a few microseconds per node; weights are skipped.
"""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING, Final

from zishu.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    Bytes = mmap.mmap | bytes

# What the exporter writes for the encoders and scorers of `zishu.train`, for 8-bit networks, and for BERT and its
# relatives: standard operators, and fused operators of ONNX Runtime.
ALLOWED: Final = frozenset(
    """
    Abs Add And Cast Clip Concat Constant ConstantOfShape Cos CumSum DequantizeLinear Div Einsum Elu Equal Erf Exp
    Expand Flatten Gather GatherElements GatherND Gelu Gemm Greater GreaterOrEqual Identity IsInf IsNaN
    LayerNormalization LeakyRelu Less LessOrEqual Log LogSoftmax LSTM MatMul Max Min Mod Mul Neg Not Or Pad Pow
    QuantizeLinear Range Reciprocal ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceSum Relu Reshape ScatterElements
    ScatterND Shape Sigmoid Sign Sin Slice Softmax Softplus Split Sqrt Squeeze Sub Sum Tanh Tile Transpose Trilu
    Unsqueeze Where
    """.split()  # noqa: SIM905 (a list of seventy would fill two pages)
)
FUSED: Final = frozenset({"DynamicQuantizeLSTM", "MatMulIntegerToFloat"})
_DOMAINS: Final = {"": ALLOWED, "ai.onnx": ALLOWED, "com.microsoft": FUSED}

# Field numbers in ONNX messages.
_GRAPH, _FUNCTIONS = 7, 25  # of a model
_NODE, _INITIALIZER, _SPARSE = 1, 5, 15  # of a graph
_OPERATOR, _ATTRIBUTE, _DOMAIN = 4, 5, 7  # of a node
_TENSOR, _SUBGRAPHS, _TENSORS = 5, (6, 11), 10  # of an attribute
_EXTERNAL, _LOCATION = 13, 14  # of a tensor


class _Malformed(Exception):
    """Signal bytes that do not follow the wire format."""


def check_network(path: Path) -> None:
    """Reject an ONNX file that contains anything the exporter does not write."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            problem = next(_problems(data), None)
    except (_Malformed, IndexError, ValueError):  # an empty file cannot be mapped
        raise InputError(f"{path}: not an ONNX network, or a damaged one") from None
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error
    if problem is not None:
        raise InputError(f"{path}: {problem}; Zishu's own models never do, so it is not loaded")


def _problems(data: Bytes) -> Iterator[str]:
    for number, start, end in _fields(data, 0, len(data)):
        if number == _FUNCTIONS:
            yield "the network has functions"
        elif number == _GRAPH:
            for kind, first, last in _fields(data, start, end):
                if kind == _NODE:
                    yield from _problems_of_node(data, first, last)
                elif kind == _INITIALIZER:
                    yield from _problems_of_tensor(data, first, last)
                elif kind == _SPARSE:
                    yield "the network has sparse weights"


def _problems_of_node(data: Bytes, start: int, end: int) -> Iterator[str]:
    operator = domain = ""
    for number, first, last in _fields(data, start, end):
        if number == _OPERATOR:
            operator = bytes(data[first:last]).decode("utf-8", "replace")
        elif number == _DOMAIN:
            domain = bytes(data[first:last]).decode("utf-8", "replace")
        elif number == _ATTRIBUTE:
            for kind, inner, outer in _fields(data, first, last):
                if kind in _SUBGRAPHS:
                    yield "the network has a graph inside an operator"
                elif kind in (_TENSOR, _TENSORS):
                    yield from _problems_of_tensor(data, inner, outer)
    if operator not in _DOMAINS.get(domain, ()):
        name = f"{domain}.{operator}" if domain else operator
        yield f"the network uses the operator {name[:60]!r}"


def _problems_of_tensor(data: Bytes, start: int, end: int) -> Iterator[str]:
    for number, first, last in _fields(data, start, end):
        if number == _EXTERNAL or (number == _LOCATION and data[first:last] != b"\0"):
            yield "the network keeps weights in another file"


def _fields(data: Bytes, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield the number of every field of a message, and where its value starts and ends."""
    while start < end:
        key, start = _varint(data, start)
        # The wire type of the value: a number, eight bytes, a length and that many bytes, four bytes.
        match key & 7:
            case 0:
                _, stop = _varint(data, start)
            case 1:
                stop = start + 8
            case 2:
                size, start = _varint(data, start)
                stop = start + size
            case 5:
                stop = start + 4
            case _:
                raise _Malformed
        if stop > end:
            raise _Malformed
        yield key >> 3, start, stop
        start = stop


def _varint(data: Bytes, start: int) -> tuple[int, int]:
    """Read a varint: seven bits per byte, lowest first."""
    value = 0
    for shift in range(0, 70, 7):
        byte = data[start]
        start += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, start
    raise _Malformed
