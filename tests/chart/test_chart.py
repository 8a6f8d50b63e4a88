"""Compare the Numba chart with enumeration, and for long sentences with a slow chart in log space.

`oracle` does not use spans and works for up to six characters. For longer sentences the reference is
`slow_log_partition`, a textbook chart with explicit masks. It needs no outside pass: the probability of an arc is the
share of Z that remains when every other arc into its dependent is forbidden.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from strategies import gap_vectors, score_matrices, structures_for, word_trees
from zishu import chart
from zishu.chart import BREAK, FREE, JOIN, TreeDistribution, _compiled
from zishu.errors import Infeasible
from zishu.forest import POLICIES, build_forest

KINDS = ("untyped", "given words", "free", "partial", "full")


@dataclass(frozen=True)
class Problem:
    """Hold a batch of sentences: their scores and known gaps."""

    inter: np.ndarray
    lengths: np.ndarray
    intra: np.ndarray | None = None
    gaps: np.ndarray | None = None
    root_as_head: bool = True

    @property
    def arguments(self):
        return self.inter, self.lengths, self.intra, self.gaps

    def trees(self):
        """Make the distribution, with nothing computed yet."""
        return TreeDistribution(*self.arguments, root_as_head=self.root_as_head)

    def alone(self, b):
        """Return one sentence of the batch, without padding."""
        size = self.lengths[b] + 1
        return Problem(
            self.inter[b : b + 1, :size, :size],
            self.lengths[b : b + 1],
            None if self.intra is None else self.intra[b : b + 1, :size, :size],
            None if self.gaps is None else self.gaps[b : b + 1, :size],
            self.root_as_head,
        )

    def enumerate(self, function, b=0):
        """Call a function of the oracle for one sentence."""
        intra = None if self.intra is None else self.intra[b].tolist()
        gaps = None if self.gaps is None else self.gaps[b].tolist()
        n = int(self.lengths[b])
        return function(self.inter[b].tolist(), n, intra, gaps, root_as_head=self.root_as_head)


@st.composite
def sentences(draw, *, max_length=5, forbid=None, integral=False):
    """Draw one sentence of any kind, often with forbidden arcs or constraints that no tree satisfies."""
    n = draw(st.integers(1, max_length))
    kind = draw(st.sampled_from(KINDS))
    forbid = draw(st.booleans()) if forbid is None else forbid

    def scores():
        return np.array([draw(score_matrices(n, forbid=forbid, integral=integral))])

    typed = kind in ("free", "partial", "full")
    gaps = kind in ("given words", "partial", "full")
    return Problem(
        scores(),
        np.array([n]),
        scores() if typed else None,
        np.array([draw(gap_vectors(n, full=kind != "partial"))], dtype=np.int8) if gaps else None,
        draw(st.booleans()),
    )


def make_batch(
    kind, lengths, seed, *, forbidden=0.0, scale=1.0, root_as_head=True, dtype=np.float64, spare=0
):
    """Create a batch of mixed lengths in which padding, and everything else that is not an arc, is NaN."""
    random = np.random.default_rng(seed)
    width = max(lengths) + 1 + spare
    batch = len(lengths)

    def scores(first_head):
        values = random.normal(size=(batch, width, width)) * scale
        values[random.random(values.shape) < forbidden] = -np.inf
        for b, n in enumerate(lengths):
            values[b, n + 1 :] = values[b, :, n + 1 :] = values[b, 0] = np.nan
            values[b, :, :first_head] = np.nan
            np.fill_diagonal(values[b], np.nan)
        return values.astype(dtype)

    def known(low):
        gaps = random.integers(low, 3, (batch, width)).astype(np.int8)
        for b, n in enumerate(lengths):
            gaps[b, 0] = gaps[b, n:] = 77
        return gaps

    low = {"given words": 1, "partial": 0, "full": 1}
    return Problem(
        scores(0),
        np.array(lengths),
        None if kind in ("untyped", "given words") else scores(1),
        known(low[kind]) if kind in low else None,
        root_as_head,
    )


def trees_of(found, n):
    """List the trees of one sentence in the oracle's form."""
    return [
        oracle.TypedTree(tuple(heads[1 : n + 1].tolist()), tuple(intra[1 : n + 1].tolist()))
        for heads, intra in zip(found.heads, found.intra, strict=True)
    ]


def check_marginals(got, expected, b, n, tolerance):
    inside = (b, slice(n + 1), slice(n + 1))
    assert got.logz[b] == pytest.approx(expected.logz, rel=tolerance, abs=tolerance)
    np.testing.assert_allclose(got.inter[inside], expected.inter, atol=tolerance)
    assert (
        (got.intra is None)
        == (expected.intra is None)
        == (got.boundary is None)
        == (expected.boundary is None)
    )
    assert np.count_nonzero(got.inter[b]) == np.count_nonzero(got.inter[inside])
    if got.intra is not None:
        np.testing.assert_allclose(got.intra[inside], expected.intra, atol=tolerance)
        np.testing.assert_allclose(got.boundary[b, :n], expected.boundary, atol=tolerance)
        assert not got.boundary[b, n:].any()
        assert np.count_nonzero(got.intra[b]) == np.count_nonzero(got.intra[inside])


