"""Store a trained network in less space: embeddings and other weights as 8-bit numbers with one scale per row.

Embeddings of characters and bigrams are most of a small model's weights but take almost none of its computation. So
storing them at a quarter of the size costs nothing at run time. A row is rounded to 255 levels of its largest absolute
value, with an error of at most 0.4 % of that value. Published scores are those of the exported network.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from collections.abc import Iterable

_LEVELS = 127  # on each side of 0


class CompactEmbedding(nn.Module):
    """Store embeddings as rows of 8-bit numbers with one scale each; cannot be trained further."""

    rows: Tensor
    scales: Tensor

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        scales = weight.detach().abs().amax(dim=1, keepdim=True) / _LEVELS
        rows = weight.detach() / scales.clamp(min=torch.finfo(torch.float32).tiny)
        self.register_buffer("rows", rows.round().to(torch.int8))
        self.register_buffer("scales", scales)

    def forward(self, numbers: Tensor) -> Tensor:
        """Look up rows."""
        return self.rows[numbers].float() * self.scales[numbers]


class CompactLinear(nn.Module):
    """Apply a linear layer whose weights are 8-bit numbers with one scale per row; cannot be trained further.

    The weights become 32-bit numbers when the network is loaded, so it computes as fast as before.
    """

    bias: Tensor | None

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.weight = CompactEmbedding(layer.weight)
        self.register_buffer("bias", None if layer.bias is None else layer.bias.detach())

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer."""
        return nn.functional.linear(x, self.weight.rows.float() * self.weight.scales, self.bias)


def compact(network: nn.Module, names: Iterable[str] = ("chars", "bigrams")) -> None:
    """Replace the tables and linear layers with these names anywhere in a network by compact ones."""
    for module in list(network.modules()):
        for name in names:
            part = getattr(module, name, None)
            if isinstance(part, nn.Embedding):
                setattr(module, name, CompactEmbedding(part.weight))
            elif isinstance(part, nn.Linear):
                setattr(module, name, CompactLinear(part))
