"""Compute with the typed projective trees of a batch of sentences: sums, marginals, best trees, samples.

    trees = TreeDistribution(inter, lengths, intra, gaps)
    trees.log_partition()   trees.marginals()   trees.best()   trees.k_best(k)   trees.sample(k, seed)
    trees.boundaries()
    trees.given(gaps)       trees.at(temperature)              trees.pick(sentences)
    trees.favouring(boundaries)

Conventions of the whole project: ROOT is 0, and the characters of a sentence are 1..n. Scores are `[batch, N+1, N+1]`;
`scores[b, d, h]` is the score of the arc h -> d (dependent first, head second). `lengths[b]` is the number of
characters; nothing beyond it is ever read. A forbidden arc scores -inf. `gaps[b, k]` describes the gap between
characters k and k+1: FREE (unknown), JOIN (inside a word) or BREAK (between two words).

An arc is inter-word or intra-word, and is scored by `inter` or `intra`. The distribution covers exactly the typed trees
in which every word is a contiguous single-rooted subtree of intra-word arcs and, with `root_as_head`, inter-word arcs
leave only from the root character of a word (section 2.2 of the paper). ROOT has one child, by an inter-word arc. The
paper's algorithms are special cases:

- `intra=None`, `gaps=None`: vanilla Eisner, one role, no words;
- `intra=None`, every gap JOIN or BREAK: the constrained algorithm (Algorithm 1), one score for both roles;
- `inter` and `intra`: the coarse-to-fine algorithm (Algorithm 2), with any constraints on gaps.

Minimum Bayes risk decoding needs no method of its own: the best tree by marginals has the largest expected number of
correct arcs,

    m = trees.marginals()
    TreeDistribution(m.inter, lengths, m.intra, gaps).best()

(A forbidden arc has probability 0, so it may be chosen if that does not lower the sum; set it to -inf to rule it out.)

Sentences run in parallel threads; see `set_threads`. The kernels are compiled once and cached on disk if possible
(`_compiled`). Cost: O(n^3) time and O(n^2) memory per sentence, for every new question.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from itertools import islice
from threading import local
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from zishu.chart import _compiled, _layout
from zishu.chart._k_best import KBest
from zishu.chart._threads import for_each_sentence, get_threads, set_threads
from zishu.errors import Infeasible
from zishu.gaps import BREAK, FREE, JOIN

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float32] | NDArray[np.float64]

__all__ = [
    "BREAK",
    "FREE",
    "JOIN",
    "Marginals",
    "TreeDistribution",
    "Trees",
    "get_threads",
    "set_threads",
]

_Answer = TypeVar("_Answer")

MOST_FAVOURED = 300.0  # exp(-300) is far above what plain sums lose
# Numbers in the memory that a thread keeps for its next chart: sentences of some 200 characters.
MOST_KEPT = 2**20

_memory = local()


@dataclass(frozen=True, slots=True)
class Marginals:
    """Hold the log partition and the probability of every arc and gap under the distribution over trees.

    `boundary[b, k]` is the probability that a word ends before character k+1; entry 0 is 1, and entries from the length
    on are 0. `intra` and `boundary` are None in an untyped chart, which has no words.
    """

    logz: NDArray[np.float64]  # batch
    inter: Floats  # batch dependents heads
    intra: Floats | None  # batch dependents heads
    boundary: Floats | None  # batch gaps


@dataclass(frozen=True, slots=True)
class Trees:
    """Hold trees as the head and the role of every character; entry 0 and padding are 0 and False."""

    heads: NDArray[np.int64]  # ... N+1
    intra: NDArray[np.bool_]  # ... N+1
    score: NDArray[np.float64]  # ...


class TreeDistribution:
    """Represent the distribution over the trees of each sentence of a batch: P(tree) = exp(score) / Z.

    Scores are checked and laid out once, in the constructor. Answers are cached, and their arrays are read-only. An
    object is not thread-safe.
    """

    def __init__(
        self,
        inter: Floats,
        lengths: ArrayLike,
        intra: Floats | None = None,
        gaps: ArrayLike | None = None,
        *,
        root_as_head: bool = True,
    ) -> None:
        inter = _scores(inter, "inter")
        batch, width = inter.shape[:2]
        # Copied because the kernels are compiled for writable arrays.
        sizes = np.array(lengths, dtype=np.int64)
        if sizes.shape != (batch,) or (batch and not 1 <= sizes.min() <= sizes.max() < width):
            raise ValueError(f"lengths must be {batch} numbers from 1 to {width - 1}")
        known = _known(gaps, sizes, width)
        if intra is None and gaps is not None:
            _check_all_known(known)
            intra = inter
        scores = np.empty((batch, 1 if intra is None else 2, width, width))
        scores[:, 0] = inter
        if intra is not None:
            intra = _scores(intra, "intra")
            if intra.shape != inter.shape:
                raise ValueError(f"inter and intra differ in shape: {inter.shape} and {intra.shape}")
            scores[:, 1] = intra
        self._dtype = inter.dtype
        self._kept: dict[Hashable, Any] = {}
        no_scores, allowed = np.empty((batch, 2, 0)), np.zeros(batch, dtype=np.int64)
        self._batch = _lay_out(
            _layout.Batch(scores, known, sizes, no_scores, allowed, bool(root_as_head), np.zeros(batch))
        )

    def __len__(self) -> int:
        """Return the number of sentences."""
        return len(self._batch.lengths)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Return the number of characters of each sentence."""
        return _read_only(self._batch.lengths.view())

    @property
    def gaps(self) -> NDArray[np.int8]:
        """Return the constraints on gaps, `[batch, N+1]`; gap 0 and all beyond the length are BREAK."""
        return _read_only(self._batch.gaps.view())

    @property
    def typed(self) -> bool:
        """Tell whether arcs have two roles. If not, the trees say nothing about words."""
        return bool(self._batch.scores.shape[1] == 2)

    # --- questions

    def log_partition(self) -> NDArray[np.float64]:
        """Return the log of the sum of exp(score) over all trees, -inf if there is no tree."""
        for task in _layout.OUTSIDE_TASKS:
            if task in self._kept:
                return self._ask(task).value
        return self._ask(_layout.PARTITION).value

    def marginals(self) -> Marginals:
        """Return the log partition and its derivatives: the probability of every arc by role and of every boundary.

        If there is no tree, logz is -inf and the probabilities are 0.
        """
        found = self._ask(_layout.MARGINALS)
        if not self.typed:
            return Marginals(found.value, found.arcs[:, 0], None, None)
        return Marginals(found.value, found.arcs[:, 0], found.arcs[:, 1], found.boundary)

    def boundaries(self) -> Floats:
        """Return the probability of every boundary, as in `marginals`, which costs more because of the arcs."""
        if not self.typed:
            raise ValueError("an untyped distribution has no boundaries")
        found = self._ask(_layout.MARGINALS if _layout.MARGINALS in self._kept else _layout.BOUNDARIES)
        return found.boundary

    def best(self) -> Trees:
        """Return the tree with the highest score; raise `Infeasible` with the first sentence that has none."""
        found = self._ask(_layout.BEST, trees=1)
        _check_feasible(found.value)
        return Trees(found.heads[:, 0], found.intra[:, 0], found.value)

    def k_best(self, k: int) -> list[Trees]:
        """Return the k best trees of every sentence (or fewer, if it has fewer), all different, best first.

        The first axis of each `Trees` is the rank. Raises `Infeasible` with the first sentence that has no tree.
        """
        if k < 1:
            raise ValueError(f"k must be at least 1, not {k}")
        rankings = self._once("rankings", lambda: [self._rank(b) for b in range(len(self))])
        return [self._take(b, ranking, k) for b, ranking in enumerate(rankings)]

    def _rank(self, b: int) -> KBest:
        """Fill the max chart of a sentence."""
        one = self.pick([b])
        batch, n = one._batch, int(one.lengths[0])
        chart = _empty_chart(n, _layout.CHART)
        _check_feasible(one._ask(_layout.CHART, chart=chart).value, first=b)
        return KBest(chart, batch.scores[0], batch.gap_scores[0], n, root_as_head=batch.root_as_head)

    def _take(self, b: int, ranking: KBest, k: int) -> Trees:
        """Return the first k trees of a ranking."""
        found = list(islice(ranking.trees(), k))
        shape = len(found), self._batch.scores.shape[-1]
        heads, intra = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.bool_)
        for rank, (_, arcs) in enumerate(found):
            for dependent, head, is_intra in arcs:
                heads[rank, dependent], intra[rank, dependent] = head, is_intra
        return Trees(heads, intra, np.array([score for score, _ in found]) + self._batch.offset[b])

    def sample(self, k: int, seed: int) -> Trees:
        """Draw k independent trees of every sentence from its distribution; arrays are `[batch, k, ...]`.

        `score` is the log probability of each tree. The same seed gives the same trees, independent of the other
        sentences in the batch. Raises `Infeasible` with the first sentence that has no tree.
        """
        found = self._ask(_layout.SAMPLE, trees=k, seed=seed)
        _check_feasible(found.value)
        score = np.empty((len(self), k))
        for b, n in enumerate(self._batch.lengths.tolist()):
            heads, intra, dependents = (
                found.heads[b, :, 1 : n + 1],
                found.intra[b, :, 1 : n + 1],
                np.arange(1, n + 1),
            )
            scores = self._batch.scores[b, intra.astype(np.int64), dependents, heads]
            score[b] = scores.sum(axis=1) - (found.value[b] - self._batch.offset[b])
            if self._batch.gap_scores.size:  # a gap lies inside a word if an intra-word arc spans it
                low, high = np.minimum(heads, dependents), np.maximum(heads, dependents)
                for gap in range(1, n):
                    inside = (intra & (low <= gap) & (gap < high)).any(axis=1)
                    score[b] += self._batch.gap_scores[b, inside.astype(np.int64), gap]
        return Trees(found.heads, found.intra, score)

    # --- other distributions

    def favouring(self, boundaries: ArrayLike) -> TreeDistribution:
        """Return the distribution in which a word boundary at gap k adds `boundaries[b, k]` to the score of a tree.

        The odds of a boundary there grow by the factor exp(boundaries[b, k]), subject to the other gaps; a negative
        score favours joining. Scores are from -300 to 300; those at the ends of a sentence do not count.
        """
        added = np.array(boundaries, dtype=np.float64)
        if added.shape != self._batch.gaps.shape:
            raise ValueError(f"boundaries must have the shape {self._batch.gaps.shape}, not {added.shape}")
        if not self.typed:
            raise ValueError("an untyped distribution has no boundaries")
        places = np.arange(added.shape[1])
        added[~((places >= 1) & (places < self._batch.lengths[:, None]))] = 0.0
        before = self._favoured()
        return self._with_gap_scores(before + added, before)

    def _favoured(self) -> NDArray[np.float64]:
        """Return the scores of boundaries, 0 if nothing is favoured."""
        if not self._batch.gap_scores.size:
            return np.zeros(self._batch.gaps.shape)
        difference: NDArray[np.float64] = self._batch.gap_scores[:, 0] - self._batch.gap_scores[:, 1]
        return difference

    def _with_gap_scores(
        self, boundaries: NDArray[np.float64], before: NDArray[np.float64]
    ) -> TreeDistribution:
        """Replace the scores of boundaries."""
        if not (np.abs(boundaries) <= MOST_FAVOURED).all():
            raise ValueError(f"scores of boundaries must be numbers from -{MOST_FAVOURED} to {MOST_FAVOURED}")
        # The better role of a gap scores 0, so that plain sums stay below their bound (docs/algorithm.md).
        gap_scores = np.stack([np.minimum(boundaries, 0.0), np.minimum(-boundaries, 0.0)], axis=1)
        shift = np.maximum(boundaries, 0.0) - np.maximum(before, 0.0)
        offset = self._batch.offset + shift.sum(axis=1)
        return self._derive(self._batch._replace(gap_scores=gap_scores, offset=offset))

    def given(
        self, gaps: ArrayLike | None = None, *, inter: ArrayLike | None = None, intra: ArrayLike | None = None
    ) -> TreeDistribution:
        """Condition on more known gaps, or on arcs: `inter` and `intra` mark the allowed ones.

        `given(...).log_partition() - log_partition()` is the log probability of the condition. An untyped distribution
        has no words; with all gaps given, its scores serve both roles. Raises `Infeasible` with the first sentence that
        contradicts a known gap.
        """
        other = self if gaps is None else self._given_gaps(gaps)
        if inter is None and intra is None:
            return other
        scores = other._batch.scores.copy()
        for role, marked in enumerate((inter, intra)):
            if marked is not None:
                if role == 1 and not other.typed:
                    raise ValueError("an untyped distribution has no intra-word arcs")
                np.copyto(scores[:, role], -np.inf, where=~np.asarray(marked, dtype=np.bool_))
        return other._derive(_lay_out(other._batch._replace(scores=scores)))

    def _given_gaps(self, gaps: ArrayLike) -> TreeDistribution:
        before = self._batch.gaps
        more = _known(gaps, self._batch.lengths, before.shape[1])
        for b in np.flatnonzero(((before != more) & (before != FREE) & (more != FREE)).any(axis=1)):
            raise Infeasible(f"sentence {b}: the condition contradicts a known gap")
        known = np.where(more == FREE, before, more)
        if self.typed and np.array_equal(known, before):
            return self

        def condition() -> TreeDistribution:
            batch = self._batch._replace(gaps=known)
            if self.typed:
                return self._derive(batch)
            _check_all_known(known)
            return self._derive(_lay_out(batch._replace(scores=np.repeat(batch.scores, 2, axis=1))))

        return self._once(("given", known.tobytes()), condition)

    def at(self, temperature: float) -> TreeDistribution:
        """Return the distribution at a temperature: P(tree)^(1 / temperature), normalised."""
        if temperature == 1.0:
            return self
        if not temperature > 0.0:
            raise ValueError(f"the temperature must be above 0, not {temperature}")
        batch = self._batch
        scores, offset = batch.scores / temperature, batch.offset / temperature
        other = self._derive(batch._replace(scores=scores, offset=offset))
        if batch.gap_scores.size:
            before = self._favoured() / temperature
            other = other._with_gap_scores(before, before)  # the offset is divided already
        if (best := (_layout.BEST, 1, 0)) in self._kept:
            found = self._kept[best]
            other._kept[best] = found._replace(value=_read_only(found.value / temperature))
        return other

    def pick(self, sentences: ArrayLike) -> TreeDistribution:
        """Return the distributions of the given sentences, possibly repeated, with minimal padding."""
        chosen = np.asarray(sentences, dtype=np.int64)
        if np.array_equal(chosen, np.arange(len(self))):
            return self
        scores, gaps, lengths, gap_scores, allowed, root_as_head, offset = self._batch
        width = 1 + int(lengths[chosen].max(initial=1))
        batch = _layout.Batch(
            np.ascontiguousarray(scores[chosen, :, :width, :width]),
            np.ascontiguousarray(gaps[chosen, :width]),
            lengths[chosen],
            np.ascontiguousarray(gap_scores[chosen, :, :width]),
            allowed[chosen],
            root_as_head,
            offset[chosen],
        )
        other = self._derive(batch)
        if "rankings" in self._kept:
            other._kept["rankings"] = [self._kept["rankings"][b] for b in chosen.tolist()]
        return other

    def _derive(self, batch: _layout.Batch) -> TreeDistribution:
        """Build a distribution from scores that are already laid out."""
        other = copy(self)
        other._batch, other._kept = batch, {}
        return other

    # --- the kernels

    def _once(self, question: Hashable, answer: Callable[[], _Answer]) -> _Answer:
        """Return the cached answer, or compute and cache it."""
        if question not in self._kept:
            self._kept[question] = answer()
        kept: _Answer = self._kept[question]
        return kept

    def _ask(
        self, task: int, *, trees: int = 0, seed: int = 0, chart: NDArray[np.float64] | None = None
    ) -> _layout.Answers:
        """Run a task for all sentences and keep its answers; `chart` receives the chart of a single sentence."""
        return self._once((task, trees, seed) if trees else task, lambda: self._run(task, trees, seed, chart))

    def _run(self, task: int, trees: int, seed: int, chart: NDArray[np.float64] | None) -> _layout.Answers:
        batch, roles, width, _ = self._batch.scores.shape
        # Arrays that a task does not fill are empty.
        found = _layout.Answers(
            np.full(batch, -np.inf),
            np.zeros((batch, roles, width, width) if task == _layout.MARGINALS else (batch, 0, 0, 0)),
            np.zeros((batch, width if task in _layout.OUTSIDE_TASKS else 0)),
            np.zeros((batch, trees, width), dtype=np.int64),
            np.zeros((batch, trees, width), dtype=np.bool_),
        )

        def run(order: NDArray[np.int64]) -> None:
            longest = self._batch.lengths[order].max(initial=0)
            memory = _empty_chart(longest, task) if chart is None else chart
            _compiled.run(task, order, self._batch, found, memory, seed % 2**32)

        for_each_sentence(run, self._batch.lengths)
        arcs, boundary = (x.astype(self._dtype, copy=False) for x in (found.arcs, found.boundary))
        found = found._replace(value=found.value + self._batch.offset, arcs=arcs, boundary=boundary)
        return _layout.Answers(*map(_read_only, found))


