"""Choose the heads of words by what all trees together say: minimum Bayes risk decoding.

The best character tree is one of many. Where characters hang inside a word is latent, so its probability is split over
structures that nobody asked for, and the heads of *words* that the trees share may be others than those of the best
one. With the words of the best character tree as given, this finds

    P(v heads w) = SUM over characters c of v, d of w of the probability of the inter-word arc c -> d

by the chart's marginals, and the tree of words with the largest sum of these, which is the largest expected
number of right heads. Inside the words, and for their root characters, it returns the best character tree of that tree of
words. Trees whose units are words are the special case of words of one character.

Cost: one run of `zishu.chart.marginals` with all gaps known, a best tree over words, and another best character tree
for the sentences whose heads have changed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from zishu import chart
from zishu.gaps import BREAK, JOIN
from zishu.model.words import find_words, gaps_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from zishu.model.scores import Scores
    from zishu.model.words import Words


def probable_heads(scores: Scores, best: chart.Trees) -> tuple[chart.Trees, chart.Marginals]:
    """Return trees with the words of the best ones and their probable heads, and the marginals given these words."""
    words = find_words(best.heads, best.intra, scores.lengths)
    given = scores
    if scores.intra is not None:
        given = scores.given(gaps_of(words, scores.inter.shape[:2], join=JOIN, cut=BREAK))
    marginals = given.marginals()
    heads = _word_heads(marginals, words)
    other = np.unique(words.tree[heads != words.head])
    if not len(other):
        return best, marginals
    found = _with_heads(given.pick(other), words, heads, other)
    trees = chart.Trees(best.heads.copy(), best.intra.copy(), best.score.copy())
    width = found.heads.shape[1]
    trees.heads[other, :width], trees.intra[other, :width] = found.heads, found.intra
    trees.score[other] = found.score
    return trees, marginals


def _word_heads(marginals: chart.Marginals, words: Words) -> NDArray[np.int64]:
    """Return the head of every word in the tree of words with the largest sum of probabilities."""
    counts = np.diff(words.bounds)
    between = np.zeros((len(counts), 1 + counts.max(initial=0), 1 + counts.max(initial=0)))
    for t, (start, end) in enumerate(zip(words.bounds[:-1].tolist(), words.bounds[1:].tolist(), strict=True)):
        # Sums over words, dependents first; ROOT is a word by itself.
        edges = np.concatenate([[0], words.start[start:end]])
        n = int(words.end[end - 1])
        arcs = np.asarray(marginals.inter[t, :n, :n], dtype=np.float64)
        by_word = np.add.reduceat(np.add.reduceat(arcs, edges, axis=0), edges, axis=1)
        between[t, : len(by_word), : len(by_word)] = by_word
    trees = chart.best_tree(between, counts)
    inside = np.arange(between.shape[1])
    return trees.heads[(inside >= 1) & (inside <= counts[:, None])]


def _with_heads(
    given: Scores, words: Words, heads: NDArray[np.int64], chosen: NDArray[np.int64]
) -> chart.Trees:
    """Return the best character trees of some trees whose words have these heads; `given` has their scores."""
    inter = np.full_like(given.inter, -np.inf)
    for row, t in enumerate(chosen.tolist()):
        mine = slice(int(words.bounds[t]), int(words.bounds[t + 1]))
        start = np.concatenate([[0], words.start[mine]])
        end = np.concatenate([[1], words.end[mine]])
        n = int(end[-1])
        word_of_char = np.repeat(np.arange(len(start)), end - start)
        head_of_char = np.concatenate([[-1], heads[mine]])[word_of_char]
        allowed = head_of_char[:, None] == word_of_char[None, :]
        inter[row, :n, :n][allowed] = given.inter[row, :n, :n][allowed]
    return replace(given, inter=inter).best_tree()
