"""Define which labels an arc may have, choose among them, and compute their probabilities.

The legal labels depend on the arc: `root` is only for the child of ROOT, and INTRA is only for arcs inside words and
never for arcs from ROOT. Probabilities are normalised over the legal labels. A relation that the user has fixed
(`zishu.arcs`) has probability 1 and does not influence the tree.

Cost: one pass of the label network over all arcs, in blocks (`zishu.model.networks`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from zishu.arcs import ROOT_SPAN
from zishu.errors import InputError
from zishu.tree import INTRA

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from zishu.arcs import FixedArc
    from zishu.model.batch import ScoredBatch
    from zishu.model.outputs import Outputs
    from zishu.model.words import Words


@lru_cache(maxsize=64)
def legal_labels(
    labels: tuple[str, ...],
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
    """Mark the labels that an arc from ROOT may have, those of an arc between words, and those of other arcs.

    A label set without `root`, or with no other label for words, has no such rule. Case does not matter: Penn treebanks
    have ROOT, Universal Dependencies has root.
    """
    intra = np.array([label == INTRA for label in labels])
    root = np.array([label.lower() == "root" for label in labels])
    below_root = root if root.any() else ~intra
    between_words = ~(root | intra)
    if not between_words.any():
        between_words = ~intra
    return below_root, between_words, between_words | intra


def label_scores(
    outputs: Outputs,
    labels: tuple[str, ...],
    sentences: NDArray[np.int64],
    dependents: NDArray[np.int64],
    heads: NDArray[np.int64],
    *,
    may_be_intra: NDArray[np.bool_] | bool = False,
) -> NDArray[np.float64]:
    """Return the scores `[m, labels]` of the labels of m arcs, -inf for illegal ones.

    They are log-probabilities up to a constant for each arc; `at_temperature` normalises them.
    """
    assert outputs.labels is not None
    scores = np.array(outputs.labels(sentences, dependents, heads), dtype=np.float64)
    kind = np.where(heads == 0, 0, np.where(may_be_intra, 2, 1))
    scores += np.where(legal_labels(labels), 0.0, -np.inf)[kind]
    return scores


def word_label_scores(outputs: Outputs, labels: tuple[str, ...], words: Words) -> NDArray[np.float64]:
    """Return the scores `[w, labels]` of the labels of words, which are those of the arcs to their root characters."""
    return label_scores(outputs, labels, words.sentence[words.tree], words.root, words.root_head)


def best_labels(
    batch: ScoredBatch, words: Words, confidence: bool
) -> tuple[list[str], NDArray[np.float64] | None]:
    """Return the best label of each word, and optionally its probability."""
    settings = batch.settings
    scores = word_label_scores(batch.outputs, settings.labels, words)
    _fix_relations(scores, batch, words)
    sure = None
    if confidence:
        best, sure = best_at_temperature(scores, settings.label_temperature)
    else:
        best = scores.argmax(axis=1)
    return [settings.labels[label] for label in best.tolist()], sure


def at_temperature(scores: NDArray[np.float64], temperature: float) -> NDArray[np.float64]:
    """Return the log-probabilities of labels with these scores at a temperature (`zishu.model.calibration`)."""
    scores = scores / temperature
    return scores - log_sum_exp(scores)[:, None]


def best_at_temperature(
    scores: NDArray[np.float64], temperature: float
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the best label of each row, and its probability at a temperature."""
    best = scores.argmax(axis=1)
    top = scores[np.arange(len(best)), best]
    # exp(top / t) / SUM exp(score / t)
    return best, 1.0 / np.exp((scores - top[:, None]) / temperature).sum(axis=1)


def log_sum_exp(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Add up the last axis in log space; each row must have a finite entry."""
    top = scores.max(axis=-1, keepdims=True)
    total: NDArray[np.float64] = np.log(np.exp(scores - top).sum(axis=-1)) + top[..., 0]
    return total


def _fix_relations(scores: NDArray[np.float64], batch: ScoredBatch, words: Words) -> None:
    """Allow nothing but the relations of fixed arcs, in place."""
    for t, b in enumerate(words.sentence.tolist()):
        for arc in batch.arcs[b]:
            if arc.relation is not None:
                mine = words.start[words.bounds[t] : words.bounds[t + 1]]
                row = words.bounds[t] + np.searchsorted(mine, arc.dependent[0])
                scores[row] = -np.inf
                scores[row, batch.settings.labels.index(arc.relation)] = 0.0


def check_relations(arcs: Sequence[Sequence[FixedArc]], labels: tuple[str, ...]) -> None:
    """Reject fixed relations that the model does not know or that are not legal there."""
    below_root, between_words, _ = legal_labels(labels)
    for arc in (arc for several in arcs for arc in several if arc.relation is not None):
        below = arc.head == ROOT_SPAN
        legal = [
            name for name, fits in zip(labels, below_root if below else between_words, strict=True) if fits
        ]
        if arc.relation not in legal:
            place = "the root" if below else "a word"
            raise InputError(
                f"unknown relation {arc.relation!r} to {place}: this model has {', '.join(legal)}"
            )
