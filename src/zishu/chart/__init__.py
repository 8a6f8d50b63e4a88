"""Sum over, search and sample the typed projective trees of a batch of sentences.

Conventions, said once for the whole project. ROOT is 0 and the characters of a sentence are 1..n. Scores are
`[batch, N+1, N+1]`, `scores[b, d, h]` is the score of the arc h -> d (dependent first, head second), `lengths[b]` the
number of characters; what lies beyond a sentence's length is never read. A forbidden arc scores -inf. `gaps[b, k]` says
what is known of the gap between characters k and k+1: FREE, JOIN (inside a word) or BREAK (between two words).

An arc is inter-word or intra-word, and scored by `inter` or `intra`. The chart holds exactly the typed trees in which
every word is a contiguous single-rooted subtree of intra-word arcs and, with `root_as_head`, inter-word arcs leave only
from the root character of a word (section 2.2 of the paper). ROOT has one child, by an inter-word arc. The paper's
algorithms are settings:

- `intra=None`, `gaps=None`: vanilla Eisner, one role, no words;
- `intra=None`, every gap JOIN or BREAK: the constrained algorithm (Algorithm 1), one score serves both roles;
- `inter` and `intra`: the coarse-to-fine algorithm (Algorithm 2), with whatever is known about gaps.

Minimum Bayes risk decoding needs no function of its own: `best_tree` on marginals finds the tree with the largest
expected number of correct arcs,

    m = marginals(inter, lengths, intra, gaps)
    trees = best_tree(m.inter, lengths, m.intra, gaps)

(a forbidden arc has probability 0 and is chosen only where the sum is the same without it; put -inf back to rule
it out).

Sentences run in parallel, one to a thread; see `set_threads`. The kernels are compiled once and cached on disk,
if there is a place for that.
Cost: O(n^3) time and O(n^2) memory a sentence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from zishu.chart import _kernels
from zishu.chart._k_best import KBest
from zishu.chart._threads import for_each_sentence, get_threads, set_threads
from zishu.errors import Infeasible
from zishu.gaps import BREAK, FREE, JOIN

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Scores = NDArray[np.float32] | NDArray[np.float64]

__all__ = [
    "BREAK",
    "FREE",
    "JOIN",
    "Marginals",
    "Trees",
    "best_tree",
    "get_threads",
    "k_best",
    "log_partition",
    "marginals",
    "sample",
    "set_threads",
]


@dataclass(frozen=True, slots=True)
class Marginals:
    """The log partition and, for every arc and gap, its probability under the distribution over trees.

    `boundary[b, k]` is the probability that a word ends before character k+1; entry 0 is 1 and entries from the length
    on are 0. `intra` and `boundary` are None in an untyped chart, which knows no words.
    """

    logz: NDArray[np.float64]  # batch
    inter: Scores  # batch dependents heads
    intra: Scores | None  # batch dependents heads
    boundary: Scores | None  # batch gaps


@dataclass(frozen=True, slots=True)
class Trees:
    """Trees as the head and the role of every character; entry 0 and entries beyond the length are 0 and False."""

    heads: NDArray[np.int64]  # ... N+1
    intra: NDArray[np.bool_]  # ... N+1
    score: NDArray[np.float64]  # ...


@dataclass(frozen=True, slots=True)
class _Prepared:
    """Validated input for the kernels; scores are shifted by `offset` for each dependent (see `_kernels.prepare`)."""

    scores: NDArray[
        np.float64
    ]  # batch roles dependents heads; inter-word first, intra-word second if there are any
    gaps: NDArray[np.int8]
    lengths: NDArray[np.int64]
    allowed: NDArray[np.int64]  # batch: how many arcs are not forbidden
    offset: NDArray[np.float64]  # batch
    dtype: Any  # of the scores that came in

    @property
    def typed(self) -> bool:
        return bool(self.scores.shape[1] == 2)

    def alone(self, b: int) -> _Prepared:
        """Return a batch of one sentence."""
        only = slice(b, b + 1)
        scores, gaps, lengths = self.scores[only], self.gaps[only], self.lengths[only]
        return _Prepared(scores, gaps, lengths, self.allowed[only], self.offset[only], self.dtype)


def log_partition(
    inter: Scores,
    lengths: ArrayLike,
    intra: Scores | None = None,
    gaps: ArrayLike | None = None,
    *,
    root_as_head: bool = True,
) -> NDArray[np.float64]:
    """Return the log of the sum over all trees of the exponential of their score, -inf where there is no tree."""
    prepared = _prepare(inter, lengths, intra, gaps)
    return _run(_kernels.PARTITION, prepared, root_as_head) + prepared.offset


def marginals(
    inter: Scores,
    lengths: ArrayLike,
    intra: Scores | None = None,
    gaps: ArrayLike | None = None,
    *,
    root_as_head: bool = True,
) -> Marginals:
    """Return the log partition with its derivatives: the probability of every arc by role and of every word boundary.

    Where there is no tree, logz is -inf and the probabilities are 0.
    """
    prepared = _prepare(inter, lengths, intra, gaps)
    batch, roles, width, _ = prepared.scores.shape
    arcs = np.zeros((batch, roles, width, width))
    boundary = np.zeros((batch, width))
    logz = _run(_kernels.MARGINALS, prepared, root_as_head, arcs=arcs, boundary=boundary)
    typed, dtype = prepared.typed, prepared.dtype
    return Marginals(
        logz + prepared.offset,
        np.ascontiguousarray(arcs[:, 0], dtype=dtype),
        np.ascontiguousarray(arcs[:, 1], dtype=dtype) if typed else None,
        boundary.astype(dtype, copy=False) if typed else None,
    )


def best_tree(
    inter: Scores,
    lengths: ArrayLike,
    intra: Scores | None = None,
    gaps: ArrayLike | None = None,
    *,
    root_as_head: bool = True,
) -> Trees:
    """Return the tree with the highest score; raise `Infeasible` naming the first sentence that has none."""
    prepared = _prepare(inter, lengths, intra, gaps)
    trees = _empty_trees(prepared, 1)
    score = _run(_kernels.BEST, prepared, root_as_head, trees=trees)
    _check_feasible(score)
    return Trees(trees[0][:, 0], trees[1][:, 0], score + prepared.offset)


def k_best(
    inter: Scores,
    lengths: ArrayLike,
    intra: Scores | None = None,
    gaps: ArrayLike | None = None,
    *,
    k: int,
    root_as_head: bool = True,
) -> list[Trees]:
    """Return, for every sentence, its k best trees (fewer if it has fewer), all different, the best first.

    The first axis of each `Trees` is the rank. Raise `Infeasible` naming the first sentence that has no tree.
    """
    if k < 1:
        raise ValueError(f"k must be at least 1, not {k}")
    prepared = _prepare(inter, lengths, intra, gaps)
    found = []
    for b, n in enumerate(prepared.lengths):
        chart = _empty_chart(n, _kernels.CHART)
        best = _run(_kernels.CHART, prepared.alone(b), root_as_head, chart=chart)
        _check_feasible(best, first=b)
        heads = np.zeros((k, prepared.scores.shape[-1]), dtype=np.int64)
        is_intra = np.zeros(heads.shape, dtype=np.bool_)
        score = np.empty(k)
        count = 0
        for tree_score, arcs in KBest(chart, prepared.scores[b], int(n), root_as_head=root_as_head).trees():
            score[count] = tree_score + prepared.offset[b]
            for dependent, head, role in arcs:
                heads[count, dependent] = head
                is_intra[count, dependent] = role
            count += 1
            if count == k:
                break
        found.append(Trees(heads[:count], is_intra[:count], score[:count]))
    return found


def sample(
    inter: Scores,
    lengths: ArrayLike,
    intra: Scores | None = None,
    gaps: ArrayLike | None = None,
    *,
    k: int,
    seed: int,
    root_as_head: bool = True,
) -> Trees:
    """Draw k independent trees of every sentence from its distribution; arrays are `[batch, k, ...]`.

    `score` is the log probability of each tree. The same seed gives the same trees, whatever the batch around a
    sentence. Raise `Infeasible` naming the first sentence that has no tree.
    """
    prepared = _prepare(inter, lengths, intra, gaps)
    heads, is_intra = trees = _empty_trees(prepared, k)
    logz = _run(_kernels.SAMPLE, prepared, root_as_head, trees=trees, seed=seed)
    _check_feasible(logz)
    score = np.empty((len(logz), k))
    for b, n in enumerate(prepared.lengths):
        arcs = np.arange(1, n + 1), heads[b, :, 1 : n + 1]
        scores = prepared.scores[b, 0][arcs]
        if prepared.typed:
            scores = np.where(is_intra[b, :, 1 : n + 1], prepared.scores[b, 1][arcs], scores)
        score[b] = scores.sum(axis=1) - logz[b]
    return Trees(heads, is_intra, score)


def _run(
    task: int,
    prepared: _Prepared,
    root_as_head: bool,
    *,
    arcs: NDArray[np.float64] | None = None,
    boundary: NDArray[np.float64] | None = None,
    trees: tuple[NDArray[np.int64], NDArray[np.bool_]] | None = None,
    seed: int = 0,
    chart: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Do a task for all sentences: fill the given outputs, return log Z or the best score.

    `chart` is where to leave the chart of a single sentence.
    """
    value = np.full(len(prepared.lengths), -np.inf)
    arcs = np.empty((0, 0, 0, 0)) if arcs is None else arcs
    boundary = np.empty((0, 0)) if boundary is None else boundary
    heads, is_intra = _empty_trees(prepared, 0) if trees is None else trees

    def do(order: NDArray[np.int64]) -> None:
        longest = prepared.lengths[order].max(initial=0)
        _kernels.run(
            task,
            order,
            prepared.scores,
            prepared.gaps,
            prepared.lengths,
            prepared.allowed,
            root_as_head,
            seed % 2**32,
            _empty_chart(longest, task) if chart is None else chart,
            value,
            arcs,
            boundary,
            heads,
            is_intra,
        )

    for_each_sentence(do, prepared.lengths)
    return value


