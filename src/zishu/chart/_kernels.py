"""Run the typed Eisner chart for each sentence: inside, outside, and the walk down to a tree.

Only the process that compiles this file and `_vectors` imports them (`_build`): others load the result and call the two
entries, `prepare` and `run` (`_compiled`). These get pointers to arrays that the caller has allocated; only the scores are
checked here. It is one file because it is one recursion, whose functions share the layout of a chart and compile together.
The recursion is written once, in `_combine`, for all semirings; `_share` is its derivative, and `_walk` follows it down:

    Ihat(i->j) = s_intra(i,j) (x) SUM_k a(i->k) (x) a(k+1<-j)          gap k not BREAK
    I   (i->j) = s_inter(i,j) (x) SUM_k t(i->k) (x) t(k+1<-j)          gap k not JOIN
    a   (i->j) = SUM_k Ihat(i->k) (x) a(k->j)
    c   (i->j) = SUM_k I(i->k) (x) t(k->j)   [ (+) SUM_k Ihat(i->k) (x) c(k->j)  when root-as-head is off ]
    t          = a (+) c

Departures from the textbook (docs/algorithm.md explains them):

1. Eight spans of one width with neighbouring left ends, (i, i+w) to (i+7, i+7+w), are computed together in the lanes of
   one vector. Planes are stored by [width, left end], so that eight terms of eight sums lie side by side in memory, and
   the next terms lie a constant step away. No sum runs across lanes. Lanes beyond the end of the sentence hold zeros.
2. The rules about gaps are not masks in the sums. An intra-word arc that crosses a BREAK gets no link; `c` and `t` are
   zero where the gap beyond their far end is JOIN (no link could use them otherwise).
3. Sums over trees use the semiring PLAIN: weights instead of scores, so no logarithms. `_trusted` tells whether that
   was exact. If not, the weights are scaled again, so that the sum over all trees is about 1. If that does not help,
   the sentence uses the semiring LOG, which is always exact and many times slower.
4. Where few arcs are allowed (the forest of a gold tree), eight spans are skipped if none of them can have a value.
5. A score of a gap is a factor of the term of a link that splits there. It is multiplied into the left part, which is
   kept in a plane of its own. Without such scores these planes are not touched.

Cost: O(n^3) time with six products for each span and split, O(n^2) memory.
"""

from __future__ import annotations

from math import exp, log
from typing import Any, NamedTuple

import numpy as np
from numba import njit, types  # type: ignore[attr-defined]

from zishu.chart._layout import (
    BEST,
    CHART,
    ENDS,
    INTER,
    INTRA,
    LANES,
    LEFT_PARTS,
    LINKS,
    LIVE,
    NEG_INF,
    OUTSIDE,
    OUTSIDE_TASKS,
    PLANES,
    PLANES_INSIDE,
    SAMPLE,
    SPANS,
    SPLITS,
    VALUES,
    VECTORS,
    C,
)  # fmt: skip
from zishu.chart._vectors import (
    FASTMATH,
    any_between,
    difference_of,
    exp_of,
    gather,
    lane_of,
    larger_of,
    load,
    out_of_line,
    product_of,
    splat,
    store,
    sum_of,
    tail,
    where,
    with_lane,
)  # fmt: skip
from zishu.gaps import BREAK, JOIN

# For functions that only this file calls: they need no wrapper for Python, and none of Numba's own rewriting.
_JIT: dict[str, Any] = {
    "fastmath": FASTMATH,
    "error_model": "numpy",
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
    "no_rewrites": True,
    "forceinline": False,  # otherwise a function inherits it from the one that calls it first
}

# For the small ones among them: inlined, so that a call costs nothing.
_INLINE = {**_JIT, "forceinline": True}

# The bits of both infinities as integers. A float64 whose bits lie beyond these is NaN.
INF_BITS, NEG_INF_BITS = np.array([np.inf, -np.inf]).view(np.int64)

# Semirings: (+, x) on weights; (logsumexp, +) and (max, +) on scores.
PLAIN, LOG, MAX = np.arange(3)

# Numba would compile functions again for the literals 0 and 1.
ROOT, FIRST = np.arange(2)

# A span to the RIGHT has its head at the left end, and a span to the LEFT at the right end.
RIGHT, LEFT = np.arange(2)

# Rows of VECTORS, by character or gap: the semiring's one for characters, zero beyond the last one; the same, but zero for
# gaps that are JOIN; how many characters follow before the next BREAK; scores of gaps, by role; probabilities of
# boundaries; the log of the product of the sums of weights of the dependents 1..d; statistics; terms of a sum (two rows).
INSIDE, OPEN, EXTENT, GAP_SCORES, BOUNDARY, LOG_SUMS, MET, TERMS = np.array([0, 1, 2, 3, 5, 6, 7, 8])

# The chart of a sentence is sparse if less than one arc in FEW is allowed.
FEW = 8

# The range of plain sums; docs/algorithm.md shows why it suffices. Values below TINY become 0; products of two values
# from SAFE to HUGE neither vanish nor overflow; the total must exceed the bound of a single loss by a factor
# exp(MARGIN), which is 2^53 (rounding) times 7e8 (the number of losses).
TINY, SAFE, HUGE, MARGIN = 1e-290, 1e-150, 1e150, 57.0
LOWEST = -700.0  # scores below this get weight 0
BRANCHING = 8.0  # there are about 8^n trees over n characters

