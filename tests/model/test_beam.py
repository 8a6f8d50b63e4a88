"""The beam search of a transition parser against an enumeration of all derivations."""

from __future__ import annotations

from math import exp

import numpy as np
import pytest

import oracle as trees
from raw_sentences import all_chars
from zishu.gaps import BREAK, FREE, JOIN
from zishu.model.batch import ScoredBatch
from zishu.model.beam import search
from zishu.model.outputs import Outputs
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
    [sentence] = all_chars([["字"] * (states.shape[1] - 1)], [np.array(gaps, dtype=np.int8)])
    _, found, sure = search(ScoredBatch(Outputs(states=states), [sentence], settings), k)
    return found, sure


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
    best, sure = run(states, settings, free(n))
    heads, intra = replay(n, actions)
    assert tree_of(best) == (heads, intra)
    assert best.score.tolist() == [pytest.approx(score)]
    assert sure.trees.tolist() == [pytest.approx(exp(score))]
    assert {*sure.boundaries, *sure.heads} == {1.0}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("n", range(1, 5))
def test_a_wide_beam_finds_the_best_derivation_and_all_of_the_probability(n, seed):
    rng = np.random.default_rng(seed)
    settings, states = make_settings(WIDEST_BEAM, rng), make_states(n, rng)
    everything = derivations(states, settings, n, free(n))
    assert len(everything) <= WIDEST_BEAM
    assert sum(exp(score) for score, _ in everything) == pytest.approx(1.0)
    found, sure = run(states, settings, free(n), k=len(everything))
    probabilities = sure.trees.tolist()
    assert sum(probabilities) == pytest.approx(1.0)
    assert probabilities == sorted(probabilities, reverse=True)
    of_trees, best_of_trees = {}, {}
    for score, actions in sorted(everything):
        tree = replay(n, actions)
        of_trees[word_tree(*tree)] = of_trees.get(word_tree(*tree), 0.0) + exp(score)
        best_of_trees[word_tree(*tree)] = tree
    for t, probability in enumerate(probabilities):
        tree = tree_of(found, t)
        assert probability == pytest.approx(of_trees[word_tree(*tree)])
        assert best_of_trees[word_tree(*tree)] == tree  # the best derivation of its words and their heads
    assert len(probabilities) == len(of_trees)


@pytest.mark.parametrize("n", range(2, 5))
@pytest.mark.parametrize("beam", [1, 4, WIDEST_BEAM])
def test_given_words_are_honoured(n, beam):
    rng = np.random.default_rng(n)
    settings, states = make_settings(beam, rng), make_states(n, rng)
    for number in range(2 ** (n - 1)):
        gaps = [BREAK, *(BREAK if number >> k & 1 else JOIN for k in range(n - 1)), BREAK]
        found, sure = run(states, settings, gaps, k=3)
        legal = {(tree.heads, tree.intra) for tree in trees.typed_trees(n, gaps)}
        for t in range(len(found.score)):
            heads, intra = tree_of(found, t)
            assert (tuple(heads), tuple(intra)) in legal
        assert set(sure.boundaries) == {1.0}


def test_probabilities_of_a_long_sentence_do_not_underflow():
    n = 2000
    states = make_states(n, np.random.default_rng(0))
    settings = Settings(
        task="parse", roles=2, labels=("dep", INTRA), beam=4, actions=((0.0,) * (WIDTH + 1),) * ACTIONS
    )
    _, sure = run(states, settings, free(n))
    assert sure.trees[0] == 0.0
    assert all(0 < p <= 1 for p in (*sure.boundaries, *sure.heads))


def test_sentences_of_a_batch_do_not_touch_each_other():
    rng = np.random.default_rng(1)
    settings = make_settings(4, rng)
    several = [make_states(n, rng) for n in (2, 5, 3)]
    states = np.zeros((3, 6, FEATURES * WIDTH))
    for b, one in enumerate(several):
        states[b, : one.shape[1]] = one[0]
    sentences = all_chars([["字"] * n for n in (2, 5, 3)])
    numbers, found, sure = search(ScoredBatch(Outputs(states=states), sentences, settings))
    assert numbers.tolist() == [0, 1, 2]
    for b, (n, one) in enumerate(zip((2, 5, 3), several, strict=True)):
        alone, alone_sure = run(one, settings, free(n))
        assert found.heads[b, 1 : n + 1].tolist() == alone.heads[0, 1:].tolist()
        assert sure.trees[b] == pytest.approx(alone_sure.trees[0])
