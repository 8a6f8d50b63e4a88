"""Turn the scores of a segmenter into words, and tell how probable they are.

A segmenter is a chain of the tags B, M, E, S (`zishu.chart.chain`). What is known of gaps is kept.

Cost: that of the chain.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from zishu.chart import chain
from zishu.errors import InputError
from zishu.model.outputs import check_gaps, join, lengths_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from zishu.model.outputs import Gaps, Outputs
    from zishu.model.settings import Settings


@dataclass(frozen=True, slots=True)
class Segments:
    """The words of one sentence, as a segmenter sees them."""

    words: tuple[str, ...]
    prob: float  # of all of them
    boundaries: tuple[
        float, ...
    ]  # of each word's least probable boundary or join, see `zishu.model.confidence`


def decode_segments(
    outputs: Outputs,
    units: Sequence[Sequence[str]],
    settings: Settings,
    *,
    gaps: Sequence[Gaps | None] | None = None,
) -> list[Segments]:
    """Return the words of every sentence of a batch with their probabilities, from the scores of a segmenter."""
    lengths = lengths_of(units)
    if not units:
        return []
    emissions, tags = _best_tags(outputs, lengths, settings, gaps)
    weights = settings.transitions, settings.starts, settings.ends
    probabilities = chain.marginals(emissions, lengths, *weights)
    tag_scores = chain.score(emissions, lengths, tags, *weights)
    found = []
    for b, (chars, n) in enumerate(zip(units, lengths.tolist(), strict=True)):
        sizes = chain.word_lengths(tags[b, :n])
        edges = np.cumsum([0, *sizes])
        inside = np.ones(n + 1, dtype=np.bool_)
        inside[edges] = False
        boundary = probabilities.boundary[b, : n + 1]
        decision = np.where(inside, 1.0 - boundary, boundary)
        least = [float(decision[i : j + 1].min()) for i, j in pairwise(edges)]
        prob = float(np.exp(min(0.0, tag_scores[b] - probabilities.logz[b])))
        found.append(Segments(join(chars, sizes), prob, tuple(least)))
    return found


def decode_words(
    outputs: Outputs,
    units: Sequence[Sequence[str]],
    settings: Settings,
    *,
    gaps: Sequence[Gaps | None] | None = None,
) -> list[tuple[str, ...]]:
    """Return the words of every sentence of a batch, from the scores of a segmenter."""
    lengths = lengths_of(units)
    if not units:
        return []
    _, tags = _best_tags(outputs, lengths, settings, gaps)
    return [
        join(chars, chain.word_lengths(row[:n])) for chars, row, n in zip(units, tags, lengths, strict=True)
    ]


def _best_tags(
    outputs: Outputs, lengths: NDArray[np.int64], settings: Settings, gaps: Sequence[Gaps | None] | None
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the scores of tags with what is known of gaps in them, and the best tags."""
    if outputs.tags is None:
        raise InputError(f"a model for the task {settings.task!r} does not segment")
    if not settings.transitions:
        raise InputError("the settings of the segmenter hold no scores of tag pairs")
    check_gaps(lengths.tolist(), gaps)
    emissions = np.array(outputs.tags, dtype=np.float64)[:, 1:]  # without ROOT
    for row, known, n in zip(emissions, gaps or (), lengths.tolist(), strict=False):
        if known is not None:
            row[:n] = chain.constrain(row[:n], known)
    return emissions, chain.viterbi(emissions, lengths, settings.transitions, settings.starts, settings.ends)
