"""Read the dependencies of trees from files that another program converted, and match them with the trees.

Only Penn2Malt and old versions of the Stanford parser give their own heads and labels exactly. Their output is CoNLL-X
(ten columns) or Malt-TAB (form, tag, head, label). Files are found by name: either one for each output (`train.conllx`)
or one for each file of the treebank (`chtb_0001.fid.tab`).

Sentences must have the words of the trees, in the same order. A few may be missing or differ, because both programs
drop what they cannot convert, and correct what they take for errors in the treebank. `difflib` finds which sentences
belong to which trees.
"""

from __future__ import annotations

import difflib
import io
import re
from typing import TYPE_CHECKING, Final

from zishu.errors import FormatError, InputError
from zishu.formats.brackets import Tree, open_text
from zishu.formats.conllu import ConlluSentence, ConlluToken, blocks, read_conllu
from zishu.tree import WordTree
from zishu.treebank.head_rules import unescape
from zishu.treebank.splits import numbered_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path


TOLERATED: Final = 0.01  # share of trees that may have no sentence
_NUMBERED = re.compile(r"chtb_(\d{3,4})(?!\d).*", re.IGNORECASE | re.DOTALL)


def find_converted(directory: Path, part: str, numbers: Sequence[int]) -> list[Path]:
    """Return the converted files for one output, in the order of the split."""
    if not directory.is_dir():
        raise InputError(f"{directory}: not a directory")
    names = sorted(path for path in directory.iterdir() if path.is_file())
    whole = [path for path in names if path.name.partition(".")[0] == part]
    if len(whole) > 1:
        raise InputError(f"{directory}: {whole[0].name} and {whole[1].name} are both for {part}")
    if whole:
        return whole
    found = numbered_files(directory, _NUMBERED)
    files = [found[number] for number in numbers if number in found]
    if numbers and not files:
        raise InputError(f"{directory}: neither a file {part}.* nor files chtb_NNNN.* for {part}")
    return files


def read_converted(paths: Iterable[Path]) -> list[ConlluSentence]:
    """Read files in CoNLL-X or Malt-TAB (detected from the first line), in UTF-8 or GB18030."""
    return [sentence for path in paths for sentence in _read(path)]


def match_trees(
    trees: Sequence[Tree], sentences: Sequence[ConlluSentence], source: str = "the converted files"
) -> list[WordTree | str]:
    """Return the dependencies of each tree, or a string that says why it has none; parts of speech are the tree's.

    Raises `InputError`, with the first example, if more than `TOLERATED` of the trees have no sentence in the source.
    """
    wanted = [tuple(unescape(leaf.word or "") for leaf in tree.leaves()) for tree in trees]
    given = [tuple(unescape(token.form) for token in sentence.tokens) for sentence in sentences]
    found: dict[int, ConlluSentence] = {}
    for block in difflib.SequenceMatcher(None, wanted, given, autojunk=False).get_matching_blocks():
        found |= {block.a + k: sentences[block.b + k] for k in range(block.size)}
    missing = [k for k in range(len(trees)) if k not in found]
    if len(missing) > TOLERATED * len(trees):
        raise InputError(
            f"{len(missing)} of {len(trees)} trees have no sentence with the same words in {source}; "
            f"the first is {' '.join(wanted[missing[0]])}"
        )
    results: list[WordTree | str] = [f"no sentence in {source} has these words"] * len(trees)
    for k, sentence in found.items():
        tags = tuple(leaf.category for leaf in trees[k].leaves())
        try:
            tree = sentence.tree()
            results[k] = WordTree(wanted[k], tree.heads, tree.deprels, xpos=tags)
        except InputError as error:
            results[k] = str(error)
    return results


def _read(path: Path) -> Iterator[ConlluSentence]:
    with open_text(path, errors="replace") as text:
        lines = [line.rstrip("\r\n") for line in text]
    first = next((line for line in lines if line and not line.startswith("#")), "")
    if first.count("\t") != 3:
        yield from read_conllu(io.StringIO("\n".join(lines)), name=str(path), dialect="x")
        return
    for start, block in blocks(lines):
        tokens = [_token(row, index + 1, str(path), start + index) for index, row in enumerate(block)]
        yield ConlluSentence(tokens=tokens, dialect="x", path=str(path), line=start)


def _token(row: str, number: int, path: str, line: int) -> ConlluToken:
    columns = row.split("\t")
    if len(columns) != 4 or "" in columns or not columns[2].isdecimal():
        raise FormatError("not Malt-TAB: expected form, tag, head, label", path=path, line=line)
    form, tag, head, label = columns
    return ConlluToken(number, form, xpos=tag, head=int(head), deprel=label)
