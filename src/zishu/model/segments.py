"""Turn the scores of a segmenter into words, and compute their probabilities.

A segmenter is a chain of BMES tags (`zishu.chart.chain`). Known gaps are kept.

Cost: that of the chain.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from zishu.chart.chain import TagDistribution, word_lengths

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from zishu.model.batch import ScoredBatch


@dataclass(frozen=True, slots=True)
class Segments:
    """Hold the words of one sentence, as predicted by a segmenter."""

    lengths: list[int]  # the number of characters of each word
    # None unless requested: the probability of all words together, and of each word's least probable boundary or join
    # (see `zishu.model.confidence`).
    prob: float | None = None
    boundaries: list[float] | None = None


def decode_segments(batch: ScoredBatch, *, confidence: bool = False) -> list[Segments]:
    """Return the words of every sentence of a batch, from the scores of a segmenter."""
    assert batch.outputs.tags is not None
    lengths, settings = batch.lengths, batch.settings
    weights = settings.transitions, settings.starts, settings.ends
    emissions = batch.outputs.tags[:, 1:]  # without ROOT
    distribution = TagDistribution(emissions, lengths, *weights, batch.gaps, batch.favoured)
    tags = distribution.best()
    words = [word_lengths(row[:n]) for row, n in zip(tags, lengths, strict=True)]
    if not confidence:
        return list(map(Segments, words))
    found = distribution.marginals()
    of_all = np.exp(np.minimum(0.0, distribution.score(tags) - found.logz)).tolist()
    return [
        Segments(sizes, prob, _least_probable(boundary, sizes))
        for sizes, prob, boundary in zip(words, of_all, found.boundary, strict=True)
    ]


def _least_probable(boundary: NDArray[np.float64], lengths: Sequence[int]) -> list[float]:
    """Return the probability of each word's least probable boundary or join."""
    edges = np.cumsum([0, *lengths])
    inside = np.ones(edges[-1] + 1, dtype=np.bool_)
    inside[edges] = False
    boundary = boundary[: len(inside)]
    decision = np.where(inside, 1.0 - boundary, boundary)
    return [float(decision[start : end + 1].min()) for start, end in pairwise(edges)]
