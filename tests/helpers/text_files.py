"""Read and write small text files as Zishu does, and make runs leave what killed runs leave."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zishu.reading import Input
from zishu.writing import Output

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def read(path: Path | str, **options: Any) -> str:
    with Input(path, **options) as text:
        return "".join(text.blocks())


def write(path: Path, *pieces: str, append: bool = False) -> Path:
    with Output(path, append=append) as out:
        for piece in pieces:
            out.write(piece)
    return path


def keep_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make runs leave the record of their options, as if they were killed just before their end."""
    monkeypatch.setattr("zishu.corpus.claim._give_up", lambda *_: None)
