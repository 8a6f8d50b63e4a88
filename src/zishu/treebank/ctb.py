"""Convert phrase structure trees into dependency trees, and find the files of a Penn Chinese Treebank.

The head word of a phrase is the head word of its head child (`head_rules`). The head words of the other children depend
on it, with a label from `labels`. So the words of every phrase form one subtree, and the result is always a projective
tree. Cost: linear in the tree, except for the search among the children of a node.

The treebank is licensed by the LDC. None of it is included here; these functions read the user's copy.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from zishu.errors import InputError
from zishu.tree import ROOT, WordTree
from zishu.treebank.head_rules import find_head
from zishu.treebank.labels import ROOT_RELATION, Labels, relation

if TYPE_CHECKING:
    from pathlib import Path

    from zishu.formats.brackets import Tree

# Where releases of the treebank keep their trees. UTF-8 comes first, because some releases have two encodings.
FOLDERS = (
    *("data/utf8/bracketed", "data/utf-8/bracketed", "utf8/bracketed", "utf-8/bracketed"),
    *("data/bracketed", "bracketed", "."),
)
# Version 5 has names like chtb_001.fid, version 6 chtb_0001.fid, later ones chtb_0001.nw.bracketed or chtb_0001.nw.
_FILE = re.compile(r"chtb_(\d{3,4})(\.[a-z]{2})?(\.fid|\.bracketed)?", re.IGNORECASE)

# Escaped spellings of brackets.
_ESCAPES = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}


def dependencies(tree: Tree, labels: Labels = "malt") -> WordTree:
    """Convert a tree without empty elements with the Z&C head rules and either kind of Malt labels.

    The treebank's parts of speech are XPOS.
    """
    forms: list[str] = []
    tags: list[str] = []
    heads: list[int] = []
    relations: list[str] = []

    def attach(node: Tree) -> int:
        """Number the words of a phrase and set every head but that of its head word; return its number."""
        if node.word is not None:
            forms.append(unescape(node.word))
            tags.append(node.category)
            heads.append(ROOT)
            relations.append(ROOT_RELATION)
            return len(forms)
        tops = [attach(child) for child in node.children]
        head = find_head(node.category, [child.category for child in node.children])
        top = tops[head]
        for k, dependent in enumerate(tops):
            if k != head:
                heads[dependent - 1] = top
                pair = tags[top - 1], tags[dependent - 1]
                relations[dependent - 1] = relation(node, head, k, *pair, labels=labels)
        return top

    attach(tree)
    return WordTree(tuple(forms), tuple(heads), tuple(relations), xpos=tuple(tags))


def unescape(word: str) -> str:
    """Return a word as written in the text: trees spell brackets as -LRB- and so on."""
    return _ESCAPES.get(word, word)


def find_files(directory: Path) -> dict[int, Path]:
    """Return the bracketed files of a copy of the treebank by number, in order."""
    if not directory.is_dir():
        raise InputError(f"{directory}: not a directory")
    for folder in FOLDERS:
        if files := numbered_files(directory / folder):
            return files
    # A copy may have an extra folder around it, or the user may name the folder above.
    nested = sorted(path for path in directory.rglob("bracketed") if path.is_dir() and numbered_files(path))
    unicode = [path for path in nested if {"utf8", "utf-8"} & {part.lower() for part in path.parts}]
    choice = unicode if len(unicode) == 1 else nested
    if len(choice) > 1:
        raise InputError(f"{directory}: several folders of trees, choose one: {', '.join(map(str, choice))}")
    if not choice:
        raise InputError(
            f"{directory}: no files like chtb_001.fid or chtb_0001.nw.bracketed, here or in subfolders"
        )
    return numbered_files(choice[0])


def numbered_files(folder: Path, pattern: re.Pattern[str] = _FILE) -> dict[int, Path]:
    """Return the files of a folder whose names match, by the number in their names; two with one number are an error."""
    files: dict[int, Path] = {}
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if (match := pattern.fullmatch(path.name)) and path.is_file():
            number = int(match[1])
            if number in files:
                raise InputError(f"{folder}: {files[number].name} and {path.name} have the same number")
            files[number] = path
    return dict(sorted(files.items()))
