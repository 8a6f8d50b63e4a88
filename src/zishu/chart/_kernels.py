"""Run the typed Eisner chart for each sentence: inside, outside, and the walk down to a tree.

All code with Numba is in this one file, because Numba's cache on disk does not notice changes in other files. The two
entries, `prepare` and `run`, get arrays that the caller has allocated; only the scores are checked here. The recursion is
written once, in `_inside`, for all semirings and for both dense and sparse charts:

    Ihat(i->j) = s_intra(i,j) (x) SUM_k a(i->k) (x) a(k+1<-j)          gap k not BREAK
    I   (i->j) = s_inter(i,j) (x) SUM_k t(i->k) (x) t(k+1<-j)          gap k not JOIN
    a   (i->j) = SUM_k Ihat(i->k) (x) a(k->j)
    c   (i->j) = SUM_k I(i->k) (x) t(k->j)   [ (+) SUM_k Ihat(i->k) (x) c(k->j)  when root-as-head is off ]
    t          = a (+) c

Departures from the textbook (docs/algorithm.md explains them):

1. A span is addressed by its head h and its far end e, on whichever side, so the mirror images are one formula:
   links sum over two rows, `X[i, k] X[j, k+1]`; complete spans sum over a row of links and a row of the transposed
   complete spans, `L[h, k] X^T[e, k]`. All sums run over contiguous memory.
2. The rules about gaps become bounds instead of masks. No intra span crosses a BREAK; `c` and `t` are kept only
   where the gap beyond their far end is not JOIN (no link could use them otherwise); what is left is the single
   adjacent pair, which has its own test.
3. Sums over trees use the semiring PLAIN: weights instead of scores, so no logarithms. `_trusted` tells whether that
   was exact. If not, the weights are scaled again, so that the sum over all trees is about 1. If that does not help,
   the sentence uses the semiring LOG, which is always exact and many times slower.
4. Where few arcs are allowed (the forest of a gold tree) a complete span sums over a list of its head's dependents,
   and empty spans are skipped.
5. A score of a gap is a factor of the term of a link that splits there. It is multiplied into the left part, which is
   kept in a plane of its own. Without such scores these planes are not touched.

Cost: O(n^3) time with six vector products per span, O(n^2) memory.
"""

from __future__ import annotations

from math import exp, log
from typing import Any, NamedTuple

import numpy as np
from numba import njit, types
from numba.extending import intrinsic

from zishu.chart._cache import keep_on_disk
from zishu.gaps import BREAK, JOIN

# Reassociation lets sums vectorise. Infinities are values here, so "ninf" must stay out.
FASTMATH = {"reassoc", "contract", "nsz", "nnan"}
# For functions that only this file calls: they need no wrapper for Python. "_nrt" turns off Numba's reference counting;
# they allocate nothing and return no arrays, so they do not need it. It has no public name, but without it charts take
# two to three times as long, even if everything is inlined.
_JIT: dict[str, Any] = {
    "fastmath": FASTMATH,
    "error_model": "numpy",
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
    "_nrt": False,
}

# For the small ones among them: inlined, so that a call costs nothing.
_INLINE = {**_JIT, "forceinline": True}

NEG_INF = -np.inf
# The bits of both infinities as integers. A float64 whose bits lie beyond these is NaN.
INF_BITS, NEG_INF_BITS = np.array([np.inf, -np.inf]).view(np.int64)

# Constants that are passed to functions are NumPy integers. Numba would compile the functions again for Python integers.

# Tasks of `run`.
PARTITION, MARGINALS, BEST, SAMPLE, CHART = range(5)

# Semirings: (+, x) on weights; (logsumexp, +) and (max, +) on scores.
PLAIN, LOG, MAX = np.arange(3)

# Roles of arcs, in arrays of scores and probabilities.
INTER, INTRA = np.arange(2)

