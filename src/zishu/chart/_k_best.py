"""Rank the trees of a filled max chart lazily (after the third algorithm of Huang and Chiang, 2005).

A chart item is `(plane, head, end)`. Its analyses are the pairs of analyses of its two parts, over all splits. The
chart gives the best analysis of every split. So to find an item's next best analysis, we ask the parts of the last one
for their next best, and only if needed. A tree has exactly one derivation in Eisner's chart, so different derivations
are different trees.

Cost: O(n) per visited item; about n + k log n items are visited.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

import numpy as np

from zishu.chart import _layout
from zishu.chart._layout import NEG_INF

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

# Kinds of items: complete spans (intra-word a, either t, inter-word c) and links.
A, T, C, INTRA_LINK, INTER_LINK = range(5)
_INTRA = 2 * _layout.INTRA
_PLANES = {
    A: _layout.SPANS + _INTRA,
    T: _layout.SPANS,
    C: _layout.C,
    INTRA_LINK: _layout.LINKS + _INTRA,
    INTER_LINK: _layout.LINKS,
}

ChartItem = tuple[int, int, int]
# One way to build an item: its parts, and the score that is not in the parts.
Way = tuple[tuple[ChartItem, ...], float]
# One analysis of an item: its negated score (heaps pop the smallest first), the way, and the rank of each part's
# analysis.
Derivation = tuple[float, int, tuple[int, ...]]
# (dependent, head, is intra-word)
TypedArc = tuple[int, int, bool]

_TOP: ChartItem = (-1, 0, 0)


class _Ranking:
    """Hold the analyses of one item: those already ranked, and the candidates for the next rank."""

    def __init__(self, ways: list[Way], value: NDArray[np.float64]) -> None:
        self.ways = ways
        self.ranked: list[Derivation] = []
        self.waiting: list[Derivation] = []
        for way, (parts, score) in enumerate(ways):
            best = score + sum(float(value[part]) for part in parts)
            if best > NEG_INF:
                self.waiting.append((-best, way, (0,) * len(parts)))
        heapify(self.waiting)
        self.seen = {(way, ranks) for _, way, ranks in self.waiting}
        self.exhausted = False


class KBest:
    """Rank the trees of one sentence from its max chart, `[plane, width, left end]`."""

    def __init__(
        self,
        chart: NDArray[np.float64],
        scores: NDArray[np.float64],
        gap_scores: NDArray[np.float64],
        n: int,
        *,
        root_as_head: bool,
    ) -> None:
        self._value = _by_ends(chart, n, typed=len(scores) == 2)
        self._inter = scores[0]
        self._intra = scores[-1]
        self._gaps = gap_scores  # roles N+1, or empty
        self._n = n
        self._root_as_head = root_as_head
        self._rankings: dict[ChartItem, _Ranking] = {}

    def trees(self) -> Iterator[tuple[float, list[TypedArc]]]:
        """Yield the score and the arcs of every tree, best first."""
        rank = 0
        while (analysis := self._analysis(_TOP, rank)) is not None:
            yield -analysis[0], list(self._arcs(rank))
            rank += 1

    def _ways(self, item: ChartItem) -> list[Way]:
        """List the ways to build an item, as in the recursions of `_kernels._inside`."""
        plane, h, e = item
        if item == _TOP:
            roots = range(1, self._n + 1)
            return [(((T, r, 1), (T, r, self._n)), float(self._inter[r, 0])) for r in roots]
        if plane in (INTRA_LINK, INTER_LINK):
            i, j = min(h, e), max(h, e)
            span, scores, role = (A, self._intra, 1) if plane == INTRA_LINK else (T, self._inter, 0)
            of_gaps = self._gaps[role, i:j].tolist() if self._gaps.size else [0.0] * (j - i)
            arc = float(scores[e, h])
            return [(((span, i, k), (span, j, k + 1)), arc + gap) for k, gap in enumerate(of_gaps, start=i)]
        if h == e:
            return [((), 0.0)]
        if plane == T:
            return [(((A, h, e),), 0.0), (((C, h, e),), 0.0)]
        dependents = range(h + 1, e + 1) if e > h else range(e, h)
        if plane == A:
            return [(((INTRA_LINK, h, k), (A, k, e)), 0.0) for k in dependents]
        ways: list[Way] = [(((INTER_LINK, h, k), (T, k, e)), 0.0) for k in dependents]
        if not self._root_as_head:
            ways += [(((INTRA_LINK, h, k), (C, k, e)), 0.0) for k in dependents]
        return ways

    def _ranking(self, item: ChartItem) -> _Ranking:
        if item not in self._rankings:
            self._rankings[item] = _Ranking(self._ways(item), self._value)
        return self._rankings[item]

    def _analysis(self, item: ChartItem, rank: int) -> Derivation | None:
        """Return an item's analysis of this rank, or None if it has fewer; uses a stack, because items nest deeply."""
        pending = [(item, rank)]
        while pending:
            ranking = self._ranking(pending[-1][0])
            if ranking.exhausted or len(ranking.ranked) > pending[-1][1]:
                pending.pop()
            elif unknown := self._unknown(ranking):
                pending.extend(unknown)
            else:
                self._rank_next(ranking)
        ranking = self._ranking(item)
        return ranking.ranked[rank] if rank < len(ranking.ranked) else None

    def _following(self, ranking: _Ranking) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Yield the successors of the last ranked analysis, which differ from it in one part."""
        if ranking.ranked:
            _, way, ranks = ranking.ranked[-1]
            for place in range(len(ranks)):
                following = (*ranks[:place], ranks[place] + 1, *ranks[place + 1 :])
                if (way, following) not in ranking.seen:
                    yield way, following

    def _unknown(self, ranking: _Ranking) -> list[tuple[ChartItem, int]]:
        """List the analyses of parts that must be ranked before this item's next one."""
        unknown = []
        for way, ranks in self._following(ranking):
            for part, rank in zip(ranking.ways[way][0], ranks, strict=True):
                known = self._ranking(part)
                if not known.exhausted and len(known.ranked) <= rank:
                    unknown.append((part, rank))
        return unknown

    def _rank_next(self, ranking: _Ranking) -> None:
        for way, ranks in list(self._following(ranking)):
            ranking.seen.add((way, ranks))
            parts, score = ranking.ways[way]
            below = [self._rankings[part].ranked for part in parts]
            if all(rank < len(ranked) for ranked, rank in zip(below, ranks, strict=True)):
                score -= sum(ranked[rank][0] for ranked, rank in zip(below, ranks, strict=True))
                heappush(ranking.waiting, (-score, way, ranks))
        if ranking.waiting:
            ranking.ranked.append(heappop(ranking.waiting))
        else:
            ranking.exhausted = True

    def _arcs(self, rank: int) -> Iterator[TypedArc]:
        pending = [(_TOP, rank)]
        while pending:
            item, rank = pending.pop()
            analysis = self._analysis(item, rank)
            assert analysis is not None  # ranked together with its parent
            _, way, ranks = analysis
            parts, _ = self._rankings[item].ways[way]
            plane, h, e = item
            if item == _TOP:
                yield parts[0][1], 0, False
            elif plane in (INTRA_LINK, INTER_LINK):
                yield e, h, plane == INTRA_LINK
            pending.extend(zip(parts, ranks, strict=True))


def _by_ends(chart: NDArray[np.float64], n: int, *, typed: bool) -> NDArray[np.float64]:
    """Return the value of every item, `[kind, head, far end]`."""
    value = np.full((len(_PLANES), n + 1, n + 1), NEG_INF)
    value[[A, T], np.arange(n + 1)[:, None], np.arange(n + 1)[:, None]] = 0.0
    for kind, plane in _PLANES.items():
        if typed or kind in (T, C, INTER_LINK):
            for w in range(1, n):
                i = np.arange(1, n - w + 1)
                right, left = chart[plane : plane + 2, w, _layout.LANES : _layout.LANES + n - w]
                value[kind, i, i + w], value[kind, i + w, i] = right, left
    return value
