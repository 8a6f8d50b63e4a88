"""Find the best sequence of BMES tags, which give a character's position in its word, or sum over all sequences.

A word is S, or B, any number of M, E; a sentence begins and ends with a word. `STARTS`, `ENDS` and `TRANSITIONS` are 0
for what this allows and -inf for the rest; they are added to learned scores. Constraints on the gaps between characters
(`zishu.gaps`) also become -inf in the scores of tags, see `constrain`. Any such constraints leave at least one tag
sequence, so decoding cannot fail. Training is in `zishu.train.scorer`.

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


def viterbi(
    emissions: ArrayLike,
    lengths: ArrayLike,
    transitions: ArrayLike,
    starts: ArrayLike,
    ends: ArrayLike,
) -> NDArray[np.int64]:
    """Return the best legal tags `[b, n]`, indices into `TAGS`, for emissions `[b, n, 4]`; padding is -1.

    Transitions are `[from, to]`. Illegal ones are excluded, whatever their learned score. Among equally good sequences,
    the one with the smaller tags, compared from the end, wins.
    """
    scores, sizes = _checked(emissions, lengths)
    batch, width, _ = scores.shape
    steps = np.asarray(transitions, dtype=np.float64) + TRANSITIONS
    last = np.asarray(ends, dtype=np.float64) + ENDS
    tags = np.full((batch, width), -1, dtype=np.int64)
    if not batch:
        return tags

    # best[b, t]: the score of the best sequence that ends in tag t at the current character; finished sentences keep
    # their values.
    best = np.asarray(starts, dtype=np.float64) + STARTS + scores[:, 0]
    back = np.zeros((batch, width, len(TAGS)), dtype=np.int64)
    for k in range(1, width):
        candidates = best[:, :, None] + steps  # batch from to
        back[:, k] = candidates.argmax(axis=1)
        following = candidates.max(axis=1) + scores[:, k]
        best = np.where((k < sizes)[:, None], following, best)

    sentences = np.arange(batch)
    tag = (best + last).argmax(axis=1)
    for k in range(width - 1, -1, -1):
        inside = k < sizes
        tags[inside, k] = tag[inside]
        tag = np.where(inside, back[sentences, k, tag], tag)
    return tags


def marginals(
    emissions: ArrayLike,
    lengths: ArrayLike,
    transitions: ArrayLike,
    starts: ArrayLike,
    ends: ArrayLike,
) -> ChainMarginals:
    """Return the log of the sum over all legal sequences, and the probability of a word boundary at each gap."""
    scores, sizes = _checked(emissions, lengths)
    batch, width, _ = scores.shape
    steps = np.asarray(transitions, dtype=np.float64) + TRANSITIONS
    boundary = np.zeros((batch, width + 1))
    if not batch:
        return ChainMarginals(np.zeros(0), boundary)

    # forward[:, k, t] sums over everything up to and including character k, backward[:, k, t] over everything after it.
    forward = np.empty((batch, width, len(TAGS)))
    forward[:, 0] = np.asarray(starts, dtype=np.float64) + STARTS + scores[:, 0]
    for k in range(1, width):
        forward[:, k] = _log_sum(forward[:, k - 1, :, None] + steps, axis=1) + scores[:, k]
    last = np.broadcast_to(np.asarray(ends, dtype=np.float64) + ENDS, (batch, len(TAGS)))
    backward = np.empty_like(forward)
    backward[:, -1] = last
    for k in range(width - 2, -1, -1):
        following = (scores[:, k + 1] + backward[:, k + 1])[:, None, :]
        backward[:, k] = np.where((k + 1 < sizes)[:, None], _log_sum(steps + following, axis=2), last)

    sentences = np.arange(batch)
    logz = _log_sum(forward[sentences, sizes - 1] + last, axis=1)
    inside = np.arange(width) < sizes[:, None]
    logs = np.where(inside[:, :, None], forward + backward - logz[:, None, None], -np.inf)
    tags = np.exp(logs)
    boundary[:, 1:] = tags[:, :, _E] + tags[:, :, _S]
    boundary[:, 0] = 1.0
    boundary[sentences, sizes] = 1.0
    return ChainMarginals(logz, boundary)


def score(
    emissions: ArrayLike,
    lengths: ArrayLike,
    tags: ArrayLike,
    transitions: ArrayLike,
    starts: ArrayLike,
    ends: ArrayLike,
) -> NDArray[np.float64]:
    """Return the scores of legal tags `[b, n]`, as returned by `viterbi`."""
    scores, sizes = _checked(emissions, lengths)
    numbers = np.asarray(tags, dtype=np.int64)
    sentences = np.arange(len(sizes))
    places = np.arange(scores.shape[1])
    inside = places < sizes[:, None]
    own = np.take_along_axis(scores, numbers[:, :, None], axis=2)[:, :, 0]
    steps = np.asarray(transitions, dtype=np.float64)[numbers[:, :-1], numbers[:, 1:]]
    total: NDArray[np.float64] = (
        np.where(inside, own, 0.0).sum(axis=1)
        + np.where(inside[:, 1:], steps, 0.0).sum(axis=1)
        + np.asarray(starts, dtype=np.float64)[numbers[:, 0]]
        + np.asarray(ends, dtype=np.float64)[numbers[sentences, sizes - 1]]
    )
    return total


def constrain(emissions: NDArray[np.floating], gaps: NDArray[np.int8]) -> NDArray[np.float64]:
    """Forbid the tags that contradict the known gaps of one sentence, in a copy of its scores.

    Emissions are `[n, 4]`; `gaps[k]` is the gap before character k, counted from 0, as in `zishu.gaps`.
    """
    scores = np.array(emissions, dtype=np.float64)
    inner = np.asarray(gaps)[1 : len(scores)]
    before, after = scores[:-1], scores[1:]  # views: the characters on both sides of the inner gaps
    before[np.ix_(inner == BREAK, (_B, _M))] = -np.inf
    after[np.ix_(inner == BREAK, (_M, _E))] = -np.inf
    before[np.ix_(inner == JOIN, (_E, _S))] = -np.inf
    after[np.ix_(inner == JOIN, (_B, _S))] = -np.inf
    return scores


def favour(emissions: NDArray[np.floating], boundaries: NDArray[np.float64]) -> NDArray[np.float64]:
    """Add the score of the boundary before each character k, counted from 0, to the tags of one sentence, in a copy."""
    scores = np.array(emissions, dtype=np.float64)
    scores[:-1, (_E, _S)] += boundaries[1 : len(scores), None]
    return scores


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


def _checked(emissions: ArrayLike, lengths: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Check that emissions and lengths fit together."""
    scores = np.asarray(emissions, dtype=np.float64)
    if scores.ndim != 3 or scores.shape[2] != len(TAGS):
        raise ValueError(f"emissions must have the shape [batch, n, {len(TAGS)}], not {list(scores.shape)}")
    batch, width, _ = scores.shape
    sizes = np.asarray(lengths, dtype=np.int64)
    if sizes.shape != (batch,) or (batch and not 1 <= sizes.min() <= sizes.max() <= width):
        raise ValueError(f"lengths must be {batch} numbers from 1 to {width}")
    return scores, sizes


def _log_sum(scores: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
    """Add up in log space; the sum over nothing is minus infinity."""
    top = scores.max(axis=axis, keepdims=True)
    top[top == -np.inf] = 0.0
    with np.errstate(divide="ignore"):
        total: NDArray[np.float64] = np.log(np.exp(scores - top).sum(axis=axis)) + np.squeeze(top, axis=axis)
    return total