# Planes of a chart: complete spans (intra-word a, either t, inter-word c) by [head, end]; links by [head, dependent];
# then the complete spans again, transposed; then those that can be the left part of a link, times the score of the gap
# behind them. The outside values of plane p are in plane OUTSIDE + p.
A, T, C, INTRA_LINK, INTER_LINK, A_T, T_T, C_T, A_LEFT, T_LEFT = np.arange(10)
PLANES = OUTSIDE = np.int64(10)

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

# Terms this far below the largest one do not change a float64 sum.
NEGLIGIBLE = 50.0

# Lists for each character of a sparse chart: its dependents by kind of link and side, nearest first (see
# `_dependents`); the far ends of filled spans to its left; its possible heads. The last entry is the length.
LEFT_ENDS, HEADS, LISTS = np.arange(4, 7)
LENGTH = -1


class Batch(NamedTuple):
    """Hold the sentences of a batch, as prepared by `prepare`."""

    scores: Any  # batch roles dependents heads: float64; inter-word first, intra-word second if the chart is typed
    gaps: Any  # batch N+1: int8; BREAK at 0 and from the length on
    lengths: Any  # batch: int64
    gap_scores: (
        Any  # batch roles N+1: what a gap that an arc of this role owns adds to a tree, at most 0; or empty
    )
    allowed: Any  # batch: int64, how many arcs are not forbidden
    root_as_head: bool


class Answers(NamedTuple):
    """Hold the results of `run`; arrays that a task does not fill may be empty."""

    value: Any  # batch: log Z, or the best score
    arcs: Any  # batch roles dependents heads: probabilities
    boundary: Any  # batch N+1: probabilities
    heads: Any  # batch trees N+1
    intra: Any  # batch trees N+1


class Workspace(NamedTuple):
    """Hold one sentence: its scores or weights, its chart, and working memory."""

    semiring: Any
    values: Any  # roles dependents heads: scores; weights in the semiring PLAIN
    sparse: bool  # few arcs are allowed
    n: int
    root_as_head: bool
    gaps: Any
    soft: bool  # whether gaps have scores
    gap_values: Any  # roles m: these scores, or their weights in the semiring PLAIN
    reach: Any  # reach[i]: the last character before the next BREAK
    m: int
    chart: Any  # planes m m
    flat: Any  # the same memory as one axis, which is faster to index
    lists: Any  # LISTS m m+1
    live: Any  # m m: spans that may have a value, in a sparse chart
    log_sums: Any  # log_sums[d]: the log of the product of the sums of weights of the dependents 1..d
    met: Any  # LARGEST, NARROWEST, LOST


def _entry(function):
    """Compile a function that Python calls, and cache it on disk."""
    return keep_on_disk(njit(function, nogil=True, fastmath=FASTMATH, error_model="numpy"))


# --- scores and weights


@_entry
def prepare(scores, bits, lengths, offset, allowed):
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
def _clear(planes, first, last, n, value):
    for p in range(first, last):
        for i in range(n + 1):
            for j in range(n + 1):
                planes[p, i, j] = value


@njit(**_JIT)
def _weigh(s, weights):
    """Turn scores into weights for plain sums; return the logarithm of what trees were divided by.

    A dependent's weights are scaled to sum to 1, or to more if its head is wide open: trees are few among all
    choices of heads, and the sum over them should not vanish.
    """
    divided = 0.0
    s.met[LARGEST], s.met[NARROWEST], s.met[LOST] = 0.0, np.inf, NEG_INF
    s.log_sums[0] = 0.0
    _clear(weights, INTER, weights.shape[0], s.n, 0.0)
    for d in range(1, s.n + 1):
        total = mean = lowest = 0.0
        heads = s.lists[HEADS, d, LENGTH] if s.sparse else s.n + 1
        for role in range(s.values.shape[0]):
            for m in range(heads):
                h = s.lists[HEADS, d, m] if s.sparse else m
                score = s.values[role, d, h]
                if score > LOWEST:
                    weight = exp(score)
                    weights[role, d, h] = weight
                    total += weight
                    mean += weight * score
                    lowest = min(lowest, score)
                elif score > NEG_INF:
                    s.met[LOST] = 0.0
        s.log_sums[d] = s.log_sums[d - 1]
        if total > 0.0:
            entropy = log(total) - mean / total
            spread = max(0.0, entropy - log(BRANCHING))
            factor = exp(spread) / total
            if exp(lowest) * factor < SAFE:
                s.met[NARROWEST] = 0.0
            for role in range(s.values.shape[0]):
                for m in range(heads):
                    weights[role, d, s.lists[HEADS, d, m] if s.sparse else m] *= factor
            divided += log(total) - spread
            s.log_sums[d] += spread
    return divided


