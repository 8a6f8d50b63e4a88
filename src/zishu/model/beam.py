"""Find the best analyses of a transition parser by beam search, and compute their probabilities.

The network gives every character one vector for each position in a state (`zishu.transitions.State.features`). A state
is the sum of the vectors of its characters. One more layer turns it into scores of actions, and a softmax over the
legal ones into probabilities. The beam keeps the most probable states after each action; finished analyses wait. A beam
of 1 is greedy search.

Probabilities come from the beam; they are not sums over all trees. The probability of a tree is the sum over its
derivations in the beam, a lower bound. The probability of a word or a head is the share of the beam that agrees with
it; with a beam of 1 it is 1.

Cost: linear in the length, times the width of the beam.
"""

from __future__ import annotations

from collections import defaultdict
from heapq import nlargest
from itertools import pairwise
from math import exp
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from zishu.chart import Trees
from zishu.model.confidence import Confidence
from zishu.model.labels import log_sum_exp
from zishu.model.words import Words, find_words, head_spans
from zishu.transitions import FEATURES, LEAK, State, replay

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from zishu.chart import Floats
    from zishu.model.batch import ScoredBatch
    from zishu.model.settings import Settings


class _Hypothesis(NamedTuple):
    score: float
    state: State
    history: Any  # the last action and the history before it


def search(batch: ScoredBatch, k: int = 1) -> tuple[NDArray[np.int64], Trees, Confidence]:
    """Return the sentence of each tree, up to k trees of each sentence, best first, and their probabilities.

    The trees of a sentence differ in their words or in the words' heads.
    """
    states, lengths = batch.outputs.states, batch.lengths
    assert states is not None
    beams = _beams(states, lengths, batch.gaps, batch.settings)
    numbers = np.repeat(np.arange(len(beams)), [len(beam) for beam in beams])
    heads = np.zeros((len(numbers), states.shape[1]), dtype=np.int64)
    intra = np.zeros(heads.shape, dtype=np.bool_)
    flat = [hypothesis for beam in beams for hypothesis in beam]
    for t, (b, hypothesis) in enumerate(zip(numbers.tolist(), flat, strict=True)):
        n = int(lengths[b])
        heads[t, 1 : n + 1], intra[t, 1 : n + 1] = replay(n, _actions(hypothesis.history))
    trees = _word_trees(find_words(heads, intra, lengths, numbers))
    chosen: list[int] = []
    probabilities: list[float] = []
    boundaries: list[float] = []
    of_heads: list[float] = []
    first = 0
    for beam in beams:
        mine = range(first, first + len(beam))
        first += len(beam)
        # Relative to the best, which comes first: probabilities of long sentences underflow.
        best_score = beam[0].score
        shares = {t: exp(flat[t].score - best_score) for t in mine}
        groups: dict[tuple[Any, ...], list[int]] = {}
        # For spans, and for words: spans with the spans of their heads.
        agree: defaultdict[Any, float] = defaultdict(float)
        for t in mine:
            groups.setdefault(trees[t], []).append(t)
            for word in trees[t]:
                agree[word] += shares[t]
                agree[word[0]] += shares[t]
        whole = sum(shares.values())
        ranked = sorted(groups.values(), key=lambda group: -sum(shares[t] for t in group))
        for group in ranked[:k]:
            best = group[0]  # the beam is sorted
            chosen.append(best)
            probabilities.append(min(1.0, exp(best_score) * sum(shares[t] for t in group)))
            boundaries += [min(1.0, agree[word[0]] / whole) for word in trees[best]]
            of_heads += [min(1.0, agree[word] / agree[word[0]]) for word in trees[best]]
    scores = np.array([flat[t].score for t in chosen])
    sure = Confidence(np.array(probabilities), np.array(boundaries), np.array(of_heads))
    return numbers[chosen], Trees(heads[chosen], intra[chosen], scores), sure


def _beams(
    states: Floats, lengths: NDArray[np.int64], gaps: NDArray[np.int8], settings: Settings
) -> list[list[_Hypothesis]]:
    """Return the finished analyses of each sentence, best first."""
    weights = np.array(settings.actions, dtype=np.float64)
    by_place = np.asarray(states, dtype=np.float64).reshape(*states.shape[:2], FEATURES, -1)
    each_place = np.arange(FEATURES)
    sizes, known = lengths.tolist(), gaps.tolist()
    beams = [[_Hypothesis(0.0, State(), None)] for _ in sizes]
    while True:
        going, done = [], [[] for _ in sizes]  # type: ignore[var-annotated]
        for b, beam in enumerate(beams):
            for hypothesis in beam:
                legal = hypothesis.state.legal(sizes[b], known[b])
                if legal:
                    going.append((b, hypothesis, legal))
                else:
                    done[b].append((hypothesis.score, hypothesis, None))
        if not going:
            return beams
        rows = np.array([b for b, _, _ in going])
        places = np.array([hypothesis.state.features(sizes[b]) for b, hypothesis, _ in going])
        hidden = by_place[rows[:, None], places, each_place].sum(axis=1)
        scores = np.where(hidden > 0, hidden, LEAK * hidden) @ weights[:, :-1].T + weights[:, -1]
        candidates = done
        for (b, hypothesis, legal), of_actions in zip(going, scores, strict=True):
            possible = of_actions[legal]
            logp = possible - log_sum_exp(possible)
            candidates[b] += [
                (hypothesis.score + p, hypothesis, action)
                for action, p in zip(legal, logp.tolist(), strict=True)
            ]
        beams = [
            [
                before
                if action is None
                else _Hypothesis(score, before.state.step(action), (action, before.history))
                for score, before, action in nlargest(settings.beam, several, key=lambda item: item[0])
            ]
            for several in candidates
        ]


def _actions(history: Any) -> list[int]:
    actions = []
    while history is not None:
        action, history = history
        actions.append(action)
    return actions[::-1]


def _word_trees(words: Words) -> list[tuple[Any, ...]]:
    """Represent each tree by its words: span and span of the head."""
    starts, ends = head_spans(words)
    spans = zip(words.start.tolist(), words.end.tolist(), strict=True)
    rows = list(zip(spans, zip(starts.tolist(), ends.tolist(), strict=True), strict=True))
    bounds = words.bounds.tolist()
    return [tuple(rows[first:last]) for first, last in pairwise(bounds)]
