"""Run the typed Eisner chart of one sentence after another: inside, outside, and the walk down to a tree.

This is the only file with Numba. Every function works on float64 arrays that the caller prepared; nothing here
checks its input. The recursion is written once, in `_inside`, for both semirings and for dense and sparse scores:

    Ihat(i->j) = s_intra(i,j) (x) SUM_k a(i->k) (x) a(k+1<-j)          gap k not BREAK
    I   (i->j) = s_inter(i,j) (x) SUM_k t(i->k) (x) t(k+1<-j)          gap k not JOIN
    a   (i->j) = SUM_k Ihat(i->k) (x) a(k->j)
    c   (i->j) = SUM_k I(i->k) (x) t(k->j)   [ (+) SUM_k Ihat(i->k) (x) c(k->j)  when root-as-head is off ]
    t          = a (+) c

Departures from the textbook:

1. A span is addressed by its head h and its far end e, whichever side that is, so the mirror images are one formula:
   links sum over two rows, `X[i, k] X[j, k+1]`; complete spans sum over a row of links and a row of the transposed
   complete spans, `L[h, k] X^T[e, k]`. All inner loops run over contiguous memory.
2. The three rules about gaps become bounds instead of masks. No intra span crosses a BREAK; `c` and `t` are kept only
   where the gap beyond their far end is not JOIN (they could never be used otherwise); what is left is the single
   adjacent pair, checked by itself.
3. Sums of exponentials are products of scaled rows. Every row keeps its logarithms and `exp(value - base)`, with one
   base per row, so a sum over k is a plain dot product and costs one logarithm. When the dot product is so small that a
   term may have been lost to underflow, the sum is taken again from the logarithms: nothing is ever approximate.
4. Where few arcs are allowed (the forest of a gold tree) no scaled rows are kept: each head lists its dependents and
   sums run over the list.

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
_JIT: dict[str, Any] = {"cache": True, "nogil": True, "fastmath": FASTMATH, "error_model": "numpy"}

NEG_INF = -np.inf

# Semirings.
LOG, MAX = 0, 1

# Planes of a chart: complete spans (intra-word a, inter-word c, either t) by [head, end]; links by [head, dependent];
# then the complete spans again, transposed. The scaled copy of plane p is plane SCALED + p.
A, C, T, INTRA_LINK, INTER_LINK, A_T, C_T, T_T = range(8)
PLANES = SCALED = 8
# The last column of a scaled row is its base, the last column of a list of dependents its length.
LAST = -1

# A row is scaled again when a value exceeds its base by this much; then products of two entries stay below e^400.
HEADROOM = 200.0
# Scaled entries vanish below 1e-308 and their partners are at most e^200, so a lost term is below 1e-221.
# A dot product above this limit has lost nothing that counts.
SAFE_DOT = 1e-190
SAFE_EXPONENT = 400.0
# Terms that far below the largest one do not change a float64 sum.
NEGLIGIBLE = 50.0


@njit(**_JIT)
def prepare(scores, intra_scores, typed, n, inter, intra, offset):  # type: ignore[no-untyped-def]
    """Copy one sentence's scores, shifted so that each dependent's best arc scores 0; tell if they are numbers.

    Every tree has exactly one arc into each dependent, so the shift changes all trees alike. It keeps the chart's
    values near 0, where scaled sums are fast. Arcs from a character to itself and intra arcs of ROOT are forbidden.
    """
    good = True
    for d in range(1, n + 1):
        best = NEG_INF
        for h in range(n + 1):
            value = np.float64(scores[d, h]) if h != d else NEG_INF
            good = good and value < np.inf
            inter[d, h] = value
            best = max(best, value)
            if typed:
                value = np.float64(intra_scores[d, h]) if h not in (0, d) else NEG_INF
                good = good and value < np.inf
                intra[d, h] = value
                best = max(best, value)
        if best == NEG_INF:
            best = 0.0
        offset[d] = best
        for h in range(n + 1):
            inter[d, h] -= best
            if typed:
                intra[d, h] -= best
    return good


@njit(**_JIT)
def _max_product(x, y):  # type: ignore[no-untyped-def]
    best = NEG_INF
    for k in range(x.size):
        best = max(best, x[k] + y[k])
    return best


@njit(**_JIT)
def _log_product(x, y):  # type: ignore[no-untyped-def]
    best = _max_product(x, y)
    if best == NEG_INF:
        return NEG_INF
    total = 0.0
    for k in range(x.size):
        term = x[k] + y[k] - best
        if term > -NEGLIGIBLE:
            total += exp(term)
    return best + log(total)


@njit(**_JIT)
def _add(semiring, x, y):  # type: ignore[no-untyped-def]
    high, low = max(x, y), min(x, y)
    if semiring == MAX or low == NEG_INF or low < high - NEGLIGIBLE:
        return high
    return high + log(1.0 + exp(low - high))


@njit(**_JIT)
def _sum(semiring, x, y):  # type: ignore[no-untyped-def]
    return _log_product(x, y) if semiring == LOG else _max_product(x, y)


@njit(**_JIT)
def _sum_rows(semiring, sparse, chart, p, r, q, s, lo, hi, shift):  # type: ignore[no-untyped-def]
    """Return SUM_k chart[p, r, k] (x) chart[q, s, k + shift] for lo <= k < hi."""
    if semiring == LOG and not sparse:
        x, y = chart[SCALED + p, r, lo:hi], chart[SCALED + q, s, lo + shift : hi + shift]
        dot = 0.0
        for k in range(x.size):
            dot += x[k] * y[k]
        if dot > SAFE_DOT:
            return log(dot) + chart[SCALED + p, r, LAST] + chart[SCALED + q, s, LAST]
    x, y = chart[p, r, lo:hi], chart[q, s, lo + shift : hi + shift]
    return _sum(semiring, x, y)


@njit(**_JIT)
def _sum_listed(semiring, chart, lists, links, spans, h, e):  # type: ignore[no-untyped-def]
    """Return SUM_k links(h->k) (x) spans(k->e) over the listed dependents k of h on the side of e."""
    row = lists[links - INTRA_LINK, 1 if e > h else 0, h]
    total = NEG_INF
    for m in range(row[LAST]):
        total = _add(semiring, total, chart[links, h, row[m]] + chart[spans, row[m], e])
    return total


@njit(**_JIT)
def _complete(semiring, sparse, chart, lists, links, spans, h, e, lo, hi):  # type: ignore[no-untyped-def]
    """Return SUM_k links(h->k) (x) spans(k->e) for lo <= k < hi."""
    if sparse:
        return _sum_listed(semiring, chart, lists, links, spans, h, e)
    return _sum_rows(semiring, sparse, chart, links, h, spans + A_T, e, lo, hi, 0)


@njit(**_JIT)
def _rescale(row, x):  # type: ignore[no-untyped-def]
    factor = exp(row[LAST] - x)
    for k in range(row.size - 1):
        row[k] *= factor
    row[LAST] = x


@njit(**_JIT)
def _put(semiring, sparse, chart, p, r, k, x):  # type: ignore[no-untyped-def]
    """Set chart[p, r, k], with its scaled copy; move the row's base when the value outgrows it."""
    chart[p, r, k] = x
    if semiring == LOG and not sparse and x > NEG_INF:
        row = chart[SCALED + p, r]
        if x > row[LAST] + HEADROOM:
            _rescale(row, x)
        row[k] = exp(x - row[LAST])