@njit(**_JIT)
def _scale(s, log_factor):
    """Multiply every weight by exp(log_factor), and reset the record of losses."""
    factor = exp(log_factor)
    for role in range(s.values.shape[0]):
        for d in range(1, s.n + 1):
            for h in range(s.n + 1):
                s.values[role, d, h] *= factor
    for d in range(1, s.n + 1):
        s.log_sums[d] += d * log_factor
    s.met[LARGEST], s.met[LOST] = 0.0, NEG_INF


@njit(**_INLINE)
def _keep(s, x, h, e):
    """Return the value to store for the span from h to e. Plain sums drop values below TINY and record the loss."""
    if s.semiring != PLAIN or SAFE <= x <= HUGE:
        return x
    if x > HUGE:
        s.met[LARGEST] = max(s.met[LARGEST], x)
        return x
    if x > 0.0:
        s.met[NARROWEST] = min(s.met[NARROWEST], abs(h - e))
    if x >= TINY:
        return x
    if abs(h - e) >= s.met[NARROWEST]:
        s.met[LOST] = max(s.met[LOST], s.log_sums[min(h, e)] - s.log_sums[max(h, e) - 1])
    return 0.0


@njit(**_JIT)
def _trusted(s, total):
    """Tell whether the losses of plain sums are negligible: Z > B exp(LOST) TINY exp(MARGIN), see algorithm.md."""
    if not TINY <= total < np.inf or s.met[LARGEST] > HUGE:
        return False
    return log(total) > s.log_sums[s.n] + s.met[LOST] + log(TINY) + MARGIN


# --- semirings


@njit(**_JIT)
def _zero(semiring):
    return 0.0 if semiring == PLAIN else NEG_INF


@njit(**_JIT)
def _times(semiring, x, y):
    return x * y if semiring == PLAIN else x + y


@njit(**_JIT)
def _add(semiring, x, y):
    if semiring == PLAIN:
        return x + y
    high, low = max(x, y), min(x, y)
    if semiring == MAX or low == NEG_INF or low < high - NEGLIGIBLE:
        return high
    return high + log(1.0 + exp(low - high))


@intrinsic
def _larger(_context, _x, _y):
    """Return the larger of two numbers. Numba's own `max` keeps a loop over it from using vector instructions."""

    def generate(_target, builder, _signature, numbers):
        flags = tuple(FASTMATH)
        return builder.select(builder.fcmp_ordered(">", *numbers, flags=flags), *numbers, flags=flags)

    return types.float64(types.float64, types.float64), generate


@njit(**_JIT)
def _at(m, plane, row, column):
    """Return where chart[plane, row, column] is in the flat chart; planes have m rows and m columns."""
    return (plane * m + row) * m + column


@njit(**_JIT)
def _sum(semiring, flat, x, y, count):
    """Return SUM_k flat[x + k] (x) flat[y + k] for 0 <= k < count. Most of the time is spent here."""
    # Unsigned, because an index that may be negative costs a test, and with it the vector instructions.
    x, y, count = np.uintp(x), np.uintp(y), np.uintp(count)
    if semiring == PLAIN:
        total = 0.0
        for k in range(count):
            total += flat[x + k] * flat[y + k]
        return total
    best = NEG_INF
    for k in range(count):
        best = _larger(best, flat[x + k] + flat[y + k])  # type: ignore[call-arg]  # the first is the context
    if semiring == MAX or best == NEG_INF:
        return best
    total = 0.0
    for k in range(count):
        term = flat[x + k] + flat[y + k] - best
        if term > -NEGLIGIBLE:
            total += exp(term)
    return best + log(total)


