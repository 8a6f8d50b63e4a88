"""Choose the heads of words from all trees together: minimum Bayes risk decoding.

The best character tree is one of many. The structure inside words is latent, so the probability of a word tree is split
over many character trees, and the most probable heads of *words* may differ from those of the best character tree.
Given the words of the best character tree, this module computes

    P(v heads w) = SUM over characters c of v, d of w of the probability of the inter-word arc c -> d

from the chart's marginals, and the word tree with the largest sum of these, which is the largest expected number of
correct heads. For the structure inside words it returns the best character tree of that word tree. Trees over words are
the special case of words of one character.

Cost: the best trees, the marginals given their words, a best tree over words, and another best character tree for
sentences whose heads have changed. Confidence needs the same marginals, which the distribution caches.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from zishu.chart import TreeDistribution, Trees
from zishu.model.words import Words, arcs_of, find_words, gaps_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from zishu.chart import Marginals


def probable_heads(trees: TreeDistribution, allowed: NDArray[np.bool_] | None = None) -> Trees:
    """Return trees with the words of the best trees and the most probable heads.

    `allowed` marks the inter-word arcs that `trees` is conditioned on; None if all are allowed.
    """
    best = trees.best()
    words = find_words(best.heads, best.intra, trees.lengths)
    given = trees.given(gaps_of(words, trees.gaps.shape[1]))
    word_heads = _word_heads(given.marginals(), words, allowed)
    changed = np.unique(words.tree[word_heads != words.head])
    if not len(changed):
        return best
    arcs = arcs_of(replace(words, head=word_heads), trees.gaps.shape[1])
    given = given.pick(changed)
    width = given.gaps.shape[1]
    found = given.given(inter=arcs[changed, :width, :width]).best()
    heads, intra, score = best.heads.copy(), best.intra.copy(), best.score.copy()
    heads[changed, :width], intra[changed, :width], score[changed] = found.heads, found.intra, found.score
    return Trees(heads, intra, score)


def _word_heads(marginals: Marginals, words: Words, allowed: NDArray[np.bool_] | None) -> NDArray[np.int64]:
    """Return the head of every word in the word tree with the largest sum of probabilities."""
    counts = np.diff(words.bounds)
    size = 1 + int(counts.max(initial=0))
    # The word of every character, from 1; ROOT is word 0, and padding belongs to an additional last word.
    word_of_char = np.full(marginals.inter.shape[:2], size)
    word_of_char[:, 0] = 0
    word = np.cumsum(words.begins) - words.bounds[words.tree_of_char]
    word_of_char[words.tree_of_char, words.char] = word
    # P(v heads w), dependents first: the sums over all pairs of characters of two words
    first = np.arange(len(counts))[:, None] * (size + 1)
    cell = ((first + word_of_char) * (size + 1))[:, :, None] + word_of_char[:, None, :]
    shape = len(counts), size + 1, size + 1
    sums = np.bincount(cell.ravel(), marginals.inter.ravel(), minlength=math.prod(shape))
    between = sums.astype(np.float64, copy=False).reshape(shape)
    if allowed is not None:
        # An arc that no tree has must be excluded, not score 0: a tree with it could have a larger sum than any
        # without.
        may_be = np.zeros(shape, dtype=np.bool_)
        may_be.reshape(-1)[cell[allowed]] = True
        between[~may_be] = -np.inf
    trees = TreeDistribution(between[:, :size, :size], counts).best()
    inside = np.arange(size)
    return trees.heads[(inside >= 1) & (inside <= counts[:, None])]