@njit(**_JIT)
def _put_link(semiring, sparse, chart, lists, links, h, d, x):  # type: ignore[no-untyped-def]
    _put(semiring, sparse, chart, links, h, d, x)
    if sparse and x > NEG_INF:
        row = lists[links - INTRA_LINK, 1 if d > h else 0, h]
        row[row[LAST]] = d
        row[LAST] += 1


@njit(**_JIT)
def _put_complete(semiring, sparse, chart, spans, h, e, x):  # type: ignore[no-untyped-def]
    _put(semiring, sparse, chart, spans, h, e, x)
    if not sparse:
        _put(semiring, sparse, chart, spans + A_T, e, h, x)


@njit(**_JIT)
def _clear(semiring, sparse, chart, lists, n):  # type: ignore[no-untyped-def]
    """Empty the chart but for the trivial spans: a(i,i) = t(i,i) = 1, c(i,i) = 0."""
    if sparse:
        chart[:A_T] = NEG_INF
        lists[:, :, :, LAST] = 0
    else:
        chart[:PLANES] = NEG_INF
    if semiring == LOG and not sparse:
        chart[SCALED : SCALED + PLANES] = 0.0
        chart[SCALED : SCALED + PLANES, :, LAST] = NEG_INF
    for i in range(1, n + 1):
        _put_complete(semiring, sparse, chart, A, i, i, 0.0)
        _put_complete(semiring, sparse, chart, T, i, i, 0.0)


