"""Find model directories, and read and write their files.

A model directory contains

    config.json      the settings (`zishu.model.settings`)
    chars.json       the vocabulary of characters
    bigrams.json     the vocabulary of bigrams, if the encoder uses them
    encoder.onnx     characters -> encodings
    scorer.onnx      encodings -> scores
    labels.onnx      representations of dependents and heads -> log-probabilities of labels; not in a segmenter
    structures.onnx  encodings of the characters of words -> scores of the trees inside them; optional
    structures.json  the settings of the structure scorer (`zishu.model.inner`)

and nothing that runs code when it is read. A pipeline is a directory with a config.json whose task is "pipeline" and
two model directories, `segmenter` and `treecrf`. An ensemble has the task "ensemble" and model directories `member-1`,
`member-2` and so on. A model may be untrusted, so the size and the nesting of its files are limited.
"""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Final, cast

from zishu.errors import InputError

MODELS: Final = Path(__file__).parents[1] / "models"  # the bundled ones
DEFAULT: Final = "default"

CONFIG: Final = "config.json"
CHARS: Final = "chars.json"
BIGRAMS: Final = "bigrams.json"
ENCODER: Final = "encoder.onnx"
SCORER: Final = "scorer.onnx"
LABELS: Final = "labels.onnx"
STRUCTURES: Final = "structures.onnx"
STRUCTURES_CONFIG: Final = "structures.json"
SEGMENTER: Final = "segmenter"
TREECRF: Final = "treecrf"
MEMBER: Final = "member-"
CARD: Final = "README.md"
# All files that a model directory may contain.
FILES: Final = (CONFIG, CHARS, BIGRAMS, ENCODER, SCORER, LABELS, STRUCTURES, STRUCTURES_CONFIG, CARD)

# Our models stay far below these limits.
LARGEST_JSON: Final = 1 << 26  # bytes
LARGEST_NETWORK: Final = 1 << 32
_DEEPEST: Final = 50  # maximum nesting of lists and objects


def find_model(model: str | os.PathLike[str] | None = None) -> Path:
    """Return the directory of a bundled model, by name, or of the model in a directory.

    Names of bundled models take precedence: write `./fast` for a directory of that name. The folder of a training run
    means the model in it.
    """
    try:
        name = os.fspath(model) if model is not None else DEFAULT
        path = Path(name)
    except TypeError:
        raise InputError(f"a model is a name or a path, not {model!r:.40}") from None
    if name in bundled_models():
        return MODELS / name
    inner = path / "model"
    return inner if not (path / CONFIG).exists() and (inner / CONFIG).is_file() else path


def bundled_models() -> list[str]:
    """Return the names of the bundled models."""
    return sorted(path.name for path in MODELS.iterdir() if path.is_dir())


def read_json(path: Path) -> object:
    """Read a JSON file; any problem raises an InputError of one line."""
    try:
        data = cast("object", json.loads(read_file(path, LARGEST_JSON).decode("utf-8")))
    except RecursionError:
        raise InputError(f"{path}: lists are nested too deeply") from None
    except ValueError as error:  # neither UTF-8 nor JSON
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: not JSON: {error}") from error
    if _is_deep(data):
        raise InputError(f"{path}: lists or objects are nested more than {_DEEPEST} deep")
    return data


def read_file(path: Path, largest: int) -> bytes:
    """Return the bytes of a file; reject pipes, devices and files of more than `largest` bytes."""
    check_file(path, largest)
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error


def check_file(path: Path, largest: int) -> None:
    """Raise InputError unless the path is a regular file of at most `largest` bytes."""
    try:
        status = os.stat(path)  # noqa: PTH116 (beside the other calls of the operating system)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
    if not stat.S_ISREG(status.st_mode):
        raise InputError(f"{path}: is not a file")
    if status.st_size > largest:
        raise InputError(f"{path}: is too large: {status.st_size:,} bytes, the limit is {largest:,}")


def _is_deep(value: object) -> bool:
    """Tell whether lists and objects are nested too deeply."""
    level = [value]
    for _ in range(_DEEPEST):
        level = [
            inner
            for item in level
            if isinstance(item, dict | list)
            for inner in (item.values() if isinstance(item, dict) else item)
        ]
        if not level:
            return False
    return True


def write_json(path: Path, data: object) -> None:
    """Write a human-readable JSON file, whole or not at all; a link is replaced, not followed."""
    from zishu.writing import replacing  # imported here because parsing does not need it

    with replacing(path, follow=False) as file:
        file.write((json.dumps(data, ensure_ascii=False, indent=1) + "\n").encode())
