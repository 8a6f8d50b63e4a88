"""Run the typed Eisner chart of one sentence after another: inside, outside, and the walk down to a tree.

This is the only file with Numba. The two entries, `prepare` and `run`, get arrays that the caller made; besides the
scores themselves nothing is checked here. The recursion is written once, in `_inside`, for all semirings, and for many
arcs and few:

    Ihat(i->j) = s_intra(i,j) (x) SUM_k a(i->k) (x) a(k+1<-j)          gap k not BREAK
    I   (i->j) = s_inter(i,j) (x) SUM_k t(i->k) (x) t(k+1<-j)          gap k not JOIN
    a   (i->j) = SUM_k Ihat(i->k) (x) a(k->j)
    c   (i->j) = SUM_k I(i->k) (x) t(k->j)   [ (+) SUM_k Ihat(i->k) (x) c(k->j)  when root-as-head is off ]
    t          = a (+) c

Departures from the textbook:

1. A span is addressed by its head h and its far end e, whichever side that is, so the mirror images are one formula:
   links sum over two rows, `X[i, k] X[j, k+1]`; complete spans sum over a row of links and a row of the transposed
   complete spans, `L[h, k] X^T[e, k]`. All sums run over contiguous memory.
2. The rules about gaps become bounds instead of masks. No intra span crosses a BREAK; `c` and `t` are kept only
   where the gap beyond their far end is not JOIN (they could never be used otherwise); what is left is the single
   adjacent pair, checked by itself.
3. Sums of exponentials are taken without logarithms, in the semiring PLAIN, of weights that `_weigh` scales. If numbers
   have left the range where that is exact, which `_trusted` tells, the sentence is done again with weights scaled anew,
   so that the sum over all trees is about 1. If that is not enough, it is done in the semiring LOG, which takes many
   times as long and is always exact.
4. Where few arcs are allowed (the forest of a gold tree) a complete span sums over a list of its head's dependents,
   and spans that cannot hold anything are not looked at.

Cost: O(n^3) time with six vector products a span, O(n^2) memory.
"""

from __future__ import annotations

from math import exp, log
from typing import Any

import numpy as np
from numba import njit

from zishu.gaps import BREAK, JOIN

# Reassociation lets sums vectorise. Infinities are values here, so "ninf" must stay out.
FASTMATH = {"reassoc", "contract", "nsz", "nnan"}
# For all that is called from here only: neither wrapped for Python nor cached by itself; and since nothing is
# allocated, nothing is counted ("nrt" is Numba's reference counting), which would take half of the time.
_JIT: dict[str, Any] = {
    "fastmath": FASTMATH,
    "error_model": "numpy",
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
    "_nrt": False,
}

NEG_INF = -np.inf
# The bits of a float64 as an integer: beyond those of an infinity, on either side of 0, it is not a number.
INF_BITS, NEG_INF_BITS = np.array([np.inf, -np.inf]).view(np.int64)

# Numbers that functions are called with are NumPy integers: for every Python one Numba would compile them again.

# What can be asked for.
PARTITION, MARGINALS, BEST, SAMPLE, CHART = range(5)

# Semirings: (+, x) on weights; (logsumexp, +) and (max, +) on scores.
PLAIN, LOG, MAX = np.arange(3)

# Roles of arcs, in arrays of scores and probabilities.
INTER, INTRA = np.arange(2)

# Planes of a chart: complete spans (intra-word a, inter-word c, either t) by [head, end]; links by [head, dependent];
# then the complete spans again, transposed. The outside pass keeps what belongs to plane p in plane OUTSIDE + p.
A, C, T, INTRA_LINK, INTER_LINK, A_T, C_T, T_T = np.arange(8)
PLANES = OUTSIDE = np.int64(8)

# Limits of plain sums, see `_trusted` and `_weigh`.
TINY, SAFE, HUGE, MARGIN = 1e-290, 1e-150, 1e150, 57.0
LOWEST = -700.0  # scores below it weigh nothing
BRANCHING = 8.0  # trees over n characters are about 8^n

# What plain sums have met: the largest value; the width of the narrowest span with a value below SAFE; and of the worst
# loss the logarithm of what its factor in the total is smaller by than the product of all sums of weights.
LARGEST, NARROWEST, LOST = np.arange(3)