# Statistics of plain sums: the largest value; the width of the narrowest span with a value below SAFE; and the largest
# possible factor of a value that became 0, as a logarithm and relative to the product of all sums of weights.
LARGEST, NARROWEST, LOST = np.arange(3)


class Workspace(NamedTuple):
    """Hold one sentence and its chart."""

    semiring: Any
    zero: float
    one: float
    n: int
    roles: int
    root_as_head: bool
    soft: bool  # whether gaps have scores
    m: int  # the number of rows of a plane and their length
    chart: Any  # PLANES, one after the other


# --- scores and weights


@njit(**_INLINE)
def _row(s, which, k):
    """Return where entry k of a row of VECTORS is."""
    return (VECTORS * s.m + which) * s.m + k


@njit(**_INLINE)
def _value(s, role, d, h):
    """Return where the score or weight of the arc h -> d is."""
    return ((VALUES + role) * s.m + d) * s.m + h


@njit(**_JIT)
def _copy_scores(s, scores, width):
    """Copy the scores of a sentence. Beyond its end there are seven forbidden arcs."""
    for role in range(s.roles):
        for d in range(1, s.n + 1):
            source, row = (role * width + d) * width, _value(s, role, d, ROOT)
            for h in range(s.n + 1):
                s.chart[row + h] = scores[source + h]
            store(s.chart, row + s.n + 1, splat(s.zero))
        for d in range(s.n + 1, s.n + LANES):
            for h in range(0, s.n + LANES, LANES):
                store(s.chart, _value(s, role, d, h), splat(s.zero))


@njit(**_JIT)
def _weigh(s):
    """Turn scores into weights for plain sums; return the logarithm of what trees were divided by.

    A dependent's weights are scaled to sum to 1, or to more if its head is wide open: trees are few among all
    choices of heads, and the sum over them should not vanish.
    """
    divided = 0.0
    log_sums, lost = _row(s, LOG_SUMS, ROOT), _row(s, MET, LOST)
    s.chart[_row(s, MET, LARGEST)], s.chart[_row(s, MET, NARROWEST)] = 0.0, np.inf
    s.chart[lost], s.chart[log_sums] = NEG_INF, 0.0
    nothing, lowest_score = splat(0.0), splat(LOWEST)
    for d in range(1, s.n + 1):
        totals = means = deepest = nothing
        for role in range(s.roles):
            row = _value(s, role, d, ROOT)
            store(s.chart, row + s.n + 1, splat(NEG_INF))
            for h in range(row, row + s.n + 1, LANES):
                scores = load(s.chart, h)
                weights = nothing
                if any_between(scores, lowest_score, splat(np.inf)):
                    counted = where(scores, lowest_score, scores, nothing)
                    weights = where(scores, lowest_score, exp_of(counted), nothing)
                    totals = sum_of(totals, weights)
                    means = sum_of(means, product_of(weights, counted))
                    deepest = larger_of(deepest, difference_of(nothing, counted))
                if any_between(scores, splat(NEG_INF), lowest_score):
                    s.chart[lost] = 0.0
                store(s.chart, h, weights)
            store(s.chart, row + s.n + 1, nothing)
        total = mean = lowest = 0.0
        for lane in range(LANES):
            total += lane_of(totals, lane)
            mean += lane_of(means, lane)
            lowest = max(lowest, lane_of(deepest, lane))
        spread = 0.0
        if total > 0.0:
            entropy = log(total) - mean / total
            spread = max(0.0, entropy - log(BRANCHING))
            factor = exp(spread) / total
            if exp(-lowest) * factor < SAFE:
                s.chart[_row(s, MET, NARROWEST)] = 0.0
            for role in range(s.roles):
                row = _value(s, role, d, ROOT)
                for h in range(row, row + s.n + 1, LANES):
                    store(s.chart, h, product_of(load(s.chart, h), splat(factor)))
            divided += log(total) - spread
        s.chart[log_sums + d] = s.chart[log_sums + d - 1] + spread
    return divided


@njit(**_JIT)
def _scale(s, log_factor):
    """Multiply every weight by exp(log_factor), and reset the record of losses."""
    factor = exp(log_factor)
    for d in range(1, s.n + 1):
        for role in range(s.roles):
            row = _value(s, role, d, ROOT)
            for h in range(row, row + s.n + 1):
                s.chart[h] *= factor
        s.chart[_row(s, LOG_SUMS, d)] += d * log_factor
    s.chart[_row(s, MET, LARGEST)], s.chart[_row(s, MET, LOST)] = 0.0, NEG_INF


@njit(**_JIT)
def _record(s, x, may, i, w):
    """Return the plain sums to store for eight spans: drop values below TINY, and record what was lost.

    A value that may not be above 0 anyway is no loss.
    """
    out_of_line()
    largest, narrowest, lost = _row(s, MET, LARGEST), _row(s, MET, NARROWEST), _row(s, MET, LOST)
    for lane in range(min(LANES, s.n - w - i + 1)):
        value = lane_of(x, lane)
        s.chart[largest] = max(s.chart[largest], value)
        if value < SAFE and lane_of(may, lane) > 0.0:
            if value > 0.0:
                s.chart[narrowest] = min(s.chart[narrowest], w)
            if value < TINY:
                x = with_lane(x, lane, 0.0)
                if w >= s.chart[narrowest]:
                    log_sums = _row(s, LOG_SUMS, i + lane)
                    s.chart[lost] = max(s.chart[lost], s.chart[log_sums] - s.chart[log_sums + w - 1])
    return x


