"""Run the typed Eisner chart for each sentence: inside, outside, and the walk down to a tree.

Only the process that compiles this file and `_vectors` imports them: others load the result and call the two entries,
`prepare` and `run` (`_compiled`). These get arrays that the caller has allocated; only the scores are checked here. The
recursion is written once, in `_inside`, for all semirings:

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
from llvmlite import binding  # comes with Numba
from numba import carray, cfunc, njit, types  # type: ignore[attr-defined]

from zishu.chart._compiled import target_machine
from zishu.chart._layout import (
    BEST,
    CHART,
    INTER,
    INTRA,
    LANES,
    LEFT_PARTS,
    LINKS,
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
    Answers,
    Batch,
    C,
)  # fmt: skip
from zishu.chart._vectors import (
    FASTMATH,
    any_between,
    build_larger,
    build_product,
    build_sum,
    difference_of,
    exp_of,
    gather,
    larger_of,
    load,
    out_of_line,
    product_of,
    splat,
    store,
    sum_of,
    three_sums,
    where,
)  # fmt: skip
from zishu.gaps import BREAK, JOIN

# For functions that only this file calls: they need no wrapper for Python. "_nrt" turns off Numba's reference counting;
# they allocate nothing and return no arrays, so they do not need it. It has no public name, but without it charts take
# two to three times as long, even if everything is inlined.
_JIT: dict[str, Any] = {
    "fastmath": FASTMATH,
    "error_model": "numpy",
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
    "_nrt": False,
    "forceinline": False,  # otherwise a function inherits it from the one that calls it first
}

# For the small ones among them: inlined, so that a call costs nothing.
_INLINE = {**_JIT, "forceinline": True}

# The bits of both infinities as integers. A float64 whose bits lie beyond these is NaN.
INF_BITS, NEG_INF_BITS = np.array([np.inf, -np.inf]).view(np.int64)

# Semirings: (+, x) on weights; (logsumexp, +) and (max, +) on scores.
PLAIN, LOG, MAX = np.arange(3)

# A span to the RIGHT has its head at the left end, and a span to the LEFT at the right end.
RIGHT, LEFT = np.arange(2)

# Rows of VECTORS, by character or gap: the semiring's one for characters, zero beyond the last one; the same, but zero for
# gaps that are JOIN; how many characters follow before the next BREAK; scores of gaps, by role; probabilities of
# boundaries; the log of the product of the sums of weights of the dependents 1..d; statistics; memory for three vectors.
INSIDE, OPEN, EXTENT, GAP_SCORES, BOUNDARY, LOG_SUMS, MET, SPARE = np.array([0, 1, 2, 3, 5, 6, 7, 8])

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
    chart: Any  # PLANES, as one axis


# --- scores and weights


@njit(**_JIT)
def _prepare(scores, bits, lengths, offset, allowed):
    """Shift scores so that each dependent's best arc scores 0; count the allowed arcs of each sentence.

    Every tree has exactly one arc into each dependent, so the shift changes all trees alike. Arcs from a character to
    itself and intra arcs of ROOT are forbidden. The count is -1 if a score is NaN or plus infinity. The test reads the
    bits (the same memory as integers), since fast mathematics assumes that nothing is NaN.
    """
    for b in range(lengths.size):
        n, count, bad = lengths[b], 0, 0
        for d in range(1, n + 1):
            best = NEG_INF
            for role in range(scores.shape[1]):
                scores[b, role, d, d] = NEG_INF
                if role == INTRA:
                    scores[b, role, d, 0] = NEG_INF
                for h in range(n + 1):
                    bad += (bits[b, role, d, h] >= INF_BITS) | (-1 >= bits[b, role, d, h] > NEG_INF_BITS)
                for h in range(n + 1):
                    count += scores[b, role, d, h] > NEG_INF
                    best = max(best, scores[b, role, d, h])
            if best == NEG_INF:
                best = 0.0
            offset[b, d] = best
            for role in range(scores.shape[1]):
                for h in range(n + 1):
                    scores[b, role, d, h] -= best
        allowed[b] = count if bad == 0 else -1


@njit(**_INLINE)
def _row(s, which, k):
    """Return where entry k of a row of VECTORS is."""
    return (VECTORS * s.m + which) * s.m + k


@njit(**_INLINE)
def _value(s, role, d, h):
    """Return where the score or weight of the arc h -> d is."""
    return ((VALUES + role) * s.m + d) * s.m + h


@njit(**_JIT)
def _copy_scores(s, scores):
    """Copy the scores of a sentence. Beyond its end there are seven forbidden arcs."""
    for role in range(s.roles):
        for d in range(1, s.n + 1):
            row = _value(s, role, d, 0)
            for h in range(s.n + 1):
                s.chart[row + h] = scores[role, d, h]
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
    met, log_sums = _row(s, MET, 0), _row(s, LOG_SUMS, 0)
    s.chart[met + LARGEST], s.chart[met + NARROWEST], s.chart[met + LOST] = 0.0, np.inf, NEG_INF
    s.chart[log_sums] = 0.0
    nothing, lowest_score = splat(0.0), splat(LOWEST)
    for d in range(1, s.n + 1):
        totals = means = deepest = nothing
        for role in range(s.roles):
            row = _value(s, role, d, 0)
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
                    s.chart[met + LOST] = 0.0
                store(s.chart, h, weights)
            store(s.chart, row + s.n + 1, nothing)
        total, mean, lowest = _across(s, totals, means, deepest)
        spread = 0.0
        if total > 0.0:
            entropy = log(total) - mean / total
            spread = max(0.0, entropy - log(BRANCHING))
            factor = exp(spread) / total
            if exp(-lowest) * factor < SAFE:
                s.chart[met + NARROWEST] = 0.0
            for role in range(s.roles):
                row = _value(s, role, d, 0)
                for h in range(row, row + s.n + 1, LANES):
                    store(s.chart, h, product_of(load(s.chart, h), splat(factor)))
            divided += log(total) - spread
        s.chart[log_sums + d] = s.chart[log_sums + d - 1] + spread
    return divided


@njit(**_INLINE)
def _across(s, x, y, z):
    """Return the sums of two vectors and the largest number of a third one."""
    spare = _row(s, SPARE, 0)
    store(s.chart, spare, x)
    store(s.chart, spare + LANES, y)
    store(s.chart, spare + 2 * LANES, z)
    total_x = total_y = largest_z = 0.0
    for lane in range(spare, spare + LANES):
        total_x += s.chart[lane]
        total_y += s.chart[lane + LANES]
        largest_z = max(largest_z, s.chart[lane + 2 * LANES])
    return total_x, total_y, largest_z


@njit(**_JIT)
def _scale(s, log_factor):
    """Multiply every weight by exp(log_factor), and reset the record of losses."""
    factor = exp(log_factor)
    for role in range(s.roles):
        for d in range(1, s.n + 1):
            row = _value(s, role, d, 0)
            for h in range(row, row + s.n + 1):
                s.chart[h] *= factor
    for d in range(1, s.n + 1):
        s.chart[_row(s, LOG_SUMS, d)] += d * log_factor
    s.chart[_row(s, MET, LARGEST)], s.chart[_row(s, MET, LOST)] = 0.0, NEG_INF


@njit(**_JIT)
def _record(s, x, may, i, w):
    """Return the plain sums to store for eight spans: drop values below TINY, and record what was lost.

    A value that may not be above 0 anyway is no loss.
    """
    out_of_line()
    spare, met, log_sums = _row(s, SPARE, 0), _row(s, MET, 0), _row(s, LOG_SUMS, 0)
    store(s.chart, spare, x)
    store(s.chart, spare + LANES, may)
    for lane in range(min(LANES, s.n - w - i + 1)):
        value = s.chart[spare + lane]
        s.chart[met + LARGEST] = max(s.chart[met + LARGEST], value)
        if value < SAFE and s.chart[spare + LANES + lane] > 0.0:
            if value > 0.0:
                s.chart[met + NARROWEST] = min(s.chart[met + NARROWEST], w)
            if value < TINY:
                s.chart[spare + lane] = 0.0
                if w >= s.chart[met + NARROWEST]:
                    lost = s.chart[log_sums + i + lane] - s.chart[log_sums + i + lane + w - 1]
                    s.chart[met + LOST] = max(s.chart[met + LOST], lost)
    return load(s.chart, spare)


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
    met = _row(s, MET, 0)
    if not TINY <= total < np.inf or s.chart[met + LARGEST] > HUGE:
        return False
    return log(total) > s.chart[_row(s, LOG_SUMS, s.n)] + s.chart[met + LOST] + log(TINY) + MARGIN


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
    return _log_plus(s, x, y)


@njit(**_INLINE)
def _finite_exp(x):
    """Return exponentials of numbers up to 708, 0 for those below -700."""
    return where(x, splat(LOWEST), exp_of(larger_of(x, splat(LOWEST))), splat(0.0))


@njit(**_JIT)
def _log(s, x):
    out_of_line()
    spare = _row(s, SPARE, 0)
    store(s.chart, spare, x)
    for lane in range(spare, spare + LANES):
        s.chart[lane] = log(s.chart[lane]) if s.chart[lane] > 0.0 else NEG_INF
    return load(s.chart, spare)


@njit(**_JIT)
def _log_plus(s, x, y):
    out_of_line()
    high = larger_of(x, y)
    pivot = where(high, splat(NEG_INF), high, splat(0.0))
    total = sum_of(_finite_exp(difference_of(x, pivot)), _finite_exp(difference_of(y, pivot)))
    return sum_of(pivot, _log(s, total))


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
    return sum_of(pivot, _log(s, total))


_plain_sums = three_sums(0.0, build_product, build_sum)
_max_sums = three_sums(float("-inf"), build_sum, build_larger)


@njit(**_INLINE)
def _sums(s, x0, y0, x1, y1, x2, y2, step_x, step_y, count):
    """Return the sums of three pairs x, y. Most of the time is spent here."""
    if s.semiring == LOG:
        return (
            _sum(s, x0, y0, step_x, step_y, count),
            _sum(s, x1, y1, step_x, step_y, count),
            _sum(s, x2, y2, step_x, step_y, count),
        )
    if s.semiring == PLAIN:
        return _plain_sums(s.chart, x0, y0, x1, y1, x2, y2, step_x, step_y, count)
    return _max_sums(s.chart, x0, y0, x1, y1, x2, y2, step_x, step_y, count)


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


@njit(**_JIT)
def _reach(s, ends, k, first, last, low, high):
    """Let the heads of k from `first` to `last` reach what k reaches from `low` to `high`."""
    for block in range(first, last + 1, LANES):
        found = load(s.chart, _value(s, INTER, k, block))
        found = larger_of(found, load(s.chart, _value(s, s.roles - 1, k, block)))
        if any_between(found, splat(s.zero), splat(np.inf)):
            for h in range(block, min(block + LANES, last + 1)):
                if max(s.chart[_value(s, INTER, k, h)], s.chart[_value(s, s.roles - 1, k, h)]) > s.zero:
                    for e in range(low, high + 1):
                        ends[h, e] |= ends[k, e]


@njit(**_JIT)
def _find_live(s, ends, live):
    """Find out which spans can have a value: those whose far end is reached by arcs from head to dependent.

    `ends[h, e]` tells this of a span, and `live[i, w]` of any of the eight spans from i to i + 7.
    """
    n = s.n
    for h in range(1, n + 1):
        for e in range(1, n + 1):
            ends[h, e] = live[h, e] = False
        ends[h, h] = True
    for k in range(n, 1, -1):
        _reach(s, ends, k, np.int64(1), k - 1, k, n)
    for k in range(1, n):
        _reach(s, ends, k, k + 1, n, np.int64(1), k)
    for h in range(1, n + 1):
        for e in range(1, n + 1):
            if ends[h, e]:
                live[min(h, e) - (min(h, e) - 1) % LANES, abs(h - e)] = True


# --- inside


@njit(**_JIT)
def _inside(s, sparse, live, terms):
    """Fill the chart and return the sum over all trees."""
    zeros = splat(s.zero)
    _clear(s, SPANS, PLANES_INSIDE if s.soft else LEFT_PARTS)
    for i in range(s.n - (s.n - 1) % LANES, 0, -LANES):
        # a(i,i) = 1, t(i,i) = 1 if the gap beside it may be a boundary, c(i,i) = 0
        for side in range(2):
            _put(s, SPANS + 2 * INTRA + side, 0, i, _vector(s, INSIDE, i))
            _put(s, SPANS + side, 0, i, _times(s, _vector(s, INSIDE, i), _vector(s, OPEN, i - side)))
            _put(s, C + side, 0, i, zeros)
        if s.soft:
            _put_left_parts(s, np.int64(0), i)
        widest = _widest(s, i)
        for w in range(1, s.n - i + 1):
            if sparse and not live[i, w]:
                for plane in range(SPANS, PLANES_INSIDE if s.soft else LEFT_PARTS):
                    _put(s, plane, w, i, zeros)
            else:
                _combine(s, i, w, widest)
    # Z = SUM_r s_inter(0,r) (x) t(1<-r) (x) t(r->n): ROOT has one child and owns gap 0
    _list_roots(s, terms)
    return _total(s.semiring, terms, s.n)


@njit(**_INLINE)
def _widest(s, i):
    """Return the width of the widest intra-word span that begins at one of the eight characters from i on."""
    widest = 0.0
    for k in range(i, min(i + LANES, s.n + 1)):
        widest = max(widest, s.chart[_row(s, EXTENT, k)])
    return np.int64(widest)


@njit(**_JIT)
def _combine(s, i, w, widest):
    """Compute eight links and eight complete spans of each kind: those of width w that begin at i, ..., i + 7."""
    out_of_line()
    zeros, inside = splat(s.zero), _vector(s, INSIDE, i + w)
    a_right = a_left = zeros
    for role in range(s.roles - 1, -1, -1):
        spans, links = SPANS + 2 * role, LINKS + 2 * role
        if role == INTRA and w > widest:
            for side in range(2):
                _put(s, spans + side, w, i, zeros)
                _put(s, links + side, w, i, zeros)
            continue
        # Ihat(i->j) = s_intra(i,j) (x) SUM_k a(i->k) (x) a(k+1<-j)          gap k not BREAK
        # I   (i->j) = s_inter(i,j) (x) SUM_k t(i->k) (x) t(k+1<-j)          gap k not JOIN
        # a   (i->j) = SUM_k Ihat(i->k) (x) a(k->j)
        # c   (i->j) = SUM_k I(i->k) (x) t(k->j)
        left_parts = LEFT_PARTS + role if s.soft else spans
        parts, right, left = _sums(
            s,
            _cell(s, left_parts, 1, i), _cell(s, spans + LEFT, w - 2, i + 2),
            _cell(s, links + RIGHT, 1, i), _cell(s, spans + RIGHT, w - 1, i + 1),
            _cell(s, spans + LEFT, 1, i), _cell(s, links + LEFT, w - 1, i + 1),
            s.m, 1 - s.m, w - 1,
        )  # fmt: skip
        parts = _plus(s, parts, _times(s, _at(s, left_parts, 0, i), _at(s, spans + LEFT, w - 1, i + 1)))
        may = inside
        if role == INTRA:
            may = where(_vector(s, EXTENT, i), splat(w - 0.5), inside, zeros)
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
            a_right, a_left = _keep(s, right, may, i, w), _keep(s, left, may, i, w)
            _put(s, spans + RIGHT, w, i, a_right)
            _put(s, spans + LEFT, w, i, a_left)
            continue
        if not s.root_as_head:  # c(i->j) (+)= SUM_k Ihat(i->k) (x) c(k->j)
            intra, step = LINKS + 2 * INTRA, 1 - s.m
            x, y = _cell(s, intra + RIGHT, 1, i), _cell(s, C + RIGHT, w - 1, i + 1)
            right = _plus(s, right, _sum(s, x, y, s.m, step, w - 1))
            x, y = _cell(s, C + LEFT, 1, i), _cell(s, intra + LEFT, w - 1, i + 1)
            left = _plus(s, left, _sum(s, x, y, s.m, step, w - 1))
        # The span t is the sum of a and c.
        right, left = _keep(s, right, open_right, i, w), _keep(s, left, open_left, i, w)
        _put(s, C + RIGHT, w, i, right)
        _put(s, C + LEFT, w, i, left)
        _put(s, spans + RIGHT, w, i, _plus(s, right, _times(s, a_right, open_right)))
        _put(s, spans + LEFT, w, i, _plus(s, left, _times(s, a_left, open_left)))
    if s.soft:
        _put_left_parts(s, w, i)


@njit(**_JIT)
def _put_left_parts(s, w, i):
    """Multiply the spans to the right of width w by the scores of the gaps behind them."""
    out_of_line()
    for role in range(s.roles):
        x = _at(s, SPANS + 2 * role + RIGHT, w, i)
        left_part = _times(s, x, _vector(s, GAP_SCORES + role, i + w))
        _put(s, LEFT_PARTS + role, w, i, _keep(s, left_part, x, i, w))


@njit(**_INLINE)
def _scalar_times(s, x, y):
    return x * y if s.semiring == PLAIN else x + y


@njit(**_JIT)
def _list_roots(s, terms):
    """List s_inter(0,r) (x) t(1<-r) (x) t(r->n) for every r."""
    for r in range(1, s.n + 1):
        left, right = s.chart[_cell(s, SPANS + LEFT, r - 1, 1)], s.chart[_cell(s, SPANS + RIGHT, s.n - r, r)]
        terms[r - 1] = _scalar_times(s, s.chart[_value(s, INTER, r, 0)], _scalar_times(s, left, right))


@njit(**_JIT)
def _total(semiring, terms, count):
    """Return the semiring's sum of some terms."""
    best, total = NEG_INF, 0.0
    for k in range(count):
        best = max(best, terms[k])
        total += terms[k]
    if semiring == PLAIN:
        return total
    if semiring == MAX or best == NEG_INF:
        return best
    total = 0.0
    for k in range(count):
        total += exp(terms[k] - best)
    return best + log(total)