# Terms that far below the largest one do not change a float64 sum.
NEGLIGIBLE = 50.0

# Lists of a character, used where few arcs are allowed: its dependents by kind of link and side, the nearest first
# (see `_dependents`); the far ends of filled spans to its left; its possible heads. The last entry is the length.
LEFT_ENDS, HEADS, LISTS = np.arange(4, 7)
LENGTH = -1


def _entry(function):
    """Compile what is called from Python, and keep it on disk if there is a place: a container may have none."""
    options: dict[str, Any] = {"nogil": True, "fastmath": FASTMATH, "error_model": "numpy"}
    try:
        return njit(function, cache=True, **options)
    except RuntimeError:  # neither the installation nor a home can be written to
        return njit(function, **options)


# --- scores and weights


@_entry
def prepare(scores, bits, lengths, offset, allowed):
    """Shift scores so that each dependent's best arc scores 0; count the allowed arcs of each sentence.

    Every tree has exactly one arc into each dependent, so the shift changes all trees alike. Arcs from a character to
    itself and intra arcs of ROOT are forbidden. The count is -1 if a score is not a number or infinite. That shows in
    its bits (the same memory as integers) alone, since fast mathematics takes for granted that nothing is NaN.
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


@njit(**_JIT)
def _clear(planes, first, last, n, value):
    for p in range(first, last):
        for i in range(n + 1):
            for j in range(n + 1):
                planes[p, i, j] = value


@njit(**_JIT)
def _weigh(sparse, scores, lists, n, weights, open_to, met):
    """Turn scores into weights for plain sums; return the logarithm of what trees were divided by.

    A dependent's weights are scaled to sum to 1, or to more where its head is wide open: the trees are few among all
    choices of heads, and the sum over them should not vanish. `open_to[d]` becomes the logarithm of the product of these
    sums for the dependents up to d.
    """
    divided = 0.0
    met[LARGEST], met[NARROWEST], met[LOST] = 0.0, np.inf, NEG_INF
    open_to[0] = 0.0
    _clear(weights, INTER, weights.shape[0], n, 0.0)
    for d in range(1, n + 1):
        total = mean = lowest = 0.0
        heads = lists[HEADS, d, LENGTH] if sparse else n + 1
        for role in range(scores.shape[0]):
            for m in range(heads):
                h = lists[HEADS, d, m] if sparse else m
                score = scores[role, d, h]
                if score > LOWEST:
                    weight = exp(score)
                    weights[role, d, h] = weight
                    total += weight
                    mean += weight * score
                    lowest = min(lowest, score)
                elif score > NEG_INF:
                    met[LOST] = 0.0
        open_to[d] = open_to[d - 1]
        if total > 0.0:
            entropy = log(total) - mean / total
            spread = max(0.0, entropy - log(BRANCHING))
            factor = exp(spread) / total
            if exp(lowest) * factor < SAFE:
                met[NARROWEST] = 0.0
            for role in range(scores.shape[0]):
                for m in range(heads):
                    weights[role, d, lists[HEADS, d, m] if sparse else m] *= factor
            divided += log(total) - spread
            open_to[d] += spread
    return divided


@njit(**_JIT)
def _scale(weights, n, log_factor, open_to):
    """Make every weight so many times as large."""
    factor = exp(log_factor)
    for role in range(weights.shape[0]):
        for d in range(1, n + 1):
            for h in range(n + 1):
                weights[role, d, h] *= factor
    for d in range(1, n + 1):
        open_to[d] += d * log_factor


@njit(**_JIT)
def _keep(semiring, x, h, e, open_to, met):
    """Return the value of the span from h to e as it is kept: in plain sums nothing below TINY; `_trusted` says why."""
    if semiring != PLAIN or SAFE <= x <= HUGE:
        return x
    if x > HUGE:
        met[LARGEST] = max(met[LARGEST], x)
        return x
    if x > 0.0:
        met[NARROWEST] = min(met[NARROWEST], abs(h - e))
    if x >= TINY:
        return x
    if abs(h - e) >= met[NARROWEST]:
        met[LOST] = max(met[LOST], open_to[min(h, e)] - open_to[max(h, e) - 1])
    return 0.0


@njit(**_JIT)
def _trusted(total, n, open_to, met):
    """Tell whether plain sums have lost nothing that counts.

    A value below TINY becomes 0. It is a sum over choices of heads for the dependents in its span; its factor in the
    total is one over choices for the others, so that is at most the product of their sums of weights, and so much times
    TINY is the loss. The bound counts the head of the span and its far end among the others. There are few losses
    against MARGIN.

    A value that is 0 may have lost all of its terms, or have none, which is no loss. Products of two values from SAFE on do
    not vanish, and factors belong to spans within the span. So it has none if it is narrower than all with smaller values.

    Products of two values up to HUGE do not overflow. What the outside pass loses, times an inside value up to HUGE, is
    next to nothing; and what it has for a span is at most 1 over the span's value, unless that is 0, when it is not used.
    """
    if not TINY <= total < np.inf or met[LARGEST] > HUGE:
        return False
    return log(total) > open_to[n] + met[LOST] + log(TINY) + MARGIN


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
    return max(x, y) if semiring == MAX else _log_add(x, y)


@njit(**_JIT)
def _log_add(x, y):
    high, low = max(x, y), min(x, y)
    return high if low == NEG_INF or low < high - NEGLIGIBLE else high + log(1.0 + exp(low - high))


@njit(**_JIT)
def _sum(semiring, flat, x, y, count):
    """Return SUM_k flat[x + k] (x) flat[y + k] for 0 <= k < count."""
    # This is where the time goes. The chart comes as a flat array because that is quick to hand over, and the places
    # are unsigned because an index that may be negative costs a test, and the vector instructions with it.
    x, y, count = np.uintp(x), np.uintp(y), np.uintp(count)
    if semiring == PLAIN:
        total = 0.0
        for k in range(count):
            total += flat[x + k] * flat[y + k]
        return total
    best = NEG_INF
    for k in range(count):
        best = max(best, flat[x + k] + flat[y + k])
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
    """Return which list of h holds its dependents by these links on the side of e."""
    return 2 * (links - INTRA_LINK) + (1 if e > h else 0)


@njit(**_JIT)
def _append(lists, which, character, item):
    lists[which, character, lists[which, character, LENGTH]] = item
    lists[which, character, LENGTH] += 1


@njit(**_JIT)
def _list_arcs(scores, n, lists, live):
    """List the possible heads of every character in any role, and mark the spans with an arc between their ends."""
    for d in range(1, n + 1):
        lists[HEADS, d, LENGTH] = 0
        for i in range(1, d):
            live[d, i] = False
    for d in range(1, n + 1):
        for h in range(n + 1):
            if max(scores[INTER, d, h], scores[-1, d, h]) > NEG_INF:
                _append(lists, HEADS, d, h)
                live[max(d, h), min(d, h)] = True


@njit(**_JIT)
def _mark(chart, lists, live, zero, i, j):
    """Mark the wider spans that may hold something because the span from i to j does."""
    if max(chart[A, i, j], chart[T, i, j]) > zero:
        for m in range(lists[HEADS, i, LENGTH]):
            if lists[HEADS, i, m] < i:
                live[j, lists[HEADS, i, m]] = True
    if max(chart[INTRA_LINK, j, i], chart[INTER_LINK, j, i]) > zero:
        for m in range(lists[LEFT_ENDS, i, LENGTH]):
            live[j, lists[LEFT_ENDS, i, m]] = True
    if max(chart[A, j, i], chart[T, j, i]) > zero:
        _append(lists, LEFT_ENDS, j, i)


@njit(**_JIT)
def _sum_listed(semiring, chart, lists, links, spans, h, e):
    """Return SUM_k links(h->k) (x) spans(k->e) over the dependents of h so far, of which none lies beyond e."""
    total = _zero(semiring)
    which = _dependents(links, h, e)
    for m in range(lists[which, h, LENGTH]):
        k = lists[which, h, m]
        total = _add(semiring, total, _times(semiring, chart[links, h, k], chart[spans, k, e]))
    return total


# --- inside


@njit(**_JIT)
def _at(m, p, r, k):
    """Return where chart[p, r, k] is in the flat chart; m is the number of rows and of columns of a plane."""
    return (p * m + r) * m + k


@njit(**_JIT)
def _put_link(semiring, sparse, chart, lists, links, h, d, score, parts, open_to, met):
    if score > _zero(semiring):
        chart[links, h, d] = _keep(semiring, _times(semiring, score, parts), h, d, open_to, met)
        if sparse:
            _append(lists, _dependents(links, h, d), h, d)


@njit(**_JIT)
def _put_complete(sparse, chart, spans, h, e, x):
    chart[spans, h, e] = x
    if not sparse:
        chart[spans + A_T, e, h] = x


@njit(**_JIT)
def _complete(semiring, sparse, chart, flat, lists, links, spans, h, e, lo, count):
    """Return SUM_k links(h->k) (x) spans(k->e) for lo <= k < lo + count, in a list or in rows."""
    if sparse:
        return _sum_listed(semiring, chart, lists, links, spans, h, e)
    m = chart.shape[1]
    return _sum(semiring, flat, _at(m, links, h, lo), _at(m, spans + A_T, e, lo), count)


@njit(**_JIT)
def _inside(semiring, sparse, chart, flat, lists, live, values, gaps, reach, n, root_as_head, open_to, met):
    """Fill the chart and return the sum over all trees. `reach[i]` is the last character before the next BREAK."""
    zero, one, m = _zero(semiring), 1.0 if semiring == PLAIN else 0.0, chart.shape[1]
    # a(i,i) = t(i,i) = 1, c(i,i) = 0
    _clear(chart, A, A_T if sparse else PLANES, n, zero)
    for i in range(1, n + 1):
        _put_complete(sparse, chart, A, i, i, one)
        _put_complete(sparse, chart, T, i, i, one)
        for which in range(HEADS):
            lists[which, i, LENGTH] = 0
    for j in range(2, n + 1):
        for i in range(j - 1, 0, -1):
            if sparse and not live[j, i]:
                continue
            joined = values.shape[0] == 2 and j <= reach[i]
            # Ihat(i->j) = s_intra(i,j) (x) SUM_k a(i->k) (x) a(k+1<-j), and its mirror image
            if joined and max(values[INTRA, j, i], values[INTRA, i, j]) > zero:
                parts = _sum(semiring, flat, _at(m, A, i, i), _at(m, A, j, i + 1), j - i)
                _put_link(
                    semiring, sparse, chart, lists, INTRA_LINK, i, j, values[INTRA, j, i], parts, open_to, met
                )
                _put_link(
                    semiring, sparse, chart, lists, INTRA_LINK, j, i, values[INTRA, i, j], parts, open_to, met
                )
            # I(i->j) = s_inter(i,j) (x) SUM_k t(i->k) (x) t(k+1<-j), and its mirror image
            if max(values[INTER, j, i], values[INTER, i, j]) > zero and not (j == i + 1 and gaps[i] == JOIN):
                parts = _sum(semiring, flat, _at(m, T, i, i), _at(m, T, j, i + 1), j - i)
                _put_link(
                    semiring, sparse, chart, lists, INTER_LINK, i, j, values[INTER, j, i], parts, open_to, met
                )
                _put_link(
                    semiring, sparse, chart, lists, INTER_LINK, j, i, values[INTER, i, j], parts, open_to, met
                )
            for side in range(2):
                if side == 1:
                    h, e, lo, beyond = i, j, i + 1, gaps[j]
                else:
                    h, e, lo, beyond = j, i, i, gaps[i - 1]
                # a(h->e) = SUM_k Ihat(h->k) (x) a(k->e)
                a = zero
                if joined:
                    a = _complete(semiring, sparse, chart, flat, lists, INTRA_LINK, A, h, e, lo, j - i)
                    a = _keep(semiring, a, h, e, open_to, met)
                    _put_complete(sparse, chart, A, h, e, a)
                # c(h->e) = SUM_k I(h->k) (x) t(k->e)  [ (+) SUM_k Ihat(h->k) (x) c(k->e) ]
                if beyond != JOIN:
                    c = _complete(semiring, sparse, chart, flat, lists, INTER_LINK, T, h, e, lo, j - i)
                    if not root_as_head:
                        below = _complete(
                            semiring, sparse, chart, flat, lists, INTRA_LINK, C, h, e, lo, j - i
                        )
                        c = _add(semiring, c, below)
                    c = _keep(semiring, c, h, e, open_to, met)
                    _put_complete(sparse or root_as_head, chart, C, h, e, c)  # then no sum needs it
                    _put_complete(sparse, chart, T, h, e, _add(semiring, a, c))
            if sparse:
                _mark(chart, lists, live, zero, i, j)
    # ROOT has one child r, and owns gap 0: s_inter(0,r) (x) t(1<-r) (x) t(r->n)
    total = zero
    for r in range(1, n + 1):
        below = _times(semiring, chart[T, r, 1], chart[T, r, n])
        total = _add(semiring, total, _times(semiring, values[INTER, r, 0], below))
    return total


# --- outside


@njit(**_JIT)
def _push(semiring, flat, x, y, away, count, weight, total):
    """Share `weight` over the terms of the sum of two rows at x and y, whose value was `total`.

    Their shares lie `away` behind them. In plain sums a share is the derivative by the value, otherwise by its
    logarithm, which is a probability.
    """
    x, y, away, count = np.uintp(x), np.uintp(y), np.uintp(away), np.uintp(count)
    if semiring == PLAIN:
        for k in range(count):
            flat[x + away + k] += weight * flat[y + k]
        for k in range(count):
            flat[y + away + k] += weight * flat[x + k]
        return
    for k in range(count):
        term = flat[x + k] + flat[y + k]
        if term > NEG_INF:
            part = weight * exp(term - total)
            flat[x + away + k] += part
            flat[y + away + k] += part


@njit(**_JIT)
def _push_listed(semiring, chart, lists, links, spans, h, e, count, weight, total):
    """Share `weight` over the terms of a complete span's sum over a list."""
    which = _dependents(links, h, e)
    for m in range(lists[which, h, LENGTH]):
        k = lists[which, h, m]
        if abs(h - k) > count:
            break  # nearer dependents come first; the list goes on beyond this span
        x, y = chart[links, h, k], chart[spans, k, e]
        if semiring == LOG:
            x = y = exp(x + y - total)
        chart[OUTSIDE + links, h, k] += weight * y
        chart[OUTSIDE + spans + A_T, e, k] += weight * x


