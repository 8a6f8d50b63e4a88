"""Count the character trees of every sentence of a CoNLL-U file, and draw one of them at random.

    python examples/chart.py [FILE.conllu]

All scores are 0, so every tree weighs the same and the exponential of the log partition is the number of
trees in the chart: with nothing known about the words, with the words given, and with their tree given too
(its forest). The tree drawn from the forest is shown by the heads inside each word, counted from 1, 0 for
the word's root; that it leads back to the gold tree is checked.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from zishu.chart import log_partition, sample
from zishu.forest import build_forest
from zishu.formats.conllu import read_conllu
from zishu.text import characters
from zishu.tree import INTRA, CharTree, recover

if TYPE_CHECKING:
    from zishu.forest import Arcs
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
    inter, intra = allowed(forest.inter, n), allowed(forest.intra, n)
    zero = np.zeros_like(inter)
    counts = {
        "nothing given": log_partition(zero, [n], zero),
        "words given": log_partition(zero, [n], zero, gaps),
        "word tree given": log_partition(inter, [n], intra, gaps),
    }
    for what, logz in counts.items():
        print(f"  {what:<15} {math.exp(logz[0]):>18,.0f} trees")

    drawn = sample(inter, [n], intra, gaps, k=1, seed=0)
    heads = drawn.heads[0, 0, 1 : n + 1].tolist()
    names = {(d, h): labels[label] for d, h, label in triples(forest.inter)}
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


def allowed(arcs: Arcs, n: int) -> np.ndarray:
    """Return scores that allow these arcs only: 0 for each of them, -inf for any other."""
    scores = np.full((1, n + 1, n + 1), -np.inf)
    scores[0, arcs.dependents, arcs.heads] = 0.0
    return scores


def triples(arcs: Arcs) -> zip[tuple[int, int, int]]:
    """Return (dependent, head, label) of every arc."""
    return zip(arcs.dependents.tolist(), arcs.heads.tolist(), arcs.labels.tolist(), strict=True)


if __name__ == "__main__":
    main()
