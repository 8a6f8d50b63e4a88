"""Compare distributions with favoured boundaries with enumeration, and for long sentences with conditions on gaps."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
from strategies import gap_vectors, score_matrices
from zishu.chart import BREAK, JOIN, TreeDistribution


@st.composite
def problems(draw, *, max_length=5):
    """Draw one sentence: its distribution, the scores of its boundaries, and all its trees with their scores."""
    n = draw(st.integers(1, max_length))
    inter, intra = draw(score_matrices(n, forbid=draw(st.booleans()))), draw(score_matrices(n))
    gaps = draw(st.none() | gap_vectors(n))
    root_as_head = draw(st.booleans())
    size = draw(st.sampled_from([1.0, 20.0, 100.0]))
    scores = [size * draw(st.floats(-1, 1)) for _ in range(n + 1)]
    trees = TreeDistribution(
        np.array([inter]),
        [n],
        np.array([intra]),
        None if gaps is None else np.array([gaps]),
        root_as_head=root_as_head,
    )
    ranked = [
        (score + sum(scores[k] for k, end in enumerate(oracle.boundaries(tree)) if end and k), tree)
        for score, tree in oracle.ranked(inter, n, intra, gaps, root_as_head=root_as_head)
    ]
    return trees, np.array([scores]), sorted(ranked, key=lambda item: -item[0])


@given(problems())
def test_partition_and_marginals(problem):
    trees, scores, ranked = problem
    found = trees.favouring(scores).marginals()
    logz = oracle.log_sum_exp([score for score, _ in ranked])
    assert trees.favouring(scores).log_partition()[0] == pytest.approx(logz, abs=1e-9)
    assert found.logz[0] == pytest.approx(logz, abs=1e-9)
    n = int(trees.lengths[0])
    arcs, boundary = np.zeros((2, n + 1, n + 1)), np.zeros(n)
    for score, tree in ranked:
        probability = math.exp(score - logz)
        for d, (h, inside) in enumerate(zip(*tree, strict=True), start=1):
            arcs[int(inside), d, h] += probability
        boundary += probability * np.array(oracle.boundaries(tree))
    np.testing.assert_allclose(found.inter[0], arcs[0], atol=1e-9)
    np.testing.assert_allclose(found.intra[0], arcs[1], atol=1e-9)
    np.testing.assert_allclose(found.boundary[0, :n], boundary, atol=1e-9)


@given(problems(max_length=4))
def test_rank_and_sample(problem):
    trees, scores, ranked = problem
    if not ranked:
        return
    n = int(trees.lengths[0])
    favoured = trees.favouring(scores)
    assert favoured.best().score[0] == pytest.approx(ranked[0][0], abs=1e-9)
    (found,) = favoured.k_best(len(ranked) + 1)
    np.testing.assert_allclose(found.score, [score for score, _ in ranked], atol=1e-9)
    logz = oracle.log_sum_exp([score for score, _ in ranked])
    of_tree = {tree: score - logz for score, tree in ranked}
    drawn = favoured.sample(5, seed=3)
    for heads, intra, score in zip(drawn.heads[0], drawn.intra[0], drawn.score[0], strict=True):
        tree = oracle.TypedTree(tuple(heads[1 : n + 1].tolist()), tuple(intra[1 : n + 1].tolist()))
        assert score == pytest.approx(of_tree[tree], abs=1e-9)


@given(problems(), st.sampled_from([0.5, 2.0]))
def test_scores_add_up_and_are_divided_by_a_temperature(problem, temperature):
    trees, scores, ranked = problem
    twice = trees.favouring(scores).favouring(scores).favouring(-scores)
    assert twice.log_partition()[0] == pytest.approx(trees.favouring(scores).log_partition()[0], abs=1e-9)
    logz = oracle.log_sum_exp([score / temperature for score, _ in ranked])
    at = trees.favouring(scores).at(temperature)
    assert at.log_partition()[0] == pytest.approx(logz, abs=1e-9)


@pytest.mark.parametrize("scale", [1.0, 30.0, 1e3])
@pytest.mark.parametrize("n", [20, 120])
def test_long_sentences(n, scale):
    """The sum over all trees equals the sum over all values of three gaps, each with its own score."""
    random = np.random.default_rng(n)
    inter, intra = random.normal(size=(2, 2, n + 1, n + 1)) * scale
    trees = TreeDistribution(inter, [n, n - 3], intra)
    places = [2, 7, 8]
    scores = np.zeros((2, n + 1))
    scores[:, places] = [30.0, -4.0, 2.5]
    sums = []
    for known in product((JOIN, BREAK), repeat=3):
        gaps = np.zeros((2, n + 1), dtype=np.int8)
        gaps[:, places] = known
        sums.append(trees.given(gaps).log_partition() + scores[0, places] @ (np.array(known) == BREAK))
    favoured = trees.favouring(scores)
    expected = np.logaddexp.reduce(sums)
    np.testing.assert_allclose(favoured.log_partition(), expected, rtol=1e-11)
    np.testing.assert_allclose(favoured.pick([1]).log_partition(), expected[1:], rtol=1e-11)
    step = 1e-4
    moved = [trees.favouring(scores + sign * step * (np.arange(n + 1) == 7)) for sign in (1, -1)]
    slope = (moved[0].log_partition() - moved[1].log_partition()) / (2 * step)
    np.testing.assert_allclose(favoured.marginals().boundary[:, 7], slope, atol=1e-5)


def test_reject_what_is_no_score():
    zeros = np.zeros((1, 4, 4))
    typed = TreeDistribution(zeros, [3], zeros)
    for wrong in (np.full((1, 4), 301.0), np.full((1, 4), np.nan), np.zeros((1, 3))):
        with pytest.raises(ValueError, match="boundaries"):
            typed.favouring(wrong)
    with pytest.raises(ValueError, match="untyped"):
        TreeDistribution(zeros, [3]).favouring(np.zeros((1, 4)))