# --- few arcs


@njit(**_JIT)
def _dependents(links, h, e):
    """Return the number of the list of h's dependents by these links on the side of e."""
    return 2 * (links - INTRA_LINK) + (1 if e > h else 0)


@njit(**_JIT)
def _append(lists, which, character, item):
    lists[which, character, lists[which, character, LENGTH]] = item
    lists[which, character, LENGTH] += 1


@njit(**_JIT)
def _list_arcs(s):
    """List the possible heads of every character in any role, and mark the spans with an arc between their ends."""
    for d in range(1, s.n + 1):
        s.lists[HEADS, d, LENGTH] = 0
        for i in range(1, d):
            s.live[d, i] = False
    for d in range(1, s.n + 1):
        for h in range(s.n + 1):
            if max(s.values[INTER, d, h], s.values[-1, d, h]) > NEG_INF:
                _append(s.lists, HEADS, d, h)
                s.live[max(d, h), min(d, h)] = True


@njit(**_INLINE)
def _mark(s, i, j):
    """Mark the wider spans that may have a value because the span from i to j has one."""
    zero = _zero(s.semiring)
    if max(s.chart[A, i, j], s.chart[T, i, j]) > zero:
        for m in range(s.lists[HEADS, i, LENGTH]):
            if s.lists[HEADS, i, m] < i:
                s.live[j, s.lists[HEADS, i, m]] = True
    if max(s.chart[INTRA_LINK, j, i], s.chart[INTER_LINK, j, i]) > zero:
        for m in range(s.lists[LEFT_ENDS, i, LENGTH]):
            s.live[j, s.lists[LEFT_ENDS, i, m]] = True
    if max(s.chart[A, j, i], s.chart[T, j, i]) > zero:
        _append(s.lists, LEFT_ENDS, j, i)


@njit(**_INLINE)
def _sum_listed(s, links, spans, h, e):
    """Return SUM_k links(h->k) (x) spans(k->e) over the dependents of h so far, of which none lies beyond e."""
    total = _zero(s.semiring)
    which = _dependents(links, h, e)
    for m in range(s.lists[which, h, LENGTH]):
        k = s.lists[which, h, m]
        total = _add(s.semiring, total, _times(s.semiring, s.chart[links, h, k], s.chart[spans, k, e]))
    return total


# --- inside


@njit(**_INLINE)
def _put_link(s, links, h, d, score, parts):
    if score > _zero(s.semiring):
        s.chart[links, h, d] = _keep(s, _times(s.semiring, score, parts), h, d)
        if s.sparse:
            _append(s.lists, _dependents(links, h, d), h, d)


@njit(**_INLINE)
def _left(s, spans):
    """Return the plane of the spans that are the left part of a link."""
    return spans + A_LEFT if s.soft else spans


@njit(**_INLINE)
def _put_links(s, role, links, spans, i, j):
    """Store links(i->j) = s_role(i,j) (x) SUM_k spans(i->k) (x) spans(k+1<-j), and its mirror image."""
    right, left = s.values[role, j, i], s.values[role, i, j]
    if max(right, left) > _zero(s.semiring):
        parts = _sum(s.semiring, s.flat, _at(s.m, _left(s, spans), i, i), _at(s.m, spans, j, i + 1), j - i)
        _put_link(s, links, i, j, right, parts)
        _put_link(s, links, j, i, left, parts)


@njit(**_INLINE)
def _sum_complete(s, links, spans, h, e):
    """Return SUM_k links(h->k) (x) spans(k->e), with k from beside h to e."""
    if s.sparse:
        return _sum_listed(s, links, spans, h, e)
    lo = min(h + 1, e)
    return _sum(s.semiring, s.flat, _at(s.m, links, h, lo), _at(s.m, spans + A_T, e, lo), abs(h - e))


