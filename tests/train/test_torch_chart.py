"""Compare the log partition on a GPU, run on the CPU here, with enumeration, finite differences and the Numba chart."""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from zishu import chart
from zishu.train.torch_chart import batched_log_partition


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
    gaps: np.ndarray | None
    root_as_head: bool

    def arguments(self, **changes):
        """Return the arguments of a chart, some of them changed."""
        fields = {"inter": self.inter, "lengths": self.lengths, "intra": self.intra, "gaps": self.gaps}
        return {**fields, **changes, "root_as_head": self.root_as_head}

    def logz(self, **changes):
        """Return the log partitions, with some of the arguments changed."""
        return batched_log_partition(**self.arguments(**changes))

    def probabilities(self, **changes):
        """Return the gradients: the probabilities of arcs between words and inside words.

        If one matrix serves both roles, there is only the sum of both.
        """
        arguments = self.arguments(**changes)
        scores = [arguments[name] for name in ("inter", "intra") if arguments[name] is not None]
        scores = [matrix.detach().clone().requires_grad_() for matrix in scores]
        logz = batched_log_partition(**arguments | dict(zip(("inter", "intra"), scores, strict=False)))
        return torch.autograd.grad(logz.sum(), scores)

    def numba(self, **changes):
        """Return the same distribution from the Numba chart."""
        arguments = self.arguments(**changes)
        arrays = {k: v.numpy() if isinstance(v, torch.Tensor) else v for k, v in arguments.items()}
        return chart.TreeDistribution(**arrays)

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
        random.integers(low[kind], 3, shape[:2], dtype=np.int8) if kind in low else None,
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


def by_role(marginals, problem):
    """Return marginals as `Problem.probabilities` does."""
    if marginals.intra is None:
        return [marginals.inter]
    if problem.intra is None:
        return [marginals.inter + marginals.intra]
    return [marginals.inter, marginals.intra]


@pytest.mark.parametrize(
    ("root_as_head", "counts"), [(True, [1, 4, 22, 138, 933]), (False, [1, 4, 24, 166, 1240])]
)
def test_counts_of_typed_trees(root_as_head, counts):
    zeros = torch.zeros(5, 6, 6, dtype=torch.float64)
    logz = batched_log_partition(zeros, torch.arange(1, 6), zeros, root_as_head=root_as_head)
    np.testing.assert_allclose(logz.exp(), counts)


def test_counts_of_trees_without_roles():
    zeros = torch.zeros(6, 7, 7, dtype=torch.float64)
    logz = batched_log_partition(zeros, torch.arange(1, 7))
    np.testing.assert_allclose(logz.exp(), [len(oracle.trees(n)) for n in range(1, 7)])


@given(problems)
@settings(max_examples=60, deadline=None)
def test_against_enumeration(problem):
    expected = problem.each(oracle.marginals)
    np.testing.assert_allclose(problem.logz(), [m.logz for m in expected], atol=1e-9)
    size = problem.inter.shape[1:]
    intra = None if expected[0].intra is None else padded([m.intra for m in expected], size)
    marginals = SimpleNamespace(inter=padded([m.inter for m in expected], size), intra=intra)
    for found, wanted in zip(problem.probabilities(), by_role(marginals, problem), strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-9)


@pytest.mark.parametrize("root_as_head", [True, False])
def test_six_characters_against_enumeration(root_as_head):
    problem = make_problem("partial", [6], 11, root_as_head=root_as_head)
    (expected,) = problem.each(oracle.marginals)
    np.testing.assert_allclose(problem.logz(), [expected.logz])
    for found, wanted in zip(problem.probabilities(), (expected.inter, expected.intra), strict=True):
        np.testing.assert_allclose(found[0, :7, :7], wanted, atol=1e-9)


