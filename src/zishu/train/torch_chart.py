"""Compute log partition, marginals and best tree of the typed chart as batched torch operations.

This is the twin of `zishu.chart` for scores on a GPU: the same class over the same arrays, as tensors on any device,
with the methods that training needs. The recursions (sections 2.3 and 2.4 of the paper, in the form of
`docs/algorithm.md`) are written once, in `_total`, over a sum that is logsumexp or max. There is no outside pass:
marginals are the gradient of the log partition, and the best tree is the gradient of the best score.

`log_partition` is what a loss needs, on any device: `zishu.chart` for scores in main memory, this class for a GPU. The
derivative of log Z with respect to the score of an arc is the arc's probability, so the backward pass multiplies by the
marginals from the forward pass. In main memory sums are always float64, because a loss is the difference of two large
log partitions. On a GPU, where float64 is slow, they have the precision of the scores.

Cost: O(n^3) work in n steps, each with a fixed number of operations over all spans of one width in the whole batch.
Autograd keeps O(batch n^3) numbers for the gradient of the log partition, and O(batch n^2) for the best tree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import torch
from torch.autograd.function import once_differentiable

from zishu import chart
from zishu.errors import Infeasible
from zishu.gaps import BREAK, FREE, JOIN

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    # By width [direction, role, batch, i], from ROOT, and the shift of the totals.
    _ArcScores = tuple[tuple[Tensor, ...], Tensor, Tensor]

_INF = float("inf")


@dataclass(frozen=True, slots=True)
class Marginals:
    """Hold the log partition and the probability of every arc and every word boundary."""

    logz: Tensor  # batch
    inter: Tensor  # batch d h
    intra: Tensor | None  # batch d h
    boundary: Tensor | None  # batch k


@dataclass(frozen=True, slots=True)
class Trees:
    """Hold one tree per sentence."""

    heads: Tensor  # batch d
    intra: Tensor  # batch d; true if the arc lies inside a word
    score: Tensor  # batch


class TreeDistribution:
    """Represent the distribution over the trees of each sentence of a batch; see `zishu.chart.TreeDistribution`.

    Scores are checked and laid out once, in the constructor. Answers are not cached, because they hold autograd's
    memory.
    """

    def __init__(
        self,
        inter: Tensor,
        lengths: Tensor,
        intra: Tensor | None = None,
        gaps: Tensor | None = None,
        *,
        root_as_head: bool = True,
    ) -> None:
        self._intra, self._lengths, self._gap_scores = _prepare(inter, lengths, intra, gaps)
        self._inter = inter
        self._root_as_head = root_as_head
        self._arc_scores = _lay_out(inter, self._intra, self._lengths, self._gap_scores.shape[-1])

    def log_partition(self) -> Tensor:
        """Sum over all trees of each sentence, in log space; -inf if there is no tree. Differentiable once."""
        return _total(
            self._arc_scores, self._lengths, self._gap_scores, _LogSum.apply, root_as_head=self._root_as_head
        )

    def marginals(self) -> Marginals:
        """Return the probability of every arc and word boundary; zeros if there is no tree."""
        logz, by_inter, by_intra, by_gap = self._gradients(_LogSum.apply)
        boundary = None
        if by_intra is not None:
            # The score of an inter-word arc includes the score of the gap that it owns, so the gap's gradient is the
            # expected number of inter-word arcs that own it: the probability of a word boundary.
            boundary = by_gap.new_zeros(self._inter.shape[:2])
            boundary[:, : by_gap.shape[-1]] = by_gap[-1]
        return Marginals(logz, by_inter, by_intra, boundary)

    def best(self) -> Trees:
        """Return the tree with the highest score of each sentence; raise `Infeasible` if there is none."""
        score, arcs, by_intra, _ = self._gradients(_maximum)
        for sentence in torch.isneginf(score).nonzero().flatten().tolist():
            raise Infeasible(f"sentence {sentence}: no tree satisfies the constraints")
        is_intra = torch.zeros(arcs.shape[:2], dtype=torch.bool, device=arcs.device)
        if by_intra is not None:
            arcs = arcs + by_intra
            is_intra = by_intra.sum(-1) > 0.5
        heads = (arcs * torch.arange(arcs.shape[-1], device=arcs.device)).sum(-1).round().long()
        return Trees(heads, is_intra, score)

    def _gradients(self, plus: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor, Tensor | None, Tensor]:
        """Return the totals and their gradients with respect to scores.

        The scores are those of inter arcs, intra arcs and gaps [role, batch, k]. The caller may be in any gradient mode.
        """
        # A tensor made in inference mode takes part in no gradient; a clone made outside does.
        with torch.inference_mode(mode=False), torch.enable_grad():
            # `intra` may be the same tensor as `inter`; separate leaves keep the two roles apart.
            inter, gap_scores = (x.detach().clone().requires_grad_() for x in (self._inter, self._gap_scores))
            intra = None if self._intra is None else self._intra.detach().clone().requires_grad_()
            lengths = self._lengths.clone()
            arc_scores = _lay_out(inter, intra, lengths, gap_scores.shape[-1])
            total = _total(arc_scores, lengths, gap_scores, plus, root_as_head=self._root_as_head)
            leaves = [inter, gap_scores] if intra is None else [inter, gap_scores, intra]
            by_inter, by_gap, *by_intra = torch.autograd.grad(total.sum(), leaves)
        return total.detach(), by_inter, by_intra[0] if by_intra else None, by_gap


def _total(
    laid_out: _ArcScores,
    lengths: Tensor,
    gap_scores: Tensor,
    plus: Callable[[Tensor], Tensor],
    *,
    root_as_head: bool,
) -> Tensor:
    """Return the total of each sentence by the inside recursion; `plus` sums over the last dimension.

    Tables are [role, batch, i] or [direction, role, batch, i] for the spans (i, j) of one width w = j - i.
    Roles are intra and inter, only inter in the untyped chart. Directions are right, i->j, and left, i<-j.
    """
    arc_scores, root_scores, shift = laid_out
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
        arcs = arc_scores[w][..., : n - w] + plus(link_start + link_end)

        # a   (i->j) = SUM_k Ihat(i->k) (x) a(k->j)
        # c   (i->j) = SUM_k I(i->k) (x) t(k->j)   [ (+) SUM_k Ihat(i->k) (x) c(k->j)  root-as-head off ]
        if roles == 3:
            arcs = torch.cat([arcs, arcs[:, :1]], 1)
        span_start = _grow_start(span_start, torch.stack([arcs[0], left[..., :-1]]))
        span_end = _grow_end(span_end, torch.stack([right[..., 1:], arcs[1]]))
        spans = plus(span_start + span_end)
        if typed:  # from a, c and the bracket to a, t = a (+) c and c
            tables = [spans[:, 0], plus(spans.movedim(1, -1))]
            if roles == 3:
                tables.append(plus(spans[:, 1:].movedim(1, -1)))
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
    return plus(root_scores + gap_scores[-1, :, :1] + left[:, first] + right) + shift


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


def _maximum(x: Tensor) -> Tensor:
    """Sum in the max semiring over the last dimension.

    Its derivative follows one argument even in a tie (that of `amax` is shared), so that the gradient of the best score
    is exactly one tree.
    """
    return x.max(-1).values


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


def _prepare(
    inter: Tensor, lengths: Tensor, intra: Tensor | None, gaps: Tensor | None
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

    dtype = torch.promote_types(inter.dtype, torch.float32)
    if gaps is not None:
        gaps = gaps.to(inter.device)[:, :n]
        index = torch.arange(n, device=inter.device)
        gaps = gaps.masked_fill((index == 0) | (index >= lengths[:, None]), BREAK)
        if not bool(((gaps == FREE) | (gaps == JOIN) | (gaps == BREAK)).all()):
            raise ValueError("gaps must be FREE, JOIN or BREAK")
    if intra is None and gaps is not None:
        if bool((gaps == FREE).any()):
            raise ValueError("without intra scores, gaps must be all known (JOIN or BREAK) or None")
        intra = inter
    if intra is None:
        return None, lengths, torch.zeros(1, batch, n, dtype=dtype, device=inter.device)
    scores = torch.zeros(2, batch, n, dtype=dtype, device=inter.device)
    if gaps is not None:
        scores.masked_fill_(torch.stack([gaps == BREAK, gaps == JOIN]), -_INF)
    return intra, lengths, scores


# --- the backend for the device of the scores ---------------------------------------------------------------------


def log_partition(
    inter: Tensor,
    lengths: Tensor,
    intra: Tensor | None = None,
    gaps: NDArray[np.int8] | None = None,
    *,
    root_as_head: bool = True,
) -> Tensor:
    """Return log Z of every sentence, float64, with gradients; arguments as for a `TreeDistribution`."""
    if inter.device.type != "cpu":
        known = None if gaps is None else torch.as_tensor(gaps, device=inter.device)
        trees = TreeDistribution(inter, lengths, intra, known, root_as_head=root_as_head)
        return trees.log_partition().double()
    logz: Tensor = _LogPartition.apply(inter, intra, lengths, gaps, root_as_head)  # type: ignore[no-untyped-call]
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
