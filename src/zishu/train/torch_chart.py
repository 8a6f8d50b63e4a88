"""Compute log partitions with gradients: what a loss needs, for scores on any device.

In main memory `zishu.chart` does the work. The derivative of log Z with respect to the score of an arc is the arc's
probability, so the backward pass multiplies by the marginals from the forward pass. Sums are always float64, because a
loss is the difference of two large log partitions.

On a GPU the same recursion (sections 2.3 and 2.4 of the paper, in the form of `docs/algorithm.md`) runs as batched
operations of torch, which derives the gradient itself. There float64 is slow, so sums have the precision of the scores.

Cost of the batched operations: O(n^3) work in n steps, each with a fixed number of operations over all spans of one
width in the whole batch. Autograd keeps O(batch n^3) numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import torch
from torch.autograd.function import once_differentiable

from zishu import chart
from zishu.gaps import BREAK, FREE, JOIN

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    # By width [direction, role, batch, i], from ROOT, and the shift of the totals.
    _ArcScores = tuple[tuple[Tensor, ...], Tensor, Tensor]

_INF = float("inf")


def log_partition(
    inter: Tensor,
    lengths: Tensor,
    intra: Tensor | None = None,
    gaps: NDArray[np.int8] | None = None,
    *,
    root_as_head: bool = True,
) -> Tensor:
    """Return log Z of every sentence, float64, with gradients; arguments as for `zishu.chart.TreeDistribution`."""
    logz: Tensor
    if inter.device.type == "cpu":
        logz = _LogPartition.apply(inter, intra, lengths, gaps, root_as_head)  # type: ignore[no-untyped-call]
    else:
        logz = batched_log_partition(inter, lengths, intra, gaps, root_as_head=root_as_head).double()
    return logz


class _LogPartition(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        inter: Tensor,
        intra: Tensor | None,
        lengths: Tensor,
        gaps: NDArray[np.int8] | None,
        root_as_head: bool,
    ) -> Tensor:
        trees = chart.TreeDistribution(
            inter.detach().numpy(),
            lengths.numpy(),
            None if intra is None else intra.detach().numpy(),
            gaps,
            root_as_head=root_as_head,
        )
        if any(ctx.needs_input_grad[:2]):
            found = trees.marginals()
            to_inter, to_intra = found.inter, found.intra
            if intra is None and to_intra is not None:
                # One score serves both roles: its derivative is the probability of the arc in either role.
                to_inter, to_intra = to_inter + to_intra, None
            # Copied, because answers are read-only and tensors must not be.
            ctx.probabilities = torch.tensor(to_inter), None if to_intra is None else torch.tensor(to_intra)
        return torch.tensor(trees.log_partition())

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        to_inter, to_intra = ctx.probabilities
        weight = upstream[0][:, None, None]
        return (
            to_inter * weight.to(to_inter.dtype),
            None if to_intra is None else to_intra * weight.to(to_intra.dtype),
            None,
            None,
            None,
        )


# --- on a GPU -----------------------------------------------------------------------------------------------------


def batched_log_partition(
    inter: Tensor,
    lengths: Tensor,
    intra: Tensor | None = None,
    gaps: NDArray[np.int8] | None = None,
    *,
    root_as_head: bool = True,
) -> Tensor:
    """Return log Z of every sentence by the inside recursion, -inf if there is no tree; differentiable once.

    Tables are [role, batch, i] or [direction, role, batch, i] for the spans (i, j) of one width w = j - i.
    Roles are intra and inter, only inter in the untyped chart. Directions are right, i->j, and left, i<-j.
    """
    intra, lengths, gap_scores = _prepare(inter, lengths, intra, gaps)
    arc_scores, root_scores, shift = _lay_out(inter, intra, lengths, gap_scores.shape[-1])
    roles, batch, n = gap_scores.shape
    typed = roles == 2

    # The two sides of all splits of all spans of one width are two tables with an extra dimension for k. A start table
    # has one row per i and grows to the right, an end table one row per j and grows to the left. Each loses one row
    # with every width, so that row i always belongs to the span (i, i + w).
    if typed and not root_as_head:
        roles = 3  # spans of t; of a, t; of a, t, c
    t = 1 if typed else 0
    spans = arc_scores[0].new_zeros(2, roles, batch, n)  # a(i,i) = t(i,i) = 1
    if roles == 3:
        spans[:, 2] = -_INF  # c(i,i) = 0
    span_start = span_end = spans.new_zeros(2, roles, batch, n, 0)
    link_start = link_end = span_start[0, :2]
    inside = [spans[:, t]]
    for w in range(1, n):
        right, left = spans  # spans of width w - 1

        # Ihat(i->j) = s_intra(i,j) (x) SUM_k a(i->k) (x) a(k+1<-j)          gap k not BREAK
        # I   (i->j) = s_inter(i,j) (x) SUM_k t(i->k) (x) t(k+1<-j)          gap k not JOIN
        link_start = _grow_start(link_start, right[:2, :, :-1] + gap_scores[..., w:])
        link_end = _grow_end(link_end, left[:2, :, 1:])
        arcs = arc_scores[w][..., : n - w] + _log_sum(link_start + link_end)

        # a   (i->j) = SUM_k Ihat(i->k) (x) a(k->j)
        # c   (i->j) = SUM_k I(i->k) (x) t(k->j)   [ (+) SUM_k Ihat(i->k) (x) c(k->j)  root-as-head off ]
        if roles == 3:
            arcs = torch.cat([arcs, arcs[:, :1]], 1)
        span_start = _grow_start(span_start, torch.stack([arcs[0], left[..., :-1]]))
        span_end = _grow_end(span_end, torch.stack([right[..., 1:], arcs[1]]))
        spans = _log_sum(span_start + span_end)
        if typed:  # from a, c and the bracket to a, t = a (+) c and c
            tables = [spans[:, 0], _log_sum(spans.movedim(1, -1))]
            if roles == 3:
                tables.append(_log_sum(spans[:, 1:].movedim(1, -1)))
            spans = torch.stack(tables, 1)
        inside.append(spans[:, t])

    # Z = SUM_r s_inter(0,r) (x) t(1<-r) (x) t(r->n)                     the arc owns gap 0
    # t(1<-r) is the first span of width r - 1, and t(r->n) is span r of width n - r, where n is the length of
    # the sentence; `first` is where each width begins when all are laid one after the other.
    right, left = torch.cat(inside, -1)
    width = torch.arange(n, device=lengths.device)
    first = width * n - width * (width - 1) // 2
    to_end = lengths[:, None] - 1 - width
    right = right.gather(1, first[to_end.clamp(min=0)] + width)
    return _log_sum(root_scores + gap_scores[-1, :, :1] + left[:, first] + right) + shift


def _grow_start(table: Tensor, column: Tensor) -> Tensor:
    """Add the longest subspans that begin at each i, and drop the row of the last i."""
    return torch.cat([table[..., :-1, :], column[..., None]], -1)


def _grow_end(table: Tensor, column: Tensor) -> Tensor:
    """Add the longest subspans that end at each j, and drop the row of the first j."""
    return torch.cat([column[..., None], table[..., 1:, :]], -1)


class _LogSum(torch.autograd.Function):
    """Sum in the log semiring over the last dimension; if all terms are -inf, the gradient is zero."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        top = x.amax(-1, keepdim=True)
        top = top.masked_fill(torch.isneginf(top), 0.0)
        weights = (x - top).exp_()
        mass = weights.sum(-1, keepdim=True)
        # The mass is at least 1 unless it is 0.
        ctx.save_for_backward(weights.div_(mass.clamp(min=1.0)))
        return (mass.log_() + top).squeeze(-1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (weights,) = ctx.saved_tensors
        return cast("Tensor", gradient[..., None] * weights)


def _log_sum(x: Tensor) -> Tensor:
    """Sum in the log semiring over the last dimension."""
    return cast("Tensor", _LogSum.apply(x))  # type: ignore[no-untyped-call]


def _prepare(
    inter: Tensor, lengths: Tensor, intra: Tensor | None, gaps: NDArray[np.int8] | None
) -> tuple[Tensor | None, Tensor, Tensor]:
    """Check the arguments; return intra scores (None: untyped), lengths, scores of gaps [role, batch, k]."""
    batch, size = inter.shape[0], inter.shape[-1]
    if inter.dim() != 3 or inter.shape[1] != size or not inter.is_floating_point():
        raise ValueError(
            f"inter must be floating point [batch, N+1, N+1], got {inter.dtype} {tuple(inter.shape)}"
        )
    if intra is not None and intra.shape != inter.shape:
        raise ValueError(f"intra has shape {tuple(intra.shape)}, inter {tuple(inter.shape)}")
    if gaps is not None and gaps.shape != inter.shape[:2]:
        raise ValueError(f"gaps must be [batch, N+1] = {tuple(inter.shape[:2])}, got {tuple(gaps.shape)}")
    if lengths.shape != (batch,):
        raise ValueError(f"lengths must be [batch] = {(batch,)}, got {tuple(lengths.shape)}")
    lengths = lengths.to(inter.device, torch.long)
    n = int(lengths.max()) if batch else 1
    if batch and not 1 <= int(lengths.min()) <= n < size:
        raise ValueError(f"lengths must lie in 1..{size - 1}")

    known = None
    if gaps is not None:
        known = torch.as_tensor(gaps, device=inter.device)[:, :n]
        index = torch.arange(n, device=inter.device)
        known = known.masked_fill((index == 0) | (index >= lengths[:, None]), BREAK)
        if not bool(((known == FREE) | (known == JOIN) | (known == BREAK)).all()):
            raise ValueError("gaps must be FREE, JOIN or BREAK")
        if intra is None and bool((known == FREE).any()):
            raise ValueError("without intra scores, gaps must be all known (JOIN or BREAK) or None")
        intra = inter if intra is None else intra
    dtype = torch.promote_types(inter.dtype, torch.float32)
    scores = torch.zeros(1 if intra is None else 2, batch, n, dtype=dtype, device=inter.device)
    if known is not None:
        scores.masked_fill_(torch.stack([known == BREAK, known == JOIN]), -_INF)
    return intra, lengths, scores


def _lay_out(inter: Tensor, intra: Tensor | None, lengths: Tensor, n: int) -> _ArcScores:
    """Return the scores of arcs by width [direction, role, batch, i] and from ROOT, and the total's shift."""
    index = torch.arange(n + 1, device=inter.device)
    outside = index > lengths[:, None]  # batch n+1
    # Entries that are not arcs become -inf, so that nothing in them, not even NaN, reaches a value or a gradient.
    no_arc = (
        outside[:, :, None] | outside[:, None, :] | torch.eye(n + 1, dtype=torch.bool, device=inter.device)
    )
    # ROOT is the head of no intra-word arc.
    forbidden = [no_arc] if intra is None else [no_arc | (index == 0), no_arc]
    scores = torch.stack([inter] if intra is None else [intra, inter])[:, :, : n + 1, : n + 1]
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    scores = scores.masked_fill(torch.stack(forbidden), -_INF)

    # Every character has one head. So subtracting its best score from the scores of all its heads changes no tree's
    # probability, and keeps the numbers of a long sentence small enough for float32.
    best = scores.detach()[:, :, 1:, :].amax(3).amax(0)  # batch d
    for sentence in (~(best < _INF)).any(1).nonzero().flatten().tolist():
        raise ValueError(f"sentence {sentence}: scores must not be NaN or +inf")
    best = best.masked_fill(torch.isneginf(best), 0.0)
    scores = scores[:, :, 1:, :] - best[:, :, None]

    # All diagonals have equal length: the part of one beyond the matrix wraps around and is not read.
    low, width = index[:n], index[:n, None]
    high = (low + width) % n
    diagonals = torch.stack([high * (n + 1) + low + 1, low * (n + 1) + high + 1])  # direction width i
    by_width = scores.flatten(2).index_select(2, diagonals.flatten())
    by_width = by_width.view(*by_width.shape[:2], 2, n, n)
    return by_width.permute(3, 2, 0, 1, 4).unbind(0), scores[-1, :, :, 0], best.sum(-1)
