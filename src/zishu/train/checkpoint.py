"""Write and read checkpoints: one safetensors file each, complete or absent.

The tensors of a checkpoint are weights (`model.*`, `average.*`), the state of the optimiser
(`optimiser.<weight>.<slot>`) and random states (`random.*`, bytes); everything else is one JSON object in the file's
header. There is no pickle: an untrusted checkpoint can be wrong, but it cannot run code.

A file is written under a temporary name, flushed to disk, and then renamed (`zishu.writing`). So a killed process or a
full disk leaves the previous checkpoint intact. The next save removes what a killed run left behind. Links are
replaced, not followed, because the folder may belong to someone else.

Saving takes one pass over the tensors for a checksum, which loading compares, and one to write them. This module does
not know what the JSON object of a run contains.
"""

from __future__ import annotations

import contextlib
import json
import os
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import torch
from safetensors import SafetensorError, safe_open

from zishu.errors import InputError, ZishuError
from zishu.writing import replacing

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from torch import Tensor, nn
    from torch.optim import Optimizer

BEST = "best.safetensors"  # the checkpoint of a run's best epoch

# Keys of the file's header, which maps strings to strings, and the version of what is written here.
_FORMAT_KEY, _STATE_KEY, _CHECKSUM_KEY = "zishu.checkpoint", "state", "checksum"
_FORMAT = "1"
# The types of weights and states, by their safetensors names.
_TYPES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}


class Interrupted(ZishuError):
    """Signal that the user stopped a run; it is saved and can be resumed."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        super().__init__(f"interrupted; the run is saved in {os.fspath(folder)}")


def save_checkpoint(
    path: str | os.PathLike[str], tensors: Mapping[str, Tensor], state: dict[str, Any]
) -> None:
    """Write tensors and a JSON-like state into one file, atomically.

    JSON has no tuples and only string keys, so `load_checkpoint` returns lists and strings instead.
    """
    dense = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    text = json.dumps(state, ensure_ascii=False)
    metadata = {_FORMAT_KEY: _FORMAT, _STATE_KEY: text, _CHECKSUM_KEY: _checksum(dense, text)}
    with _saving(Path(path)) as file:
        _write_safetensors(file, dense, metadata)


def load_checkpoint(path: str | os.PathLike[str]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read a checkpoint: its tensors, on the CPU, and its state; raise `InputError` if it is damaged."""
    name = os.fspath(path)
    try:
        with safe_open(name, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors: dict[str, Tensor] = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise InputError(f"{name}: damaged, or not a checkpoint: {error}") from error
    if _FORMAT_KEY not in metadata:
        raise InputError(f"{name}: a safetensors file, but not a checkpoint of Zishu")
    if metadata[_FORMAT_KEY] != _FORMAT:
        version = metadata[_FORMAT_KEY]
        raise InputError(f"{name}: format {version} of checkpoints; this version reads format {_FORMAT}")
    text = metadata.get(_STATE_KEY, "")
    if metadata.get(_CHECKSUM_KEY) != _checksum(tensors, text):
        raise InputError(f"{name}: damaged: the checksum differs")
    return tensors, json.loads(text)


def training_state(network: nn.Module, optimisers: Mapping[str, Optimizer]) -> dict[str, Tensor]:
    """Return all tensors that training changes: weights, states of optimisers and random states.

    The names of an optimiser's state begin with its key in `optimisers`. Learning rates are not included: they follow
    from the configuration and the step.
    """
    names: dict[Tensor, str] = {weight: name for name, weight in network.named_parameters()}
    tensors = {f"model.{name}": tensor for name, tensor in network.state_dict().items()}
    for prefix, optimiser in optimisers.items():
        for weight, slots in optimiser.state.items():
            for slot, value in slots.items():
                tensors[f"{prefix}optimiser.{names[weight]}.{slot}"] = torch.as_tensor(value)
    tensors["random.torch"] = torch.get_rng_state()
    device = next(network.parameters()).device
    if device.type == "cuda":
        tensors["random.cuda"] = torch.cuda.get_rng_state(device)
    return tensors


def restore_training(
    tensors: Mapping[str, Tensor], network: nn.Module, optimisers: Mapping[str, Optimizer]
) -> None:
    """Load the tensors of `training_state` into a new network and new optimisers of its weights; ignore all others."""
    network.load_state_dict(under("model.", tensors))
    names: dict[Tensor, str] = {weight: name for name, weight in network.named_parameters()}
    for prefix, optimiser in optimisers.items():
        slots: dict[str, dict[str, Tensor]] = {}
        for key, value in under(f"{prefix}optimiser.", tensors).items():
            # A weight's name has dots, a slot's has none.
            weight, _, slot = key.rpartition(".")
            slots.setdefault(weight, {})[slot] = value.clone()
        if strangers := slots.keys() - set(names.values()):
            raise InputError(
                f"the checkpoint has an optimiser's state for {min(strangers)}, which the model does not have"
            )
        # Torch numbers the weights in the order of its groups; its own method moves each value to the device and type
        # of its weight.
        weights = [names[weight] for group in optimiser.param_groups for weight in group["params"]]
        state = {number: slots[name] for number, name in enumerate(weights) if name in slots}
        optimiser.load_state_dict({**optimiser.state_dict(), "state": state})
    torch.set_rng_state(tensors["random.torch"])
    device = next(network.parameters()).device
    if device.type == "cuda" and "random.cuda" in tensors:
        torch.cuda.set_rng_state(tensors["random.cuda"], device)


def under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors whose names begin with a prefix, without it."""
    return {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}


def write_atomically(path: str | os.PathLike[str], text: str) -> None:
    """Write a small text file atomically."""
    with _saving(Path(path)) as file:
        file.write(text.encode())


@contextlib.contextmanager
def _saving(path: Path) -> Iterator[BinaryIO]:
    """Provide a file that replaces the old one if the block succeeds; report what happened to the old one if not."""
    try:
        with replacing(path, follow=False) as file:
            yield file
    except OSError as error:
        reason = error.strerror or str(error)
        raise ZishuError(
            f"{path}: cannot be saved ({reason}); the previous file, if any, is unchanged"
        ) from error


def _write_safetensors(file: BinaryIO, tensors: Mapping[str, Tensor], metadata: dict[str, str]) -> None:
    """Write the safetensors format: the length of the header, the header, the bytes of the tensors.

    The library's writer either creates temporary files that nobody removes after a kill, or copies everything in
    memory.
    """
    # Widest numbers first, so that every tensor is aligned to its own width.
    names = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
    header: dict[str, Any] = {"__metadata__": metadata}
    end = 0
    for name in names:
        kind, shape, start = _TYPES[tensors[name].dtype], list(tensors[name].shape), end
        end += tensors[name].nbytes
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(header, ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    file.write(len(text).to_bytes(8, "little") + text)
    for name in names:
        file.write(_bytes_of(tensors[name]))


def _bytes_of(tensor: Tensor) -> memoryview:
    """Return the memory of a contiguous tensor."""
    # Flatten first: a scalar has no last dimension to view as bytes.
    return tensor.reshape(-1).view(torch.uint8).numpy().data


def _checksum(tensors: Mapping[str, Tensor], text: str) -> str:
    checksum = zlib.crc32(text.encode())
    for name in sorted(tensors):
        shape = f"{name} {tensors[name].dtype} {tuple(tensors[name].shape)}"
        checksum = zlib.crc32(shape.encode(), checksum)
        checksum = zlib.crc32(_bytes_of(tensors[name]), checksum)
    return f"{checksum:08x}"