# --- against enumeration


@pytest.mark.parametrize(
    "root_as_head, counts", [(True, (1, 4, 22, 138, 933)), (False, (1, 4, 24, 166, 1240))]
)
def test_count_typed_trees(root_as_head, counts):
    n = len(counts)
    scores = np.zeros((n, n + 1, n + 1))
    logz = TreeDistribution(scores, range(1, n + 1), scores, root_as_head=root_as_head).log_partition()
    np.testing.assert_allclose(np.exp(logz), counts)


def test_count_untyped_trees():
    logz = TreeDistribution(np.zeros((6, 7, 7)), range(1, 7)).log_partition()
    np.testing.assert_allclose(np.exp(logz), (1, 2, 7, 30, 143, 728))


@given(sentences())
def test_partition_and_marginals(problem):
    expected = problem.enumerate(oracle.marginals)
    if expected.logz == -math.inf:  # then nothing is probable, not even the break before the first character
        expected = expected._replace(boundary=expected.boundary and [0.0] * len(expected.boundary))
    assert problem.trees().log_partition()[0] == pytest.approx(expected.logz, abs=1e-10)
    check_marginals(problem.trees().marginals(), expected, 0, int(problem.lengths[0]), 1e-10)


@given(sentences())
def test_boundaries_alone_are_those_of_the_marginals(problem):
    trees, found = problem.trees(), problem.trees().marginals()
    if not trees.typed:
        with pytest.raises(ValueError, match="no boundaries"):
            trees.boundaries()
        return
    np.testing.assert_array_equal(trees.boundaries(), found.boundary)
    np.testing.assert_array_equal(trees.log_partition(), found.logz)
    np.testing.assert_array_equal(trees.marginals().inter, found.inter)


@given(sentences(integral=True) | sentences())
def test_best_tree(problem):
    expected = problem.enumerate(oracle.best)
    if expected is None:
        with pytest.raises(Infeasible, match="sentence 0"):
            problem.trees().best()
        return
    found = problem.trees().best()
    score, best = expected
    assert found.score[0] == pytest.approx(score, abs=1e-10)
    assert trees_of(found, int(problem.lengths[0]))[0] in best


@given(sentences(integral=True) | sentences())
def test_rank_all_trees(problem):
    expected = problem.enumerate(oracle.ranked)
    if not expected:
        with pytest.raises(Infeasible, match="sentence 0"):
            problem.trees().k_best(1)
        return
    (found,) = problem.trees().k_best(len(expected) + 1)
    trees = trees_of(found, int(problem.lengths[0]))
    scores = {tree: score for score, tree in expected}
    assert len(trees) == len(expected)
    assert set(trees) == set(scores)
    np.testing.assert_allclose(found.score, [scores[tree] for tree in trees], atol=1e-10)
    assert all(first >= second for first, second in pairwise(found.score))


