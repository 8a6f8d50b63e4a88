"""Compact embeddings: nearly the same numbers in a quarter of the size."""

from __future__ import annotations

import torch
from torch import nn

from zishu.train.compact import CompactEmbedding, compact


def test_rows_are_rounded_by_their_own_scale() -> None:
    weight = torch.randn(50, 16) * torch.logspace(-6, 3, 50)[:, None]
    weight[3] = 0
    numbers = torch.tensor([[3, 0, 49], [7, 7, 20]])
    found = CompactEmbedding(weight)(numbers)
    bound = weight[numbers].abs().amax(-1, keepdim=True) / 254 * 1.001
    assert ((found - weight[numbers]).abs() <= bound).all()
    assert (found[0, 0] == 0).all()


def test_only_tables_of_characters_and_pairs_change() -> None:
    network = nn.Module()
    network.inner = nn.Module()
    network.inner.chars = nn.Embedding(5, 2)
    network.inner.bigrams = None
    network.inner.distances = nn.Embedding(5, 2)
    compact(network)
    assert isinstance(network.inner.chars, CompactEmbedding)
    assert network.inner.chars.rows.dtype == torch.int8
    assert isinstance(network.inner.distances, nn.Embedding)