# --- outside


@njit(**_INLINE)
def _probability(s, x, outside):
    """Return the probabilities of spans, from their values and the outside values."""
    return product_of(x, outside) if s.semiring == PLAIN else _finite_exp(sum_of(x, outside))


@njit(**_JIT)
def _outside(s, sparse, live, total, terms, arcs, boundary):
    """Compute the outside values of `_inside`: the derivative of log Z by a score is the probability of its arc.

    If there is no room for arcs, only boundaries are stored.
    """
    zeros = splat(s.zero)
    _clear(s, OUTSIDE, PLANES)
    for k in range(s.m):
        s.chart[_row(s, BOUNDARY, k)] = 0.0
    for w in range(s.n):
        for i in range(1, s.n - w + 1, LANES):
            _put(s, OUTSIDE + RIGHT, w, i, zeros)
            _put(s, OUTSIDE + LEFT, w, i, zeros)
    _list_roots(s, terms)
    for r in range(1, s.n + 1):
        root = s.chart[_value(s, INTER, r, 0)]
        root = root / total if s.semiring == PLAIN else root - total
        if arcs.size > 0:
            arcs[INTER, r, 0] = terms[r - 1] / total if s.semiring == PLAIN else exp(terms[r - 1] - total)
        left, right = s.chart[_cell(s, SPANS + LEFT, r - 1, 1)], s.chart[_cell(s, SPANS + RIGHT, s.n - r, r)]
        s.chart[_cell(s, OUTSIDE + LEFT, r - 1, 1)] = _scalar_times(s, root, right)
        s.chart[_cell(s, OUTSIDE + RIGHT, s.n - r, r)] = _scalar_times(s, root, left)
    start = np.int64(1)  # of the part between two BREAKs
    for i in range(1, s.n + 1, LANES):
        widest, back = _widest(s, i), np.int64(0)
        for k in range(i, min(i + LANES, s.n + 1)):
            back = max(back, k - start)
            if s.chart[_row(s, EXTENT, k)] == 0.0:
                start = k + 1
        for w in range(s.n - i, -1, -1):
            if sparse and w > 0 and not live[i, w]:
                for plane in range(OUTSIDE, PLANES):
                    _put(s, plane, w, i, zeros)
            else:
                _share(s, i, w, widest, back, arcs)
    boundary[0] = 1.0
    for k in range(1, s.n):
        boundary[k] = s.chart[_row(s, BOUNDARY, k)]