@pytest.mark.parametrize("root_as_head", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_six_characters(kind, root_as_head):
    problem = make_batch(kind, [6], seed=6, forbidden=0.1, scale=2.0, root_as_head=root_as_head)
    check_marginals(problem.trees().marginals(), problem.enumerate(oracle.marginals), 0, 6, 1e-10)
    ranked = problem.enumerate(oracle.ranked)[:64]
    (found,) = problem.trees().k_best(64)
    assert trees_of(found, 6) == [tree for _, tree in ranked]
    np.testing.assert_allclose(found.score, [score for score, _ in ranked], atol=1e-10)
    best = problem.trees().best()
    assert trees_of(best, 6) == [ranked[0][1]]
    assert best.score[0] == pytest.approx(ranked[0][0])


@settings(max_examples=40)
@given(
    st.sampled_from(KINDS),
    st.lists(st.integers(1, 5), min_size=1, max_size=5),
    st.integers(0, 2**32 - 1),
    st.sampled_from([np.float32, np.float64]),
    st.integers(0, 2),
)
def test_mixed_lengths(kind, lengths, seed, dtype, spare):
    """Neither the other sentences nor the padding may change the result."""
    problem = make_batch(kind, lengths, seed, dtype=dtype, spare=spare, root_as_head=seed % 2 == 0)
    tolerance = 1e-10 if dtype is np.float64 else 1e-5
    got = problem.trees().marginals()
    assert got.inter.dtype == dtype
    assert got.logz.dtype == np.float64
    np.testing.assert_array_equal(got.logz, problem.trees().log_partition())
    best, listed = problem.trees().best(), problem.trees().k_best(2)
    for b, n in enumerate(lengths):
        check_marginals(got, problem.enumerate(oracle.marginals, b), b, n, tolerance)
        ranked = problem.enumerate(oracle.ranked, b)
        assert trees_of(best, n)[b] == trees_of(listed[b], n)[0] == ranked[0][1]
        assert best.score[b] == pytest.approx(ranked[0][0], abs=1e-10)
        assert len(listed[b].score) == min(2, len(ranked))
        for found in (best.heads[b], best.intra[b], *listed[b].heads, *listed[b].intra):
            assert not found[0]
            assert not found[n + 1 :].any()


@given(
    st.data(), word_trees(max_words=3, max_chars=5), st.sampled_from(POLICIES), st.booleans(), st.booleans()
)
def test_forest(data, tree, policy, single_root, root_as_head):
    """The forest of a word tree equals what the oracle finds, with and without gold words as constraints."""
    structures = data.draw(structures_for(tree))
    forest = build_forest(
        tree,
        {"INTRA": 0, **dict.fromkeys(tree.deprels, 1)},
        policy=policy,
        structures=structures,
        single_root=single_root,
    )
    problem = masked(forest, root_as_head=root_as_head, seed=len(tree.forms))
    expected = oracle.forest_trees(
        tree, policy=policy, structures=structures, single_root=single_root, root_as_head=root_as_head
    )
    inter, intra = problem.inter[0].tolist(), problem.intra[0].tolist()
    scores = {tree: oracle.score(tree, inter, intra) for tree in expected}
    (found,) = problem.trees().k_best(len(scores) + 1)
    assert set(trees_of(found, forest.length)) == set(scores)
    assert len(found.score) == len(scores)
    logz = problem.trees().log_partition()[0]
    assert logz == pytest.approx(oracle.log_sum_exp(list(scores.values())))


def masked(forest, *, root_as_head=True, seed=0, scores=None):
    """Give the arcs of a forest random scores and forbid all the others."""
    if scores is None:
        scores = np.random.default_rng(seed).normal(size=(2, forest.length + 1, forest.length + 1))
    both = np.full(scores.shape, -np.inf)
    for kept, score, inside in zip(both, scores, (False, True), strict=True):
        dependents, heads, _ = forest.arcs(intra=inside)
        kept[dependents, heads] = score[dependents, heads]
    return Problem(both[:1], np.array([forest.length]), both[1:], forest.gaps[None], root_as_head)


# --- minimum Bayes risk


@settings(max_examples=50)
@given(sentences(max_length=4, forbid=False))
def test_minimum_bayes_risk(problem):
    """The best tree on marginals has the largest expected number of correct arcs."""
    found = problem.trees().marginals()
    trees = replace(problem, inter=found.inter, intra=found.intra).trees().best()
    candidates = problem.enumerate(oracle.ranked)
    probability = [math.exp(score - found.logz[0]) for score, _ in candidates]

    def expected_arcs(tree):
        arcs = list(zip(*tree, strict=True))
        return sum(
            p * sum(arc == other for arc, other in zip(arcs, zip(*candidate, strict=True), strict=True))
            for p, (_, candidate) in zip(probability, candidates, strict=True)
        )

    chosen = expected_arcs(trees_of(trees, int(problem.lengths[0]))[0])
    assert chosen == pytest.approx(trees.score[0])
    assert chosen == pytest.approx(max(expected_arcs(tree) for _, tree in candidates))


# --- distributions made from others


def same(found, expected, n=None):
    """Compare two answers, in the fields of both; `n` cuts off padding."""
    for name in ("logz", "inter", "intra", "boundary", "heads", "score"):
        one, two = getattr(found, name, None), getattr(expected, name, None)
        assert (one is None) == (two is None)
        if one is not None:
            inside = (slice(None), *(slice(n and n + 1) for _ in range(one.ndim - 1)))
            np.testing.assert_allclose(one[inside], two[inside], rtol=1e-9, atol=1e-9)


@given(st.data(), sentences(max_length=4))
def test_condition_on_gaps_and_arcs(data, problem):
    """A condition keeps the trees that satisfy it; the remaining share of Z is its probability."""
    n = int(problem.lengths[0])
    trees = problem.trees()
    gaps = np.array([data.draw(gap_vectors(n, full=not trees.typed))], dtype=np.int8)
    inter, intra = np.array(
        data.draw(st.lists(st.booleans(), min_size=2 * (n + 1) ** 2, max_size=2 * (n + 1) ** 2))
    ).reshape(2, 1, n + 1, n + 1)
    before = np.full(gaps.shape, FREE) if problem.gaps is None else problem.gaps
    inner = np.s_[:, 1:n]
    if ((before != FREE) & (gaps != FREE) & (before != gaps))[inner].any():
        with pytest.raises(Infeasible, match="sentence 0"):
            trees.given(gaps)
        return
    scores = problem.inter, problem.inter if problem.intra is None else problem.intra
    known = np.where(gaps == FREE, before, gaps)
    expected = replace(
        problem,
        inter=np.where(inter, scores[0], -np.inf),
        intra=np.where(intra, scores[1], -np.inf),
        gaps=known,
    )
    same(trees.given(gaps).marginals(), replace(problem, intra=scores[1], gaps=known).trees().marginals())
    found = trees.given(gaps, inter=inter, intra=intra)
    same(found.marginals(), expected.trees().marginals())
    logz = expected.enumerate(oracle.log_partition)
    assert found.log_partition()[0] == pytest.approx(logz, abs=1e-9)
    if logz > -math.inf:
        assert trees_of(found.best(), n)[0] in expected.enumerate(oracle.best)[1]


def test_a_condition_on_arcs_fits_the_chart():
    trees = TreeDistribution(np.zeros((1, 3, 3)), [2])
    with pytest.raises(ValueError, match="no intra-word arcs"):
        trees.given(intra=np.ones((1, 3, 3)))
    with pytest.raises(ValueError, match="gaps must be all known"):
        trees.given([[BREAK, FREE, BREAK]])


@pytest.mark.parametrize("kind", KINDS)
def test_a_temperature_divides_the_scores(kind):
    problem = make_batch(kind, [6, 3], seed=4)
    intra = None if problem.intra is None else problem.intra / 1.6
    expected = replace(problem, inter=problem.inter / 1.6, intra=intra).trees()
    trees = problem.trees()
    for hot in (trees.at(1.6), (trees.best(), trees.at(1.6))[1]):  # before and after the best trees are known
        same(hot.marginals(), expected.marginals())
        same(hot.best(), expected.best())
        for found, other in zip(hot.k_best(3), expected.k_best(3), strict=True):
            same(found, other)
    assert trees.at(1.0) is trees
    with pytest.raises(ValueError, match="above 0"):
        trees.at(0.0)


@pytest.mark.parametrize("kind", KINDS)
def test_pick_sentences(kind):
    problem = make_batch(kind, [5, 3, 4], seed=8, spare=1)
    trees = problem.trees()
    ranked = trees.k_best(2)
    chosen = trees.pick([2, 1, 2])
    assert chosen.lengths.tolist() == [4, 3, 4]
    assert chosen.gaps.shape == (3, 5)
    for row, b in enumerate((2, 1, 2)):
        alone = problem.alone(b).trees()
        n = int(problem.lengths[b])
        same(chosen.pick([row]).marginals(), alone.marginals(), n)
        same(chosen.pick([row]).best(), alone.best(), n)
        same(chosen.k_best(4)[row], alone.k_best(4)[0], n)
        same(chosen.k_best(2)[row], ranked[b], n)
    assert trees.pick(range(3)) is trees


def test_answers_are_kept(monkeypatch):
    problem = make_batch("partial", [5, 3], seed=8)
    trees = problem.trees()
    words = np.where(trees.gaps == FREE, BREAK, trees.gaps)

    def ask():
        given = trees.given(words)
        return [
            trees.marginals(), trees.log_partition(), trees.best(), trees.at(2.0).best(),
            *trees.k_best(3), trees.sample(2, seed=1), given.marginals(), given.given(words).log_partition(),
        ]  # fmt: skip

    first = ask()
    monkeypatch.setattr(_compiled, "run", None)
    for one, two in zip(first, ask(), strict=True):
        if isinstance(one, np.ndarray):
            assert one is two
        else:
            same(one, two)
    with pytest.raises(ValueError, match="read-only"):
        first[0].inter[0] = 0.0


# --- samples


@pytest.mark.parametrize("root_as_head", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_sample_frequencies(kind, root_as_head):
    problem = make_batch(kind, [3, 4], seed=1, root_as_head=root_as_head)
    k = 20_000
    drawn = problem.trees().sample(k=k, seed=1)
    assert drawn.heads.shape == drawn.intra.shape == (2, k, 5)
    for b, n in enumerate(problem.lengths):
        ranked = problem.enumerate(oracle.ranked, b)
        logz = oracle.log_sum_exp([score for score, _ in ranked])
        logs = {tree: score - logz for score, tree in ranked}
        trees = trees_of(chart.Trees(drawn.heads[b], drawn.intra[b], drawn.score[b]), int(n))
        np.testing.assert_allclose(drawn.score[b], [logs[tree] for tree in trees], atol=1e-10)
        counts = dict.fromkeys(logs, 0)
        for tree in trees:
            counts[tree] += 1
        # Rare trees go into one cell, so that the statistic follows its distribution.
        cells = [(counts[tree], k * math.exp(log)) for tree, log in logs.items() if k * math.exp(log) >= 10]
        cells.append((k - sum(count for count, _ in cells), k - sum(mean for _, mean in cells) + 1e-9))
        statistic = sum((count - mean) ** 2 / mean for count, mean in cells if mean >= 1)
        freedom = max(len(cells) - 1, 1)
        assert statistic < freedom + 4 * math.sqrt(2 * freedom) + 4


def test_sample_is_reproducible():
    problem = make_batch("free", [9, 5, 9], seed=2)
    first, again, other = (problem.trees().sample(k=50, seed=seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first.heads, again.heads)
    np.testing.assert_array_equal(first.intra, again.intra)
    assert (first.heads != other.heads).any()
    # whatever the batch around it
    alone = problem.alone(1).trees().sample(k=50, seed=3)
    np.testing.assert_array_equal(alone.heads[0], first.heads[1, :, :6])


# --- constraints that no tree satisfies, and invalid input


def infeasible_batch():
    """Return three sentences; the middle one must join two characters that no arc may connect."""
    problem = make_batch("partial", [4, 4, 4], seed=5)
    problem.gaps[:, 1:4] = FREE
    problem.gaps[1, 2] = JOIN
    problem.intra[1, 1:3, 3:] = problem.intra[1, 3:, 1:3] = -np.inf
    return problem


def test_infeasible_sentence():
    problem = infeasible_batch()
    logz = problem.trees().log_partition()
    assert np.isfinite(logz[[0, 2]]).all()
    assert logz[1] == -np.inf
    found = problem.trees().marginals()
    np.testing.assert_array_equal(found.logz, logz)
    assert not found.inter[1].any()
    assert not found.intra[1].any()
    assert not found.boundary[1].any()
    for b in (0, 2):
        check_marginals(found, problem.enumerate(oracle.marginals, b), b, 4, 1e-10)
    trees = problem.trees()
    for question in (trees.best, lambda: trees.k_best(2), lambda: trees.sample(k=2, seed=0)):
        with pytest.raises(Infeasible, match="sentence 1"):
            question()


def test_no_arc_at_all():
    scores = np.full((1, 4, 4), -np.inf)
    assert TreeDistribution(scores, [3]).log_partition() == [-np.inf]
    trees = TreeDistribution(scores, [3], scores)
    assert not trees.marginals().intra.any()
    with pytest.raises(Infeasible):
        trees.best()


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("role", [0, 1])
def test_reject_what_is_no_score(value, dtype, role):
    scores = np.zeros((2, 2, 4, 4), dtype=dtype)
    scores[role, 1, 3, 2] = value
    with pytest.raises(ValueError, match="sentence 1"):
        TreeDistribution(scores[0], [3, 3], scores[1])
    # entries beyond the length are not read
    assert np.isfinite(TreeDistribution(scores[0], [3, 2], scores[1]).log_partition()).all()


def test_reject_partial_gaps_without_intra_scores():
    scores = np.zeros((1, 4, 4))
    with pytest.raises(ValueError, match="gaps must be all known"):
        TreeDistribution(scores, [3], gaps=[[BREAK, FREE, JOIN, BREAK]])


@pytest.mark.parametrize(
    "arguments",
    [
        (np.zeros((1, 4, 3)), [3]),
        (np.zeros((4, 4)), [3]),
        (np.zeros((1, 1, 1)), [0]),
        (np.zeros((1, 4, 4), dtype=np.int64), [3]),
        (np.zeros((1, 4, 4)), [4]),
        (np.zeros((1, 4, 4)), [0]),
        (np.zeros((1, 4, 4)), [3, 3]),
        (np.zeros((1, 4, 4)), [3], np.zeros((1, 5, 5))),
        (np.zeros((1, 4, 4)), [3], np.zeros((1, 4, 4)), [[0, 0, 0]]),
        (np.zeros((1, 4, 4)), [3], np.zeros((1, 4, 4)), [[0, 3, 0, 0]]),
    ],
)
def test_reject_bad_shapes(arguments):
    with pytest.raises(ValueError, match=r"must|differ"):
        TreeDistribution(*arguments)


def test_reject_bad_counts():
    scores = np.zeros((1, 4, 4))
    with pytest.raises(ValueError, match="at least 1"):
        TreeDistribution(scores, [3]).k_best(0)
    with pytest.raises(ValueError, match="at least 1"):
        chart.set_threads(0)


def test_empty_batch():
    scores = np.zeros((0, 4, 4))
    trees = TreeDistribution(scores, [])
    assert len(trees) == 0
    assert trees.log_partition().shape == (0,)
    assert TreeDistribution(scores, [], scores).marginals().inter.shape == (0, 4, 4)
    assert trees.best().heads.shape == (0, 4)
    assert trees.k_best(3) == []


def test_any_memory_layout():
    problem = make_batch("partial", [5, 4], seed=9)
    wide = np.repeat(problem.inter, 2, axis=2)
    turned = np.asfortranarray(problem.intra)
    found = TreeDistribution(wide[:, :, ::2], problem.lengths, turned, problem.gaps).marginals()
    np.testing.assert_array_equal(found.inter, problem.trees().marginals().inter)


def test_input_is_left_alone():
    problem = make_batch("partial", [5, 4], seed=9)
    before = [array.copy() for array in problem.arguments]
    everything(problem)
    for array, copy in zip(problem.arguments, before, strict=True):
        np.testing.assert_array_equal(array, copy)


# --- long sentences and large scores


def slow_log_partition(inter, n, intra=None, gaps=None, *, root_as_head=True):
    """Sum over all trees by the textbook: a table for each direction and role, masks for the gaps, sums of logs."""
    inter = np.asarray(inter)
    typed = intra is not None or gaps is not None
    intra = np.asarray(inter if intra is None else intra) if typed else np.full(inter.shape, -np.inf)
    gaps = np.zeros(n + 1, dtype=int) if gaps is None else np.asarray(gaps)
    may_join = np.where(gaps == BREAK, -np.inf, 0.0)
    may_break = np.where(gaps == JOIN, -np.inf, 0.0)
    empty = np.full((n + 2, n + 2), -np.inf)
    # to the right and to the left: word-internal and other complete spans, word-internal and other links
    ra, rc, la, lc, ri, ro, li, lo = (empty.copy() for _ in range(8))
    np.fill_diagonal(ra, 0.0)
    np.fill_diagonal(la, 0.0)

    def total(*terms):
        return np.logaddexp.reduce(np.concatenate(terms))

    with np.errstate(invalid="ignore"):
        for width in range(1, n):
            for i in range(1, n - width + 1):
                j = i + width
                k = np.arange(i, j)
                left, right = np.logaddexp(ra, rc)[i, k], np.logaddexp(la, lc)[k + 1, j]
                inside = total(ra[i, k] + la[k + 1, j] + may_join[k])
                outside = total(left + right + may_break[k])
                ri[i, j], li[i, j] = intra[j, i] + inside, intra[i, j] + inside
                ro[i, j], lo[i, j] = inter[j, i] + outside, inter[i, j] + outside
                up, down = k + 1, k
                ra[i, j] = total(ri[i, up] + ra[up, j])
                la[i, j] = total(li[down, j] + la[i, down])
                rights = [ro[i, up] + np.logaddexp(ra, rc)[up, j]]
                lefts = [lo[down, j] + np.logaddexp(la, lc)[i, down]]
                if not root_as_head:
                    rights.append(ri[i, up] + rc[up, j])
                    lefts.append(li[down, j] + lc[i, down])
                rc[i, j], lc[i, j] = total(*rights), total(*lefts)
        r = np.arange(1, n + 1)
        whole = np.logaddexp(la, lc)[1, r] + np.logaddexp(ra, rc)[r, n]
    return total(inter[r, 0] + whole)


def only_arc(problem, d, h, *, intra=False):
    """Forbid every other arc into d."""
    inter = problem.inter.copy()
    within = None if problem.intra is None else problem.intra.copy()
    inter[0, d] = -np.inf
    if within is not None:
        within[0, d] = -np.inf
    kept, scores = (within, problem.intra) if intra else (inter, problem.inter)
    kept[0, d, h] = scores[0, d, h]
    return replace(problem, inter=inter, intra=within)


def total_of(tree, problem):
    """Add up the scores of the first tree of a result."""
    n = int(problem.lengths[0])
    inter = problem.inter[0].tolist()
    intra = inter if problem.intra is None else problem.intra[0].tolist()
    return oracle.score(trees_of(tree, n)[0], inter, intra)


def test_the_slow_chart_is_right():
    for kind in KINDS:
        for root_as_head in (True, False):
            problem = make_batch(kind, [5], seed=3, forbidden=0.1, root_as_head=root_as_head)
            assert problem.enumerate(slow_log_partition) == pytest.approx(
                problem.enumerate(oracle.log_partition)
            )


@pytest.mark.parametrize("scale", [1.0, 30.0, 1e4])
@pytest.mark.parametrize(
    "kind, root_as_head", [("untyped", True), ("free", True), ("free", False), ("partial", True)]
)
def test_forty_characters(kind, root_as_head, scale):
    n = 24 if kind == "partial" else 40
    problem = make_batch(kind, [n], seed=11, scale=scale, root_as_head=root_as_head)
    logz = problem.enumerate(slow_log_partition)
    found = problem.trees().marginals()
    assert found.logz[0] == pytest.approx(logz, rel=1e-12)
    arcs = np.array(
        [found.inter[0], np.zeros_like(found.inter[0]) if found.intra is None else found.intra[0]]
    )
    likely = np.argsort(-arcs.ravel() * (1 - arcs.ravel()))[
        :3
    ]  # the least certain arc is the hardest to get right
    for role, d, h in zip(*np.unravel_index(likely, arcs.shape), strict=True):
        left = only_arc(problem, d, h, intra=role == 1).enumerate(slow_log_partition)
        assert arcs[role, d, h] == pytest.approx(math.exp(left - logz), rel=1e-6, abs=1e-9 * scale)


@pytest.mark.parametrize(
    "scale, root_as_head, dtype",
    [(1.0, True, np.float64), (1e4, True, np.float32), (1e4, False, np.float64)],
)
def test_five_hundred_characters(scale, root_as_head, dtype):
    n = 512
    random = np.random.default_rng(12)
    inter, intra = (random.uniform(-scale, scale, size=(2, 1, n + 1, n + 1))).astype(dtype)
    problem = Problem(inter, np.array([n]), intra, None, root_as_head)
    found = problem.trees().marginals()
    best = problem.trees().best()
    assert np.isfinite(found.logz).all()
    assert best.score[0] <= found.logz[0] <= best.score[0] + n * math.log(4 * n)
    assert total_of(best, problem) == pytest.approx(best.score[0], rel=1e-12)
    for values in (found.inter, found.intra, found.boundary):
        assert values.min() >= 0
        assert values.max() <= 1 + 1e-5
    into = (found.inter.astype(np.float64) + found.intra)[0].sum(axis=1)
    np.testing.assert_allclose(into[1:], 1.0, rtol=1e-5 if dtype is np.float32 else 1e-8)
    # Every gap is a boundary or owned by an intra-word arc, so boundaries and intra-word arcs add up to n.
    joined = found.intra[0].sum(dtype=np.float64)
    assert found.boundary[0].sum(dtype=np.float64) + joined == pytest.approx(n, rel=1e-6)
    arcs = found.inter[0] * (1 - found.inter[0])
    d, h = np.unravel_index(arcs.argmax(), arcs.shape)
    left = only_arc(problem, d, h).trees().log_partition()[0]
    assert found.inter[0, d, h] == pytest.approx(math.exp(left - found.logz[0]), rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("root_as_head", [True, False])
def test_finite_differences(root_as_head):
    problem = make_batch("partial", [12], seed=13, scale=3.0, root_as_head=root_as_head)
    found = problem.trees().marginals()
    step = 1e-5
    for d, h in ((1, 0), (5, 4), (4, 5), (12, 7), (2, 11)):
        for name in ("inter", "intra"):
            if name == "intra" and h == 0:
                continue
            logz = []
            for change in (step, -step):
                moved = getattr(problem, name).copy()
                moved[0, d, h] += change
                logz.append(replace(problem, **{name: moved}).trees().log_partition()[0])
            expected = (logz[0] - logz[1]) / (2 * step)
            assert getattr(found, name)[0, d, h] == pytest.approx(expected, abs=1e-8)


def test_huge_spread_within_a_row():
    """Terms that differ by thousands of orders of magnitude meet in one sum; none that counts may be lost."""
    random = np.random.default_rng(14)
    for scale in (100.0, 300.0, 700.0, 3000.0):
        n = 20
        inter, intra = random.choice([0.0, -scale, scale], size=(2, 1, n + 1, n + 1)) + random.normal(
            size=(2, 1, n + 1, n + 1)
        )
        problem = Problem(inter, np.array([n]), intra)
        found = problem.trees().marginals()
        logz = problem.enumerate(slow_log_partition)
        assert found.logz[0] == pytest.approx(logz, rel=1e-12)
        np.testing.assert_allclose((found.inter + found.intra)[0, 1:].sum(axis=1), 1.0, rtol=1e-9)
        arcs = found.inter[0] * (1 - found.inter[0])
        d, h = np.unravel_index(arcs.argmax(), arcs.shape)
        left = only_arc(problem, d, h).enumerate(slow_log_partition)
        assert found.inter[0, d, h] == pytest.approx(math.exp(left - logz), rel=1e-8)


@pytest.mark.parametrize("n", [4, 12, 20])
def test_trees_of_which_every_one_is_unlikely(n):
    """Two pairs prefer each other so strongly that every tree has almost no weight.

    As the scores fall, the weights leave the range of float64, first its exact part and then the rest.
    """
    for score in range(-390, -300, 6):
        inter = np.zeros((1, n + 1, n + 1))
        for d, partner in ((1, 2), (2, 1), (3, 4), (4, 3)):
            inter[0, d] = score
            inter[0, d, partner] = 0.0
        expected = slow_log_partition(inter[0], n)
        assert TreeDistribution(inter, np.array([n])).log_partition()[0] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("score", range(-336, -328))
def test_a_part_that_weighs_nothing_beside_one_that_weighs_much(score):
    """A tiny weight in a narrow span must count if the rest has so many trees that the total is large.

    The sentence begins with the two pairs of the test above. The weights of their trees differ, so they vanish one after
    the other. The head of each of these four characters is another one of them or the fifth character. The fifth begins a
    chain, and the leaves at the end may depend on any character of the chain.
    """
    pairs, chain, leaves = 4, 512, 50
    first, n = pairs + 1, pairs + chain + leaves
    inter = np.full((1, n + 1, n + 1), -np.inf)
    for d, partner in ((1, 2), (2, 1), (3, 4), (4, 3)):
        inter[0, d, 1:first] = score
        inter[0, d, first] = score - 3.0 * d
        inter[0, d, partner] = 0.0
    inter[0, first, 0] = 0.0
    for d in range(first + 1, first + chain):
        inter[0, d, d - 1] = 0.0
    inter[0, first + chain :, first : first + chain] = 0.0
    ways = math.log(
        math.comb(chain + leaves - 1, leaves)
    )  # a leaf has the same head as the leaf before it, or one closer to the root
    expected = slow_log_partition(inter[0, : first + 1, : first + 1], first) + ways
    assert TreeDistribution(inter, np.array([n])).log_partition()[0] == pytest.approx(expected, rel=1e-12)


@settings(max_examples=40)
@given(
    st.sampled_from(KINDS),
    st.integers(2, 14),
    st.integers(0, 2**32 - 1),
    st.sampled_from([10.0, 100.0, 250.0, 400.0, 700.0, 1e4]),
    st.sampled_from([0.0, 0.2]),
    st.booleans(),
)
def test_any_scale(kind, n, seed, scale, forbidden, root_as_head):
    """Results are exact on both sides of the limits of plain sums."""
    problem = make_batch(kind, [n], seed, forbidden=forbidden, scale=scale, root_as_head=root_as_head)
    logz = problem.enumerate(slow_log_partition)
    found = problem.trees().marginals()
    assert found.logz[0] == pytest.approx(logz, rel=1e-12, abs=1e-9)
    arcs = found.inter[0] + (0 if found.intra is None else found.intra[0])
    np.testing.assert_allclose(arcs[1:].sum(axis=1), float(logz > -math.inf), rtol=1e-9)
    uncertain = found.inter[0] * (1 - found.inter[0])
    d, h = np.unravel_index(uncertain.argmax(), uncertain.shape)
    if uncertain[d, h] > 0 and kind != "given words":  # given words, one score serves both roles
        left = only_arc(problem, d, h).enumerate(slow_log_partition)
        assert found.inter[0, d, h] == pytest.approx(math.exp(left - logz), rel=1e-7, abs=1e-12 * scale)


# --- dense and sparse sums, threads


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1), st.booleans(), st.booleans())
def test_few_arcs_and_many_agree(seed, typed, root_as_head):
    """Few allowed arcs are summed from lists, many from rows; arcs of no weight turn few into many."""
    random = np.random.default_rng(seed)
    n = 14
    shape = (2, 1, n + 1, n + 1)
    sparse = np.full(shape, -np.inf)
    # a chain keeps the sentence feasible
    for d in range(1, n + 1):
        sparse[0, 0, d, d - 1] = random.normal()
        for role in range(2):
            sparse[role, 0, d, random.integers(0, n + 1)] = random.normal()
    dense = np.where(sparse == -np.inf, -200.0, sparse)
    lengths = np.array([n])
    few, many = (
        Problem(scores[0], lengths, scores[1] if typed else None, None, root_as_head)
        for scores in (sparse, dense)
    )
    assert few.trees().log_partition()[0] == pytest.approx(few.enumerate(slow_log_partition), abs=1e-9)
    found, expected = few.trees().marginals(), many.trees().marginals()
    np.testing.assert_allclose(found.logz, expected.logz, atol=1e-9)
    np.testing.assert_allclose(found.inter, expected.inter, atol=1e-9)
    if typed:
        np.testing.assert_allclose(found.intra, expected.intra, atol=1e-9)
        np.testing.assert_allclose(found.boundary, expected.boundary, atol=1e-9)
    best = few.trees().best()
    assert best.score[0] == pytest.approx(many.trees().best().score[0])
    (ranked,) = few.trees().k_best(1)
    assert ranked.score[0] == pytest.approx(best.score[0])
    drawn = few.trees().sample(k=20, seed=seed)
    for heads, intra in zip(drawn.heads[0], drawn.intra[0], strict=True):
        tree = trees_of(chart.Trees(heads[None], intra[None], np.zeros(1)), n)[0]
        assert oracle.score(tree, *sparse[:, 0].tolist()) > -math.inf


def everything(problem):
    """Return the results of all functions as one list of arrays."""
    found = problem.trees().marginals()
    best = problem.trees().best()
    drawn = problem.trees().sample(k=3, seed=1)
    (*listed,) = (trees.heads for trees in problem.trees().k_best(3))
    return [
        problem.trees().log_partition(), found.logz, found.inter, found.intra, found.boundary,
        best.heads, best.intra, best.score, drawn.heads, drawn.intra, *listed,
    ]  # fmt: skip


@pytest.fixture
def threads():
    """Restore the number of threads afterwards."""
    before = chart.get_threads()
    yield
    chart.set_threads(before)


@pytest.mark.usefixtures("threads")
def test_number_of_threads_changes_nothing():
    problem = make_batch("partial", [60, 12, 75, 7, 75, 1, 23], seed=15)
    results = []
    for count in (1, 2, 3, 8):
        chart.set_threads(count)
        assert chart.get_threads() == count
        results.append(everything(problem))
    for other in results[1:]:
        for one, two in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(one, two)


@pytest.mark.usefixtures("threads")
def test_calls_from_several_threads():
    problems = [make_batch("partial", [50, 12, 60, 7, 60], seed=seed) for seed in range(4)]
    chart.set_threads(2)
    alone = [everything(problem) for problem in problems]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(everything, problems * 4))
    for expected, got in zip(alone * 4, together, strict=True):
        for one, two in zip(expected, got, strict=True):
            np.testing.assert_array_equal(one, two)


# --- compilation


def test_any_array_will_do():
    """The kernels read memory of one type and layout, whatever callers pass."""
    random = np.random.default_rng(16)
    gaps = np.full((2, 5), BREAK, dtype=np.int8)
    inter, intra = random.normal(size=(2, 2, 5, 5)).astype(np.float32)
    for words in (None, gaps):
        plain = everything(Problem(inter, (4, 3), intra, words))
        for change in (np.asfortranarray, np.float64, lambda scores: np.repeat(scores, 2, axis=2)[:, :, ::2]):
            one, two = change(inter), change(intra)
            one.flags.writeable = two.flags.writeable = False
            for expected, got in zip(plain, everything(Problem(one, (4, 3), two, words)), strict=True):
                for x, y in zip(expected, got, strict=True):
                    np.testing.assert_allclose(x, y, rtol=1e-6)
