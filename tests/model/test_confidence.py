"""Probabilities and k best analyses against the enumeration of all typed trees."""

import math
import operator
from collections import defaultdict
from dataclasses import replace
from functools import partial
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from raw_sentences import (
    all_chars,
    batch_of,
    boundary_probs,
    decode,
    decode_k_best,
    head_probs,
    inner_trees,
    label_probs,
)
from strategies import fixed_arcs, gap_vectors
from zishu.chart import _compiled, _layout
from zishu.errors import InputError
from zishu.gaps import BREAK, FREE, word_gaps
from zishu.model import decode as plain
from zishu.model.batch import ScoredBatch, no_gaps
from zishu.model.outputs import Outputs
from zishu.model.scores import two_roles
from zishu.model.segments import decode_segments
from zishu.model.settings import Settings
from zishu.tree import INTRA

LABELS = (INTRA, "root", "nsubj", "obj")
CLOSE = {"rel": 1e-9, "abs": 1e-9}


def parser(**changes) -> Settings:
    return Settings(**{"task": "parse", "roles": 2, "labels": LABELS, **changes})


class Case:
    """A batch of short random sentences, with a label network that is a table."""

    def __init__(self, lengths, seed, *, roles=2, spread=2.0):
        random = np.random.default_rng(seed)
        batch, width = len(lengths), max(lengths) + 1
        inter, intra = random.normal(0, spread, (2, batch, width, width))
        # The representation of a unit identifies it.
        numbers = np.arange(batch * width, dtype=np.float64).reshape(batch, width, 1)
        self.width, self.labels = width, len(LABELS)
        self.table = random.normal(0, 2, (batch, width, width, len(LABELS)))
        self.outputs = Outputs(inter, intra if roles == 2 else None, numbers, numbers)
        self.units = [["字"] * n for n in lengths]
        self.lengths = np.array(lengths)

    def label_scorer(self, dep, head):
        dep, head = (end[:, 0].astype(int) for end in (dep, head))
        return self.table[dep // self.width, dep % self.width, head % self.width, : self.labels]

    def scores(self, model, gaps):
        """Return the scores in two roles at the model's temperature; other tests check how one role becomes two."""
        known = no_gaps(len(self.lengths), self.width)
        for row, given_gaps, n in zip(known, gaps, self.lengths, strict=True):
            row[1:n] = given_gaps[1:n]
        scores = self.outputs.inter, self.outputs.intra
        if model.roles == 1:
            scores = two_roles(self.outputs.with_labels(self.label_scorer), self.lengths, model, known)
        return [array / model.temperature for array in scores]


def word_tree(tree: oracle.TypedTree) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Find the first characters of a tree's words, and the words' heads, from each character's head."""
    words = sorted(oracle.words_of(tree), key=min)
    number = {char: k for k, word in enumerate(words, start=1) for char in word} | {0: 0}
    heads = []
    for word in words:
        [outside] = [tree.heads[d - 1] for d in word if not tree.intra[d - 1]]
        heads.append(number[outside])
    return tuple(min(word) for word in words), tuple(heads)


def starts_of(analysis) -> tuple[int, ...]:
    return tuple(start for start, _ in analysis.tree.spans)


def normalised(ranked):
    """Return the probabilities of scored trees."""
    logz = oracle.log_sum_exp([score for score, _ in ranked])
    return [(math.exp(score - logz), tree) for score, tree in ranked]


def check(analysis, ranked, n):
    """Compare an analysis with all trees of its sentence."""
    starts, heads = starts_of(analysis), analysis.tree.heads
    everything = [(p, tree, *word_tree(tree)) for p, tree in normalised(ranked)]
    forest = sum(p for p, _, s, h in everything if (s, h) == (starts, heads))
    assert analysis.prob == pytest.approx(forest, **CLOSE)
    assert any(
        inner(tree) == inner_trees(analysis) for _, tree, s, h in everything if (s, h) == (starts, heads)
    )
    boundary = defaultdict(float)
    for p, _, s, _ in everything:
        for start in s:
            boundary[start] += p
    ends = (*starts[1:], n + 1)
    for start, end, probability in zip(starts, ends, boundary_probs(analysis), strict=True):
        edges = [boundary[start], boundary[end] if end <= n else 1.0]
        joins = [1 - boundary[d] for d in range(start + 1, end)]
        assert probability == pytest.approx(min(edges + joins), **CLOSE)
    same_words = [(p, h) for p, _, s, h in everything if s == starts]
    total = sum(p for p, _ in same_words)
    for w, probability in enumerate(head_probs(analysis)):
        share = sum(p for p, h in same_words if h[w] == heads[w])
        assert probability == pytest.approx(share / total, **CLOSE)


def inner(tree):
    words = sorted(oracle.words_of(tree), key=min)
    return tuple(
        tuple(tree.heads[d - 1] - min(word) + 1 if tree.intra[d - 1] else 0 for d in sorted(word))
        for word in words
    )


@st.composite
def cases(draw, longest=5, roles=(1, 2)):
    lengths = draw(st.lists(st.integers(1, longest), min_size=1, max_size=3))
    kind = draw(st.sampled_from(roles))
    case = Case(lengths, draw(st.integers(0, 2**32)), roles=kind)
    known = [draw(st.none() | gap_vectors(n) | gap_vectors(n, full=True)) for n in lengths]
    gaps = [None if gap is None else np.array(gap, dtype=np.int8) for gap in known]
    model = parser(roles=kind, root_as_head=draw(st.booleans()))
    return case, gaps, [gap or [FREE] * (n + 1) for gap, n in zip(known, lengths, strict=True)], model


def check_expected_heads(analysis, ranked):
    """Check that the words are those of the best tree, and that no tree over them expects more correct heads."""
    trees = [(p, *word_tree(tree), inner(tree)) for p, tree in normalised(ranked)]
    starts, heads = starts_of(analysis), analysis.tree.heads
    assert starts == trees[0][1]
    same_words = [(p, h, inside) for p, s, h, inside in trees if s == starts]

    def expected(heads):
        return sum(p * sum(map(operator.eq, heads, h)) for p, h, _ in same_words)

    best = max(expected(h) for _, h, _ in same_words)
    assert expected(heads) == pytest.approx(best, **CLOSE)
    # Inside the words, it is the best tree.
    assert inner_trees(analysis) == next(inside for _, h, inside in same_words if h == heads)


@given(cases(), st.sampled_from(["viterbi", "mbr"]), st.sampled_from([1.0, 1.6]))
@settings(max_examples=100, deadline=None)
def test_trees_and_confidence_are_what_enumeration_says(drawn, decoding, temperature):
    case, gaps, known, model = drawn
    model = replace(model, temperature=temperature)
    inter, intra = case.scores(model, known)
    todo = partial(decode, case.outputs, case.units, model, case.label_scorer, gaps=gaps, decoding=decoding)
    found = todo(confidence=True)
    for b, (analysis, n) in enumerate(zip(found, case.lengths, strict=True)):
        ranked = oracle.ranked(inter[b], n, intra[b], known[b], root_as_head=model.root_as_head)
        check(analysis, ranked, n)
        if decoding == "viterbi":
            best = ranked[0][1]
            assert (starts_of(analysis), analysis.tree.heads) == word_tree(best)
            assert inner_trees(analysis) == inner(best)
        else:
            check_expected_heads(analysis, ranked)
    plain = todo()
    assert [(a.tree, inner_trees(a)) for a in plain] == [(a.tree, inner_trees(a)) for a in found]
    assert all(
        a.prob is None and {*boundary_probs(a), *head_probs(a), *label_probs(a)} == {None} for a in plain
    )


@given(cases(), st.sampled_from(["viterbi", "mbr", "k best"]), st.data())
@settings(max_examples=100, deadline=None)
def test_with_fixed_arcs_only_the_trees_that_have_them_count(drawn, decoding, data):
    case, gaps, known, model = drawn
    inter, intra = case.scores(model, known)
    fixed = [data.draw(fixed_arcs(n, gap)) for n, gap in zip(case.lengths.tolist(), known, strict=True)]
    sentences = [
        replace(sentence, arcs=tuple(arcs))
        for sentence, arcs in zip(all_chars(case.units, gaps), fixed, strict=True)
    ]
    batch = batch_of(case.outputs, sentences, model, case.label_scorer)
    if decoding == "k best":
        found = [several[0] for several in plain.decode_k_best(batch, 2)]
    else:
        found = plain.decode(batch, confidence=True, decoding=decoding)
    for b, (analysis, n) in enumerate(zip(found, case.lengths, strict=True)):
        every = oracle.ranked(inter[b], n, intra[b], known[b], root_as_head=model.root_as_head)
        ranked = [
            (score, tree)
            for score, tree in every
            if all(oracle.has_arc(tree, arc.dependent, arc.head) for arc in fixed[b])
        ]
        check(analysis, ranked, n)
        if decoding == "mbr":
            check_expected_heads(analysis, ranked)


@given(cases(longest=4), st.integers(1, 6))
@settings(max_examples=40, deadline=None)
def test_k_best_are_the_best_distinct_word_trees(drawn, k):
    case, gaps, known, model = drawn
    inter, intra = case.scores(model, known)
    found = decode_k_best(case.outputs, case.units, model, case.label_scorer, k, gaps=gaps)
    best = decode(case.outputs, case.units, model, case.label_scorer, gaps=gaps, decoding="viterbi")
    for b, (analyses, n) in enumerate(zip(found, case.lengths, strict=True)):
        ranked = oracle.ranked(inter[b], n, intra[b], known[b], root_as_head=model.root_as_head)
        candidates = list(dict.fromkeys(word_tree(tree) for _, tree in ranked))[:k]
        assert {(starts_of(a), a.tree.heads) for a in analyses} == set(candidates)
        assert len(analyses) == len(candidates)
        probabilities = [a.prob for a in analyses]
        assert probabilities == sorted(probabilities, reverse=True)
        for analysis in analyses:
            check(analysis, ranked, n)
        # The analysis of the best character tree is among them, with its trees inside words.
        assert (best[b].tree, inner_trees(best[b])) in [(a.tree, inner_trees(a)) for a in analyses]


def test_heads_and_confidence_share_their_charts(monkeypatch):
    """A parse runs three charts over its characters (best, boundaries, marginals given words) and a forest."""
    case = Case([9, 7, 8], 3)
    tasks = []
    run = _compiled.run

    def spy(task, order, batch, *rest):
        tasks.append((task, batch.scores.shape[1]))
        return run(task, order, batch, *rest)

    monkeypatch.setattr(_compiled, "run", spy)
    model = parser(temperature=1.6)
    decode(case.outputs, case.units, model, case.label_scorer, confidence=True)
    whole = [(_layout.BEST, 2), (_layout.BOUNDARIES, 2), (_layout.MARGINALS, 2), (_layout.PARTITION, 2)]
    # One best tree over words, and one over the arcs between words that have changed, if any have.
    small = [(_layout.BEST, 1), *[(_layout.BEST, 2)] * (tasks.count((_layout.BEST, 2)) - 1)]
    assert len(small) <= 2
    assert sorted(tasks) == sorted(whole + small)


def test_label_probabilities_are_of_legal_labels():
    case = Case([4], 5)
    [analysis] = decode(case.outputs, case.units, parser(), case.label_scorer, confidence=True)
    roots = [
        start + heads.index(0)
        for (start, _), heads in zip(analysis.tree.spans, inner_trees(analysis), strict=True)
    ]
    for w, (label, probability) in enumerate(zip(analysis.tree.deprels, label_probs(analysis), strict=True)):
        head = analysis.tree.heads[w]
        if head == 0:
            assert (label, probability) == ("root", 1.0)
        else:
            weights = np.exp(case.table[0, roots[w], roots[head - 1]])
            assert probability == pytest.approx(weights[LABELS.index(label)] / weights[2:].sum())


@given(st.lists(st.integers(1, 5), min_size=1, max_size=3), st.integers(0, 2**32), st.integers(1, 5))
@settings(max_examples=40, deadline=None)
def test_trees_of_words(lengths, seed, k):
    case = Case(lengths, seed, roles=1)
    case.labels = 3
    model = parser(task="parse-words", roles=1, labels=("root", "nsubj", "obj"))
    todo = partial(decode, case.outputs, case.units, model, case.label_scorer, confidence=True)
    found = todo(decoding="viterbi")
    several = decode_k_best(case.outputs, case.units, model, case.label_scorer, k)
    for b, (analysis, n) in enumerate(zip(found, lengths, strict=True)):
        expected = normalised(oracle.ranked(case.outputs.inter[b], n))
        assert analysis.prob == pytest.approx(expected[0][0], **CLOSE)
        assert boundary_probs(analysis) == (1.0,) * n
        for w, (head, probability) in enumerate(zip(analysis.tree.heads, head_probs(analysis), strict=True)):
            assert probability == pytest.approx(
                sum(p for p, tree in expected if tree.heads[w] == head), **CLOSE
            )
        assert [a.tree.heads for a in several[b]] == [tree.heads for _, tree in expected[:k]]
        assert replace(several[b][0], prob=analysis.prob) == analysis  # sums differ in their last bits
    for b, (analysis, n) in enumerate(zip(todo(decoding="mbr"), lengths, strict=True)):
        trees = normalised(oracle.ranked(case.outputs.inter[b], n))
        right = [
            sum(p * sum(map(operator.eq, other.heads, tree.heads)) for p, tree in trees) for _, other in trees
        ]
        assert sum(head_probs(analysis)) == pytest.approx(max(right), **CLOSE)


@given(st.integers(1, 4), st.integers(0, 2**32))
@settings(max_examples=30, deadline=None)
def test_vanilla_decoding_has_the_probability_of_its_arcs(n, seed):
    case = Case([n], seed, roles=1)
    [analysis] = decode(
        case.outputs, case.units, parser(roles=1), case.label_scorer, confidence=True, decoding="vanilla"
    )
    if n == 1:  # a single character is a single word
        assert boundary_probs(analysis) == (1.0,)
        return
    assert set(boundary_probs(analysis)) == {None}
    assert analysis.prob == pytest.approx(normalised(oracle.ranked(case.outputs.inter[0], n))[0][0], **CLOSE)
    scores = case.outputs.inter[0]
    given_words = normalised(oracle.ranked(scores, n, scores, word_gaps(analysis.tree.lengths)))
    for w, (head, probability) in enumerate(zip(analysis.tree.heads, head_probs(analysis), strict=True)):
        share = sum(p for p, tree in given_words if word_tree(tree)[1][w] == head)
        assert probability == pytest.approx(share, **CLOSE)


def test_k_must_be_positive():
    case = Case([2], 1)
    with pytest.raises(InputError, match="the number of analyses must be at least 1, not 0"):
        decode_k_best(case.outputs, case.units, parser(), case.label_scorer, 0)


def test_a_sentence_with_few_trees_has_few_analyses():
    case = Case([1, 2], 1)
    one, two = decode_k_best(case.outputs, case.units, parser(), case.label_scorer, 9)
    assert [analysis.prob for analysis in one] == [1.0]
    # One word, or two, either of which may be the root.
    assert len(two) == 3


@given(st.lists(st.integers(1, 5), min_size=1, max_size=3), st.integers(0, 2**32), st.data())
@settings(max_examples=40, deadline=None)
def test_segments_have_the_probabilities_of_the_chain(lengths, seed, data):
    random = np.random.default_rng(seed)
    tags = random.normal(0, 2, (len(lengths), max(lengths) + 1, 4))
    pairs, starts, ends = random.normal(0, 1, (4, 4)), random.normal(0, 1, 4), random.normal(0, 1, 4)
    model = Settings(
        task="segment", transitions=tuple(map(tuple, pairs)), starts=tuple(starts), ends=tuple(ends)
    )
    units = [["字"] * n for n in lengths]
    gaps = [np.array(data.draw(gap_vectors(n)), dtype=np.int8) for n in lengths]
    todo = partial(decode_segments, ScoredBatch(Outputs(tags=tags), all_chars(units, gaps), model))
    found = todo(confidence=True)
    assert [segments.lengths for segments in found] == [segments.lengths for segments in todo()]
    for b, (segments, n) in enumerate(zip(found, lengths, strict=True)):
        weights = {}
        for inner_gaps in product((False, True), repeat=n - 1):
            edges = (0, *(k for k, cut in enumerate(inner_gaps, start=1) if cut), n)
            if any(
                gap != FREE and (gap == BREAK) != (k in edges) for k, gap in enumerate(gaps[b]) if 0 < k < n
            ):
                continue
            spelt = "".join(
                "S" if size == 1 else "B" + "M" * (size - 2) + "E" for size in np.diff(edges).tolist()
            )
            t = ["BMES".index(tag) for tag in spelt]
            score = starts[t[0]] + ends[t[-1]] + sum(tags[b, k + 1, tag] for k, tag in enumerate(t))
            weights[edges] = math.exp(score + sum(pairs[x, y] for x, y in pairwise(t)))
        total = sum(weights.values())
        mine = (0, *np.cumsum(segments.lengths).tolist())
        assert segments.prob == pytest.approx(weights[mine] / total, **CLOSE)
        boundary = [sum(w for edges, w in weights.items() if k in edges) / total for k in range(n + 1)]
        for (start, end), probability in zip(pairwise(mine), segments.boundaries, strict=True):
            decisions = [boundary[start], boundary[end], *(1 - boundary[k] for k in range(start + 1, end))]
            assert probability == pytest.approx(min(decisions), **CLOSE)