@njit(**_INLINE)
def _keep(s, x, may, i, w):
    """Return the values to store for eight spans."""
    if s.semiring == PLAIN and (
        w >= s.chart[_row(s, MET, NARROWEST)]
        or any_between(x, splat(0.0), splat(SAFE))
        or any_between(x, splat(HUGE), splat(np.inf))
    ):
        return _record(s, x, may, i, w)
    return x


@njit(**_JIT)
def _trusted(s, total):
    """Tell whether the losses of plain sums are negligible: Z > B exp(LOST) TINY exp(MARGIN), see algorithm.md."""
    if not TINY <= total < np.inf or s.chart[_row(s, MET, LARGEST)] > HUGE:
        return False
    return log(total) > s.chart[_row(s, LOG_SUMS, s.n)] + s.chart[_row(s, MET, LOST)] + log(TINY) + MARGIN


# --- semirings


@njit(**_INLINE)
def _times(s, x, y):
    return product_of(x, y) if s.semiring == PLAIN else sum_of(x, y)


@njit(**_INLINE)
def _plus(s, x, y):
    if s.semiring == PLAIN:
        return sum_of(x, y)
    if s.semiring == MAX:
        return larger_of(x, y)
    return _log_plus(x, y)


@njit(**_INLINE)
def _finite_exp(x):
    """Return exponentials of numbers up to 708, 0 for those below -700."""
    return where(x, splat(LOWEST), exp_of(larger_of(x, splat(LOWEST))), splat(0.0))


@njit(**_JIT)
def _log_of(x):
    out_of_line()
    for lane in range(LANES):
        x = with_lane(x, lane, log(lane_of(x, lane)) if lane_of(x, lane) > 0.0 else NEG_INF)
    return x


@njit(**_JIT)
def _log_plus(x, y):
    out_of_line()
    high = larger_of(x, y)
    pivot = where(high, splat(NEG_INF), high, splat(0.0))
    total = sum_of(_finite_exp(difference_of(x, pivot)), _finite_exp(difference_of(y, pivot)))
    return sum_of(pivot, _log_of(total))


@njit(**_JIT)
def _sum(s, x, y, step_x, step_y, count):
    """Return SUM_k chart[x + k step_x] (x) chart[y + k step_y]."""
    out_of_line()
    total = splat(0.0)
    if s.semiring == PLAIN:
        for k in range(count):
            product = product_of(load(s.chart, x + k * step_x), load(s.chart, y + k * step_y))
            total = sum_of(total, product)
        return total
    best = splat(NEG_INF)
    for k in range(count):
        best = larger_of(best, sum_of(load(s.chart, x + k * step_x), load(s.chart, y + k * step_y)))
    if s.semiring == MAX:
        return best
    pivot = where(best, splat(NEG_INF), best, splat(0.0))
    for k in range(count):
        term = sum_of(load(s.chart, x + k * step_x), load(s.chart, y + k * step_y))
        total = sum_of(total, _finite_exp(difference_of(term, pivot)))
    return sum_of(pivot, _log_of(total))


@njit(**_INLINE)
def _sums(s, x0, y0, x1, y1, x2, y2, step_x, step_y, count):
    """Return the sums of three pairs x, y. Most of the time is spent here."""
    if s.semiring == LOG:
        return (
            _sum(s, x0, y0, step_x, step_y, count),
            _sum(s, x1, y1, step_x, step_y, count),
            _sum(s, x2, y2, step_x, step_y, count),
        )
    first = second = third = splat(s.zero)
    if s.semiring == PLAIN:
        for k in range(count):
            x, y = k * step_x, k * step_y
            first = sum_of(first, product_of(load(s.chart, x0 + x), load(s.chart, y0 + y)))
            second = sum_of(second, product_of(load(s.chart, x1 + x), load(s.chart, y1 + y)))
            third = sum_of(third, product_of(load(s.chart, x2 + x), load(s.chart, y2 + y)))
    else:
        for k in range(count):
            x, y = k * step_x, k * step_y
            first = larger_of(first, sum_of(load(s.chart, x0 + x), load(s.chart, y0 + y)))
            second = larger_of(second, sum_of(load(s.chart, x1 + x), load(s.chart, y1 + y)))
            third = larger_of(third, sum_of(load(s.chart, x2 + x), load(s.chart, y2 + y)))
    return first, second, third


# --- planes


@njit(**_INLINE)
def _cell(s, plane, w, i):
    """Return where a plane holds the span from i to i + w. Rows begin with seven zeros, for i = -6 to 0."""
    return (plane * s.m + w) * s.m + i + LANES - 1


@njit(**_INLINE)
def _at(s, plane, w, i):
    """Load the values of the spans from i to i + w, ..., from i + 7 to i + 7 + w."""
    return load(s.chart, _cell(s, plane, w, i))


@njit(**_INLINE)
def _put(s, plane, w, i, x):
    store(s.chart, _cell(s, plane, w, i), x)


@njit(**_INLINE)
def _vector(s, which, k):
    """Load the entries k, ..., k + 7 of a row of VECTORS."""
    return load(s.chart, _row(s, which, k))


@njit(**_INLINE)
def _arcs(s, role, d, h):
    """Load the values of the arcs h -> d, ..., h + 7 -> d + 7."""
    return gather(s.chart, _value(s, role, d, h), s.m + 1)


@njit(**_JIT)
def _clear(s, first, last):
    """Fill with zeros what surrounds the spans of each plane."""
    for plane in range(first, last):
        for w in range(s.n + 1):
            _put(s, plane, w, -LANES + 1, splat(s.zero))
            _put(s, plane, w, s.n - w + 1, splat(s.zero))


