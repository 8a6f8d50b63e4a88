"""Fixed arcs: rejected ones, and the conditional distribution, compared with the enumeration of all trees."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
import zishu
from oracle import has_arc
from strategies import fixed_arcs, gap_vectors
from zishu import cli
from zishu.arcs import ROOT_SPAN, FixedArc
from zishu.chart import TreeDistribution
from zishu.errors import InputError
from zishu.model.batch import allowed_arcs, over_words
from zishu.sentences import text_sentences


def place(text: str, pins: Any, arcs: Any) -> list[tuple[FixedArc, ...]]:
    return [sentence.arcs for sentence in text_sentences(text, pins=pins, arcs=arcs)]


def test_arcs_are_placed_by_the_characters_of_their_sentence() -> None:
    text = "他来了。我 喜欢e\u0301京。"
    pins = [(4, 5), (6, 8), (8, 11), (0, 1)]
    found = place(text, pins, [(8, 6, "obj"), (6, None), (4, 6)])
    assert found == [
        (),
        (FixedArc((4, 6), (2, 4), "obj"), FixedArc((2, 4), ROOT_SPAN), FixedArc((1, 2), (2, 4))),
    ]
    assert place(text, pins, []) == [(), ()]


@pytest.mark.parametrize(
    ("arcs", "message"),
    [
        ([(0, 3)], "the arc 0:3 needs a pinned word that begins at 3"),
        ([(5, 0)], "the arc 5:0 needs a pinned word that begins at 5"),
        ([(0, 0)], "the arc 0:0 makes a word its own head"),
        ([(0, 2), (0, 4)], "the arcs 0:2 and 0:4 give one word two heads"),
        ([(0, 2), (0, None)], "the arcs 0:2 and 0:root give one word two heads"),
        ([(0, 2, "obj"), (0, 2, "nsubj")], "the arcs 0:2 and 0:2 give one word two relations"),
        ([(0, 2), (2, 0)], "the arcs 0:2, 2:0 form a cycle"),
        ([(6, 0), (0, 2), (2, 4), (4, 0)], "the arcs 0:2, 2:4, 4:0 form a cycle"),
        ([(0, 4), (2, 6)], "the arcs 0:4 and 2:6 cross"),
        ([(2, None), (0, 4)], "the arcs 2:root and 0:4 cross"),
        ([(2, None), (0, None)], "the arcs 2:root and 0:root give one sentence two roots"),
        ([(0, 4), (6, 0)], "the arc 6:0 spans the word at 4, which is an ancestor of its head"),
        ([(0, 8)], "the arc 0:8 connects words of two sentences"),
        ([3], r"an arc is \(dependent, head\) or \(dependent, head, relation\) .* not 3"),
        ([(3,)], r"not \(3,\)"),
        ([(0, 2, "obj", 1)], "not"),
        ([(0, "2")], "not"),
        ([(None, 2)], "not"),
        ([(0, 2, 5)], "the relation of an arc is a string, not 5"),
        ([(0, 2, "")], "the relation of an arc is a string"),
    ],
)
def test_contradictions_name_their_offsets(arcs: Any, message: str) -> None:
    text = "甲乙丙丁戊己庚。子丑"
    pins = [(0, 2), (2, 4), (4, 6), (6, 7), (8, 10)]
    with pytest.raises(InputError, match=message):
        place(text, pins, arcs)


def test_an_arc_may_be_given_twice() -> None:
    assert place("甲乙", [(0, 1), (1, 2)], [(0, 1), (0, 1)]) == [(FixedArc((1, 2), (2, 3)),)]


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_arcs_are_refused_exactly_if_no_tree_has_them(n: int) -> None:
    """All sets of arcs with one head at most for each word, against all projective trees."""
    text, pins = "字" * n, [(k, k + 1) for k in range(n)]
    trees = oracle.trees(n)
    for heads in product(*([None, *(h for h in range(n + 1) if h != d)] for d in range(1, n + 1))):
        arcs = [(d, None if h == 0 else h - 1) for d, h in enumerate(heads) if h is not None]
        possible = any(all(h in (None, g) for h, g in zip(heads, tree, strict=True)) for tree in trees)
        if possible:
            place(text, pins, arcs)
        else:
            with pytest.raises(InputError):
                place(text, pins, arcs)


@st.composite
def fixed(draw: st.DrawFn) -> tuple[int, list[int], list[FixedArc]]:
    """Draw gaps of up to six characters and fixed arcs between the words that they define."""
    n = draw(st.integers(1, 6))
    gaps = draw(gap_vectors(n))
    return n, gaps, draw(fixed_arcs(n, gaps))


@given(fixed(), st.integers(0, 2**32 - 1), st.booleans())
def test_probabilities_are_those_of_the_trees_with_the_arcs(
    drawn: tuple[int, list[int], list[FixedArc]], seed: int, root_as_head: bool
) -> None:
    n, gaps, arcs = drawn
    inter, intra = np.random.default_rng(seed).normal(0, 2, (2, 1, n + 1, n + 1))
    whole = TreeDistribution(inter, [n], intra, [[*gaps[:n], 0]], root_as_head=root_as_head)
    allowed = allowed_arcs([arcs], n + 1)
    assert (allowed is None) == (not arcs)
    trees = whole.given(inter=allowed)
    weights = {
        tree: math.exp(oracle.score(tree, inter[0], intra[0]))
        for tree in oracle.typed_trees(n, gaps, root_as_head=root_as_head)
        if all(has_arc(tree, arc.dependent, arc.head) for arc in arcs)
    }
    total = sum(weights.values())
    assert trees.log_partition()[0] == pytest.approx(math.log(total))
    found = trees.marginals()
    expected = np.zeros((2, n + 1, n + 1))
    for tree, weight in weights.items():
        for d, (h, inside) in enumerate(zip(*tree, strict=True), start=1):
            expected[int(inside), d, h] += weight / total
    np.testing.assert_allclose(found.inter[0], expected[0], atol=1e-9)
    np.testing.assert_allclose(found.intra[0], expected[1], atol=1e-9)
    best = trees.best()
    tree = oracle.TypedTree(tuple(best.heads[0, 1:].tolist()), tuple(best.intra[0, 1:].tolist()))
    assert weights[tree] == pytest.approx(max(weights.values()))


def test_arcs_over_words() -> None:
    arcs = [FixedArc((1, 3), (3, 4)), FixedArc((3, 4), ROOT_SPAN, "root")]
    assert over_words(arcs, [2, 1, 5]) == (FixedArc((1, 2), (2, 3)), FixedArc((2, 3), ROOT_SPAN, "root"))


# --- the model, the parser, the command line


def test_a_parser_keeps_fixed_arcs_and_says_what_is_left() -> None:
    nlp = zishu.load()
    text = "我喜欢北京。他来了。"
    pins = [(0, 1), (1, 3), (3, 5)]
    [first, second] = nlp(text, pins=pins, arcs=[(1, 3, "advmod"), (3, None)])
    assert [word.form for word in first] == ["我", "喜欢", "北京", "。"]
    like, city = first[1], first[2]
    assert (like.head, like.deprel, city.head, city.deprel) == (3, "advmod", 0, "root")
    assert [like.head_prob, like.label_prob, city.head_prob] == pytest.approx([1.0] * 3)
    assert second == nlp(text)[1]
    ranked = nlp.k_best(text, 5, pins=pins, arcs=[(1, 3), (3, None)])[0]
    assert len(ranked) > 1
    assert all(sentence[1].head == 3 for sentence in ranked)
    # What the model finds anyway only becomes more probable.
    free = nlp(text)[0]
    assert free[0].head == 2
    again = nlp(text, pins=pins, arcs=[(0, 1)])[0]
    assert again.tree == free.tree
    assert again.prob >= free.prob


def test_a_relation_must_be_known_and_in_its_place() -> None:
    nlp = zishu.load()
    pins = [(0, 1), (1, 3)]
    with pytest.raises(InputError, match=r"unknown relation 'subject' to a word: this model has .*nsubj"):
        nlp("我喜欢北京。", pins=pins, arcs=[(0, 1, "subject")])
    with pytest.raises(InputError, match="unknown relation 'root' to a word"):
        nlp("我喜欢北京。", pins=pins, arcs=[(0, 1, "root")])
    with pytest.raises(InputError, match="unknown relation 'nsubj' to the root: this model has root"):
        nlp("我喜欢北京。", pins=pins, arcs=[(0, None, "nsubj")])
    with pytest.raises(InputError, match="arcs are a list, not 5"):
        nlp("我喜欢北京。", pins=pins, arcs=5)


def test_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["parse", "我喜欢北京。", "--pin", "0:1", "--pin", "1:3", "--format", "conllu"]
    assert cli.run([*words, "--arc", "1:root", "--arc", "0:1:obl:tmod"]) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines() if line[:1].isdigit()]
    assert [row[6:8] for row in rows[:2]] == [["2", "obl:tmod"], ["0", "root"]]
    for arguments, message in [
        ([*words, "--arc", "1"], "--arc 1: expected two offsets D:H"),
        ([*words, "--arc", "x:1"], "--arc x:1: expected"),
        ([*words, "--arc", "0:3"], "the arc 0:3 needs a pinned word that begins at 3"),
        (["parse", "--arc", "0:1", "-i", "x.txt"], "--arc needs TEXT"),
    ]:
        assert cli.run(arguments) == 2
        assert message in capsys.readouterr().err