@njit(**_JIT)
def _inside(semiring, sparse, chart, lists, inter, intra, typed, gaps, reach, n, root_as_head):  # type: ignore[no-untyped-def]
    """Fill the chart and return the sum over all trees. `reach[i]` is the last character before the next BREAK."""
    _clear(semiring, sparse, chart, lists, n)
    for w in range(1, n):
        for i in range(1, n - w + 1):
            j = i + w
            joined = typed and j <= reach[i]
            # Ihat(i->j) = s_intra(i,j) (x) SUM_k a(i->k) (x) a(k+1<-j), and its mirror image
            if joined and max(intra[j, i], intra[i, j]) > NEG_INF:
                parts = _sum_rows(semiring, sparse, chart, A, i, A, j, i, j, 1)
                _put_link(semiring, sparse, chart, lists, INTRA_LINK, i, j, intra[j, i] + parts)
                _put_link(semiring, sparse, chart, lists, INTRA_LINK, j, i, intra[i, j] + parts)
            # I(i->j) = s_inter(i,j) (x) SUM_k t(i->k) (x) t(k+1<-j), and its mirror image
            if max(inter[j, i], inter[i, j]) > NEG_INF and not (w == 1 and gaps[i] == JOIN):
                parts = _sum_rows(semiring, sparse, chart, T, i, T, j, i, j, 1)
                _put_link(semiring, sparse, chart, lists, INTER_LINK, i, j, inter[j, i] + parts)
                _put_link(semiring, sparse, chart, lists, INTER_LINK, j, i, inter[i, j] + parts)
            for side in range(2):
                if side == 1:
                    h, e, lo, hi, beyond = i, j, i + 1, j + 1, gaps[j]
                else:
                    h, e, lo, hi, beyond = j, i, i, j, gaps[i - 1]
                # a(h->e) = SUM_k Ihat(h->k) (x) a(k->e)
                a = NEG_INF
                if joined:
                    a = _complete(semiring, sparse, chart, lists, INTRA_LINK, A, h, e, lo, hi)
                    _put_complete(semiring, sparse, chart, A, h, e, a)
                # c(h->e) = SUM_k I(h->k) (x) t(k->e)  [ (+) SUM_k Ihat(h->k) (x) c(k->e) ]
                if beyond != JOIN:
                    c = _complete(semiring, sparse, chart, lists, INTER_LINK, T, h, e, lo, hi)
                    if root_as_head:
                        chart[C, h, e] = c  # no sum runs over it: neither transposed nor scaled
                    else:
                        below = _complete(semiring, sparse, chart, lists, INTRA_LINK, C, h, e, lo, hi)
                        c = _add(semiring, c, below)
                        _put_complete(semiring, sparse, chart, C, h, e, c)
                    _put_complete(semiring, sparse, chart, T, h, e, _add(semiring, a, c))
    # ROOT has one child r, and owns gap 0: s_inter(0,r) (x) t(1<-r) (x) t(r->n)
    total = NEG_INF
    for r in range(1, n + 1):
        total = _add(semiring, total, inter[r, 0] + chart[T, r, 1] + chart[T, r, n])
    return total


@njit(**_JIT)
def _push_rows(sparse, chart, adjoint, p, r, q, s, lo, hi, shift, weight, total, boundary):  # type: ignore[no-untyped-def]
    """Share `weight` over the terms of a sum of rows, by their part in its value `total`."""
    to_x, to_y = adjoint[p, r, lo:hi], adjoint[q, s, lo + shift : hi + shift]
    exponent = np.inf
    if not sparse:
        exponent = chart[SCALED + p, r, LAST] + chart[SCALED + q, s, LAST] - total
    if exponent < SAFE_EXPONENT:
        x, y = chart[SCALED + p, r, lo:hi], chart[SCALED + q, s, lo + shift : hi + shift]
        factor = weight * exp(exponent)
        for k in range(x.size):
            part = factor * x[k] * y[k]
            to_x[k] += part
            to_y[k] += part
        for k in range(min(x.size, boundary.size)):
            boundary[k] += factor * x[k] * y[k]
    else:
        x, y = chart[p, r, lo:hi], chart[q, s, lo + shift : hi + shift]
        for k in range(x.size):
            if x[k] + y[k] > NEG_INF:
                part = weight * exp(x[k] + y[k] - total)
                to_x[k] += part
                to_y[k] += part
                if k < boundary.size:
                    boundary[k] += part


