"""The chain against the enumeration of all tag sequences, and hand-worked sentences."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from zishu.chart.chain import TAGS, TagDistribution, word_lengths, word_tags
from zishu.gaps import BREAK, FREE, JOIN

scores = st.floats(-5, 5, width=32)


def segmentations(n: int) -> list[list[int]]:
    """List all ways to cut n characters into words, as word lengths."""
    if n == 0:
        return [[]]
    return [[size, *rest] for size in range(1, n + 1) for rest in segmentations(n - size)]


def tag_string(lengths: list[int]) -> str:
    """Return the tags of words by definition: S, or B, M*, E."""
    return "".join("S" if size == 1 else "B" + "M" * (size - 2) + "E" for size in lengths)


def score_of(tags: str, emissions, transitions, starts, ends) -> float:
    t = [TAGS.index(tag) for tag in tags]
    total = float(starts[t[0]]) + float(ends[t[-1]])
    total += sum(float(emissions[k, tag]) for k, tag in enumerate(t))
    return total + sum(float(transitions[a, b]) for a, b in pairwise(t))


def allows(gaps, words: list[int]) -> bool:
    """Tell whether words agree with the known gaps of a sentence."""
    breaks, inner = set(np.cumsum(words).tolist()), list(enumerate(gaps))[1:-1]
    return all(gap == FREE or (gap == BREAK) == (k in breaks) for k, gap in inner)


@given(st.data())
def test_the_best_tags_are_those_of_the_best_segmentation(data):
    lengths = data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=3))
    emissions = data.draw(arrays(np.float32, (len(lengths), max(lengths), 4), elements=scores))
    transitions = data.draw(arrays(np.float32, (4, 4), elements=scores))
    starts, ends = (data.draw(arrays(np.float32, 4, elements=scores)) for _ in range(2))
    tags = TagDistribution(emissions, lengths, transitions, starts, ends).best()
    for b, n in enumerate(lengths):
        everything = [
            score_of(tag_string(words), emissions[b], transitions, starts, ends) for words in segmentations(n)
        ]
        found = "".join(TAGS[tag] for tag in tags[b, :n])
        assert found in {tag_string(words) for words in segmentations(n)}
        assert score_of(found, emissions[b], transitions, starts, ends) == pytest.approx(max(everything))
        assert (tags[b, n:] == -1).all()


@given(st.data())
def test_known_gaps_are_kept_and_the_rest_is_the_best(data):
    n = data.draw(st.integers(1, 6))
    gaps = np.array(data.draw(st.lists(st.sampled_from([FREE, JOIN, BREAK]), min_size=n + 1, max_size=n + 1)))
    emissions = data.draw(arrays(np.float32, (n, 4), elements=scores))
    zeros = np.zeros(4)
    tags = TagDistribution(emissions[None], [n], np.zeros((4, 4)), zeros, zeros, gaps[None]).best()[0]

    best = max(
        score_of(tag_string(words), emissions, np.zeros((4, 4)), zeros, zeros)
        for words in segmentations(n)
        if allows(gaps, words)
    )
    assert allows(gaps, word_lengths(tags))
    found = "".join(TAGS[tag] for tag in tags)
    assert score_of(found, emissions, np.zeros((4, 4)), zeros, zeros) == pytest.approx(best)


@given(st.data())
def test_marginals_sum_over_all_segmentations(data):
    lengths = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    emissions = data.draw(arrays(np.float32, (len(lengths), max(lengths), 4), elements=scores))
    emissions = emissions.astype(np.float64)
    weights = [data.draw(arrays(np.float32, shape, elements=scores)) for shape in ((4, 4), 4, 4)]
    gaps = np.full((len(lengths), max(lengths) + 1), FREE, dtype=np.int8)
    for row, n in zip(gaps, lengths, strict=True):
        row[1:n] = data.draw(st.lists(st.sampled_from([FREE, JOIN, BREAK]), min_size=n - 1, max_size=n - 1))
    distribution = TagDistribution(emissions, lengths, *weights, gaps)
    found = distribution.marginals()
    for b, n in enumerate(lengths):
        weighed = {
            tuple(words): np.exp(score_of(tag_string(words), emissions[b], *weights))
            for words in segmentations(n)
            if allows(gaps[b, : n + 1], words)
        }
        total = sum(weighed.values())
        assert found.logz[b] == pytest.approx(np.log(total))
        for k in range(n + 1):
            boundary = sum(w for words, w in weighed.items() if k in np.cumsum([0, *words]))
            assert found.boundary[b, k] == pytest.approx(boundary / total)
        assert not found.boundary[b, n + 1 :].any()
    tags = distribution.best()
    for b, (value, n) in enumerate(zip(distribution.score(tags), lengths, strict=True)):
        assert value == pytest.approx(
            score_of("".join(TAGS[tag] for tag in tags[b, :n]), emissions[b], *weights)
        )


@pytest.mark.filterwarnings("error")
def test_padding_is_never_exponentiated():
    zeros = np.zeros((4, 4))
    found = TagDistribution(np.full((2, 400, 4), 3.0), [1, 400], zeros, zeros[0], zeros[0]).marginals()
    assert found.boundary[0, :3].tolist() == [1.0, 1.0, 0.0]


def test_transitions_are_read_from_row_to_column():
    # Without emissions, 4 characters are SSSS, and a high B -> E makes them BEBE.
    transitions = np.zeros((4, 4))
    transitions[0, 2] = 1.0
    tags = TagDistribution(np.zeros((1, 4, 4)), [4], transitions, np.zeros(4), np.zeros(4)).best()
    assert "".join(TAGS[tag] for tag in tags[0]) == "BEBE"


def test_a_learned_score_cannot_make_an_illegal_sequence():
    emissions = np.zeros((1, 3, 4))
    emissions[0, :, 1] = 1000.0  # M everywhere
    tags = TagDistribution(emissions, [3], np.full((4, 4), 7.0), np.zeros(4), np.zeros(4)).best()
    assert "".join(TAGS[tag] for tag in tags[0]) == "BME"


@given(st.lists(st.integers(1, 5), min_size=1, max_size=6))
def test_words_to_tags_and_back(lengths):
    tags = word_tags(lengths)
    assert "".join(TAGS[tag] for tag in tags) == tag_string(lengths)
    assert word_lengths(tags) == lengths


def test_shapes_are_checked():
    weights = np.zeros((4, 4)), np.zeros(4), np.zeros(4)
    with pytest.raises(ValueError, match="emissions must have the shape"):
        TagDistribution(np.zeros((1, 3)), [3], *weights)
    with pytest.raises(ValueError, match="lengths must be 1 numbers from 1 to 3"):
        TagDistribution(np.zeros((1, 3, 4)), [4], *weights)
    nothing = TagDistribution(np.zeros((0, 3, 4)), [], *weights)
    assert nothing.marginals().logz.shape == (0,)
    assert nothing.best().shape == (0, 3)