@njit(**_INLINE)
def _end(s, h, e):
    """Return where ENDS tells whether the span with head h and far end e can have a value."""
    return (ENDS * s.m + h) * s.m + e


@njit(**_JIT)
def _reach(s, k, first, last, low, high):
    """Let the heads of k from `first` to `last` reach what k reaches from `low` to `high`."""
    for block in range(first, last + 1, LANES):
        found = load(s.chart, _value(s, INTER, k, block))
        found = larger_of(found, load(s.chart, _value(s, s.roles - 1, k, block)))
        if any_between(found, splat(s.zero), splat(np.inf)):
            for lane in range(min(LANES, last + 1 - block)):
                if lane_of(found, lane) > s.zero:
                    for e in range(low, high + 1):
                        to = _end(s, block + lane, e)
                        s.chart[to] = max(s.chart[to], s.chart[_end(s, k, e)])


@njit(**_JIT)
def _find_live(s):
    """Find out which spans can have a value: those whose far end is reached by arcs from head to dependent.

    LIVE tells this of any of the eight spans of a block.
    """
    n = s.n
    for h in range(1, n + 1):
        for e in range(1, n + 1):
            s.chart[_end(s, h, e)] = s.chart[_cell(s, LIVE, h, e)] = 0.0
        s.chart[_end(s, h, h)] = 1.0
    for k in range(n, 1, -1):
        _reach(s, k, FIRST, k - 1, k, n)
    for k in range(1, n):
        _reach(s, k, k + 1, n, FIRST, k)
    for h in range(1, n + 1):
        for e in range(1, n + 1):
            if s.chart[_end(s, h, e)] > 0.0:
                i = min(h, e)
                s.chart[_cell(s, LIVE, abs(h - e), i - (i - 1) % LANES)] = 1.0


# --- inside


@njit(**_JIT)
def _inside(s, sparse):
    """Fill the chart and return the sum over all trees."""
    zeros = splat(s.zero)
    _clear(s, SPANS, PLANES_INSIDE if s.soft else LEFT_PARTS)
    for i in range(s.n - (s.n - 1) % LANES, 0, -LANES):
        # a(i,i) = 1, t(i,i) = 1 if the gap beside it may be a boundary, c(i,i) = 0
        for side in range(2):
            _put(s, SPANS + 2 * INTRA + side, 0, i, _vector(s, INSIDE, i))
            _put(s, SPANS + side, 0, i, _times(s, _vector(s, INSIDE, i), _vector(s, OPEN, i - side)))
            _put(s, C + side, 0, i, zeros)
        widest = _widest(s, i)
        # One role after the other: what the sums of one role read stays in the fastest cache.
        for role in range(s.roles - 1, -1, -1):
            if s.soft:
                _put_left_part(s, role, ROOT, i)
            for w in range(1, s.n - i + 1):
                if not _is_live(s, sparse, role, i, w, widest):
                    for side in range(2):
                        _put(s, SPANS + 2 * role + side, w, i, zeros)
                        _put(s, LINKS + 2 * role + side, w, i, zeros)
                        if role == INTER:
                            _put(s, C + side, w, i, zeros)
                    if s.soft:
                        _put(s, LEFT_PARTS + role, w, i, zeros)
                else:
                    _combine(s, role, i, w)
    # Z = SUM_r s_inter(0,r) (x) t(1<-r) (x) t(r->n): ROOT has one child and owns gap 0
    _list_roots(s)
    return _total(s)


@njit(**_INLINE)
def _widest(s, i):
    """Return the width of the widest intra-word span that begins at one of the eight characters from i on."""
    widest = 0.0
    for k in range(i, min(i + LANES, s.n + 1)):
        widest = max(widest, s.chart[_row(s, EXTENT, k)])
    return np.int64(widest)


@njit(**_INLINE)
def _is_live(s, sparse, role, i, w, widest):
    """Tell whether the eight spans of width w from i on can have a value."""
    if role == INTRA and w > widest:
        return False
    return not sparse or w == 0 or s.chart[_cell(s, LIVE, w, i)] > 0.0