@njit(**_JIT)
def _push_complete(semiring, sparse, chart, flat, lists, links, spans, h, e, lo, count, weight, total):
    """Share `weight` over the terms of a complete span."""
    if sparse:
        _push_listed(semiring, chart, lists, links, spans, h, e, count, weight, total)
    else:
        m = chart.shape[1]
        away = OUTSIDE * m * m
        _push(semiring, flat, _at(m, links, h, lo), _at(m, spans + A_T, e, lo), away, count, weight, total)


@njit(**_JIT)
def _share(semiring, chart, spans, h, e):
    """Return what a complete span has got; in plain sums one of value 0 may have got anything, and is left out."""
    if semiring == PLAIN and chart[spans, h, e] == 0.0:
        return 0.0
    return chart[OUTSIDE + spans, h, e] + chart[OUTSIDE + spans + A_T, e, h]


@njit(**_JIT)
def _outside(semiring, sparse, chart, flat, lists, live, values, n, root_as_head, total, arcs, boundary):
    """Walk `_inside` backwards: the derivative of log Z by every score is the probability of its arc."""
    m = chart.shape[1]
    _clear(chart, OUTSIDE, OUTSIDE + PLANES, n, 0.0)
    for r in range(1, n + 1):
        score, left, right = values[INTER, r, 0], chart[T, r, 1], chart[T, r, n]
        if semiring == PLAIN:
            arcs[INTER, r, 0] = score * left * right / total
            chart[OUTSIDE + T, r, 1] += score * right / total
            chart[OUTSIDE + T, r, n] += score * left / total
        else:
            arcs[INTER, r, 0] = exp(score + left + right - total)
            chart[OUTSIDE + T, r, 1] += arcs[INTER, r, 0]
            chart[OUTSIDE + T, r, n] += arcs[INTER, r, 0]
    for j in range(n, 1, -1):
        for i in range(1, j):
            if sparse and not live[j, i]:
                continue
            for side in range(2):
                h, e, lo = (i, j, i + 1) if side == 1 else (j, i, i)
                a, c, t = chart[A, h, e], chart[C, h, e], chart[T, h, e]
                from_a, from_c = _share(semiring, chart, A, h, e), _share(semiring, chart, C, h, e)
                from_t = _share(semiring, chart, T, h, e)
                if from_t > 0.0 and semiring == PLAIN:
                    from_a += from_t if a > 0.0 else 0.0
                    from_c += from_t if c > 0.0 else 0.0
                elif from_t > 0.0:
                    from_a += from_t * exp(a - t)
                    from_c += from_t * exp(c - t)
                if from_a > 0.0:
                    _push_complete(
                        semiring, sparse, chart, flat, lists, INTRA_LINK, A, h, e, lo, j - i, from_a, a
                    )
                if from_c > 0.0:
                    _push_complete(
                        semiring, sparse, chart, flat, lists, INTER_LINK, T, h, e, lo, j - i, from_c, c
                    )
                    if not root_as_head:
                        _push_complete(
                            semiring, sparse, chart, flat, lists, INTRA_LINK, C, h, e, lo, j - i, from_c, c
                        )
            # Gap k is a boundary if an inter-word link owns it, whose left part is then t(i->k). With i < k, all that
            # links have made of it is in its plane, for complete spans write to the transpose. For i = k see below.
            used = chart[OUTSIDE + T, i, j]
            if semiring == PLAIN:
                used = used * chart[T, i, j] if chart[T, i, j] > 0.0 else 0.0
            boundary[j] += used
            for role in range(values.shape[0]):
                links, spans = (INTER_LINK, T) if role == INTER else (INTRA_LINK, A)
                right, left = chart[links, i, j], chart[links, j, i]
                to_right, to_left = chart[OUTSIDE + links, i, j], chart[OUTSIDE + links, j, i]
                if semiring == PLAIN:
                    to_right = to_right if right > 0.0 else 0.0
                    to_left = to_left if left > 0.0 else 0.0
                    arcs[role, j, i] = to_right * right
                    arcs[role, i, j] = to_left * left
                    weight, parts = to_right * values[role, j, i] + to_left * values[role, i, j], 0.0
                else:
                    arcs[role, j, i] = to_right
                    arcs[role, i, j] = to_left
                    weight = to_right + to_left
                    parts = right - values[role, j, i] if to_right > 0.0 else left - values[role, i, j]
                if weight > 0.0:
                    x, y = _at(m, spans, i, i), _at(m, spans, j, i + 1)
                    _push(semiring, flat, x, y, OUTSIDE * m * m, j - i, weight, parts)
                    if role == INTER:
                        boundary[i] += weight * (flat[y] if semiring == PLAIN else exp(flat[y] - parts))
    boundary[0] = 1.0
    boundary[n] = 0.0