@njit(**_INLINE)
def _put_complete(s, spans, h, e, x):
    s.chart[spans, h, e] = x
    if s.soft and h <= e and spans != C:
        gap = s.gap_values[INTRA if spans == A else INTER, e]
        s.chart[spans + A_LEFT, h, e] = _keep(s, _times(s.semiring, x, gap), h, e)
    # Lists are summed without the transposed planes, and no sum needs c with root-as-head.
    if not (s.sparse or (spans == C and s.root_as_head)):
        s.chart[spans + A_T, e, h] = x


@njit(**_JIT)
def _inside(s):
    """Fill the chart and return the sum over all trees."""
    zero, one = _zero(s.semiring), 1.0 if s.semiring == PLAIN else 0.0
    # a(i,i) = t(i,i) = 1, c(i,i) = 0
    _clear(s.chart, A, A_T if s.sparse else A_LEFT, s.n, zero)
    if s.soft:
        _clear(s.chart, A_LEFT, PLANES, s.n, zero)
    for i in range(1, s.n + 1):
        _put_complete(s, A, i, i, one)
        _put_complete(s, T, i, i, one)
        for which in range(HEADS):
            s.lists[which, i, LENGTH] = 0
    for j in range(2, s.n + 1):
        for i in range(j - 1, 0, -1):
            if s.sparse and not s.live[j, i]:
                continue
            # Ihat(i->j) = s_intra(i,j) (x) SUM_k a(i->k) (x) a(k+1<-j)          gap k not BREAK
            may_be_intra = s.values.shape[0] == 2 and j <= s.reach[i]
            if may_be_intra:
                _put_links(s, INTRA, INTRA_LINK, A, i, j)
            # I(i->j) = s_inter(i,j) (x) SUM_k t(i->k) (x) t(k+1<-j)             gap k not JOIN
            if j > i + 1 or s.gaps[i] != JOIN:
                _put_links(s, INTER, INTER_LINK, T, i, j)
            for side in range(2):
                h, e, gap_beyond = (i, j, s.gaps[j]) if side == 1 else (j, i, s.gaps[i - 1])
                # a(h->e) = SUM_k Ihat(h->k) (x) a(k->e)
                a = zero
                if may_be_intra:
                    a = _keep(s, _sum_complete(s, INTRA_LINK, A, h, e), h, e)
                    _put_complete(s, A, h, e, a)
                # c(h->e) = SUM_k I(h->k) (x) t(k->e)  [ (+) SUM_k Ihat(h->k) (x) c(k->e) ];  t = a (+) c
                if gap_beyond != JOIN:
                    c = _sum_complete(s, INTER_LINK, T, h, e)
                    if not s.root_as_head:
                        c = _add(s.semiring, c, _sum_complete(s, INTRA_LINK, C, h, e))
                    c = _keep(s, c, h, e)
                    _put_complete(s, C, h, e, c)
                    _put_complete(s, T, h, e, _add(s.semiring, a, c))
            if s.sparse:
                _mark(s, i, j)
    # Z = SUM_r s_inter(0,r) (x) t(1<-r) (x) t(r->n): ROOT has one child and owns gap 0
    total = zero
    for r in range(1, s.n + 1):
        total = _add(s.semiring, total, _rooted(s, r))
    return total


@njit(**_INLINE)
def _rooted(s, r):
    """Return s_inter(0,r) (x) t(1<-r) (x) t(r->n)."""
    return _times(s.semiring, s.values[INTER, r, 0], _times(s.semiring, s.chart[T, r, 1], s.chart[T, r, s.n]))


# --- outside