def _lay_out(batch: _layout.Batch) -> _layout.Batch:
    """Check and shift the scores in place, and count the allowed arcs (see `_kernels.prepare`)."""
    shift = np.zeros(batch.gaps.shape)
    allowed = np.empty(len(batch.lengths), dtype=np.int64)
    _compiled.prepare(batch.scores, batch.lengths, shift, allowed)
    for b in np.flatnonzero(allowed < 0):
        raise ValueError(f"sentence {b}: scores must not be NaN or +inf")
    return batch._replace(allowed=allowed, offset=batch.offset + shift.sum(axis=1))


def _empty_chart(n: int, task: int) -> NDArray[np.float64]:
    """Return memory for the chart of a sentence of n characters, which begins at a cache line.

    A thread uses it again for its next chart, because new pages take the system longer than some charts take us.
    """
    planes = int(_layout.PLANES if task in _layout.OUTSIDE_TASKS else _layout.PLANES_INSIDE)
    row = max(24, 16 * -(-(n + 1) // 16) + 8)  # an odd multiple of a cache line spreads rows over the cache
    size = planes * row * row
    memory = getattr(_memory, "chart", None)
    if memory is None or memory.size < size + 8:
        memory = np.empty(size + 8)
        if size <= MOST_KEPT:
            _memory.chart = memory
    first = -(memory.ctypes.data // 8) % 8
    return memory[first : first + size].reshape(planes, row, row)


def _scores(values: ArrayLike, name: str) -> Floats:
    scores = np.asarray(values)
    if scores.dtype not in (np.float32, np.float64):
        raise ValueError(f"{name} scores must be float32 or float64, not {scores.dtype}")
    if scores.ndim != 3 or scores.shape[1] != scores.shape[2] or scores.shape[1] < 2:
        raise ValueError(f"{name} scores must have the shape [batch, N+1, N+1], not {list(scores.shape)}")
    return scores


def _known(gaps: ArrayLike | None, lengths: NDArray[np.int64], width: int) -> NDArray[np.int8]:
    """Check gaps, and copy them with BREAK at both ends of each sentence."""
    places = np.arange(width)
    inside = (places >= 1) & (places < lengths[:, None])
    known = np.zeros(inside.shape, dtype=np.int8) if gaps is None else np.array(gaps, dtype=np.int8)
    if known.shape != inside.shape:
        raise ValueError(f"gaps must have the shape {inside.shape}, not {known.shape}")
    known = np.where(inside, known, np.int8(BREAK))
    if ((known != FREE) & (known != JOIN) & (known != BREAK)).any():
        raise ValueError("gaps must be FREE, JOIN or BREAK")
    return known


def _check_all_known(gaps: NDArray[np.int8]) -> None:
    if (gaps == FREE).any():
        raise ValueError("without intra scores, gaps must be all known (JOIN or BREAK) or None")


def _check_feasible(score: NDArray[np.float64], first: int = 0) -> None:
    for b in np.flatnonzero(score == -np.inf):
        raise Infeasible(f"sentence {first + b}: no tree satisfies the constraints")


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    array.flags.writeable = False
    return array