@njit(**_JIT)
def _share(s, i, w, widest, back, arcs):
    """Compute the outside values of eight links and complete spans of each kind: those of `_combine`.

    The outside value of a span is the sum over the wider spans that it is part of: the outside value of the wider span
    (x) the value of its other part. In plain sums it has no meaning if the value of the span itself is 0.
    """
    out_of_line()
    zeros = splat(s.zero)
    t_right, t_left = _at(s, OUTSIDE + RIGHT, w, i), _at(s, OUTSIDE + LEFT, w, i)  # from ROOT
    for role in range(s.roles):
        spans, links, outside, splits = SPANS + 2 * role, LINKS + 2 * role, OUTSIDE + 2 * role, SPLITS + role
        left_parts = LEFT_PARTS + role if s.soft else spans
        after = all_after = s.n - i - w
        before = all_before = min(i + LANES - 2, s.n - 1 - w)
        if role == INTRA:
            if w > widest:
                _put(s, outside + RIGHT, w, i, zeros)
                _put(s, outside + LEFT, w, i, zeros)
                _put(s, splits, w, i, zeros)
                continue
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
        right = _plus(s, t_right, _plus(s, as_left_part, as_outer))
        left = _plus(s, t_left, _plus(s, as_right_part, as_inner))
        right = where(_at(s, spans + RIGHT, w, i), zeros, right, zeros)
        left = where(_at(s, spans + LEFT, w, i), zeros, left, zeros)
        if role == INTER:  # t = a (+) c
            t_right, t_left = right, left
        if role == INTER and not s.root_as_head:  # c(i->j) is part of wider ones by intra-word links
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
        if arcs.size == 0:
            continue
        spare = _row(s, SPARE, 0)
        store(s.chart, spare, _probability(s, link_right, to_right))
        store(s.chart, spare + LANES, _probability(s, link_left, to_left))
        for lane in range(min(LANES, s.n - w - i + 1)):
            arcs[role, i + w + lane, i + lane] = s.chart[spare + lane]
            arcs[role, i + lane, i + w + lane] = s.chart[spare + LANES + lane]


