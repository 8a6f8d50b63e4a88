"""Segment and tag raw text with jieba's dictionary (MIT), for `zishu pretrain` to learn from.

    python tools/tag_text.py OUT wiki.txt.xz docs.txt.xz:2 laws.txt.xz:0.5

Every input is a text file with one sentence per line, plain or compressed with xz. The number after the colon says how
often its sentences are used; a fraction takes a random part of them. OUT gets one sentence per line, words
with their tags (`上海/ns 计划/v`). The inputs are mixed at random, each in its own order, and read line by line, so a
text of any size takes little memory.
"""

from __future__ import annotations

import lzma
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import jieba

if TYPE_CHECKING:
    from collections.abc import Iterator

_UNLISTED = "x"  # the tag of a word that the dictionary does not have


def main(out: str, *inputs: str) -> None:
    """Tag the inputs and write them to one file."""
    jieba.setLogLevel("ERROR")
    tags = _read_tags()
    chance = random.Random(0)
    streams = []
    for name in inputs:
        path, _, times = name.partition(":")
        share = float(times or 1)
        streams.append((_repeat(Path(path), share), share * sum(1 for _ in _read(Path(path)))))
    with Path(out).open("w", encoding="utf-8") as file:
        while streams:
            stream, _ = chosen = chance.choices(streams, [size for _, size in streams])[0]
            line = next(stream, None)
            if line is None:
                streams.remove(chosen)
            elif tagged := _tag(line, tags):
                file.write(f"{tagged}\n")


def _read_tags() -> dict[str, str]:
    """Return the tag of every word of jieba's dictionary."""
    with jieba.get_module_res("dict.txt") as file:
        rows = (line.decode("utf-8").split() for line in file)
        return {word: tag for word, _, tag in rows}


def _repeat(path: Path, times: float) -> Iterator[str]:
    """Yield the lines of a file the given number of times."""
    chance = random.Random(0)
    while times > 0:
        yield from (line for line in _read(path) if chance.random() < times)
        times -= 1


def _read(path: Path) -> Iterator[str]:
    with (lzma.open if path.suffix == ".xz" else open)(path, "rt", encoding="utf-8") as file:
        yield from file


def _tag(line: str, tags: dict[str, str]) -> str:
    words = (word for word in jieba.cut(line) if not word.isspace())
    return " ".join(f"{word}/{tags.get(word, _UNLISTED)}" for word in words)


if __name__ == "__main__":
    main(*sys.argv[1:])