@njit(**_JIT)
def _push_complete(sparse, chart, lists, adjoint, links, spans, h, e, lo, hi, weight, total):  # type: ignore[no-untyped-def]
    """Share `weight` over the terms of a complete span, by their part in its value `total`."""
    if not sparse:
        nowhere = adjoint[0, 0, :0]
        _push_rows(sparse, chart, adjoint, links, h, spans + A_T, e, lo, hi, 0, weight, total, nowhere)
        return
    row = lists[links - INTRA_LINK, 1 if e > h else 0, h]
    for m in range(row[LAST]):
        if not lo <= row[m] < hi:
            break  # nearer dependents come first; the list goes on beyond this span
        part = weight * exp(chart[links, h, row[m]] + chart[spans, row[m], e] - total)
        adjoint[links, h, row[m]] += part
        adjoint[spans, row[m], e] += part


@njit(**_JIT)
def _outside_complete(sparse, chart, lists, adjoint, h, e, lo, hi, root_as_head):  # type: ignore[no-untyped-def]
    """Share out what the complete spans from h to e have got."""
    from_a, from_c, from_t = adjoint[A, h, e], adjoint[C, h, e], adjoint[T, h, e]
    if not sparse:
        from_a += adjoint[A_T, e, h]
        from_c += adjoint[C_T, e, h]
        from_t += adjoint[T_T, e, h]
    a, c = chart[A, h, e], chart[C, h, e]
    if from_t > 0.0:
        from_a += from_t * exp(a - chart[T, h, e])
        from_c += from_t * exp(c - chart[T, h, e])
    if from_a > 0.0:
        _push_complete(sparse, chart, lists, adjoint, INTRA_LINK, A, h, e, lo, hi, from_a, a)
    if from_c > 0.0:
        _push_complete(sparse, chart, lists, adjoint, INTER_LINK, T, h, e, lo, hi, from_c, c)
        if not root_as_head:
            _push_complete(sparse, chart, lists, adjoint, INTRA_LINK, C, h, e, lo, hi, from_c, c)


@njit(**_JIT)
def _outside_link(sparse, chart, adjoint, links, spans, i, j, scores, marginals, boundary):  # type: ignore[no-untyped-def]
    """Share out what the two links between i and j have got, which is the probability of their arcs."""
    right, left = adjoint[links, i, j], adjoint[links, j, i]
    marginals[j, i] = right
    marginals[i, j] = left
    if right + left > 0.0:
        parts = chart[links, i, j] - scores[j, i] if right > 0.0 else chart[links, j, i] - scores[i, j]
        _push_rows(sparse, chart, adjoint, spans, i, spans, j, i, j, 1, right + left, parts, boundary)


@njit(**_JIT)
def _outside(
    sparse, chart, lists, adjoint, inter, intra, typed, n, root_as_head, total, m_inter, m_intra, boundary
):  # type: ignore[no-untyped-def]
    """Walk `_inside` backwards: the derivative of log Z by every score is the probability of its arc."""
    adjoint[:] = 0.0
    nowhere = boundary[:0]
    boundary[0] = 1.0
    for r in range(1, n + 1):
        part = exp(inter[r, 0] + chart[T, r, 1] + chart[T, r, n] - total)
        m_inter[r, 0] = part
        adjoint[T, r, 1] += part
        adjoint[T, r, n] += part
    for w in range(n - 1, 0, -1):
        for i in range(1, n - w + 1):
            j = i + w
            _outside_complete(sparse, chart, lists, adjoint, i, j, i + 1, j + 1, root_as_head)
            _outside_complete(sparse, chart, lists, adjoint, j, i, i, j, root_as_head)
            if typed:
                _outside_link(sparse, chart, adjoint, INTRA_LINK, A, i, j, intra, m_intra, nowhere)
            _outside_link(sparse, chart, adjoint, INTER_LINK, T, i, j, inter, m_inter, boundary[i:j])


