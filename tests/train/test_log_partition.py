"""The log partition as torch sees it: values, gradients, and what is not copied."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from zishu import chart
from zishu.gaps import BREAK, FREE, JOIN
from zishu.train import torch_chart
from zishu.train.torch_chart import log_partition

LENGTHS = torch.tensor([4, 2])
PARTIAL = np.array([[BREAK, FREE, JOIN, FREE, FREE], [BREAK, BREAK, FREE, FREE, FREE]], dtype=np.int8)
FULL = np.array([[BREAK, JOIN, BREAK, JOIN, FREE], [BREAK, BREAK, FREE, FREE, FREE]], dtype=np.int8)


def scores(seed, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(2, 5, 5, generator=generator, dtype=dtype).requires_grad_()


@pytest.mark.parametrize("root_as_head", [True, False])
@pytest.mark.parametrize("gaps", [None, PARTIAL, FULL], ids=["free", "partial", "full"])
def test_gradients_of_a_typed_chart_are_those_of_finite_differences(gaps, root_as_head):
    def f(inter, intra):
        return log_partition(inter, LENGTHS, intra, gaps, root_as_head=root_as_head)

    assert torch.autograd.gradcheck(f, (scores(0), scores(1)))


@pytest.mark.parametrize("gaps", [None, FULL], ids=["untyped", "full"])
def test_gradients_of_one_score_for_both_roles(gaps):
    assert torch.autograd.gradcheck(lambda s: log_partition(s, LENGTHS, None, gaps), (scores(0),))


def test_float32_scores_give_a_float64_sum_and_float32_gradients():
    inter, intra = scores(0, torch.float32), scores(1, torch.float32)
    logz = log_partition(inter, LENGTHS, intra)
    logz.sum().backward()
    assert logz.dtype == torch.float64
    assert inter.grad.dtype == intra.grad.dtype == torch.float32
    # One head each: the probabilities of the arcs into a character sum to 1.
    assert torch.allclose((inter.grad + intra.grad)[0, 1:].sum(-1), torch.ones(4))


def test_forbidden_arcs_get_no_gradient():
    inter = scores(0).detach().clone()
    inter[0, 2, 1] = -torch.inf
    inter.requires_grad_()
    log_partition(inter, LENGTHS, scores(1)).sum().backward()
    assert inter.grad[0, 2, 1] == 0
    assert torch.isfinite(inter.grad).all()


def test_no_gradients_are_computed_when_none_are_asked_for(monkeypatch):
    def fail(*_, **__):
        raise AssertionError("the outside pass was not needed")

    monkeypatch.setattr(chart.TreeDistribution, "marginals", fail)
    with torch.inference_mode():
        inter = torch.zeros(1, 4, 4)
        assert torch.allclose(
            log_partition(inter, torch.tensor([3]), inter).exp(), torch.tensor([22.0]).double()
        )


def test_scores_are_handed_to_the_chart_without_a_copy(monkeypatch):
    seen = []

    class Spy(chart.TreeDistribution):
        def __init__(self, inter, *arguments, **options):
            seen.append(inter)
            super().__init__(inter, *arguments, **options)

    monkeypatch.setattr(chart, "TreeDistribution", Spy)
    inter = scores(0, torch.float32).detach()
    log_partition(inter, LENGTHS)
    assert np.shares_memory(seen[0], inter.numpy())


def test_both_backends_agree():
    ours, theirs = [scores(0), scores(1)], [scores(0), scores(1)]
    a = log_partition(ours[0], LENGTHS, ours[1], PARTIAL)
    b = torch_chart.TreeDistribution(theirs[0], LENGTHS, theirs[1], torch.from_numpy(PARTIAL)).log_partition()
    assert torch.allclose(a, b)
    a.sum().backward()
    b.sum().backward()
    assert all(torch.allclose(x.grad, y.grad) for x, y in zip(ours, theirs, strict=True))
