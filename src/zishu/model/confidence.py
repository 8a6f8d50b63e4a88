"""Tell how sure the parser is, from the chart's marginals.

The chart defines a distribution over all typed trees of a sentence that agree with what is known of its words, here
at the model's temperature (`zishu.model.calibration`). Of an analysis that was drawn from it,

- `tree` is the probability of exactly its words, its tree and the trees inside its words; labels are not counted;
- `boundaries` gives for each word the least probable of the decisions that make it this word: a boundary at
  its two edges, none at the gaps inside it. The edges of the sentence and known gaps are certain;
- `heads` gives for each word the probability of its head *given the words*, by a second chart in which all gaps
  are known: inter-word arcs from any character of the head to any character of the word;
- `labels` gives for each word the probability of its relation given the arc, among the relations that are legal.

The product of the last three is how sure the parser is of a word as a whole. A tree of one role (vanilla
decoding) has no distribution over words: `tree` is the probability of the character tree, and there are no
`boundaries`.

Cost: two runs of `zishu.chart.marginals`, one less if all words are given, and one less after decoding by minimum Bayes
risk at the temperature 1, which has done the second.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from zishu import chart
from zishu.gaps import BREAK, JOIN
from zishu.model.words import gaps_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from zishu.model.outputs import Floats
    from zishu.model.scores import Scores
    from zishu.model.words import Words


@dataclass(frozen=True, slots=True)
class Confidence:
    """Probabilities of an analysis; the tuples have one entry a word."""

    tree: float
    boundaries: tuple[float, ...] | None  # None in vanilla decoding
    heads: tuple[float, ...]
    labels: tuple[float, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """The probabilities of all trees of a batch; t counts trees, w words."""

    tree: NDArray[np.float64]  # t
    boundaries: NDArray[np.float64] | None  # w
    heads: NDArray[np.float64]  # w


def measure(
    scores: Scores,
    sentences: NDArray[np.int64],
    tree_scores: Floats,
    words: Words,
    given: chart.Marginals | None = None,
) -> Measured:
    """Return the probabilities of typed trees; tree t is one of `sentences[t]` and has the score `tree_scores[t]`.

    `given` are the marginals of the sentences given the words of their trees, if they are known already.
    """
    shape = len(sentences), scores.inter.shape[1]
    gaps = gaps_of(words, shape, join=JOIN, cut=BREAK)
    first, same = _first_of_each(sentences, gaps)
    if given is None:
        chosen = scores.pick(sentences[first])
        given = chosen.given(gaps[first, : chosen.inter.shape[1]]).marginals()

    logz = np.empty(len(scores.lengths))
    logz[sentences[first]] = given.logz  # holds where the words were known before
    boundary = np.ones((len(scores.lengths), shape[1]))
    complete = scores.complete
    unsure = np.unique(sentences[~complete[sentences]])
    if len(unsure):
        free = scores.pick(unsure).marginals()
        assert free.boundary is not None
        logz[unsure] = free.logz
        boundary[unsure, : free.boundary.shape[1]] = free.boundary
    decisions = np.where(complete[sentences, None], gaps == BREAK, boundary[sentences])
    return Measured(
        _probability(tree_scores, logz[sentences]),
        _of_boundaries(decisions, words),
        _of_heads(given.inter, same, words),
    )


def measure_words(
    scores: Scores,
    sentences: NDArray[np.int64],
    tree_scores: Floats,
    words: Words,
    given: chart.Marginals | None = None,
) -> Measured:
    """Return the probabilities of trees whose units are words: these are given, and hence sure."""
    marginals = given or scores.marginals()
    return Measured(
        _probability(tree_scores, marginals.logz[sentences]),
        np.ones(len(words.tree)),
        _of_heads(marginals.inter, sentences, words),
    )


def measure_vanilla(scores: Scores, tree_scores: Floats, words: Words) -> Measured:
    """Return the probabilities of one tree of each sentence whose words came from its labels."""
    logz = chart.log_partition(scores.inter, scores.lengths)
    gaps = gaps_of(words, scores.inter.shape[:2], join=JOIN, cut=BREAK)
    heads = _of_heads(scores.given(gaps).marginals().inter, np.arange(len(logz)), words)
    return Measured(_probability(tree_scores, logz), None, heads)


def _first_of_each(
    sentences: NDArray[np.int64], gaps: NDArray[np.int8]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return a tree for each sentence and its words, and which of these each tree goes with.

    Several trees of a sentence may have the same words; one chart serves them all.
    """
    each = np.arange(len(sentences))
    if (sentences[1:] > sentences[:-1]).all():  # one tree a sentence
        return each, each
    keys = np.column_stack([sentences, gaps])
    _, first, same = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    return first, np.reshape(same, -1)


def _probability(scores: Floats, logz: NDArray[np.float64]) -> NDArray[np.float64]:
    # Both are sums in different orders: the best tree of a sentence with one tree may exceed it by a rounding.
    return np.exp(np.minimum(scores - logz, 0.0))


def _of_boundaries(boundary: Floats, words: Words) -> NDArray[np.float64]:
    """Return each word's least probable decision, from the probabilities `[t, N+1]` of a boundary at each gap."""
    before = np.asarray(boundary, dtype=np.float64)[words.tree_of_char, words.char - 1]
    decision = np.where(words.begins, before, 1.0 - before)
    left_and_inside = np.minimum.reduceat(decision, words.first_char)
    # The right edge of a word is the left edge of the next one; that of the last word is the sentence's.
    right = np.ones(len(words.tree))
    right[:-1] = np.where(words.start[1:] > 1, decision[words.first_char[1:]], 1.0)
    return np.clip(np.minimum(left_and_inside, right), 0.0, 1.0)


def _of_heads(inter: Floats, rows: NDArray[np.int64], words: Words) -> NDArray[np.float64]:
    """Return the probability of each word's head; the marginals of the arcs of tree t are `inter[rows[t]]`."""
    # before[r, d, h]: the probability that the head of d comes before h
    before = np.zeros((*inter.shape[:2], inter.shape[2] + 1))
    np.cumsum(inter, axis=2, dtype=np.float64, out=before[:, :, 1:])
    place = words.bounds[words.tree] + words.head - 1  # of the head among all words
    below_root = words.head == 0
    start = np.where(below_root, 0, words.start[place])
    end = np.where(below_root, 1, words.end[place])
    word_of_char = np.cumsum(words.begins) - 1
    row, d = rows[words.tree_of_char], words.char
    of_char = before[row, d, end[word_of_char]] - before[row, d, start[word_of_char]]
    return np.clip(np.add.reduceat(of_char, words.first_char), 0.0, 1.0)
