"""Find the best sequence of the tags B, M, E, S that say where a character stands in its word.

A word is S, or B, any number of M, E; a sentence begins and ends with a word. `STARTS`, `ENDS` and
`TRANSITIONS` hold 0 for what this allows and -inf for the rest, to be added to learned scores. What is
known about the gaps between characters (`zishu.gaps`) becomes -inf in the scores of tags, too: see
`constrain`. Some sequence of tags satisfies any such knowledge, so decoding cannot fail. Training is
`zishu.train.crf`.

Cost: n steps of 4 x 4 a sentence, all sentences of a batch at once.
"""

from __future__ import annotations

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


def viterbi(
    emissions: ArrayLike,
    lengths: ArrayLike,
    transitions: ArrayLike,
    starts: ArrayLike,
    ends: ArrayLike,
) -> NDArray[np.int64]:
    """Return the best legal tags `[b, n]`, numbers into `TAGS`, of emissions `[b, n, 4]`; -1 beyond a length.

    Transitions are `[from, to]`. What is illegal stays out, whatever its learned score. Of equally good
    sequences, the one that is smaller when read from its end wins.
    """
    scores = np.asarray(emissions, dtype=np.float64)
    if scores.ndim != 3 or scores.shape[2] != len(TAGS):
        raise ValueError(f"emissions must have the shape [batch, n, {len(TAGS)}], not {list(scores.shape)}")
    batch, width, _ = scores.shape
    sizes = np.asarray(lengths, dtype=np.int64)
    if sizes.shape != (batch,) or (batch and not 1 <= sizes.min() <= sizes.max() <= width):
        raise ValueError(f"lengths must be {batch} numbers from 1 to {width}")
    steps = np.asarray(transitions, dtype=np.float64) + TRANSITIONS
    last = np.asarray(ends, dtype=np.float64) + ENDS
    tags = np.full((batch, width), -1, dtype=np.int64)
    if not batch:
        return tags

    # best[b, t]: the score of the best sequence that ends in tag t at the current character; a sentence that
    # is over keeps its values.
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


def constrain(emissions: NDArray[np.floating], gaps: NDArray[np.int8]) -> NDArray[np.float64]:
    """Forbid the tags that contradict what is known about the gaps of one sentence, in a copy of its scores.

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


def word_lengths(tags: ArrayLike) -> list[int]:
    """Return the number of characters of each word of one sentence's tags."""
    ends = np.flatnonzero(np.isin(np.asarray(tags), (_E, _S)))
    return [int(size) for size in np.diff(ends, prepend=-1)]


def word_tags(lengths: ArrayLike) -> NDArray[np.int64]:
    """Return the tags of a sentence whose words have these numbers of characters."""
    sizes = np.asarray(lengths, dtype=np.int64)
    ends = np.cumsum(sizes) - 1
    starts = ends - sizes + 1
    tags = np.full(int(sizes.sum()), _M, dtype=np.int64)
    tags[starts] = _B
    tags[ends] = _E
    tags[ends[sizes == 1]] = _S
    return tags