# --- trees


@njit(**_JIT)
def _pick(semiring, terms, count, draw):
    """Choose a term of a sum: the largest in the semiring MAX, otherwise in proportion to its value.

    `draw` is a random number from 0 to 1.
    """
    chosen = 0
    for k in range(1, count):
        if terms[k] > terms[chosen]:
            chosen = k
    if semiring == MAX:
        return chosen
    best, total = terms[chosen], 0.0
    for k in range(count):
        if semiring == LOG:
            terms[k] = exp(terms[k] - best)
        total += terms[k]
    left = draw * total
    for k in range(count):
        if terms[k] > 0.0:
            chosen = k
            left -= terms[k]
            if left < 0.0:
                break
    return chosen


@njit(**_INLINE)
def _span(s, plane, side, h, e):
    """Return the value of the span with head h and far end e in a plane of this side."""
    return s.chart[_cell(s, plane + side, abs(h - e), min(h, e))]


@njit(**_INLINE)
def _list_terms(s, links, spans, h, e, terms, start):
    """List the terms of SUM_k links(h->k) (x) spans(k->e)."""
    low, side = min(h + 1, e), RIGHT if e > h else LEFT
    for k in range(low, low + abs(h - e)):
        terms[start + k - low] = _scalar_times(s, _span(s, links, side, h, k), _span(s, spans, side, k, e))
    return start + abs(h - e)


