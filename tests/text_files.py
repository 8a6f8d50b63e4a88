"""Read and write small text files as Zishu does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zishu.reading import Input
from zishu.writing import Output

if TYPE_CHECKING:
    from pathlib import Path


def read(path: Path | str, **options: Any) -> str:
    with Input(path, **options) as text:
        return "".join(text.blocks())


def write(path: Path, *pieces: str, append: bool = False) -> Path:
    with Output(path, append=append) as out:
        for piece in pieces:
            out.write(piece)
    return path
