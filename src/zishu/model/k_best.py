"""Find the k best trees of sentences that differ in their words or in the words' heads.

The chart ranks character trees, and many of them are the same word tree with different trees inside the words. So more
and more character trees are taken, up to `STEPS` times k, until they contain k different word trees; a sentence with
long known words may have fewer. Each word tree is represented by its best character tree.

Cost: that of the chart's k best trees.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from zishu.chart import Trees
from zishu.gaps import BREAK
from zishu.model.words import find_words

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from zishu.chart import TreeDistribution

STEPS: Final = (4, 16, 64)


def distinct_trees(trees: TreeDistribution, k: int) -> tuple[NDArray[np.int64], Trees]:
    """Return the sentence number of each tree, and up to k trees of each sentence, best first."""
    found: dict[int, Trees] = {}
    kept: dict[int, list[int]] = {}
    waiting = np.arange(len(trees))
    # Without a gap inside a word there is nothing to merge.
    for step in STEPS if (trees.gaps != BREAK).any() else (1,):
        for b, ranked in zip(waiting.tolist(), trees.pick(waiting).k_best(step * k), strict=True):
            found[b], kept[b] = ranked, _first_of_each(ranked, int(trees.lengths[b]))[:k]
        waiting = np.array(
            [b for b in waiting.tolist() if len(kept[b]) < k and len(found[b].score) == step * k],
            dtype=np.int64,
        )
        if not len(waiting):
            break
    sentences = [b for b, ranks in kept.items() for _ in ranks]
    shape = len(sentences), trees.gaps.shape[1]
    distinct = Trees(np.zeros(shape, np.int64), np.zeros(shape, np.bool_), np.empty(len(sentences)))
    row = 0
    for b, ranks in kept.items():
        ranked, rows = found[b], slice(row, row + len(ranks))
        width = ranked.heads.shape[1]
        distinct.heads[rows, :width], distinct.intra[rows, :width] = ranked.heads[ranks], ranked.intra[ranks]
        distinct.score[rows] = ranked.score[ranks]
        row += len(ranks)
    return np.array(sentences, dtype=np.int64), distinct


def _first_of_each(trees: Trees, length: int) -> list[int]:
    """Return the ranks of the trees whose words and word heads differ from those of all better trees."""
    words = find_words(trees.heads, trees.intra, np.array([length]), np.zeros(len(trees.score), np.int64))
    starts, heads, bounds = words.start.tolist(), words.head.tolist(), words.bounds.tolist()
    seen: set[tuple[int, ...]] = set()
    ranks = []
    for rank in range(len(trees.score)):
        mine = slice(bounds[rank], bounds[rank + 1])
        key = (*starts[mine], 0, *heads[mine])  # no word starts at 0, so this separates words from heads
        if key not in seen:
            seen.add(key)
            ranks.append(rank)
    return ranks
