"""The optimiser Muon: its updates are orthogonal, and it finds a minimum."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from zishu.train.optimisation import Muon, orthogonalise, split_weights


@pytest.mark.parametrize("shape", [(2, 8, 8), (1, 6, 20), (3, 20, 6)])
def test_singular_values_become_about_one(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    matrices = torch.randn(shape, dtype=torch.float64)
    left, _, right = torch.linalg.svd(matrices, full_matrices=False)
    found = orthogonalise(matrices)
    values = torch.linalg.svdvals(found)
    assert float(values.min()) > 0.3
    assert float(values.max()) < 1.3
    # The singular vectors stay: in their own basis the result is diagonal and positive.
    inner = left.transpose(1, 2) @ found @ right.transpose(1, 2)
    off = inner - torch.diag_embed(inner.diagonal(dim1=1, dim2=2))
    assert float(off.abs().max()) < 1e-6
    assert float(inner.diagonal(dim1=1, dim2=2).min()) > 0


def test_it_fits_a_linear_map() -> None:
    torch.manual_seed(0)
    wanted = torch.randn(6, 4)
    weight = nn.Parameter(torch.zeros(6, 4))
    optimiser = Muon([weight], lr=0.05)
    losses = []
    for step in range(200):
        optimiser.param_groups[0]["lr"] = 0.05 * (1 - step / 200)
        loss = ((weight - wanted) ** 2).sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.01 * losses[0]


def test_only_linear_maps_of_the_layers_are_its_own() -> None:
    network = nn.ModuleDict(
        {"layers": nn.Sequential(nn.Linear(3, 5), nn.LayerNorm(5)), "out": nn.Linear(5, 2)}
    )
    matrices, others = split_weights(network["layers"], network)
    assert [weight.shape for weight in matrices] == [(5, 3)]
    assert len(matrices) + len(others) == len(list(network.parameters()))
