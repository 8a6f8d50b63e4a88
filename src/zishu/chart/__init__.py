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

Sentences run in parallel, one to a thread; see `set_threads`. The kernels are compiled once and cached on disk.
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

    inter: NDArray[np.float64]
    intra: NDArray[np.float64]
    typed: bool
    gaps: NDArray[np.int8]
    lengths: NDArray[np.int64]
    offset: NDArray[np.float64]  # batch
    dtype: Any  # of the scores that came in

    @property
    def arguments(self) -> tuple[Any, ...]:
        return self.inter, self.intra, self.typed, self.gaps, self.lengths


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
    logz, *_ = _log(prepared, root_as_head, gradients=False)
    return logz


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
    logz, m_inter, m_intra, boundary = _log(prepared, root_as_head, gradients=True)
    return Marginals(
        logz,
        m_inter.astype(prepared.dtype, copy=False),
        m_intra.astype(prepared.dtype, copy=False) if prepared.typed else None,
        boundary.astype(prepared.dtype, copy=False) if prepared.typed else None,
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
    batch, width = prepared.inter.shape[:2]
    score = np.full(batch, -np.inf)
    heads = np.zeros((batch, width), dtype=np.int64)
    is_intra = np.zeros((batch, width), dtype=np.bool_)
    for_each_sentence(
        _kernels.best_sentences, prepared.lengths, *prepared.arguments, root_as_head, score, heads, is_intra
    )
    _check_feasible(score)
    return Trees(heads, is_intra, score + prepared.offset)


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
    width = prepared.inter.shape[1]
    found = []
    for b, n in enumerate(prepared.lengths):
        s, s_intra = prepared.inter[b], prepared.intra[b if prepared.typed else 0]
        best, value = _kernels.max_chart(s, s_intra, prepared.typed, prepared.gaps[b], n, root_as_head)
        if best == -np.inf:
            raise Infeasible(f"sentence {b}: no tree satisfies the constraints")
        heads = np.zeros((k, width), dtype=np.int64)
        is_intra = np.zeros((k, width), dtype=np.bool_)
        score = np.empty(k)
        count = 0
        for tree_score, arcs in KBest(value, s, s_intra, int(n), root_as_head=root_as_head).trees():
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
    batch, width = prepared.inter.shape[:2]
    logz = np.full(batch, -np.inf)
    heads = np.zeros((batch, k, width), dtype=np.int64)
    is_intra = np.zeros((batch, k, width), dtype=np.bool_)
    seeds = np.full(batch, seed % 2**32, dtype=np.int64)
    for_each_sentence(
        _kernels.sample_sentences,
        prepared.lengths,
        *prepared.arguments,
        root_as_head,
        seeds,
        logz,
        heads,
        is_intra,
    )
    _check_feasible(logz)
    score = np.empty((batch, k))
    for b, n in enumerate(prepared.lengths):
        dependents = np.arange(1, n + 1)
        chosen = heads[b, :, 1 : n + 1]
        scores = prepared.inter[b, dependents, chosen]
        if prepared.typed:
            scores = np.where(is_intra[b, :, 1 : n + 1], prepared.intra[b, dependents, chosen], scores)
        score[b] = scores.sum(axis=1) - logz[b]
    return Trees(heads, is_intra, score)


def _log(
    prepared: _Prepared, root_as_head: bool, *, gradients: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    batch, width = prepared.inter.shape[:2]
    logz = np.full(batch, -np.inf)
    outputs = batch if gradients else 0
    m_inter = np.zeros((outputs, width, width))
    m_intra = np.zeros((outputs if prepared.typed else min(outputs, 1), width, width))
    boundary = np.zeros((outputs, width))
    for_each_sentence(
        _kernels.log_sentences,
        prepared.lengths,
        *prepared.arguments,
        root_as_head,
        gradients,
        logz,
        m_inter,
        m_intra,
        boundary,
    )
    return logz + prepared.offset, m_inter, m_intra, boundary


def _prepare(inter: Scores, lengths: ArrayLike, intra: Scores | None, gaps: ArrayLike | None) -> _Prepared:
    inter = _scores(inter, "inter")
    batch, width = inter.shape[:2]
    sizes = np.ascontiguousarray(lengths, dtype=np.int64)
    if sizes.shape != (batch,) or (batch and not 1 <= sizes.min() <= sizes.max() < width):
        raise ValueError(f"lengths must be {batch} numbers from 1 to {width - 1}")
    if gaps is None:
        known = np.zeros((batch, width), dtype=np.int8)
    else:
        known = np.ascontiguousarray(gaps, dtype=np.int8)
        if known.shape != (batch, width):
            raise ValueError(f"gaps must have the shape {(batch, width)}, not {known.shape}")
        inside = (np.arange(width) >= 1) & (np.arange(width) < sizes[:, None])
        if not np.isin(known[inside], (FREE, JOIN, BREAK)).all():
            raise ValueError("gaps must be FREE, JOIN or BREAK")
        if intra is None:
            if (known[inside] == FREE).any():
                raise ValueError("without intra scores, gaps must be all known (JOIN or BREAK) or None")
            intra = inter
    typed = intra is not None
    intra = inter[:0] if intra is None else _scores(intra, "intra")
    if typed and intra.shape != inter.shape:
        raise ValueError(f"inter and intra differ in shape: {inter.shape} and {intra.shape}")
    shifted = np.empty(inter.shape)
    shifted_intra = np.empty(intra.shape) if typed else np.empty((1, 1, 1))
    offset = np.zeros((batch, width))
    for b in range(batch):
        good = _kernels.prepare(
            inter[b],
            intra[b] if typed else inter[b],
            typed,
            sizes[b],
            shifted[b],
            shifted_intra[b if typed else 0],
            offset[b],
        )
        if not good:
            raise ValueError(f"sentence {b}: scores must be numbers below infinity")
    return _Prepared(shifted, shifted_intra, typed, known, sizes, offset.sum(axis=1), inter.dtype)


def _scores(given: Scores, name: str) -> Scores:
    scores: Any = np.ascontiguousarray(given)
    if scores.dtype not in (np.float32, np.float64):
        raise ValueError(f"{name} scores must be float32 or float64, not {scores.dtype}")
    if scores.ndim != 3 or scores.shape[1] != scores.shape[2] or scores.shape[1] < 2:
        raise ValueError(f"{name} scores must have the shape [batch, N+1, N+1], not {list(scores.shape)}")
    checked: Scores = scores
    return checked


def _check_feasible(score: NDArray[np.float64]) -> None:
    for b in np.flatnonzero(score == -np.inf):
        raise Infeasible(f"sentence {b}: no tree satisfies the constraints")