@njit(**_JIT)
def _walk(s, stack, terms, draws, heads, is_intra):
    """Walk a filled chart from the top to one tree: the best one, or one drawn by its probability.

    Each arc takes three random numbers, and the root one.
    """
    t, a, inter_links, intra_links = SPANS, SPANS + 2 * INTRA, LINKS, LINKS + 2 * INTRA
    _list_roots(s, terms)
    root = 1 + _pick(s.semiring, terms, s.n, draws[0])
    heads[root] = 0
    is_intra[root] = False
    size, drawn = np.int64(0), np.int64(1)
    for e in (1, s.n):
        size = _stack(stack, size, t, root, e)
    while size > 0:
        size -= 1
        plane, h, e = stack[size, 0], stack[size, 1], stack[size, 2]
        if h == e:
            continue
        side = RIGHT if e > h else LEFT
        if plane == t:
            plane = C
            if s.roles == 2:
                terms[0], terms[1] = _span(s, a, side, h, e), _span(s, C, side, h, e)
                plane = a if _pick(s.semiring, terms, np.int64(2), draws[drawn]) == 0 else C
        links, spans = (intra_links, a) if plane == a else (inter_links, t)
        ways = _list_terms(s, links, spans, h, e, terms, np.int64(0))
        if plane == C and s.roles == 2 and not s.root_as_head:
            ways = _list_terms(s, intra_links, C, h, e, terms, ways)
        way = _pick(s.semiring, terms, ways, draws[drawn + 1])
        if way >= abs(h - e):
            links, spans = intra_links, C
        d = min(h + 1, e) + way % abs(h - e)
        heads[d] = h
        is_intra[d] = links == intra_links
        inner = a if links == intra_links else t
        left_parts = LEFT_PARTS + (INTRA if links == intra_links else INTER) if s.soft else inner
        i, j = min(h, d), max(h, d)
        for k in range(i, j):
            terms[k - i] = _scalar_times(
                s, _span(s, left_parts, RIGHT, i, k), _span(s, inner, LEFT, j, k + 1)
            )
        k = i + _pick(s.semiring, terms, j - i, draws[drawn + 2])
        drawn += 3
        size = _stack(stack, size, spans, d, e)
        size = _stack(stack, size, inner, i, k)
        size = _stack(stack, size, inner, j, k + 1)