@njit(**_JIT)
def _combine(s, role, i, w):
    """Compute eight links and eight complete spans of one role: those of width w that begin at i, ..., i + 7."""
    out_of_line()
    spans, links = SPANS + 2 * role, LINKS + 2 * role
    left_parts = LEFT_PARTS + role if s.soft else spans
    # Ihat(i->j) = s_intra(i,j) (x) SUM_k a(i->k) (x) a(k+1<-j)          gap k not BREAK
    # I   (i->j) = s_inter(i,j) (x) SUM_k t(i->k) (x) t(k+1<-j)          gap k not JOIN
    # a   (i->j) = SUM_k Ihat(i->k) (x) a(k->j)
    # c   (i->j) = SUM_k I(i->k) (x) t(k->j)
    parts, right, left = _sums(
        s,
        _cell(s, left_parts, 1, i), _cell(s, spans + LEFT, w - 2, i + 2),
        _cell(s, links + RIGHT, 1, i), _cell(s, spans + RIGHT, w - 1, i + 1),
        _cell(s, spans + LEFT, 1, i), _cell(s, links + LEFT, w - 1, i + 1),
        s.m, 1 - s.m, w - 1,
    )  # fmt: skip
    parts = _plus(s, parts, _times(s, _at(s, left_parts, 0, i), _at(s, spans + LEFT, w - 1, i + 1)))
    may = _vector(s, INSIDE, i + w)
    if role == INTRA:
        may = where(_vector(s, EXTENT, i), splat(w - 0.5), may, splat(s.zero))
    parts = _times(s, parts, may)
    to_right, to_left = _arcs(s, role, i + w, i), _arcs(s, role, i, i + w)
    link_right = _keep(s, _times(s, to_right, parts), to_right, i, w)
    link_left = _keep(s, _times(s, to_left, parts), to_left, i, w)
    _put(s, links + RIGHT, w, i, link_right)
    _put(s, links + LEFT, w, i, link_left)
    open_right, open_left = _at(s, spans + RIGHT, 0, i + w), _at(s, spans + LEFT, 0, i)
    right = _plus(s, right, _times(s, link_right, open_right))
    left = _plus(s, left, _times(s, link_left, open_left))
    if role == INTRA:
        right, left = _keep(s, right, may, i, w), _keep(s, left, may, i, w)
    else:
        if not s.root_as_head:  # c(i->j) (+)= SUM_k Ihat(i->k) (x) c(k->j)
            intra, step = LINKS + 2 * INTRA, 1 - s.m
            x, y = _cell(s, intra + RIGHT, 1, i), _cell(s, C + RIGHT, w - 1, i + 1)
            right = _plus(s, right, _sum(s, x, y, s.m, step, w - 1))
            x, y = _cell(s, C + LEFT, 1, i), _cell(s, intra + LEFT, w - 1, i + 1)
            left = _plus(s, left, _sum(s, x, y, s.m, step, w - 1))
        right, left = _keep(s, right, open_right, i, w), _keep(s, left, open_left, i, w)
        _put(s, C + RIGHT, w, i, right)
        _put(s, C + LEFT, w, i, left)
        if s.roles == 2:  # t = a (+) c
            right = _plus(s, right, _times(s, _at(s, SPANS + 2 * INTRA + RIGHT, w, i), open_right))
            left = _plus(s, left, _times(s, _at(s, SPANS + 2 * INTRA + LEFT, w, i), open_left))
    _put(s, spans + RIGHT, w, i, right)
    _put(s, spans + LEFT, w, i, left)
    if s.soft:
        _put_left_part(s, role, w, i)


@njit(**_JIT)
def _put_left_part(s, role, w, i):
    """Multiply the spans to the right of width w by the scores of the gaps behind them."""
    out_of_line()
    x = _at(s, SPANS + 2 * role + RIGHT, w, i)
    left_part = _times(s, x, _vector(s, GAP_SCORES + role, i + w))
    _put(s, LEFT_PARTS + role, w, i, _keep(s, left_part, x, i, w))


@njit(**_INLINE)
def _scalar_times(s, x, y):
    return x * y if s.semiring == PLAIN else x + y


@njit(**_JIT)
def _list_roots(s):
    """List s_inter(0,r) (x) t(1<-r) (x) t(r->n) for every r."""
    for r in range(1, s.n + 1):
        root, left = s.chart[_value(s, INTER, r, ROOT)], s.chart[_cell(s, SPANS + LEFT, r - 1, FIRST)]
        right = s.chart[_cell(s, SPANS + RIGHT, s.n - r, r)]
        s.chart[_row(s, TERMS, r - 1)] = _scalar_times(s, root, _scalar_times(s, left, right))


@njit(**_JIT)
def _total(s):
    """Return the semiring's sum of the n terms."""
    terms = _row(s, TERMS, ROOT)
    best, total = NEG_INF, 0.0
    for k in range(terms, terms + s.n):
        best = max(best, s.chart[k])
        total += s.chart[k]
    if s.semiring == PLAIN:
        return total
    if s.semiring == MAX or best == NEG_INF:
        return best
    total = 0.0
    for k in range(terms, terms + s.n):
        total += exp(s.chart[k] - best)
    return best + log(total)


# --- outside


@njit(**_INLINE)
def _probability(s, x, outside):
    """Return the probabilities of spans, from their values and the outside values."""
    return product_of(x, outside) if s.semiring == PLAIN else _finite_exp(sum_of(x, outside))


@njit(**_JIT)
def _outside(s, sparse, total, arcs, width):
    """Compute the outside values of `_inside`: the derivative of log Z by a score is the probability of its arc.

    Those of arcs go to `arcs`, unless its width is 0, and those of boundaries to BOUNDARY.
    """
    zeros = splat(s.zero)
    _clear(s, OUTSIDE, PLANES)
    for w in range(s.n):
        for i in range(1, s.n - w + 1, LANES):
            _put(s, OUTSIDE + RIGHT, w, i, zeros)
            _put(s, OUTSIDE + LEFT, w, i, zeros)
    for r in range(1, s.n + 1):
        root, term = s.chart[_value(s, INTER, r, ROOT)], s.chart[_row(s, TERMS, r - 1)]
        root = root / total if s.semiring == PLAIN else root - total
        if width > 0:
            arcs[r * width] = term / total if s.semiring == PLAIN else exp(term - total)
        left = s.chart[_cell(s, SPANS + LEFT, r - 1, FIRST)]
        right = s.chart[_cell(s, SPANS + RIGHT, s.n - r, r)]
        s.chart[_cell(s, OUTSIDE + LEFT, r - 1, FIRST)] = _scalar_times(s, root, right)
        s.chart[_cell(s, OUTSIDE + RIGHT, s.n - r, r)] = _scalar_times(s, root, left)
    start = np.int64(1)  # of the part between two BREAKs
    for i in range(1, s.n + 1, LANES):
        widest, back = _widest(s, i), np.int64(0)
        for k in range(i, min(i + LANES, s.n + 1)):
            back = max(back, k - start)
            if s.chart[_row(s, EXTENT, k)] == 0.0:
                start = k + 1
        for role in range(s.roles):
            for w in range(s.n - i, role - 1, -1):  # w = 0 only for boundaries
                if _is_live(s, sparse, role, i, w, widest):
                    _share(s, role, i, w, widest, back, arcs, width)
                else:
                    _put(s, OUTSIDE + 2 * role + RIGHT, w, i, zeros)
                    _put(s, OUTSIDE + 2 * role + LEFT, w, i, zeros)
                    _put(s, SPLITS + role, w, i, zeros)