# --- trees


@njit(**_JIT)
def _pick(semiring, terms, count):
    """Choose a term of a sum: the largest, or where sums are sums, by chance in proportion to its value."""
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


@njit(**_JIT)
def _list_terms(semiring, chart, links, spans, h, e, terms, start):
    """List the terms of SUM_k links(h->k) (x) spans(k->e), by columns: sparse charts have no transposed planes."""
    lo = min(h + 1, e)
    for k in range(lo, lo + abs(h - e)):
        terms[start + k - lo] = _times(semiring, chart[links, h, k], chart[spans, k, e])
    return start + abs(h - e)


@njit(**_JIT)
def _walk(semiring, chart, values, n, root_as_head, stack, terms, heads, is_intra):
    """Walk a filled chart from the top to one tree: the best one, or one drawn by its probability."""
    for r in range(1, n + 1):
        below = _times(semiring, chart[T, r, 1], chart[T, r, n])
        terms[r - 1] = _times(semiring, values[INTER, r, 0], below)
    root = 1 + _pick(semiring, terms, n)
    heads[root] = 0
    is_intra[root] = False
    size = 0
    for e in (1, n):
        size = _stack(stack, size, T, root, e)
    while size > 0:
        size -= 1
        plane, h, e = stack[size, 0], stack[size, 1], stack[size, 2]
        if h == e:
            continue
        if plane == T:
            terms[0], terms[1] = chart[A, h, e], chart[C, h, e]
            plane = A if _pick(semiring, terms, np.int64(2)) == 0 else C
        links, spans = (INTRA_LINK, A) if plane == A else (INTER_LINK, T)
        ways = 0
        for below in range(2 if plane == C and not root_as_head else 1):
            if below == 1:
                links, spans = INTRA_LINK, C
            ways = _list_terms(semiring, chart, links, spans, h, e, terms, ways)
        way = _pick(semiring, terms, ways)
        if plane == C and way < abs(h - e):
            links, spans = INTER_LINK, T
        d = min(h + 1, e) + way % abs(h - e)
        heads[d] = h
        is_intra[d] = links == INTRA_LINK
        inner = A if links == INTRA_LINK else T
        i, j = min(h, d), max(h, d)
        for k in range(i, j):
            terms[k - i] = _times(semiring, chart[inner, i, k], chart[inner, j, k + 1])
        k = i + _pick(semiring, terms, j - i)
        size = _stack(stack, size, spans, d, e)
        size = _stack(stack, size, inner, i, k)
        size = _stack(stack, size, inner, j, k + 1)


