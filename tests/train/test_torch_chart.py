"""Compare the torch chart with enumeration, with finite differences and with the Numba chart."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from zishu import chart
from zishu.errors import Infeasible
from zishu.train import torch_chart
from zishu.train.torch_chart import TreeDistribution


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Keep to one thread: on operations this small several only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


KINDS = ("untyped", "given words", "free", "partial", "full")


@dataclass(frozen=True)
class Problem:
    """Hold a batch of sentences of mixed lengths with random scores and known gaps."""

    inter: torch.Tensor
    lengths: torch.Tensor
    intra: torch.Tensor | None
    gaps: torch.Tensor | None
    root_as_head: bool

    def trees(self, backend=torch_chart, **changes):
        """Make the distribution, with some of its arguments changed."""
        fields = {"inter": self.inter, "lengths": self.lengths, "intra": self.intra, "gaps": self.gaps}
        return backend.TreeDistribution(**(fields | changes), root_as_head=self.root_as_head)

    def each(self, function):
        """Call a function of the oracle for each sentence."""
        intra = [None] * len(self.lengths) if self.intra is None else self.intra.tolist()
        gaps = [None] * len(self.lengths) if self.gaps is None else self.gaps.tolist()
        sentences = zip(self.inter.tolist(), self.lengths.tolist(), intra, gaps, strict=True)
        return [function(*sentence, root_as_head=self.root_as_head) for sentence in sentences]


def make_problem(kind, lengths, seed, *, forbidden=0.0, scale=1.0, root_as_head=True, dtype=torch.float64):
    random = np.random.default_rng(seed)
    shape = (len(lengths), max(lengths) + 1 + seed % 2, max(lengths) + 1 + seed % 2)

    def scores():
        values = random.normal(size=shape) * scale
        values[random.random(shape) < forbidden] = -np.inf
        return torch.tensor(values, dtype=dtype)

    low = {"given words": 1, "partial": 0, "full": 1}
    return Problem(
        scores(),
        torch.tensor(lengths),
        None if kind in ("untyped", "given words") else scores(),
        torch.tensor(random.integers(low[kind], 3, shape[:2]), dtype=torch.int8) if kind in low else None,
        root_as_head,
    )


problems = st.builds(
    make_problem,
    st.sampled_from(KINDS),
    st.lists(st.integers(1, 5), min_size=1, max_size=4),
    st.integers(0, 2**32 - 1),
    forbidden=st.sampled_from([0.0, 0.2, 0.6]),
    scale=st.sampled_from([1.0, 10.0]),
    root_as_head=st.booleans(),
)


def padded(rows, size):
    """Turn nested lists of several lengths into one array, with zeros around them."""
    result = np.zeros((len(rows), *size))
    for b, row in enumerate(rows):
        part = np.array(row)
        result[(b, *map(slice, part.shape))] = part
    return result


@pytest.mark.parametrize(
    ("root_as_head", "counts"), [(True, [1, 4, 22, 138, 933]), (False, [1, 4, 24, 166, 1240])]
)
def test_counts_of_typed_trees(root_as_head, counts):
    zeros = torch.zeros(5, 6, 6, dtype=torch.float64)
    trees = TreeDistribution(zeros, torch.arange(1, 6), zeros, root_as_head=root_as_head)
    np.testing.assert_allclose(trees.log_partition().exp(), counts)


def test_counts_of_trees_without_roles():
    zeros = torch.zeros(6, 7, 7, dtype=torch.float64)
    logz = TreeDistribution(zeros, torch.arange(1, 7)).log_partition()
    np.testing.assert_allclose(logz.exp(), [len(oracle.trees(n)) for n in range(1, 7)])


@given(problems)
@settings(max_examples=60, deadline=None)
def test_marginals_against_enumeration(problem):
    expected = problem.each(oracle.marginals)
    found = problem.trees().marginals()
    size = problem.inter.shape[1:]
    np.testing.assert_allclose(found.logz, [m.logz for m in expected], atol=1e-9)
    np.testing.assert_array_equal(problem.trees().log_partition(), found.logz)
    np.testing.assert_allclose(found.inter, padded([m.inter for m in expected], size), atol=1e-9)
    if expected[0].intra is None:
        assert found.intra is None
        assert found.boundary is None
    else:
        np.testing.assert_allclose(found.intra, padded([m.intra for m in expected], size), atol=1e-9)
        np.testing.assert_allclose(
            found.boundary, padded([m.boundary for m in expected], size[:1]), atol=1e-9
        )


@given(problems)
@settings(max_examples=60, deadline=None)
def test_best_tree_against_enumeration(problem):
    expected = problem.each(oracle.best)
    if None in expected:
        with pytest.raises(Infeasible, match=f"sentence {expected.index(None)}\\b"):
            problem.trees().best()
        return
    found = problem.trees().best()
    np.testing.assert_allclose(found.score, [score for score, _ in expected], atol=1e-9)
    for b, (n, (_, best)) in enumerate(zip(problem.lengths.tolist(), expected, strict=True)):
        heads, intra = found.heads[b].tolist(), found.intra[b].tolist()
        assert oracle.TypedTree(tuple(heads[1 : n + 1]), tuple(intra[1 : n + 1])) in best
        assert heads[0] == 0
        assert not any(heads[n + 1 :])
        assert not any(intra[:1] + intra[n + 1 :])


@pytest.mark.parametrize("root_as_head", [True, False])
def test_six_characters_against_enumeration(root_as_head):
    problem = make_problem("partial", [6], 11, root_as_head=root_as_head)
    (expected,), found = problem.each(oracle.marginals), problem.trees().marginals()
    np.testing.assert_allclose(found.logz, [expected.logz])
    np.testing.assert_allclose(found.boundary[0, :6], expected.boundary, atol=1e-9)


@pytest.mark.parametrize("root_as_head", [True, False])
@pytest.mark.parametrize("gaps", [None, [2, 0, 1, 0, 2, 2]])
def test_ties_still_give_one_legal_tree(gaps, root_as_head):
    zeros = torch.zeros(1, 6, 6)
    gaps = None if gaps is None else torch.tensor([gaps], dtype=torch.int8)
    found = TreeDistribution(zeros, torch.tensor([5]), zeros, gaps, root_as_head=root_as_head).best()
    tree = oracle.TypedTree(tuple(found.heads[0, 1:].tolist()), tuple(found.intra[0, 1:].tolist()))
    known = None if gaps is None else gaps[0].tolist()
    assert tree in oracle.typed_trees(5, known, root_as_head=root_as_head)


@pytest.mark.parametrize("root_as_head", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_gradient_against_finite_differences(kind, root_as_head):
    problem = make_problem(kind, [3, 1, 2], 4, root_as_head=root_as_head)
    scores = [problem.inter] if problem.intra is None else [problem.inter, problem.intra]

    def logz(inter, intra=None):
        return problem.trees(inter=inter, intra=intra).log_partition()

    assert torch.autograd.gradcheck(logz, [s.clone().requires_grad_() for s in scores])


def test_one_matrix_for_both_roles_gets_both_gradients():
    problem = make_problem("given words", [5, 4], 3)
    inter = problem.inter.clone().requires_grad_()
    problem.trees(inter=inter).log_partition().sum().backward()
    expected = problem.trees().marginals()
    np.testing.assert_allclose(inter.grad, expected.inter + expected.intra, atol=1e-12)
    heads_per_character = inter.grad.sum(-1)
    np.testing.assert_allclose(heads_per_character[0, 1:6], 1.0)


def test_infeasible_sentence_leaves_no_trace_in_the_others():
    problem = make_problem("full", [4, 4], 8)
    inter, intra = problem.inter.clone(), problem.intra.clone()
    inter[0, :, 0] = -math.inf  # nothing may hang from ROOT
    inter.requires_grad_()
    intra.requires_grad_()
    logz = problem.trees(inter=inter, intra=intra).log_partition()
    assert logz[0] == -math.inf
    logz.sum().backward()
    alone = problem.trees().marginals()
    assert not inter.grad[0].any()
    assert not intra.grad[0].any()
    np.testing.assert_allclose(inter.grad[1], alone.inter[1])
    np.testing.assert_allclose(intra.grad[1], alone.intra[1])
    assert problem.trees(inter=inter, intra=intra).marginals().boundary[0].sum() == 0.0
    with pytest.raises(Infeasible, match=r"sentence 0\b"):
        problem.trees(inter=inter, intra=intra).best()


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_not_an_arc_is_never_read(kind):
    problem = make_problem(kind, [5, 2, 1], 4)
    clean = problem.trees().marginals()
    dirty = []
    for scores in (problem.inter, problem.intra):
        if scores is not None:
            scores = scores.clone()
            scores[:, 0, :] = math.nan
            scores[:, range(6), range(6)] = math.nan
            for b, n in enumerate(problem.lengths.tolist()):
                scores[b, n + 1 :, :] = math.nan
                scores[b, :, n + 1 :] = math.nan
            if dirty:
                scores[:, :, 0] = math.inf
        dirty.append(scores)
    found = problem.trees(inter=dirty[0], intra=dirty[1]).marginals()
    np.testing.assert_allclose(found.logz, clean.logz)
    np.testing.assert_allclose(found.inter, clean.inter, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", KINDS)
def test_large_scores(kind, dtype):
    problem = make_problem(kind, [40, 27, 1], 2, scale=1e4, dtype=dtype)
    found, best = problem.trees().marginals(), problem.trees().best()
    assert torch.isfinite(found.logz).all()
    # At this scale the best tree has nearly all the mass.
    np.testing.assert_allclose(found.logz, best.score, rtol=1e-5)
    arcs = found.inter if found.intra is None else found.inter + found.intra
    for b, n in enumerate(problem.lengths.tolist()):
        np.testing.assert_allclose(arcs[b, 1 : n + 1].sum(-1), 1.0, rtol=1e-4)


def test_float32_follows_float64_on_long_sentences():
    single, double = (
        make_problem("free", [100], 0, scale=5.0, dtype=t) for t in (torch.float32, torch.float64)
    )
    found, expected = single.trees().marginals(), double.trees().marginals()
    np.testing.assert_allclose(found.inter, expected.inter, atol=2e-4)
    np.testing.assert_allclose(found.boundary, expected.boundary, atol=2e-4)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_works_without_gradients(mode):
    problem = make_problem("partial", [5, 3], 6)
    expected = problem.trees().marginals()
    with mode():
        clone = {"inter": problem.inter.clone(), "intra": problem.intra.clone(), "gaps": problem.gaps.clone()}
        found = problem.trees(**clone).marginals()
        assert torch.equal(problem.trees(**clone).log_partition(), expected.logz)
        problem.trees(**clone).best()
    assert torch.equal(found.boundary, expected.boundary)


def test_half_precision_is_summed_in_single():
    problem = make_problem("free", [6, 4], 9, dtype=torch.float32)
    half = {"inter": problem.inter.bfloat16(), "intra": problem.intra.bfloat16()}
    single = {name: scores.float() for name, scores in half.items()}
    found, expected = (problem.trees(**scores).marginals() for scores in (half, single))
    assert found.logz.dtype == torch.float32
    assert torch.equal(found.logz, expected.logz)
    np.testing.assert_allclose(found.inter.float(), expected.inter, atol=1e-2)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("inter", torch.zeros(1, 5, 5, dtype=torch.int64)),
        ("inter", torch.zeros(1, 5, 6)),
        ("intra", torch.zeros(1, 6, 6)),
        ("gaps", torch.zeros(1, 4, dtype=torch.int8)),
        ("lengths", torch.tensor([5])),
        ("lengths", torch.tensor([0])),
        ("lengths", torch.tensor([4, 4])),
    ],
)
def test_refuses_shapes_that_do_not_fit(name, value):
    fitting = {"inter": torch.zeros(1, 5, 5), "intra": torch.zeros(1, 5, 5), "lengths": torch.tensor([4])}
    TreeDistribution(**fitting)
    with pytest.raises(ValueError, match=name):
        TreeDistribution(**(fitting | {name: value}))


@pytest.mark.parametrize("gaps", [[2, 0, 1, 0], [0, 0, 0, 0]])
def test_one_role_needs_all_gaps_or_none(gaps):
    with pytest.raises(ValueError, match="gaps must be all known"):
        TreeDistribution(torch.zeros(1, 4, 4), torch.tensor([3]), gaps=torch.tensor([gaps], dtype=torch.int8))


def test_refuses_a_gap_of_no_meaning():
    zeros, lengths = torch.zeros(1, 4, 4), torch.tensor([3])
    ignored = TreeDistribution(zeros, lengths, zeros, torch.tensor([[7, 0, 0, 7]])).log_partition()
    np.testing.assert_allclose(ignored.exp(), [22.0], rtol=1e-6)
    with pytest.raises(ValueError, match="FREE, JOIN or BREAK"):
        TreeDistribution(zeros, lengths, zeros, torch.tensor([[2, 0, 7, 0]]))


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("name", ["inter", "intra"])
def test_refuses_scores_that_are_no_numbers(name, value):
    problem = make_problem("free", [4, 5, 3], 0)
    scores = getattr(problem, name).clone()
    scores[1, 2, 3] = value
    with pytest.raises(ValueError, match=r"sentence 1\b"):
        problem.trees(**{name: scores})


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("root_as_head", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_same_results_as_numba(kind, root_as_head, dtype):
    problem = make_problem(kind, [25, 1, 14, 2, 19], 1, scale=3.0, root_as_head=root_as_head, dtype=dtype)
    tensors = {
        "inter": problem.inter,
        "lengths": problem.lengths,
        "intra": problem.intra,
        "gaps": problem.gaps,
    }
    arrays = {name: None if tensor is None else tensor.numpy() for name, tensor in tensors.items()}
    tolerance = {"rtol": 1e-4, "atol": 1e-4} if dtype == torch.float32 else {"rtol": 1e-9, "atol": 1e-9}

    np.testing.assert_allclose(
        problem.trees().log_partition(), problem.trees(chart, **arrays).log_partition(), **tolerance
    )
    found, expected = problem.trees().marginals(), problem.trees(chart, **arrays).marginals()
    for name in ("logz", "inter", "intra", "boundary"):
        if getattr(expected, name) is None:
            assert getattr(found, name) is None
        else:
            np.testing.assert_allclose(getattr(found, name), getattr(expected, name), **tolerance)
    tree, expected_tree = problem.trees().best(), problem.trees(chart, **arrays).best()
    np.testing.assert_allclose(tree.score, expected_tree.score, **tolerance)
    np.testing.assert_array_equal(tree.heads, expected_tree.heads)
    np.testing.assert_array_equal(tree.intra, expected_tree.intra)


@pytest.mark.parametrize("scale", [1.0, 3.0, 8.0])
@pytest.mark.parametrize("gaps", ["free", "partial", "full"])
def test_long_sentences_as_with_numba(gaps, scale):
    """Numba sums weights where nothing is lost, and logarithms otherwise; torch always sums logarithms."""
    problem = make_problem(gaps, [160], 5, scale=scale)
    assert problem.intra is not None
    for unlikely in (0.0, 6.0, 20.0):  # long words, which then have almost no weight
        fields = {"inter": problem.inter, "lengths": problem.lengths, "gaps": problem.gaps}
        fields["intra"] = problem.intra - unlikely
        found = TreeDistribution(**fields).marginals()
        arrays = {name: x if x is None else x.numpy() for name, x in fields.items()}
        expected = chart.TreeDistribution(**arrays).marginals()
        for name in ("logz", "inter", "intra", "boundary"):
            np.testing.assert_allclose(getattr(expected, name), getattr(found, name), rtol=1e-9, atol=1e-9)