@njit(**_JIT)
def _push(semiring, flat, x, y, count, weight, total):
    """Share `weight` among the terms of the sum over two rows at x and y, whose value was `total`.

    A share is added to the outside plane of its term, in the second half of the chart. In plain sums it is a derivative
    with respect to the value; otherwise with respect to the logarithm of the value, which is a probability.
    """
    x, y, count, outside = np.uintp(x), np.uintp(y), np.uintp(count), np.uintp(flat.size // 2)
    if semiring == PLAIN:
        for k in range(count):
            flat[x + outside + k] += weight * flat[y + k]
        for k in range(count):
            flat[y + outside + k] += weight * flat[x + k]
        return
    for k in range(count):
        term = flat[x + k] + flat[y + k]
        if term > NEG_INF:
            part = weight * exp(term - total)
            flat[x + outside + k] += part
            flat[y + outside + k] += part


@njit(**_INLINE)
def _push_listed(s, links, spans, h, e, weight, total):
    """Share `weight` among the terms of a complete span's sum over a list."""
    which = _dependents(links, h, e)
    for m in range(s.lists[which, h, LENGTH]):
        k = s.lists[which, h, m]
        if abs(h - k) > abs(h - e):
            break  # nearer dependents come first; the list goes on beyond this span
        x, y = s.chart[links, h, k], s.chart[spans, k, e]
        if s.semiring == LOG:
            x = y = exp(x + y - total)
        s.chart[OUTSIDE + links, h, k] += weight * y
        s.chart[OUTSIDE + spans + A_T, e, k] += weight * x


@njit(**_INLINE)
def _push_complete(s, links, spans, h, e, weight, total):
    """Share `weight` among the terms of SUM_k links(h->k) (x) spans(k->e)."""
    if s.sparse:
        _push_listed(s, links, spans, h, e, weight, total)
    else:
        lo = min(h + 1, e)
        x, y = _at(s.m, links, h, lo), _at(s.m, spans + A_T, e, lo)
        _push(s.semiring, s.flat, x, y, abs(h - e), weight, total)


@njit(**_INLINE)
def _push_links(s, role, links, spans, i, j, arcs, boundary):
    """Read off the probabilities of the arcs between i and j, and share them among the splits of their links."""
    right, left = s.chart[links, i, j], s.chart[links, j, i]
    to_right, to_left = s.chart[OUTSIDE + links, i, j], s.chart[OUTSIDE + links, j, i]
    if s.semiring == PLAIN:
        to_right = to_right if right > 0.0 else 0.0
        to_left = to_left if left > 0.0 else 0.0
        arcs[role, j, i] = to_right * right
        arcs[role, i, j] = to_left * left
        weight, parts = to_right * s.values[role, j, i] + to_left * s.values[role, i, j], 0.0
    else:
        arcs[role, j, i] = to_right
        arcs[role, i, j] = to_left
        weight = to_right + to_left
        parts = right - s.values[role, j, i] if to_right > 0.0 else left - s.values[role, i, j]
    if weight > 0.0:
        x, y = _at(s.m, _left(s, spans), i, i), _at(s.m, spans, j, i + 1)
        _push(s.semiring, s.flat, x, y, j - i, weight, parts)
        if role == INTER:  # the split k = i; `_outside` counts the others
            split = _times(s.semiring, s.flat[x], s.flat[y])
            boundary[i] += weight * (split if s.semiring == PLAIN else exp(split - parts))


@njit(**_INLINE)
def _share(s, spans, h, e):
    """Return the outside value of a complete span. In plain sums it has no meaning if the span's value is 0."""
    if s.semiring == PLAIN and s.chart[spans, h, e] == 0.0:
        return 0.0
    share = s.chart[OUTSIDE + spans, h, e] + s.chart[OUTSIDE + spans + A_T, e, h]
    if s.soft and h < e and spans != C and s.chart[spans + A_LEFT, h, e] > _zero(s.semiring):
        left = s.chart[OUTSIDE + spans + A_LEFT, h, e]
        share += left * s.gap_values[INTRA if spans == A else INTER, e] if s.semiring == PLAIN else left
    return share


@njit(**_JIT)
def _outside(s, total, arcs, boundary):
    """Walk `_inside` backwards: the derivative of log Z with respect to a score is the probability of its arc."""
    plain = s.semiring == PLAIN
    _clear(s.chart, OUTSIDE, OUTSIDE + PLANES, s.n, 0.0)
    for r in range(1, s.n + 1):
        score, left, right = s.values[INTER, r, 0], s.chart[T, r, 1], s.chart[T, r, s.n]
        arcs[INTER, r, 0] = _rooted(s, r) / total if plain else exp(_rooted(s, r) - total)
        s.chart[OUTSIDE + T, r, 1] += score * right / total if plain else arcs[INTER, r, 0]
        s.chart[OUTSIDE + T, r, s.n] += score * left / total if plain else arcs[INTER, r, 0]
    for j in range(s.n, 1, -1):
        for i in range(1, j):
            if s.sparse and not s.live[j, i]:
                continue
            for side in range(2):
                h, e = (i, j) if side == 1 else (j, i)
                a, c, t = s.chart[A, h, e], s.chart[C, h, e], s.chart[T, h, e]
                from_a, from_c, from_t = _share(s, A, h, e), _share(s, C, h, e), _share(s, T, h, e)
                if from_t > 0.0 and plain:
                    from_a += from_t if a > 0.0 else 0.0
                    from_c += from_t if c > 0.0 else 0.0
                elif from_t > 0.0:
                    from_a += from_t * exp(a - t)
                    from_c += from_t * exp(c - t)
                if from_a > 0.0:
                    _push_complete(s, INTRA_LINK, A, h, e, from_a, a)
                if from_c > 0.0:
                    _push_complete(s, INTER_LINK, T, h, e, from_c, c)
                    if not s.root_as_head:
                        _push_complete(s, INTRA_LINK, C, h, e, from_c, c)
            # Gap j is a boundary if an inter-word link owns it; the left part of that link is t(i->j). Only such links
            # add to its outside plane, because complete spans add to the transpose. For i = j see `_push_links`.
            left = _left(s, T)
            used = s.chart[OUTSIDE + left, i, j]
            if plain:
                used = used * s.chart[left, i, j] if s.chart[left, i, j] > 0.0 else 0.0
            boundary[j] += used
            _push_links(s, INTER, INTER_LINK, T, i, j, arcs, boundary)
            if s.values.shape[0] == 2:
                _push_links(s, INTRA, INTRA_LINK, A, i, j, arcs, boundary)
    boundary[0] = 1.0
    boundary[s.n] = 0.0


# --- trees


@njit(**_JIT)
def _pick(semiring, terms, count):
    """Choose a term of a sum: the largest in the semiring MAX, otherwise at random in proportion to its value."""
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
    left = np.random.random() * total  # noqa: NPY002 (Numba's generator, one for each thread)
    for k in range(count):
        if terms[k] > 0.0:
            chosen = k
            left -= terms[k]
            if left < 0.0:
                break
    return chosen


@njit(**_INLINE)
def _list_terms(s, links, spans, h, e, terms, start):
    """List the terms of SUM_k links(h->k) (x) spans(k->e), by columns: sparse charts have no transposed planes."""
    lo = min(h + 1, e)
    for k in range(lo, lo + abs(h - e)):
        terms[start + k - lo] = _times(s.semiring, s.chart[links, h, k], s.chart[spans, k, e])
    return start + abs(h - e)


@njit(**_JIT)
def _walk(s, stack, terms, heads, is_intra):
    """Walk a filled chart from the top to one tree: the best one, or one drawn by its probability."""
    for r in range(1, s.n + 1):
        terms[r - 1] = _rooted(s, r)
    root = 1 + _pick(s.semiring, terms, s.n)
    heads[root] = 0
    is_intra[root] = False
    size = np.int64(0)
    for e in (1, s.n):
        size = _stack(stack, size, T, root, e)
    while size > 0:
        size -= 1
        plane, h, e = stack[size, 0], stack[size, 1], stack[size, 2]
        if h == e:
            continue
        if plane == T:
            terms[0], terms[1] = s.chart[A, h, e], s.chart[C, h, e]
            plane = A if _pick(s.semiring, terms, np.int64(2)) == 0 else C
        links, spans = (INTRA_LINK, A) if plane == A else (INTER_LINK, T)
        ways = _list_terms(s, links, spans, h, e, terms, np.int64(0))
        if plane == C and not s.root_as_head:
            ways = _list_terms(s, INTRA_LINK, C, h, e, terms, ways)
        way = _pick(s.semiring, terms, ways)
        if way >= abs(h - e):
            links, spans = INTRA_LINK, C
        d = min(h + 1, e) + way % abs(h - e)
        heads[d] = h
        is_intra[d] = links == INTRA_LINK
        inner = A if links == INTRA_LINK else T
        i, j = min(h, d), max(h, d)
        left = _left(s, inner)
        for k in range(i, j):
            terms[k - i] = _times(s.semiring, s.chart[left, i, k], s.chart[inner, j, k + 1])
        k = i + _pick(s.semiring, terms, j - i)
        size = _stack(stack, size, spans, d, e)
        size = _stack(stack, size, inner, i, k)
        size = _stack(stack, size, inner, j, k + 1)


@njit(**_JIT)
def _stack(stack, size, plane, h, e):
    stack[size, 0], stack[size, 1], stack[size, 2] = plane, h, e
    return size + 1


# --- sentences


@njit(**_JIT)
def _find_reach(gaps, n, reach):
    """Find the last character before the next BREAK, for every character."""
    last = n
    for i in range(n, 0, -1):
        if gaps[i] == BREAK:
            last = i
        reach[i] = last


@_entry
def run(task, order, batch, answers, chart, seed):
    """Run a task for the sentences in `order`: fill in log Z or the best score, and the other results of the task.

    All tasks share one function, so that the recursion is compiled once. `chart` is memory for the longest sentence,
    with twice the planes for MARGINALS.
    """
    scores = batch.scores
    m, roles = chart.shape[1], scores.shape[1]
    flat = chart.reshape(-1)
    weights, gap_weights = np.empty((roles, m, m)), np.empty((2, m))
    soft = batch.gap_scores.size > 0
    lists = np.empty((LISTS, m, m + 1), dtype=np.int32)
    live = np.empty((m, m), dtype=np.bool_)
    reach = np.empty(m, dtype=np.int64)
    stack, terms = np.empty((3 * m, 3), dtype=np.int64), np.empty(2 * m)
    log_sums, met = np.empty(m), np.empty(3)
    for b in order:
        n, gaps = batch.lengths[b], batch.gaps[b]
        _find_reach(gaps, n, reach)
        sparse = task != CHART and batch.allowed[b] * FEW < n * n * roles
        rest = (reach, m, chart, flat, lists, live, log_sums, met)
        semiring, values, divided, may_scale = LOG, scores[b], 0.0, False
        gap_values = batch.gap_scores[b]
        if task in (BEST, CHART):
            semiring = MAX
        s = Workspace(semiring, values, sparse, n, batch.root_as_head, gaps, soft, gap_values, *rest)
        if sparse:
            _list_arcs(s)
        if semiring == LOG:  # first try without logarithms
            semiring, values, divided = PLAIN, weights, _weigh(s, weights)
            may_scale = met[LOST] == NEG_INF
            if soft:
                gap_values = gap_weights
                for role in range(2):
                    for k in range(1, n + 1):
                        gap_weights[role, k] = exp(batch.gap_scores[b, role, k])
        while True:
            s = Workspace(semiring, values, sparse, n, batch.root_as_head, gaps, soft, gap_values, *rest)
            total = _inside(s)
            if semiring != PLAIN or _trusted(s, total):
                break
            if may_scale and 0.0 < total < 1.0:
                _scale(s, -log(total) / n)
                divided += log(total)
                may_scale = False
            else:
                semiring, values, gap_values = LOG, scores[b], batch.gap_scores[b]
        value = log(total) + divided if semiring == PLAIN else total
        answers.value[b] = value
        if value > NEG_INF and task == MARGINALS:
            _outside(s, total, answers.arcs[b], answers.boundary[b])
        elif value > NEG_INF and task in (BEST, SAMPLE):
            if task == SAMPLE:
                np.random.seed(seed)  # noqa: NPY002
            for tree in range(answers.heads.shape[1]):
                _walk(s, stack, terms, answers.heads[b, tree], answers.intra[b, tree])