@njit(**_JIT)
def _stack(stack, size, plane, h, e):
    stack[size, 0], stack[size, 1], stack[size, 2] = plane, h, e
    return size + 1


# --- sentences


@njit(**_JIT)
def _set_vectors(s, gaps, gap_scores):
    """Fill in what VECTORS says about the gaps of a sentence."""
    last = s.n
    for k in range(s.m - 1, -1, -1):
        if k <= s.n and gaps[k] == BREAK:
            last = k
        s.chart[_row(s, INSIDE, k)] = s.one if k <= s.n else s.zero
        s.chart[_row(s, OPEN, k)] = s.one if k <= s.n and gaps[k] != JOIN else s.zero
        s.chart[_row(s, EXTENT, k)] = last - k if k <= s.n else -1.0
    if s.soft:
        for role in range(s.roles):
            for k in range(s.m):
                score = gap_scores[role, k] if k <= s.n else 0.0
                s.chart[_row(s, GAP_SCORES + role, k)] = exp(score) if s.semiring == PLAIN else score


@njit(**_JIT)
def _run(task, order, batch, answers, chart, m, live, stack, terms, draws):
    """Run a task for the sentences in `order`: fill in log Z or the best score, and the other results of the task.

    All tasks share one function, so that the recursion is compiled once. `chart` is memory for the longest sentence,
    with all planes for MARGINALS and BOUNDARIES; the arguments after it are memory, too. `draws` are random numbers from 0
    to 1.
    """
    roles, trees = batch.scores.shape[1], answers.heads.shape[1]
    soft = batch.gap_scores.size > 0
    for b in order:
        n = batch.lengths[b]
        sparse = batch.allowed[b] * FEW < n * n * roles
        fixed = (n, roles, batch.root_as_head or roles == 1, soft, m, chart)
        semiring = MAX if task in (BEST, CHART) else PLAIN
        divided, may_scale, is_new = 0.0, True, True
        while True:
            zero, one = (0.0, 1.0) if semiring == PLAIN else (NEG_INF, 0.0)
            s = Workspace(semiring, zero, one, *fixed)
            if is_new:
                _copy_scores(s, batch.scores[b])
                _set_vectors(s, batch.gaps[b], batch.gap_scores[b])
                if semiring == PLAIN:
                    divided = _weigh(s)
                    may_scale = s.chart[_row(s, MET, LOST)] == NEG_INF
                if sparse:
                    _find_live(s, live[0], live[1])
            total = _inside(s, sparse, live[1], terms)
            if semiring != PLAIN or _trusted(s, total):
                break
            is_new = not (may_scale and 0.0 < total < 1.0)
            if is_new:
                semiring = LOG
            else:
                _scale(s, -log(total) / n)
                divided += log(total)
                may_scale = False
        value = log(total) + divided if semiring == PLAIN else total
        answers.value[b] = value
        if value > NEG_INF and task in OUTSIDE_TASKS:
            _outside(s, sparse, live[1], total, terms, answers.arcs[b], answers.boundary[b])
        elif value > NEG_INF and task in (BEST, SAMPLE):
            for tree in range(trees):
                heads, is_intra = answers.heads[b, tree], answers.intra[b, tree]
                _walk(s, stack, terms, draws[tree], heads, is_intra)