@njit(**_JIT)
def _pick_row(draw, x, y, total):  # type: ignore[no-untyped-def]
    """Choose a term of a sum: the largest when `draw` is negative, else the one where the running sum passes it."""
    best, chosen, running = NEG_INF, -1, 0.0
    for k in range(x.size):
        term = x[k] + y[k]
        if draw < 0.0:
            if term > best:
                best, chosen = term, k
        elif term > NEG_INF:
            chosen = k
            running += exp(term - total)
            if running > draw:
                break
    return chosen


@njit(**_JIT)
def _draw(sampling):  # type: ignore[no-untyped-def]
    return np.random.random() if sampling else -1.0  # noqa: NPY002 (the generator that Numba has)


@njit(**_JIT)
def _first_wins(sampling, first, second):  # type: ignore[no-untyped-def]
    """Choose between two values: the larger one, or by chance in proportion to their exponentials."""
    if not sampling or second == NEG_INF:
        return first >= second
    return _draw(sampling) < 1.0 / (1.0 + exp(second - first))


@njit(**_JIT)
def _walk(chart, inter, n, root_as_head, total, sampling, stack, heads, is_intra):  # type: ignore[no-untyped-def]
    """Walk a filled chart from the top to one tree: the best one, or one drawn by its probability."""
    semiring = LOG if sampling else MAX
    tops = inter[1 : n + 1, 0] + chart[T, 1 : n + 1, 1]
    root = 1 + _pick_row(_draw(sampling), tops, chart[T, 1 : n + 1, n], total)
    heads[root] = 0
    is_intra[root] = False
    stack[0, :] = T, root, 1
    stack[1, :] = T, root, n
    size = 2
    while size > 0:
        size -= 1
        plane, h, e = stack[size]
        if h == e:
            continue
        lo, hi = (h + 1, e + 1) if e > h else (e, h)
        if plane == T:
            plane = A if _first_wins(sampling, chart[A, h, e], chart[C, h, e]) else C
        links, spans, target = INTRA_LINK, A, chart[plane, h, e]
        if plane == C:
            links, spans = INTER_LINK, T
            if not root_as_head:
                own = _sum(semiring, chart[INTER_LINK, h, lo:hi], chart[T, lo:hi, e])
                below = _sum(semiring, chart[INTRA_LINK, h, lo:hi], chart[C, lo:hi, e])
                target = own
                if not _first_wins(sampling, own, below):
                    links, spans, target = INTRA_LINK, C, below
        d = lo + _pick_row(_draw(sampling), chart[links, h, lo:hi], chart[spans, lo:hi, e], target)
        heads[d] = h
        is_intra[d] = links == INTRA_LINK
        inner = A if links == INTRA_LINK else T
        i, j = min(h, d), max(h, d)
        x, y = chart[inner, i, i:j], chart[inner, j, i + 1 : j + 1]
        k = i + _pick_row(_draw(sampling), x, y, _log_product(x, y) if sampling else 0.0)
        stack[size, :] = spans, d, e
        stack[size + 1, :] = inner, i, k
        stack[size + 2, :] = inner, j, k + 1
        size += 3


@njit(**_JIT)
def _local_gaps(gaps, n, local, reach):  # type: ignore[no-untyped-def]
    """Copy the gaps with both ends of the sentence closed; find how far each character is from the next BREAK."""
    local[0] = BREAK
    for k in range(1, n):
        local[k] = gaps[k]
    local[n] = BREAK
    last = n
    for i in range(n, 0, -1):
        if local[i] == BREAK:
            last = i
        reach[i] = last


@njit(**_JIT)
def _is_sparse(inter, intra, typed, n):  # type: ignore[no-untyped-def]
    allowed = 0
    for d in range(1, n + 1):
        for h in range(n + 1):
            allowed += inter[d, h] > NEG_INF
            if typed:
                allowed += intra[d, h] > NEG_INF
    return allowed * 8 < n * n * (2 if typed else 1)


@njit(**_JIT)
def _workspace(order, lengths):  # type: ignore[no-untyped-def]
    """Return the longest sentence's width and what every sentence needs besides charts: lists, gaps, reach, stack."""
    longest = 0
    for b in order:
        longest = max(longest, lengths[b])
    m = longest + 1
    lists = np.empty((2, 2, m, m + 1), dtype=np.int32)
    stack = np.empty((3 * m, 3), dtype=np.int64)
    return m, lists, np.empty(m, dtype=np.int8), np.empty(m, dtype=np.int64), stack