@njit(**_JIT)
def _share(s, role, i, w, widest, back, arcs, width):
    """Compute the outside values of eight links and complete spans of one role: those of `_combine`.

    The outside value of a span is the sum over the wider spans that it is part of: the outside value of the wider span
    (x) the value of its other part. In plain sums it has no meaning if the value of the span itself is 0. With x for a
    or t, I for links of the same role, primes for outside values, and S' for that of the sum over k in a link:

        x'(i->j) = SUM_k S'(i,k) (x) x(j+1<-k)  (+)  SUM_h x'(h->j) (x) I(h->i)          h < i, k > j
        x'(i<-j) = SUM_h S'(h,j) (x) x(h->i-1)  (+)  SUM_k x'(i<-k) (x) I(j<-k)
        I'(i->j) = SUM_k x'(i->k) (x) x(j->k)                                          h <= i, k >= j
        I'(i<-j) = SUM_h x'(h<-j) (x) x(h<-i)
        S'(i,j)  = I'(i->j) (x) s(i,j)  (+)  I'(i<-j) (x) s(j,i)

    Added to these are the part of ROOT, that of a in t = a (+) c, and those of c when root-as-head is off.
    """
    out_of_line()
    zeros = splat(s.zero)
    spans, links, outside, splits = SPANS + 2 * role, LINKS + 2 * role, OUTSIDE + 2 * role, SPLITS + role
    left_parts = LEFT_PARTS + role if s.soft else spans
    after = all_after = s.n - i - w
    before = all_before = min(i + LANES - 2, s.n - 1 - w)
    if role == INTRA:
        after, before = widest - w, min(before, back)
    # wider spans with the same left end: links, and complete spans
    as_left_part, as_inner, to_right = _sums(
        s,
        _cell(s, splits, w + 1, i), _cell(s, spans + LEFT, 0, i + w + 1),
        _cell(s, outside + LEFT, w + 1, i), _cell(s, links + LEFT, 1, i + w),
        _cell(s, outside + RIGHT, w + 1, i), _cell(s, spans + RIGHT, 1, i + w),
        s.m, s.m, after,
    )  # fmt: skip
    if role == INTER:
        # Gap j is a boundary if an inter-word link owns it; the left part of that link is t(i->j).
        used = _probability(s, _at(s, left_parts, w, i), as_left_part)
        store(s.chart, _row(s, BOUNDARY, i + w), sum_of(_vector(s, BOUNDARY, i + w), used))
        if w == 0:
            return
    if s.soft:
        as_left_part = _times(s, as_left_part, _vector(s, GAP_SCORES + role, i + w))
    # wider spans with the same right end
    as_outer, as_right_part, to_left = _sums(
        s,
        _cell(s, outside + RIGHT, w + 1, i - 1), _cell(s, links + RIGHT, 1, i - 1),
        _cell(s, splits, w + 1, i - 1), _cell(s, left_parts, 0, i - 1),
        _cell(s, outside + LEFT, w + 1, i - 1), _cell(s, spans + LEFT, 1, i - 1),
        s.m - 1, s.m - 1, before,
    )  # fmt: skip
    # Before, there is what comes from ROOT, or what a has as a part of t = a (+) c.
    right = _plus(s, _at(s, outside + RIGHT, w, i), _plus(s, as_left_part, as_outer))
    left = _plus(s, _at(s, outside + LEFT, w, i), _plus(s, as_right_part, as_inner))
    right = where(_at(s, spans + RIGHT, w, i), zeros, right, zeros)
    left = where(_at(s, spans + LEFT, w, i), zeros, left, zeros)
    if role == INTER and s.roles == 2:
        _put(s, OUTSIDE + 2 * INTRA + RIGHT, w, i, right)
        _put(s, OUTSIDE + 2 * INTRA + LEFT, w, i, left)
        if not s.root_as_head:  # c(i->j) is part of wider ones by intra-word links
            intra, step = LINKS + 2 * INTRA, s.m - 1
            x, y = _cell(s, outside + RIGHT, w + 1, i - 1), _cell(s, intra + RIGHT, 1, i - 1)
            right = _plus(s, right, _sum(s, x, y, step, step, before))
            right = where(_at(s, C + RIGHT, w, i), zeros, right, zeros)
            x, y = _cell(s, outside + LEFT, w + 1, i), _cell(s, intra + LEFT, 1, i + w)
            left = _plus(s, left, _sum(s, x, y, s.m, s.m, after))
            left = where(_at(s, C + LEFT, w, i), zeros, left, zeros)
    _put(s, outside + RIGHT, w, i, right)
    _put(s, outside + LEFT, w, i, left)
    to_right = _plus(s, to_right, _times(s, right, _at(s, spans + RIGHT, 0, i + w)))
    to_left = _plus(s, to_left, _times(s, left, _at(s, spans + LEFT, 0, i)))
    if role == INTRA and not s.root_as_head:
        x, y = _cell(s, OUTSIDE + RIGHT, w + 1, i), _cell(s, C + RIGHT, 1, i + w)
        to_right = _plus(s, to_right, _sum(s, x, y, s.m, s.m, all_after))
        x, y = _cell(s, OUTSIDE + LEFT, w + 1, i - 1), _cell(s, C + LEFT, 1, i - 1)
        to_left = _plus(s, to_left, _sum(s, x, y, s.m - 1, s.m - 1, all_before))
    link_right, link_left = _at(s, links + RIGHT, w, i), _at(s, links + LEFT, w, i)
    to_right = where(link_right, zeros, to_right, zeros)
    to_left = where(link_left, zeros, to_left, zeros)
    split_right = _times(s, to_right, _arcs(s, role, i + w, i))
    split_left = _times(s, to_left, _arcs(s, role, i, i + w))
    _put(s, splits, w, i, _plus(s, split_right, split_left))
    if width > 0:
        right, left = _probability(s, link_right, to_right), _probability(s, link_left, to_left)
        for lane in range(min(LANES, s.n - w - i + 1)):
            h, e = i + lane, i + lane + w
            arcs[(role * width + e) * width + h] = lane_of(right, lane)
            arcs[(role * width + h) * width + e] = lane_of(left, lane)


