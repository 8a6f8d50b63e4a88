"""What a lexicon does to the probabilities of a parse, against the enumeration of all typed trees."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_beam import make_settings, make_states
from test_confidence import Case, parser, starts_of, word_tree

import oracle
from raw_sentences import all_chars, batch_of
from strategies import gap_vectors
from zishu.errors import InputError
from zishu.gaps import BREAK, FREE, JOIN
from zishu.model.batch import ScoredBatch
from zishu.model.decode import decode, decode_k_best, decode_words
from zishu.model.outputs import Outputs
from zishu.model.segments import decode_segments
from zishu.model.settings import Settings


@st.composite
def cases(draw):
    """Draw sentences in which a lexicon has found something, hard (more gaps are known) or soft (some are favoured)."""
    lengths = draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    roles = draw(st.sampled_from([1, 2]))
    case = Case(lengths, draw(st.integers(0, 2**32)), roles=roles)
    sentences = all_chars(case.units)
    for sentence, n in zip(sentences, lengths, strict=True):
        if draw(st.booleans()):
            bare = np.array(draw(gap_vectors(n)), dtype=np.int8)
            sentence.gaps_without_lexicon = bare
            sentence.gaps = bare
            if draw(st.booleans()):
                sentence.favoured = np.array([draw(st.floats(-5, 5)) for _ in range(n + 1)])
            else:
                more = np.array(draw(gap_vectors(n)), dtype=np.int8)
                sentence.gaps = np.where(more == FREE, bare, more).astype(np.int8)
    return case, sentences, parser(roles=roles, temperature=draw(st.sampled_from([1.0, 1.6])))


def ranked(case, sentence, b, model, gaps, favoured):
    """List all trees of a sentence with their scores, at the model's temperature and with favoured boundaries."""
    n = len(sentence)
    known = [[FREE] * (len(s) + 1) for s in case.units]
    known[b] = gaps
    inter, intra = case.scores(model, known)
    trees = oracle.ranked(inter[b].tolist(), n, intra[b].tolist(), gaps, root_as_head=model.root_as_head)
    return [
        (score + sum(favoured[k] for k, end in enumerate(oracle.boundaries(tree)) if end and k), tree)
        for score, tree in trees
    ]


def probability(trees, starts, heads):
    logz = oracle.log_sum_exp([score for score, _ in trees])
    return math.fsum(math.exp(score - logz) for score, tree in trees if word_tree(tree) == (starts, heads))


@given(cases())
def test_probabilities_with_and_without(drawn):
    case, sentences, model = drawn
    batch = batch_of(case.outputs, sentences, model, case.label_scorer)
    found = decode(batch, confidence=True)
    several = decode_k_best(batch, 3)
    for b, (sentence, best, others) in enumerate(zip(sentences, found, several, strict=True)):
        n = len(sentence)
        gaps = [FREE] * (n + 1) if sentence.gaps is None else sentence.gaps.tolist()
        favoured = [0.0] * (n + 1) if sentence.favoured is None else sentence.favoured.tolist()
        trees = ranked(case, sentence, b, model, gaps, favoured)
        for analysis in (best, *others):
            key = starts_of(analysis), analysis.tree.heads
            assert analysis.prob == pytest.approx(probability(trees, *key), rel=1e-7, abs=1e-9)
            if sentence.gaps_without_lexicon is None:
                assert analysis.prob_without_lexicon is None
                assert {word.boundary_prob_without_lexicon for word in analysis} == {None}
                continue
            bare = ranked(case, sentence, b, model, sentence.gaps_without_lexicon.tolist(), [0.0] * (n + 1))
            if model.roles == 2:  # with one role, which labels are scored depends on the gaps
                expected = probability(bare, *key)
                assert analysis.prob_without_lexicon == pytest.approx(expected, rel=1e-7, abs=1e-9)
                logz = oracle.log_sum_exp([score for score, _ in bare])
                boundary = np.zeros(n + 1)
                for score, tree in bare:
                    boundary[:n] += math.exp(score - logz) * np.array(oracle.boundaries(tree))
                boundary[n] = 1.0
                ends = (*key[0][1:], n + 1)
                for word, start, end in zip(analysis, key[0], ends, strict=True):
                    decisions = [boundary[start - 1], boundary[end - 1]]
                    decisions += [1 - boundary[k] for k in range(start, end - 1)]
                    assert word.boundary_prob_without_lexicon == pytest.approx(min(decisions), abs=1e-9)
            else:
                assert 0 <= analysis.prob_without_lexicon <= 1
    words = decode_words(batch)
    assert [[word.form for word in one.words] for one in words] == [
        [word.form for word in one] for one in found
    ]


@given(st.integers(1, 5), st.integers(0, 1000), st.data())
def test_a_segmenter_adds_the_same_scores(n, seed, data):
    """By enumeration of all segmentations: a boundary after character k adds its score."""
    random = np.random.default_rng(seed)
    tags = random.normal(size=(1, n + 1, 4))
    scores = random.normal(size=(4, 4)), random.normal(size=4), random.normal(size=4)
    transitions, starts, ends = (tuple(map(tuple, s)) if s.ndim == 2 else tuple(s) for s in scores)
    model = Settings(task="segment", transitions=transitions, starts=starts, ends=ends)
    [sentence] = all_chars([["字"] * n])
    favoured = np.array([data.draw(st.floats(-5, 5)) for _ in range(n + 1)])
    best = {}
    for code in range(2 ** (n - 1)):
        lengths, size = [], 0
        for k in range(1, n + 1):
            size += 1
            if k == n or code >> (k - 1) & 1:
                lengths.append(size)
                size = 0
        names = [t for size in lengths for t in ([3] if size == 1 else [0, *[1] * (size - 2), 2])]
        score = sum(tags[0, k, t] for k, t in enumerate(names, start=1)) + starts[names[0]] + ends[names[-1]]
        score += sum(transitions[a][b] for a, b in pairwise(names))
        score += sum(favoured[k] for k in range(1, n) if code >> (k - 1) & 1)
        best[tuple(lengths)] = score
    batch = ScoredBatch(Outputs(tags=tags), [replace(sentence, favoured=favoured)], model)
    [found] = decode_segments(batch, confidence=True)
    logz = oracle.log_sum_exp(list(best.values()))
    assert best[tuple(found.lengths)] == pytest.approx(max(best.values()))
    assert found.prob == pytest.approx(math.exp(best[tuple(found.lengths)] - logz))


def test_a_transition_parser_takes_hard_lexicons_only():
    """Its actions have no scores of boundaries that a weight could be added to."""
    rng = np.random.default_rng(0)
    settings, states = make_settings(2, rng), make_states(3, rng)
    outputs = Outputs(None, None, states, states, states=states)
    [sentence] = all_chars([["字"] * 3])

    def scorer(dep, _):
        return np.zeros((len(dep), len(settings.labels)))

    decoders = (decode_words, decode, lambda batch: decode_k_best(batch, 2))
    sentence.gaps = np.array([BREAK, JOIN, BREAK, BREAK], dtype=np.int8)
    for run in decoders:
        assert run(batch_of(outputs, [sentence], settings, scorer))
    sentence.favoured = np.ones(4)
    with pytest.raises(
        InputError, match="a transition parser cannot weigh words: it takes a hard lexicon only"
    ):
        batch_of(outputs, [sentence], settings, scorer)