@njit(**_JIT)
def _lay(memory, planes, n):  # type: ignore[no-untyped-def]
    """Lay planes for n characters, with one column more, over memory that the next sentence uses again."""
    return memory[: planes * (n + 1) * (n + 2)].reshape((planes, n + 1, n + 2))


@njit(**_JIT)
def log_sentences(
    order, inter, intra, typed, gaps, lengths, root_as_head, gradients, logz, m_inter, m_intra, boundary
):  # type: ignore[no-untyped-def]
    """For the sentences in `order`: log Z and, if asked for, arc and boundary probabilities."""
    m, lists, local, reach, _ = _workspace(order, lengths)
    memory = np.empty(2 * PLANES * m * (m + 1))
    adjoint_memory = np.empty(PLANES * m * (m + 1) if gradients else 0)
    for b in order:
        n = lengths[b]
        s, s_intra = inter[b], intra[b if typed else 0]
        _local_gaps(gaps[b], n, local, reach)
        sparse = _is_sparse(s, s_intra, typed, n)
        chart = _lay(memory, A_T if sparse else 2 * PLANES, n)
        logz[b] = _inside(LOG, sparse, chart, lists, s, s_intra, typed, local, reach, n, root_as_head)
        if gradients and logz[b] > NEG_INF:
            adjoint = _lay(adjoint_memory, A_T if sparse else PLANES, n)
            to_intra = m_intra[b if typed else 0]
            _outside(
                sparse,
                chart,
                lists,
                adjoint,
                s,
                s_intra,
                typed,
                n,
                root_as_head,
                logz[b],
                m_inter[b],
                to_intra,
                boundary[b],
            )


@njit(**_JIT)
def best_sentences(order, inter, intra, typed, gaps, lengths, root_as_head, score, heads, is_intra):  # type: ignore[no-untyped-def]
    """For the sentences in `order`: the best tree and its score."""
    m, lists, local, reach, stack = _workspace(order, lengths)
    memory = np.empty(PLANES * m * (m + 1))
    for b in order:
        n = lengths[b]
        s, s_intra = inter[b], intra[b if typed else 0]
        _local_gaps(gaps[b], n, local, reach)
        sparse = _is_sparse(s, s_intra, typed, n)
        chart = _lay(memory, A_T if sparse else PLANES, n)
        score[b] = _inside(MAX, sparse, chart, lists, s, s_intra, typed, local, reach, n, root_as_head)
        if score[b] > NEG_INF:
            _walk(chart, s, n, root_as_head, score[b], False, stack, heads[b], is_intra[b])


@njit(**_JIT)
def sample_sentences(order, inter, intra, typed, gaps, lengths, root_as_head, seeds, logz, heads, is_intra):  # type: ignore[no-untyped-def]
    """For the sentences in `order`: log Z and independent draws from the distribution over trees."""
    m, lists, local, reach, stack = _workspace(order, lengths)
    memory = np.empty(2 * PLANES * m * (m + 1))
    for b in order:
        n = lengths[b]
        s, s_intra = inter[b], intra[b if typed else 0]
        _local_gaps(gaps[b], n, local, reach)
        sparse = _is_sparse(s, s_intra, typed, n)
        chart = _lay(memory, A_T if sparse else 2 * PLANES, n)
        logz[b] = _inside(LOG, sparse, chart, lists, s, s_intra, typed, local, reach, n, root_as_head)
        if logz[b] > NEG_INF:
            np.random.seed(seeds[b])  # noqa: NPY002
            for m in range(heads.shape[1]):
                _walk(chart, s, n, root_as_head, logz[b], True, stack, heads[b, m], is_intra[b, m])


@njit(**_JIT)
def max_chart(inter, intra, typed, gaps, n, root_as_head):  # type: ignore[no-untyped-def]
    """Return the best score of one sentence and its whole max chart, for the search of the k best trees."""
    _, lists, local, reach, _ = _workspace(np.zeros(1, dtype=np.int64), np.full(1, n))
    chart = np.empty((PLANES, n + 1, n + 2))
    _local_gaps(gaps, n, local, reach)
    best = _inside(MAX, False, chart, lists, inter, intra, typed, local, reach, n, root_as_head)
    return best, chart
