"""Find the k best trees of sentences that differ in their words or in the words' heads.

The chart ranks character trees, and many of them are one tree of words with other trees inside the words. So more
and more character trees are taken, `STEPS` times k, until k different word trees are among them; a sentence of long
known words may then have fewer. Each word tree is represented by its best character tree.

Cost: that of `zishu.chart.k_best`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from zishu.model.words import find_words

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from zishu.chart import Trees
    from zishu.model.scores import Scores

STEPS: Final = (4, 16, 64)


@dataclass(frozen=True, slots=True, eq=False)
class Ranked:
    """Trees of the sentences of a batch, those of one sentence by falling score."""

    sentences: NDArray[np.int64]  # t: the sentence of each tree
    heads: NDArray[np.int64]  # t N+1
    intra: NDArray[np.bool_]  # t N+1
    score: NDArray[np.float64]  # t


def distinct_trees(scores: Scores, k: int) -> Ranked:
    """Return up to k trees of each sentence."""
    width = scores.inter.shape[1]
    found: dict[int, Trees] = {}
    kept: dict[int, list[int]] = {}
    waiting = np.arange(len(scores.lengths))
    # A chart of one role has nothing to merge.
    for step in STEPS if scores.intra is not None else (1,):
        for b, trees in zip(waiting.tolist(), scores.pick(waiting).k_best(step * k), strict=True):
            found[b], kept[b] = trees, _first_of_each(trees, int(scores.lengths[b]))[:k]
        waiting = np.array(
            [b for b in waiting.tolist() if len(kept[b]) < k and len(found[b].score) == step * k],
            dtype=np.int64,
        )
        if not len(waiting):
            break
    sentences = [b for b, ranks in kept.items() for _ in ranks]
    heads = np.zeros((len(sentences), width), dtype=np.int64)
    intra = np.zeros((len(sentences), width), dtype=np.bool_)
    score = np.empty(len(sentences))
    row = 0
    for b, ranks in kept.items():
        trees, rows = found[b], slice(row, row + len(ranks))
        known = trees.heads.shape[1]
        heads[rows, :known], intra[rows, :known] = trees.heads[ranks], trees.intra[ranks]
        score[rows] = trees.score[ranks]
        row += len(ranks)
    return Ranked(np.array(sentences, dtype=np.int64), heads, intra, score)


def _first_of_each(trees: Trees, length: int) -> list[int]:
    """Return the ranks of the trees whose words or word heads no better tree has."""
    words = find_words(trees.heads, trees.intra, np.full(len(trees.score), length))
    starts, heads, bounds = words.start.tolist(), words.head.tolist(), words.bounds.tolist()
    seen: set[tuple[int, ...]] = set()
    ranks = []
    for rank in range(len(trees.score)):
        mine = slice(bounds[rank], bounds[rank + 1])
        key = (*starts[mine], 0, *heads[mine])  # no word starts at 0, so this says where the heads begin
        if key not in seen:
            seen.add(key)
            ranks.append(rank)
    return ranks
