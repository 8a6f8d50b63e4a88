"""Define which labels an arc may have, choose among them, and compute their probabilities.

The legal labels depend on the arc: `root` is only for the child of ROOT, and INTRA is only for arcs inside words and
never for arcs from ROOT. Probabilities are normalised over the legal labels.

Cost: one pass of the label network over all arcs, in blocks (`zishu.model.networks`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from zishu.tree import INTRA

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from zishu.model.outputs import Outputs

# The representations [m, 100] of the dependents and of the heads of m arcs -> log-probabilities [m, labels].
LabelScorer = Callable[[Any, Any], Any]


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
    labels: Sequence[str],
    label_scorer: LabelScorer,
    sentences: NDArray[np.int64],
    dependents: NDArray[np.int64],
    heads: NDArray[np.int64],
    *,
    may_be_intra: NDArray[np.bool_] | bool = False,
) -> NDArray[np.float64]:
    """Return the scores `[m, labels]` of the labels of m arcs, -inf for illegal ones.

    They are log-probabilities up to a constant for each arc; `at_temperature` normalises them.
    """
    assert outputs.label_dep is not None
    assert outputs.label_head is not None
    ends = outputs.label_dep[sentences, dependents], outputs.label_head[sentences, heads]
    scores = np.array(label_scorer(*ends), dtype=np.float64)
    kind = np.where(heads == 0, 0, np.where(may_be_intra, 2, 1))
    scores += np.where(legal_labels(tuple(labels)), 0.0, -np.inf)[kind]
    return scores


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
