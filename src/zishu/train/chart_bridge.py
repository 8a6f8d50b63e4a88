"""Differentiate the log partition: `zishu.chart` for scores in main memory, `zishu.train.torch_chart` for a GPU.

The derivative of log Z with respect to the score of an arc is the arc's probability, so the backward pass multiplies by the
marginals from the forward pass. In main memory sums are always float64, because a loss is the difference of two large
log partitions. On a GPU, where float64 is slow, they have the precision of the scores.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from zishu import chart
from zishu.train import torch_chart

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor


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
        trees = torch_chart.TreeDistribution(inter, lengths, intra, known, root_as_head=root_as_head)
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
