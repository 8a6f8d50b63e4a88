"""The transition system builds legal trees only, and its oracle reaches every one of them: by enumeration."""

from __future__ import annotations

from itertools import product

import pytest

import oracle as trees
from oracle import TypedTree
from zishu.gaps import BREAK, FREE, JOIN
from zishu.transitions import END, FEATURES, State, oracle, replay


def derivations(n, gaps=None):
    """Follow every legal sequence of actions to its end."""
    waiting = [(State(), ())]
    while waiting:
        state, actions = waiting.pop()
        legal = state.legal(n, gaps)
        waiting += [(state.step(action), (*actions, action)) for action in legal]
        if not legal:
            assert state.following == n + 1
            assert state.open == 0
            assert state.stack is not None
            assert state.stack[1] is None
            yield actions


def tree_of(n, actions):
    heads, intra = replay(n, actions)
    return TypedTree(tuple(heads), tuple(intra))


@pytest.mark.parametrize("n", range(1, 6))
def test_every_legal_typed_tree_is_reached_by_its_oracle(n):
    for tree in trees.typed_trees(n, None):
        steps = list(oracle(tree.heads, tree.intra))
        actions = [action for _, action in steps]
        assert tree_of(n, actions) == tree
        words = len(trees.words_of(tree))
        assert len(actions) == 2 * n - 1 + words
        assert actions.count(END) == words
        for state, action in steps:
            assert action in state.legal(n)
            assert len(state.features(n)) == FEATURES


@pytest.mark.parametrize("n", range(1, 6))
def test_the_actions_build_exactly_the_legal_trees_that_agree_with_the_gaps(n):
    for inner in product((FREE, JOIN, BREAK), repeat=n - 1):
        gaps = [BREAK, *inner, BREAK]
        built = {tree_of(n, actions) for actions in derivations(n, gaps)}
        assert built == set(trees.typed_trees(n, gaps))


def test_the_oracle_obeys_the_gaps_of_its_tree():
    for tree in trees.typed_trees(4, None):
        gaps = [*(BREAK if edge else JOIN for edge in trees.boundaries(tree)), BREAK]
        for state, action in oracle(tree.heads, tree.intra):
            assert action in state.legal(4, gaps)