@pytest.mark.parametrize("root_as_head", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_gradient_against_finite_differences(kind, root_as_head):
    problem = make_problem(kind, [3, 1, 2], 4, root_as_head=root_as_head)
    scores = [problem.inter] if problem.intra is None else [problem.inter, problem.intra]

    def logz(inter, intra=None):
        return problem.logz(inter=inter, intra=intra)

    assert torch.autograd.gradcheck(logz, [s.clone().requires_grad_() for s in scores])


def test_one_matrix_for_both_roles_gets_both_gradients():
    problem = make_problem("given words", [5, 4], 3)
    [found] = problem.probabilities()
    expected = problem.numba().marginals()
    np.testing.assert_allclose(found, expected.inter + expected.intra, atol=1e-12)
    np.testing.assert_allclose(found.sum(-1)[0, 1:6], 1.0)


def test_infeasible_sentence_leaves_no_trace_in_the_others():
    problem = make_problem("full", [4, 4], 8)
    inter = problem.inter.clone()
    inter[0, :, 0] = -math.inf  # nothing may hang from ROOT
    assert problem.logz(inter=inter)[0] == -math.inf
    for found, alone in zip(problem.probabilities(inter=inter), problem.probabilities(), strict=True):
        assert not found[0].any()
        np.testing.assert_allclose(found[1], alone[1])


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_not_an_arc_is_never_read(kind):
    problem = make_problem(kind, [5, 2, 1], 4)
    dirty = {}
    for name in ("inter", "intra"):
        scores = getattr(problem, name)
        if scores is not None:
            scores = scores.clone()
            scores[:, 0, :] = math.nan
            scores[:, range(6), range(6)] = math.nan
            for b, n in enumerate(problem.lengths.tolist()):
                scores[b, n + 1 :, :] = math.nan
                scores[b, :, n + 1 :] = math.nan
            if dirty:
                scores[:, :, 0] = math.inf
            dirty[name] = scores
    np.testing.assert_allclose(problem.logz(**dirty), problem.logz())
    for found, clean in zip(problem.probabilities(**dirty), problem.probabilities(), strict=True):
        np.testing.assert_allclose(found, clean, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", KINDS)
def test_large_scores(kind, dtype):
    problem = make_problem(kind, [40, 27, 1], 2, scale=1e4, dtype=dtype)
    # At this scale the best tree has nearly all the mass.
    np.testing.assert_allclose(problem.logz(), problem.numba().best().score, rtol=1e-5)
    arcs = sum(problem.probabilities())
    for b, n in enumerate(problem.lengths.tolist()):
        np.testing.assert_allclose(arcs[b, 1 : n + 1].sum(-1), 1.0, rtol=1e-4)


def test_float32_follows_float64_on_long_sentences():
    single, double = (
        make_problem("free", [100], 0, scale=5.0, dtype=t) for t in (torch.float32, torch.float64)
    )
    for found, expected in zip(single.probabilities(), double.probabilities(), strict=True):
        np.testing.assert_allclose(found, expected, atol=2e-4)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_works_without_gradients(mode):
    problem = make_problem("partial", [5, 3], 6)
    expected = problem.logz()
    with mode():
        assert torch.equal(problem.logz(inter=problem.inter.clone(), intra=problem.intra.clone()), expected)


def test_half_precision_is_summed_in_single():
    problem = make_problem("free", [6, 4], 9, dtype=torch.float32)
    half = {"inter": problem.inter.bfloat16(), "intra": problem.intra.bfloat16()}
    single = {name: scores.float() for name, scores in half.items()}
    assert problem.logz(**half).dtype == torch.float32
    assert torch.equal(problem.logz(**half), problem.logz(**single))
    for found, expected in zip(problem.probabilities(**half), problem.probabilities(**single), strict=True):
        np.testing.assert_allclose(found.float(), expected, atol=1e-2)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("inter", torch.zeros(1, 5, 5, dtype=torch.int64)),
        ("inter", torch.zeros(1, 5, 6)),
        ("intra", torch.zeros(1, 6, 6)),
        ("gaps", np.zeros((1, 4), dtype=np.int8)),
        ("lengths", torch.tensor([5])),
        ("lengths", torch.tensor([0])),
        ("lengths", torch.tensor([4, 4])),
    ],
)
def test_refuses_shapes_that_do_not_fit(name, value):
    fitting = {"inter": torch.zeros(1, 5, 5), "intra": torch.zeros(1, 5, 5), "lengths": torch.tensor([4])}
    batched_log_partition(**fitting)
    with pytest.raises(ValueError, match=name):
        batched_log_partition(**(fitting | {name: value}))


@pytest.mark.parametrize("gaps", [[2, 0, 1, 0], [0, 0, 0, 0]])
def test_one_role_needs_all_gaps_or_none(gaps):
    with pytest.raises(ValueError, match="gaps must be all known"):
        batched_log_partition(torch.zeros(1, 4, 4), torch.tensor([3]), gaps=np.array([gaps], dtype=np.int8))


def test_refuses_a_gap_of_no_meaning():
    zeros, lengths = torch.zeros(1, 4, 4), torch.tensor([3])
    ignored = batched_log_partition(zeros, lengths, zeros, np.array([[7, 0, 0, 7]]))
    np.testing.assert_allclose(ignored.exp(), [22.0], rtol=1e-6)
    with pytest.raises(ValueError, match="FREE, JOIN or BREAK"):
        batched_log_partition(zeros, lengths, zeros, np.array([[2, 0, 7, 0]]))


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("name", ["inter", "intra"])
def test_refuses_scores_that_are_no_numbers(name, value):
    problem = make_problem("free", [4, 5, 3], 0)
    scores = getattr(problem, name).clone()
    scores[1, 2, 3] = value
    with pytest.raises(ValueError, match=r"sentence 1\b"):
        problem.logz(**{name: scores})


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("root_as_head", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_same_results_as_numba(kind, root_as_head, dtype):
    problem = make_problem(kind, [25, 1, 14, 2, 19], 1, scale=3.0, root_as_head=root_as_head, dtype=dtype)
    tolerance = {"rtol": 1e-4, "atol": 1e-4} if dtype == torch.float32 else {"rtol": 1e-9, "atol": 1e-9}
    expected = problem.numba().marginals()
    np.testing.assert_allclose(problem.logz(), expected.logz, **tolerance)
    for found, wanted in zip(problem.probabilities(), by_role(expected, problem), strict=True):
        np.testing.assert_allclose(found, wanted, **tolerance)


@pytest.mark.parametrize("scale", [1.0, 3.0, 8.0])
@pytest.mark.parametrize("gaps", ["free", "partial", "full"])
def test_long_sentences_as_with_numba(gaps, scale):
    """Numba sums weights where nothing is lost, and logarithms otherwise; torch always sums logarithms."""
    problem = make_problem(gaps, [160], 5, scale=scale)
    assert problem.intra is not None
    for unlikely in (0.0, 6.0, 20.0):  # long words, which then have almost no weight
        changed = {"intra": problem.intra - unlikely}
        expected = problem.numba(**changed).marginals()
        np.testing.assert_allclose(problem.logz(**changed), expected.logz, rtol=1e-9, atol=1e-9)
        for found, wanted in zip(problem.probabilities(**changed), by_role(expected, problem), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)
