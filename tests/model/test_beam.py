"""The beam search of a transition parser against an enumeration of all derivations."""

from __future__ import annotations

from math import exp

import numpy as np
import pytest

import oracle as trees
from zishu.gaps import BREAK, FREE, JOIN
from zishu.model.beam import search
from zishu.model.settings import WIDEST_BEAM, Settings
from zishu.transitions import ACTIONS, FEATURES, LEAK, State, replay
from zishu.tree import INTRA

WIDTH = 3


def make_settings(beam, rng):
    actions = tuple(map(tuple, rng.normal(size=(ACTIONS, WIDTH + 1)).tolist()))
    return Settings(task="parse", roles=2, labels=("dep", INTRA), beam=beam, actions=actions)


def make_states(n, rng):
    return rng.normal(scale=2.0, size=(1, n + 1, FEATURES * WIDTH))


def free(n):
    return [BREAK, *[FREE] * (n - 1), BREAK]


def log_probabilities(states, settings, state, n, gaps):
    """Score the legal actions of a state, one number at a time."""
    hidden = [
        sum(states[0, character, place * WIDTH + k] for place, character in enumerate(state.features(n)))
        for k in range(WIDTH)
    ]
    active = [x if x > 0 else LEAK * x for x in hidden]
    scores = {}
    for action in state.legal(n, gaps):
        *weights, bias = settings.actions[action]
        scores[action] = sum(w * x for w, x in zip(weights, active, strict=True)) + bias
    log_sum = np.logaddexp.reduce(list(scores.values())) if scores else 0.0
    return {action: score - log_sum for action, score in scores.items()}


def derivations(states, settings, n, gaps):
    """List every finished derivation with its log-probability."""
    waiting, finished = [(State(), (), 0.0)], []
    while waiting:
        state, actions, score = waiting.pop()
        found = log_probabilities(states, settings, state, n, gaps)
        waiting += [(state.step(a), (*actions, a), score + p) for a, p in found.items()]
        if not found:
            finished.append((score, actions))
    return finished


def run(states, settings, gaps, k=1):
    n = states.shape[1] - 1
    return search(states, np.array([n]), np.array([gaps], dtype=np.int8), settings, k)


def tree_of(found, t=0):
    return found.heads[t, 1:].tolist(), found.intra[t, 1:].tolist()


def word_tree(heads, intra):
    """Represent the words as sets of characters, each with its head word."""
    words = [*map(frozenset, trees.words_of(trees.TypedTree(tuple(heads), tuple(intra))))]
    word_of = {d: word for word in words for d in word} | {0: frozenset()}
    return frozenset((word_of[d], word_of[h]) for d, h in enumerate(heads, 1) if not intra[d - 1])


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("n", range(1, 7))
def test_a_beam_of_one_is_greedy(n, seed):
    rng = np.random.default_rng(seed)
    settings, states = make_settings(1, rng), make_states(n, rng)
    state, actions, score = State(), [], 0.0
    while found := log_probabilities(states, settings, state, n, free(n)):
        action = max(found, key=found.__getitem__)
        actions.append(action)
        score += found[action]
        state = state.step(action)
    best = run(states, settings, free(n))
    heads, intra = replay(n, actions)
    assert tree_of(best) == (heads, intra)
    assert best.probabilities == [pytest.approx(exp(score))]
    assert {*best.boundaries, *best.of_heads} == {1.0}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("n", range(1, 5))
def test_a_wide_beam_finds_the_best_derivation_and_all_of_the_probability(n, seed):
    rng = np.random.default_rng(seed)
    settings, states = make_settings(WIDEST_BEAM, rng), make_states(n, rng)
    everything = derivations(states, settings, n, free(n))
    assert len(everything) <= WIDEST_BEAM
    assert sum(exp(score) for score, _ in everything) == pytest.approx(1.0)
    found = run(states, settings, free(n), k=len(everything))
    assert sum(found.probabilities) == pytest.approx(1.0)
    assert found.probabilities == sorted(found.probabilities, reverse=True)
    of_trees, best_of_trees = {}, {}
    for score, actions in sorted(everything):
        tree = replay(n, actions)
        of_trees[word_tree(*tree)] = of_trees.get(word_tree(*tree), 0.0) + exp(score)
        best_of_trees[word_tree(*tree)] = tree
    for t, probability in enumerate(found.probabilities):
        tree = tree_of(found, t)
        assert probability == pytest.approx(of_trees[word_tree(*tree)])
        assert best_of_trees[word_tree(*tree)] == tree  # the best derivation of its words and their heads
    assert len(found.probabilities) == len(of_trees)


@pytest.mark.parametrize("n", range(2, 5))
@pytest.mark.parametrize("beam", [1, 4, WIDEST_BEAM])
def test_given_words_are_honoured(n, beam):
    rng = np.random.default_rng(n)
    settings, states = make_settings(beam, rng), make_states(n, rng)
    for number in range(2 ** (n - 1)):
        gaps = [BREAK, *(BREAK if number >> k & 1 else JOIN for k in range(n - 1)), BREAK]
        found = run(states, settings, gaps, k=3)
        legal = {(tree.heads, tree.intra) for tree in trees.typed_trees(n, gaps)}
        for t in range(len(found.numbers)):
            heads, intra = tree_of(found, t)
            assert (tuple(heads), tuple(intra)) in legal
        assert set(found.boundaries) == {1.0}


def test_probabilities_of_a_long_sentence_do_not_underflow():
    n = 2000
    states = make_states(n, np.random.default_rng(0))
    settings = Settings(
        task="parse", roles=2, labels=("dep", INTRA), beam=4, actions=((0.0,) * (WIDTH + 1),) * ACTIONS
    )
    found = run(states, settings, free(n))
    assert found.probabilities[0] == 0.0
    assert all(0 < p <= 1 for p in (*found.boundaries, *found.of_heads))


def test_sentences_of_a_batch_do_not_touch_each_other():
    rng = np.random.default_rng(1)
    settings = make_settings(4, rng)
    several = [make_states(n, rng) for n in (2, 5, 3)]
    states = np.zeros((3, 6, FEATURES * WIDTH))
    gaps = np.full((3, 6), FREE, dtype=np.int8)
    for b, one in enumerate(several):
        states[b, : one.shape[1]] = one[0]
    found = search(states, np.array([2, 5, 3]), gaps, settings)
    for b, (n, one) in enumerate(zip((2, 5, 3), several, strict=True)):
        alone = run(one, settings, free(n))
        assert found.heads[b, 1 : n + 1].tolist() == alone.heads[0, 1:].tolist()
        assert found.probabilities[b] == pytest.approx(alone.probabilities[0])
