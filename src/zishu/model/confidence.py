"""Compute how confident the parser is, from the chart's marginals.

The chart defines a distribution over all typed trees of a sentence that satisfy its constraints, at the model's
temperature (`zishu.model.calibration`). For an analysis from this distribution,

- `trees` is the probability of its words and their tree, with the trees inside words summed out: the paper's forest
  probability. Labels are not included;
- `boundaries` gives for each word its least probable segmentation decision: a boundary at its two edges, no boundary at
  the gaps inside it. The edges of the sentence and known gaps are certain;
- `heads` gives for each word the probability of its head *given the words*, from a second chart in which all gaps are
  known: inter-word arcs from any character of the head to any character of the word.

The product of the last two and of the probabilities of the relation (`zishu.model.labels`) and of the part of speech
(`zishu.model.tags`) is the confidence in the word as a whole. A tree with one role (vanilla decoding) has no
distribution over words: `trees` is the probability of the character tree, and there are no `boundaries`.

Cost: the boundaries of all trees and the marginals given the words (known already after minimum Bayes risk decoding, and
identical if all words are given), and the partition function of a forest, which costs less than a full one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from zishu.gaps import BREAK, FREE
from zishu.model.words import Words, arcs_of, gaps_of, head_spans, sum_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from zishu.chart import Floats, TreeDistribution


@dataclass(frozen=True, slots=True, eq=False)
class Confidence:
    """Hold the probabilities of a batch of trees, and of all their words, in the order of `Words`."""

    trees: NDArray[np.float64]
    boundaries: NDArray[np.float64] | None  # None in vanilla decoding
    heads: NDArray[np.float64]


def measure_trees(trees: TreeDistribution, words: Words) -> Confidence:
    """Return the probabilities of word trees and their words."""
    gaps = gaps_of(words, trees.gaps.shape[1])
    first, same = _first_of_each(words.sentence, gaps)
    chosen = trees.pick(words.sentence[first])
    given = chosen.given(gaps[first, : chosen.gaps.shape[1]]).marginals()
    return Confidence(*measure_words(trees, words), _of_heads(given.inter, same, words))


def measure_words(trees: TreeDistribution, words: Words) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the probabilities of word trees and of the boundaries of their words.

    Those of a tree that contradicts the known gaps are 0, and so are those of its words at such gaps.
    """
    free, logz = trees.boundaries(), trees.log_partition()
    size = trees.gaps.shape[1]
    known, gaps, arcs = trees.gaps[words.sentence], gaps_of(words, size), arcs_of(words, size)
    [possible] = ((known == FREE) | (known == gaps)).all(axis=1).nonzero()
    each = trees.pick(words.sentence[possible])
    width = each.gaps.shape[1]
    forest = each.given(gaps[possible, :width], inter=arcs[possible, :width, :width])
    prob = np.zeros(len(gaps))
    prob[possible] = _probability(forest.log_partition(), logz[words.sentence[possible]])
    boundary = np.where(known == FREE, free[words.sentence], known == BREAK)
    return prob, _of_boundaries(boundary, words)


def measure_vanilla(trees: TreeDistribution, scores: NDArray[np.float64], words: Words) -> Confidence:
    """Return the probabilities of one tree per sentence whose words came from its labels."""
    given = trees.given(gaps_of(words, trees.gaps.shape[1])).marginals()
    heads = _of_heads(given.inter, words.sentence, words)
    return Confidence(_probability(scores, trees.log_partition()), None, heads)


def _first_of_each(
    sentences: NDArray[np.int64], gaps: NDArray[np.int8]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return one tree for each distinct pair of sentence and words, and the index of that tree for each tree.

    Several trees of a sentence may have the same words; they share one chart.
    """
    each = np.arange(len(sentences))
    if (sentences[1:] > sentences[:-1]).all():  # one tree per sentence
        return each, each
    keys = np.column_stack([sentences, gaps])
    _, first, same = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    return first, np.reshape(same, -1)


def _probability(scores: Floats, logz: NDArray[np.float64]) -> NDArray[np.float64]:
    # The sums run in different orders, so the probability of a sentence's only tree may exceed 1 by rounding.
    return np.exp(np.minimum(scores - logz, 0.0))


def _of_boundaries(boundary: Floats, words: Words) -> NDArray[np.float64]:
    """Return each word's least probable decision, from the boundary probabilities `[t, N+1]`."""
    before = np.asarray(boundary, dtype=np.float64)[words.tree_of_char, words.char - 1]
    decision = np.where(words.begins, before, 1.0 - before)
    left_and_inside = np.minimum.reduceat(decision, words.first_char)
    # The right edge of a word is the left edge of the next one; that of the last word is the sentence's.
    right = np.ones(len(words.tree))
    right[:-1] = np.where(words.start[1:] > 1, decision[words.first_char[1:]], 1.0)
    return np.clip(np.minimum(left_and_inside, right), 0.0, 1.0)


def _of_heads(inter: Floats, rows: NDArray[np.int64], words: Words) -> NDArray[np.float64]:
    """Return the probability of each word's head; the arc marginals of tree t are `inter[rows[t]]`."""
    start, end = (span[np.cumsum(words.begins) - 1] for span in head_spans(words))
    width = inter.shape[2]
    first = (rows[words.tree_of_char] * width + words.char) * width + start
    of_char = sum_rows(inter.reshape(-1), first, end - start)
    return np.clip(np.add.reduceat(of_char, words.first_char), 0.0, 1.0)
