"""Read annotated structures inside words, in the format of WIST (Gong et al., ACL 2021).

A file is a list of words. A word is a block of lines, one per character, followed by a blank line. The columns are
number of the character, character, number of its head (0: the root of the word) and label, separated by tabs.

    1   金       2       att
    2   融       3       att
    3   业       0       root

The result is the input of the policy `annotated` of `zishu.forest`. Labels are ignored.

The reader is strict, because a skipped word would silently become latent in training. A structure that is not a
projective tree over the characters of its word, or a word with two different trees, raises a `FormatError` with file
and line. The published file has no such word. A word may occur twice with the same tree, so lexicons can be
concatenated.
"""

from __future__ import annotations

from zishu.errors import FormatError, InvalidTree
from zishu.formats.conllu import blocks
from zishu.reading import Source, read_lines, source_name
from zishu.text import characters
from zishu.tree import check_heads

_COLUMNS = ("number", "character", "head", "label")


def read_wist(source: Source, *, name: str | None = None) -> dict[str, tuple[int, ...]]:
    """Return the heads inside every word of a file, counted from 1 (0 for the word's root)."""
    name = name or source_name(source)
    structures: dict[str, tuple[int, ...]] = {}
    first_line: dict[str, int] = {}
    for line, block in blocks(read_lines(source, name)):
        rows = [_row(row, k + 1, name, line + k) for k, row in enumerate(block)]
        form, heads = "".join(char for char, _ in rows), tuple(head for _, head in rows)
        try:
            # Separate characters may merge into one, such as a letter and a combining mark.
            if (size := len(characters(form))) != len(rows):
                raise InvalidTree(f"{len(rows)} lines, but the word has {size} characters")
            check_heads(heads, kind="character", projective=True)
            if structures.get(form, heads) != heads:
                raise InvalidTree(f"line {first_line[form]} has a different structure")
        except InvalidTree as error:
            raise FormatError(f"{form}: {error}", path=name, line=line) from error
        structures[form] = heads
        first_line.setdefault(form, line)
    return structures


def _row(line: str, expected: int, name: str, number: int) -> tuple[str, int]:
    """Return the character and the head of one line, whose first column must be `expected`."""
    columns = line.split("\t")
    if len(columns) != len(_COLUMNS):
        problem = f"{len(columns)} columns, expected {len(_COLUMNS)}: {', '.join(_COLUMNS)}"
    elif columns[0] != str(expected):
        problem = f"character number {columns[0]!r}, expected {expected}"
    elif len(characters(columns[1])) != 1 or columns[1].isspace():
        problem = f"{columns[1]!r} is not one character"
    elif not (columns[2].isascii() and columns[2].isdecimal()):
        problem = f"head {columns[2]!r} is not a number"
    else:
        return columns[1], int(columns[2])
    raise FormatError(problem, path=name, line=number)
