"""Segment and tag raw text with jieba's dictionary (MIT), as something for an encoder to learn from.

    python tools/tag_text.py OUT wiki.txt.xz docs.txt.xz:2 laws.txt.xz:0.5

Every input is a text file, one sentence a line, plain or compressed with xz; behind a colon stands how often its
sentences are used (a share below one takes every so many). OUT gets one sentence a line, words with their tags
(`上海/ns 计划/v`), in a random order that depends on nothing. What `zishu pretrain` makes of it is told there.
"""

from __future__ import annotations

import lzma
import random
import sys
from pathlib import Path

import jieba

_UNLISTED = "x"  # the tag of a word that the dictionary does not have


def main(out: str, *inputs: str) -> None:
    """Tag the inputs and write them to one file."""
    jieba.setLogLevel("ERROR")
    tags = _read_tags()
    lines: list[str] = []
    for name in inputs:
        path, _, times = name.partition(":")
        tagged = [_tag(line, tags) for line in _read(Path(path))]
        whole, share = divmod(float(times or 1), 1)
        lines += tagged * int(whole)
        lines += random.Random(0).sample(tagged, round(share * len(tagged)))
    random.Random(0).shuffle(lines)
    Path(out).write_text("".join(f"{line}\n" for line in lines if line), encoding="utf-8")


def _read_tags() -> dict[str, str]:
    """Return the tag of every word of jieba's dictionary."""
    with jieba.get_module_res("dict.txt") as file:
        rows = (line.decode("utf-8").split() for line in file)
        return {word: tag for word, _, tag in rows}


def _read(path: Path) -> list[str]:
    if path.suffix == ".xz":
        with lzma.open(path, "rt", encoding="utf-8") as file:
            return file.read().splitlines()
    return path.read_text(encoding="utf-8").splitlines()


def _tag(line: str, tags: dict[str, str]) -> str:
    words = (word for word in jieba.cut(line) if not word.isspace())
    return " ".join(f"{word}/{tags.get(word, _UNLISTED)}" for word in words)


if __name__ == "__main__":
    main(*sys.argv[1:])