@njit(**_JIT)
def _stack(stack, size, plane, h, e):
    stack[size, 0], stack[size, 1], stack[size, 2] = plane, h, e
    return size + 1


# --- sentences


@njit(**_JIT)
def _close_gaps(gaps, n, closed, reach):
    """Copy the gaps with both ends of the sentence closed; find how far each character is from the next BREAK."""
    for k in range(n + 1):
        closed[k] = gaps[k] if 0 < k < n else BREAK
    last = n
    for i in range(n, 0, -1):
        if closed[i] == BREAK:
            last = i
        reach[i] = last


@_entry
def run(
    task,
    order,
    scores,
    gaps,
    lengths,
    allowed,
    root_as_head,
    seed,
    chart,
    value,
    arcs,
    boundary,
    heads,
    is_intra,
):
    """Do a task for the sentences in `order`: fill `value` with log Z or the best score, and what else is asked for.

    One function for all tasks, so that the recursion is compiled once. `chart` is memory for the longest sentence, with
    twice the planes for MARGINALS.
    """
    m = chart.shape[1]
    flat = chart.reshape(-1)
    weights = np.empty((scores.shape[1], m, m))
    lists = np.empty((LISTS, m, m + 1), dtype=np.int32)
    live = np.empty((m, m), dtype=np.bool_)
    closed, reach = np.empty(m, dtype=np.int8), np.empty(m, dtype=np.int64)
    stack, terms = np.empty((3 * m, 3), dtype=np.int64), np.empty(2 * m)
    open_to, met = np.empty(m), np.empty(3)
    for b in order:
        n = lengths[b]
        _close_gaps(gaps[b], n, closed, reach)
        sparse = task != CHART and allowed[b] * 8 < n * n * scores.shape[1]
        values = scores[b]
        if sparse:
            _list_arcs(values, n, lists, live)
        semiring, divided, may_scale = MAX, 0.0, False
        if task not in (BEST, CHART):
            semiring, values = PLAIN, weights
            divided = _weigh(sparse, scores[b], lists, n, weights, open_to, met)
            may_scale = met[LOST] == NEG_INF
        while True:
            total = _inside(
                semiring,
                sparse,
                chart,
                flat,
                lists,
                live,
                values,
                closed,
                reach,
                n,
                root_as_head,
                open_to,
                met,
            )
            if semiring != PLAIN or _trusted(total, n, open_to, met):
                break
            if may_scale and 0.0 < total < 1.0:
                _scale(weights, n, -log(total) / n, open_to)
                divided += log(total)
                met[LARGEST], met[LOST] = 0.0, NEG_INF
                may_scale = False
            else:
                semiring, values = LOG, scores[b]
        value[b] = log(total) + divided if semiring == PLAIN else total
        if value[b] > NEG_INF and task == MARGINALS:
            _outside(
                semiring,
                sparse,
                chart,
                flat,
                lists,
                live,
                values,
                n,
                root_as_head,
                total,
                arcs[b],
                boundary[b],
            )
        elif value[b] > NEG_INF and task in (BEST, SAMPLE):
            if task == SAMPLE:
                np.random.seed(seed)  # noqa: NPY002
            for draw in range(heads.shape[1]):
                _walk(
                    semiring, chart, values, n, root_as_head, stack, terms, heads[b, draw], is_intra[b, draw]
                )
