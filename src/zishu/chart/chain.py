"""Find the best sequence of BMES tags, which give a character's position in its word, or sum over all sequences.

    tags = TagDistribution(emissions, lengths, transitions, starts, ends, gaps)
    tags.best()   tags.marginals()   tags.score(tags.best())

A word is S, or B, any number of M, E; a sentence begins and ends with a word. `STARTS`, `ENDS` and `TRANSITIONS` are 0
for what this allows and -inf for the rest; they are added to learned scores. Constraints on the gaps between characters
(`zishu.gaps`) also become -inf in the scores of tags. Any such constraints leave at least one tag sequence, so decoding
cannot fail. Training is in `zishu.train.scorer`.

Cost: n steps of 4 x 4 per sentence, for all sentences of a batch at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from zishu.gaps import BREAK, JOIN

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

TAGS: Final = ("B", "M", "E", "S")
_B, _M, _E, _S = range(4)


def _legal(*allowed: int) -> NDArray[np.float64]:
    scores = np.full(len(TAGS), -np.inf)
    scores[list(allowed)] = 0.0
    return scores


STARTS: Final = _legal(_B, _S)
ENDS: Final = _legal(_E, _S)
TRANSITIONS: Final = np.stack([_legal(_M, _E), _legal(_M, _E), _legal(_B, _S), _legal(_B, _S)])  # from, to


@dataclass(frozen=True, slots=True, eq=False)
class ChainMarginals:
    """Hold the log partition and the probability of each word boundary."""

    logz: NDArray[np.float64]  # batch
    # batch n+1: before character k, counted from 0; 1 at both ends of the sentence, then 0
    boundary: NDArray[np.float64]


class TagDistribution:
    """Represent the distribution over the legal tags of each sentence of a batch: P(tags) = exp(score) / Z.

    Emissions are `[b, n, 4]`, transitions `[from, to]`. Illegal tags are excluded, whatever their learned score. `gaps`
    (as in `zishu.gaps`) and `favoured` are `[b, n+1]`: entry k belongs to the gap before character k, counted from 0.
    Tags that contradict a known gap are excluded, and a favoured boundary adds its score.
    """

    def __init__(
        self,
        emissions: ArrayLike,
        lengths: ArrayLike,
        transitions: ArrayLike,
        starts: ArrayLike,
        ends: ArrayLike,
        gaps: NDArray[np.int8] | None = None,
        favoured: NDArray[np.float64] | None = None,
    ) -> None:
        scores = np.array(emissions, dtype=np.float64)
        if scores.ndim != 3 or scores.shape[2] != len(TAGS):
            raise ValueError(
                f"emissions must have the shape [batch, n, {len(TAGS)}], not {list(scores.shape)}"
            )
        batch, width, _ = scores.shape
        sizes = np.asarray(lengths, dtype=np.int64)
        if sizes.shape != (batch,) or (batch and not 1 <= sizes.min() <= sizes.max() <= width):
            raise ValueError(f"lengths must be {batch} numbers from 1 to {width}")
        if gaps is not None:
            for gap, before, after in ((BREAK, (_B, _M), (_M, _E)), (JOIN, (_E, _S), (_B, _S))):
                b, k = (gaps[:, 1:width] == gap).nonzero()
                for last, first in zip(before, after, strict=True):
                    scores[b, k, last] = scores[b, k + 1, first] = -np.inf
        if favoured is not None:
            for last in (_E, _S):
                scores[:, :-1, last] += favoured[:, 1:width]
        self._scores, self._lengths = scores, sizes
        self._transitions = np.asarray(transitions, dtype=np.float64) + TRANSITIONS
        self._starts = np.asarray(starts, dtype=np.float64) + STARTS
        self._ends = np.asarray(ends, dtype=np.float64) + ENDS

    def best(self) -> NDArray[np.int64]:
        """Return the best tags `[b, n]`, indices into `TAGS`; padding is -1.

        Among equally good sequences, the one with the smaller tags, compared from the end, wins.
        """
        scores, sizes = self._scores, self._lengths
        batch, width, _ = scores.shape
        # best[b, t]: the score of the best sequence that ends in tag t at the current character; finished sentences
        # keep their values.
        best = self._starts + scores[:, 0]
        back = np.zeros((batch, width, len(TAGS)), dtype=np.int64)
        for k in range(1, width):
            candidates = best[:, :, None] + self._transitions  # batch from to
            back[:, k] = candidates.argmax(axis=1)
            following = candidates.max(axis=1) + scores[:, k]
            best = np.where((k < sizes)[:, None], following, best)

        tags = np.full((batch, width), -1, dtype=np.int64)
        sentences = np.arange(batch)
        tag = (best + self._ends).argmax(axis=1)
        for k in range(width - 1, -1, -1):
            inside = k < sizes
            tags[inside, k] = tag[inside]
            tag = np.where(inside, back[sentences, k, tag], tag)
        return tags

    def marginals(self) -> ChainMarginals:
        """Return the log of the sum over all sequences, and the probability of a word boundary at each gap."""
        scores, sizes = self._scores, self._lengths
        batch, width, _ = scores.shape
        # forward[:, k, t] sums over everything up to and including character k, backward[:, k, t] over everything after
        # it.
        forward = np.empty((batch, width, len(TAGS)))
        forward[:, 0] = self._starts + scores[:, 0]
        for k in range(1, width):
            forward[:, k] = _log_sum(forward[:, k - 1, :, None] + self._transitions, axis=1) + scores[:, k]
        backward = np.empty_like(forward)
        backward[:, -1] = self._ends
        for k in range(width - 2, -1, -1):
            following = (scores[:, k + 1] + backward[:, k + 1])[:, None, :]
            backward[:, k] = np.where(
                (k + 1 < sizes)[:, None], _log_sum(self._transitions + following, axis=2), self._ends
            )

        sentences = np.arange(batch)
        logz = _log_sum(forward[sentences, sizes - 1] + self._ends, axis=1)
        inside = np.arange(width) < sizes[:, None]
        logs = np.where(inside[:, :, None], forward + backward - logz[:, None, None], -np.inf)
        tags = np.exp(logs)
        boundary = np.zeros((batch, width + 1))
        boundary[:, 1:] = tags[:, :, _E] + tags[:, :, _S]
        boundary[:, 0] = 1.0
        boundary[sentences, sizes] = 1.0
        return ChainMarginals(logz, boundary)

    def score(self, tags: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the scores of legal tags `[b, n]`, as returned by `best`."""
        sentences = np.arange(len(tags))
        inside = np.arange(tags.shape[1]) < self._lengths[:, None]
        own = np.take_along_axis(self._scores, tags[:, :, None], axis=2)[:, :, 0]
        steps = self._transitions[tags[:, :-1], tags[:, 1:]]
        total: NDArray[np.float64] = (
            np.where(inside, own, 0.0).sum(axis=1)
            + np.where(inside[:, 1:], steps, 0.0).sum(axis=1)
            + self._starts[tags[:, 0]]
            + self._ends[tags[sentences, self._lengths - 1]]
        )
        return total


def word_lengths(tags: ArrayLike) -> list[int]:
    """Return the number of characters of each word, given the tags of one sentence."""
    ends = np.flatnonzero(np.isin(np.asarray(tags), (_E, _S)))
    return [int(size) for size in np.diff(ends, prepend=-1)]


def word_tags(lengths: ArrayLike) -> NDArray[np.int64]:
    """Return the tags of a sentence, given the number of characters of each word."""
    sizes = np.asarray(lengths, dtype=np.int64)
    ends = np.cumsum(sizes) - 1
    starts = ends - sizes + 1
    tags = np.full(int(sizes.sum()), _M, dtype=np.int64)
    tags[starts] = _B
    tags[ends] = _E
    tags[ends[sizes == 1]] = _S
    return tags


def _log_sum(scores: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
    """Add up in log space; the sum over nothing is minus infinity."""
    top = scores.max(axis=axis, keepdims=True)
    top[top == -np.inf] = 0.0
    with np.errstate(divide="ignore"):
        total: NDArray[np.float64] = np.log(np.exp(scores - top).sum(axis=axis)) + np.squeeze(top, axis=axis)
    return total
