"""Check the oracle against numbers that it did not compute."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
from oracle import BREAK, FREE, JOIN, TypedTree
from strategies import any_heads, gap_vectors, score_matrices
from zishu import gaps as package_gaps


def test_the_package_numbers_gaps_in_the_same_way() -> None:
    assert (package_gaps.FREE, package_gaps.JOIN, package_gaps.BREAK) == (FREE, JOIN, BREAK)


@pytest.mark.parametrize("n", range(1, 7))
def test_projective_trees_with_one_root_are_counted_by_the_known_formula(n: int) -> None:
    # OEIS A006013: binomial(3m + 1, m) / (m + 1) for m = n - 1.
    m = n - 1
    assert len(oracle.trees(n)) == len(set(oracle.trees(n))) == math.comb(3 * m + 1, m) // (m + 1)


@pytest.mark.parametrize(
    "root_as_head, counts", [(True, [1, 4, 22, 138, 933]), (False, [1, 4, 24, 166, 1240])]
)
def test_typed_trees_come_out_in_the_known_numbers(root_as_head: bool, counts: list[int]) -> None:
    assert [len(oracle.typed_trees(n, root_as_head=root_as_head)) for n in range(1, 6)] == counts


def test_the_typed_trees_of_two_characters() -> None:
    assert set(oracle.typed_trees(2)) == {
        TypedTree((0, 1), (False, False)),
        TypedTree((0, 1), (False, True)),
        TypedTree((2, 0), (False, False)),
        TypedTree((2, 0), (True, False)),
    }


def test_the_two_trees_of_three_characters_that_root_as_head_forbids() -> None:
    # A word of two characters whose inner one heads the third character: 1 => 2 -> 3, and its mirror image.
    extra = set(oracle.typed_trees(3, root_as_head=False)) - set(oracle.typed_trees(3))
    assert extra == {TypedTree((0, 1, 2), (False, True, False)), TypedTree((2, 3, 0), (False, True, False))}


def test_an_intra_word_arc_over_an_inter_word_one_is_illegal() -> None:
    # The paper's Figure 2c: 1 and 3 in one word, 2 in another.
    assert not oracle.is_legal(TypedTree((0, 1, 1), (False, False, True)))
    assert not oracle.is_legal(TypedTree((0, 1, 1), (False, False, True)), root_as_head=False)


@pytest.mark.parametrize("n", range(1, 6))
@pytest.mark.parametrize("root_as_head", [True, False])
def test_a_gap_lies_inside_a_word_exactly_if_the_arc_that_owns_it_is_intra_word(
    n: int, root_as_head: bool
) -> None:
    """Check the idea that the chart rests on: each gap is the split point of one arc, whose role decides."""
    for tree in oracle.typed_trees(n, root_as_head=root_as_head):
        owner_is_intra: dict[int, bool] = {}
        for d, (h, intra) in enumerate(zip(*tree, strict=True), start=1):
            left, right = min(d, h), max(d, h)
            # The split point ends the part between the two that descends from the left one.
            below_left = [c for c in range(left + 1, right) if _hangs_below(tree.heads, c, left, d, h)]
            split = max(below_left, default=left)
            assert split not in owner_is_intra
            owner_is_intra[split] = intra
        assert [not owner_is_intra[k] for k in range(n)] == list(oracle.boundaries(tree))


def _hangs_below(heads: tuple[int, ...], c: int, left: int, d: int, h: int) -> bool:
    """Tell whether the character c under the arc h -> d descends from the left end of the arc."""
    for above in oracle.ancestors(heads, c):
        if above in (d, h):
            return above == left
    raise AssertionError("in a projective tree everything under an arc hangs below one of its ends")


def test_gaps_single_out_one_segmentation() -> None:
    trees = oracle.typed_trees(4, [BREAK, JOIN, BREAK, JOIN])
    # Two words of two characters: each has two structures, and either word may be the root.
    assert len(trees) == 2 * 2 * 2
    assert {oracle.boundaries(tree) for tree in trees} == {(True, False, True, False)}


def test_free_gaps_are_the_sum_of_all_segmentations() -> None:
    for root_as_head in (True, False):
        every = [
            tree
            for first in (JOIN, BREAK)
            for second in (JOIN, BREAK)
            for third in (JOIN, BREAK)
            for tree in oracle.typed_trees(4, [BREAK, first, second, third], root_as_head=root_as_head)
        ]
        assert len(every) == len(set(every))
        assert set(every) == set(oracle.typed_trees(4, root_as_head=root_as_head))


def test_zero_scores_count_trees() -> None:
    zeros = [[0.0] * 6 for _ in range(6)]
    assert math.isclose(oracle.log_partition(zeros, 5, zeros), math.log(933))
    assert math.isclose(oracle.log_partition(zeros, 5, zeros, root_as_head=False), math.log(1240))
    assert math.isclose(oracle.log_partition(zeros, 5), math.log(143))


def test_two_characters_by_hand() -> None:
    a, b, c, d = 1.0, 2.0, -1.0, 0.5  # ROOT -> 1, ROOT -> 2, 1 -> 2, 2 -> 1
    p, q = 3.0, -2.0  # 1 => 2, 2 => 1
    inter = [[9.0, 9.0, 9.0], [a, 9.0, d], [b, c, 9.0]]
    intra = [[9.0, 9.0, 9.0], [9.0, 9.0, q], [9.0, p, 9.0]]
    weights = {"a+c": math.exp(a + c), "a+p": math.exp(a + p), "b+d": math.exp(b + d), "b+q": math.exp(b + q)}
    total = sum(weights.values())
    found = oracle.marginals(inter, 2, intra)
    assert math.isclose(found.logz, math.log(total))
    assert found.intra is not None
    assert found.boundary is not None
    assert math.isclose(found.inter[1][0], (weights["a+c"] + weights["a+p"]) / total)
    assert math.isclose(found.inter[2][1], weights["a+c"] / total)
    assert math.isclose(found.intra[2][1], weights["a+p"] / total)
    assert math.isclose(found.boundary[0], 1.0)
    assert math.isclose(found.boundary[1], (weights["a+c"] + weights["b+d"]) / total)
    assert oracle.best(inter, 2, intra) == (4.0, {TypedTree((0, 1), (False, True))})
    assert oracle.best(inter, 2, intra, [BREAK, BREAK]) == (2.5, {TypedTree((2, 0), (False, False))})
    assert oracle.best(inter, 2) == (2.5, {TypedTree((2, 0), (False, False))})


def test_constraints_without_a_tree() -> None:
    forbidden = [[-math.inf] * 3 for _ in range(3)]
    inter = [[0.0] * 3 for _ in range(3)]
    assert oracle.log_partition(forbidden, 2, forbidden) == -math.inf
    assert oracle.best(inter, 2, forbidden, [BREAK, JOIN]) is None
    assert oracle.marginals(inter, 2, forbidden, [BREAK, JOIN]).boundary == [0.0, 0.0]
    with pytest.raises(ValueError, match="must fix every word"):
        oracle.log_partition(inter, 2, None, [BREAK, FREE])


@given(st.data())
def test_marginals_are_the_gradient_of_the_log_partition(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 4))
    inter, intra = data.draw(score_matrices(n)), data.draw(score_matrices(n))
    gaps = data.draw(gap_vectors(n))
    root_as_head = data.draw(st.booleans())
    found = oracle.marginals(inter, n, intra, gaps, root_as_head=root_as_head)
    d, h = data.draw(st.integers(1, n)), data.draw(st.integers(0, n))
    for scores, probabilities in ((inter, found.inter), (intra, found.intra)):
        assert probabilities is not None
        kept, step = scores[d][h], 1e-4
        ends = []
        for moved in (kept + step, kept - step):
            scores[d][h] = moved
            ends.append(oracle.log_partition(inter, n, intra, gaps, root_as_head=root_as_head))
        scores[d][h] = kept
        assert math.isclose((ends[0] - ends[1]) / (2 * step), probabilities[d][h], abs_tol=1e-6)


@given(st.integers(1, 6).flatmap(any_heads))
def test_projective_means_that_no_two_arcs_cross(heads: tuple[int, ...]) -> None:
    assert oracle.is_tree(heads)
    arcs = [(min(d, h), max(d, h)) for d, h in enumerate(heads, start=1)]
    crossing = any(a < c < b < d for a, b in arcs for c, d in arcs)
    assert oracle.is_projective(heads) == (not crossing)
    assert (heads in oracle.trees(len(heads))) == (not crossing)