def _empty_chart(n: int, task: int) -> NDArray[np.float64]:
    planes = _kernels.PLANES * (2 if task == _kernels.MARGINALS else 1)
    return np.empty((planes, n + 1, n + 1))


def _empty_trees(prepared: _Prepared, k: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    batch, _, width, _ = prepared.scores.shape
    return np.zeros((batch, k, width), dtype=np.int64), np.zeros((batch, k, width), dtype=np.bool_)


def _prepare(inter: Scores, lengths: ArrayLike, intra: Scores | None, gaps: ArrayLike | None) -> _Prepared:
    inter = _scores(inter, "inter")
    batch, width = inter.shape[:2]
    sizes = np.array(
        lengths, dtype=np.int64
    )  # a copy: the kernel is compiled for arrays that may be written to
    if sizes.shape != (batch,) or (batch and not 1 <= sizes.min() <= sizes.max() < width):
        raise ValueError(f"lengths must be {batch} numbers from 1 to {width - 1}")
    if gaps is None:
        known = np.zeros((batch, width), dtype=np.int8)
    else:
        known = np.array(gaps, dtype=np.int8, order="C")
        if known.shape != (batch, width):
            raise ValueError(f"gaps must have the shape {(batch, width)}, not {known.shape}")
        inside = (np.arange(width) >= 1) & (np.arange(width) < sizes[:, None])
        if not np.isin(known[inside], (FREE, JOIN, BREAK)).all():
            raise ValueError("gaps must be FREE, JOIN or BREAK")
        if intra is None:
            if (known[inside] == FREE).any():
                raise ValueError("without intra scores, gaps must be all known (JOIN or BREAK) or None")
            intra = inter
    scores = np.empty((batch, 1 if intra is None else 2, width, width))
    scores[:, 0] = inter
    if intra is not None:
        intra = _scores(intra, "intra")
        if intra.shape != inter.shape:
            raise ValueError(f"inter and intra differ in shape: {inter.shape} and {intra.shape}")
        scores[:, 1] = intra
    offset = np.zeros((batch, width))
    allowed = np.empty(batch, dtype=np.int64)
    _kernels.prepare(scores, scores.view(np.int64), sizes, offset, allowed)
    for b in np.flatnonzero(allowed < 0):
        raise ValueError(f"sentence {b}: scores must be numbers below infinity")
    return _Prepared(scores, known, sizes, allowed, offset.sum(axis=1), inter.dtype)


def _scores(values: ArrayLike, name: str) -> Scores:
    scores = np.asarray(values)
    if scores.dtype not in (np.float32, np.float64):
        raise ValueError(f"{name} scores must be float32 or float64, not {scores.dtype}")
    if scores.ndim != 3 or scores.shape[1] != scores.shape[2] or scores.shape[1] < 2:
        raise ValueError(f"{name} scores must have the shape [batch, N+1, N+1], not {list(scores.shape)}")
    return scores


def _check_feasible(score: NDArray[np.float64], first: int = 0) -> None:
    for b in np.flatnonzero(score == -np.inf):
        raise Infeasible(f"sentence {first + b}: no tree satisfies the constraints")
