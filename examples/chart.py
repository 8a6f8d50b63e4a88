"""Count the character trees of every sentence of a CoNLL-U file, and draw one of them at random.

    python examples/chart.py [FILE.conllu]

All scores are 0, so every tree weighs the same and the exponential of the log partition is the number of trees: with
nothing known about the words, given the words, and given the word tree (its forest). The tree drawn from the forest is
shown by the heads inside each word, counted from 1, with 0 for the word's root. The example checks that it leads back
to the gold tree.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from zishu.chart import TreeDistribution
from zishu.forest import build_forest
from zishu.formats.conllu import read_conllu
from zishu.text import characters
from zishu.tree import INTRA, CharTree, recover

if TYPE_CHECKING:
    from zishu.forest import Forest
    from zishu.tree import WordTree

SAMPLE = Path(__file__).with_name("sample.conllu")


def main() -> None:
    """Print the counts and one tree of every sentence."""
    for sentence in read_conllu(sys.argv[1] if len(sys.argv) > 1 else SAMPLE):
        print(sentence.text)
        show(sentence.tree())


def show(words: WordTree) -> None:
    """Print the counts and one tree of a sentence."""
    labels = sorted({INTRA, *words.deprels})
    forest = build_forest(words, {label: number for number, label in enumerate(labels)})
    n, gaps = forest.length, forest.gaps[None]
    zero = np.zeros((1, n + 1, n + 1))
    trees = TreeDistribution(zero, [n], zero)
    gold = trees.given(gaps, inter=marked(forest, intra=False), intra=marked(forest, intra=True))
    distributions = {"nothing given": trees, "words given": trees.given(gaps), "word tree given": gold}
    for what, some in distributions.items():
        print(f"  {what:<15} {math.exp(some.log_partition()[0]):>18,.0f} trees")

    drawn = gold.sample(1, seed=0)
    heads = drawn.heads[0, 0, 1 : n + 1].tolist()
    between = zip(*(column.tolist() for column in forest.arcs(intra=False)), strict=True)
    names = {(d, h): labels[label] for d, h, label in between}
    arcs = zip(range(1, n + 1), heads, drawn.intra[0, 0, 1:], strict=True)
    tree = CharTree(
        chars=tuple(char for form in words.forms for char in characters(form)),
        heads=tuple(heads),
        labels=tuple(INTRA if inside else names[d, h] for d, h, inside in arcs),
    )
    found = recover(tree)
    if (found.tree.forms, found.tree.heads) != (words.forms, words.heads):
        raise AssertionError("the tree does not belong to the forest")
    inside = zip(found.tree.forms, found.char_heads, strict=True)
    print("  one of them     " + "  ".join(f"{form} {','.join(map(str, inner))}" for form, inner in inside))


def marked(forest: Forest, *, intra: bool) -> np.ndarray:
    """Return an array that is true for the arcs of a forest, inside words or between them."""
    marks = np.zeros((1, forest.length + 1, forest.length + 1), dtype=bool)
    dependents, heads, _ = forest.arcs(intra=intra)
    marks[0, dependents, heads] = True
    return marks


if __name__ == "__main__":
    main()
