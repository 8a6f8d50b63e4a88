"""A treebank of six sentences, written for these tests: words of one to four characters, both arc directions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zishu.formats.conllu import from_tree, write_conllu
from zishu.tree import WordTree

if TYPE_CHECKING:
    from pathlib import Path

# form/UPOS/head/relation
_SENTENCES = """
上海/PROPN/2/nsubj 计划/VERB/0/root 发展/VERB/2/xcomp 金融业/NOUN/3/obj 。/PUNCT/2/punct
我/PRON/2/nsubj 喜欢/VERB/0/root 图书馆/NOUN/2/obj 。/PUNCT/2/punct
小/ADJ/2/amod 猫/NOUN/4/nsubj 在/ADP/5/case 睡/VERB/0/root 沙发/NOUN/4/obl
他们/PRON/4/nsubj 昨天/NOUN/4/obl 已经/ADV/4/advmod 离开/VERB/0/root 北京/PROPN/4/obj 了/PART/4/discourse
社会主义/NOUN/2/nmod 国家/NOUN/3/nsubj 发展/VERB/0/root 很/ADV/5/advmod 快/ADJ/3/advmod
老师/NOUN/3/nsubj 不/ADV/3/advmod 来/VERB/0/root
"""


def _tree(line: str) -> WordTree:
    forms, upos, heads, deprels = zip(*(word.split("/") for word in line.split()), strict=True)
    return WordTree(forms, tuple(map(int, heads)), deprels, upos)


# The third sentence is not projective: 在 belongs to 沙发, across 睡.
ALL = tuple(_tree(line) for line in _SENTENCES.strip().splitlines())
TREES = tuple(tree for tree in ALL if tree.is_projective)


def write(path: Path, trees: tuple[WordTree, ...] = TREES) -> str:
    """Write trees as a CoNLL-U file and return its name."""
    with path.open("w", encoding="utf-8") as stream:
        write_conllu((from_tree(tree, sent_id=str(k)) for k, tree in enumerate(trees)), stream)
    return str(path)
