"""The pseudo-projective transformation: its result is projective, and the inverse restores the heads."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import any_heads
from zishu.errors import InputError
from zishu.projectivity import LIFTED, lower_arcs, projectivize
from zishu.tree import WordTree, is_projective

RELATIONS = ("nsubj", "obj", "acl", "obl")


def tree_of(heads, labels) -> WordTree:
    return WordTree(tuple(f"词{k}" for k in range(len(heads))), tuple(heads), tuple(labels))


def deprojectivize(tree: WordTree) -> WordTree:
    heads, labels = lower_arcs(tree.heads, tree.deprels)
    return replace(tree, heads=tuple(heads), deprels=tuple(labels))


def labelled(heads) -> st.SearchStrategy[WordTree]:
    labels = st.lists(st.sampled_from(RELATIONS), min_size=len(heads), max_size=len(heads))
    return labels.map(lambda names: tree_of(heads, names))


any_tree = st.integers(1, 9).flatmap(any_heads).flatmap(labelled)


def test_a_lifted_arc_says_where_it_came_from():
    # 1 <- 2(root); 3 and 4 depend on 2; 5 depends on 3, across 4.
    tree = tree_of((2, 0, 2, 2, 3), ("nsubj", "root", "obj", "obl", "acl"))
    lifted = projectivize(tree)
    assert lifted.heads == (2, 0, 2, 2, 2)
    assert lifted.deprels == ("nsubj", "root", "obj", "obl", f"acl{LIFTED}obj")
    assert deprojectivize(lifted) == tree


def test_the_shortest_arc_is_lifted_first_and_as_often_as_needed():
    # 4 belongs to 1, over 3 (the root) and past 2, its head: two lifts.
    tree = tree_of((2, 3, 0, 1), ("acl", "obj", "root", "nsubj"))
    lifted = projectivize(tree)
    assert lifted.heads == (2, 3, 0, 3)
    assert lifted.deprels[3] == f"nsubj{LIFTED}acl"
    assert deprojectivize(lifted) == tree


def test_the_way_back_takes_the_first_word_that_fits():
    """A known loss: if two words have the relation of the mark, the one nearer to the top and the left wins."""
    tree = tree_of((0, 1, 1, 1, 3), ("root", "obj", "obj", "obl", "acl"))
    assert deprojectivize(projectivize(tree)).heads == (0, 1, 1, 1, 2)


def test_a_mark_that_fits_nothing_is_taken_off():
    assert deprojectivize(tree_of((0, 1), ("root", f"obj{LIFTED}acl"))) == tree_of((0, 1), ("root", "obj"))


@given(any_tree)
def test_the_result_is_projective_and_the_way_back_a_tree_with_the_same_labels(tree):
    lifted = projectivize(tree)
    assert is_projective(lifted.heads)
    assert (lifted is tree) == tree.is_projective
    assert deprojectivize(lifted).deprels == tree.deprels  # WordTree rejects heads that form no tree


@given(st.integers(1, 9).flatmap(any_heads))
def test_the_round_trip_is_exact_where_relations_tell_words_apart(heads):
    tree = tree_of(heads, [f"r{k}" for k in range(len(heads))])
    assert deprojectivize(projectivize(tree)) == tree


@given(any_tree, st.data())
def test_any_marks_give_a_tree(tree, data):
    marks = data.draw(
        st.lists(st.sampled_from(("", *RELATIONS)), min_size=len(tree.forms), max_size=len(tree.forms))
    )
    labels = [
        f"{label}{LIFTED}{mark}" if mark else label for label, mark in zip(tree.deprels, marks, strict=True)
    ]
    assert deprojectivize(tree_of(tree.heads, labels)).deprels == tree.deprels


def test_labels_with_the_mark_are_refused():
    with pytest.raises(InputError, match="marks lifted arcs"):
        projectivize(tree_of((0,), (f"a{LIFTED}b",)))
