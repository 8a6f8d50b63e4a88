"""The trees that forests and partial trees stand for, by enumeration; and partial trees with every kind of knowledge."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

import oracle
from oracle import BREAK, FREE, JOIN, TypedTree
from strategies import LABELS
from zishu.arcs import ROOT_SPAN
from zishu.partial import KnownWord, PartialTree
from zishu.tree import INTRA

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zishu.forest import Forest

LABEL_INDEX = {label: number for number, label in enumerate((INTRA, *LABELS))}
LABEL_AT = (INTRA, *LABELS)

LABEL = next(label for label in LABEL_INDEX if label not in ("INTRA", "root"))


def arc_labels(forest: Forest, *, intra: bool) -> dict[tuple[int, int], str]:
    """Return the arcs of a forest as (dependent, head) -> label, and check that none occurs twice."""
    arcs = [[int(number) for number in arc] for arc in zip(*forest.arcs(intra=intra), strict=True)]
    found = {(d, h): LABEL_AT[label] for d, h, label in arcs}
    assert len(found) == len(arcs)
    return found


def trees_of(forest: Forest, *, root_as_head: bool) -> Iterator[TypedTree]:
    """Filter all legal typed trees by the gaps and arcs of a forest."""
    inter, intra = arc_labels(forest, intra=False), arc_labels(forest, intra=True)
    for tree in oracle.typed_trees(forest.length, forest.gaps.tolist(), root_as_head=root_as_head):
        arcs = zip(enumerate(tree.heads, start=1), tree.intra, strict=True)
        if all(arc in (intra if inside else inter) for arc, inside in arcs):
            yield tree


def known(text: str, gaps: str, *words: KnownWord) -> PartialTree:
    """Make a partial tree; gaps as a string of `.` free, `+` join, `|` break between characters."""
    values = [BREAK, *({".": FREE, "+": JOIN, "|": BREAK}[mark] for mark in gaps), BREAK]
    return PartialTree(tuple(text), np.array(values, dtype=np.int8), words)


# Every kind of knowledge over four characters. Of known words: span, head span or None, relation or None.
KINDS = {
    "nothing": known("上海计划", "..."),
    "all words": known("上海计划", "+|+"),
    "some words": known("上海计划", "+|."),
    "a boundary": known("上海计划", ".|."),
    "inside one word": known("上海计划", ".+."),
    "a head": known("上海计划", "+|+", KnownWord((1, 3), (3, 5))),
    "a head, and a word unknown": known("上海计划", "|+|", KnownWord((1, 2), (2, 4), LABEL)),
    "a head in the open": known("上海计划", "|.|", KnownWord((1, 2), (4, 5))),
    "the root": known("上海计划", "|+|", KnownWord((2, 4), ROOT_SPAN)),
    "a relation without its head": known("上海计划", "+|.", KnownWord((1, 3), None, LABEL)),
    "the root by its relation": known("上海计划", "+|.", KnownWord((1, 3), None, "root")),
    "tags only": known("上海计划", "+|.", KnownWord((1, 3), tags={"upos": "NOUN"})),
    "everything": known("上海计划", "+|+", KnownWord((1, 3), (3, 5), LABEL), KnownWord((3, 5), ROOT_SPAN, "root")),
}  # fmt: skip


def agrees(tree: TypedTree, partial: PartialTree) -> bool:
    """Tell by the definitions whether a typed tree agrees with what is known."""
    if not oracle.respects(tree, partial.gaps):
        return False
    for word in partial.words:
        heads = {
            h
            for d, h, intra in zip(itertools.count(1), tree.heads, tree.intra, strict=False)
            if d in range(*word.span) and not intra
        }
        if word.head is not None and not heads <= set(range(*word.head)):
            return False
        if word.head is None and word.deprel is not None and (heads == {0}) != (word.deprel == "root"):
            return False
    return True