# --- trees


@njit(**_JIT)
def _pick(s, count, draw):
    """Choose one of the first terms: the largest in the semiring MAX, otherwise in proportion to its value.

    `draw` is a random number from 0 to 1.
    """
    terms = _row(s, TERMS, ROOT)
    chosen, total = ROOT, 0.0
    for k in range(count):
        if s.chart[terms + k] > s.chart[terms + chosen]:
            chosen = k
    if s.semiring == MAX:
        return chosen
    best = s.chart[terms + chosen]
    for k in range(terms, terms + count):
        if s.semiring == LOG:
            s.chart[k] = exp(s.chart[k] - best)
        total += s.chart[k]
    left = draw * total
    for k in range(count):
        if s.chart[terms + k] > 0.0:
            chosen = k
            left -= s.chart[terms + k]
            if left < 0.0:
                break
    return chosen


@njit(**_INLINE)
def _span(s, plane, side, h, e):
    """Return the value of the span with head h and far end e in a plane of this side."""
    return s.chart[_cell(s, plane + side, abs(h - e), min(h, e))]


@njit(**_JIT)
def _list_terms(s, links, spans, h, e, start):
    """List the terms of SUM_k links(h->k) (x) spans(k->e) from place `start` on; return the place after them."""
    low, side = min(h + 1, e), RIGHT if e > h else LEFT
    for k in range(abs(h - e)):
        term = _scalar_times(s, _span(s, links, side, h, low + k), _span(s, spans, side, low + k, e))
        s.chart[_row(s, TERMS, start + k)] = term
    return start + abs(h - e)


@njit(**_JIT)
def _walk(s, stack, draws, heads, is_intra):
    """Walk a filled chart from the top to one tree: the best one, or one drawn by its probability.

    Each arc takes three random numbers, and the root one.
    """
    t, a, inter_links, intra_links = SPANS, SPANS + 2 * INTRA, LINKS, LINKS + 2 * INTRA
    _list_roots(s)
    root = 1 + _pick(s, s.n, draws[0])
    heads[root] = is_intra[root] = 0
    size, drawn = ROOT, FIRST
    for e in (1, s.n):
        size = _stack(stack, size, t, root, e)
    while size > 0:
        size -= 1
        plane, h, e = stack[3 * size], stack[3 * size + 1], stack[3 * size + 2]
        if h == e:
            continue
        side = RIGHT if e > h else LEFT
        if plane == t:
            plane = C
            if s.roles == 2:
                terms = _row(s, TERMS, ROOT)
                s.chart[terms], s.chart[terms + 1] = _span(s, a, side, h, e), _span(s, C, side, h, e)
                plane = a if _pick(s, np.int64(2), draws[drawn]) == 0 else C
        links, spans = (intra_links, a) if plane == a else (inter_links, t)
        ways = _list_terms(s, links, spans, h, e, ROOT)
        if plane == C and s.roles == 2 and not s.root_as_head:
            ways = _list_terms(s, intra_links, C, h, e, ways)
        way = _pick(s, ways, draws[drawn + 1])
        if way >= abs(h - e):
            links, spans = intra_links, C
        d = min(h + 1, e) + way % abs(h - e)
        heads[d], is_intra[d] = h, links == intra_links
        inner = a if links == intra_links else t
        left_parts = LEFT_PARTS + (INTRA if links == intra_links else INTER) if s.soft else inner
        i, j = min(h, d), max(h, d)
        for k in range(j - i):
            left, right = _span(s, left_parts, RIGHT, i, i + k), _span(s, inner, LEFT, j, i + k + 1)
            s.chart[_row(s, TERMS, k)] = _scalar_times(s, left, right)
        k = i + _pick(s, j - i, draws[drawn + 2])
        drawn += 3
        size = _stack(stack, size, spans, d, e)
        size = _stack(stack, size, inner, i, k)
        size = _stack(stack, size, inner, j, k + 1)


@njit(**_JIT)
def _stack(stack, size, plane, h, e):
    stack[3 * size], stack[3 * size + 1], stack[3 * size + 2] = plane, h, e
    return size + 1


# --- sentences


