"""Find where an interrupted run ended, from its output alone, and remove an incomplete last sentence.

Every sentence ends with a separator that occurs nowhere else in it: a blank line in CoNLL-U, a line break in JSON. So
complete sentences can be counted without parsing them. Cost: one pass over the output.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from zishu.compression import DamagedFile
from zishu.errors import InputError
from zishu.reading import open_bytes

if TYPE_CHECKING:
    from pathlib import Path

# How a file begins and what ends a sentence, by format.
_SHAPES: Final = {"conllu": (b"# ", b"\n\n"), "chars": (b"# ", b"\n\n"), "json": (b'{"sent_id": ', b"\n")}
FORMATS: Final = tuple(_SHAPES)

_BLOCK: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Done:
    """Count the complete sentences of an output and their bytes; keep the last, and whether a partial one follows."""

    sentences: int = 0
    size: int = 0
    last: str = ""
    torn: bool = False

    def __bool__(self) -> bool:
        return self.sentences > 0


def look_at(path: Path, shape: str) -> Done:
    """Read an output to its end; raise `InputError` if it does not begin like the format."""
    begin, separator = _SHAPES[shape]
    sentences = size = 0
    rest = last = b""
    torn = False
    with open_bytes(path) as stream:
        while True:
            try:
                block = stream.read1(_BLOCK)  # type: ignore[attr-defined]
            except DamagedFile as error:
                if not error.truncated:
                    raise
                torn, block = True, b""
            if not block:
                break
            rest += block
            if not sentences and not begin.startswith(rest[: len(begin)]):
                raise InputError(f"{path}: exists but is not {shape}; cannot resume")
            end = rest.rfind(separator) + len(separator)
            if end >= len(separator):
                sentences += rest.count(separator, 0, end)
                size += end
                last = rest[:end].removesuffix(separator).rpartition(separator)[2]
                rest = rest[end:]
    return Done(sentences, size, last.decode("utf-8", "replace"), torn or bool(rest))


def check_same(done: Done, again: str, path: Path, shape: str) -> None:
    """Raise InputError unless the last sentence of the output equals this run's sentence of the same number."""
    # A lone surrogate cannot be encoded in UTF-8 and is written as an escape.
    as_written = again.encode("utf-8", "backslashreplace").decode()
    if _identity(done.last, shape) != _identity(as_written, shape):
        raise InputError(
            f"{path}: sentence {done.sentences} does not match: was the input or were the options different?"
        )


def _identity(block: str, shape: str) -> list[str]:
    """Return the number, text and kind of rows of a sentence. Its analysis may differ, for example by rounding."""
    if shape == "json":
        try:
            record = json.loads(block)
        except ValueError:
            return [block]
        return [str(record.get(key)) for key in ("sent_id", "start", "text")]
    misc = block.rpartition("\t")[2]
    rows = "characters" if "Place=" in misc else "words"
    return [rows, *(line for line in block.splitlines() if line.startswith(("# sent_id = ", "# text = ")))]
