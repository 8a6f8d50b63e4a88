"""Partial trees stand for exactly the trees that agree with them, whatever is known."""

from __future__ import annotations

import numpy as np
import pytest

import oracle
from forests import KINDS, LABEL, LABEL_INDEX, agrees, known, trees_of
from oracle import BREAK, FREE, JOIN
from zishu.arcs import ROOT_SPAN
from zishu.errors import InputError
from zishu.forest import ANY, build_forest
from zishu.partial import KnownWord, partial_of_raw, partial_tree
from zishu.sentences import text_sentences
from zishu.tree import WordTree


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("root_as_head", [True, False])
def test_a_forest_holds_exactly_the_trees_that_agree(kind, root_as_head):
    partial = KINDS[kind]
    forest = build_forest(partial, LABEL_INDEX)
    everything = oracle.typed_trees(4, None, root_as_head=root_as_head)
    expected = {tree for tree in everything if agrees(tree, partial)}
    forest.labels[forest.labels == ANY] = 1  # the helper needs names
    found = list(trees_of(forest, root_as_head=root_as_head))
    assert set(found) == expected
    assert len(found) == len(expected) > 0
    assert (len(expected) < len(everything)) == (kind != "nothing")


def test_the_forest_of_a_full_tree_is_that_of_its_word_tree():
    tree = WordTree(("上海", "计划", "发展"), (2, 0, 2), (LABEL, "root", LABEL))
    full, partial = build_forest(tree, LABEL_INDEX), build_forest(partial_tree(tree), LABEL_INDEX)
    assert full.gaps[:-1].tolist() == partial.gaps[:-1].tolist()
    for intra in (False, True):
        one, other = (
            {tuple(arc) for arc in np.transpose(forest.arcs(intra=intra)).tolist()}
            for forest in (full, partial)
        )
        assert one == other
    assert partial_tree(tree).is_full


def test_an_unknown_relation_is_any():
    forest = build_forest(KINDS["a head"], LABEL_INDEX)
    assert set(forest.arcs(intra=False)[2].tolist()) == {ANY}
    forest = build_forest(KINDS["a relation without its head"], LABEL_INDEX)
    assert LABEL_INDEX[LABEL] in forest.arcs(intra=False)[2]


def test_a_structure_policy_is_for_known_words():
    forest = build_forest(KINDS["some words"], LABEL_INDEX, policy="leftward")
    dependents, heads, _ = forest.arcs(intra=True)
    assert set(zip(dependents.tolist(), heads.tolist(), strict=True)) == {(1, 2), (3, 4), (4, 3)}


def test_what_a_lexicon_and_pins_tell_is_a_partial_tree():
    from zishu.lexicon import Lexicon

    [raw] = text_sentences(
        "我在上海 学习", lexicon=Lexicon(["上海"]), pins=[(0, 1), (1, 2)], arcs=[(0, 1, "nsubj")]
    )
    partial = partial_of_raw(raw)
    assert partial.gaps[1:6].tolist() == [BREAK, BREAK, JOIN, BREAK, FREE]
    assert partial.words == (KnownWord((1, 2), (2, 3), "nsubj"),)
    assert partial.is_known
    assert not partial.is_full
    [plain] = text_sentences("我在上海")
    assert not partial_of_raw(plain).is_known


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([KnownWord((1, 3), (3, 5)), KnownWord((3, 5), (1, 3))], "cycle"),
        ([KnownWord((1, 3), ROOT_SPAN), KnownWord((3, 5), ROOT_SPAN)], "two roots"),
        ([KnownWord((1, 2))], "boundaries of the word '上'"),
        ([KnownWord((1, 3), (3, 4))], "boundaries of the word '计'"),
        ([KnownWord((1, 3)), KnownWord((1, 3))], "twice"),
    ],
)
def test_contradictions_are_named(words, message):
    with pytest.raises(InputError, match=message):
        known("上海计划", "+|+", *words)


def test_crossing_arcs_are_named():
    words = [KnownWord((1, 2), (3, 4)), KnownWord((2, 3), (4, 5))]
    with pytest.raises(InputError, match="cross"):
        known("上海计划", "|||", *words)