@njit(**_JIT)
def _set_vectors(s, gaps, gap_scores, width):
    """Fill in what VECTORS says about the gaps of a sentence."""
    last = s.n
    for k in range(s.m - 1, -1, -1):
        if k <= s.n:
            last = k if gaps[k] == BREAK else last
        s.chart[_row(s, INSIDE, k)] = s.one if k <= s.n else s.zero
        s.chart[_row(s, OPEN, k)] = s.one if k <= s.n and gaps[k] != JOIN else s.zero
        s.chart[_row(s, EXTENT, k)] = last - k if k <= s.n else -1.0
        s.chart[_row(s, BOUNDARY, k)] = 0.0
    if s.soft:
        for role in range(s.roles):
            for k in range(s.m):
                score = gap_scores[role * width + k] if k <= s.n else 0.0
                s.chart[_row(s, GAP_SCORES + role, k)] = exp(score) if s.semiring == PLAIN else score


# --- entries: functions for C, which get addresses and sizes. See `_layout.Batch` and `_layout.Answers` for the arrays.

_number = types.int64
_floats, _integers, _bytes = (types.CPointer(kind) for kind in (types.float64, types.int64, types.int8))

_PREPARE = types.void(_floats, _integers, _integers, _floats, _integers, _number, _number, _number)
_RUN = types.void(
    _integers, _floats, _bytes, _integers, _floats, _integers, _floats, _floats, _floats, _integers, _bytes, _floats,
    _integers, _floats, *[_number] * 9,
)  # fmt: skip
_ENTRY = {**_JIT, "no_cfunc_wrapper": False}


@njit(_PREPARE, **_ENTRY)
def prepare(scores, bits, lengths, offset, allowed, sentences, roles, width):
    """Shift scores so that each dependent's best arc scores 0; count the allowed arcs of each sentence.

    Every tree has exactly one arc into each dependent, so the shift changes all trees alike. Arcs from a character to
    itself and intra arcs of ROOT are forbidden. The count is -1 if a score is NaN or plus infinity. The test reads the
    bits (the same memory as integers), since fast mathematics assumes that nothing is NaN.
    """
    for b in range(sentences):
        n, count, bad = lengths[b], 0, 0
        for d in range(1, n + 1):
            best = NEG_INF
            for role in range(roles):
                row = ((b * roles + role) * width + d) * width
                scores[row + d] = NEG_INF
                if role == INTRA:
                    scores[row] = NEG_INF
                for h in range(row, row + n + 1):
                    bad += (bits[h] >= INF_BITS) | (-1 >= bits[h] > NEG_INF_BITS)
                for h in range(row, row + n + 1):
                    count += scores[h] > NEG_INF
                    best = max(best, scores[h])
            if best == NEG_INF:
                best = 0.0
            offset[b * width + d] = best
            for role in range(roles):
                row = ((b * roles + role) * width + d) * width
                for h in range(row, row + n + 1):
                    scores[h] -= best
        allowed[b] = count if bad == 0 else -1


@njit(_RUN, **_ENTRY)
def run(
    order, scores, gaps, lengths, gap_scores, allowed, value, arcs, boundary, heads, intra, chart, stack, draws,
    task, sentences, roles, width, gap_width, arcs_width, trees, m, root_as_head,
):  # fmt: skip
    """Run a task for the sentences in `order`: fill in log Z or the best score, and the other results of the task.

    All tasks share one function, so that the recursion is compiled once. `chart` is memory for the longest sentence, with
    all planes for the tasks with an outside pass; the two arrays after it are memory for walks, and random numbers from 0
    to 1. An array that a task does not read or fill may be empty.
    """
    for at in range(sentences):
        b = order[at]
        n, gap = lengths[b], b * width  # gap 0 of this sentence
        sparse = allowed[b] * FEW < n * n * roles
        fixed = (n, roles, root_as_head != 0 or roles == 1, gap_width > 0, m, chart)
        semiring = MAX if task in (BEST, CHART) else PLAIN
        divided, may_scale, is_new = 0.0, True, True
        while True:
            zero, one = (0.0, 1.0) if semiring == PLAIN else (NEG_INF, 0.0)
            s = Workspace(semiring, zero, one, *fixed)
            if is_new:
                _copy_scores(s, tail(scores, gap * roles * width), width)
                _set_vectors(s, tail(gaps, gap), tail(gap_scores, 2 * b * gap_width), gap_width)
                if semiring == PLAIN:
                    divided = _weigh(s)
                    may_scale = s.chart[_row(s, MET, LOST)] == NEG_INF
                if sparse:
                    _find_live(s)
            total = _inside(s, sparse)
            if semiring != PLAIN or _trusted(s, total):
                break
            is_new = not (may_scale and 0.0 < total < 1.0)
            if is_new:
                semiring = LOG
            else:
                _scale(s, -log(total) / n)
                divided += log(total)
                may_scale = False
        value[b] = log(total) + divided if semiring == PLAIN else total
        if value[b] == NEG_INF:
            continue
        if task in OUTSIDE_TASKS:
            _outside(s, sparse, total, tail(arcs, b * roles * arcs_width * arcs_width), arcs_width)
            boundary[gap] = 1.0
            for k in range(1, n):
                boundary[gap + k] = s.chart[_row(s, BOUNDARY, k)]
        elif task in (BEST, SAMPLE):
            for tree in range(trees):
                row = (b * trees + tree) * width
                _walk(s, stack, tail(draws, tree * 3 * m), tail(heads, row), tail(intra, row))