# --- entries, for C and therefore for `zishu.chart._compiled`

_number, _flags = types.int64, types.CPointer(types.boolean)
_floats, _integers, _bytes = (types.CPointer(kind) for kind in (types.float64, types.int64, types.int8))


def prepare(scores, bits, lengths, offset, allowed, count, roles, width):
    """Call `_prepare`; `bits` is the same address as `scores`."""
    shape, sizes = (count, roles, width, width), (count,)
    _prepare(
        carray(scores, shape), carray(bits, shape), carray(lengths, sizes), carray(offset, (count, width)),
        carray(allowed, sizes),
    )  # fmt: skip


def run(
    order, scores, gaps, lengths, gap_scores, allowed, value, arcs, boundary, heads, intra, chart, live, stack, terms,
    draws, task, orders, count, roles, width, gap_width, arcs_width, trees, m, root_as_head,
):  # fmt: skip
    """Call `_run`; an array that a task does not read or fill may be shorter than it seems here."""
    sizes = (count,)
    batch = Batch(
        carray(scores, (count, roles, width, width)), carray(gaps, (count, width)), carray(lengths, sizes),
        carray(gap_scores, (count, 2, gap_width)), carray(allowed, sizes), root_as_head != 0,
    )  # fmt: skip
    answers = Answers(
        carray(value, sizes), carray(arcs, (count, roles, arcs_width, arcs_width)), carray(boundary, (count, width)),
        carray(heads, (count, trees, width)), carray(intra, (count, trees, width)),
    )  # fmt: skip
    _run(
        task, carray(order, (orders,)), batch, answers, carray(chart, (PLANES * m * m,)), m, carray(live, (2, m, m)),
        carray(stack, (3 * m, 3)), carray(terms, (2 * m,)), carray(draws, (trees, 3 * m)),
    )  # fmt: skip


