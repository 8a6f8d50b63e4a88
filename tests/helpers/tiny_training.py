"""Train small networks on the tiny treebank."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import tiny
from zishu.train.config import Config, config_from_dict

if TYPE_CHECKING:
    from pathlib import Path

WIST = """\
1\t发\t0\troot
2\t展\t1\tcoo

1\t金\t3\tatt
2\t融\t1\tcoo
3\t业\t0\troot
"""

ENCODERS = {
    "bilstm": {"kind": "bilstm", "char_width": 24, "bigram_width": 8, "bigram_min_count": 1, "layers": 1, "hidden": 32},
    "transformer": {"kind": "transformer", "char_width": 32, "bigram_width": 0, "layers": 1, "hidden": 32,
                    "heads": 2, "feed_forward": 64},
}  # fmt: skip


def write_treebank(folder: Path) -> Path:
    """Write all sentences, the projective ones, and structures of some of their words; return the folder."""
    (folder / "wist.conll").write_text(WIST, encoding="utf-8")
    tiny.write(folder / "all.conllu", tiny.ALL)
    tiny.write(folder / "projective.conllu", tiny.TREES)
    return folder


def make_config(treebank: Path, directory: Path, *, encoder: str = "bilstm", **changes: Any) -> Config:
    """Return a configuration for the tiny treebank; `changes` are keys or whole sections, merged with these."""
    data: dict[str, Any] = {
        "name": "tiny",
        "data": {
            "train": str(treebank / "all.conllu"),
            "dev": str(treebank / "projective.conllu"),
            "structures": str(treebank / "wist.conll"),
        },
        "encoder": {**ENCODERS[encoder], "dropout": 0.0, "embedding_dropout": 0.0},
        "scorer": {"arc": 32, "label": 16, "dropout": 0.0},
        "optimiser": {"epochs": 60, "batch_chars": 40, "learning_rate": 0.01, "beta2": 0.99, "eps": 1e-8},
        "run": {"directory": str(directory), "threads": 1},
    }
    for key, value in changes.items():
        data[key] = {**data.get(key, {}), **value} if isinstance(value, dict) else value
    return config_from_dict(data)


def read_lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