ENTRIES: dict[Any, Any] = {
    prepare: types.void(_floats, _integers, _integers, _floats, _integers, _number, _number, _number),
    run: types.void(
        _integers, _floats, _bytes, _integers, _floats, _integers, _floats, _floats, _floats, _integers, _flags, _floats,
        _flags, _integers, _floats, _floats, *[_number] * 10,
    ),
}  # fmt: skip


def compile_kernels() -> bytes:
    """Return machine code for this processor: an object file with the entries.

    Numba compiles functions one by one and keeps each for other callers. Here nobody else calls them, so all of them are
    optimised once, together.
    """
    whole = binding.parse_assembly("")
    for function, signature in ENTRIES.items():
        compiled = cfunc(signature, fastmath=FASTMATH, error_model="numpy")(function)
        module = binding.parse_assembly(compiled.inspect_llvm())
        module.get_function(compiled.native_name).name = function.__name__
        whole.triple, whole.data_layout = module.triple, module.data_layout
        whole.link_in(module)
    names = {function.__name__ for function in ENTRIES}
    for value in (*whole.functions, *whole.global_variables):
        if not value.is_declaration and value.name not in names:
            value.linkage = "internal"
    machine = target_machine()
    builder = binding.create_pass_builder(machine, binding.create_pipeline_tuning_options())
    builder.getModulePassManager().run(whole, builder)
    # No function raises an exception. With this known, nothing of Numba or Python is left.
    passes = binding.create_new_module_pass_manager()
    passes.add_ipsccp_pass()
    passes.add_simplify_cfg_pass()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(whole, builder)
    unknown = {value.name for value in whole.functions if value.is_declaration} - {"exp", "log"}
    unknown = {name for name in unknown if not name.startswith("llvm.")}
    if unknown:
        raise RuntimeError(f"the kernels need {', '.join(sorted(unknown))}")
    compiled_object: bytes = machine.emit_object(whole)
    return compiled_object
